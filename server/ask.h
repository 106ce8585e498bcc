/* server/ask.h: the body of a completion's or a chat's request, in the engine's terms.
 *
 * Knows OpenAI's fields and the extensions that other servers take; nothing of HTTP. */
#ifndef PITH_SERVER_ASK_H
#define PITH_SERVER_ASK_H

#include "server/body.h"

#include <pith/chat.h>
#include <pith/engine.h>

enum ask_kind { ASK_COMPLETION, ASK_CHAT };

/* What the server allows. */
struct ask_limits {
    const char *name, *model;               /* names that the model goes by; NULL: any is taken */
    const struct pith_reply_format *format; /* how answers are read; NULL: not at all */
    size_t prompts;                         /* of one request, at most */
    uint32_t choices;                       /* of a prompt, at most */
};

struct ask {
    enum ask_kind kind;
    /* All but prompt, listener and client; what it points to is owned by what follows. */
    struct pith_request request;
    struct body_input *prompt; /* of completions */
    size_t prompts;            /* 1 for a chat */
    char *conversation;        /* of a chat */
    bool stream, usage;        /* a stream ends with usage */
    bool counts;               /* and each of its chunks has what it is so far */
    bool scored;               /* only the prompt is wanted */
    bool ids_for_texts;        /* tokens are named by their ids */
    bool tools;                /* the conversation has tools that the model may call */
    int forced;           /* 1: it must: the answer is calls; 2: calls, or of the requested form */
    bool single;          /* one call at most is reported */
    const char *function; /* that must be called, of the body; NULL: any */

    json_t *body, *ignored; /* ignored: names of fields that nobody knows, or NULL */
    int32_t *bias, *stop_ids;
    float *bias_value;
    const char **stop;
    char *constraint;
    const char *constraint_field; /* that it came from; NULL: none */
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

/* server/forced.c: calls of "tools" as a constraint. */
struct forced_call {
    bool must;        /* "tool_choice" wants a call */
    const char *name; /* of that function; NULL: of any that is offered */
    bool many;        /* several calls may be made */
};
/* What "tool_choice" and "parallel_tool_calls" want. False: *r says what is wrong. */
bool forced_read(const json_t *body, struct forced_call *out, struct refusal *r);
/* The schema of one call, {"name", "arguments"}, of the function that is named or of any; NULL: *r
 * says why. The caller frees it. */
char *forced_schema(const json_t *body, const struct forced_call *f, struct refusal *r);
/* The text of PITH_CALLS: calls between the format's marks, or the constraint of that kind and text
 * (NULL kind: calls alone). NULL when memory is out. */
char *forced_text(const char *schema, const struct pith_reply_format *format, bool many,
                  const char *kind, const char *text);
/* Where a refusal names a place in the schema of one call: it names the tool, the place within its
 * parameters, and "tools" as the field. constraint: of forced_schema() or forced_text(). Without
 * memory, and of other places, it stays as it is. */
void forced_place(const char *constraint, struct refusal *r);

#endif
