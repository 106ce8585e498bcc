/* A matrix that is trained: it begins as what is stored, on every grid; a parameter of a weight
 * moves it between points; gradients are those of the definition; what cannot be trained is
 * refused. */
#include "quant/trained.h"
#include "unit/quant/quant_test.h"

enum { ROWS = 16, COLS = 128 };

struct bench {
    struct pith_backend *backend;
    struct pith_qmat q;
    struct pith_weight original;
    float *w;
};

static void bench_open(struct bench *b, const char *text)
{
    struct pith_error err = {0};
    struct pith_rng rng;
    struct pith_grid grid;
    struct pith_round_report report;
    pith_rng_seed(&rng, 5);
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b->backend, &err), err);
    assert_ok(pith_grid_parse(text, &grid, &err), err);
    b->w = random_floats(&rng, (size_t)ROWS * COLS, 0.05);
    float *copy = malloc((size_t)ROWS * COLS * sizeof *copy);
    memcpy(copy, b->w, (size_t)ROWS * COLS * sizeof *copy);
    const struct pith_round_job job = {.backend = b->backend,
                                       .grid = grid,
                                       .scale_dtype = PITH_BF16,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .w = copy};
    assert_ok(pith_rounder_run(pith_rounder_find("nearest"), &job, &b->q, &report, &err), err);
    b->original =
        (struct pith_weight){.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = b->w};
    free(copy);
}

static void bench_close(struct bench *b)
{
    pith_qmat_free(&b->q);
    pith_backend_free(b->backend);
    free(b->w);
}

static struct pith_trained_case case_of(const struct bench *b)
{
    return (struct pith_trained_case){
        .container = pith_container_find("compressed-tensors"), .q = &b->q, .weights = true};
}

static const char *const grids[] = {"int2:g32",        "int3:g64:asym", "int4:g128", "int4:channel",
                                    "int5:g32:asym",   "int8:channel",  "nvfp4",     "mxfp4",
                                    "mxfp6_e2m3",      "mxfp8",         "fp8_e4m3:channel",
                                    "fp8_e4m3:tensor", "fp8_e4m3:block64", "nf4"};

static void begins_as_it_is_stored(void **state)
{
    (void)state;
    for (size_t g = 0; g < PITH_COUNT(grids); g++)
        for (int original = 0; original < 2; original++) {
            struct pith_error err = {0};
            struct pith_trained t;
            struct pith_qmat made;
            struct bench b;
            static float values[ROWS * COLS], stored[ROWS * COLS];
            bench_open(&b, grids[g]);
            const struct pith_trained_case c = case_of(&b);
            assert_ok(pith_trained_open(&t, b.backend, &c, &err), err);
            float *p = calloc(pith_trained_count(&t), sizeof *p);
            if (original) pith_trained_begin(&t, b.backend, &b.original, p + t.scales);
            pith_trained_values(&t, b.backend, p, values);
            pith_qmat_decode(&b.q, 0, ROWS, stored);
            for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
                if (values[i] != stored[i]) fail_msg("%s: weight %zu", grids[g], i);
            assert_ok(pith_trained_matrix(&t, b.backend, p, values, &made, &err), err);
            pith_qmat_decode(&made, 0, ROWS, values); /* a zero may have lost its sign */
            for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
                if (values[i] != stored[i]) fail_msg("%s: matrix, weight %zu", grids[g], i);
            pith_qmat_free(&made);
            pith_trained_free(&t);
            free(p);
            bench_close(&b);
        }
}

