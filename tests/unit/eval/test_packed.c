/* Models whose linears are packed for computing: the logits are those of the decoded weights within
 * what the order of sums leaves, and the same bits on any instruction set and number of threads. */
#include "base/cpu.h"
#include "base/rng.h"
#include "eval/regrid.h"
#include "unit/eval/fixture.h"

enum { TOKENS = 6 };

static const struct kind {
    const char *grid;
    bool ordered; /* columns belong to groups at random, as act-order leaves them */
} kinds[] = {
    {"int4:g128", false}, {"int4:g128", true}, {"int8:g64:asym", true}, {"q4_k", false},
    {"q2_k", false},      {"q6_k", false},     {"q5_1", false},         {"iq4_xs", false},
};

static void shuffle_groups(struct pith_qmat *q)
{
    struct pith_rng r;
    pith_rng_seed(&r, q->rows);
    q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
    assert_non_null(q->g_idx);
    for (uint32_t c = 0; c < q->cols; c++) q->g_idx[c] = c / q->group;
    for (uint32_t c = q->cols; c-- > 1;) {
        const uint32_t other = (uint32_t)pith_rng_below(&r, c + 1), g = q->g_idx[c];
        q->g_idx[c] = q->g_idx[other];
        q->g_idx[other] = g;
    }
}

/* The model that ships, not packed. */
static struct pith_model *make_model(const struct kind *kind)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    struct pith_model *m;
    assert_ok(pith_grid_parse(kind->grid, &grid, &err), err);
    assert_ok(pith_model_open("models/probe", &m, &err), err);
    assert_ok(pith_model_load_blocks(m, NULL, &err), err);
    assert_ok(pith_model_regrid(m, NULL, &grid, &grid, &err), err);
    for (uint32_t i = 0; i < m->shape.layers; i++)
        for (int role = 0; kind->ordered && role < PITH_ROLE_COUNT; role++)
            shuffle_groups(&m->blocks[i].linear[role].q);
    return m;
}

/* Logits of TOKENS tokens, `chunk` at a time. */
static float *compute(struct pith_model *m, const char *cpu, unsigned threads, enum pith_mode mode,
                      size_t chunk)
{
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct pith_backend *b;
    struct pith_session s;
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = 5 + 37 * i;
    float *x = malloc(TOKENS * m->shape.hidden * sizeof *x);
    float *logits = malloc((size_t)TOKENS * m->shape.vocab * sizeof *logits);
    assert_ok(pith_pool_new(threads, &pool, &err), err);
    assert_ok(pith_backend_new(pool, (uint32_t)pith_cpu_mask(cpu), &b, &err), err);
    assert_ok(pith_backend_take_around(b, &err), err);
    assert_ok(pith_backend_set_mode(b, mode, &err), err);
    const struct pith_session_options options = {
        .capacity = TOKENS, .chunk = chunk, .kv = PITH_F32};
    assert_ok(pith_session_init(&s, m, b, &options, &err), err);
    assert_ok(pith_session_append(&s, ids, TOKENS, x, &err), err);
    for (size_t i = 0; i < TOKENS; i += chunk)
        assert_ok(pith_model_logits(m, b, x + i * m->shape.hidden, chunk,
                                    logits + i * m->shape.vocab, &err),
                  err);
    pith_session_free(&s);
    pith_backend_free(b);
    pith_pool_free(pool);
    free(x);
    return logits;
}

static double distance(const float *a, const float *b, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(error / size);
}

static void check_chunk(const struct kind *kind, struct pith_model *m, const float *decoded,
                        size_t chunk)
{
    const size_t count = (size_t)TOKENS * m->shape.vocab, bytes = count * sizeof(float);
    float *exact = NULL;
    for (int mode = 0; mode < 2; mode++) {
        const enum pith_mode how = mode ? PITH_MODE_FAST : PITH_MODE_EXACT;
        float *scalar = compute(m, "scalar", 1, how, chunk),
              *one = compute(m, "auto", 1, how, chunk);
        float *three = compute(m, "auto", 3, how, chunk);
        assert_memory_equal(one, scalar, bytes);
        assert_memory_equal(three, scalar, bytes);
        const double off = distance(scalar, decoded, count);
        print_message("%-16s %s %2zu at a time, %s: %.2g from decoded\n", kind->grid,
                      kind->ordered ? "act-order" : "", chunk, mode ? "fast" : "exact", off);
        assert_true(off < (mode ? 0.03 : 3e-6));
        free(three), free(one);
        if (mode) free(scalar);
        else exact = scalar;
    }
    free(exact);
}

static void packed_models_compute_their_weights(void **state)
{
    (void)state;
    static const size_t chunks[] = {1, TOKENS};
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) {
        struct pith_error err = {0};
        struct pith_backend *b;
        struct pith_model *m = make_model(&kinds[i]);
        float *decoded[PITH_COUNT(chunks)];
        for (size_t c = 0; c < PITH_COUNT(chunks); c++)
            decoded[c] = compute(m, "auto", 2, PITH_MODE_EXACT, chunks[c]);
        assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b, &err), err);
        assert_ok(pith_model_pack(m, b, &err), err);
        assert_non_null(m->head.pack);
        for (int role = 0; role < PITH_ROLE_COUNT; role++)
            assert_non_null(m->blocks[0].linear[role].w.pack);
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            check_chunk(&kinds[i], m, decoded[c], chunks[c]);
            free(decoded[c]);
        }
        pith_backend_free(b);
        pith_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed_models_compute_their_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
