#include "serve/ticket.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* --- tokens ----------------------------------------------------------------------------------- */

/* Room for one more of something. */
static bool grow(void **items, size_t *room, size_t count, size_t more, size_t size)
{
    if (count + more <= *room) return true;
    const size_t wanted = 2 * (count + more) + 16;
    void *p = pith_realloc(*items, wanted, size);
    if (!p) return false;
    *items = p;
    *room = wanted;
    return true;
}

enum pith_status pith_tokens_add(struct pith_tokens *t, const struct pith_chosen *c, size_t offset,
                                 struct pith_error *err)
{
    void *token = t->token, *top = t->top, *offsets = t->offset;
    const bool grown = grow(&token, &t->room, t->count, 1, sizeof *t->token) &&
                       grow(&offsets, &t->offset_room, t->count, 1, sizeof *t->offset) &&
                       grow(&top, &t->top_room, t->tops, c->tops, sizeof *t->top);
    t->token = token;
    t->offset = offsets;
    t->top = top;
    if (!grown) return pith_fail_nomem(err, "the tokens of an answer");
    t->offset[t->count] = offset;
    t->token[t->count++] =
        (struct pith_event_token){.id = c->id, .logprob = c->logprob, .tops = c->tops};
    if (c->tops > 0) memcpy(t->top + t->tops, c->top, c->tops * sizeof *t->top);
    t->tops += c->tops;
    return PITH_OK;
}

/* token[count] with `top` set, until the next addition. */
static const struct pith_event_token *event_tokens(struct pith_tokens *t)
{
    size_t at = 0;
    for (size_t i = 0; i < t->count; at += t->token[i++].tops) t->token[i].top = t->top + at;
    return t->token;
}

static void tokens_clear(struct pith_tokens *t)
{
    t->count = t->tops = 0;
}

static void tokens_free(struct pith_tokens *t)
{
    pith_free(t->token);
    pith_free(t->offset);
    pith_free(t->top);
    *t = (struct pith_tokens){0};
}

/* --- making ----------------------------------------------------------------------------------- */

static bool within(double x, double least, double most)
{
    return x >= least && x <= most;
}

static enum pith_status check_ids(const char *what, const int32_t *ids, size_t n, size_t vocab,
                                  struct pith_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocab)
            return pith_fail(err, PITH_ARG, "%s: token %d is outside the vocabulary of %zu", what,
                             (int)ids[i], vocab);
    return PITH_OK;
}

static enum pith_status check(const struct pith_request *r, size_t vocab, struct pith_error *err)
{
    const uint32_t best_of = r->best_of ? r->best_of : r->n;
    const struct pith_sampling how = {.temperature = r->temperature,
                                      .top_k = r->top_k,
                                      .top_p = r->top_p,
                                      .min_p = r->min_p,
                                      .typical = r->typical};
    PITH_TRY(pith_sampling_check(&how, err));
    if (!within((double)r->temperature, 0, 100))
        return pith_fail(err, PITH_ARG, "temperature: from 0 to 100");
    if (r->n == 0 || r->n > 128) return pith_fail(err, PITH_ARG, "n: from 1 to 128");
    if (best_of < r->n || best_of > 128)
        return pith_fail(err, PITH_ARG, "best_of: from n (%u) to 128", r->n);
    if (!(r->repetition > 0 && r->repetition <= 100))
        return pith_fail(err, PITH_ARG, "repetition penalty: above 0, at most 100");
    if (!within((double)r->frequency, -100, 100) || !within((double)r->presence, -100, 100))
        return pith_fail(err, PITH_ARG, "frequency and presence penalty: from -100 to 100");
    if (r->logprobs > PITH_TOPS || r->prompt_logprobs > PITH_TOPS)
        return pith_fail(err, PITH_ARG, "log-probabilities: of at most %d alternatives", PITH_TOPS);
    for (size_t i = 0; i < r->bias_count; i++)
        if (!within((double)r->bias_value[i], -1000, 1000))
            return pith_fail(err, PITH_ARG, "logit bias: from -1000 to 1000");
    if (r->constraint != PITH_ANY && r->ignore_end)
        return pith_fail(err, PITH_ARG, "an answer with a constraint ends where that says");
    for (size_t i = 0; i < r->stop.count; i++)
        if (!r->stop.item[i][0]) return pith_fail(err, PITH_ARG, "an empty stop text");
    PITH_TRY(check_ids("logit bias", r->bias, r->bias_count, vocab, err));
    return check_ids("stop tokens", r->stop_ids, r->stop_id_count, vocab, err);
}

static const void *copied(void *to, const void *from, size_t bytes)
{
    if (to && bytes > 0) memcpy(to, from, bytes);
    return to;
}

