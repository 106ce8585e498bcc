/* The order of steps of a quantization run. */
#include "quantize/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "quantize/block.h"
#include "quantize/memory_estimate.h"
#include "quantize/output/account.h"
#include "quantize/output/ends.h"
#include "quantize/output/layout.h"
#include "quantize/output/outer.h"
#include "quantize/output/summary.h"
#include "quantize/output/work_folder.h"
#include "quantize/prediction.h"
#include "quantize/site/module_output.h"

#include <stdio.h>
#include <string.h>

/* --- units ------------------------------------------------------------------------------------ */

static bool is_noted(const json_t *unit, const char *key, const char *hex)
{
    const char *want = json_string_value(json_object_get(unit, key));
    return hex[0] == '\0' || (want && strcmp(hex, want) == 0);
}

/* The activations that the last of `n` finished units wrote are intact: after a power cut, mapped
 * pages may be lost although the journal is not. */
static enum pith_status acts_intact(const struct pith_run *r, size_t n, bool *intact,
                                    struct pith_error *err)
{
    const json_t *last = json_array_get(r->journal.units, n - 1);
    char hex[PITH_SHA256_HEX], of_float[PITH_SHA256_HEX];
    *intact = true;
    /* A model's last block leaves none. */
    if (!pith_job_calibrates(r->job) || n == r->job->model->shape.layers + 1) return PITH_OK;
    PITH_TRY(pith_ranks_digest(r->ranks, &r->cal.acts[0], hex, err));
    PITH_TRY(pith_ranks_digest(r->ranks, &r->cal.learn.acts[0], of_float, err));
    *intact = is_noted(last, "activations", hex) && is_noted(last, "float_activations", of_float);
    return pith_ranks_share(r->ranks, 0, intact, sizeof *intact, err);
}

static enum pith_status note_acts(json_t *unit, const char *key, struct pith_ranks *ranks,
                                  const struct pith_acts *a, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    PITH_TRY(pith_ranks_digest(ranks, a, hex, err));
    return hex[0] == '\0' || json_object_set_new(unit, key, json_string(hex)) == 0
               ? PITH_OK
               : pith_fail_nomem(err, "a digest");
}

/* None of the files that are mapped changed under the run: what was computed from them counts. */
static enum pith_status check_files(const struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_checkpoint_settle(r->job->model->checkpoint, false, PITH_OK, err));
    if (r->out.written) PITH_TRY(pith_checkpoint_settle(r->out.written, true, PITH_OK, err));
    return pith_calibration_check(&r->cal, err);
}

/* The part of a unit that writes: syncs what the unit names, then journals it. */
static enum pith_status finish_job(void *ctx, struct pith_error *err)
{
    struct pith_run *r = ctx;
    const struct pith_finish *f = &r->journal.finish;
    if (f->acts) {
        PITH_TRY(note_acts(f->unit, "activations", NULL, f->acts, err));
        PITH_TRY(note_acts(f->unit, "float_activations", NULL, &f->output_float, err));
    }
    if (!pith_run_writes(r)) return check_files(r, err);
    PITH_TRY(pith_output_sync(r->job, &r->out, err));
    PITH_TRY(check_files(r, err));
    return pith_journal_write(r->job, &r->journal, f->unit, err);
}

/* Waits for the unit before to be safe, and counts it among the finished. */
static enum pith_status wait_finish(struct pith_run *r, struct pith_error *err)
{
    struct pith_finish *f = &r->journal.finish;
    if (!f->unit) return PITH_OK;
    pith_phases_begin(&r->phases);
    enum pith_status s = pith_async_wait(&f->job, err);
    pith_phases_mark(&r->phases, PITH_PHASE_SYNC);
    pith_source_forget(f->unit);
    if (s == PITH_OK && json_array_append(r->journal.units, f->unit) != 0)
        s = pith_fail_nomem(err, "the journal");
    json_decref(f->unit);
    f->unit = NULL;
    return s;
}

