/* Every tier's products of bfloat16 that this CPU can run, with what the tier makes of their
 * operands, against the formula of kern/ops.h written down once more: the same bits. */
#define _DEFAULT_SOURCE
#include "fenced.h"
#include "kern/ops.h"
#include "num/format.h"

enum { WORDS = PITH_TILE_WORDS, STEP = PITH_BF16_STEP, MOST = 100, WIDEST = PITH_TILE_ROWS_MAX };

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/* As rounded to 24 bits: double has the exponents, but the sum must not be rounded twice. */
static float flushed_fma(float x, float y, float s)
{
    const float r = fmaf(x, y, s);
    if (!(fabsf(r) <= 0x1p-126f)) return r;
    const double exact = (double)x * (double)y + (double)s;
    const double most = 0x1p-126 - 0x1p-151; /* from here on it is rounded to 2^-126 */
    return fabs(exact) < most ? copysignf(0.0f, r) : r;
}

static float rounded(float x)
{
    return pith_bf16_to_f32(pith_f32_to_bf16(flushed(x)));
}

/* Numbers whose products lie about the smallest normal one, where they turn to zeros, and some that
 * lie there themselves. */
static void fill(float *x, size_t n, enum fill kind)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t which = pith_rng_below(&rng, 4);
        x[i] = value(kind);
        if (kind != EXTREME || which == 0) continue;
        x[i] = ldexpf((float)pith_rng_normal(&rng),
                      which == 1 ? -126 : -(int)pith_rng_below(&rng, 4) - 61);
    }
}

/* A tile's operands as floats: x[rows][k] and y[k][cols]. */
struct operands {
    size_t rows, cols, k;
    float *x, *y;
};

static float element(const struct operands *o, size_t i, size_t j, float s)
{
    for (size_t p = 0; p < o->k; p += STEP) {
        float sum[2] = {0.0f, 0.0f};
        for (size_t e = 0; e < STEP; e++) {
            const bool some = p + e < o->k;
            const float x = some ? rounded(o->x[i * o->k + p + e]) : 0.0f;
            const float y = some ? rounded(o->y[(p + e) * o->cols + j]) : 0.0f;
            sum[e % 2] = flushed_fma(x, y, sum[e % 2]);
        }
        s = flushed(flushed(s) + flushed(sum[0] + sum[1]));
    }
    return s;
}

static void check_mode(const struct pith_kern *k, const struct operands *o, const uint32_t *a,
                       const uint32_t *b, enum pith_tile_mode mode, enum fill kind)
{
    const size_t ldc = o->cols + o->k % 5, cn = (o->rows - 1) * ldc + o->cols;
    float *want = fresh(4, cn, kind), *got;
    fill(want, cn, kind);
    got = same(5, want, cn);
    for (size_t i = 0; i < o->rows; i++)
        for (size_t j = 0; j < o->cols; j++) {
            float *c = &want[i * ldc + j];
            const float s = element(o, i, j, mode == PITH_TILE_ADD ? *c : 0.0f);
            *c = mode == PITH_TILE_SCALE ? fmaf(0.3f, s, *c) : s;
        }
    k->tiles_open(WORDS);
    k->bf16_tile((o->k + STEP - 1) / STEP, a, b, got, ldc, mode, 0.3f);
    k->tiles_close();
    assert_bits(got, want, cn, o->k);
}

static void check_tile(const struct pith_kern *k, size_t size, enum fill kind)
{
    const size_t steps = (size + STEP - 1) / STEP;
    struct operands o = {.rows = k->bf16_rows, .cols = k->bf16_cols, .k = size};
    assert_true(o.rows <= PITH_TILE_ROWS_MAX && o.cols <= PITH_TILE_COLS_MAX);
    o.x = fenced(0, o.rows * size * sizeof *o.x);
    o.y = fenced(1, o.cols * size * sizeof *o.y);
    fill(o.x, o.rows * size, kind);
    fill(o.y, o.cols * size, kind);
    uint32_t *a = fenced(2, steps * WORDS * o.rows * 4), *b = fenced(3, steps * WORDS * o.cols * 4);
    k->bf16_round(o.rows, size, o.x, size, o.rows, a);
    k->bf16_pairs(size, o.cols, o.y, o.cols, o.cols, b);
    for (int mode = PITH_TILE_SET; mode <= PITH_TILE_SCALE; mode++)
        check_mode(k, &o, a, b, (enum pith_tile_mode)mode, kind);
}

/* The three ways to a tier's words agree, for any number of rows, and write nothing else. */
static void check_words(const struct pith_kern *k, size_t size, size_t rows, enum fill kind)
{
    const size_t steps = (size + STEP - 1) / STEP, height = rows + size % 3, ld = size + rows % 2;
    const size_t n = rows > 0 && size > 0 ? (rows - 1) * ld + size : 0;
    const size_t words = steps > 0 && rows > 0 ? ((steps - 1) * height + rows) * WORDS : 0;
    float *x = fenced(0, n * sizeof *x), *across = fenced(1, rows * size * sizeof *across);
    uint16_t *halves = fenced(2, n * sizeof *halves);
    uint32_t *a = fenced(3, words * 4), *b = fenced(4, words * 4);
    uint32_t *c = fenced(5, steps * WORDS * rows * 4);
    fill(x, n, kind);
    memset(a, 0x5a, words * 4);
    memset(b, 0x5a, words * 4);
    for (size_t i = 0; i < n; i++) halves[i] = pith_f32_to_bf16(flushed(x[i]));
    for (size_t i = 0; i < rows * size; i++) across[i] = x[i % rows * ld + i / rows];
    k->bf16_round(rows, size, x, ld, height, a);
    k->bf16_words(rows, size, halves, ld, height, b);
    k->bf16_pairs(size, rows, across, rows, rows, c);
    assert_memory_equal(a, b, words * 4);
    for (size_t i = 0; i < words; i++) {
        const size_t s = i / WORDS / height, r = i / WORDS % height, w = i % WORDS;
        assert_int_equal(a[i], r < rows ? c[(s * WORDS + w) * rows + r] : 0x5a5a5a5a);
    }
}

static void check_tier(const struct pith_kern *k)
{
    for (enum fill kind = 0; kind < FILLS; kind++) {
        for (size_t n = 0; n <= MOST; n = n < 3 ? n + 1 : n * 2 - n % 2) check_tile(k, n, kind);
        for (size_t n = 0; n <= MOST; n += n < 36 ? 1 : 9)
            for (size_t rows = 0; rows <= WIDEST; rows += rows < 18 ? 1 : 7)
                check_words(k, n, rows, kind);
    }
}

static void every_tier_gives_the_definition(void **state)
{
    (void)state;
    const uint32_t cpu = pith_cpu_detect();
    size_t tiers = 0;
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *row = &pith_kernels[i];
        struct pith_kern k;
        if (row->op != PITH_OP_bf16_tile || (row->isa & cpu) != row->isa) continue;
        now = row->name;
        pith_kern_select(row->isa, &k);
        assert_true((pith_any_fn *)k.bf16_tile == row->fn);
        check_tier(&k);
        tiers++;
    }
    assert_true(tiers > 0);
    now = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(every_tier_gives_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
