/* One model, or a model and its baseline, through texts, tasks and prompts to a report. */
#include "eval/measurement.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/names.h"
#include "eval/details.h"
#include "eval/labels.h"
#include "eval/ranks_agree.h"
#include "eval/scorer.h"
#include "eval/task/free_answers.h"
#include "eval/task/prompts.h"
#include "eval/task/questions.h"
#include "model/totals.h"

#include <stdio.h>
#include <string.h>

/* The cache of what the baseline of pith_compare() made of the texts, for all models. */
#define CACHED_BYTES ((size_t)256 << 20)

void pith_measurement_cache_name(const struct pith_measurement *m, char text[PITH_KV_TEXT])
{
    const bool chosen = m->kv.layer && m->cache && strlen(m->cache) < PITH_KV_TEXT &&
                        pith_name_option(m->cache, "auto");
    if (chosen) strcpy(text, m->cache);
    else pith_kv_name(&m->kv, text);
}

/* As --attn takes it. */
static void attn_name(const struct pith_input *in, char *text, size_t size)
{
    const bool by_token = in->grid.granularity == PITH_PER_TOKEN;
    snprintf(text, size, "%s%s", in->grid.format->name, by_token ? ":token" : "");
}

size_t pith_measurement_window(const struct pith_measurement *m)
{
    const size_t most = m->model->shape.max_position;
    const size_t usual = m->convention == PITH_CONVENTION_LLAMACPP ? 512 : 2048;
    const size_t want = m->options->context ? m->options->context : usual;
    return want < most ? want : most;
}

/* What windows begin with, where the convention wants BOS; -1: with nothing. */
static int32_t bos_of(const struct pith_measurement *m)
{
    const bool only_added = pith_convention_bos(m->convention) == PITH_BOS_IF_ADDED;
    if (only_added && !pith_tokenizer_adds_bos(m->tokenizer)) return -1;
    return pith_tokenizer_bos(m->tokenizer);
}

struct pith_text_job pith_measurement_text_job(const struct pith_measurement *m)
{
    return (struct pith_text_job){
        .backend = m->backend,
        .model = m->model,
        .baseline = m->baseline,
        .kv = m->kv,
        .bos = bos_of(m),
        .convention = m->convention,
        .context = m->window,
        .stride = m->options->stride ? m->options->stride : m->window / 2,
        .max_tokens = m->options->max_tokens,
        .progress = &m->options->progress,
    };
}

static enum pith_status agree(const struct pith_text_job *job, struct pith_error *err)
{
    const size_t cut[] = {job->context, job->stride, job->max_tokens, (size_t)job->convention};
    const struct pith_measured is = {.model = job->model,
                                     .baseline = job->baseline,
                                     .kv = &job->kv,
                                     .ids = job->ids,
                                     .count = job->count,
                                     .cut = cut,
                                     .cut_bytes = sizeof cut};
    return pith_eval_agree(job->ranks, &is, err);
}

/* The text's ids, and what is to be known of it and its numbers. */
static enum pith_status read_text(const struct pith_measurement *m, struct pith_result_text *out,
                                  struct pith_ids *ids, struct pith_error *err)
{
    struct pith_newlines newlines = m->newlines;
    struct pith_text text;
    PITH_TRY(pith_text_open(out->path, &newlines, &text, err));
    pith_tokenizer_listen(m->tokenizer, &m->options->progress);
    if (m->options->details) (void)pith_sha256_hex(text.data, text.size, out->sha256);
    enum pith_status s = pith_tokenizer_encode(m->tokenizer, text.data, text.size, true, ids, err);
    s = pith_text_finish(&text, out->path, s, err);
    out->crlf_lines = newlines.crlf;
    out->crlf = newlines.lf ? "lf" : "keep";
    return s;
}

static enum pith_status add_details(const struct pith_measurement *m,
                                    const struct pith_profile *profile, const struct pith_ids *ids,
                                    struct pith_result_text *out, struct pith_error *err)
{
    if (!m->options->details || !m->baseline) return PITH_OK;
    out->details = pith_report_new();
    return out->details ? pith_details_text(out->details, profile, m->tokenizer, ids, err)
                        : pith_fail_nomem(err, out->path);
}

