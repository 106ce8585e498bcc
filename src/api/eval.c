#include <pith/eval.h>
#include <pith/text.h>

#include "api/cache.h"
#include "api/chat.h"
#include "api/context.h"
#include "api/eval.h"
#include "api/load.h"
#include "api/options.h"
#include "api/report.h"
#include "base/mem.h"
#include "base/names.h"
#include "choose/kv_levels.h"
#include "eval/labels.h"
#include "eval/measurement.h"
#include "eval/run_memory.h"
#include "eval/task/synthetic_tasks.h"
#include "export/preflight.h"
#include "quantize/output/work_folder.h"

#include <string.h>

static const struct pith_eval_options defaults = {.convention = "gptq"};

void pith_eval_defaults_sized(struct pith_eval_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

enum pith_status pith_kv_check(const char *kv, struct pith_error *err)
{
    const struct pith_list none = {0};
    const struct pith_cache_wish wish = {.name = kv, .layers = &none};
    return pith_cache_check(&wish, err);
}

enum pith_status pith_kv_layers_check(const struct pith_list *layers, struct pith_error *err)
{
    const struct pith_cache_wish wish = {.layers = layers};
    return pith_cache_check(&wish, err);
}

static const char *convention_name(size_t i)
{
    return i < PITH_CONVENTIONS ? pith_convention_name((enum pith_convention)i) : NULL;
}

/* Tasks that are made; of them in *open those that do not name a length. */
static size_t made_tasks(const struct pith_eval_options *o, size_t *open)
{
    size_t made = 0, length;
    *open = 0;
    for (size_t i = 0; i < o->tasks.count; i++) {
        if (!pith_made_find(o->tasks.item[i], &length)) continue;
        made++;
        *open += length == 0;
    }
    return made;
}

static struct pith_cache_wish cache_wish(const struct pith_measurement *m, const char *name)
{
    return (struct pith_cache_wish){.name = name,
                                    .layers = &m->options->kv_layers,
                                    .usual = PITH_F32,
                                    .progress = &m->options->progress};
}

static enum pith_status check(struct pith_measurement *m, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    if (!pith_convention_find(o->convention, &m->convention))
        return pith_fail_name(err, "convention", o->convention, convention_name);
    if (o->stride && m->convention != PITH_CONVENTION_HF)
        return pith_fail(err, PITH_ARG,
                         "`stride` does nothing under the %s convention, whose windows are"
                         " disjoint; `convention=hf` has it",
                         pith_convention_name(m->convention));
    if (o->context == 1) return pith_fail(err, PITH_ARG, "`context`: at least 2");
    if (o->context && o->stride > o->context)
        return pith_fail(err, PITH_ARG, "`stride` %zu: more than the `context` of %zu", o->stride,
                         o->context);
    size_t open;
    const size_t made = made_tasks(o, &open);
    if ((o->task_length || o->task_seed) && !made)
        return pith_fail(
            err, PITH_ARG,
            "`task_length` and `task_seed` do nothing: none of the tasks is one that is made");
    if (o->task_length && !open)
        return pith_fail(err, PITH_ARG,
                         "`task_length` does nothing: each task that is made names its own length");
    struct pith_cache_wish wish = cache_wish(m, o->kv);
    struct pith_input ignored;
    PITH_TRY(pith_cache_check(&wish, err));
    PITH_TRY(pith_attn_parse(o->attn, &ignored, err));
    for (size_t i = 0; i < o->caches.count; i++) {
        wish.name = o->caches.item[i];
        PITH_TRY(pith_cache_check(&wish, err));
    }
    PITH_TRY(pith_newlines_read(o->crlf, &m->newlines, err));
    if (o->chat && o->tasks.count == 0)
        return pith_fail(err, PITH_ARG, "`chat` does nothing without a task");
    if (o->chat_template && !o->chat)
        return pith_fail(err, PITH_ARG, "`chat_template` does nothing without `chat`");
    if (o->texts.count == 0 && o->tasks.count == 0 && !o->prompts)
        return pith_fail(err, PITH_ARG, "nothing to measure: give a text or a task file");
    return PITH_OK;
}

enum pith_status pith_eval_check(const struct pith_eval_options *given, struct pith_error *err)
{
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    struct pith_measurement m = {.options = o};
    return check(&m, err);
}

/* What the cache of the model in work holds. The first model of pith_compare() is the others'
 * baseline: its cache is f32. */
static enum pith_status choose_cache(struct pith_context *context, struct pith_measurement *m,
                                     struct pith_error *err)
{
    pith_kv_format_free(&m->kv);
    m->kv = pith_kv_floats(PITH_F32);
    if (!m->baseline && m->cached_texts) return PITH_OK;
    const struct pith_cache_wish wish = cache_wish(m, m->cache);
    PITH_TRY(pith_cache_choose(context, &wish, m->model, m->tokenizer, &m->kv, err));
    return pith_attn_parse(m->options->attn, &m->kv.attn, err);
}

/* What engines are started with for the cache that is wanted, by their names. */
static json_t *engines_of(const struct pith_measurement *m)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    json_t *j = json_object();
    for (size_t i = 0; i < count; i++) {
        char text[PITH_ENGINE_CACHE];
        if (pith_engine_cache(e[i], &m->kv, m->model->shape.head_dim, text))
            pith_json_set(&j, e[i]->name, json_string(text));
    }
    return j;
}

