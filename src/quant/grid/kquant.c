/* quant/grid/kquant.c: GGUF's types: scales by search, a block at a time, and nearest codes. */
#include "quant/grid/kfit.h"
#include "quant/tables.h"

#include <math.h>

static bool takes(const struct pith_grid *grid)
{
    const struct pith_format *f = grid->format;
    return f->kind == PITH_KIND_GGUF && !pith_kquant_find(f->name)->copied;
}

/* With codes of 2 and 3 bits the errors that GPTQ feeds on move weights far enough to be cut off,
 * so that the large ones need room: errors count by the weight's magnitude too, as in llama.cpp.
 * What that is worth: docs/measuring.md. */
static void favour_large(const float *w, const float *weight, size_t n, float *out)
{
    float squares = 0.0f;
    for (size_t i = 0; i < n; i++) squares += w[i] * w[i];
    for (size_t i = 0; i < n; i++) out[i] = weight[i] * sqrtf(squares / (float)n + w[i] * w[i]);
}

static void fit_block(const struct pith_grid_rule *rule, const float *w, const float *weight,
                      struct pith_kblock *out)
{
    const struct pith_format *f = rule->grid->format;
    const struct pith_kquant *t = pith_kquant_find(f->name);
    float h[PITH_KBLOCK];
    if (weight && f->bits <= 3) {
        favour_large(w, weight, t->elements, h);
        weight = h;
    }
    pith_kfit(t, rule->kern, w, weight, out);
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    uint8_t code = 0;
    const struct pith_grid_line line = {
        .n = 1, .w = &w, .scale = &scale, .zero = &zero, .codes = &code};
    pith_kfit_round(f, &line);
    return code;
}

const struct pith_gridder pith_gridder_kquant = {
    .name = "kquant",
    .summary = "GGUF's blocks: scales in one or two levels, some with minimums, by least error",
    .takes = takes,
    .fit_block = fit_block,
    .encode = encode,
    .quantize = pith_kfit_round,
};
