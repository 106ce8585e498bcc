/* Completions and chats: submitted to the service, reported by its events, read by a stream or at
 * the end by a worker. */
#include "server/completion.h"
#include "server/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* --- events of the service -------------------------------------------------------------------- */

/* Whether a failure is of the constraint. */
static bool is_of_constraint(const struct ask *ask, enum pith_status s)
{
    return ask->constraint_field && (s == PITH_LIMIT || s == PITH_FORMAT || s == PITH_UNSUPPORTED);
}

static bool refuse_request(struct refusal *r, const struct ask *ask, enum pith_status s,
                           const struct pith_error *err)
{
    if (is_of_constraint(ask, s)) {
        (void)refuse_constraint(r, s, ask->constraint_field, err);
        if (ask->forced) forced_place(ask->constraint, r);
        return false;
    }
    return refuse_prompt(r, s, err, ask->kind == ASK_CHAT ? "messages" : "prompt");
}

/* Under the lock. */
static void keep_failure(struct completion *g, const struct pith_event *e)
{
    if (g->failure.status == 0) (void)refuse_request(&g->failure, &g->ask, e->status, e->error);
}

/* An end that no client's word is for: the server cut it short. Under the lock. */
static void keep_finish(struct completion *g, const char *finish)
{
    if (g->failure.status || !finish) return;
    if (strcmp(finish, "cancelled") == 0)
        (void)refuse(&g->failure, 503, NULL,
                     "the answer was cut short: the server ends, or the "
                     "reader was too slow");
    else if (strcmp(finish, "deadline") == 0)
        (void)refuse(&g->failure, 503, NULL, "the answer took longer than its deadline");
}

static void end_part(struct completion_part *p, const struct pith_event *e)
{
    struct completion *g = p->completion;
    p->over = true;
    p->usage = e->usage;
    g->live--;
    g->usage.prompt += e->usage.prompt;
    g->usage.cached += e->usage.cached;
    g->usage.generated += e->usage.generated;
    if (e->usage.first > g->usage.first) g->usage.first = e->usage.first;
    if (e->usage.queued > g->usage.queued) g->usage.queued = e->usage.queued;
    if (e->kind == PITH_EVENT_FAILED) keep_failure(g, e);
}

static void measure(struct completion_part *p, const struct pith_event *e)
{
    struct completion *g = p->completion;
    struct metrics *m = g->exchange->server->metrics;
    const size_t at = p->index * g->ask.request.n + e->choice;
    if (e->kind == PITH_EVENT_TEXT && e->tokens > 0 && e->choice < g->ask.request.n) {
        const double now = server_clock(), last = g->choice[at].last;
        metrics_tokens(m, e->tokens, last > 0 ? now - last : -1);
        g->choice[at].last = now;
    } else if (e->kind == PITH_EVENT_CHOICE) {
        metrics_finish(m, e->finish ? e->finish : "");
    } else if (e->kind == PITH_EVENT_END) {
        metrics_end(m, &e->usage, 0);
    }
}

/* Makes the whole answer, in a worker. */
static void finish_whole(struct exchange *e)
{
    struct completion *g = e->completion;
    struct tape_note *n;
    if (g->failure.status) {
        exchange_refuse(e, &g->failure);
        return;
    }
    while ((n = tape_take(&g->tape)) != NULL) {
        reply_note(g, n);
        free(n);
    }
    exchange_json(e, 200, reply_whole(g));
}

/* Whether the notes are many and nobody reads them. */
static bool is_stuck(const struct completion *g)
{
    return g->ask.stream && g->tape.bytes > g->exchange->server->settings.unread;
}