/* With the cache that is wanted. */
static enum pith_status measure_model(struct pith_context *context, struct pith_measurement *m,
                                      const char *dir, struct pith_results *out,
                                      struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    if (m->baseline && m->baseline->shape.vocab != m->model->shape.vocab)
        s = pith_fail(err, PITH_ARG, "the baseline has another vocabulary (%u, not %u)",
                      m->baseline->shape.vocab, m->model->shape.vocab);
    if (s == PITH_OK) s = choose_cache(context, m, err);
    if (s != PITH_OK) {
        s = pith_checkpoint_settle(m->model->checkpoint, false, s, err);
        return m->baseline ? pith_checkpoint_settle(m->baseline->checkpoint, false, s, err) : s;
    }
    json_t *engines = m->cache ? engines_of(m) : NULL;
    char *account = m->options->details ? pith_account_path(dir) : NULL;
    if ((m->cache && !engines) || (m->options->details && !account)) s = pith_fail_nomem(err, dir);
    m->engines = engines;
    m->account = account;
    if (s == PITH_OK) s = pith_measure_model(m, dir, out, err);
    m->engines = NULL;
    m->account = NULL;
    json_decref(engines);
    pith_free(account);
    return s;
}

/* The tokenizer of a model, and its chat template where one is wanted. */
static enum pith_status open_tokenizer(struct pith_measurement *m, const char *model,
                                       struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    PITH_TRY(pith_tokenizer_open(model, &m->tokenizer, err));
    return o->chat ? pith_chat_need(model, o->chat_template, &m->chat, err) : PITH_OK;
}

static enum pith_status choose_tokenizer(struct pith_measurement *m, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    bool own = true;
    if (o->baseline) PITH_TRY(pith_tokenizer_present(o->model, &own, err));
    return open_tokenizer(m, own ? o->model : o->baseline, err);
}

/* What texts will take, before the weights are read: a text has no more tokens than bytes, and
 * their list grows by doubling. Tasks and caches that are tried are not estimated. */
static enum pith_status estimate(struct pith_context *context, struct pith_measurement *m,
                                 struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    struct pith_meter meter = {0};
    double tried;
    uint64_t longest = 0;
    PITH_TRY(pith_kv_auto_parse(m->cache, &tried, err));
    if (tried > 0 || o->tasks.count || o->prompts || o->details) return PITH_OK;
    for (size_t i = 0; i < o->texts.count; i++) {
        struct pith_stamp is;
        PITH_TRY(pith_file_stamp(o->texts.item[i], &is, err));
        if (is.size > longest) longest = is.size;
    }
    PITH_TRY(choose_cache(context, m, err));
    m->window = pith_measurement_window(m);
    struct pith_text_job job = pith_measurement_text_job(m);
    job.count = (size_t)longest;
    const size_t rows = pith_eval_text_rows(&job);
    const struct pith_run_form base = {.rows = rows}, own = {.rows = rows,
                                                             .bytes_head = pith_load_rounds_head(
                                                                 context, m->model, false)};
    pith_run_meter_begin(m->backend, &meter);
    PITH_TRY(pith_run_meter(m->model, m->backend, &own, &meter, err));
    if (m->baseline) PITH_TRY(pith_run_meter(m->baseline, m->backend, &base, &meter, err));
    if (pith_kv_needs_levels(&m->kv, m->model->plans.layers) && !pith_kv_levels_are_there(m->model))
        pith_meter_touch(&meter, pith_kv_levels_bytes(m->model, m->backend));
    pith_meter_take(&meter, pith_times_bytes(longest, 2 * sizeof(int32_t)));
    pith_eval_text_meter(&job, &meter);
    m->expected = meter.most;
    return PITH_OK;
}

static struct pith_report *report_of(const struct pith_results *m, bool compared)
{
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_results_set(r, m);
    pith_results_say(r, m);
    if (compared) pith_results_say_signals(r, m);
    return r;
}

