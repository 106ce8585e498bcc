/* The tokenizer.json that Hugging Face's library reads: its reader (serde) is the stricter one. */
#include "base/json.h"
#include "base/mem.h"
#include "export/tokens.h"

#include <string.h>

/* What a value must be; _NULL: or null, or missing; _NONE: or missing. */
enum pith_hf_kind {
    FLAG,
    FLAG_OR_NULL,
    FLAG_OR_NONE,
    NUMBER,
    TEXT,
    TEXT_OR_NULL,
    TEXT_OR_NONE,
    SCHEME,
    LIST,
    OBJECT
};

static const struct kind {
    const char *what;
    bool missing, null;
} kinds[] = {
    [FLAG] = {"true or false", false, false},
    [FLAG_OR_NULL] = {"true or false", true, true},
    [FLAG_OR_NONE] = {"true or false", true, false},
    [NUMBER] = {"a number", false, false},
    [TEXT] = {"a text", false, false},
    [TEXT_OR_NULL] = {"a text", true, true},
    [TEXT_OR_NONE] = {"a text", true, false},
    [SCHEME] = {"first, never or always", true, false},
    [LIST] = {"a list", false, false},
    [OBJECT] = {"an object", false, false},
};

static const struct field {
    const char *part, *type, *key;
    enum pith_hf_kind kind;
} fields[] = {
#define PITH_HF_FIELD(part, type, key, kind) {part, type, key, kind},
#include "export/hf_fields.def"
#undef PITH_HF_FIELD
};

/* Parts, and the list that a Sequence of them has. */
static const struct part {
    const char *name, *list;
} parts[] = {
    {"normalizer", "normalizers"},
    {"pre_tokenizer", "pretokenizers"},
    {"post_processor", "processors"},
    {"decoder", "decoders"},
};

static bool is_scheme(const char *text)
{
    return text && (strcmp(text, "first") == 0 || strcmp(text, "never") == 0 ||
                    strcmp(text, "always") == 0);
}

static bool fits(enum pith_hf_kind kind, const json_t *v)
{
    if (kinds[kind].null && json_is_null(v)) return true;
    switch (kind) {
    case FLAG:
    case FLAG_OR_NULL:
    case FLAG_OR_NONE: return json_is_boolean(v);
    case NUMBER: return json_is_integer(v) && json_integer_value(v) >= 0;
    case TEXT:
    case TEXT_OR_NULL:
    case TEXT_OR_NONE: return json_is_string(v);
    case SCHEME: return is_scheme(json_string_value(v));
    case LIST: return json_is_array(v);
    case OBJECT: return json_is_object(v);
    }
    return false;
}

struct check {
    const char *whose; /* what stands in front of each problem */
    json_t *problems;
    bool failed;
};

/* A name in a message may be cut within a character. */
static void problem(struct check *k, const char *fmt, ...) PITH_PRINTF(2, 3);
static void problem(struct check *k, const char *fmt, ...)
{
    struct pith_str s = {0};
    va_list ap;
    pith_str_printf(&s, "%s: ", k->whose);
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    if (s.failed || json_array_append_new(k->problems, pith_json_name(s.data)) != 0)
        k->failed = true;
    pith_str_free(&s);
}

/* The members of a part, or of an entry: `where` is what a message calls it. */
static void check_members(struct check *k, const char *where, const json_t *object,
                          const char *part, const char *type)
{
    for (size_t i = 0; i < PITH_COUNT(fields); i++) {
        const struct field *f = &fields[i];
        if (strcmp(f->part, part) != 0 || strcmp(f->type, type) != 0) continue;
        const json_t *v = json_object_get(object, f->key);
        if (!v && !kinds[f->kind].missing) problem(k, "%s: has no \"%s\"", where, f->key);
        else if (v && !fits(f->kind, v))
            problem(k, "%s: \"%s\" is not %s", where, f->key, kinds[f->kind].what);
    }
}

static void check_part(struct check *k, const struct part *part, const json_t *v, int depth)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *one;
    char where[96];
    size_t i;
    if (!type || depth > 8) return;
    snprintf(where, sizeof where, "%s: %.40s", part->name, type);
    if (strcmp(type, "Sequence") != 0) {
        check_members(k, where, v, part->name, type);
        return;
    }
    json_array_foreach (json_object_get(v, part->list), i, one) check_part(k, part, one, depth + 1);
}

static void check_added(struct check *k, const json_t *list)
{
    const json_t *one;
    size_t i;
    json_array_foreach (list, i, one) {
        char where[48];
        snprintf(where, sizeof where, "added_tokens: entry %zu", i);
        check_members(k, where, one, "added_tokens", "");
    }
}

/* The library knows each member of the whole. */
static void check_whole(struct check *k, const json_t *json)
{
    static const char *const known[] = {"version", "truncation", "padding", "added_tokens",
                                        "model"};
    const json_t *version = json_object_get(json, "version"), *v;
    const char *key;
    if (version && strcmp(json_is_string(version) ? json_string_value(version) : "", "1.0") != 0)
        problem(k, "\"version\" is not \"1.0\"");
    json_object_foreach ((json_t *)(uintptr_t)json, key, v) {
        bool found = false;
        for (size_t i = 0; i < PITH_COUNT(known); i++) found |= strcmp(known[i], key) == 0;
        for (size_t i = 0; i < PITH_COUNT(parts); i++) found |= strcmp(parts[i].name, key) == 0;
        if (!found) problem(k, "\"%.60s\" is no member that is known", key);
    }
}

enum pith_status pith_hf_tokenizer(const char *whose, const char *text, size_t size,
                                   json_t *problems, struct pith_error *err)
{
    struct check k = {whose, problems, false};
    struct pith_error why = {0};
    json_t *json = NULL;
    const enum pith_status s =
        pith_json_read(text, size, PITH_JSON_STRICT | PITH_JSON_NAMES, whose, &json, &why);
    if (s == PITH_NOMEM) return pith_fail_nomem(err, "tokenizer");
    if (s != PITH_OK)
        return json_array_append_new(problems, pith_json_name(why.text)) == 0
                   ? PITH_OK
                   : pith_fail_nomem(err, "a message");
    const json_t *model = json_object_get(json, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    check_whole(&k, json);
    if (type) check_members(&k, "model", model, "model", type);
    for (size_t i = 0; i < PITH_COUNT(parts); i++)
        check_part(&k, &parts[i], json_object_get(json, parts[i].name), 0);
    check_added(&k, json_object_get(json, "added_tokens"));
    json_decref(json);
    return k.failed ? pith_fail_nomem(err, "a message") : PITH_OK;
}
