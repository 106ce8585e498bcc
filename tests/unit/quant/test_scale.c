/* quant/scale.h and the integer gridder: where the levels lie, and which one a weight takes. */
#include "quant_test.h"

static const struct pith_gridder *gridder(const char *grid)
{
    const struct pith_grid g = grid_of(grid);
    return pith_gridder_for(&g);
}

static void fit(const char *grid, enum pith_dtype t, const float *w, size_t n, float *scale,
                float *zero)
{
    const struct pith_grid g = grid_of(grid);
    const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = t};
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, n, 1}, scale, zero);
}

static void rules_of_the_header(void **state)
{
    (void)state;
    float scale, zero;
    static const float w[] = {0.5f, -3.0f, 2.0f, 0.0f};
    fit("int4:g4", PITH_F32, w, 4, &scale, &zero);
    assert_true(scale == 6.0f / 15.0f);
    assert_true(zero == 8.0f);
    fit("int4:g4:asym", PITH_F32, w, 4, &scale, &zero);
    assert_true(scale == 5.0f / 15.0f);
    assert_true(zero == 9.0f);
    static const float positive[] = {1.0f, 2.0f, 3.0f};
    fit("int2:g4:asym", PITH_F32, positive, 3, &scale, &zero);
    assert_true(scale == 1.0f); /* the range reaches down to 0 */
    assert_true(zero == 0.0f);
    static const float negative[] = {-1.0f, -6.0f};
    fit("int2:g4:asym", PITH_F32, negative, 2, &scale, &zero);
    assert_true(scale == 2.0f);
    assert_true(zero == 3.0f);
}

static void zeros_and_constants(void **state)
{
    (void)state;
    static const float zeros[40] = {0};
    static const char *const grids[] = {"int4:g40", "int4:g40:asym", "int3:g40:mse",
                                        "int8:g40:asym:mse"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid g = grid_of(grids[i]);
        float scale, zero, w[40], values[40];
        fit(grids[i], PITH_F16, zeros, 40, &scale, &zero);
        assert_true(scale == 1.0f);
        struct pith_grid_line line = {
            .n = 40, .w = zeros, .scale = &scale, .zero = &zero, .values = values};
        pith_gridder_for(&g)->quantize(g.format, &line);
        for (int k = 0; k < 40; k++) assert_true(values[k] == 0.0f);
        for (int sign = -1; sign <= 1; sign += 2) {
            for (int k = 0; k < 40; k++) w[k] = (float)sign * 0.7f;
            fit(grids[i], PITH_F32, w, 40, &scale, &zero);
            line.w = w;
            pith_gridder_for(&g)->quantize(g.format, &line);
            /* The extra negative code makes the symmetric grid miss +max by half a step. */
            for (int k = 0; k < 40; k++) assert_true(fabsf(values[k] - w[k]) <= 0.5001f * scale);
        }
    }
}

static void ties_go_to_even_and_ends_are_clamped(void **state)
{
    (void)state;
    const struct pith_gridder *g = gridder("int4:g4");
    const struct pith_format *f = pith_format_find("int4");
    static const struct {
        float w;
        int code;
    } cases[] = {{0.5f, 8},   {1.5f, 10},       {2.5f, 10},      {-0.5f, 8},     {-1.5f, 6},
                 {6.5f, 14},  {7.5f, 15},       {100.0f, 15},    {-8.5f, 0},     {-100.0f, 0},
                 {1e38f, 15}, {-1e38f, 0},      {INFINITY, 15},  {-INFINITY, 0}, {NAN, 0},
                 {-0.0f, 8},  {0.49999997f, 8}, {0.50000006f, 9}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        assert_int_equal(g->encode(f, cases[i].w, 1.0f, 8.0f), cases[i].code);
}

/* Every weight takes a level that no other is nearer than, by brute force over the codes. */
static void nearest_level_is_taken(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    for (unsigned bits = 2; bits <= 8; bits++)
        for (int asym = 0; asym < 2; asym++) {
            char text[32];
            snprintf(text, sizeof text, "int%u:g64%s", bits, asym ? ":asym" : "");
            const struct pith_grid g = grid_of(text);
            float w[75], scale, zero, values[75];
            uint8_t codes[75];
            for (size_t i = 0; i < 75; i++) w[i] = (float)(pith_rng_normal(&rng) + 0.3);
            fit(text, PITH_BF16, w, 75, &scale, &zero);
            assert_true(scale == pith_round_to(PITH_BF16, scale));
            const struct pith_grid_line line = {
                .n = 75, .w = w, .scale = &scale, .zero = &zero, .codes = codes, .values = values};
            pith_gridder_for(&g)->quantize(g.format, &line);
            for (size_t i = 0; i < 75; i++) {
                double best = INFINITY;
                for (unsigned u = 0; u < 1u << bits; u++)
                    best =
                        fmin(best, fabs(((double)u - (double)zero) * (double)scale - (double)w[i]));
                const double got =
                    fabs(((double)codes[i] - (double)zero) * (double)scale - (double)w[i]);
                assert_true(got <= best * (1 + 1e-5) + 1e-7);
                assert_true(values[i] == ((float)codes[i] - zero) * scale);
                assert_int_equal(codes[i],
                                 pith_gridder_for(&g)->encode(g.format, w[i], scale, zero));
            }
        }
}

static double objective(const struct pith_grid *g, const float *w, size_t n, float scale,
                        float zero)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t u = pith_gridder_for(g)->encode(g->format, w[i], scale, zero);
        sum += pow(fabs(((double)u - (double)zero) * (double)scale - (double)w[i]), 2.4);
    }
    return sum;
}

