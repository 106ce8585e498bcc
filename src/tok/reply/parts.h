/* tok/reply/parts.h: what the files of the reply splitter share: rows, the cursor that reads calls,
 * and the state of a splitter. */
#ifndef PITH_TOK_REPLY_PARTS_H
#define PITH_TOK_REPLY_PARTS_H

#include "base/json.h"
#include "base/str.h"
#include "tok/reply/reply.h"

#include <stdbool.h>

/* ---- reading a text of which the end may not be there yet ---- */

enum pith_cursor_state {
    PITH_CURSOR_GOOD,
    PITH_CURSOR_MORE, /* what there is may go on well: more of it is needed */
    PITH_CURSOR_BAD,
    PITH_CURSOR_NOMEM
};

/* Once its state is not good, all calls do nothing and give false. The answer for a text is MORE or
 * that for any longer text that begins with it: it does not depend on when a reader is called. */
struct pith_cursor {
    const char *text;
    size_t size, at; /* when it is bad: how far it was read */
    bool end;        /* nothing comes behind it */
    enum pith_cursor_state state;
};
struct pith_passage {
    const char *text;
    size_t size;
};

enum pith_begins { PITH_BEGINS_NOT, PITH_BEGINS_PART, PITH_BEGINS_ALL };
/* Whether a text begins with a mark, or is, as a whole, the beginning of it. */
enum pith_begins pith_begins(const char *text, size_t size, const char *mark);

/* Goes over white space. */
void pith_cursor_space(struct pith_cursor *c);
/* Goes over a mark when it stands there. NULL stands everywhere. */
bool pith_cursor_take(struct pith_cursor *c, const char *mark);
/* The same; bad when it does not. */
bool pith_cursor_need(struct pith_cursor *c, const char *mark);
/* The same; what is missing of it at the end of the text is forgiven. */
bool pith_cursor_last(struct pith_cursor *c, const char *mark);
/* What stands before a mark, at most so many bytes, and over the mark. */
#define PITH_REPLY_ANY (SIZE_MAX / 2)
bool pith_cursor_until(struct pith_cursor *c, const char *mark, size_t most,
                       struct pith_passage *out);
/* A JSON object or list: where it ends, by its brackets and strings alone. */
bool pith_cursor_value(struct pith_cursor *c, struct pith_passage *out);
/* The next byte, or 0 when the state is not good afterwards: there is none. */
char pith_cursor_peek(struct pith_cursor *c);
void pith_cursor_fail(struct pith_cursor *c, enum pith_cursor_state state);

/* ---- calls ---- */

enum {
    PITH_REPLY_NAME = 256, /* bytes of a name, a key, an id */
    PITH_REPLY_ID = 32,    /* of an id that is made */
    PITH_REPLY_PARTS = 7,
    PITH_REPLY_MARKS = 4
};
enum pith_id_form { PITH_ID_CALL, PITH_ID_NINE };

struct pith_reply_row;
/* Reads the calls of a block, behind its `open`, and appends {"name", "arguments" (a text), "id"}
 * to *calls (NULL when memory is out). `tools`: the list that was offered. */
typedef void pith_read_calls(const struct pith_reply_row *row, struct pith_cursor *c,
                             const json_t *tools, json_t **calls);

struct pith_reply_row {
    const char *name;
    const char *has[PITH_REPLY_MARKS];
    pith_read_calls *read;
    const char *open, *close;
    const char *part[PITH_REPLY_PARTS];
    const char *drop[PITH_REPLY_MARKS];
    const char *ends[PITH_REPLY_MARKS];
    enum pith_id_form id;
};

/* pith_read_fields() of one function without the mark of its block, behind part[0]: Qwen3-Coder
 * forgets it now and then; an end of the block that stands there all the same is read over. */
pith_read_calls pith_read_open_fields;
pith_read_calls pith_read_json, pith_read_mistral, pith_read_section, pith_read_bare,
    pith_read_fields, pith_read_gemma;

/* Adds a call whose arguments are that text; bad unless the name has 1 to PITH_REPLY_NAME bytes of
 * a function's name and the arguments are one JSON object. id may be NULL. */
