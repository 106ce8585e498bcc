/* The order of steps of a quantization run. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "pipe/inspect.h"

#include <stdio.h>
#include <string.h>

/* --- what is to be done ---------------------------------------------------------------------- */

static const char *container_name(size_t i)
{
    size_t count;
    const struct pith_container *const *rows = pith_containers(&count);
    return i < count ? rows[i]->name : NULL;
}

static enum pith_status choose_container(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    const struct pith_container *file = pith_container_of_path(o->out);
    const char *name = o->container ? o->container : file ? file->name : r->recipe.container;
    r->container = pith_container_find(name);
    if (!r->container) return pith_fail_name(err, "container", name, container_name);
    if (file && !r->container->file)
        return pith_fail(err, PITH_ARG, "%s: names a file of %s, but the container is %s", o->out,
                         file->name, r->container->name);
    return PITH_OK;
}

/* For one file: the type that stands for a recipe's integers, unless --weights says another, and
 * the mixture around it. */
static enum pith_status settle_types(struct pith_run *r, struct pith_error *err)
{
    struct pith_recipe *recipe = &r->recipe;
    if (r->container->file && !r->options->weights && !r->convert)
        (void)pith_mixture_implied(&recipe->weights, &recipe->weights);
    if (!recipe->mixture) return PITH_OK;
    r->mixture = pith_mixture_find(recipe->weights.format, recipe->mixture);
    if (!r->mixture || r->convert)
        return pith_fail(err, PITH_ARG, "%s:%c: %s", recipe->weights.format->name, recipe->mixture,
                         r->convert ? "a conversion puts linears on one grid"
                                    : "llama.cpp has no such mixture; it has q2_k:s and :m, q3_k:s,"
                                      " :m and :l, q4_k and q5_k:s and :m, iq4_nl:m, iq4_xs:m");
    if (!r->container->file)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no mixtures of types; name a FILE of llama.cpp's with -o",
                         r->container->name);
    return PITH_OK;
}

enum pith_status pith_run_recipe(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    const struct {
        const char *stage, *text;
    } stages[] = {{"weights", o->weights},     {"acts", o->acts},   {"kv", o->kv},
                  {"transform", o->transform}, {"split", o->split}, {"round", o->round}};
    if (!(o->allow_error >= 0))
        return pith_fail(err, PITH_ARG, "--allow-error %g: at least 0", o->allow_error);
    const enum pith_status known = pith_experts_rule_find(o->experts, &r->experts, err);
    if (known != PITH_OK) return pith_fail_in(err, known, "--experts");
    PITH_TRY(pith_recipe_load(o->recipe, &r->recipe, err));
    if (r->convert) r->recipe.weights = (struct pith_grid){0}; /* --weights stands alone */
    for (size_t i = 0; i < PITH_COUNT(stages); i++)
        if (stages[i].text)
            PITH_TRY(pith_recipe_set(&r->recipe, stages[i].stage, stages[i].text, err));
    if (!r->recipe.weights.format && !r->recipe.split->two_four && !r->convert)
        return pith_fail(
            err, PITH_ARG,
            "nothing to do: the recipe leaves weights, activations and KV cache alone");
    PITH_TRY(choose_container(r, err));
    PITH_TRY(settle_types(r, err));
    const struct pith_transform *t = r->recipe.transform;
    r->needs_transform = t->needs | (t->also & r->recipe.round->needs);
    r->needs_round = r->recipe.round->needs | r->recipe.split->needs;
    return PITH_OK;
}

static enum pith_status open_input(struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_model_open(r->options->model, &r->model, err));
    if (r->model->container && !r->convert)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: is quantized already (%s); start from the original",
                         r->options->model, r->model->container->name);
    if (!r->model->container && r->convert && !r->container->file)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: is not quantized; pith quantize is for it",
                         r->options->model);
    const enum pith_dtype dtype = r->model->shape.dtype;
    r->container_opts = (struct pith_container_opts){
        .model_dtype = dtype,
        .sparse = r->recipe.split->sparse ? r->recipe.split_value : 0,
        .act_order_groups = r->needs_round && !pith_learn_needed(&r->recipe) &&
                            r->recipe.round_options.act_order == PITH_ORDER_GROUP,
    };
    return r->convert ? PITH_OK : pith_inputs_settle(r, err);
}

