/* pith advise: the plan's first recipes, tried on a sample and measured. */
#include <pith/advise.h>
#include <pith/eval.h>
#include <pith/plan.h>

#include "api/context.h"
#include "api/eval.h"
#include "api/options.h"
#include "api/report.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "calib/corpus.h"
#include "choose/advice.h"
#include "choose/plan.h"
#include "export/preflight.h"
#include "quantize/job.h"
#include "quantize/output/work_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct pith_advise_options defaults = {.candidates = 4};

void pith_advise_defaults_sized(struct pith_advise_options *options, size_t size)
{
    pith_options_give(options, size, &defaults, sizeof defaults);
}

/* A call. */
struct trial {
    struct pith_advice advice;
    struct pith_context *context;
    char context_text[24], users_text[24];
    char *folder, *text_path, *calib_path; /* owned */
    struct pith_list texts, calib;         /* measured on, calibrated on */
    char stage[128];                       /* what is being done, before what of it */
    struct pith_plan_model_options plan;   /* points to the texts above and to the machine's */
    const char *engine, *hardware, *context_item, *users_item;
    char *own;                        /* the machine at hand, owned */
    struct pith_advise_options sized; /* the request, with tokens by the model's size */
};

/* --- where it is to run ----------------------------------------------------------------------- */

static enum pith_status read_target(struct trial *a, struct pith_error *err)
{
    struct pith_advice *v = &a->advice;
    const char *text = v->options->target;
    struct pith_target t;
    PITH_TRY(pith_target_parse(text, &t, err));
    (void)snprintf(v->engine, sizeof v->engine, "%s", t.engine->name);
    if (t.gpu && t.tp > 1)
        (void)snprintf(v->hardware, sizeof v->hardware, "%s x%u", t.gpu->name, t.tp);
    else if (t.gpu) (void)snprintf(v->hardware, sizeof v->hardware, "%s", t.gpu->name);
    else if (strcmp(v->engine, "pith") == 0 || strcmp(v->engine, "llama.cpp") == 0)
        (void)snprintf(v->hardware, sizeof v->hardware, "this");
    else
        return pith_fail(err, PITH_ARG,
                         "`target` %s: on which GPU? %s:gpu=l4, say; pith hardware lists them",
                         text, v->engine);
    return PITH_OK;
}

static enum pith_status make_plan(struct trial *a, struct pith_error *err)
{
    const struct pith_advise_options *o = a->advice.options;
    struct pith_plan_model_options *p = &a->plan;
    a->engine = a->advice.engine;
    a->hardware = a->advice.hardware;
    a->context_item = a->context_text;
    a->users_item = a->users_text;
    pith_plan_model_defaults(p);
    (void)snprintf(a->context_text, sizeof a->context_text, "%zu", o->context);
    (void)snprintf(a->users_text, sizeof a->users_text, "%zu", o->users);
    p->model = o->model;
    p->targets = (struct pith_list){&a->engine, 1};
    p->hardware = (struct pith_list){&a->hardware, 1};
    if (o->context) p->contexts = (struct pith_list){&a->context_item, 1};
    if (o->users) p->users = (struct pith_list){&a->users_item, 1};
    if (strcmp(a->hardware, "this") == 0) PITH_TRY(pith_hardware_measure(a->context, &a->own, err));
    p->own = a->own;
    return pith_plan_search_make(p, &a->advice.plan, err);
}

static void size_sample(struct trial *a)
{
    struct pith_census census;
    a->sized = *a->advice.options;
    pith_plan_subject_count(&a->advice.plan.model, &census);
    pith_advice_sample(census.active, &a->sized.calib_tokens, &a->sized.max_tokens);
    a->advice.options = &a->sized;
}

/* --- what is tried ---------------------------------------------------------------------------- */

static bool is_gptq(const struct pith_rounder *r)
{
    return strcmp(r->alone ? r->alone : r->name, "gptq") == 0;
}