/* Finishes the unit in a separate job, after the one before. */
static enum pith_status finish_unit(struct pith_run *r, json_t *unit, const struct pith_acts *acts,
                                    struct pith_error *err)
{
    struct pith_finish *f = &r->journal.finish;
    PITH_TRY(wait_finish(r, err));
    f->unit = json_incref(unit);
    f->acts = NULL;
    PITH_TRY(pith_writers_end(r, unit, err));
    PITH_TRY(pith_scratch_file_check(&r->cal.sent, "pith.acts.sent", err));
    /* Only this thread speaks with other ranks. */
    if (acts && r->ranks) {
        PITH_TRY(note_acts(unit, "activations", r->ranks, acts, err));
        PITH_TRY(note_acts(unit, "float_activations", r->ranks, &r->cal.learn.acts[0], err));
    } else if (acts) {
        f->output = *acts; /* the next unit reads them and writes elsewhere */
        f->output_float = r->cal.learn.acts[0];
        f->acts = &f->output;
    }
    return pith_async_start(finish_job, r, &f->job, err);
}

/* Reads layers ahead, those that are rounded together, while the units before compute; before the
 * first, what stands outside. */
static enum pith_status read_ahead(void *ctx, struct pith_error *err)
{
    const struct pith_run *r = ctx;
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    size_t count;
    (void)err;
    for (size_t i = 0; i < in->count && r->reading_layer == 0; i++)
        if (pith_unit_of(&r->job->model->plans, in->tensors[i].name) == 0)
            pith_checkpoint_prefetch(in, &in->tensors[i]);
    const size_t layers = pith_job_together(r->job, (uint32_t)r->reading_layer);
    for (size_t k = 1; k <= layers; k++) {
        const size_t first = pith_unit_tensors(r->job->model, r->reading_layer + k, &count);
        for (size_t i = first; i < first + count; i++)
            pith_checkpoint_prefetch(in, &in->tensors[i]);
    }
    return PITH_OK;
}

static enum pith_status begin_reading(struct pith_run *r, size_t layer, struct pith_error *err)
{
    PITH_TRY(pith_async_wait(&r->reading, err));
    r->reading_layer = layer;
    return layer < r->job->model->shape.layers ? pith_async_start(read_ahead, r, &r->reading, err)
                                               : PITH_OK;
}

static enum pith_status run_outer(struct pith_run *r, json_t *unit, struct pith_error *err)
{
    json_t *tensors = json_array();
    if (json_object_set_new(unit, "tensors", tensors) != 0)
        return pith_fail_nomem(err, "the journal");
    json_t *linears = json_array();
    if (json_object_set_new(unit, "linears", linears) != 0)
        return pith_fail_nomem(err, "the journal");
    PITH_TRY(pith_run_outer(r, tensors, err));
    PITH_TRY(pith_ends_store(r, linears, tensors, err));
    if (pith_job_calibrates(r->job)) PITH_TRY(pith_run_embed(r, err));
    pith_learn_embedded(r);
    return PITH_OK;
}

/* A unit's account, with what it reads. */
static enum pith_status begin_unit(struct pith_run *r, size_t index, json_t **unit,
                                   struct pith_error *err)
{
    char name[PITH_UNIT_NAME];
    pith_unit_name(index, name);
    *unit = json_pack("{s:s}", "unit", name);
    if (!*unit) return pith_fail_nomem(err, "the journal");
    return pith_source_note(r, index, *unit, err);
}

static enum pith_status run_first(struct pith_run *r, struct pith_error *err)
{
    json_t *unit = NULL;
    r->unit_now = 0;
    pith_writers_begin(r);
    enum pith_status s = begin_reading(r, 0, err);
    if (s == PITH_OK) s = begin_unit(r, 0, &unit, err);
    if (s == PITH_OK) s = run_outer(r, unit, err);
    if (s == PITH_OK)
        s = finish_unit(r, unit, pith_job_calibrates(r->job) ? &r->cal.acts[0] : NULL, err);
    json_decref(unit);
    return s;
}

/* One of the blocks that are rounded together. The first reads `in`, the output of the units
 * before, which stays until the last is done, for a run that goes on from there: the others write
 * over what they read. The last one stores activations, but for a model's last, and a rehearsal's.
 */
static enum pith_status finish_layer(struct pith_run *r, struct pith_blocks *b, uint32_t place,
                                     const struct pith_acts *in, struct pith_error *err)
{
    const uint32_t layer = b->first + place;
    const bool more = pith_job_calibrates(r->job) && layer + 1 < r->job->model->shape.layers;
    const bool last = place + 1 == b->count, leaves = more && last && !r->job->options->rehearse;
    r->unit_now = layer + (size_t)1;
    pith_writers_begin(r);
    PITH_TRY(pith_blocks_finish(b, place, more, err));
    if (more) r->cal.acts[0] = last ? *in : r->cal.acts[1];
    if (leaves) pith_calibration_swap(&r->cal);
    pith_model_shed(r->job->model, layer);
    return finish_unit(r, b->unit[place], leaves ? &r->cal.acts[0] : NULL, err);
}

