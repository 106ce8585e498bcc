/* llama.cpp's names for ways to cut a text, and the tokenizer.json that means the same. */
#include "tok/files/gguf.h"

#include "base/mem.h"

#include <string.h>

static const struct pith_gguf_pre rows[] = {
#define PITH_GGUF_PRE(name, ignore_merges, add_bos, nfc, own, ...)                                 \
    {name, ignore_merges, add_bos, nfc, own, false, {__VA_ARGS__}},
#define PITH_GGUF_MARKED(name, add_bos, ...)                                                       \
    {name, false, add_bos, false, false, true, {__VA_ARGS__}},
#include "tok/files/gguf_pre.def"
#undef PITH_GGUF_PRE
#undef PITH_GGUF_MARKED
};

const struct pith_gguf_pre *pith_gguf_pre_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

static bool is_type(const json_t *part, const char *type)
{
    const char *is = json_string_value(json_object_get(part, "type"));
    return is && strcmp(is, type) == 0;
}

/* A missing flag of ByteLevel is true, as the reference has it. */
static bool flag(const json_t *part, const char *key)
{
    return !json_is_false(json_object_get(part, key));
}

/* What a pre_tokenizer and its normalizer do, as far as a row can say it. */
struct way {
    const char *cut[PITH_GGUF_CUTS];
    size_t cuts;
    bool own, ignore, nfc;
    bool whole; /* a word that is a token always is one: no row means another */
};

/* The pattern of a part that cuts before ByteLevel; NULL for one that no row can have. */
static const char *cut_of(const json_t *part)
{
    const char *regex =
        json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    if (is_type(part, "Digits") && json_is_true(json_object_get(part, "individual_digits")))
        return PITH_GGUF_DIGITS;
    const bool isolated = behavior && strcmp(behavior, "Isolated") == 0;
    if (!is_type(part, "Split") || !isolated || json_is_true(json_object_get(part, "invert")))
        return NULL;
    return regex;
}

static bool read_way(const json_t *tokenizer, struct way *w)
{
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer");
    const json_t *list = json_object_get(pre, "pretokenizers");
    const bool several = is_type(pre, "Sequence");
    const size_t count = several ? json_array_size(list) : 1;
    *w = (struct way){.nfc = is_type(json_object_get(tokenizer, "normalizer"), "NFC")};
    w->ignore = json_is_true(json_object_get(json_object_get(tokenizer, "model"), "ignore_merges"));
    w->whole = is_type(json_object_get(tokenizer, "model"), "tiktoken");
    if (count == 0 || count > PITH_GGUF_CUTS + 1) return false;
    for (size_t i = 0; i + 1 < count; i++) {
        w->cut[i] = cut_of(json_array_get(list, i));
        if (!w->cut[i]) return false;
    }
    w->cuts = count - 1;
    const json_t *last = several ? json_array_get(list, count - 1) : pre;
    w->own = flag(last, "use_regex");
    return is_type(last, "ByteLevel") && !flag(last, "add_prefix_space");
}

/* Patterns are the same when they differ in how they spell CR and LF only. */
static bool same_pattern(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char *raw = *a == '\r' || *a == '\n' ? a : b, *spelt = raw == a ? b : a;
        if (*a == *b) continue;
        if ((*raw != '\r' && *raw != '\n') || spelt[0] != '\\' ||
            spelt[1] != (*raw == '\r' ? 'r' : 'n'))
            return false;
        if (raw == a) b++;
        else a++;
    }
    return *a == *b;
}

static bool fits(const struct pith_gguf_pre *r, const struct way *w)
{
    if (r->marked || r->own != w->own || (r->ignore_merges != w->ignore && !w->whole)) return false;
    for (size_t i = 0; i < PITH_GGUF_CUTS; i++) {
        if (!r->cut[i] || i >= w->cuts) return !r->cut[i] && i >= w->cuts;
        if (!same_pattern(r->cut[i], w->cut[i])) return false;
    }
    return w->cuts == PITH_GGUF_CUTS;
}

const struct pith_gguf_pre *pith_gguf_pre_of(const json_t *tokenizer)
{
    struct way w;
    const struct pith_gguf_pre *found = NULL;
    if (!read_way(tokenizer, &w)) return NULL;
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        if (!fits(&rows[i], &w)) continue;
        if (rows[i].nfc == w.nfc) return &rows[i];
        if (!found) found = &rows[i];
    }
    return found;
}
