/* calib/grads.h: gradients of a block's matrices over windows of which several ranks have some, to
 * the bits that one rank alone would have.
 *
 * An element of such a gradient is one chain of multiply-adds over the tokens, window after window.
 * So it goes from rank to rank like a baton (calib/relay.h): a rank first takes its windows there
 * and back and keeps what the matrices gave and read; then rows of the matrices go along the ranks,
 * one panel behind another, each rank goes on with the chains over its own windows, and the last
 * hands the sums to all. Rank k's windows come before those of rank k + 1. */
#ifndef PITH_CALIB_GRADS_H
#define PITH_CALIB_GRADS_H

#include "calib/relay.h"
#include "model/grad/block_grad.h"

struct pith_grads {
    struct pith_backend *backend; /* borrowed, as are the ranks */
    struct pith_ranks *ranks;
    float *room; /* [floats], of the stored rows */
    size_t floats, used;
    struct pith_tape_product *product; /* [most], in the order in which they came */
    size_t products, most;
    bool full; /* something had no place */
    void *memory;
    uint64_t bytes; /* of it */
};

/* For so many windows of `length` tokens through blocks of that plan. PITH_NOMEM. */
struct pith_grads_room {
    const struct pith_model *model;
    const struct pith_layer_plan *plan;
    size_t windows, length;
    bool biases; /* of these, too */
};
enum pith_status pith_grads_open(struct pith_grads *g, struct pith_backend *be,
                                 struct pith_ranks *ranks, const struct pith_grads_room *room,
                                 struct pith_error *err);
void pith_grads_close(struct pith_grads *g);
/* The same for blocks of another plan, in the memory that is there if that is enough. Stored rows
 * are dropped. */
enum pith_status pith_grads_fit(struct pith_grads *g, const struct pith_grads_room *room,
                                struct pith_error *err);
uint64_t pith_grads_bytes(const struct pith_grads_room *room);

/* Drops the stored rows. */
void pith_grads_begin(struct pith_grads *g);
/* A struct pith_tape_grad's product, of a struct pith_grads: keeps it. */
void pith_grads_keep(void *ctx, const struct pith_tape_product *p);
/* Every w[linears] that is not NULL, [rows][cols] as in the plan, becomes what it is at rank 0
 * (elsewhere it is not read), plus the products of all ranks' stored rows; likewise bias[linears],
 * [rows], or NULL. pith_grads_pass(): at the last rank, elsewhere they are scratch then;
 * pith_grads_meet(): everywhere. */
struct pith_grads_sums {
    float *const *w, *const *bias;
};
enum pith_status pith_grads_pass(struct pith_grads *g, const struct pith_layer_plan *plan,
                                 const struct pith_grads_sums *sums, struct pith_error *err);
enum pith_status pith_grads_meet(struct pith_grads *g, const struct pith_layer_plan *plan,
                                 const struct pith_grads_sums *sums, struct pith_error *err);

#endif
