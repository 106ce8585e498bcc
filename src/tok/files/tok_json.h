/* tok/files/tok_json.h: filling a tokenizer from a parsed tokenizer.json. */
#ifndef PITH_TOK_FILES_TOK_JSON_H
#define PITH_TOK_FILES_TOK_JSON_H

#include "base/json.h"
#include "tok/kind.h"

/* t->kind is pith_tok_json. On failure what was filled is released by the caller of the kind's
 * reader. */
enum pith_status pith_tok_json_fill(struct pith_tokenizer *t, const json_t *json,
                                    struct pith_error *err);

#endif
