/* The sampler: greedy, the distribution it draws from, its filters at their borders, odd logits. */
#include "base/cpu.h"
#include "base/mem.h"
#include "model/sampler.h"
#include "test.h"

#include <math.h>

static struct pith_pool *pool;
static struct pith_backend *backend;

static int open_backend(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_ok(pith_pool_new(2, &pool, &err), err);
    assert_ok(pith_backend_new(pool, PITH_CPU_ALL, &backend, &err), err);
    return 0;
}

static int close_backend(void **state)
{
    (void)state;
    pith_backend_free(backend);
    pith_pool_free(pool);
    return 0;
}

static void make(struct pith_sampler *s, size_t vocab, float temperature, uint32_t top_k,
                 float top_p)
{
    struct pith_error err = {0};
    const struct pith_sampling how = {
        .temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = 42};
    assert_ok(pith_sampler_init(s, backend, vocab, &how, &err), err);
}

/* How often each id is drawn. */
static void count_draws(struct pith_sampler *s, const float *logits, unsigned draws,
                        unsigned *counts)
{
    memset(counts, 0, s->vocab * sizeof *counts);
    for (unsigned i = 0; i < draws; i++) {
        const int32_t id = pith_sampler_next(s, logits);
        assert_true(id >= 0 && (size_t)id < s->vocab);
        counts[id]++;
    }
}

/* Pearson's statistic of counts against probabilities p[n] (zero ones must not be drawn). */
static double chi_square(const unsigned *counts, const double *p, size_t n, unsigned draws)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == 0) {
            assert_int_equal(counts[i], 0);
            continue;
        }
        const double expected = p[i] * draws, d = counts[i] - expected;
        sum += d * d / expected;
    }
    return sum;
}

static void softmax(const float *logits, size_t n, double temperature, double *p)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += p[i] = exp((double)logits[i] / temperature);
    for (size_t i = 0; i < n; i++) p[i] /= sum;
}

static void greedy_takes_the_first_of_equals(void **state)
{
    (void)state;
    struct pith_sampler s;
    make(&s, 5, 0, 0, 1);
    assert_int_equal(pith_sampler_next(&s, (float[]){1, 3, 2, 3, -1}), 1);
    assert_int_equal(pith_sampler_next(&s, (float[]){-0.0f, 0.0f, -0.0f, 0, 0}), 0);
    assert_int_equal(pith_sampler_next(&s, (float[]){NAN, -5, NAN, -4, NAN}), 3);
    assert_int_equal(pith_sampler_next(&s, (float[]){1, INFINITY, 2, INFINITY, 0}), 1);
    assert_int_equal(pith_sampler_next(&s, (float[]){NAN, -INFINITY, NAN, NAN, -INFINITY}), 1);
    assert_int_equal(pith_sampler_next(&s, (float[]){NAN, NAN, NAN, NAN, NAN}), -1);
    pith_sampler_free(&s);
    pith_sampler_free(&s);
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    enum { N = 8 };
    const unsigned draws = test_thorough() ? 40000 : 4000;
    static const float logits[N] = {0.5f, -1, 2, 0, 1.5f, -3, 0.25f, 1};
    static const float temperatures[] = {0.5f, 1, 2.5f};
    for (size_t t = 0; t < PITH_COUNT(temperatures); t++) {
        struct pith_sampler s;
        unsigned counts[N];
        double p[N];
        softmax(logits, N, (double)temperatures[t], p);
        make(&s, N, temperatures[t], 0, 1);
        count_draws(&s, logits, draws, counts);
        /* 99.9% quantile of chi-square with 7 degrees of freedom; the seed is fixed. */
        assert_true(chi_square(counts, p, N, draws) < 24.3);
        pith_sampler_free(&s);
        /* The filters walk another path; a top-k of everything is no filter. */
        make(&s, N, temperatures[t], N, 1);
        count_draws(&s, logits, draws, counts);
        assert_true(chi_square(counts, p, N, draws) < 24.3);
        pith_sampler_free(&s);
    }
}

/* Logits of the probabilities .4 .3 .2 .1, out of order: ids 2, 0, 3, 1. */
static const float four[4] = {-1.2039728f, -2.3025851f, -0.91629073f, -1.6094379f};

static void check_kept(uint32_t top_k, float top_p, const double p[4])
{
    enum { DRAWS = 20000 };
    struct pith_sampler s;
    unsigned counts[4];
    make(&s, 4, 1, top_k, top_p);
    count_draws(&s, four, DRAWS, counts);
    const double x = chi_square(counts, p, 4, DRAWS);
    /* 99.9% quantile with 3 degrees of freedom. */
    if (!(x < 16.3)) fail_msg("top-k %u top-p %g: chi-square %g", top_k, (double)top_p, x);
    pith_sampler_free(&s);
}

