/* Weights on GGUF's types: the search for scales against ggml's own
 * (tests/golden/quant/make_kfit.py), and GPTQ inside the blocks. */
#include "base/json.h"
#include "num/gguf/kmat.h"
#include "quant_test.h"

enum { ROWS = 16, COLS = 512 };
static const char *const types[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0",   "q2_k",
                                    "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"};

static void fill_importance(float h[COLS])
{
    for (int c = 0; c < COLS; c++)
        h[c] = (float)(c * 37 % 64 + 1) / 16 * (c % 29 == 3 ? 30.0f : 1.0f);
}

static double error_of(const struct pith_qmat *q, const float *w, const float *h)
{
    float *values = decode_all(q);
    double sum = 0;
    for (size_t i = 0; i < (size_t)q->rows * q->cols; i++) {
        const double d = (double)values[i] - (double)w[i];
        sum += d * d * (h ? (double)h[i % q->cols] : 1.0);
    }
    free(values);
    return sum;
}

/* w to nearest on scales for which errors count by h (or alike). */
static struct pith_qmat fitted(struct pith_backend *b, const char *type, const float *w,
                               const float *h, uint32_t rows, uint32_t cols)
{
    struct pith_error err = {0};
    struct pith_qmat q;
    uint8_t codes[COLS];
    float values[COLS];
    const struct pith_grid grid = grid_of(type);
    assert_ok(pith_qmat_init(&q, rows, cols, &grid, PITH_F16, &err), err);
    assert_ok(pith_fit_scales_for(b, &grid, w, h, &q, &err), err);
    for (uint32_t r = 0; r < rows; r++) {
        const float *row = w + (size_t)r * cols;
        float decoded[COLS];
        pith_quantize_row(b ? pith_backend_kern(b) : NULL, &q, r, row, codes, values);
        pith_qmat_set_codes(&q, r, codes);
        pith_qmat_decode(&q, r, 1, decoded);
        for (uint32_t c = 0; c < cols; c++) assert_true(decoded[c] == values[c]);
    }
    return q;
}

/* The measure is each one's own: what the weights say, not what ggml adds to them. */
static void errors_are_below_those_of_ggml(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *golden = NULL;
    assert_ok(pith_json_load("tests/golden/quant/kfit.json", 1 << 16, &golden, &err), err);
    float *w = golden_matrix(ROWS, COLS), h[COLS];
    fill_importance(h);
    struct machine m = make_machine(2);
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        const json_t *row = json_object_get(golden, types[i]);
        const double plain = json_real_value(json_object_get(row, "plain")),
                     weighted = json_real_value(json_object_get(row, "weighted"));
        struct pith_qmat a = fitted(m.backend, types[i], w, NULL, ROWS, COLS),
                         b = fitted(m.backend, types[i], w, h, ROWS, COLS);
        assert_true(plain > 0 && weighted > 0);
        print_message("%s: %.3f and %.3f of ggml's error\n", types[i],
                      error_of(&a, w, NULL) / plain, error_of(&b, w, h) / weighted);
        assert_true(error_of(&a, w, NULL) < plain);
        assert_true(error_of(&b, w, h) < weighted);
        assert_true(error_of(&b, w, h) < error_of(&a, w, h));
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
    free_machine(&m);
    free(w);
    json_decref(golden);
}

/* Scalar and vector code, one thread and three. */
static void scales_have_the_same_bits_everywhere(void **state)
{
    (void)state;
    float *w = golden_matrix(ROWS, COLS), h[COLS];
    fill_importance(h);
    struct machine m = make_machine(3);
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        struct pith_qmat a = fitted(NULL, types[i], w, h, 5, COLS),
                         b = fitted(m.backend, types[i], w, h, 5, COLS);
        assert_true(pith_qmat_equal(&a, &b));
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
    free_machine(&m);
    free(w);
}

static void check_packs(const struct pith_qmat *q)
{
    struct pith_error err = {0};
    struct pith_qmat back;
    const size_t bytes = pith_kmat_bytes(q->gguf, q->rows, q->cols);
    uint8_t *blocks = malloc(bytes);
    assert_ok(pith_kmat_pack(q->gguf, q, 0, q->rows, blocks, &err), err);
    assert_ok(pith_kmat_unpack(q->gguf, blocks, q->rows, q->cols, 1.0f, &back, &err), err);
    assert_true(pith_qmat_equal(q, &back)); /* what a file must keep: zeros' signs too */
    free(blocks);
    pith_qmat_free(&back);
}

/* Zeros, constants, one weight alone, very small and very large ones, importance of 0: scales that
 * the type can hold, and no error where none is needed. */
