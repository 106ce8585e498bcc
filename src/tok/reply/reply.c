#include "tok/reply/parts.h"

#include "base/mem.h"
#include "base/rng.h"

#include <string.h>

static const struct pith_reply_row rows[] = {
#define PITH_REPLY(name, has, reader, open, close, parts, drop, ends, id)                          \
    {name, has, reader, open, close, parts, drop, ends, id},
#include "tok/reply/replies.def"
#undef PITH_REPLY
};
/* The last two have no marks of a template. */
enum { PLAIN = PITH_COUNT(rows) - 1, DESCRIBED = PLAIN - 1 };

/* Marks of what a model thinks. A template has the first row whose closing mark stands in its text.
 */
static const struct {
    const char *open, *close;
} reasoning[] = {
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|channel>thought\n", "<channel|>"},
};

/* ---- formats ---- */

static const struct pith_reply_row *row_of(const char *text)
{
    for (size_t i = 0; i < DESCRIBED; i++) {
        bool all = true;
        for (size_t k = 0; k < PITH_REPLY_MARKS && rows[i].has[k]; k++)
            all &= strstr(text, rows[i].has[k]) != NULL;
        if (all) return &rows[i];
    }
    return &rows[PLAIN];
}

void pith_reply_call_marks(const char *text, const char **open, const char **close)
{
    const struct pith_reply_row *row = row_of(text);
    if (row->read != pith_read_json || !row->open) row = &rows[DESCRIBED];
    *open = row->open;
    *close = row->close;
}

enum pith_status pith_reply_format_of(const char *text, const char *tool_text, const char *end,
                                      struct pith_reply_format **out, struct pith_error *err)
{
    struct pith_reply_format *f = pith_zalloc(1, sizeof *f);
    if (!f) return pith_fail_nomem(err, "the format of answers");
    f->row = row_of(tool_text ? tool_text : text);
    if (!f->row->read) f->row = row_of(text);
    for (size_t i = 0; i < PITH_COUNT(reasoning) && !f->close; i++) {
        if (!strstr(text, reasoning[i].close) &&
            !(tool_text && strstr(tool_text, reasoning[i].close)))
            continue;
        f->open = reasoning[i].open;
        f->close = reasoning[i].close;
    }
    f->end = end && *end ? pith_strdup(end) : NULL;
    if (!end || !*end || f->end) {
        *out = f;
        return PITH_OK;
    }
    pith_reply_format_free(f);
    return pith_fail_nomem(err, "the format of answers");
}

enum pith_status pith_reply_format_of_chat(const struct pith_chat *chat,
                                           struct pith_reply_format **out, struct pith_error *err)
{
    if (!chat) return pith_reply_format_of("", NULL, NULL, out, err);
    PITH_TRY(pith_reply_format_of(pith_chat_text(chat, false), pith_chat_text(chat, true),
                                  pith_chat_token(chat, "eos_token"), out, err));
    if (!pith_chat_knows_tools(chat)) (*out)->row = &rows[DESCRIBED];
    return PITH_OK;
}

const char *pith_reply_format_row(const struct pith_reply_format *f)
{
    return f->row->name;
}

const char *pith_reply_format_marks(const struct pith_reply_format *f, const char **close)
{
    if (close) *close = f->close;
    return f->open;
}

const char *pith_reply_call_marks_of(const struct pith_reply_format *f, const char **close)
{
    const struct pith_reply_row *row = f->row->open ? f->row : &rows[DESCRIBED];
    *close = row->close;
    return row->open;
}

bool pith_reply_format_marked(const struct pith_reply_format *f)
{
    return f->row->has[0] || f->close;
}

void pith_reply_format_free(struct pith_reply_format *f)
{
    if (!f) return;
    pith_free(f->end);
    pith_free(f);
}

