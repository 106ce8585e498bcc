/* model/empty_context.h: sequences at a depth that nobody computed. */
#ifndef PITH_MODEL_EMPTY_CONTEXT_H
#define PITH_MODEL_EMPTY_CONTEXT_H

#include "model/runner.h"

/* Takes the first `length` positions of an empty sequence, of a runner that keeps all of them, as
 * read, with keys and values that are made up: for timing what comes after them. PITH_LIMIT above
 * the capacity. */
enum pith_status pith_runner_pretend(struct pith_runner *r, uint32_t sequence, size_t length,
                                     struct pith_error *err);

#endif