static void odd_weights(void **state)
{
    (void)state;
    enum { KINDS = 9 };
    float w[KINDS * 256] = {0}, h[256] = {0};
    for (int c = 0; c < 256; c++) {
        w[1 * 256 + c] = -0.25f;
        w[2 * 256 + c] = 0.25f;
        w[4 * 256 + c] = (float)(c % 5 - 2) * 0x1p-30f;
        w[5 * 256 + c] = (float)(c % 7 - 3) * 1000.0f;
        w[6 * 256 + c] = c < 128 ? 0.0f : (float)(c % 9 - 4);
        w[7 * 256 + c] = 1.0f + (float)(c % 16) / 16;
        w[8 * 256 + c] = c % 32 ? 1e-6f : 3.0f;
    }
    w[3 * 256 + 77] = 1.0f;
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        for (int zero = 0; zero < 2; zero++) {
            struct pith_qmat q = fitted(NULL, types[i], w, zero ? h : NULL, KINDS, 256);
            check_packs(&q);
            float *v = decode_all(&q);
            for (int c = 0; c < 256; c++) assert_true(v[c] == 0.0f);
            for (int c = 0; c < 256 && !zero; c++) {
                assert_true(fabsf(v[256 + c] + 0.25f) < 0.01f);
                assert_true(fabsf(v[512 + c] - 0.25f) < 0.01f);
            }
            free(v);
            pith_qmat_free(&q);
        }
    }
}

static void weights_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, 1e30f};
    for (size_t i = 0; i < PITH_COUNT(types); i++)
        for (size_t b = 0; b < PITH_COUNT(bad); b++) {
            struct pith_error err = {0};
            struct pith_qmat q;
            const struct pith_grid grid = grid_of(types[i]);
            float w[2 * 256];
            for (int c = 0; c < 512; c++) w[c] = (float)(c % 11 - 5);
            w[300] = bad[b];
            assert_ok(pith_qmat_init(&q, 2, 256, &grid, PITH_F16, &err), err);
            assert_int_equal(pith_fit_scales(NULL, &grid, w, &q, &err), PITH_NUMERIC);
            pith_qmat_free(&q);
        }
}

/* GPTQ inside the blocks loses less than the nearest codes on scales for the same inputs, in either
 * order, with the same bytes on any number of threads, and what comes out can be packed. */
static void gptq_inside_the_blocks(void **state)
{
    (void)state;
    struct problem p = make_problem(21, 70, 512, 900);
    struct pith_stats squares = p.stats;
    float h[512];
    for (int c = 0; c < 512; c++) h[c] = p.h[c * 512 + c] / 2;
    squares.squares = h;
    struct problem weighted = p;
    weighted.stats = squares;
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        struct pith_error err = {0};
        struct pith_round_report near, report, again;
        struct pith_qmat n, q, r;
        assert_ok(run_rounder("weighted", &weighted, types[i], PITH_ORDER_NONE, 2, &n, &near, &err),
                  err);
        for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_STATIC; order++) {
            assert_ok(
                run_rounder("gptq", &p, types[i], (enum pith_act_order)order, 3, &q, &report, &err),
                err);
            assert_ok(
                run_rounder("gptq", &p, types[i], (enum pith_act_order)order, 1, &r, &again, &err),
                err);
            assert_true(pith_qmat_equal(&q, &r));
            print_message("%s, order %d: %.3f of the loss of nearest\n", types[i], order,
                          report.loss / near.loss);
            assert_true(report.loss < 0.85 * near.loss);
            assert_true(near.loss < report.nearest_loss);
            check_packs(&q);
            pith_qmat_free(&q);
            pith_qmat_free(&r);
        }
        pith_qmat_free(&n);
    }
    free_problem(&p);
}

/* Inputs that are always 0 have no say in the scales, however large their weights. */
static void dead_inputs_have_no_say(void **state)
{
    (void)state;
    struct problem p = make_problem(8, 6, 256, 400);
    struct pith_error err = {0};
    struct pith_round_report whole, report;
    struct pith_qmat a, b;
    for (int i = 0; i < 256; i++)
        for (int d = 7; d < 256; d += 60) p.h[i * 256 + d] = p.h[d * 256 + i] = 0.0f;
    assert_ok(run_rounder("gptq", &p, "q4_k", PITH_ORDER_STATIC, 2, &a, &whole, &err), err);
    for (int r = 0; r < 6; r++)
        for (int d = 7; d < 256; d += 60) p.w[r * 256 + d] = 1000.0f;
    assert_ok(run_rounder("gptq", &p, "q4_k", PITH_ORDER_STATIC, 2, &b, &report, &err), err);
    assert_int_equal(report.dead_columns, 5);
    assert_true(pith_qmat_equal(&a, &b));
    assert_true(report.loss == whole.loss);
    check_packs(&b);
    pith_qmat_free(&a);
    pith_qmat_free(&b);
    free_problem(&p);
}

static void what_gptq_refuses(void **state)
{
    (void)state;
    struct problem p = make_problem(3, 8, 128, 200);
    struct pith_error err = {0};
    struct pith_round_report report;
    struct pith_qmat q;
    assert_int_equal(run_rounder("gptq", &p, "q4_k", PITH_ORDER_STATIC, 1, &q, &report, &err),
                     PITH_ARG); /* 128 columns are half a block */
    err = (struct pith_error){0};
    assert_int_equal(run_rounder("gptq", &p, "q4_0", PITH_ORDER_GROUP, 1, &q, &report, &err),
                     PITH_UNSUPPORTED);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_below_those_of_ggml),
        cmocka_unit_test(scales_have_the_same_bits_everywhere),
        cmocka_unit_test(odd_weights),
        cmocka_unit_test(weights_that_are_no_numbers_are_refused),
        cmocka_unit_test(gptq_inside_the_blocks),
        cmocka_unit_test(dead_inputs_have_no_say),
        cmocka_unit_test(what_gptq_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
