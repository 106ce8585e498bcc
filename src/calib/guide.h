/* calib/guide.h: how much a model's loss feels each token at what a linear gives, for GuidedQuant
 * (Kim et al. 2025): of each group of a linear's rows the mean over its rows of the squared
 * derivative of the loss with respect to them. Rounded by Hessians that count tokens so, the
 * errors of a linear's outputs weigh what they cost the model, not what they are.
 *
 * It lies in a file of floats, layer by layer: for each linear that all tokens reach
 * [groups][tokens], then, of a mixture, which experts a token took, [tokens][taken], and for each
 * linear of an expert [groups][tokens][taken]; then, on request, what is felt of
 * pairs of each linear's outputs (struct pith_stats). Memory stays that of the pages in use. */
#ifndef PITH_CALIB_GUIDE_H
#define PITH_CALIB_GUIDE_H

#include "base/hash.h"
#include "base/ranks/ranks.h"
#include "model/grad/block_grad.h"
#include "quant/rotation.h"
#include "quant/stats.h"

enum { PITH_GUIDE_GROUPS = 64 }; /* of rows, at most */

struct pith_guide {
    struct pith_backend *backend;
    const struct pith_model *model; /* as it was: the loss is the original's */
    uint32_t groups;                /* of a linear's rows; the last may have a row more */
    uint32_t block; /* PITH_NEED_OUTPUTS: outputs that are felt together; 0: none are */
    size_t tokens;
    /* The rotation by which a linear's outputs are stored, so that it is these of which all is
     * felt; dim 0: as they are. NULL: all are. */
    const struct pith_rotation *(*output_rotation)(const void *ctx, uint32_t layer,
                                                   uint32_t linear);
    const void *rotation_ctx;
    /* With several ranks, the stored pairs (calib/pairs.h), the caller's; NULL: pairs are added as
     * they come. */
    struct pith_pairs *pairs;
    float *scratch; /* [pith_guide_scratch()], where it is written; that may be 0 bytes */
    float *data; /* [pith_guide_floats()], mapped */
};

/* Floats of one layer, and of the layers before it (`layer` the number of layers: of all). */
uint64_t pith_guide_layer_floats(const struct pith_guide *g, uint32_t layer);
uint64_t pith_guide_floats(const struct pith_guide *g, uint32_t layer);
static inline float *pith_guide_layer(const struct pith_guide *g, uint32_t layer)
{
    return g->data + pith_guide_floats(g, layer);
}
/* What PITH_NEED_GUIDED goes by: a layer of one. */
struct pith_guided {
    const struct pith_guide *guide;
    uint32_t layer;
};

/* Of what is there for a layer; false when memory is out. */
bool pith_guide_hash(const struct pith_guide *g, uint32_t layer, char hex[PITH_SHA256_HEX]);

/* Bytes of scratch for windows of so many tokens. */
uint64_t pith_guide_scratch(const struct pith_guide *g, size_t length);
/* PITH_NEED_OUTPUTS of a linear. */
float *pith_guide_outputs(const struct pith_guide *g, uint32_t layer, uint32_t linear);

/* A window of tokens on its way back through a layer. */
struct pith_guide_window {
    struct pith_guide *guide;
    uint32_t layer;
    size_t token; /* the first */
    enum pith_status status; /* of pith_guide_gave() so far; begins as PITH_OK */
    struct pith_error *err;
};
/* A layer begins: what attention over latents takes into itself is felt nowhere. */
void pith_guide_begin(struct pith_guide *g, uint32_t layer);
/* Before a window goes back: who took which expert. */
void pith_guide_routes(const struct pith_guide_window *w, const struct pith_tape *t,
                       const struct pith_block *b);
/* What each rank's windows, of `windows` of the text, felt in a layer becomes everyone's. */
enum pith_status pith_guide_share(struct pith_guide *g, uint32_t layer, struct pith_ranks *ranks,
                                  size_t windows, struct pith_error *err);
/* What a linear gave: ctx is the window, whose status is PITH_NOMEM where a rotated copy found no
 * room. */
void pith_guide_gave(void *ctx, const struct pith_tape_gave *gave);

/* A group of rows of a linear, for reading: tokens that its linear never saw, and all where nothing
 * was felt, count as much as the mean. */
struct pith_guide_view {
    const float *value;
    const float *taken; /* [tokens][each]: who, of an expert's; NULL: all tokens in a row */
    uint32_t each;      /* of a token */
    uint32_t expert;
    double mean; /* over the tokens that have one; 0: none was felt */
};
struct pith_guide_view pith_guide_view(const struct pith_guide *g, uint32_t layer, uint32_t linear,
                                       uint32_t group);
/* The token's share of that, whose mean is 1. */
float pith_guide_weight(const struct pith_guide_view *v, size_t token);

#endif
