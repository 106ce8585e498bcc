/* The lists of a GGUF file's vocabulary. */
#include "tok/files/gguf_lists.h"

#include "tok/files/spm_model.h"

#include <string.h>

static enum pith_status get_list(const struct pith_gguf *g, const char *name,
                                 enum pith_gguf_kind element, const struct pith_gguf_key **out,
                                 struct pith_error *err)
{
    *out = pith_gguf_find(g, name);
    if (!*out || ((*out)->kind == PITH_GGUF_ARRAY && (*out)->element == element)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" is no list of the right type", g->path,
                     name);
}

enum pith_status pith_gguf_lists_get(const struct pith_gguf *g, struct pith_gguf_lists *l,
                                     struct pith_error *err)
{
    *l = (struct pith_gguf_lists){.g = g};
    PITH_TRY(get_list(g, "tokenizer.ggml.tokens", PITH_GGUF_STRING, &l->tokens, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.token_type", PITH_GGUF_I32, &l->types, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.scores", PITH_GGUF_F32, &l->scores, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.merges", PITH_GGUF_STRING, &l->merges, err));
    if (!l->tokens || l->tokens->count == 0)
        return pith_fail(err, PITH_FORMAT, "%s: the file has no tokenizer", g->path);
    if ((l->types && l->types->count < l->tokens->count) ||
        (l->scores && l->scores->count < l->tokens->count))
        return pith_fail(err, PITH_FORMAT, "%s: fewer types or scores than tokens", g->path);
    return PITH_OK;
}

int32_t pith_gguf_lists_type(const struct pith_gguf_lists *l, size_t id)
{
    int32_t type = PITH_SPM_NORMAL;
    if (l->types) memcpy(&type, l->types->data + id * sizeof type, sizeof type);
    return type;
}

float pith_gguf_lists_score(const struct pith_gguf_lists *l, size_t id)
{
    float score = 0;
    if (l->scores) memcpy(&score, l->scores->data + id * sizeof score, sizeof score);
    return score;
}

enum pith_status pith_gguf_lists_unknown(const struct pith_gguf_lists *l, int64_t *out,
                                         struct pith_error *err)
{
    uint64_t unk = UINT64_MAX;
    PITH_TRY(pith_gguf_get_uint(l->g, "tokenizer.ggml.unknown_token_id", UINT32_MAX, &unk, err));
    for (size_t id = 0; unk >= l->tokens->count && id < l->tokens->count; id++)
        if (pith_gguf_lists_type(l, id) == PITH_SPM_UNKNOWN) unk = id;
    *out = unk < l->tokens->count ? (int64_t)unk : -1;
    return PITH_OK;
}

enum pith_status pith_gguf_lists_put(const struct pith_gguf_lists *l, int32_t without,
                                     json_t *vocab, json_t *added, struct pith_error *err)
{
    const char *text;
    size_t offset = 0, length, count = 0;
    for (size_t id = 0; pith_gguf_next_string(l->tokens, &offset, &text, &length); id++) {
        const int32_t type = pith_gguf_lists_type(l, id);
        const bool special = type == PITH_SPM_CONTROL || type == PITH_SPM_UNKNOWN;
        if (type == without) continue;
        if (memchr(text, 0, length) ||
            json_object_setn_new(vocab, text, length, json_integer((json_int_t)id)) != 0)
            return pith_fail(err, PITH_FORMAT, "%s: token %zu is not a text", l->g->path, id);
        count++;
        if (!special && type != PITH_SPM_USER) continue;
        json_t *token =
            json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text,
                      length, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                      "special", (int)special);
        if (json_array_append_new(added, token) != 0) return pith_fail_nomem(err, "tokenizer");
    }
    return json_object_size(vocab) == count
               ? PITH_OK
               : pith_fail(err, PITH_FORMAT, "%s: two tokens are the same", l->g->path);
}

const char *pith_gguf_name_of(const json_t *vocab, int64_t id)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)vocab, key, value)
        if (json_integer_value(value) == id) return key;
    return NULL;
}

enum pith_status pith_gguf_around_get(const struct pith_gguf *g, uint64_t vocab,
                                      struct pith_gguf_around *a, struct pith_error *err)
{
    uint64_t bos = UINT64_MAX, eos = UINT64_MAX;
    PITH_TRY(pith_gguf_get_uint(g, "tokenizer.ggml.bos_token_id", UINT32_MAX, &bos, err));
    PITH_TRY(pith_gguf_get_uint(g, "tokenizer.ggml.eos_token_id", UINT32_MAX, &eos, err));
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &a->add_bos, err));
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &a->add_eos, err));
    if (bos < vocab) a->bos = (int64_t)bos;
    if (eos < vocab) a->eos = (int64_t)eos;
    return PITH_OK;
}
