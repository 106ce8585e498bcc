/* backend/input: products of rounded inputs. Integers on both sides give what the integers say, in
 * exact arithmetic, whatever the rows, the threads and the instruction set; everything else what
 * pith_linear gives for the rounded values. */
#include "backend/input.h"
#include "backend/parts.h"
#include "base/mem.h"
#include "base/rng.h"
#include "num/hadamard.h"
#include "num/input.h"
#include "test.h"
#include "unit/backend/setups.h"

#include <math.h>

enum { ROWS = 75, COLS = 384, MOST = 70 };

struct fixture {
    struct pith_backend *be;
    struct pith_rng rng;
    float x[MOST * COLS], work[MOST * COLS], y[MOST * ROWS], want[MOST * ROWS];
};

static void make_weights(struct pith_rng *rng, const char *grid, enum pith_dtype scales,
                         struct pith_qmat *q)
{
    struct pith_error err = {0};
    struct pith_grid g;
    assert_ok(pith_grid_parse(grid, &g, &err), err);
    assert_ok(pith_qmat_init(q, ROWS, COLS, &g, scales, &err), err);
    const size_t bytes = ROWS * q->stride, count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < bytes; i++) q->codes[i] = (uint8_t)pith_rng_below(rng, 256);
    if (q->format->kind == PITH_KIND_FLOAT) /* no NaN */
        for (size_t i = 0; i < bytes; i++) q->codes[i] &= 0xbf;
    for (size_t i = 0; i < count; i++)
        q->scales[i] = pith_round_to(scales, 0.01f + 0.001f * (float)pith_rng_below(rng, 20));
    for (size_t i = 0; q->zeros && i < count; i++)
        q->zeros[i] = (uint8_t)pith_rng_below(rng, (1u << q->format->bits) - 1);
}

static void make_x(struct fixture *f)
{
    for (size_t i = 0; i < MOST * COLS; i++)
        f->x[i] = ((float)pith_rng_below(&f->rng, 20001) - 8000.0f) / 3000.0f;
    for (size_t r = 0; r < MOST; r++) f->x[r * COLS + 7] *= 9.0f;
}

/* What the integers say, in double: sums of integers times the scales. */
static void exact_product(const struct pith_qmat *q, const float *x, size_t n, double *y,
                          double *size)
{
    float *w = malloc(COLS * sizeof *w);
    for (uint32_t r = 0; r < ROWS; r++) {
        pith_qmat_decode(q, r, 1, w);
        for (size_t i = 0; i < n; i++) {
            double sum = 0, all = 0;
            for (size_t c = 0; c < COLS; c++) {
                sum += (double)x[i * COLS + c] * (double)w[c];
                all += fabs((double)x[i * COLS + c] * (double)w[c]);
            }
            y[i * ROWS + r] = sum;
            size[i * ROWS + r] = all;
        }
    }
    free(w);
}

static int setup(void **state)
{
    struct fixture *f = pith_zalloc(1, sizeof *f);
    struct pith_error err = {0};
    pith_rng_seed(&f->rng, 5);
    make_x(f);
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &f->be, &err), err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    pith_backend_free(f->be);
    pith_free(f);
    return 0;
}

static const struct pair {
    const char *weights, *acts;
    bool integers; /* an integer product is expected */
} pairs[] = {
    {"int8:channel", "int8:token", true},
    {"int8:tensor", "int8:token", true},
    {"int4:g128", "int8:token", true},
    {"int4:g32:asym", "int8:token", true},
    {"int8:channel", "int4:token", true},
    {"int8:channel", "int8:token:asym", true},
    {"int4:g128:asym", "int8:token:asym", true},
    {"int8:channel", "int8:tensor:static", true},
    {"int8:channel", "int8:tensor:asym:static", true},
    {"int8:channel", "int8:tensor", true},
    {"int4:g128", "int8:g128", true},
    {"int4:g32", "int8:g128", true},
    {"int8:channel", "int8:g128", true},
    {"int3:g128", "int4:token", true},
    {"int8:channel", "fp8_e4m3:token", false},
    {"fp8_e4m3:channel", "fp8_e4m3:token", false},
    {"fp8_e4m3:channel", "int8:token", false},
    {"nf4:g64", "int8:token", false},
};

