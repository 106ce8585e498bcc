/* tok/kind.h: what a kind of tokenizer file provides; the kinds are listed in
 * tok/tokenizer.c. */
#ifndef PITH_TOK_KIND_H
#define PITH_TOK_KIND_H

#include "base/json.h"
#include "tok/decoder.h"
#include "tok/tokenizer.h"

/* What is encoded. */
struct pith_tok_text {
    const char *text; /* well-formed */
    size_t size;
    const uint8_t *marks; /* [size]: of a prompt, 1 where a byte may not be of a special token; NULL
                             of another text, or where all may */
    bool prompt;          /* control tokens of the text are what they name */
    const struct pith_progress *listener; /* called now and then, or NULL */
};

struct pith_tok_kind {
    /* Fills t from the content of the file (model, decoder, before, after, bos, eos). On failure
     * what was filled is released by the caller. */
    enum pith_status (*read)(struct pith_tokenizer *t, const char *data, size_t size,
                             struct pith_error *err);
    /* The same from the folder, for kinds that other files of it add to. */
    enum pith_status (*read_dir)(struct pith_tokenizer *t, const char *dir, struct pith_error *err);
    /* For kinds that are read as the tokenizer.json that says the same, instead of all else here:
     * it is put together of the folder's files; *out is a new reference, or after a failure a part
     * of it or NULL. */
    enum pith_status (*json)(const char *dir, json_t **out, struct pith_error *err);
    void (*free)(void *model); /* accepts a half-filled model and NULL */
    /* Appends the ids of a text, without the post-processor. Thread-safe. */
    enum pith_status (*encode)(const void *model, const struct pith_tok_text *text,
                               struct pith_ids *out, struct pith_error *err);
    /* What the decoder is fed for an id; NULL: nothing (no such token, or a special one is
     * skipped). */
    const char *(*token)(const void *model, int32_t id, bool skip_special, size_t *len);
    int32_t (*find)(const void *model, const char *text, size_t len); /* -1: none */
    size_t (*vocab)(const void *model);                               /* largest id + 1 */
    /* A mix of what joins symbols to tokens (merges with their ranks, or scores), in any order: two
     * models of this kind with other rules have another; 0: it has none that could be compared. */
    uint64_t (*rules)(const void *model);
    /* The files of this kind do not say what surrounds a text: tokenizer_config.json does, else BOS
     * is in front when add_bos. */
    bool surrounds, add_bos;
    const char *bos, *eos; /* what tokens are always called, or NULL */
};

struct pith_tokenizer {
    const struct pith_tok_kind *kind;
    void *model;
    struct pith_decoder decoder;
    struct pith_ids before, after;        /* what the post-processor puts around the ids */
    int32_t bos, eos;                     /* -1: none */
    const struct pith_progress *listener; /* called while encoding, or NULL */
};

extern const struct pith_tok_kind pith_tok_json, pith_tok_tekken, pith_tok_spm, pith_tok_tiktoken,
    pith_tok_vocab;

/* Sets t's decoder to that of SentencePiece, for what its model says of spaces. */
struct pith_spm_model;
enum pith_status pith_tok_spm_decoder(struct pith_tokenizer *t, const struct pith_spm_model *m,
                                      struct pith_error *err);

#endif
