/* Any bytes as an answer in any format: split without harm, the same from a whole and from pieces,
 * and never longer than it was; without tools and thoughts it is told as it came. The first byte
 * says the format, the second how it is cut. */
#include "base/mem.h"
#include "tok/reply/reply.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const templates[] = {
    "",
    "</think>",
    "<tool_call></tool_call></think>",
    "<tool_call><function=<parameter=</think>",
    "<tool_call><arg_key></think>",
    "<minimax:tool_call></think>",
    "<|start_header_id|>\"parameters\": dictionary",
    "[TOOL_CALLS][/THINK]",
    "<｜tool▁calls▁begin｜></think>",
    "<|tool_calls_section_begin|></think>",
    "<|channel|><|message|>",
    "<|START_ACTION|><|END_THINKING|>",
    "<tool_calls>",
    "functools[",
    "<|tool_call><tool_call|><channel|>",
};
static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": "
    "{\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": [\"string\", \"null\"]}}}}}]";

struct heard {
    struct pith_str text[2], calls;
    int forced, single;
};

static void hear(void *ctx, const struct pith_reply_delta *d)
{
    struct heard *h = ctx;
    json_t *j = NULL;
    if (d->kind != PITH_REPLY_CALL) {
        pith_str_append(&h->text[d->kind == PITH_REPLY_REASONING], d->text, d->size);
        return;
    }
    if (!h->forced &&
        (pith_json_parse(d->text, d->size, "arguments", &j, NULL) != PITH_OK || !json_is_object(j)))
        abort();
    json_decref(j);
    if (!d->id != !d->name || (!d->id && !h->forced)) abort();
    if (d->name) pith_str_printf(&h->calls, "%zu %s %s ", d->call, d->id, d->name);
    pith_str_append(&h->calls, d->text, d->size);
}

static void split(const struct pith_reply_format *f, const char *text, size_t size, size_t piece,
                  struct heard *h)
{
    const struct pith_reply_options o = {
        .tools = tools, .delta = hear, .ctx = h, .forced = h->forced, .single = h->single};
    struct pith_reply *r = NULL;
    if (pith_reply_new(f, &o, &r, NULL) != PITH_OK) abort();
    for (size_t at = 0; at < size; at += piece)
        if (pith_reply_add(r, text + at, size - at < piece ? size - at : piece, NULL) != PITH_OK)
            abort();
    if (pith_reply_finish(r, NULL) != PITH_OK) abort();
    pith_reply_free(r);
}

static void same(const struct pith_str *a, const struct pith_str *b)
{
    if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len) != 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_reply_format *f = NULL;
    struct heard whole = {0}, cut = {0};
    if (size < 2) return 0;
    whole.forced = cut.forced = data[1] / 16 % 3;
    whole.single = cut.single = data[1] / 48 % 2;
    const char *text = (const char *)data + 2;
    const uint8_t row = data[0] % PITH_COUNT(templates);
    size -= 2;
    if (pith_reply_format_of(templates[row], NULL, NULL, &f, NULL) != PITH_OK) abort();
    split(f, text, size, size + 1, &whole);
    split(f, text, size, (size_t)data[1] % 16 + 1, &cut);
    same(&whole.text[0], &cut.text[0]);
    same(&whole.text[1], &cut.text[1]);
    same(&whole.calls, &cut.calls);
    if (whole.text[0].len + whole.text[1].len > size) abort();
    const bool plain = row == 0 && !whole.forced;
    if (plain && whole.text[0].len != size) abort();
    if (plain && size && memcmp(whole.text[0].data, text, size) != 0) abort();
    for (int i = 0; i < 2; i++) {
        pith_str_free(&whole.text[i]);
        pith_str_free(&cut.text[i]);
    }
    pith_str_free(&whole.calls);
    pith_str_free(&cut.calls);
    pith_reply_format_free(f);
    return 0;
}
