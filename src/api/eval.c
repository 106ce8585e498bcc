#include <pith/eval.h>
#include <pith/text.h>

#include "api/cache.h"
#include "api/chat.h"
#include "api/context.h"
#include "api/load.h"
#include "api/options.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/names.h"
#include "choose/kv_levels.h"
#include "eval/details.h"
#include "eval/eval.h"
#include "eval/free_answers.h"
#include "eval/labels.h"
#include "eval/prompts.h"
#include "eval/questions.h"
#include "eval/ranks_agree.h"
#include "eval/run_memory.h"
#include "eval/scorer.h"
#include "eval/synthetic_tasks.h"
#include "eval/task_report.h"
#include "export/preflight.h"
#include "model/totals.h"
#include "quantize/work_folder.h"
#include "tok/text_input.h"

#include <math.h>
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

/* Of what the baseline of pith_compare() made of the texts, this much is kept for all models. */
#define KEPT_BYTES ((size_t)256 << 20)

/* What one comparison needs; the baseline may serve several models. */
struct measurement {
    struct pith_context *context;
    const struct pith_eval_options *options;
    enum pith_convention convention;
    const char *cache;        /* what that of the model in work is called, or NULL */
    struct pith_kv_format kv; /* ... and is */
    struct pith_model *model, *baseline;
    struct pith_tokenizer *tokenizer;
    struct pith_chat *chat;            /* of tasks, or NULL */
    size_t window, shortest;           /* shortest: context of all models of a comparison */
    uint64_t expected;                 /* memory, of texts; 0: not foretold */
    struct pith_door door;             /* by which texts come in */
    struct pith_kept_text *kept_texts; /* one for each text, or NULL */
    struct pith_kept_task *kept_tasks; /* one for each task, or NULL */
};

