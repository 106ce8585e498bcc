/* tok/model.h: the "model" of a tokenizer.json, which makes ids of one piece of text; the models
 * that exist are listed in tok/model.c. */
#ifndef PITH_TOK_MODEL_H
#define PITH_TOK_MODEL_H

#include "base/json.h"
#include "tok/merge.h"
#include "tok/tokenizer.h"
#include "tok/unigram.h"
#include "tok/vocab.h"

/* Scratch of one encoding thread, for any model; start with {0}, or with the beats of a listener.
 */
struct pith_tok_model_run {
    struct pith_word word;
    struct pith_unigram_run path;
};
void pith_tok_model_run_free(struct pith_tok_model_run *run);

struct pith_tok_model_kind {
    /* Makes the model; on failure *model may hold a part of it, which the caller frees. */
    enum pith_status (*read)(void **model, const json_t *json, struct pith_error *err);
    void (*free)(void *model); /* accepts a part of a model and NULL */
    const struct pith_vocab *(*vocab)(const void *model);
    /* Appends the ids of one piece (len > 0, well-formed). */
    enum pith_status (*encode)(const void *model, struct pith_tok_model_run *run, const char *text,
                               size_t len, struct pith_ids *out, struct pith_error *err);
    /* A mix of its rules, as pith_tok_kind's; NULL: it has none but its vocabulary. */
    uint64_t (*rules)(const void *model);
    bool numbered; /* added tokens have the ids that their list says, whatever their texts are */
};

extern const struct pith_tok_model_kind pith_tok_model_bpe, pith_tok_model_unigram,
    pith_tok_model_tiktoken;

/* A model with what it is; start with {0}. */
struct pith_tok_model {
    const struct pith_tok_model_kind *kind;
    void *own;
};

/* Reads the "model" object. PITH_UNSUPPORTED names a kind that is not known. */
enum pith_status pith_tok_model_read(struct pith_tok_model *m, const json_t *json,
                                     struct pith_error *err);
void pith_tok_model_free(struct pith_tok_model *m);

/* The ids of <0x00>..<0xFF>, -1 where the vocabulary lacks one. */
void pith_tok_model_bytes(const struct pith_vocab *vocab, int32_t byte[256]);

#endif
