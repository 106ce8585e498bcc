/* llama.cpp's names for ways to cut a text, and the tokenizer.json that means the same. */
#include "tok/gguf.h"

#include "base/mem.h"

#include <string.h>

static const struct pith_gguf_pre rows[] = {
#define PITH_GGUF_PRE(name, pattern, digits, ignore_merges, add_bos)                               \
    {name, pattern, digits, ignore_merges, add_bos},
#include "tok/gguf_pre.def"
#undef PITH_GGUF_PRE
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

/* What the parts of a pre_tokenizer do; false for one that no row has. */
static bool read_parts(const json_t *const *parts, size_t count, const char **pattern, bool *digits)
{
    bool own = false, bytes = false;
    *pattern = NULL;
    *digits = false;
    for (size_t i = 0; i < count; i++) {
        const json_t *regex = json_object_get(json_object_get(parts[i], "pattern"), "Regex");
        const char *behavior = json_string_value(json_object_get(parts[i], "behavior"));
        const bool last = i + 1 == count;
        if (is_type(parts[i], "Digits") && i == 0 && !last &&
            json_is_true(json_object_get(parts[i], "individual_digits"))) {
            *digits = true;
        } else if (is_type(parts[i], "Split") && !*pattern && json_is_string(regex) && behavior &&
                   strcmp(behavior, "Isolated") == 0 &&
                   !json_is_true(json_object_get(parts[i], "invert"))) {
            *pattern = json_string_value(regex);
        } else if (is_type(parts[i], "ByteLevel") && last && !flag(parts[i], "add_prefix_space")) {
            bytes = true;
            own = flag(parts[i], "use_regex");
        } else {
            return false;
        }
    }
    return bytes && own == (*pattern == NULL);
}

const struct pith_gguf_pre *pith_gguf_pre_of(const json_t *tokenizer)
{
    enum { MOST = 3 };
    const json_t *pre = json_object_get(tokenizer, "pre_tokenizer"), *parts[MOST] = {pre};
    const json_t *list = json_object_get(pre, "pretokenizers");
    const bool ignore =
        json_is_true(json_object_get(json_object_get(tokenizer, "model"), "ignore_merges"));
    const size_t count = is_type(pre, "Sequence") ? json_array_size(list) : 1;
    const char *pattern;
    bool digits;
    if (count > MOST) return NULL;
    for (size_t i = 0; i < count && is_type(pre, "Sequence"); i++)
        parts[i] = json_array_get(list, i);
    if (!read_parts(parts, count, &pattern, &digits)) return NULL;
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        const struct pith_gguf_pre *r = &rows[i];
        const bool same = pattern && r->pattern ? strcmp(pattern, r->pattern) == 0
                                                : pattern == r->pattern;
        if (same && r->digits == digits && r->ignore_merges == ignore) return r;
    }
    return NULL;
}
