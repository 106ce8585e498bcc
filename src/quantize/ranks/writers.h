/* quantize/ranks/writers.h: which of several ranks stores what of a run's output.
 *
 * Where all ranks see the folder that rank 0 works in, each writes its part of the shards: the next
 * tensor goes to the rank with the fewest bytes of the unit so far, which also reads it back. Every
 * tensor has its place in the layout, so no byte depends on who writes it. When a unit ends, what
 * ranks have written is on the disk, and rank 0 has the hashes, which it writes to the journal. The
 * finished files are read again by all, each some of the tensors. Where a rank does not see the
 * folder, or with the option `gather`, rank 0 alone stores and reads again. */
#ifndef PITH_QUANTIZE_RANKS_WRITERS_H
#define PITH_QUANTIZE_RANKS_WRITERS_H

#include "base/ranks/ranks.h"
#include "quantize/output/output.h"

/* A file that rank 0 leaves in the folder for the others to see. */
#define PITH_WRITERS_SIGN "pith.ranks"

/* Begins zeroed; all NULL where rank 0 stores alone. */
struct pith_writers {
    pith_hash_text *hash; /* [layout.count]: what was stored so far, here or elsewhere */
    uint32_t *unit;       /* [layout.count]: the unit of each tensor */
    uint64_t *given;      /* [ranks]: bytes of this unit that are theirs to store */
    uint64_t *wrote;      /* [ranks]: bytes of the units that are done; rank 0 knows */
};

/* Waits until rank 0 has opened the output. Then every rank looks whether it sees the folder, and
 * opens the output if all do; with the option `gather` none looks. Every rank makes this call;
 * alone, nothing happens. */
enum pith_status pith_writers_join(struct pith_run *r, struct pith_error *err);
/* When rank 0 has renamed the folder: what a rank wrote on another disk is removed there. */
enum pith_status pith_writers_leave(const struct pith_run *r, struct pith_error *err);
void pith_writers_close(struct pith_writers *w);
/* Whether all store. */
bool pith_writers_share(const struct pith_run *r);
/* Whether this rank stores what it alone has made. */
bool pith_writers_own(const struct pith_run *r);
/* A unit begins. */
void pith_writers_begin(struct pith_run *r);
/* Whether the next tensors, of so many bytes, are for this rank to store. All ranks make the same
 * calls in the same order. */
bool pith_writers_take(struct pith_run *r, uint64_t bytes);
/* A tensor of the layout was stored here. For tasks too. */
void pith_writers_note(const struct pith_run *r, const struct pith_tensor_plan *p,
                       const char hex[PITH_SHA256_HEX]);
/* What the unit stored is on the disk, whichever rank wrote it; at rank 0 its account has all
 * hashes. */
enum pith_status pith_writers_end(struct pith_run *r, json_t *unit, struct pith_error *err);
/* To an account: "rank_bytes_written", where all stored. False when memory is out. */
bool pith_writers_report(const struct pith_run *r, json_t *j);
/* Of tensors of the layout, what each should have: rank 0's becomes everyone's, [layout.count]. */
enum pith_status pith_writers_want(const struct pith_run *r, pith_hash_text *want,
                                   struct pith_error *err);
/* A matrix that rank 0 has read becomes everyone's. The caller frees q, also after a failure. */
enum pith_status pith_writers_share_matrix(const struct pith_run *r, struct pith_qmat *q,
                                           struct pith_error *err);
/* All have come here. */
enum pith_status pith_writers_meet(const struct pith_run *r, struct pith_error *err);
/* Bytes of memory that struct pith_writers and lists of hashes take. */
uint64_t pith_writers_bytes(const struct pith_job *job);

#endif
