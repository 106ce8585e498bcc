/* Times attention of one token a sequence over packed caches, by turns: in every round each format
 * reads its own memory once, line by line, and then attends, in exact and in fast, so that what
 * disturbs the machine falls on all. Printed are the best times and medians, in milliseconds a
 * layer and sequence, and bytes of keys and values a second as a share of what reading them gave.
 *
 *     bench_caches THREADS TIER ROUNDS DEPTH SEQUENCES FORMAT...
 *
 * 0 threads: all; tier: as for --cpu; 32 query heads, 8 of keys and values, 128 elements. */
#include "backend/backend.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kern/ops.h"
#include "model/kv/kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 32, KV_HEADS = 8, HEAD = 128, PAGE = 32, ROUNDS = 200, FORMATS = 16, MOST = 32 };
/* No cache of a processor holds that much. */
#define LEAST_BYTES ((size_t)256 << 20)

static clockid_t timer = CLOCK_MONOTONIC;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(timer, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct bench {
    struct pith_backend *b;
    struct pith_kern kern;
    size_t depth, sequences, rounds;
};

/* One format: layers of sequences, whose pages lie one behind the other. */
struct form {
    const char *name;
    struct pith_row_code code[2];
    float level[2][PITH_ROW_LEVELS];
    struct pith_cache cache;
    size_t layers, bytes;
    char *memory;
    float *q, *work;
    size_t work_floats;
    uint32_t *pages;
    struct pith_cache_span span[MOST];
    double read[ROUNDS], time[2][ROUNDS];
};

static void *need(void *p)
{
    if (p) return p;
    fprintf(stderr, "bench_caches: no memory\n");
    exit(1);
}

static struct pith_cache_side side_of(struct form *f, const struct pith_kv_part *p, int which)
{
    struct pith_cache_side s = {.dtype = pith_kv_dtype(p), .dim = HEAD};
    if (!pith_kv_coded(p)) return s;
    if (pith_kv_code(p, which == 0, HEAD, f->level[which], &f->code[which], NULL) != PITH_OK)
        exit(1);
    s.code = &f->code[which];
    return s;
}

/* Every page holds the same random numbers. */
static void fill(const struct bench *m, struct form *f)
{
    const size_t page = f->cache.page_bytes, numbers = PAGE * KV_HEADS * HEAD;
    float *x = need(pith_alloc_aligned(numbers, sizeof *x));
    struct pith_rng r;
    pith_rng_seed(&r, 1);
    for (size_t i = 0; i < numbers; i++) x[i] = (float)pith_rng_unit(&r) - 0.5f;
    for (size_t i = 0; i < m->sequences * HEADS * HEAD; i++) f->q[i] = x[i % numbers];
    f->cache.memory = f->memory;
    f->cache.apart = f->bytes / page / f->layers;
    for (size_t i = 0; i < f->layers; i++, f->cache.memory += f->bytes / f->layers)
        for (uint32_t p = 0; p < f->cache.apart; p++)
            pith_cache_store(m->b, &f->cache, &(struct pith_cache_span){.n = PAGE, .page = &p}, x,
                             x);
    pith_free(x);
}

static void open_form(const struct bench *m, struct form *f)
{
    struct pith_kv_format kv;
    const size_t pages = pith_cache_pages(m->depth);
    if (pith_kv_parse(f->name, PITH_F32, NULL, &kv, NULL) != PITH_OK) {
        fprintf(stderr, "bench_caches: %s is no cache\n", f->name);
        exit(2);
    }
    f->cache = (struct pith_cache){.kv_heads = KV_HEADS};
    f->cache.k = side_of(f, &kv.k, 0);
    f->cache.v = side_of(f, &kv.v, 1);
    if (!pith_cache_layout(&f->cache)) exit(1);
    const size_t layer = m->sequences * pages * f->cache.page_bytes;
    f->layers = 1 + (LEAST_BYTES - 1) / layer;
    f->bytes = f->layers * layer;
    f->memory = need(pith_alloc_huge(f->bytes, 1));
    f->work_floats = pith_attention_work(HEADS, HEAD, m->depth);
    f->work = need(pith_alloc_aligned(f->work_floats, sizeof *f->work));
    f->q = need(pith_alloc_aligned(m->sequences * HEADS * HEAD, sizeof *f->q));
    f->pages = need(pith_alloc(m->sequences * pages, sizeof *f->pages));
    for (size_t i = 0; i < m->sequences * pages; i++) f->pages[i] = (uint32_t)i;
    for (size_t i = 0; i < m->sequences; i++)
        f->span[i] =
            (struct pith_cache_span){.start = m->depth - 1, .n = 1, .page = f->pages + i * pages};
    fill(m, f);
}

static void close_form(struct form *f)
{
    pith_free(f->memory);
    pith_free(f->work);
    pith_free(f->q);
    pith_free(f->pages);
}

static void attend(const struct bench *m, const struct form *f)
{
    struct pith_cache layer = f->cache;
    for (size_t i = 0; i < f->layers; i++) {
        layer.memory = f->memory + i * (f->bytes / f->layers);
        pith_attention(m->b, &(struct pith_attention){.span = f->span,
                                                      .spans = m->sequences,
                                                      .heads = HEADS,
                                                      .scale = 0.1f,
                                                      .cache = &layer,
                                                      .q = f->q,
                                                      .out = f->q,
                                                      .work = f->work,
                                                      .work_floats = f->work_floats});
    }
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

static void round_of(const struct bench *m, struct form *f, size_t round)
{
    const size_t blocks = f->bytes >> 20;
    struct lines l = {.k = &m->kern, .data = f->memory};
    double t = seconds();
    pith_pool_run(pith_backend_pool(m->b), blocks, lines_task, &l);
    f->read[round] = (double)(blocks << 20) / (seconds() - t);
    for (int fast = 0; fast < 2; fast++) {
        if (pith_backend_set_mode(m->b, fast ? PITH_MODE_FAST : PITH_MODE_EXACT, NULL) != PITH_OK)
            exit(1);
        t = seconds();
        attend(m, f);
        f->time[fast][round] = seconds() - t;
    }
}

static int order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const struct bench *m, struct form *f)
{
    const double each = 1e3 / (double)(f->layers * m->sequences);
    const size_t n = m->rounds;
    qsort(f->read, n, sizeof *f->read, order);
    printf("| %s |", f->name);
    for (int fast = 0; fast < 2; fast++) {
        double *t = f->time[fast];
        qsort(t, n, sizeof *t, order);
        printf(" %.3f | %.3f | %.0f%% | %.0f%% |", t[0] * each, t[n / 2] * each,
               100 * (double)f->bytes / t[0] / f->read[n - 1],
               100 * (double)f->bytes / t[n / 2] / f->read[n / 2]);
    }
    printf(" %.1f |\n", f->read[n - 1] * 1e-9);
}

int main(int argc, char **argv)
{
    static struct form form[FORMATS];
    struct pith_error err = {0};
    struct pith_pool *pool;
    const int count = argc - 6;
    if (count < 1 || count > FORMATS) {
        fprintf(stderr, "bench_caches THREADS TIER ROUNDS DEPTH SEQUENCES FORMAT...\n");
        return 2;
    }
    const int64_t mask = pith_cpu_mask(argv[2]);
    struct bench m = {.rounds = (size_t)atoi(argv[3]), .depth = (size_t)atoi(argv[4])};
    m.sequences = (size_t)atoi(argv[5]);
    const bool fits = m.rounds <= ROUNDS && m.sequences <= MOST;
    if (mask < 0 || !fits || m.rounds < 1 || m.depth < 1 || m.sequences < 1) return 2;
    if (pith_pool_new((unsigned)atoi(argv[1]), &pool, &err) != PITH_OK ||
        pith_backend_new(pool, (uint32_t)mask, &m.b, &err) != PITH_OK) {
        fprintf(stderr, "bench_caches: %s\n", err.text);
        return 1;
    }
    if (pith_pool_threads(pool) == 1) timer = CLOCK_PROCESS_CPUTIME_ID;
    pith_kern_select(pith_cpu_detect(), &m.kern);
    for (int i = 0; i < count; i++) {
        form[i].name = argv[6 + i];
        open_form(&m, &form[i]);
    }
    for (size_t r = 0; r < m.rounds; r++)
        for (int i = 0; i < count; i++) round_of(&m, &form[i], r);
    printf("%s, %u threads, depth %zu, %zu sequences: ms a layer and sequence, share of read\n"
           "| cache | exact, best | median | of read, best | median | fast, best | median |"
           " of read, best | median | read, GB/s |\n",
           pith_backend_cpu(m.b), pith_pool_threads(pool), m.depth, m.sequences);
    for (int i = 0; i < count; i++) {
        print(&m, &form[i]);
        close_form(&form[i]);
    }
    pith_backend_free(m.b);
    pith_pool_free(pool);
    return 0;
}
