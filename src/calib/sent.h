/* calib/sent.h: rows of the stream on their way to the ranks whose experts read them. Inside calib/
 * only. */
#ifndef PITH_CALIB_SENT_H
#define PITH_CALIB_SENT_H

#include "calib/routed.h"

/* Where a token takes that expert among its own; NULL: it does not. */
const uint32_t *pith_routed_taken(const struct pith_routed *r, size_t token, uint32_t expert);

/* Floats of a row on its way: of the stream, and with a twin then of its stream. */
static inline size_t pith_sent_width(const struct pith_routed_place *p)
{
    return p->acts->hidden * (p->twin ? 2 : 1);
}

/* What each rank chose for its windows becomes everyone's. */
enum pith_status pith_sent_choices(struct pith_routed *r, const struct pith_routed_place *p,
                                   struct pith_error *err);
/* Brings every row to where it is read, `pooled` of the text at large to all; made once a layer.
 * Where experts see all tokens, `pooled` is all of them, and nothing goes to experts. All ranks
 * call it, and none computes meanwhile. r->sent is freed with r. */
enum pith_status pith_sent_bring(struct pith_routed *r, const struct pith_routed_place *p,
                                 size_t pooled, struct pith_error *err);

#endif
