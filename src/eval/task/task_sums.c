#include "eval/task/task_sums.h"

#include "base/mem.h"
#include "eval/stats.h"
#include "eval/task/free_answers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Some of the items: those of a subject, of the subjects of a category, or all. */
struct part {
    const struct pith_task_sums *sums;
    const char *category; /* NULL: any */
    size_t subject;       /* SIZE_MAX: any */
    double *loss, *other; /* [items]: work space */
};

static bool is_in(const struct part *p, const struct pith_item *item)
{
    const char *category = p->sums->source->subject[item->subject].category;
    if (p->subject != SIZE_MAX) return item->subject == p->subject;
    return !p->category || (category && strcmp(category, p->category) == 0);
}

static double score_of(const struct pith_items *items, const struct pith_task_answers *answers,
                       size_t choice, bool normalized)
{
    const size_t characters = items->choice[choice].characters;
    if (!normalized) return answers->score[choice];
    return characters ? answers->score[choice] / (double)characters : -INFINITY;
}

size_t pith_task_pick(const struct pith_items *items, const struct pith_item *item,
                      const struct pith_task_answers *answers, bool normalized)
{
    double best = -INFINITY;
    size_t pick = 0;
    for (size_t i = 0; i < item->count; i++) {
        const double score = score_of(items, answers, item->first + i, normalized);
        if (score > best) {
            best = score;
            pick = i;
        }
    }
    return pick;
}

/* How an answer is judged: by the sum, by the sum a character, by its tokens being the likeliest;
 * of generated text, BY_SUM by its form's rule, FLEXIBLY by the looser rule. */
enum rule { BY_SUM, BY_CHARACTERS, BY_TOKENS, FLEXIBLY };

static bool is_right(const struct pith_task_sums *s, const struct pith_item *item,
                     const struct pith_task_answers *answers, enum rule rule)
{
    const unsigned flags = s->source->form->flags;
    if (rule == FLEXIBLY) return answers->score[item->first] > 0;
    if (flags & (PITH_TASK_WORD | PITH_TASK_GENERATED)) return answers->greedy[item->first];
    if (rule == BY_TOKENS) return answers->greedy[item->first + item->answer];
    return pith_task_pick(s->items, item, answers, rule == BY_CHARACTERS) == item->answer;
}

/* The paired difference in right answers. */
static void compare(const struct part *p, enum rule rule, struct pith_accuracy *out)
{
    const struct pith_task_sums *s = p->sums;
    size_t lost = 0, won = 0, base_right = 0, n = 0;
    for (size_t i = 0; i < s->items->count; i++) {
        const struct pith_item *item = &s->items->item[i];
        if (!is_in(p, item)) continue;
        const bool own = is_right(s, item, s->model, rule);
        const bool base = is_right(s, item, s->baseline, rule);
        lost += base && !own;
        won += own && !base;
        base_right += base;
        p->loss[n++] = (double)base - (double)own;
    }
    struct pith_interval ci;
    double mean;
    pith_mean_ci95(p->loss, n, &mean, &ci);
    out->baseline = (double)base_right / (double)n;
    out->delta = ((double)won - (double)lost) / (double)n;
    out->delta_ci95 = (struct pith_interval){-ci.hi, -ci.lo};
    out->mcnemar_p = pith_mcnemar_p(lost, won);
    out->verdict = out->mcnemar_p < 0.05 ? pith_verdict_of(ci) : PITH_INDISTINGUISHABLE;
}

static void count(const struct part *p, enum rule rule, size_t *n, struct pith_accuracy *out)
{
    const struct pith_task_sums *s = p->sums;
    size_t right = 0;
    *n = 0;
    for (size_t i = 0; i < s->items->count; i++) {
        const struct pith_item *item = &s->items->item[i];
        if (!is_in(p, item)) continue;
        ++*n;
        right += is_right(s, item, s->model, rule);
    }
    out->accuracy = (double)right / (double)*n;
    pith_wilson_ci95(right, *n, &out->ci95);
    if (s->baseline) compare(p, rule, out);
}

