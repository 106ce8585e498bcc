/* What goes round of statistics, as calib/relay.c and calib/sent.c pass it. */
#include "quantize/ranks/foresee_parts.h"

#include "quantize/site/module_output.h"

#include <string.h>

void pith_foresee_send(struct pith_crew *c, unsigned from, unsigned to, uint64_t bytes)
{
    if (to == PITH_TO_ALL) pith_crew_share(c, from, bytes);
    else if (to != from) pith_crew_pass(c, to, bytes);
}

void pith_foresee_send_matrix(struct pith_crew *c, unsigned from, unsigned to,
                              const struct pith_route_sizes *of)
{
    for (size_t i = 0; i < PITH_ROUTE_PARTS; i++) pith_foresee_send(c, from, to, of->bytes[i]);
}

/* --- samples ---------------------------------------------------------------------------------- */

/* Samples that have been taken before the windows of each rank, and at last all of them. */
void pith_foresee_samples(struct pith_crew *c, const struct pith_job *job, size_t dim)
{
    const size_t most = pith_transform_samples(job), windows = job->calib.windows;
    const size_t tokens = windows * job->calib.length;
    const size_t step = tokens > most ? tokens / most : 1;
    for (unsigned k = 1; k <= c->ranks; k++) {
        const size_t before = pith_ranks_cut(c->ranks, k, windows) * job->calib.length;
        const size_t taken = (before + step - 1) / step;
        const uint64_t bytes = (taken < most ? taken : most) * dim * sizeof(float);
        if (k < c->ranks) pith_crew_pass(c, k, bytes);
        else pith_crew_share(c, k - 1, bytes);
    }
}

/* --- rows of experts' tokens ------------------------------------------------------------------ */

struct sending {
    struct pith_crew *c;
    const struct pith_job *job;
    const size_t *taken; /* [experts][ranks] */
    uint64_t row;        /* bytes */
};

static void count_taken(const struct sending *s, const struct pith_routed *r, size_t *taken)
{
    const size_t length = s->job->calib.length, ranks = s->c->ranks;
    size_t token = 0;
    memset(taken, 0, s->job->model->shape.moe.experts * ranks * sizeof *taken);
    for (unsigned k = 0; k < ranks; k++) {
        const size_t end = pith_ranks_cut(s->c->ranks, k + 1, s->job->calib.windows) * length;
        for (; token < end; token++)
            for (uint32_t i = 0; i < r->taken; i++)
                taken[r->chosen[token * r->taken + i] * ranks + k]++;
    }
}

/* Seconds of what one rank sends to another: rows of its tokens, an expert after the other. */
static double send_rows(const struct sending *s, unsigned from, unsigned to)
{
    const size_t most = s->job->calib.length;
    double seconds = 0;
    for (uint32_t e = 0; e < s->job->model->shape.moe.experts; e++) {
        if (pith_relay_owner_of(s->c->ranks, e) != to) continue;
        for (size_t left = s->taken[e * s->c->ranks + from], n; left; left -= n) {
            n = left < most ? left : most;
            s->c->received[to] += n * s->row;
            seconds += pith_crew_message(s->c, (double)(n * s->row));
        }
    }
    return seconds;
}

/* Ranks in pairs: a turn takes as long as its longest pair. */
static void exchange(const struct sending *s)
{
    const unsigned ranks = s->c->ranks;
    for (unsigned turn = 0; turn < ranks; turn++) {
        double longest = 0;
        for (unsigned own = 0; own < ranks; own++) {
            const unsigned other = (turn + ranks - own) % ranks;
            if (own >= other) continue;
            const double pair = send_rows(s, own, other) + send_rows(s, other, own);
            longest = pair > longest ? pair : longest;
        }
        pith_crew_add(s->c, PITH_CREW_LINK, longest);
    }
}

/* Rows at equal distances over the text, to all. */
static void share_pooled(const struct sending *s, const struct pith_routed *r, size_t pooled)
{
    const size_t length = s->job->calib.length;
    for (unsigned k = 0; k < s->c->ranks; k++) {
        const size_t from = pith_ranks_cut(s->c->ranks, k, s->job->calib.windows) * length,
                     to = pith_ranks_cut(s->c->ranks, k + 1, s->job->calib.windows) * length;
        size_t n = 0;
        for (size_t i = 0; i < pooled; i++) {
            const size_t token = pith_pooled_token(r, i, pooled);
            n += token >= from && token < to;
        }
        pith_crew_told(s->c, k, n * s->row);
    }
}

void pith_foresee_sent(struct pith_crew *c, const struct pith_job *job, const struct pith_routed *r,
                       size_t width, size_t *taken)
{
    const struct sending s = {c, job, taken, width * sizeof(float)};
    const uint64_t choices = job->calib.length * r->taken * sizeof *r->chosen;
    if (c->ranks == 1) return;
    pith_crew_parts(c, job->calib.windows, choices);
    if (r->share) pith_crew_parts(c, job->calib.windows, choices);
    share_pooled(&s, r, pith_routed_brought(r));
    if (r->rule == PITH_EXPERTS_ALL) return;
    count_taken(&s, r, taken);
    exchange(&s);
}
