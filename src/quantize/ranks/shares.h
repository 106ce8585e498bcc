/* quantize/ranks/shares.h: which of several ranks rounds which linears, or which rows of those that
 * read one input. */
#ifndef PITH_QUANTIZE_RANKS_SHARES_H
#define PITH_QUANTIZE_RANKS_SHARES_H

#include "model/plan.h"

#include <stdbool.h>
#include <stdint.h>

#define PITH_TO_ALL UINT32_MAX /* in place of a rank: every one, or none alone */
enum { PITH_SPREAD_MOST = 16 }; /* linears that read one input, without experts' */

/* A linear: its rows, 0 where none are rounded, and of how many a rank's part is a multiple (0: one
 * rank has all of it; pith_round_cut()). */
struct pith_spread_part {
    uint32_t rows, unit;
};
/* Each rank gets about as many of l[linears], at most PITH_SPREAD_MOST: rank k those of linear i
 * from first[i * (ranks + 1) + k] to that of k + 1. */
void pith_spread_rows(const struct pith_spread_part *l, uint32_t linears, unsigned ranks,
                      uint32_t *first);
/* The same of one linear of which `owner` has all rows. */
void pith_spread_whole(uint32_t rows, unsigned ranks, unsigned owner, uint32_t *first);

/* What is rounded linear by linear, is(ctx, i) of a layer's: owner[linears], those with the most
 * weights first, each to who has the least; an expert's rank is its number modulo ranks. */
void pith_spread_owners(const struct pith_layer_plan *l,
                        bool (*is)(const void *ctx, uint32_t linear), const void *ctx,
                        unsigned ranks, unsigned *owner);

/* The rank with the least load[ranks], the first of several; 0 without ranks. */
unsigned pith_spread_least(const uint64_t *load, unsigned ranks);

/* The rank that has all rows of a linear, first[ranks + 1] of these, or PITH_TO_ALL. */
unsigned pith_rows_owner(const uint32_t *first, unsigned ranks);
/* Whether a rank has any rows of so many linears; how many ranks have some. */
bool pith_rows_some(const uint32_t *first, uint32_t linears, unsigned ranks, unsigned rank);
unsigned pith_rows_workers(const uint32_t *first, uint32_t linears, unsigned ranks);

#endif
