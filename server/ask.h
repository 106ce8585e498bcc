/* server/ask.h: what the body of a completion or a chat asks for, in the engine's terms.
 *
 * Knows OpenAI's fields and the extensions that other servers take; nothing of HTTP. */
#ifndef PITH_SERVER_ASK_H
#define PITH_SERVER_ASK_H

#include "server/body.h"

#include <pith/engine.h>

enum ask_kind { ASK_COMPLETION, ASK_CHAT };

/* What the server allows. */
struct ask_limits {
    const char *name, *model; /* names that the model goes by; NULL: any is taken */
    size_t prompts;           /* of one request, at most */
    uint32_t choices;         /* of a prompt, at most */
};

struct ask {
    enum ask_kind kind;
    /* All but prompt, listener and client; what it points to is owned by what follows. */
    struct pith_request request;
    struct body_input *prompt; /* of completions */
    size_t prompts;            /* 1 for a chat */
    char *conversation;        /* of a chat */
    bool stream, usage;        /* a stream ends with usage */
    bool scored;     /* only the prompt is wanted */
    bool ids_for_texts; /* tokens are named by their ids */
    bool tools;  /* the conversation has tools that the model may call */
    bool forced; /* it must: the answer is a call and nothing else */

    json_t *body, *ignored; /* ignored: names of fields that nobody knows, or NULL */
    int32_t *bias, *stop_ids;
    float *bias_value;
    const char **stop;
    char *constraint;
};

/* Reads a body of `size` bytes. False: *r says what is wrong with which field, and the ask is
 * empty. On success it is for ask_free(). */
bool ask_read(struct ask *ask, enum ask_kind kind, const char *body, size_t size,
              const struct ask_limits *limits, struct refusal *r);
/* Frees what it holds; one of zeros is allowed. */
void ask_free(struct ask *ask);
/* The engine's request for prompt i; it borrows from the ask. */
struct pith_request ask_request(const struct ask *ask, size_t i);

/* server/conversation.c: the conversation of a chat's body ("messages", "tools",
 * "chat_template_kwargs", ...) as pith_chat_prompt() takes it: parts of text are joined, arguments
 * of calls that are JSON in a text are objects. The caller frees it; NULL: *r says why. *tools:
 * whether there are any. */
char *conversation_of(const json_t *body, bool *tools, struct refusal *r);

/* server/choice.c: a "tool_choice" of allowed tools leaves those alone, and its mode; one that
 * names a function as responses do names it as chats do. False: *r says why. */
bool choose_tools(json_t *body, struct refusal *r);

/* server/forced.c: a "tool_choice" that wants a call. *schema: that of one call, {"name",
 * "arguments"}, of the function that is named or of any that is offered; the caller frees it; NULL:
 * no call is wanted. False: *r says why. */
bool forced_call(const json_t *body, char **schema, struct refusal *r);

#endif
