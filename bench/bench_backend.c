/* Times the backend's large operations and sets them against what this machine can do: the peak
 * of its multiply-add units and the speed of reading memory, both measured here. The best of
 * several runs counts.
 *
 *     bench_backend [threads] [tier] [group] [runs] [grid] [depth] [head]
 *
 * 0 threads: all; tier: scalar, avx2, avx512, auto; group: gemm, linear, ..., one of those below,
 * or all; runs: 5, of caches three times as many, of Cholesky factors always 3; grid: of packed
 * matrices and of caches, that alone; depth of caches: 4096; elements of their heads: 128.
 */
#include "backend/backend.h"
#include "backend/pack.h"
#include "backend/roof.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kern/ops.h"
#include "model/kv/kv.h"
#include "model/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* With one thread the time that it had a processor, so that a busy machine disturbs less. */
static clockid_t timer = CLOCK_MONOTONIC;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(timer, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct bench {
    struct pith_backend *b;
    unsigned threads;
    int runs;               /* of which the best counts */
    const char *grid;       /* of packed matrices and caches; NULL: each */
    size_t depth, head_dim; /* of caches */
    double peak;            /* flop/s */
    double read;            /* bytes/s */
};

static float *randoms(size_t n)
{
    float *x = pith_alloc_aligned(n, sizeof *x);
    struct pith_rng r;
    if (!x) exit(1);
    pith_rng_seed(&r, n);
    for (size_t i = 0; i < n; i++) x[i] = (float)pith_rng_unit(&r) - 0.5f;
    return x;
}

/* The tile kernel on operands that stay in the first cache is the peak that matters: nothing
 * else issues more multiply-adds. */
static void peak_task(void *ctx, size_t task, unsigned thread)
{
    (void)task;
    (void)thread;
    const struct pith_kern *k = ctx;
    float a[PITH_TILE_ROWS_MAX * 64] = {0}, b[PITH_TILE_COLS_MAX * 64] = {0};
    float c[PITH_TILE_ROWS_MAX * PITH_TILE_COLS_MAX] = {0};
    for (int i = 0; i < 4000; i++)
        k->gemm_tile(64, a, b, k->tile_cols, c, k->tile_cols, PITH_TILE_ADD, 1.0f);
}

static void measure_peak(struct bench *m)
{
    struct pith_kern k;
    pith_kern_select(pith_cpu_detect() & (uint32_t)pith_cpu_mask(pith_backend_cpu(m->b)), &k);
    const double flop = 2.0 * 64 * (double)(k.tile_rows * k.tile_cols) * 4000 * m->threads;
    for (int i = 0; i < 4 * m->runs; i++) {
        const double t = seconds();
        pith_pool_run(pith_backend_pool(m->b), m->threads, peak_task, &k);
        const double speed = flop / (seconds() - t);
        if (speed > m->peak) m->peak = speed;
    }
}

struct reading {
    const unsigned char *data;
    size_t each;
    const void *found[64];
};

/* libc's search for a byte that is not there reads as fast as the processor can. */
static void read_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    struct reading *r = ctx;
    r->found[task % 64] = memchr(r->data + task * r->each, 0, r->each);
}

static void measure_read(struct bench *m)
{
    const size_t bytes = (size_t)512 << 20;
    unsigned char *data = pith_alloc_huge(bytes, 1);
    if (!data) exit(1);
    memset(data, 1, bytes);
    struct reading r = {.data = data, .each = bytes / 64};
    for (int i = 0; i < m->runs; i++) {
        const double t = seconds();
        pith_pool_run(pith_backend_pool(m->b), 64, read_task, &r);
        const double speed = (double)bytes / (seconds() - t);
        if (speed > m->read && !r.found[0]) m->read = speed;
    }
    pith_free(data);
}

static void print_flops(const struct bench *m, const char *name, double flop, double best)
{
    printf("%-44s %8.1f GFLOP/s  %5.1f%% of peak  %8.2f ms\n", name, flop / best * 1e-9,
           100 * flop / best / m->peak, best * 1e3);
}

static void print_bytes(const struct bench *m, const char *name, double bytes, double best)
{
    printf("%-44s %8.1f GB/s     %5.1f%% of read  %8.3f ms\n", name, bytes / best * 1e-9,
           100 * bytes / best / m->read, best * 1e3);
}