static void filters_keep_what_they_should(void **state)
{
    (void)state;
    const double all[] = {0.3, 0.1, 0.4, 0.2}, one[] = {0, 0, 1, 0};
    const double two[] = {3 / 7., 0, 4 / 7., 0}, three[] = {3 / 9., 0, 4 / 9., 2 / 9.};
    check_kept(0, 1, all);
    check_kept(1, 1, one);
    check_kept(2, 1, two);
    check_kept(3, 1, three);
    check_kept(4, 1, all);
    check_kept(UINT32_MAX, 1, all);
    /* The smallest set whose mass reaches top-p; the token that crosses it is kept. */
    check_kept(0, 0, one);
    check_kept(0, 1e-6f, one);
    check_kept(0, 0.39f, one);
    check_kept(0, 0.41f, two);
    check_kept(0, 0.69f, two);
    check_kept(0, 0.71f, three);
    check_kept(0, 0.89f, three);
    check_kept(0, 0.91f, all);
    /* top-p is within what top-k kept: 4/7 and 3/7. */
    check_kept(2, 0.56f, one);
    check_kept(2, 0.58f, two);
    check_kept(3, 0.77f, two);
    check_kept(3, 0.78f, three);
}

static void ties_at_the_border_go_to_lower_ids(void **state)
{
    (void)state;
    static const float logits[6] = {1, 2, 2, 2, 2, 0};
    struct pith_sampler s;
    unsigned counts[6];
    make(&s, 6, 1, 2, 1);
    count_draws(&s, logits, 1000, counts);
    assert_true(counts[1] > 400 && counts[2] > 400);
    assert_int_equal(counts[1] + counts[2], 1000);
    pith_sampler_free(&s);
    make(&s, 6, 0.001f, 0, 0.3f);
    count_draws(&s, logits, 1000, counts);
    assert_int_equal(counts[1] + counts[2], 1000);
    pith_sampler_free(&s);
}

static void extreme_temperatures(void **state)
{
    (void)state;
    static const float logits[4] = {3.4e38f, -3.4e38f, 3.3e38f, 0};
    static const double even[4] = {0.25, 0.25, 0.25, 0.25};
    struct pith_sampler s;
    unsigned counts[4];
    make(&s, 4, 1e-38f, 0, 1);
    count_draws(&s, logits, 1000, counts);
    assert_int_equal(counts[0], 1000);
    pith_sampler_free(&s);
    make(&s, 4, 1e-45f, 3, 0.9f);
    count_draws(&s, (float[]){1, 1.0000001f, 0, 1}, 1000, counts);
    assert_int_equal(counts[1], 1000);
    pith_sampler_free(&s);
    make(&s, 4, 3.4e38f, 0, 1);
    count_draws(&s, (float[]){5, -5, 100, 0}, 20000, counts);
    assert_true(chi_square(counts, even, 4, 20000) < 16.3);
    pith_sampler_free(&s);
}

static void odd_logits(void **state)
{
    (void)state;
    struct pith_sampler s;
    unsigned counts[5];
    for (uint32_t top_k = 0; top_k < 4; top_k++) {
        make(&s, 5, 1, top_k, top_k == 3 ? 0.8f : 1);
        assert_int_equal(pith_sampler_next(&s, (float[]){NAN, NAN, NAN, NAN, NAN}), -1);
        count_draws(&s, (float[]){NAN, 0, NAN, 0, NAN}, 500, counts);
        assert_int_equal(counts[1] + counts[3], 500);
        count_draws(&s, (float[]){NAN, INFINITY, 80, INFINITY, -INFINITY}, 500, counts);
        assert_int_equal(counts[1] + counts[3], 500);
        count_draws(&s, (float[]){NAN, -INFINITY, NAN, NAN, NAN}, 500, counts);
        assert_int_equal(counts[1], 500);
        count_draws(&s, (float[]){-INFINITY, -INFINITY, 1, -INFINITY, NAN}, 500, counts);
        assert_int_equal(counts[2], 500);
        pith_sampler_free(&s);
    }
}

static void a_seed_is_a_sequence(void **state)
{
    (void)state;
    enum { N = 1000 };
    struct pith_error err = {0};
    struct pith_sampler a, b, c;
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = (float)((i * 37) % 101) / 20;
    const struct pith_sampling seven = {0.8f, 0, 0.9f, 7, 0, 0}, eight = {0.8f, 0, 0.9f, 8, 0, 0};
    assert_ok(pith_sampler_init(&a, backend, N, &seven, &err), err);
    assert_ok(pith_sampler_init(&b, backend, N, &seven, &err), err);
    assert_ok(pith_sampler_init(&c, backend, N, &eight, &err), err);
    int differ = 0;
    for (int i = 0; i < 200; i++) {
        const int32_t id = pith_sampler_next(&a, logits);
        assert_int_equal(id, pith_sampler_next(&b, logits));
        differ += id != pith_sampler_next(&c, logits);
    }
    assert_true(differ > 150);
    pith_sampler_free(&a);
    pith_sampler_free(&b);
    pith_sampler_free(&c);
}

