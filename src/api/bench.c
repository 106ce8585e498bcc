#include <pith/bench.h>

#include "api/cache.h"
#include "api/context.h"
#include "api/load.h"
#include "api/options.h"
#include "base/file.h"
#include "base/mem.h"
#include "eval/regrid.h"
#include "eval/run_memory.h"
#include "eval/speed.h"
#include "model/totals.h"
#include "quant/scale.h"

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

/* What is timed, and what it is told to take. */
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
static enum pith_status foretell(struct bench *b, struct pith_error *err)
{
    const bool fast = pith_backend_mode(b->context->backend) == PITH_MODE_FAST;
    const struct pith_speed_job job = job_of(b);
    const struct pith_held how = {
        .rows = pith_speed_rows(&job),
        .linears = b->linears,
        .head = b->ends,
        .bytes_head = b->linears || b->ends ? fast
                                            : pith_load_rounds_head(b->context, b->model, false)};
    struct pith_meter m = {0};
    pith_held_begin(b->context->backend, &m);
    PITH_TRY(pith_held_meter(b->model, b->context->backend, &how, &m, err));
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

static json_t *spread(struct pith_spread s)
{
    return json_pack("{s:f, s:f, s:f}", "median", s.median, "least", s.least, "most", s.most);
}

/* The same as a rate of `count` a measurement. */
static json_t *rate(struct pith_spread s, double count)
{
    return spread((struct pith_spread){count / s.median, count / s.most, count / s.least});
}

static json_t *roof_report(const struct pith_roof_sample *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "read_one_thread", r->read_one, "read",
                     r->read_all, "f32", r->f32, "int8", r->int8, "bf16", r->bf16);
}

static json_t *prompt_report(const struct pith_bench_options *o, const struct pith_speed *s)
{
    const double speed = s->prefill_operations / s->first_token.median;
    return json_pack("{s:I, s:o, s:o, s:f, s:o, s:f, s:f, s:s, s:i, s:o}", "tokens",
                     (json_int_t)o->prompt, "first_token_seconds", spread(s->first_token),
                     "processor_seconds", spread(s->first_processor),
                     "cold_first_token_seconds", s->cold_first_token, "tokens_per_second",
                     rate(s->first_token, (double)o->prompt), "operations", s->prefill_operations,
                     "operations_per_second", speed, "peak", s->peak, "byte_products",
                     (int)s->byte_products, "fraction_of_peak", spread(s->of_peak));
}

static json_t *gen_report(const struct pith_bench_options *o, const struct pith_speed *s)
{
    const double bytes = s->weight_bytes + s->kv_bytes, speed = bytes / s->token.median;
    return json_pack("{s:I, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:o}", "tokens", (json_int_t)o->gen,
                     "token_seconds", spread(s->token), "processor_seconds",
                     spread(s->token_processor), "tokens_per_second", rate(s->token, 1),
                     "bytes_per_token", bytes, "weight_bytes", s->weight_bytes, "kv_bytes",
                     s->kv_bytes, "bytes_per_second", speed, "fraction_of_bandwidth",
                     spread(s->of_bandwidth));
}

static json_t *many_report(const struct pith_bench_options *o, const struct pith_speed *s)
{
    const double bytes = s->many.weight_bytes + s->many.kv_bytes;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:o}", "sequences",
                     (json_int_t)o->sequences, "tokens", (json_int_t)o->gen, "step_seconds",
                     spread(s->many.step), "processor_seconds", spread(s->many.processor),
                     "tokens_per_second",
                     rate(s->many.step, (double)o->sequences), "times_one",
                     spread(s->many.times_one), "bytes_per_step", bytes, "weight_bytes",
                     s->many.weight_bytes, "kv_bytes", s->many.kv_bytes, "cache_bytes",
                     s->many.cache_bytes, "bytes_per_second", bytes / s->many.step.median,
                     "fraction_of_bandwidth", spread(s->many.of_bandwidth));
}

