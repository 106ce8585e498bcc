/* Rounding to the codes of a trellis: the published distortion, the same walks by all kernels, the
 * same bytes on any number of threads, feedback that helps, of columns, of rows and of what the
 * inputs have drifted by. */
#include "kern/ops.h"
#include "quant/round/trellis_rows.h"
#include "quant/round/viterbi.h"
#include "quant_test.h"

enum { ROWS = 128, COLS = 256 };

struct search {
    struct pith_kern kern;
    struct pith_viterbi v;
    float *table;
    void *scratch;
};

static struct search open_search(uint32_t mask, enum pith_trellis_code code, unsigned bits)
{
    struct search s = {.table = malloc(PITH_TRELLIS_STATES * sizeof(float)),
                       .scratch = pith_alloc_aligned(pith_viterbi_bytes(bits), 1)};
    pith_kern_select(mask, &s.kern);
    pith_viterbi_table(code, bits, s.table);
    s.v = (struct pith_viterbi){NULL, bits, s.table};
    return s;
}

static void close_search(struct search *s)
{
    free(s->table);
    pith_free(s->scratch);
}

/* Mean squared error of normally distributed numbers with that deviation, divided by its square. */
static double distortion(enum pith_trellis_code code, unsigned bits, double deviation, size_t tiles)
{
    struct search s = open_search(pith_kern_usable(), code, bits);
    struct pith_rng rng;
    double error = 0, squares = 0;
    pith_rng_seed(&rng, 3);
    s.v.kern = &s.kern;
    for (size_t t = 0; t < tiles; t++) {
        float *x = random_floats(&rng, PITH_TRELLIS_WEIGHTS, deviation);
        uint16_t window[PITH_TRELLIS_WEIGHTS];
        pith_viterbi_walk(&s.v, x, s.scratch, window);
        for (size_t i = 0; i < PITH_TRELLIS_WEIGHTS; i++) {
            const double d = (double)pith_trellis_value(code, bits, window[i]) - (double)x[i];
            error += d * d;
            squares += (double)x[i] * (double)x[i];
        }
        free(x);
    }
    close_search(&s);
    return error / squares;
}

/* 0.069 at 2 bits for each of the computed codes (QTIP, table 1: 1MAD .069, 3INST .069); so few
 * tiles tell it within 3%. */
static void errors_are_the_published(void **state)
{
    (void)state;
    assert_true(fabs(distortion(PITH_TRELLIS_MUL1, 2, 1.0, 40) / 0.069 - 1) < 0.03);
    assert_true(fabs(distortion(PITH_TRELLIS_MCG, 2, 1.24, 20) / 0.069 - 1) < 0.03);
    assert_true(fabs(distortion(PITH_TRELLIS_3INST, 2, 1.24, 20) / 0.069 - 1) < 0.03);
}

/* A code whose numbers cost half as much: within some hundredths of the other's. */
static void errors_of_the_own_code_are_close(void **state)
{
    static const struct {
        double mul1, mul2; /* deviations */
    } best[] = {{0.99, 1.12}, {0.94, 1.08}, {0.9, 1.04}};
    (void)state;
    for (unsigned bits = 2; bits <= 4; bits++) {
        const double one = distortion(PITH_TRELLIS_MUL1, bits, best[bits - 2].mul1, 100);
        const double two = distortion(PITH_TRELLIS_MUL2, bits, best[bits - 2].mul2, 100);
        print_message("%u bits: %.5f of mul1, %.5f of mul2\n", bits, one, two);
        assert_true(two < 1.03 * one);
        assert_true(fabs(two * (1 << 2 * bits) / 1.13 - 1) < 0.06); /* 4^-bits is the bound */
    }
}

/* Neighbours overlap, so the walk is one that a tile can hold: what was packed is read again. */
static void check_walk(enum pith_trellis_code code, unsigned bits)
{
    struct search fast = open_search(pith_kern_usable(), code, bits);
    struct search plain = open_search(PITH_CPU_SCALAR, code, bits);
    struct pith_rng rng;
    uint16_t a[PITH_TRELLIS_WEIGHTS], b[PITH_TRELLIS_WEIGHTS];
    uint8_t tile[PITH_TRELLIS_WEIGHTS];
    pith_rng_seed(&rng, bits);
    float *x = random_floats(&rng, PITH_TRELLIS_WEIGHTS, 1.0);
    fast.v.kern = &fast.kern;
    plain.v.kern = &plain.kern;
    pith_viterbi_walk(&fast.v, x, fast.scratch, a);
    pith_viterbi_walk(&plain.v, x, plain.scratch, b);
    assert_memory_equal(a, b, sizeof a);
    pith_trellis_pack(code, a, bits, tile);
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++)
        assert_int_equal(pith_trellis_window(&(struct pith_trellis_tile){code, bits, tile}, i),
                         a[i]);
    free(x);
    close_search(&fast);
    close_search(&plain);
}

