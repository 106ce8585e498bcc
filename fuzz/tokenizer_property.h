/* fuzz/tokenizer_property.h: what must hold for every tokenizer that opens. */
#ifndef PITH_FUZZ_TOKENIZER_PROPERTY_H
#define PITH_FUZZ_TOKENIZER_PROPERTY_H

#include "tok/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth) abort();
}

static void check_stream(const struct pith_tokenizer *t, const struct pith_ids *ids)
{
    struct pith_error err = {0};
    struct pith_str whole = {0}, parts = {0};
    struct pith_stream stream = {0};
    enum pith_status s = pith_tokenizer_decode(t, ids->id, ids->count, true, &whole, &err);
    for (size_t i = 0; s == PITH_OK && i < ids->count; i++)
        s = pith_stream_push(t, &stream, ids->id[i], &parts, &err);
    (void)pith_stream_end(&stream, &parts, NULL);
    must(s == PITH_OK || err.text[0] != '\0');
    if (s == PITH_OK)
        must(whole.len == parts.len &&
             memcmp(pith_str_text(&whole), pith_str_text(&parts), whole.len) == 0);
    pith_str_free(&whole);
    pith_str_free(&parts);
}

static void check_text(const struct pith_tokenizer *t, const char *text, size_t size)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    const enum pith_status s = pith_tokenizer_encode(t, text, size, true, &ids, &err);
    must(s == PITH_OK || err.text[0] != '\0');
    for (size_t i = 0; i < ids.count; i++) must(ids.id[i] >= 0 && ids.id[i] <= 0xffffff);
    if (s == PITH_OK) check_stream(t, &ids);
    pith_ids_free(&ids);
}

static void check_tokenizer(enum pith_status s, struct pith_tokenizer *t,
                            const struct pith_error *err)
{
    static const char text[] = "Hello  World, it's \n\n 123 <s>x</s> caf\xc3\xa9 cafe\xcc\x81 "
                               "\xe2\x96\x81 \xf0\x9f\x98\x80 \xff "
                               "aaaa abc\tABC \xe4\xb8\xad\xe6\x96\x87 <|end|> a\xcc\x81\xcc\xa3 "
                               "and a run of more than one stretch of a pattern is this here: "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    if (s != PITH_OK) {
        must((s == PITH_FORMAT || s == PITH_UNSUPPORTED) && err->text[0] != '\0' && !t);
        return;
    }
    must(pith_tokenizer_bos(t) >= -1 && pith_tokenizer_eos(t) >= -1);
    check_text(t, text, sizeof text - 1);
    check_text(t, "", 0);
    check_stream(t, &(struct pith_ids){.id = (int32_t[]){0, 1, 2, 3, -1, 5, 300, 0x7fffffff, 4},
                                       .count = 9});
    pith_tokenizer_close(t);
}

#endif
