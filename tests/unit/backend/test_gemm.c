/* pith_gemm and pith_syrk: against sums in double, and the same bits on every setup. */
#include "setups.h"

struct shape {
    size_t m, n, k;
};

static const struct shape shapes[] = {{1, 1, 1},    {1, 1, 0},      {3, 5, 7},      {6, 16, 9},
                                      {7, 17, 300}, {13, 33, 257},  {150, 70, 40},  {1, 300, 65},
                                      {300, 1, 64}, {65, 131, 513}, {160, 1100, 20}};

static struct pith_gemm make(const struct shape *s, int transpose, const float *a, const float *b)
{
    struct pith_gemm g = {.m = s->m, .n = s->n, .k = s->k, .a = a, .b = b, .ldc = s->n + 3};
    g.a_rs = transpose & 1 ? 1 : s->k;
    g.a_cs = transpose & 1 ? s->m : 1;
    g.b_rs = transpose & 2 ? 1 : s->n;
    g.b_cs = transpose & 2 ? s->k : 1;
    if (transpose & 4) { /* neither stride is 1 */
        g.a_rs *= 2;
        g.a_cs *= 2;
        g.b_rs *= 2;
        g.b_cs *= 2;
    }
    return g;
}

static void check_product(const struct pith_gemm *g, const float *before)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = 0; j < g->n; j++) {
            const double start = g->accumulate ? (double)before[i * g->ldc + j] : 0;
            double s = start, magnitude = fabs(start);
            for (size_t p = 0; p < g->k; p++) {
                const double t = (double)g->a[i * g->a_rs + p * g->a_cs] *
                                 (double)g->b[p * g->b_rs + j * g->b_cs];
                s += g->negate ? -t : t;
                magnitude += fabs(t);
            }
            assert_sum(g->c[i * g->ldc + j], s, magnitude, g->k, "gemm");
        }
}

/* Columns past n must be left alone. */
static void check_margin(const struct pith_gemm *g, const float *before)
{
    for (size_t i = 0; i < g->m; i++)
        for (size_t j = g->n; j < g->ldc; j++)
            assert_true(memcmp(&g->c[i * g->ldc + j], &before[i * g->ldc + j], 4) == 0);
}

static void gemm_case(struct setups *s, const struct shape *shape, int transpose, int mode)
{
    const size_t count = shape->m * (shape->n + 3);
    float *a = normals(2 * shape->m * (shape->k + 1), 1),
          *b = normals(2 * shape->n * (shape->k + 1), 2);
    float *before = normals(count, 3), *first = NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct pith_gemm g = make(shape, transpose, a, b);
        g.accumulate = mode > 0;
        g.negate = mode > 1;
        g.c = copy(before, count);
        pith_gemm(s->backend[i], &g);
        if (first) {
            assert_same(g.c, first, count, "gemm", i);
            pith_free(g.c);
        } else {
            check_product(&g, before);
            check_margin(&g, before);
            first = g.c;
        }
    }
    pith_free(first);
    pith_free(before);
    pith_free(b);
    pith_free(a);
}

static void gemm_is_right_in_every_orientation(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++)
        for (int transpose = 0; transpose < 8; transpose++)
            for (int mode = 0; mode < 3; mode++) {
                if (shapes[i].m * shapes[i].n * shapes[i].k > 1000000 && (transpose + mode) % 4)
                    continue;
                gemm_case(&s, &shapes[i], transpose, mode);
            }
    setups_close(&s);
}

static void an_element_depends_on_its_row_and_column_only(void **state)
{
    (void)state;
    enum { M = 40, N = 50, K = 300 };
    struct setups s;
    setups_open(&s);
    float *a = normals(M * K, 4), *b = normals(K * N, 5), *all = floats(M * N), one;
    for (size_t i = 0; i < s.count; i++) {
        struct pith_backend *be = s.backend[i];
        pith_gemm(be, &(struct pith_gemm){M, N, K, a, K, 1, b, N, 1, all, N, false, false});
        for (size_t e = 0; e < M * N; e += 97) {
            const size_t r = e / N, c = e % N;
            pith_gemm(be, &(struct pith_gemm){1, 1, K, a + r * K, K, 1, b + c, N, 1, &one, 1, false,
                                              false});
            assert_same(&one, &all[e], 1, "single element", i);
        }
        /* The same, half of k at a time. */
        float *twice = floats(M * N);
        pith_gemm(be, &(struct pith_gemm){M, N, 130, a, K, 1, b, N, 1, twice, N, false, false});
        pith_gemm(be, &(struct pith_gemm){M, N, K - 130, a + 130, K, 1, b + 130 * N, N, 1, twice, N,
                                          true, false});
        assert_same(twice, all, M * N, "two halves of k", i);
        pith_free(twice);
    }
    pith_free(all);
    pith_free(b);
    pith_free(a);
    setups_close(&s);
}

static void check_syrk(const float *h, const float *before, const float *x, size_t d, size_t n)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            const size_t r = i < j ? i : j, c = i < j ? j : i;
            double s = (double)before[r * d + c], magnitude = fabs(s);
            for (size_t p = 0; p < n; p++) {
                const double t = 0.5 * (double)x[p * d + i] * (double)x[p * d + j];
                s += t;
                magnitude += fabs(t);
            }
            assert_sum(h[i * d + j], s, magnitude, n, "syrk");
            assert_true(h[i * d + j] == h[j * d + i]);
        }
}

static void syrk_case(struct setups *s, size_t d, size_t n)
{
    float *x = normals(n * d, 6), *before = normals(d * d, 7), *first = NULL;
    for (size_t i = 0; i < s->count; i++) {
        float *h = copy(before, d * d);
        pith_syrk(s->backend[i], h, d, x, n, 0.5f);
        if (first) {
            assert_same(h, first, d * d, "syrk", i);
            pith_free(h);
        } else {
            check_syrk(h, before, x, d, n);
            first = h;
        }
    }
    /* 256 rows at a time give the same bits. */
    float *h = copy(before, d * d);
    for (size_t p = 0; p < n; p += 256)
        pith_syrk(s->backend[s->count - 1], h, d, x + p * d, n - p < 256 ? n - p : 256, 0.5f);
    assert_same(h, first, d * d, "syrk in parts", 0);
    /* So do some rows of h at a time. */
    memcpy(h, before, d * d * sizeof *h);
    struct pith_backend *last = s->backend[s->count - 1];
    struct pith_syrk_part part = {.h = h, .d = d};
    for (; part.first < d; part.first += part.rows) {
        part.rows = d - part.first < 37 ? d - part.first : 37;
        pith_syrk_rows(last, &part, x, n, 0.5f);
    }
    pith_syrk(last, h, d, x, 0, 0.5f);
    assert_same(h, first, d * d, "syrk by rows", 0);
    pith_free(h);
    pith_free(first);
    pith_free(before);
    pith_free(x);
}

static void syrk_adds_both_triangles(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    syrk_case(&s, 1, 3);
    syrk_case(&s, 5, 1);
    syrk_case(&s, 33, 600);
    syrk_case(&s, 150, 40);
    syrk_case(&s, 301, 17);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_is_right_in_every_orientation),
        cmocka_unit_test(an_element_depends_on_its_row_and_column_only),
        cmocka_unit_test(syrk_adds_both_triangles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
