#include <pith/bench.h>

#include "api/cache.h"
#include "api/context.h"
#include "api/load.h"
#include "api/options.h"
#include "api/report.h"
#include "base/file.h"
#include "base/mem.h"
#include "eval/run_memory.h"
#include "eval/speed/regrid.h"
#include "eval/speed/speed.h"
#include "model/totals.h"
#include "quant/scale.h"

#include <stdio.h>
#include <string.h>

enum { MOST_REPS = 1000000 };

static const struct pith_bench_options defaults = {
    .prompt = 512, .gen = 64, .reps = 5, .sequences = 1};

void pith_bench_defaults_sized(struct pith_bench_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

/* A grid by its text; an unset one for NULL. */
static enum pith_status read_grid(const char *text, struct pith_grid *out,
                                  const struct pith_grid **used, struct pith_error *err)
{
    *used = NULL;
    if (!text) return PITH_OK;
    PITH_TRY(pith_grid_parse(text, out, err));
    if (out->format) *used = out;
    return PITH_OK;
}

enum pith_status pith_bench_check(const struct pith_bench_options *given, struct pith_error *err)
{
    PITH_OPTIONS(pith_bench_options, o, defaults, given, err);
    const char *const grids[] = {o->weights, o->head};
    if (o->reps == 0) return pith_fail(err, PITH_ARG, "`reps`: at least 1");
    if (o->reps > MOST_REPS)
        return pith_fail(err, PITH_ARG, "`reps` %zu: at most %d", o->reps, MOST_REPS);
    if (o->prompt == 0 && o->gen == 0)
        return pith_fail(err, PITH_ARG, "nothing to time: `prompt` and `gen` are 0");
    if (o->sequences == 0 || o->sequences > PITH_SPEED_SEQUENCES)
        return pith_fail(err, PITH_ARG, "`sequences` %zu: 1 to %d", o->sequences,
                         PITH_SPEED_SEQUENCES);
    if (o->sequences > 1 && o->gen == 0)
        return pith_fail(err, PITH_ARG, "`sequences` %zu: no tokens to make, `gen` is 0",
                         o->sequences);
    const struct pith_cache_wish wish = {
        .name = o->kv, .layers = &o->kv_layers, .usual = PITH_BF16};
    PITH_TRY(pith_cache_check(&wish, err));
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_grid grid;
        const struct pith_grid *used;
        PITH_TRY(read_grid(grids[i], &grid, &used, err));
        const struct pith_gridder *gridder = used ? pith_gridder_for(used) : NULL;
        /* What only rounders put on their grid is timed as it lies in a checkpoint. */
        if (used && (!gridder || gridder->whole))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "weights cannot be put on the grid %.64s; grids that can be: "
                             "int4:g128, fp8_e4m3:channel, nf4:g64, mxfp4, nvfp4 and their like",
                             grids[i]);
    }
    return PITH_OK;
}

/* What is timed, and the formats that it uses. */
struct bench {
    struct pith_context *context;
    const struct pith_bench_options *options;
    struct pith_model *model;
    struct pith_grid weights, head;
    const struct pith_grid *linears, *ends; /* these two, or NULL */
    struct pith_kv_format kv;
    struct pith_speed speed;
    double load_seconds;
    uint64_t expected, own_expected;
};

static struct pith_speed_job job_of(const struct bench *b)
{
    const struct pith_bench_options *o = b->options;
    return (struct pith_speed_job){.backend = b->context->backend,
                                   .model = b->model,
                                   .prompt = o->prompt,
                                   .gen = o->gen,
                                   .kv = b->kv,
                                   .depth = o->depth,
                                   .sequences = o->sequences,
                                   .reps = o->reps,
                                   .seed = o->seed,
                                   .progress = &o->progress};
}

/* What all of it will take, before anything but the headers is read. */
static enum pith_status estimate(struct bench *b, struct pith_error *err)
{
    const bool fast = pith_backend_mode(b->context->backend) == PITH_MODE_FAST;
    const struct pith_speed_job job = job_of(b);
    const struct pith_run_form how = {
        .rows = pith_speed_rows(&job),
        .linears = b->linears,
        .head = b->ends,
        .bytes_head = b->linears || b->ends ? fast
                                            : pith_load_rounds_head(b->context, b->model, false)};
    struct pith_meter m = {0};
    pith_run_meter_begin(b->context->backend, &m);
    PITH_TRY(pith_run_meter(b->model, b->context->backend, &how, &m, err));
    pith_speed_meter(&job, &m);
    b->own_expected = m.now;
    b->expected = m.most;
    return PITH_OK;
}