/* ---- reports --------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void deliver(struct pith_reply *r, enum pith_reply_kind kind, const char *text, size_t size)
{
    const struct pith_reply_delta d = {.kind = kind, .text = text, .size = size};
    if (size > 0 && !r->muted) r->delta(r->ctx, &d);
}

static void drop_pending(struct pith_reply *r)
{
    pith_str_clear(&r->pending);
    r->keep = SIZE_MAX;
}

void pith_reply_flush(struct pith_reply *r, enum pith_reply_kind kind)
{
    deliver(r, kind, r->pending.data, r->pending.len < r->keep ? r->pending.len : r->keep);
    drop_pending(r);
}

void pith_reply_give(struct pith_reply *r, enum pith_reply_kind kind, const char *text, size_t size)
{
    while (r->trim && size > 0 && is_space(*text)) text++, size--;
    size_t solid = size;
    while (solid > 0 && is_space(text[solid - 1])) solid--;
    if (solid > 0) {
        r->keep = SIZE_MAX;
        pith_reply_flush(r, kind);
        deliver(r, kind, text, solid);
        r->trim = false;
        if (kind == PITH_REPLY_CONTENT) r->begun = true;
    }
    pith_str_append(&r->pending, text + solid, size - solid);
    r->failed |= r->pending.failed;
}

/* The end of a message: no part of the answer unless it goes on. */
static void hold_end(struct pith_reply *r, const char *mark)
{
    if (r->keep > r->pending.len) r->keep = r->pending.len;
    pith_str_puts(&r->pending, mark);
    r->failed |= r->pending.failed;
}

void pith_reply_id(const struct pith_reply *r, char id[PITH_REPLY_ID])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const bool nine = r->format->row->id == PITH_ID_NINE;
    const size_t count = nine ? 9 : 24;
    struct pith_rng rng;
    pith_rng_seed(&rng, r->seed + 0x9e3779b97f4a7c15u * (r->calls + 1));
    size_t at = 0;
    for (const char *p = nine ? "" : "call_"; *p; p++) id[at++] = *p;
    for (size_t i = 0; i < count; i++) id[at++] = digits[pith_rng_below(&rng, 62)];
    id[at] = '\0';
}

/* Reports calls, numbered on. */
static void report_calls(struct pith_reply *r, const json_t *calls)
{
    const json_t *call;
    size_t i;
    json_array_foreach (calls, i, call) {
        const json_t *arguments = json_object_get(call, "arguments");
        const char *given = json_string_value(json_object_get(call, "id"));
        char id[PITH_REPLY_ID];
        if (r->muted) break;
        pith_reply_id(r, id);
        const struct pith_reply_delta d = {
            .kind = PITH_REPLY_CALL,
            .text = json_string_value(arguments),
            .size = json_string_length(arguments),
            .call = r->calls,
            .id = given ? given : id,
            .name = json_string_value(json_object_get(call, "name")),
        };
        r->delta(r->ctx, &d);
        r->calls++;
        r->muted = r->single;
    }
    /* White space next to a call is no part of the answer, unless content goes on behind it. */
    if (r->begun) r->keep = 0;
    else drop_pending(r);
    if (!r->begun) r->trim = true;
}

/* ---- decisions ---- */

size_t pith_reply_find(const struct pith_reply *r, const char *const *mark, size_t count,
                       size_t *at)
{
    const char *text = r->text.data + r->at;
    const size_t size = r->text.len - r->at;
    for (*at = 0; *at < size; ++*at)
        for (size_t k = 0; k < count; k++) {
            if (text[*at] != mark[k][0]) continue;
            const enum pith_begins b = pith_begins(text + *at, size - *at, mark[k]);
            if (b == PITH_BEGINS_ALL) return k;
            if (b == PITH_BEGINS_PART && !r->end) return count;
        }
    return count;
}

/* A call that is long is not read again with each piece of it, but when it has grown by some. What
 * is read again and again for calls that are none has an end: then marks are text. */
enum { SHORT = 4096, GROWN = 64, MOST_SPENT = 8 << 20 };

