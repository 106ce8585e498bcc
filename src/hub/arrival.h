/* hub/arrival.h: a file that is being downloaded in pieces, and what is known of it after a kill.
 *
 * BLOB.pith.incomplete has the file's full length from the start; BLOB.pith.pieces records how much
 * of each piece has arrived. (Other tools that share the cache go on with BLOB.incomplete from its
 * length, so a file with holes must not have that name.) */
#ifndef PITH_HUB_ARRIVAL_H
#define PITH_HUB_ARRIVAL_H

#include "base/file.h"
#include "hub/retry.h"

struct pith_hub_piece {
    uint64_t from, to, done; /* bytes from..to of the file, of which the first `done` are there */
    bool taken;              /* somebody is at it */
    struct pith_tries tries;
};

struct pith_arrival {
    struct pith_out out;
    uint64_t size;
    char *path, *record; /* owned */
    struct pith_hub_piece *piece;
    size_t count;
    bool changed; /* since the record was written */
};

/* Opens what an earlier run left, or begins: at most `most` pieces of at least PITH_PIECE_LEAST
 * bytes. blob: the path of the file without its ending. *part is to be closed after success only.
 * PITH_IO when the disk is full; nothing new exists then. */
enum { PITH_PIECE_LEAST = 4 << 20 };
enum pith_status pith_arrival_open(const char *blob, uint64_t size, size_t most,
                                   struct pith_arrival *part, struct pith_error *err);
/* Bytes that have arrived. */
uint64_t pith_arrival_done(const struct pith_arrival *part);
/* One piece, from the start: the server knows no ranges. */
void pith_arrival_unite(struct pith_arrival *part);
/* Writes down what has arrived. That it could not be written is no failure: a later run then asks
 * again for what arrived since the last time. */
void pith_arrival_record(struct pith_arrival *part);
/* Closes; with `drop`, what has arrived is deleted, else it is recorded. A closed one is fine. */
void pith_arrival_close(struct pith_arrival *part, bool drop);

/* Reads the whole file and compares it with the blob's name: the SHA-256 of its bytes (64 digits)
 * or git's hash of them (40 digits); then syncs it. For a separate thread; ends with
 * PITH_INTERRUPTED soon after *stop is set. PITH_MISMATCH names both hashes. */
enum pith_status pith_arrival_check(const struct pith_arrival *part, const char *blob,
                                    const _Atomic(bool) *stop, struct pith_error *err);

#endif
