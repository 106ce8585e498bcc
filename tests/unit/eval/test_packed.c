/* Models whose linears are packed for computing: the logits are those of the decoded weights within
 * what the order of sums leaves, and the same bits on any instruction set and number of threads. */
#include "base/cpu.h"
#include "base/rng.h"
#include "eval/speed/regrid.h"
#include "model/session.h"
#include "shuffled.h"
#include "llama.h"
#include "unit/eval/fixture.h"

enum { TOKENS = 6 };

static const struct kind {
    const char *grid;
    bool ordered; /* columns belong to groups at random, as act-order leaves them */
    bool sparse;  /* some weights are kept off the grid */
    bool plain;   /* computed from what is stored, not packed */
} kinds[] = {
    {"int4:g128", false, false, false},    {"int4:g128", true, false, false},
    {"int8:g64:asym", true, false, false}, {"q4_k", false, false, false},
    {"q2_k", false, false, false},         {"q6_k", false, false, false},
    {"q5_1", false, false, false},         {"iq4_xs", false, false, false},
    {"codebook4", false, true, true},      {"codebook3", false, false, true},
};

/* Every 29th weight of a matrix is another. */
static void keep_some(struct pith_qmat *q)
{
    const size_t count = ((size_t)q->rows * q->cols - 1) / 29 + 1;
    q->sparse = pith_sparse_new(q->rows, count);
    assert_non_null(q->sparse);
    uint32_t n = 0;
    for (uint32_t r = 0; r < q->rows; r++) {
        q->sparse->start[r] = n;
        for (uint32_t c = 0; c < q->cols; c++) {
            if (((size_t)r * q->cols + c) % 29 != 0) continue;
            q->sparse->col[n] = c;
            q->sparse->value[n] = 0.01f * (float)(n % 7) - 0.03f;
            n++;
        }
    }
    q->sparse->start[q->rows] = n;
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
        for (int role = 0; role < LLAMA_LINEARS; role++) {
            if (kind->ordered) shuffle_groups(&m->blocks[i].linear[role].q);
            if (kind->sparse) keep_some(&m->blocks[i].linear[role].q);
        }
    return m;
}

/* One at a time each token is another pass; two tell whether the second reads what the first left.
 */
static size_t tokens_of(size_t chunk)
{
    return chunk == 1 && !test_thorough() ? 2 : TOKENS;
}

/* Logits of the first tokens, `chunk` at a time. */
static float *compute(struct pith_model *m, const char *cpu, unsigned threads, enum pith_mode mode,
                      size_t chunk)
{
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct pith_backend *b;
    struct pith_session s;
    int32_t ids[TOKENS];
    const size_t n = tokens_of(chunk);
    for (int i = 0; i < TOKENS; i++) ids[i] = 5 + 37 * i;
    float *x = malloc(n * m->shape.hidden * sizeof *x);
    float *logits = malloc(n * m->shape.vocab * sizeof *logits);
    assert_ok(pith_pool_new(threads, &pool, &err), err);
    assert_ok(pith_backend_new(pool, (uint32_t)pith_cpu_mask(cpu), &b, &err), err);
    assert_ok(pith_backend_take_prepared(b, &err), err);
    assert_ok(pith_backend_set_mode(b, mode, &err), err);
    const struct pith_session_options options = {
        .capacity = TOKENS, .chunk = chunk, .kv = pith_kv_floats(PITH_F32)};
    assert_ok(pith_session_init(&s, m, b, &options, &err), err);
    assert_ok(pith_session_append(&s, ids, n, x, &err), err);
    for (size_t i = 0; i < n; i += chunk)
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
    const size_t count = tokens_of(chunk) * m->shape.vocab, bytes = count * sizeof(float);
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

/* Makes a linear what another's codes stand for. */
static void decode(const struct pith_linear_weights *from, struct pith_linear_weights *l)
{
    l->dense = pith_alloc((size_t)from->q.rows * from->q.cols, sizeof *l->dense);
    assert_non_null(l->dense);
    pith_qmat_decode(&from->q, 0, from->q.rows, l->dense);
    l->w = from->w;
    l->w.quant = NULL;
    l->w.dtype = PITH_F32;
    l->w.dense = l->dense;
}

/* The model with what the codes of m stand for. */
static struct pith_model *decoded_model(const struct pith_model *m)
{
    struct pith_error err = {0};
    struct pith_model *dense;
    assert_ok(pith_model_open("models/probe", &dense, &err), err);
    assert_ok(pith_model_load_blocks(dense, NULL, &err), err);
    for (uint32_t i = 0; i < m->shape.layers; i++)
        for (int role = 0; role < LLAMA_LINEARS; role++)
            decode(&m->blocks[i].linear[role], &dense->blocks[i].linear[role]);
    decode(&m->head_store, &dense->head_store);
    dense->head = dense->head_store.w;
    return dense;
}

static void packed_models_compute_their_weights(void **state)
{
    (void)state;
    static const size_t chunks[] = {1, TOKENS};
    for (size_t i = 0; i < PITH_COUNT(kinds); i += test_thorough() ? 1 : 4) {
        struct pith_error err = {0};
        struct pith_backend *b;
        struct pith_model *m = make_model(&kinds[i]), *dense = decoded_model(m);
        assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b, &err), err);
        assert_ok(pith_model_pack(m, b, &err), err);
        assert_true((m->head.pack != NULL) == !kinds[i].plain);
        for (int role = 0; role < LLAMA_LINEARS; role++)
            assert_true((m->blocks[0].linear[role].w.pack != NULL) == !kinds[i].plain);
        for (size_t c = 0; c < PITH_COUNT(chunks); c++) {
            float *decoded = compute(dense, "auto", 2, PITH_MODE_EXACT, chunks[c]);
            check_chunk(&kinds[i], m, decoded, chunks[c]);
            free(decoded);
        }
        pith_backend_free(b);
        pith_model_close(dense);
        pith_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packed_models_compute_their_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