/* In the service's thread: keeps the event, and wakes who waits for it. */
static void on_event(void *part, const struct pith_event *event)
{
    struct completion_part *p = part;
    struct completion *g = p->completion;
    struct exchange *e = g->exchange;
    const bool last = event->kind == PITH_EVENT_END || event->kind == PITH_EVENT_FAILED;
    bool finish = false, cancel = false;
    measure(p, event);
    pthread_mutex_lock(&e->lock);
    if (event->kind == PITH_EVENT_CHOICE) keep_finish(g, event->finish);
    if (last) {
        end_part(p, event);
        finish = g->live == 0 && g->submitted;
    } else if (!e->gone && !g->cancelled) {
        if (is_stuck(g) || !tape_record(&g->tape, p->index, event)) {
            if (is_stuck(g)) e->gone = true;
            else (void)refuse_failure(&g->failure, PITH_NOMEM, NULL);
            cancel = true;
        }
    }
    if (g->ask.stream) exchange_wake(e);
    pthread_mutex_unlock(&e->lock);
    if (cancel) pith_cancel(atomic_load(&e->server->service), event->request);
    if (finish && !g->ask.stream) {
        e->work = finish_whole;
        (void)workers_give(e->server->workers, e); /* refused: every connection is closed */
    }
    if (last) exchange_drop(e);
}

/* --- requests --------------------------------------------------------------------------------- */

static struct completion *completion_new(struct exchange *e, struct ask *ask)
{
    struct completion *g = calloc(1, sizeof *g);
    uint64_t number[2] = {0};
    if (!g) {
        ask_free(ask);
        return NULL;
    }
    if (getrandom(number, sizeof number, GRND_NONBLOCK) < 0) number[0] = e->serial;
    g->exchange = e;
    g->ask = *ask;
    g->created = time(NULL);
    g->parts = ask->prompts;
    g->choices = g->parts * ask->request.n;
    snprintf(g->id, sizeof g->id, "%s-%016llx%08x", ask->kind == ASK_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long long)number[0], (unsigned)number[1]);
    g->part = calloc(g->parts, sizeof *g->part);
    g->choice = calloc(g->choices, sizeof *g->choice);
    for (size_t i = 0; g->choice && i < g->choices; i++) {
        g->choice[i].completion = g;
        g->choice[i].at = i;
    }
    if (g->part && g->choice) return g;
    completion_free(g);
    return NULL;
}

/* Submits one prompt; the exchange stays referenced for its events. */
static bool submit(struct completion *g, size_t i, struct refusal *r)
{
    struct exchange *e = g->exchange;
    struct pith_service *service = atomic_load(&e->server->service);
    struct pith_request q = ask_request(&g->ask, i);
    struct completion_part *p = &g->part[i];
    struct pith_error err = {0};
    uint64_t id = 0;
    *p = (struct completion_part){.completion = g, .index = (uint32_t)i};
    q.client = e->client;
    q.event = on_event;
    q.ctx = p;
    pthread_mutex_lock(&e->lock);
    g->live++;
    pthread_mutex_unlock(&e->lock);
    exchange_hold(e);
    const enum pith_status s = pith_submit(service, &q, &id, &err);
    pthread_mutex_lock(&e->lock);
    p->id = id;
    p->accepted = s == PITH_OK;
    if (s != PITH_OK) g->live--;
    const bool late = s == PITH_OK && (g->cancelled || e->gone);
    pthread_mutex_unlock(&e->lock);
    if (late) pith_cancel(service, id);
    if (s == PITH_OK) {
        metrics_accept(e->server->metrics, &q);
        return true;
    }
    exchange_drop(e);
    return refuse_request(r, &g->ask, s, &err);
}

void completion_cancel(struct completion *g)
{
    struct exchange *e = g->exchange;
    struct pith_service *service = atomic_load(&e->server->service);
    pthread_mutex_lock(&e->lock);
    g->cancelled = true;
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < g->parts; i++) {
        pthread_mutex_lock(&e->lock);
        const bool runs = g->part[i].accepted && !g->part[i].over;
        const uint64_t id = g->part[i].id;
        pthread_mutex_unlock(&e->lock);
        if (runs) pith_cancel(service, id);
    }
}

