#include "model/model.h"

#include "base/mem.h"

#include <string.h>

static enum pith_status take_ids(struct pith_session *s, struct pith_error *err)
{
    size_t floats;
    s->ids = pith_zalloc(s->kv.capacity, sizeof *s->ids);
    if (pith_mul_size(s->scratch.rows, s->model->shape.hidden, &floats))
        s->again = pith_alloc_aligned(floats, sizeof *s->again);
    return s->ids && s->again ? PITH_OK : pith_fail_nomem(err, "the tokens of a session");
}

enum pith_status pith_session_init(struct pith_session *s, struct pith_model *m,
                                   struct pith_backend *be,
                                   const struct pith_session_options *options,
                                   struct pith_error *err)
{
    const size_t capacity = options->capacity, chunk = options->chunk;
    *s = (struct pith_session){.model = m, .backend = be};
    if (!m->blocks) return pith_fail(err, PITH_ARG, "the blocks of the model are not loaded");
    PITH_TRY(pith_kv_init(&s->kv, &m->plans, m->shape.layers, capacity, options->kv, err));
    s->kv.grid = options->kv_grid;
    enum pith_status status =
        pith_scratch_init(&s->scratch, &m->plans, chunk < capacity ? chunk : capacity, err);
    if (status == PITH_OK && pith_kv_recurrent(&s->kv)) status = take_ids(s, err);
    if (status != PITH_OK) pith_session_free(s);
    return status;
}

void pith_session_free(struct pith_session *s)
{
    pith_kv_free(&s->kv);
    pith_scratch_free(&s->scratch);
    pith_free(s->ids);
    pith_free(s->again);
    *s = (struct pith_session){0};
}

void pith_session_rewind(struct pith_session *s, size_t length)
{
    if (length < s->length) s->length = length;
    if (length < s->kv.saved_at) s->kv.saved_at = 0; /* other tokens may come */
}

/* One chunk through all blocks; x[n][hidden] in place. */
static enum pith_status run_chunk(struct pith_session *s, float *x, size_t n,
                                  struct pith_error *err)
{
    struct pith_pass pass = {.backend = s->backend,
                             .model = s->model,
                             .scratch = &s->scratch,
                             .kv = &s->kv,
                             .start = s->length};
    for (uint32_t i = 0; i < s->model->shape.layers; i++) {
        pass.kv_layer = i;
        PITH_TRY(pith_block_forward(&pass, &s->model->blocks[i], x, n, NULL, err));
    }
    s->length += n;
    return PITH_OK;
}

/* Brings recurrent states that have seen more than the session's tokens back to these: from the
 * newest copy, or from nothing, by reading the tokens after it again. Where that ends it is likely
 * to be wanted again. */
static enum pith_status go_back(struct pith_session *s, struct pith_error *err)
{
    struct pith_kv *kv = &s->kv;
    const size_t to = s->length;
    enum pith_status status = PITH_OK;
    if (!s->ids || to == 0 || pith_kv_is_at(kv, to)) return PITH_OK;
    s->length = kv->saved_at <= to ? kv->saved_at : 0;
    if (s->length > 0) pith_kv_restore(kv);
    while (s->length < to && status == PITH_OK) {
        const size_t left = to - s->length, n = left < s->scratch.rows ? left : s->scratch.rows;
        status = pith_model_embed(s->model, s->ids + s->length, n, s->again, err);
        if (status == PITH_OK) status = run_chunk(s, s->again, n, err);
    }
    s->length = to;
    if (status == PITH_OK) pith_kv_save(kv, to);
    return status;
}

enum pith_status pith_session_append(struct pith_session *s, const int32_t *ids, size_t n, float *x,
                                     struct pith_error *err)
{
    const size_t before = s->length;
    if (n > s->kv.capacity - s->length)
        return pith_fail(err, PITH_LIMIT, "%zu tokens do not fit after %zu in a context of %zu", n,
                         s->length, s->kv.capacity);
    PITH_TRY(pith_model_embed(s->model, ids, n, x, err));
    PITH_TRY(go_back(s, err));
    if (s->ids && n > 0) memcpy(s->ids + before, ids, n * sizeof *ids);
    for (size_t i = 0; i < n;) {
        const size_t rows = n - i < s->scratch.rows ? n - i : s->scratch.rows;
        const enum pith_status status = run_chunk(s, x + i * s->model->shape.hidden, rows, err);
        if (status != PITH_OK) {
            s->length = before;
            return status;
        }
        i += rows;
    }
    return PITH_OK;
}
