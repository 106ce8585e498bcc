/* Attention over codes: every tier gives the scalar definition's bits, for every kind of code. */
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kern/coded.h"
#include "kern/ops.h"
#include "test.h"

#include <math.h>
#include <string.h>

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

static void assert_bits(const float *a, const float *b, size_t n, const struct pith_coded *c,
                        const char *name)
{
    if (memcmp(a, b, n * sizeof *a) == 0) return;
    fail_msg("%s: kind %d, dim %zu, groups of %zu%s%s", name, (int)c->kind, c->dim, c->width,
             c->zero ? ", zeros" : "", c->offset ? ", offsets" : "");
}

static void check_keys(const struct pith_kern *k, const struct pith_kern *ref, struct pith_coded c,
                       const char *name)
{
    float want[ROWS * 40], got[ROWS * 40];
    c.stride = bytes_of(&c, PITH_KEYS);
    for (size_t rows = 0; rows <= ROWS; rows++) {
        memset(want, 0xff, sizeof want);
        memset(got, 0xff, sizeof got);
        ref->attn_scores_codes(&c, rows, q, DIM, want, 40);
        k->attn_scores_codes(&c, rows, q, DIM, got, 40);
        assert_bits(want, got, ROWS * 40, &c, name);
    }
}

static void check_values(const struct pith_kern *k, const struct pith_kern *ref,
                         struct pith_coded c, const char *name)
{
    static float want[ROWS * DIM], got[ROWS * DIM];
    if (c.dim % 16 != 0 || c.width % 16 != 0) return;
    c.stride = bytes_of(&c, c.dim);
    for (size_t rows = 0; rows <= ROWS; rows += rows < 5 ? 1 : 4)
        for (size_t n = 0; n <= VALUES; n += n < 3 ? 1 : 29) {
            for (size_t i = 0; i < ROWS * DIM; i++) want[i] = got[i] = (float)i;
            ref->attn_values_codes(&c, &(struct pith_coded_sums){rows, n, q, DIM, want, DIM});
            k->attn_values_codes(&c, &(struct pith_coded_sums){rows, n, q, DIM, got, DIM});
            assert_bits(want, got, ROWS * DIM, &c, name);
        }
}

static void check_scaling(const struct pith_kern *k, const struct pith_kern *ref, const char *name)
{
    float want[PITH_KEYS * 5], got[PITH_KEYS * 5];
    for (size_t n = 0; n <= 5; n++)
        for (int what = 0; what < 4; what++) {
            memcpy(want, q, sizeof want);
            memcpy(got, q, sizeof got);
            ref->scale_keys(n, what & 1 ? zero : NULL, scale, what & 2 ? offset : NULL, want);
            k->scale_keys(n, what & 1 ? zero : NULL, scale, what & 2 ? offset : NULL, got);
            if (memcmp(want, got, sizeof want) != 0) fail_msg("%s: scale_keys", name);
        }
}

static void check_tier(const struct pith_kern *k, const struct pith_kern *ref, const char *name,
                       int how)
{
    static const size_t dims[] = {1, 8, 16, 40, 64, 128, DIM}, widths[] = {4, 16, 32, 48, DIM};
    check_scaling(k, ref, name);
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
                    check_keys(k, ref, c, name);
                    check_values(k, ref, c, name);
                }
    }
}

/* Rows in bytes, at their extremes too, over codes of 4 and 8 bits. */
static void check_bytes(const struct pith_kern *k, const struct pith_kern *ref,
                        const struct pith_coded *c, bool keys, int how, const char *name)
{
    enum { MOST = ROWS * DIM };
    static int8_t x[ROWS * 160];
    float scales[ROWS * 5], totals[ROWS * 5];
    static float want[MOST], got[MOST];
    int32_t sums[ROWS * 5] = {0};
    struct pith_rng r;
    struct pith_coded_bytes b = {.blocks = c->dim / 32,
                                 .q = x,
                                 .scale = scales,
                                 .sum = sums,
                                 .total = c->offset ? totals : NULL};
    pith_rng_seed(&r, (uint64_t)how + 7);
    for (size_t i = 0; i < ROWS * b.blocks * 32; i++) {
        x[i] = (int8_t)((int)pith_rng_below(&r, 255) - 127);
        if (how) x[i] = how > 1 ? 127 : -127;
        sums[i / 32] += x[i];
    }
    for (size_t i = 0; i < ROWS * 5; i++) {
        scales[i] = (float)pith_rng_normal(&r);
        totals[i] = (float)pith_rng_normal(&r);
    }
    for (b.rows = 0; b.rows <= ROWS; b.rows++) {
        struct pith_coded_sums sum = {b.rows, PITH_KEYS, q, DIM, want, c->dim};
        for (size_t i = 0; i < MOST; i++) want[i] = got[i] = (float)i;
        if (keys) ref->attn_scores_bytes(c, &b, want, 40);
        else ref->attn_values_bytes(c, &sum);
        sum.o = got;
        if (keys) k->attn_scores_bytes(c, &b, got, 40);
        else k->attn_values_bytes(c, &sum);
        assert_bits(want, got, MOST, c, name);
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
            check_bytes(&k, &ref, &c, !values, how, row->name);
        }
    }
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
        for (int how = 0; how <= 2; how++) check_tier(&k, &ref, row->name, how);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_tier_gives_the_definition),
                                       cmocka_unit_test(every_tier_multiplies_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
