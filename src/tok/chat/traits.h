/* tok/chat/traits.h: what a chat template can take, found by rendering small conversations with it:
 * a template says nothing of itself. */
#ifndef PITH_TOK_CHAT_TRAITS_H
#define PITH_TOK_CHAT_TRAITS_H

#include "tok/jinja/jinja.h"

#include <stdbool.h>

/* What a message has in addition to calls. */
enum pith_call_content { PITH_CONTENT_NONE, PITH_CONTENT_EMPTY, PITH_CONTENT_TEXT, PITH_CONTENTS };

/* What is changed in a message with calls so that the template writes them. */
enum pith_call_change {
    PITH_CALL_EMPTY = 1,     /* its content is the empty string */
    PITH_CALL_NULL = 2,      /* its content is null */
    PITH_CALL_ARGUMENTS = 4, /* arguments are text, not an object */
    PITH_CALL_IDS = 8        /* ids have nine letters and digits */
};

struct pith_call_way {
    unsigned change; /* of enum pith_call_change */
    bool fails;      /* without the change the template fails; else it leaves the call out */
    bool text;       /* there is no such change: calls must be a part of the content */
};

struct pith_chat_traits {
    const char *tools; /* the variable by which it is given tools; NULL: it knows none */
    bool tools_text;   /* as JSON in a text */
    bool bare;         /* functions without {"type": "function", "function": ...} around them */
    struct pith_call_way calls[PITH_CONTENTS];
    bool single;       /* of several calls of a message it writes the first alone */
    bool results;      /* it writes what functions gave back */
    bool system;       /* it writes a system message */
    bool first_system; /* of several it leaves some out */
    bool developer;    /* it has a role of that name */
    bool parts;        /* content must be a list of parts */
    bool flat;         /* it leaves out content that is one */
    /* The marks of a call that is written as content. */
    const char *open, *close;
};

/* own: the special tokens of the model; text: the template. Statuses: PITH_NOMEM alone, of what
 * it is rendered with. */
enum pith_status pith_chat_traits_of(const struct pith_jinja *t, const char *text,
                                     const json_t *own, struct pith_chat_traits *out,
                                     struct pith_error *err);

/* Whether the template's text has a word as a string: 'word' or "word". */
bool pith_chat_mentions(const char *text, const char *word);

#endif