/* How a recipe of the plan is rounded instead of by its own rounder, or NULL. */
static const char *round_of(const struct trial *a, const char *recipe)
{
    struct pith_recipe r;
    const char *round = a->advice.options->round;
    if (!round || pith_recipe_load(recipe, &r, NULL) != PITH_OK) return NULL;
    return is_gptq(r.round) && strcmp(r.round->name, round) != 0 ? round : NULL;
}

static enum pith_status check_round(const struct pith_advise_options *o, struct pith_error *err)
{
    const struct pith_rounder *r = o->round ? pith_rounder_find(o->round) : NULL;
    if (!o->round || (r && is_gptq(r))) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "`round` %s: stands for GPTQ where a recipe rounds so; gptq, qep, qep:kron do",
                     o->round);
}

/* Why the first of what is ruled out is; "": nothing is. */
static const char *first_reason(const struct pith_advice *v)
{
    if (v->outs) return v->out[0].why;
    return v->plan.outs ? v->plan.out[0].why : "";
}

/* An earlier row's, of the same recipe, or the row's own: they share a checkpoint. */
static size_t maker_of(const struct pith_advice *v, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (strcmp(v->tried[i].row->k.c->name, v->tried[row].row->k.c->name) == 0) return i;
    return row;
}

static enum pith_status rule_out(struct pith_advice *v, const struct pith_plan_row *row,
                                 const char *why, struct pith_error *err)
{
    struct pith_advice_out *out = &v->out[v->outs];
    *out = (struct pith_advice_out){row, pith_strdup(why)};
    if (!out->why) return pith_fail_nomem(err, "advice");
    v->outs++;
    return PITH_OK;
}

/* To nine digits, as reports have numbers: "worth" follows from what stands next to it. */
static double as_reported(double x)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.9g", x);
    return strtod(text, NULL);
}

/* The weights as they are, and the first recipes of the plan; each with the caches that it has. */
static enum pith_status choose(struct trial *a, struct pith_error *err)
{
    struct pith_advice *v = &a->advice;
    size_t recipes = 0;
    v->tried = pith_zalloc(v->plan.rows + 1, sizeof *v->tried);
    v->out = pith_zalloc(v->plan.rows + 1, sizeof *v->out);
    if (!v->tried || !v->out) return pith_fail_nomem(err, "advice");
    for (size_t i = 0; i < v->plan.rows; i++) {
        struct pith_plan_row *row = v->plan.row[i];
        struct pith_advice_try *t = &v->tried[v->count];
        row->round = round_of(a, row->k.c->name);
        row->f.rate = as_reported(row->f.rate);
        row->f.cost = as_reported(row->f.cost);
        t->row = row;
        t->maker = maker_of(v, v->count);
        const bool first = t->maker == v->count && !pith_plan_is_plain(row);
        if (first && v->options->candidates && recipes == v->options->candidates) {
            PITH_TRY(rule_out(v, row, "not tried: others come first in the plan", err));
            continue;
        }
        recipes += first;
        v->count++;
    }
    if (v->count) return PITH_OK;
    const char *why = first_reason(v);
    return pith_fail(err, PITH_UNSUPPORTED, "nothing fits on %s for %s%s%.500s", v->hardware,
                     v->engine, *why ? ": " : "", why);
}

/* --- the folder ------------------------------------------------------------------------------- */

/* What another call would have to be for to go on here. */
static json_t *call_of(const struct trial *a)
{
    const struct pith_advise_options *o = a->advice.options;
    json_t *calib = json_array();
    for (size_t i = 0; i < o->calib.count; i++)
        pith_json_add(&calib, pith_json_name(o->calib.item[i]));
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:b, s:s, s:s?}", "model", pith_json_name(o->model),
                     "target", o->target, "calib", calib, "calib_tokens",
                     (json_int_t)o->calib_tokens, "seed", (json_int_t)o->seed, "halves",
                     a->advice.halves, "crlf", o->crlf ? o->crlf : "keep", "round", o->round);
}

