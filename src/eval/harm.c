#include "eval/harm.h"

#include "base/mem.h"
#include "eval/stats.h"

#include <math.h>
#include <stdio.h>

/* Observations that are aimed at, and the fewest that make an interval; positions of the shortest
 * stretch: what correlates tokens (a topic, a position in the window) mostly ends within it. */
enum { STRETCHES_WANTED = 12, STRETCHES_LEAST = 8, STRETCH_TOKENS = 30 };

/* Texts that the baseline finds easier than this many nats a token have limits that are lower in
 * proportion. */
static const double EASY = 2;

/* Standard errors that make a difference detectable: 95% confidence, 80% power. */
static const double POWER = 1.959963984540054 + 0.8416212335729143;

/* More tokens than anybody would take. */
static const double TOKENS_MOST = 1e8;

static const struct level {
    const char *name;
    double kld, loss;
} levels[] = {
    [PITH_HARM_NONE] = {"none", 0, 0},
#define PITH_HARM_LEVEL(id, name, kld, loss) [PITH_HARM_##id] = {name, kld, loss},
#include "eval/harms.def"
#undef PITH_HARM_LEVEL
    [PITH_HARM_UNRESOLVED] = {"unresolved", 0, 0},
};

const char *pith_harm_name(enum pith_harm h)
{
    return levels[h].name;
}

enum pith_harm pith_harm_level(double kld)
{
    enum pith_harm h = PITH_HARM_UNRESOLVED - 1;
    while (h > PITH_HARM_NONE && !(kld >= levels[h].kld)) h--;
    return h;
}

const char *pith_harm_of(double kld)
{
    const enum pith_harm h = pith_harm_level(kld);
    return h == PITH_HARM_NONE ? "none that matters" : pith_harm_name(h);
}

size_t pith_stretches_of(size_t windows, size_t scored)
{
    const size_t most = scored / STRETCH_TOKENS;
    const size_t want = (STRETCHES_WANTED + windows - 1) / windows;
    return most < 1 ? 1 : want < most ? want : most;
}

enum pith_status pith_stretches_init(struct pith_stretches *s, size_t count, struct pith_error *err)
{
    double *all = pith_zalloc(count, 5 * sizeof *all);
    *s = (struct pith_stretches){0};
    if (!all) return pith_fail_nomem(err, "the stretches of a text");
    *s = (struct pith_stretches){count,           all, all + count, all + 2 * count,
                                 all + 3 * count, all + 4 * count};
    return PITH_OK;
}

void pith_stretches_free(struct pith_stretches *s)
{
    pith_free(s->tokens);
    *s = (struct pith_stretches){0};
}

void pith_stretches_add(struct pith_stretches *s, size_t i, const struct pith_position *p)
{
    s->tokens[i] += 1;
    s->weight[i] += p->weight;
    s->kld[i] += p->kld;
    s->delta[i] += p->nll - p->base_nll;
    s->same[i] += p->top == p->base_top;
}

enum pith_status pith_stretches_same(const struct pith_stretches *s, struct pith_interval *ci,
                                     struct pith_error *err)
{
    double se;
    *ci = (struct pith_interval){(double)NAN, (double)NAN};
    if (s->count < STRETCHES_LEAST) return PITH_OK;
    return pith_bootstrap_ratio_ci95(s->same, s->tokens, s->count, ci, &se, err);
}

/* The interval of the share of positions up to a value, as values (Woodruff 1952). */
enum pith_status pith_stretches_quantile(const struct pith_stretches *s, const float *values,
                                         const float *sorted, double part, struct pith_interval *ci,
                                         struct pith_error *err)
{
    struct pith_interval share;
    double se;
    *ci = (struct pith_interval){(double)NAN, (double)NAN};
    if (s->count < STRETCHES_LEAST) return PITH_OK;
    double *within = pith_zalloc(s->count, sizeof *within);
    if (!within) return pith_fail_nomem(err, "the stretches of a text");
    size_t n = 0, at = 0;
    for (size_t i = 0; i < s->count; i++) n += (size_t)s->tokens[i];
    const double limit = pith_quantile(sorted, n, part);
    for (size_t i = 0; i < s->count; i++)
        for (size_t end = at + (size_t)s->tokens[i]; at < end; at++)
            within[i] += (double)values[at] <= limit;
    const enum pith_status status =
        pith_bootstrap_ratio_ci95(within, s->tokens, s->count, &share, &se, err);
    pith_free(within);
    if (status == PITH_OK)
        *ci = (struct pith_interval){pith_quantile(sorted, n, fmax(2 * part - share.hi, 0)),
                                     pith_quantile(sorted, n, fmin(2 * part - share.lo, 1))};
    return status;
}

/* What is known of one number. */
struct witness {
    double mean, se;
    struct pith_interval ci;
};

static bool below(const struct witness *w, double limit)
{
    return w->ci.hi < limit;
}

static bool above(const struct witness *w, double limit)
{
    return w->ci.lo >= limit;
}

/* How many times as many tokens would take the interval of w off a limit. */
static double times_needed(const struct witness *w, double limit)
{
    const double r = POWER * w->se / fabs(w->mean - limit);
    return below(w, limit) || above(w, limit) ? 1 : r * r;
}

