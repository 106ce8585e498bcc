/* The grids beyond integers: codes and scales of compressed-tensors, ModelOpt, bitsandbytes and HQQ
 * (tests/golden/quant/make_grids.py) on the same matrix; and what holds for any weights. */
#include "base/hash.h"
#include "num/block.h"
#include "num/codebook.h"
#include "oracle.h"
#include "quant/grid/hqq.h"

enum { ROWS = 132, COLS = 192 };

static float *floats_of(const json_t *j, const char *key, size_t *n)
{
    const char *s = text_of(j, key);
    float *out = malloc((strlen(s) / 9 + 1) * sizeof *out);
    for (*n = 0; *s; (*n)++) {
        char *end;
        const uint32_t bits = (uint32_t)strtoul(s, &end, 16);
        memcpy(&out[*n], &bits, sizeof bits);
        s = *end ? end + 1 : end;
    }
    return out;
}

/* bitsandbytes' FP4 has two zeros, whose choice its kernels do not agree on. */
static void hash_codes(const struct pith_qmat *q, char hex[PITH_SHA256_HEX],
                       char first[2 * COLS + 1])
{
    const bool zeros = strcmp(q->format->name, "bnb_fp4") == 0;
    struct pith_sha256 *h = pith_sha256_new();
    uint8_t codes[COLS];
    for (uint32_t r = 0; r < ROWS; r++) {
        pith_qmat_get_codes(q, r, codes);
        for (size_t c = 0; c < COLS && zeros; c++) codes[c] = codes[c] == 8 ? 0 : codes[c];
        pith_sha256_update(h, codes, COLS);
        for (size_t c = 0; c < COLS && r == 0; c++) snprintf(first + 2 * c, 3, "%02x", codes[c]);
    }
    pith_sha256_finish(h, hex);
}

/* w rounded to nearest; *loss receives the squared error of all of it. */
static struct pith_qmat nearest(const char *grid, const float *w, double *loss)
{
    struct pith_error err = {0};
    struct machine m = make_machine(2);
    struct pith_round_report report;
    struct pith_qmat q;
    float *copy = malloc(sizeof(float) * ROWS * COLS);
    memcpy(copy, w, sizeof(float) * ROWS * COLS);
    const struct pith_round_job job = {.backend = m.backend,
                                       .grid = grid_of(grid),
                                       .scale_dtype = PITH_F32,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .w = copy};
    assert_ok(pith_rounder_run(pith_rounder_find("nearest"), &job, &q, &report, &err), err);
    assert_ok(pith_qmat_check(&q, &err), err);
    *loss = report.loss * ROWS;
    free(copy);
    free_machine(&m);
    return q;
}

static void assert_codes(const char *name, const struct pith_qmat *q, const json_t *row)
{
    char hex[PITH_SHA256_HEX], first[2 * COLS + 1];
    hash_codes(q, hex, first);
    if (strcmp(hex, text_of(row, "codes")) != 0)
        fail_msg("%s: other codes; the first row is\n%s, expected\n%s", name, first,
                 text_of(row, "first"));
}

static void assert_scales(const char *name, const struct pith_qmat *q, const json_t *row)
{
    size_t n;
    float *want = floats_of(row, "scales", &n);
    assert_int_equal(n, pith_qmat_scale_count(q));
    for (size_t i = 0; i < n; i++)
        if (q->scales[i] != want[i])
            fail_msg("%s: scale %zu is %a, expected %a", name, i, (double)q->scales[i],
                     (double)want[i]);
    free(want);
}

static void the_codes_of_the_field(void **state)
{
    (void)state;
    static const char *const names[] = {"fp8_e4m3:tensor",   "fp8_e4m3:channel", "fp8_e4m3:g64",
                                        "fp8_e4m3:block128", "fp4_e2m1:g32",     "mxfp4:even",
                                        "mxfp8:even",        "mxfp6_e2m3:even",  "mxfp4:ceil",
                                        "mxfp8:ceil",        "nf4:g64",          "bnb_fp4:g64"};
    json_t *golden = load_golden("grids.json");
    float *w = golden_matrix(ROWS, COLS);
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const json_t *row = json_object_get(golden, names[i]);
        double loss;
        struct pith_qmat q = nearest(names[i], w, &loss);
        assert_codes(names[i], &q, row);
        assert_scales(names[i], &q, row);
        pith_qmat_free(&q);
    }
    free(w);
    json_decref(golden);
}

