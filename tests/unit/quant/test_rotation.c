/* quant/rotation: products of the definition's matrix, on either side, for any width. */
#include "base/mem.h"
#include "base/rng.h"
#include "num/hadamard.h"
#include "quant/basis.h"
#include "quant/recipe.h"
#include "quant/rotation.h"
#include "test.h"

#include <math.h>

static const uint32_t shapes[][2] = {
    /* dim, block */
    {1, 1}, {8, 8}, {12, 12}, {24, 24}, {24, 8}, {40, 40}, {56, 28}, {52, 52}, {96, 32}, {15, 1},
};

/* R in full, from the definition. */
static double *expand(const struct pith_rotation *r)
{
    const size_t size = r->block / r->core;
    double *m = pith_zalloc((size_t)r->dim * r->dim, sizeof *m);
    assert_non_null(m);
    for (size_t i = 0; i < r->dim; i++)
        for (size_t j = 0; j < r->dim; j++) {
            if (i / r->block != j / r->block) continue;
            const size_t a = i % r->block, b = j % r->block;
            const int core = r->matrix[a / size * r->core + b / size];
            const int sylvester = __builtin_parityll(a % size & b % size) ? -1 : 1;
            m[i * r->dim + j] = core * sylvester * (r->signs ? r->signs[j] : 1) / sqrt(r->block);
        }
    return m;
}

static float *normals(struct pith_rng *rng, size_t n)
{
    float *w = pith_alloc(n, sizeof *w);
    assert_non_null(w);
    for (size_t i = 0; i < n; i++) w[i] = (float)pith_rng_normal(rng);
    return w;
}

static void assert_close(const float *w, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)w[i] - want[i]) <= 1e-6)) fail_msg("value %zu: %g", i, (double)w[i]);
}

static void check_shape(uint32_t dim, uint32_t block, bool with_signs)
{
    enum { OTHER = 13, PARTS = 2 };
    struct pith_rng rng;
    struct pith_rotation r;
    struct pith_error err = {0};
    pith_rng_seed(&rng, 7);
    assert_ok(pith_rotation_init(&r, dim, block, with_signs ? &rng : NULL, &err), err);
    double *m = expand(&r);
    const size_t n = (size_t)PARTS * dim * OTHER;
    float *w = normals(&rng, n), *was = pith_alloc(n, sizeof *was);
    double *want = pith_zalloc(n, sizeof *want);
    memcpy(was, w, n * sizeof *w);
    for (size_t row = 0; row < OTHER; row++)
        for (size_t c = 0; c < (size_t)PARTS * dim; c++)
            for (size_t k = 0; k < dim; k++)
                want[row * PARTS * dim + c] += (double)was[row * PARTS * dim + c / dim * dim + k] *
                                               m[c % dim * dim + k];
    assert_ok(pith_rotate_inputs(NULL, &r, w, OTHER, (size_t)PARTS * dim, &err), err);
    assert_close(w, want, n);
    memcpy(w, was, n * sizeof *w);
    memset(want, 0, n * sizeof *want);
    for (size_t i = 0; i < (size_t)PARTS * dim; i++)
        for (size_t c = 0; c < OTHER; c++)
            for (size_t k = 0; k < dim; k++)
                want[i * OTHER + c] += m[i % dim * dim + k] *
                                       (double)was[(i / dim * dim + k) * OTHER + c];
    assert_ok(pith_rotate_outputs(NULL, &r, w, (size_t)PARTS * dim, OTHER, &err), err);
    assert_close(w, want, n);
    pith_free(w);
    pith_free(was);
    pith_free(want);
    pith_free(m);
    pith_rotation_free(&r);
}

static void both_sides_are_the_definition(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) {
        check_shape(shapes[i][0], shapes[i][1], true);
        check_shape(shapes[i][0], shapes[i][1], false);
    }
}

