/* tok/compare.h: whether two tokenizers are one, whatever files they were read from. */
#ifndef PITH_TOK_COMPARE_H
#define PITH_TOK_COMPARE_H

#include "tok/tokenizer.h"

/* Compares the tokens by id, and which of them are special (GGUF files fill up what the model has
 * more: ids that only the larger vocabulary has may not be what a text becomes), what is put around
 * a text, BOS and EOS, the merges or scores where both are of one kind, the texts that they give to
 * every token and to runs of tokens, and the ids that they give to these. *why (start with {0})
 * stays empty when nothing differs, else it has the first difference. PITH_NOMEM only. */
enum pith_status pith_tokenizer_compare(const struct pith_tokenizer *a,
                                        const struct pith_tokenizer *b, struct pith_str *why,
                                        struct pith_error *err);

#endif
