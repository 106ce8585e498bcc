/* vocab.json with merges.txt: how GPT-2 and Qwen2 tokenizers were stored before tokenizer.json. The
 * two files hold the BPE model only; the rest is known by the tokenizer's class. They are put
 * together as the tokenizer.json that Hugging Face's converter would write, and read as that. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tok/component.h"
#include "tok/kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)

#define BYTE_LEVEL(regex)                                                                          \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":" regex "}"

/* What a class of tokenizers adds to the model. `model_type` (of config.json) stands in for the
 * class where tokenizer_config.json is missing; `special` is a token of the vocabulary that is
 * always special. */
static const struct class
{
    const char *name, *model_type, *special, *parts;
} classes[] = {
    {"GPT2Tokenizer", "gpt2", "<|endoftext|>",
     "{\"normalizer\":null,\"pre_tokenizer\":" BYTE_LEVEL("true") "}"},
    {"CodeGenTokenizer", "codegen", "<|endoftext|>",
     "{\"normalizer\":null,\"pre_tokenizer\":" BYTE_LEVEL("true") "}"},
    {"Qwen2Tokenizer", "qwen2", "<|endoftext|>",
     "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
     "\"pretokenizers\":[{"
     "\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}"
     "\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
     "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+("
     "?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL("false") "]}}"},
};

/* The files of the folder that are read as JSON; NULL where one is missing. */
struct sources {
    json_t *vocab, *config, *model_config, *added, *map;
};

/* "GPT2Tokenizer" and "GPT2TokenizerFast" are the same. */
static bool is_class(const char *name, const struct class *c)
{
    const size_t len = strlen(c->name);
    return strncmp(name, c->name, len) == 0 && (!name[len] || strcmp(name + len, "Fast") == 0);
}

static enum pith_status find_class(const struct sources *s, const struct class **out,
                                   struct pith_error *err)
{
    const char *name = json_string_value(json_object_get(s->config, "tokenizer_class"));
    const char *type = json_string_value(json_object_get(s->model_config, "model_type"));
    for (size_t i = 0; i < PITH_COUNT(classes); i++) {
        *out = &classes[i];
        if (name ? is_class(name, *out) : type && strcmp(type, (*out)->model_type) == 0)
            return PITH_OK;
    }
    return pith_fail(
        err, PITH_UNSUPPORTED,
        "vocab.json and merges.txt of a \"%.80s\" are not supported without tokenizer.json",
        name   ? name
        : type ? type
               : "tokenizer of unknown class");
}

static enum pith_status read_merges(const char *dir, json_t *list, struct pith_error *err)
{
    char *path = pith_path_join(dir, "merges.txt"), *text;
    if (!path) return pith_fail_nomem(err, "path");
    size_t size;
    const enum pith_status s = pith_file_read(path, MAX_FILE, &text, &size, err);
    pith_free(path);
    PITH_TRY(s);
    bool ok = true;
    for (char *line = text, *end; ok && line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        if (!end) end = text + size;
        size_t len = (size_t)(end - line);
        if (len > 0 && line[len - 1] == '\r') len--;
        if (len == 0 || (len >= 8 && memcmp(line, "#version", 8) == 0)) continue;
        ok = json_array_append_new(list, json_stringn(line, len)) == 0;
    }
    pith_free(text);
    return ok ? PITH_OK : pith_fail(err, PITH_FORMAT, "merges.txt: not UTF-8");
}

struct added {
    long long id;
    json_t *token; /* borrowed */
};