/* A transform of the whole model: what is rotated, and how. */
static enum pith_status open_basis(struct pith_run *r, struct pith_error *err)
{
    const struct pith_shape *s = &r->model->shape;
    if (!r->recipe.transform->basis) return PITH_OK;
    r->basis_plan = (struct pith_basis_plan){.hidden = s->hidden,
                                             .head_dim = s->head_dim,
                                             .attention = s->heads * s->head_dim,
                                             .ffn = s->ffn,
                                             .seed = r->options->seed};
    r->recipe.transform->basis(r->recipe.transform_value, &r->basis_plan);
    PITH_TRY(pith_basis_init(&r->basis, &r->basis_plan, err));
    PITH_TRY(pith_turn_check(&r->basis, r->model, err));
    r->container_opts.hadamard = r->basis.o.block > r->basis.down.block ? r->basis.o.block
                                                                        : r->basis.down.block;
    return PITH_OK;
}

static enum pith_status load_calibration(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    if (o->experts && !r->model->shape.moe.experts)
        return pith_fail(err, PITH_ARG, "--experts %s does nothing: %s is no mixture", o->experts,
                         o->model);
    if (!pith_run_calibrates(r)) return PITH_OK;
    PITH_TRY(pith_tokenizer_open(o->model, &r->tokenizer, err));
    pith_tokenizer_listen(r->tokenizer, &o->progress);
    const size_t context = r->model->shape.max_position;
    struct pith_door door;
    PITH_TRY(pith_door_read(o->crlf, &door, err));
    const struct pith_calib_options c = {
        .paths = o->calib.item,
        .path_count = o->calib.count,
        .tokens = o->calib_tokens,
        .seq_len = o->seq_len < context ? o->seq_len : context,
        .seed = o->seed,
        .lf = door.lf,
    };
    return pith_calib_load(&c, r->tokenizer, &r->calib, err);
}

static enum pith_status check_targets(const struct pith_run *r, struct pith_error *err)
{
    const struct pith_list *targets = &r->options->targets;
    const struct pith_offer offer = {
        .plans = &r->model->plans,
        .shape = &r->model->shape,
        .container = r->container,
        .opts = &r->container_opts,
        .linears = r->linears,
        .count = r->choice_count + 1,
    };
    for (size_t i = 0; i < targets->count; i++) {
        struct pith_target target;
        PITH_TRY(pith_target_parse(targets->item[i], &target, err));
        if (!r->quantizes) continue; /* whoever loads the original loads this */
        PITH_TRY(pith_preflight(&target, &offer, err));
    }
    return PITH_OK;
}

/* Refuses at once what could fail after hours: the target engines' rules, the memory ceiling. */
static enum pith_status preflight(struct pith_run *r, struct pith_error *err)
{
    const struct pith_quantize_options *o = r->options;
    PITH_TRY(pith_learn_check(r, err));
    PITH_TRY(check_targets(r, err));
    const uint64_t need = pith_run_estimate(r);
    if (o->memory && need > o->memory)
        return pith_fail(err, PITH_LIMIT,
                         "this run needs about %llu MiB and --memory allows %llu MiB; a shorter"
                         " --seq-len or a recipe without calibration needs less",
                         (unsigned long long)(need >> 20), (unsigned long long)(o->memory >> 20));
    /* The listener may act on this: from here on memory is taken as estimated. */
    return pith_progress_step(&o->progress, "preparing", 0, 1, err);
}

/* --- activations ----------------------------------------------------------------------------- */

/* Room for what one stage of a block leaves for the next. It saves time, nothing else: on a disk
 * without that room the stages are computed again for each site. */