#define BEST(best, call)                                                                           \
    double best = 1e30;                                                                            \
    for (int run_ = 0; run_ < m->runs; run_++) {                                                   \
        const double start_ = seconds();                                                           \
        call;                                                                                      \
        const double t_ = seconds() - start_;                                                      \
        if (t_ < best) best = t_;                                                                  \
    }

static void bench_gemm(const struct bench *m, size_t rows, size_t cols, size_t depth,
                       bool transposed)
{
    char name[64];
    float *a = randoms(rows * depth), *b = randoms(depth * cols), *c = randoms(rows * cols);
    const struct pith_gemm g = {.m = rows,
                                .n = cols,
                                .k = depth,
                                .a = a,
                                .a_rs = depth,
                                .a_cs = 1,
                                .b = b,
                                .b_rs = transposed ? 1 : cols,
                                .b_cs = transposed ? depth : 1,
                                .c = c,
                                .ldc = cols,
                                .accumulate = true};
    BEST(best, pith_gemm(m->b, &g))
    snprintf(name, sizeof name, "gemm %zux%zux%zu%s", rows, cols, depth, transposed ? " B^T" : "");
    print_flops(m, name, 2.0 * (double)rows * (double)cols * (double)depth, best);
    pith_free(a);
    pith_free(b);
    pith_free(c);
}

static void linear_case(const struct bench *m, const struct pith_weight *w, double bytes,
                        const char *what)
{
    static const size_t counts[] = {1, 4, 32, 512};
    char name[64];
    float *x = randoms(512 * (size_t)w->cols), *y = randoms(512 * (size_t)w->rows);
    for (size_t i = 0; i < PITH_COUNT(counts); i++) {
        const size_t n = counts[i];
        BEST(best, pith_linear(m->b, w, NULL, x, n, y))
        snprintf(name, sizeof name, "linear %s %ux%u, n = %zu", what, w->rows, w->cols, n);
        if (n == 1) print_bytes(m, name, bytes, best);
        else print_flops(m, name, 2.0 * (double)n * w->rows * w->cols, best);
    }
    pith_free(x);
    pith_free(y);
}

static void bench_linear(const struct bench *m)
{
    static const struct {
        enum pith_dtype dtype;
        const char *name;
    } types[] = {{PITH_BF16, "bf16"}, {PITH_F16, "f16"}, {PITH_F32, "f32"}};
    const uint32_t rows = 14336, cols = 4096;
    const size_t count = (size_t)rows * cols;
    float *w = randoms(count);
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        float *stored = randoms(count);
        pith_dtype_encode(types[i].dtype, w, count, stored);
        const struct pith_weight weight = {
            .rows = rows, .cols = cols, .dtype = types[i].dtype, .dense = stored};
        linear_case(m, &weight, (double)count * (types[i].dtype == PITH_F32 ? 4 : 2),
                    types[i].name);
        pith_free(stored);
    }
    pith_free(w);
}

static void random_qmat(struct pith_qmat *q, const char *text, uint32_t rows, uint32_t cols)
{
    struct pith_grid grid;
    struct pith_rng r;
    if (pith_grid_parse(text, &grid, NULL) != PITH_OK ||
        pith_qmat_init(q, rows, cols, &grid, PITH_F16, NULL) != PITH_OK)
        exit(1);
    pith_rng_seed(&r, rows);
    for (size_t j = 0; j < q->rows * q->stride; j++)
        q->codes[j] = (uint8_t)(pith_rng_next(&r) & 0x77);
    for (size_t j = 0; j < (size_t)q->rows * q->groups; j++) q->scales[j] = 0.0078125f;
}

static void set_mode(const struct bench *m, bool fast)
{
    if (pith_backend_set_mode(m->b, fast ? PITH_MODE_FAST : PITH_MODE_EXACT, NULL) != PITH_OK)
        exit(1);
}

