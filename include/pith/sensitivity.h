/* pith/sensitivity.h: what each linear of a model would cost on each of several grids. */
#ifndef PITH_SENSITIVITY_H
#define PITH_SENSITIVITY_H

#include <pith/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to find out. Start from pith_sensitivity_defaults(). */
struct pith_sensitivity_options {
    size_t size;              /* of this struct as the program knows it */
    const char *model;        /* folder of the checkpoint; never written to */
    const char *work;         /* a folder to make for what is in between; it is removed again */
    const char *recipe;       /* whose rounding is looked at; NULL: GPTQ's. It may not transform */
    const char *round;        /* NULL: the recipe's */
    const char *container;    /* whose grids and scales; NULL: compressed-tensors */
    struct pith_list tries;   /* grids; none: those of the container (docs/planning.md) */
    struct pith_list calib;   /* calibration files; none: the text that ships */
    struct pith_list targets; /* engines: grids that one of them does not load are left out */
    const char *crlf;         /* as for pith_quantize() */
    const char *experts;
    size_t calib_tokens; /* default 16384 */
    size_t seq_len;      /* default 512, at most the model's context */
    uint64_t seed;
    struct pith_progress progress;
};
PITH_API void pith_sensitivity_defaults_sized(struct pith_sensitivity_options *options,
                                              size_t size);
static inline void pith_sensitivity_defaults(struct pith_sensitivity_options *options)
{
    pith_sensitivity_defaults_sized(options, sizeof *options);
}

/* *report is JSON: {"model", "round", "container", "tokens", "context", "grids": [texts],
 * "rows": [{"part": the linear, "grid", "bits": a weight, "bytes", "kld": nats a token that the
 * model's divergence grows by, "error": ||W - Q|| / ||W||}]}. The divergence is to second order, by
 * the Fisher information (docs/planning.md); those of several linears add up. Statuses as those of
 * pith_quantize(). */
PITH_API enum pith_status pith_sensitivity(struct pith_context *context,
                                           const struct pith_sensitivity_options *options,
                                           char **report, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
