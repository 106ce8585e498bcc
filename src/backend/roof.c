#include "backend/roof.h"

#include "backend/parts.h"
#include "base/file.h"
#include "base/mem.h"

#include <string.h>

enum { CHUNKS = 64, LINE = 64 };
/* Shorter than this, starting the threads would count. */
#define PEAK_SECONDS 0.008

/* Multiply-adds of four bytes, two bfloat16 or one float32 in a round. */
#define MULTIPLIES (1.0 * PITH_PEAK_STEPS * PITH_PEAK_LANES)

/* Does `rounds` of one kind of multiply-adds; 0 operations a round: the tier has none. */
typedef void run_fn(const struct pith_kern *k, size_t rounds);

struct peak {
    run_fn *run;
    double operations; /* a round */
    size_t rounds;     /* that last PEAK_SECONDS */
};

struct pith_roof {
    struct pith_backend *b;
    struct pith_kern best; /* of the CPU, for reading */
    char *memory;
    uint64_t found[CHUNKS]; /* what was read must be used for something */
    struct peak f32, int8, bf16;
};

static void run_f32(const struct pith_kern *k, size_t rounds)
{
    float acc[PITH_PEAK_LANES] = {0};
    k->peak_f32(rounds, 0x1p-20f, 1.5f, acc);
}

static void run_int8(const struct pith_kern *k, size_t rounds)
{
    const uint8_t x[4] = {1, 2, 3, 4};
    const int8_t y[4] = {4, -3, 2, -1};
    uint32_t acc[PITH_PEAK_LANES] = {0};
    k->peak_int8(rounds, x, y, acc);
}

static void run_bf16(const struct pith_kern *k, size_t rounds)
{
    const uint16_t x[2] = {0x3f80, 0x3f80}, y[2] = {0x3f80, 0xbf80}; /* 1 1, 1 -1 */
    float acc[PITH_PEAK_LANES] = {0};
    k->peak_bf16(rounds, x, y, acc);
}

/* Rounds that keep one thread busy for PEAK_SECONDS. */
static void calibrate(const struct pith_kern *k, struct peak *p)
{
    for (p->rounds = 1;; p->rounds *= 2) {
        const double start = pith_clock();
        p->run(k, p->rounds);
        if (pith_clock() - start >= PEAK_SECONDS / 2) break;
    }
    p->rounds *= 2;
}

static void fill_chunk(void *ctx, size_t chunk, unsigned thread)
{
    const struct pith_roof *r = ctx;
    (void)thread;
    const size_t bytes = PITH_ROOF_BYTES / CHUNKS;
    memset(r->memory + chunk * bytes, (int)(chunk | 1), bytes);
}

enum pith_status pith_roof_new(struct pith_backend *b, struct pith_roof **out,
                               struct pith_error *err)
{
    struct pith_roof *r = pith_zalloc(1, sizeof *r);
    if (r) r->memory = pith_alloc_huge(PITH_ROOF_BYTES, 1);
    if (!r || !r->memory) {
        pith_free(r);
        return pith_fail_nomem(err, "measuring how fast memory can be read");
    }
    r->b = b;
    pith_kern_select(pith_kern_usable(), &r->best);
    pith_pool_run(b->pool, CHUNKS, fill_chunk, r);
    const struct pith_kern *k = &b->kern;
    r->f32 = (struct peak){.run = run_f32, .operations = 2 * MULTIPLIES};
    if (k->peak_int8 != pith_peak_int8_scalar)
        r->int8 = (struct peak){.run = run_int8, .operations = 8 * MULTIPLIES};
    if (k->peak_bf16 != pith_peak_bf16_scalar)
        r->bf16 = (struct peak){.run = run_bf16, .operations = 4 * MULTIPLIES};
    struct peak *const all[] = {&r->f32, &r->int8, &r->bf16};
    for (size_t i = 0; i < PITH_COUNT(all); i++)
        if (all[i]->run) calibrate(k, all[i]);
    *out = r;
    return PITH_OK;
}

void pith_roof_free(struct pith_roof *r)
{
    if (r) pith_free(r->memory);
    pith_free(r);
}

static void read_chunk(void *ctx, size_t chunk, unsigned thread)
{
    struct pith_roof *r = ctx;
    (void)thread;
    const size_t bytes = PITH_ROOF_BYTES / CHUNKS;
    r->found[chunk] = r->best.read_lines(bytes / LINE, r->memory + chunk * bytes);
}

static double read_speed(struct pith_roof *r, struct pith_pool *pool)
{
    const double start = pith_clock();
    pith_pool_run(pool, CHUNKS, read_chunk, r);
    return (double)PITH_ROOF_BYTES / (pith_clock() - start);
}

struct peak_job {
    const struct pith_kern *kern;
    const struct peak *peak;
};

static void peak_task(void *ctx, size_t task, unsigned thread)
{
    const struct peak_job *j = ctx;
    (void)task;
    (void)thread;
    j->peak->run(j->kern, j->peak->rounds);
}

static double peak_speed(const struct pith_roof *r, const struct peak *p)
{
    if (!p->run) return 0;
    struct peak_job j = {&r->b->kern, p};
    const double start = pith_clock();
    pith_pool_run(r->b->pool, r->b->threads, peak_task, &j);
    const double seconds = pith_clock() - start;
    return p->operations * (double)p->rounds * r->b->threads / seconds;
}

void pith_roof_measure(struct pith_roof *r, struct pith_roof_sample *out)
{
    out->read_one = read_speed(r, NULL);
    out->read_all = read_speed(r, r->b->pool);
    out->f32 = peak_speed(r, &r->f32);
    out->int8 = peak_speed(r, &r->int8);
    out->bf16 = peak_speed(r, &r->bf16);
}
