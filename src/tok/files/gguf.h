/* tok/files/gguf.h: the tokenizer that a GGUF file holds in its keys. */
#ifndef PITH_TOK_FILES_GGUF_H
#define PITH_TOK_FILES_GGUF_H

#include "io/gguf/gguf.h"
#include "tok/kind.h"

#define PITH_GGUF_CUTS 6
#define PITH_GGUF_DIGITS "\\p{N}" /* the pattern that stands for Digits, one by one */

/* A way to cut a text, as llama.cpp names it: one row of tok/files/gguf_pre.def. */
struct pith_gguf_pre {
    const char *name;
    bool ignore_merges;
    bool add_bos;                    /* unless the file says otherwise */
    bool nfc;                        /* the text is normalized before */
    bool own;                        /* ByteLevel cuts by its own pattern */
    bool marked;                     /* no ByteLevel: spaces are marks, other bytes tokens <0xFF> */
    const char *cut[PITH_GGUF_CUTS]; /* patterns of Splits before it; NULL behind the last */
};
const struct pith_gguf_pre *pith_gguf_pre_find(const char *name);
/* The row that cuts as this tokenizer.json does, best one that also normalizes so; NULL when
 * llama.cpp has none. */
const struct pith_gguf_pre *pith_gguf_pre_of(const json_t *tokenizer);

/* Fills t and sets t->kind. PITH_UNSUPPORTED names a model or a way to cut that is not known. */
enum pith_status pith_tok_gguf_read(struct pith_tokenizer *t, const struct pith_gguf *g,
                                    struct pith_error *err);
/* A new tokenizer. */
enum pith_status pith_tokenizer_from_gguf(const struct pith_gguf *g, struct pith_tokenizer **out,
                                          struct pith_error *err);
/* What ends an answer: pith_tokenizer_ends() of an open file. */
enum pith_status pith_tok_gguf_ends(const struct pith_tokenizer *t, const struct pith_gguf *g,
                                    struct pith_ids *out, struct pith_error *err);
/* The tokenizer.json that says the same as the keys: of models of kind "gpt2" the one that they
 * were made from, of kind "llama" the one that Hugging Face's converter makes; *out is a new
 * reference. PITH_FORMAT for lists that are none, PITH_UNSUPPORTED for a way to cut that is not
 * known. */
enum pith_status pith_tok_gguf_json(const struct pith_gguf *g, json_t **out,
                                    struct pith_error *err);

#endif