/* A text that is read; its numbers. */
static enum pith_status score_text(const struct pith_measurement *m, size_t index,
                                   const struct pith_ids *ids, struct pith_result_text *out,
                                   struct pith_error *err)
{
    struct pith_profile profile = {0};
    struct pith_text_job job = pith_measurement_text_job(m);
    job.ids = ids->id;
    job.count = ids->count;
    job.cached = m->cached_texts ? &m->cached_texts[index] : NULL;
    job.ranks = m->ranks;
    if (m->options->details) job.watch = (struct pith_position_watch){pith_profile_see, &profile};
    PITH_TRY(pith_convention_check(job.convention, job.context, job.stride, err));
    enum pith_status s = agree(&job, err);
    if (s == PITH_OK) s = pith_eval_text(&job, &out->result, err);
    if (s == PITH_OK) s = add_details(m, &profile, ids, out, err);
    /* With options that can be followed, it is the text or the model that cannot be scored. */
    return s == PITH_ARG ? pith_fail_as(err, PITH_FORMAT, out->path) : s;
}

/* Windows that lack the BOS that the tokenizer adds in front of a text. */
static size_t without_bos(const struct pith_measurement *m, const struct pith_text_result *t)
{
    const bool cut = pith_convention_bos(m->convention) == PITH_BOS_OF_TEXT;
    return cut && t->windows && pith_tokenizer_adds_bos(m->tokenizer) ? t->windows - 1 : 0;
}

static enum pith_status measure_text(const struct pith_measurement *m, size_t index,
                                     struct pith_result_text *out, struct pith_error *err)
{
    struct pith_ids ids = {0};
    out->path = m->options->texts.item[index];
    out->convention = m->convention;
    out->context = m->window;
    out->depth = m->options->depth != 0;
    enum pith_status s = read_text(m, out, &ids, err);
    if (s == PITH_OK) s = score_text(m, index, &ids, out, err);
    pith_ids_free(&ids);
    if (s != PITH_OK) return pith_fail_in(err, s, out->path);
    out->without_bos = without_bos(m, &out->result);
    out->label = pith_label(&m->options->texts, index);
    return out->label ? PITH_OK : pith_fail_nomem(err, out->path);
}

static enum pith_status measure_task(const struct pith_measurement *m, size_t index,
                                     struct pith_task_result *out, struct pith_error *err)
{
    const char *path = m->options->tasks.item[index];
    const struct pith_task_job job = {
        .backend = m->backend,
        .model = m->model,
        .baseline = m->baseline,
        .kv = m->kv,
        .tokenizer = m->tokenizer,
        .path = path,
        .limit = m->options->task_limit,
        .shots = m->options->shots,
        .chat = m->chat,
        .length = m->options->task_length,
        .seed = m->options->task_seed,
        .run_code = m->options->run_code != 0,
        .cached = m->cached_tasks ? &m->cached_tasks[index] : NULL,
        .ranks = m->ranks,
        .progress = &m->options->progress,
    };
    return pith_eval_task(&job, out, err);
}

static enum pith_status measure_prompts(const struct pith_measurement *m, struct pith_results *out,
                                        struct pith_error *err)
{
    const struct pith_prompts_job job = {
        .backend = m->backend,
        .model = m->model,
        .baseline = m->baseline,
        .kv = m->kv,
        .tokenizer = m->tokenizer,
        .path = m->options->prompts,
        .ranks = m->ranks,
        .progress = &m->options->progress,
    };
    if (!job.path || !m->baseline) return PITH_OK;
    PITH_TRY(pith_eval_prompts(&job, &out->prompts, err));
    out->prompts_file = job.path;
    return PITH_OK;
}

enum pith_status pith_measurement_check_tasks(const struct pith_measurement *m,
                                              struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    bool runs = false;
    for (size_t i = 0; i < o->tasks.count; i++) {
        struct pith_task_source source;
        const struct pith_task_wish wish = {.path = o->tasks.item[i],
                                            .limit = o->task_limit,
                                            .shots = o->shots,
                                            .length = o->task_length,
                                            .most = m->shortest};
        PITH_TRY(pith_task_source_open(&wish, &source, err));
        runs = runs || source.form->flags & PITH_TASK_RUN;
        const enum pith_status s =
            pith_saying_may(source.form, o->tasks.item[i], o->run_code != 0, err);
        pith_task_source_free(&source);
        if (s != PITH_OK) return s;
    }
    if (!o->run_code || runs) return PITH_OK;
    return pith_fail(err, PITH_ARG, "`run_code` does nothing: no task is answered by programs");
}

