/* quantize/ranks/makers.h: linears of a list, each made by one rank, its maker, which another may
 * store. Alone the caller makes all (maker 0), and nothing goes anywhere. All ranks make the calls
 * that share or hand in in the same order. */
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

/* How many linears are made at a time, each by another rank; the maker of number i of a list. */
unsigned pith_makers(const struct pith_run *r);
unsigned pith_maker_of(const struct pith_run *r, size_t i);
/* Of a layer's linears by their weights, maker[plan->linears], which is all 0: those with the most
 * weights first, each to who has the least. */
void pith_makers_of_layer(const struct pith_run *r, uint32_t layer, unsigned *maker);
bool pith_maker_is_here(const struct pith_run *r, unsigned maker);

/* What the maker has in data becomes everyone's. */
enum pith_status pith_maker_share(const struct pith_run *r, unsigned maker, void *data,
                                  size_t bytes, struct pith_error *err);
/* ... is also where the account is written, rank 0. */
enum pith_status pith_maker_report(const struct pith_run *r, unsigned maker, void *data,
                                   size_t bytes, struct pith_error *err);
/* The matrix, to rank 0, if that stores all (pith_writers_share() is false), with `input` also what
 * is done to its input. q is made there, and to be freed. */
enum pith_status pith_maker_hand_in(const struct pith_run *r, unsigned maker, bool input,
                                    struct pith_qmat *q, struct pith_error *err);
/* Then what became of it, to where the account is written: its tensors have no hash there yet, if
 * the maker stored them. */
enum pith_status pith_maker_result(const struct pith_run *r, unsigned maker,
                                   const struct pith_choice *c, struct pith_linear_result *made,
                                   struct pith_error *err);

#endif
