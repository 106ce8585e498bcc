/* pith/advise.h: which recipe to take for an engine on a device: what the plan leaves is tried on a
 * sample and measured. */
#ifndef PITH_ADVISE_H
#define PITH_ADVISE_H

#include <pith/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Start from pith_advise_defaults(). */
struct pith_advise_options {
    size_t size;       /* of this struct as the program knows it */
    const char *model; /* folder of the checkpoint; never written to */
    /* "vllm:gpu=l4", "sglang:gpu=h100-sxm:tp=2"; "pith" and "llama.cpp" without a GPU mean the
     * machine at hand. */
    const char *target;
    const char *work;       /* "<work>.partial" is made for what is tried, and removed */
    struct pith_list texts; /* what divergence is measured on; none: the text that ships */
    struct pith_list calib; /* calibration files; none: the text that ships (where it is measured
                             * on, too, its first half; the second is measured) */
    const char *crlf;       /* as for pith_quantize() */
    /* A rounder of pith_rounders() that is GPTQ to a linear by itself ("qep", "qep:kron"), by which
     * recipes that round so are rounded instead; NULL: by their own. */
    const char *round;
    size_t context, users; /* of the deployment; 0: 4096 or the model's, 1 */
    size_t candidates;     /* recipes that are tried at most, the plan's first; 0: all */
    /* Measured of each text, and calibrated on. 0: 2^41 divided by the numbers that a token is
     * multiplied with, 2048 to 32768, are calibrated on, and half as many, at most 8192, measured,
     * rounded down to whole 512. */
    size_t max_tokens, calib_tokens;
    uint64_t seed;
    bool resume; /* continue an interrupted call for the same from "<work>.partial" */
    struct pith_progress progress;
};
PITH_API void pith_advise_defaults_sized(struct pith_advise_options *options, size_t size);
static inline void pith_advise_defaults(struct pith_advise_options *options)
{
    pith_advise_defaults_sized(options, sizeof *options);
}

/* *report is JSON: {"model", "target", "hardware", "engine", "tokens": measured, "texts": names,
 * "calibration": {"sources": names, "tokens": at most}, "remarks": lines, of a text that is in
 * both, "rows": those of pith_plan_model() that were tried, the best first, with "quality" as
 * measured here ("kld", "kld_ci95", "harm", "expected": what the plan thought), "near": whether its
 * worth is the first's within the intervals, and of those rounded otherwise "round": by what;
 * "ruled_out": as there, with what failed or was not tried; "why": of the first row}. Free it with
 * pith_text_free().
 *
 * PITH_ARG          a target without a GPU that needs one; "<work>.partial" is there; a rounder
 *                   that is none of those
 * PITH_UNSUPPORTED  nothing of it fits or is loaded
 * Statuses of pith_plan_model(), pith_quantize() and pith_compare(); a recipe that the model
 * refuses is ruled out. */
PITH_API enum pith_status pith_advise(struct pith_context *context,
                                      const struct pith_advise_options *options, char **report,
                                      struct pith_error *err);
/* The same as a report, for pith_report_free(). */
PITH_API enum pith_status pith_advise_report(struct pith_context *context,
                                             const struct pith_advise_options *options,
                                             struct pith_report **report, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
