/* Checks of the kernels that fit grids: rounding, ranges, errors. test_kernels.c alone includes
 * this. */
#ifndef PITH_TEST_GRID_CHECKS_H
#define PITH_TEST_GRID_CHECKS_H

#include "fenced.h"
#include "kern/grid.h"
#include "kern/ops.h"
#include "num/codebook.h"
#include "num/format.h"

static void assert_double(double got, double want, size_t size)
{
    if (memcmp(&got, &want, sizeof got) != 0 && !(isnan(got) && isnan(want)))
        fail_msg("%s, size %zu: %a, expected %a", now, size, got, want);
}

static void check_sumsq_diff(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    const float *x = fresh(0, n, kind), *y = fresh(1, n, kind);
    assert_double(((pith_sumsq_diff_fn *)k->fn)(n, x, y), ((pith_sumsq_diff_fn *)ref->fn)(n, x, y),
                  n);
}

static void check_range(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                        enum fill kind)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    float *x = fresh(0, n, kind), want[2], got[2];
    for (size_t i = 0; i <= PITH_COUNT(odd); i++) {
        ((pith_range_fn *)ref->fn)(n, x, &want[0], &want[1]);
        ((pith_range_fn *)k->fn)(n, x, &got[0], &got[1]);
        assert_bits(got, want, 2, n);
        if (n == 0 || i == PITH_COUNT(odd)) return;
        x[pith_rng_below(&rng, n)] = odd[i];
        ((pith_range_fn *)k->fn)(n, x, &got[0], &got[1]);
        assert_true(isnan(got[0]) && isnan(got[1]));
    }
}

static void check_grid_round(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    for (unsigned i = 0; i < 12; i++) {
        const size_t step = i % 2, count = step ? n : 1;
        const float top = (float)((4u << i % 7) - 1);
        float *w = fresh(0, n, kind), *scale = fresh(1, count, kind), *zero = fresh(2, count, kind);
        for (size_t c = 0; c < count; c++) {
            zero[c] = (float)pith_rng_below(&rng, (uint32_t)top + 1);
            if (i < 8) scale[c] = fabsf(scale[c]) + 0.01f;
        }
        if (n) w[n / 2] = NAN;
        if (n > 2) w[n - 2] = -INFINITY;
        float *want = fresh(3, n, kind), *got = fresh(4, n, kind);
        uint8_t *a = fenced(5, n), *b = fenced(6, n);
        ((pith_grid_round_fn *)ref->fn)(n, w, scale, zero, step, top, a, want);
        ((pith_grid_round_fn *)k->fn)(n, w, scale, zero, step, top, b, i % 3 ? got : NULL);
        assert_memory_equal(a, b, n);
        if (i % 3) assert_bits(got, want, n, n);
        ((pith_grid_round_fn *)k->fn)(n, w, scale, zero, step, top, NULL, w); /* in place */
        assert_bits(w, want, n, n);
    }
}

static void check_grid_error(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    for (unsigned i = 0; i < 7; i++) {
        const float top = (float)((4u << i % 7) - 1);
        struct pith_grid_trial *t = fenced(4, sizeof *t);
        *t = (struct pith_grid_trial){.scale = fabsf(value(kind)) + 0.01f,
                                      .zero = (float)pith_rng_below(&rng, (uint32_t)top + 1),
                                      .top = top,
                                      .unit = i % 2 ? 0x1p-3f : 1.0f};
        const float *w = fresh(0, n, kind);
        float *want = fresh(1, PITH_TRIAL_LANES, kind), *got = same(2, want, PITH_TRIAL_LANES);
        ((pith_grid_error_fn *)ref->fn)(n, w, t, want);
        ((pith_grid_error_fn *)k->fn)(n, w, t, got);
        assert_bits(got, want, PITH_TRIAL_LANES, n);
    }
}

