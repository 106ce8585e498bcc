/* tok/compare.h: whether two tokenizers are one, whatever files they were read from. */
#ifndef PITH_TOK_COMPARE_H
#define PITH_TOK_COMPARE_H

#include "tok/tokenizer.h"

/* Compares the tokens by id (ids that only the larger vocabulary has are left out, since GGUF files
 * fill up what the model has more), what is put around a text, BOS and EOS, the merges or scores
 * where both are of one kind, and the ids that they give to the text of every token and of runs of
 * tokens. *why (start with {0}) stays empty when nothing differs, else it tells the first
 * difference. PITH_NOMEM only. */
enum pith_status pith_tokenizer_compare(const struct pith_tokenizer *a,
                                        const struct pith_tokenizer *b, struct pith_str *why,
                                        struct pith_error *err);

#endif
