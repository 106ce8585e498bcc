#include "serve/scheduler.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "serve/embed.h"

#include <math.h>
#include <time.h>

/* --- making ----------------------------------------------------------------------------------- */

static void layout(struct pith_arena *a, const struct pith_model *m,
                   const struct pith_scheduler_options *o, struct pith_scheduler *s)
{
    const size_t rows = o->runner.rows;
    s->x = pith_arena_take_rows(a, rows, m->shape.hidden, sizeof *s->x);
    s->some = pith_arena_take_rows(a, PITH_LOGIT_ROWS, m->shape.hidden, sizeof *s->some);
    s->logits = pith_arena_take_rows(a, PITH_LOGIT_ROWS, m->shape.vocab, sizeof *s->logits);
    s->ids = pith_arena_take(a, rows, sizeof *s->ids);
    s->want = pith_arena_take(a, rows, sizeof *s->want);
    s->span = pith_arena_take(a, o->running, sizeof *s->span);
    s->running = pith_arena_take(a, o->running, sizeof(struct pith_completion *));
    s->of = pith_arena_take(a, o->running, sizeof(struct pith_completion *));
}

uint64_t pith_scheduler_bytes(const struct pith_model *m, const struct pith_scheduler_options *o)
{
    struct pith_scheduler s;
    struct pith_arena a = {0};
    layout(&a, m, o, &s);
    return pith_sum_bytes(pith_arena_bytes(&a), pith_sum_bytes(pith_runner_bytes(m, &o->runner),
                                                               pith_choose_bytes(m->shape.vocab)));
}

static enum pith_status make(struct pith_scheduler *s, struct pith_error *err)
{
    const struct pith_scheduler_parts *p = &s->parts;
    struct pith_arena a = {0};
    PITH_TRY(pith_runner_init(&s->runner, p->model, p->backend, &s->options.runner, err));
    PITH_TRY(pith_choose_init(&s->choose, p->backend, p->model->shape.vocab, err));
    PITH_TRY(pith_prefix_init(&s->prefix, &s->runner, s->options.cached, err));
    layout(&a, p->model, &s->options, s);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "the steps of a service");
    layout(&a, p->model, &s->options, s);
    s->lists = a.base;
    s->looks_up = !s->runner.ids;
    s->state.context = s->options.runner.context;
    s->state.vocab = p->model->shape.vocab;
    return PITH_OK;
}

static void unmake(struct pith_scheduler *s)
{
    if (s->prefix.entry) pith_prefix_free(&s->prefix);
    pith_choose_free(&s->choose);
    pith_runner_free(&s->runner);
    pith_clients_free(&s->clients);
    pith_free(s->lists);
}

/* --- tickets ---------------------------------------------------------------------------------- */

/* Whether all places are taken, and as many wait as may. What waits takes the places that are free
 * now, one by one. Under the lock. */
static bool is_full(const struct pith_scheduler *s)
{
    const struct pith_ticket *const lists[] = {s->tickets, s->incoming};
    size_t left = s->options.running > s->taken ? s->options.running - s->taken : 0, wait = 0;
    for (size_t i = 0; i < PITH_COUNT(lists); i++)
        for (const struct pith_ticket *t = lists[i]; t; t = t->next) {
            if (t->admitted > 0) continue;
            wait += left == 0;
            left -= t->answers < left ? t->answers : left;
        }
    return left == 0 && wait >= s->options.queue;
}

