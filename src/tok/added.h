/* tok/added.h: tokens outside the model's vocabulary ("added_tokens"): they are cut out
 * of the text before the model sees it, in two passes: those with normalized == false out of the
 * raw text, the others (in their normalized spelling) out of the normalized text. */
#ifndef PITH_TOK_ADDED_H
#define PITH_TOK_ADDED_H

#include "base/json.h"
#include "tok/matcher.h"
#include "tok/normalizer.h"
#include "tok/vocab.h"

#include <stdbool.h>

struct pith_added_token {
    char *text;  /* as the user writes it */
    char *shown; /* normalized spelling: what is matched and decoded; NULL: text */
    size_t len, shown_len;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
};

/* Start with {0}. */
struct pith_added {
    struct pith_added_token *token;
    size_t count;
    struct pith_matcher raw, normal; /* values are indexes of token */
    int32_t *by_id;                  /* index + 1, 0 where the id is not an added token */
    size_t ids;
};

/* Reads the list (NULL: none). An id is the one that the file says when `numbered`; else the
 * model's where it knows the text, and the others are numbered on from the end of the vocabulary,
 * as Hugging Face tokenizers does whatever the file says. */
enum pith_status pith_added_read(struct pith_added *a, const json_t *list,
                                 const struct pith_vocab *vocab, const struct pith_normalizer *n,
                                 bool numbered, struct pith_error *err);
/* The token with this text / id, NULL when there is none. */
const struct pith_added_token *pith_added_find(const struct pith_added *a, const char *text,
                                               size_t len);
const struct pith_added_token *pith_added_by_id(const struct pith_added *a, int32_t id);
void pith_added_free(struct pith_added *a);

/* Called for the parts of a text in order: an added token, or (token NULL) text[from..to). */
typedef enum pith_status pith_added_part_fn(void *ctx, size_t from, size_t to,
                                            const struct pith_added_token *token,
                                            struct pith_error *err);
/* The text to be cut. */
struct pith_added_text {
    const char *text;
    size_t len;
    bool normal;          /* it is normalized */
    const uint8_t *marks; /* [len], or NULL: where a byte is marked, no markup may stand */
};
enum pith_status pith_added_split(const struct pith_added *a, const struct pith_added_text *text,
                                  pith_added_part_fn *fn, void *ctx, struct pith_error *err);
/* Whether a token is markup: special, or in angle or square brackets as "<think>" and "[INST]" are,
 * and not a word or blanks that were added. */
bool pith_added_markup(const struct pith_added_token *t);

#endif
