#include "backend/cache/key_offset.h"

#include "backend/parts.h"
#include "num/hadamard.h"

#include <string.h>

/* The elements of a head that pair i joins. */
static void elements_of(const struct pith_key_offset *o, size_t i, size_t *low, size_t *high)
{
    *low = o->first + (o->adjacent ? 2 * i : i);
    *high = o->first + (o->adjacent ? 2 * i + 1 : i + o->pairs);
}

/* --- keys ------------------------------------------------------------------------------------- */

struct take {
    const struct pith_backend *b;
    const struct pith_key_offset *o;
    const struct pith_cache_span *span;
    float *k;
    size_t each; /* rows a task */
};

/* cos[pairs] and sin[pairs] of a position. */
static void angles_of(const struct take *t, size_t position, float *cos, float *sin)
{
    const struct pith_key_offset *o = t->o;
    const float *within = o->within + position % PITH_KEYS;
    for (size_t i = 0; i < o->pairs; i++) {
        sin[i] = within[i * PITH_KEYS];
        cos[i] = within[(o->pairs + i) * PITH_KEYS];
    }
    const float *page = o->page + position / PITH_KEYS * 2 * o->pairs;
    t->b->kern.rope_pairs(o->pairs, page, page + o->pairs, cos, sin);
}

static void take_from_head(const struct pith_key_offset *o, const float *of, const float *cos,
                           const float *sin, float *k)
{
    for (size_t e = 0; e < o->first; e++) k[e] -= of[e];
    for (size_t i = 0; i < o->pairs; i++) {
        size_t low, high;
        elements_of(o, i, &low, &high);
        k[low] -= of[low] * cos[i] - of[high] * sin[i];
        k[high] -= of[high] * cos[i] + of[low] * sin[i];
    }
    for (size_t e = o->first + 2 * o->pairs; e < o->dim; e++) k[e] -= of[e];
}

static void take_task(void *ctx, size_t task, unsigned thread)
{
    const struct take *t = ctx;
    const struct pith_key_offset *o = t->o;
    float cos[PITH_OFFSET_DIM / 2], sin[PITH_OFFSET_DIM / 2];
    (void)thread;
    for (size_t i = task * t->each; i < pith_min((task + 1) * t->each, t->span->n); i++) {
        float *k = t->k + i * o->kv_heads * o->dim;
        angles_of(t, t->span->start + i, cos, sin);
        for (size_t h = 0; h < o->kv_heads; h++)
            take_from_head(o, o->of + h * o->dim, cos, sin, k + h * o->dim);
    }
}

void pith_key_offset_take(struct pith_backend *b, const struct pith_key_offset *o,
                          const struct pith_cache_span *span, float *k)
{
    const struct take t = {
        .b = b, .o = o, .span = span, .k = k, .each = pith_rows_a_task(o->kv_heads * o->dim)};
    const size_t tasks = pith_tasks(span->n, t.each);
    pith_pool_run(tasks > 1 ? b->pool : NULL, tasks, take_task, (void *)(uintptr_t)&t);
}

/* --- queries ---------------------------------------------------------------------------------- */

void pith_key_offset_query(const struct pith_key_offset *o, size_t kv, const float *q, float *out)
{
    const float *of = o->of + kv * o->dim;
    float plain[PITH_OFFSET_DIM], rest = 0;
    if (o->hadamard) {
        memcpy(plain, q, o->dim * sizeof *plain);
        pith_hadamard_rows(plain, 1, o->dim, o->hadamard);
        q = plain;
    }
    for (size_t i = 0; i < o->pairs; i++) {
        size_t low, high;
        elements_of(o, i, &low, &high);
        out[i] = q[high] * of[low] - q[low] * of[high];
        out[o->pairs + i] = q[low] * of[low] + q[high] * of[high];
    }
    for (size_t e = 0; e < o->first; e++) rest += q[e] * of[e];
    for (size_t e = o->first + 2 * o->pairs; e < o->dim; e++) rest += q[e] * of[e];
    out[2 * o->pairs] = rest;
}

void pith_key_offset_add(const struct pith_backend *b, const struct pith_key_offset *o,
                         const struct pith_offset_scores *s)
{
    const size_t dim = 2 * o->pairs;
    float *sums = s->work + PITH_OFFSET_PAGES * dim;
    for (size_t p = 0; p < s->pages; p++) {
        const float *angles = o->page + (s->page + p) * dim;
        float *rotated = s->work + p * dim;
        memcpy(rotated, s->query, dim * sizeof *rotated);
        b->kern.rope_pairs(o->pairs, angles, angles + o->pairs, rotated, rotated + o->pairs);
    }
    b->kern.attn_scores_f32(s->pages, dim, 1, s->work, dim, o->within, sums, PITH_KEYS);
    for (size_t i = 0; i < s->pages * PITH_KEYS; i++) s->scores[i] += sums[i] + s->query[dim];
}
