#include "choose/sense_draw.h"

#include "base/rng.h"
#include "model/grad/head_grad.h"
#include "model/model.h"

#include <math.h>

struct drawing {
    const struct pith_backend *backend;
    const float *logits;
    float *d_logits;
    const double *whole; /* log of the sum of exponentials */
    size_t vocab;
    uint64_t seed; /* of the first row */
};

/* The gradient of the drawn token's log-probability, with a random sign. */
static void draw(void *ctx, size_t row, unsigned thread)
{
    const struct drawing *d = ctx;
    const float *logits = d->logits + row * d->vocab;
    float *to = d->d_logits + row * d->vocab;
    struct pith_rng rng;
    (void)thread;
    pith_rng_seed(&rng, d->seed + row);
    const double at = pith_rng_unit(&rng);
    const float sign = pith_rng_below(&rng, 2) ? 1.0f : -1.0f;
    size_t drawn = d->vocab;
    double sum = 0;
    for (size_t v = 0; v < d->vocab; v++) {
        const double p = exp((double)logits[v] - d->whole[row]);
        to[v] = sign * (float)-p;
        sum += p;
        if (drawn == d->vocab && sum > at) drawn = v;
    }
    to[drawn < d->vocab ? drawn : d->vocab - 1] += sign;
}

enum pith_status pith_draw_rows(const struct pith_job *job, const struct pith_draw_rows *r,
                                struct pith_error *err)
{
    const struct pith_model *m = job->model;
    const size_t vocab = m->shape.vocab;
    double whole[PITH_HEAD_ROWS];
    float *logits = r->room, *d_logits = r->room + (size_t)PITH_HEAD_ROWS * vocab;
    PITH_TRY(pith_model_logits(m, job->backend, r->x, r->n, logits, err));
    pith_logsumexp(job->backend, logits, r->n, vocab, whole);
    for (size_t i = 0; i < r->n; i++)
        if (!isfinite(whole[i]))
            return pith_fail(err, PITH_NUMERIC, "the model's logits are not finite");
    struct drawing d = {.backend = job->backend,
                        .logits = logits,
                        .d_logits = d_logits,
                        .whole = whole,
                        .vocab = vocab,
                        .seed = r->seed};
    pith_pool_run(pith_backend_pool(job->backend), r->n, draw, &d);
    return pith_head_grad(
        m, job->backend,
        &(struct pith_head_grad){
            .x = r->x, .logits = logits, .d_logits = d_logits, .n = r->n, .d_x = r->d_x},
        err);
}
