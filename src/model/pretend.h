/* model/pretend.h: a session at a depth that nobody computed. */
#ifndef PITH_MODEL_PRETEND_H
#define PITH_MODEL_PRETEND_H

#include "model/session.h"

/* Takes the first `length` positions of a session that keeps all of them as read, with keys and
 * values that are made up: for timing what comes after them. PITH_LIMIT above the capacity. */
enum pith_status pith_session_pretend(struct pith_session *s, size_t length,
                                      struct pith_error *err);

#endif
