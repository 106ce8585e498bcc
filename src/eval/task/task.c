#include "eval/task/task.h"

#include "base/mem.h"
#include "eval/ranks_agree.h"
#include "eval/task/choices.h"
#include "eval/task/free_answers.h"
#include "eval/task/task_sums.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum pith_status make_answers(struct pith_task_answers *out, size_t count,
                                     struct pith_error *err)
{
    *out = (struct pith_task_answers){.score = pith_alloc(count, sizeof *out->score),
                                      .greedy = pith_alloc(count, sizeof *out->greedy),
                                      .count = count};
    if (out->score && out->greedy) return PITH_OK;
    pith_task_answers_free(out);
    return pith_fail_nomem(err, "the answers of a task");
}

void pith_task_answers_free(struct pith_task_answers *k)
{
    pith_free(k->score);
    pith_free(k->greedy);
    *k = (struct pith_task_answers){0};
}

/* The questions to answer, and where their progress begins and ends. */
struct answering {
    const struct pith_task_job *job;
    struct pith_model *model;
    const struct pith_items *items;
    size_t done, total;
};

/* One of the two is open. */
struct answerer {
    bool generates;
    struct pith_choices choices;
    struct pith_speaker speaker;
};

static enum pith_status open_answerer(const struct answering *a, struct answerer *w,
                                      struct pith_error *err)
{
    const bool own = a->model == a->job->model;
    const struct pith_scorer_options options = {.name = own ? "model" : "baseline",
                                                .exact = !own,
                                                .kv = own ? a->job->kv : pith_kv_floats(PITH_F32)};
    w->generates = a->items->source->form->flags & PITH_TASK_GENERATED;
    if (w->generates) return pith_speaker_open(&w->speaker, a->job, a->model, a->items, err);
    return pith_choices_init(&w->choices, a->items, a->model, a->job->backend, options, err);
}

static void close_answerer(struct answerer *w)
{
    if (w->generates) pith_speaker_close(&w->speaker);
    else pith_choices_free(&w->choices);
}

/* The items of this rank; the others answer as many meanwhile. */
static enum pith_status answer_own(const struct answering *a, struct answerer *w,
                                   struct pith_task_answers *out, struct pith_error *err)
{
    struct pith_ranks *r = a->job->ranks;
    const unsigned own = pith_ranks_own(r);
    const size_t from = pith_ranks_from(r, own, a->items->count);
    const size_t to = pith_ranks_from(r, own + 1, a->items->count);
    for (size_t i = from; i < to; i++) {
        const struct pith_item *item = &a->items->item[i];
        const double part = (double)(i + 1 - from) / (double)(to - from);
        PITH_TRY(w->generates ? pith_speaker_answer(&w->speaker, item, out, err)
                              : pith_choices_answer(&w->choices, item, out, err));
        PITH_TRY(pith_progress_step(a->job->progress, "answering",
                                    (double)a->done + part * (double)a->items->count,
                                    (double)a->total, err));
    }
    return PITH_OK;
}

/* Number of the first choice of an item, or of all choices behind the last. */
static size_t choices_before(const struct pith_items *items, size_t item)
{
    return item < items->count ? items->item[item].first : items->choices;
}

/* Of an array of the choices' answers, `size` bytes each, what each rank found of its items becomes
 * everyone's. */
static enum pith_status share(const struct answering *a, void *answers, size_t size,
                              struct pith_error *err)
{
    struct pith_ranks *r = a->job->ranks;
    const unsigned count = pith_ranks_count(r);
    size_t *edges = pith_alloc(count + 1, sizeof *edges);
    if (!edges) return pith_fail_nomem(err, "whose items are whose");
    for (unsigned i = 0; i <= count; i++)
        edges[i] = choices_before(a->items, pith_ranks_from(r, i, a->items->count)) * size;
    const enum pith_status s = pith_ranks_share_runs(r, answers, edges, err);
    pith_free(edges);
    return s;
}

enum pith_status pith_task_answer(const struct pith_task_job *job, struct pith_model *model,
                                  const struct pith_items *items, size_t done, size_t total,
                                  struct pith_task_answers *out, struct pith_error *err)
{
    const struct answering a = {job, model, items, done, total};
    struct answerer w;
    PITH_TRY(make_answers(out, items->choices, err));
    enum pith_status s = open_answerer(&a, &w, err);
    if (s == PITH_OK) {
        s = answer_own(&a, &w, out, err);
        close_answerer(&w);
    }
    if (s == PITH_OK) s = share(&a, out->score, sizeof *out->score, err);
    if (s == PITH_OK) s = share(&a, out->greedy, sizeof *out->greedy, err);
    if (s != PITH_OK) pith_task_answers_free(out);
    return s;
}

