#include "eval/task/choices.h"

#include "base/mem.h"
#include "eval/divergence.h"

#include <string.h>

/* Whether a choice has tokens behind its context that are scored. */
static bool is_scored(const struct pith_item_choice *c)
{
    return c->score_from < c->length;
}

/* How many tokens all sequences of an item begin with, of those that are read: the last token of a
 * sequence is only predicted. */
static size_t shared_tokens(const struct pith_items *items, const struct pith_item *item)
{
    size_t shared = SIZE_MAX;
    for (size_t i = 0; i < item->count; i++) {
        const struct pith_item_choice *c = &items->choice[item->first + i];
        if (i > 0 && c->shared < shared) shared = c->shared;
        if (is_scored(c) && c->length - 1 < shared) shared = c->length - 1;
    }
    return shared;
}

static size_t tail_tokens(const struct pith_items *items, const struct pith_item *item)
{
    const size_t shared = shared_tokens(items, item);
    size_t tails = 0;
    for (size_t i = 0; i < item->count; i++) {
        const struct pith_item_choice *c = &items->choice[item->first + i];
        if (is_scored(c)) tails += c->length - 1 - shared;
    }
    return tails;
}

enum pith_status pith_choices_init(struct pith_choices *c, const struct pith_items *items,
                                   struct pith_model *model, struct pith_backend *be,
                                   struct pith_scorer_options options, struct pith_error *err)
{
    *c = (struct pith_choices){.items = items};
    for (size_t i = 0; i < items->count; i++) {
        const size_t tails = tail_tokens(items, &items->item[i]);
        if (tails > c->tails) c->tails = tails;
        if (items->item[i].count > c->most) c->most = items->item[i].count;
    }
    options.capacity = items->longest;
    options.forks = (uint32_t)c->most;
    options.forked = c->tails;
    PITH_TRY(pith_scorer_init(&c->scorer, model, be, &options, err));
    const size_t room = items->longest + c->tails;
    c->ids = pith_alloc(room, sizeof *c->ids);
    c->x = pith_alloc(room, (size_t)model->shape.hidden * sizeof *c->x);
    c->span = pith_alloc(c->most, sizeof *c->span);
    c->first = pith_alloc(2 * c->most, sizeof *c->first);
    if (c->ids && c->x && c->span && c->first) {
        c->row = c->first + c->most;
        return PITH_OK;
    }
    pith_choices_free(c);
    return pith_fail_nomem(err, "the choices of a task");
}

void pith_choices_free(struct pith_choices *c)
{
    pith_scorer_free(&c->scorer);
    pith_free(c->ids);
    pith_free(c->x);
    pith_free(c->span);
    pith_free(c->first);
    *c = (struct pith_choices){0};
}

/* A token at a row of the last logits. */
static void add_token(const struct pith_scorer *s, size_t row, int32_t id, double *score,
                      bool *greedy)
{
    const size_t vocab = s->model->shape.vocab;
    *score -= pith_scorer_nll(s, row, id);
    *greedy = *greedy && pith_argmax(s->logits + row * vocab, vocab) == (size_t)id;
}

/* The session keeps what sequences share (the prompt, and any introduction that items have in
 * common), so it is read once. */
static enum pith_status answer_one(struct pith_choices *c, const struct pith_item_choice *choice,
                                   double *score, bool *greedy, struct pith_error *err)
{
    struct pith_scorer *s = &c->scorer;
    if (!is_scored(choice)) return PITH_OK;
    pith_items_sequence(c->items, choice, c->ids);
    PITH_TRY(pith_scorer_read(s, c->ids, choice->length - 1, err));
    for (size_t from = choice->score_from; from < choice->length; from += s->rows) {
        const size_t left = choice->length - from, n = left < s->rows ? left : s->rows;
        PITH_TRY(pith_scorer_logits(s, from - 1, n, err));
        for (size_t i = 0; i < n; i++) add_token(s, i, c->ids[from + i], score, greedy);
    }
    return PITH_OK;
}

/* Where an item's rows are: those of positions base .. shared - 1, which its choices have in
 * common, and behind them those of each choice alone, which begin at c->row. */