static enum pith_status run_together(struct pith_run *r, struct pith_blocks *b, json_t **unit,
                                     struct pith_error *err)
{
    const struct pith_acts in = r->cal.acts[0];
    r->unit_now = b->first + (size_t)1;
    r->together = b->count;
    PITH_TRY(begin_reading(r, b->first + (size_t)b->count, err));
    for (uint32_t i = 0; i < b->count; i++)
        PITH_TRY(begin_unit(r, b->first + (size_t)i + 1, &unit[i], err));
    PITH_TRY(pith_blocks_open(b, err));
    r->together = 0;
    for (uint32_t i = 0; i < b->count; i++) PITH_TRY(finish_layer(r, b, i, &in, err));
    return PITH_OK;
}

/* The first unit, or those of the blocks that are rounded together, of which `index` is the first.
 */
static enum pith_status run_unit(struct pith_run *r, size_t index, struct pith_error *err)
{
    if (index == 0) return run_first(r, err);
    const uint32_t layer = (uint32_t)index - 1, count = pith_job_together(r->job, layer);
    json_t **unit = pith_zalloc(count, sizeof *unit);
    struct pith_blocks b = {.run = r, .unit = unit, .first = layer, .count = count};
    const enum pith_status s = unit ? run_together(r, &b, unit, err)
                                    : pith_fail_nomem(err, "the journal");
    pith_blocks_close(&b);
    for (uint32_t i = 0; unit && i < count; i++) json_decref(unit[i]);
    pith_free(unit);
    return s;
}

/* How many units run_unit() of this one does. */
static size_t units_of(const struct pith_run *r, size_t index)
{
    return index == 0 ? 1 : pith_job_together(r->job, (uint32_t)index - 1);
}

/* Of so many finished units, those after which a run can go on: blocks that are rounded together
 * are done together. *stages: how often activations have changed places. */
static size_t whole_units(const struct pith_run *r, size_t done, size_t *stages)
{
    size_t whole = 0;
    for (*stages = 0; whole < done && whole + units_of(r, whole) <= done; ++*stages)
        whole += units_of(r, whole);
    *stages = *stages ? *stages - 1 : 0;
    return whole;
}

enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err)
{
    char text[160];
    uint64_t own, mapped;
    pith_memory_now(&own, &mapped);
    if (own > r->peak_anonymous) r->peak_anonymous = own;
    if (mapped > r->peak_mapped) r->peak_mapped = mapped;
    if (r->together > 1)
        snprintf(text, sizeof text, "blocks %zu to %zu of %u: %s%s", r->unit_now,
                 r->unit_now + r->together - 1, r->job->model->shape.layers, what, r->paces.note);
    else
        snprintf(text, sizeof text, "block %zu of %u: %s%s", r->unit_now,
                 r->job->model->shape.layers, what, r->paces.note);
    r->work_done += effort;
    return pith_progress_step(&r->job->options->progress, text, r->work_done, r->work_total, err);
}

/* The other ranks go through as many meanwhile. */
static enum pith_status count_window(void *ctx, struct pith_error *err)
{
    struct pith_run *r = ctx;
    const struct pith_acts *a = &r->cal.acts[0];
    return pith_run_step(r, "calibration", (double)pith_acts_all(a) / (double)a->windows, err);
}

/* Goes on after those of the *done units of an earlier run that are whole in the files; from the
 * start when the stored activations of the last of them are not intact. */
static enum pith_status resume(struct pith_run *r, size_t *done, struct pith_error *err)
{
    const size_t before = *done;
    const bool writes = pith_run_writes(r);
    bool intact;
    size_t stages;
    if (writes && before) PITH_TRY(pith_intact_units(r, done, err));
    *done = whole_units(r, *done, &stages);
    if (*done < before) PITH_TRY(pith_journal_cut(r->job, &r->journal, *done, err));
    PITH_TRY(pith_ranks_units(r, done, err));
    if (*done == 0) return PITH_OK;
    *done = whole_units(r, *done, &stages); /* of rank 0's */
    const bool swapped = pith_job_calibrates(r->job) && stages % 2 == 1;
    if (swapped) pith_calibration_swap(&r->cal);
    PITH_TRY(acts_intact(r, *done, &intact, err));
    if (intact) return PITH_OK;
    if (swapped) pith_calibration_swap(&r->cal);
    *done = 0;
    return writes ? pith_journal_cut(r->job, &r->journal, 0, err) : PITH_OK;
}

