/* num/kvquant.h: KVQuant's rows of a cache (Hooper et al. 2024): levels that lie where numbers do,
 * in 2 to 4 bits, and outliers apart.
 *
 *     x' = level[code] * range + middle,  code: the level nearest to (x - middle) / range
 *
 * Of keys, which are stored before rope, each channel has a middle and a range from calibration,
 * and what lies beyond is an outlier; of values each row has one, from its numbers without its
 * outliers, those beyond a multiple of its mean magnitude. An outlier is stored as a half. The
 * caller sets how many a row may have. Beyond that, of a value those that are nearest to the others
 * stay among them; the range of a key grows by `step` quarters of a power of two, as far as makes
 * the sum of squared errors least: nothing is cut off but where cutting off is best. Beyond halves
 * their largest number is stored. */
#ifndef PITH_NUM_KVQUANT_H
#define PITH_NUM_KVQUANT_H

#include <stdint.h>

/* Widths of codes; what `step` is for a row that cannot be stored: all of it is NaN. */
enum { PITH_KVQUANT_LEAST = 2, PITH_KVQUANT_MOST = 4, PITH_KVQUANT_NAN = 255 };

/* How rows are stored. */
struct pith_kvquant {
    uint32_t bits, cols; /* cols up to 1024 */
    const float *level;  /* [2^bits], ascending, in -2 .. 2 */
    const float *middle; /* [cols] of keys, finite */
    const float *range;  /* [cols] likewise, above 0 */
    float beyond;        /* values: how many times its mean magnitude an outlier exceeds */
};
/* What becomes of a row: code[cols]; of outliers the columns, ascending, and numbers that are
 * halves, `room` of each. */
struct pith_kvquant_row {
    uint8_t *code;
    uint16_t *column;
    float *outlier;
    uint32_t room, outliers; /* the latter is written */
    uint8_t step;            /* keys; written */
    float middle, range;     /* values, halves; written, NaN for a row that cannot be stored */
};
/* Of a key x[cols] before rope, by q's middle and range; out->step is PITH_KVQUANT_NAN when a
 * number is not finite. */
void pith_kvquant_key(const struct pith_kvquant *q, const float *x, struct pith_kvquant_row *out);
/* Of a value x[cols], which has its own middle and range: NaN when a number is not finite. */
void pith_kvquant_value(const struct pith_kvquant *q, const float *x, struct pith_kvquant_row *out);
/* What the levels of a key are multiplied with; NaN for PITH_KVQUANT_NAN. */
float pith_kvquant_factor(uint8_t step);

#endif
