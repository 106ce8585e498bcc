/* model/session.h: one sequence over a model. */
#ifndef PITH_MODEL_SESSION_H
#define PITH_MODEL_SESSION_H

#include "model/runner.h"

/* A sequence being read: appends n ids (any n; longer ones go in chunks) and leaves the hidden
 * rows of all n in x[n][hidden] (before the final norm). Needs m->blocks. */
struct pith_session {
    struct pith_runner runner; /* whose sequence 0 it is; others are forks of it */
    size_t length;             /* tokens so far */
};
struct pith_session_options {
    size_t capacity;          /* tokens */
    size_t chunk;             /* tokens computed at once, at most */
    struct pith_kv_format kv; /* of the cache */
    bool keep;                /* as in struct pith_runner_options */
    uint32_t forks;           /* sequences that may fork from it, at once */
    size_t forked;            /* tokens that they have beyond it, all together */
    uint32_t others;          /* further sequences that share nothing, each of that capacity */
};
/* m and be are borrowed. PITH_ARG without loaded blocks, for a size of 0 or another dtype; on
 * failure *s owns nothing. */
enum pith_status pith_session_init(struct pith_session *s, struct pith_model *m,
                                   struct pith_backend *be,
                                   const struct pith_session_options *options,
                                   struct pith_error *err);
/* Bytes that it takes; blocks need not be loaded. */
uint64_t pith_session_bytes(const struct pith_model *m, const struct pith_session_options *options);
/* Frees what s owns and zeroes it. */
void pith_session_free(struct pith_session *s);
/* Forgets all tokens beyond `length` (pith_runner_rewind). */
void pith_session_rewind(struct pith_session *s, size_t length);
/* As above; allocates nothing. PITH_LIMIT when the ids do not fit, PITH_ARG for an id outside the
 * vocabulary; on failure the session is as before. */
enum pith_status pith_session_append(struct pith_session *s, const int32_t *ids, size_t n, float *x,
                                     struct pith_error *err);

#endif