static void check_grid_squares(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                               enum fill kind)
{
    for (unsigned i = 0; i < 14; i++) {
        const float top = (float)((4u << i % 7) - 1), inverse = fabsf(value(kind)) + 0.01f;
        struct pith_grid_fit *t = fenced(2, sizeof *t);
        *t = (struct pith_grid_fit){.inverse = i % 2 ? -inverse : inverse,
                                    .zero = (float)pith_rng_below(&rng, (uint32_t)top + 1),
                                    .top = top};
        float *w = fresh(0, n, kind), *weight = fresh(1, n, kind);
        for (size_t c = 0; c < n; c++) weight[c] = fabsf(weight[c]);
        if (n > 2 && i > 7) w[n - 2] = -INFINITY;
        struct pith_grid_sums want, got;
        ((pith_grid_squares_fn *)ref->fn)(n, w, weight, t, &want);
        ((pith_grid_squares_fn *)k->fn)(n, w, weight, t, &got);
        assert_bits(&got.error, &want.error, 1, n);
        assert_bits(&got.slope, &want.slope, 1, n);
        assert_bits(&got.square, &want.square, 1, n);
    }
}

static void check_group_max(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                            enum fill kind)
{
    static const size_t groups[] = {1, 3, 16, 32, 100};
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < PITH_COUNT(groups); i++) {
        const size_t count = (n + groups[i] - 1) / groups[i];
        float *x = fresh(0, n, kind), *want = fresh(1, count, kind), *got = fresh(2, count, kind);
        ((pith_group_max_fn *)ref->fn)(n, groups[i], x, want);
        ((pith_group_max_fn *)k->fn)(n, groups[i], x, got);
        assert_bits(got, want, count, n);
        if (n == 0) continue;
        const size_t at = pith_rng_below(&rng, (uint32_t)n);
        x[at] = odd[i % 3];
        ((pith_group_max_fn *)k->fn)(n, groups[i], x, got);
        assert_true(isnan(got[at / groups[i]]));
    }
}

/* Weights about the ends of the levels and between them, and scales of a few kinds. */
struct lines {
    float *w, *scale, *want, *got;
    uint8_t *a, *b;
    size_t group;
};

static struct lines fresh_lines(size_t n, enum fill kind, unsigned i, float reach)
{
    static const size_t groups[] = {1, 16, 5, 1000, 32};
    struct lines l = {.group = groups[i % PITH_COUNT(groups)]};
    const size_t count = (n + l.group - 1) / l.group;
    l.w = fresh(0, n, kind);
    l.scale = fresh(1, count, kind);
    for (size_t c = 0; c < count; c++)
        if (i % 7) l.scale[c] = fabsf(l.scale[c]) + 0.01f;
    for (size_t c = 0; c < n && i % 2; c++)
        l.w[c] = (float)pith_rng_normal(&rng) * reach * l.scale[c / l.group];
    if (n) l.w[n / 2] = NAN;
    if (n > 2) l.w[n - 2] = -INFINITY;
    if (n > 3) l.w[n - 3] = -0.0f;
    l.want = fresh(2, n, kind);
    l.got = fresh(3, n, kind);
    l.a = fenced(4, n);
    l.b = fenced(5, n);
    return l;
}

/* As the kernels are given them. */
static const struct pith_float_levels *levels_of(const struct pith_format *f)
{
    const struct pith_float_levels levels =
        pith_float_levels_of(f->exponent_bits, f->mantissa_bits, f->max);
    return fenced_copy(7, &levels, sizeof levels);
}

