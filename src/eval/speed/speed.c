#include "eval/speed/speed.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/integer.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/empty_context.h"
#include "model/sampler.h"

#include <math.h>

enum { CHUNK_MIN = 32 }; /* there is room for so many tokens at once, however short the prompt */

/* What is timed: a prompt, tokens one by one, or those of several sequences together. */
enum kind { PROMPT, TOKENS, MANY, KINDS };

struct timing {
    const struct pith_speed_job *job;
    struct pith_runner runner;
    struct pith_step_span *span; /* [sequences] */
    size_t sequences;
    struct pith_sampler sampler;
    struct pith_roof *roof;
    struct pith_rng rng;
    int32_t *ids;  /* [max(prompt, gen * sequences)] */
    float *hidden; /* [max(chunk, sequences)][hidden] */
    float *logits; /* [sequences][vocab] */
    size_t chunk;
    const char *what; /* the last report to the listener, at the time `reported` */
    size_t done;
    double reported;
    double *seconds[KINDS];           /* [reps] each */
    double *processor[KINDS];         /* [reps] each: what all threads had of processors */
    double *of_roof[KINDS];           /* [reps] each: of the peak, of the bandwidth */
    double *times_one;                /* [reps] */
    struct pith_roof_sample *samples; /* [KINDS reps + 1], of which 0 .. sampled are there */
    size_t sampled;
    double *scratch; /* [KINDS reps + 1] */
    void *memory;    /* of the lists */
};

static void random_ids(struct timing *t, size_t n)
{
    const uint32_t vocab = t->job->model->shape.vocab;
    for (size_t i = 0; i < n; i++) t->ids[i] = (int32_t)pith_rng_below(&t->rng, vocab);
}

static void rewind_all(struct timing *t, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pith_runner_rewind(&t->runner, t->span[i].sequence, t->job->depth);
}

/* Reports to the listener what is done, and notes it for beat(). */
static enum pith_status step(struct timing *t, const char *what, size_t done,
                             struct pith_error *err)
{
    const struct pith_progress *p = t->job->progress;
    t->what = what;
    t->done = done;
    if (p && p->fn && p->fn(p->ctx, what, (double)done, (double)t->job->reps + 1) != 0)
        return pith_fail(err, PITH_INTERRUPTED, "interrupted");
    t->reported = pith_clock();
    return PITH_OK;
}

/* Between two steps of the runner, which may take long with a large model: whether to stop. Reports
 * so rarely that it costs nothing of what is timed. */
static enum pith_status beat(struct timing *t, struct pith_error *err)
{
    return pith_clock() - t->reported < 0.25 ? PITH_OK : step(t, t->what, t->done, err);
}

/* Reads n ids and picks the token after them, as generating does. */
static enum pith_status feed(struct timing *t, const int32_t *ids, size_t n, struct pith_error *err)
{
    struct pith_model *m = t->job->model;
    size_t last = 0;
    for (size_t done = 0; done < n; done += last) {
        last = n - done < t->chunk ? n - done : t->chunk;
        t->span[0].ids = ids + done;
        t->span[0].n = last;
        PITH_TRY(pith_runner_step(&t->runner, t->span, 1, err));
        PITH_TRY(beat(t, err));
    }
    PITH_TRY(pith_model_logits(m, t->job->backend, t->hidden + (last - 1) * m->shape.hidden, 1,
                               t->logits, err));
    (void)pith_sampler_next(&t->sampler, t->logits);
    return PITH_OK;
}

static enum pith_status time_prompt(struct timing *t, double *seconds, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    rewind_all(t, 1);
    random_ids(t, job->prompt);
    const double start = pith_clock();
    PITH_TRY(feed(t, t->ids, job->prompt, err));
    *seconds = pith_clock() - start;
    return PITH_OK;
}

/* Seconds a token. */
static enum pith_status time_tokens(struct timing *t, size_t count, double *seconds,
                                    struct pith_error *err)
{
    rewind_all(t, 1);
    random_ids(t, count);
    const double start = pith_clock();
    for (size_t i = 0; i < count; i++) PITH_TRY(feed(t, &t->ids[i], 1, err));
    *seconds = (pith_clock() - start) / (double)count;
    return PITH_OK;
}

