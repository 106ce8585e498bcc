/* The numbers of a merge: rows of a matrix at a time, each with its change added in float32. */
#include "io/adapter.h"

#include "base/mem.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { STRIP = 256 /* columns summed at a time */, ROWS = 16 /* of a task */, ALIGN = 64 };

/* One tensor's merge. */
struct merge {
    const struct pith_tensor *w;
    const struct pith_adapter_change *change;
    uint64_t rows, cols, rank;
    size_t stride; /* of `across`, a multiple of STRIP */
    float *across; /* [rank, stride]: what a row's coefficients multiply */
    float *lane;   /* of each thread: `stride` numbers of a row, then `rank` coefficients */
    size_t lane_size;
    uint8_t *made; /* of each thread: ROWS rows as they are stored */
    const struct pith_out *out;
    uint64_t offset;
    struct pith_error *failed; /* of each thread */
    enum pith_status *status;
    atomic_bool bad; /* some number is not finite */
};

static float element(const struct pith_tensor *t, uint64_t i)
{
    float x = 0;
    pith_dtype_decode(t->dtype, t->data + i * (pith_dtype_bits(t->dtype) / 8), 1, &x);
    return x;
}

static void elements(const struct pith_tensor *t, uint64_t first, uint64_t n, float *out)
{
    pith_dtype_decode(t->dtype, t->data + first * (pith_dtype_bits(t->dtype) / 8), (size_t)n, out);
}

/* What a row of the change is made of: A [rank, in], or B [out, rank] by columns. */
static void lay_across(const struct merge *m)
{
    const struct pith_tensor *a = m->change->a, *b = m->change->b;
    for (uint64_t k = 0; k < m->rank; k++) {
        float *row = m->across + k * m->stride;
        if (!m->change->exchanged) elements(a, k * m->cols, m->cols, row);
        else
            for (uint64_t j = 0; j < m->cols; j++) row[j] = element(b, j * m->rank + k);
    }
}

static void coefficients(const struct merge *m, uint64_t row, float *out)
{
    if (!m->change->exchanged) {
        elements(m->change->b, row * m->rank, m->rank, out);
        return;
    }
    for (uint64_t k = 0; k < m->rank; k++) out[k] = element(m->change->a, k * m->rows + row);
}

/* x += scale * sum of coefficient times row, the sum in order of the rank. */
static void add_change(const struct merge *m, const float *coefficient, float *x)
{
    const float scale = (float)m->change->scale;
    for (size_t at = 0; at < m->stride; at += STRIP) {
        float sum[STRIP] = {0};
        for (uint64_t k = 0; k < m->rank; k++) {
            const float *row = m->across + k * m->stride + at, by = coefficient[k];
            for (size_t j = 0; j < STRIP; j++) sum[j] += by * row[j];
        }
        for (size_t j = 0; j < STRIP; j++) x[at + j] += scale * sum[j];
    }
}

/* DoRA: the row gets the length that its magnitude says. */
static void set_length(const struct merge *m, uint64_t row, float *x)
{
    double squares = 0;
    for (uint64_t j = 0; j < m->cols; j++) squares += (double)x[j] * (double)x[j];
    const float by = (float)((double)element(m->change->magnitude, row) / sqrt(squares));
    for (uint64_t j = 0; j < m->cols; j++) x[j] *= by;
}

static void merge_row(struct merge *m, uint64_t row, float *x)
{
    const struct pith_adapter_change *c = m->change;
    elements(c->whole ? c->whole : m->w, row * m->cols, m->cols, x);
    if (c->a) {
        float *coefficient = x + m->stride;
        coefficients(m, row, coefficient);
        add_change(m, coefficient, x);
    }
    if (c->magnitude) set_length(m, row, x);
    for (uint64_t j = 0; c->bias && j < m->cols; j++)
        x[j] += (float)c->scale * element(c->bias, row * m->cols + j);
    for (uint64_t j = 0; j < m->cols; j++)
        if (!isfinite(pith_round_to(m->w->dtype, x[j]))) atomic_store(&m->bad, true);
}

static void merge_task(void *ctx, size_t task, unsigned thread)
{
    struct merge *m = ctx;
    const uint64_t first = (uint64_t)task * ROWS;
    const uint64_t end = m->rows - first < ROWS ? m->rows : first + ROWS;
    const size_t size = pith_dtype_bits(m->w->dtype) / 8;
    const size_t bytes = (size_t)m->cols * size; /* of a row */
    float *x = m->lane + thread * m->lane_size;
    uint8_t *made = m->made + thread * ROWS * bytes;
    if (m->status[thread] != PITH_OK) return;
    for (uint64_t row = first; row < end; row++) {
        memset(x + m->cols, 0, (m->stride - (size_t)m->cols) * sizeof *x);
        merge_row(m, row, x);
        pith_dtype_encode(m->w->dtype, x, (size_t)m->cols, made + (row - first) * bytes);
    }
    m->status[thread] = pith_out_write(m->out, m->offset + first * bytes, made,
                                       (size_t)(end - first) * bytes, &m->failed[thread]);
}