/* The scale of the tensor lies some units in the last place beside theirs, where a factor and a
 * divisor mean the same (num/block.h); codes and the blocks' scales are theirs. */
static void nvfp4_of_both_conventions(void **state)
{
    (void)state;
    json_t *golden = load_golden("grids.json");
    const json_t *ct = json_object_get(golden, "nvfp4"),
                 *modelopt = json_object_get(golden, "modelopt nvfp4");
    float *w = golden_matrix(ROWS, COLS);
    double loss;
    size_t n;
    struct pith_qmat q = nearest("nvfp4", w, &loss);
    float *divisor = floats_of(ct, "global", &n), *factor = floats_of(modelopt, "global", &n);
    float *scales = floats_of(modelopt, "scales", &n), *same = floats_of(ct, "scales", &n);
    assert_codes("compressed-tensors", &q, ct);
    assert_codes("ModelOpt", &q, modelopt);
    assert_int_equal(n, pith_qmat_scale_count(&q));
    for (size_t i = 0; i < n; i++) {
        assert_true(q.scales[i] == scales[i] * q.global);
        assert_true(q.scales[i] == same[i] / pith_nvfp4_divisor(q.global));
    }
    assert_true(fabsf(q.global / *factor - 1) < 1e-5f);
    assert_true(fabsf(q.global * *divisor - 1) < 1e-5f);
    free(divisor), free(factor), free(scales), free(same), free(w);
    pith_qmat_free(&q);
    json_decref(golden);
}

/* The second quantization is bitsandbytes' to the bit. Its codes of the weights are those of the
 * scales before it; pith's are of the scales that are stored, with which they lose less. */
static void double_quantization(void **state)
{
    (void)state;
    static const char *const names[] = {"nf4:g64:dq", "bnb_fp4:g64:dq"};
    json_t *golden = load_golden("grids.json");
    float *w = golden_matrix(ROWS, COLS);
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const json_t *row = json_object_get(golden, names[i]);
        const double theirs = json_real_value(json_object_get(row, "squares"));
        const char *nested = text_of(row, "nested");
        double loss;
        size_t n, runs, one;
        struct pith_qmat q = nearest(names[i], w, &loss);
        float *absmax = floats_of(row, "nested_absmax", &runs);
        float *offset = floats_of(row, "offset", &one), *scales = floats_of(row, "scales", &n);
        assert_non_null(q.nested);
        assert_int_equal(n, pith_qmat_scale_count(&q));
        assert_float_equal(q.nested->offset, *offset, 1e-7f);
        for (size_t k = 0; k < runs; k++) assert_float_equal(q.nested->absmax[k], absmax[k], 1e-7f);
        size_t other = 0;
        for (size_t k = 0; k < n; k++) {
            char hex[3];
            snprintf(hex, sizeof hex, "%02x", q.nested->code[k]);
            other += memcmp(hex, nested + 2 * k, 2) != 0;
            assert_float_equal(q.scales[k], scales[k], 0.02f * absmax[k / 256]);
        }
        print_message("%s: %zu of %zu scales' codes differ, loss %.6g, bitsandbytes' %.6g\n",
                      names[i], other, n, loss, theirs);
        assert_true(other * 50 <= n);
        assert_true(loss <= theirs);
        free(absmax), free(offset), free(scales);
        pith_qmat_free(&q);
    }
    free(w);
    json_decref(golden);
}

/* What the documents say: without double quantization the codes are bitsandbytes' (above), and its
 * own with double quantization are the same; pith's are not, since other scales are stored. */
static void double_quantization_moves_few_codes(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"nf4:g64", "nf4:g64:dq"},
                                           {"bnb_fp4:g64", "bnb_fp4:g64:dq"}};
    json_t *golden = load_golden("grids.json");
    float *w = golden_matrix(ROWS, COLS);
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        double loss;
        size_t other = 0;
        struct pith_qmat a = nearest(names[i][0], w, &loss), b = nearest(names[i][1], w, &loss);
        assert_string_equal(text_of(json_object_get(golden, names[i][0]), "codes"),
                            text_of(json_object_get(golden, names[i][1]), "codes"));
        for (uint32_t r = 0; r < ROWS; r++) {
            uint8_t one[COLS], two[COLS];
            pith_qmat_get_codes(&a, r, one);
            pith_qmat_get_codes(&b, r, two);
            for (size_t c = 0; c < COLS; c++) other += one[c] != two[c];
        }
        print_message("%s: %zu of %d codes are not bitsandbytes'\n", names[i][1], other,
                      ROWS * COLS);
        assert_true(other > 0 && other * 10 < ROWS * COLS);
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
    free(w);
    json_decref(golden);
}

