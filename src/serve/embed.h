/* serve/embed.h: a text as one vector: the mean of its last hidden rows, after the final norm. */
#ifndef PITH_SERVE_EMBED_H
#define PITH_SERVE_EMBED_H

#include "model/model.h"

struct pith_embedding {
    double *sum; /* [hidden] of the model; owned by the waiting caller */
    size_t rows;
    bool over; /* under the scheduler's lock, as is what follows */
    enum pith_status status;
    struct pith_error error;
};
/* Adds n more rows before the norm. */
void pith_embedding_add(struct pith_embedding *e, const struct pith_model *m,
                        struct pith_backend *be, const float *x, size_t n);

#endif
