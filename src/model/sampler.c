#include "model/sampler.h"

#include "base/mem.h"

#include <math.h>

struct candidate {
    double weight; /* probability, not normalised */
    int32_t id;
};

enum pith_status pith_sampler_init(struct pith_sampler *s, size_t vocab, float temperature,
                                   uint32_t top_k, float top_p, uint64_t seed,
                                   struct pith_error *err)
{
    *s = (struct pith_sampler){
        .temperature = temperature, .top_k = top_k, .top_p = top_p, .vocab = vocab};
    if (vocab == 0 || vocab > INT32_MAX)
        return pith_fail(err, PITH_ARG, "a vocabulary of %zu tokens", vocab);
    if (!(temperature >= 0 && isfinite(temperature)))
        return pith_fail(err, PITH_ARG, "temperature %g is not 0 or more", (double)temperature);
    if (!(top_p >= 0 && top_p <= 1))
        return pith_fail(err, PITH_ARG, "top-p %g is outside 0..1", (double)top_p);
    pith_rng_seed(&s->rng, seed);
    s->scratch = pith_alloc_aligned(vocab, sizeof(struct candidate));
    return s->scratch ? PITH_OK : pith_fail_nomem(err, "the sampler");
}

void pith_sampler_free(struct pith_sampler *s)
{
    pith_free(s->scratch);
    *s = (struct pith_sampler){0};
}

/* The first id with the largest logit; -1 when all are NaN. */
static int32_t largest(const float *logits, size_t vocab)
{
    int32_t best = -1;
    for (size_t i = 0; i < vocab; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = (int32_t)i;
    return best;
}

/* Weights relative to the largest logit, which gets 1 even where the difference would be NaN
 * (inf - inf) or the temperature is too small for it. Returns the number of candidates. */
static size_t weigh(const struct pith_sampler *s, const float *logits, float max,
                    struct candidate *c)
{
    size_t n = 0;
    for (size_t i = 0; i < s->vocab; i++) {
        if (isnan(logits[i])) continue;
        const double gap = (double)logits[i] - (double)max;
        c[n].weight = logits[i] == max ? 1 : exp(gap / (double)s->temperature);
        c[n++].id = (int32_t)i;
    }
    return n;
}

/* Heavier first, among equals the lower id. */
static bool precedes(const struct candidate *a, const struct candidate *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->id < b->id);
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

static double sum(const struct candidate *c, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) total += c[i].weight;
    return total;
}

/* Moves the heaviest of the heap c[n] to c[n - 1]; the rest is a heap of n - 1. */
static void pop(struct candidate *c, size_t n)
{
    const struct candidate top = c[0];
    c[0] = c[n - 1];
    c[n - 1] = top;
    sift_down(c, n - 1, 0);
}

/* Moves the candidates that the filters keep to the end of c[n], the heaviest last, and returns
 * their number. A heap gives them in order, so the cost grows with what is kept and not with a
 * sort of all. */
static size_t filter(const struct pith_sampler *s, struct candidate *c, size_t n)
{
    const size_t limit = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    size_t popped = 0, kept = 0;
    for (size_t i = n / 2; i-- > 0;) sift_down(c, n, i);
    if (limit < n)
        while (popped < limit) pop(c, n - popped++);
    /* top-p counts within what top-k left. */
    const double enough = (double)s->top_p * sum(c + (n - limit), limit);
    for (double mass = 0; kept < limit && (kept == 0 || s->top_p >= 1 || mass < enough); kept++) {
        if (kept == popped) pop(c, n - popped++);
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

int32_t pith_sampler_next(struct pith_sampler *s, const float *logits)
{
    const int32_t best = largest(logits, s->vocab);
    if (best < 0 || s->temperature <= 0) return best;
    struct candidate *c = s->scratch;
    size_t n = weigh(s, logits, logits[best], c);
    if (s->top_k > 0 || s->top_p < 1) {
        const size_t kept = filter(s, c, n);
        c += n - kept;
        n = kept;
    }
    return draw(s, c, n);
}
