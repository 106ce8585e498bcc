/* choose/kv_auto_record.h: the keys of what choose/kv_auto.h measured, which lies next to the
 * weights and in recipes: {"kv_auto": 1, "checkpoint", "text_sha256", "tokens", "context",
 * "numbers", "levels", "shared", "rows": of candidates, "assignments": what was made of them}. */
#ifndef PITH_CHOOSE_KV_AUTO_RECORD_H
#define PITH_CHOOSE_KV_AUTO_RECORD_H

#include "base/json.h"
#include "plan/refine.h"

/* What a candidate costs on the keys or the values of a layer. */
struct pith_kv_cost {
    char part[256];
    const char *grid;
    int recent;
    uint64_t bytes;
    double kld, capped;
};
json_t *pith_kv_cost_json(const struct pith_kv_cost *row);
/* Sets row->kld and row->capped from a row of a record; false if that differs in its part, grid,
 * recent or bytes, or has no such losses. */
bool pith_kv_cost_take(const json_t *from, struct pith_kv_cost *row);

/* What rows were measured on; bits are counted at `context` positions. `levels`: with candidates
 * that have levels; `shared`: not each alone, but by shares (choose/kv_measure.h). */
struct pith_kv_rows_source {
    const char *checkpoint, *text_sha256;
    size_t tokens, context;
    double numbers;
    bool levels, shared;
};
/* The record, without assignments; takes the reference to the rows. NULL when memory is out. */
json_t *pith_kv_rows_json(const struct pith_kv_rows_source *of, json_t *rows);

/* What an assignment loses: what its rows add up to, and where it was measured whole that too. */
struct pith_kv_losses {
    double sum;
    const struct pith_refined *whole; /* NULL: it was not */
    size_t tokens;                    /* on which it was */
};
struct pith_kv_assignment {
    double budget, bits;
    struct pith_kv_losses losses;
};
/* Adds an assignment to a record; takes the reference to `layers`, the names of their formats.
 * PITH_NOMEM. */
enum pith_status pith_kv_assignment_add(json_t *record, const struct pith_kv_assignment *a,
                                        json_t *layers, struct pith_error *err);
/* Whether the record has an assignment for so many bits; then its names, borrowed, to *layers. */
bool pith_kv_assignment_find(const json_t *record, double budget, const json_t **layers);

#endif
