// The AI SDK (ai, @ai-sdk/openai-compatible): a tool in two steps, generateObject, a stream, APICallError.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, Output, stepCountIs, streamText, tool as makeTool } from "ai";
import { z } from "zod";
import { LONG, MODEL, QUESTION, URL, WEATHER, main, need, thrown } from "./common.mjs";

const model = createOpenAICompatible({ name: "pith", baseURL: URL, apiKey: "none", supportsStructuredOutputs: true })(MODEL);
const limits = { model, maxRetries: 0, temperature: 0 };

await main({
    async tool() {
        let asked = 0;
        const weather = makeTool({ description: "The weather of a city.", inputSchema: z.object({ city: z.string().max(20) }),
            execute: async () => (asked++, WEATHER) });
        const answer = await generateText({ ...limits, prompt: QUESTION, tools: { weather }, maxOutputTokens: 80, stopWhen: stepCountIs(2),
            prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }) });
        need(asked === 1 && answer.steps.length === 2 && answer.text, answer.steps);
    },
    async schema() {
        const City = z.object({ name: z.string().max(20), people: z.number().int().min(0).max(99999999) });
        const answer = await generateText({ ...limits, prompt: "Name a city.", maxOutputTokens: 100, output: Output.object({ schema: City }) });
        need(typeof answer.output.people === "number", answer.text);
    },
    async stream() {
        let text = "";
        for await (const piece of streamText({ ...limits, prompt: "Hello", maxOutputTokens: 16 }).textStream) text += piece;
        need(text, text);
    },
    async overflow() {
        const e = await thrown(() => generateText({ ...limits, prompt: LONG }));
        need(APICallError.isInstance(e) && e.statusCode === 400 && e.message.includes("maximum context length is"), e);
    },
});