static enum pith_status open_folder(struct trial *a, struct pith_error *err)
{
    enum { CALL_MOST = 1 << 20 };
    json_t *now = call_of(a), *before = NULL;
    char *path = pith_path_join(a->folder, "call.json");
    enum pith_status s = now && path ? PITH_OK : pith_fail_nomem(err, "advice");
    if (s == PITH_OK && !pith_path_exists(a->folder)) {
        s = pith_dir_make(a->folder, err);
        if (s == PITH_OK) s = pith_json_save(path, now, err);
    } else if (s == PITH_OK && !a->advice.options->resume) {
        s = pith_fail(err, PITH_ARG,
                      "%s: is there already; continue it with `resume`, or remove it", a->folder);
    } else if (s == PITH_OK) {
        s = pith_json_load(path, CALL_MOST, &before, err);
        if (s == PITH_OK && !json_equal(now, before))
            s = pith_fail(err, PITH_ARG, "%s: belongs to another command", a->folder);
    }
    pith_free(path);
    json_decref(now);
    json_decref(before);
    return s;
}

/* Half of the text that ships, cut at a line, as a file. */
static enum pith_status write_half(const struct trial *a, bool second, const char *name,
                                   char **path, struct pith_error *err)
{
    const char *all = pith_builtin_text;
    size_t cut = pith_builtin_text_size / 2;
    while (cut < pith_builtin_text_size && all[cut - 1] != '\n') cut++;
    *path = pith_path_join(a->folder, name);
    if (!*path) return pith_fail_nomem(err, name);
    return second ? pith_file_write(*path, all + cut, pith_builtin_text_size - cut, err)
                  : pith_file_write(*path, all, cut, err);
}

static enum pith_status write_texts(struct trial *a, struct pith_error *err)
{
    const struct pith_advise_options *o = a->advice.options;
    a->texts = o->texts;
    a->calib = o->calib;
    if (o->texts.count) return PITH_OK;
    PITH_TRY(write_half(a, true, "text.txt", &a->text_path, err));
    a->texts = (struct pith_list){(const char *const *)&a->text_path, 1};
    if (!a->advice.halves) return PITH_OK;
    PITH_TRY(write_half(a, false, "calib.txt", &a->calib_path, err));
    a->calib = (struct pith_list){(const char *const *)&a->calib_path, 1};
    return PITH_OK;
}

/* --- progress --------------------------------------------------------------------------------- */

static int on_step(void *ctx, const char *what, double done, double total)
{
    const struct trial *a = ctx;
    const struct pith_progress *p = &a->advice.options->progress;
    char text[256];
    (void)snprintf(text, sizeof text, "%s: %s", a->stage, what);
    return p->fn ? p->fn(p->ctx, text, done, total) : 0;
}

/* Each recipe's share is one progress, and the measuring another: which it is stands before. */
static void begin_recipe(struct trial *a, const struct pith_advice_try *t)
{
    size_t all = 0, number = 0;
    for (size_t i = 0; i < a->advice.count; i++) {
        if (a->advice.tried[i].maker != i || pith_plan_is_plain(a->advice.tried[i].row)) continue;
        all++;
        number += &a->advice.tried[i] <= t;
    }
    (void)snprintf(a->stage, sizeof a->stage, "%.80s, recipe %zu of %zu", t->row->k.c->name, number,
                   all);
}

/* --- making ----------------------------------------------------------------------------------- */

/* Statuses that say something of the recipe, not of this call. */
static bool is_refusal(enum pith_status s)
{
    return s == PITH_UNSUPPORTED || s == PITH_NUMERIC || s == PITH_ARG || s == PITH_LIMIT;
}

