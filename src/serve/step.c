#include "serve/scheduler.h"

#include "base/file.h"
#include "serve/embed.h"
#include "serve/lookup.h"

#include <string.h>

/* --- what a step takes ------------------------------------------------------------------------ */

static bool reads_prompt(const struct pith_completion *a)
{
    return a->ids.count - a->read > 1 || a->ticket->embedding;
}

/* Adds a span of n known ids and guesses behind them. */
static void add_span(struct pith_scheduler *s, struct pith_completion *a, size_t n,
                     const int32_t *guess, size_t guesses)
{
    const size_t hidden = s->parts.model->shape.hidden;
    int32_t *ids = s->ids + s->rows;
    memcpy(ids, a->ids.id + a->read, n * sizeof *ids);
    if (guesses > 0) memcpy(ids + n, guess, guesses * sizeof *ids);
    s->of[s->spans] = a;
    s->span[s->spans++] = (struct pith_step_span){
        .sequence = a->sequence, .ids = ids, .n = n + guesses, .x = s->x + s->rows * hidden};
    s->rows += n + guesses;
}

enum { MOST_GUESSES = 16 };

/* The next token of an answer, and guesses of what follows it. */
static void add_token(struct pith_scheduler *s, struct pith_completion *a, size_t room)
{
    int32_t guess[MOST_GUESSES];
    size_t n = 0, most = s->looks_up ? a->ticket->request.lookup : 0;
    if (most > MOST_GUESSES) most = MOST_GUESSES;
    if (most > room - 1) most = room - 1;
    if (most > a->ticket->limit - a->ids.count) most = a->ticket->limit - a->ids.count;
    if (most > 0) n = pith_lookup(a->ids.id, a->ids.count, most, guess);
    add_span(s, a, 1, guess, n);
}

/* Running answers first; the rest of rows and time goes to prompts, the oldest first. */
static void build(struct pith_scheduler *s)
{
    const size_t rows = s->options.runner.rows;
    struct pith_step_load load = {0};
    s->spans = s->rows = s->wants = 0;
    for (size_t i = 0; i < s->runs; i++) {
        struct pith_completion *a = s->running[i];
        const size_t later = s->runs - i - 1;
        if (reads_prompt(a)) continue;
        add_token(s, a, rows - s->rows > later ? rows - s->rows - later : 1);
        load = pith_load_add(load, a->read, s->span[s->spans - 1].n);
    }
    const bool hurry = s->spans > 0;
    double left = s->options.pace;
    for (size_t i = 0; i < s->runs && s->rows < rows; i++) {
        struct pith_completion *a = s->running[i];
        if (!reads_prompt(a)) continue;
        size_t n = a->ids.count - a->read;
        if (n > rows - s->rows) n = rows - s->rows;
        if (hurry) n = pith_pace_rows(&s->pace, a->read, n, left);
        const struct pith_step_load with = pith_load_add(load, a->read, n);
        left -= pith_pace_seconds(&s->pace, with) - pith_pace_seconds(&s->pace, load);
        load = with;
        add_span(s, a, n, NULL, 0);
        if (hurry && left <= 0) break;
    }
}

/* --- what comes of it ------------------------------------------------------------------------- */

/* The rows whose logits are wanted: those of a prompt that is scored, and the last known one with
 * the guesses behind it. */
static void collect_rows(struct pith_scheduler *s)
{
    size_t row = 0;
    for (size_t i = 0; i < s->spans; row += s->span[i++].n) {
        struct pith_completion *a = s->of[i];
        const struct pith_ticket *t = a->ticket;
        for (size_t k = 0; k < s->span[i].n && !t->embedding; k++) {
            const size_t position = a->read + k;
            const bool last = position + 1 >= a->ids.count;
            const bool scored = t->scores && a->number == 0 && position + 1 >= t->scored &&
                                position + 1 < t->prompt;
            if (!last && !scored) continue;
            s->want[s->wants++] = (struct pith_wanted_row){
                .answer = a,
                .row = row + k,
                .position = position,
                .guess = last && k + 1 < s->span[i].n ? s->span[i].ids[k + 1] : -1};
        }
    }
}

/* One row with logits: of a token that is known, a score; else the next token. Guesses go on as
 * long as they are what is chosen. */
