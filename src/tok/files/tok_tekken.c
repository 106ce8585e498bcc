/* tekken.json: Mistral's tokenizers (mistral-common, Tekkenizer). A list of tokens in base64 in the
 * order of their ranks, and special tokens, whose ids come before theirs. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tok/component.h"
#include "tok/files/tiktoken.h"
#include "tok/kind.h"
#include "tok/vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file[] = "tekken.json";

/* The special tokens of files that list none, which those of version 7 and before may do. */
static const char *const usual[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};
enum { LAST_WITHOUT = 7 };

/* Real files have 1,000. */
#define MOST_SPECIAL 65536

struct tekken {
    const json_t *json, *config, *vocab, *listed; /* of the file */
    size_t special, tokens;                       /* that are in use */
    const char **name;                            /* [special], borrowed; NULL: it has none */
};

/* "v3", "v7m1", "v13": the number, 0 where there is none. */
static long version_of(const json_t *config)
{
    const char *version = json_string_value(json_object_get(config, "version"));
    return version && version[0] == 'v' ? strtol(version + 1, NULL, 10) : 0;
}

/* How many tokens of either kind there are: the file may list more than are in use. */
static enum pith_status count_tokens(struct tekken *k, struct pith_error *err)
{
    const size_t listed = json_array_size(k->vocab);
    const size_t named = k->listed ? json_array_size(k->listed) : PITH_COUNT(usual);
    int64_t special = (int64_t)named, all = -1;
    if (!k->listed && version_of(k->config) > LAST_WITHOUT)
        return pith_fail(err, PITH_FORMAT, "%s: has no \"special_tokens\"", file);
    PITH_TRY(pith_json_get_int(k->config, "default_num_special_tokens", special, MOST_SPECIAL,
                               &special, file, err));
    PITH_TRY(pith_json_get_int(k->config, "default_vocab_size", special, PITH_VOCAB_ID_MAX, &all,
                               file, err));
    k->special = (size_t)special;
    k->tokens = all < 0 ? listed : (size_t)(all - special);
    if (k->tokens <= listed && k->special <= MOST_SPECIAL) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: lists %zu tokens, of which %zu are in use, and %zu special ones", file,
                     listed, k->tokens, k->special);
}

/* The names of special tokens, by their ranks. */
static enum pith_status name_special(struct tekken *k, struct pith_error *err)
{
    const json_t *one;
    size_t i;
    k->name = pith_zalloc(k->special + 1, sizeof *k->name);
    if (!k->name) return pith_fail_nomem(err, "tokenizer");
    for (i = 0; i < PITH_COUNT(usual) && !k->listed; i++) k->name[i] = usual[i];
    json_array_foreach (k->listed, i, one) {
        int64_t rank = (int64_t)i;
        const char *name = json_string_value(json_object_get(one, "token_str"));
        PITH_TRY(pith_json_get_int(one, "rank", 0, (int64_t)k->special - 1, &rank, file, err));
        if (!name || k->name[rank])
            return pith_fail(err, PITH_FORMAT,
                             "%s: special token %zu has no text, or the rank of another", file, i);
        k->name[rank] = name;
    }
    return PITH_OK;
}

static enum pith_status put_special(const struct tekken *k, json_t *list, struct pith_error *err)
{
    for (size_t i = 0; i < k->special; i++) {
        char name[40];
        snprintf(name, sizeof name, "<SPECIAL_%zu>", i);
        PITH_TRY(pith_tiktoken_add(list, k->name[i] ? k->name[i] : name, i, true, err));
    }
    return PITH_OK;
}

/* Tokens stand in the order of their ranks. */
static enum pith_status put_tokens(const struct tekken *k, json_t *vocab, struct pith_error *err)
{
    for (size_t i = 0; i < k->tokens; i++) {
        const json_t *token = json_array_get(k->vocab, i);
        const json_t *text = json_object_get(token, "token_bytes");
        int64_t rank = -1;
        PITH_TRY(pith_json_get_int(token, "rank", 0, PITH_VOCAB_ID_MAX, &rank, file, err));
        if (rank != (int64_t)i || !json_is_string(text))
            return pith_fail(err, PITH_FORMAT, "%s: entry %zu is not the token of that rank", file,
                             i);
        PITH_TRY(pith_tiktoken_put(file, vocab, json_string_value(text), json_string_length(text),
                                   k->special + i, err));
    }
    return PITH_OK;
}

static enum pith_status assemble(struct tekken *k, json_t **out, struct pith_error *err)
{
    const char *pattern = NULL;
    k->config = json_object_get(k->json, "config");
    k->vocab = json_object_get(k->json, "vocab");
    k->listed = json_object_get(k->json, "special_tokens");
    if (json_is_null(k->listed)) k->listed = NULL;
    PITH_TRY(pith_json_get_str(k->config, "pattern", &pattern, file, err));
    if (!pattern || !json_is_array(k->vocab) || (k->listed && !json_is_array(k->listed)))
        return pith_fail(err, PITH_FORMAT,
                         "%s: has no \"pattern\", \"vocab\" or \"special_tokens\" that could be"
                         " read",
                         file);
    PITH_TRY(count_tokens(k, err));
    PITH_TRY(name_special(k, err));
    json_t *vocab = json_object(), *added = json_array();
    PITH_TRY(pith_tiktoken_json(pattern, vocab, added, out, err));
    PITH_TRY(put_special(k, added, err));
    return put_tokens(k, vocab, err);
}

static enum pith_status read_json(const char *dir, json_t **out, struct pith_error *err)
{
    json_t *json = NULL;
    PITH_TRY(pith_component_file(dir, file, &json, err));
    struct tekken k = {.json = json};
    const enum pith_status s = assemble(&k, out, err);
    pith_free(k.name);
    json_decref(json);
    return s;
}

/* BOS comes in front, as mistral-common and llama.cpp's converter have it. */
const struct pith_tok_kind pith_tok_tekken = {
    .json = read_json, .surrounds = true, .add_bos = true, .bos = "<s>", .eos = "</s>"};
