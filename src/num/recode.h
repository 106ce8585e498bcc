/* num/recode.h: the same codes on another grid: integers among wider ones, scales repeated for
 * smaller groups, zero points as minimums. Nothing is rounded but scales and minimums. */
#ifndef PITH_NUM_RECODE_H
#define PITH_NUM_RECODE_H

#include "num/qmat.h"

/* Whether every matrix of `cols` columns on `from` can be expressed on `to` with its codes:
 *   - the formats are the same, or integers, the new ones at least as wide; zero points become zero
 *     points, minimums (q4_1, q5_1), or go into codes of one bit more; such as are any numbers
 *     (hqq) become their like or minimums
 *   - what shares a scale on `to` shares one on `from`
 *   - scales in two levels, block formats and levels of rows' own go to their like alone
 * Grids that are equal always can. Permuted groups are not looked at. */
bool pith_recode_fits(const struct pith_grid *from, const struct pith_grid *to, uint32_t cols);

/* Makes q, which the caller frees, from the codes of `from` on a grid for which
 * pith_recode_fits(), with scales rounded to scale_dtype (or the format's own) and minimums to a
 * half: m = -scale * zero. A source with minimums can be expressed on a grid with zero points too,
 * the nearest whole ones, which may be far off. PITH_NUMERIC when a scale is too large for its
 * type, PITH_UNSUPPORTED for permuted groups. On failure *q owns nothing. */
enum pith_status pith_recode(const struct pith_qmat *from, const struct pith_grid *to,
                             enum pith_dtype scale_dtype, struct pith_qmat *q,
                             struct pith_error *err);

#endif
