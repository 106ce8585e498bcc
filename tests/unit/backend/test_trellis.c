/* Products with trellises in the fast mode: the same bits on every tier, for any number of threads
 * and in any company, near the product with the decoded matrix. */
#include "num/trellis.h"
#include "setups.h"

enum { ROWS = 128, COLS = 384, VECTORS = 33 };

/* Random codes and factors. */
static struct pith_qmat matrix(enum pith_trellis_code code, unsigned bits)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    struct pith_qmat q;
    struct pith_rng r;
    char name[32];
    snprintf(name, sizeof name, "%s:channel", pith_trellis_format(code, bits)->name);
    assert_ok(pith_grid_parse(name, &grid, &err), err);
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F16, &err), err);
    pith_rng_seed(&r, bits);
    for (size_t i = 0; i < ROWS * q.stride; i++) q.codes[i] = (uint8_t)pith_rng_next(&r);
    for (size_t i = 0; i < ROWS; i++) q.scales[i] = (float)(0.01 + pith_rng_unit(&r));
    for (size_t i = 0; i < COLS; i++) q.levels[i] = (float)(pith_rng_unit(&r) - 0.5);
    return q;
}

/* The error is `share` of what independent errors of that size would make of it. */
static void assert_near(const struct pith_qmat *q, const float *bias, const float *x,
                        const float *y, double share)
{
    float *w = floats(ROWS * COLS);
    double error = 0, size = 0;
    pith_qmat_decode(q, 0, ROWS, w);
    for (size_t i = 0; i < VECTORS; i++)
        for (size_t r = 0; r < ROWS; r++) {
            double want = (double)bias[r];
            for (size_t c = 0; c < COLS; c++)
                want += (double)w[r * COLS + c] * (double)x[i * COLS + c];
            error += pow(want - (double)y[i * ROWS + r], 2);
            size += want * want;
        }
    assert_true(size > 0);
    if (!(error <= share * share * size)) fail_msg("error %g of %g", sqrt(error), sqrt(size));
    pith_free(w);
}

static void fast(struct pith_backend *b, bool prepared)
{
    struct pith_error err = {0};
    assert_ok(pith_backend_set_mode(b, PITH_MODE_FAST, &err), err);
    if (prepared) assert_ok(pith_backend_take_prepared(b, &err), err);
}

/* All at once, then some of them together, at each place among neighbours. */
static void check_setup(const struct setups *s, size_t setup, const struct pith_weight *w,
                        const float *bias, const float *x, const float *want)
{
    struct pith_backend *b = s->backend[setup];
    float *y = floats(VECTORS * ROWS);
    pith_linear(b, w, bias, x, VECTORS, y);
    assert_same(y, want, VECTORS * ROWS, "all", setup);
    for (size_t first = 0, n = 1; first < VECTORS; first += n, n = n % 7 + 1) {
        if (n > VECTORS - first) n = VECTORS - first;
        pith_linear(b, w, bias, x + first * COLS, n, y);
        assert_same(y, want + first * ROWS, n * ROWS, "some", setup);
    }
    pith_free(y);
}

static void products_are_the_same_everywhere(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    float *x = normals(VECTORS * COLS, 3), *bias = normals(ROWS, 4), *want = floats(VECTORS * ROWS);
    memset(x + 2 * COLS, 0, COLS * sizeof *x);
    x[COLS + 7] = 1000;
    for (size_t i = 0; i < s.count; i++) fast(s.backend[i], i % 2);
    for (enum pith_trellis_code code = PITH_TRELLIS_3INST; code < PITH_TRELLIS_CODES; code++)
        for (unsigned bits = 1; bits <= 8; bits++) {
            if (code < PITH_TRELLIS_MUL1 && bits % 2 != code % 2) continue; /* half of them */
            struct pith_qmat q = matrix(code, bits);
            const struct pith_weight w = {.rows = ROWS, .cols = COLS, .quant = &q};
            pith_linear(s.backend[0], &w, bias, x, VECTORS, want);
            assert_near(&q, bias, x, want, code >= PITH_TRELLIS_MUL1 ? 0.01 : 0.0005);
            for (size_t i = 1; i < s.count; i++) check_setup(&s, i, &w, bias, x, want);
            pith_qmat_free(&q);
        }
    pith_free(want);
    pith_free(bias);
    pith_free(x);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_the_same_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