/* Copies of the lists; called twice: to measure, and to place. */
static void copy_lists(struct pith_arena *a, struct pith_ticket *t, const struct pith_request *r)
{
    struct pith_request *to = &t->request;
    const size_t bytes[] = {r->bias_count * sizeof *r->bias, r->bias_count * sizeof *r->bias_value,
                            r->stop_id_count * sizeof *r->stop_ids};
    to->bias = copied(pith_arena_take(a, r->bias_count, sizeof *r->bias), r->bias, bytes[0]);
    to->bias_value =
        copied(pith_arena_take(a, r->bias_count, sizeof *r->bias_value), r->bias_value, bytes[1]);
    to->stop_ids =
        copied(pith_arena_take(a, r->stop_id_count, sizeof *r->stop_ids), r->stop_ids, bytes[2]);
    const char **text = pith_arena_take(a, r->stop.count, sizeof *text);
    size_t *size = pith_arena_take(a, r->stop.count, sizeof *size);
    for (size_t i = 0; i < r->stop.count; i++) {
        const size_t n = strlen(r->stop.item[i]) + 1;
        const char *copy = copied(pith_arena_take(a, n, 1), r->stop.item[i], n);
        if (text && size) text[i] = copy, size[i] = n - 1;
    }
    t->stops = (struct pith_stops){text, size, r->stop.count};
}

static enum pith_status copy_request(struct pith_ticket *t, const struct pith_request *r,
                                     struct pith_error *err)
{
    struct pith_arena a = {0};
    t->request = *r;
    copy_lists(&a, t, r);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "a request");
    copy_lists(&a, t, r);
    t->memory = a.base;
    t->request.ids = NULL;
    t->request.text = t->request.conversation = t->request.constraint_text = NULL;
    t->request.stop = (struct pith_list){0};
    return PITH_OK;
}

static enum pith_status copy_ids(struct pith_ids *to, const struct pith_ids *from,
                                 struct pith_error *err)
{
    to->id = pith_alloc(from->count + 1, sizeof *to->id);
    if (!to->id) return pith_fail_nomem(err, "a prompt");
    memcpy(to->id, from->id, from->count * sizeof *to->id);
    to->count = from->count;
    to->cap = from->count + 1;
    return PITH_OK;
}

/* The seed of a choice's own stream; that of the first is the request's. */
static uint64_t seed_of(uint64_t seed, uint32_t choice)
{
    return seed + UINT64_C(0x9E3779B97F4A7C15) * choice;
}

static enum pith_status begin_answer(struct pith_ticket *t, uint32_t number,
                                     const struct pith_ids *prompt, struct pith_error *err)
{
    struct pith_completion *a = &t->answer[number];
    const struct pith_request *r = &t->request;
    *a = (struct pith_completion){.ticket = t,
                                  .number = number,
                                  .sequence = PITH_NO_SEQUENCE,
                                  .stop_id = -1,
                                  .stop = -1,
                                  .stream = {.started = true, .special = r->special != 0}};
    pith_rng_seed(&a->rng, seed_of(r->seed, number));
    PITH_TRY(copy_ids(&a->ids, prompt, err));
    if (r->repetition != 1)
        for (size_t i = 0; i < prompt->count; i++)
            PITH_TRY(pith_counts_add(&a->counts, prompt->id[i], false, err));
    return PITH_OK;
}

enum pith_status pith_ticket_new(const struct pith_request *r, const struct pith_ids *prompt,
                                 size_t vocab, struct pith_ticket **out, struct pith_error *err)
{
    const uint32_t answers = r->best_of ? r->best_of : r->n;
    PITH_TRY(check(r, vocab, err));
    PITH_TRY(check_ids("the prompt", prompt->id, prompt->count, vocab, err));
    struct pith_ticket *t = pith_zalloc(1, sizeof *t);
    if (!t) return pith_fail_nomem(err, "a request");
    enum pith_status s = copy_request(t, r, err);
    if (s == PITH_OK) t->answer = pith_zalloc(answers, sizeof *t->answer);
    if (s == PITH_OK && !t->answer) s = pith_fail_nomem(err, "a request");
    for (; s == PITH_OK && t->answers < answers; t->answers++)
        s = begin_answer(t, t->answers, prompt, err);
    if (s != PITH_OK) {
        pith_ticket_free(t);
        return s;
    }
    t->prompt = prompt->count;
    t->scores = r->prompt_logprobs >= 0;
    t->usage.prompt = prompt->count;
    t->submitted = pith_clock();
    if (r->deadline > 0) t->until = t->submitted + r->deadline;
    *out = t;
    return PITH_OK;
}

