/* rmsnorm, silu_mul, rope and logsumexp against their formulas in double; the backend's own
 * accounting. */
#include "setups.h"

static void close_to(float got, double exact, double relative, const char *what)
{
    /* In silu exp(-z) is infinite from z = -88.8 on, where z e^z is below 1e-36. */
    if (!(fabs((double)got - exact) <= relative * fabs(exact) + 1e-35))
        fail_msg("%s: %.9g, exact %.9g", what, (double)got, exact);
}

static void rmsnorm_divides_by_the_root_mean_square(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {3, 7}, {5, 64}, {40, 1000}, {2, 40000}, {0, 5}};
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(shapes); c++) {
        const size_t n = shapes[c][0], dim = shapes[c][1];
        float *x = normals(n * dim, 15), *w = normals(dim, 16), *first = floats(n * dim);
        pith_rmsnorm(s.backend[0], x, n, dim, w, 1e-5, first);
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t j = 0; j < dim; j++) sum += (double)x[i * dim + j] * (double)x[i * dim + j];
            const double r = 1 / sqrt(sum / (double)dim + 1e-5);
            for (size_t j = 0; j < dim; j++)
                close_to(first[i * dim + j], (double)x[i * dim + j] * r * (double)w[j], 3e-7,
                         "rmsnorm");
        }
        for (size_t i = 0; i < s.count; i++) {
            float *y = copy(x, n * dim);
            pith_rmsnorm(s.backend[i], y, n, dim, w, 1e-5, y);
            assert_same(y, first, n * dim, "rmsnorm", i);
            pith_free(y);
        }
        pith_free(first);
        pith_free(w);
        pith_free(x);
    }
    setups_close(&s);
}

static void silu_gates(void **state)
{
    (void)state;
    enum { COUNT = 50001 };
    struct setups s;
    setups_open(&s);
    float *gate = normals(COUNT, 17), *up = normals(COUNT, 18), *first = copy(gate, COUNT);
    for (size_t i = 0; i < COUNT; i += 3) first[i] = gate[i] *= 30;
    pith_silu_mul(s.backend[0], first, up, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        const double z = (double)gate[i];
        close_to(first[i], z / (1 + exp(-z)) * (double)up[i], 6e-7, "silu_mul");
    }
    for (size_t i = 0; i < s.count; i++) {
        float *y = copy(gate, COUNT);
        pith_silu_mul(s.backend[i], y, up, COUNT);
        assert_same(y, first, COUNT, "silu_mul", i);
        pith_free(y);
    }
    pith_free(first);
    pith_free(up);
    pith_free(gate);
    setups_close(&s);
}

static void rope_turns_pairs(void **state)
{
    (void)state;
    enum { N = 33, HEADS = 5, DIM = 24, HALF = DIM / 2, LD = HEADS * DIM + 7, COUNT = N * LD };
    struct setups s;
    setups_open(&s);
    float *x = normals(COUNT, 19), *first = copy(x, COUNT), c[N * HALF], z[N * HALF];
    for (size_t i = 0; i < N * HALF; i++) {
        c[i] = (float)(1.1 * cos((double)i));
        z[i] = (float)(1.1 * sin((double)i));
    }
    pith_rope(s.backend[0], first, N, LD, HEADS, DIM, c, z);
    for (size_t i = 0; i < N; i++)
        for (size_t e = 0; e < LD; e++) {
            const size_t at = i * LD + e, j = e % DIM, t = i * HALF + j % HALF;
            if (e >= HEADS * DIM) {
                assert_true(first[at] == x[at]); /* past the heads: untouched */
                continue;
            }
            const double rotated = j < HALF ? -(double)x[at + HALF] : (double)x[at - HALF];
            const double a = (double)x[at] * (double)c[t], b = rotated * (double)z[t];
            if (fabs((double)first[at] - (a + b)) > 1.5e-7 * (fabs(a) + fabs(b)))
                fail_msg("rope: %g, exact %g", (double)first[at], a + b);
        }
    for (size_t i = 0; i < s.count; i++) {
        float *y = copy(x, COUNT);
        pith_rope(s.backend[i], y, N, LD, HEADS, DIM, c, z);
        assert_same(y, first, COUNT, "rope", i);
        pith_free(y);
    }
    pith_free(first);
    pith_free(x);
    setups_close(&s);
}

static void logsumexp_is_exact(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {7, 33}, {3, 40000}, {50, 1000}};
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(shapes); c++) {
        const size_t n = shapes[c][0], vocab = shapes[c][1];
        float *x = normals(n * vocab, 20);
        for (size_t i = 0; i < n * vocab; i++) x[i] *= (float)(1 + i % 40);
        x[0] = -INFINITY; /* a masked token, when there is another */
        if (vocab == 1) x[0] = -3.5f;
        double first[50];
        pith_logsumexp(s.backend[0], x, n, vocab, first);
        for (size_t i = 0; i < n; i++) {
            double max = -INFINITY, sum = 0;
            for (size_t j = 0; j < vocab; j++) max = fmax(max, (double)x[i * vocab + j]);
            for (size_t j = 0; j < vocab; j++) sum += exp((double)x[i * vocab + j] - max);
            const double exact = max + log(sum);
            if (fabs(first[i] - exact) > 1e-13 * fabs(exact))
                fail_msg("%.17g, exact %.17g", first[i], exact);
        }
        for (size_t i = 0; i < s.count; i++) {
            double out[50];
            pith_logsumexp(s.backend[i], x, n, vocab, out);
            assert_memory_equal(out, first, n * sizeof *out);
        }
        pith_free(x);
    }
    setups_close(&s);
}

static void a_backend_without_a_pool_has_one_thread(void **state)
{
    (void)state;
    struct pith_backend *b;
    struct pith_error err = {0};
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b, &err), err);
    assert_null(pith_backend_pool(b));
    assert_string_equal(pith_backend_cpu(b), pith_cpu_name(pith_cpu_detect()));
    float x[4] = {1, 2, 3, 4}, w[4] = {1, 1, 1, 1}, y;
    const struct pith_weight weight = {.rows = 1, .cols = 4, .dtype = PITH_F32, .dense = w};
    pith_linear(b, &weight, NULL, x, 1, &y);
    assert_true(y == 10.0f);
    assert_true(pith_backend_bytes(2) > pith_backend_bytes(1) &&
                pith_backend_bytes(64) < (size_t)256 << 20);
    pith_backend_free(b);
    pith_backend_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_divides_by_the_root_mean_square),
        cmocka_unit_test(silu_gates),
        cmocka_unit_test(rope_turns_pairs),
        cmocka_unit_test(logsumexp_is_exact),
        cmocka_unit_test(a_backend_without_a_pool_has_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
