// openai of Node: two turns with a tool, a zod schema by `parse`, a stream, the error of an overflow.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { LONG, MODEL, QUESTION, URL, WEATHER, main, need, thrown } from "./common.mjs";

const client = new OpenAI({ baseURL: URL, apiKey: "none", maxRetries: 0 });
const ask = (body) => client.chat.completions.create({ model: MODEL, max_tokens: 80, temperature: 0, ...body });
const tools = [{ type: "function", function: { name: "weather", description: "The weather of a city.", parameters: {
    type: "object", properties: { city: { type: "string", maxLength: 20 } }, required: ["city"] } } }];

await main({
    async tool() {
        const messages = [{ role: "user", content: QUESTION }];
        const first = (await ask({ messages, tools, tool_choice: "required" })).choices[0];
        need(first.finish_reason === "tool_calls" && "city" in JSON.parse(first.message.tool_calls[0].function.arguments), first);
        messages.push(first.message, { role: "tool", tool_call_id: first.message.tool_calls[0].id, content: WEATHER });
        const second = (await ask({ messages, tools, tool_choice: "none", max_tokens: 40 })).choices[0];
        need(second.message.content, second);
    },
    async schema() {
        const City = z.object({ name: z.string().max(20), people: z.number().int().min(0).max(99999999) });
        const answer = await client.chat.completions.parse({ model: MODEL, max_tokens: 100, response_format: zodResponseFormat(City, "city"),
            messages: [{ role: "user", content: "Name a city." }] });
        need(typeof answer.choices[0].message.parsed.people === "number", answer);
    },
    async stream() {
        let text = "";
        for await (const c of await ask({ stream: true, max_tokens: 16, messages: [{ role: "user", content: "Hello" }] }))
            text += c.choices[0]?.delta?.content ?? "";
        need(text, text);
    },
    async overflow() {
        const e = await thrown(() => ask({ messages: [{ role: "user", content: LONG }] }));
        need(e instanceof OpenAI.BadRequestError && e.code === "context_length_exceeded", e);
    },
});
