/* quantize/ranks/ranks.h: a run whose work several ranks share (base/ranks/ranks.h).
 *
 * All ranks go through the same steps. What they share:
 *
 *     windows of the text   each rank has a run of them; statistics pass the ranks (calib/relay.h),
 *                           learned rounding shares the rest (windows.h)
 *     rows of matrices      each rank has some of a site's linears (division.h); of a list of
 *                           linears each makes some (makers.h)
 *     experts               each is its owner's: its statistics, its transform's search, its
 *                           matrices; what was made of them is everyone's once all are done
 *                           (experts.h)
 *     hashes of the input   each rank takes some (input_hashes.h)
 *     what is written       by each its part, where all see the folder (writers.h), else by rank 0
 *                           alone, as are journal and account
 *
 * so the bytes of the output are those of a rank alone. How one thing goes to others: route.h. */
#ifndef PITH_QUANTIZE_RANKS_RANKS_H
#define PITH_QUANTIZE_RANKS_RANKS_H

#include "quantize/ranks/shares.h"
#include "quantize/output/output.h"

/* The ranks that share this job's work, or NULL: one does it, as it does a rehearsal. */
struct pith_ranks *pith_job_ranks(const struct pith_job *job);
/* Bytes that sharing takes in addition to one rank's work: a panel of a Hessian, a site's codes. */
uint64_t pith_ranks_bytes(const struct pith_job *job);
/* Whether this rank writes the journal and the account: rank 0. Of a job, also of a rehearsal's. */
bool pith_run_writes(const struct pith_run *r);
bool pith_job_writes(const struct pith_job *job);
/* Whether this rank receives what others make (makers.h). */
bool pith_job_receives(const struct pith_job *job);

/* The hash of the hashes of all windows, each by the rank that has it: the same for any number of
 * ranks. Of no numbers, "". */
enum pith_status pith_ranks_digest(struct pith_ranks *ranks, const struct pith_acts *a,
                                   char hex[PITH_SHA256_HEX], struct pith_error *err);

/* Before the run: everyone is about to do the same job, and whether rank 0 has found it done. */
enum pith_status pith_ranks_begin(const struct pith_job *job, bool *done, struct pith_error *err);
/* How many finished units rank 0 goes on behind, everywhere. */
enum pith_status pith_ranks_units(const struct pith_run *r, size_t *done, struct pith_error *err);

#endif
