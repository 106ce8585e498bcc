/* serve/counts.h: how often an answer has each token, for penalties. */
#ifndef PITH_SERVE_COUNTS_H
#define PITH_SERVE_COUNTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_count {
    int32_t id;      /* -1: a free place */
    uint32_t answer; /* times in the answer; 0: in the prompt alone */
};
/* A hash table by id; start with {0}. */
struct pith_counts {
    struct pith_count *entry; /* [room], a power of two, or NULL */
    size_t room, used;
};
/* One more of id, in the answer or in the prompt. PITH_NOMEM leaves it as it was. */
enum pith_status pith_counts_add(struct pith_counts *c, int32_t id, bool answer,
                                 struct pith_error *err);
void pith_counts_free(struct pith_counts *c);

#endif
