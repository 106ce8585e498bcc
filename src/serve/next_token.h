/* serve/next_token.h: an answer's next token from logits: penalties, bias and constraints, then the
 * sampler; log-probabilities of the model's own distribution. */
#ifndef PITH_SERVE_NEXT_TOKEN_H
#define PITH_SERVE_NEXT_TOKEN_H

#include "model/sampler.h"
#include "serve/counts.h"

#include <pith/engine.h>

enum { PITH_TOPS = 20 };

/* One for all answers. */
struct pith_choose {
    struct pith_sampler sampler;
    struct pith_backend *backend;
    size_t vocab;
    float *raw; /* [vocab]: logits before they are changed */
};
enum pith_status pith_choose_init(struct pith_choose *c, struct pith_backend *be, size_t vocab,
                                  struct pith_error *err);
void pith_choose_free(struct pith_choose *c);
uint64_t pith_choose_bytes(size_t vocab);

/* What an answer wants. */
struct pith_wish {
    const struct pith_request *request;
    const struct pith_counts *counts;
    struct pith_rng *rng;
    const uint64_t *allowed; /* bits of the vocabulary, or NULL: all */
    const int32_t *banned;   /* [bans]: ends that would come too early */
    size_t bans;
    int tops; /* -1: no log-probability is wanted */
};
struct pith_chosen {
    int32_t id; /* -1: there is nothing to choose */
    float logprob;
    struct pith_alternative top[PITH_TOPS];
    size_t tops;
};
/* logits[vocab] are changed. The same for any threads and instruction set. */
void pith_choose_next(struct pith_choose *c, const struct pith_wish *how, float *logits,
                      struct pith_chosen *out);
/* The log-probability of a token that is there already, and alternatives. */
void pith_choose_score(struct pith_choose *c, const float *logits, int32_t id, int tops,
                       struct pith_chosen *out);

#endif