enum pith_status pith_scheduler_submit(struct pith_scheduler *s, struct pith_ticket *t,
                                       uint64_t *id, struct pith_error *err)
{
    const size_t context = s->options.runner.context;
    enum pith_status status = PITH_OK;
    const bool alone = t->embedding || t->request.prompt_only; /* nothing comes behind it */
    if (t->prompt >= context + alone)
        return pith_fail(err, PITH_LENGTH,
                         "This model's maximum context length is %zu tokens, but the prompt has "
                         "%zu. Shorten the prompt.",
                         context, t->prompt);
    const size_t left = context - t->prompt;
    const size_t most = t->request.prompt_only ? 0 : t->request.max_tokens;
    if (most > left)
        return pith_fail(err, PITH_LENGTH,
                         "This model's maximum context length is %zu tokens, but %zu are "
                         "requested: %zu of the prompt and %zu of the answer. Shorten either.",
                         context, t->prompt + most, t->prompt, most);
    t->limit = t->prompt + (most ? most : left);
    pthread_mutex_lock(&s->lock);
    if (s->draining || s->closing) status = pith_fail(err, PITH_CLOSED, "the service is ending");
    else if (is_full(s))
        status = pith_fail(err, PITH_BUSY, "%zu requests are waiting", s->waiting);
    if (status == PITH_OK) {
        t->id = ++s->newest;
        if (id) *id = t->id;
        *s->last = t;
        s->last = &t->next;
        s->waiting++;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void cancel_among(struct pith_ticket *t, uint64_t id)
{
    for (; t; t = t->next)
        if (t->id == id) t->cancelled = true;
}

void pith_scheduler_cancel(struct pith_scheduler *s, uint64_t id)
{
    pthread_mutex_lock(&s->lock);
    cancel_among(s->incoming, id);
    cancel_among(s->tickets, id);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_drain(struct pith_scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_wait(struct pith_scheduler *s, struct pith_embedding *e)
{
    pthread_mutex_lock(&s->lock);
    while (!e->over) pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_state(struct pith_scheduler *s, struct pith_service_state *out)
{
    const size_t size = out->size;
    pthread_mutex_lock(&s->lock);
    *out = s->state;
    out->waiting = s->waiting;
    pthread_mutex_unlock(&s->lock);
    out->size = size;
}

/* An embedding has ended: the waiting caller goes on. */
static void settle_embedding(struct pith_scheduler *s, struct pith_ticket *t,
                             enum pith_status status, const struct pith_error *error)
{
    if (!t->embedding) return;
    pthread_mutex_lock(&s->lock);
    t->embedding->status = status;
    if (error) t->embedding->error = *error;
    t->embedding->over = true;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
    t->embedding = NULL;
}

void pith_scheduler_leave(struct pith_scheduler *s, const struct pith_completion *a)
{
    if (a->state == PITH_ANSWER_IS_OVER || a->ticket->admitted <= 0) return;
    pthread_mutex_lock(&s->lock);
    s->taken -= s->taken > 0;
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_fail(struct pith_scheduler *s, struct pith_ticket *t,
                         const struct pith_error *error)
{
    for (uint32_t i = 0; i < t->answers; i++) {
        if (t->answer[i].state == PITH_ANSWER_RUNS) pith_scheduler_stop(s, &t->answer[i], false);
        pith_scheduler_leave(s, &t->answer[i]);
    }
    settle_embedding(s, t, error->status, error);
    pith_ticket_fail(t, error);
}

/* Takes over what came in; a client whom memory has no place for fails. */
static void take_incoming(struct pith_scheduler *s)
{
    struct pith_ticket **end = &s->tickets, *t;
    pthread_mutex_lock(&s->lock);
    while (*end) end = &(*end)->next;
    *end = t = s->incoming;
    s->incoming = NULL;
    s->last = &s->incoming;
    pthread_mutex_unlock(&s->lock);
    for (; t; t = t->next) {
        struct pith_error err = {0};
        if (pith_clients_enter(&s->clients, t->request.client, &err) != PITH_OK)
            pith_scheduler_fail(s, t, &err);
    }
}

/* Removes tickets that are over, and sets the gauges of waiting ones. */
static void sweep(struct pith_scheduler *s)
{
    size_t waiting = 0, taken = 0;
    struct pith_ticket *over = NULL;
    pthread_mutex_lock(&s->lock);
    for (struct pith_ticket **at = &s->tickets; *at;) {
        struct pith_ticket *t = *at;
        if (pith_ticket_is_over(t)) {
            *at = t->next;
            t->next = over;
            over = t;
            continue;
        }
        waiting += t->admitted <= 0;
        for (uint32_t i = 0; t->admitted > 0 && i < t->answers; i++)
            taken += t->answer[i].state != PITH_ANSWER_IS_OVER;
        at = &t->next;
    }
    for (const struct pith_ticket *t = s->incoming; t; t = t->next) waiting++;
    s->waiting = waiting;
    s->taken = taken;
    pthread_mutex_unlock(&s->lock);
    while (over) {
        struct pith_ticket *next = over->next;
        settle_embedding(s, over, PITH_OK, NULL);
        pith_clients_leave(&s->clients, over->request.client);
        pith_ticket_free(over);
        over = next;
    }
}

/* Ends what nobody waits for any more. */
static void end_early(struct pith_scheduler *s)
{
    const double now = pith_clock();
    pthread_mutex_lock(&s->lock);
    const bool closing = s->closing;
    pthread_mutex_unlock(&s->lock);
    for (struct pith_ticket *t = s->tickets; t; t = t->next) {
        pthread_mutex_lock(&s->lock);
        const bool cancelled = t->cancelled || closing;
        pthread_mutex_unlock(&s->lock);
        if (!cancelled && !(t->until > 0 && now > t->until)) continue;
        struct pith_error err = {0};
        (void)pith_fail(&err, PITH_INTERRUPTED, "the service is ending");
        settle_embedding(s, t, PITH_INTERRUPTED, &err);
        for (uint32_t i = 0; i < t->answers; i++)
            if (t->answer[i].state != PITH_ANSWER_IS_OVER)
                pith_completion_finish(s, &t->answer[i], cancelled ? "cancelled" : "deadline");
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static void fill_state(struct pith_scheduler *s)
{
    const struct pith_kv_group *g = &s->runner.kv.group[s->runner.kv.group[0].window ? 1 : 0];
    size_t running = 0, cached = pith_prefix_pages(&s->prefix);
    for (const struct pith_ticket *t = s->tickets; t; t = t->next) running += t->admitted > 0;
    pthread_mutex_lock(&s->lock);
    s->state.running = running;
    s->state.sequences = s->spans;
    s->state.pages = g->pages;
    s->state.pages_used = g->pages - g->unused;
    s->state.pages_cached = cached < s->state.pages_used ? cached : s->state.pages_used;
    pthread_mutex_unlock(&s->lock);
}

/* Until something comes, or the next deadline; false when all is over and the end was requested. */
static bool rest(struct pith_scheduler *s)
{
    pthread_mutex_lock(&s->lock);
    const bool idle = !s->incoming && !s->tickets;
    if (idle && !s->closing) pthread_cond_wait(&s->wake, &s->lock);
    const bool go_on = s->incoming || s->tickets || !s->closing;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void *work(void *ctx)
{
    struct pith_scheduler *s = ctx;
    while (rest(s)) {
        take_incoming(s);
        end_early(s);
        pith_scheduler_admit(s);
        if (s->runs > 0) pith_scheduler_step(s);
        else s->spans = 0;
        sweep(s);
        fill_state(s);
    }
    return NULL;
}

enum pith_status pith_scheduler_init(struct pith_scheduler *s,
                                     const struct pith_scheduler_parts *parts,
                                     const struct pith_scheduler_options *options,
                                     struct pith_error *err)
{
    *s = (struct pith_scheduler){.parts = *parts, .options = *options};
    s->last = &s->incoming;
    enum pith_status status = make(s, err);
    if (status == PITH_OK) {
        pthread_mutex_init(&s->lock, NULL);
        pthread_cond_init(&s->wake, NULL);
        pthread_cond_init(&s->done, NULL);
        s->started = pthread_create(&s->thread, NULL, work, s) == 0;
        if (!s->started) status = pith_fail(err, PITH_NOMEM, "no thread for a service");
    }
    if (status == PITH_OK) return PITH_OK;
    unmake(s);
    *s = (struct pith_scheduler){0};
    return status;
}

void pith_scheduler_free(struct pith_scheduler *s)
{
    if (!s->started) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    unmake(s);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    *s = (struct pith_scheduler){0};
}
