/* Attention over codes: every tier gives the scalar definition's bits, for every kind of code, on
 * memory that ends, or begins, at a page that may not be touched. */
#define _DEFAULT_SOURCE
#include "base/cpu.h"
#include "fenced.h"
#include "kern/coded.h"
#include "kern/ops.h"

enum { DIM = 144, ROWS = 9, GROUPS = DIM, VALUES = 32 };

static uint8_t codes[PITH_KEYS * DIM * 2 + 64];
static float zero[GROUPS * PITH_KEYS], scale[GROUPS * PITH_KEYS], offset[GROUPS * PITH_KEYS];
static float q[ROWS * DIM], level[16];

/* Codes of numbers: none of FP8's NaN or infinity. Scales of many bits and sizes; or such as caches
 * have, of few bits, and levels that are integers, or halves. */
static void fill(enum pith_code_kind kind, uint64_t seed, int how)
{
    struct pith_rng r;
    pith_rng_seed(&r, seed);
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)pith_rng_below(&r, 256);
        if (kind == PITH_CODE_E4M3 && (codes[i] & 0x7f) == 0x7f) codes[i] ^= 1;
        if (kind == PITH_CODE_E5M2 && (codes[i] & 0x7c) == 0x7c) codes[i] ^= 0x40;
    }
    for (size_t i = 0; i < GROUPS * PITH_KEYS; i++) {
        zero[i] = (float)pith_rng_below(&r, 256);
        scale[i] = (float)ldexp(pith_rng_normal(&r), (int)pith_rng_below(&r, 30) - 15);
        if (how) scale[i] = (float)pith_rng_below(&r, 2048) * 0x1p-14f;
        offset[i] = (float)pith_rng_normal(&r);
    }
    for (size_t i = 0; i < ROWS * DIM; i++) q[i] = (float)pith_rng_normal(&r);
    for (size_t i = 0; i < 16; i++)
        level[i] = how ? (float)((int)pith_rng_below(&r, 255) - 127) / (float)how
                       : (float)pith_rng_normal(&r);
}

/* Bytes of n codes. */
static size_t bytes_of(const struct pith_coded *c, size_t n)
{
    const unsigned bits =
        c->kind == PITH_CODE_U2 || c->kind == PITH_CODE_UN || c->kind == PITH_CODE_FEW ? c->bits
        : c->kind == PITH_CODE_U4 || c->kind == PITH_CODE_S4 || c->kind == PITH_CODE_LEVELS ? 4
                                                                                            : 8;
    return (n * bits + 7) / 8;
}

static void assert_equal(const float *a, const float *b, size_t n, const struct pith_coded *c)
{
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    fail_msg("%s: kind %d, dim %zu, groups of %zu%s%s", now, (int)c->kind, c->dim, c->width,
             c->zero ? ", zeros" : "", c->offset ? ", offsets" : "");
}

/* What the buffers hold. */
enum { CODES, SCALE, ZERO, OFFSET, LEVEL, Q, WANT, GOT, SUMS, TOTALS, SCALES, BYTES };

static const float *floats(size_t buffer, const float *x, size_t n)
{
    return x ? fenced_copy(buffer, x, n * sizeof *x) : NULL;
}

/* c between fences: `lines` of codes, behind them what may be read, and so many scales. */
static struct pith_coded between(struct pith_coded c, size_t lines, size_t scales)
{
    const bool few = c.kind == PITH_CODE_FEW;
    const size_t more = c.kind == PITH_CODE_UN || few ? PITH_CODED_AFTER : 0;
    c.codes = fenced_copy(CODES, c.codes, lines * c.stride + more);
    c.scale = floats(SCALE, c.scale, scales);
    c.zero = floats(ZERO, c.zero, scales);
    c.offset = floats(OFFSET, c.offset, scales);
    c.level = floats(LEVEL, c.level, few ? 8 : 16);
    return c;
}

/* n floats of a result that are not 0; both are the same. */
static void open_results(size_t n, float **want, float **got)
{
    *want = fenced(WANT, n * sizeof **want);
    for (size_t i = 0; i < n; i++) (*want)[i] = (float)i + 1;
    *got = fenced_copy(GOT, *want, n * sizeof **got);
}

/* Elements from the first row of so many to the last one's last. */
static size_t reach(size_t rows, size_t ld, size_t last)
{
    return rows && last ? (rows - 1) * ld + last : 0;
}

static size_t groups_of(const struct pith_coded *c)
{
    return (c->dim + c->width - 1) / c->width;
}

