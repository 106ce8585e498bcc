#include <pith/quantize.h>

#include "api/context.h"
#include "api/options.h"
#include "api/report.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "choose/auto.h"
#include "choose/sense.h"
#include "quantize/options.h"
#include "quantize/output/work_folder.h"
#include "quantize/run.h"
#include "tok/text_input.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

static const struct pith_quantize_options defaults = {
    .recipe = "awq",
    .calib_tokens = 131072,
    .seq_len = 2048,
    .max_shard = 5000000000u,
};

void pith_quantize_defaults_sized(struct pith_quantize_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

void pith_convert_defaults_sized(struct pith_convert_options *o, size_t size)
{
    pith_options_give(o, size, &(const struct pith_convert_options){0}, sizeof *o);
}

void pith_verify_defaults_sized(struct pith_verify_options *o, size_t size)
{
    pith_options_give(o, size, &(const struct pith_verify_options){0}, sizeof *o);
}

static enum pith_status check(const struct pith_quantize_options *o, bool convert,
                              struct pith_job_look *look, struct pith_error *err)
{
    PITH_TRY(pith_auto_check(o, err));
    char first[PITH_GRID_TEXT];
    const struct pith_quantize_options base = pith_auto_requested(o) ? pith_auto_base(o, first)
                                                                     : *o;
    return pith_job_check_options(&base, convert, look, err);
}

/* Takes the look. */
static enum pith_status give_look(struct pith_job_look *look, char **report, struct pith_error *err)
{
    struct pith_report *r = report ? pith_report_new() : NULL;
    const enum pith_status s = report && !r ? pith_fail_nomem(err, "the report") : PITH_OK;
    if (r) {
        pith_report_set(r, "recipe", pith_tree(json_incref(look->recipe)));
        pith_report_set(r, "container", pith_words(look->container->name));
        pith_report_set(r, "calibrates", pith_yes(look->calibrates));
        pith_report_set(r, "file", pith_yes(look->container->file != NULL));
    }
    json_decref(look->recipe);
    return pith_report_give(&r, s, report, err);
}

enum pith_status pith_quantize_check(const struct pith_quantize_options *given, char **report,
                                     struct pith_error *err)
{
    PITH_OPTIONS(pith_quantize_options, o, defaults, given, err);
    struct pith_job_look look;
    PITH_TRY(check(o, false, &look, err));
    return give_look(&look, report, err);
}

static const char *choice_of(const json_t *recipe, const char *stage)
{
    const char *text = json_string_value(json_object_get(recipe, stage));
    return text ? text : "";
}

enum pith_status pith_quantize_look(const struct pith_quantize_options *given,
                                    struct pith_quantize_look *look, struct pith_error *err)
{
    PITH_OPTIONS(pith_quantize_options, o, defaults, given, err);
    struct pith_job_look job;
    PITH_TRY(check(o, false, &job, err));
    const size_t size = look->size;
    struct pith_quantize_look all = {
        .size = size, .calibrates = job.calibrates, .file = job.container->file != NULL};
    all.random = all.calibrates || strcmp(choice_of(job.recipe, "transform"), "none") != 0;
    snprintf(all.weights, sizeof all.weights, "%s", choice_of(job.recipe, "weights"));
    snprintf(all.acts, sizeof all.acts, "%s", choice_of(job.recipe, "acts"));
    json_decref(job.recipe);
    memcpy(look, &all, size < sizeof all ? size : sizeof all);
    return PITH_OK;
}

/* Without a tokenizer all is made that needs none; reports that it is missing. */
static void look_for_tokenizer(const struct pith_context *c, const struct pith_quantize_options *o)
{
    static const char *const files[] = {"tokenizer.json", "tokenizer.model", "vocab.*",
                                        "*.tiktoken",     "tekken.json",     "*.gguf"};
    char **names, line[512];
    size_t count;
    bool found = false;
    if (!c->log || !pith_path_is_dir(o->model)) return;
    if (pith_dir_list(o->model, &names, &count, NULL) != PITH_OK) return;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < PITH_COUNT(files); k++) found |= pith_glob_match(files[k], names[i]);
    pith_names_free(names, count);
    if (found) return;
    snprintf(line, sizeof line,
             "%.200s: has no tokenizer, nor has what is made of it: no text can be measured or"
             " continued with it",
             o->model);
    c->log(c->log_ctx, line);
}