static void generate(struct exchange *e, enum ask_kind kind)
{
    const struct server_settings *s = &e->server->settings;
    const struct ask_limits limits = {.name = s->name,
                                      .model = s->model,
                                      .format = e->server->format,
                                      .prompts = s->prompts,
                                      .choices = s->choices};
    struct refusal r = {0};
    struct ask ask;
    const bool good =
        ask_read(&ask, kind, e->body.text ? e->body.text : "", e->body.size, &limits, &r);
    exchange_ignore(e, ask.ignored);
    ask.ignored = NULL;
    if (!good) {
        exchange_refuse(e, &r);
        return;
    }
    struct completion *g = completion_new(e, &ask);
    if (!g) {
        (void)refuse_failure(&r, PITH_NOMEM, NULL);
        exchange_refuse(e, &r);
        return;
    }
    pthread_mutex_lock(&e->lock);
    e->completion = g;
    pthread_mutex_unlock(&e->lock);
    size_t i = 0;
    const bool opened = reply_open(g, &r);
    while (opened && i < g->parts && submit(g, i, &r)) i++;
    if (i < g->parts) completion_cancel(g);
    pthread_mutex_lock(&e->lock);
    if (i < g->parts && g->failure.status == 0) g->failure = r;
    g->submitted = true;
    const bool finish = g->live == 0 && !g->ask.stream;
    pthread_mutex_unlock(&e->lock);
    if (i < g->parts) exchange_refuse(e, &r);
    else if (g->ask.stream) exchange_stream(e);
    else if (finish) finish_whole(e);
}

void completion_text(struct exchange *e)
{
    generate(e, ASK_COMPLETION);
}

void completion_chat(struct exchange *e)
{
    generate(e, ASK_CHAT);
}

void completion_free(struct completion *g)
{
    if (!g) return;
    for (size_t i = 0; g->choice && i < g->choices; i++) {
        pith_reply_close(&g->choice[i].reply);
        buffer_free(&g->choice[i].text);
        buffer_free(&g->choice[i].reasoning);
        json_decref(g->choice[i].calls);
        json_decref(g->choice[i].logprobs);
    }
    free(g->choice);
    free(g->part);
    tape_free(&g->tape);
    buffer_free(&g->out);
    ask_free(&g->ask);
    free(g);
}

/* --- what a stream's reader gets -------------------------------------------------------------- */

/* Puts what there is into the buffer, in the connections' thread. False: it has to wait. */
static bool fill(struct exchange *e, struct completion *g)
{
    struct refusal failure = {0};
    if (!g->opened) {
        reply_begin(g);
        g->opened = true;
    }
    while (g->out.size == 0 && !g->out.failed) {
        pthread_mutex_lock(&e->lock);
        struct tape_note *n = e->gone ? NULL : tape_take(&g->tape);
        if (e->gone) g->out.failed = true;
        const bool over = !n && g->live == 0 && g->submitted;
        if (over) failure = g->failure;
        if (!n && !over && !e->gone) {
            e->suspended = true;
            MHD_suspend_connection(e->connection);
        }
        pthread_mutex_unlock(&e->lock);
        if (!n && !over) return false;
        if (n) reply_note(g, n);
        else reply_close(g, &failure);
        g->closed = over;
        free(n);
    }
    return true;
}

/* Ends a stream before its time. A reader that fails has its connection forgotten, not closed, by
 * MHD (0.9.75: its chunked bodies); one whose last words cannot be sent is closed. */
static ssize_t break_off(const struct exchange *e)
{
    (void)shutdown(e->socket, SHUT_RDWR);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

ssize_t completion_read(void *exchange, uint64_t position, char *to, size_t room)
{
    struct exchange *e = exchange;
    struct completion *g = e->completion;
    (void)position;
    pthread_mutex_lock(&e->lock);
    const bool gone = e->gone;
    e->progressed = server_clock();
    pthread_mutex_unlock(&e->lock);
    if (gone || g->out.failed) return break_off(e);
    if (g->taken == g->out.size) {
        g->out.size = g->taken = 0;
        if (g->closed) return MHD_CONTENT_READER_END_OF_STREAM;
        const bool some = fill(e, g);
        if (g->out.failed) return break_off(e);
        if (!some) return 0;
    }
    const size_t left = g->out.size - g->taken, n = left < room ? left : room;
    memcpy(to, g->out.text + g->taken, n);
    g->taken += n;
    return (ssize_t)n;
}