static void walks_are_closed_and_the_same_everywhere(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 8; bits += bits < 4 ? 1 : 2)
        check_walk(PITH_TRELLIS_MUL1, bits);
    for (unsigned bits = 3; bits <= 5; bits++) check_walk(PITH_TRELLIS_MUL2, bits);
}

/* Rounds the problem's weights; the errors are left in w, [ROWS][COLS]. */
static struct pith_qmat rounded(const struct problem *p, const char *rounder, unsigned threads,
                                float *w, struct pith_round_report *report)
{
    struct machine m = make_machine(threads);
    struct pith_round_job job = problem_job(p, &m, "trellis2", PITH_ORDER_STATIC, w);
    struct pith_error err = {0};
    struct pith_qmat q;
    job.scale_dtype = PITH_F16;
    assert_ok(pith_round(pith_rounder_find(rounder), &job, &q, report, &err), err);
    free_machine(&m);
    return q;
}

static void feedback_helps_and_threads_do_not_matter(void **state)
{
    (void)state;
    struct problem p = make_problem(5, ROWS, COLS, 300);
    struct pith_round_report one, three, plain;
    float *w = malloc(ROWS * COLS * sizeof *w), *back = malloc(ROWS * COLS * sizeof *back);
    struct pith_qmat a = rounded(&p, "gptq", 1, w, &one);
    pith_qmat_decode(&a, 0, ROWS, back);
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++) assert_true(w[i] == p.w[i] - back[i]);
    struct pith_qmat b = rounded(&p, "gptq", 3, w, &three);
    struct pith_qmat c = rounded(&p, "nearest", 2, w, &plain);
    assert_true(pith_qmat_equal(&a, &b));
    assert_true(one.loss == three.loss && one.nearest_loss == three.nearest_loss);
    assert_true(one.loss < 0.7 * plain.loss);
    assert_true(fabs(one.nearest_loss / plain.loss - 1) < 0.25); /* what is expected of it */
    pith_qmat_free(&a);
    pith_qmat_free(&b);
    pith_qmat_free(&c);
    free(w);
    free(back);
    free_problem(&p);
}

/* x^T H' x by its definition: the mean diagonal is 1, then `damp` is added. */
static double felt_of(const struct problem *p, const float *scales, const float *x, double damp)
{
    const uint32_t n = p->rows;
    double *h = calloc((size_t)n * n, sizeof *h), mean = 0, sum = 0, squares = 0;
    for (uint32_t at = 0; at < n; at += OUTPUTS)
        for (uint32_t i = 0; i < OUTPUTS; i++)
            for (uint32_t j = 0; j < OUTPUTS; j++)
                h[(size_t)(at + i) * n + at + j] =
                    (double)p->outputs[at * OUTPUTS + i * OUTPUTS + j] * (double)scales[at + i] *
                    (double)scales[at + j];
    double *y = calloc(n, sizeof *y); /* T x, by block */
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i / 128 * 128; j < i / 128 * 128 + 128; j++)
            y[i] += __builtin_parity(i & j & 127) ? -(double)x[j] : (double)x[j];
    for (uint32_t i = 0; i < n; i++) {
        /* The trace of T h T / 128 is that of h. */
        mean += h[(size_t)i * n + i] / n;
        squares += (double)x[i] * (double)x[i];
        for (uint32_t j = 0; j < n; j++) sum += y[i] * h[(size_t)i * n + j] * y[j] / 128;
    }
    free(h), free(y);
    return sum / mean + damp * squares;
}

