#include "tok/files/tiktoken.h"

#include "base/str.h"
#include "tok/base64.h"
#include "tok/pairings.h"
#include "tok/unicode/bytemap.h"

#include <string.h>

enum pith_status pith_tiktoken_json(const char *pattern, json_t *vocab, json_t *added, json_t **out,
                                    struct pith_error *err)
{
    *out =
        json_pack("{s:{s:s, s:o}, s:o, s:{s:s}, s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s, s:b, s:b}]}}",
                  "model", "type", "tiktoken", "vocab", vocab, "added_tokens", added, "decoder",
                  "type", "ByteLevel", "pre_tokenizer", "type", "Sequence", "pretokenizers", "type",
                  "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "type", "ByteLevel",
                  "add_prefix_space", 0, "use_regex", 0);
    return *out ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

enum pith_status pith_tiktoken_put(const char *file, json_t *vocab, const char *text, size_t len,
                                   size_t id, struct pith_error *err)
{
    uint8_t bytes[1024];
    size_t size = 0;
    if (len > sizeof bytes || !pith_base64_read(text, len, bytes, &size) || size == 0)
        return pith_fail(err, PITH_FORMAT, "%s: token %zu is not base64, or too long", file, id);
    struct pith_str spelt = {0};
    pith_bytemap_put((const char *)bytes, size, &spelt);
    const size_t before = json_object_size(vocab);
    const bool ok = !spelt.failed && json_object_setn_new(vocab, spelt.data, spelt.len,
                                                          json_integer((json_int_t)id)) == 0;
    pith_str_free(&spelt);
    if (!ok) return pith_fail_nomem(err, "tokenizer");
    if (json_object_size(vocab) > before) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: token %zu stands there twice", file, id);
}

enum pith_status pith_tiktoken_add(json_t *list, const char *text, size_t id, bool special,
                                   struct pith_error *err)
{
    json_t *token = json_pack("{s:I, s:s, s:b, s:b}", "id", (json_int_t)id, "content", text,
                              "special", special, "normalized", 0);
    return json_array_append_new(list, token) == 0 ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

/* By the token that is made, then by the parts, as Hugging Face's converters and llama.cpp's have
 * it (MistralConverter, MistralVocab). */
static int compare(const void *a, const void *b)
{
    const struct pith_pairing *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    if (x->left_id != y->left_id) return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

enum pith_status pith_tiktoken_merges(const json_t *json, json_t **out, struct pith_error *err)
{
    const json_t *vocab = json_object_get(json_object_get(json, "model"), "vocab"), *id;
    struct pith_pairings m = {0};
    const char *text;
    *out = json_array();
    bool good = *out != NULL;
    json_object_foreach ((json_t *)(uintptr_t)vocab, text, id) {
        const struct pith_pairing token = {.text = text,
                                           .length = (uint32_t)strlen(text),
                                           .order = (uint32_t)json_integer_value(id)};
        good = good && pith_pairings_add(&m, vocab, &token);
    }
    good = good && pith_pairings_put(&m, compare, *out);
    pith_pairings_free(&m);
    if (good) return PITH_OK;
    json_decref(*out);
    *out = NULL;
    return pith_fail_nomem(err, "a tokenizer's merges");
}
