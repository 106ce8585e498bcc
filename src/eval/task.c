#include "eval/eval.h"

#include "base/mem.h"
#include "eval/items.h"
#include "eval/scorer.h"
#include "eval/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Summed log-probability of a choice's tokens. The session keeps what sequences share (the
 * context, and any introduction that items have in common), so it is read once. */
static enum pith_status score_choice(struct pith_scorer *s, const int32_t *ids,
                                     const struct pith_item_choice *c, double *score,
                                     struct pith_error *err)
{
    *score = 0;
    if (c->score_from >= c->length) return PITH_OK;
    PITH_TRY(pith_scorer_read(s, ids, c->length, err));
    for (size_t from = c->score_from; from < c->length; from += s->rows) {
        const size_t left = c->length - from, n = left < s->rows ? left : s->rows;
        PITH_TRY(pith_scorer_logits(s, from - 1, n, err));
        for (size_t i = 0; i < n; i++) *score -= pith_scorer_nll(s, i, ids[from + i]);
    }
    return PITH_OK;
}

static enum pith_status answer_item(struct pith_scorer *s, const struct pith_items *items,
                                    size_t index, bool *right, struct pith_error *err)
{
    const struct pith_item *item = &items->item[index];
    double best = -INFINITY;
    size_t pick = 0;
    for (size_t i = 0; i < item->count; i++) {
        const struct pith_item_choice *c = &items->choice[item->first + i];
        double score;
        PITH_TRY(score_choice(s, items->ids.id + c->first, c, &score, err));
        if (score > best) {
            best = score;
            pick = i;
        }
    }
    *right = pick == item->answer;
    return PITH_OK;
}

/* What the baseline said of the very items, from an earlier job; NULL when it must be asked. */
static const bool *recall(const struct pith_task_job *job, size_t items)
{
    return job->baseline && job->kept && job->kept->count == items ? job->kept->right : NULL;
}

/* right[i]: the model picks the answer of item i. Progress counts done .. done + items of
 * `total`. */
static enum pith_status answer_all(const struct pith_task_job *job, struct pith_model *model,
                                   const char *name, const struct pith_items *items, bool *right,
                                   struct pith_error *err)
{
    const bool both = job->baseline && !recall(job, items->count);
    const double total = (double)items->count * (both ? 2 : 1);
    const double done = model == job->model ? 0 : (double)items->count;
    struct pith_scorer s;
    const bool own = model == job->model;
    const struct pith_scorer_options options = {.name = name,
                                                .capacity = items->longest,
                                                .half_cache = job->half_cache && own,
                                                .exact = !own,
                                                .kv_grid = own ? job->kv_grid
                                                               : (struct pith_grid){0}};
    PITH_TRY(pith_scorer_init(&s, model, job->backend, &options, err));
    enum pith_status status = PITH_OK;
    for (size_t i = 0; i < items->count && status == PITH_OK; i++) {
        status = answer_item(&s, items, i, &right[i], err);
        if (status == PITH_OK)
            status =
                pith_progress_step(job->progress, "answering", done + (double)i + 1, total, err);
    }
    pith_scorer_free(&s);
    return status;
}

static enum pith_status compare(const bool *model, const bool *base, struct pith_task_result *out,
                                struct pith_error *err)
{
    double *loss = pith_alloc(out->n, sizeof *loss);
    if (!loss) return pith_fail_nomem(err, "the answers of a task");
    size_t lost = 0, won = 0, base_right = 0;
    for (size_t i = 0; i < out->n; i++) {
        lost += base[i] && !model[i];
        won += model[i] && !base[i];
        base_right += base[i];
        loss[i] = (double)base[i] - (double)model[i];
    }
    struct pith_interval ci;
    double mean;
    pith_mean_ci95(loss, out->n, &mean, &ci);
    pith_free(loss);
    out->has_baseline = true;
    out->baseline_accuracy = (double)base_right / (double)out->n;
    out->delta = ((double)won - (double)lost) / (double)out->n;
    out->delta_ci95 = (struct pith_interval){-ci.hi, -ci.lo};
    out->mcnemar_p = pith_mcnemar_p(lost, won);
    out->verdict = out->mcnemar_p < 0.05 ? pith_verdict_of(ci) : PITH_INDISTINGUISHABLE;
    return PITH_OK;
}

/* "arithmetic" of "tasks/arithmetic.jsonl". */
static void name_task(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : path);
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = '\0';
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

static enum pith_status keep(struct pith_kept_task *k, const bool *right, size_t n,
                             struct pith_error *err)
{
    pith_kept_task_free(k);
    k->right = pith_alloc(n, sizeof *right);
    if (!k->right) return pith_fail_nomem(err, "the answers of a task");
    memcpy(k->right, right, n * sizeof *right);
    k->count = n;
    return PITH_OK;
}

static enum pith_status run_task(const struct pith_task_job *job, const struct pith_items *items,
                                 bool *right, struct pith_task_result *out, struct pith_error *err)
{
    bool *base_right = right + items->count;
    PITH_TRY(answer_all(job, job->model, "model", items, right, err));
    const bool *known = recall(job, items->count);
    if (known) memcpy(base_right, known, items->count * sizeof *known);
    else if (job->baseline)
        PITH_TRY(answer_all(job, job->baseline, "baseline", items, base_right, err));
    else if (job->kept) PITH_TRY(keep(job->kept, right, items->count, err));
    size_t k = 0;
    for (size_t i = 0; i < items->count; i++) k += right[i];
    out->n = items->count;
    out->undecided = count_undecided(items);
    out->accuracy = (double)k / (double)items->count;
    pith_wilson_ci95(k, items->count, &out->accuracy_ci95);
    return job->baseline ? compare(right, base_right, out, err) : PITH_OK;
}

enum pith_status pith_eval_task(const struct pith_task_job *job, struct pith_task_result *out,
                                struct pith_error *err)
{
    *out = (struct pith_task_result){0};
    name_task(job->path, out->name, sizeof out->name);
    const struct pith_shape *m = &job->model->shape;
    if (job->baseline && job->baseline->shape.vocab != m->vocab)
        return pith_fail(err, PITH_ARG,
                         "the baseline has %u tokens in its vocabulary, the model %u",
                         job->baseline->shape.vocab, m->vocab);
    size_t most = m->max_position;
    if (job->baseline && job->baseline->shape.max_position < most)
        most = job->baseline->shape.max_position;
    struct pith_items items;
    const struct pith_item_rules rules = {job->path, job->tokenizer, job->limit, most};
    PITH_TRY(pith_items_read(&rules, &items, err));
    bool *right = pith_alloc(items.count, 2 * sizeof *right);
    enum pith_status s = right ? PITH_OK : pith_fail_nomem(err, "the answers of a task");
    if (s == PITH_OK) s = run_task(job, &items, right, out, err);
    pith_free(right);
    pith_items_free(&items);
    return s;
}
