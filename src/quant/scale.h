/* quant/scale.h: stage 3, the grid: where the representable values of one group of weights lie.
 *
 * Integer grids, b bits, stored codes u in 0..2^b-1:
 *   symmetric   scale = 2 max|w| / (2^b - 1), zero = 2^(b-1): GPTQ's and compressed-tensors' rule
 *   asymmetric  lo = min(w, 0), hi = max(w, 0), scale = (hi - lo) / (2^b - 1),
 *               zero = round(-lo / scale)
 *   mse         the range is shrunk by p = 1 - i/100, i = 0..79, and the p with the least sum of
 *               |w - q|^2.4 is taken (GPTQ's search)
 *   weights     where the rule says what errors count, whatever the grid says of mse: of ranges,
 *               signs of the scale (symmetric) and zero points (asymmetric) those with the least
 *               weighted sum of (w - q)^2
 * Floats, codebooks, microscaling and NVFP4: the largest magnitude of the group becomes the largest
 * value of the format; with mse the scale with the least squared error (weighted, of floats) about
 * it is taken. The rules are those of each file in quant/grid/.
 *
 * The scale is rounded to the dtype that will be stored *before* codes are chosen, so what is
 * judged is what is stored. A group of zeros gets scale 1. A scale that would underflow to 0 in
 * that dtype becomes its smallest normal number. One that overflows is not clamped, which would cut
 * off the weights behind the user's back: it comes out infinite, and the caller reports
 * PITH_NUMERIC. */
#ifndef PITH_QUANT_SCALE_H
#define PITH_QUANT_SCALE_H

#include "backend/backend.h"
#include "kern/ops.h"
#include "num/gguf/kquant.h"
#include "num/grid.h"
#include "num/qmat.h"

/* How scales are found. kern: the CPU's kernels, which give the same bits; NULL: the scalar ones.
 */
struct pith_grid_rule {
    const struct pith_kern *kern;
    const struct pith_grid *grid;
    enum pith_dtype scale_dtype;
    float global; /* as in struct pith_qmat */
    /* What a squared error in each weight of a line counts, side by side, not negative, for integer
     * grids, which are then searched, and for floats with mse; NULL: all alike. */
    const float *weight;
};

/* n weights to be put on a grid. */
struct pith_grid_line {
    const struct pith_kern *kern; /* as in struct pith_grid_rule */
    size_t n;
    const float *w;
    const float *scale, *zero; /* of weight i: scale[i * step], zero[i * step] */
    const float *offset;       /* likewise, added to the value; NULL: none */
    size_t step;               /* 0: one scale for all; 1: each weight its own */
    size_t run; /* with step 1: weights that share each scale instead, so scale[i / run]; 0 is 1 */
    const float *levels; /* for rows with separate levels: of weight i, */
    size_t level_step;   /* levels[i * level_step] on; 0: one row's for all */
    uint8_t *codes;      /* [n]; NULL when not wanted */
    /* [n] what the codes stand for, to the bit as pith_qmat_decode() has it; NULL when not wanted;
     * may be w */
    float *values;
};

/* Weights of a line that share a scale; at least 1, at most n (of a line that is not empty). */
static inline size_t pith_line_group(const struct pith_grid_line *line)
{
    const size_t run = line->step ? line->run ? line->run : 1 : line->n;
    return run < line->n ? run : line->n;
}

/* One way to place a grid; kinds of formats differ. Row of the table in quant/tables.c. */
/* n weights, `stride` elements between neighbours. */
struct pith_weights {
    const float *w;
    size_t n, stride;
};
/* The scale for weights whose largest magnitude is `most`, NaN when one of them is not finite. */
typedef float pith_line_scale_fn(const struct pith_grid_rule *rule, const struct pith_weights *x,
                                 float most);

struct pith_gridder {
    const char *name;
    const char *summary;
    unsigned needs; /* enum pith_needs, for what pith_round_fit() weighs */
    /* Whether it can fit that grid of weights. Of the rows that can, the first does. */
    bool (*takes)(const struct pith_grid *grid);
    /* Only rounders put weights on it, a matrix as a whole: what follows is NULL, fitting scales is
     * PITH_UNSUPPORTED. */
    bool whole;
    /* What pith_grid_fit() calls, one of them; NULL where fit_block is not. scale_for: zero points
     * have no part. */
    pith_line_scale_fn *scale_for;
    void (*fit)(const struct pith_grid_rule *rule, const struct pith_weights *x, float *scale,
                float *zero);
    /* NULL, or: groups are fitted together, those of a block of GGUF's, for least error: w, and
     * what an error in each counts (not negative; NULL: all alike), side by side. Scales that are
     * not finite say that the weights are not, or too large. */
    void (*fit_block)(const struct pith_grid_rule *rule, const float *w, const float *weight,
                      struct pith_kblock *out);
    /* Code of one weight, ties to even, clamped to the grid. NaN takes the lowest code. f is the
     * format that the matrix is stored in: of a block format, its elements'. */
    uint8_t (*encode)(const struct pith_format *f, float w, float scale, float zero);
    /* encode() and decoding for many weights at once. */
    void (*quantize)(const struct pith_format *f, const struct pith_grid_line *line);
};
const struct pith_gridder *const *pith_gridders(size_t *count);
/* Scale and zero point for some weights. */
void pith_grid_fit(const struct pith_gridder *gridder, const struct pith_grid_rule *rule,
                   const struct pith_weights *x, float *scale, float *zero);