/* Far beyond the grid a weight lies at its end, and its parameter there with it. */
static void weights_move_within_the_grid(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_trained t;
    struct bench b;
    static float values[ROWS * COLS], stored[ROWS * COLS];
    bench_open(&b, "int4:g64:asym");
    const struct pith_trained_case c = case_of(&b);
    assert_ok(pith_trained_open(&t, b.backend, &c, &err), err);
    float *p = calloc(pith_trained_count(&t), sizeof *p), *of = p + t.scales;
    pith_qmat_decode(&b.q, 0, ROWS, stored);
    uint8_t codes[COLS];
    pith_qmat_get_codes(&b.q, 0, codes);
    for (uint32_t i = 0; i < COLS; i++) of[i] = i % 3 == 0 ? 1.0f : i % 3 == 1 ? 100.0f : -0.4f;
    pith_trained_values(&t, b.backend, p, values);
    for (uint32_t i = 0; i < COLS; i++) {
        const float s = b.q.scales[i / 64];
        const int by = i % 3 == 2 ? 0 : i % 3 == 1 || codes[i] == 15 ? 15 - codes[i] : 1;
        assert_true(fabsf(values[i] - stored[i] - s * (float)by) <= 1e-5f * fabsf(15 * s));
        if (i % 3 == 1) assert_true(of[i] == (float)(15 - codes[i]));
    }
    pith_trained_free(&t);
    free(p);
    bench_close(&b);
}

/* On the side of the original, and as far as it is, but not beyond where a neighbour begins. */
static void weights_begin_beside_the_original(void **state)
{
    (void)state;
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct pith_error err = {0};
        struct pith_trained t;
        struct bench b;
        static float stored[ROWS * COLS];
        size_t moved = 0;
        bench_open(&b, grids[g]);
        const struct pith_trained_case c = case_of(&b);
        assert_ok(pith_trained_open(&t, b.backend, &c, &err), err);
        float *p = calloc(pith_trained_count(&t), sizeof *p), *of = p + t.scales;
        pith_trained_begin(&t, b.backend, &b.original, of);
        pith_qmat_decode(&b.q, 0, ROWS, stored);
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++) {
            const float off = b.w[i] - stored[i];
            const float scale = b.q.scales[pith_qmat_scale_index(
                &b.q, (uint32_t)(i / COLS), (uint32_t)(i % COLS) / b.q.group)];
            if (scale == 0.0f || fabsf(off) <= 1e-6f * fabsf(b.w[i])) continue;
            if (off * scale * of[i] < 0) fail_msg("%s: weight %zu begins beyond", grids[g], i);
            moved += of[i] != 0.0f;
        }
        assert_true(moved > ROWS * COLS / 2);
        pith_trained_free(&t);
        free(p);
        bench_close(&b);
    }
}

static void gradients_are_those_of_the_definition(void **state)
{
    (void)state;
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct pith_error err = {0};
        struct pith_trained t;
        struct bench b;
        static float values[ROWS * COLS], dw[ROWS * COLS];
        bench_open(&b, grids[g]);
        const struct pith_trained_case c = case_of(&b);
        assert_ok(pith_trained_open(&t, b.backend, &c, &err), err);
        float *p = calloc(pith_trained_count(&t), sizeof *p);
        float *by = calloc(t.scales + 1, sizeof *by);
        pith_trained_values(&t, b.backend, p, values);
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++) dw[i] = (float)((int)(i % 7) - 3);
        double whole = 0, told = 0;
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
            whole += (double)dw[i] * (double)values[i];
        pith_trained_gradient(&t, b.backend, values, dw, by);
        for (size_t i = 0; i < t.scales; i++) told += (double)by[i];
        /* All scales a part larger: all values are. */
        if (t.scales) assert_true(fabs(whole - told) <= 1e-4 * (fabs(whole) + 1));
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
            assert_true(isfinite(dw[i]) && (dw[i] == 0) == (i % 7 == 3));
        pith_trained_free(&t);
        free(p);
        free(by);
        bench_close(&b);
    }
}

static void what_cannot_be_trained_is_refused(void **state)
{
    (void)state;
    struct pith_trained t;
    struct bench b;
    bench_open(&b, "int4:g128");
    struct pith_trained_case c = case_of(&b);
    struct pith_sparse *kept = pith_sparse_new(ROWS, 0);
    b.q.sparse = kept;
    assert_int_equal(pith_trained_open(&t, b.backend, &c, NULL), PITH_UNSUPPORTED);
    b.q.sparse = NULL;
    b.q.input.hadamard = 64;
    assert_int_equal(pith_trained_open(&t, b.backend, &c, NULL), PITH_UNSUPPORTED);
    b.q.input.hadamard = 0;
    uint32_t order[COLS] = {0};
    b.q.g_idx = order;
    order[0] = 0;
    b.q.group = 64;
    assert_int_equal(pith_trained_open(&t, b.backend, &c, NULL), PITH_UNSUPPORTED);
    b.q.g_idx = NULL;
    b.q.group = 128;
    pith_sparse_free(kept);
    bench_close(&b);
}