static enum pith_status run_units(struct pith_run *r, struct pith_error *err)
{
    const size_t total = (size_t)r->job->model->shape.layers + 1;
    const double guiding = pith_guiding_effort(r->job), each = pith_job_block_effort(r->job);
    size_t done = json_array_size(r->journal.units);
    r->work_total = guiding + each * r->job->model->shape.layers;
    if (pith_job_calibrates(r->job)) {
        PITH_TRY(pith_pace_guiding(r, err));
        PITH_TRY(pith_calibration_open(r, err));
        r->cal.collector.step = count_window;
        r->cal.collector.step_ctx = r;
    }
    if (done > 0 || r->ranks) PITH_TRY(resume(r, &done, err));
    for (size_t i = 0; i < done; i++) pith_source_forget(json_array_get(r->journal.units, i));
    r->work_done = guiding + (done > 1 ? each * (double)(done - 1) : 0);
    for (size_t i = done; i < total; i += units_of(r, i))
        PITH_TRY(pith_pace_unit(r, i, run_unit, err));
    PITH_TRY(wait_finish(r, err));
    return pith_writers_own(r) ? pith_reread(r, err) : PITH_OK;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* One of the blocks, on the output of the one before it; or those that are learned together. */
static enum pith_status rehearse_block(struct pith_run *r, uint32_t i, struct pith_rehearsal *all,
                                       struct pith_error *err)
{
    const struct pith_rehearsed *b = &all->block[i];
    const double start = pith_clock(), share = (double)b->like / r->job->model->shape.layers;
    if (i > 0 && pith_job_calibrates(r->job)) pith_calibration_swap(&r->cal);
    r->phases = (struct pith_phases){0};
    r->hashing = r->stepping = 0;
    PITH_TRY(run_unit(r, (size_t)b->layer + 1, err));
    PITH_TRY(wait_finish(r, err));
    all->seconds[i] = (pith_clock() - start) / all->together;
    all->cost[i] = pith_rehearsed_cost(
        r->job, b,
        &(struct pith_rehearsed_time){.phases = r->phases,
                                      .seconds = all->seconds[i] * all->together,
                                      .hashing = r->hashing,
                                      .stepping = r->stepping,
                                      .pieces = all->together});
    for (int k = 0; k < PITH_PHASE_COUNT; k++)
        all->phases.seconds[k] += share * r->phases.seconds[k] / all->together;
    return PITH_OK;
}

/* What goes before the blocks: the passes of guided rounding, embedding and head. */
static enum pith_status rehearse_ends(struct pith_run *r, struct pith_rehearsal *all,
                                      struct pith_error *err)
{
    const double start = pith_clock();
    struct pith_rehearsed_time time = {.pieces = 1};
    if (pith_job_calibrates(r->job)) {
        PITH_TRY(pith_guiding_open(r, err));
        time.guiding = pith_clock() - start;
        PITH_TRY(pith_calibration_open(r, err));
        r->cal.collector.step = count_window;
        r->cal.collector.step_ctx = r;
    }
    r->work_done = pith_guiding_effort(r->job);
    r->phases = (struct pith_phases){0};
    PITH_TRY(run_unit(r, 0, err));
    all->other = time.seconds = pith_clock() - start;
    time.phases = r->phases;
    all->before = pith_rehearsed_cost(r->job, NULL, &time);
    return PITH_OK;
}

static enum pith_status rehearse(struct pith_run *r, struct pith_report **report,
                                 struct pith_error *err)
{
    struct pith_rehearsal all = {.together = pith_job_together(r->job, 0)};
    all.count = pith_rehearsed_blocks(&r->job->model->plans, all.block);
    if (all.together > 1) { /* what is learned together stands for all */
        all.count = 1;
        all.block[0].like = r->job->model->shape.layers;
    }
    const uint32_t blocks = all.together > 1 ? all.together : all.count;
    r->work_total = pith_guiding_effort(r->job) + blocks * pith_job_block_effort(r->job);
    PITH_TRY(rehearse_ends(r, &all, err));
    for (uint32_t i = 0; i < all.count; i++) PITH_TRY(rehearse_block(r, i, &all, err));
    *report = pith_run_rehearsal(r, &all);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}

/* A folder keeps the recipe that names its linears, as a file that makes it again. */
static enum pith_status keep_recipe(const struct pith_run *r, struct pith_error *err)
{
    if (!json_object_get(r->job->more, "linears") || r->job->container->file) return PITH_OK;
    json_t *recipe = pith_job_recipe_json(r->job);
    char *path = pith_path_join(r->job->partial, "recipe.json");
    const enum pith_status s = recipe && path ? pith_json_save(path, recipe, err)
                                              : pith_fail_nomem(err, "recipe.json");
    json_decref(recipe);
    pith_free(path);
    return s;
}

/* The cache that was chosen with the weights, as --kv auto:BITS finds it. */
static enum pith_status keep_cache(const struct pith_run *r, struct pith_error *err)
{
    const json_t *cache = json_object_get(json_object_get(r->job->more, "predicted"), "cache");
    const json_t *record = json_object_get(cache, "record");
    char identity[PITH_SHA256_HEX];
    if (!json_is_object(record)) return PITH_OK;
    json_t *mine = json_copy((json_t *)record);
    struct pith_str path = {0};
    if (r->job->container->file) pith_str_printf(&path, "%s.kv.json", r->job->options->out);
    else pith_str_printf(&path, "%s/pith.kv.json", r->job->partial);
    enum pith_status s = PITH_OK;
    if (!mine || path.failed || !pith_checkpoint_identity(r->out.written, identity) ||
        json_object_set_new(mine, "checkpoint", json_string(identity)) != 0)
        s = pith_fail_nomem(err, "the KV cache's record");
    if (s == PITH_OK) s = pith_json_save(path.data, mine, err);
    json_decref(mine);
    pith_str_free(&path);
    return s;
}

/* The whole on the other ranks: the journal and the account are rank 0's. The folder is rank 0's
 * too, or one of that name on another disk. */
static enum pith_status follow(struct pith_run *r, struct pith_error *err)
{
    r->journal.units = json_array();
    if (!r->journal.units) return pith_fail_nomem(err, "the journal");
    PITH_TRY(pith_writers_join(r, err));
    PITH_TRY(pith_dir_make(r->job->partial, err));
    return run_units(r, err);
}

/* Reports the expected time of the rest, before its first block. Not for a run of seconds. */
static void report_expected(const struct pith_run *r)
{
    enum { NEWS = 10 };
    const struct pith_job *job = r->job;
    const struct pith_notice *t = &r->frame->notice;
    const double units = job->model->shape.layers + 1.0;
    const double left = 1 - (double)json_array_size(r->journal.units) / units;
    char text[PITH_EXPECT_TEXT], line[160];
    if (!t->say || r->frame->quiet || job->convert || left <= 0) return;
    const size_t tokens = job->calib.windows * job->calib.length;
    const double all =
        pith_expect_quantize(job, &job->recipe, tokens, pith_expect_speed(job->backend));
    if (left * all < NEWS || r->ranks) return;
    (void)snprintf(line, sizeof line, "time: %s expected%s", pith_expect_text(left * all, text),
                   left < 1 ? " for the rest" : "");
    t->say(t->ctx, line);
}

/* Takes the account. */
static enum pith_status give_account(const struct pith_job *job, json_t *account,
                                     struct pith_report **report, struct pith_error *err)
{
    *report = pith_account_report(job, account);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}

static enum pith_status run_all(struct pith_run *r, struct pith_report **report,
                                struct pith_error *err)
{
    if (!pith_run_writes(r)) return follow(r, err);
    PITH_TRY(pith_place_make(r, err));
    PITH_TRY(pith_journal_open(r->job, &r->journal, err));
    PITH_TRY(pith_source_check(r, err));
    r->out.owns_partial = true;
    PITH_TRY(pith_output_open(r->job, &r->out, err));
    pith_heap_trim(); /* of what opening took */
    PITH_TRY(pith_writers_join(r, err));
    if (r->job->options->rehearse) return rehearse(r, report, err);
    report_expected(r);
    PITH_TRY(run_units(r, err));
    json_t *account = pith_run_account(r);
    if (!account) return pith_fail_nomem(err, "pith.json");
    enum pith_status s = pith_prediction_check(r, account, err);
    if (s == PITH_OK) s = keep_recipe(r, err);
    if (s == PITH_OK) s = keep_cache(r, err);
    if (s == PITH_OK) s = pith_account_files(r, account, err);
    if (s == PITH_OK) s = pith_place_publish(r, account, err);
    if (s == PITH_OK) return give_account(r->job, account, report, err);
    json_decref(account);
    return s;
}

/* Nothing may be at work when what it works on goes away. */
static void stop_jobs(struct pith_run *r)
{
    (void)pith_async_wait(&r->journal.finish.job, NULL);
    (void)pith_async_wait(&r->reading, NULL);
    json_decref(r->journal.finish.unit);
    r->journal.finish.unit = NULL;
}

static void close_run(struct pith_run *r, enum pith_status s, struct pith_error *err)
{
    stop_jobs(r);
    pith_output_close(r->job, &r->out);
    pith_calibration_close(&r->cal);
    pith_place_leave(r, s, err);
    pith_dir_unlock(r->out.lock);
    json_decref(r->journal.units);
    pith_paces_free(&r->paces);
    pith_writers_close(&r->writers);
}

static enum pith_status run_job(const struct pith_job *job, const struct pith_frame *frame,
                                struct pith_report **report, struct pith_error *err)
{
    struct pith_run r = {.job = job,
                         .ranks = pith_job_ranks(job),
                         .out.lock = -1,
                         .frame = frame,
                         .started = frame->started};
    enum pith_status s = run_all(&r, report, err);
    stop_jobs(&r);
    s = pith_checkpoint_settle(job->model->checkpoint, false, s, err);
    if (s == PITH_OK) s = pith_writers_leave(&r, err);
    close_run(&r, s, err);
    return s;
}

/* A rehearsal is rank 0's alone, and the others wait for its end. */
static enum pith_status run_or_wait(const struct pith_job *job, const struct pith_frame *frame,
                                    struct pith_report **report, struct pith_error *err)
{
    static const char note[] = "a rehearsal is of one rank: the others wait";
    struct pith_ranks *ranks = pith_backend_ranks(job->backend);
    const bool wait = !pith_ranks_alone(ranks) && !pith_job_ranks(job);
    enum pith_status s = pith_ranks_meet(ranks, err); /* all are ready */
    if (s == PITH_OK && wait) s = pith_progress_step(&job->options->progress, note, 0, 1, err);
    if (s == PITH_OK && (!wait || pith_job_writes(job))) s = run_job(job, frame, report, err);
    return s == PITH_OK && wait ? pith_ranks_meet(ranks, err) : s;
}

enum pith_status pith_quantize_model(struct pith_backend *be, const struct pith_quantize_options *o,
                                     bool convert, const struct pith_frame *whole,
                                     struct pith_report **report, struct pith_error *err)
{
    /* For calibration the fast mode is that of bfloat16: bytes are for packed weights. Going back
     * cannot fail, since the memory for it is there. */
    const enum pith_mode mode = pith_backend_mode(be);
    struct pith_frame frame = *whole;
    if (!(frame.started > 0)) frame.started = pith_clock();
    struct pith_job job = {.options = o,
                           .fast = mode == PITH_MODE_FAST,
                           .convert = convert,
                           .guide_pass = frame.guide_pass,
                           .backend = be};
    json_t *account = NULL;
    struct pith_report *made = NULL;
    if (job.fast) PITH_TRY(pith_backend_set_mode(be, PITH_MODE_BF16, err));
    bool done = false;
    enum pith_status s = pith_job_open(&job, err);
    if (s == PITH_OK && pith_job_writes(&job)) s = pith_place_published(&job, &account, err);
    done = account != NULL;
    if (done) s = give_account(&job, account, &made, err);
    if (s == PITH_OK) s = pith_ranks_begin(&job, &done, err);
    if (s == PITH_OK && !done) s = pith_job_preflight(&job, err);
    if (s == PITH_OK && !done) s = pith_job_layout(&job, err);
    if (s == PITH_OK && !done) s = pith_job_fit(&job, err);
    if (s == PITH_OK && !done && pith_job_prepares(&job)) s = pith_backend_take_prepared(be, err);
    s = pith_checkpoint_settle(job.model ? job.model->checkpoint : NULL, false, s, err);
    if (s == PITH_OK && !done) s = run_or_wait(&job, &frame, &made, err);
    pith_job_close(&job);
    (void)pith_backend_set_mode(be, mode, NULL);
    if (s == PITH_OK) *report = made;
    else pith_report_free(&made);
    return pith_ranks_fail(pith_backend_ranks(be), s, err);
}