/* Against a full sort, on random logits with ties. */
static int32_t by_sorting(const float *logits, int n, double temperature, int k, double p, int rank)
{
    int ids[64];
    double mass = 0, total = 0;
    for (int i = 0; i < n; i++) ids[i] = i;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            if (logits[ids[j]] > logits[ids[i]] ||
                (!(logits[ids[j]] < logits[ids[i]]) && ids[j] < ids[i])) {
                const int t = ids[i];
                ids[i] = ids[j];
                ids[j] = t;
            }
    const int limit = k > 0 && k < n ? k : n;
    for (int i = 0; i < limit; i++)
        total += exp((double)(logits[ids[i]] - logits[ids[0]]) / temperature);
    for (int i = 0; i < limit; i++) {
        if (i > 0 && mass >= p * total) return -1;
        if (i == rank) return ids[i];
        mass += exp((double)(logits[ids[i]] - logits[ids[0]]) / temperature);
    }
    return -1;
}

static void kept_sets_equal_a_full_sort(void **state)
{
    (void)state;
    enum { N = 40, DRAWS = 1500 };
    struct pith_rng r;
    pith_rng_seed(&r, 3);
    for (int round = 0; round < (test_thorough() ? 60 : 10); round++) {
        float logits[N];
        for (int i = 0; i < N; i++) logits[i] = (float)pith_rng_below(&r, 30) / 8;
        const uint32_t k = (uint32_t)pith_rng_below(&r, 12);
        const float p = (float)(0.05 + 0.9 * pith_rng_unit(&r));
        bool keep[N] = {false};
        for (int i = 0; i < N; i++) {
            const int32_t id = by_sorting(logits, N, 0.7f, (int)k, (double)p, i);
            if (id >= 0) keep[id] = true;
        }
        struct pith_sampler s;
        unsigned counts[N];
        make(&s, N, 0.7f, k, p);
        count_draws(&s, logits, DRAWS, counts);
        for (int i = 0; i < N; i++) assert_true(keep[i] || counts[i] == 0);
        pith_sampler_free(&s);
    }
}

static int heavier(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The least logit that may be drawn, by the rules, among distinct logits. */
static float border(const float *logits, size_t n, double temperature, size_t k, double p)
{
    float *sorted = malloc(n * sizeof *sorted);
    double total = 0, mass = 0;
    memcpy(sorted, logits, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, heavier);
    const size_t limit = k > 0 && k < n ? k : n;
    for (size_t i = 0; i < limit; i++)
        total += exp(((double)sorted[i] - (double)sorted[0]) / temperature);
    size_t kept = 0;
    for (; kept < limit && (kept == 0 || mass < p * total); kept++)
        mass += exp(((double)sorted[kept] - (double)sorted[0]) / temperature);
    const float least = sorted[kept - 1];
    free(sorted);
    return least;
}

/* Many segments, the last one cut: what is kept is what a full sort keeps, all of it is drawn from
 * in the right proportion, and neither threads nor instruction sets change a draw. */
static void large_vocabularies_equal_a_full_sort(void **state)
{
    (void)state;
    enum { N = 5003 };
    const size_t draws = test_thorough() ? 4000 : 600;
    static const struct {
        float temperature, top_p;
        uint32_t top_k;
    } cases[] = {{1, 1, 0},      {1, 0.9f, 0},  {0.7f, 0.5f, 0}, {1.5f, 0.999f, 0},
                 {1, 1, 5},      {1, 0.9f, 40}, {1, 1, 78},      {1, 1, 79},
                 {1, 0.95f, 80}, {1, 1, 3000},  {5, 0.99f, 0},   {0.1f, 0.8f, 0}};
    struct pith_rng r;
    struct pith_backend *plain;
    struct pith_error err = {0};
    float *logits = malloc(N * sizeof *logits);
    pith_rng_seed(&r, 5);
    assert_ok(pith_backend_new(NULL, PITH_CPU_SCALAR, &plain, &err), err);
    for (size_t i = 0; i < N; i++) logits[i] = (float)(pith_rng_normal(&r) * 2);
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        const struct pith_sampling how = {
            cases[c].temperature, cases[c].top_k, cases[c].top_p, 11, 0, 0};
        const double t = (double)how.temperature;
        const float least = how.top_p < 1 || how.top_k > 0
                                ? border(logits, N, t, how.top_k, (double)how.top_p)
                                : -INFINITY;
        struct pith_sampler s, scalar;
        assert_ok(pith_sampler_init(&s, backend, N, &how, &err), err);
        assert_ok(pith_sampler_init(&scalar, plain, N, &how, &err), err);
        double mean = 0, square = 0, expected = 0, total = 0;
        for (size_t i = 0; i < draws; i++) {
            const int32_t id = pith_sampler_next(&s, logits);
            assert_int_equal(id, pith_sampler_next(&scalar, logits));
            assert_true(id >= 0 && logits[id] >= least);
            mean += (double)logits[id] / (double)draws;
            square += (double)logits[id] * (double)logits[id] / (double)draws;
        }
        for (size_t i = 0; i < N; i++) {
            const double w = logits[i] >= least ? exp((double)logits[i] / t) : 0;
            total += w;
            expected += w * (double)logits[i];
        }
        expected /= total;
        const double error = sqrt((square - mean * mean) / (double)draws);
        if (!(fabs(mean - expected) < 4 * error + 1e-6))
            fail_msg("case %zu: mean %g, expected %g +- %g", c, mean, expected, error);
        pith_sampler_free(&s);
        pith_sampler_free(&scalar);
    }
    pith_backend_free(plain);
    free(logits);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t vocab;
        float temperature, top_p;
    } bad[] = {{0, 1, 1},        {(size_t)INT32_MAX + 1, 1, 1},
               {5, -1, 1},       {5, NAN, 1},
               {5, INFINITY, 1}, {5, 1, -0.1f},
               {5, 1, 1.1f},     {5, 1, NAN}};
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_sampler s;
        const struct pith_sampling how = {bad[i].temperature, 0, bad[i].top_p, 0, 0, 0};
        assert_int_equal(pith_sampler_init(&s, backend, bad[i].vocab, &how, &err), PITH_ARG);
        assert_true(err.text[0] != '\0');
        pith_sampler_free(&s);
    }
}

