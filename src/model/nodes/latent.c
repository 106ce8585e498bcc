/* Latent attention: what the node before attention and the one behind it multiply with. */
#include "base/mem.h"
#include "model/load.h"
#include "model/nodes/nodes.h"

#include <string.h>

static const struct pith_node *absorb_of(const struct pith_layer_plan *l)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].kind == PITH_NODE_ABSORB) return &l->node[i];
    return NULL;
}

static struct pith_latent_parts parts_of(const struct pith_node *node)
{
    return (struct pith_latent_parts){.heads = node->u.latent.heads,
                                      .nope = node->u.latent.nope,
                                      .value = node->u.latent.value,
                                      .rank = node->u.latent.rank};
}

/* Parts begin at whole lines of 64 bytes. */
static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

uint64_t pith_absorbed_bytes(const struct pith_layer_plan *l)
{
    const struct pith_node *node = absorb_of(l);
    if (!node) return 0;
    const struct pith_latent_parts p = parts_of(node);
    return lines(sizeof(struct pith_absorbed)) + lines(pith_latent_k_floats(&p) * sizeof(float)) +
           lines(pith_latent_v_floats(&p) * sizeof(float)) + p.rank * sizeof(float);
}

enum pith_status pith_absorbed_make(const struct pith_layer_plan *l, bool changes,
                                    struct pith_absorbed **out, struct pith_error *err)
{
    const struct pith_node *node = absorb_of(l);
    *out = NULL;
    if (!node) return PITH_OK;
    char *memory = pith_alloc_aligned((size_t)pith_absorbed_bytes(l), 1);
    if (!memory) return pith_fail_nomem(err, "the parts of a latent attention");
    struct pith_absorbed *a = *out = (void *)memory;
    *a = (struct pith_absorbed){.changes = changes, .parts = parts_of(node)};
    memory += lines(sizeof *a);
    a->parts.k = (void *)memory;
    memory += lines(pith_latent_k_floats(&a->parts) * sizeof(float));
    a->parts.v = (void *)memory;
    memory += lines(pith_latent_v_floats(&a->parts) * sizeof(float));
    a->row = (void *)memory;
    return PITH_OK;
}

/* Row by row: a matrix made for an input that is rotated is rotated back. */
void pith_absorbed_fill(struct pith_backend *be, const struct pith_linear_weights *l,
                        struct pith_absorbed *a)
{
    const struct pith_input back = {.hadamard = l->w.dense ? l->hadamard
                                                           : pith_weight_input(&l->w).hadamard};
    if (a->made && !a->changes) return;
    for (uint32_t row = 0; row < l->w.rows; row++) {
        if (l->w.pack) pith_pack_row(l->w.pack, row, a->row);
        else pith_decode_rows(be, &l->w, row, 1, a->row);
        if (back.hadamard > 1) pith_input_apply(be, &back, a->row, 1, l->w.cols, a->row);
        pith_latent_put(&a->parts, row, 1, a->row);
    }
    a->made = true;
}

void pith_latent_join(const struct pith_node *node, size_t n, const float *latent,
                      const float *rotary, float *key)
{
    const size_t rank = node->u.latent.rank, rope = node->u.latent.rope;
    for (size_t i = 0; i < n; i++, key += rank + rope) {
        memcpy(key, latent + i * rank, rank * sizeof *key);
        memcpy(key + rank, rotary + i * rope, rope * sizeof *key);
    }
}

enum pith_status pith_node_absorb(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    const struct pith_block *b = r->block;
    const uint32_t linear = node->u.latent.linear;
    float *latent = r->reg[node->u.latent.latent];
    (void)err;
    pith_node_meet_site(r, b->plan->linear[linear].site, latent, NULL);
    if (r->stopped) return PITH_OK;
    pith_absorbed_fill(r->pass->backend, &b->linear[linear], b->absorbed);
    pith_latent_join(node, r->n, latent, r->reg[node->u.latent.rotary], r->reg[node->u.latent.key]);
    pith_latent_queries(r->pass->backend, &b->absorbed->parts, r->reg[node->in], r->n,
                        node->u.latent.rope, r->reg[node->out]);
    return PITH_OK;
}

enum pith_status pith_node_expand(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    (void)err;
    pith_latent_values(r->pass->backend, &r->block->absorbed->parts, r->reg[node->in], r->n,
                       r->reg[node->out]);
    return PITH_OK;
}
