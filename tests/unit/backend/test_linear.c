/* pith_linear: against decoding and summing in double and against one chain of multiply-adds, for
 * every way of holding the matrix; the same bits on every setup and for any number of rows. */
#include "backend/pack.h"
#include "setups.h"

static double element(const float *w, const float *x, size_t cols, double *magnitude)
{
    double s = 0;
    *magnitude = 0;
    for (size_t p = 0; p < cols; p++) {
        s += (double)w[p] * (double)x[p];
        *magnitude += fabs((double)w[p] * (double)x[p]);
    }
    return s;
}

static void check_values(const struct pith_weight *w, const float *bias, const float *x, size_t n,
                         const float *y)
{
    float *decoded = floats((size_t)w->rows * w->cols);
    pith_weight_decode(w, 0, w->rows, decoded);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < w->rows; r++) {
            double magnitude,
                exact = element(decoded + r * w->cols, x + i * w->cols, w->cols, &magnitude);
            if (bias) exact += (double)bias[r];
            assert_sum(y[i * w->rows + r], exact, magnitude + fabs(exact), w->cols, "linear");
        }
    pith_free(decoded);
}

/* The order of sums: one chain over the columns, and the bias. */
static void check_chain(const struct pith_weight *w, const float *bias, const float *x, size_t n,
                        const float *y)
{
    float *decoded = floats((size_t)w->rows * w->cols);
    pith_weight_decode(w, 0, w->rows, decoded);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < w->rows; r++) {
            float sum = 0.0f;
            for (size_t c = 0; c < w->cols; c++)
                sum = fmaf(x[i * w->cols + c], decoded[r * w->cols + c], sum);
            if (bias) sum += bias[r];
            assert_true(memcmp(&sum, &y[i * w->rows + r], sizeof sum) == 0);
        }
    pith_free(decoded);
}

static void one_weight(struct setups *s, const struct pith_weight *w, const char *what)
{
    enum { MOST = 40 };
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 17, MOST};
    float *x = normals(MOST * (size_t)w->cols, 12), *bias = normals(w->rows, 13);
    float *want = floats(MOST * (size_t)w->rows);
    for (size_t b = 0; b < 2; b++) {
        const float *add = b ? bias : NULL;
        pith_linear(s->backend[0], w, add, x, MOST, want);
        check_values(w, add, x, MOST, want);
        check_chain(w, add, x, MOST, want);
        for (size_t i = 0; i < s->count; i++)
            for (size_t c = 0; c < PITH_COUNT(counts); c++) {
                const size_t n = counts[c];
                float *y = floats(n * w->rows);
                pith_linear(s->backend[i], w, add, x, n, y);
                assert_same(y, want, n * w->rows, what, i);
                pith_free(y);
            }
    }
    pith_free(want);
    pith_free(bias);
    pith_free(x);
}

static void dense_weights(void **state)
{
    (void)state;
    static const enum pith_dtype types[] = {PITH_F32, PITH_F16, PITH_BF16};
    static const uint32_t shapes[][2] = {{1, 1}, {5, 3}, {16, 64}, {33, 31}, {70, 300}, {1100, 17}};
    struct setups s;
    setups_open(&s);
    for (size_t t = 0; t < PITH_COUNT(types); t++)
        for (size_t c = 0; c < PITH_COUNT(shapes); c++) {
            const uint32_t rows = shapes[c][0], cols = shapes[c][1];
            float *values = normals((size_t)rows * cols, 14);
            char *stored = pith_alloc((size_t)rows * cols + 1, 4);
            assert_non_null(stored);
            /* At an odd address, as a mapped file may have it. */
            assert_true(pith_dtype_encode(types[t], values, (size_t)rows * cols, stored + 1));
            const struct pith_weight w = {
                .rows = rows, .cols = cols, .dtype = types[t], .dense = stored + 1};
            one_weight(&s, &w, pith_dtype_name(types[t]));
            pith_free(stored);
            pith_free(values);
        }
    setups_close(&s);
}

