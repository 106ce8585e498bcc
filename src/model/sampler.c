/* A vocabulary is large and what a draw needs of it small, so the logits are looked through in
 * segments: the largest of each, or the sum of its weights, tells whether it matters. */
#include "model/sampler.h"

#include "base/arena.h"
#include "base/mem.h"
#include "kern/ops.h"

#include <math.h>

enum { SEGMENT = 64 };

struct candidate {
    float logit;
    int32_t id;
    double weight; /* probability, not normalised; of those taken from the heap */
};

static enum pith_status check(size_t vocab, const struct pith_sampling *how, struct pith_error *err)
{
    if (vocab == 0 || vocab > INT32_MAX)
        return pith_fail(err, PITH_ARG, "a vocabulary of %zu tokens", vocab);
    if (!(how->temperature >= 0 && isfinite(how->temperature)))
        return pith_fail(err, PITH_ARG, "temperature %g is not 0 or more",
                         (double)how->temperature);
    if (!(how->top_p >= 0 && how->top_p <= 1))
        return pith_fail(err, PITH_ARG, "top-p %g is outside 0..1", (double)how->top_p);
    return PITH_OK;
}

/* Candidates, and room behind them for what is known of each segment. */
static size_t most_candidates(size_t vocab)
{
    const size_t segments = (vocab + SEGMENT - 1) / SEGMENT;
    const size_t more = segments * (sizeof(double) + sizeof(float));
    return vocab + more / sizeof(struct candidate) + 1;
}

uint64_t pith_sampler_bytes(size_t vocab)
{
    return pith_times_bytes(most_candidates(vocab), sizeof(struct candidate));
}

enum pith_status pith_sampler_init(struct pith_sampler *s, struct pith_backend *be, size_t vocab,
                                   const struct pith_sampling *how, struct pith_error *err)
{
    *s = (struct pith_sampler){.how = *how, .backend = be, .vocab = vocab};
    PITH_TRY(check(vocab, how, err));
    pith_rng_seed(&s->rng, how->seed);
    s->segments = (vocab + SEGMENT - 1) / SEGMENT;
    s->candidates = pith_alloc_aligned(most_candidates(vocab), sizeof(struct candidate));
    if (!s->candidates) return pith_fail_nomem(err, "the sampler");
    s->sum = (double *)((struct candidate *)s->candidates + vocab);
    s->max = (float *)(s->sum + s->segments);
    return PITH_OK;
}

void pith_sampler_free(struct pith_sampler *s)
{
    pith_free(s->candidates);
    *s = (struct pith_sampler){0};
}

static size_t segment_end(const struct pith_sampler *s, size_t segment)
{
    const size_t end = (segment + 1) * SEGMENT;
    return end < s->vocab ? end : s->vocab;
}

/* The first id with the largest logit; -1 when all are NaN. */
static int32_t largest(const struct pith_sampler *s, const float *logits)
{
    float max = -INFINITY;
    pith_segment_max(s->backend, logits, s->vocab, SEGMENT, s->max);
    for (size_t i = 0; i < s->segments; i++)
        if (s->max[i] > max) max = s->max[i];
    for (size_t i = 0; i < s->segments; i++) {
        if (s->max[i] < max) continue;
        for (size_t e = i * SEGMENT; e < segment_end(s, i); e++)
            if (logits[e] == max) return (int32_t)e;
    }
    return -1;
}

/* What one choice weighs its candidates by. */
struct weights {
    float max;
    double scale; /* 1 / temperature */
};

/* Relative to the largest logit, which gets 1 even where the difference would be NaN (inf - inf).
 */
static double weigh(const struct weights *w, float logit)
{
    if (logit == w->max) return 1;
    if (isinf(logit) || isinf(w->max) || isnan(logit)) return 0;
    return pith_exp_f64(((double)logit - (double)w->max) * w->scale);
}

/* Sums of weights by segment, and of all. */
static double sum_segments(const struct pith_sampler *s, const float *logits,
                           const struct weights *w)
{
    double total = 0;
    pith_segment_sum_exp(s->backend, &(struct pith_segment_exp){.x = logits,
                                                                .n = s->vocab,
                                                                .segment = SEGMENT,
                                                                .max = w->max,
                                                                .scale = w->scale,
                                                                .out = s->sum});
    for (size_t i = 0; i < s->segments; i++) {
        if (!isfinite(s->sum[i])) { /* NaN or infinity among the logits */
            s->sum[i] = 0;
            for (size_t e = i * SEGMENT; e < segment_end(s, i); e++)
                s->sum[i] += weigh(w, logits[e]);
        }
        total += s->sum[i];
    }
    return total;
}

/* Likelier first, among equals the lower id. */
static bool precedes(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static void sift_down(struct candidate *c, size_t n, size_t i)
{
    const struct candidate moved = c[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && precedes(&c[child + 1], &c[child])) child++;
        if (!precedes(&c[child], &moved)) break;
        c[i] = c[child];
    }
    c[i] = moved;
}

static void make_heap(struct candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift_down(c, n, i);
}

