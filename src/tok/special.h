/* tok/special.h: which ids begin and end a text, from the files next to the tokenizer. */
#ifndef PITH_TOK_SPECIAL_H
#define PITH_TOK_SPECIAL_H

#include "base/json.h"
#include "tok/kind.h"

/* Completes t->bos, t->eos and, for a kind of file that does not say it, t->before and t->after
 * (`kind`: that of the file, which may be read as another). Sources in order:
 * special_tokens_map.json, where there is no "added_tokens_decoder", and tokenizer_config.json
 * (bos_token, eos_token, add_bos_token, add_eos_token), then the tokenizer file, then
 * generation_config.json and config.json (bos_token_id, eos_token_id). All are optional; a broken
 * one is an error. */
enum pith_status pith_special_read(struct pith_tokenizer *t, const struct pith_tok_kind *kind,
                                   const char *dir, struct pith_error *err);

/* Appends the ids of eos_token_id of generation_config.json and of config.json, one or a list, as
 * far as the vocabulary has them. */
enum pith_status pith_special_ends(const struct pith_tokenizer *t, const char *dir,
                                   struct pith_ids *out, struct pith_error *err);

/* Appends the special tokens whose names say that they end an answer (tok/ends.def). PITH_NOMEM. */
enum pith_status pith_special_named_ends(const struct pith_tokenizer *t, struct pith_ids *out,
                                         struct pith_error *err);

#endif