static void mse_is_never_worse_than_absmax(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 2);
    static const char *const grids[][2] = {{"int4:g64", "int4:g64:mse"},
                                           {"int3:g64:asym", "int3:g64:asym:mse"},
                                           {"int2:g64", "int2:g64:mse"},
                                           {"int8:g64:asym", "int8:g64:asym:mse"}};
    unsigned better = 0;
    for (size_t i = 0; i < PITH_COUNT(grids); i++)
        for (int k = 0; k < 50; k++) {
            const double sigma = pow(10.0, -6 + k % 10);
            float w[64], s0, z0, s1, z1;
            for (size_t j = 0; j < 64; j++) w[j] = (float)(sigma * pith_rng_normal(&rng));
            if (k % 3 == 0) w[7] *= 20.0f;
            const struct pith_grid g = grid_of(grids[i][0]);
            fit(grids[i][0], PITH_F32, w, 64, &s0, &z0);
            fit(grids[i][1], PITH_F32, w, 64, &s1, &z1);
            const double absmax = objective(&g, w, 64, s0, z0), mse = objective(&g, w, 64, s1, z1);
            assert_true(mse <= absmax * (1 + 1e-6));
            better += mse < 0.99 * absmax;
        }
    assert_true(better > 100);
}

/* Weighted squares of what the scale makes of them. */
static double squares(const struct pith_grid *g, const float *w, const float *weight, size_t n,
                      float scale, float zero)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t u = pith_gridder_for(g)->encode(g->format, w[i], scale, zero);
        const double e = ((double)u - (double)zero) * (double)scale - (double)w[i];
        sum += (double)weight[i] * e * e;
    }
    return sum;
}

/* The least of ranges a hundredth apart, both signs and three zero points. */
static double exhaustive(const struct pith_grid *g, const float *w, const float *weight, size_t n)
{
    const char *plain = g->asym ? "int4:g64:asym" : "int4:g64";
    double best = INFINITY;
    for (int k = 20; k <= 110; k++) {
        float shrunk[64], s, z;
        for (size_t i = 0; i < n; i++) shrunk[i] = w[i] * (float)k / 100.0f;
        fit(plain, PITH_F32, shrunk, n, &s, &z);
        for (int way = -1; way <= 1; way++) {
            const float zero = g->asym ? fminf(fmaxf(z + (float)way, 0.0f), 15.0f) : z;
            const double e = squares(g, w, weight, n, g->asym || way >= 0 ? s : -s, zero);
            if (e < best) best = e;
        }
    }
    return best;
}