static enum pith_status open_between(struct pith_run *r, struct pith_error *err)
{
    enum { SPARE = 64 << 20 }; /* for all that is yet to be written beside the reserved files */
    const uint64_t tokens = (uint64_t)r->calib.windows * r->calib.length;
    const uint64_t bytes = tokens * pith_stages_width(&r->model->plans) * sizeof(float);
    if (!r->needs_round || pith_learn_needed(&r->recipe)) return PITH_OK;
    char *path = pith_path_join(r->partial, "pith.acts.between");
    if (!path) return pith_fail_nomem(err, "a file's name");
    const uint64_t room = pith_disk_free(r->partial);
    struct pith_error why = {0};
    enum pith_status s = PITH_OK;
    const bool there = pith_path_exists(path) || room >= bytes + SPARE;
    if (!there || pith_scratch_file_open(path, bytes, &r->between, &why) != PITH_OK) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s: no room for %llu MiB of intermediate results, so they are computed again",
                 r->partial, (unsigned long long)(bytes >> 20));
        s = pith_unlink(path, err);
        if (s == PITH_OK) s = pith_progress_step(&r->options->progress, text, 0, 1, err);
    }
    pith_free(path);
    return s;
}

static enum pith_status open_acts(struct pith_run *r, struct pith_error *err)
{
    const size_t hidden = r->model->shape.hidden;
    const size_t bytes = r->calib.windows * r->calib.length * hidden * sizeof(float);
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "pith.acts.%d", i);
        char *path = pith_path_join(r->partial, name);
        const enum pith_status s = path ? pith_scratch_file_open(path, bytes, &r->acts_file[i], err)
                                        : pith_fail_nomem(err, name);
        pith_free(path);
        if (s != PITH_OK) return s;
        r->acts[i] =
            (struct pith_acts){r->acts_file[i].data, r->calib.windows, r->calib.length, hidden};
    }
    PITH_TRY(open_between(r, err));
    PITH_TRY(pith_learn_open(r, err));
    return pith_collector_init(&r->collector, r->backend, r->model, r->calib.length, err);
}

static void swap_acts(struct pith_run *r)
{
    const struct pith_acts a = r->acts[0];
    r->acts[0] = r->acts[1];
    r->acts[1] = a;
    pith_learn_swap(r);
}

static bool acts_digest(const struct pith_acts *a, char hex[PITH_SHA256_HEX])
{
    return pith_sha256_hex(a->x, a->windows * a->length * a->hidden * sizeof(float), hex);
}

/* The unit's entry `key` is the digest of a; a without numbers has none. */
static bool acts_are(const json_t *unit, const char *key, const struct pith_acts *a)
{
    const char *want = json_string_value(json_object_get(unit, key));
    char hex[PITH_SHA256_HEX];
    return !a->x || (want && acts_digest(a, hex) && strcmp(hex, want) == 0);
}

/* The activations that the last finished unit left behind are intact: after a power cut, mapped
 * pages may be lost although the journal is not. */
static bool acts_intact(const struct pith_run *r)
{
    const size_t n = json_array_size(r->units);
    const json_t *last = json_array_get(r->units, n - 1);
    /* A model's last block leaves none. */
    if (!pith_run_calibrates(r) || n == r->model->shape.layers + 1) return true;
    return acts_are(last, "activations", &r->acts[0]) &&
           acts_are(last, "float_activations", &r->learn.acts[0]);
}

/* --- units ----------------------------------------------------------------------------------- */

static enum pith_status note_acts(json_t *unit, const char *key, const struct pith_acts *a,
                                  struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    if (!a->x) return PITH_OK;
    return acts_digest(a, hex) && json_object_set_new(unit, key, json_string(hex)) == 0
               ? PITH_OK
               : pith_fail_nomem(err, "a digest");
}

/* None of the files that are mapped changed under the run: what was computed from them counts. */
static enum pith_status check_files(const struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_checkpoint_settle(r->model->checkpoint, false, PITH_OK, err));
    PITH_TRY(pith_checkpoint_settle(r->written, true, PITH_OK, err));
    for (int i = 0; i < 2; i++) {
        PITH_TRY(pith_scratch_file_check(&r->acts_file[i], "pith.acts", err));
        PITH_TRY(pith_scratch_file_check(&r->learn.file[i], "pith.acts.float", err));
    }
    return pith_scratch_file_check(&r->between, "pith.acts.between", err);
}

