/* gpt-oss: "<|channel|>analysis<|message|>TEXT<|end|><|start|>assistant<|channel|>..."; a call is
 * what is sent to=functions.NAME, in the role or behind the channel. */
#include "tok/reply/parts.h"

#include "base/mem.h"

#include <string.h>

static const char start[] = "<|start|>", channel[] = "<|channel|>", message[] = "<|message|>";
static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
enum { ENDS = 4, START = 3, HEADER = 512 };

/* The word that stands behind a mark of a header; size 0: it is not there. */
static struct pith_passage word_after(const struct pith_passage *header, const char *mark)
{
    const size_t length = strlen(mark);
    struct pith_passage word = {0};
    for (size_t i = 0; i + length <= header->size; i++) {
        if (memcmp(header->text + i, mark, length) != 0) continue;
        word.text = header->text + i + length;
        while (i + length + word.size < header->size && !strchr(" \n<", word.text[word.size]))
            word.size++;
        break;
    }
    return word;
}

static bool is(const struct pith_passage *word, const char *text)
{
    return word->size == strlen(text) && memcmp(word->text, text, word->size) == 0;
}

static enum pith_reply_kind kind_of(const struct pith_passage *header)
{
    const struct pith_passage name = word_after(header, channel);
    return is(&name, "analysis") ? PITH_REPLY_REASONING : PITH_REPLY_CONTENT;
}

/* Over what stands before a message; bad for what is none. */
static void read_header(struct pith_cursor *c, struct pith_passage *header)
{
    static const char *const first[] = {start, channel, message, "to="};
    bool some = false;
    pith_cursor_space(c);
    (void)pith_cursor_peek(c);
    for (size_t i = 0; c->state == PITH_CURSOR_GOOD && i < PITH_COUNT(first); i++)
        some |= pith_begins(c->text + c->at, c->size - c->at, first[i]) != PITH_BEGINS_NOT;
    if (!some) pith_cursor_fail(c, PITH_CURSOR_BAD);
    (void)pith_cursor_until(c, message, HEADER, header);
}

/* Goes over the end of a message, where it stands. */
static bool take_end(struct pith_cursor *c)
{
    for (size_t i = 0; i < START && c->state == PITH_CURSOR_GOOD; i++)
        if (pith_cursor_take(c, ends[i])) return true;
    return false;
}

/* A whole call with its header; bad for what is sent to nobody's function. */
static void read_call(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                      json_t **calls)
{
    static const char functions[] = "functions.";
    static const struct pith_passage nothing = {"{}", 2};
    struct pith_passage header, to, body;
    bool none = false; /* there are no arguments */
    (void)row;
    (void)tools;
    read_header(c, &header);
    if (c->state != PITH_CURSOR_GOOD) return;
    to = word_after(&header, "to=");
    if (pith_begins(to.text, to.size, functions) != PITH_BEGINS_ALL) {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
        return;
    }
    to.text += strlen(functions);
    to.size -= strlen(functions);
    pith_cursor_space(c);
    if (c->at == c->size && c->end) none = true;
    else if (pith_cursor_peek(c) == '<') none = take_end(c);
    if (!none) {
        if (pith_cursor_peek(c) != '{') pith_cursor_fail(c, PITH_CURSOR_BAD);
        (void)pith_cursor_value(c, &body);
        pith_cursor_space(c);
        (void)take_end(c);
    }
    if (c->state == PITH_CURSOR_GOOD) pith_call_add(c, calls, &to, none ? &nothing : &body, NULL);
}

/* Before a message: a call, the header of text or reasoning, or text without a header. */
static bool in_header(struct pith_reply *r)
{
    struct pith_cursor c = {
        .text = r->text.data + r->at, .size = r->text.len - r->at, .end = r->end};
    struct pith_passage header;
    if (r->tools) {
        const enum pith_cursor_state s = pith_reply_try(r, read_call, 0);
        if (s != PITH_CURSOR_BAD) return s == PITH_CURSOR_GOOD;
    }
    read_header(&c, &header);
    if (c.state == PITH_CURSOR_MORE) return false;
    r->state = PITH_IN_BODY;
    r->kind = PITH_REPLY_CONTENT;
    if (c.state != PITH_CURSOR_GOOD) {
        /* A header that never ends: its first mark is text. */
        const size_t size = sizeof start - 1;
        if (pith_begins(c.text, c.size, start) != PITH_BEGINS_ALL) return true;
        pith_reply_give(r, PITH_REPLY_CONTENT, c.text, size);
        r->at += size;
        return true;
    }
    const struct pith_passage to = word_after(&header, "to=");
    /* What was meant for a function and is no call is reported with its header. */
    if (r->tools && pith_begins(to.text, to.size, "functions.") == PITH_BEGINS_ALL)
        pith_reply_give(r, PITH_REPLY_CONTENT, c.text, c.at);
    else r->kind = kind_of(&header);
    r->at += c.at;
    return true;
}

bool pith_harmony_step(struct pith_reply *r)
{
    if (r->state == PITH_IN_HEADER) return in_header(r);
    size_t at;
    const size_t mark = pith_reply_find(r, ends, ENDS, &at);
    pith_reply_give(r, r->kind, r->text.data + r->at, at);
    r->at += at;
    if (mark == ENDS) return false;
    pith_reply_flush(r, r->kind);
    if (mark != START) r->at += strlen(ends[mark]);
    r->state = PITH_IN_HEADER;
    return true;
}

void pith_harmony_begin(struct pith_reply *r, const char *prompt, size_t size)
{
    struct pith_passage tail = {0};
    r->state = PITH_IN_HEADER;
    for (size_t i = 0; i < size; i++)
        if (pith_begins(prompt + i, size - i, start) == PITH_BEGINS_ALL)
            tail = (struct pith_passage){prompt + i, size - i};
    /* A message that the prompt has begun. */
    bool begun = false;
    for (size_t i = 0; i < tail.size; i++) {
        if (pith_begins(tail.text + i, tail.size - i, message) == PITH_BEGINS_ALL) begun = true;
        for (size_t e = 0; e < START; e++)
            if (pith_begins(tail.text + i, tail.size - i, ends[e]) == PITH_BEGINS_ALL) return;
    }
    if (!begun) return;
    r->state = PITH_IN_BODY;
    r->kind = kind_of(&tail);
}
