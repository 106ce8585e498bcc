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
#include "eval/task/task_report.h"
#include "model/totals.h"

#include <math.h>
#include <string.h>

/* Of what the baseline of pith_compare() made of the texts, this much is kept for all models. */
#define KEPT_BYTES ((size_t)256 << 20)

void pith_measurement_cache_name(const struct pith_measurement *m, char text[PITH_KV_TEXT])
{
    const bool chosen = m->kv.layer && m->cache && strlen(m->cache) < PITH_KV_TEXT &&
                        pith_name_option(m->cache, "auto");
    if (chosen) strcpy(text, m->cache);
    else pith_kv_name(&m->kv, text);
}

/* As --attn takes it. */
static json_t *attn_name(const struct pith_input *in)
{
    const bool by_token = in->grid.granularity == PITH_PER_TOKEN;
    return json_sprintf("%s%s", in->grid.format->name, by_token ? ":token" : "");
}

size_t pith_measurement_window(const struct pith_measurement *m)
{
    const size_t most = m->model->shape.max_position;
    const size_t usual = m->convention == PITH_CONVENTION_LLAMACPP ? 512 : 2048;
    const size_t want = m->options->context ? m->options->context : usual;
    return want < most ? want : most;
}

/* JSON has no infinity: what a single window cannot tell (an interval, an error) is null. */
static void set_real(json_t **j, const char *key, double x)
{
    pith_json_set(j, key, pith_json_finite(x));
}

static void set_interval(json_t **j, const char *key, struct pith_interval i)
{
    json_t *pair = json_array();
    pith_json_add(&pair, pith_json_finite(i.lo));
    pith_json_add(&pair, pith_json_finite(i.hi));
    pith_json_set(j, key, pair);
}

static void set_harm(json_t **j, const struct pith_harm_result *h)
{
    char why[256];
    pith_harm_reason(h, why, sizeof why);
    set_interval(j, "kld_ci95", h->kld_ci95);
    pith_json_set(j, "harm", json_string(pith_harm_name(h->harm)));
    pith_json_set(j, "harm_reason", json_string(why));
    set_interval(j, "harm_delta_ci95", h->delta_ci95);
    pith_json_set(j, "harm_stretches", json_integer((json_int_t)h->stretches));
    set_real(j, "resolvable_delta", h->resolvable_delta);
    set_real(j, "tokens_needed", h->tokens_needed);
}

static json_t *text_report(const struct pith_measurement *m, const char *path,
                           const struct pith_text_result *t)
{
    const double seconds = t->model_seconds;
    json_t *j = json_pack("{s:o, s:s, s:I, s:I, s:I}", "text", pith_json_name(path), "convention",
                          pith_convention_name(m->convention), "context", (json_int_t)m->window,
                          "tokens", (json_int_t)t->tokens, "windows", (json_int_t)t->windows);
    set_real(&j, "perplexity", t->perplexity);
    set_real(&j, "perplexity_se", t->perplexity_se);
    set_real(&j, "nll", t->nll);
    set_real(&j, "nll_se", t->nll_se);
    set_real(&j, "seconds", t->seconds);
    set_real(&j, "tokens_per_second", seconds > 0 ? (double)t->tokens / seconds : 0);
    if (!t->has_baseline) return j;
    set_real(&j, "baseline_nll", t->baseline_nll);
    set_real(&j, "kld_mean", t->kld_mean);
    set_real(&j, "kld_median", t->kld_median);
    set_real(&j, "kld_p99", t->kld_p99);
    set_interval(&j, "kld_p99_ci95", t->kld_p99_ci95);
    set_real(&j, "kld_max", t->kld_max);
    set_real(&j, "top1_agreement", t->top1_agreement);
    set_interval(&j, "top1_ci95", t->top1_ci95);
    set_real(&j, "nll_delta", t->nll_delta);
    set_interval(&j, "nll_delta_ci95", t->nll_delta_ci95);
    pith_json_set(&j, "verdict", json_string(pith_verdict_name(t->verdict)));
    set_harm(&j, &t->harm);
    return j;
}

/* "depth": the parts of a window where anything is scored. */
static json_t *depth_report(const struct pith_text_result *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const struct pith_depth *d = &t->depth[i];
        if (d->tokens == 0) continue;
        json_t *j = json_pack("{s:I, s:I, s:I}", "from", (json_int_t)d->from, "to",
                              (json_int_t)d->to, "tokens", (json_int_t)d->tokens);
        set_real(&j, "nll", d->nll);
        if (t->has_baseline) {
            set_real(&j, "nll_delta", d->nll - d->base_nll);
            set_real(&j, "kld", d->kld);
            set_interval(&j, "kld_ci95", d->kld_ci95);
        }
        pith_json_add(&list, j);
    }
    return list;
}