/* One token of every sequence. */
static enum pith_status feed_all(struct timing *t, const int32_t *ids, struct pith_error *err)
{
    struct pith_model *m = t->job->model;
    for (size_t i = 0; i < t->sequences; i++) {
        t->span[i].ids = ids + i;
        t->span[i].n = 1;
    }
    PITH_TRY(pith_runner_step(&t->runner, t->span, t->sequences, err));
    PITH_TRY(beat(t, err));
    PITH_TRY(pith_model_logits(m, t->job->backend, t->hidden, t->sequences, t->logits, err));
    for (size_t i = 0; i < t->sequences; i++)
        (void)pith_sampler_next(&t->sampler, t->logits + i * m->shape.vocab);
    return PITH_OK;
}

/* Seconds a step. */
static enum pith_status time_steps(struct timing *t, size_t count, double *seconds,
                                   struct pith_error *err)
{
    rewind_all(t, t->sequences);
    random_ids(t, count * t->sequences);
    const double start = pith_clock();
    for (size_t i = 0; i < count; i++) PITH_TRY(feed_all(t, t->ids + i * t->sequences, err));
    *seconds = (pith_clock() - start) / (double)count;
    return PITH_OK;
}

static enum pith_status warm_up(struct timing *t, struct pith_speed *out, struct pith_error *err)
{
    enum { FEW = 3 };
    const struct pith_speed_job *job = t->job;
    const size_t count = job->gen < FEW ? job->gen : FEW;
    double seconds;
    PITH_TRY(step(t, "warming up", 0, err));
    if (job->prompt) PITH_TRY(time_prompt(t, &out->cold_first_token, err));
    if (job->gen) PITH_TRY(time_tokens(t, count, &seconds, err));
    if (t->sequences > 1) PITH_TRY(time_steps(t, count, &seconds, err));
    out->memory_peak = pith_memory_peak();
    out->memory_own = pith_memory_anonymous();
    return PITH_OK;
}

/* Of a token at the mean depth of those that are made. */
static double token_kv_bytes(const struct pith_speed_job *job)
{
    const double middle = (double)job->depth + ((double)job->gen - 1) / 2;
    if (job->gen == 0) return 0;
    return pith_speed_kv_bytes(&job->model->plans, middle, &job->kv);
}

/* What a step of so many sequences reads. */
static double step_bytes(const struct timing *t, size_t sequences)
{
    return pith_speed_weight_bytes(t->job->model, sequences) +
           (double)sequences * token_kv_bytes(t->job);
}

/* The peak that prompts are compared with. */
static double peak_of(const struct pith_speed_job *job, const struct pith_roof_sample *s)
{
    return job->byte_products && s->int8 > 0 ? s->int8 / job->byte_products : s->f32;
}

/* Repetition i of one kind. */
static enum pith_status time_one(struct timing *t, enum kind kind, size_t i, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    double *seconds = &t->seconds[kind][i], *part = &t->of_roof[kind][i];
    const double worked = pith_processor_clock();
    if (kind == PROMPT) PITH_TRY(time_prompt(t, seconds, err));
    else if (kind == TOKENS) PITH_TRY(time_tokens(t, job->gen, seconds, err));
    else PITH_TRY(time_steps(t, job->gen, seconds, err));
    t->processor[kind][i] = (pith_processor_clock() - worked) /
                            (kind == PROMPT ? 1 : (double)job->gen);
    const struct pith_roof_sample *before = &t->samples[t->sampled];
    struct pith_roof_sample *after = &t->samples[++t->sampled];
    pith_roof_measure(t->roof, after);
    if (kind == PROMPT) {
        const double peak = (peak_of(job, before) + peak_of(job, after)) / 2;
        *part = pith_speed_prefill_operations(job->model, job->prompt) / *seconds / peak;
    } else {
        *part = step_bytes(t, kind == MANY ? t->sequences : 1) / *seconds /
                ((before->read_all + after->read_all) / 2);
    }
    return PITH_OK;
}

