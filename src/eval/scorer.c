#include "eval/scorer.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { LOGITS_FLOATS = 16 << 20, CHUNK = 512, LEAST_ROWS = 16, MOST_TOGETHER = 16 };
/* Rows after which more at once are no faster: of weights in floats, of packed ones. */
enum { FLOATS_ENOUGH = 256, PACKED_ENOUGH = 64 };

static size_t choose_rows(size_t vocab, size_t capacity)
{
    size_t rows = LOGITS_FLOATS / vocab;
    if (rows > CHUNK) rows = CHUNK;
    if (rows < LEAST_ROWS) rows = LEAST_ROWS;
    return rows < capacity ? rows : capacity;
}

static size_t at_once(size_t together)
{
    return together > 1 ? together : 1;
}

size_t pith_scorer_chunk(size_t capacity, size_t together)
{
    const size_t all = at_once(together) * capacity;
    return all < CHUNK ? all : CHUNK;
}

static struct pith_session_options session_options(const struct pith_scorer_options *o)
{
    return (struct pith_session_options){.capacity = o->capacity,
                                         .chunk = pith_scorer_chunk(o->capacity, o->together),
                                         .kv = o->kv,
                                         .keep = true,
                                         .forks = o->forks,
                                         .forked = o->forked,
                                         .others = (uint32_t)at_once(o->together) - 1};
}

static void layout(struct pith_arena *a, const struct pith_model *model, struct pith_scorer *s)
{
    s->rows = choose_rows(model->shape.vocab, s->capacity);
    s->cached = pith_arena_take(a, s->capacity, sizeof *s->cached);
    s->hidden = pith_arena_take_rows(a, s->together * s->capacity, model->shape.hidden,
                                     sizeof *s->hidden);
    s->span = pith_arena_take(a, s->together, sizeof *s->span);
    s->logits_room = pith_arena_take_rows(a, s->rows, model->shape.vocab, sizeof *s->logits_room);
    s->lse_room = pith_arena_take(a, s->rows, sizeof *s->lse_room);
}

uint64_t pith_scorer_bytes(const struct pith_model *model,
                           const struct pith_scorer_options *options)
{
    const struct pith_session_options session = session_options(options);
    struct pith_scorer s = {.capacity = options->capacity,
                            .together = at_once(options->together)};
    struct pith_arena a = {0};
    layout(&a, model, &s);
    return pith_sum_bytes(pith_arena_bytes(&a), pith_session_bytes(model, &session));
}

size_t pith_scorer_together(const struct pith_model *model,
                            const struct pith_scorer_options *options, size_t count)
{
    struct pith_scorer_options o = *options, one = *options;
    const size_t enough = model->container ? PACKED_ENOUGH : FLOATS_ENOUGH;
    const size_t fit = o.capacity > 0 ? enough / o.capacity : 1; /* no tokens: an empty text */
    one.capacity = CHUNK;
    one.together = 1;
    const uint64_t bytes = pith_scorer_bytes(model, &one);
    o.together = fit < count ? fit : count;
    if (o.together > MOST_TOGETHER) o.together = MOST_TOGETHER;
    while (o.together > 1 && pith_scorer_bytes(model, &o) > bytes + bytes / 4) o.together--;
    return at_once(o.together);
}

enum pith_status pith_scorer_init(struct pith_scorer *s, struct pith_model *model,
                                  struct pith_backend *be,
                                  const struct pith_scorer_options *options, struct pith_error *err)
{
    const struct pith_session_options session = session_options(options);
    struct pith_arena a = {0};
    *s = (struct pith_scorer){0};
    if (!model->blocks) PITH_TRY(pith_model_load_blocks(model, be, err));
    struct pith_scorer n = {.model = model,
                            .name = options->name,
                            .capacity = options->capacity,
                            .together = at_once(options->together),
                            .exact = options->exact};
    PITH_TRY(pith_session_init(&n.session, model, be, &session, err));
    layout(&a, model, &n);
    if (!pith_arena_open(&a)) {
        pith_scorer_free(&n);
        return pith_fail_nomem(err, "scoring");
    }
    layout(&a, model, &n);
    n.memory = a.base;
    *s = n;
    return PITH_OK;
}

void pith_scorer_free(struct pith_scorer *s)
{
    if (!s->model) return;
    pith_session_free(&s->session);
    pith_free(s->memory);
    *s = (struct pith_scorer){0};
}

/* The backend computes as this scorer wants until it is set back to the returned mode. Neither can
 * fail: the exact mode needs no memory, and the other one's stays allocated. */