/* With what tiles ask of each other the tiles' own parts are all that is felt. */
static void what_rows_ask_is_what_pairs_cost(void **state)
{
    (void)state;
    struct problem p = make_problem(9, 2 * ROWS, 16, 300);
    struct machine m = make_machine(1);
    struct pith_trellis_rows t = {.rows = p.rows, .block = pith_trellis_rows_block(OUTPUTS)};
    struct pith_rng rng;
    struct pith_error err = {0};
    pith_rng_seed(&rng, 10);
    float *x = random_floats(&rng, 16 * p.rows, 1.0), *scales = random_floats(&rng, p.rows, 1.0);
    float asked[16][16];
    const struct pith_trellis_felt felt = {{p.outputs, NULL}, OUTPUTS, scales};
    assert_int_equal(t.block, 128);
    t.s = malloc(sizeof *t.s * t.rows * t.block);
    assert_ok(pith_trellis_rows_make(&t, m.backend, &felt, 0.01, &err), err);
    for (unsigned c = 0; c < 16; c += 15) {
        double sum = 0;
        for (uint32_t row = 0; row < p.rows; row += 16) {
            const float *s = t.s + row / 128 * 128 * 128 + row % 128 * 129;
            pith_trellis_rows_correct(&t, x, p.rows, row, asked);
            for (unsigned j = 0; j < 16; j++) {
                double own = 0;
                for (unsigned i = 0; i <= j; i++)
                    own += (double)s[i * 128 + j] *
                           ((double)x[c * p.rows + row + i] + (double)asked[c][i]);
                sum += own * own;
            }
        }
        assert_true(fabs(sum / felt_of(&p, scales, x + c * p.rows, 0.01) - 1) < 1e-4);
    }
    free(x), free(scales), free(t.s);
    free_machine(&m);
    free_problem(&p);
}

static void rows_and_drift_are_made_up_for(void **state)
{
    (void)state;
    struct problem p = make_problem(7, 2 * ROWS, COLS / 2, 300);
    const size_t n = (size_t)p.rows * p.cols;
    struct machine m = make_machine(1);
    struct pith_outputs o = {p.rows, OUTPUTS, malloc(sizeof(float) * p.rows * OUTPUTS),
                             malloc(sizeof(float) * p.rows)};
    const struct pith_outputs_felt felt = {p.outputs, NULL};
    struct pith_error err = {0};
    struct pith_round_report plain, pairs, qep, both;
    float *w = malloc(n * sizeof *w), *back = malloc(n * sizeof *back);
    double loss;
    assert_ok(pith_outputs_make(&o, m.backend, &felt, 0.01, &err), err);
    struct pith_qmat a = rounded(&p, "gptq", 2, w, &plain);
    pith_outputs_weigh(&o, m.backend, w, p.cols);
    assert_ok(pith_round_loss(m.backend, w, p.rows, p.cols, p.h, &loss, &err), err);
    struct pith_qmat b = rounded(&p, "gptq:kron", 1, w, &pairs);
    print_message("%.4g felt of gptq, %.4g of gptq:kron\n", loss, pairs.loss);
    assert_true(pairs.loss < 0.9 * loss);
    struct pith_qmat c = rounded(&p, "qep", 3, w, &qep);
    pith_qmat_decode(&c, 0, p.rows, back);
    for (size_t i = 0; i < n; i++) assert_true(w[i] == p.w[i] - back[i]);
    assert_false(pith_qmat_equal(&a, &c));
    struct pith_qmat d = rounded(&p, "qep:kron", 1, w, &both);
    struct pith_qmat e = rounded(&p, "qep:kron", 3, w, &both);
    assert_true(pith_qmat_equal(&d, &e));
    assert_false(pith_qmat_equal(&c, &d));
    memset(p.outputs, 0, sizeof(float) * p.rows * OUTPUTS);
    struct pith_qmat f = rounded(&p, "gptq:kron", 2, w, &pairs);
    assert_true(pith_qmat_equal(&a, &f)); /* nothing is felt */
    pith_qmat_free(&a), pith_qmat_free(&b), pith_qmat_free(&c);
    pith_qmat_free(&d), pith_qmat_free(&e), pith_qmat_free(&f);
    free(w), free(back), free(o.s), free(o.diagonal);
    free_machine(&m);
    free_problem(&p);
}

