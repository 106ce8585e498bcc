/* pith/chat.h: conversations as prompts, by the chat template that a checkpoint ships, and answers
 * split into text, reasoning and tool calls. */
#ifndef PITH_CHAT_H
#define PITH_CHAT_H

#include <pith/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The prompt that a conversation becomes, as transformers' apply_chat_template() makes it; what the
 * template would leave out, or fails on, is written in a way that it can take (docs/chat.md): tools
 * that it does not know are described in the system message.
 *
 * model         a checkpoint folder (its tokenizer's files are enough) or a GGUF file
 * template_file a chat template (Jinja) in place of the model's; NULL: the model's
 * conversation  JSON: {"messages": [{"role", "content", ...}], "tools", "documents",
 *               "add_generation_prompt", other variables of the template}, or the messages alone
 * *prompt       UTF-8 with a NUL behind its *size bytes; free it with pith_text_free()
 *
 * PITH_FORMAT: no conversation, no template, or what the template says against it, with its line;
 * PITH_UNSUPPORTED: the model has no chat template; PITH_LIMIT: it takes too much work or memory.
 */
PITH_API enum pith_status pith_chat_prompt(const char *model, const char *template_file,
                                           const char *conversation, char **prompt, size_t *size,
                                           struct pith_error *err);

/* --- answers ---------------------------------------------------------------------------------
 *
 * A model's answer is a text with marks in it: what it thinks, what it says, which tools it calls.
 *
 *     format (one of a model, shared) -> reply (one of an answer) -> push, push, ... -> end ->
 * close
 */

/* How a model marks reasoning and calls: a row of src/tok/reply/replies.def, and marks of thoughts,
 * found by the text of its chat template. Never changes; any number of threads may use it. */
struct pith_reply_format;

/* model, template_file: as in pith_chat_prompt(). A model without a chat template, or with one that
 * has no marks that are known, has the format "plain". */
PITH_API enum pith_status pith_reply_format_open(const char *model, const char *template_file,
                                                 struct pith_reply_format **out,
                                                 struct pith_error *err);
/* After all replies in that format are closed; NULL and a NULL *format are allowed. */
PITH_API void pith_reply_format_close(struct pith_reply_format **format);
/* "hermes", "harmony", ...; "described": the template knows no tools, which are described in the
 * system message; "plain": calls are not known. Valid as long as the format. */
PITH_API const char *pith_reply_format_name(const struct pith_reply_format *format);
/* The marks of reasoning, NULL where it is not known: "<think>" and "</think>". */
PITH_API const char *pith_reply_format_reasoning(const struct pith_reply_format *format,
                                                 const char **close);
/* The marks between which a constraint puts the calls of an answer that may be something else too;
 * *close NULL: there is none. */
PITH_API const char *pith_reply_format_calls(const struct pith_reply_format *format,
                                             const char **close);
/* Nonzero: marks may be special tokens, which must stand in the text: set `special` of struct
 * pith_request. The tokens that end a message are not reported then either. */
PITH_API int pith_reply_format_special(const struct pith_reply_format *format);

enum pith_reply_kind { PITH_REPLY_CONTENT, PITH_REPLY_REASONING, PITH_REPLY_CALL };

/* Some more of an answer. */
struct pith_reply_delta {
    enum pith_reply_kind kind;
    const char *text; /* [size]: content or reasoning; of a call, its arguments: JSON */
    size_t size;
    size_t call;    /* of a call: its number, from 0 */
    const char *id; /* of the first delta of a call: its id and its function's name; else NULL */
    const char *name;
};

struct pith_reply_options {
    size_t size;       /* of this struct as the program knows it: pith_reply_defaults() */
    const char *tools; /* "tools" of the conversation, a JSON list. NULL or an empty list: none were
                          offered, and no call is looked for */
    const char *prompt; /* the prompt as the template wrote it: shows whether the answer starts
                           within reasoning. NULL: it does not */
    size_t prompt_size;
    uint64_t seed; /* ids of calls come from it, the same ones each time */
    int forced;    /* 1: the answer is calls and nothing else, {"name", "arguments"}, as a
                      constraint makes them, with the marks of pith_reply_format_calls() or
                      without; 2: it is such calls, with marks, or else content. The prompt then
                      says nothing. These calls are reported while they come, one that is cut as far
                      as it is */
    /* Called with what is known, during push and end. */
    void (*delta)(void *ctx, const struct pith_reply_delta *delta);
    void *ctx;
    int single; /* nonzero: the first call is reported, and nothing after it */
};
PITH_API void pith_reply_defaults_sized(struct pith_reply_options *options, size_t size);
static inline void pith_reply_defaults(struct pith_reply_options *options)
{
    pith_reply_defaults_sized(options, sizeof *options);
}

struct pith_reply;

/* The format is borrowed, what the options point to is not needed any more. PITH_ARG without
 * `delta`, PITH_FORMAT when the tools are no JSON list. */
PITH_API enum pith_status pith_reply_open(const struct pith_reply_format *format,
                                          const struct pith_reply_options *options,
                                          struct pith_reply **out, struct pith_error *err);
/* Some more of the answer's text. What is reported does not depend on how the answer is cut, but
 * for where its pieces end: whole characters come out as such when they go in as such.
 *
 * A call that is not forced is reported when it is complete, its id, name and arguments as
 * the model wrote them
 * (formats that have no JSON: as JSON, values as the function's schema has them). What is not a
 * well-formed call is content, its marks with it; nothing is lost but marks, ends of messages, and
 * white space next to them. PITH_NOMEM, after which only pith_reply_close() may be called. */
PITH_API enum pith_status pith_reply_push(struct pith_reply *reply, const char *text, size_t size,
                                          struct pith_error *err);
/* The answer is over: reports what was delayed. Nothing may be pushed after it. */
PITH_API enum pith_status pith_reply_end(struct pith_reply *reply, struct pith_error *err);
/* Calls that were reported so far: where there are some, an answer that stopped by itself has the
 * finish reason "tool_calls". */
PITH_API size_t pith_reply_calls(const struct pith_reply *reply);
/* NULL and a NULL *reply are allowed. */
PITH_API void pith_reply_close(struct pith_reply **reply);

#ifdef __cplusplus
}
#endif
#endif