/* As they are stored; trellises, which have kernels of their own, in both modes. */
static void bench_quantized(const struct bench *m)
{
    static const char *const grids[] = {"int4:g128",        "int8:channel", "int3:g128",
                                        "fp8_e4m3:channel", "trellis2",     "trellis3",
                                        "trellis4",         "trellis3_mcg", "trellis3_3inst",
                                        "trellis2_mul2",    "trellis3_mul2", "trellis4_mul2"};
    if (pith_backend_take_prepared(m->b, NULL) != PITH_OK) exit(1);
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_qmat q;
        char name[32];
        if (m->grid && strcmp(m->grid, grids[i]) != 0) continue;
        random_qmat(&q, grids[i], 14336, 4096);
        const bool trellis = q.format->kind == PITH_KIND_TRELLIS;
        for (uint32_t c = 0; trellis && c < q.cols; c++) q.levels[c] = 1;
        const struct pith_weight w = {.rows = q.rows, .cols = q.cols, .quant = &q};
        for (int fast = 0; fast <= trellis; fast++) {
            set_mode(m, fast);
            snprintf(name, sizeof name, "%s%s", grids[i], fast ? " fast" : "");
            linear_case(m, &w, (double)q.rows * (double)q.stride, name);
        }
        set_mode(m, false);
        pith_qmat_free(&q);
    }
}

/* The packed forms, in both modes. */
static void bench_packed(const struct bench *m)
{
    static const char *const grids[] = {"int4:g128", "int4:g128:asym", "int3:g128",
                                        "int6:g128", "int8:channel",   "nf4:g64",
                                        "mxfp4",     "nvfp4",          "fp8_e4m3:channel"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_qmat q;
        struct pith_pack pack;
        char name[32];
        if (m->grid && strcmp(m->grid, grids[i]) != 0) continue;
        random_qmat(&q, grids[i], 14336, 4096);
        void *memory = pith_alloc_aligned(pith_pack_bytes(&q), 1);
        if (!memory) exit(1);
        pith_pack_init(m->b, &q, memory, &pack);
        pith_qmat_free(&q);
        const struct pith_weight w = {.rows = pack.rows, .cols = pack.cols, .pack = &pack};
        for (int fast = 0; fast <= (pack.block > 0); fast++) {
            set_mode(m, fast);
            snprintf(name, sizeof name, "%s%s", grids[i], fast ? " fast" : "");
            linear_case(m, &w, (double)pack.bytes, name);
        }
        set_mode(m, false);
        pith_free(memory);
    }
}

/* Matrices of all widths, one row of x: in turns, so that what disturbs one does so to all, and
 * together more than a cache holds. The median of the runs. */
