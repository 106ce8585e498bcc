/* tok/files/gguf_lists.h: the vocabulary that a GGUF file holds in its keys, and what is made of
 * it. Inside tok/ only. */
#ifndef PITH_TOK_FILES_GGUF_LISTS_H
#define PITH_TOK_FILES_GGUF_LISTS_H

#include "tok/files/gguf.h"

/* The lists of a vocabulary, of equal length. */
struct pith_gguf_lists {
    const struct pith_gguf *g;
    const struct pith_gguf_key *tokens, *types, *scores, *merges; /* all but tokens may be NULL */
};
/* PITH_FORMAT when there are no tokens, or lists of another type or of fewer entries. */
enum pith_status pith_gguf_lists_get(const struct pith_gguf *g, struct pith_gguf_lists *l,
                                     struct pith_error *err);
/* Of a token: enum pith_spm_type, 1 where the file does not say; its score, else 0. */
int32_t pith_gguf_lists_type(const struct pith_gguf_lists *l, size_t id);
float pith_gguf_lists_score(const struct pith_gguf_lists *l, size_t id);

/* The piece that stands for what is unknown: the one with the id that the file names, else the
 * first of that type; *out is -1 where there is none. llama.cpp's converter may give that type to
 * what fills up the vocabulary, too. */
enum pith_status pith_gguf_lists_unknown(const struct pith_gguf_lists *l, int64_t *out,
                                         struct pith_error *err);
/* Puts the tokens that are not of the type `without` (0: all) into a vocabulary, {text: id}, and
 * those that are not part of the model into a list of "added_tokens" as well. PITH_FORMAT for what
 * is no text, or there twice. */
enum pith_status pith_gguf_lists_put(const struct pith_gguf_lists *l, int32_t without,
                                     json_t *vocab, json_t *added, struct pith_error *err);
/* The token of an id, borrowed; NULL when it is not in the vocabulary. */
const char *pith_gguf_name_of(const json_t *vocab, int64_t id);

/* Ids in front of and behind a text, -1 where there is none. */
struct pith_gguf_around {
    int64_t bos, eos; /* that there are */
    bool add_bos, add_eos;
};
/* What the file says of them; what it does not stays as it is. */
enum pith_status pith_gguf_around_get(const struct pith_gguf *g, uint64_t vocab,
                                      struct pith_gguf_around *a, struct pith_error *err);
/* The post_processor of a tokenizer.json that puts them around a text; NULL when their tokens are
 * not in the vocabulary, there are none, or memory is out. */
json_t *pith_gguf_post_processor(const json_t *vocab, const struct pith_gguf_around *a);

/* gguf_spm.c: the normalizer that makes spaces marks, with a mark in front if there is a `prefix`,
 * and the decoder that makes them spaces again; NULL: memory is out. */
json_t *pith_gguf_marks(bool prefix);
json_t *pith_gguf_unmarks(bool prefix);
/* gguf_spm.c: the tokenizer.json that Hugging Face's converter would make of a model of kind
 * "llama"; *out is a new reference. */
enum pith_status pith_gguf_spm_json(const struct pith_gguf *g, json_t **out,
                                    struct pith_error *err);

#endif
