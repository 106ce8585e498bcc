/* A block on a bench: what it reads, gives and is given back, and the gradients of its linears. */
#ifndef PITH_TEST_MODEL_GRAD_BENCH_H
#define PITH_TEST_MODEL_GRAD_BENCH_H

#include "unit/model/fixture.h"

#include "model/grad/block_grad.h"

/* Difference to torch in float64 that is allowed, relative to the largest value of a part. */
static const double tolerance = 2e-5;

struct bench {
    struct rig r;
    struct pith_block block;
    struct pith_tape tape;
    size_t n, hidden, carried; /* the last: floats of what layers carry, of all rows */
    float *x, *out, *d_out, *d_x;
    float **grad; /* [linears] of the open layer */
};

static inline float pattern(size_t i)
{
    return (float)((int)(37 * i % 101) - 50) / 50.0f;
}

static inline size_t count_of(const struct bench *t, uint32_t linear)
{
    return (size_t)t->block.linear[linear].w.rows * t->block.linear[linear].w.cols;
}

/* A bench whose rig is open and all else zero. */
static inline void bench_init(struct bench *t)
{
    struct pith_error err = {0};
    t->hidden = t->r.model->shape.hidden;
    t->n = PROMPT_MAX;
    const size_t size = t->n * t->hidden;
    t->carried = t->n * pith_plans_carried(&t->r.model->plans);
    t->x = malloc((size + t->carried) * sizeof *t->x);
    t->out = malloc((size + t->carried) * sizeof *t->out);
    t->d_out = malloc(size * sizeof *t->d_out);
    t->d_x = malloc(size * sizeof *t->d_x);
    for (size_t i = 0; i < size; i++) t->d_out[i] = pattern(i);
    assert_ok(pith_tape_init(&t->tape, t->r.backend, t->r.model, t->n, &err), err);
}

/* The block of a layer, with x what those before make of the prompt. */
static inline void layer_open(struct bench *t, uint32_t layer)
{
    struct pith_error err = {0};
    int32_t ids[PROMPT_MAX];
    assert_int_equal(golden_prompt(0, ids), t->n);
    assert_ok(pith_model_embed(t->r.model, ids, t->n, t->x, &err), err);
    pith_plans_fill(&t->r.model->plans, ids, t->n, t->x + t->n * t->hidden);
    for (uint32_t i = 0; i < layer; i++) {
        assert_ok(pith_block_load(t->r.model, i, PITH_LOAD_FLOAT, &t->block, &err), err);
        assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->x, &err), err);
        pith_block_free(&t->block);
    }
    assert_ok(pith_block_load(t->r.model, layer, PITH_LOAD_FLOAT, &t->block, &err), err);
    t->grad = calloc(t->block.plan->linears, sizeof *t->grad);
    for (uint32_t i = 0; i < t->block.plan->linears; i++)
        t->grad[i] = calloc(count_of(t, i), sizeof **t->grad);
}

static inline void layer_close(struct bench *t)
{
    for (uint32_t i = 0; t->grad && i < t->block.plan->linears; i++) free(t->grad[i]);
    free(t->grad);
    t->grad = NULL;
    pith_block_free(&t->block);
}

static inline void bench_close(struct bench *t)
{
    layer_close(t);
    free(t->x);
    free(t->out);
    free(t->d_out);
    free(t->d_x);
    pith_tape_free(&t->tape);
    rig_close(&t->r);
}

static inline void bench_run(struct bench *t)
{
    struct pith_error err = {0};
    const struct pith_tape_grad g = {.d_out = t->d_out, .w = t->grad, .d_x = t->d_x};
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->out, &err), err);
    pith_tape_backward(&t->tape, &t->block, &g);
}

/* The largest difference, relative to the largest value that is expected. */
static inline double difference(const float *x, const float *expected, size_t n)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)expected[i]));
        const double d = fabs((double)x[i] - (double)expected[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst == 0 ? 0 : worst / most; /* an expert that no token took has no gradient at all */
}

static inline double loss(struct bench *t)
{
    struct pith_error err = {0};
    double sum = 0;
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->out, &err), err);
    for (size_t i = 0; i < t->n * t->hidden; i++) sum += (double)t->out[i] * (double)t->d_out[i];
    return sum;
}

/* Whether the pass that remembers gave, in out, the bits of the one that serves. */
static inline bool forward_is_the_same(struct bench *t, uint32_t layer)
{
    struct pith_error err = {0};
    struct pith_kv kv;
    struct pith_scratch scratch;
    const size_t size = t->n * t->hidden + t->carried;
    float *x = malloc(size * sizeof *x);
    memcpy(x, t->x, size * sizeof *x);
    const struct pith_plans *p = &t->r.model->plans;
    const uint32_t layers = t->carried ? 1 : p->layers; /* what is carried is stored again */
    assert_ok(pith_kv_init(&kv, p, layers, t->n, PITH_F32, &err), err);
    assert_ok(pith_scratch_init(&scratch, p, t->n, &err), err);
    const struct pith_pass pass = {.backend = t->r.backend,
                                   .model = t->r.model,
                                   .scratch = &scratch,
                                   .kv = &kv,
                                   .kv_layer = t->carried ? 0 : layer,
                                   .carried = t->carried ? x + t->n * t->hidden : NULL};
    assert_ok(pith_block_forward(&pass, &t->block, x, t->n, NULL, &err), err);
    const bool same = memcmp(x, t->out, size * sizeof *x) == 0;
    pith_scratch_free(&scratch);
    pith_kv_free(&kv);
    free(x);
    return same;
}

/* One thread gives the bits of three; closes both. */
static inline void assert_same_gradients(struct bench *one, struct bench *three)
{
    bench_run(one);
    bench_run(three);
    assert_memory_equal(one->d_x, three->d_x, one->n * one->hidden * sizeof(float));
    for (uint32_t i = 0; i < one->block.plan->linears; i++)
        assert_memory_equal(one->grad[i], three->grad[i], count_of(one, i) * sizeof(float));
    bench_close(one);
    bench_close(three);
}

#endif
