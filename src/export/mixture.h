/* export/mixture.h: llama.cpp's mixtures of tensor types, as the rows of export/mixtures.def. */
#ifndef PITH_EXPORT_MIXTURE_H
#define PITH_EXPORT_MIXTURE_H

#include "model/model.h"
#include "num/grid.h"

struct pith_mixture {
    const char *format; /* what most linears get: "q4_k" */
    char letter;        /* 's', 'm' or 'l' */
    uint32_t file_type; /* llama.h, enum llama_ftype */
};

/* NULL when llama.cpp has none of that name. */
const struct pith_mixture *pith_mixture_find(const struct pith_format *f, char letter);

/* The grid of one linear of a model, by its full name. */
struct pith_grid pith_mixture_grid(const struct pith_mixture *m, const struct pith_model *model,
                                   uint32_t layer, const char *module);

/* For one of GGUF's types whose blocks do not divide rows of `cols` weights: *g becomes the type
 * that llama-quantize takes instead, with format NULL where that has no whole blocks either (the
 * matrix then stays in 16 bits). False, and *g as it was, when blocks are whole or it is another
 * kind of grid. */
bool pith_mixture_fall_back(struct pith_grid *g, uint32_t cols);

/* The type of GGUF that stands for integers of that width, whatever shares a scale; false for other
 * formats. */
bool pith_mixture_implied(const struct pith_grid *from, struct pith_grid *out);

#endif
