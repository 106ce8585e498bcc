/* calib/stages.h: a block run over the calibration windows once, in stages, so that the linears of
 * a site can be rounded before the next stage computes with them. The stage of a site ends where
 * its input is tapped; what the rest of the program still needs is stored there, or a little
 * earlier where that is less. For a layer of the Llama family:
 *
 *     stage      reads                      computes            tapped    leaves
 *     qkv        in                         norm                qkv       -
 *     o          in                         q, k, v, attention  o         between: o's input
 *     gate_up    in, between                o, norm             gate_up   out: the stream
 *     down       out                        gate, up            down      between: down's input
 *     (the end)  out, between               down                -         out: the block's output
 *
 * Every linear is applied once, and each site's statistics have the bits that pith_collect() on the
 * block in its present state would give. */
#ifndef PITH_CALIB_STAGES_H
#define PITH_CALIB_STAGES_H

#include "calib/collect.h"
#include "calib/routed.h"

struct pith_stages {
    /* The model as it was, for PITH_NEED_DRIFT: the block with all its linears as they were, on its
     * own activations, with its own `between`; it goes along. NULL: not needed. */
    struct pith_stages *twin;
    float *rows; /* what a window of the twin had at the site that is looked at */
    struct pith_collector *collector;
    const struct pith_block *block;
    const struct pith_acts *in, *out; /* of one shape; out is scratch until the end */
    /* [windows][length][pith_stages_width()]. NULL: nothing is stored, every site's statistics are
     * collected from the block's beginning. */
    float *between;
    uint32_t done;             /* stages that have run */
    uint32_t width;            /* floats a token in `between`, set by the first of them */
    struct pith_guided guided; /* for PITH_NEED_GUIDED */
    struct pith_routed routed; /* of a mixture: how experts are calibrated, who takes which */
};
/* Floats a token that `between` needs, for any layer of the model. */
uint32_t pith_stages_width(const struct pith_plans *plans);

/* Gathers `needs` of one site, as pith_collect() would, with at most that many samples. Sites come
 * in order, and their linears are no longer changed after the call for the next; sites may be
 * omitted. For an expert's sites the tokens are those of s->routed.rule. Free stats with
 * pith_stats_free(), also after a failure. */
enum pith_status pith_stages_collect(struct pith_stages *s, uint32_t site, unsigned needs,
                                     size_t samples, struct pith_stats *stats,
                                     struct pith_error *err);
/* Runs the rest: out holds block(in). */
enum pith_status pith_stages_finish(struct pith_stages *s, struct pith_error *err);
/* Frees what the stages hold, and lets them begin anew. */
void pith_stages_end(struct pith_stages *s);

#endif
