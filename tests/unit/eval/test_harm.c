/* eval/harm and its bootstrap: what is said of texts whose truth is known. */
#include "base/rng.h"
#include "eval/harm.h"
#include "eval/stats.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

/* `count` stretches of 64 tokens with a mean divergence and a mean loss difference, each token's
 * difference spread as theory has it (variance twice the divergence). */
static struct pith_harm_result judged(size_t count, double kld, double delta, double baseline,
                                      uint64_t seed)
{
    struct pith_stretches s;
    struct pith_harm_result out;
    struct pith_error err = {0};
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    assert_ok(pith_stretches_init(&s, count, &err), err);
    for (size_t i = 0; i < count; i++)
        for (int t = 0; t < 64; t++) {
            const double e = -log(1 - pith_rng_unit(&rng));
            const struct pith_position p = {
                .weight = 1, .kld = kld * e, .nll = delta + sqrt(2 * kld) * pith_rng_normal(&rng)};
            pith_stretches_add(&s, i, &p);
        }
    assert_ok(pith_harm_judge(&s, baseline, &out, &err), err);
    assert_true(isnan(out.kld_ci95.lo) || out.kld_ci95.lo <= out.kld_ci95.hi);
    pith_stretches_free(&s);
    return out;
}

static void levels_need_both(void **state)
{
    (void)state;
    static const struct {
        double kld, delta;
        enum pith_harm want;
    } cases[] = {
        {0, 0, PITH_HARM_NONE},           {0.0001, 0.0001, PITH_HARM_NONE},
        {0.002, -0.001, PITH_HARM_NONE},  {0.01, 0.008, PITH_HARM_SLIGHT},
        {0.05, 0.03, PITH_HARM_CLEAR},    {0.5, 0.4, PITH_HARM_SEVERE},
        {0.5, 0.015, PITH_HARM_CLEAR},    {0.5, -0.1, PITH_HARM_UNRESOLVED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct pith_harm_result r = judged(4000, cases[i].kld, cases[i].delta, 3, i);
        if (r.harm != cases[i].want)
            fail_msg("KL %g, loss %+g: %s", cases[i].kld, cases[i].delta, pith_harm_name(r.harm));
        assert_true(isnan(r.tokens_needed));
        assert_int_equal(r.cause == PITH_HARM_DISPUTED, r.harm == PITH_HARM_UNRESOLVED);
    }
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Divergences whose size differs from stretch to stretch: half of them thrice as large. */
/* Of a divergence alone: from the first level's least on, at the edge too. */
static void a_divergence_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(pith_harm_of(0), "none that matters");
    assert_string_equal(pith_harm_of(0.0049), "none that matters");
    assert_string_equal(pith_harm_of(0.005), "slight");
    assert_string_equal(pith_harm_of(0.02), "clear");
    assert_string_equal(pith_harm_of(5), "severe");
    assert_int_equal(pith_harm_level(0.0049), PITH_HARM_NONE);
    assert_int_equal(pith_harm_level(0.02), PITH_HARM_CLEAR);
    assert_int_equal(pith_harm_level(NAN), PITH_HARM_NONE);
}

static void draw_values(struct pith_rng *rng, struct pith_stretches *s, float *values)
{
    for (size_t i = 0, at = 0; i < s->count; i++) {
        const double size = pith_rng_unit(rng) < 0.5 ? 1 : 3;
        for (int t = 0; t < 64; t++, at++) {
            const struct pith_position p = {.weight = 1};
            values[at] = (float)(-size * log(1 - pith_rng_unit(rng)));
            pith_stretches_add(s, i, &p);
        }
    }
}

/* The interval of a rare divergence holds the true one about as often as it says. */
static void quantiles_have_intervals(void **state)
{
    (void)state;
    enum { COUNT = 40, TRIALS = 400 };
    static float values[64 * COUNT], sorted[64 * COUNT];
    struct pith_rng rng;
    double lo = 0, hi = 100;
    for (int i = 0; i < 60; i++) { /* of the two sizes together */
        const double mid = (lo + hi) / 2;
        if (1 - (exp(-mid) + exp(-mid / 3)) / 2 < 0.99) lo = mid;
        else hi = mid;
    }
    size_t held = 0;
    pith_rng_seed(&rng, 11);
    for (int i = 0; i < TRIALS; i++) {
        struct pith_stretches s;
        struct pith_interval ci;
        struct pith_error err = {0};
        assert_ok(pith_stretches_init(&s, COUNT, &err), err);
        draw_values(&rng, &s, values);
        memcpy(sorted, values, sizeof sorted);
        qsort(sorted, sizeof sorted / sizeof *sorted, sizeof *sorted, by_size);
        assert_ok(pith_stretches_quantile(&s, values, sorted, 0.99, &ci, &err), err);
        assert_true(ci.lo <= ci.hi);
        held += ci.lo <= lo && lo <= ci.hi;
        s.count = 7;
        assert_ok(pith_stretches_quantile(&s, values, sorted, 0.99, &ci, &err), err);
        assert_true(isnan(ci.lo) && isnan(ci.hi));
        pith_stretches_free(&s);
    }
    print_message("the true quantile lies in %zu of %d intervals\n", held, TRIALS);
    assert_true(held >= TRIALS * 90 / 100 && held <= TRIALS * 98 / 100);
}

static void easy_texts_have_lower_limits(void **state)
{
    (void)state;
    assert_int_equal(judged(4000, 0.004, 0.003, 3, 1).harm, PITH_HARM_NONE);
    const struct pith_harm_result r = judged(4000, 0.004, 0.003, 0.5, 1);
    assert_int_equal(r.harm, PITH_HARM_SLIGHT);
    assert_true(r.scale == 0.25);
}

/* What more tokens it asks for is enough, in most cases; a third as many are not. */
static void asks_for_what_is_needed(void **state)
{
    (void)state;
    size_t enough = 0, third = 0, asked = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct pith_harm_result r = judged(10, 0.015, 0.01, 3, seed);
        if (r.harm != PITH_HARM_UNRESOLVED || !isfinite(r.tokens_needed)) continue;
        /* By the truth: 2.8^2 * 2 * 0.015 / 0.009^2 = 2,900 tokens. */
        const double whole = 2.8 * 2.8 * 2 * 0.015 / (0.009 * 0.009);
        asked++;
        const size_t count = (size_t)(whole / 64);
        enough += judged(count, 0.015, 0.01, 3, 1000 + seed).harm == PITH_HARM_SLIGHT;
        third += judged(count / 3, 0.015, 0.01, 3, 2000 + seed).harm == PITH_HARM_SLIGHT;
        assert_true(r.resolvable_delta > 0 && r.tokens_needed > 0);
    }
    print_message("%zu of 200 asked, enough for %zu, a third for %zu\n", asked, enough, third);
    assert_true(asked > 100);
    assert_true(enough * 10 > asked * 7);
    assert_true(third * 10 < asked * 5);
}

