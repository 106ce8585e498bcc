/* tok/files/tiktoken.h: tokenizers of tiktoken, which are a list of tokens in the order in which
 * pairs join to them, as a tokenizer.json whose model is "tiktoken". */
#ifndef PITH_TOK_FILES_TIKTOKEN_H
#define PITH_TOK_FILES_TIKTOKEN_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A tokenizer.json that cuts by a pattern; *out is a new reference, and takes those to vocab and
 * added, after failure too. PITH_NOMEM. */
enum pith_status pith_tiktoken_json(const char *pattern, json_t *vocab, json_t *added, json_t **out,
                                    struct pith_error *err);
/* Puts a token in base64 into the vocabulary. PITH_FORMAT, naming the file, when it is none, or has
 * an id already. */
enum pith_status pith_tiktoken_put(const char *file, json_t *vocab, const char *text, size_t len,
                                   size_t id, struct pith_error *err);
/* Appends a token with its own id to the list of added ones. PITH_NOMEM. */
enum pith_status pith_tiktoken_add(json_t *list, const char *text, size_t id, bool special,
                                   struct pith_error *err);
/* The merges that give such a tokenizer.json the same ids; *out is a new reference. PITH_NOMEM. */
enum pith_status pith_tiktoken_merges(const json_t *json, json_t **out, struct pith_error *err);

#endif