struct width {
    const char *grid;
    struct pith_pack pack;
    void *memory;
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_widths(const struct bench *m, const struct width *all, size_t count, bool fast)
{
    enum { ROWS = 14336, COLS = 4096 };
    float *x = randoms(COLS), *y = randoms(ROWS);
    double *took = pith_alloc_aligned(count * (size_t)m->runs, sizeof *took);
    if (!took || pith_backend_set_mode(m->b, fast ? PITH_MODE_FAST : PITH_MODE_EXACT, NULL) ||
        pith_backend_take_prepared(m->b, NULL))
        exit(1);
    for (size_t r = 0; r < (size_t)m->runs; r++)
        for (size_t i = 0; i < count; i++) {
            const struct pith_weight w = {.rows = ROWS, .cols = COLS, .pack = &all[i].pack};
            const double start = seconds();
            pith_linear(m->b, &w, NULL, x, 1, y);
            took[i * (size_t)m->runs + r] = seconds() - start;
        }
    for (size_t i = 0; i < count; i++) {
        double *own = took + i * (size_t)m->runs;
        qsort(own, (size_t)m->runs, sizeof *own, by_value);
        char name[64];
        snprintf(name, sizeof name, "%s%s, %.2f bits", all[i].grid, fast ? " fast" : "",
                 8.0 * (double)all[i].pack.bytes / ROWS / COLS);
        print_bytes(m, name, (double)all[i].pack.bytes, own[m->runs / 2]);
    }
    (void)pith_backend_set_mode(m->b, PITH_MODE_EXACT, NULL);
    pith_free(took);
    pith_free(x);
    pith_free(y);
}

static void bench_widths(const struct bench *m)
{
    struct width all[] = {{.grid = "int2:g128"}, {.grid = "int3:g128"}, {.grid = "int4:g128"},
                          {.grid = "int5:g128"}, {.grid = "int6:g128"}, {.grid = "int8:g128"},
                          {.grid = "int2:g32"},  {.grid = "int3:g32"},  {.grid = "int4:g32"},
                          {.grid = "int5:g32"},  {.grid = "int6:g32"},  {.grid = "int8:g32"},
                          {.grid = "q2_k"},      {.grid = "q3_k"},      {.grid = "q4_k"},
                          {.grid = "q5_k"},      {.grid = "q6_k"}};
    for (size_t i = 0; i < PITH_COUNT(all); i++) {
        struct pith_qmat q;
        random_qmat(&q, all[i].grid, 14336, 4096);
        all[i].memory = pith_alloc_huge(pith_pack_bytes(&q), 1);
        if (!all[i].memory) exit(1);
        pith_pack_init(m->b, &q, all[i].memory, &all[i].pack);
        pith_qmat_free(&q);
    }
    time_widths(m, all, PITH_COUNT(all), false);
    time_widths(m, all, PITH_COUNT(all), true);
    for (size_t i = 0; i < PITH_COUNT(all); i++) pith_free(all[i].memory);
}

static void bench_syrk(const struct bench *m, size_t d, size_t n)
{
    char name[64];
    float *h = randoms(d * d), *x = randoms(n * d);
    BEST(best, pith_syrk(m->b, h, d, x, n, 0.01f))
    snprintf(name, sizeof name, "syrk d = %zu, n = %zu", d, n);
    print_flops(m, name, (double)d * (double)d * (double)n, best);
    pith_free(h);
    pith_free(x);
}

static void bench_cholesky(const struct bench *m, size_t d)
{
    char name[64];
    float *h = randoms(d * d), *work = randoms(d * d);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            h[i * d + j] = i == j ? (float)d : h[(i < j ? i : j) * d + (i < j ? j : i)];
    double best = 1e30;
    for (int i = 0; i < 3; i++) {
        memcpy(work, h, d * d * sizeof *h);
        const double t = seconds();
        if (pith_cholesky_upper(m->b, work, d, NULL, NULL) != PITH_OK) exit(1);
        const double s = seconds() - t;
        if (s < best) best = s;
    }
    snprintf(name, sizeof name, "cholesky d = %zu", d);
    print_flops(m, name, (double)d * (double)d * (double)d / 3, best);
    pith_free(h);
    pith_free(work);
}

/* The caches of a whole model, so that none is found in the processor's. */
struct depth {
    const char *kv; /* how keys and values are kept */
    size_t layers, heads, kv_heads, head_dim, capacity;
    struct pith_row_code code[2]; /* of k and v, where they are on a grid */
    float level[2][PITH_ROW_LEVELS];
    struct pith_cache *cache; /* [layers] */
    char *memory;
    size_t bytes;
    float *work;
    size_t work_floats;
    float *channels; /* of num/kvquant.h: middles and ranges, then angles; else NULL */
    struct pith_cache_rope rope;
};

/* What calibration and positions would tell: levels at equal distances, one range, no angle. */
static void depth_levels(struct depth *d, struct pith_cache_side *s, int which)
{
    const size_t numbers = d->kv_heads * d->head_dim;
    const size_t angles = pith_cache_pages(d->capacity) * 32 * (d->head_dim / 2);
    const unsigned count = 1u << d->code[which].bits;
    for (unsigned i = 0; i < count; i++) d->level[which][i] = 2 * (float)i / (float)(count - 1) - 1;
    d->code[which].level = d->level[which];
    d->code[which].beyond = 3.5f;
    if (which == 1) return;
    d->channels = pith_zalloc(2 * numbers + 2 * angles, sizeof *d->channels);
    if (!d->channels) exit(1);
    float *cos = d->channels + 2 * numbers;
    for (size_t i = 0; i < numbers; i++) d->channels[numbers + i] = 2.6f;
    for (size_t i = 0; i < angles; i++) cos[i] = 1;
    d->rope =
        (struct pith_cache_rope){.cos = cos, .sin = cos + angles, .dim = d->head_dim, .back = 1};
    s->middle = d->channels;
    s->range = d->channels + numbers;
    s->rope = &d->rope;
}

static struct pith_cache_side depth_side(struct depth *d, const struct pith_kv_part *p, int which)
{
    struct pith_cache_side s = {.dtype = pith_kv_dtype(p), .dim = d->head_dim};
    if (!pith_kv_coded(p)) return s;
    const uint32_t dim = (uint32_t)s.dim;
    if (pith_kv_code(p, which == 0, dim, d->level[which], &d->code[which], NULL) != PITH_OK)
        exit(1);
    s.code = &d->code[which];
    if (pith_kv_needs(p) & PITH_KV_LEVELS) depth_levels(d, &s, which);
    return s;
}

/* Keys by channel become codes from a page in floats. */
static void close_first(const struct bench *m, const struct pith_cache *c, const float *rows)
{
    struct pith_cache floats = {
        .kv_heads = c->kv_heads, .k = {.dim = c->k.dim}, .v = {.dim = c->v.dim}};
    const struct pith_cache_span page = {.n = 32};
    if (!pith_cache_layout(&floats) || !(floats.memory = pith_alloc(floats.page_bytes, 1))) exit(1);
    pith_cache_store(m->b, &floats, &page, rows, rows);
    pith_cache_close(m->b, c, &floats, &page);
    pith_free(floats.memory);
}

/* Every page holds the same random numbers. */
static void depth_open(const struct bench *m, struct depth *d)
{
    enum { PAGE = 32 };
    struct pith_kv_format f;
    if (pith_kv_parse(d->kv, PITH_F32, NULL, &f, NULL) != PITH_OK) exit(1);
    struct pith_cache one = {.kv_heads = d->kv_heads};
    one.k = depth_side(d, &f.k, 0);
    one.v = depth_side(d, &f.v, 1);
    if (!pith_cache_layout(&one)) exit(1);
    const size_t layer = pith_cache_pages(d->capacity) * one.page_bytes;
    d->cache = pith_zalloc(d->layers, sizeof *d->cache);
    d->bytes = d->layers * layer;
    d->memory = pith_alloc_huge(d->bytes, 1);
    d->work_floats = pith_attention_work(d->heads, d->head_dim, d->capacity);
    d->work = pith_alloc_aligned(d->work_floats, sizeof *d->work);
    if (!d->cache || !d->memory || !d->work) exit(1);
    float *random = randoms(PAGE * d->kv_heads * d->head_dim);
    one.memory = d->memory;
    pith_cache_store(m->b, &one, &(struct pith_cache_span){.n = PAGE}, random, random);
    close_first(m, &one, random);
    for (size_t at = one.page_bytes; at < d->bytes; at += one.page_bytes)
        memcpy(d->memory + at, d->memory, one.page_bytes);
    for (size_t i = 0; i < d->layers; i++) {
        d->cache[i] = one;
        d->cache[i].memory = d->memory + i * layer;
    }
    pith_free(random);
}

static void depth_close(struct depth *d)
{
    pith_free(d->cache);
    pith_free(d->memory);
    pith_free(d->work);
    pith_free(d->channels);
}

static void attend_all(const struct bench *m, const struct depth *d, size_t n, size_t start,
                       float *q)
{
    const struct pith_cache_span span = {.n = n, .start = start};
    for (size_t i = 0; i < d->layers; i++)
        pith_attention(m->b, &(struct pith_attention){.span = &span,
                                                      .spans = 1,
                                                      .heads = d->heads,
                                                      .scale = 0.1f,
                                                      .cache = &d->cache[i],
                                                      .q = q,
                                                      .out = q,
                                                      .work = d->work,
                                                      .work_floats = d->work_floats});
}

struct lines {
    const struct pith_kern *k;
    const char *data;
    uint64_t found[64];
};

static void lines_task(void *ctx, size_t task, unsigned thread)
{
    enum { LINES = 1 << 14 }; /* a megabyte */
    struct lines *l = ctx;
    l->found[thread % 64] ^= l->k->read_lines(LINES, l->data + task * LINES * 64);
}

/* Bytes a second of one linear read by all threads. */
static double read_speed(const struct bench *m, const void *data, size_t bytes)
{
    struct pith_kern k;
    pith_kern_select(pith_cpu_detect(), &k);
    struct lines l = {.k = &k, .data = data};
    const double t = seconds();
    pith_pool_run(pith_backend_pool(m->b), bytes >> 20, lines_task, &l);
    return (double)(bytes >> 20 << 20) / (seconds() - t);
}

static const char *mode_name(const struct bench *m)
{
    return pith_backend_mode(m->b) == PITH_MODE_FAST ? " fast" : "";
}

static void bench_decode(const struct bench *m, struct depth d)
{
    char name[64];
    depth_open(m, &d);
    float *q = randoms(d.heads * d.head_dim);
    const size_t start = d.capacity - 1;
    /* Reading the same memory takes turns with attention: a busy machine slows both. */
    struct bench here = *m;
    double best = 1e30;
    here.read = 0;
    for (int i = 0; i < 3 * m->runs; i++) {
        const double speed = read_speed(m, d.memory, d.bytes);
        if (speed > here.read) here.read = speed;
        const double t = seconds();
        attend_all(m, &d, 1, start, q);
        if (seconds() - t < best) best = seconds() - t;
    }
    snprintf(name, sizeof name, "decode %zu/%zu of %zu, %s%s, %zu layers, %zu", d.heads, d.kv_heads,
             d.head_dim, d.kv, mode_name(m), d.layers, d.capacity);
    print_bytes(&here, name, (double)d.bytes, best);
    pith_free(q);
    depth_close(&d);
}

static void bench_prefill(const struct bench *m, struct depth d, size_t n)
{
    char name[64];
    d.layers = 1;
    depth_open(m, &d);
    float *q = randoms(n * d.heads * d.head_dim);
    const size_t start = d.capacity - n;
    BEST(best, attend_all(m, &d, n, start, q))
    snprintf(name, sizeof name, "prefill %zu/%zu of %zu, %s%s, %zu at %zu", d.heads, d.kv_heads,
             d.head_dim, d.kv, mode_name(m), n, start);
    print_flops(m, name,
                4.0 * (double)(d.heads * d.head_dim) * (double)n *
                    ((double)start + (double)(n + 1) / 2),
                best);
    pith_free(q);
    depth_close(&d);
}

static void bench_rows(const struct bench *m)
{
    const size_t n = 512, dim = 14336, vocab = 128256;
    float *x = randoms(n * dim), *y = randoms(n * dim), *logits = randoms(64 * vocab);
    double out[64];
    BEST(silu, pith_silu_mul(m->b, x, y, n * dim))
    print_bytes(m, "silu_mul 512x14336", 12.0 * (double)(n * dim), silu);
    BEST(norm, pith_rmsnorm(m->b, x, n, dim, y, 1e-5, x))
    print_bytes(m, "rmsnorm 512x14336", 8.0 * (double)(n * dim), norm);
    BEST(rope, pith_rope(m->b, x, n, dim, 112, 128, y, y))
    print_bytes(m, "rope 512x112x128", 8.0 * (double)(n * dim), rope);
    BEST(lse, pith_logsumexp(m->b, logits, 64, vocab, out))
    print_bytes(m, "logsumexp 64x128256", 4.0 * 64 * (double)vocab, lse);
    pith_free(x);
    pith_free(y);
    pith_free(logits);
}

/* What a model of that shape does for one token besides its linears and attention. */
struct model_shape {
    const char *name;
    size_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    double weights; /* parameters that a token reads */
};

static void step_time(const struct bench *m, const struct model_shape *s, const char *what,
                      double best, size_t times, double *sum)
{
    const double t = best * (double)times, token = s->weights * 4.125 / 8 / m->read;
    char name[64];
    snprintf(name, sizeof name, "%s, %s", s->name, what);
    printf("%-44s %8.2f us       %5.2f%% of a token at int4:g128\n", name, t * 1e6,
           100 * t / token);
    *sum += t;
}

static void bench_sampling(const struct bench *m, const struct model_shape *s, const float *logits)
{
    static const struct pith_sampling how[] = {
        {.temperature = 0, .top_p = 1},
        {.temperature = 0.8f, .top_p = 1},
        {.temperature = 0.8f, .top_p = 0.95f},
        {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f},
    };
    static const char *const names[] = {"greedy", "temperature 0.8", "top-p 0.95",
                                        "top-k 40, top-p"};
    for (size_t i = 0; i < PITH_COUNT(how); i++) {
        struct pith_sampler sampler;
        volatile int32_t id = 0;
        double ignored = 0;
        if (pith_sampler_init(&sampler, m->b, s->vocab, &how[i], NULL) != PITH_OK) exit(1);
        BEST(best, id = pith_sampler_next(&sampler, logits))
        (void)id;
        step_time(m, s, names[i], best, 1, &ignored);
        pith_sampler_free(&sampler);
    }
}

static void bench_step(const struct bench *m, const struct model_shape *s)
{
    float *x = randoms(s->ffn), *y = randoms(s->ffn), *w = randoms(s->ffn),
          *logits = randoms(s->vocab);
    struct depth d = {.layers = 1,
                      .heads = s->heads,
                      .kv_heads = s->kv_heads,
                      .head_dim = s->head_dim,
                      .capacity = 64,
                      .kv = "bf16"};
    double sum = 0;
    depth_open(m, &d);
    struct pith_rng r;
    pith_rng_seed(&r, 1);
    for (size_t i = 0; i < s->vocab; i++) logits[i] = (float)(3 * pith_rng_normal(&r));
    BEST(norm, pith_rmsnorm(m->b, x, 1, s->hidden, w, 1e-5, y))
    step_time(m, s, "rmsnorm", norm, 2 * s->layers + 1, &sum);
    BEST(rope, pith_rope(m->b, x, 1, s->hidden, s->heads, s->head_dim, w, w);
         pith_rope(m->b, y, 1, s->hidden, s->kv_heads, s->head_dim, w, w))
    step_time(m, s, "rope", rope, s->layers, &sum);
    BEST(store,
         pith_cache_store(m->b, d.cache, &(struct pith_cache_span){.start = 37, .n = 1}, x, y))
    step_time(m, s, "storing k and v", store, s->layers, &sum);
    BEST(silu, pith_silu_mul(m->b, x, y, s->ffn))
    step_time(m, s, "silu", silu, s->layers, &sum);
    BEST(add, pith_add(m->b, x, y, s->hidden))
    step_time(m, s, "residual", add, 2 * s->layers, &sum);
    double ignored = 0;
    step_time(m, s, "all of these", sum, 1, &ignored);
    bench_sampling(m, s, logits);
    depth_close(&d);
    pith_free(x);
    pith_free(y);
    pith_free(w);
    pith_free(logits);
}

static void steps(const struct bench *m)
{
    static const struct model_shape shapes[] = {
        {"1B", 16, 2048, 8192, 32, 8, 64, 128256, 1.236e9},
        {"8B", 32, 4096, 14336, 32, 8, 128, 128256, 7.505e9},
    };
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) bench_step(m, &shapes[i]);
}

