/* tok/added_files.h: tokens that stand beside a SentencePiece model, in the folder's other files.
 */
#ifndef PITH_TOK_ADDED_FILES_H
#define PITH_TOK_ADDED_FILES_H

#include "tok/spm_model.h"

/* Adds them to a model that is not finished: those of added_tokens.json and of the
 * "added_tokens_decoder" of tokenizer_config.json, by id. What these or special_tokens_map.json
 * call special is a control piece, others are PITH_SPM_ADDED. Ids between that nobody names become
 * unused pieces. "legacy": false of tokenizer_config.json sets prefix_once, and
 * "add_prefix_space": false takes dummy_prefix away. PITH_FORMAT for a token
 * without an id, PITH_LIMIT for an id far beyond the others. */
enum pith_status pith_added_files(struct pith_spm_model *m, const char *dir,
                                  struct pith_error *err);

#endif