void pith_call_add(struct pith_cursor *c, json_t **calls, const struct pith_passage *name,
                   const struct pith_passage *arguments, const struct pith_passage *id);
/* Appends a text as a JSON string; bad when it is not UTF-8. */
void pith_put_string(struct pith_cursor *c, struct pith_str *out, const struct pith_passage *s);
/* The schema of a function's parameters ({"properties": ...}), or NULL. */
const json_t *pith_tool_schema(const json_t *tools, const char *name, size_t size);

/* ---- the splitter ---- */

struct pith_reply_format {
    const struct pith_reply_row *row;
    const char *open, *close; /* of reasoning, or NULL */
    char *end;                /* eos_token of the checkpoint, or NULL */
};

enum pith_reply_state { PITH_IN_CONTENT, PITH_IN_REASONING, PITH_IN_HEADER, PITH_IN_BODY };

/* Where a forced answer is: before the arguments of a call, within them, before the brace and the
 * mark behind them. */
enum pith_reply_guide {
    PITH_GUIDE_NOT,
    PITH_GUIDE_HEAD,
    PITH_GUIDE_ARGUMENTS,
    PITH_GUIDE_BRACE,
    PITH_GUIDE_MARK
};

struct pith_reply {
    const struct pith_reply_format *format;
    json_t *tools; /* NULL: none were offered */
    uint64_t seed;
    void (*delta)(void *ctx, const struct pith_reply_delta *delta);
    void *ctx;
    struct pith_str text; /* what was pushed, from where nothing is decided */
    size_t at;            /* what of it is */
    enum pith_reply_state state;
    enum pith_reply_kind kind; /* of a body */
    bool end;
    bool begun;  /* there was content, or a call */
    bool trim;   /* white space that comes next is dropped */
    bool bare;   /* a call may begin without a mark */
    bool forced; /* it does, and is all there is */
    enum pith_reply_guide guide;
    bool must;              /* a call must come next */
    const char *open, *close; /* marks of calls, close may be NULL */
    size_t depth;           /* brackets around the place in the arguments */
    bool quoted, escaped;   /* in a string of them; behind its backslash */
    bool single;            /* one call is reported, and nothing behind it */
    bool muted;             /* it was */
    size_t next; /* bytes of undecided text from which on a call is tried again */
    /* White space and ends of messages that may be dropped: they are, from byte `keep` on, when the
     * answer ends and when something else begins. */
    struct pith_str pending;
    size_t keep;
    size_t calls;
    size_t spent; /* bytes that were read for calls that are none */
    bool failed;  /* memory ran out */
};

/* The id of the next call. */
void pith_reply_id(const struct pith_reply *r, char id[PITH_REPLY_ID]);
/* Reports text of that kind; white space at its end becomes pending. */
void pith_reply_give(struct pith_reply *r, enum pith_reply_kind kind, const char *text,
                     size_t size);
/* Reports the pending text up to byte `keep`. */
void pith_reply_flush(struct pith_reply *r, enum pith_reply_kind kind);
/* The first of some marks in the undecided text: its number, with its place in *at; `count` when
 * there is none, and then *at bytes belong to none. */
size_t pith_reply_find(const struct pith_reply *r, const char *const *mark, size_t count,
                       size_t *at);
/* Tries a reader at the undecided text, behind `skip` bytes of it: MORE, GOOD (the calls are
 * reported, the text decided), BAD. */
enum pith_cursor_state pith_reply_try(struct pith_reply *r, pith_read_calls *read, size_t skip);

/* A forced answer: where it begins, and one decision; false when more text is needed. */
void pith_forced_begin(struct pith_reply *r, bool must);
bool pith_forced_step(struct pith_reply *r);

/* One decision in gpt-oss's format; false when more text is needed. Where an answer begins, by the
 * end of its prompt. */
bool pith_harmony_step(struct pith_reply *r);
void pith_harmony_begin(struct pith_reply *r, const char *prompt, size_t size);

#endif
