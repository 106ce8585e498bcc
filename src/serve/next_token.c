#include "serve/next_token.h"

#include "base/mem.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

enum { SEGMENT = 64 }; /* as the sampler has them, whose room is used */

uint64_t pith_choose_bytes(size_t vocab)
{
    return pith_sampler_bytes(vocab) + (uint64_t)vocab * sizeof(float);
}

enum pith_status pith_choose_init(struct pith_choose *c, struct pith_backend *be, size_t vocab,
                                  struct pith_error *err)
{
    const struct pith_sampling greedy = {.top_p = 1};
    *c = (struct pith_choose){.backend = be, .vocab = vocab};
    PITH_TRY(pith_sampler_init(&c->sampler, be, vocab, &greedy, err));
    c->raw = pith_alloc_aligned(vocab, sizeof *c->raw);
    if (c->raw) return PITH_OK;
    pith_choose_free(c);
    return pith_fail_nomem(err, "the logits");
}

void pith_choose_free(struct pith_choose *c)
{
    pith_sampler_free(&c->sampler);
    pith_free(c->raw);
    *c = (struct pith_choose){0};
}

/* --- log-probabilities ------------------------------------------------------------------------ */

/* log(sum of exp(logits)); the maxima of segments stay in the sampler's memory. */
static double log_sum(struct pith_choose *c, const float *logits)
{
    struct pith_sampler *s = &c->sampler;
    float max = -INFINITY;
    double total = 0;
    pith_segment_max(c->backend, logits, c->vocab, SEGMENT, s->max);
    for (size_t i = 0; i < s->segments; i++)
        if (s->max[i] > max) max = s->max[i];
    pith_segment_sum_exp(
        c->backend,
        &(struct pith_segment_exp){
            .x = logits, .n = c->vocab, .segment = SEGMENT, .max = max, .scale = 1, .out = s->sum});
    for (size_t i = 0; i < s->segments; i++) total += s->sum[i];
    return (double)max + pith_log_f64(total);
}

/* Puts a candidate in its place among the best so far; equal ones keep the lower id first. */
static void insert(struct pith_alternative *top, size_t *n, size_t most, int32_t id, float logit)
{
    size_t at = *n;
    while (at > 0 && top[at - 1].logprob < logit) at--;
    if (at == most) return;
    if (*n < most) ++*n;
    memmove(top + at + 1, top + at, (*n - at - 1) * sizeof *top);
    top[at] = (struct pith_alternative){id, logit};
}

static void find_top(const struct pith_choose *c, const float *logits, size_t most,
                     struct pith_chosen *out)
{
    const struct pith_sampler *s = &c->sampler;
    for (size_t i = 0; i < s->segments && most > 0; i++) {
        if (out->tops == most && !(s->max[i] > out->top[most - 1].logprob)) continue;
        const size_t end = (i + 1) * SEGMENT < c->vocab ? (i + 1) * SEGMENT : c->vocab;
        for (size_t e = i * SEGMENT; e < end; e++)
            if (!isnan(logits[e]) && (out->tops < most || logits[e] > out->top[most - 1].logprob))
                insert(out->top, &out->tops, most, (int32_t)e, logits[e]);
    }
}

/* The alternatives; returns what is to be taken off a logit. */
static double score(struct pith_choose *c, const float *logits, int tops, struct pith_chosen *out)
{
    const double sum = log_sum(c, logits);
    find_top(c, logits, tops < 0 ? 0 : tops > PITH_TOPS ? PITH_TOPS : (size_t)tops, out);
    for (size_t i = 0; i < out->tops; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - sum);
    return sum;
}

void pith_choose_score(struct pith_choose *c, const float *logits, int32_t id, int tops,
                       struct pith_chosen *out)
{
    *out = (struct pith_chosen){.id = id};
    const double sum = score(c, logits, tops, out);
    out->logprob = (float)((double)logits[id] - sum);
}

/* --- what changes logits ---------------------------------------------------------------------- */

static bool penalizes(const struct pith_request *r)
{
    return r->repetition != 1 || r->frequency != 0 || r->presence != 0;
}

static bool changes(const struct pith_wish *how)
{
    return penalizes(how->request) || how->request->bias_count > 0 || how->allowed || how->bans > 0;
}

static void penalize(const struct pith_request *r, const struct pith_counts *counts, float *logits)
{
    for (size_t i = 0; i < counts->room; i++) {
        const struct pith_count *e = &counts->entry[i];
        if (e->id < 0) continue;
        float *l = &logits[e->id];
        if (r->repetition != 1) *l = *l > 0 ? *l / r->repetition : *l * r->repetition;
        if (e->answer > 0) *l -= r->frequency * (float)e->answer + r->presence;
    }
}

static void forbid(const uint64_t *allowed, float *logits, size_t vocab)
{
    for (size_t w = 0; w * 64 < vocab; w++) {
        const size_t n = vocab - w * 64 < 64 ? vocab - w * 64 : 64;
        if (allowed[w] == UINT64_MAX) continue;
        for (size_t i = 0; i < n; i++)
            if (!(allowed[w] >> i & 1)) logits[w * 64 + i] = -INFINITY;
    }
}

static void change(const struct pith_wish *how, float *logits, size_t vocab)
{
    const struct pith_request *r = how->request;
    if (penalizes(r)) penalize(r, how->counts, logits);
    for (size_t i = 0; i < r->bias_count; i++) logits[r->bias[i]] += r->bias_value[i];
    for (size_t i = 0; i < how->bans; i++) logits[how->banned[i]] = -INFINITY;
    if (how->allowed) forbid(how->allowed, logits, vocab);
}

void pith_choose_next(struct pith_choose *c, const struct pith_wish *how, float *logits,
                      struct pith_chosen *out)
{
    const struct pith_request *r = how->request;
    struct pith_sampler *s = &c->sampler;
    const bool other = changes(how);
    double sum = 0;
    *out = (struct pith_chosen){.logprob = NAN};
    if (how->tops >= 0) sum = score(c, logits, how->tops, out);
    if (how->tops >= 0 && other) memcpy(c->raw, logits, c->vocab * sizeof *logits);
    if (other) change(how, logits, c->vocab);
    s->how = (struct pith_sampling){.temperature = r->temperature,
                                    .top_k = r->top_k,
                                    .top_p = r->top_p,
                                    .min_p = r->min_p,
                                    .typical = r->typical};
    s->rng = *how->rng;
    out->id = pith_sampler_next(s, logits);
    *how->rng = s->rng;
    /* Where nothing is allowed, the sampler still finds a largest one. */
    if (out->id >= 0 && other && logits[out->id] == -INFINITY) out->id = -1;
    if (out->id >= 0 && how->tops >= 0)
        out->logprob = (float)((double)(other ? c->raw : logits)[out->id] - sum);
}