static enum pith_status quantize(struct trial *a, struct pith_advice_try *t, struct pith_error *err)
{
    const struct pith_advise_options *o = a->advice.options;
    struct pith_quantize_options q;
    const char *target = o->target;
    const struct pith_container *container = pith_plan_other_container(&t->row->k);
    pith_quantize_defaults(&q);
    q.model = o->model;
    q.out = t->path;
    q.recipe = t->row->k.c->name;
    q.round = t->row->round;
    if (container) q.container = container->name;
    q.calib = a->calib;
    q.crlf = o->crlf;
    q.calib_tokens = o->calib_tokens;
    q.seq_len = 512;
    q.seed = o->seed;
    q.requantize = true; /* a sample, which nobody keeps */
    if (strcmp(a->advice.engine, "pith") != 0) q.targets = (struct pith_list){&target, 1};
    q.progress = (struct pith_progress){on_step, a};
    q.resume = o->resume && pith_place_is_begun(&q);
    return pith_quantize(a->context, &q, NULL, err);
}

/* A checkpoint of the recipe, if it is not there from an interrupted call. */
static enum pith_status make(struct trial *a, struct pith_advice_try *t, struct pith_error *err)
{
    char name[96];
    struct pith_error why = {0};
    const struct pith_container *own = pith_plan_own_container(t->row->k.c);
    (void)snprintf(name, sizeof name, "%.80s%s", t->row->k.c->name,
                   own && own->file ? ".gguf" : "");
    t->path = pith_path_join(a->folder, name);
    if (!t->path) return pith_fail_nomem(err, name);
    if (pith_path_exists(t->path)) return PITH_OK;
    begin_recipe(a, t);
    const enum pith_status s = quantize(a, t, &why);
    if (s == PITH_OK) return s;
    if (!is_refusal(s)) {
        if (err) *err = why;
        return s;
    }
    t->failed = true;
    return rule_out(&a->advice, t->row, why.text, err);
}

static enum pith_status make_all(struct trial *a, struct pith_error *err)
{
    const char *model = a->advice.options->model;
    for (size_t i = 0; i < a->advice.count; i++) {
        struct pith_advice_try *t = &a->advice.tried[i];
        if (t->maker != i) t->failed = a->advice.tried[t->maker].failed;
        else if (!pith_plan_is_plain(t->row)) PITH_TRY(make(a, t, err));
        else if (!(t->path = pith_strdup(model))) return pith_fail_nomem(err, "advice");
    }
    return PITH_OK;
}

/* --- measuring -------------------------------------------------------------------------------- */

/* Means over the texts. */
static void take_measured(struct pith_advice_try *t, const struct pith_results *of)
{
    const double n = (double)of->texts;
    for (size_t i = 0; i < of->texts; i++) {
        const struct pith_text_result *x = &of->text[i].result;
        const struct pith_interval ci = x->harm.kld_ci95;
        t->kld += as_reported(x->kld_mean) / n;
        t->least += isfinite(ci.lo) ? as_reported(ci.lo) / n : 0;
        t->most += isfinite(ci.hi) ? as_reported(ci.hi) / n : 0;
        t->tokens += (double)x->tokens;
    }
    t->measured = n > 0;
}

/* At most so many tokens in windows that judge so many each: a window that is begun is measured to
 * its end. */
static size_t whole_windows(size_t tokens, size_t judged)
{
    return judged && tokens > judged ? tokens / judged * judged : tokens;
}

/* Models and their caches, the first model without. */
static enum pith_status compare(struct trial *a, const struct pith_list *models,
                                const struct pith_list *caches, struct pith_error *err)
{
    const struct pith_advise_options *o = a->advice.options;
    const size_t most = a->advice.plan.model.model->shape.max_position;
    struct pith_advice_try *tried = a->advice.tried;
    struct pith_results *of = pith_zalloc(models->count, sizeof *of);
    struct pith_eval_options e;
    if (!of) return pith_fail_nomem(err, "advice");
    pith_eval_defaults(&e);
    e.convention = "bos";
    e.texts = a->texts;
    e.crlf = o->crlf;
    e.caches = *caches;
    e.context = most && most < 512 ? most : 512;
    e.max_tokens = whole_windows(o->max_tokens, e.context - 1);
    (void)snprintf(a->stage, sizeof a->stage, "measuring recipes");
    e.progress = (struct pith_progress){on_step, a};
    const enum pith_status s = pith_compare_measure(a->context, models, &e, a->folder, of, err);
    for (size_t i = 0, k = 1; s == PITH_OK && i < a->advice.count; i++)
        if (!tried[i].failed) take_measured(&tried[i], &of[k++]);
    for (size_t i = 0; i < models->count; i++) pith_results_free(&of[i]);
    pith_free(of);
    return s;
}