enum pith_cursor_state pith_reply_try(struct pith_reply *r, pith_read_calls *read, size_t skip)
{
    struct pith_cursor c = {
        .text = r->text.data + r->at, .size = r->text.len - r->at, .at = skip, .end = r->end};
    if (r->spent > MOST_SPENT) return PITH_CURSOR_BAD;
    if (!r->end && c.size > SHORT && c.size < r->next) return PITH_CURSOR_MORE;
    json_t *calls = json_array();
    if (calls) read(r->format->row, &c, r->tools, &calls);
    if (!calls || c.state == PITH_CURSOR_NOMEM) r->failed = true;
    r->next = c.state == PITH_CURSOR_MORE ? c.size + c.size / GROWN : 0;
    if (c.state == PITH_CURSOR_BAD) r->spent += c.at;
    if (c.state == PITH_CURSOR_GOOD && !r->failed) {
        r->at += c.at;
        report_calls(r, calls);
    }
    json_decref(calls);
    return r->failed ? PITH_CURSOR_MORE : c.state;
}

enum mark { OPEN, CLOSE, CALL, PART, DROP, END };
struct marks {
    const char *text[3 + 3 * PITH_REPLY_MARKS];
    enum mark mark[3 + 3 * PITH_REPLY_MARKS];
    size_t count;
};

static void add_mark(struct marks *m, enum mark mark, const char *text)
{
    if (!text) return;
    m->text[m->count] = text;
    m->mark[m->count++] = mark;
}

static void add_ends(const struct pith_reply *r, struct marks *m)
{
    for (size_t i = 0; i < PITH_REPLY_MARKS; i++) add_mark(m, END, r->format->row->ends[i]);
    add_mark(m, END, r->format->end);
}

/* A call in marks: reported, or its mark is text. False when more is needed. */
static bool read_block(struct pith_reply *r, pith_read_calls *read, const char *open)
{
    const size_t size = strlen(open);
    const enum pith_cursor_state s = pith_reply_try(r, read, size);
    if (s == PITH_CURSOR_BAD) {
        pith_reply_give(r, PITH_REPLY_CONTENT, open, size);
        r->at += size;
    }
    return s != PITH_CURSOR_MORE;
}

static bool at_mark(struct pith_reply *r, enum mark mark, const char *text)
{
    if (mark == CALL) return read_block(r, r->format->row->read, text);
    if (mark == PART) return read_block(r, pith_read_open_fields, text);
    r->at += strlen(text);
    if (mark == END) hold_end(r, text);
    if (mark == OPEN && r->begun) pith_reply_give(r, PITH_REPLY_CONTENT, text, strlen(text));
    if (mark == CLOSE || (mark == OPEN && !r->begun)) {
        drop_pending(r);
        r->trim = true;
        r->state = mark == OPEN ? PITH_IN_REASONING : PITH_IN_CONTENT;
    }
    return true;
}

static bool in_text(struct pith_reply *r)
{
    const struct pith_reply_row *row = r->format->row;
    const bool thinks = r->state == PITH_IN_REASONING;
    struct marks m = {.count = 0};
    size_t at;
    if (thinks) add_mark(&m, CLOSE, r->format->close);
    else if (!r->begun) add_mark(&m, OPEN, r->format->open);
    if (!thinks && r->tools) add_mark(&m, CALL, row->open);
    if (!thinks && r->tools && row->read == pith_read_fields) add_mark(&m, PART, row->part[0]);
    for (size_t i = 0; !thinks && i < PITH_REPLY_MARKS; i++) add_mark(&m, DROP, row->drop[i]);
    add_ends(r, &m);
    const size_t k = pith_reply_find(r, m.text, m.count, &at);
    pith_reply_give(r, thinks ? PITH_REPLY_REASONING : PITH_REPLY_CONTENT, r->text.data + r->at,
                    at);
    r->at += at;
    return k < m.count && at_mark(r, m.mark[k], m.text[k]);
}

