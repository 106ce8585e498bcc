#include "model/grad/head_grad.h"

#include "backend/grad.h"
#include "base/mem.h"

#include <string.h>

/* Words of the vocabulary at a time, as floats. */
enum { WORDS = 1024 };

/* Of what the head's product gave, from that of the logits: scaled, then capped. */
static void through_cap(const struct pith_model *m, const struct pith_head_grad *g)
{
    const float scale = m->shape.ends.logit_scale != 0 ? (float)m->shape.ends.logit_scale : 1.0f;
    const float cap = (float)m->shape.ends.logit_cap;
    const size_t count = g->n * m->shape.vocab;
    if (cap <= 0 && scale == 1.0f) return;
    for (size_t i = 0; i < count; i++) {
        const float bent = cap > 0 ? g->logits[i] / cap : 0.0f;
        g->d_logits[i] *= scale * (1.0f - bent * bent);
    }
}

static void through_norm(const struct pith_model *m, struct pith_backend *be,
                         const struct pith_head_grad *g, double *work)
{
    if (m->shape.ends.last_norm == PITH_LAST_NORM_NONE) return;
    if (work)
        pith_norm_vectors_grad(be, &(struct pith_norm_vectors){.x = g->x,
                                                               .dy = g->d_x,
                                                               .n = g->n,
                                                               .dim = m->shape.hidden,
                                                               .eps = m->shape.eps,
                                                               .centred = m->arch->norm.centred,
                                                               .d_weight = g->d_gain,
                                                               .d_bias = g->d_bias,
                                                               .work = work});
    pith_rmsnorm_grad(be, &(struct pith_rmsnorm_grad){.x = g->x,
                                                      .weight = m->final_norm,
                                                      .dy = g->d_x,
                                                      .n = g->n,
                                                      .dim = m->shape.hidden,
                                                      .eps = m->shape.eps,
                                                      .dx = g->d_x,
                                                      .centred = m->arch->norm.centred});
}

enum pith_status pith_head_grad(const struct pith_model *m, struct pith_backend *be,
                                const struct pith_head_grad *g, struct pith_error *err)
{
    const size_t hidden = m->shape.hidden, vocab = m->shape.vocab;
    if (m->narrow)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: gradients through a projection in front of the head are not made",
                         m->checkpoint->dir);
    float *words = pith_alloc_aligned(WORDS * hidden, sizeof *words);
    const bool vectors = g->d_gain || g->d_bias;
    double *norms = vectors ? pith_alloc(2 * g->n, sizeof *norms) : NULL;
    if (!words || (vectors && !norms)) {
        pith_free(words);
        pith_free(norms);
        return pith_fail_nomem(err, "a part of the head");
    }
    through_cap(m, g);
    memset(g->d_x, 0, g->n * hidden * sizeof *g->d_x);
    for (size_t v = 0; v < vocab; v += WORDS) {
        const size_t count = vocab - v < WORDS ? vocab - v : WORDS;
        pith_weight_decode(&m->head, (uint32_t)v, (uint32_t)count, words);
        pith_gemm(be, &(struct pith_gemm){.m = g->n,
                                          .n = hidden,
                                          .k = count,
                                          .a = g->d_logits + v,
                                          .a_rs = vocab,
                                          .a_cs = 1,
                                          .b = words,
                                          .b_rs = hidden,
                                          .b_cs = 1,
                                          .c = g->d_x,
                                          .ldc = hidden,
                                          .accumulate = true});
    }
    through_norm(m, be, g, norms);
    pith_free(norms);
    pith_free(words);
    return PITH_OK;
}
