/* base/ranks/ranks.h: the processes that a launcher of MPI started for one run, and their
 * messages. Each is a rank; rank 0 speaks for all. What carries the messages is a shared object
 * that is loaded when it is needed (base/ranks/link.h), so that a program which runs alone needs
 * no MPI.
 *
 * All ranks make the same calls in the same order. A NULL pith_ranks, or one of a single rank, is
 * alone: every call below succeeds at once and leaves the data as it is.
 *
 * A rank whose work fails notifies the others (pith_ranks_fail()); a rank that waits for a message
 * then returns that rank's status, with "rank N: " and its message. */
#ifndef PITH_BASE_RANKS_RANKS_H
#define PITH_BASE_RANKS_RANKS_H

#include "base/progress.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_ranks;

/* Joins the ranks by that shared object. `beat` is called while a rank waits and returns whether to
 * stop; it is copied. PITH_UNSUPPORTED when the object is missing or of another version, PITH_IO
 * when MPI does not start. The caller closes *out. */
enum pith_status pith_ranks_open(const char *object, const struct pith_progress *beat,
                                 struct pith_ranks **out, struct pith_error *err);
/* The last call of every rank. After a failure the ranks do not wait for each other forever. */
void pith_ranks_close(struct pith_ranks *r);

/* Before that, after a failure: whether rank 0 is still there to end with the others, waiting a
 * little for it. True of rank 0 itself. */
bool pith_ranks_answer(struct pith_ranks *r);

/* How many there are. */
unsigned pith_ranks_count(const struct pith_ranks *r);
/* Which of them, from 0, the caller is. */
unsigned pith_ranks_own(const struct pith_ranks *r);
static inline bool pith_ranks_first(const struct pith_ranks *r)
{
    return pith_ranks_own(r) == 0;
}
static inline bool pith_ranks_alone(const struct pith_ranks *r)
{
    return pith_ranks_count(r) == 1;
}

/* Bytes of data[bytes] from one rank to another, each by its own call. `other` is not the caller.
 */
enum pith_status pith_ranks_send(struct pith_ranks *r, unsigned other, const void *data,
                                 size_t bytes, struct pith_error *err);
enum pith_status pith_ranks_receive(struct pith_ranks *r, unsigned other, void *data, size_t bytes,
                                    struct pith_error *err);
/* What `from` has in data becomes everyone's; how it goes is in base/ranks/hops.h. */
enum pith_status pith_ranks_share(struct pith_ranks *r, unsigned from, void *data, size_t bytes,
                                  struct pith_error *err);
/* What each rank holds of a list becomes everyone's: its items [pith_ranks_from(rank), that of rank
 * + 1) of `items`, `size` bytes each. */
enum pith_status pith_ranks_share_parts(struct pith_ranks *r, void *data, size_t items, size_t size,
                                        struct pith_error *err);
/* The same of parts of any length: rank k has bytes [edges[k], edges[k + 1]) of data. edges[] has
 * one more than there are ranks, the first is 0; all ranks have the same. */
enum pith_status pith_ranks_share_runs(struct pith_ranks *r, void *data, const size_t *edges,
                                       struct pith_error *err);
/* What `from` has in (*text)[*size], however much, becomes everyone's: elsewhere *text is made,
 * with a NUL behind, and is the caller's to pith_free(); NULL on failure there. */
enum pith_status pith_ranks_share_text(struct pith_ranks *r, unsigned from, char **text,
                                       size_t *size, struct pith_error *err);
/* Everyone has come here. */
enum pith_status pith_ranks_meet(struct pith_ranks *r, struct pith_error *err);
/* PITH_MISMATCH, naming the first rank that has another value than rank 0; `what` says what of. */
enum pith_status pith_ranks_agree(struct pith_ranks *r, const char *value, const char *what,
                                  struct pith_error *err);

/* The first of `items` things that are a rank's when they are cut into runs as equal as can be, of
 * that many ranks; of these. */
static inline size_t pith_ranks_cut(unsigned ranks, unsigned rank, size_t items)
{
    return items / ranks * rank + (rank < items % ranks ? rank : items % ranks);
}
static inline size_t pith_ranks_from(const struct pith_ranks *r, unsigned rank, size_t items)
{
    return pith_ranks_cut(pith_ranks_count(r), rank, items);
}

/* Of `rows` that go along the ranks in panels, one behind another, how many a panel has: as many
 * that all ranks are at work for most of the time. */
static inline size_t pith_ranks_panel(unsigned ranks, size_t rows)
{
    enum { A_RANK = 8, LEAST = 64 };
    const size_t n = rows / ((size_t)A_RANK * ranks);
    return n > LEAST ? n : rows < LEAST ? rows : LEAST;
}

/* What this rank has waited for messages so far, and what came with them. */
struct pith_rank_pace {
    double waited;     /* seconds */
    uint64_t received; /* bytes */
};
struct pith_rank_pace pith_ranks_pace(const struct pith_ranks *r);
/* Of what ranks took for the same part of a run, seconds[count]: the one that took the most, when
 * that is over half more than the median (of an even number, the lower) and over half a second
 * more; else `count`. *median receives it. */
unsigned pith_ranks_slowest(const double *seconds, unsigned count, double *median);

/* Notifies the others of a failure, once; s is handed through. PITH_OK, or a failure that came from
 * another rank, is not repeated. */
enum pith_status pith_ranks_fail(struct pith_ranks *r, enum pith_status s,
                                 const struct pith_error *err);
#endif