static void quantized_weights(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        bool shuffled;
    } cases[] = {
        {"int4:g32:asym", 37, 96, false}, {"int4:g128", 21, 300, false},
        {"int4:g32:asym", 19, 96, true},  {"int4:g16", 3, 31, true},
        {"int4:tensor", 5, 65, false},    {"int8:channel:asym", 33, 290, false},
        {"int8:g64", 9, 257, false},      {"int3:g32:asym", 18, 95, false},
        {"int2:channel", 7, 33, false},   {"int5:g32", 4, 70, true},
        {"nf4:g64", 9, 130, false},       {"fp8_e4m3:channel", 20, 40, false},
        {"fp4_e2m1:g16", 6, 47, true},
    };
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_grid grid;
        struct pith_qmat q;
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        assert_ok(pith_qmat_init(&q, cases[i].rows, cases[i].cols, &grid, PITH_F16, &err), err);
        fill_qmat(&q, cases[i].shuffled);
        const struct pith_weight w = {.rows = q.rows, .cols = q.cols, .quant = &q};
        one_weight(&s, &w, cases[i].grid);
        pith_qmat_free(&q);
    }
    setups_close(&s);
}

/* Every fifth weight or so of most rows, at places that differ by row. */
static struct pith_sparse *some_weights(const struct pith_qmat *q)
{
    const size_t most = (size_t)q->rows * (q->cols / 5 + 1);
    struct pith_sparse *s = pith_sparse_new(q->rows, most);
    uint32_t at = 0;
    assert_non_null(s);
    for (uint32_t r = 0; r < q->rows; r++) {
        s->start[r] = at;
        for (uint32_t c = r % 7; r % 3 && c < q->cols && at < most; c += 5) {
            s->col[at] = c;
            s->value[at++] = (float)(r + c) / 64 - 1;
        }
    }
    s->start[q->rows] = at;
    return s;
}

static void levels_and_weights_beside_the_grid(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        bool kept, offsets;
    } cases[] = {
        {"codebook3:channel", 19, 96, false, false},
        {"codebook3:channel", 37, 257, true, false},
        {"codebook4:channel", 33, 64, true, false},
        {"codebook4:channel", 5, 1100, true, false},
        {"int4:g32", 21, 160, true, false},
        {"int4:g32:asym", 9, 96, true, true},
        {"nf4:g64", 11, 130, true, true},
        {"int8:channel", 17, 65, false, true},
    };
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_grid grid;
        struct pith_qmat q;
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        assert_ok(pith_qmat_init(&q, cases[i].rows, cases[i].cols, &grid, PITH_F16, &err), err);
        fill_qmat(&q, false);
        const size_t scales = pith_qmat_scale_count(&q), levels = (size_t)q.rows << q.format->bits;
        for (size_t k = 0; q.levels && k < levels; k++) q.levels[k] = (float)(k * 7 % 31) / 16 - 1;
        for (size_t k = 0; q.levels && k < scales; k++) q.scales[k] = 1;
        if (cases[i].kept) q.sparse = some_weights(&q);
        if (cases[i].offsets) q.offsets = normals(scales, 15);
        assert_ok(pith_qmat_check(&q, &err), err);
        const struct pith_weight w = {.rows = q.rows, .cols = q.cols, .quant = &q};
        assert_int_equal(pith_pack_bytes(&q), 0);
        one_weight(&s, &w, cases[i].grid);
        pith_qmat_free(&q);
    }
    setups_close(&s);
}

/* A codebook's group of odd length: a 4-bit code may then start a group in the middle of a byte. */
static void odd_groups(void **state)
{
    (void)state;
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    for (uint32_t group = 1; group < 40; group += 6) {
        struct pith_grid grid;
        struct pith_qmat q;
        assert_ok(pith_grid_parse("int4:g128:asym", &grid, &err), err);
        grid.group = group;
        assert_ok(pith_qmat_init(&q, 5, 77, &grid, PITH_F32, &err), err);
        fill_qmat(&q, false);
        const struct pith_weight w = {.rows = q.rows, .cols = q.cols, .quant = &q};
        one_weight(&s, &w, "odd group");
        pith_qmat_free(&q);
    }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_weights),
        cmocka_unit_test(quantized_weights),
        cmocka_unit_test(levels_and_weights_beside_the_grid),
        cmocka_unit_test(odd_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
