/* tok/bpe.h: the BPE model of a tokenizer.json: vocabulary, merge list, and what happens to
 * characters that the vocabulary lacks. */
#ifndef PITH_TOK_BPE_H
#define PITH_TOK_BPE_H

#include "base/json.h"
#include "tok/merge.h"
#include "tok/tokenizer.h"
#include "tok/vocab.h"

/* Start with {0}. */
struct pith_bpe {
    struct pith_vocab vocab;
    struct pith_merges merges;
    int32_t byte[256]; /* ids of <0x00>..<0xFF>; -1 where missing or without byte_fallback */
    int32_t unk;       /* -1: unknown characters vanish */
    bool fuse_unk, ignore_merges;
    char *prefix, *suffix; /* of characters inside a word, of its last one; NULL: none */
};

/* Reads the "model" object. */
enum pith_status pith_bpe_read(struct pith_bpe *b, const json_t *json, struct pith_error *err);
/* Adds merge number `rank` of two tokens, which must be in the vocabulary as must what they join
 * to. */
enum pith_status pith_bpe_merge(struct pith_bpe *b, const char *left, size_t left_len,
                                const char *right, size_t right_len, size_t rank,
                                struct pith_error *err);
void pith_bpe_free(struct pith_bpe *b);

/* Appends the ids of one piece (len > 0); w is the calling thread's scratch. */
enum pith_status pith_bpe_encode(const struct pith_bpe *b, struct pith_word *w, const char *text,
                                 size_t len, struct pith_ids *out, struct pith_error *err);

#endif
