#include "model/runner.h"

#include "backend/input.h"
#include "base/arena.h"
#include "base/mem.h"
#include "num/input.h"

#include <string.h>

/* --- making ----------------------------------------------------------------------------------- */

static struct pith_kv_options kv_options(const struct pith_model *m,
                                         const struct pith_runner_options *o)
{
    return (struct pith_kv_options){.layers = m->shape.layers,
                                    .sequences = o->sequences,
                                    .context = o->context,
                                    .tokens = o->tokens,
                                    .step = o->rows,
                                    .keep = o->keep,
                                    .format = o->format,
                                    .model = m};
}

static size_t most_rows(const struct pith_runner_options *o)
{
    size_t all;
    if (!pith_mul_size(o->context, o->sequences, &all)) return o->rows;
    return o->rows < all ? o->rows : all;
}

/* Whether there is something that cannot be cut back. */
static bool reads_again(const struct pith_plans *p, const struct pith_runner_options *o)
{
    for (uint32_t i = 0; i < p->kinds; i++) {
        const struct pith_node *node = pith_plan_attend(&p->kind[i]);
        const size_t window = node ? node->u.attend.window : 0;
        if (p->kind[i].state.kind == PITH_STATE_RECURRENT ||
            (window && window < o->context && !o->keep))
            return true;
    }
    return pith_kv_most_recent(&o->format, p->layers) > 0 && !o->keep;
}

static void layout(struct pith_arena *a, const struct pith_model *m,
                   const struct pith_runner_options *o, struct pith_runner *r)
{
    const bool again = reads_again(&m->plans, o);
    r->span = pith_arena_take(a, o->sequences, sizeof *r->span);
    r->ids = pith_arena_take_rows(a, o->sequences, again ? o->context : 0, sizeof *r->ids);
    r->rows = pith_arena_take_rows(a, again || o->sequences > 1 ? most_rows(o) : 0, m->shape.hidden,
                                   sizeof *r->rows);
}

uint64_t pith_runner_bytes(const struct pith_model *m, const struct pith_runner_options *o)
{
    const struct pith_kv_options kv = kv_options(m, o);
    struct pith_runner r;
    struct pith_arena a = {0};
    layout(&a, m, o, &r);
    return pith_sum_bytes(pith_arena_bytes(&a),
                          pith_sum_bytes(pith_kv_pool_bytes(&m->plans, &kv),
                                         pith_scratch_bytes(&m->plans, most_rows(o))));
}

static bool any_surveys(const struct pith_model *m)
{
    for (uint32_t i = 0; i < m->shape.layers; i++)
        for (uint32_t k = 0; k < m->blocks[i].plan->linears; k++) {
            const struct pith_input in = pith_weight_input(&m->blocks[i].linear[k].w);
            if (pith_input_surveys(&in)) return true;
        }
    return false;
}

enum pith_status pith_runner_init(struct pith_runner *r, struct pith_model *m,
                                  struct pith_backend *be, const struct pith_runner_options *o,
                                  struct pith_error *err)
{
    *r = (struct pith_runner){.model = m, .backend = be};
    if (!m->blocks) return pith_fail(err, PITH_ARG, "the blocks of the model are not loaded");
    const struct pith_kv_options kv = kv_options(m, o);
    struct pith_arena a = {0};
    r->apart = any_surveys(m);
    enum pith_status s = pith_kv_open(&r->kv, &m->plans, &kv, err);
    if (s == PITH_OK) s = pith_scratch_init(&r->scratch, &m->plans, most_rows(o), err);
    layout(&a, m, o, r);
    if (s == PITH_OK && !pith_arena_open(&a)) s = pith_fail_nomem(err, "sequences");
    if (s == PITH_OK) {
        layout(&a, m, o, r);
        r->memory = a.base;
        return PITH_OK;
    }
    pith_runner_free(r);
    return s;
}

void pith_runner_free(struct pith_runner *r)
{
    pith_kv_free(&r->kv);
    pith_scratch_free(&r->scratch);
    pith_free(r->memory);
    *r = (struct pith_runner){0};
}

/* --- sequences -------------------------------------------------------------------------------- */

enum pith_status pith_runner_open(struct pith_runner *r, uint32_t *sequence, struct pith_error *err)
{
    return pith_kv_sequence_open(&r->kv, sequence, err);
}

void pith_runner_close(struct pith_runner *r, uint32_t sequence)
{
    pith_kv_sequence_close(&r->kv, sequence);
}

static int32_t *ids_of(const struct pith_runner *r, uint32_t sequence)
{
    return r->ids ? r->ids + sequence * r->kv.capacity : NULL;
}