static enum pith_status measure(struct trial *a, struct pith_error *err)
{
    const char **model = pith_alloc(a->advice.count + 1, sizeof *model);
    const char **cache = pith_alloc(a->advice.count, sizeof *cache);
    size_t n = 0;
    enum pith_status s = model && cache ? PITH_OK : pith_fail_nomem(err, "advice");
    if (s == PITH_OK) model[0] = a->advice.options->model;
    for (size_t i = 0; i < a->advice.count && s == PITH_OK; i++) {
        if (a->advice.tried[i].failed) continue;
        cache[n] = a->advice.tried[i].row->k.kv_name;
        model[++n] = a->advice.tried[a->advice.tried[i].maker].path;
    }
    if (s == PITH_OK && n == 0)
        s = pith_fail(err, PITH_UNSUPPORTED,
                      "no recipe that %s loads can be made of this model: %s", a->advice.engine,
                      first_reason(&a->advice));
    if (s == PITH_OK)
        s = compare(a, &(struct pith_list){model, n + 1}, &(struct pith_list){cache, n}, err);
    pith_free(model);
    pith_free(cache);
    return s;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void close_advice(struct trial *a)
{
    struct pith_advice_try *tried = a->advice.tried;
    for (size_t i = 0; i < a->advice.count && tried; i++) pith_free(tried[i].path);
    for (size_t i = 0; i < a->advice.outs; i++) pith_free(a->advice.out[i].why);
    pith_free(tried);
    pith_free(a->advice.out);
    pith_text_free(a->own);
    pith_free(a->text_path);
    pith_free(a->calib_path);
    pith_free(a->folder);
    pith_plan_search_free(&a->advice.plan);
}

/* Checkpoints are folders in the folder. */
static enum pith_status remove_folder(const struct trial *a, struct pith_error *err)
{
    for (size_t i = 0; i < a->advice.count; i++) {
        const struct pith_advice_try *t = &a->advice.tried[i];
        const bool made = t->maker == i && t->path && !pith_plan_is_plain(t->row);
        if (made && pith_path_is_dir(t->path)) PITH_TRY(pith_dir_remove(t->path, err));
    }
    return pith_dir_remove(a->folder, err);
}

static enum pith_status advise(struct trial *a, struct pith_report **report, struct pith_error *err)
{
    PITH_TRY(check_round(a->advice.options, err));
    PITH_TRY(read_target(a, err));
    PITH_TRY(make_plan(a, err));
    size_sample(a);
    PITH_TRY(choose(a, err));
    PITH_TRY(open_folder(a, err));
    enum pith_status s = write_texts(a, err);
    if (s == PITH_OK) s = make_all(a, err);
    if (s == PITH_OK) s = measure(a, err);
    if (s != PITH_OK) return pith_fail_resumable(err, s);
    PITH_TRY(remove_folder(a, err));
    *report = pith_advice_report(&a->advice);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}

enum pith_status pith_advise_report(struct pith_context *context,
                                    const struct pith_advise_options *given,
                                    struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_advise_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    if (!o->model || !o->work || !o->target)
        return pith_fail(err, PITH_ARG, "a model, a target and a folder to work in are needed");
    struct trial a = {
        .advice = {.options = o, .halves = o->texts.count == 0 && o->calib.count == 0},
        .context = context};
    struct pith_str folder = {0};
    pith_str_printf(&folder, "%s.partial", o->work);
    a.folder = pith_str_take(&folder);
    enum pith_status s = a.folder ? advise(&a, report, err) : pith_fail_nomem(err, "advice");
    close_advice(&a);
    return s;
}

enum pith_status pith_advise(struct pith_context *context, const struct pith_advise_options *given,
                             char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, pith_advise_report(context, given, &r, err), report, err);
}
