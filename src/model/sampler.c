/* A vocabulary is large and what a draw needs of it small, so the logits are searched in segments:
 * the largest of each, or the sum of its weights, shows whether it matters. */
#include "model/sampler.h"

#include "base/arena.h"
#include "base/mem.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

enum { SEGMENT = 64 };

struct candidate {
    float logit;
    int32_t id;
    double weight; /* probability, not normalised; of those taken from the heap */
};

static enum pith_status check_share(const char *name, float share, struct pith_error *err)
{
    if (share >= 0 && share <= 1) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s %g is outside 0..1", name, (double)share);
}

enum pith_status pith_sampling_check(const struct pith_sampling *how, struct pith_error *err)
{
    if (!(how->temperature >= 0 && isfinite(how->temperature)))
        return pith_fail(err, PITH_ARG, "temperature %g is not 0 or more",
                         (double)how->temperature);
    PITH_TRY(check_share("top-p", how->top_p, err));
    PITH_TRY(check_share("min-p", how->min_p, err));
    return check_share("typical", how->typical, err);
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
    if (vocab == 0 || vocab > INT32_MAX)
        return pith_fail(err, PITH_ARG, "a vocabulary of %zu tokens", vocab);
    PITH_TRY(pith_sampling_check(how, err));
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
 * weighed less than (1 - top_p) of the total divided by their number, they could be omitted. Half
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
    size_t popped = 0, count = 0;
    make_heap(c, n);
    if (s->how.top_k > 0) {
        for (; popped < limit; popped++) pop(c, n - popped, w);
        total = sum(c + (n - limit), limit); /* top-p counts within what top-k left */
    }
    const double enough = (double)s->how.top_p * total;
    for (double mass = 0; count < limit && (count == 0 || s->how.top_p >= 1 || mass < enough);
         count++) {
        if (count == popped) pop(c, n - popped++, w);
        mass += c[n - 1 - count].weight;
    }
    return count;
}

/* How far a candidate's surprise lies from what is expected of all, in nats. */
struct surprise {
    double sum, entropy; /* of the candidates */
};

static double oddness(const struct surprise *a, const struct candidate *c)
{
    return fabs(pith_log_f64(a->sum / c->weight) - a->entropy);
}

/* Of c[n], which is sorted, those whose surprise is nearest to the expected one and that together
 * reach the share; they become the first, and their number is returned. Surprise falls along c, so
 * the nearest lie together: the run of them grows by the nearer of its two neighbours. */
static size_t keep_typical(struct candidate *c, size_t n, double share)
{
    struct surprise a = {.sum = sum(c, n)};
    size_t used = 0, low = 0;
    for (size_t i = 0; i < n; i++) {
        const double p = c[i].weight / a.sum;
        if (p > 1e-300) a.entropy += p * pith_log_f64(1 / p);
        else used = i + 1; /* as good as nothing */
    }
    if (used == n) return n;
    for (size_t i = low = used; i < n; i++)
        if (oddness(&a, &c[i]) < oddness(&a, &c[low])) low = i;
    size_t end = low + 1;
    for (double mass = c[low].weight; mass < share * a.sum && (low > used || end < n);) {
        const bool down = end == n ||
                          (low > used && oddness(&a, &c[low - 1]) <= oddness(&a, &c[end]));
        mass += down ? c[--low].weight : c[end++].weight;
    }
    memmove(c, c + low, (end - low) * sizeof *c);
    return end - low;
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

/* A logit below which min-p keeps none; a little less, so that no rounding matters. */
static double shared_by(const struct pith_sampler *s, const struct weights *w)
{
    if (s->how.min_p <= 0 || !isfinite(w->max)) return -(double)INFINITY;
    return (double)w->max - pith_log_f64(2 / (double)s->how.min_p) / w->scale;
}

static int32_t draw_filtered(struct pith_sampler *s, const float *logits, const struct weights *w)
{
    const bool by_rank = s->how.top_k > 0;
    const double total = by_rank ? 0 : sum_segments(s, logits, w);
    double least = by_rank ? reached_by(s, s->how.top_k, w) : needed_for(s, total, w);
    /* Where top-p counts masses within what top-k leaves, none of that may be missing. */
    if (s->how.top_p >= 1 || !by_rank) least = fmax(least, shared_by(s, w));
    const size_t n = collect(s, logits, least);
    struct candidate *c = s->candidates;
    size_t count = filter(s, n, total, w);
    const double enough = (double)s->how.min_p * c[n - 1].weight;
    while (count > 1 && c[n - count].weight < enough) count--;
    c += n - count;
    if (s->how.typical > 0 && s->how.typical < 1)
        count = keep_typical(c, count, (double)s->how.typical);
    return draw(s, c, count);
}

static bool filters(const struct pith_sampling *how)
{
    return how->top_k > 0 || how->top_p < 1 || how->min_p > 0 ||
           (how->typical > 0 && how->typical < 1);
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
    return filters(&s->how) ? draw_filtered(s, logits, &w) : draw_any(s, logits, &w, best);
}
