/* tok/pretokenizer.h: the "pre_tokenizer" of a tokenizer.json: text is cut into pieces (words),
 * some of which are rewritten, and the model sees each piece alone. A component becomes one or more
 * of four primitive steps; the components that exist are a table in pretokenizer.c. */
#ifndef PITH_TOK_PRETOKENIZER_H
#define PITH_TOK_PRETOKENIZER_H

#include "base/json.h"
#include "base/str.h"
#include "tok/regex/regex.h"

#include <stdbool.h>

struct pith_pretok_step;
struct pith_pretok_run;

/* A piece of text. `first`: it begins where the whole original text begins. */
struct pith_piece {
    const char *text;
    size_t len;
    bool first;
};

/* Receives the final pieces, in order, none empty. */
typedef enum pith_status pith_piece_fn(void *ctx, struct pith_piece piece, struct pith_error *err);

/* Start with {0}. */
struct pith_pretokenizer {
    struct pith_pretok_step *step;
    size_t count;
};

/* Reads the component (NULL or JSON null: no steps). PITH_UNSUPPORTED names what is not known. */
enum pith_status pith_pretokenizer_read(struct pith_pretokenizer *p, const json_t *json,
                                        struct pith_error *err);
void pith_pretokenizer_free(struct pith_pretokenizer *p);

/* Scratch of one text for this pretokenizer, which must outlive it; the listener (or NULL) is
 * called at intervals. */
enum pith_status pith_pretok_run_new(const struct pith_pretokenizer *p,
                                     const struct pith_progress *listener,
                                     struct pith_pretok_run **out, struct pith_error *err);
void pith_pretok_run_free(struct pith_pretok_run *run);

/* Cuts one well-formed part of the text. PITH_LIMIT when the steps make it too long. */
enum pith_status pith_pretokenizer_apply(struct pith_pretok_run *run, struct pith_piece text,
                                         pith_piece_fn *fn, void *ctx, struct pith_error *err);

#endif
