/* Blocks one after the other, there and back: the bits of one tape after another, and gradients of
 * the first block's matrices against finite differences of what the last gives. */
#include "llama.h"
#include "unit/model/grad_bench.h"

#include "model/chain.h"

enum { BLOCKS = 2 };

/* A bench whose block is the model's first, and the one that follows it. */
struct pair {
    struct bench t;
    struct pith_block second;
    struct pith_chain chain;
    const struct pith_block *block[BLOCKS];
    float *second_grad[LLAMA_LINEARS];
};

static void pair_open(struct pair *p, const char *name, unsigned threads)
{
    struct pith_error err = {0};
    memset(p, 0, sizeof *p);
    rig_open_golden(&p->t.r, name, threads);
    bench_init(&p->t);
    layer_open(&p->t, 0);
    assert_int_equal(p->t.block.plan->linears, LLAMA_LINEARS);
    assert_ok(pith_block_load(p->t.r.model, 1, PITH_LOAD_FLOAT, &p->second, &err), err);
    assert_ok(pith_chain_init(&p->chain, p->t.r.backend, p->t.r.model, BLOCKS, p->t.n, &err), err);
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++)
        p->second_grad[i] = calloc(count_of(&p->t, i), sizeof(float));
    p->block[0] = &p->t.block;
    p->block[1] = &p->second;
    p->chain.block = p->block;
    p->chain.count = BLOCKS;
}

static void pair_close(struct pair *p)
{
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) free(p->second_grad[i]);
    pith_chain_free(&p->chain);
    pith_block_free(&p->second);
    bench_close(&p->t);
}

static void pair_forward(struct pair *p)
{
    struct pith_error err = {0};
    assert_ok(pith_chain_forward(&p->chain, p->t.x, p->t.n, p->t.out, &err), err);
}

static void pair_run(struct pair *p)
{
    const struct pith_tape_grad g[BLOCKS] = {{.w = p->t.grad, .d_x = p->t.d_x},
                                             {.w = p->second_grad, .d_out = p->t.d_out}};
    pair_forward(p);
    pith_chain_backward(&p->chain, g);
}

static double pair_loss(struct pair *p)
{
    double sum = 0;
    pair_forward(p);
    for (size_t i = 0; i < p->t.n * p->t.hidden; i++)
        sum += (double)p->t.out[i] * (double)p->t.d_out[i];
    return sum;
}

/* What one tape gives for the blocks on their own, the second with the gradients that the first is
 * then given back. */
static void chains_are_blocks_one_after_the_other(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pair p;
    pair_open(&p, "qwen3", 2);
    struct bench *t = &p.t;
    const size_t size = t->n * t->hidden;
    pair_run(&p);
    float *middle = malloc(size * sizeof *middle), *out = malloc(size * sizeof *out);
    float *d = malloc(size * sizeof *d), *w[LLAMA_LINEARS] = {NULL};
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) w[i] = calloc(count_of(t, i), sizeof(float));
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, middle, &err), err);
    assert_ok(pith_tape_forward(&t->tape, &p.second, middle, t->n, out, &err), err);
    assert_memory_equal(out, t->out, size * sizeof *out);
    pith_tape_backward(&t->tape, &p.second,
                       &(struct pith_tape_grad){.d_out = t->d_out, .w = w, .d_x = d});
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) {
        assert_memory_equal(w[i], p.second_grad[i], count_of(t, i) * sizeof(float));
        memset(w[i], 0, count_of(t, i) * sizeof(float));
    }
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, middle, &err), err);
    pith_tape_backward(&t->tape, &t->block, &(struct pith_tape_grad){.d_out = d, .w = w, .d_x = d});
    assert_memory_equal(d, t->d_x, size * sizeof *d);
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) {
        assert_memory_equal(w[i], t->grad[i], count_of(t, i) * sizeof(float));
        free(w[i]);
    }
    free(middle);
    free(out);
    free(d);
    pair_close(&p);
}

/* Two steps, so that the error of third order cancels. */
static double slope(struct pair *p, float *w, float step)
{
    const float old = *w;
    double d[2];
    for (int i = 0; i < 2; i++) {
        const float h = step * (float)(i + 1);
        *w = old + h;
        const double up = pair_loss(p);
        *w = old - h;
        d[i] = (up - pair_loss(p)) / (2.0 * (double)h);
    }
    *w = old;
    return (4 * d[0] - d[1]) / 3;
}

static void check_slopes(struct pair *p, uint32_t block, float *const *grad)
{
    enum { POINTS = 7 };
    const double off = 0.01; /* of the largest there is */
    for (uint32_t role = 0; role < LLAMA_LINEARS; role++) {
        const size_t count = count_of(&p->t, role);
        float most = 0;
        for (size_t i = 0; i < count; i++) most = fmaxf(most, fabsf(grad[role][i]));
        assert_true(most > 0);
        for (size_t i = 0; i < count; i += count / POINTS) {
            float *w = (float *)(uintptr_t)p->block[block]->linear[role].w.dense + i;
            const double d = slope(p, w, 0.015625f), g = (double)grad[role][i];
            if (!(fabs(d - g) <= off * (double)most))
                fail_msg("block %u, matrix %u, weight %zu: %g, by differences %g", block, role, i,
                         g, d);
        }
    }
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    struct pair p;
    pair_open(&p, "qwen3", 1);
    pair_run(&p);
    check_slopes(&p, 0, p.t.grad);
    check_slopes(&p, 1, p.second_grad);
    pair_close(&p);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pair p;
    struct pith_chain none;
    pair_open(&p, "llama_gqa_tied", 1);
    struct bench *t = &p.t;
    assert_int_equal(pith_chain_init(&none, t->r.backend, t->r.model, 0, t->n, &err), PITH_ARG);
    assert_int_equal(pith_chain_init(&none, t->r.backend, t->r.model, 1, 0, &err), PITH_ARG);
    for (p.chain.count = 0; p.chain.count <= BLOCKS + 1; p.chain.count += BLOCKS + 1)
        assert_int_equal(pith_chain_forward(&p.chain, t->x, t->n, t->out, NULL), PITH_ARG);
    p.chain.count = BLOCKS;
    assert_int_equal(pith_chain_forward(&p.chain, t->x, t->n + 1, t->out, NULL), PITH_ARG);
    const struct pith_model *m = t->r.model;
    assert_true(pith_chain_bytes(m, 1, 1, t->n) >= pith_tape_bytes(m, 1, t->n));
    assert_true(pith_chain_bytes(m, 1, 3, t->n) >= 3 * pith_tape_bytes(m, 1, t->n));
    assert_true(pith_chain_bytes(m, 1, 2, SIZE_MAX / 2) == UINT64_MAX);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_blocks_one_after_the_other),
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
