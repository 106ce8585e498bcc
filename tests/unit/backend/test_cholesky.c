/* pith_cholesky_upper: R R^T gives the matrix back, the same bits everywhere, bad pivots are
 * named. */
#include "setups.h"

/* X^T X / n + damp: what calibration gives. */
static float *hessian(struct pith_backend *b, size_t d, size_t n, float damp)
{
    float *x = normals(n * d, 8), *h = floats(d * d);
    pith_syrk(b, h, d, x, n, 1.0f / (float)n);
    for (size_t i = 0; i < d; i++) h[i * d + i] += damp;
    pith_free(x);
    return h;
}

static void check_factor(const float *r, const float *h, size_t d)
{
    for (size_t i = 0; i < d; i++) {
        assert_true(r[i * d + i] > 0);
        for (size_t j = 0; j < i; j++) assert_true(r[i * d + j] == 0.0f);
        for (size_t j = i; j < d; j++) {
            double s = 0;
            for (size_t p = j; p < d; p++) s += (double)r[i * d + p] * (double)r[j * d + p];
            const double scale = sqrt((double)h[i * d + i] * (double)h[j * d + j]);
            if (fabs(s - (double)h[i * d + j]) > 4 * sqrt((double)d) * FLT_EPSILON * scale)
                fail_msg("d %zu: (%zu, %zu) is %g, expected %g", d, i, j, s, (double)h[i * d + j]);
        }
    }
}

/* The textbook's factor in double, from the bottom right corner. */
static void check_naive(const float *r, const float *h, size_t d)
{
    double *t = pith_zalloc(d * d, sizeof *t);
    assert_non_null(t);
    for (size_t j = d; j-- > 0;)
        for (size_t i = j + 1; i-- > 0;) {
            double s = (double)h[i * d + j];
            for (size_t p = j + 1; p < d; p++) s -= t[i * d + p] * t[j * d + p];
            t[i * d + j] = i == j ? sqrt(s) : s / t[j * d + j];
        }
    for (size_t i = 0; i < d; i++)
        for (size_t j = i; j < d; j++)
            if (fabs((double)r[i * d + j] - t[i * d + j]) > 2e-5 * sqrt((double)h[i * d + i]))
                fail_msg("d %zu: R(%zu, %zu) is %g, expected %g", d, i, j, (double)r[i * d + j],
                         t[i * d + j]);
    pith_free(t);
}

static void factor_multiplies_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 17, 63, 64, 65, 129, 300, 520};
    struct setups s;
    struct pith_error err = {0};
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(sizes); c++) {
        const size_t d = sizes[c];
        float *h = hessian(s.backend[0], d, d, 0.05f), *first = NULL;
        for (size_t i = 0; i < s.count; i++) {
            float *r = copy(h, d * d);
            assert_ok(pith_cholesky_upper(s.backend[i], r, d, NULL, &err), err);
            if (first) {
                assert_same(r, first, d * d, "cholesky", i);
                pith_free(r);
            } else {
                check_factor(r, h, d);
                check_naive(r, h, d);
                first = r;
            }
        }
        pith_free(first);
        pith_free(h);
    }
    setups_close(&s);
}

static void a_bad_pivot_is_named(void **state)
{
    (void)state;
    enum { D = 200 };
    struct setups s;
    setups_open(&s);
    static const float bad[] = {-1.0f, 0.0f, (float)NAN, (float)INFINITY};
    for (size_t i = 0; i < s.count; i += 2)
        for (size_t v = 0; v < PITH_COUNT(bad); v++)
            for (size_t at = 3; at < D; at += 95) {
                struct pith_error err = {0};
                size_t pivot = 0;
                float *h = floats((size_t)D * D);
                for (size_t p = 0; p < D; p++) h[p * D + p] = p == at ? bad[v] : 2.0f;
                assert_int_equal(pith_cholesky_upper(s.backend[i], h, D, &pivot, &err),
                                 PITH_NUMERIC);
                assert_int_equal(pivot, at);
                assert_true(err.text[0] != '\0');
                pith_free(h);
            }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factor_multiplies_back),
        cmocka_unit_test(a_bad_pivot_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