static double row_squares(const struct pith_qmat *q, const float *w, uint32_t row)
{
    float back[COLS];
    double sum = 0;
    pith_qmat_decode(q, row, 1, back);
    for (size_t c = 0; c < COLS; c++)
        sum += ((double)back[c] - (double)w[row * COLS + c]) *
               ((double)back[c] - (double)w[row * COLS + c]);
    return sum;
}

static void searched_scales_lose_less(void **state)
{
    (void)state;
    static const char *const names[] = {
        "fp8_e4m3:channel", "fp6_e2m3:g32", "fp4_e2m1:g32",     "fp4_e2m1:channel",
        "fp8_e5m2:tensor",  "nf4:g64",      "bnb_fp4:g64",      "mxfp4",
        "mxfp6_e3m2",       "mxfp8",        "fp8_e4m3:block128"};
    float *w = golden_matrix(ROWS, COLS);
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        char mse[48];
        double plain, searched;
        snprintf(mse, sizeof mse, "%s:mse", names[i]);
        struct pith_qmat a = nearest(names[i], w, &plain), b = nearest(mse, w, &searched);
        for (uint32_t r = 0; r < ROWS && a.row_group == 1; r++)
            assert_true(row_squares(&b, w, r) <= row_squares(&a, w, r) * (1 + 1e-6));
        assert_true(searched <= plain * (1 + 1e-6));
        print_message("%-20s squared error %.6g, searched %.6g\n", names[i], plain, searched);
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
    double plain, searched;
    struct pith_qmat a = nearest("nvfp4", w, &plain), b = nearest("nvfp4:mse", w, &searched);
    print_message("%-20s squared error %.6g, searched %.6g\n", "nvfp4", plain, searched);
    assert_true(searched < 0.97 * plain); /* another scale of the tensor: not block by block */
    pith_qmat_free(&a), pith_qmat_free(&b);
    free(w);
}

/* No E4M3 scale gives a block less: the window of the search misses nothing that matters. */
static void the_search_of_nvfp4_is_nearly_exhaustive(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 5);
    const struct pith_grid g = grid_of("nvfp4:mse");
    const struct pith_format *f = pith_format_find("fp4_e2m1"),
                             *e4m3 = pith_format_find("fp8_e4m3");
    const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F8_E4M3, .global = 1e-3f};
    double got = 0, best = 0;
    for (int k = 0; k < 200; k++) {
        float w[16], scale, zero;
        for (int i = 0; i < 16; i++) w[i] = (float)(pith_rng_normal(&rng) * 0.05);
        pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 16, 1}, &scale, &zero);
        double least = INFINITY, mine = INFINITY;
        for (uint32_t code = 1; code < 0x7f; code++) {
            const float s = e4m3->decode(code) * rule.global;
            double sum = 0;
            for (int i = 0; i < 16; i++) {
                const double d = (double)(f->decode(f->encode(w[i] / s)) * s) - (double)w[i];
                sum += d * d;
            }
            if (s == scale) mine = sum;
            least = fmin(least, sum);
        }
        assert_true(isfinite(mine));
        got += mine;
        best += least;
    }
    assert_true(got <= 1.002 * best);
}