struct placed {
    size_t base, shared, rows;
};

static enum pith_status read_forks(struct pith_choices *c, const struct pith_item *item,
                                   struct placed *p, struct pith_error *err)
{
    const size_t hidden = c->scorer.model->shape.hidden, longest = c->items->longest;
    const struct pith_item_choice *choice = &c->items->choice[item->first];
    size_t spans = 0;
    *p = (struct placed){.shared = shared_tokens(c->items, item)};
    p->base = p->shared;
    for (size_t i = 0; i < item->count; i++)
        if (is_scored(&choice[i]) && choice[i].score_from - 1 < p->base)
            p->base = choice[i].score_from - 1;
    const size_t common = p->shared - p->base;
    p->rows = common;
    for (size_t i = 0; i < item->count; i++) {
        if (!is_scored(&choice[i])) continue;
        const size_t n = choice[i].length - 1 - p->shared;
        int32_t *tail = c->ids + longest + p->rows - common;
        pith_items_sequence(c->items, &choice[i], c->ids);
        memcpy(tail, c->ids + p->shared, n * sizeof *tail);
        c->row[i] = p->rows;
        if (n > 0)
            c->span[spans++] =
                (struct pith_step_span){.ids = tail, .n = n, .x = c->x + p->rows * hidden};
        p->rows += n;
    }
    pith_items_sequence(c->items, &choice[0], c->ids);
    PITH_TRY(pith_scorer_read(&c->scorer, c->ids, p->shared, err));
    memcpy(c->x, c->scorer.hidden + p->base * hidden, common * hidden * sizeof *c->x);
    return spans ? pith_scorer_fork(&c->scorer, c->span, spans, err) : PITH_OK;
}

/* Adds the tokens of choice i whose rows are among the last logits, which begin at row `from`. */
static void add_tokens(struct pith_choices *c, const struct pith_item *item, size_t i,
                       const struct placed *p, const struct pith_span *last,
                       struct pith_task_answers *out)
{
    const struct pith_item_choice *choice = &c->items->choice[item->first + i];
    for (; c->first[i] < choice->length; c->first[i]++) {
        const size_t k = c->first[i], before = k - 1;
        const size_t row = before < p->shared ? before - p->base : c->row[i] + before - p->shared;
        if (row < last->at || row - last->at >= last->size) return;
        const size_t at = k < choice->shared ? choice->head + k : choice->tail + k - choice->shared;
        add_token(&c->scorer, row - last->at, c->items->ids.id[at], &out->score[item->first + i],
                  &out->greedy[item->first + i]);
    }
}

static enum pith_status answer_together(struct pith_choices *c, const struct pith_item *item,
                                        struct pith_task_answers *out, struct pith_error *err)
{
    struct pith_scorer *s = &c->scorer;
    struct placed p;
    PITH_TRY(read_forks(c, item, &p, err));
    pith_scorer_recall(s, c->x, 0);
    for (size_t i = 0; i < item->count; i++)
        c->first[i] = c->items->choice[item->first + i].score_from;
    for (size_t from = 0; from < p.rows; from += s->rows) {
        const size_t left = p.rows - from;
        const struct pith_span last = {from, left < s->rows ? left : s->rows};
        PITH_TRY(pith_scorer_logits(s, from, last.size, err));
        for (size_t i = 0; i < item->count; i++) add_tokens(c, item, i, &p, &last, out);
    }
    return PITH_OK;
}

enum pith_status pith_choices_answer(struct pith_choices *c, const struct pith_item *item,
                                     struct pith_task_answers *out, struct pith_error *err)
{
    const struct pith_item_choice *choice = &c->items->choice[item->first];
    size_t scored = 0;
    for (size_t i = 0; i < item->count; i++) {
        out->score[item->first + i] = 0;
        out->greedy[item->first + i] = true;
        scored += is_scored(&choice[i]);
    }
    if (scored > 1 && !c->scorer.session.runner.apart) return answer_together(c, item, out, err);
    for (size_t i = 0; i < item->count; i++)
        PITH_TRY(answer_one(c, &choice[i], &out->score[item->first + i],
                            &out->greedy[item->first + i], err));
    return PITH_OK;
}
