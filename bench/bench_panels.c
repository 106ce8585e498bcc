/* Times every kernel of packed panels on weights that stay in the second cache: the bytes of codes
 * and scales that a core can work through when memory is no limit. Decode is bound by memory as
 * long as this exceeds a core's share of the read bandwidth.
 *
 *     bench_panels
 *
 * Time is the thread's own, the best of several runs: a busy machine disturbs it little. */
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kern/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLS = 4096, PANELS = 8, RUNS = 40 };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct shape {
    const char *name;
    enum pith_panel_form form;
    unsigned bits;
    enum pith_panel_scale scale;
    size_t group;
    bool zeros, integer;
    enum pith_panel_factors factors;
};

#define NO PITH_FACTORS_NONE
static const struct shape shapes[] = {
    {"int2:g128", PITH_PANEL_LEVEL4, 2, PITH_SCALE_BF16, 128, false, true, NO},
    {"int3:g128", PITH_PANEL_LEVEL4, 3, PITH_SCALE_BF16, 128, false, true, NO},
    {"int4:g128", PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 128, false, true, NO},
    {"int4:g128:asym", PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 128, true, true, NO},
    {"int4:g32", PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 32, false, true, NO},
    {"int5:g128", PITH_PANEL_INT8, 5, PITH_SCALE_BF16, 128, false, true, NO},
    {"int6:g128", PITH_PANEL_INT8, 6, PITH_SCALE_BF16, 128, false, true, NO},
    {"int8:channel", PITH_PANEL_INT8, 8, PITH_SCALE_BF16, COLS, false, true, NO},
    {"fp8_e4m3:channel", PITH_PANEL_E4M3, 8, PITH_SCALE_BF16, COLS, false, false, NO},
    {"fp8_e5m2:channel", PITH_PANEL_E5M2, 8, PITH_SCALE_BF16, COLS, false, false, NO},
    {"nf4:g64", PITH_PANEL_LEVEL4, 4, PITH_SCALE_BF16, 64, false, false, PITH_FACTORS_LARGE},
    {"mxfp4", PITH_PANEL_LEVEL4, 4, PITH_SCALE_E8M0, 32, false, false, PITH_FACTORS_SMALL},
    {"nvfp4", PITH_PANEL_LEVEL4, 4, PITH_SCALE_E4M3, 16, false, false, PITH_FACTORS_SMALL},
};

static void *filled(size_t bytes)
{
    unsigned char *p = pith_alloc_aligned(bytes, 1);
    struct pith_rng r;
    if (!p) exit(1);
    pith_rng_seed(&r, bytes);
    /* No code of FP8 above 0x77 is needed: all are finite, as scales too. */
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)pith_rng_below(&r, 0x78);
    return p;
}

static double run(const struct pith_kernel *k, const struct pith_panels *m, const float *x,
                  const struct pith_bytes *q, float *y)
{
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        const double t = seconds();
        if (k->op == PITH_OP_panel_dot) ((pith_panel_dot_fn *)k->fn)(m, 0, PANELS, x, y);
        else ((pith_panel_dot_bytes_fn *)k->fn)(m, 0, PANELS, q, y); /* digits have the same type */
        const double took = seconds() - t;
        if (took < best) best = took;
    }
    return best;
}

static void time_shape(const struct pith_kernel *k, const struct shape *s)
{
    static float x[COLS], y[PANELS * PITH_PANEL_ROWS], scale[COLS / 16];
    static int8_t bytes[PITH_DIGITS * COLS];
    static int32_t sum[PITH_DIGITS * COLS / 16];
    struct pith_panels m = {.form = s->form,
                            .bits = s->bits,
                            .scale = s->scale,
                            .cols = COLS,
                            .group = s->group,
                            .groups = COLS / s->group,
                            .zero = (float)(1 << (s->bits - 1)),
                            .global = 1,
                            .fold = s->integer || s->form == PITH_PANEL_E4M3,
                            .factors = s->factors,
                            .unit = 0.5f};
    if (s->factors == PITH_FACTORS_SMALL) m.zero = PITH_FACTORS_SMALL_ZERO;
    if (s->factors == PITH_FACTORS_LARGE) m.zero = PITH_FACTORS_LARGE_ZERO;
    for (int i = 0; i < 16; i++) m.factor[i] = (uint8_t)(2 * (int)m.zero * i / 15);
    const size_t codes = PANELS * pith_panel_bytes(&m);
    const size_t scales = PANELS * PITH_PANEL_ROWS * m.groups;
    const size_t scale_bytes = scales * pith_panel_scale_bytes(s->scale);
    void *c = filled(codes), *f = filled(scale_bytes), *z = s->zeros ? filled(scales) : NULL;
    /* Products that are no subnormal floats, which take longer. */
    memset(f, s->scale == PITH_SCALE_E8M0 ? 0x7a : 0x3c, scale_bytes);
    m.codes = c;
    m.scales = f;
    m.zeros = z;
    for (int i = 0; i < COLS; i++) x[i] = (float)(i % 7) - 3;
    const size_t usual = k->op == PITH_OP_panel_dot_digits ? 128 : 64; /* as the modes have it */
    const size_t block = s->group < usual ? s->group : usual;
    pith_to_digits_scalar(COLS, block, x, bytes, COLS, scale, sum, COLS / 16);
    const struct pith_bytes q = {block, bytes, scale, sum, COLS, COLS / 16};
    const double took = run(k, &m, x, &q, y);
    const double total = (double)(codes + scale_bytes + (z ? scales : 0));
    printf("%-30s %-18s %7.1f GB/s %7.1f weights/ns\n", k->name, s->name, total / took * 1e-9,
           (double)PANELS * PITH_PANEL_ROWS * COLS / took * 1e-9);
    pith_free(c), pith_free(f), pith_free(z);
}

/* Levels are multiplied as integers in fast only. */
static bool takes_bytes(const struct pith_kernel *k, const struct shape *s)
{
    if (s->integer) return s->group >= 32;
    return k->op == PITH_OP_panel_dot_bytes && s->factors;
}

int main(void)
{
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *k = &pith_kernels[i];
        if ((k->isa & pith_cpu_detect()) != k->isa || k->isa == PITH_CPU_SCALAR) continue;
        if (k->op < PITH_OP_panel_dot || k->op > PITH_OP_panel_dot_digits ||
            k->op == PITH_OP_offsets_dot)
            continue;
        for (size_t j = 0; j < PITH_COUNT(shapes); j++)
            if (k->op == PITH_OP_panel_dot || takes_bytes(k, &shapes[j])) time_shape(k, &shapes[j]);
    }
    return 0;
}