/* The drifted target's GPTQ has the least error of Q X against W X'. */
static void drift_costs_less_with_qep(void **state)
{
    (void)state;
    struct problem p = make_problem(11, ROWS, ROWS, 300);
    struct machine m = make_machine(1);
    const size_t n = p.cols;
    struct pith_round_report report;
    float *w = malloc(n * n * sizeof *w);
    double felt[2];
    for (int k = 0; k < 2; k++) {
        struct pith_error err = {0};
        struct pith_qmat q = rounded(&p, k ? "qep" : "gptq", 1, w, &report);
        /* |E X + W D'|^2 but for the last term's square: E H E^T + 2 W D E^T. */
        assert_ok(pith_round_loss(m.backend, w, p.rows, p.cols, p.h, &felt[k], &err), err);
        double cross = 0;
        for (size_t r = 0; r < n; r++)
            for (size_t j = 0; j < n; j++)
                for (size_t i = 0; i < n; i++)
                    cross += (double)p.w[r * n + i] * (double)p.drift[i * n + j] *
                             (double)w[r * n + j];
        felt[k] += 2 * cross / p.rows;
        pith_qmat_free(&q);
    }
    print_message("against the original's outputs %.4g of gptq, %.4g of qep\n", felt[0], felt[1]);
    assert_true(felt[1] < felt[0]);
    free(w);
    free_machine(&m);
    free_problem(&p);
}

static void what_it_cannot_go_by_is_refused(void **state)
{
    (void)state;
    struct problem p = make_problem(8, ROWS, ROWS, 200);
    struct machine m = make_machine(1);
    float *w = malloc(sizeof *w * ROWS * ROWS);
    static const struct refused {
        enum pith_status status;
        uint32_t block;
        const char *rounder, *text;
    } cases[] = {{PITH_UNSUPPORTED, 64, "gptaq", "gptaq does not go with trellis2"},
                 {PITH_UNSUPPORTED, 192, "gptq:kron", "an output_block of 192 does not go with"},
                 {PITH_ARG, 128, "gptq:kron", "needs the Hessian of outputs"},
                 {PITH_NUMERIC, 64, "gptq:kron", "at output 64"},
                 {PITH_ARG, 64, "qep", "what the inputs have drifted by"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_round_report report;
        struct pith_qmat q;
        const struct pith_round_job job = {.backend = m.backend,
                                           .grid = grid_of("trellis2"),
                                           .scale_dtype = PITH_F16,
                                           .options = {.damp = 0.01,
                                                       .drift = 1,
                                                       .output_damp = 0.01,
                                                       .output_block = cases[i].block},
                                           .rows = ROWS,
                                           .cols = ROWS,
                                           .w = w,
                                           .stats = &p.stats};
        memcpy(w, p.w, sizeof *w * ROWS * ROWS);
        p.outputs[OUTPUTS * OUTPUTS] = i == 3 ? (float)NAN : 1.0f;
        if (i == 4) p.stats.drift = NULL;
        assert_int_equal(
            pith_rounder_run(pith_rounder_find(cases[i].rounder), &job, &q, &report, &err),
            cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    free(w);
    free_machine(&m);
    free_problem(&p);
}

/* Rows and columns of zeros, rows of another size, weights far below F16's. */
static void odd_matrices_round(void **state)
{
    (void)state;
    struct problem p = make_problem(6, ROWS, COLS, 300);
    struct pith_round_report report;
    float *w = malloc(ROWS * COLS * sizeof *w), *back = malloc(ROWS * COLS * sizeof *back);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t c = 0; c < COLS; c++)
            p.w[r * COLS + c] *= r == 7 || c == 9 ? 0.0f : r == 20 ? 1e-3f : 1e-5f;
    struct pith_qmat q = rounded(&p, "nearest", 1, w, &report);
    struct pith_error err = {0};
    assert_ok(pith_qmat_check(&q, &err), err);
    pith_qmat_decode(&q, 0, ROWS, back);
    double error = 0, squares = 0;
    for (uint32_t c = 0; c < COLS; c++) assert_true(back[7 * COLS + c] == 0.0f);
    for (uint32_t i = 0; i < COLS; i++) {
        error += (double)w[20 * COLS + i] * (double)w[20 * COLS + i];
        squares += (double)p.w[20 * COLS + i] * (double)p.w[20 * COLS + i];
    }
    assert_true(error < 0.15 * squares);
    pith_qmat_free(&q);
    free(w);
    free(back);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_the_published),
        cmocka_unit_test(errors_of_the_own_code_are_close),
        cmocka_unit_test(walks_are_closed_and_the_same_everywhere),
        cmocka_unit_test(feedback_helps_and_threads_do_not_matter),
        cmocka_unit_test(what_rows_ask_is_what_pairs_cost),
        cmocka_unit_test(rows_and_drift_are_made_up_for),
        cmocka_unit_test(drift_costs_less_with_qep),
        cmocka_unit_test(what_it_cannot_go_by_is_refused),
        cmocka_unit_test(odd_matrices_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
