/* model/nodes.h: a layer's program at work; inside model/ only. */
#ifndef PITH_MODEL_NODES_H
#define PITH_MODEL_NODES_H

#include "backend/input.h"
#include "model/model.h"

struct pith_node_run {
    const struct pith_pass *pass;
    const struct pith_block *block;
    float *const *reg;
    size_t n;                        /* rows */
    const struct pith_kv_span *span; /* what sequences and positions they are of */
    size_t spans;
    uint32_t site; /* whose input `in` is; PITH_NO_PART: none yet */
    bool met;      /* the first site's input was tapped and rotated before */
    bool stopped;
    struct pith_site_input in;
};

/* Makes x[r->n][dim] the input of the linears that follow: rotates it where its only linear is made
 * for that, and tells the tap. */
void pith_node_meet_site(struct pith_node_run *r, uint32_t site, float *x, float *work);
/* out = linear(input); nothing when the tap has stopped the pass. */
void pith_node_linear(struct pith_node_run *r, uint32_t linear, float *out);
/* gate = act(gate) * up, as the model's shape says. */
void pith_node_gate(const struct pith_node_run *r, float *gate, const float *up, size_t count);

enum pith_status pith_node_absorb(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err);
enum pith_status pith_node_expand(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err);
enum pith_status pith_node_conv(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err);
enum pith_status pith_node_delta(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err);
enum pith_status pith_node_scan(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err);
enum pith_status pith_node_experts(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err);

/* The experts that a row with those logits takes, in ascending order, and their weights:
 * chosen[taken], share[taken]. `score` has room for two numbers an expert. */
void pith_route(const struct pith_moe *m, const float *logits, const float *correction,
                float *score, uint32_t *chosen, float *share);

#endif
