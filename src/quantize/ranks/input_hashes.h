/* quantize/ranks/input_hashes.h: the hashes of a unit's input, shared out: each tensor's SHA-256 is
 * taken by one rank, and rank 0 receives them. What makes that rank's hash everyone's is that all
 * read all of the unit's tensors by a fast hash under a key that rank 0 draws for the unit
 * (base/keyed.h). Alone every tensor is hashed here, without a key. */
#ifndef PITH_QUANTIZE_RANKS_INPUT_HASHES_H
#define PITH_QUANTIZE_RANKS_INPUT_HASHES_H

#include "base/hash.h"
#include "base/keyed.h"
#include "base/status.h"
#include "io/safetensors.h"

struct pith_checkpoint;
struct pith_run;

/* A tensor of the input, and its hash. */
struct pith_read {
    const struct pith_checkpoint *in;
    const struct pith_tensor *tensor;
    const char *want;                                 /* what it was, or NULL */
    const struct pith_keyed_key *key;                 /* to be read by, or NULL */
    bool other;                                       /* its SHA-256 is taken elsewhere, */
    unsigned owner;                                   /* by that rank */
    char hex[PITH_SHA256_HEX], same[PITH_SHA256_HEX]; /* SHA-256, and by the key */
    enum pith_status status;
    struct pith_error err;
};

/* Before they are read: who takes which hash, and the key, which the caller keeps for as long. */
enum pith_status pith_hashes_divide(const struct pith_run *r, struct pith_read *list, size_t count,
                                    struct pith_keyed_key *key, struct pith_error *err);
/* Afterwards: all have read the same, else PITH_MISMATCH names a rank that has another input,
 * perhaps on a separate disk; where the journal is written, list[] has all SHA-256. */
enum pith_status pith_hashes_join(const struct pith_run *r, struct pith_read *list, size_t count,
                                  struct pith_error *err);

#endif