static struct pith_input input_of(const char *grid)
{
    struct pith_error err = {0};
    struct pith_input in = {0};
    assert_ok(pith_grid_parse(grid, &in.grid, &err), err);
    if (in.grid.is_static) in.scale = 0.03f, in.zero = in.grid.asym ? 100.0f : 0.0f;
    assert_ok(pith_input_check(&in, COLS, &err), err);
    return in;
}

static void check_pair(struct fixture *f, const struct pair *p, size_t n)
{
    struct pith_qmat q;
    struct pith_pack pack;
    static float rounded[MOST * COLS], plain[MOST * ROWS];
    static double exact[MOST * ROWS], size[MOST * ROWS];
    make_weights(&f->rng, p->weights, PITH_F32, &q);
    q.input = input_of(p->acts);
    void *memory = pith_alloc_huge(pith_pack_bytes(&q), 1);
    pith_pack_init(f->be, &q, memory, &pack);
    const struct pith_weight packed = {.rows = ROWS, .cols = COLS, .pack = &pack};
    assert_int_equal(pack.input_block > 0, p->integers);
    float bias[ROWS];
    for (size_t r = 0; r < ROWS; r++) bias[r] = (float)r * 0.25f;
    struct pith_site_input in = {.x = f->x, .n = n, .cols = COLS, .work = f->work};
    pith_linear_site(f->be, &packed, bias, &in, f->y);
    assert_int_equal(in.treated, !p->integers);
    uint8_t kept[COLS];
    pith_input_rows(&q.input, f->x, n, COLS, kept, rounded);
    if (!p->integers) {
        pith_linear(f->be, &packed, bias, rounded, n, plain);
        assert_memory_equal(plain, f->y, n * ROWS * sizeof *plain);
    }
    exact_product(&q, rounded, n, exact, size);
    for (size_t i = 0; i < n * ROWS; i++) {
        /* Integer sums are exact; scales and groups round a few times. A zero point takes off
         * as much as the sums may reach. */
        const double bound = (p->integers ? 3e-6 : 2e-5) * (size[i] + 1);
        const double want = exact[i] + (double)bias[i % ROWS];
        if (!(fabs((double)f->y[i] - want) <= bound))
            fail_msg("%s x %s, n %zu, element %zu: %.9g, not %.9g", p->weights, p->acts, n, i,
                     (double)f->y[i], want);
    }
    pith_free(memory);
    pith_qmat_free(&q);
}

static void products_are_what_the_integers_say(void **state)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        check_pair(*state, &pairs[i], 1);
        check_pair(*state, &pairs[i], 3);
        check_pair(*state, &pairs[i], MOST);
    }
}

/* A row's bits depend neither on its neighbours nor on the number of them, nor on the instruction
 * set and threads. */
static void bits_are_the_same_everywhere(void **state)
{
    struct fixture *f = *state;
    struct setups all;
    setups_open(&all);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct pith_qmat q;
        if (!pairs[i].integers || strstr(pairs[i].acts, "int8:tensor")) continue;
        make_weights(&f->rng, pairs[i].weights, PITH_BF16, &q);
        q.input = input_of(pairs[i].acts);
        for (size_t s = 0; s < all.count; s++) {
            struct pith_pack pack;
            struct pith_backend *be = all.backend[s];
            void *memory = pith_alloc_huge(pith_pack_bytes(&q), 1);
            pith_pack_init(be, &q, memory, &pack);
            const struct pith_weight w = {.rows = ROWS, .cols = COLS, .pack = &pack};
            struct pith_site_input in = {.x = f->x, .n = MOST, .cols = COLS, .work = f->work};
            pith_linear_site(be, &w, NULL, &in, s == 0 ? f->want : f->y);
            if (s > 0) assert_memory_equal(f->y, f->want, sizeof f->y);
            for (size_t r = 0; r < 5; r++) {
                struct pith_site_input one = {
                    .x = f->x + r * COLS, .n = 1, .cols = COLS, .work = f->work};
                pith_linear_site(be, &w, NULL, &one, f->y);
                assert_memory_equal(f->y, f->want + r * ROWS, ROWS * sizeof *f->y);
            }
            pith_free(memory);
        }
        pith_qmat_free(&q);
    }
    setups_close(&all);
}