static json_t *describe(const struct bench *b)
{
    const struct pith_context *c = b->context;
    const struct pith_bench_options *o = b->options;
    const struct pith_model *m = b->model;
    const struct pith_kv_format *kv = &b->kv;
    const struct pith_speed *s = &b->speed;
    char cache[PITH_KV_TEXT];
    pith_kv_name(kv, cache);
    const bool fast = pith_backend_mode(c->backend) == PITH_MODE_FAST;
    json_t *j = json_pack("{s:o, s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:f, s:I, s:I, s:o}", "model",
                          pith_json_name(o->model), "mode", fast ? "fast" : "exact", "kv", cache,
                          "threads", (int)pith_context_threads(c), "cpu", pith_context_cpu(c),
                          "depth", (json_int_t)o->depth, "reps", (json_int_t)o->reps,
                          "bits_per_weight", pith_model_bits_per_weight(m), "load_seconds",
                          b->load_seconds, "memory_peak", (json_int_t)s->memory_peak, "memory_own",
                          (json_int_t)s->memory_own, "roof", roof_report(&s->roof));
    if (b->expected) {
        pith_json_set(&j, "memory_expected", json_integer((json_int_t)b->expected));
        pith_json_set(&j, "memory_own_expected", json_integer((json_int_t)b->own_expected));
    }
    pith_json_set(&j, "parameters", json_integer((json_int_t)pith_model_parameters(m)));
    if (kv->layer) pith_json_set(&j, "kv_layers", pith_kv_report(&m->plans, kv));
    if (o->weights) pith_json_set(&j, "weights", json_string(o->weights));
    if (o->head) pith_json_set(&j, "head", json_string(o->head));
    if (o->head && m->shape.tied) pith_json_set(&j, "head_kept", json_true());
    if (o->prompt) pith_json_set(&j, "prefill", prompt_report(o, s));
    if (o->gen) pith_json_set(&j, "decode", gen_report(o, s));
    if (o->sequences > 1) pith_json_set(&j, "decode_many", many_report(o, s));
    return j;
}

/* Packed integers are multiplied by bytes, or by three digits; the first linear tells for all. */
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
        .name = o->kv, .layers = &o->kv_layers, .usual = PITH_BF16};
    const double start = pith_clock();
    double tried;
    PITH_TRY(read_grid(o->weights, &b->weights, &b->linears, err));
    PITH_TRY(read_grid(o->head, &b->head, &b->ends, err));
    PITH_TRY(pith_load_open(c, o->model, &b->model, err));
    PITH_TRY(check_positions(o, b->model, err));
    PITH_TRY(pith_kv_auto_parse(o->kv, &tried, err));
    if (tried == 0) {
        PITH_TRY(pith_cache_choose(c, &wish, b->model, NULL, &b->kv, err));
        PITH_TRY(foretell(b, err));
    }
    PITH_TRY(load(b, err));
    b->load_seconds = pith_clock() - start;
    PITH_TRY(
        pith_cache_settle(c, &(struct pith_cache_of){.format = &b->kv, .model = b->model}, err));
    if (tried > 0) PITH_TRY(pith_cache_choose(c, &wish, b->model, NULL, &b->kv, err));
    struct pith_speed_job job = job_of(b);
    job.byte_products = by_bytes(c, b->model);
    return pith_speed_measure(&job, &b->speed, err);
}

static enum pith_status bench(struct pith_context *context, const struct pith_bench_options *o,
                              char **report, struct pith_error *err)
{
    struct bench b = {.context = context, .options = o};
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    if (o->mode) PITH_TRY(pith_context_set_mode(context, o->mode, err));
    enum pith_status s = run(&b, err);
    if (b.model) s = pith_checkpoint_settle(b.model->checkpoint, false, s, err);
    if (s == PITH_OK && report) s = pith_report_text(describe(&b), report, err);
    pith_kv_format_free(&b.kv);
    pith_model_close(b.model);
    return s;
}

enum pith_status pith_bench(struct pith_context *context, const struct pith_bench_options *given,
                            char **report, struct pith_error *err)
{
    PITH_OPTIONS(pith_bench_options, o, defaults, given, err);
    o_taken.progress = pith_context_progress(context, &o->progress);
    const enum pith_mode before = pith_backend_mode(context->backend);
    const enum pith_status s = bench(context, o, report, err);
    const enum pith_status back = pith_backend_set_mode(context->backend, before, err);
    return s == PITH_OK ? back : s;
}