static bool step(struct pith_reply *r)
{
    if (r->guide != PITH_GUIDE_NOT) return pith_forced_step(r);
    if (r->state == PITH_IN_HEADER || r->state == PITH_IN_BODY) return pith_harmony_step(r);
    if (r->bare && r->state == PITH_IN_CONTENT) {
        const enum pith_cursor_state s = pith_reply_try(r, pith_read_bare, 0);
        if (s != PITH_CURSOR_BAD) return s == PITH_CURSOR_GOOD;
        r->bare = false;
    }
    return in_text(r);
}

/* Decides what can be, and forgets it. */
static enum pith_status decide(struct pith_reply *r, struct pith_error *err)
{
    while (!r->failed && r->at < r->text.len && step(r)) {
    }
    if (r->failed) return pith_fail_nomem(err, "an answer");
    const size_t left = r->text.len - r->at;
    if (r->at > 0) memmove(r->text.data, r->text.data + r->at, left + 1);
    r->text.len = left;
    r->at = 0;
    return PITH_OK;
}

enum pith_status pith_reply_add(struct pith_reply *r, const char *text, size_t size,
                                struct pith_error *err)
{
    pith_str_append(&r->text, text, size);
    r->failed |= r->text.failed;
    return decide(r, err);
}

enum pith_status pith_reply_finish(struct pith_reply *r, struct pith_error *err)
{
    r->end = true;
    PITH_TRY(decide(r, err));
    enum pith_reply_kind kind = PITH_REPLY_CONTENT;
    if (r->state == PITH_IN_REASONING) kind = PITH_REPLY_REASONING;
    if (r->state == PITH_IN_BODY) kind = r->kind;
    pith_reply_flush(r, kind);
    return PITH_OK;
}

size_t pith_reply_reported(const struct pith_reply *r)
{
    return r->calls;
}

/* ---- a splitter ---- */

static bool ends_with_open(const char *prompt, size_t size, const char *open)
{
    size_t length = strlen(open);
    while (length > 0 && is_space(open[length - 1])) length--;
    while (size > 0 && is_space(prompt[size - 1])) size--;
    return size >= length && memcmp(prompt + size - length, open, length) == 0;
}

static void begin(struct pith_reply *r, const struct pith_reply_options *o)
{
    const struct pith_reply_row *row = r->format->row;
    r->forced = o->forced == 1;
    r->single = o->single != 0;
    if (o->forced) {
        pith_forced_begin(r, r->forced);
        return;
    }
    if (strcmp(row->name, "harmony") == 0) {
        pith_harmony_begin(r, o->prompt ? o->prompt : "", o->prompt ? o->prompt_size : 0);
        return;
    }
    r->bare = r->tools && row->read == pith_read_bare;
    if (!o->prompt || !r->format->open ||
        !ends_with_open(o->prompt, o->prompt_size, r->format->open))
        return;
    r->state = PITH_IN_REASONING;
    r->trim = true;
}

enum pith_status pith_reply_new(const struct pith_reply_format *f,
                                const struct pith_reply_options *o, struct pith_reply **out,
                                struct pith_error *err)
{
    json_t *tools = NULL;
    struct pith_reply *r;
    if (!o->delta) return pith_fail(err, PITH_ARG, "there is no callback for the answer");
    if (o->tools) PITH_TRY(pith_json_parse(o->tools, strlen(o->tools), "the tools", &tools, err));
    if (tools && !json_is_array(tools) && !json_is_null(tools)) {
        json_decref(tools);
        return pith_fail(err, PITH_FORMAT, "the tools are no list");
    }
    if (json_array_size(tools) == 0) {
        json_decref(tools);
        tools = NULL;
    }
    r = pith_zalloc(1, sizeof *r);
    if (!r) {
        json_decref(tools);
        return pith_fail_nomem(err, "an answer");
    }
    r->format = f;
    r->tools = tools;
    r->seed = o->seed;
    r->delta = o->delta;
    r->ctx = o->ctx;
    r->keep = SIZE_MAX;
    begin(r, o);
    *out = r;
    return PITH_OK;
}

void pith_reply_free(struct pith_reply *r)
{
    if (!r) return;
    json_decref(r->tools);
    pith_str_free(&r->text);
    pith_str_free(&r->pending);
    pith_free(r);
}