/* Slabs: more rows than are rounded at a time. */
static void many_rows_are_as_few(void **state)
{
    struct fixture *f = *state;
    enum { N = 1100 };
    struct pith_qmat q;
    struct pith_pack pack;
    make_weights(&f->rng, "int8:channel", PITH_F32, &q);
    q.input = input_of("int8:token:asym");
    void *memory = pith_alloc_huge(pith_pack_bytes(&q), 1);
    pith_pack_init(f->be, &q, memory, &pack);
    const struct pith_weight w = {.rows = ROWS, .cols = COLS, .pack = &pack};
    float *x = malloc(N * COLS * sizeof *x), *y = malloc(N * ROWS * sizeof *y);
    for (size_t i = 0; i < N; i++) memcpy(x + i * COLS, f->x + i % MOST * COLS, COLS * sizeof *x);
    struct pith_site_input in = {.x = x, .n = N, .cols = COLS};
    pith_linear_site(f->be, &w, NULL, &in, y);
    for (size_t i = MOST; i < N; i++)
        assert_memory_equal(y + i * ROWS, y + i % MOST * ROWS, ROWS * sizeof *y);
    free(x);
    free(y);
    pith_free(memory);
    pith_qmat_free(&q);
}

/* Linears of a site share the rounded rows, those of another treatment get their own. */
static void a_site_is_rounded_once(void **state)
{
    struct fixture *f = *state;
    struct pith_qmat q[3];
    static float rounded[MOST * COLS], y[3][MOST * ROWS];
    for (int i = 0; i < 3; i++) make_weights(&f->rng, "fp8_e4m3:channel", PITH_F32, &q[i]);
    q[0].input = q[1].input = input_of("fp8_e4m3:token");
    struct pith_site_input in = {.x = f->x, .n = MOST, .cols = COLS, .work = f->work};
    for (int i = 0; i < 3; i++) {
        const struct pith_weight w = {.rows = ROWS, .cols = COLS, .quant = &q[i]};
        pith_linear_site(f->be, &w, NULL, &in, y[i]);
        if (i > 0) continue;
        pith_input_rows(&q[0].input, f->x, MOST, COLS, NULL, rounded);
        assert_memory_equal(f->work, rounded, sizeof f->work);
        f->work[5] += 1.0f; /* seen by the next one when it takes this work as its own */
        rounded[5] += 1.0f;
    }
    for (int i = 0; i < 3; i++) {
        const struct pith_weight w = {.rows = ROWS, .cols = COLS, .quant = &q[i]};
        if (i == 0) continue;
        pith_linear(f->be, &w, NULL, i == 2 ? f->x : rounded, MOST, f->want);
        assert_memory_equal(y[i], f->want, sizeof y[i]);
    }
    for (int i = 0; i < 3; i++) pith_qmat_free(&q[i]);
}

/* Outliers and turned rows: in place, on many threads, as the definition has it. */
static void applying_is_the_definition(void **state)
{
    struct fixture *f = *state;
    struct pith_input in = input_of("int8:token");
    uint8_t kept[COLS];
    for (int turned = 0; turned < 2; turned++)
        for (int rule = 0; rule < 2; rule++) {
            static float want[MOST * COLS];
            in.rule = (enum pith_input_rule)rule;
            in.threshold = rule ? 6.0f : 0.0f;
            in.hadamard = turned ? 128 : 0;
            memcpy(want, f->x, sizeof want);
            if (turned) pith_hadamard_rows(want, MOST, COLS, 128);
            pith_input_rows(&in, want, MOST, COLS, kept, want);
            memcpy(f->work, f->x, sizeof f->work);
            pith_input_apply(f->be, &in, f->work, MOST, COLS, f->work);
            assert_memory_equal(f->work, want, sizeof want);
            memset(f->work, 0, sizeof f->work);
            pith_input_apply(f->be, &in, f->x, MOST, COLS, f->work);
            assert_memory_equal(f->work, want, sizeof want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_are_what_the_integers_say, setup, teardown),
        cmocka_unit_test_setup_teardown(bits_are_the_same_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(many_rows_are_as_few, setup, teardown),
        cmocka_unit_test_setup_teardown(a_site_is_rounded_once, setup, teardown),
        cmocka_unit_test_setup_teardown(applying_is_the_definition, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