enum pith_status pith_eval_report(struct pith_context *context,
                                  const struct pith_eval_options *given,
                                  struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    struct pith_measurement m = {
        .backend = context->backend, .ranks = context->ranks, .options = o, .cache = o->kv};
    struct pith_results measured = {0};
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    if (o->prompts && !o->baseline)
        return pith_fail(err, PITH_ARG, "prompts are compared with a baseline; none is given");
    enum pith_status s = check(&m, err);
    if (s == PITH_OK) s = pith_load_open(context, o->model, &m.model, err);
    if (s == PITH_OK) s = choose_tokenizer(&m, err);
    if (s == PITH_OK && o->baseline) s = pith_load_open(context, o->baseline, &m.baseline, err);
    if (s == PITH_OK) {
        m.shortest = m.model->shape.max_position;
        if (m.baseline && m.baseline->shape.max_position < m.shortest)
            m.shortest = m.baseline->shape.max_position;
        s = pith_measurement_check_tasks(&m, err);
    }
    if (s == PITH_OK) s = estimate(context, &m, err);
    if (s == PITH_OK) s = pith_load_opened(context, m.model, false, err);
    if (s == PITH_OK && m.baseline) s = pith_load_opened(context, m.baseline, true, err);
    if (s == PITH_OK) s = measure_model(context, &m, o->model, &measured, err);
    if (s == PITH_OK) *report = report_of(&measured, m.baseline != NULL);
    if (s == PITH_OK && !*report) s = pith_fail_nomem(err, "the report");
    pith_results_free(&measured);
    pith_tokenizer_close(m.tokenizer);
    pith_chat_close(m.chat);
    pith_model_close(m.model);
    pith_model_close(m.baseline);
    pith_kv_format_free(&m.kv);
    return pith_ranks_fail(context->ranks, s, err);
}

enum pith_status pith_eval(struct pith_context *context, const struct pith_eval_options *given,
                           char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_eval_report(context, given, &r, err), report, err);
}

/* What the cache of a model of pith_compare() is called. */
static const char *cache_of(const struct pith_eval_options *o, size_t model)
{
    return model && o->caches.count ? o->caches.item[model - 1] : o->kv;
}

/* That a model can be measured is found out before any is: hours may lie between them. */
static enum pith_status look_at_model(struct pith_measurement *m, const char *dir, bool first,
                                      uint32_t *vocab, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    struct pith_model *model;
    struct pith_kv_format kv = {0};
    PITH_TRY(pith_model_open(dir, &model, err));
    enum pith_status s = PITH_OK;
    if (first) *vocab = model->shape.vocab;
    if (model->shape.vocab != *vocab)
        s = pith_fail(err, PITH_ARG, "%s: has another vocabulary (%u) than the baseline (%u)", dir,
                      model->shape.vocab, *vocab);
    else if (o->context > model->shape.max_position)
        s = pith_fail(err, PITH_ARG, "`context` %zu: the context of %s is %u", o->context, dir,
                      model->shape.max_position);
    else if (!first) {
        double bits;
        const struct pith_kv_wish wish = {.name = m->cache, .layers = o->kv_layers};
        s = pith_kv_auto_parse(m->cache, &bits, err);
        if (s == PITH_OK && bits == 0) s = pith_kv_choose(&wish, PITH_F32, model, &kv, err);
        pith_kv_format_free(&kv);
    }
    if (first || model->shape.max_position < m->shortest) m->shortest = model->shape.max_position;
    pith_model_close(model);
    return s;
}

static enum pith_status look_at_inputs(struct pith_measurement *m, const struct pith_list *models,
                                       struct pith_error *err)
{
    uint32_t vocab = 0;
    for (size_t i = 0; i < models->count; i++) {
        m->cache = cache_of(m->options, i);
        PITH_TRY(look_at_model(m, models->item[i], i == 0, &vocab, err));
    }
    for (size_t i = 0; i < m->options->texts.count; i++) {
        struct pith_text_look look;
        PITH_TRY(pith_text_look(m->options->texts.item[i], &look, err));
    }
    return pith_measurement_check_tasks(m, err);
}

/* A finished model as JSON, for a program that waits for each. */
static enum pith_status hand_over(const struct pith_eval_options *o, const struct pith_results *one,
                                  struct pith_error *err)
{
    char *text = NULL;
    struct pith_report *r = pith_report_new();
    if (r) pith_results_set(r, one);
    PITH_TRY(pith_report_give(&r, r ? PITH_OK : pith_fail_nomem(err, "the report"), &text, err));
    o->measured(o->measured_ctx, text);
    pith_text_free(text);
    return PITH_OK;
}