/* "arithmetic" of "tasks/arithmetic.jsonl", "mmlu" of "tasks/mmlu/", "piqa" of
 * "piqa/valid.jsonl". */
static void name_task(const char *path, const char *form, char *name, size_t size)
{
    static const char *const splits[] = {"valid", "validation", "val", "test", "tests", "dev"};
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t at = n;
    while (at && path[at - 1] != '/' && path[at - 1] != ':') at--;
    snprintf(name, size, "%.*s", (int)(n - at < size ? n - at : size - 1), path + at);
    for (int i = 0; i < 2; i++) { /* .txt.bz2 */
        char *dot = strrchr(name, '.');
        const bool packed = dot && pith_task_text_packed(name);
        if (dot && dot != name) *dot = '\0';
        if (!packed) break;
    }
    for (size_t i = 0; i < PITH_COUNT(splits); i++)
        if (strcmp(name, splits[i]) == 0) snprintf(name, size, "%s", form);
}

enum pith_status pith_task_items(const struct pith_task_job *job, struct pith_task_source *source,
                                 struct pith_items *items, struct pith_error *err)
{
    size_t most = job->model->shape.max_position;
    if (job->baseline && job->baseline->shape.max_position < most)
        most = job->baseline->shape.max_position;
    const struct pith_task_wish wish = {.path = job->path,
                                        .limit = job->limit,
                                        .shots = job->shots,
                                        .length = job->length,
                                        .most = most,
                                        .seed = job->seed,
                                        .tokenizer = job->tokenizer};
    const struct pith_item_rules rules = {job->path, job->tokenizer, job->shots,
                                          most,      job->progress,  job->chat};
    PITH_TRY(pith_task_source_open(&wish, source, err));
    enum pith_status s = pith_saying_may(source->form, job->path, job->run_code, err);
    if (s == PITH_OK) s = pith_items_make(source, &rules, items, err);
    if (s != PITH_OK) pith_task_source_free(source);
    return s;
}

static enum pith_status agree(const struct pith_task_job *job, const struct pith_items *items,
                              struct pith_error *err)
{
    const struct pith_measured is = {.model = job->model,
                                     .baseline = job->baseline,
                                     .kv = &job->kv,
                                     .ids = items->ids.id,
                                     .count = items->ids.count,
                                     .cut = items->choice,
                                     .cut_bytes = items->choices * sizeof *items->choice};
    return pith_eval_agree(job->ranks, &is, err);
}

/* Both models' answers: the baseline's are those of an earlier job where they are cached. */
static enum pith_status run_task(const struct pith_task_job *job, struct pith_task_sums *sums,
                                 struct pith_task_result *out, struct pith_error *err)
{
    const struct pith_items *items = sums->items;
    const bool known = job->baseline && job->cached && job->cached->count == items->choices;
    const size_t total = items->count * (job->baseline && !known ? 2 : 1);
    struct pith_task_answers own = {0}, base = {0};
    enum pith_status s = pith_task_answer(job, job->model, items, 0, total, &own, err);
    if (s == PITH_OK && job->baseline && !known)
        s = pith_task_answer(job, job->baseline, items, items->count, total, &base, err);
    sums->model = &own;
    sums->baseline = job->baseline ? (known ? job->cached : &base) : NULL;
    if (s == PITH_OK) s = pith_task_sum(sums, out, err);
    if (s == PITH_OK && job->cached && !job->baseline) {
        pith_task_answers_free(job->cached);
        *job->cached = own;
        own = (struct pith_task_answers){0};
    }
    pith_task_answers_free(&own);
    pith_task_answers_free(&base);
    return s;
}

enum pith_status pith_eval_task(const struct pith_task_job *job, struct pith_task_result *out,
                                struct pith_error *err)
{
    *out = (struct pith_task_result){0};
    const struct pith_shape *m = &job->model->shape;
    if (job->baseline && job->baseline->shape.vocab != m->vocab)
        return pith_fail(err, PITH_ARG,
                         "the baseline has %u tokens in its vocabulary, the model %u",
                         job->baseline->shape.vocab, m->vocab);
    struct pith_task_source source;
    struct pith_items items;
    PITH_TRY(pith_task_items(job, &source, &items, err));
    out->form = source.form->name;
    out->length = source.length;
    out->seed = job->seed;
    if (source.length) snprintf(out->name, sizeof out->name, "%s", out->form);
    else name_task(job->path, out->form, out->name, sizeof out->name);
    out->shots = job->shots;
    out->chat = job->chat != NULL;
    struct pith_task_sums sums = {.source = &source, .items = &items};
    enum pith_status s = agree(job, &items, err);
    if (s == PITH_OK) s = run_task(job, &sums, out, err);
    pith_items_free(&items);
    pith_task_source_free(&source);
    if (s != PITH_OK) pith_task_result_free(out);
    return s;
}
