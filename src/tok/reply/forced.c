/* Answers that a constraint makes calls, or calls or something else: {"name": NAME, "arguments":
 * {...}}, between marks or without any. Calls are reported while they come; one that is cut is
 * reported up to there. */
#include "tok/reply/parts.h"

#include "base/mem.h"

#include <string.h>

/* ---- the part before the arguments ---- */

/* The name of a function, as far as it is there, and over what stands before the arguments. */
static void read_head(struct pith_cursor *c, struct pith_passage *name)
{
    static const char *const before[] = {"{", "\"name\"", ":", "\""},
                             *const behind[] = {",", "\"arguments\"", ":"};
    *name = (struct pith_passage){"", 0};
    for (size_t i = 0; i < PITH_COUNT(before); i++) {
        pith_cursor_space(c);
        (void)pith_cursor_need(c, before[i]);
    }
    if (c->state != PITH_CURSOR_GOOD) return;
    *name = (struct pith_passage){c->text + c->at, 0};
    while (c->at + name->size < c->size && name->text[name->size] != '"') name->size++;
    if (name->size > PITH_REPLY_NAME || memchr(name->text, '\\', name->size)) {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
        return;
    }
    c->at += name->size;
    (void)pith_cursor_need(c, "\"");
    for (size_t i = 0; i < PITH_COUNT(behind); i++) {
        pith_cursor_space(c);
        (void)pith_cursor_need(c, behind[i]);
    }
    pith_cursor_space(c);
    if (pith_cursor_peek(c) != '{') pith_cursor_fail(c, PITH_CURSOR_BAD);
}

static void begin_call(struct pith_reply *r, const struct pith_passage *name)
{
    char id[PITH_REPLY_ID], text[PITH_REPLY_NAME + 1];
    memcpy(text, name->text, name->size);
    text[name->size] = '\0';
    pith_reply_id(r, id);
    const struct pith_reply_delta d = {
        .kind = PITH_REPLY_CALL, .text = "", .call = r->calls, .id = id, .name = text};
    if (r->muted) return;
    r->delta(r->ctx, &d);
    r->calls++;
}

/* At the end of the answer, before the arguments: the one function whose name begins so; where
 * there are several, or none, what there is of the name. */
static void cut_call(struct pith_reply *r, struct pith_passage begun)
{
    const json_t *tool;
    struct pith_passage found = begun;
    size_t i, count = 0;
    json_array_foreach (r->tools, i, tool) {
        const json_t *f = json_object_get(tool, "function");
        const json_t *name = json_object_get(f ? f : tool, "name");
        const size_t size = json_string_length(name);
        if (!json_is_string(name) || size < begun.size || size > PITH_REPLY_NAME ||
            memcmp(json_string_value(name), begun.text, begun.size) != 0)
            continue;
        found = (struct pith_passage){json_string_value(name), size};
        count++;
    }
    begin_call(r, count == 1 ? &found : &begun);
    r->at = r->text.len;
}

/* What follows is no call of this form: where there must be one, it may have another; else it is
 * content. */
static bool leave(struct pith_reply *r)
{
    r->guide = PITH_GUIDE_NOT;
    r->bare = r->must;
    r->trim |= r->calls > 0;
    if (r->must) return true;
    json_decref(r->tools);
    r->tools = NULL;
    return true;
}

static bool in_head(struct pith_reply *r)
{
    struct pith_cursor c = {.text = r->text.data + r->at, .size = r->text.len - r->at};
    struct pith_passage name = {"", 0};
    pith_cursor_space(&c);
    const bool some = c.at < c.size;
    const enum pith_begins mark = pith_begins(c.text + c.at, c.size - c.at, r->open);
    if (mark == PITH_BEGINS_PART && !r->end) return false;
    if (mark == PITH_BEGINS_NOT && !r->must) return leave(r);
    if (mark == PITH_BEGINS_ALL) c.at += strlen(r->open);
    if (mark != PITH_BEGINS_PART) read_head(&c, &name);
    if (c.state == PITH_CURSOR_BAD) return leave(r);
    if (c.state == PITH_CURSOR_MORE && !r->end) return false;
    if (c.state == PITH_CURSOR_MORE || mark == PITH_BEGINS_PART) {
        if (some) cut_call(r, name);
        r->at = r->text.len;
        return true;
    }
    begin_call(r, &name);
    r->at += c.at;
    r->guide = PITH_GUIDE_ARGUMENTS;
    r->depth = 0;
    r->quoted = r->escaped = false;
    return true;
}

/* ---- the arguments, and what follows ---- */

/* How much of a text belongs to the arguments. */
static size_t go_on(struct pith_reply *r, const char *text, size_t size, bool *over)
{
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (r->escaped) r->escaped = false;
        else if (r->quoted && c == '\\') r->escaped = true;
        else if (c == '"') r->quoted = !r->quoted;
        else if (!r->quoted && strchr("{[", c) && c) r->depth++;
        else if (!r->quoted && strchr("}]", c) && c && --r->depth == 0) {
            *over = true;
            return i + 1;
        }
    }
    return size;
}

static bool in_arguments(struct pith_reply *r)
{
    bool over = false;
    const char *text = r->text.data + r->at;
    const size_t size = go_on(r, text, r->text.len - r->at, &over);
    const struct pith_reply_delta d = {
        .kind = PITH_REPLY_CALL, .text = text, .size = size, .call = r->calls - 1};
    if (!r->muted) r->delta(r->ctx, &d);
    r->at += size;
    if (over) r->guide = PITH_GUIDE_BRACE;
    return true;
}

/* Over the brace behind the arguments, then the closing mark, each after white space. */
static bool in_tail(struct pith_reply *r, const char *mark)
{
    struct pith_cursor c = {.text = r->text.data + r->at, .size = r->text.len - r->at};
    pith_cursor_space(&c);
    const enum pith_begins b = mark ? pith_begins(c.text + c.at, c.size - c.at, mark)
                                    : PITH_BEGINS_NOT;
    if (b == PITH_BEGINS_PART) {
        if (r->end) r->at = r->text.len;
        return r->end;
    }
    if (b == PITH_BEGINS_NOT && r->guide == PITH_GUIDE_BRACE) return leave(r);
    r->at += c.at + (b == PITH_BEGINS_ALL ? strlen(mark) : 0);
    r->must = false;
    if (r->guide == PITH_GUIDE_BRACE) {
        r->guide = PITH_GUIDE_MARK;
        r->muted |= r->single;
    } else {
        r->guide = PITH_GUIDE_HEAD;
    }
    return true;
}

bool pith_forced_step(struct pith_reply *r)
{
    switch (r->guide) {
    case PITH_GUIDE_HEAD: return in_head(r);
    case PITH_GUIDE_ARGUMENTS: return in_arguments(r);
    case PITH_GUIDE_BRACE: return in_tail(r, "}");
    default: return in_tail(r, r->close);
    }
}

void pith_forced_begin(struct pith_reply *r, bool must)
{
    r->must = must;
    r->guide = PITH_GUIDE_HEAD;
    r->open = pith_reply_call_marks_of(r->format, &r->close);
}