/* The disk's share of a unit: what it names is made safe, then it is said so. */
static enum pith_status finish_job(void *ctx, struct pith_error *err)
{
    struct pith_run *r = ctx;
    const struct pith_finish *f = &r->finish;
    if (f->acts) {
        PITH_TRY(note_acts(f->unit, "activations", f->acts, err));
        PITH_TRY(note_acts(f->unit, "float_activations", &f->left_float, err));
    }
    for (size_t i = 0; i < r->layout.shards; i++) PITH_TRY(pith_out_sync(&r->shards[i], err));
    PITH_TRY(check_files(r, err));
    return pith_journal_write(r, f->unit, err);
}

/* Waits for the unit before to be safe, and counts it among the finished. */
static enum pith_status wait_finish(struct pith_run *r, struct pith_error *err)
{
    struct pith_finish *f = &r->finish;
    if (!f->unit) return PITH_OK;
    pith_phases_begin(&r->phases);
    enum pith_status s = pith_async_wait(&f->job, err);
    pith_phases_mark(&r->phases, PITH_PHASE_SYNC);
    if (s == PITH_OK && json_array_append(r->units, f->unit) != 0)
        s = pith_fail_nomem(err, "the journal");
    json_decref(f->unit);
    f->unit = NULL;
    return s;
}

/* Leaves the unit to a job of its own, after the one before. */
static enum pith_status finish_unit(struct pith_run *r, json_t *unit, const struct pith_acts *acts,
                                    struct pith_error *err)
{
    struct pith_finish *f = &r->finish;
    PITH_TRY(wait_finish(r, err));
    f->unit = json_incref(unit);
    f->acts = NULL;
    if (acts) {
        f->left = *acts; /* the next unit reads them and writes elsewhere */
        f->left_float = r->learn.acts[0];
        f->acts = &f->left;
    }
    return pith_async_start(finish_job, r, &f->job, err);
}

/* Reads a layer ahead while the unit before computes; before the first, what stands outside. */
static enum pith_status read_ahead(void *ctx, struct pith_error *err)
{
    const struct pith_run *r = ctx;
    const struct pith_checkpoint *in = r->model->checkpoint;
    size_t count;
    (void)err;
    for (size_t i = 0; i < in->count && r->reading_layer == 0; i++)
        if (pith_unit_of(&r->model->plans, in->tensors[i].name) == 0)
            pith_checkpoint_prefetch(in, &in->tensors[i]);
    const size_t first = pith_unit_tensors(r->model, r->reading_layer + 1, &count);
    for (size_t i = first; i < first + count; i++) pith_checkpoint_prefetch(in, &in->tensors[i]);
    return PITH_OK;
}

static enum pith_status begin_reading(struct pith_run *r, size_t layer, struct pith_error *err)
{
    PITH_TRY(pith_async_wait(&r->reading, err));
    r->reading_layer = layer;
    return layer < r->model->shape.layers ? pith_async_start(read_ahead, r, &r->reading, err)
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
    if (pith_run_calibrates(r)) PITH_TRY(pith_run_embed(r, err));
    pith_learn_embedded(r);
    return PITH_OK;
}

static enum pith_status run_layer(struct pith_run *r, uint32_t layer, json_t *unit,
                                  struct pith_error *err)
{
    const bool more = pith_run_calibrates(r) && layer + 1 < r->model->shape.layers;
    PITH_TRY(pith_run_block(r, layer, more, unit, err));
    if (more && !r->options->rehearse) swap_acts(r);
    return PITH_OK;
}