static void check_float_round(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                              enum fill kind)
{
    static const char *const names[] = {"fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1"};
    for (unsigned i = 0; i < 15; i++) {
        const struct pith_format *f = pith_format_find(names[i % 5]);
        const struct pith_float_levels *levels = levels_of(f);
        const struct lines l = fresh_lines(n, kind, i, f->max / (float)(1 + i));
        ((pith_float_round_fn *)ref->fn)(n, l.w, l.scale, l.group, levels, l.a, l.want);
        ((pith_float_round_fn *)k->fn)(n, l.w, l.scale, l.group, levels, l.b, i % 3 ? l.got : NULL);
        assert_memory_equal(l.a, l.b, n);
        if (i % 3) assert_bits(l.got, l.want, n, n);
        for (size_t c = 0; c < n && i % 7; c++) { /* what the format itself says */
            const float s = l.scale[c / l.group];
            if (isnan(l.w[c]) || !isfinite(s)) continue;
            assert_int_equal(l.a[c], f->encode(l.w[c] / s));
            assert_true(l.want[c] == f->decode(l.a[c]) * s);
        }
        ((pith_float_round_fn *)k->fn)(n, l.w, l.scale, l.group, levels, NULL, l.w);
        assert_bits(l.w, l.want, n, n);
    }
}

static void check_float_trials(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                               enum fill kind)
{
    static const char *const names[] = {"fp8_e4m3", "fp6_e2m3", "fp4_e2m1"};
    enum { TRIALS = 11 };
    for (unsigned i = 0; i < 6; i++) {
        const struct pith_format *f = pith_format_find(names[i % 3]);
        const struct pith_float_levels *levels = levels_of(f);
        const float *w = fresh(0, n, kind);
        float *weight = i < 3 ? NULL : fresh(4, n, kind);
        for (size_t c = 0; weight && c < n; c++) weight[c] = fabsf(weight[c]);
        float *inverse = fresh(1, TRIALS, kind), *want = fresh(2, TRIALS, kind),
              *got = fresh(3, TRIALS, kind);
        for (size_t t = 0; t < TRIALS; t++) inverse[t] = fabsf(inverse[t]) + 0.01f;
        ((pith_float_trials_fn *)ref->fn)(n, w, weight, TRIALS, inverse, levels, want);
        ((pith_float_trials_fn *)k->fn)(n, w, weight, TRIALS, inverse, levels, got);
        assert_bits(got, want, TRIALS, n);
        for (size_t t = 0; t < TRIALS && kind == RANDOM; t++) {
            double sum = 0;
            for (size_t c = 0; c < n; c++) {
                const float x = w[c] * inverse[t];
                const double d = (double)x - (double)f->decode(f->encode(x));
                sum += weight ? (double)weight[c] * d * d : d * d;
            }
            assert_true(fabs((double)want[t] - sum) <= 1e-5 * sum);
        }
    }
}

static void check_book_round(const struct pith_kernel *k, const struct pith_kernel *ref, size_t n,
                             enum fill kind)
{
    for (unsigned i = 0; i < 10; i++) {
        const struct pith_format *f = pith_format_find(i % 2 ? "nf4" : "bnb_fp4");
        const struct pith_codebook *book = fenced_copy(7, pith_codebook_of(f), sizeof *book);
        const struct lines l = fresh_lines(n, kind, i, 1.0f);
        ((pith_book_round_fn *)ref->fn)(n, l.w, l.scale, l.group, book, l.a, l.want);
        ((pith_book_round_fn *)k->fn)(n, l.w, l.scale, l.group, book, l.b, i % 3 ? l.got : NULL);
        assert_memory_equal(l.a, l.b, n);
        if (i % 3) assert_bits(l.got, l.want, n, n);
        for (size_t c = 0; c < n && i % 7; c++) {
            const float s = l.scale[c / l.group];
            if (isnan(l.w[c]) || !isfinite(s)) continue;
            assert_int_equal(l.a[c], f->encode(l.w[c] * (1.0f / s)));
            assert_true(l.want[c] == f->decode(l.a[c]) * s);
        }
        ((pith_book_round_fn *)k->fn)(n, l.w, l.scale, l.group, book, NULL, l.w);
        assert_bits(l.w, l.want, n, n);
    }
}

#endif
