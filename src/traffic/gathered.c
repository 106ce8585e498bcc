/* What several have seen of one level. */
#include "base/mem.h"
#include "base/ranks/ranks.h"
#include "traffic/figures.h"

#include <math.h>

static enum pith_status join_failures(struct pith_level_result *r,
                                      const struct pith_failure_kind *kind, struct pith_error *err)
{
    for (size_t n = 0; n < kind->count; n++)
        PITH_TRY(pith_level_fail(r, kind->kind, kind->example, err));
    return PITH_OK;
}

/* Adds what another has seen of the same level, from the same start, to r: requests that were under
 * way at once count as if each had had its most at the same time. PITH_NOMEM. */
static enum pith_status level_join(struct pith_level_result *r,
                                   const struct pith_level_result *other, struct pith_error *err)
{
    for (size_t i = 0; i < other->records; i++)
        PITH_TRY(pith_level_record(r, &other->record[i], err));
    for (size_t i = 0; i < other->gaps; i++)
        PITH_TRY(pith_level_gap(r, (double)other->gap[i].at, (double)other->gap[i].wait, err));
    for (size_t i = 0; i < other->firsts; i++)
        PITH_TRY(pith_level_first(r, (double)other->first_at[i], err));
    for (size_t i = 0; i < other->lates; i++) PITH_TRY(pith_level_late(r, other->late[i], err));
    for (size_t i = 0; i < other->failures; i++)
        PITH_TRY(join_failures(r, &other->failure[i], err));
    r->seconds = fmax(r->seconds, other->seconds);
    r->busy += other->busy;
    r->most_at_once += other->most_at_once;
    return PITH_OK;
}

/* The lists of a level. */
struct list {
    void **items;
    size_t *count, size;
};
enum { LISTS = 5 };

static void lists_of(struct pith_level_result *r, struct list out[LISTS], void *item[LISTS])
{
    item[0] = r->record, item[1] = r->gap, item[2] = r->first_at, item[3] = r->late;
    item[4] = r->failure;
    size_t *const counts[LISTS] = {&r->records, &r->gaps, &r->firsts, &r->lates, &r->failures};
    static const size_t sizes[LISTS] = {sizeof *r->record, sizeof *r->gap, sizeof *r->first_at,
                                        sizeof *r->late, sizeof *r->failure};
    for (int i = 0; i < LISTS; i++) out[i] = (struct list){&item[i], counts[i], sizes[i]};
}

/* Numbers of a level, and how long its lists are. */
struct sizes {
    uint64_t count[LISTS], most_at_once;
    double seconds, busy;
};

static enum pith_status send(struct pith_ranks *ranks, struct pith_level_result *r,
                             struct pith_error *err)
{
    struct list list[LISTS];
    void *item[LISTS];
    struct sizes sizes = {
        .most_at_once = r->most_at_once, .seconds = r->seconds, .busy = r->busy};
    lists_of(r, list, item);
    for (int i = 0; i < LISTS; i++) sizes.count[i] = *list[i].count;
    PITH_TRY(pith_ranks_send(ranks, 0, &sizes, sizeof sizes, err));
    for (int i = 0; i < LISTS; i++)
        PITH_TRY(pith_ranks_send(ranks, 0, item[i], *list[i].count * list[i].size, err));
    return PITH_OK;
}

/* Makes *r, which is {0}; it is the caller's to free, also after a failure. */
static enum pith_status receive(struct pith_ranks *ranks, unsigned rank,
                                struct pith_level_result *r, struct pith_error *err)
{
    struct list list[LISTS];
    void *item[LISTS];
    struct sizes sizes;
    enum pith_status s = pith_ranks_receive(ranks, rank, &sizes, sizeof sizes, err);
    if (s != PITH_OK) return s;
    lists_of(r, list, item);
    for (int i = 0; i < LISTS && s == PITH_OK; i++) {
        *list[i].count = (size_t)sizes.count[i];
        item[i] = pith_alloc((size_t)sizes.count[i] + 1, list[i].size);
        s = item[i] ? pith_ranks_receive(ranks, rank, item[i], *list[i].count * list[i].size, err)
                    : pith_fail_nomem(err, "what was measured");
    }
    for (int i = 0; i < LISTS && s != PITH_OK; i++) *list[i].count = 0;
    r->record = item[0], r->gap = item[1], r->first_at = item[2], r->late = item[3];
    r->failure = item[4];
    r->most_at_once = (size_t)sizes.most_at_once;
    r->seconds = sizes.seconds;
    r->busy = sizes.busy;
    return s;
}

enum pith_status pith_level_gather(struct pith_ranks *ranks, struct pith_level_result *r,
                                   struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    if (!pith_ranks_first(ranks)) return send(ranks, r, err);
    for (unsigned k = 1; k < pith_ranks_count(ranks) && s == PITH_OK; k++) {
        struct pith_level_result other = {0};
        s = receive(ranks, k, &other, err);
        if (s == PITH_OK) s = level_join(r, &other, err);
        pith_level_free(&other);
    }
    return s;
}