enum pith_status pith_measurement_keep(struct pith_measurement *m, struct pith_error *err)
{
    const size_t texts = m->options->texts.count, tasks = m->options->tasks.count;
    m->cached_texts = pith_zalloc(texts, sizeof *m->cached_texts);
    m->cached_tasks = pith_zalloc(tasks, sizeof *m->cached_tasks);
    if (!m->cached_texts || !m->cached_tasks) return pith_fail_nomem(err, "the baseline's answers");
    for (size_t i = 0; i < texts; i++)
        m->cached_texts[i] = (struct pith_cached_text){
            .most = CACHED_BYTES / texts, .folder = m->folder, .number = (unsigned)i};
    return PITH_OK;
}

void pith_measurement_free_cached(struct pith_measurement *m)
{
    for (size_t i = 0; m->cached_texts && i < m->options->texts.count; i++)
        pith_cached_text_free(&m->cached_texts[i]);
    for (size_t i = 0; m->cached_tasks && i < m->options->tasks.count; i++)
        pith_task_answers_free(&m->cached_tasks[i]);
    pith_free(m->cached_texts);
    pith_free(m->cached_tasks);
}

static enum pith_status measure_all(struct pith_measurement *m, struct pith_results *out,
                                    struct pith_error *err)
{
    const size_t texts = m->options->texts.count, tasks = m->options->tasks.count;
    if (m->options->context > m->model->shape.max_position)
        return pith_fail(err, PITH_ARG, "`context` %zu: the model's context is %u",
                         m->options->context, m->model->shape.max_position);
    m->window = pith_measurement_window(m);
    out->text = pith_zalloc(texts, sizeof *out->text);
    out->task = pith_zalloc(tasks, sizeof *out->task);
    if (!out->text || !out->task) return pith_fail_nomem(err, "the report");
    for (; out->texts < texts; out->texts++) {
        const enum pith_status s = measure_text(m, out->texts, &out->text[out->texts], err);
        if (s != PITH_OK) pith_report_free(&out->text[out->texts].details);
        if (s != PITH_OK) return s;
    }
    for (; out->tasks < tasks; out->tasks++)
        PITH_TRY(measure_task(m, out->tasks, &out->task[out->tasks], err));
    return measure_prompts(m, out, err);
}

/* What is known of the model itself. */
static enum pith_status describe(const struct pith_measurement *m, const char *dir,
                                 struct pith_results *out, struct pith_error *err)
{
    out->model = dir;
    out->bits_per_weight = pith_model_bits_per_weight(m->model);
    out->bytes = m->model->checkpoint->bytes;
    out->kv_bits = pith_kv_bits(&m->model->plans, &m->kv, m->window);
    out->parameters = pith_model_parameters(m->model);
    out->memory_expected = m->expected;
    pith_measurement_cache_name(m, out->kv);
    if (m->kv.attn.grid.format) attn_name(&m->kv.attn, out->attn, sizeof out->attn);
    if (m->engines) out->engines = json_deep_copy(m->engines);
    if (m->kv.layer) out->kv_layers = pith_kv_report(&m->model->plans, &m->kv);
    const bool lost = (m->engines && !out->engines) || (m->kv.layer && !out->kv_layers);
    return lost ? pith_fail_nomem(err, dir) : PITH_OK;
}

static enum pith_status add_making(const struct pith_measurement *m, const char *dir,
                                   struct pith_results *out, struct pith_error *err)
{
    out->made = pith_report_new();
    if (!out->made) return pith_fail_nomem(err, dir);
    const enum pith_status s = pith_details_model(out->made, m->model, m->account, err);
    return pith_checkpoint_settle(m->model->checkpoint, false, s, err);
}

enum pith_status pith_measure_model(struct pith_measurement *m, const char *dir,
                                    struct pith_results *out, struct pith_error *err)
{
    *out = (struct pith_results){0};
    enum pith_status s = measure_all(m, out, err);
    s = pith_checkpoint_settle(m->model->checkpoint, false, s, err);
    if (m->baseline) s = pith_checkpoint_settle(m->baseline->checkpoint, false, s, err);
    if (s == PITH_OK) s = describe(m, dir, out, err);
    if (s == PITH_OK && m->options->details) s = add_making(m, dir, out, err);
    if (s != PITH_OK) pith_results_free(out);
    return s;
}
