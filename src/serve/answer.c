#include "serve/scheduler.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>

static bool is_among(int32_t id, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Whether that token ends the answer. */
static bool ends(const struct pith_scheduler *s, const struct pith_completion *a, int32_t id)
{
    const struct pith_request *r = &a->ticket->request;
    if (is_among(id, r->stop_ids, r->stop_id_count)) return true;
    return !r->ignore_end && is_among(id, s->parts.ends->id, s->parts.ends->count);
}

void pith_completion_finish(struct pith_scheduler *s, struct pith_completion *a, const char *finish)
{
    struct pith_ticket *t = a->ticket;
    if (a->state == PITH_ANSWER_RUNS) pith_scheduler_stop(s, a, !t->embedding);
    if (!a->finish && pith_stream_end(&a->stream, &a->piece, NULL) == PITH_OK && a->stop < 0) {
        const struct pith_stops none = {0};
        if (a->piece.len > 0)
            (void)pith_tail_push(&a->tail, a->stop_id < 0 ? &t->stops : &none, false, a->piece.data,
                                 a->piece.len, &a->text);
        pith_tail_end(&a->tail, &a->text);
    }
    pith_str_clear(&a->piece);
    a->finish = finish;
    pith_scheduler_leave(s, a);
    a->state = PITH_ANSWER_IS_OVER;
    pith_completion_report_end(a);
}

/* A token of the prompt that is to be reported. */
static bool add_prompt_token(struct pith_scheduler *s, struct pith_ticket *t,
                             const struct pith_chosen *c)
{
    struct pith_error err = {0};
    t->scored++;
    if (pith_tokens_add(&t->prompt_tokens, c, 0, &err) == PITH_OK) return true;
    pith_scheduler_fail(s, t, &err);
    return false;
}

static bool add_first(struct pith_scheduler *s, struct pith_completion *a)
{
    const struct pith_chosen first = {.id = a->ids.id[0], .logprob = NAN};
    return a->ticket->scored > 0 || add_prompt_token(s, a->ticket, &first);
}

void pith_completion_score(struct pith_scheduler *s, struct pith_completion *a, size_t position,
                           const float *logits)
{
    struct pith_ticket *t = a->ticket;
    struct pith_chosen c;
    if (!add_first(s, a) || position != t->scored) return;
    pith_choose_score(&s->choose, logits, a->ids.id[position], t->request.prompt_logprobs, &c);
    (void)add_prompt_token(s, t, &c);
}

/* The prompt's text, and where its tokens begin in it. */
static enum pith_status spell_prompt(struct pith_scheduler *s, struct pith_completion *a,
                                     struct pith_error *err)
{
    struct pith_ticket *t = a->ticket;
    struct pith_stream stream = {.special = t->request.special != 0};
    struct pith_str piece = {0};
    enum pith_status status = PITH_OK;
    size_t begin = 0;
    for (size_t i = 0; i < t->prompt && status == PITH_OK; i++) {
        t->prompt_tokens.offset[i] = begin;
        status = pith_stream_push(s->parts.tokenizer, &stream, a->ids.id[i], &piece, err);
        begin += pith_utf8_count(piece.data, piece.len);
        if (t->request.echo) pith_str_append(&a->text, piece.data, piece.len);
        pith_str_clear(&piece);
    }
    const enum pith_status end = pith_stream_end(&stream, &piece, status == PITH_OK ? err : NULL);
    if (status == PITH_OK) status = end;
    if (t->request.echo) pith_str_append(&a->text, piece.data, piece.len);
    if (status == PITH_OK && (a->text.failed || piece.failed))
        status = pith_fail_nomem(err, "the text of a prompt");
    pith_str_free(&piece);
    return status;
}

/* The prompt is reported before the answer's first token. */
static bool report_prompt(struct pith_scheduler *s, struct pith_completion *a)
{
    struct pith_ticket *t = a->ticket;
    struct pith_error err = {0};
    if (t->prompt_sent || a->number > 0 || !(t->scores || t->request.echo)) return true;
    if (!add_first(s, a)) return false;
    while (t->scored < t->prompt) { /* echoed without scores */
        const struct pith_chosen c = {.id = a->ids.id[t->scored], .logprob = NAN};
        if (!add_prompt_token(s, t, &c)) return false;
    }
    if (spell_prompt(s, a, &err) != PITH_OK) {
        pith_scheduler_fail(s, t, &err);
        return false;
    }
    pith_ticket_report_prompt(t);
    return true;
}

/* Chooses the next token, or fails. */
static enum pith_status choose(struct pith_scheduler *s, struct pith_completion *a, float *logits,
                               struct pith_chosen *c, struct pith_error *err)
{
    const struct pith_ticket *t = a->ticket;
    const struct pith_request *r = &t->request;
    const bool early = a->generated < r->min_tokens;
    const uint64_t *allowed = NULL;
    if (t->form && !a->matcher) PITH_TRY(pith_matcher_open(t->form->grammar, &a->matcher, err));
    if (a->matcher) PITH_TRY(pith_matcher_mask(a->matcher, &allowed, err));
    const struct pith_wish how = {.request = r,
                                  .counts = &a->counts,
                                  .rng = &a->rng,
                                  .allowed = allowed,
                                  .banned = s->parts.ends->id,
                                  .bans = early && !r->ignore_end ? s->parts.ends->count : 0,
                                  .tops = r->logprobs >= 0 || !pith_ticket_holds(t) ? r->logprobs
                                                                                    : 0};
    pith_choose_next(&s->choose, &how, logits, c);
    return c->id >= 0 ? PITH_OK
                      : pith_fail(err, PITH_NUMERIC, "the model's logits allow no next token");
}

/* The token becomes part of the answer, and its text of what is to be sent. */
static enum pith_status append(struct pith_scheduler *s, struct pith_completion *a,
                               const struct pith_chosen *c, struct pith_error *err)
{
    const struct pith_request *r = &a->ticket->request;
    const struct pith_stops none = {0};
    const bool stops = a->generated >= r->min_tokens;
    if (a->matcher && !pith_matcher_accept(a->matcher, c->id))
        return pith_fail_nomem(err, "the states of a constraint");
    if (!pith_ids_push(&a->ids, c->id)) return pith_fail_nomem(err, "the tokens of an answer");
    if (r->repetition != 1 || r->frequency != 0 || r->presence != 0)
        PITH_TRY(pith_counts_add(&a->counts, c->id, true, err));
    PITH_TRY(pith_tokens_add(&a->tokens, c, a->characters, err));
    PITH_TRY(pith_stream_push(s->parts.tokenizer, &a->stream, c->id, &a->piece, err));
    a->characters += pith_utf8_count(a->piece.data, a->piece.len);
    if (a->piece.len > 0)
        a->stop = pith_tail_push(&a->tail, stops ? &a->ticket->stops : &none, r->keep_stop != 0,
                                 a->piece.data, a->piece.len, &a->text);
    pith_str_clear(&a->piece);
    return a->text.failed ? pith_fail_nomem(err, "the text of an answer") : PITH_OK;
}

static void count(struct pith_scheduler *s, struct pith_completion *a, const struct pith_chosen *c)
{
    struct pith_ticket *t = a->ticket;
    if (t->first <= 0) t->first = pith_clock();
    a->generated++;
    t->usage.generated++;
    if (!isnan(c->logprob)) a->logprobs += (double)c->logprob;
    pthread_mutex_lock(&s->lock);
    s->state.generated_tokens++;
    pthread_mutex_unlock(&s->lock);
}

bool pith_completion_next(struct pith_scheduler *s, struct pith_completion *a, float *logits)
{
    struct pith_ticket *t = a->ticket;
    struct pith_chosen c;
    struct pith_error err = {0};
    if (!report_prompt(s, a)) return false;
    if (t->request.prompt_only) {
        pith_completion_finish(s, a, "length");
        return false;
    }
    if (choose(s, a, logits, &c, &err) != PITH_OK) {
        pith_scheduler_fail(s, t, &err);
        return false;
    }
    count(s, a, &c);
    if (ends(s, a, c.id) && a->generated > t->request.min_tokens) {
        a->stop_id = c.id;
        pith_completion_finish(s, a, "stop");
        return false;
    }
    if (append(s, a, &c, &err) != PITH_OK) {
        pith_scheduler_fail(s, t, &err);
        return false;
    }
    if (a->stop >= 0 || (a->matcher && pith_matcher_done(a->matcher)))
        pith_completion_finish(s, a, "stop");
    else if (a->ids.count >= t->limit) pith_completion_finish(s, a, "length");
    else {
        pith_completion_report(a);
        return true;
    }
    return false;
}