static void say(void *ctx, const char *line)
{
    const struct pith_context *c = ctx;
    if (c->log) c->log(c->log_ctx, line);
}

/* Remarks of the account about the model go to the context's log. */
static void report_remarks(const struct pith_context *c, const char *model,
                           const struct pith_report *report)
{
    json_t *j = report ? pith_report_tree(report) : NULL;
    pith_context_report_all(c, model, json_object_get(j, "remarks"));
    json_decref(j);
}

/* *report stays as it is where another rank has it. */
static enum pith_status run(struct pith_context *c, const struct pith_quantize_options *o,
                            bool convert, const struct pith_frame *frame,
                            struct pith_report **report, struct pith_error *err)
{
    pith_context_look(c, o->model);
    if (o->resume && c->log && !pith_place_is_begun(o))
        c->log(c->log_ctx, "`resume`: there is nothing to resume; this run starts anew");
    const bool there = o->resume && !o->rehearse && pith_path_exists(o->out);
    if (pith_ranks_first(c->ranks)) look_for_tokenizer(c, o);
    PITH_TRY(pith_quantize_model(c->backend, o, convert, frame, report, err));
    if (there && c->log)
        c->log(c->log_ctx, "`resume`: it was finished already; there is nothing to do");
    report_remarks(c, o->model, *report);
    return PITH_OK;
}

/* A folder has it already; next to a file the recipe that was found is written as well. */
static enum pith_status keep_recipe(const struct pith_quantize_options *o, const char *recipe,
                                    struct pith_error *err)
{
    struct pith_str to = {0};
    if (!pith_container_of_path(o->out)) return PITH_OK;
    pith_str_printf(&to, "%s." PITH_AUTO_RECIPE, o->out);
    const enum pith_status s = to.failed ? pith_fail_nomem(err, o->out)
                                         : pith_file_copy(recipe, to.data, err);
    pith_str_free(&to);
    return s;
}

/* Finds the recipe in a separate folder, "<out>.auto", which stays for as long as the run is not
 * finished. */
static enum pith_status run_auto(struct pith_context *c, const struct pith_quantize_options *given,
                                 struct pith_report **report, struct pith_error *err)
{
    struct pith_str folder = {0};
    struct pith_quantize_options whole = *given;
    const struct pith_quantize_options *o = &whole;
    struct pith_auto_clock clock = {.notice = {pith_ranks_first(c->ranks) ? say : NULL, c}};
    pith_auto_clock_start(&clock, given, &whole.progress);
    size_t n = strlen(o->out);
    while (n > 1 && o->out[n - 1] == '/') n--;
    pith_str_append(&folder, o->out, n);
    pith_str_puts(&folder, ".auto");
    const bool first = pith_ranks_first(c->ranks);
    char *recipe = folder.failed ? NULL : pith_auto_recipe(c->backend, folder.data);
    enum pith_status s = recipe ? PITH_OK : pith_fail_nomem(err, o->out);
    pith_context_look(c, o->model);
    if (s == PITH_OK && !o->resume && first) pith_sense_forget(folder.data);
    if (s == PITH_OK) s = pith_ranks_meet(c->ranks, err);
    if (s == PITH_OK) s = pith_dir_make(folder.data, err);
    if (s == PITH_OK) s = pith_auto_find(c->backend, o, folder.data, &clock, err);
    const bool found_it = s == PITH_OK;
    char grid[PITH_GRID_TEXT];
    struct pith_quantize_options found = pith_auto_base(o, grid);
    found.recipe = recipe;
    const struct pith_frame frame = {.guide_pass = &pith_sense_guide_pass,
                                     .started = clock.started,
                                     .search = pith_clock() - clock.started,
                                     .quiet = clock.stages > 0,
                                     .notice = clock.notice};
    if (s == PITH_OK) s = run(c, &found, false, &frame, report, err);
    if (s == PITH_OK && !o->rehearse && first) s = keep_recipe(o, recipe, err);
    if (s == PITH_OK && first) s = pith_dir_remove(folder.data, err);
    if (s == PITH_OK) s = pith_ranks_meet(c->ranks, err);
    if (s == PITH_OK && !first) (void)pith_dir_remove(folder.data, NULL); /* a separate disk */
    else if (!found_it && first && recipe && pith_path_is_dir(folder.data) &&
             !pith_sense_is_begun(folder.data))
        (void)pith_dir_remove(folder.data, NULL);
    if (s != PITH_OK) pith_report_free(report);
    pith_free(recipe);
    pith_str_free(&folder);
    return s;
}

