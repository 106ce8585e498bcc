/* Rounding to the codes of a trellis: the published distortion, the same walks by all kernels, the
 * same bytes on any number of threads, feedback that helps. */
#include "kern/ops.h"
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
            const double d = (double)pith_trellis_value(code, window[i]) - (double)x[i];
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

/* Neighbours overlap, so the walk is one that a tile can hold: what was packed is read again. */
static void walks_are_closed_and_the_same_everywhere(void **state)
{
    (void)state;
    for (unsigned bits = 1; bits <= 8; bits += bits < 4 ? 1 : 2) {
        struct search fast = open_search(pith_kern_usable(), PITH_TRELLIS_MUL1, bits);
        struct search plain = open_search(PITH_CPU_SCALAR, PITH_TRELLIS_MUL1, bits);
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
        pith_trellis_pack(a, bits, tile);
        for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++)
            assert_int_equal(pith_trellis_window(tile, bits, i), a[i]);
        free(x);
        close_search(&fast);
        close_search(&plain);
    }
}

/* Rounds the problem's weights; the errors are left in w, [ROWS][COLS]. */
static struct pith_qmat rounded(const struct problem *p, const char *rounder, unsigned threads,
                                float *w, struct pith_round_report *report)
{
    struct pith_error err = {0};
    struct pith_pool *pool = NULL;
    struct pith_backend *be = NULL;
    struct pith_qmat q;
    assert_ok(pith_pool_new(threads, &pool, &err), err);
    assert_ok(pith_backend_new(pool, pith_kern_usable(), &be, &err), err);
    struct pith_round_job job = {.backend = be,
                                 .scale_dtype = PITH_F16,
                                 .options = {.damp = 0.01, .act_order = PITH_ORDER_STATIC},
                                 .rows = p->rows,
                                 .cols = p->cols,
                                 .w = w,
                                 .stats = &p->stats};
    memcpy(w, p->w, (size_t)p->rows * p->cols * sizeof *w);
    assert_ok(pith_grid_parse("trellis2", &job.grid, &err), err);
    assert_ok(pith_round(pith_rounder_find(rounder), &job, &q, report, &err), err);
    pith_backend_free(be);
    pith_pool_free(pool);
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
        cmocka_unit_test(walks_are_closed_and_the_same_everywhere),
        cmocka_unit_test(feedback_helps_and_threads_do_not_matter),
        cmocka_unit_test(odd_matrices_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
