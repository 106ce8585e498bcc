/* quantize/phases.h: where the time of a run goes. */
#ifndef PITH_QUANTIZE_PHASES_H
#define PITH_QUANTIZE_PHASES_H

#include "base/json.h"

#include <stdbool.h>

/* Name in pith.json, and what counts there. Tasks that run side by side add their seconds divided
 * by the number of threads, so that the phases of a run add up to about its time. */
#define PITH_PHASES(X)                                                                             \
    X(READ, "read")           /* the model's weights, as floats; waiting for the disk */           \
    X(COLLECT, "collect")     /* calibration windows through the block, statistics but for H */    \
    X(HESSIAN, "hessian")     /* products of the windows' inputs with themselves */                \
    X(TRANSFORM, "transform") /* the search for scales and clipping */                             \
    X(FACTOR, "factor")       /* GPTQ: factors of H */                                             \
    X(ROUND, "round")         /* scales and codes */                                               \
    X(ERROR, "error")         /* what was lost, and the hash of the dequantized weights */         \
    X(PACK, "pack")           /* into the container's form */                                      \
    X(WRITE, "write")         /* hashed, written, compared with what the file then holds */        \
    X(VERIFY, "verify")       /* read back by the container's reader and compared */               \
    X(PROPAGATE, "propagate") /* the block's output for the next block */                          \
    X(SYNC, "sync")           /* waiting until a finished block is on the disk */                  \
    X(REREAD, "reread")       /* the finished files once more, from the disk; of a resumed run     \
                                 what was there already, and its input */

enum pith_phase {
#define PITH_PHASE_ID(id, name) PITH_PHASE_##id,
    PITH_PHASES(PITH_PHASE_ID)
#undef PITH_PHASE_ID
        PITH_PHASE_COUNT
};

struct pith_phases {
    double seconds[PITH_PHASE_COUNT];
    double mark; /* pith_clock() when the present stretch began */
};

/* Begins a stretch: what went before belongs to no phase. */
void pith_phases_begin(struct pith_phases *p);
/* Adds the time since the last mark to a phase. */
void pith_phases_mark(struct pith_phases *p, enum pith_phase phase);
/* Moves seconds from one phase to another that was measured inside it. */
void pith_phases_move(struct pith_phases *p, enum pith_phase from, enum pith_phase to,
                      double seconds);
/* Adds what a task took that shared the machine with others. */
void pith_phases_join(struct pith_phases *p, const struct pith_phases *task, unsigned threads);
/* Adds "seconds_read": 1.5 and so on to an object, without phases that took nothing; false when
 * memory is out. */
bool pith_phases_report(const struct pith_phases *p, json_t *object);

#endif