static void weighted_search_finds_the_least_squares(void **state)
{
    enum { N = 64 };
    static const char *const grids[] = {"int4:g64", "int4:g64:asym", "int4:g64:mse"};
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 7);
    unsigned negative = 0, unlike = 0;
    double ratios = 0.0;
    for (size_t i = 0; i < 150; i++) {
        const struct pith_grid g = grid_of(grids[i % 3]);
        const double sigma = pow(10.0, -6 + (double)(i % 10));
        float w[N], weight[N], wide[3 * N], scale, zero, s0, z0;
        for (size_t j = 0; j < N; j++) {
            w[j] = (float)(sigma * (pith_rng_normal(&rng) + (i % 7 ? 0.0 : 1.0)));
            weight[j] = (float)exp(2.0 * pith_rng_normal(&rng));
            wide[3 * j] = w[j], wide[3 * j + 1] = wide[3 * j + 2] = NAN;
        }
        if (i % 4 == 0) w[7] *= 9.0f, wide[21] = w[7], weight[7] = 0.0f;
        const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F32, .weight = weight};
        pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, N, 1}, &scale, &zero);
        const double found = squares(&g, w, weight, N, scale, zero);
        const double least = exhaustive(&g, w, weight, N);
        assert_true(found <= 1.15 * least);
        ratios += log(found / least) / 150;
        fit(grids[i % 3], PITH_F32, w, N, &s0, &z0);
        const double plain = squares(&g, w, weight, N, s0, z0);
        assert_true(found <= plain * (1 + 1e-5));
        negative += scale < 0.0f, unlike += found < 0.9 * plain;
        assert_true(zero >= 0.0f && zero <= 15.0f && zero == rintf(zero));
        pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){wide, N, 3}, &s0, &z0);
        assert_true(s0 == scale && z0 == zero);
    }
    assert_true(ratios < 0.0); /* the trials' refinements are worth their distance */
    assert_true(negative > 20 && unlike > 75);
}

/* Within what the scales' dtype holds, and nothing where all is 0 or nothing counts. */
static void weighted_search_at_the_ends(void **state)
{
    static const float least[] = {1e-45f, -1e-45f}, huge[] = {3e38f, -1.0f}, none[] = {0.0f, 0.0f},
                       one[] = {1.0f, -0.3f}, counts[] = {1.0f, 2.0f}, not [] = {0.0f, 0.0f};
    (void)state;
    static const char *const grids[] = {"int4:g4", "int2:g4:asym", "int8:g4"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid g = grid_of(grids[i]);
        const struct pith_gridder *by = pith_gridder_for(&g);
        struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F16, .weight = counts};
        float scale, zero;
        pith_grid_fit(by, &rule, &(struct pith_weights){least, 2, 1}, &scale, &zero);
        assert_true(fabsf(scale) >= 0x1p-14f && isfinite(scale));
        pith_grid_fit(by, &rule, &(struct pith_weights){huge, 2, 1}, &scale, &zero);
        assert_true(isinf(scale));
        pith_grid_fit(by, &rule, &(struct pith_weights){none, 2, 1}, &scale, &zero);
        assert_true(scale == 1.0f);
        rule.weight = not ;
        float s0, z0;
        fit(grids[i], PITH_F16, one, 2, &s0, &z0);
        pith_grid_fit(by, &rule, &(struct pith_weights){one, 2, 1}, &scale, &zero);
        assert_true(scale == s0 && zero == z0);
    }
}

static void stride_is_honoured(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 3);
    float w[50], wide[150], s0, z0, s1, z1;
    for (size_t i = 0; i < 150; i++) wide[i] = (float)(100.0 * pith_rng_normal(&rng));
    for (size_t i = 0; i < 50; i++) w[i] = wide[3 * i] = (float)pith_rng_normal(&rng);
    static const char *const grids[] = {"int4:g64", "int3:g64:asym:mse"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid g = grid_of(grids[i]);
        const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F16};
        pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 50, 1}, &s0, &z0);
        pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){wide, 50, 3}, &s1, &z1);
        assert_true(s0 == s1);
        assert_true(z0 == z1);
    }
}

static void scales_fit_their_dtype(void **state)
{
    (void)state;
    float scale, zero;
    static const float tiny[] = {1e-42f, -3e-42f, 0.0f};
    fit("int4:g4", PITH_F16, tiny, 3, &scale, &zero);
    assert_true(scale == 0x1p-14f);
    fit("int4:g4:asym", PITH_F32, tiny, 3, &scale, &zero);
    assert_true(scale > 0.0f && scale < 1e-40f);
    static const float least[] = {1e-45f, 0.0f};
    fit("int8:g4:mse", PITH_F32, least, 2, &scale, &zero);
    assert_true(scale == 0x1p-126f);
    static const float small[] = {1e-4f, -2e-5f};
    fit("int4:g4", PITH_F16, small, 2, &scale, &zero); /* a subnormal half */
    assert_true(scale > 1.2e-5f && scale < 1.5e-5f && scale == pith_round_to(PITH_F16, scale));
    static const float huge[] = {1e6f, 1.0f};
    fit("int4:g4", PITH_F16, huge, 2, &scale, &zero);
    assert_true(isinf(scale));
    fit("int4:g4:mse", PITH_F16, huge, 2, &scale, &zero);
    assert_true(isinf(scale)); /* shrinking the range is no way to make it fit */
    fit("int4:g4", PITH_BF16, huge, 2, &scale, &zero);
    assert_true(isfinite(scale));
    static const float bad[] = {1.0f, NAN, 2.0f}, infinite[] = {1.0f, -INFINITY};
    fit("int4:g4", PITH_F32, bad, 3, &scale, &zero);
    assert_true(isnan(scale));
    fit("int4:g4:asym", PITH_F32, infinite, 2, &scale, &zero);
    assert_true(!isfinite(scale));
}