static void find_tokens(const struct witness *kld, const struct witness *delta, double tokens,
                        struct pith_harm_result *out)
{
    const struct level *least = &levels[PITH_HARM_NONE + 1];
    const double limit = least->kld * out->scale;
    const double other = kld->mean < limit ? limit : least->loss * out->scale;
    const double times = fmax(times_needed(kld, limit), times_needed(delta, other));
    const double more = fmax(times - 1, 1.0 / STRETCHES_WANTED) * tokens;
    const double step = pow(10, floor(log10(more)) - 1);
    if (more <= TOKENS_MOST) out->tokens_needed = ceil(more / step) * step;
}

static void decide(const struct witness *kld, const struct witness *delta, double tokens,
                   struct pith_harm_result *out)
{
    const struct level *least = &levels[PITH_HARM_NONE + 1];
    out->harm = PITH_HARM_NONE;
    for (int h = PITH_HARM_NONE + 1; h < PITH_HARM_UNRESOLVED; h++)
        if (above(kld, levels[h].kld * out->scale) && above(delta, levels[h].loss * out->scale))
            out->harm = (enum pith_harm)h;
    const double limit = least->kld * out->scale;
    if (out->harm != PITH_HARM_NONE || (below(kld, limit) && below(delta, limit))) return;
    out->harm = PITH_HARM_UNRESOLVED;
    out->cause = PITH_HARM_WEAK;
    if ((above(kld, limit) && below(delta, least->loss * out->scale)) ||
        (below(kld, limit) && above(delta, limit)))
        out->cause = PITH_HARM_DISPUTED;
    else find_tokens(kld, delta, tokens, out);
}

enum pith_status pith_harm_judge(struct pith_stretches *s, double baseline_nll,
                                 struct pith_harm_result *out, struct pith_error *err)
{
    double tokens = 0;
    const double nan = (double)NAN;
    for (size_t i = 0; i < s->count; i++) tokens += s->tokens[i];
    *out = (struct pith_harm_result){.harm = PITH_HARM_UNRESOLVED,
                                     .cause = PITH_HARM_SHORT,
                                     .kld_ci95 = {nan, nan},
                                     .delta_ci95 = {nan, nan},
                                     .resolvable_delta = nan,
                                     .tokens_needed = STRETCHES_LEAST * STRETCH_TOKENS - tokens,
                                     .scale = fmin(fmax(baseline_nll / EASY, 0), 1),
                                     .stretches = s->count};
    if (s->count < STRETCHES_LEAST) {
        if (!(out->tokens_needed > 0)) out->tokens_needed = nan;
        return PITH_OK;
    }
    struct witness kld, delta;
    PITH_TRY(pith_bootstrap_ratio_ci95(s->kld, s->tokens, s->count, &kld.ci, &kld.se, err));
    pith_weighted_se(s->kld, NULL, s->count, &kld.mean);
    kld.mean *= (double)s->count / tokens;
    for (size_t i = 0; i < s->count; i++) s->delta[i] /= s->tokens[i];
    delta.se = pith_weighted_se(s->delta, s->weight, s->count, &delta.mean);
    pith_weighted_ci95(s->delta, s->weight, s->count, &delta.mean, &delta.ci);
    const double degrees = (double)s->count - 1;
    out->kld_ci95 = kld.ci;
    out->delta_ci95 = delta.ci;
    out->resolvable_delta = delta.se * (pith_t975(degrees) + pith_t80(degrees));
    out->cause = PITH_HARM_AGREED;
    out->tokens_needed = nan;
    decide(&kld, &delta, tokens, out);
    return PITH_OK;
}

static void unresolved_reason(const struct pith_harm_result *h, char *text, size_t size)
{
    const struct level *least = &levels[PITH_HARM_NONE + 1];
    if (h->cause == PITH_HARM_DISPUTED && above(&(struct witness){.ci = h->kld_ci95},
                                                least->kld * h->scale))
        snprintf(text, size,
                 "KL is above %.2g nats a token but the loss does not rise by %.2g; more of this "
                 "text will not settle it, another text or a task may",
                 least->kld * h->scale, least->loss * h->scale);
    else if (h->cause == PITH_HARM_DISPUTED)
        snprintf(text, size,
                 "the loss rises by %.2g nats a token but KL stays below; another text or a task "
                 "may settle it",
                 least->kld * h->scale);
    else if (h->cause == PITH_HARM_SHORT && isfinite(h->tokens_needed))
        snprintf(text, size,
                 "not resolved by this text: it is too short for intervals, which need %.0f more "
                 "tokens",
                 h->tokens_needed);
    else if (h->cause == PITH_HARM_SHORT)
        snprintf(text, size,
                 "not resolved by this text: windows this short are too few for intervals");
    else if (isfinite(h->tokens_needed))
        snprintf(text, size,
                 "not resolved by this text: about %.0f more tokens would; it could have shown a "
                 "loss difference of %.2g",
                 h->tokens_needed, h->resolvable_delta);
    else
        snprintf(text, size, "not resolved by this text: too near the limit of %.2g nats a token",
                 least->kld * h->scale);
}

void pith_harm_reason(const struct pith_harm_result *h, char *text, size_t size)
{
    const struct level *l = &levels[h->harm];
    if (h->harm == PITH_HARM_UNRESOLVED) unresolved_reason(h, text, size);
    else if (h->harm == PITH_HARM_NONE)
        snprintf(text, size, "KL and the rise of the loss are both below %.2g nats a token",
                 levels[PITH_HARM_NONE + 1].kld * h->scale);
    else
        snprintf(text, size, "KL is above %.2g and the loss rises by more than %.2g nats a token",
                 l->kld * h->scale, l->loss * h->scale);
}