static void use_row(struct pith_scheduler *s, const struct pith_wanted_row *w, float *logits)
{
    struct pith_completion *a = w->answer;
    struct pith_ticket *t = a->ticket;
    if (a->state != PITH_ANSWER_RUNS || w->position >= a->ids.count) return;
    if (s->ids[w->row] != a->ids.id[w->position]) return; /* it was guessed wrong */
    if (w->position + 1 < a->ids.count) {
        pith_completion_score(s, a, w->position + 1, logits);
        return;
    }
    if (!pith_completion_next(s, a, logits) || w->guess < 0) return;
    t->usage.guessed++;
    if (a->ids.id[a->ids.count - 1] != w->guess) return;
    t->usage.guessed_right++;
    a->read++;
}

/* The logits of all rows that are wanted, some at a time. */
static enum pith_status use_rows(struct pith_scheduler *s, struct pith_error *err)
{
    const struct pith_model *m = s->parts.model;
    const size_t hidden = m->shape.hidden, vocab = m->shape.vocab;
    for (size_t i = 0; i < s->wants; i += PITH_LOGIT_ROWS) {
        const size_t n = s->wants - i < PITH_LOGIT_ROWS ? s->wants - i : PITH_LOGIT_ROWS;
        for (size_t k = 0; k < n; k++)
            memcpy(s->some + k * hidden, s->x + s->want[i + k].row * hidden, hidden * sizeof *s->x);
        const enum pith_status status =
            pith_model_logits(m, s->parts.backend, s->some, n, s->logits, err);
        /* A token is not reported before the weights that chose it are known to have been there. */
        PITH_TRY(pith_checkpoint_settle(m->checkpoint, false, status, err));
        for (size_t k = 0; k < n; k++) use_row(s, &s->want[i + k], s->logits + k * vocab);
    }
    return PITH_OK;
}

/* What answers have read now; rows of embeddings. */
static void move_on(struct pith_scheduler *s)
{
    for (size_t i = 0; i < s->spans; i++) {
        struct pith_completion *a = s->of[i];
        const struct pith_step_span *span = &s->span[i];
        struct pith_embedding *e = a->ticket->embedding;
        const size_t known = a->ids.count - a->read < span->n ? a->ids.count - a->read : span->n;
        pith_clients_serve(&s->clients, a->ticket->request.client, (double)span->n);
        if (e && a->read + span->n > e->rows) {
            const size_t skip = e->rows > a->read ? e->rows - a->read : 0;
            pith_embedding_add(e, s->parts.model, s->parts.backend,
                               span->x + skip * s->parts.model->shape.hidden, span->n - skip);
        }
        a->read += known;
    }
}

/* Guesses that were wrong are cut off; what embeddings are for is done. */
static void cut_back(struct pith_scheduler *s)
{
    for (size_t i = 0; i < s->spans; i++) {
        struct pith_completion *a = s->of[i];
        if (a->state != PITH_ANSWER_RUNS) continue;
        if (a->ticket->embedding && a->read == a->ids.count) pith_completion_finish(s, a, "stop");
        else pith_runner_rewind(&s->runner, a->sequence, a->read);
    }
}

/* Tickets of the step, once each. */
static void fail_all(struct pith_scheduler *s, const struct pith_error *error)
{
    while (s->runs > 0) pith_scheduler_fail(s, s->running[0]->ticket, error);
}

static void account(struct pith_scheduler *s, double seconds)
{
    struct pith_step_load load = {0};
    for (size_t i = 0; i < s->spans; i++) load = pith_load_add(load, s->of[i]->read, s->span[i].n);
    pith_pace_learn(&s->pace, load, seconds);
    pthread_mutex_lock(&s->lock);
    s->state.steps++;
    s->state.busy += seconds;
    pthread_mutex_unlock(&s->lock);
}

void pith_scheduler_step(struct pith_scheduler *s)
{
    struct pith_error err = {0};
    const double start = pith_clock();
    enum pith_status status;
    for (;;) {
        build(s);
        status = pith_runner_step(&s->runner, s->span, s->spans, &err);
        if (status != PITH_LIMIT || !pith_scheduler_make_room(s)) break;
        err = (struct pith_error){0};
    }
    if (status == PITH_OK) {
        collect_rows(s);
        account(s, pith_clock() - start);
        move_on(s);
        status = use_rows(s, &err);
    }
    if (status == PITH_OK) cut_back(s);
    else fail_all(s, &err);
}