/* W R^T (R x) is W x. */
static void lengths_and_products_stay(void **state)
{
    (void)state;
    enum { DIM = 1536, ROWS = 3 };
    struct pith_rng rng;
    struct pith_rotation r;
    struct pith_error err = {0};
    pith_rng_seed(&rng, 3);
    assert_ok(pith_rotation_init(&r, DIM, DIM, &rng, &err), err);
    float *w = normals(&rng, ROWS * DIM), *x = normals(&rng, DIM);
    double before[ROWS] = {0}, after[ROWS] = {0};
    x[11] = 300;
    for (size_t i = 0; i < ROWS * DIM; i++) before[i / DIM] += (double)w[i] * (double)x[i % DIM];
    assert_ok(pith_rotate_inputs(NULL, &r, w, ROWS, DIM, &err), err);
    assert_ok(pith_rotate_outputs(NULL, &r, x, DIM, 1, &err), err);
    float largest = 0;
    for (size_t i = 0; i < DIM; i++) largest = fmaxf(largest, fabsf(x[i]));
    assert_true(largest < 20);
    for (size_t i = 0; i < ROWS * DIM; i++) after[i / DIM] += (double)w[i] * (double)x[i % DIM];
    for (size_t i = 0; i < ROWS; i++) assert_true(fabs(before[i] - after[i]) < 1e-3);
    pith_free(w);
    pith_free(x);
    pith_rotation_free(&r);
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    enum { DIM = 24, ROWS = 48, COLS = 72 };
    struct pith_rng rng;
    struct pith_rotation r;
    struct pith_error err = {0};
    struct pith_pool *pool;
    pith_rng_seed(&rng, 5);
    assert_ok(pith_rotation_init(&r, DIM, DIM, &rng, &err), err);
    assert_ok(pith_pool_new(3, &pool, &err), err);
    float *a = normals(&rng, ROWS * COLS), *b = pith_alloc(ROWS * COLS, sizeof *b);
    memcpy(b, a, ROWS * COLS * sizeof *a);
    assert_ok(pith_rotate_inputs(NULL, &r, a, ROWS, COLS, &err), err);
    assert_ok(pith_rotate_outputs(NULL, &r, a, ROWS, COLS, &err), err);
    assert_ok(pith_rotate_inputs(pool, &r, b, ROWS, COLS, &err), err);
    assert_ok(pith_rotate_outputs(pool, &r, b, ROWS, COLS, &err), err);
    assert_memory_equal(a, b, ROWS * COLS * sizeof *a);
    pith_free(a);
    pith_free(b);
    pith_pool_free(pool);
    pith_rotation_free(&r);
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    struct pith_rotation r;
    struct pith_error err = {0};
    float w[30] = {0};
    assert_int_equal(pith_rotation_init(&r, 0, 1, NULL, &err), PITH_ARG);
    assert_int_equal(pith_rotation_init(&r, 12, 0, NULL, &err), PITH_ARG);
    assert_int_equal(pith_rotation_init(&r, 12, 8, NULL, &err), PITH_ARG);
    assert_int_equal(pith_rotation_init(&r, 18, 6, NULL, &err), PITH_ARG);
    assert_ok(pith_rotation_init(&r, 4, 4, NULL, &err), err);
    assert_int_equal(pith_rotate_inputs(NULL, &r, w, 5, 6, &err), PITH_ARG);
    assert_int_equal(pith_rotate_outputs(NULL, &r, w, 5, 6, &err), PITH_ARG);
    pith_rotation_free(&r);
    assert_ok(pith_rotate_inputs(NULL, &r, w, 5, 6, &err), err); /* nothing is rotated */
}

/* The blocks that an option chooses for such widths; rotations of them can be made. */
static struct pith_basis_plan chosen(const char *text, struct pith_basis_plan p)
{
    struct pith_error err = {0};
    struct pith_recipe r;
    struct pith_basis b;
    assert_ok(pith_recipe_load("rtn", &r, &err), err);
    assert_ok(pith_recipe_set(&r, "transform", text, &err), err);
    assert_non_null(r.transform->basis);
    r.transform->basis(r.transform_value, &p);
    assert_ok(pith_basis_init(&b, &p, &err), err);
    pith_basis_free(&b);
    return p;
}

