/* tiktoken.model: a list of tokens in base64 with their ranks, which are their ids. How a text is
 * cut and which special tokens follow stands in a program next to it, and is known here by the name
 * of the tokenizer's class. All is put together as a tokenizer.json and read as that. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tok/component.h"
#include "tok/files/tiktoken.h"
#include "tok/kind.h"

#include <stdio.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)

/* A class: the pattern that cuts, and how many ids behind the list are special tokens, with a name
 * or "<|reserved_token_ID|>". */
static const struct class
{
    const char *name, *pattern;
    int reserved;
} classes[] = {
    /* Kimi K2, Moonlight */
    {"TikTokenTokenizer",
     "[\\p{Han}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+"
     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
     "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     256},
};

static enum pith_status find_class(const json_t *config, const struct class **out,
                                   struct pith_error *err)
{
    const char *name = json_string_value(json_object_get(config, "tokenizer_class"));
    for (size_t i = 0; i < PITH_COUNT(classes) && name; i++) {
        *out = &classes[i];
        if (strcmp(name, classes[i].name) == 0) return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED, "tiktoken.model of a \"%.80s\" is not supported",
                     name ? name : "tokenizer of unknown class");
}

/* "<base64> <rank>", where the rank is the number of the line. */
static enum pith_status read_line(json_t *vocab, const char *line, size_t len,
                                  struct pith_error *err)
{
    const size_t rank = json_object_size(vocab);
    char number[24];
    const int digits = snprintf(number, sizeof number, "%zu", rank);
    const char *space = memchr(line, ' ', len);
    const size_t text = space ? (size_t)(space - line) : 0;
    if (!space || len - text - 1 != (size_t)digits ||
        memcmp(space + 1, number, len - text - 1) != 0)
        return pith_fail(err, PITH_FORMAT,
                         "tiktoken.model: line %zu is not a token and its rank %zu", rank + 1,
                         rank);
    return pith_tiktoken_put("tiktoken.model", vocab, line, text, rank, err);
}

static enum pith_status read_ranks(const char *dir, json_t *vocab, struct pith_error *err)
{
    char *path = pith_path_join(dir, "tiktoken.model"), *text;
    if (!path) return pith_fail_nomem(err, "path");
    size_t size;
    enum pith_status s = pith_file_read(path, MAX_FILE, &text, &size, err);
    pith_free(path);
    PITH_TRY(s);
    for (char *line = text, *end; s == PITH_OK && line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + size - line));
        if (!end) end = text + size;
        if (end > line) s = read_line(vocab, line, (size_t)(end - line), err);
    }
    pith_free(text);
    return s;
}

/* The tokens behind the list, in the order of their ids. */
static enum pith_status put_special(const struct class *c, size_t first, const json_t *config,
                                    json_t *list, struct pith_error *err)
{
    const json_t *named = json_object_get(config, "added_tokens_decoder");
    for (int i = 0; i < c->reserved; i++) {
        char id[24], name[48];
        snprintf(id, sizeof id, "%zu", first + (size_t)i);
        snprintf(name, sizeof name, "<|reserved_token_%s|>", id);
        const json_t *token = json_object_get(named, id);
        const char *text = json_string_value(json_object_get(token, "content"));
        const bool plain = json_is_false(json_object_get(token, "special"));
        PITH_TRY(pith_tiktoken_add(list, text ? text : name, first + (size_t)i, !plain, err));
    }
    return PITH_OK;
}

static enum pith_status assemble(const char *dir, const json_t *config, json_t **out,
                                 struct pith_error *err)
{
    const struct class *c;
    PITH_TRY(find_class(config, &c, err));
    json_t *vocab = json_object(), *added = json_array();
    PITH_TRY(pith_tiktoken_json(c->pattern, vocab, added, out, err));
    PITH_TRY(read_ranks(dir, vocab, err));
    return put_special(c, json_object_size(vocab), config, added, err);
}

static enum pith_status read_json(const char *dir, json_t **out, struct pith_error *err)
{
    json_t *config = NULL;
    PITH_TRY(pith_component_file(dir, "tokenizer_config.json", &config, err));
    const enum pith_status s = assemble(dir, config, out, err);
    json_decref(config);
    return s;
}

const struct pith_tok_kind pith_tok_tiktoken = {.json = read_json};
