#include "backend/parts.h"

#include "base/cpu.h"
#include "base/mem.h"

#include <string.h>

enum {
    TILE = PITH_TILE_ROWS_MAX * PITH_TILE_COLS_MAX,
    ROWS = PITH_TILE_COLS_MAX * PITH_KC,
    /* Floats a thread; every part is a multiple of 16, so that all stay aligned. */
    THREAD_FLOATS = PITH_SLAB * PITH_KC + PITH_KC * PITH_NC + TILE + ROWS + PITH_SCORES
};

static void scratch_place(struct pith_thread_memory *s, float *at)
{
    s->a = at;
    s->b = s->a + PITH_SLAB * PITH_KC;
    s->tile = s->b + PITH_KC * PITH_NC;
    s->rows = s->tile + TILE;
    s->scores = s->rows + ROWS;
    /* Kernels prefetch what lies ahead of a tile, and prefetching a page that was never written
     * takes as long as many products. */
    memset(s->b, 0, (size_t)PITH_KC * PITH_NC * sizeof *s->b);
}

enum {
    /* In floats: the bytes, scales and sums of a row. */
    BYTES_Q = PITH_DIGITS * PITH_BYTES_COLS / 4,
    BYTES_SUM = PITH_DIGITS * PITH_BYTES_SCALES,
    SHARED_FLOATS = (PITH_VECTORS + 1) * (BYTES_Q + PITH_BYTES_SCALES + BYTES_SUM)
};

static void bytes_place(struct pith_byte_rows *b, float *at)
{
    b->q = (int8_t *)at;
    b->scale = at + (PITH_VECTORS + 1) * BYTES_Q;
    b->sum = (int32_t *)(void *)(b->scale + (PITH_VECTORS + 1) * PITH_BYTES_SCALES);
}

enum pith_status pith_backend_new(struct pith_pool *pool, uint32_t cpu_mask,
                                  struct pith_backend **out, struct pith_error *err)
{
    struct pith_backend *b = pith_zalloc(1, sizeof *b);
    if (!b) return pith_fail_nomem(err, "the backend");
    b->pool = pool;
    b->threads = pith_pool_threads(pool);
    b->mask = pith_kern_usable() & cpu_mask;
    pith_kern_select(b->mask, &b->kern);
    b->scratch = pith_zalloc(b->threads, sizeof *b->scratch);
    if (!b->scratch) goto fail_scratch;
    b->memory =
        pith_alloc_aligned((size_t)b->threads * THREAD_FLOATS + SHARED_FLOATS, sizeof(float));
    if (!b->memory) goto fail_memory;
    if (pith_bytes_open(&b->slab, err) != PITH_OK) goto fail_slab;
    bytes_place(&b->bytes, b->memory);
    for (unsigned t = 0; t < b->threads; t++)
        scratch_place(&b->scratch[t],
                      (float *)b->memory + SHARED_FLOATS + (size_t)t * THREAD_FLOATS);
    *out = b;
    return PITH_OK;
fail_slab:
    pith_free(b->memory);
fail_memory:
    pith_free(b->scratch);
fail_scratch:
    pith_free(b);
    return pith_fail_nomem(err, "the backend's scratch");
}

void pith_backend_free(struct pith_backend *b)
{
    if (!b) return;
    pith_free(b->prepared);
    pith_bf16_close(b->bf16);
    pith_free(b->slab);
    pith_free(b->memory);
    pith_free(b->scratch);
    pith_free(b);
}

struct pith_pool *pith_backend_pool(const struct pith_backend *b)
{
    return b->pool;
}

void pith_backend_set_ranks(struct pith_backend *b, struct pith_ranks *ranks)
{
    b->ranks = ranks;
}

struct pith_ranks *pith_backend_ranks(const struct pith_backend *b)
{
    return b->ranks;
}

const struct pith_kern *pith_backend_kern(const struct pith_backend *b)
{
    return &b->kern;
}

const char *pith_backend_cpu(const struct pith_backend *b)
{
    return pith_cpu_name(b->mask);
}

size_t pith_backend_bytes(unsigned threads)
{
    return threads * (THREAD_FLOATS * sizeof(float) + sizeof(struct pith_thread_memory)) +
           sizeof(struct pith_backend);
}

size_t pith_mode_integer_bytes(enum pith_mode mode, size_t rows, size_t cols)
{
    return SHARED_FLOATS * sizeof(float) + pith_bytes_slab_bytes(mode, rows, cols);
}

size_t pith_backend_integer_bytes(const struct pith_backend *b, size_t rows, size_t cols)
{
    return pith_mode_integer_bytes(b->mode, rows, cols);
}

size_t pith_backend_prepared_bytes(void)
{
    return PITH_PREPARED_FLOATS * sizeof(float);
}

enum pith_status pith_backend_set_mode(struct pith_backend *b, enum pith_mode mode,
                                       struct pith_error *err)
{
    if (mode == PITH_MODE_BF16 && !b->bf16) PITH_TRY(pith_bf16_open(b->threads, &b->bf16, err));
    b->mode = mode;
    return PITH_OK;
}

enum pith_mode pith_backend_mode(const struct pith_backend *b)
{
    return b->mode;
}