static void a_whole_matrix(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 4);
    enum { ROWS = 7, COLS = 50 };
    float *w = random_floats(&rng, ROWS * COLS, 1.0);
    static const char *const grids[] = {"int4:g16", "int4:g16:asym", "int3:channel:asym",
                                        "int8:tensor", "int2:tensor:asym:mse"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid g = grid_of(grids[i]);
        struct pith_qmat q;
        struct pith_error err = {0};
        assert_ok(pith_qmat_init(&q, ROWS, COLS, &g, PITH_F16, &err), err);
        assert_ok(pith_fit_scales(NULL, &g, w, &q, &err), err);
        if (g.group) assert_int_equal(q.groups, 4); /* the last has 2 columns */
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t k = 0; k < q.groups; k++) {
                const size_t first = pith_qmat_per_tensor(&q) ? 0 : (size_t)r * COLS + k * q.group;
                const size_t n = pith_qmat_per_tensor(&q) ? ROWS * COLS : k == 3 ? 2 : q.group;
                float scale, zero;
                fit(grids[i], PITH_F16, w + first, n, &scale, &zero);
                assert_true(q.scales[pith_qmat_scale_index(&q, r, k)] == scale);
                if (q.zeros) assert_int_equal(q.zeros[pith_qmat_scale_index(&q, r, k)], (int)zero);
            }
        float *pseudo = malloc(ROWS * COLS * sizeof *pseudo), row[COLS];
        memcpy(pseudo, w, ROWS * COLS * sizeof *pseudo);
        assert_ok(pith_pseudo_quantize(NULL, &g, PITH_F16, ROWS, COLS, pseudo, &err), err);
        for (uint32_t r = 0; r < ROWS; r++) {
            uint8_t codes[COLS];
            pith_quantize_row(NULL, &q, r, w + r * COLS, codes, NULL);
            pith_qmat_set_codes(&q, r, codes);
            pith_qmat_decode(&q, r, 1, row);
            assert_memory_equal(row, pseudo + r * COLS, sizeof row);
        }
        free(pseudo);
        pith_qmat_free(&q);
    }
    free(w);
}

static void failures_name_the_group(void **state)
{
    (void)state;
    float w[2 * 8] = {0};
    w[8 + 5] = 3e6f;
    const struct pith_grid g = grid_of("int4:g4"), block = grid_of("int4:g4:dq");
    struct pith_error err = {0};
    assert_int_equal(pith_pseudo_quantize(NULL, &g, PITH_F16, 2, 8, w, &err), PITH_NUMERIC);
    assert_non_null(strstr(err.text, "row 1, group 1"));
    assert_non_null(strstr(err.text, "F16"));
    err = (struct pith_error){0};
    assert_int_equal(pith_pseudo_quantize(NULL, &block, PITH_F16, 2, 8, w, &err), PITH_UNSUPPORTED);
    static const char *const none[] = {"int4:g64:dq", "fp8_e4m3:g64:dq", "bf16", "int8:token"};
    for (size_t i = 0; i < PITH_COUNT(none); i++) assert_null(gridder(none[i]));
    size_t count;
    assert_non_null(pith_gridders(&count));
    assert_true(count >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_the_header),
        cmocka_unit_test(zeros_and_constants),
        cmocka_unit_test(ties_go_to_even_and_ends_are_clamped),
        cmocka_unit_test(nearest_level_is_taken),
        cmocka_unit_test(mse_is_never_worse_than_absmax),
        cmocka_unit_test(weighted_search_finds_the_least_squares),
        cmocka_unit_test(weighted_search_at_the_ends),
        cmocka_unit_test(stride_is_honoured),
        cmocka_unit_test(scales_fit_their_dtype),
        cmocka_unit_test(a_whole_matrix),
        cmocka_unit_test(failures_name_the_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