static enum pith_status repeat(struct timing *t, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    pith_roof_measure(t->roof, &t->samples[0]);
    for (size_t i = 0; i < job->reps; i++) {
        PITH_TRY(step(t, "timing", i + 1, err));
        if (job->prompt) PITH_TRY(time_one(t, PROMPT, i, err));
        if (job->gen) PITH_TRY(time_one(t, TOKENS, i, err));
        if (t->sequences == 1) continue;
        PITH_TRY(time_one(t, MANY, i, err));
        t->times_one[i] = (double)t->sequences * t->seconds[TOKENS][i] / t->seconds[MANY][i];
    }
    return step(t, "timing", job->reps + 1, err);
}

static void layout(struct pith_arena *a, struct timing *t)
{
    const struct pith_speed_job *job = t->job;
    const struct pith_shape *s = &job->model->shape;
    t->ids = pith_arena_take(a, pith_larger(job->prompt, job->gen * t->sequences), sizeof *t->ids);
    t->hidden =
        pith_arena_take_rows(a, pith_larger(t->chunk, t->sequences), s->hidden, sizeof *t->hidden);
    t->logits = pith_arena_take_rows(a, t->sequences, s->vocab, sizeof *t->logits);
    t->span = pith_arena_take(a, t->sequences, sizeof *t->span);
    for (int i = 0; i < KINDS; i++) {
        t->seconds[i] = pith_arena_take(a, job->reps, sizeof *t->seconds[i]);
        t->processor[i] = pith_arena_take(a, job->reps, sizeof *t->processor[i]);
        t->of_roof[i] = pith_arena_take(a, job->reps, sizeof *t->of_roof[i]);
    }
    t->times_one = pith_arena_take(a, job->reps, sizeof *t->times_one);
    t->samples = pith_arena_take(a, KINDS * job->reps + 1, sizeof *t->samples);
    t->scratch = pith_arena_take(a, KINDS * job->reps + 1, sizeof *t->scratch);
}

/* Only the first sequence reads prompts. */
static struct pith_runner_options runner_options(const struct timing *t)
{
    const struct pith_speed_job *job = t->job;
    const size_t most = job->depth + pith_larger(job->prompt, job->gen);
    const size_t others = (t->sequences - 1) * pith_cache_pages(job->depth + job->gen);
    return (struct pith_runner_options){.sequences = (uint32_t)t->sequences,
                                        .context = most,
                                        .tokens = 32 * (pith_cache_pages(most) + others),
                                        .rows = pith_larger(t->chunk, t->sequences),
                                        .format = job->kv,
                                        .keep = true};
}

/* What is decided by the job alone. */
static void set_sizes(struct timing *t)
{
    const struct pith_speed_job *job = t->job;
    t->sequences = pith_larger(job->sequences, 1);
    t->chunk = job->prompt < PITH_PROMPT_CHUNK ? pith_larger(job->prompt, CHUNK_MIN)
                                               : PITH_PROMPT_CHUNK;
}

size_t pith_speed_rows(const struct pith_speed_job *job)
{
    struct timing t = {.job = job};
    set_sizes(&t);
    return job->prompt ? pith_larger(t.chunk, t.sequences) : t.sequences;
}

void pith_speed_meter(const struct pith_speed_job *job, struct pith_meter *meter)
{
    struct timing t = {.job = job};
    struct pith_arena a = {0};
    set_sizes(&t);
    layout(&a, &t);
    const struct pith_runner_options options = runner_options(&t);
    pith_meter_take(meter, pith_arena_bytes(&a));
    pith_meter_take(meter, pith_runner_bytes(job->model, &options));
    pith_meter_take(meter, pith_sampler_bytes(job->model->shape.vocab));
    pith_meter_touch(meter, PITH_ROOF_BYTES);
}

static enum pith_status open_sequences(struct timing *t, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    const struct pith_runner_options options = runner_options(t);
    PITH_TRY(pith_runner_init(&t->runner, job->model, job->backend, &options, err));
    for (size_t i = 0; i < t->sequences; i++) {
        struct pith_step_span *span = &t->span[i];
        *span = (struct pith_step_span){.x = t->hidden + i * job->model->shape.hidden};
        PITH_TRY(pith_runner_open(&t->runner, &span->sequence, err));
        PITH_TRY(pith_runner_pretend(&t->runner, span->sequence, job->depth, err));
    }
    return PITH_OK;
}