/* The same in a line. */
static enum pith_status hand_over_line(const struct pith_eval_options *o,
                                       const struct pith_results *one, struct pith_error *err)
{
    struct pith_str s = {0};
    pith_results_line(one, &s);
    if (!s.failed) o->summary(o->summary_ctx, pith_str_text(&s));
    const bool failed = s.failed;
    pith_str_free(&s);
    return failed ? pith_fail_nomem(err, "the report") : PITH_OK;
}

/* Names a finished model, and reports it. */
static enum pith_status name_model(const struct pith_measurement *m, const struct pith_list *models,
                                   size_t i, struct pith_results *one, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    one->name = o->caches.count ? pith_strdup(one->kv) : pith_label(models, i);
    if (!one->name) return pith_fail_nomem(err, "the report");
    if (o->measured) PITH_TRY(hand_over(o, one, err));
    return o->summary ? hand_over_line(o, one, err) : PITH_OK;
}

/* What models came to; a model that is not done has no name. */
static enum pith_status compare_all(struct pith_context *context, struct pith_measurement *m,
                                    const struct pith_list *models, struct pith_results *out,
                                    struct pith_error *err)
{
    struct pith_model *first = NULL;
    PITH_TRY(open_tokenizer(m, models->item[0], err));
    PITH_TRY(look_at_inputs(m, models, err));
    enum pith_status s = pith_load_model(context, models->item[0], true, &first, err);
    for (size_t i = 0; i < models->count && s == PITH_OK; i++) {
        struct pith_model *other = NULL;
        if (i) s = pith_load_model(context, models->item[i], false, &other, err);
        m->cache = cache_of(m->options, i);
        m->model = i ? other : first;
        m->baseline = i ? first : NULL;
        if (s == PITH_OK) s = measure_model(context, m, models->item[i], &out[i], err);
        if (s == PITH_OK) s = name_model(m, models, i, &out[i], err);
        pith_model_close(other);
    }
    m->model = m->baseline = NULL;
    pith_model_close(first);
    return s;
}

/* Of the models that are done. */
static struct pith_report *comparison_of(const struct pith_eval_options *o,
                                         const struct pith_results *m, size_t count, bool complete)
{
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_report_paged(r, pith_page_compare);
    pith_report_set(r, "baseline", pith_words(m[0].model));
    pith_report_set(r, "complete", pith_yes(complete));
    pith_report_list(r, "models");
    for (size_t i = 0; i < count; i++) {
        pith_report_open(r, "");
        pith_results_set(r, &m[i]);
        pith_report_close(r);
    }
    pith_report_close(r);
    if (o->caches.count) pith_results_caches(r, m, count);
    else pith_results_compare(r, m, count);
    return r;
}

static enum pith_status check_models(const struct pith_eval_options *o,
                                     const struct pith_list *models, struct pith_error *err)
{
    if (models->count < 2) return pith_fail(err, PITH_ARG, "at least two models are needed");
    if (o->caches.count && o->caches.count != models->count - 1)
        return pith_fail(err, PITH_ARG, "%zu caches for %zu models after the first",
                         o->caches.count, models->count - 1);
    return PITH_OK;
}

enum pith_status pith_compare_measure(struct pith_context *context, const struct pith_list *models,
                                      const struct pith_eval_options *o, const char *folder,
                                      struct pith_results *out, struct pith_error *err)
{
    struct pith_measurement m = {
        .backend = context->backend, .ranks = context->ranks, .options = o, .folder = folder};
    enum pith_status s = check(&m, err);
    if (s == PITH_OK) s = pith_measurement_keep(&m, err);
    if (s == PITH_OK) s = compare_all(context, &m, models, out, err);
    pith_measurement_free_cached(&m);
    pith_kv_format_free(&m.kv);
    pith_tokenizer_close(m.tokenizer);
    pith_chat_close(m.chat);
    return pith_ranks_fail(context->ranks, s, err);
}

enum pith_status pith_compare_report(struct pith_context *context, const struct pith_list *models,
                                     const struct pith_eval_options *given,
                                     struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    PITH_TRY(check_models(o, models, err));
    struct pith_results *all = pith_zalloc(models->count, sizeof *all);
    size_t done = 0;
    if (!all) return pith_fail_nomem(err, "the report");
    const enum pith_status s = pith_compare_measure(context, models, o, NULL, all, err);
    while (done < models->count && all[done].name) done++;
    if (s == PITH_OK || (s == PITH_INTERRUPTED && done))
        *report = comparison_of(o, all, done, s == PITH_OK);
    for (size_t i = 0; i < models->count; i++) pith_results_free(&all[i]);
    pith_free(all);
    return s == PITH_OK && !*report ? pith_fail_nomem(err, "the report") : s;
}

enum pith_status pith_compare(struct pith_context *context, const struct pith_list *models,
                              const struct pith_eval_options *given, char **report,
                              struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_compare_report(context, models, given, &r, err), report, err);
}