/* Strided weights, zeros, and weights too large for the scales' dtype. */
static void awkward_groups(void **state)
{
    (void)state;
    static const char *const names[] = {"fp8_e4m3:g32", "fp4_e2m1:g32:mse", "nf4:g32",   "mxfp4",
                                        "mxfp4:mse",    "mxfp8:even",       "mxfp6:ceil"};
    static const float zeros[32] = {0};
    float w[32], apart[64];
    for (int i = 0; i < 32; i++) w[i] = apart[2 * i] = (float)((i * 37) % 23 - 11) * 0.01f;
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const struct pith_grid g = grid_of(names[i]);
        const struct pith_gridder *gridder = pith_gridder_for(&g);
        const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F16, .global = 1};
        float a, b, zero;
        pith_grid_fit(gridder, &rule, &(struct pith_weights){w, 32, 1}, &a, &zero);
        pith_grid_fit(gridder, &rule, &(struct pith_weights){apart, 32, 2}, &b, &zero);
        assert_true(a == b && a > 0);
        pith_grid_fit(gridder, &rule, &(struct pith_weights){zeros, 32, 1}, &a, &zero);
        assert_true(isfinite(a) && a > 0);
        float row[2];
        pith_line_fit_row(&rule, gridder->scale_for, w, 32, 16, row);
        for (int k = 0; k < 2 && !g.mse; k++) {
            pith_grid_fit(gridder, &rule, &(struct pith_weights){w + 16 * k, 16, 1}, &a, &zero);
            assert_true(a == row[k]);
        }
        w[3] = NAN;
        pith_grid_fit(gridder, &rule, &(struct pith_weights){w, 32, 1}, &a, &zero);
        assert_true(isnan(a));
        w[3] = apart[6];
    }
    const struct pith_grid g = grid_of("fp8_e4m3:g32");
    const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F16};
    float scale, zero, large = 3e38f;
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){&large, 1, 1}, &scale, &zero);
    assert_true(isinf(scale));
}

/* HQQ's zero points are as good as the package's, and stored as they are. */
static void half_quadratic_zero_points(void **state)
{
    (void)state;
    json_t *golden = load_golden("grids.json");
    const json_t *hqq = json_object_get(golden, "hqq");
    float *w = golden_matrix(ROWS, COLS);
    for (unsigned bits = 2; bits <= 8; bits = bits == 4 ? 8 : bits + 1) {
        char key[2] = {(char)('0' + bits), 0}, plain[24], grid[32];
        const json_t *theirs = json_object_get(hqq, key);
        const double l1 = json_real_value(json_array_get(theirs, 0)),
                     l2 = json_real_value(json_array_get(theirs, 1));
        snprintf(plain, sizeof plain, "int%u:g64:asym", bits);
        snprintf(grid, sizeof grid, "%s:hqq", plain);
        const struct pith_grid g = grid_of(plain);
        const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F32};
        const float top = (float)((1u << bits) - 1);
        double sum = 0, squares = 0;
        for (size_t at = 0; at < ROWS * COLS; at += 64) {
            const struct pith_weights x = {w + at, 64, 1};
            float scale, zero, least = 0;
            pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w + at, 64, 1},
                          &scale, &zero);
            for (size_t i = at; i < at + 64; i++) least = fminf(least, w[i]);
            const float z = pith_hqq_zero(&x, scale, top, -least / scale);
            for (size_t i = at; i < at + 64; i++) {
                const float q = fminf(fmaxf(rintf(w[i] / scale + z), 0), top);
                const double e = (double)(q - z) * (double)scale - (double)w[i];
                sum += fabs(e);
                squares += e * e;
            }
        }
        double rounded, made;
        struct pith_qmat a = nearest(plain, w, &rounded), b = nearest(grid, w, &made);
        print_message("int%u: sum |e| %.5g, the package's %.5g; squares %.5g, %.5g; stored %.5g, "
                      "whole zero points %.5g\n",
                      bits, sum, l1, squares, l2, made, rounded);
        assert_true(sum <= 1.01 * l1);
        assert_true(squares <= 1.01 * l2);
        assert_true(fabs(made - squares) <= 1e-3 * squares);
        assert_true(b.offsets && !b.zeros);
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
    free(w);
    json_decref(golden);
}

/* A searched range makes room for an outlier as far as that counts. */
static void weights_decide_the_range(void **state)
{
    (void)state;
    const struct pith_grid g = grid_of("int3:g64");
    float w[64], weight[64], alike, without, above, zero;
    for (int i = 0; i < 64; i++) {
        w[i] = sinf((float)(i * i));
        weight[i] = 1.0f;
    }
    w[9] = 3.0f;
    const struct pith_grid_rule rule = {.grid = &g, .scale_dtype = PITH_F32, .weight = weight};
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 64, 1}, &alike, &zero);
    for (int i = 0; i < 64; i++) weight[i] = 0x1p-9f;
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 64, 1}, &without, &zero);
    assert_true(without == alike); /* only how they compare counts */
    weight[9] = 0.0f;
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 64, 1}, &without, &zero);
    weight[9] = 1e6f;
    pith_grid_fit(pith_gridder_for(&g), &rule, &(struct pith_weights){w, 64, 1}, &above, &zero);
    assert_true(fabsf(without) < fabsf(alike) && fabsf(alike) < fabsf(above));
}

