/* calib/stages.h: a block run over the calibration windows once, in stages, so that the linears of
 * a site can be rounded before the next stage computes with them:
 *
 *     stage      reads                      computes            tapped    leaves
 *     QKV        in                         norm                qkv       -
 *     O          in                         q, k, v, attention  o         between: o's input
 *     GATE_UP    in, between                o, norm             gate_up   out: the residual
 *     DOWN       out                        gate, up            down      between: down's input
 *     (the end)  out, between               down                -         out: the block's output
 *
 * Every linear is applied once, and each site's statistics have the bits that pith_collect() on the
 * block in its present state would give. */
#ifndef PITH_CALIB_STAGES_H
#define PITH_CALIB_STAGES_H

#include "calib/collect.h"

struct pith_stages {
    struct pith_collector *collector;
    const struct pith_block *block;
    const struct pith_acts *in, *out; /* of one shape; out is scratch until the end */
    /* [windows][length] of the larger of the inputs of o and down. NULL: nothing is kept, every
     * site's statistics are collected from the block's beginning. */
    float *between;
    int done; /* the last stage that has run; -1 before the first */
};
/* Floats a token that `between` needs. */
uint32_t pith_stages_width(const struct pith_shape *s);

/* Gathers `needs` of one site, as pith_collect() would. Sites come in order, and their linears are
 * no longer changed after the call for the next; sites may be left out. Free stats with
 * pith_stats_free(), also after a failure. */
enum pith_status pith_stages_collect(struct pith_stages *s, enum pith_site site, unsigned needs,
                                     struct pith_stats *stats, struct pith_error *err);
/* Runs what is left: out holds block(in). */
enum pith_status pith_stages_finish(struct pith_stages *s, struct pith_error *err);

#endif