enum pith_status pith_runner_fork(struct pith_runner *r, uint32_t from, size_t length,
                                  uint32_t *sequence, struct pith_error *err)
{
    const size_t most = pith_runner_length(r, from), n = length < most ? length : most;
    PITH_TRY(pith_kv_sequence_open(&r->kv, sequence, err));
    pith_kv_share(&r->kv, from, *sequence, n);
    if (r->ids) memcpy(ids_of(r, *sequence), ids_of(r, from), n * sizeof *r->ids);
    return PITH_OK;
}

void pith_runner_rewind(struct pith_runner *r, uint32_t sequence, size_t length)
{
    if (length < pith_runner_length(r, sequence)) pith_kv_truncate(&r->kv, sequence, length);
}

size_t pith_runner_length(const struct pith_runner *r, uint32_t sequence)
{
    return r->kv.sequence[sequence].length;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* Input of per-layer vectors: the tokens of n rows, from row `first`. */
static void put_tokens(const struct pith_runner *r, size_t first, const int32_t *ids, size_t n)
{
    float *token = r->scratch.reg[PITH_REG_TOKEN];
    for (size_t i = 0; token && i < n; i++) token[first + i] = (float)ids[i];
}

/* Spans [0, count) of r->span through all blocks; x[n][hidden] in place. */
static enum pith_status run_rows(struct pith_runner *r, size_t count, float *x, size_t n,
                                 struct pith_error *err)
{
    struct pith_pass pass = {.backend = r->backend,
                             .model = r->model,
                             .scratch = &r->scratch,
                             .kv = &r->kv,
                             .span = r->span,
                             .spans = count};
    for (size_t i = 0; i < count; i++)
        for (uint32_t g = 0; g < PITH_KV_GROUPS; g++)
            PITH_TRY(pith_kv_reserve(&r->kv, g, &r->span[i], err));
    pith_scratch_moved(&r->scratch);
    for (uint32_t i = 0; i < r->model->shape.layers; i++) {
        pass.kv_layer = i;
        PITH_TRY(pith_block_forward(&pass, &r->model->blocks[i], x, n, NULL, err));
    }
    for (size_t i = 0; i < count; i++) {
        const struct pith_kv_span *s = &r->span[i];
        r->kv.sequence[s->sequence].length = s->start + s->n;
        pith_kv_slide(&r->kv, s->sequence);
    }
    return PITH_OK;
}

/* Reads tokens of a sequence again, where something is behind or ahead of its length: from the
 * newest copy of its recurrent states, or from the first. Where that ends it is likely to be wanted
 * again. */
static enum pith_status go_back(struct pith_runner *r, uint32_t sequence, struct pith_error *err)
{
    struct pith_kv_sequence *s = &r->kv.sequence[sequence];
    const size_t to = s->length, saved = s->saved;
    enum pith_status status = PITH_OK;
    if (pith_kv_ready(&r->kv, sequence)) return PITH_OK;
    s->length = saved;
    if (saved > 0) pith_kv_restore(&r->kv, sequence);
    if (!pith_kv_ready(&r->kv, sequence)) {
        s->length = 0;
        pith_kv_unslide(&r->kv, sequence);
    }
    while (s->length < to && status == PITH_OK) {
        const size_t left = to - s->length, n = left < r->scratch.rows ? left : r->scratch.rows;
        r->span[0] = (struct pith_kv_span){.sequence = sequence, .start = s->length, .n = n};
        put_tokens(r, 0, ids_of(r, sequence) + s->length, n);
        status = pith_model_embed(r->model, ids_of(r, sequence) + s->length, n, r->rows, err);
        if (status == PITH_OK) status = run_rows(r, 1, r->rows, n, err);
    }
    if (status == PITH_OK && pith_kv_recurrent(&r->kv)) pith_kv_save(&r->kv, sequence);
    s->length = to;
    return status;
}

static enum pith_status check(const struct pith_runner *r, const struct pith_step_span *span,
                              size_t spans, struct pith_error *err)
{
    if (spans > r->kv.sequences)
        return pith_fail(err, PITH_ARG, "%zu spans of %u sequences", spans, r->kv.sequences);
    for (size_t i = 0; i < spans; i++) {
        const struct pith_step_span *s = &span[i];
        if (s->sequence >= r->kv.sequences || !r->kv.sequence[s->sequence].open)
            return pith_fail(err, PITH_ARG, "sequence %u is not open", s->sequence);
        const size_t length = pith_runner_length(r, s->sequence);
        if (s->n > r->kv.capacity - length)
            return pith_fail(err, PITH_LIMIT, "%zu tokens do not fit after %zu in a context of %zu",
                             s->n, length, r->kv.capacity);
        for (size_t k = 0; k < i; k++)
            if (span[k].sequence == s->sequence)
                return pith_fail(err, PITH_ARG, "sequence %u is twice in a step", s->sequence);
    }
    return PITH_OK;
}

/* Where a step stands: the next row to be computed. */
struct place {
    size_t span, row;
};

/* Fills r->span with what is computed next and gathers its rows, or takes those of a single span
 * where they are. */
static size_t gather(struct pith_runner *r, const struct pith_step_span *span, size_t spans,
                     struct place p, size_t *rows, float **x)
{
    const size_t hidden = r->model->shape.hidden;
    size_t count = 0;
    for (*rows = 0; p.span < spans && *rows < r->scratch.rows; p.span++, p.row = 0) {
        const struct pith_step_span *s = &span[p.span];
        size_t n = s->n - p.row;
        if (n == 0) continue;
        if (count == 1 && r->apart) break;
        if (n > r->scratch.rows - *rows) n = r->scratch.rows - *rows;
        r->span[count++] = (struct pith_kv_span){
            .sequence = s->sequence, .start = pith_runner_length(r, s->sequence), .n = n};
        if (count == 1) *x = s->x + p.row * hidden;
        else if (count == 2) memcpy(r->rows, *x, *rows * hidden * sizeof **x), *x = r->rows;
        if (count > 1)
            memcpy(r->rows + *rows * hidden, s->x + p.row * hidden, n * hidden * sizeof **x);
        put_tokens(r, *rows, s->ids + p.row, n);
        *rows += n;
    }
    return count;
}

/* Moves on by what was computed, giving rows back to the spans they came from. */
static void scatter(const struct pith_runner *r, const struct pith_step_span *span, size_t count,
                    struct place *p)
{
    const size_t hidden = r->model->shape.hidden;
    size_t from = 0;
    for (size_t i = 0; i < count;) {
        const struct pith_step_span *s = &span[p->span];
        if (p->row == s->n) {
            *p = (struct place){.span = p->span + 1};
            continue;
        }
        const size_t n = r->span[i++].n;
        if (count > 1) memcpy(s->x + p->row * hidden, r->rows + from, n * hidden * sizeof *s->x);
        from += n * hidden;
        p->row += n;
    }
}

static bool is_left(const struct pith_step_span *span, size_t spans, struct place p)
{
    for (; p.span < spans; p.span++, p.row = 0)
        if (p.row < span[p.span].n) return true;
    return false;
}

static enum pith_status run_step(struct pith_runner *r, const struct pith_step_span *span,
                                 size_t spans, struct pith_error *err)
{
    struct place at = {0};
    for (size_t i = 0; i < spans; i++) PITH_TRY(go_back(r, span[i].sequence, err));
    for (size_t i = 0; i < spans; i++) {
        const size_t length = pith_runner_length(r, span[i].sequence);
        const struct pith_kv_span all = {span[i].sequence, length, span[i].n};
        /* All of what stays; pages behind windows come and go with the parts. */
        if (r->kv.group[0].window == 0) PITH_TRY(pith_kv_reserve(&r->kv, 0, &all, err));
        if (r->ids)
            memcpy(ids_of(r, span[i].sequence) + length, span[i].ids, span[i].n * sizeof *r->ids);
    }
    while (is_left(span, spans, at)) {
        size_t rows;
        float *x = NULL;
        const size_t count = gather(r, span, spans, at, &rows, &x);
        PITH_TRY(run_rows(r, count, x, rows, err));
        scatter(r, span, count, &at);
    }
    return PITH_OK;
}

enum pith_status pith_runner_step(struct pith_runner *r, const struct pith_step_span *span,
                                  size_t spans, struct pith_error *err)
{
    PITH_TRY(check(r, span, spans, err));
    for (size_t i = 0; i < spans; i++)
        PITH_TRY(pith_model_embed(r->model, span[i].ids, span[i].n, span[i].x, err));
    for (size_t i = 0; i < spans; i++)
        r->kv.sequence[span[i].sequence].before = pith_runner_length(r, span[i].sequence);
    const enum pith_status s = run_step(r, span, spans, err);
    for (size_t i = 0; i < spans && s != PITH_OK; i++)
        pith_kv_truncate(&r->kv, span[i].sequence, r->kv.sequence[span[i].sequence].before);
    return s;
}