static enum pith_status run_unit(struct pith_run *r, size_t index, struct pith_error *err)
{
    char name[PITH_UNIT_NAME];
    pith_unit_name(index, name);
    json_t *unit = json_pack("{s:s}", "unit", name);
    if (!unit) return pith_fail_nomem(err, "the journal");
    r->unit_now = index;
    enum pith_status s = begin_reading(r, index, err);
    if (s == PITH_OK) s = pith_source_note(r, index, unit, err);
    if (s == PITH_OK)
        s = index == 0 ? run_outer(r, unit, err) : run_layer(r, (uint32_t)index - 1, unit, err);
    /* The last block leaves no activations behind, nor does a rehearsal's. */
    const bool leaves = pith_run_calibrates(r) &&
                        (index == 0 || (index < r->model->shape.layers && !r->options->rehearse));
    if (s == PITH_OK) s = finish_unit(r, unit, leaves ? &r->acts[0] : NULL, err);
    json_decref(unit);
    return s;
}

/* A site's search tries some twenty candidates on the inspected tokens, with half a block each. */
double pith_run_site_effort(const struct pith_run *r)
{
    return 1 + 12.0 * PITH_INSPECT_TOKENS / (double)(r->calib.length ? r->calib.length : 1);
}

/* Work in units of a window's way through a block: each pass, each site's transform, and each
 * matrix rounded. */
static double steps_per_block(const struct pith_run *r)
{
    const double windows = (double)r->calib.windows;
    const bool calibrates = pith_run_calibrates(r);
    const double linears = r->model->plans.most_linears, sites = r->model->plans.most_sites;
    return linears + (r->needs_transform ? windows + sites * pith_run_site_effort(r) : 0) +
           (pith_learn_needed(&r->recipe) ? pith_learn_effort(r)
            : r->needs_round              ? sites * windows
                                          : 0) +
           (calibrates ? windows : 0);
}

enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err)
{
    char text[96];
    uint64_t own, mapped;
    pith_memory_now(&own, &mapped);
    if (own > r->peak_anonymous) r->peak_anonymous = own;
    if (mapped > r->peak_mapped) r->peak_mapped = mapped;
    snprintf(text, sizeof text, "block %zu of %u: %s", r->unit_now, r->model->shape.layers, what);
    r->work_done += effort;
    return pith_progress_step(&r->options->progress, text, r->work_done, r->work_total, err);
}

static enum pith_status count_window(void *ctx, struct pith_error *err)
{
    return pith_run_step(ctx, "calibration", 1, err);
}

/* Goes on after those of the *done units of an earlier run that are whole in the files; from the
 * start when the activations that the last of them left are not as it left them. */
static enum pith_status resume(struct pith_run *r, size_t *done, struct pith_error *err)
{
    const size_t before = *done;
    PITH_TRY(pith_intact_units(r, done, err));
    if (*done < before) PITH_TRY(pith_journal_cut(r, *done, err));
    if (*done == 0) return PITH_OK;
    const bool swapped = pith_run_calibrates(r) && (*done - 1) % 2 == 1;
    if (swapped) swap_acts(r);
    if (acts_intact(r)) return PITH_OK;
    if (swapped) swap_acts(r);
    *done = 0;
    return pith_journal_cut(r, 0, err);
}

static enum pith_status run_units(struct pith_run *r, struct pith_error *err)
{
    const size_t total = (size_t)r->model->shape.layers + 1;
    size_t done = json_array_size(r->units);
    if (pith_run_calibrates(r)) {
        PITH_TRY(open_acts(r, err));
        r->collector.step = count_window;
        r->collector.step_ctx = r;
    }
    if (done > 0) PITH_TRY(resume(r, &done, err));
    r->work_total = steps_per_block(r) * r->model->shape.layers;
    r->work_done = done > 1 ? steps_per_block(r) * (double)(done - 1) : 0;
    for (size_t i = done; i < total; i++) PITH_TRY(run_unit(r, i, err));
    PITH_TRY(wait_finish(r, err));
    return pith_reread(r, err);
}

/* --- the end --------------------------------------------------------------------------------- */

static enum pith_status run_rehearsal(struct pith_run *r, json_t **report, struct pith_error *err)
{
    const double before = pith_clock();
    if (pith_run_calibrates(r)) {
        PITH_TRY(open_acts(r, err));
        r->collector.step = count_window;
        r->collector.step_ctx = r;
    }
    r->work_total = steps_per_block(r);
    PITH_TRY(run_unit(r, 0, err));
    const double start = pith_clock();
    r->phases = (struct pith_phases){0};
    PITH_TRY(run_unit(r, 1, err));
    PITH_TRY(wait_finish(r, err));
    *report = pith_run_rehearsal(r, pith_clock() - start, start - before);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}