static void answer_free(struct pith_completion *a)
{
    (void)pith_stream_end(&a->stream, &a->piece, NULL);
    pith_ids_free(&a->ids);
    pith_counts_free(&a->counts);
    pith_matcher_close(a->matcher);
    pith_tail_free(&a->tail);
    pith_str_free(&a->piece);
    pith_str_free(&a->text);
    tokens_free(&a->tokens);
}

void pith_ticket_free(struct pith_ticket *t)
{
    if (!t) return;
    for (uint32_t i = 0; t->answer && i < t->answers; i++) answer_free(&t->answer[i]);
    pith_form_give(t->form);
    tokens_free(&t->prompt_tokens);
    pith_free(t->answer);
    pith_free(t->memory);
    pith_free(t);
}

/* --- reporting -------------------------------------------------------------------------------- */

bool pith_ticket_holds(const struct pith_ticket *t)
{
    return t->answers > t->request.n;
}

bool pith_ticket_is_over(const struct pith_ticket *t)
{
    for (uint32_t i = 0; i < t->answers; i++)
        if (t->answer[i].state != PITH_ANSWER_IS_OVER) return false;
    return true;
}

static void send_event(const struct pith_ticket *t, struct pith_event *e)
{
    e->request = t->id;
    if (!e->text) e->text = "";
    if (t->request.event) t->request.event(t->request.ctx, e);
}

static void send_text(struct pith_completion *a, uint32_t choice)
{
    struct pith_event e = {.kind = PITH_EVENT_TEXT,
                           .choice = choice,
                           .text = pith_str_text(&a->text),
                           .text_size = a->text.len,
                           .token = event_tokens(&a->tokens),
                           .offset = a->tokens.offset,
                           .tokens = a->tokens.count,
                           .usage = a->ticket->usage};
    if (e.text_size > 0 || e.tokens > 0) send_event(a->ticket, &e);
    pith_str_clear(&a->text);
    tokens_clear(&a->tokens);
}

/* A token without text is reported too: listeners time tokens, not characters. */
void pith_completion_report(struct pith_completion *a)
{
    if (!pith_ticket_holds(a->ticket)) send_text(a, a->number);
}

static void send_choice(struct pith_completion *a, uint32_t choice)
{
    const struct pith_ticket *t = a->ticket;
    send_text(a, choice);
    send_event(t, &(struct pith_event){.kind = PITH_EVENT_CHOICE,
                                       .choice = choice,
                                       .finish = a->finish,
                                       .stop_id = a->stop_id,
                                       .stop = a->stop >= 0 ? t->stops.text[a->stop] : NULL});
}

static double mean_logprob(const struct pith_completion *a)
{
    return a->generated ? a->logprobs / (double)a->generated : -(double)INFINITY;
}

/* The n best of all, the best first; among equals the one that was begun first. */
static void send_best(struct pith_ticket *t)
{
    for (uint32_t rank = 0; rank < t->request.n; rank++) {
        struct pith_completion *best = NULL;
        for (uint32_t i = 0; i < t->answers; i++) {
            struct pith_completion *a = &t->answer[i];
            if (a->number != UINT32_MAX && (!best || mean_logprob(a) > mean_logprob(best)))
                best = a;
        }
        if (!best) return;
        send_choice(best, rank);
        best->number = UINT32_MAX;
    }
}

void pith_completion_report_end(struct pith_completion *a)
{
    struct pith_ticket *t = a->ticket;
    if (!pith_ticket_holds(t)) send_choice(a, a->number);
    if (!pith_ticket_is_over(t)) return;
    if (pith_ticket_holds(t)) send_best(t);
    const double now = pith_clock();
    t->usage.queued = (t->admitted > 0 ? t->admitted : now) - t->submitted;
    t->usage.first = t->first > 0 ? t->first - t->submitted : 0;
    t->usage.seconds = now - t->submitted;
    send_event(t, &(struct pith_event){.kind = PITH_EVENT_END, .usage = t->usage});
}

void pith_ticket_report_prompt(struct pith_ticket *t)
{
    t->prompt_sent = true;
    send_event(t, &(struct pith_event){.kind = PITH_EVENT_PROMPT,
                                       .text = pith_str_text(&t->answer[0].text),
                                       .text_size = t->answer[0].text.len,
                                       .token = event_tokens(&t->prompt_tokens),
                                       .offset = t->prompt_tokens.offset,
                                       .tokens = t->prompt_tokens.count});
    pith_str_clear(&t->answer[0].text);
    tokens_clear(&t->prompt_tokens);
}

void pith_ticket_fail(struct pith_ticket *t, const struct pith_error *error)
{
    for (uint32_t i = 0; i < t->answers; i++) t->answer[i].state = PITH_ANSWER_IS_OVER;
    send_event(t, &(struct pith_event){
                      .kind = PITH_EVENT_FAILED, .error = error, .status = error->status});
}