static void check_keys(const struct pith_kern *k, const struct pith_kern *ref, struct pith_coded c)
{
    enum { LDS = 40 };
    float *want, *got;
    c.stride = bytes_of(&c, PITH_KEYS);
    c = between(c, c.dim, groups_of(&c) * PITH_KEYS);
    for (size_t rows = 0; rows <= ROWS; rows++) {
        const size_t n = reach(rows, LDS, PITH_KEYS);
        const float *x = floats(Q, q, reach(rows, DIM, c.dim));
        open_results(n, &want, &got);
        ref->attn_scores_codes(&c, rows, x, DIM, want, LDS);
        k->attn_scores_codes(&c, rows, x, DIM, got, LDS);
        assert_equal(want, got, n, &c);
    }
}

static void check_values(const struct pith_kern *k, const struct pith_kern *ref,
                         struct pith_coded c)
{
    if (c.dim % 16 != 0 || c.width % 16 != 0) return;
    c.stride = bytes_of(&c, c.dim);
    for (size_t n = 0; n <= VALUES; n += n < 3 ? 1 : 29) {
        const struct pith_coded v = between(c, n, n * groups_of(&c));
        for (size_t rows = 0; rows <= ROWS; rows += rows < 5 ? 1 : 4) {
            const size_t size = reach(rows, DIM, c.dim);
            const float *p = floats(Q, q, reach(rows, DIM, n));
            float *want, *got;
            open_results(size, &want, &got);
            ref->attn_values_codes(&v, &(struct pith_coded_sums){rows, n, p, DIM, want, DIM});
            k->attn_values_codes(&v, &(struct pith_coded_sums){rows, n, p, DIM, got, DIM});
            assert_equal(want, got, size, &v);
        }
    }
}

static void check_scaling(const struct pith_kern *k, const struct pith_kern *ref)
{
    for (size_t n = 0; n <= 5; n++)
        for (int what = 0; what < 4; what++) {
            const float *z = what & 1 ? floats(ZERO, zero, PITH_KEYS) : NULL;
            const float *o = what & 2 ? floats(OFFSET, offset, PITH_KEYS) : NULL;
            const float *s = floats(SCALE, scale, PITH_KEYS);
            float *want, *got;
            open_results(n * PITH_KEYS, &want, &got);
            ref->scale_keys(n, z, s, o, want);
            k->scale_keys(n, z, s, o, got);
            if (memcmp(want, got, n * PITH_KEYS * sizeof *want) != 0)
                fail_msg("%s: scale_keys", now);
        }
}

static void check_tier(const struct pith_kern *k, const struct pith_kern *ref, int how)
{
    static const size_t dims[] = {1, 8, 16, 40, 64, 128, DIM}, widths[] = {4, 16, 32, 48, DIM};
    check_scaling(k, ref);
    for (enum pith_code_kind kind = 0; kind < PITH_CODE_KINDS; kind++) {
        const bool whole = kind <= PITH_CODE_U4 || kind == PITH_CODE_U2 || kind == PITH_CODE_UN;
        fill(kind, (uint64_t)kind + 1, how);
        for (unsigned bits = 2; bits < (kind == PITH_CODE_UN    ? 8u
                                        : kind == PITH_CODE_FEW ? 4u
                                                                : 3u);
             bits++)
            for (size_t i = 0; i < PITH_COUNT(dims) * PITH_COUNT(widths); i++)
                for (int moved = 0; moved <= (whole ? 1 : 0); moved++) {
                    /* Each shape with one kind of scales, or with all. */
                    if (!test_thorough() && (i + bits + (unsigned)how) % 3 != 0) continue;
                    struct pith_coded c = {.kind = kind,
                                           .bits = bits,
                                           .dim = dims[i / PITH_COUNT(widths)],
                                           .width = widths[i % PITH_COUNT(widths)],
                                           .codes = codes,
                                           .scale = scale,
                                           .zero = whole && !moved ? zero : NULL,
                                           .offset = moved ? offset : NULL,
                                           .level = level};
                    check_keys(k, ref, c);
                    check_values(k, ref, c);
                }
    }
}