static enum pith_status run_all(struct pith_run *r, json_t **report, struct pith_error *err)
{
    PITH_TRY(pith_output_layout(r, err));
    PITH_TRY(pith_place_make(r, err));
    PITH_TRY(pith_journal_open(r, err));
    PITH_TRY(pith_source_check(r, err));
    r->owns_partial = true;
    PITH_TRY(pith_output_open(r, err));
    if (r->options->rehearse) return run_rehearsal(r, report, err);
    PITH_TRY(run_units(r, err));
    json_t *account = pith_run_account(r);
    if (!account) return pith_fail_nomem(err, "pith.json");
    enum pith_status s = pith_account_files(r, account, err);
    if (s == PITH_OK) s = pith_place_publish(r, account, err);
    if (s == PITH_OK) *report = account;
    else json_decref(account);
    return s;
}

/* Nothing may be at work when what it works on goes away. */
static void stop_jobs(struct pith_run *r)
{
    (void)pith_async_wait(&r->finish.job, NULL);
    (void)pith_async_wait(&r->reading, NULL);
    json_decref(r->finish.unit);
    r->finish.unit = NULL;
}

static void close_run(struct pith_run *r, enum pith_status s, struct pith_error *err)
{
    stop_jobs(r);
    pith_output_close(r);
    pith_collector_free(&r->collector);
    for (int i = 0; i < 2; i++) pith_scratch_file_close(&r->acts_file[i]);
    pith_scratch_file_close(&r->between);
    pith_learn_close(r);
    pith_place_leave(r, s, err);
    pith_dir_unlock(r->lock);
    pith_layout_free(&r->layout);
    pith_calib_free(&r->calib);
    pith_tokenizer_close(r->tokenizer);
    pith_run_unselect(r);
    pith_basis_free(&r->basis);
    json_decref(r->units);
    pith_model_close(r->model);
    pith_free(r->journal_path);
    pith_free(r->partial);
}

static enum pith_status prepare(struct pith_run *r, struct pith_error *err)
{
    PITH_TRY(pith_place_name(r, err));
    PITH_TRY(pith_run_recipe(r, err));
    PITH_TRY(pith_run_check_targets(r, err));
    PITH_TRY(open_input(r, err));
    PITH_TRY(open_basis(r, err));
    PITH_TRY(pith_run_select(r, err));
    PITH_TRY(pith_place_check(r, err));
    PITH_TRY(load_calibration(r, err));
    return pith_journal_fingerprint(r, err);
}

enum pith_status pith_pipe_quantize(struct pith_backend *be, const struct pith_quantize_options *o,
                                    bool convert, json_t **report, struct pith_error *err)
{
    /* For calibration the fast mode is that of bfloat16: bytes are for packed weights. Going back
     * cannot fail, since the memory for it is there. */
    const enum pith_mode mode = pith_backend_mode(be);
    struct pith_run r = {.options = o,
                         .fast = mode == PITH_MODE_FAST,
                         .convert = convert,
                         .backend = be,
                         .lock = -1,
                         .started = pith_clock()};
    json_t *made = NULL;
    if (r.fast) PITH_TRY(pith_backend_set_mode(be, PITH_MODE_BF16, err));
    enum pith_status s = prepare(&r, err);
    if (s == PITH_OK) s = pith_place_published(&r, &made, err);
    if (s == PITH_OK && !made) {
        s = preflight(&r, err);
        if (s == PITH_OK) s = run_all(&r, &made, err);
    }
    stop_jobs(&r);
    s = pith_checkpoint_settle(r.model ? r.model->checkpoint : NULL, false, s, err);
    close_run(&r, s, err);
    (void)pith_backend_set_mode(be, mode, NULL);
    if (s == PITH_OK) *report = made;
    return s;
}