/* Moves the likeliest of the heap c[n] to c[n - 1]; the rest is a heap of n - 1. */
static void pop(struct candidate *c, size_t n, const struct weights *w)
{
    struct candidate top = c[0];
    top.weight = weigh(w, top.logit);
    c[0] = c[n - 1];
    c[n - 1] = top;
    sift_down(c, n - 1, 0);
}

static double sum(const struct candidate *c, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) total += c[i].weight;
    return total;
}

/* A logit that at least top_k logits reach: the top_k-th largest of the segments' maxima. */
static double reached_by(const struct pith_sampler *s, size_t top_k, const struct weights *w)
{
    struct candidate *c = s->candidates;
    if (top_k > s->segments) return -(double)INFINITY;
    for (size_t i = 0; i < s->segments; i++)
        c[i] = (struct candidate){.logit = s->max[i], .id = (int32_t)i};
    make_heap(c, s->segments);
    for (size_t n = s->segments; n > s->segments - top_k; n--) pop(c, n, w);
    return (double)c[s->segments - top_k].logit;
}

/* A logit below which no token is among the likeliest that together reach top_p: if all tokens
 * weighed less than (1 - top_p) of the total divided by their number, they could be left out. Half
 * of that is taken, so that no rounding matters. */
static double needed_for(const struct pith_sampler *s, double total, const struct weights *w)
{
    const double least = (1 - (double)s->how.top_p) * total / (double)s->vocab / 2;
    if (!(least > 0 && isfinite(w->max))) return -(double)INFINITY;
    return (double)w->max + log(least) / w->scale;
}

/* The candidates whose logit is at least `least`. */
static size_t collect(const struct pith_sampler *s, const float *logits, double least)
{
    struct candidate *c = s->candidates;
    size_t n = 0;
    for (size_t i = 0; i < s->segments; i++) {
        if ((double)s->max[i] < least) continue;
        for (size_t e = i * SEGMENT; e < segment_end(s, i); e++) { /* no branch to guess wrong */
            c[n].logit = logits[e];
            c[n].id = (int32_t)e;
            n += (double)logits[e] >= least;
        }
    }
    return n;
}

/* Moves the candidates that the filters keep to the end of c[n], the likeliest last, and returns
 * their number. total: the weight of all tokens, for top-p without top-k. */
static size_t filter(const struct pith_sampler *s, size_t n, double total, const struct weights *w)
{
    struct candidate *c = s->candidates;
    const size_t limit = s->how.top_k > 0 && s->how.top_k < n ? s->how.top_k : n;
    size_t popped = 0, kept = 0;
    make_heap(c, n);
    if (s->how.top_k > 0) {
        for (; popped < limit; popped++) pop(c, n - popped, w);
        total = sum(c + (n - limit), limit); /* top-p counts within what top-k left */
    }
    const double enough = (double)s->how.top_p * total;
    for (double mass = 0; kept < limit && (kept == 0 || s->how.top_p >= 1 || mass < enough);
         kept++) {
        if (kept == popped) pop(c, n - popped++, w);
        mass += c[n - 1 - kept].weight;
    }
    return kept;
}

static int32_t draw(struct pith_sampler *s, const struct candidate *c, size_t n)
{
    double left = pith_rng_unit(&s->rng) * sum(c, n);
    int32_t id = -1;
    for (size_t i = 0; i < n; i++) {
        if (c[i].weight <= 0) continue;
        id = c[i].id; /* rounding may leave a little: the last one takes it */
        left -= c[i].weight;
        if (left < 0) break;
    }
    return id;
}

static int32_t draw_filtered(struct pith_sampler *s, const float *logits, const struct weights *w)
{
    const bool by_rank = s->how.top_k > 0;
    const double total = by_rank ? 0 : sum_segments(s, logits, w);
    const double least = by_rank ? reached_by(s, s->how.top_k, w) : needed_for(s, total, w);
    const size_t n = collect(s, logits, least);
    const struct candidate *c = s->candidates;
    const size_t kept = filter(s, n, total, w);
    return draw(s, c + (n - kept), kept);
}

/* From all tokens: first the segment, then the token in it. Rounding may leave a little: the last
 * one met takes it, or the likeliest. */
static int32_t draw_any(struct pith_sampler *s, const float *logits, const struct weights *w,
                        int32_t best)
{
    double left = pith_rng_unit(&s->rng) * sum_segments(s, logits, w);
    int32_t id = best;
    for (size_t i = 0; i < s->segments; i++) {
        if (left >= s->sum[i]) {
            left -= s->sum[i];
            continue;
        }
        for (size_t e = i * SEGMENT; e < segment_end(s, i); e++) {
            const double weight = weigh(w, logits[e]);
            if (weight <= 0) continue;
            id = (int32_t)e;
            left -= weight;
            if (left < 0) return id;
        }
    }
    return id;
}

int32_t pith_sampler_next(struct pith_sampler *s, const float *logits)
{
    const int32_t best = largest(s, logits);
    if (best < 0 || s->how.temperature <= 0) return best;
    const struct weights w = {logits[best], 1 / (double)s->how.temperature};
    return s->how.top_k > 0 || s->how.top_p < 1 ? draw_filtered(s, logits, &w)
                                                : draw_any(s, logits, &w, best);
}
