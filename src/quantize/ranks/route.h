/* quantize/ranks/route.h: what one rank has, on its way to another or to all. Alone none goes. */
#ifndef PITH_QUANTIZE_RANKS_ROUTE_H
#define PITH_QUANTIZE_RANKS_ROUTE_H

#include "base/json.h"
#include "num/input.h"
#include "num/qmat.h"
#include "quantize/ranks/shares.h"

struct pith_ranks;

/* Where something goes: from the rank that has it to one, or to all (PITH_TO_ALL). */
struct pith_route {
    struct pith_ranks *ranks; /* NULL: it is there already */
    unsigned from, to;
};
/* A matrix, without the changes of its input: q is read on `from`, made where it goes (to be
 * freed there), and not touched elsewhere. */
enum pith_status pith_route_qmat(const struct pith_route *route, struct pith_qmat *q,
                                 struct pith_error *err);
/* What is done to its input. */
enum pith_status pith_route_input(const struct pith_route *route, struct pith_input *in,
                                  struct pith_error *err);
/* data[bytes], likewise. */
enum pith_status pith_route_bytes(const struct pith_route *route, void *data, size_t bytes,
                                  struct pith_error *err);

/* A small file that rank 0 has at its path becomes everyone's, at a path of each one's own. */
enum pith_status pith_ranks_share_file(struct pith_ranks *ranks, const char *path,
                                       struct pith_error *err);

/* What rank 0 has in *j, or NULL, becomes everyone's: elsewhere it takes the place of *j. */
enum pith_status pith_ranks_share_json(struct pith_ranks *ranks, json_t **j,
                                       struct pith_error *err);

#endif
