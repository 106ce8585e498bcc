/* Latent attention with its up-projection absorbed: queries go down to the latent by k_b, what
 * attention gives goes up by v_b. Both use the steps that attention itself is made of, whose sums
 * are one chain an element, whatever the number of rows. */
#include "backend/layer.h"
#include "backend/parts.h"

#include <string.h>

static size_t blocks_of(const struct pith_latent_parts *p)
{
    return (p->value + PITH_KEYS - 1) / PITH_KEYS;
}

size_t pith_latent_k_floats(const struct pith_latent_parts *p)
{
    return p->heads * p->nope * pith_cache_row(p->rank);
}

size_t pith_latent_v_floats(const struct pith_latent_parts *p)
{
    return p->heads * blocks_of(p) * p->rank * PITH_KEYS;
}

void pith_latent_put(const struct pith_latent_parts *p, size_t row, size_t n, const float *rows)
{
    const size_t all = p->nope + p->value, head = row / all, padded = pith_cache_row(p->rank);
    float *k = p->k + head * p->nope * padded;
    float *v = p->v + head * blocks_of(p) * p->rank * PITH_KEYS;
    for (size_t i = row % all; n > 0; i++, n--, rows += p->rank) {
        if (i < p->nope) {
            memcpy(k + i * padded, rows, p->rank * sizeof *k);
            memset(k + i * padded + p->rank, 0, (padded - p->rank) * sizeof *k);
            continue;
        }
        const size_t at = i - p->nope;
        float *block = v + at / PITH_KEYS * p->rank * PITH_KEYS + at % PITH_KEYS;
        for (size_t e = 0; e < p->rank; e++) block[e * PITH_KEYS] = rows[e];
    }
}

struct job {
    struct pith_backend *b;
    const struct pith_latent_parts *p;
    const float *in;
    size_t n, rope;
    size_t each; /* rows that a thread's memory holds */
    float *out;
};

static void query_task(void *ctx, size_t head, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_latent_parts *p = j->p;
    const size_t padded = pith_cache_row(p->rank), from = p->nope + j->rope;
    const size_t to = p->rank + j->rope;
    float *work = j->b->scratch[thread].scores;
    for (size_t r = 0; r < j->n; r += j->each) {
        const size_t rows = pith_min(j->each, j->n - r);
        const float *q = j->in + (r * p->heads + head) * from;
        float *out = j->out + (r * p->heads + head) * to;
        memset(work, 0, rows * padded * sizeof *work);
        j->b->kern.attn_values_f32(rows, p->nope, padded, q, p->heads * from,
                                   p->k + head * p->nope * padded, work, padded);
        for (size_t i = 0; i < rows; i++, q += p->heads * from, out += p->heads * to) {
            memcpy(out, work + i * padded, p->rank * sizeof *out);
            memcpy(out + p->rank, q + p->nope, j->rope * sizeof *out);
        }
    }
}

void pith_latent_queries(struct pith_backend *b, const struct pith_latent_parts *p, const float *q,
                         size_t n, size_t rope, float *out)
{
    struct job j = {.b = b, .p = p, .in = q, .n = n, .rope = rope, .out = out};
    j.each = PITH_SCORES / pith_cache_row(p->rank);
    pith_pool_run(b->pool, p->heads, query_task, &j);
}

static void value_task(void *ctx, size_t head, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_latent_parts *p = j->p;
    const size_t blocks = blocks_of(p), width = blocks * PITH_KEYS;
    float *work = j->b->scratch[thread].scores;
    for (size_t r = 0; r < j->n; r += j->each) {
        const size_t rows = pith_min(j->each, j->n - r);
        float *out = j->out + (r * p->heads + head) * p->value;
        j->b->kern.attn_scores_f32(rows, p->rank, blocks, j->in + (r * p->heads + head) * p->rank,
                                   p->heads * p->rank, p->v + head * width * p->rank, work, width);
        for (size_t i = 0; i < rows; i++, out += p->heads * p->value)
            memcpy(out, work + i * width, p->value * sizeof *out);
    }
}

void pith_latent_values(struct pith_backend *b, const struct pith_latent_parts *p, const float *in,
                        size_t n, float *out)
{
    struct job j = {.b = b, .p = p, .in = in, .n = n, .out = out};
    j.each = PITH_SCORES / (blocks_of(p) * PITH_KEYS);
    pith_pool_run(b->pool, p->heads, value_task, &j);
}
