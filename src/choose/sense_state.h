/* choose/sense_state.h: how far a pass of choose/sense.h has come, for going on with it.
 * "pith.journal" in its folder, or a guide's "pith.guide.journal", has a line a step, each a
 * SHA-256 and a JSON object:
 *
 *     {"pith", "job"}                               whose it is
 *     {"there": layer, "acts": hash}                what entered layer + 1 is on disk
 *     {"turned": true, "grad": hash}                the gradient of the last layer's output
 *     {"back": layer, "grad", "cells", "site", "cache"}   ... of that layer's input, and its cells;
 *                           of a mixture's also "router", "site_sway", "cache_sway"
 *     {"back": layer, "grad", "guide": hash}              ... or its guide
 *
 * The hash of a line is that of the line before it and of the object. Lines from the first that is
 * not as it was written on count for nothing. */
#ifndef PITH_CHOOSE_SENSE_STATE_H
#define PITH_CHOOSE_SENSE_STATE_H

#include "base/hash.h"
#include "base/json.h"
#include "choose/sense.h"

struct pith_sense_state {
    char *path;
    char chain[PITH_SHA256_HEX];
    json_t *lines;            /* those read, but for the first */
    struct pith_ranks *ranks; /* that share the work; rank 0 has the file */
};

/* Opens the file of that job in `folder`, or begins one. PITH_IO when it is another's. */
enum pith_status pith_sense_state_open(struct pith_sense_state *s, const char *folder,
                                       const struct pith_job *job, const struct pith_sense *of,
                                       struct pith_error *err);
void pith_sense_state_close(struct pith_sense_state *s);
/* Appends a line (taken over; NULL: no memory) and syncs it. */
enum pith_status pith_sense_state_add(struct pith_sense_state *s, json_t *line,
                                      struct pith_error *err);
/* The same of what a pass came to: the activations behind `layer` have the hash `acts`; ... */
enum pith_status pith_sense_state_there(struct pith_sense_state *s, uint32_t layer,
                                        const char *acts, struct pith_error *err);
/* ... the gradients at the head have the hash `grad`; ... */
enum pith_status pith_sense_state_head(struct pith_sense_state *s, const char *grad,
                                       struct pith_error *err);
/* ... and those in front of `layer`, where the pass fills a guide, whose hash is the last. */
enum pith_status pith_sense_state_guided(struct pith_sense_state *s, uint32_t layer,
                                         const char *grad, const char *guide,
                                         struct pith_error *err);
/* Begins anew. */
enum pith_status pith_sense_state_reset(struct pith_sense_state *s, const struct pith_job *job,
                                        const struct pith_sense *of, struct pith_error *err);

/* A layer's cells as a line, and back; false when they are not of this job. */
json_t *pith_sense_state_layer(const struct pith_job *job, const struct pith_sense *of,
                               uint32_t layer, const char *grad);
bool pith_sense_state_take(const struct pith_job *job, struct pith_sense *of, const json_t *line);

#endif
