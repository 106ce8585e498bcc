/* tok/files/added_files.h: tokens outside a vocabulary, in the folder's other files. */
#ifndef PITH_TOK_FILES_ADDED_FILES_H
#define PITH_TOK_FILES_ADDED_FILES_H

#include "base/json.h"
#include "tok/files/spm_model.h"

/* Adds them to a model that is not finished: those of added_tokens.json and of the
 * "added_tokens_decoder" of tokenizer_config.json, by id. What these or special_tokens_map.json
 * call special is a control piece, others are PITH_SPM_ADDED. Ids between that nobody names become
 * unused pieces. "legacy": false of tokenizer_config.json sets prefix_once, and
 * "add_prefix_space": false takes dummy_prefix away. What only lists of special tokens name comes
 * behind all of them, as far as config.json has rows for it. PITH_FORMAT for a token
 * without an id, PITH_LIMIT for an id far beyond the others. */
enum pith_status pith_added_files(struct pith_spm_model *m, const char *dir,
                                  struct pith_error *err);

/* Appends to "added_tokens" of a tokenizer.json what only the other files name: the
 * "added_tokens_decoder" (where there is none, added_tokens.json and special_tokens_map.json too)
 * and the lists of special tokens of tokenizer_config.json, in the order in which transformers
 * numbers them on behind the vocabulary, whatever id they say. Only as far as "vocab_size" of
 * config.json has rows for them: without a row a token is no more than its text. */
enum pith_status pith_added_json(json_t *json, const char *dir, struct pith_error *err);

#endif
