#include "quantize/ranks/pace.h"

#include "base/file.h"
#include "base/mem.h"
#include "quantize/run.h"

#include <stdio.h>

enum pith_status pith_paces_add(struct pith_paces *p, struct pith_ranks *ranks, double start,
                                const struct pith_rank_pace *before, struct pith_error *err)
{
    enum { STORED = 3, SHARED = 2 }; /* numbers of a rank: busy, received, last; two are sent */
    const unsigned count = pith_ranks_count(ranks), own = pith_ranks_own(ranks);
    const struct pith_rank_pace now = pith_ranks_pace(ranks);
    if (!p->busy) p->busy = pith_zalloc(count, (STORED + SHARED) * sizeof *p->busy);
    if (!p->busy) return pith_fail_nomem(err, "the ranks' pace");
    p->received = p->busy + count;
    p->last = p->received + count;
    double *shared = p->last + count;
    shared[SHARED * own] = pith_clock() - start - (now.waited - before->waited);
    shared[SHARED * own + 1] = (double)(now.received - before->received);
    PITH_TRY(pith_ranks_share_parts(ranks, shared, count, SHARED * sizeof *shared, err));
    for (unsigned k = 0; k < count; k++) {
        p->busy[k] += p->last[k] = shared[SHARED * k];
        p->received[k] += shared[SHARED * k + 1];
    }
    return PITH_OK;
}

bool pith_paces_report(const struct pith_paces *p, const struct pith_ranks *ranks, json_t *j)
{
    if (!p->busy) return true;
    json_t *busy = json_array(), *received = json_array();
    for (unsigned k = 0; k < pith_ranks_count(ranks); k++) {
        pith_json_add(&busy, json_real(p->busy[k]));
        pith_json_add(&received, json_integer((json_int_t)p->received[k]));
    }
    return json_object_set_new(j, "rank_busy_seconds", busy) == 0 &&
           json_object_set_new(j, "rank_bytes_received", received) == 0;
}

void pith_paces_free(struct pith_paces *p)
{
    pith_free(p->busy);
    *p = (struct pith_paces){0};
}

bool pith_pace_report(const struct pith_run *r, json_t *j)
{
    return pith_paces_report(&r->paces, r->ranks, j) && pith_writers_report(r, j);
}

static void name_slow(struct pith_paces *p, unsigned ranks)
{
    double median;
    const unsigned slow = pith_ranks_slowest(p->last, ranks, &median);
    p->note[0] = '\0';
    if (slow < ranks)
        (void)snprintf(p->note, sizeof p->note, ", rank %u is slow: %.1f s a block, others %.1f s",
                       slow, p->last[slow], median);
}

/* Runs it, and adds what every rank has done meanwhile. */
static enum pith_status timed(struct pith_run *r, size_t unit, pith_unit_fn *run,
                              struct pith_error *err)
{
    const double start = pith_clock();
    const struct pith_rank_pace before = pith_ranks_pace(r->ranks);
    PITH_TRY(run(r, unit, err));
    return pith_paces_add(&r->paces, r->ranks, start, &before, err);
}

enum pith_status pith_pace_unit(struct pith_run *r, size_t unit, pith_unit_fn *run,
                                struct pith_error *err)
{
    if (!r->ranks) return run(r, unit, err);
    PITH_TRY(timed(r, unit, run, err));
    name_slow(&r->paces, pith_ranks_count(r->ranks));
    return PITH_OK;
}

static enum pith_status guide(struct pith_run *r, size_t unit, struct pith_error *err)
{
    (void)unit;
    return pith_guiding_open(r, err);
}

enum pith_status pith_pace_guiding(struct pith_run *r, struct pith_error *err)
{
    if (!r->ranks || !(r->job->needs_round & PITH_NEED_GUIDED)) return pith_guiding_open(r, err);
    return timed(r, 0, guide, err);
}
