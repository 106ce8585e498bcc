/* quant/round/learned_matrix.h: one matrix while its rounding is learned; inside quant/round/ only.
 *
 * Integer grids of b bits, as AutoRound has them (Cheng et al. 2023, arXiv 2309.05516): a group's
 * range lo <= 0 <= hi is shrunk by alpha and beta in 0..1, each weight has an offset v in
 * -0.5..0.5, and
 *     symmetric   m = whichever of beta hi and -alpha lo is larger; scale = m / 2^(b-1), negated
 *                 when m is beta hi, so that m itself can be represented; zero = 2^(b-1)
 *     asymmetric  scale = (beta hi - alpha lo) / (2^b - 1), zero = round(-alpha lo / scale)
 *     code = round(w / scale + v) + zero, cut off to 0 .. 2^b - 1; value = (code - zero) scale
 *
 * Float formats (fp8, fp6, fp4, with any scales) keep the scales that their gridder finds; v is in
 * units of the distance of neighbouring values at w / scale.
 *
 * For gradients rounding counts as the identity, cutting off does not. */
#ifndef PITH_QUANT_ROUND_LEARNED_MATRIX_H
#define PITH_QUANT_ROUND_LEARNED_MATRIX_H

#include "quant/round.h"

struct pith_learned_matrix {
    struct pith_backend *backend;
    const struct pith_round_member *m;
    struct pith_qmat now;  /* scales and zeros of the present parameters; codes on request */
    struct pith_qmat best; /* the best so far */
    float *v;              /* [rows][cols] */
    uint8_t *codes;        /* [threads][cols] scratch */
    /* Like scales: the range and its factors; NULL for float formats. */
    float *lo, *hi, *alpha, *beta;
    double *by_scale, *by_zero; /* [rows][groups]: sums that make the gradients of scale and zero */
    void *memory;               /* behind all of these */
};

/* Checks the member's weights and grid and takes memory; everything is as for rounding to nearest.
 * Errors as for struct pith_rounder's run; on failure m owns nothing. */
enum pith_status pith_learned_begin(struct pith_learned_matrix *m, struct pith_backend *b,
                                    const struct pith_round_member *member, struct pith_error *err);
void pith_learned_free(struct pith_learned_matrix *m);
/* Bytes that pith_learned_begin() takes for a member of which grid, rows and cols are looked at. */
uint64_t pith_learned_bytes(const struct pith_round_member *member, unsigned threads);

/* Rounds to nearest, by the grid's own gridder, into `now`. */
enum pith_status pith_learned_nearest(struct pith_learned_matrix *m, struct pith_error *err);
/* Forgets everything learned, after pith_learned_nearest(): where that searched for scales, ranges
 * begin there. */
void pith_learned_reset(struct pith_learned_matrix *m);
/* The scales of the parameters, the values that they make into m->m->values, and zeros into its
 * grad. */
void pith_learned_values(struct pith_learned_matrix *m);
/* One step against the sign of the gradient. */
void pith_learned_step(struct pith_learned_matrix *m, float rate);
/* Copies the matrix of the parameters, or `now` if it is that already, to `best`. */
void pith_learned_keep(struct pith_learned_matrix *m);
void pith_learned_keep_codes(struct pith_learned_matrix *m);
/* Decodes a q of this layout into m->m->values. */
void pith_learned_decode(const struct pith_learned_matrix *m, const struct pith_qmat *q);

#endif