static void gemms(const struct bench *m)
{
    bench_gemm(m, 512, 4096, 4096, false);
    bench_gemm(m, 512, 4096, 4096, true);
    bench_gemm(m, 4096, 3968, 128, false);
}

static void syrks(const struct bench *m)
{
    bench_syrk(m, 4096, 512);
    bench_syrk(m, 4096, 2048);
}

/* Multiply-adds of bfloat16 a second; of float32 where the tier has no instruction for them. */
static double bf16_peak(const struct bench *m)
{
    struct pith_roof *roof;
    struct pith_roof_sample s;
    double best = 0;
    if (pith_roof_new(m->b, &roof, NULL) != PITH_OK) exit(1);
    for (int i = 0; i < m->runs; i++) {
        pith_roof_measure(roof, &s);
        if (s.bf16 > best) best = s.bf16;
    }
    pith_roof_free(roof);
    return best > 0 ? best : m->peak;
}

/* Operands rounded to bfloat16, as calibration has them. */
static void bench_halves(const struct bench *m)
{
    struct bench halves = *m;
    const size_t rows = 14336, cols = 4096, n = 2048;
    float *values = randoms(rows * cols);
    uint16_t *dense = pith_alloc(rows * cols, sizeof *dense);
    if (!dense || pith_backend_set_mode(m->b, PITH_MODE_BF16, NULL) != PITH_OK) exit(1);
    halves.peak = bf16_peak(m);
    pith_dtype_encode(PITH_BF16, values, rows * cols, dense);
    const struct pith_weight w = {.rows = 14336, .cols = 4096, .dtype = PITH_BF16, .dense = dense};
    float *x = randoms(n * cols), *y = randoms(n * rows);
    double best = 1e30;
    for (int i = 0; i < m->runs; i++) {
        const double t = seconds();
        pith_linear(m->b, &w, NULL, x, n, y);
        const double s = seconds() - t;
        if (s < best) best = s;
    }
    print_flops(&halves, "linear bf16 14336 x 4096, 2048 rows", 2.0 * (double)(rows * cols * n),
                best);
    bench_syrk(&halves, 4096, 2048);
    (void)pith_backend_set_mode(m->b, PITH_MODE_EXACT, NULL);
    pith_free(dense);
    pith_free(values);
    pith_free(x);
    pith_free(y);
}