/* What min-p and typical sampling leave, by their definitions over all of the distribution. */
static void leave(const float *logits, size_t n, const struct pith_sampling *how, double *p)
{
    double entropy = 0, left = 0, most = 0, mass = 0;
    bool keep[64] = {false};
    softmax(logits, n, (double)how->temperature, p);
    for (size_t i = 0; i < n; i++) most = fmax(most, p[i]);
    for (size_t i = 0; i < n; i++) left += p[i] >= (double)how->min_p * most ? p[i] : (p[i] = 0);
    for (size_t i = 0; i < n; i++) p[i] /= left;
    for (size_t i = 0; i < n; i++) entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
    while (how->typical > 0 && mass < (double)how->typical) {
        size_t next = n;
        for (size_t i = 0; i < n; i++)
            if (!keep[i] && p[i] > 0 &&
                (next == n || fabs(-log(p[i]) - entropy) < fabs(-log(p[next]) - entropy)))
                next = i;
        if (next == n) break;
        keep[next] = true;
        mass += p[next];
    }
    for (size_t i = 0; i < n; i++)
        p[i] = how->typical <= 0 || keep[i] ? p[i] / (mass > 0 ? mass : 1) : 0;
}

static void min_p_and_typical(void **state)
{
    (void)state;
    enum { N = 40, DRAWS = 200000 };
    static const struct pith_sampling cases[] = {{1, 0, 1, 3, 0.1f, 0},
                                                 {0.7f, 0, 1, 4, 0.02f, 0},
                                                 {1, 0, 1, 5, 0, 0.6f},
                                                 {1.3f, 0, 1, 6, 0, 0.2f},
                                                 {1, 0, 1, 7, 0.05f, 0.8f}};
    float logits[N];
    double p[N];
    unsigned counts[N];
    struct pith_rng r;
    struct pith_error err = {0};
    pith_rng_seed(&r, 9);
    for (size_t i = 0; i < N; i++) logits[i] = (float)(pith_rng_normal(&r) * 1.5);
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        struct pith_sampler s;
        size_t kept = 0;
        assert_ok(pith_sampler_init(&s, backend, N, &cases[c], &err), err);
        leave(logits, N, &cases[c], p);
        for (size_t i = 0; i < N; i++) kept += p[i] > 0;
        assert_true(kept > 1 && kept < N);
        count_draws(&s, logits, DRAWS, counts);
        assert_true(chi_square(counts, p, N, DRAWS) < 2 * (double)kept + 30);
        pith_sampler_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_of_equals),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(filters_keep_what_they_should),
        cmocka_unit_test(ties_at_the_border_go_to_lower_ids),
        cmocka_unit_test(extreme_temperatures),
        cmocka_unit_test(odd_logits),
        cmocka_unit_test(a_seed_is_a_sequence),
        cmocka_unit_test(kept_sets_equal_a_full_sort),
        cmocka_unit_test(large_vocabularies_equal_a_full_sort),
        cmocka_unit_test(min_p_and_typical),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