static enum pith_mode enter_mode(const struct pith_scorer *s)
{
    const enum pith_mode mode = pith_backend_mode(s->session.runner.backend);
    if (s->exact) (void)pith_backend_set_mode(s->session.runner.backend, PITH_MODE_EXACT, NULL);
    return mode;
}

enum pith_status pith_scorer_read(struct pith_scorer *s, const int32_t *ids, size_t n,
                                  struct pith_error *err)
{
    const double start = pith_clock();
    const enum pith_mode mode = enter_mode(s);
    size_t same = 0;
    while (same < n && same < s->session.length && ids[same] == s->cached[same]) same++;
    pith_session_rewind(&s->session, same);
    enum pith_status status = PITH_OK;
    if (same < n)
        status = pith_session_append(&s->session, ids + same, n - same,
                                     s->hidden + same * s->model->shape.hidden, err);
    if (status == PITH_OK) memcpy(s->cached + same, ids + same, (n - same) * sizeof *ids);
    else pith_session_rewind(&s->session, 0);
    (void)pith_backend_set_mode(s->session.runner.backend, mode, NULL);
    s->source = s->hidden;
    s->source_first = 0;
    s->seconds += pith_clock() - start;
    return status;
}

enum pith_status pith_scorer_read_all(struct pith_scorer *s, struct pith_step_span *span,
                                      size_t count, struct pith_error *err)
{
    const double start = pith_clock();
    const enum pith_mode mode = enter_mode(s);
    struct pith_runner *r = &s->session.runner;
    enum pith_status status = PITH_OK;
    size_t open = 1;
    pith_session_rewind(&s->session, 0); /* whose sequence is the first */
    span[0].sequence = 0;
    for (; open < count && status == PITH_OK; open += status == PITH_OK)
        status = pith_runner_open(r, &span[open].sequence, err);
    for (size_t i = 0; i < count; i++)
        span[i].x = s->hidden + i * s->capacity * s->model->shape.hidden;
    if (status == PITH_OK) status = pith_runner_step(r, span, count, err);
    while (open > 1) pith_runner_close(r, span[--open].sequence);
    pith_session_rewind(&s->session, 0);
    (void)pith_backend_set_mode(r->backend, mode, NULL);
    s->seconds += pith_clock() - start;
    return status;
}

enum pith_status pith_scorer_fork(struct pith_scorer *s, struct pith_step_span *span, size_t count,
                                  struct pith_error *err)
{
    const double start = pith_clock();
    const enum pith_mode mode = enter_mode(s);
    struct pith_runner *r = &s->session.runner;
    enum pith_status status = PITH_OK;
    size_t open = 0;
    for (; open < count && status == PITH_OK; open += status == PITH_OK)
        status = pith_runner_fork(r, 0, s->session.length, &span[open].sequence, err);
    if (status == PITH_OK) status = pith_runner_step(r, span, count, err);
    while (open) pith_runner_close(r, span[--open].sequence);
    (void)pith_backend_set_mode(r->backend, mode, NULL);
    s->seconds += pith_clock() - start;
    return status;
}

void pith_scorer_recall(struct pith_scorer *s, const float *rows, size_t first)
{
    s->source = rows;
    s->source_first = first;
}

void pith_scorer_recall_logits(struct pith_scorer *s, const float *logits, const double *lse)
{
    s->logits = logits;
    s->lse = lse;
}

enum pith_status pith_scorer_logits(struct pith_scorer *s, size_t first, size_t n,
                                    struct pith_error *err)
{
    const double start = pith_clock();
    const struct pith_shape *shape = &s->model->shape;
    struct pith_backend *be = s->session.runner.backend;
    const float *rows = s->source + (first - s->source_first) * shape->hidden;
    const enum pith_mode mode = enter_mode(s);
    const enum pith_status status = pith_model_logits(s->model, be, rows, n, s->logits_room, err);
    (void)pith_backend_set_mode(be, mode, NULL);
    if (status != PITH_OK) return status;
    pith_logsumexp(be, s->logits_room, n, shape->vocab, s->lse_room);
    pith_scorer_recall_logits(s, s->logits_room, s->lse_room);
    s->seconds += pith_clock() - start;
    for (size_t r = 0; r < n; r++)
        if (!isfinite(s->lse[r]))
            return pith_fail(err, PITH_NUMERIC,
                             "the %s's logits at position %zu are not finite numbers", s->name,
                             first + r);
    return PITH_OK;
}

double pith_scorer_nll(const struct pith_scorer *s, size_t r, int32_t id)
{
    return s->lse[r] - (double)s->logits[r * s->model->shape.vocab + (size_t)id];
}
