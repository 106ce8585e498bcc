/* The mode of bfloat16 operands: against sums in double of the rounded operands, and the same bits
 * on every setup. */
#include "backend/pack.h"
#include "setups.h"

static void set_mode(struct pith_backend *b, enum pith_mode mode)
{
    struct pith_error err = {0};
    assert_ok(pith_backend_set_mode(b, mode, &err), err);
}

static double rounded(float x)
{
    return (double)pith_bf16_to_f32(pith_f32_to_bf16(x));
}

/* y[n][rows] against the rounded w[rows][cols] and x. */
static void check_products(const float *w, const float *bias, const float *x, size_t n, size_t rows,
                           size_t cols, const float *y)
{
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < rows; r++) {
            double want = (double)bias[r], size = fabs(want);
            for (size_t c = 0; c < cols; c++) {
                const double term = rounded(w[r * cols + c]) * rounded(x[i * cols + c]);
                want += term;
                size += fabs(term);
            }
            assert_sum(y[i * rows + r], want, size, cols, "bf16 linear");
        }
}

static void linear_case(struct setups *s, const struct pith_weight *w, const float *values)
{
    enum { MOST = 37 };
    static const size_t counts[] = {1, 3, 4, MOST};
    const size_t rows = w->rows, cols = w->cols;
    float *x = normals(MOST * cols, 1), *bias = normals(rows, 2), *want = floats(MOST * rows);
    float *y = floats(MOST * rows);
    set_mode(s->backend[0], PITH_MODE_BF16);
    pith_linear(s->backend[0], w, bias, x, MOST, want);
    check_products(values, bias, x, MOST, rows, cols, want);
    for (size_t i = 0; i < s->count; i++) {
        set_mode(s->backend[i], PITH_MODE_BF16);
        for (size_t c = 0; c < PITH_COUNT(counts); c++) {
            pith_linear(s->backend[i], w, bias, x, counts[c], y);
            assert_same(y, want, counts[c] * rows, "linear", i);
        }
        set_mode(s->backend[i], PITH_MODE_EXACT);
    }
    pith_free(y);
    pith_free(want);
    pith_free(bias);
    pith_free(x);
}

static void linear_rounds_its_operands(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{40, 64}, {33, 301}, {1, 1}, {70, 257}};
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) {
        const size_t rows = shapes[i][0], cols = shapes[i][1];
        float *w = normals(rows * cols, 3);
        const struct pith_weight weight = {
            .rows = (uint32_t)rows, .cols = (uint32_t)cols, .dtype = PITH_F32, .dense = w};
        linear_case(&s, &weight, w);
        pith_free(w);
    }
    setups_close(&s);
}

static void packed_weights_are_rounded_too(void **state)
{
    (void)state;
    enum { ROWS = 50, COLS = 320 };
    struct setups s;
    struct pith_error err = {0};
    struct pith_grid grid;
    struct pith_qmat q;
    struct pith_pack pack;
    setups_open(&s);
    assert_ok(pith_grid_parse("int4:g32:asym", &grid, &err), err);
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F16, &err), err);
    fill_qmat(&q, false);
    void *memory = pith_alloc_aligned(pith_pack_bytes(&q), 1);
    assert_non_null(memory);
    pith_pack_init(s.backend[0], &q, memory, &pack);
    float *w = floats(ROWS * COLS);
    pith_qmat_decode(&q, 0, ROWS, w);
    linear_case(&s, &(struct pith_weight){.rows = ROWS, .cols = COLS, .pack = &pack}, w);
    pith_free(w);
    pith_free(memory);
    pith_qmat_free(&q);
    setups_close(&s);
}

static void syrk_case(struct setups *s, size_t d, size_t n)
{
    float *x = normals(n * d, 4), *before = normals(d * d, 5), *first = NULL;
    for (size_t i = 0; i < s->count; i++) {
        float *h = copy(before, d * d);
        set_mode(s->backend[i], PITH_MODE_BF16);
        pith_syrk(s->backend[i], h, d, x, n, 0.5f);
        set_mode(s->backend[i], PITH_MODE_EXACT);
        if (first) {
            assert_same(h, first, d * d, "syrk", i);
            pith_free(h);
            continue;
        }
        first = h;
        for (size_t r = 0; r < d; r++)
            for (size_t c = r; c < d; c++) {
                double sum = (double)before[r * d + c], size = fabs(sum);
                for (size_t p = 0; p < n; p++) {
                    const double term = 0.5 * rounded(x[p * d + r]) * rounded(x[p * d + c]);
                    sum += term;
                    size += fabs(term);
                }
                assert_sum(h[r * d + c], sum, size, n, "bf16 syrk");
                assert_true(h[r * d + c] == h[c * d + r]);
            }
    }
    pith_free(first);
    pith_free(before);
    pith_free(x);
}

static void syrk_rounds_its_operands(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    syrk_case(&s, 1, 1);
    syrk_case(&s, 33, 600);
    syrk_case(&s, 101, 37);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_rounds_its_operands),
        cmocka_unit_test(packed_weights_are_rounded_too),
        cmocka_unit_test(syrk_rounds_its_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
