/* quant/round/trellis_rows.h: YAQA's pairs of outputs (quant/round/kron.h) where codes are those of
 * a trellis. Of W = s T V T f / 128 an error E of V costs tr(H_O' E H' E^T) with H_O' = T s H_O s T
 * / 128, as V meets it. With H_O' = S S^T, S upper triangular, and tiles of sixteen rows, tile T is
 * corrected for the columns before it, and for the tiles before it by
 *
 *     sum over T' < T of (S[T',T] S[T,T]^-1)^T (what T' missed in these columns by)
 *
 * which is kron.h's sum with tiles in the place of rows. */
#ifndef PITH_QUANT_ROUND_TRELLIS_ROWS_H
#define PITH_QUANT_ROUND_TRELLIS_ROWS_H

#include "num/trellis.h"
#include "quant/round/kron.h"

struct pith_trellis_rows {
    uint32_t rows;  /* 0: tiles need no correction for each other */
    uint32_t block; /* rows of different blocks do not either; a multiple of PITH_TRELLIS_BLOCK */
    float *s;       /* blocks [n][n], where pith_outputs_at() says: S, its tiles of columns divided
                       by the one on the diagonal */
};

/* The least block for a Hessian of outputs in blocks of `outputs`; 0: there is none. */
static inline uint32_t pith_trellis_rows_block(uint32_t outputs)
{
    const uint32_t least = PITH_TRELLIS_BLOCK;
    return outputs == 0 ? 0 : least % outputs == 0 ? least : outputs % least == 0 ? outputs : 0;
}

/* What is felt, in blocks of `outputs`, and the scale of each row. */
struct pith_trellis_felt {
    struct pith_outputs_felt of;
    uint32_t outputs;
    const float *scales;
};
/* Fills t->s, the caller's memory: H_O', a mean diagonal of 1 and then `damp` more on it, ten times
 * as much each time that does not do. All 0: nothing was felt, and tiles ask nothing.
 * PITH_NUMERIC: a number is not finite, or nothing did. */
enum pith_status pith_trellis_rows_make(struct pith_trellis_rows *t, struct pith_backend *be,
                                        const struct pith_trellis_felt *felt, double damp,
                                        struct pith_error *err);

/* The correction of the tile of rows [row, ...) in sixteen columns, correction[column][row of the
 * tile], from missed[16][ld], the errors of each row before it there. */
void pith_trellis_rows_correct(const struct pith_trellis_rows *t, const float *missed, size_t ld,
                               uint32_t row,
                               float correction[PITH_TRELLIS_TILE][PITH_TRELLIS_TILE]);

#endif