static void choleskys(const struct bench *m)
{
    bench_cholesky(m, 1024);
    bench_cholesky(m, 4096);
}

static void attentions(const struct bench *m)
{
    static const char *const types[] = {"bf16", "f32"};
    static const size_t dims[] = {64, 128}; /* Llama-3.2-1B, Llama-3-8B */
    for (size_t t = 0; t < PITH_COUNT(types); t++)
        for (size_t i = 0; i < PITH_COUNT(dims); i++) {
            struct depth d = {.heads = 32, .kv_heads = 8, .head_dim = dims[i], .kv = types[t]};
            static const size_t depths[][2] = {{512, 64}, {4096, 16}, {16384, 8}};
            for (size_t j = 0; j < PITH_COUNT(depths); j++) {
                d.capacity = depths[j][0];
                d.layers = depths[j][1];
                bench_decode(m, d);
            }
            d.capacity = 512;
            bench_prefill(m, d, 512);
            d.capacity = 2560;
            bench_prefill(m, d, 512);
        }
}

/* One token, and a prompt, over each format of a cache. */
static void caches(const struct bench *m)
{
    static const char *const kinds[] = {
        "bf16",     "int8:token", "q8_0",   "fp8_e4m3", "mxfp8", "fp8_e5m2",      "int4:g32:asym",
        "int4:g32", "q4_0",       "iq4_nl", "mxfp4",    "nvfp4", "int3:g32:asym", "int2:g32:asym",
        "turbo4",   "turbo3",     "turbo2", "kivi4",    "kivi2", "kvquant4",      "kvquant2"};
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) {
        struct depth d = {.heads = 32, .kv_heads = 8, .head_dim = m->head_dim, .kv = kinds[i]};
        if (m->grid && strcmp(m->grid, kinds[i]) != 0) continue;
        for (int fast = 0; fast < 2; fast++) {
            if (pith_backend_set_mode(m->b, fast ? PITH_MODE_FAST : PITH_MODE_EXACT, NULL) !=
                PITH_OK)
                exit(1);
            d.capacity = m->depth;
            d.layers = 16;
            bench_decode(m, d);
            d.capacity = 2560;
            bench_prefill(m, d, 512);
        }
        (void)pith_backend_set_mode(m->b, PITH_MODE_EXACT, NULL);
    }
}