static const char *convention_name(size_t i)
{
    return i <= PITH_CONVENTION_LLAMACPP ? pith_convention_name((enum pith_convention)i) : NULL;
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

static struct pith_cache_wish cache_wish(const struct measurement *m, const char *name)
{
    return (struct pith_cache_wish){
        .name = name, .layers = &m->options->kv_layers, .usual = PITH_F32};
}

static enum pith_status check(struct measurement *m, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    if (!pith_convention_find(o->convention, &m->convention))
        return pith_fail_name(err, "convention", o->convention, convention_name);
    if (o->stride && m->convention != PITH_CONVENTION_HF)
        return pith_fail(err, PITH_ARG,
                         "--stride does nothing under the %s convention, whose windows are"
                         " disjoint; --convention hf has it",
                         pith_convention_name(m->convention));
    if (o->context == 1) return pith_fail(err, PITH_ARG, "--context: at least 2");
    if (o->context && o->stride > o->context)
        return pith_fail(err, PITH_ARG, "--stride %zu: more than the --context of %zu", o->stride,
                         o->context);
    size_t open;
    const size_t made = made_tasks(o, &open);
    if ((o->task_length || o->task_seed) && !made)
        return pith_fail(err, PITH_ARG,
                         "--length and --seed do nothing: none of the tasks is one that is made");
    if (o->task_length && !open)
        return pith_fail(err, PITH_ARG,
                         "--length does nothing: each task that is made names its own length");
    struct pith_cache_wish wish = cache_wish(m, o->kv);
    struct pith_input ignored;
    PITH_TRY(pith_cache_check(&wish, err));
    PITH_TRY(pith_attn_parse(o->attn, &ignored, err));
    for (size_t i = 0; i < o->caches.count; i++) {
        wish.name = o->caches.item[i];
        PITH_TRY(pith_cache_check(&wish, err));
    }
    PITH_TRY(pith_door_read(o->crlf, &m->door, err));
    if (o->chat && o->tasks.count == 0)
        return pith_fail(err, PITH_ARG, "--chat does nothing without a task");
    if (o->chat_template && !o->chat)
        return pith_fail(err, PITH_ARG, "--chat-template does nothing without --chat");
    if (o->texts.count == 0 && o->tasks.count == 0 && !o->prompts)
        return pith_fail(err, PITH_ARG, "nothing to measure: give a text or a task file");
    return PITH_OK;
}

enum pith_status pith_eval_check(const struct pith_eval_options *given, struct pith_error *err)
{
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    struct measurement m = {.options = o};
    return check(&m, err);
}

/* What the cache of the model in work holds. The first model of pith_compare() is the others'
 * baseline: its cache is f32. */
static enum pith_status choose_cache(struct measurement *m, struct pith_error *err)
{
    pith_kv_format_free(&m->kv);
    m->kv = pith_kv_floats(PITH_F32);
    if (!m->baseline && m->kept_texts) return PITH_OK;
    const struct pith_cache_wish wish = cache_wish(m, m->cache);
    PITH_TRY(pith_cache_choose(m->context, &wish, m->model, m->tokenizer, &m->kv, err));
    return pith_attn_parse(m->options->attn, &m->kv.attn, err);
}

/* What the report calls it: auto is what was asked for, the layers tell what it became. */
static void name_cache(const struct measurement *m, char text[PITH_KV_TEXT])
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

/* What engines are started with for the cache that was asked for, by their names. */
static json_t *engines_of(const struct measurement *m)
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

static size_t choose_window(const struct measurement *m)
{
    const size_t most = m->model->shape.max_position;
    const size_t usual = m->convention == PITH_CONVENTION_LLAMACPP ? 512 : 2048;
    const size_t want = m->options->context ? m->options->context : usual;
    return want < most ? want : most;
}

/* JSON has no infinity: what a single window cannot tell (an interval, an error) is null. */
static void set_real(json_t **j, const char *key, double x)
{
    pith_json_set(j, key, isfinite(x) ? json_real(x) : json_null());
}

static void set_interval(json_t **j, const char *key, struct pith_interval i)
{
    json_t *pair = json_array();
    pith_json_add(&pair, isfinite(i.lo) ? json_real(i.lo) : json_null());
    pith_json_add(&pair, isfinite(i.hi) ? json_real(i.hi) : json_null());
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

static json_t *text_report(const struct measurement *m, const char *path,
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

static struct pith_text_job text_job(const struct measurement *m)
{
    return (struct pith_text_job){
        .backend = m->context->backend,
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

static enum pith_status measure_text(const struct measurement *m, size_t index, json_t *texts,
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
    struct pith_text_job job = text_job(m);
    job.ids = ids.id;
    job.count = ids.count;
    job.kept = m->kept_texts ? &m->kept_texts[index] : NULL;
    job.ranks = m->context->ranks;
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

static enum pith_status measure_task(const struct measurement *m, size_t index, json_t *tasks,
                                     struct pith_error *err)
{
    const char *path = m->options->tasks.item[index];
    struct pith_task_result result;
    const struct pith_task_job job = {
        .backend = m->context->backend,
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
        .ranks = m->context->ranks,
        .progress = &m->options->progress,
    };
    PITH_TRY(pith_eval_task(&job, &result, err));
    json_t *report = pith_task_report(&result);
    pith_task_result_free(&result);
    return json_array_append_new(tasks, report) == 0 ? PITH_OK : pith_fail_nomem(err, path);
}

static enum pith_status measure_prompts(const struct measurement *m, json_t **report,
                                        struct pith_error *err)
{
    struct pith_prompts_result r;
    const struct pith_prompts_job job = {
        .backend = m->context->backend,
        .model = m->model,
        .baseline = m->baseline,
        .kv = m->kv,
        .tokenizer = m->tokenizer,
        .path = m->options->prompts,
        .ranks = m->context->ranks,
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

static enum pith_status measure_all(struct measurement *m, json_t *texts, json_t *tasks,
                                    struct pith_error *err)
{
    if (m->baseline && m->baseline->shape.vocab != m->model->shape.vocab)
        return pith_fail(err, PITH_ARG, "the baseline has another vocabulary (%u, not %u)",
                         m->baseline->shape.vocab, m->model->shape.vocab);
    PITH_TRY(choose_cache(m, err));
    if (m->options->context > m->model->shape.max_position)
        return pith_fail(err, PITH_ARG, "--context %zu: the model's context is %u",
                         m->options->context, m->model->shape.max_position);
    m->window = choose_window(m);
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

static enum pith_status measure_model(struct measurement *m, const char *dir, json_t **report,
                                      struct pith_error *err)
{
    json_t *texts = json_array(), *tasks = json_array(), *prompts = NULL;
    enum pith_status s = texts && tasks ? measure_all(m, texts, tasks, err)
                                        : pith_fail_nomem(err, dir);
    if (s == PITH_OK) s = measure_prompts(m, &prompts, err);
    s = pith_checkpoint_settle(m->model->checkpoint, false, s, err);
    if (m->baseline) s = pith_checkpoint_settle(m->baseline->checkpoint, false, s, err);
    char kv[PITH_KV_TEXT];
    name_cache(m, kv);
    if (s == PITH_OK) {
        json_t *j = json_pack("{s:o, s:f, s:I, s:s}", "model", pith_json_name(dir),
                              "bits_per_weight", pith_model_bits_per_weight(m->model), "bytes",
                              (json_int_t)m->model->checkpoint->bytes, "kv", kv);
        pith_json_set(&j, "kv_bits", json_real(pith_kv_bits(&m->model->plans, &m->kv, m->window)));
        if (m->cache) pith_json_set(&j, "engines", engines_of(m));
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
            char *account = pith_account_path(dir);
            s = account ? pith_details_model(j, m->model, account, err) : pith_fail_nomem(err, dir);
            pith_free(account);
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

/* The model's tokenizer; that of its baseline when the model's folder has none. */
/* That of a model, and its chat template where one is asked for. */
static enum pith_status open_tokenizer(struct measurement *m, const char *model,
                                       struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    PITH_TRY(pith_tokenizer_open(model, &m->tokenizer, err));
    return o->chat ? pith_chat_need(model, o->chat_template, &m->chat, err) : PITH_OK;
}

static enum pith_status choose_tokenizer(struct measurement *m, struct pith_error *err)
{
    const struct pith_eval_options *o = m->options;
    bool own = true;
    if (o->baseline) PITH_TRY(pith_tokenizer_present(o->model, &own, err));
    return open_tokenizer(m, own ? o->model : o->baseline, err);
}

/* What texts will take, before the weights are read: a text has no more tokens than bytes, and
 * their list grows by doubling. Tasks and caches that are tried are not foretold. */
static enum pith_status foretell(struct measurement *m, struct pith_error *err)
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
    PITH_TRY(choose_cache(m, err));
    m->window = choose_window(m);
    struct pith_text_job job = text_job(m);
    job.count = (size_t)longest;
    const size_t rows = pith_eval_text_rows(&job);
    const struct pith_held base = {.rows = rows},
                           own = {.rows = rows,
                                  .bytes_head = pith_load_rounds_head(m->context, m->model, false)};
    pith_held_begin(m->context->backend, &meter);
    PITH_TRY(pith_held_meter(m->model, m->context->backend, &own, &meter, err));
    if (m->baseline)
        PITH_TRY(pith_held_meter(m->baseline, m->context->backend, &base, &meter, err));
    if (pith_kv_needs_levels(&m->kv, m->model->plans.layers) && !pith_kv_levels_are_there(m->model))
        pith_meter_touch(&meter, pith_kv_levels_bytes(m->model, m->context->backend));
    pith_meter_take(&meter, pith_times_bytes(longest, 2 * sizeof(int32_t)));
    pith_eval_text_meter(&job, &meter);
    m->expected = meter.most;
    return PITH_OK;
}

/* What is wrong with them is told before anything is measured. */
static enum pith_status look_at_tasks(const struct measurement *m, struct pith_error *err)
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
    return pith_fail(err, PITH_ARG, "--run-code does nothing: no task is answered by programs");
}

enum pith_status pith_eval(struct pith_context *context, const struct pith_eval_options *given,
                           char **report, struct pith_error *err)
{
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    struct measurement m = {.context = context, .options = o, .cache = o->kv};
    json_t *j = NULL;
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
        s = look_at_tasks(&m, err);
    }
    if (s == PITH_OK) s = foretell(&m, err);
    if (s == PITH_OK) s = pith_load_opened(context, m.model, false, err);
    if (s == PITH_OK && m.baseline) s = pith_load_opened(context, m.baseline, true, err);
    if (s == PITH_OK) s = measure_model(&m, o->model, &j, err);
    if (s == PITH_OK) s = pith_report_text(j, report, err);
    pith_tokenizer_close(m.tokenizer);
    pith_chat_close(m.chat);
    pith_model_close(m.model);
    pith_model_close(m.baseline);
    pith_kv_format_free(&m.kv);
    return pith_ranks_fail(context->ranks, s, err);
}

static enum pith_status make_kept(struct measurement *m, struct pith_error *err)
{
    const size_t texts = m->options->texts.count, tasks = m->options->tasks.count;
    m->kept_texts = pith_zalloc(texts, sizeof *m->kept_texts);
    m->kept_tasks = pith_zalloc(tasks, sizeof *m->kept_tasks);
    if (!m->kept_texts || !m->kept_tasks) return pith_fail_nomem(err, "what the baseline said");
    for (size_t i = 0; i < texts; i++) m->kept_texts[i].most = KEPT_BYTES / texts;
    return PITH_OK;
}

static void free_kept(struct measurement *m)
{
    for (size_t i = 0; m->kept_texts && i < m->options->texts.count; i++)
        pith_kept_text_free(&m->kept_texts[i]);
    for (size_t i = 0; m->kept_tasks && i < m->options->tasks.count; i++)
        pith_kept_task_free(&m->kept_tasks[i]);
    pith_free(m->kept_texts);
    pith_free(m->kept_tasks);
}

/* What the cache of a model of pith_compare() is called. */
static const char *cache_of(const struct pith_eval_options *o, size_t model)
{
    return model && o->caches.count ? o->caches.item[model - 1] : o->kv;
}

/* That a model can be measured is found out before any is: hours may lie between them. */
static enum pith_status look_at_model(struct measurement *m, const char *dir, bool first,
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
        s = pith_fail(err, PITH_ARG, "--context %zu: the context of %s is %u", o->context, dir,
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

static enum pith_status look_at_inputs(struct measurement *m, const struct pith_list *models,
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
    return look_at_tasks(m, err);
}

/* Names a finished model, tells of it, and keeps it. Takes the reference. */
static enum pith_status keep_model(const struct measurement *m, const struct pith_list *models,
                                   size_t i, json_t *one, json_t *list, struct pith_error *err)
{
    char kv[PITH_KV_TEXT], *text = NULL;
    name_cache(m, kv);
    char *label = m->options->caches.count ? pith_strdup(kv) : pith_label(models, i);
    enum pith_status s = PITH_OK;
    if (!label || json_object_set_new(one, "name", pith_json_name(label)) != 0 ||
        json_array_append(list, one) != 0)
        s = pith_fail_nomem(err, "the report");
    if (s == PITH_OK && m->options->measured) {
        s = pith_report_text(json_incref(one), &text, err);
        if (s == PITH_OK) m->options->measured(m->options->measured_ctx, text);
    }
    pith_text_free(text);
    pith_free(label);
    json_decref(one);
    return s;
}

static enum pith_status compare_all(struct measurement *m, const struct pith_list *models,
                                    json_t *list, struct pith_error *err)
{
    struct pith_model *first = NULL;
    PITH_TRY(open_tokenizer(m, models->item[0], err));
    PITH_TRY(look_at_inputs(m, models, err));
    enum pith_status s = pith_load_model(m->context, models->item[0], true, &first, err);
    for (size_t i = 0; i < models->count && s == PITH_OK; i++) {
        struct pith_model *other = NULL;
        json_t *one = NULL;
        if (i) s = pith_load_model(m->context, models->item[i], false, &other, err);
        m->cache = cache_of(m->options, i);
        m->model = i ? other : first;
        m->baseline = i ? first : NULL;
        if (s == PITH_OK) s = measure_model(m, models->item[i], &one, err);
        if (s == PITH_OK) s = keep_model(m, models, i, one, list, err);
        pith_model_close(other);
    }
    m->model = m->baseline = NULL;
    pith_model_close(first);
    return s;
}

enum pith_status pith_compare(struct pith_context *context, const struct pith_list *models,
                              const struct pith_eval_options *given, char **report,
                              struct pith_error *err)
{
    PITH_OPTIONS(pith_eval_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    struct measurement m = {.context = context, .options = o};
    if (models->count < 2) return pith_fail(err, PITH_ARG, "at least two models are needed");
    if (o->caches.count && o->caches.count != models->count - 1)
        return pith_fail(err, PITH_ARG, "%zu caches for %zu models after the first",
                         o->caches.count, models->count - 1);
    enum pith_status s = check(&m, err);
    if (s == PITH_OK) s = make_kept(&m, err);
    json_t *list = json_array();
    if (s == PITH_OK)
        s = list ? compare_all(&m, models, list, err) : pith_fail_nomem(err, "the report");
    if (s == PITH_OK || (s == PITH_INTERRUPTED && json_array_size(list))) {
        const enum pith_status t = pith_report_text(
            json_pack("{s:o, s:b, s:O}", "baseline", pith_json_name(models->item[0]), "complete",
                      (int)(s == PITH_OK), "models", list),
            report, err);
        if (s == PITH_OK) s = t;
    }
    json_decref(list);
    free_kept(&m);
    pith_kv_format_free(&m.kv);
    pith_tokenizer_close(m.tokenizer);
    pith_chat_close(m.chat);
    return pith_ranks_fail(context->ranks, s, err);
}
