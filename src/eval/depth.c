#include "eval/depth.h"

#include "base/mem.h"
#include "eval/stats.h"

enum pith_status pith_depths_init(struct pith_depths *d, size_t longest, size_t windows,
                                  struct pith_error *err)
{
    *d = (struct pith_depths){.longest = longest, .windows = windows};
    d->kld = pith_zalloc(2 * PITH_DEPTHS * windows, sizeof *d->kld);
    if (!d->kld) return pith_fail_nomem(err, "losses by position");
    d->weight = d->kld + PITH_DEPTHS * windows;
    return PITH_OK;
}

void pith_depths_free(struct pith_depths *d)
{
    pith_free(d->kld);
    *d = (struct pith_depths){0};
}

void pith_depths_add(struct pith_depths *d, size_t at, const struct pith_position *p)
{
    const size_t i = at * PITH_DEPTHS / d->longest, slot = i * d->windows + d->seen[i];
    d->tokens[i]++;
    d->nll[i] += p->nll;
    d->base_nll[i] += p->base_nll;
    d->sum[i] += p->kld;
    d->kld[slot] += p->kld;
    d->weight[slot]++;
}

void pith_depths_next(struct pith_depths *d)
{
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const size_t slot = i * d->windows + d->seen[i];
        if (d->seen[i] == d->windows || d->weight[slot] <= 0) continue;
        d->kld[slot] /= d->weight[slot];
        d->seen[i]++;
    }
}

void pith_depths_sum(const struct pith_depths *d, struct pith_depth out[PITH_DEPTHS])
{
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const double n = d->tokens[i] ? (double)d->tokens[i] : 1;
        double mean;
        out[i] = (struct pith_depth){.from = (i * d->longest + PITH_DEPTHS - 1) / PITH_DEPTHS,
                                     .to = ((i + 1) * d->longest + PITH_DEPTHS - 1) / PITH_DEPTHS,
                                     .tokens = d->tokens[i],
                                     .nll = d->nll[i] / n,
                                     .base_nll = d->base_nll[i] / n,
                                     .kld = d->sum[i] / n};
        if (d->seen[i])
            pith_weighted_ci95(d->kld + i * d->windows, d->weight + i * d->windows, d->seen[i],
                               &mean, &out[i].kld_ci95);
    }
}
