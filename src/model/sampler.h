/* model/sampler.h: the next token from logits: greedy, or temperature, top-k, top-p (nucleus,
 * Holtzman et al. 2020), min-p (Nguyen et al. 2024) and locally typical sampling (Meister et al.
 * 2022), reproducible by seed. Filters apply in this order, after the temperature. */
#ifndef PITH_MODEL_SAMPLER_H
#define PITH_MODEL_SAMPLER_H

#include "backend/backend.h"
#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

struct pith_sampling {
    float temperature; /* 0: greedy, the first of equal maxima */
    uint32_t top_k;    /* 0: no limit */
    float top_p;       /* 1: no limit */
    uint64_t seed;
    float min_p;   /* a share of the likeliest token's probability; 0: no limit */
    float typical; /* 0 and 1: no limit */
};

struct pith_sampler {
    struct pith_sampling how;
    struct pith_rng rng;
    struct pith_backend *backend; /* borrowed */
    size_t vocab, segments;       /* the vocabulary is looked through in segments */
    float *max;                   /* [segments]; these are one allocation, owned */
    double *sum;                  /* [segments] */
    void *candidates;             /* [vocab] */
};
/* PITH_ARG for an empty vocabulary, a temperature below 0 or not finite, or a share outside 0..1.
 * The most likely token always remains, whatever top_k, top_p and min_p are. */
enum pith_status pith_sampler_init(struct pith_sampler *s, struct pith_backend *be, size_t vocab,
                                   const struct pith_sampling *how, struct pith_error *err);
/* Bytes that it takes. */
uint64_t pith_sampler_bytes(size_t vocab);
/* PITH_ARG as there. */
enum pith_status pith_sampling_check(const struct pith_sampling *how, struct pith_error *err);
/* Frees what s owns and zeroes it. */
void pith_sampler_free(struct pith_sampler *s);
/* The chosen id for logits[vocab]; allocates nothing. NaN logits are never chosen: -1 when there
 * is nothing else. Infinite ones are: +inf beats all, equal ones share. The same for any threads
 * and instruction set. Between calls s->how and s->rng may be exchanged: one sampler then draws for
 * many answers. */
int32_t pith_sampler_next(struct pith_sampler *s, const float *logits);

#endif