/* Perplexity of whole words: e to the mean loss of a word's tokens, summed. */
static void sum_words(const struct part *p, struct pith_task_figures *f)
{
    const struct pith_task_sums *s = p->sums;
    size_t n = 0;
    for (size_t i = 0; i < s->items->count; i++) {
        const struct pith_item *item = &s->items->item[i];
        if (!is_in(p, item)) continue;
        p->loss[n] = -s->model->score[item->first];
        if (s->baseline) p->other[n] = p->loss[n] + s->baseline->score[item->first];
        n++;
    }
    double nll;
    const double se = pith_weighted_se(p->loss, NULL, n, &nll);
    f->perplexity = exp(nll);
    f->perplexity_se = f->perplexity * se;
    if (!s->baseline) return;
    pith_mean_ci95(p->other, n, &f->nll_delta, &f->nll_delta_ci95);
    f->baseline_perplexity = exp(nll - f->nll_delta);
    f->words_verdict = pith_verdict_of(f->nll_delta_ci95);
}

static void sum_part(const struct part *p, struct pith_task_figures *out)
{
    const unsigned flags = p->sums->source->form->flags;
    *out = (struct pith_task_figures){.normalized = flags & PITH_TASK_NORMALIZED,
                                      .words = flags & PITH_TASK_WORD,
                                      .made = flags & PITH_TASK_MADE,
                                      .flexible = flags & PITH_TASK_GENERATED &&
                                                  pith_saying_of(p->sums->source->form)->flexible,
                                      .has_baseline = p->sums->baseline};
    count(p, BY_SUM, &out->n, &out->plain);
    if (out->normalized) count(p, BY_CHARACTERS, &out->n, &out->norm);
    if (out->made) count(p, BY_TOKENS, &out->n, &out->exact);
    if (out->words) sum_words(p, out);
    if (out->flexible) count(p, FLEXIBLY, &out->n, &out->loose);
}

static bool is_new_category(const struct pith_task_source *s, size_t subject)
{
    const char *category = s->subject[subject].category;
    for (size_t i = 0; i < subject && category; i++)
        if (s->subject[i].category && strcmp(s->subject[i].category, category) == 0) return false;
    return category;
}

static void name_group(struct pith_task_group *g, const char *name, const char *category)
{
    snprintf(g->name, sizeof g->name, "%s", name);
    g->category = category;
}

/* Categories first, then subjects. */
static void sum_groups(struct part *p, struct pith_task_result *out)
{
    const struct pith_task_source *s = p->sums->source;
    for (size_t i = 0; i < s->subjects; i++) {
        if (!is_new_category(s, i)) continue;
        struct pith_task_group *g = &out->group[out->groups++];
        p->category = s->subject[i].category;
        name_group(g, p->category, NULL);
        sum_part(p, &g->figures);
    }
    for (p->subject = 0; p->subject < s->subjects; p->subject++) {
        struct pith_task_group *g = &out->group[out->groups++];
        name_group(g, s->subject[p->subject].name, s->subject[p->subject].category);
        g->depth = s->subject[p->subject].depth;
        sum_part(p, &g->figures);
    }
}

/* Items with a choice that adds no token: its sum of nothing is 0, which nothing can beat. */
static size_t count_undecided(const struct pith_items *items)
{
    size_t n = 0;
    for (size_t i = 0; i < items->count; i++) {
        bool empty = false;
        for (size_t k = 0; k < items->item[i].count; k++) {
            const struct pith_item_choice *c = &items->choice[items->item[i].first + k];
            empty = empty || c->score_from >= c->length;
        }
        n += empty;
    }
    return n;
}

enum pith_status pith_task_sum(const struct pith_task_sums *sums, struct pith_task_result *out,
                               struct pith_error *err)
{
    const struct pith_items *items = sums->items;
    const size_t subjects = sums->source->subjects;
    struct part p = {.sums = sums,
                     .subject = SIZE_MAX,
                     .loss = pith_alloc(items->count, sizeof *p.loss),
                     .other = pith_alloc(items->count, sizeof *p.other)};
    if (subjects > 1) out->group = pith_alloc(2 * subjects, sizeof *out->group);
    enum pith_status s = PITH_OK;
    if (!p.loss || !p.other || (subjects > 1 && !out->group))
        s = pith_fail_nomem(err, "the answers of a task");
    if (s == PITH_OK) {
        sum_part(&p, &out->all);
        if (subjects > 1) sum_groups(&p, out);
        if (!(sums->source->form->flags & PITH_TASK_GENERATED))
            out->undecided = count_undecided(items);
        for (size_t i = 0; i < items->count; i++) out->shortened += items->item[i].shortened;
    }
    pith_free(p.loss);
    pith_free(p.other);
    if (s != PITH_OK) pith_task_result_free(out);
    return s;
}

void pith_task_result_free(struct pith_task_result *r)
{
    pith_free(r->group);
    r->group = NULL;
    r->groups = 0;
}
