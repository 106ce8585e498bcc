/* Causal attention. A task is one kv head with a block of queries: the rows are those queries
 * times the query heads that share the kv head, so a packed key serves them all. Scores of a
 * block are held whole, so a softmax is one pass and each output one chain over the keys in
 * their order; a key that a query does not see has the weight 0. */
#include "backend/parts.h"

#include "base/mem.h"

#include <string.h>

/* Rows (queries times heads) of a block: enough to pay for packing the keys. */
enum { BLOCK_ROWS = PITH_MC };

struct job {
    struct pith_backend *b;
    const struct pith_attention *a;
    size_t group;   /* query heads a kv head */
    size_t queries; /* a block */
    float *memory;  /* NULL: the threads' own */
    size_t thread_floats;
};

/* The block of one task: queries [first, first + count), keys [low, high). */
struct part {
    size_t first, count, kv, low, high;
    float *q, *scores, *out; /* [count * group][head_dim], [][high - low], [][head_dim] */
};

static size_t first_key(const struct pith_attention *a, size_t position)
{
    return a->window && position + 1 > a->window ? position + 1 - a->window : 0;
}

/* All of a product that has few rows, by the calling thread. */
static void multiply(const struct job *j, unsigned thread, const struct pith_mul *mul)
{
    for (size_t col = 0; col < mul->n; col += PITH_NC) {
        const struct pith_block block = {
            .j = col, .m = mul->m, .n = pith_min(PITH_NC, mul->n - col)};
        pith_mul_block(&j->b->kern, &j->b->scratch[thread], mul, &block);
    }
}

static void load_queries(const struct job *j, const struct part *p)
{
    const struct pith_attention *a = j->a;
    float *to = p->q;
    for (size_t i = 0; i < p->count; i++) {
        const float *from = a->q + ((p->first + i) * a->heads + p->kv * j->group) * a->head_dim;
        for (size_t e = 0; e < j->group * a->head_dim; e++) *to++ = from[e] * a->scale;
    }
}

static void store_outputs(const struct job *j, const struct part *p)
{
    const struct pith_attention *a = j->a;
    const size_t size = j->group * a->head_dim;
    for (size_t i = 0; i < p->count; i++) {
        float *to = a->out + ((p->first + i) * a->heads + p->kv * j->group) * a->head_dim;
        memcpy(to, p->out + i * size, size * sizeof *to);
    }
}

static void normalize(const struct job *j, const struct part *p)
{
    const size_t keys = p->high - p->low;
    for (size_t r = 0; r < p->count * j->group; r++) {
        float *row = p->scores + r * keys;
        const size_t position = j->a->start + p->first + r / j->group;
        const size_t from = first_key(j->a, position) - p->low, to = position + 1 - p->low;
        memset(row, 0, from * sizeof *row);
        memset(row + to, 0, (keys - to) * sizeof *row);
        j->b->kern.softmax(to - from, row + from);
    }
}

static void attend(const struct job *j, const struct part *p, unsigned thread)
{
    const struct pith_attention *a = j->a;
    const size_t stride = a->kv_heads * a->head_dim, at = p->low * stride + p->kv * a->head_dim;
    const size_t rows = p->count * j->group, keys = p->high - p->low;
    load_queries(j, p);
    multiply(j, thread,
             &(struct pith_mul){.m = rows,
                                .n = keys,
                                .k = a->head_dim,
                                .a = p->q,
                                .a_rs = a->head_dim,
                                .a_cs = 1,
                                .b = a->k + at,
                                .b_rs = 1,
                                .b_cs = stride,
                                .c = p->scores,
                                .ldc = keys});
    normalize(j, p);
    multiply(j, thread,
             &(struct pith_mul){.m = rows,
                                .n = a->head_dim,
                                .k = keys,
                                .a = p->scores,
                                .a_rs = keys,
                                .a_cs = 1,
                                .b = a->v + at,
                                .b_rs = stride,
                                .b_cs = 1,
                                .c = p->out,
                                .ldc = a->head_dim});
    store_outputs(j, p);
}

static void attention_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_attention *a = j->a;
    const size_t block = task / a->kv_heads;
    struct part p = {.first = block * j->queries, .kv = task % a->kv_heads};
    p.count = pith_min(j->queries, a->n - p.first);
    p.low = first_key(a, a->start + p.first);
    p.high = a->start + p.first + p.count;
    const size_t rows = p.count * j->group;
    p.q = j->memory ? j->memory + thread * j->thread_floats : j->b->scratch[thread].scores;
    p.out = p.q + rows * a->head_dim;
    p.scores = p.out + rows * a->head_dim;
    attend(j, &p, thread);
}

/* Sets the block size; returns the most keys that a block sees. */
static size_t plan(struct job *j)
{
    const struct pith_attention *a = j->a;
    j->queries = BLOCK_ROWS / j->group;
    if (j->queries == 0) j->queries = 1;
    j->queries = pith_min(j->queries, a->n);
    const size_t all = a->start + a->n;
    const bool windowed = a->window && a->window < all;
    return windowed ? pith_min(all, a->window - 1 + j->queries) : all;
}

enum pith_status pith_attention(struct pith_backend *b, const struct pith_attention *a,
                                struct pith_error *err)
{
    if (a->n == 0 || a->heads == 0) return PITH_OK;
    struct job j = {.b = b, .a = a, .group = a->heads / a->kv_heads};
    const size_t keys = plan(&j);
    if (!pith_mul_size(j.queries * j.group, keys + 2 * a->head_dim, &j.thread_floats))
        return pith_fail_nomem(err, "attention scores");
    if (j.thread_floats > PITH_SCORES) {
        size_t floats;
        if (pith_mul_size(j.thread_floats, b->threads, &floats))
            j.memory = pith_alloc_aligned(floats, sizeof *j.memory);
        if (!j.memory) return pith_fail_nomem(err, "attention scores");
    }
    const size_t blocks = (a->n + j.queries - 1) / j.queries;
    pith_pool_run(b->pool, blocks * a->kv_heads, attention_task, &j);
    pith_free(j.memory);
    return PITH_OK;
}