/* The smallest difference that a text can show is shown four times in five. */
static void resolvable_is_what_it_says(void **state)
{
    (void)state;
    size_t shown = 0, trials = 400;
    const double least = judged(40, 0.02, 0, 3, 77).resolvable_delta;
    double mean = 0;
    for (uint64_t seed = 0; seed < trials; seed++) {
        const double theory = sqrt(2 * 0.02 / (40 * 64)) * (pith_t975(39) + pith_t80(39));
        const struct pith_harm_result r = judged(40, 0.02, theory, 3, 5000 + seed);
        shown += r.delta_ci95.lo > 0;
        mean += r.resolvable_delta / theory / (double)trials;
    }
    assert_true(least > 0);
    assert_true(fabs(mean - 1) < 0.03);
    assert_true(shown > trials * 74 / 100 && shown < trials * 86 / 100);
}

static void short_texts_say_so(void **state)
{
    (void)state;
    char text[256];
    const struct pith_harm_result r = judged(3, 0.5, 0.5, 3, 1);
    assert_int_equal(r.harm, PITH_HARM_UNRESOLVED);
    assert_int_equal(r.cause, PITH_HARM_SHORT);
    assert_true(isnan(r.kld_ci95.lo) && isnan(r.resolvable_delta));
    assert_true(r.tokens_needed == 240 - 3 * 64);
    pith_harm_reason(&r, text, sizeof text);
    assert_non_null(strstr(text, "48 more tokens"));
}

static void windows_are_cut_when_they_are_few(void **state)
{
    (void)state;
    assert_int_equal(pith_stretches_of(1, 255), 8);
    assert_int_equal(pith_stretches_of(1, 10), 1);
    assert_int_equal(pith_stretches_of(100, 2047), 1);
    assert_true(pith_stretches_of(1, 2047) >= 10);
    assert_true(pith_stretches_of(4, 2047) * 4 >= 10);
}

/* Lognormal values with unequal weights: the interval holds the truth about as often as it says. */
static void bootstrap_covers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    for (size_t n = 8; n <= 50; n += 21) {
        size_t held = 0, trials = 300;
        for (uint64_t seed = 0; seed < trials; seed++) {
            struct pith_rng rng;
            double y[64], x[64], se;
            struct pith_interval ci;
            pith_rng_seed(&rng, seed);
            for (size_t i = 0; i < n; i++) {
                x[i] = 20 + (double)pith_rng_below(&rng, 20);
                y[i] = x[i] * exp(0.7 * pith_rng_normal(&rng) - 0.245);
            }
            assert_ok(pith_bootstrap_ratio_ci95(y, x, n, &ci, &se, &err), err);
            held += ci.lo <= 1 && ci.hi >= 1;
            assert_true(ci.lo < ci.hi && se > 0);
        }
        if (held * 100 < trials * (n < 10 ? 87 : 91)) fail_msg("%zu: %zu of 300", n, held);
    }
}

static void bootstrap_is_the_same_again(void **state)
{
    (void)state;
    const double y[4] = {1, 2, 3, 5}, x[4] = {1, 1, 1, 1}, zero[4] = {0};
    struct pith_interval a, b;
    double se;
    struct pith_error err = {0};
    assert_ok(pith_bootstrap_ratio_ci95(y, x, 4, &a, &se, &err), err);
    assert_ok(pith_bootstrap_ratio_ci95(y, x, 4, &b, &se, &err), err);
    assert_true(a.lo == b.lo && a.hi == b.hi && a.lo >= 1 && a.hi <= 5);
    assert_ok(pith_bootstrap_ratio_ci95(zero, x, 4, &a, &se, &err), err);
    assert_true(a.lo == 0 && a.hi == 0 && se == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_need_both),
        cmocka_unit_test(a_divergence_has_a_name),
        cmocka_unit_test(quantiles_have_intervals),
        cmocka_unit_test(easy_texts_have_lower_limits),
        cmocka_unit_test(asks_for_what_is_needed),
        cmocka_unit_test(resolvable_is_what_it_says),
        cmocka_unit_test(short_texts_say_so),
        cmocka_unit_test(windows_are_cut_when_they_are_few),
        cmocka_unit_test(bootstrap_covers),
        cmocka_unit_test(bootstrap_is_the_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
