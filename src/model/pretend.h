/* model/pretend.h: a session at a depth that nobody computed. */
#ifndef PITH_MODEL_PRETEND_H
#define PITH_MODEL_PRETEND_H

#include "model/model.h"

/* Takes the first `length` positions (at most the capacity) as read, with keys and values that are
 * made up: for timing what comes after them. */
void pith_session_pretend(struct pith_session *s, size_t length);

#endif