struct pith_text_job pith_measurement_text_job(const struct pith_measurement *m)
{
    return (struct pith_text_job){
        .backend = m->backend,
        .model = m->model,
        .baseline = m->baseline,
        .kv = m->kv,
        .bos = pith_tokenizer_bos(m->tokenizer),
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

static enum pith_status measure_text(const struct pith_measurement *m, size_t index, json_t *texts,
                                     struct pith_error *err)
{
    const char *path = m->options->texts.item[index];
    struct pith_door door = m->door;
    struct pith_text text;
    struct pith_ids ids = {0};
    struct pith_text_result result;
    struct pith_profile profile = {0};
    char sha256[PITH_SHA256_HEX] = "";
    PITH_TRY(pith_text_open(path, &door, &text, err));
    pith_tokenizer_listen(m->tokenizer, &m->options->progress);
    if (m->options->details) (void)pith_sha256_hex(text.data, text.size, sha256);
    enum pith_status s = pith_tokenizer_encode(m->tokenizer, text.data, text.size, true, &ids, err);
    s = pith_text_finish(&text, path, s, err);
    struct pith_text_job job = pith_measurement_text_job(m);
    job.ids = ids.id;
    job.count = ids.count;
    job.kept = m->kept_texts ? &m->kept_texts[index] : NULL;
    job.ranks = m->ranks;
    if (m->options->details) job.watch = (struct pith_position_watch){pith_profile_see, &profile};
    if (s == PITH_OK) s = pith_convention_check(job.convention, job.context, job.stride, err);
    const bool usage = s == PITH_ARG;
    if (s == PITH_OK) s = agree(&job, err);
    if (s == PITH_OK) s = pith_eval_text(&job, &result, err);
    json_t *report = s == PITH_OK ? text_report(m, path, &result) : NULL;
    if (report && m->options->depth) pith_json_set(&report, "depth", depth_report(&result));
    if (s == PITH_OK && *sha256) pith_json_set(&report, "sha256", json_string(sha256));
    if (report && m->options->details && m->baseline)
        s = pith_details_text(report, &profile, m->tokenizer, &ids, err);
    pith_ids_free(&ids);
    if (s != PITH_OK) {
        json_decref(report);
        /* With options that can be followed, it is the text or the model that cannot be scored. */
        return s == PITH_ARG && !usage ? pith_fail_as(err, PITH_FORMAT, path)
                                       : pith_fail_in(err, s, path);
    }
    char *label = pith_label(&m->options->texts, index);
    pith_json_set(&report, "text_name", label ? pith_json_name(label) : NULL);
    pith_free(label);
    if (door.crlf) {
        pith_json_set(&report, "crlf_lines", json_integer((json_int_t)door.crlf));
        pith_json_set(&report, "crlf", json_string(door.lf ? "lf" : "keep"));
    }
    return json_array_append_new(texts, report) == 0 ? PITH_OK : pith_fail_nomem(err, path);
}

static enum pith_status measure_task(const struct pith_measurement *m, size_t index, json_t *tasks,
                                     struct pith_error *err)
{
    const char *path = m->options->tasks.item[index];
    struct pith_task_result result;
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
        .kept = m->kept_tasks ? &m->kept_tasks[index] : NULL,
        .ranks = m->ranks,
        .progress = &m->options->progress,
    };
    PITH_TRY(pith_eval_task(&job, &result, err));
    json_t *report = pith_task_report(&result);
    pith_task_result_free(&result);
    return json_array_append_new(tasks, report) == 0 ? PITH_OK : pith_fail_nomem(err, path);
}

static enum pith_status measure_prompts(const struct pith_measurement *m, json_t **report,
                                        struct pith_error *err)
{
    struct pith_prompts_result r;
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
    PITH_TRY(pith_eval_prompts(&job, &r, err));
    *report = json_pack("{s:s, s:I, s:I, s:I, s:s}", "file", job.path, "n", (json_int_t)r.prompts,
                        "tokens", (json_int_t)r.tokens, "same", (json_int_t)r.same, "verdict",
                        r.verdict);
    set_real(report, "top1_agreement", r.top1_agreement);
    set_real(report, "kld_mean", r.kld_mean);
    set_interval(report, "kld_ci95", r.kld_ci95);
    return *report ? PITH_OK : pith_fail_nomem(err, job.path);
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
    m->kept_texts = pith_zalloc(texts, sizeof *m->kept_texts);
    m->kept_tasks = pith_zalloc(tasks, sizeof *m->kept_tasks);
    if (!m->kept_texts || !m->kept_tasks) return pith_fail_nomem(err, "what the baseline said");
    for (size_t i = 0; i < texts; i++) m->kept_texts[i].most = KEPT_BYTES / texts;
    return PITH_OK;
}

void pith_measurement_free_kept(struct pith_measurement *m)
{
    for (size_t i = 0; m->kept_texts && i < m->options->texts.count; i++)
        pith_kept_text_free(&m->kept_texts[i]);
    for (size_t i = 0; m->kept_tasks && i < m->options->tasks.count; i++)
        pith_kept_task_free(&m->kept_tasks[i]);
    pith_free(m->kept_texts);
    pith_free(m->kept_tasks);
}

static enum pith_status measure_all(struct pith_measurement *m, json_t *texts, json_t *tasks,
                                    struct pith_error *err)
{
    if (m->options->context > m->model->shape.max_position)
        return pith_fail(err, PITH_ARG, "`context` %zu: the model's context is %u",
                         m->options->context, m->model->shape.max_position);
    m->window = pith_measurement_window(m);
    for (size_t i = 0; i < m->options->texts.count; i++) PITH_TRY(measure_text(m, i, texts, err));
    for (size_t i = 0; i < m->options->tasks.count; i++) PITH_TRY(measure_task(m, i, tasks, err));
    return PITH_OK;
}

/* json_object_update_missing() of jansson 2.14 tells of no failure. */
static void add_missing(json_t **j, json_t *more)
{
    const char *key;
    json_t *value;
    json_object_foreach (more, key, value)
        if (!json_object_get(*j, key)) pith_json_set(j, key, json_incref(value));
}

enum pith_status pith_measure_model(struct pith_measurement *m, const char *dir, json_t **report,
                                    struct pith_error *err)
{
    json_t *texts = json_array(), *tasks = json_array(), *prompts = NULL;
    enum pith_status s = texts && tasks ? measure_all(m, texts, tasks, err)
                                        : pith_fail_nomem(err, dir);
    if (s == PITH_OK) s = measure_prompts(m, &prompts, err);
    s = pith_checkpoint_settle(m->model->checkpoint, false, s, err);
    if (m->baseline) s = pith_checkpoint_settle(m->baseline->checkpoint, false, s, err);
    char kv[PITH_KV_TEXT];
    pith_measurement_cache_name(m, kv);
    if (s == PITH_OK) {
        json_t *j = json_pack("{s:o, s:f, s:I, s:s}", "model", pith_json_name(dir),
                              "bits_per_weight", pith_model_bits_per_weight(m->model), "bytes",
                              (json_int_t)m->model->checkpoint->bytes, "kv", kv);
        pith_json_set(&j, "kv_bits", json_real(pith_kv_bits(&m->model->plans, &m->kv, m->window)));
        if (m->engines) pith_json_set(&j, "engines", json_deep_copy(m->engines));
        if (m->kv.attn.grid.format) pith_json_set(&j, "attn", attn_name(&m->kv.attn));
        if (m->kv.layer) pith_json_set(&j, "kv_layers", pith_kv_report(&m->model->plans, &m->kv));
        pith_json_set(&j, "parameters", json_integer((json_int_t)pith_model_parameters(m->model)));
        if (m->expected)
            pith_json_set(&j, "memory_expected", json_integer((json_int_t)m->expected));
        if (json_array_size(texts) == 1) add_missing(&j, json_array_get(texts, 0));
        pith_json_set(&j, "texts", json_incref(texts));
        pith_json_set(&j, "tasks", json_incref(tasks));
        if (prompts) pith_json_set(&j, "prompts", json_incref(prompts));
        if (!j) s = pith_fail_nomem(err, dir);
        else if (m->options->details) {
            s = pith_details_model(j, m->model, m->account, err);
            s = pith_checkpoint_settle(m->model->checkpoint, false, s, err);
        }
        if (s == PITH_OK) *report = j;
        else json_decref(j);
    }
    json_decref(texts);
    json_decref(tasks);
    json_decref(prompts);
    return s;
}
