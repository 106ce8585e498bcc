/* Gemma 4: call:NAME{key:<|"|>text<|"|>,other:[1,true,{k:null}]}: JSON with other quotes, and keys
 * without any. It becomes JSON. */
#include "tok/reply/parts.h"

#include <string.h>

static const char quote[] = "<|\"|>";
enum { DEEPEST = 64, SCALAR = 64 };

static void read_value(struct pith_cursor *c, struct pith_str *out, unsigned depth);

/* What may stand between quotes, or up to `end`. */
static void read_key(struct pith_cursor *c, struct pith_str *out)
{
    struct pith_passage key;
    pith_cursor_space(c);
    const bool quoted = pith_cursor_take(c, quote);
    if (!pith_cursor_until(c, quoted ? quote : ":", PITH_REPLY_NAME, &key)) return;
    if (quoted) (void)pith_cursor_need(c, ":");
    pith_put_string(c, out, &key);
}

/* Behind the opening bracket: members or elements, up to the closing one. */
static void read_list(struct pith_cursor *c, struct pith_str *out, bool object, unsigned depth)
{
    const char *close = object ? "}" : "]";
    if (depth > DEEPEST) pith_cursor_fail(c, PITH_CURSOR_BAD);
    pith_str_puts(out, object ? "{" : "[");
    pith_cursor_space(c);
    if (!pith_cursor_take(c, close)) {
        bool more = c->state == PITH_CURSOR_GOOD;
        while (more) {
            if (object) {
                read_key(c, out);
                pith_str_puts(out, ": ");
            }
            read_value(c, out, depth + 1);
            pith_cursor_space(c);
            more = pith_cursor_take(c, ",");
            if (more) pith_str_puts(out, ", ");
        }
        (void)pith_cursor_need(c, close);
    }
    pith_str_puts(out, close);
}

/* A number, true, false or null: what it is worth, the reader of the whole says. */
static void read_scalar(struct pith_cursor *c, struct pith_str *out)
{
    const size_t from = c->at;
    while (c->state == PITH_CURSOR_GOOD && !strchr(",}] \n", pith_cursor_peek(c)) &&
           c->at - from <= SCALAR)
        c->at++;
    if (c->state == PITH_CURSOR_GOOD && c->at == from) pith_cursor_fail(c, PITH_CURSOR_BAD);
    if (c->state == PITH_CURSOR_GOOD) pith_str_append(out, c->text + from, c->at - from);
}

static void read_value(struct pith_cursor *c, struct pith_str *out, unsigned depth)
{
    struct pith_passage text;
    pith_cursor_space(c);
    if (pith_cursor_take(c, quote)) {
        if (pith_cursor_until(c, quote, PITH_REPLY_ANY, &text)) pith_put_string(c, out, &text);
    } else if (pith_cursor_take(c, "{")) {
        read_list(c, out, true, depth);
    } else if (pith_cursor_take(c, "[")) {
        read_list(c, out, false, depth);
    } else {
        read_scalar(c, out);
    }
}

void pith_read_gemma(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                     json_t **calls)
{
    struct pith_passage name;
    struct pith_str out = {0};
    (void)tools;
    (void)pith_cursor_need(c, "call:");
    if (pith_cursor_until(c, "{", PITH_REPLY_NAME, &name)) read_list(c, &out, true, 0);
    pith_cursor_space(c);
    (void)pith_cursor_last(c, row->close);
    if (out.failed) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    if (c->state == PITH_CURSOR_GOOD)
        pith_call_add(c, calls, &name, &(struct pith_passage){out.data, out.len}, NULL);
    pith_str_free(&out);
}
