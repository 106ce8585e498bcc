/* quantize/site/module_output.h: judges candidate weights of a site by the output of the module
 * around it (attention, or the feed-forward part), as AWQ does. Some whole windows of the module's
 * input are stored, with the output that the original weights give. */
#ifndef PITH_QUANTIZE_SITE_MODULE_OUTPUT_H
#define PITH_QUANTIZE_SITE_MODULE_OUTPUT_H

#include "calib/collect.h"
#include "quant/transform.h"

/* Where a module's experts come from when the block holds one at a time. */
struct pith_lender {
    /* Makes a linear of the block what it is in a trial, NULL: as it was; and takes it away. */
    enum pith_status (*lend)(void *ctx, uint32_t linear, const struct pith_trial *trial,
                             struct pith_error *err);
    void (*back)(void *ctx, uint32_t linear);
    void *ctx;
};

struct pith_inspector {
    struct pith_collector *collector;
    const struct pith_block *block;
    uint32_t site;
    size_t windows, length, dim, hidden;
    float *input;     /* [windows][length][dim] */
    float *reference; /* [windows][length][hidden] */
    float *output;    /* [length][hidden], or with a lender [windows][length][hidden] */
    const struct pith_lender *lender; /* of the experts of the module, or NULL */
    uint32_t *chosen;                 /* with a lender [windows][length][taken] */
    float *share;
};

/* Tokens that an inspector keeps at most (at least one window). */
enum { PITH_INSPECT_TOKENS = 2048 };
/* Inputs of a site that a transform looks at one by one: as many, or all that there are. */
enum { PITH_TRANSFORM_SAMPLES = 512 };
struct pith_job;
size_t pith_transform_samples(const struct pith_job *job);

/* What is inspected. */
struct pith_inspected {
    struct pith_collector *collector;
    const struct pith_block *block;
    const struct pith_acts *acts;
    uint32_t site;
    const struct pith_lender *lender; /* NULL: all that the module needs is there */
};
/* Prepares for a site whose module is to be inspected and sets job->loss. On failure, or when never
 * initialised ({0}), pith_inspector_free() is still right. */
enum pith_status pith_inspector_init(struct pith_inspector *in, const struct pith_inspected *what,
                                     struct pith_transform_job *job, struct pith_error *err);
void pith_inspector_free(struct pith_inspector *in);
/* Of a site of that dimension, with as many calibration windows of that length; with a lender or
 * without. */
uint64_t pith_inspector_bytes(const struct pith_shape *s, uint32_t dim, size_t windows,
                              size_t length, bool lends);

#endif