enum pith_status pith_quantize_report(struct pith_context *c,
                                      const struct pith_quantize_options *given,
                                      struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_quantize_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(c, &o->progress);
    if (!o->model || !o->out)
        return pith_fail(err, PITH_ARG, "a model and an output folder are needed");
    struct pith_newlines newlines;
    PITH_TRY(pith_newlines_read(o->crlf, &newlines, err));
    PITH_TRY(pith_auto_check(o, err));
    if (!pith_auto_requested(o))
        return run(c, o, false,
                   &(struct pith_frame){.notice = {say, c}, .guide_pass = &pith_sense_guide_pass},
                   report, err);
    return pith_ranks_fail(c->ranks, run_auto(c, o, report, err), err);
}

enum pith_status pith_quantize(struct pith_context *c, const struct pith_quantize_options *given,
                               char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_quantize_report(c, given, &r, err), report, err);
}

static struct pith_quantize_options converting(const struct pith_convert_options *o)
{
    struct pith_quantize_options all = defaults;
    all.model = o->model;
    all.out = o->out;
    all.recipe = "rtn";
    all.weights = o->weights ? o->weights : "none";
    all.container = o->container;
    all.targets = o->targets;
    if (o->max_shard) all.max_shard = o->max_shard;
    all.allow_error = o->allow_error;
    all.resume = o->resume;
    all.progress = o->progress;
    all.adapter = o->adapter;
    all.gather = o->gather;
    if (o->adapter && !o->container && o->out && !pith_container_of_path(o->out))
        all.container = "compressed-tensors"; /* of nothing: the folder stays in 16 bits */
    return all;
}

enum pith_status pith_convert_check(const struct pith_convert_options *given, char **report,
                                    struct pith_error *err)
{
    PITH_OPTIONS(pith_convert_options, o, {0}, given, err);
    const struct pith_quantize_options all = converting(o);
    struct pith_job_look look;
    PITH_TRY(check(&all, true, &look, err));
    return give_look(&look, report, err);
}

enum pith_status pith_convert_report(struct pith_context *c,
                                     const struct pith_convert_options *given,
                                     struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_convert_options, o, {0}, given, err);
    o_taken.progress = pith_context_progress(c, &o->progress);
    if (!o->model || !o->out || (!o->container && !o->adapter && !pith_container_of_path(o->out)))
        return pith_fail(err, PITH_ARG, "a model, a container and an output folder are needed");
    const struct pith_quantize_options all = converting(o);
    return run(c, &all, true, &(struct pith_frame){.quiet = true}, report, err);
}

enum pith_status pith_convert(struct pith_context *c, const struct pith_convert_options *given,
                              char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_convert_report(c, given, &r, err), report, err);
}

enum pith_status pith_verify_check(const struct pith_verify_options *given, struct pith_error *err)
{
    PITH_OPTIONS(pith_verify_options, o, {0}, given, err);
    for (size_t i = 0; i < o->targets.count; i++) {
        struct pith_target ignored;
        PITH_TRY(pith_target_parse(o->targets.item[i], &ignored, err));
    }
    return PITH_OK;
}

enum pith_status pith_verify_report(struct pith_context *c, const struct pith_verify_options *given,
                                    struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_verify_options, o, {0}, given, err);
    o_taken.progress = pith_context_progress(c, &o->progress);
    pith_context_look(c, o->model);
    return pith_verify_model(c->backend, o, report, err);
}

enum pith_status pith_verify(struct pith_context *c, const struct pith_verify_options *given,
                             char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_verify_report(c, given, &r, err), report, err);
}