static const struct {
    const char *name;
    void (*run)(const struct bench *m);
} groups[] = {{"gemm", gemms},           {"linear", bench_linear}, {"quantized", bench_quantized},
              {"packed", bench_packed},
              {"widths", bench_widths},  {"syrk", syrks},          {"cholesky", choleskys},
              {"attention", attentions}, {"rows", bench_rows},     {"step", steps},
              {"halves", bench_halves},  {"caches", caches}};

int main(int argc, char **argv)
{
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct bench m = {.runs = argc > 4 ? atoi(argv[4]) : 5, .grid = argc > 5 ? argv[5] : NULL};
    m.depth = argc > 6 ? (size_t)atoi(argv[6]) : 4096;
    m.head_dim = argc > 7 ? (size_t)atoi(argv[7]) : 128;
    const int64_t mask = pith_cpu_mask(argc > 2 ? argv[2] : "auto");
    if (mask < 0 || pith_pool_new(argc > 1 ? (unsigned)atoi(argv[1]) : 0, &pool, &err) != PITH_OK ||
        pith_backend_new(pool, (uint32_t)mask, &m.b, &err) != PITH_OK) {
        fprintf(stderr, "bench_backend: %s\n", err.text);
        return 1;
    }
    if (m.runs < 1) {
        fprintf(stderr, "bench_backend: %s is no number of runs\n", argv[4]);
        return 2;
    }
    m.threads = pith_pool_threads(pool);
    if (m.threads == 1) timer = CLOCK_PROCESS_CPUTIME_ID;
    measure_peak(&m);
    measure_read(&m);
    printf("%s, %u threads: peak %.1f GFLOP/s, read %.1f GB/s\n", pith_backend_cpu(m.b), m.threads,
           m.peak * 1e-9, m.read * 1e-9);
    for (size_t i = 0; i < PITH_COUNT(groups); i++)
        if (argc < 4 || strcmp(argv[3], "all") == 0 || strcmp(argv[3], groups[i].name) == 0)
            groups[i].run(&m);
    pith_backend_free(m.b);
    pith_pool_free(pool);
    return 0;
}