static enum pith_status run_merge(struct merge *m, struct pith_pool *pool, struct pith_error *err)
{
    const unsigned threads = pith_pool_threads(pool);
    if (m->rank) lay_across(m);
    pith_pool_run(pool, (size_t)((m->rows + ROWS - 1) / ROWS), merge_task, m);
    for (unsigned i = 0; i < threads; i++) {
        if (m->status[i] == PITH_OK) continue;
        *err = m->failed[i];
        return m->status[i];
    }
    if (!atomic_load(&m->bad)) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC, "\"%.200s\": with the adapter some number is not finite",
                     m->w->name);
}

/* Merges change i into its place in the file. */
static enum pith_status merge_one(const struct pith_checkpoint *c,
                                  const struct pith_adapter_change *change,
                                  const struct pith_out *out, uint64_t offset,
                                  struct pith_pool *pool, struct pith_error *err)
{
    const struct pith_tensor *w = &c->tensors[change->tensor];
    const unsigned threads = pith_pool_threads(pool);
    const uint64_t all = pith_tensor_elements(w);
    struct merge m = {.w = w,
                      .change = change,
                      .rows = w->dims > 1 ? w->shape[0] : 1,
                      .rank = change->a ? change->a->shape[0] : 0,
                      .out = out,
                      .offset = offset};
    if (all == 0) return PITH_OK;
    m.cols = all / m.rows;
    m.stride = ((size_t)m.cols + STRIP - 1) / STRIP * STRIP;
    m.lane_size = m.stride + (size_t)m.rank;
    m.across = pith_zalloc(m.rank ? (size_t)m.rank : 1, m.stride * sizeof *m.across);
    m.lane = pith_zalloc(threads, m.lane_size * sizeof *m.lane);
    m.made = pith_alloc(threads, ROWS * (size_t)m.cols * (pith_dtype_bits(w->dtype) / 8));
    m.failed = pith_zalloc(threads, sizeof *m.failed);
    m.status = pith_zalloc(threads, sizeof *m.status);
    enum pith_status s = m.across && m.lane && m.made && m.failed && m.status
                             ? run_merge(&m, pool, err)
                             : pith_fail_nomem(err, "merging the adapter");
    pith_free(m.across);
    pith_free(m.lane);
    pith_free(m.made);
    pith_free(m.failed);
    pith_free(m.status);
    pith_checkpoint_release(c, w);
    return s;
}

static uint64_t place_of(const struct pith_checkpoint *c, const struct pith_adapter *a, size_t i,
                         uint64_t at)
{
    return at + (c->tensors[a->change[i].tensor].bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static enum pith_status make_file(struct pith_checkpoint *c, const struct pith_adapter *a,
                                  const char *room, struct pith_pool *pool, struct pith_map *map,
                                  struct pith_error *err)
{
    struct pith_out out;
    uint64_t size = 0, at = 0;
    for (size_t i = 0; i < a->count; i++) size = place_of(c, a, i, size);
    PITH_TRY(pith_out_nameless(room, size ? size : 1, &out, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < a->count && s == PITH_OK; at = place_of(c, a, i++, at))
        s = merge_one(c, &a->change[i], &out, at, pool, err);
    if (s == PITH_OK) s = pith_map_check(&a->file.map, a->file.path, false, err);
    if (s == PITH_OK) s = pith_map_out(&out, map, err);
    pith_out_close(&out);
    return s;
}

/* The file as one more of the checkpoint's, and its tensors in the place of others. */
static enum pith_status show(struct pith_checkpoint *c, const struct pith_adapter *a,
                             struct pith_map *map, struct pith_error *err)
{
    struct pith_safetensors *files = pith_zalloc(c->file_count + 1, sizeof *files);
    char *path = pith_strdup(a->file.path);
    if (!files || !path) {
        pith_free(files);
        pith_free(path);
        return pith_fail_nomem(err, a->dir);
    }
    memcpy(files, c->files, c->file_count * sizeof *files);
    files[c->file_count] = (struct pith_safetensors){.path = path, .map = *map};
    pith_free(c->files);
    c->files = files;
    uint64_t at = 0;
    for (size_t i = 0; i < a->count; at = place_of(c, a, i++, at)) {
        struct pith_tensor *t = &c->tensors[a->change[i].tensor];
        t->data = map->data + at;
        t->file = (uint32_t)c->file_count;
    }
    c->file_count++;
    memcpy(c->adapter, a->sha256, sizeof c->adapter);
    return PITH_OK;
}

enum pith_status pith_checkpoint_adapt(struct pith_checkpoint *c, const char *dir, const char *room,
                                       struct pith_pool *pool, json_t **account,
                                       struct pith_error *err)
{
    struct pith_adapter a;
    struct pith_map map = {0};
    PITH_TRY(pith_adapter_open(dir, c, &a, err));
    json_t *described = json_pack("{s:s, s:s, s:I, s:f, s:b, s:I}", "type", "lora", "sha256",
                                  a.sha256, "rank", (json_int_t)a.rank, "alpha",
                                  a.config.alpha.general, "dora", a.config.magnitudes, "tensors",
                                  (json_int_t)a.count);
    enum pith_status s = described ? make_file(c, &a, room, pool, &map, err)
                                   : pith_fail_nomem(err, dir);
    if (s == PITH_OK) s = show(c, &a, &map, err);
    if (s != PITH_OK) pith_map_close(&map);
    pith_adapter_close(&a);
    if (s == PITH_OK) *account = described;
    else json_decref(described);
    return s;
}