static enum pith_status load(struct bench *b, struct pith_error *err)
{
    struct pith_context *c = b->context;
    if (!b->linears && !b->ends) return pith_load_opened(c, b->model, false, err);
    PITH_TRY(pith_model_load_blocks(b->model, b->linears ? NULL : c->backend, err));
    PITH_TRY(pith_model_regrid(b->model, c->pool, b->linears, b->ends, err));
    PITH_TRY(pith_model_pack(b->model, c->backend, err));
    const bool fast = pith_backend_mode(c->backend) == PITH_MODE_FAST;
    return fast ? pith_model_round_head(b->model, c->backend, err) : PITH_OK;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void set_spread(struct pith_report *r, const char *key, struct pith_spread s)
{
    pith_report_open(r, key);
    pith_report_set(r, "median", pith_real(s.median, 6));
    pith_report_set(r, "least", pith_real(s.least, 6));
    pith_report_set(r, "most", pith_real(s.most, 6));
    pith_report_close(r);
}

/* The same as a rate of `count` a measurement. */
static struct pith_spread rate(struct pith_spread s, double count)
{
    return (struct pith_spread){count / s.median, count / s.most, count / s.least};
}

static void set_roof(struct pith_report *r, const struct pith_roof_sample *roof)
{
    pith_report_open(r, "roof");
    pith_report_set(r, "read_one_thread", pith_real(roof->read_one, 1));
    pith_report_set(r, "read", pith_real(roof->read_all, 1));
    pith_report_set(r, "f32", pith_real(roof->f32, 0));
    pith_report_set(r, "int8", pith_real(roof->int8, 0));
    pith_report_set(r, "bf16", pith_real(roof->bf16, 0));
    pith_report_close(r);
}

static void set_prompt(struct pith_report *r, const struct pith_bench_options *o,
                       const struct pith_speed *s)
{
    const double speed = s->prefill_operations / s->first_token.median;
    pith_report_open(r, "prefill");
    pith_report_set(r, "tokens", pith_count(o->prompt));
    set_spread(r, "first_token_seconds", s->first_token);
    set_spread(r, "processor_seconds", s->first_processor);
    pith_report_set(r, "cold_first_token_seconds", pith_real(s->cold_first_token, 6));
    set_spread(r, "tokens_per_second", rate(s->first_token, (double)o->prompt));
    pith_report_set(r, "operations", pith_real(s->prefill_operations, 0));
    pith_report_set(r, "operations_per_second", pith_real(speed, 0));
    pith_report_set(r, "peak", pith_words(s->peak));
    pith_report_set(r, "byte_products", pith_whole(s->byte_products));
    set_spread(r, "fraction_of_peak", s->of_peak);
    pith_report_close(r);
}

static void set_gen(struct pith_report *r, const struct pith_bench_options *o,
                    const struct pith_speed *s)
{
    const double bytes = s->weight_bytes + s->kv_bytes;
    pith_report_open(r, "decode");
    pith_report_set(r, "tokens", pith_count(o->gen));
    set_spread(r, "token_seconds", s->token);
    set_spread(r, "processor_seconds", s->token_processor);
    set_spread(r, "tokens_per_second", rate(s->token, 1));
    pith_report_set(r, "bytes_per_token", pith_real(bytes, 0));
    pith_report_set(r, "weight_bytes", pith_real(s->weight_bytes, 0));
    pith_report_set(r, "kv_bytes", pith_real(s->kv_bytes, 0));
    pith_report_set(r, "bytes_per_second", pith_real(bytes / s->token.median, 0));
    set_spread(r, "fraction_of_bandwidth", s->of_bandwidth);
    pith_report_close(r);
}

static void set_many(struct pith_report *r, const struct pith_bench_options *o,
                     const struct pith_speed *s)
{
    const double bytes = s->many.weight_bytes + s->many.kv_bytes;
    pith_report_open(r, "decode_many");
    pith_report_set(r, "sequences", pith_count(o->sequences));
    pith_report_set(r, "tokens", pith_count(o->gen));
    set_spread(r, "step_seconds", s->many.step);
    set_spread(r, "processor_seconds", s->many.processor);
    set_spread(r, "tokens_per_second", rate(s->many.step, (double)o->sequences));
    set_spread(r, "times_one", s->many.times_one);
    pith_report_set(r, "bytes_per_step", pith_real(bytes, 0));
    pith_report_set(r, "weight_bytes", pith_real(s->many.weight_bytes, 0));
    pith_report_set(r, "kv_bytes", pith_real(s->many.kv_bytes, 0));
    pith_report_set(r, "cache_bytes", pith_real(s->many.cache_bytes, 0));
    pith_report_set(r, "bytes_per_second", pith_real(bytes / s->many.step.median, 0));
    set_spread(r, "fraction_of_bandwidth", s->many.of_bandwidth);
    pith_report_close(r);
}

static void set_run(struct pith_report *r, const struct bench *b, const char *cache)
{
    const struct pith_context *c = b->context;
    const struct pith_bench_options *o = b->options;
    const struct pith_speed *s = &b->speed;
    const bool fast = pith_backend_mode(c->backend) == PITH_MODE_FAST;
    pith_report_set(r, "model", pith_words(o->model));
    pith_report_set(r, "mode", pith_words(fast ? "fast" : "exact"));
    pith_report_set(r, "kv", pith_words(cache));
    pith_report_set(r, "threads", pith_whole(pith_context_threads(c)));
    pith_report_set(r, "cpu", pith_words(pith_context_cpu(c)));
    pith_report_set(r, "depth", pith_count(o->depth));
    pith_report_set(r, "reps", pith_count(o->reps));
    pith_report_set(r, "bits_per_weight", pith_real(pith_model_bits_per_weight(b->model), 3));
    pith_report_set(r, "load_seconds", pith_real(b->load_seconds, 1));
    pith_report_set(r, "memory_peak", pith_count(s->memory_peak));
    pith_report_set(r, "memory_own", pith_count(s->memory_own));
    set_roof(r, &s->roof);
    if (!b->expected) return;
    pith_report_set(r, "memory_expected", pith_count(b->expected));
    pith_report_set(r, "memory_own_expected", pith_count(b->own_expected));
}

/* --- text ------------------------------------------------------------------------------------- */

/* ", f32 489 GFLOP/s", ", int8 1.95 TOP/s". */
static void add_peak(struct pith_str *text, const char *key, double x, const char *unit)
{
    if (x >= 1e12) pith_str_printf(text, ", %s %.2f T%s/s", key, x * 1e-12, unit);
    else if (x > 0) pith_str_printf(text, ", %s %.0f G%s/s", key, x * 1e-9, unit);
}

static void say_machine(struct pith_report *r, const struct pith_roof_sample *roof)
{
    struct pith_str text = {0};
    pith_str_printf(&text, "machine: reads %.1f GB/s (one thread %.1f)", roof->read_all * 1e-9,
                    roof->read_one * 1e-9);
    add_peak(&text, "f32", roof->f32, "FLOP");
    add_peak(&text, "int8", roof->int8, "OP");
    add_peak(&text, "bf16", roof->bf16, "FLOP");
    pith_report_line(r, &(struct pith_line){.lead = "  ", .wrap = PITH_WRAP_TERMINAL, .indent = 11},
                     "%s", pith_str_text(&text));
    if (text.failed) r->failed = true;
    pith_str_free(&text);
    pith_report_gap(r);
}

/* The three columns of a spread, and a note on it. */
struct shown {
    double unit;
    int digits;
    char note[96];
};

static void say_spread(struct pith_report *r, const char *what, struct pith_spread s,
                       const struct shown *how)
{
    char lead[128];
    snprintf(lead, sizeof lead, "%-28s %10.*f %10.*f %10.*f   ", what, how->digits,
             s.median * how->unit, how->digits, s.least * how->unit, how->digits,
             s.most * how->unit);
    pith_report_line(r, &(struct pith_line){.lead = lead, .wrap = PITH_WRAP_BELOW, .indent = 2},
                     "%s", how->note);
}

/* What a step reads; "a token reads 12.0 MB: weights 10.0, KV cache 2.0 (at depth 5)". */
static void say_bytes(struct pith_report *r, const char *step, double weights, double kv,
                      size_t depth, const char *more)
{
    pith_report_line(r, &(struct pith_line){.lead = "  ", .wrap = PITH_WRAP_TERMINAL, .indent = 4},
                     "a %s reads %.1f MB: weights %.1f, KV cache %.1f (at depth %zu)%s", step,
                     (weights + kv) * 1e-6, weights * 1e-6, kv * 1e-6, depth, more);
}

static void say_prompt(struct pith_report *r, const struct pith_bench_options *o,
                       const struct pith_speed *s)
{
    struct shown first = {1e3, 1, ""}, how = {1, 2, ""};
    char what[64];
    snprintf(first.note, sizeof first.note, "%.1f the first time", s->cold_first_token * 1e3);
    say_spread(r, "first token, ms", s->first_token, &first);
    snprintf(what, sizeof what, "prefill %zu, tokens/s", o->prompt);
    snprintf(how.note, sizeof how.note, "%.1f%% of the %s peak%s", 100 * s->of_peak.median, s->peak,
             s->byte_products > 1 ? ", three products each" : "");
    say_spread(r, what, rate(s->first_token, (double)o->prompt), &how);
}

static void say_gen(struct pith_report *r, const struct pith_bench_options *o,
                    const struct pith_speed *s)
{
    struct shown how = {1, 2, ""};
    char what[64];
    snprintf(what, sizeof what, "decode %zu, tokens/s", o->gen);
    snprintf(how.note, sizeof how.note, "%.1f%% of the bandwidth", 100 * s->of_bandwidth.median);
    say_spread(r, what, rate(s->token, 1), &how);
    say_bytes(r, "token", s->weight_bytes, s->kv_bytes, o->depth, "");
}

static void say_many(struct pith_report *r, const struct pith_bench_options *o,
                     const struct pith_speed *s)
{
    struct shown how = {1, 2, ""};
    char what[64], room[32], more[64];
    snprintf(what, sizeof what, "%zu sequences, tokens/s", o->sequences);
    snprintf(how.note, sizeof how.note, "%.2f times one, %.1f%% of the bandwidth",
             s->many.times_one.median, 100 * s->many.of_bandwidth.median);
    say_spread(r, what, rate(s->many.step, (double)o->sequences), &how);
    pith_bytes_text(s->many.cache_bytes, room, sizeof room);
    snprintf(more, sizeof more, "; the cache takes %s", room);
    say_bytes(r, "step", s->many.weight_bytes, s->many.kv_bytes, o->depth, more);
}

static void say_run(struct pith_report *r, const struct bench *b, const char *cache)
{
    const struct pith_context *c = b->context;
    const bool fast = pith_backend_mode(c->backend) == PITH_MODE_FAST;
    char peak[32], own[32] = "", time[32];
    pith_report_line(r,
                     &(struct pith_line){.strong = b->options->model,
                                         .reserve = sizeof ": 16.000 bits",
                                         .wrap = PITH_WRAP_TERMINAL,
                                         .indent = 2},
                     ": %.3f bits per weight, %s mode, KV cache %s%s, kernels %s, threads %u",
                     pith_model_bits_per_weight(b->model), fast ? "fast" : "exact", cache,
                     b->kv.layer ? " (not all layers)" : "", pith_context_cpu(c),
                     pith_context_threads(c));
    pith_bytes_text((double)b->speed.memory_peak, peak, sizeof peak);
    pith_seconds_text(b->load_seconds, time, sizeof time);
    if (b->own_expected) pith_bytes_text((double)b->own_expected, own, sizeof own);
    pith_report_line(r, &(struct pith_line){0}, "  loaded in %s, peak memory %s%s%s%s", time, peak,
                     *own ? " (allocated, as estimated: " : "", own, *own ? ")" : "");
    say_machine(r, &b->speed.roof);
    pith_report_line(r, &(struct pith_line){0}, "%-28s %10s %10s %10s", "", "median", "least",
                     "most");
}

/* --- the whole -------------------------------------------------------------------------------- */

static struct pith_report *describe(const struct bench *b)
{
    const struct pith_bench_options *o = b->options;
    const struct pith_model *m = b->model;
    const struct pith_kv_format *kv = &b->kv;
    char cache[PITH_KV_TEXT];
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_kv_name(kv, cache);
    set_run(r, b, cache);
    say_run(r, b, cache);
    pith_report_set(r, "parameters", pith_count(pith_model_parameters(m)));
    if (kv->layer) pith_report_set(r, "kv_layers", pith_tree(pith_kv_report(&m->plans, kv)));
    if (o->weights) pith_report_set(r, "weights", pith_words(o->weights));
    if (o->head) pith_report_set(r, "head", pith_words(o->head));
    if (o->head && m->shape.ends.tied) {
        pith_report_set(r, "head_kept", pith_yes(true));
        pith_report_remark_set(r, "`head` does nothing: the head of this model is its embedding");
    }
    if (o->prompt) set_prompt(r, o, &b->speed);
    if (o->prompt) say_prompt(r, o, &b->speed);
    if (o->gen) set_gen(r, o, &b->speed);
    if (o->gen) say_gen(r, o, &b->speed);
    if (o->sequences > 1) set_many(r, o, &b->speed);
    if (o->sequences > 1) say_many(r, o, &b->speed);
    return r;
}

/* Packed integers are multiplied by bytes, or by three digits; the first linear stands for all. */
static unsigned by_bytes(const struct pith_context *c, const struct pith_model *m)
{
    const struct pith_pack *p = m->blocks[0].linear[0].w.pack;
    if (!p || p->block == 0) return 0;
    return pith_backend_mode(c->backend) == PITH_MODE_FAST ? 1 : PITH_DIGITS;
}

/* A model is timed where it can be used. */
static enum pith_status check_positions(const struct pith_bench_options *o,
                                        const struct pith_model *m, struct pith_error *err)
{
    const size_t most = m->shape.max_position;
    const bool reads = o->prompt >= o->gen;
    const size_t n = reads ? o->prompt : o->gen;
    char depth[48] = "";
    if (n <= most && o->depth <= most - n) return PITH_OK;
    if (o->depth) snprintf(depth, sizeof depth, "`depth` %zu and ", o->depth);
    return pith_fail(err, PITH_ARG, "%s`%s` %zu: the model's context is %zu", depth,
                     reads ? "prompt" : "gen", n, most);
}

/* The cache is known before the model is loaded, unless its layers are to be tried. */
static enum pith_status run(struct bench *b, struct pith_error *err)
{
    const struct pith_bench_options *o = b->options;
    struct pith_context *c = b->context;
    const struct pith_cache_wish wish = {
        .name = o->kv, .layers = &o->kv_layers, .usual = PITH_BF16, .progress = &o->progress};
    const double start = pith_clock();
    double tried;
    PITH_TRY(read_grid(o->weights, &b->weights, &b->linears, err));
    PITH_TRY(read_grid(o->head, &b->head, &b->ends, err));
    PITH_TRY(pith_load_open(c, o->model, &b->model, err));
    PITH_TRY(check_positions(o, b->model, err));
    PITH_TRY(pith_kv_auto_parse(o->kv, &tried, err));
    if (tried == 0) {
        PITH_TRY(pith_cache_choose(c, &wish, b->model, NULL, &b->kv, err));
        PITH_TRY(estimate(b, err));
    }
    PITH_TRY(load(b, err));
    b->load_seconds = pith_clock() - start;
    const struct pith_cache_of cache = {
        .format = &b->kv, .model = b->model, .progress = &o->progress};
    PITH_TRY(pith_cache_settle(c, &cache, err));
    if (tried > 0) PITH_TRY(pith_cache_choose(c, &wish, b->model, NULL, &b->kv, err));
    struct pith_speed_job job = job_of(b);
    job.byte_products = by_bytes(c, b->model);
    return pith_speed_measure(&job, &b->speed, err);
}

static enum pith_status bench(struct pith_context *context, const struct pith_bench_options *o,
                              struct pith_report **report, struct pith_error *err)
{
    struct bench b = {.context = context, .options = o};
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    if (o->mode) PITH_TRY(pith_context_set_mode(context, o->mode, err));
    enum pith_status s = run(&b, err);
    if (b.model) s = pith_checkpoint_settle(b.model->checkpoint, false, s, err);
    if (s == PITH_OK) {
        *report = describe(&b);
        if (!*report) s = pith_fail_nomem(err, "the report");
    }
    pith_kv_format_free(&b.kv);
    pith_model_close(b.model);
    return s;
}

enum pith_status pith_bench_report(struct pith_context *context,
                                   const struct pith_bench_options *given,
                                   struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_bench_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    const enum pith_mode before = pith_backend_mode(context->backend);
    const enum pith_status s = bench(context, o, report, err);
    const enum pith_status back = pith_backend_set_mode(context->backend, before, err);
    return s == PITH_OK ? back : s;
}

enum pith_status pith_bench(struct pith_context *context, const struct pith_bench_options *given,
                            char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_bench_report(context, given, &r, err), report, err);
}
