/* calib/routed.h: what an expert's linears read. Which tokens an expert is calibrated on:
 *
 *     routed   those that take it, and no others
 *     all      every token, whichever expert it takes
 *     pooled   those that take it, and tokens of the whole text at equal distances,
 * which together weigh as much as PITH_POOLED_MASS of the expert's tokens: an expert with much
 * evidence is calibrated on it, one with little mostly on what the layer reads overall
 *
 * The router's choices are taken once a layer, from the block with all linears before the experts
 * in their final form. Rows are gathered from the stream, so that the memory is one expert's. */
#ifndef PITH_CALIB_ROUTED_H
#define PITH_CALIB_ROUTED_H

#include "calib/collect.h"
#include "calib/gather.h"

enum pith_experts_rule { PITH_EXPERTS_POOLED, PITH_EXPERTS_ROUTED, PITH_EXPERTS_ALL };
/* By name; NULL is the default, "pooled". PITH_ARG for another name. */
enum pith_status pith_experts_rule_find(const char *name, enum pith_experts_rule *out,
                                        struct pith_error *err);
const char *pith_experts_rule_name(enum pith_experts_rule rule);
/* How many of the text's tokens every expert sees, whether they take it or not. */
size_t pith_experts_common(enum pith_experts_rule rule, size_t tokens);

enum { PITH_POOLED_MASS = 256, PITH_POOLED_TOKENS = 4096 };
/* Fewer tokens than these are little to calibrate an expert on: it is named. */
enum { PITH_EXPERTS_FEW = 256 };

/* With several ranks, rows of the stream at a rank: those that stand for the whole text, then, for
 * each of its experts, those of the tokens that take it, in their order; where experts see all
 * tokens, those of all. With a twin each row is followed by the twin's. */
struct pith_sent {
    float *rows;  /* borrowed from the relay; NULL: there is one rank */
    size_t *from; /* [experts], owned: where an expert's begin */
    size_t pooled;
};

/* The choices of a layer's tokens. */
struct pith_routed {
    enum pith_experts_rule rule;
    uint32_t *chosen; /* [tokens][taken], owned; NULL: not taken yet */
    float *share;     /* [tokens][taken], owned, where it multiplies an expert's input; else NULL */
    size_t *count;    /* [experts], owned: tokens that take each */
    uint32_t taken;
    size_t tokens;
    struct pith_sent sent;
};
void pith_routed_free(struct pith_routed *r);
/* Token number i of the `pooled` that stand for the text at large. */
static inline size_t pith_pooled_token(const struct pith_routed *r, size_t i, size_t pooled)
{
    return i * r->tokens / pooled;
}

/* Where rows come from: the stream, from which nodes [from, to) of the program make the mixture's
 * input row by row. */
struct pith_routed_place {
    struct pith_collector *collector;
    const struct pith_block *block;
    const struct pith_acts *acts;
    uint32_t from, to;
    /* For PITH_NEED_DRIFT: the same in the model as it was, whose experts see the tokens that this
     * one's take; NULL: not needed. */
    const struct pith_routed_place *twin;
};
/* Gathers what plan (of one site, an expert's) says. With no token at all the statistics are 0, and
 * so is stats->tokens. With several ranks all make the call, and stats are made at the expert's
 * owner (calib/relay.h), which must hold its matrices. */
enum pith_status pith_routed_collect(struct pith_routed *r, const struct pith_routed_place *place,
                                     const struct pith_gather_plan *plan, struct pith_stats *stats,
                                     struct pith_error *err);

#endif
