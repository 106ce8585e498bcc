/* pith/sensitivity.h: what each part of a model would cost on each of several grids: linears,
 * inputs of linears, keys and values of each layer. */
#ifndef PITH_SENSITIVITY_H
#define PITH_SENSITIVITY_H

#include <pith/quantize.h>
#include <pith/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to find out. Start from pith_sensitivity_defaults(). */
struct pith_sensitivity_options {
    size_t size;              /* of this struct as the program knows it */
    const char *model;        /* folder of the checkpoint; never written to */
    const char *work;         /* "<work>.partial" is made for what is in between, and removed */
    const char *recipe;       /* whose rounding is looked at; NULL: GPTQ's. It may not rotate */
    const char *round;        /* NULL: the recipe's */
    const char *container;    /* whose grids and scales; NULL: compressed-tensors */
    struct pith_list tries;   /* grids; none: those of the container (docs/planning.md) */
    struct pith_list calib;   /* calibration files; none: the text that ships */
    struct pith_list targets; /* engines: grids that one of them does not load are omitted */
    const char *crlf;         /* as for pith_quantize() */
    const char *experts;
    struct pith_list acts;   /* grids of inputs; none: several; "none": not looked at */
    struct pith_list caches; /* names as of `kv` of pith_eval(), without "recent" and "sink"; none:
                                those that auto chooses from; "none": not looked at */
    size_t calib_tokens;     /* default 16384 */
    size_t seq_len;          /* default 512, at most the model's context */
    uint64_t seed;
    bool resume; /* continue an interrupted call for the same from "<work>.partial" */
    struct pith_progress progress;
};
PITH_API void pith_sensitivity_defaults_sized(struct pith_sensitivity_options *options,
                                              size_t size);
static inline void pith_sensitivity_defaults(struct pith_sensitivity_options *options)
{
    pith_sensitivity_defaults_sized(options, sizeof *options);
}

/* *report is JSON: {"model", "round", "container", "tokens", "context", "grids", "caches", "acts":
 * [texts of the three], "rows": [{"kind": "weights", "cache" or "acts", "part": the linear; or of a
 * layer "k", "v", or of latents "kv"; or a site, such as "qkv", whose linears read one input;
 * "grid", "bits": a number, "bytes": of the matrix, of a position, of a token; "kld": nats a token
 * that the model's divergence grows by; of weights also "error": ||W - Q|| / ||W||}],
 * "calibration": {"sources": names, "sha256": of the token ids, "offsets": [from, to) of the
 * sources' tokens, each run of them}}. The divergence is to second order, by the Fisher information
 * (docs/mixed.md); those of several parts add up. Statuses as those of pith_quantize(). */
PITH_API enum pith_status pith_sensitivity(struct pith_context *context,
                                           const struct pith_sensitivity_options *options,
                                           char **report, struct pith_error *err);
/* The same as a report, for pith_report_free(); NULL where another rank has it. Its page is that of
 * pith_sensitivity_html(). */
PITH_API enum pith_status pith_sensitivity_report(struct pith_context *context,
                                                  const struct pith_sensitivity_options *options,
                                                  struct pith_report **report,
                                                  struct pith_error *err);

/* A page with heat maps made from such a report (pith_text_free() it). PITH_FORMAT: it is none. */
PITH_API enum pith_status pith_sensitivity_html(const char *report, char **html,
                                                struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
