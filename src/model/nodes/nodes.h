/* model/nodes/nodes.h: a layer's program at work; inside model/ only. */
#ifndef PITH_MODEL_NODES_NODES_H
#define PITH_MODEL_NODES_NODES_H

#include "backend/input.h"
#include "backend/layer.h"
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
    const struct pith_node *end; /* of the nodes that are run */
    uint32_t along;              /* nodes behind the present one that it did as well */
    struct pith_site_input in;
};

/* Makes x[r->n][dim] the input of the linears that follow: rotates it where its only linear is made
 * for that, and calls the tap. */
void pith_node_meet_site(struct pith_node_run *r, uint32_t site, float *x, float *work);
/* out = linear(input); nothing when the tap has stopped the pass. */
void pith_node_linear(struct pith_node_run *r, uint32_t linear, float *out);
/* gate = act(gate) * up, as the model's shape says. */
void pith_node_gate(const struct pith_node_run *r, float *gate, const float *up, size_t count);

/* Nodes by their kind (model/plan.h), r->n rows of the spans: from the registers that the node
 * names into its own. Those that keep something per sequence go on from what the spans' positions
 * say: PITH_LIMIT when the cache is full, PITH_ARG when a state has seen other positions. */
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
enum pith_status pith_node_per_layer(struct pith_node_run *r, const struct pith_node *node,
                                     struct pith_error *err);
enum pith_status pith_node_experts(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err);

/* out[n][shape.tokens.width] = that layer's vectors of the tokens, which are whole numbers;
 * work[n][hidden] is overwritten. PITH_ARG for a token outside the vocabulary. */
struct pith_per_layer_rows {
    size_t n;
    const float *token;
    float *work, *out;
};
enum pith_status pith_per_layer_rows(const struct pith_model *m, struct pith_backend *be,
                                     uint32_t layer, const struct pith_per_layer_rows *r,
                                     struct pith_error *err);
/* What a row at that position is multiplied with. */
float pith_temper_factor(const struct pith_node *temper, size_t position);
/* What nodes compute, without a pass: y[n] of `norm` from x[n]; parts of `split` (its registers, as
 * they lie) from in[n], or with `back` in[n] += what is in the parts; a linear's own parts of a
 * latent attention. */
void pith_norm_rows(struct pith_backend *be, const struct pith_block *b,
                    const struct pith_node *node, const float *x, size_t n, float *y);
void pith_split_rows(const struct pith_node *node, size_t n, float *in, float *const part[4],
                     bool back);
void pith_absorbed_fill(struct pith_backend *be, const struct pith_linear_weights *l,
                        struct pith_absorbed *a);
/* key = [latent | rotary part] of n rows. */
void pith_latent_join(const struct pith_node *node, size_t n, const float *latent,
                      const float *rotary, float *key);
/* The arguments of those nodes for backend/layer.h: the block's weights and the node's sizes. Rows,
 * how many, angles, state and output are the caller's to fill in. */
struct pith_conv pith_conv_of(const struct pith_block *b, const struct pith_node *node);
struct pith_delta pith_delta_of(const struct pith_block *b, const struct pith_node *node);
struct pith_scan pith_scan_of(const struct pith_block *b, const struct pith_node *node);
struct pith_rope_part pith_rope_of(const struct pith_node *node);
/* Lists the places of s->chosen by expert, rows ascending: s->order, s->begin. */
void pith_experts_sort(const struct pith_moe *m, struct pith_scratch *s, size_t n);

/* The experts that a row with those logits takes, in ascending order, and their weights:
 * chosen[taken], share[taken]. `score` has room for two numbers an expert. */
void pith_route(const struct pith_moe *m, const float *logits, const float *correction,
                float *score, uint32_t *chosen, float *share);
/* The same for the n rows of a node, with the block's vectors: chosen[n][taken], share[n][taken].
 */
struct pith_routing {
    const float *logits;
    size_t n;
    float *score; /* room for two numbers an expert */
    uint32_t *chosen;
    float *share;
};
void pith_route_rows(const struct pith_moe *m, const struct pith_block *b,
                     const struct pith_node *node, const struct pith_routing *r);
/* The scores behind the weights: of all experts (but TOP's are logits) to score[experts], which has
 * room for two numbers an expert, and of those chosen to share[taken]. And what the weights' sum is
 * divided by. */
void pith_route_scores(const struct pith_moe *m, const float *logits, const uint32_t *chosen,
                       float *score, float *share);
double pith_route_over(const struct pith_moe *m, double sum);

/* Who of a row's chosen[taken] gives way first, and to whom (block_grad.h). `score` has room for
 * two numbers an expert. */
struct pith_rival;
void pith_route_rival(const struct pith_moe *m, const float *logits, const float *correction,
                      const uint32_t *chosen, float *score, struct pith_rival *out);
/* d[experts] += d_margin times the margin's gradient with respect to the logits. */
struct pith_rival_grad {
    const struct pith_rival *rival;
    float d_margin;
    float *d;
};
void pith_route_rival_grad(const struct pith_moe *m, const float *logits, bool corrected,
                           float *score, const struct pith_rival_grad *g);

#endif
