#include "serve/scheduler.h"

#include "base/file.h"

enum { PAGE = 32 }; /* positions: model/kv/kv.h */

/* The group of layers that see everything; of a model without, that with a window. */
static const struct pith_kv_group *group(const struct pith_scheduler *s)
{
    const struct pith_kv_group *g = s->runner.kv.group;
    return g[0].window == 0 && g[0].pages > 0 ? &g[0] : &g[1];
}

static size_t pages_of(const struct pith_kv_group *g, size_t tokens)
{
    const size_t n = g->window && g->window + PAGE < tokens ? g->window + PAGE : tokens;
    return (n + PAGE - 1) / PAGE;
}

/* Whether a choice may begin: the first reads the prompt, the others then begin with its pages. */
static bool may_begin(const struct pith_completion *a)
{
    const struct pith_completion *first = &a->ticket->answer[0];
    return a->number == 0 || first->state == PITH_ANSWER_IS_OVER ||
           first->read >= a->ticket->prompt;
}

/* The next one: of the client who was served least; of one client's the oldest. */
static struct pith_completion *next_completion(const struct pith_scheduler *s)
{
    struct pith_completion *best = NULL;
    double least = 0;
    for (struct pith_ticket *t = s->tickets; t; t = t->next) {
        const double served = pith_clients_served(&s->clients, t->request.client);
        if (best && served >= least) continue;
        for (uint32_t i = 0; i < t->answers; i++) {
            if (t->answer[i].state != PITH_ANSWER_WAITS || !may_begin(&t->answer[i])) continue;
            best = &t->answer[i];
            least = served;
            break;
        }
    }
    return best;
}

/* A sequence for it: of a sibling that has read the prompt, of a cached one, or an empty one. */
static enum pith_status open_sequence(struct pith_scheduler *s, struct pith_completion *a,
                                      struct pith_error *err)
{
    const struct pith_completion *first = &a->ticket->answer[0];
    size_t length = 0;
    a->read = 0;
    if (a->ticket->scores || a->ticket->embedding) /* every row is needed */
        return a->number == 0 && a->ticket->scored == a->ticket->prompt
                   ? pith_prefix_open(&s->prefix, a->ids.id, a->ids.count, &a->sequence, &a->read,
                                      err)
                   : pith_prefix_open(&s->prefix, a->ids.id, a->number ? a->ids.count : 0,
                                      &a->sequence, &a->read, err);
    if (a->number > 0 && first->sequence != PITH_NO_SEQUENCE) {
        PITH_TRY(pith_runner_fork(&s->runner, first->sequence, a->ticket->prompt - 1, &a->sequence,
                                  err));
        a->read = a->ticket->prompt - 1;
        if (pith_kv_ready(&s->runner.kv, a->sequence)) return PITH_OK;
        pith_runner_close(&s->runner, a->sequence); /* it would be read from its beginning */
        a->read = 0;
    }
    PITH_TRY(pith_prefix_open(&s->prefix, a->ids.id, a->ids.count, &a->sequence, &length, err));
    a->read = length;
    return PITH_OK;
}

/* Whether pages suffice for it and those that run, each of which may need one more; cached prefixes
 * are dropped for it. */
static bool fits(struct pith_scheduler *s, const struct pith_completion *a)
{
    const struct pith_kv_group *g = group(s);
    const bool goes_on = !a->ticket->request.prompt_only && !a->ticket->embedding;
    const size_t all = pages_of(g, a->ids.count + goes_on), have = a->read / PAGE;
    const size_t need = (all > have ? all - have : 0) + s->runs;
    while (g->unused < need && pith_prefix_drop(&s->prefix)) {
    }
    return g->unused >= need || s->runs == 0;
}

static void begin(struct pith_scheduler *s, struct pith_completion *a)
{
    struct pith_ticket *t = a->ticket;
    if (a->number == 0 && a->generated == 0) t->usage.cached = a->read;
    a->state = PITH_ANSWER_RUNS;
    s->running[s->runs++] = a;
    pthread_mutex_lock(&s->lock);
    if (t->admitted <= 0) {
        t->admitted = pith_clock();
        s->waiting -= s->waiting > 0;
        s->taken += t->answers;
    }
    s->state.cached_tokens += a->read;
    s->state.prompt_tokens += a->generated == 0 ? t->prompt : 0;
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_admit(struct pith_scheduler *s)
{
    while (s->runs < s->options.running) {
        struct pith_completion *a = next_completion(s);
        struct pith_error err = {0};
        if (!a) return;
        if (open_sequence(s, a, &err) != PITH_OK) {
            if (s->runs > 0) return; /* one ends sooner or later */
            pith_scheduler_fail(s, a->ticket, &err);
            continue;
        }
        if (!fits(s, a)) {
            pith_runner_close(&s->runner, a->sequence);
            a->sequence = PITH_NO_SEQUENCE;
            a->read = 0;
            return;
        }
        begin(s, a);
    }
}

void pith_scheduler_stop(struct pith_scheduler *s, struct pith_completion *a, bool keep)
{
    size_t at = 0;
    while (at < s->runs && s->running[at] != a) at++;
    if (at == s->runs) return;
    for (s->runs--; at < s->runs; at++) s->running[at] = s->running[at + 1];
    pith_runner_rewind(&s->runner, a->sequence, a->read); /* guesses behind it */
    if (keep) pith_prefix_keep(&s->prefix, a->sequence, a->ids.id, a->read);
    else pith_runner_close(&s->runner, a->sequence);
    a->sequence = PITH_NO_SEQUENCE;
    a->read = 0;
}

bool pith_scheduler_make_room(struct pith_scheduler *s)
{
    if (pith_prefix_drop(&s->prefix)) return true;
    if (s->runs <= 1) return false;
    struct pith_completion *newest = s->running[s->runs - 1];
    pith_scheduler_stop(s, newest, false);
    newest->state = PITH_ANSWER_WAITS;
    pthread_mutex_lock(&s->lock);
    s->state.preempted++;
    pthread_mutex_unlock(&s->lock);
    return true;
}