static int by_id(const void *a, const void *b)
{
    const struct added *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* {"50256": {"content": ...}, ...} as a list in the order of the ids. */
static enum pith_status list_added(json_t *decoder, json_t *list, struct pith_error *err)
{
    const size_t count = json_object_size(decoder);
    struct added *a = pith_alloc(count, sizeof *a);
    if (!a) return pith_fail_nomem(err, "tokenizer");
    size_t n = 0;
    for (void *it = json_object_iter(decoder); it; it = json_object_iter_next(decoder, it), n++)
        a[n] =
            (struct added){strtoll(json_object_iter_key(it), NULL, 10), json_object_iter_value(it)};
    qsort(a, n, sizeof *a, by_id);
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok = ok && json_array_append(list, a[i].token) == 0;
    pith_free(a);
    return ok ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

/* {"<|im_end|>": 151645, ...}: added_tokens.json, which knows no flags. */
static enum pith_status list_plain(json_t *ids, json_t *list, struct pith_error *err)
{
    json_t *decoder = json_object();
    bool ok = decoder != NULL;
    for (void *it = json_object_iter(ids); ok && it; it = json_object_iter_next(ids, it)) {
        char key[24];
        snprintf(key, sizeof key, "%lld",
                 (long long)json_integer_value(json_object_iter_value(it)));
        ok = json_object_set_new(decoder, key,
                                 json_pack("{s:s, s:b}", "content", json_object_iter_key(it),
                                           "normalized", 0)) == 0;
    }
    const enum pith_status s = ok ? list_added(decoder, list, err)
                                  : pith_fail_nomem(err, "tokenizer");
    json_decref(decoder);
    return s;
}

/* A token that a file calls special, as a text or an object: one of the list, else the next of it.
 */
static enum pith_status put_special(const json_t *value, json_t *list, struct pith_error *err)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    const json_t *text = pith_component_token(value);
    json_t *one;
    size_t i;
    if (!text) return PITH_OK;
    json_array_foreach (list, i, one)
        if (json_equal(json_object_get(one, "content"), text))
            return json_object_set_new(one, "special", json_true()) == 0
                       ? PITH_OK
                       : pith_fail_nomem(err, "tokenizer");
    one = json_pack("{s:O, s:b, s:b}", "content", text, "special", 1, "normalized", 0);
    for (i = 0; i < PITH_COUNT(flags); i++)
        if (json_is_true(json_object_get(value, flags[i])))
            json_object_set_new(one, flags[i], json_true());
    return json_array_append_new(list, one) == 0 ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

/* The tokens that a file gives a part to play, and those that it lists as special, are such. */
static enum pith_status list_named(const json_t *file, json_t *list, struct pith_error *err)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};
    const json_t *one;
    const char *key;
    size_t k;
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        PITH_TRY(put_special(json_object_get(file, names[i]), list, err));
    for (size_t i = 0; i < PITH_COUNT(lists); i++) {
        const json_t *more = json_object_get(file, lists[i]);
        json_array_foreach (more, k, one) PITH_TRY(put_special(one, list, err));
        json_object_foreach ((json_t *)(uintptr_t)more, key, one)
            PITH_TRY(put_special(one, list, err));
    }
    return PITH_OK;
}

static enum pith_status put_added(const struct sources *s, const struct class *c, json_t *list,
                                  struct pith_error *err)
{
    json_t *decoder = json_object_get(s->config, "added_tokens_decoder");
    if (json_is_object(decoder)) PITH_TRY(list_added(decoder, list, err));
    else if (json_is_object(s->added)) PITH_TRY(list_plain(s->added, list, err));
    PITH_TRY(list_named(s->config, list, err));
    if (!decoder) PITH_TRY(list_named(s->map, list, err));
    if (!json_object_get(s->vocab, c->special)) return PITH_OK;
    const int failed = json_array_append_new(
        list, json_pack("{s:s, s:b, s:b}", "content", c->special, "special", 1, "normalized", 0));
    return failed ? pith_fail_nomem(err, "tokenizer") : PITH_OK;
}

/* Makes the tokenizer.json; *out is a new reference. */
static enum pith_status assemble(const char *dir, const struct sources *s, json_t **out,
                                 struct pith_error *err)
{
    const struct class *c;
    if (!s->vocab) return pith_fail(err, PITH_FORMAT, "%s: has no vocab.json", dir);
    PITH_TRY(find_class(s, &c, err));
    json_t *merges = json_array(), *added = json_array();
    json_t *parts = json_loads(c->parts, 0, NULL);
    *out = json_pack("{s:{s:s, s:O, s:o}, s:o, s:{s:s}}", "model", "type", "BPE", "vocab", s->vocab,
                     "merges", merges, "added_tokens", added, "decoder", "type", "ByteLevel");
    enum pith_status status = *out && parts ? PITH_OK : pith_fail_nomem(err, "tokenizer");
    if (status == PITH_OK && json_object_update(*out, parts) != 0)
        status = pith_fail_nomem(err, "tokenizer");
    json_decref(parts);
    json_t *pre = json_object_get(*out, "pre_tokenizer");
    if (json_is_true(json_object_get(s->config, "add_prefix_space")) &&
        json_object_get(pre, "add_prefix_space"))
        json_object_set_new(pre, "add_prefix_space", json_true());
    if (status == PITH_OK) status = read_merges(dir, merges, err);
    if (status == PITH_OK) status = put_added(s, c, added, err);
    return status;
}

static enum pith_status read_json(const char *dir, json_t **out, struct pith_error *err)
{
    struct sources s = {0};
    enum pith_status status = pith_component_file(dir, "vocab.json", &s.vocab, err);
    if (status == PITH_OK)
        status = pith_component_file(dir, "tokenizer_config.json", &s.config, err);
    if (status == PITH_OK) status = pith_component_file(dir, "config.json", &s.model_config, err);
    if (status == PITH_OK) status = pith_component_file(dir, "added_tokens.json", &s.added, err);
    if (status == PITH_OK)
        status = pith_component_file(dir, "special_tokens_map.json", &s.map, err);
    if (status == PITH_OK) status = assemble(dir, &s, out, err);
    json_decref(s.vocab);
    json_decref(s.config);
    json_decref(s.model_config);
    json_decref(s.added);
    json_decref(s.map);
    return status;
}

const struct pith_tok_kind pith_tok_vocab = {.json = read_json, .surrounds = true};
