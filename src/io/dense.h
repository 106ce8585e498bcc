/* io/dense.h: a quantized checkpoint shown as the dense one that it stands for, so that whatever
 * reads an original reads it too.
 *
 * Each quantized linear is one tensor MODULE.weight in float32, of the values that its codes stand
 * for, in the place of the tensors of its container; where its input is rotated at run time, of
 * those for the input before. The values are computed when a tensor is needed
 * (pith_tensor_need()), into a scratch file of which only the parts in use are there, and are gone
 * when they are dropped: neither memory nor disk holds the dense model. All other tensors are those
 * of the files. The config says nothing of quantization. */
#ifndef PITH_IO_DENSE_H
#define PITH_IO_DENSE_H

#include "io/container/container.h"

/* A linear that may be quantized. */
struct pith_dense_linear {
    const char *module;
    uint32_t rows, cols;
    bool bias; /* it has one; else what a quantizer stored as such, zeros, is omitted */
};

struct pith_dense_options {
    const struct pith_container *container; /* of the checkpoint */
    void *state;                            /* of that */
    const struct pith_dense_linear *linears;
    size_t count;
    bool (*leaves_out)(const char *tensor); /* what of the others nobody needs then */
    const char *folder;                     /* where the scratch file is made */
};

/* On success *out owns `stored` and its container's state, and pith_checkpoint_close() closes all
 * of it; on failure both stay the caller's. */
enum pith_status pith_dense_open(struct pith_checkpoint *stored,
                                 const struct pith_dense_options *options,
                                 struct pith_checkpoint **out, struct pith_error *err);
/* The checkpoint as its files have it. */
const struct pith_checkpoint *pith_dense_stored(const struct pith_checkpoint *view);
/* What a linear's values come from. */
struct pith_dense_source {
    struct pith_grid grid; /* format NULL: the linear is stored dense */
    bool ordered;          /* each column says its group: codes in another order */
    bool rotated;          /* the codes are for an input that is rotated at run time */
};
struct pith_dense_source pith_dense_source(const struct pith_checkpoint *view, const char *module);
/* A linear as it is stored; *found false when it is dense. As struct pith_container's load(). */
enum pith_status pith_dense_load(const struct pith_checkpoint *view,
                                 const struct pith_dense_linear *linear, struct pith_qmat *q,
                                 bool *found, struct pith_error *err);
/* The container that it is stored in. */
const struct pith_container *pith_dense_container(const struct pith_checkpoint *view);
/* For pith_checkpoint_close(): frees what belongs to the view. */
void pith_dense_close(struct pith_checkpoint *view);

#endif