static enum pith_status prepare(struct timing *t, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    const size_t most = pith_larger(job->prompt, job->gen);
    struct pith_arena a = {0};
    set_sizes(t);
    if (job->reps == 0 || most == 0) return pith_fail(err, PITH_ARG, "nothing to time");
    if (t->sequences > 1 && job->gen == 0)
        return pith_fail(err, PITH_ARG, "%zu sequences, but no tokens to make", t->sequences);
    if (job->depth > INT32_MAX || most > INT32_MAX || job->reps > INT32_MAX ||
        t->sequences > PITH_SPEED_SEQUENCES)
        return pith_fail(err, PITH_LIMIT,
                         "more positions, sequences or repetitions than can be counted");
    layout(&a, t);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "timing a model");
    layout(&a, t);
    t->memory = a.base;
    pith_rng_seed(&t->rng, job->seed);
    const struct pith_sampling greedy = {.top_p = 1, .seed = job->seed};
    PITH_TRY(pith_sampler_init(&t->sampler, job->backend, job->model->shape.vocab, &greedy, err));
    return open_sequences(t, err);
}

static void summarize_many(struct timing *t, struct pith_speed *out)
{
    const struct pith_speed_job *job = t->job;
    const size_t n = t->sequences;
    if (n == 1) return;
    out->many.step = pith_spread_of(t->seconds[MANY], job->reps);
    out->many.processor = pith_spread_of(t->processor[MANY], job->reps);
    out->many.of_bandwidth = pith_spread_of(t->of_roof[MANY], job->reps);
    out->many.times_one = pith_spread_of(t->times_one, job->reps);
    out->many.weight_bytes = pith_speed_weight_bytes(job->model, n);
    out->many.kv_bytes = (double)n * token_kv_bytes(job);
    out->many.cache_bytes =
        (double)n * pith_speed_cache_bytes(&job->model->plans, job->depth + job->gen, &job->kv);
}

static void summarize(struct timing *t, struct pith_speed *out)
{
    const struct pith_speed_job *job = t->job;
    const size_t prompts = job->prompt ? job->reps : 0, gens = job->gen ? job->reps : 0;
    out->first_token = pith_spread_of(t->seconds[PROMPT], prompts);
    out->first_processor = pith_spread_of(t->processor[PROMPT], prompts);
    out->token_processor = pith_spread_of(t->processor[TOKENS], gens);
    out->of_peak = pith_spread_of(t->of_roof[PROMPT], prompts);
    out->token = pith_spread_of(t->seconds[TOKENS], gens);
    out->of_bandwidth = pith_spread_of(t->of_roof[TOKENS], gens);
    out->weight_bytes = pith_speed_weight_bytes(job->model, 1);
    out->kv_bytes = token_kv_bytes(job);
    out->prefill_operations = pith_speed_prefill_operations(job->model, job->prompt);
    out->byte_products = t->samples[0].int8 > 0 ? job->byte_products : 0;
    out->peak = out->byte_products ? "int8" : "f32";
    out->roof = pith_roof_median(t->samples, t->sampled + 1, t->scratch);
    summarize_many(t, out);
}

enum pith_status pith_speed_measure(const struct pith_speed_job *job, struct pith_speed *out,
                                    struct pith_error *err)
{
    struct timing t = {.job = job};
    *out = (struct pith_speed){0};
    enum pith_status s = prepare(&t, err);
    if (s == PITH_OK) s = warm_up(&t, out, err);
    if (s == PITH_OK) s = pith_roof_new(job->backend, &t.roof, err);
    if (s == PITH_OK) s = repeat(&t, err);
    if (s == PITH_OK) summarize(&t, out);
    pith_roof_free(t.roof);
    pith_runner_free(&t.runner);
    pith_sampler_free(&t.sampler);
    pith_free(t.memory);
    return s;
}
