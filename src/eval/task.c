#include "eval/task.h"

#include "base/mem.h"
#include "eval/choices.h"
#include "eval/said.h"
#include "eval/task_sums.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static enum pith_status make_answers(struct pith_kept_task *out, size_t count,
                                     struct pith_error *err)
{
    *out = (struct pith_kept_task){.score = pith_alloc(count, sizeof *out->score),
                                   .greedy = pith_alloc(count, sizeof *out->greedy),
                                   .count = count};
    if (out->score && out->greedy) return PITH_OK;
    pith_kept_task_free(out);
    return pith_fail_nomem(err, "the answers of a task");
}

void pith_kept_task_free(struct pith_kept_task *k)
{
    pith_free(k->score);
    pith_free(k->greedy);
    *k = (struct pith_kept_task){0};
}

/* What is asked, and where its progress begins and ends. */
struct asked {
    const struct pith_task_job *job;
    const struct pith_items *items;
    size_t done, total;
};

static enum pith_status choose(const struct asked *a, struct pith_model *model,
                               struct pith_kept_task *out, struct pith_error *err)
{
    struct pith_choices c;
    const bool own = model == a->job->model;
    const struct pith_scorer_options options = {.name = own ? "model" : "baseline",
                                                .exact = !own,
                                                .kv = own ? a->job->kv : pith_kv_floats(PITH_F32)};
    PITH_TRY(pith_choices_init(&c, a->items, model, a->job->backend, options, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < a->items->count && s == PITH_OK; i++) {
        s = pith_choices_answer(&c, &a->items->item[i], out, err);
        if (s == PITH_OK)
            s = pith_progress_step(a->job->progress, "answering", (double)(a->done + i + 1),
                                   (double)a->total, err);
    }
    pith_choices_free(&c);
    return s;
}

static enum pith_status say(const struct asked *a, struct pith_model *model,
                            struct pith_kept_task *out, struct pith_error *err)
{
    struct pith_speaker speaker;
    PITH_TRY(pith_speaker_open(&speaker, a->job, model, a->items, err));
    const enum pith_status s = pith_speaker_answer(&speaker, a->done, a->total, out, err);
    pith_speaker_close(&speaker);
    return s;
}

enum pith_status pith_task_answer(const struct pith_task_job *job, struct pith_model *model,
                                  const struct pith_items *items, size_t done, size_t total,
                                  struct pith_kept_task *out, struct pith_error *err)
{
    const struct asked a = {job, items, done, total};
    PITH_TRY(make_answers(out, items->choices, err));
    const bool said = items->source->form->flags & PITH_TASK_SAID;
    const enum pith_status s = said ? say(&a, model, out, err) : choose(&a, model, out, err);
    if (s != PITH_OK) pith_kept_task_free(out);
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

/* Both models' answers: the baseline's are those of an earlier job where they are kept. */
static enum pith_status run_task(const struct pith_task_job *job, struct pith_task_sums *sums,
                                 struct pith_task_result *out, struct pith_error *err)
{
    const struct pith_items *items = sums->items;
    const bool known = job->baseline && job->kept && job->kept->count == items->choices;
    const size_t total = items->count * (job->baseline && !known ? 2 : 1);
    struct pith_kept_task own = {0}, base = {0};
    enum pith_status s = pith_task_answer(job, job->model, items, 0, total, &own, err);
    if (s == PITH_OK && job->baseline && !known)
        s = pith_task_answer(job, job->baseline, items, items->count, total, &base, err);
    sums->model = &own;
    sums->baseline = job->baseline ? (known ? job->kept : &base) : NULL;
    if (s == PITH_OK) s = pith_task_sum(sums, out, err);
    if (s == PITH_OK && job->kept && !job->baseline) {
        pith_kept_task_free(job->kept);
        *job->kept = own;
        own = (struct pith_kept_task){0};
    }
    pith_kept_task_free(&own);
    pith_kept_task_free(&base);
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
    const enum pith_status s = run_task(job, &sums, out, err);
    pith_items_free(&items);
    pith_task_source_free(&source);
    if (s != PITH_OK) pith_task_result_free(out);
    return s;
}
