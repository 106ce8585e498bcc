/* model/kinds.h: what a checkpoint's matrices take in memory, before they are read: those of one
 * shape on one grid are a kind, and of each kind one is. */
#ifndef PITH_MODEL_KINDS_H
#define PITH_MODEL_KINDS_H

#include "model/model.h"

enum { PITH_KINDS = 16 };

struct pith_kind_of {
    const char *module;
    uint32_t rows, cols;
};

struct pith_kind {
    struct pith_grid grid; /* as the container describes it; format NULL: not quantized */
    struct pith_qspec spec;
    struct pith_grid input; /* of what it is multiplied with */
    uint64_t loaded;        /* that it allocates, mapped: codes may be the checkpoint's */
};
/* Those that were looked at; {0} at first. */
struct pith_kinds {
    struct pith_kind list[PITH_KINDS];
    unsigned count;
};

/* The kind of `module`, a matrix of rows x cols. What its container describes is the spec where
 * there are more kinds than are stored, or the matrix cannot be read. Fails where describing does.
 */
enum pith_status pith_kind_find(struct pith_kinds *k, const struct pith_model *m,
                                const struct pith_kind_of *which, struct pith_kind *out,
                                struct pith_error *err);

#endif
