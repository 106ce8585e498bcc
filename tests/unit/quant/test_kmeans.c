/* The best levels against every partition, against Lloyd's algorithm from many starts, and against
 * scikit-learn's. */
#include "oracle.h"

#include "quant/kmeans.h"

static double run(const float *x, const float *weight, size_t n, unsigned k, float *levels)
{
    void *scratch = malloc(pith_kmeans_bytes(n, k));
    const double loss = pith_kmeans(x, weight, n, k, levels, scratch);
    free(scratch);
    return loss;
}

static double loss_of(const float *x, const float *weight, size_t n, unsigned k,
                      const float *levels)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)levels[pith_kmeans_nearest(levels, k, x[i])];
        sum += (weight ? (double)weight[i] : 1.0) * d * d;
    }
    return sum;
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The least loss of x[at..n) in k runs; x sorted. */
static double best_runs(const float *x, const float *weight, size_t at, size_t n, unsigned k)
{
    double best = INFINITY;
    if (at == n) return 0;
    if (k == 0) return INFINITY;
    for (size_t end = at + 1; end <= n; end++) {
        double s = 0, f = 0, loss = 0;
        for (size_t i = at; i < end; i++) {
            s += (double)weight[i] * (double)x[i];
            f += (double)weight[i];
        }
        for (size_t i = at; i < end; i++)
            loss += (double)weight[i] * ((double)x[i] - s / f) * ((double)x[i] - s / f);
        loss += best_runs(x, weight, end, n, k - 1);
        if (loss < best) best = loss;
    }
    return best;
}

static void no_partition_is_better(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 7);
    for (int trial = 0; trial < 60; trial++) {
        const size_t n = 2 + (size_t)trial % 9;
        const unsigned k = 1 + (unsigned)trial % 5;
        float x[10], weight[10], levels[5];
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)pith_rng_normal(&rng);
            if (trial % 3 == 0) x[i] = rintf(x[i] * 2); /* many alike */
            weight[i] = 0.1f + fabsf((float)pith_rng_normal(&rng));
        }
        qsort(x, n, sizeof *x, ascending);
        const double want = best_runs(x, weight, 0, n, k), got = run(x, weight, n, k, levels);
        const double is = loss_of(x, weight, n, k, levels);
        assert_true(fabs(got - want) <= 1e-9 * (1 + want));
        assert_true(fabs(is - want) <= 1e-6 * (1 + want));
    }
}

/* Order does not matter, weight 0 takes a number out, and k-means++ or not, nothing beats it. */
static void order_and_weights(void **state)
{
    (void)state;
    enum { N = 1500, K = 8 };
    struct pith_rng rng;
    pith_rng_seed(&rng, 3);
    float *x = random_floats(&rng, N, 1.0), *weight = random_floats(&rng, N, 1.0);
    float levels[K], again[K], few[N], few_weight[N];
    size_t left = 0;
    for (size_t i = 0; i < N; i++) weight[i] = i % 5 == 0 ? 0.0f : fabsf(weight[i]);
    for (size_t i = N; i-- > 0;) {
        if (weight[i] == 0.0f) continue;
        few[left] = x[i];
        few_weight[left++] = weight[i];
    }
    const double a = run(x, weight, N, K, levels), b = run(few, few_weight, left, K, again);
    assert_true(fabs(a - b) <= 1e-9 * a);
    for (int i = 0; i < K; i++) assert_true(fabsf(levels[i] - again[i]) <= 1e-6f);
    for (int i = 1; i < K; i++) assert_true(levels[i - 1] < levels[i]);
    const double is = loss_of(x, weight, N, K, levels);
    assert_true(fabs(is - a) <= 1e-5 * a);
    free(x), free(weight);
}

static void few_numbers(void **state)
{
    (void)state;
    float levels[4];
    const float x[] = {2, -1, 2, 2, -1}, none[] = {0, 0, 0, 0, 0};
    assert_true(run(x, NULL, 5, 4, levels) == 0.0);
    assert_true(levels[0] == -1 && levels[1] == 2 && levels[2] == 2 && levels[3] == 2);
    assert_true(run(x, none, 5, 1, levels) > 0.0); /* as if all counted alike */
    assert_true(fabsf(levels[0] - 0.8f) < 1e-6f);
    assert_true(run(x, NULL, 0, 2, levels) == 0.0 && levels[0] == 0 && levels[1] == 0);
    const float ladder[] = {-1, 0, 0, 3};
    assert_int_equal(pith_kmeans_nearest(ladder, 4, -0.5f), 0); /* a tie: the lower */
    assert_int_equal(pith_kmeans_nearest(ladder, 4, 0.1f), 1);
    assert_int_equal(pith_kmeans_nearest(ladder, 4, 1e30f), 3);
    assert_int_equal(pith_kmeans_nearest(ladder, 4, NAN), 0);
}

/* What is felt of a channel that hardly varies is lost in the sum of the others. */
static void weights_that_vanish(void **state)
{
    (void)state;
    enum { N = 200, K = 4 };
    static const float least[] = {1e-30f, 1e-11f, 5e-12f, 1e-5f};
    float x[N], weight[N], levels[K];
    for (size_t l = 0; l < sizeof least / sizeof *least; l++) {
        for (int i = 0; i < N; i++) {
            x[i] = (float)i / N;
            weight[i] = i < 100 ? 1e4f : least[l];
        }
        assert_true(run(x, weight, N, K, levels) < 1e4);
        for (int i = 0; i < K; i++) assert_true(levels[i] > 0 && levels[i] < 0.5f);
    }
}

/* tests/golden/quant/make_splits.py: KMeans(n_init = 20) on the same numbers and weights. */
static void not_worse_than_scikit_learn(void **state)
{
    (void)state;
    json_t *golden = load_golden("splits.json"), *c;
    size_t i;
    json_array_foreach (json_object_get(golden, "kmeans"), i, c) {
        uint64_t seed = count_of(c, "seed");
        const uint32_t n = count_of(c, "n"), k = count_of(c, "k");
        float *x = oracle_weights(&seed, 1, n), *weight = malloc(n * sizeof *weight), levels[16];
        lcg_normal(&seed, n, weight);
        for (uint32_t j = 0; j < n; j++) weight[j] *= weight[j];
        const double want = json_real_value(json_object_get(c, "loss"));
        run(x, weight, n, k, levels);
        const double got = loss_of(x, weight, n, k, levels);
        print_message("%u levels of %u numbers: loss %.6g, scikit-learn %.6g (%+.3f%%)\n", k, n,
                      got, want, 100 * (got / want - 1));
        assert_true(got <= want * 1.00001);
        free(x), free(weight);
    }
    assert_int_equal(i, 4);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_partition_is_better),
        cmocka_unit_test(order_and_weights),
        cmocka_unit_test(few_numbers),
        cmocka_unit_test(weights_that_vanish),
        cmocka_unit_test(not_worse_than_scikit_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
