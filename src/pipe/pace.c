/* How ranks keep pace: what each has worked and received, unit by unit. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>

/* What each rank was busy with in a unit, and what came there, to everyone. */
static enum pith_status share_paces(struct pith_run *r, double *now, struct pith_error *err)
{
    const unsigned count = pith_ranks_count(r->ranks);
    double median;
    PITH_TRY(pith_ranks_share_parts(r->ranks, now, count, 2 * sizeof *now, err));
    double *busy = now + 2 * (size_t)count;
    for (unsigned k = 0; k < count; k++) {
        busy[k] = now[2 * k];
        r->paces.busy[k] += busy[k];
        r->paces.received[k] += now[2 * k + 1];
    }
    const unsigned slow = pith_ranks_slowest(busy, count, &median);
    r->paces.note[0] = '\0';
    if (slow < count)
        (void)snprintf(r->paces.note, sizeof r->paces.note,
                       ", rank %u is slow: %.1f s a block, others %.1f s", slow, busy[slow],
                       median);
    return PITH_OK;
}

enum pith_status pith_pace_unit(struct pith_run *r, size_t unit,
                                enum pith_status (*run)(struct pith_run *, size_t,
                                                        struct pith_error *),
                                struct pith_error *err)
{
    enum { NUMBERS = 3 }; /* two that are shared; those of the first again, in a row */
    const unsigned count = pith_ranks_count(r->ranks), own = pith_ranks_own(r->ranks);
    if (!r->ranks) return run(r, unit, err);
    struct pith_paces *p = &r->paces;
    if (!p->busy) p->busy = pith_zalloc(count, 2 * sizeof *p->busy);
    double *now = pith_zalloc(count, NUMBERS * sizeof *now);
    const double start = pith_clock();
    const struct pith_rank_pace before = pith_ranks_pace(r->ranks);
    enum pith_status s = p->busy && now ? PITH_OK : pith_fail_nomem(err, "the ranks' pace");
    if (s == PITH_OK) {
        p->received = p->busy + count;
        s = run(r, unit, err);
    }
    if (s == PITH_OK) {
        const struct pith_rank_pace after = pith_ranks_pace(r->ranks);
        now[2 * own] = pith_clock() - start - (after.waited - before.waited);
        now[2 * own + 1] = (double)(after.received - before.received);
        s = share_paces(r, now, err);
    }
    pith_free(now);
    return s;
}

bool pith_pace_report(const struct pith_run *r, json_t *j)
{
    if (!r->paces.busy) return true;
    json_t *busy = json_array(), *received = json_array();
    for (unsigned k = 0; k < pith_ranks_count(r->ranks); k++) {
        pith_json_add(&busy, json_real(r->paces.busy[k]));
        pith_json_add(&received, json_integer((json_int_t)r->paces.received[k]));
    }
    return json_object_set_new(j, "rank_busy_seconds", busy) == 0 &&
           json_object_set_new(j, "rank_bytes_received", received) == 0;
}

void pith_pace_free(struct pith_run *r)
{
    pith_free(r->paces.busy);
    r->paces = (struct pith_paces){0};
}
