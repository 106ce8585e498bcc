/* tok/post.h: the "post_processor" of a tokenizer.json: which ids stand before and behind a text.
 */
#ifndef PITH_TOK_POST_H
#define PITH_TOK_POST_H

#include "base/json.h"
#include "tok/tokenizer.h"

/* Reads the component (NULL or JSON null: nothing) for a single text. PITH_UNSUPPORTED for
 * templates that repeat or omit the text, and for unknown components. */
enum pith_status pith_post_read(const json_t *json, struct pith_ids *before, struct pith_ids *after,
                                struct pith_error *err);

#endif
