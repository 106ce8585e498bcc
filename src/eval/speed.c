#include "eval/speed.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/pretend.h"
#include "model/sampler.h"

#include <math.h>

enum { CHUNK_MIN = 32 }; /* there is room for so many tokens at once, however short the prompt */

struct timing {
    const struct pith_speed_job *job;
    struct pith_session session;
    struct pith_sampler sampler;
    struct pith_roof *roof;
    struct pith_rng rng;
    int32_t *ids;  /* [max(prompt, gen)] */
    float *hidden; /* [chunk][hidden] */
    float *logits; /* [vocab] */
    size_t chunk;
    double *prompts, *tokens;         /* [reps] seconds */
    double *of_peak, *of_bandwidth;   /* [reps] */
    struct pith_roof_sample *samples; /* [2 reps + 1], of which 0 .. sampled are there */
    size_t sampled;
    double *scratch; /* [2 reps + 1] */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void random_ids(struct timing *t, size_t n)
{
    const uint32_t vocab = t->job->model->shape.vocab;
    for (size_t i = 0; i < n; i++) t->ids[i] = (int32_t)pith_rng_below(&t->rng, vocab);
}

/* Reads n ids and picks the token after them, as generating does. */
static enum pith_status feed(struct timing *t, const int32_t *ids, size_t n, struct pith_error *err)
{
    struct pith_model *m = t->job->model;
    size_t last = 0;
    for (size_t done = 0; done < n; done += last) {
        last = n - done < t->chunk ? n - done : t->chunk;
        PITH_TRY(pith_session_append(&t->session, ids + done, last, t->hidden, err));
    }
    PITH_TRY(pith_model_logits(m, t->job->backend, t->hidden + (last - 1) * m->shape.hidden, 1,
                               t->logits, err));
    (void)pith_sampler_next(&t->sampler, t->logits);
    return PITH_OK;
}

static enum pith_status time_prompt(struct timing *t, double *seconds, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    pith_session_rewind(&t->session, job->depth);
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
    pith_session_rewind(&t->session, t->job->depth);
    random_ids(t, count);
    const double start = pith_clock();
    for (size_t i = 0; i < count; i++) PITH_TRY(feed(t, &t->ids[i], 1, err));
    *seconds = (pith_clock() - start) / (double)count;
    return PITH_OK;
}

static enum pith_status step(const struct timing *t, const char *what, size_t done,
                             struct pith_error *err)
{
    const struct pith_progress *p = t->job->progress;
    if (!p || !p->fn) return PITH_OK;
    if (p->fn(p->ctx, what, (double)done, (double)t->job->reps + 1) == 0) return PITH_OK;
    return pith_fail(err, PITH_INTERRUPTED, "interrupted");
}

static enum pith_status warm_up(struct timing *t, struct pith_speed *out, struct pith_error *err)
{
    enum { TOKENS = 3 };
    const struct pith_speed_job *job = t->job;
    double seconds;
    PITH_TRY(step(t, "warming up", 0, err));
    if (job->prompt) PITH_TRY(time_prompt(t, &out->cold_first_token, err));
    if (job->gen) PITH_TRY(time_tokens(t, job->gen < TOKENS ? job->gen : TOKENS, &seconds, err));
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

/* The peak that prompts are held against. */
static double peak_of(const struct pith_speed_job *job, const struct pith_roof_sample *s)
{
    return job->byte_products && s->int8 > 0 ? s->int8 / job->byte_products : s->f32;
}

/* Repetition i of a prompt or of making tokens. */
static enum pith_status time_one(struct timing *t, bool prompt, size_t i, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    double *seconds = prompt ? &t->prompts[i] : &t->tokens[i];
    PITH_TRY(prompt ? time_prompt(t, seconds, err) : time_tokens(t, job->gen, seconds, err));
    const struct pith_roof_sample *before = &t->samples[t->sampled];
    struct pith_roof_sample *after = &t->samples[++t->sampled];
    pith_roof_measure(t->roof, after);
    if (prompt) {
        const double peak = (peak_of(job, before) + peak_of(job, after)) / 2;
        t->of_peak[i] = pith_speed_prefill_operations(job->model, job->prompt) / *seconds / peak;
    } else {
        t->of_bandwidth[i] = (pith_speed_weight_bytes(job->model) + token_kv_bytes(job)) /
                             *seconds / ((before->read_all + after->read_all) / 2);
    }
    return PITH_OK;
}

static enum pith_status repeat(struct timing *t, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    pith_roof_measure(t->roof, &t->samples[0]);
    for (size_t i = 0; i < job->reps; i++) {
        PITH_TRY(step(t, "timing", i + 1, err));
        if (job->prompt) PITH_TRY(time_one(t, true, i, err));
        if (job->gen) PITH_TRY(time_one(t, false, i, err));
    }
    return step(t, "timing", job->reps + 1, err);
}

static enum pith_status prepare(struct timing *t, struct pith_error *err)
{
    const struct pith_speed_job *job = t->job;
    const struct pith_shape *s = &job->model->shape;
    const size_t most = larger(job->prompt, job->gen);
    if (job->reps == 0 || most == 0) return pith_fail(err, PITH_ARG, "nothing to time");
    if (job->depth > INT32_MAX || most > INT32_MAX || job->reps > INT32_MAX)
        return pith_fail(err, PITH_LIMIT, "more positions or repetitions than can be counted");
    t->chunk = job->prompt < PITH_PROMPT_CHUNK ? larger(job->prompt, CHUNK_MIN) : PITH_PROMPT_CHUNK;
    t->ids = pith_alloc(most, sizeof *t->ids);
    t->hidden = pith_alloc_aligned(t->chunk * s->hidden, sizeof *t->hidden);
    t->logits = pith_alloc_aligned(s->vocab, sizeof *t->logits);
    t->prompts = pith_zalloc(job->reps, sizeof *t->prompts);
    t->tokens = pith_zalloc(job->reps, sizeof *t->tokens);
    t->of_peak = pith_zalloc(job->reps, sizeof *t->of_peak);
    t->of_bandwidth = pith_zalloc(job->reps, sizeof *t->of_bandwidth);
    t->samples = pith_zalloc(2 * job->reps + 1, sizeof *t->samples);
    t->scratch = pith_zalloc(2 * job->reps + 1, sizeof *t->scratch);
    if (!t->ids || !t->hidden || !t->logits || !t->prompts || !t->tokens || !t->of_peak ||
        !t->of_bandwidth || !t->samples || !t->scratch)
        return pith_fail_nomem(err, "timing a model");
    pith_rng_seed(&t->rng, job->seed);
    const struct pith_sampling greedy = {.top_p = 1, .seed = job->seed};
    PITH_TRY(pith_sampler_init(&t->sampler, job->backend, s->vocab, &greedy, err));
    const struct pith_session_options options = {
        .capacity = job->depth + most, .chunk = t->chunk, .kv = job->kv, .keep = true};
    PITH_TRY(pith_session_init(&t->session, job->model, job->backend, &options, err));
    return pith_session_pretend(&t->session, job->depth, err);
}

static void summarize(struct timing *t, struct pith_speed *out)
{
    const struct pith_speed_job *job = t->job;
    const size_t prompts = job->prompt ? job->reps : 0, gens = job->gen ? job->reps : 0;
    out->first_token = pith_spread_of(t->prompts, prompts);
    out->of_peak = pith_spread_of(t->of_peak, prompts);
    out->token = pith_spread_of(t->tokens, gens);
    out->of_bandwidth = pith_spread_of(t->of_bandwidth, gens);
    out->weight_bytes = pith_speed_weight_bytes(job->model);
    out->kv_bytes = token_kv_bytes(job);
    out->prefill_operations = pith_speed_prefill_operations(job->model, job->prompt);
    out->byte_products = t->samples[0].int8 > 0 ? job->byte_products : 0;
    out->peak = out->byte_products ? "int8" : "f32";
    out->roof = pith_roof_median(t->samples, t->sampled + 1, t->scratch);
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
    pith_session_free(&t.session);
    pith_sampler_free(&t.sampler);
    pith_free(t.scratch);
    pith_free(t.samples);
    pith_free(t.of_bandwidth);
    pith_free(t.of_peak);
    pith_free(t.tokens);
    pith_free(t.prompts);
    pith_free(t.logits);
    pith_free(t.hidden);
    pith_free(t.ids);
    return s;
}
