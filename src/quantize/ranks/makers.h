/* quantize/ranks/makers.h: linears that are each made by one rank, the maker, and stored by it or
 * by rank 0. Alone the caller makes all (maker 0), and nothing is sent. All ranks make the calls
 * that send in the same order. */
#ifndef PITH_QUANTIZE_RANKS_MAKERS_H
#define PITH_QUANTIZE_RANKS_MAKERS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_choice;
struct pith_linear_result;
struct pith_qmat;
struct pith_run;

/* How many ranks make linears. */
unsigned pith_makers(const struct pith_run *r);
/* The maker of number i of a list: i modulo the ranks. */
unsigned pith_maker_of(const struct pith_run *r, size_t i);
/* The makers of a layer's linears, maker[plan->linears], which the caller has zeroed: the largest
 * linear first, each to the rank with the fewest weights so far; an expert's to its owner. */
void pith_makers_of_layer(const struct pith_run *r, uint32_t layer, unsigned *maker);
/* Whether this rank is the maker. */
bool pith_maker_is_here(const struct pith_run *r, unsigned maker);

/* What the maker has in data becomes everyone's. */
enum pith_status pith_maker_share(const struct pith_run *r, unsigned maker, void *data,
                                  size_t bytes, struct pith_error *err);
/* What the maker has in data goes to rank 0, which writes the account. */
enum pith_status pith_maker_report(const struct pith_run *r, unsigned maker, void *data,
                                   size_t bytes, struct pith_error *err);
/* Sends the matrix to rank 0 if that stores all (pith_writers_share() is false); with `input`, also
 * what is done to the linear's input. Rank 0 receives *q, and frees it. */
enum pith_status pith_maker_hand_in(const struct pith_run *r, unsigned maker, bool input,
                                    struct pith_qmat *q, struct pith_error *err);
/* Then sends its result to rank 0. If the maker stored the tensors, *made has no hashes of them on
 * the other ranks yet (pith_writers_end()). */
enum pith_status pith_maker_result(const struct pith_run *r, unsigned maker,
                                   const struct pith_choice *c, struct pith_linear_result *made,
                                   struct pith_error *err);

#endif