/* GPTQ on every kind of grid: less loss than nearest on the same grid, whatever the order. */
static void gptq_beats_nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"fp8_e4m3:tensor",
                                        "fp8_e4m3:channel",
                                        "fp8_e4m3:block128",
                                        "fp8_e5m2:g64",
                                        "fp6_e3m2:g32",
                                        "fp4_e2m1:channel",
                                        "fp4_e2m1:g32:mse",
                                        "nf4:g64",
                                        "nf4:g64:dq",
                                        "bnb_fp4:g64",
                                        "mxfp8",
                                        "mxfp6",
                                        "mxfp4",
                                        "mxfp4:mse",
                                        "mxfp4:even",
                                        "nvfp4",
                                        "nvfp4:mse",
                                        "int3:g64:asym:hqq",
                                        "int4:block128",
                                        "int4:block128:asym"};
    struct problem p = make_problem(31, 150, 192, 400);
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
            struct pith_round_report report, other;
            struct pith_error err = {0};
            struct pith_qmat q, r;
            if (grid_of(names[i]).double_quant && order == PITH_ORDER_GROUP) continue;
            assert_ok(
                run_rounder("gptq", &p, names[i], (enum pith_act_order)order, 2, &q, &report, &err),
                err);
            assert_ok(pith_qmat_check(&q, &err), err);
            float *values = decode_all(&q);
            const double loss = exact_loss(&p, values);
            assert_true(fabs(report.loss - loss) < 1e-3 * loss);
            print_message("%-20s order %d: loss %.5g, nearest %.5g\n", names[i], order, report.loss,
                          report.nearest_loss);
            assert_true(report.loss < 0.8 * report.nearest_loss);
            assert_ok(
                run_rounder("gptq", &p, names[i], (enum pith_act_order)order, 1, &r, &other, &err),
                err);
            assert_true(pith_qmat_equal(&q, &r));
            free(values);
            pith_qmat_free(&q);
            pith_qmat_free(&r);
        }
    free_problem(&p);
}

/* Rows in parts, as a run that streams has them, make the matrix that run() makes. */
static void rows_in_parts(void **state)
{
    (void)state;
    static const char *const names[] = {
        "fp8_e4m3:channel",  "fp8_e4m3:block64", "mxfp4", "nvfp4", "nf4:g64",
        "int4:g64:asym:hqq", "int8:block64:asym"};
    struct machine m = make_machine(1);
    struct pith_error err = {0};
    float *w = golden_matrix(ROWS, COLS), *copy = malloc(sizeof(float) * ROWS * COLS);
    float tile[64 * 64];
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        uint8_t codes[COLS];
        float values[COLS];
        double loss, squares = 0;
        const struct pith_grid g = grid_of(names[i]);
        struct pith_qmat want = nearest(names[i], w, &loss), got;
        assert_ok(pith_qmat_init(&got, ROWS, COLS, &g, PITH_F32, &err), err);
        got.global = want.global;
        memcpy(copy, w, sizeof(float) * ROWS * COLS);
        for (uint32_t at = 0; at < ROWS; at += 64) {
            const struct pith_round_rows part = {.backend = m.backend,
                                                 .grid = &g,
                                                 .first = at,
                                                 .rows = ROWS - at < 64 ? ROWS - at : 64,
                                                 .tile = tile,
                                                 .w = copy + at * COLS,
                                                 .codes = codes,
                                                 .values = values};
            assert_ok(pith_rounder_find("nearest")->by->rows(&part, &got, &squares, &err), err);
        }
        assert_true(pith_qmat_equal(&got, &want));
        assert_true(fabs(squares - loss) <= 1e-9 * loss);
        pith_qmat_free(&got);
        pith_qmat_free(&want);
    }
    free(w), free(copy);
    free_machine(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_codes_of_the_field),
        cmocka_unit_test(nvfp4_of_both_conventions),
        cmocka_unit_test(double_quantization),
        cmocka_unit_test(double_quantization_moves_few_codes),
        cmocka_unit_test(searched_scales_lose_less),
        cmocka_unit_test(the_search_of_nvfp4_is_nearly_exhaustive),
        cmocka_unit_test(awkward_groups),
        cmocka_unit_test(half_quadratic_zero_points),
        cmocka_unit_test(weights_decide_the_range),
        cmocka_unit_test(gptq_beats_nearest),
        cmocka_unit_test(rows_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