/* The gridder for a grid; NULL when this version has none for it, or when it is one that a matrix
 * of weights cannot have (per token, static). */
const struct pith_gridder *pith_gridder_for(const struct pith_grid *grid);

/* What of a matrix has to be seen before a row of it can be rounded. */
enum pith_fit_scope {
    PITH_FIT_ROWS,  /* the rows that share its scales */
    PITH_FIT_RANGE, /* the least and the largest weight: they make q->global, or the one scale */
    PITH_FIT_ALL,   /* all of it: its scales are fitted, then quantized again */
    PITH_FIT_MATRIX /* all of it, as floats: only pith_fit_scales() will do */
};
enum pith_fit_scope pith_fit_scope(const struct pith_grid *grid);

/* Fits every scale (and zero) of q from w[rows][cols] (q->g_idx NULL), on all threads of b (NULL:
 * one, by the scalar kernels). PITH_UNSUPPORTED without a gridder; PITH_NUMERIC names the row and
 * group whose weights are not finite or too large for the scales' dtype. */
enum pith_status pith_fit_scales(struct pith_backend *b, const struct pith_grid *grid,
                                 const float *w, struct pith_qmat *q, struct pith_error *err);
/* The same where a squared error in a column counts weight[cols] (NULL: all alike): in integer
 * grids, floats with mse and blocks of GGUF's, but by tensor or block all count alike. */
enum pith_status pith_fit_scales_for(struct pith_backend *b, const struct pith_grid *grid,
                                     const float *w, const float *weight, struct pith_qmat *q,
                                     struct pith_error *err);
/* The same for one row w[cols] of a matrix with scales by row or group, by the calling thread, and
 * without looking at what came out. */
void pith_fit_row(const struct pith_grid_rule *rule, const float *w, struct pith_qmat *q,
                  uint32_t row);
/* The same for all rows w[][cols] that share their scales with `row`, the first of them: those of a
 * block; `tile` is scratch of [pith_fit_tile(q)]. */
void pith_fit_band(const struct pith_grid_rule *rule, const float *w, struct pith_qmat *q,
                   uint32_t row, float *tile);
static inline size_t pith_fit_tile(const struct pith_qmat *q)
{
    return (size_t)(q->rows < q->row_group ? q->rows : q->row_group) *
           (q->cols < q->group ? q->cols : q->group);
}
/* The one scale of a matrix with weights from lo to hi, q by tensor. */
void pith_fit_range(const struct pith_grid_rule *rule, float lo, float hi, struct pith_qmat *q);

/* What the weights of a matrix count, where a row's levels are chosen. */
struct pith_level_rule {
    const float *weight;                /* [cols] of each input, not negative; NULL: all alike */
    const struct pith_sparse *off_grid; /* weights off the grid, which do not count; or NULL */
};
/* Chooses every row's levels (quant/kmeans.h), which F16 holds, from w[rows][cols]; scales become
 * 1. For q of a format of own levels. b and errors as in pith_fit_scales(). */
enum pith_status pith_fit_levels(struct pith_backend *b, const struct pith_level_rule *rule,
                                 const float *w, struct pith_qmat *q, struct pith_error *err);

/* Its scratch bytes; 0 for other grids. */
uint64_t pith_fit_levels_scratch(const struct pith_grid *grid, uint32_t cols, unsigned threads);

/* PITH_NUMERIC names the first of `rows` rows of q from `first` on, and the group, whose scale is
 * not finite. */
enum pith_status pith_check_row_scales(const struct pith_qmat *q, uint32_t first, uint32_t rows,
                                       struct pith_error *err);
/* The same for all of q. */
enum pith_status pith_check_scales(const struct pith_qmat *q, struct pith_error *err);

/* One row w[cols] put on q's grid by q's scales of that row (q->g_idx NULL). k as in struct
 * pith_grid_rule, codes and values as in struct pith_grid_line. */
void pith_quantize_row(const struct pith_kern *k, const struct pith_qmat *q, uint32_t row,
                       const float *w, uint8_t *codes, float *values);

/* w[rows][cols] replaced by what the grid makes of it, alone or within a scale of the tensor that
 * it shares with others (of nvfp4; 1 for other grids). b and errors as in pith_fit_scales(). */
enum pith_status pith_pseudo_quantize(struct pith_backend *b, const struct pith_grid *grid,
                                      enum pith_dtype scale_dtype, uint32_t rows, uint32_t cols,
                                      float *w, struct pith_error *err);
enum pith_status pith_pseudo_quantize_within(struct pith_backend *b, const struct pith_grid *grid,
                                             enum pith_dtype scale_dtype, float global,
                                             uint32_t rows, uint32_t cols, float *w,
                                             struct pith_error *err);
/* Scratch bytes of either, and of fitting scales to a matrix of such codes. */
uint64_t pith_pseudo_quantize_bytes(const struct pith_backend *b, const struct pith_grid *grid,
                                    enum pith_dtype scale_dtype, uint32_t rows, uint32_t cols);

#endif
