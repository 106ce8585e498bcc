#include "tok/model.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* By the "type" of a tokenizer.json. The last is not one of a file's: it is how tiktoken joins. */
static const struct {
    const char *name;
    const struct pith_tok_model_kind *kind;
} kinds[] = {{"BPE", &pith_tok_model_bpe},
             {"Unigram", &pith_tok_model_unigram},
             {"tiktoken", &pith_tok_model_tiktoken}};

void pith_tok_model_run_free(struct pith_tok_model_run *run)
{
    pith_word_free(&run->word);
    pith_unigram_run_free(&run->path);
}

enum pith_status pith_tok_model_read(struct pith_tok_model *m, const json_t *json,
                                     struct pith_error *err)
{
    const char *type = "BPE"; /* old files do not say */
    if (!json_is_object(json))
        return pith_fail(err, PITH_FORMAT, "tokenizer.json has no \"model\"");
    PITH_TRY(pith_json_get_str(json, "type", &type, "model", err));
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, type) != 0) continue;
        m->kind = kinds[i].kind;
        return m->kind->read(&m->own, json, err);
    }
    return pith_fail(err, PITH_UNSUPPORTED, "tokenizer model \"%.80s\" is not supported", type);
}

void pith_tok_model_free(struct pith_tok_model *m)
{
    if (m->kind) m->kind->free(m->own);
    *m = (struct pith_tok_model){0};
}

void pith_tok_model_bytes(const struct pith_vocab *vocab, int32_t byte[256])
{
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        byte[i] = pith_vocab_find(vocab, name, 6);
    }
}