static void assert_blocks(const struct pith_basis_plan *p, uint32_t stream, uint32_t head,
                          uint32_t o, uint32_t down)
{
    assert_int_equal(p->stream, stream);
    assert_int_equal(p->head, head);
    assert_int_equal(p->o, o);
    assert_int_equal(p->down, down);
}

/* What the transform's options choose for the widths of an 8B Llama, and for odd ones. */
static void options_choose_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t hidden, head_dim, attention, ffn;
        uint32_t stream, head, o, down;
    } rows[] = {
        {"rotate", 4096, 128, 4096, 14336, 4096, 0, 512, 512},
        {"rotate:folded", 4096, 128, 4096, 14336, 4096, 128, 0, 0},
        {"smoothrot", 4096, 128, 4096, 14336, 4096, 128, 0, 0},
        {"smoothrot:0.5", 5120, 128, 5120, 13824, 5120, 128, 0, 0},
        {"smoothrot:online", 4096, 128, 4096, 14336, 4096, 128, 0, 512},
        {"rotate:32", 4096, 128, 4096, 14336, 32, 32, 0, 32},
        {"rotate:32:folded", 4096, 128, 4096, 14336, 32, 32, 0, 0},
        {"rotate:256", 4096, 128, 4096, 14336, 256, 0, 256, 256},
        {"rotate", 5120, 128, 5120, 13824, 5120, 0, 512, 512},
        {"rotate", 156, 12, 156, 155, 52, 12, 0, 1},
        {"rotate:4096", 896, 64, 896, 4864, 128, 0, 128, 256},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        const struct pith_basis_plan p =
            chosen(rows[i].text, (struct pith_basis_plan){.hidden = rows[i].hidden,
                                                          .head_dim = rows[i].head_dim,
                                                          .attention = rows[i].attention,
                                                          .ffn = rows[i].ffn});
        assert_blocks(&p, rows[i].stream, rows[i].head, rows[i].o, rows[i].down);
    }
}

/* A stream that cannot be rotated, of Gemma 3 270M's widths. */
static void a_fixed_stream_stays(void **state)
{
    (void)state;
    const struct pith_basis_plan widths = {
        .hidden = 640, .head_dim = 256, .attention = 1024, .ffn = 2048, .fixed = true};
    const struct pith_basis_plan folded = chosen("smoothrot", widths),
                                 online = chosen("smoothrot:online", widths);
    assert_blocks(&folded, 0, 256, 0, 0);
    assert_blocks(&online, 0, 256, 0, 512);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"rotate:",        "rotate:0",
                                      "rotate:1",       "rotate:3",
                                      "rotate:-2",      "rotate:64:",
                                      "rotate:64:fold", "rotate:folded:64",
                                      "rotate:2097152", "rotate:99999999999999999999",
                                      "rotate:32x",     "rotated"};
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_recipe r;
        assert_ok(pith_recipe_load("rtn", &r, &err), err);
        const enum pith_status s = pith_recipe_set(&r, "transform", bad[i], &err);
        if (s != PITH_ARG) fail_msg("%s: status %d", bad[i], (int)s);
    }
}

static void plans_are_checked(void **state)
{
    (void)state;
    const struct pith_basis_plan good = {.hidden = 48, .head_dim = 8, .attention = 32, .ffn = 40};
    struct pith_error err = {0};
    struct pith_basis b;
    struct pith_basis_plan p = good;
    p.stream = 7;
    assert_int_equal(pith_basis_init(&b, &p, &err), PITH_ARG);
    p = good;
    p.down = 20; /* there is one of that order, but none to do online */
    assert_int_equal(pith_basis_init(&b, &p, &err), PITH_ARG);
    p = good;
    p.o = 64;
    assert_int_equal(pith_basis_init(&b, &p, &err), PITH_ARG);
    p = good;
    p.stream = 48;
    assert_ok(pith_basis_init(&b, &p, &err), err);
    assert_int_equal(b.stream.core, 12);
    assert_int_equal(b.head.dim, 0);
    pith_basis_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_are_the_definition),
        cmocka_unit_test(lengths_and_products_stay),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(options_choose_blocks),
        cmocka_unit_test(a_fixed_stream_stays),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(plans_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