enum { SIDE = 128, WIDE = 256 };

/* A trellis of any codes, with factors of rows and of columns. */
static void trellis_open(struct bench *b)
{
    struct pith_error err = {0};
    struct pith_rng rng;
    struct pith_grid grid;
    pith_rng_seed(&rng, 11);
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b->backend, &err), err);
    assert_ok(pith_grid_parse("trellis2", &grid, &err), err);
    assert_ok(pith_qmat_init(&b->q, SIDE, WIDE, &grid, PITH_F16, &err), err);
    for (size_t i = 0; i < SIDE * b->q.stride; i++)
        b->q.codes[i] = (uint8_t)pith_rng_below(&rng, 256);
    for (size_t i = 0; i < SIDE; i++)
        b->q.scales[i] = (i % 2 ? -0.5f : 0.5f) + (float)pith_rng_below(&rng, 64) / 256;
    for (size_t i = 0; i < WIDE; i++) b->q.levels[i] = 0.25f + (float)pith_rng_below(&rng, 64) / 64;
}

static void a_trellis_learns_its_factors(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_trained t;
    struct pith_qmat made;
    struct bench b = {0};
    static float stored[SIDE * WIDE], values[SIDE * WIDE], dw[SIDE * WIDE];
    trellis_open(&b);
    struct pith_trained_case c = case_of(&b);
    c.container = pith_container_find("exl3");
    assert_int_equal(pith_trained_open(&t, b.backend, &c, NULL), PITH_UNSUPPORTED);
    c.weights = false;
    assert_ok(pith_trained_open(&t, b.backend, &c, &err), err);
    assert_int_equal(t.scales, SIDE + WIDE);
    assert_int_equal(t.factors, WIDE);
    static float p[SIDE + WIDE], by[SIDE + WIDE];
    pith_qmat_decode(&b.q, 0, SIDE, stored);
    pith_trained_values(&t, b.backend, p, values);
    assert_memory_equal(values, stored, sizeof values);
    for (size_t i = 0; i < (size_t)SIDE * WIDE; i++) dw[i] = (float)((int)(i % 7) - 3);
    pith_trained_gradient(&t, b.backend, values, dw, by);
    /* A row or column that is a half larger: by linearity the gradient says how much that is. */
    const size_t moved[] = {0, 1, SIDE - 1, SIDE, SIDE + 1, SIDE + 200, SIDE + WIDE - 1};
    for (size_t k = 0; k < PITH_COUNT(moved); k++) {
        double change = 0;
        memset(p, 0, sizeof p);
        p[moved[k]] = 0.5f;
        pith_trained_values(&t, b.backend, p, values);
        for (size_t i = 0; i < (size_t)SIDE * WIDE; i++)
            change += (double)dw[i] * ((double)values[i] - (double)stored[i]);
        assert_true(fabs(change - 0.5 * (double)by[moved[k]]) <= 2e-3 * fabs(change) + 1e-4);
        assert_true(by[moved[k]] != 0);
    }
    assert_ok(pith_trained_matrix(&t, b.backend, p, values, &made, &err), err);
    pith_qmat_decode(&made, 0, SIDE, stored);
    assert_memory_equal(values, stored, sizeof values);
    assert_true(made.levels != b.q.levels && made.levels[WIDE - 1] != b.q.levels[WIDE - 1]);
    pith_qmat_free(&made);
    pith_trained_free(&t);
    pith_qmat_free(&b.q);
    pith_backend_free(b.backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_as_it_is_stored),
        cmocka_unit_test(weights_move_within_the_grid),
        cmocka_unit_test(weights_begin_beside_the_original),
        cmocka_unit_test(gradients_are_those_of_the_definition),
        cmocka_unit_test(what_cannot_be_trained_is_refused),
        cmocka_unit_test(a_trellis_learns_its_factors),
    };
    return cmocka_run_group_tests_name("trained", tests, NULL, NULL);
}