/* Rows in bytes, at their extremes too, over codes of 4 and 8 bits. */
static struct pith_coded_bytes rows_in_bytes(const struct pith_coded *c, size_t rows, int how)
{
    const size_t blocks = c->dim / PITH_CODED_BLOCK, n = rows * blocks;
    int8_t *x = fenced(BYTES, n * PITH_CODED_BLOCK);
    float *scales = fenced(SCALES, n * sizeof *scales);
    float *totals = fenced(TOTALS, n * sizeof *totals);
    int32_t *sums = fenced(SUMS, n * sizeof *sums);
    struct pith_rng r;
    pith_rng_seed(&r, (uint64_t)how + 7);
    for (size_t i = 0; i < n; i++) {
        sums[i] = 0;
        for (size_t e = 0; e < PITH_CODED_BLOCK; e++) {
            const int8_t byte = (int8_t)((int)pith_rng_below(&r, 255) - 127);
            x[i * PITH_CODED_BLOCK + e] = how == 0 ? byte : how > 1 ? 127 : -127;
            sums[i] += x[i * PITH_CODED_BLOCK + e];
        }
        scales[i] = (float)pith_rng_normal(&r);
        totals[i] = (float)pith_rng_normal(&r);
    }
    return (struct pith_coded_bytes){rows, blocks, x, scales, sums, c->offset ? totals : NULL};
}

static void check_bytes(const struct pith_kern *k, const struct pith_kern *ref,
                        const struct pith_coded *codes_of, bool keys, int how)
{
    enum { LDS = 40 };
    const struct pith_coded c = between(*codes_of, keys ? codes_of->dim : PITH_KEYS,
                                        groups_of(codes_of) * PITH_KEYS);
    for (size_t rows = 0; rows <= ROWS; rows++) {
        const struct pith_coded_bytes b = rows_in_bytes(&c, rows, how);
        const float *p = floats(Q, q, reach(rows, DIM, PITH_KEYS));
        const size_t n = keys ? reach(rows, LDS, PITH_KEYS) : rows * c.dim;
        float *want, *got;
        open_results(n, &want, &got);
        struct pith_coded_sums sum = {rows, PITH_KEYS, p, DIM, want, c.dim};
        if (keys) ref->attn_scores_bytes(&c, &b, want, LDS);
        else ref->attn_values_bytes(&c, &sum);
        sum.o = got;
        if (keys) k->attn_scores_bytes(&c, &b, got, LDS);
        else k->attn_values_bytes(&c, &sum);
        assert_equal(want, got, n, &c);
    }
}

static void every_tier_multiplies_bytes(void **state)
{
    (void)state;
    static const enum pith_code_kind kinds[] = {PITH_CODE_U4, PITH_CODE_S4, PITH_CODE_U8,
                                                PITH_CODE_S8};
    static const size_t shapes[][2] = {{32, 32}, {64, 32}, {64, 64}, {128, 32}, {128, 128}};
    const uint32_t cpu = pith_cpu_detect();
    struct pith_kern ref, k;
    pith_kern_select(PITH_CPU_SCALAR, &ref);
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *row = &pith_kernels[i];
        if (row->op != PITH_OP_attn_scores_bytes || (row->isa & cpu) != row->isa) continue;
        pith_kern_select(row->isa, &k);
        for (size_t n = 0; n < PITH_COUNT(kinds) * PITH_COUNT(shapes) * 12; n++) {
            const size_t shape = n / 12 % PITH_COUNT(shapes);
            const int how = (int)(n % 3), codes_are = (int)(n / 3 % 2), values = (int)(n / 6 % 2);
            struct pith_coded c = {.kind = kinds[n / 12 / PITH_COUNT(shapes)],
                                   .dim = shapes[shape][0],
                                   .width = shapes[shape][1],
                                   .codes = codes,
                                   .scale = scale,
                                   .next = codes};
            fill(c.kind, n, how);
            if (codes_are) memset(codes, how > 1 ? 0 : 0xff, sizeof codes);
            if (c.kind == PITH_CODE_U4 || c.kind == PITH_CODE_U8) c.offset = offset;
            c.stride = bytes_of(&c, values ? c.dim : PITH_KEYS);
            now = row->name;
            check_bytes(&k, &ref, &c, !values, how);
        }
    }
    now = NULL;
}

static void every_tier_gives_the_definition(void **state)
{
    (void)state;
    const uint32_t cpu = pith_cpu_detect();
    struct pith_kern ref;
    pith_kern_select(PITH_CPU_SCALAR, &ref);
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *row = &pith_kernels[i];
        struct pith_kern k;
        if (row->op != PITH_OP_attn_scores_codes || (row->isa & cpu) != row->isa) continue;
        pith_kern_select(row->isa, &k);
        now = row->name;
        for (int how = 0; how <= 2; how++)
            if (how == 2 || !behind_fence) check_tier(&k, &ref, how);
    }
    now = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {FENCED_TEST(every_tier_gives_the_definition),
                                       FENCED_TEST(every_tier_multiplies_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
