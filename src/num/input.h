/* num/input.h: rounding of a linear's inputs, as the engines that load the checkpoint do it. Scalar
 * code that defines what a grid of activations means.
 *
 * Scales come from the rows of one call, or beforehand where the grid is static:
 *   token   one for a row                  g<N>    one for N columns of a row
 *   tensor  one for all rows of the call   blocks  of a block format, of 32 or 16 columns
 *
 * amax is the largest magnitude that shares a scale, lo and hi the range with 0 inside. Formulas
 * are float32, each step rounded, nearest ties to even:
 *   integers, b bits    scale = amax / (2^(b-1) - 1/2), q = clamp(x / scale) rounded
 *     asym              scale = (hi - lo) / (2^b - 1), z = -2^(b-1) - lo / scale clamped and
 *                       rounded, q = clamp(x / scale + z) rounded, x' = (q - z) scale
 *   floats              scale = amax / max, x' = round(clamp(x / scale)) scale
 *   mxfp                scale = 2^(E - floor(log2(max))), E the exponent of amax plus half a unit
 *                       of the format's last place (FP6) or of FP4's (others)
 *   nvfp4               s = e4m3(G amax / 6), 1/8 for 0, scale = s / G, G the inverse of `scale`
 *   GGUF's types        as ggml rounds single blocks (num/gguf/krows.h): those that have one scale
 * with x' = q scale where nothing else stands, and 2^-23 for a scale of 0. With scale_dtype a scale
 * of integers or floats is rounded to that, to nearest, from the smallest to the largest finite
 * one, and q is computed with what it then is (KV caches). That is what compressed-tensors' fake
 * quantization does (PITH_INPUT_CT). The others differ in: PITH_INPUT_BNB      int8: scale = amax /
 * 127, q = x (127 / amax) rounded. Also what vLLM's and SmoothQuant's kernels do. With a threshold,
 * amax is taken over the magnitudes below it, and columns that have a larger one in any row of the
 *                       call stay as they are.
 *   PITH_INPUT_MODELOPT int8: q is clamped to -127..127. mxfp: scale = 2^ceil(log2(amax / max)).
 *                       nvfp4: s = e4m3(amax / (6 g)) from 2^-9 to 448, 1 for 0, scale = s g, g
 *                       the input's `scale`.
 * A block with a value that is not finite becomes NaN, or keeps its NaN. */
#ifndef PITH_NUM_INPUT_H
#define PITH_NUM_INPUT_H

#include "num/qmat.h"

/* PITH_UNSUPPORTED (or PITH_ARG for numbers) when inputs of `cols` columns cannot be treated so:
 * what a reader calls on numbers that came from a file. At most PITH_INPUT_COLS columns. */
#define PITH_INPUT_COLS (1 << 18)
enum pith_status pith_input_check(const struct pith_input *in, uint32_t cols,
                                  struct pith_error *err);

/* True when `scale` (and `zero`) must be known beforehand: grids that are static, and nvfp4. */
bool pith_input_needs_scale(const struct pith_input *in);
/* Sets them from the range lo..hi that calibration saw, by the formulas above: for nvfp4 amax /
 * (6 * 448). A range of nothing gives scale 1. */
void pith_input_calibrate(struct pith_input *in, float lo, float hi);

/* What the rows of a call have in common. */
struct pith_input_call {
    float lo, hi;           /* of all rows with 0 inside; for scales a tensor that are not static */
    const uint8_t *outlier; /* [cols], not 0: the column is not rounded; NULL: all are */
};
/* True when pith_input_survey() has something to find. */
bool pith_input_surveys(const struct pith_input *in);
/* Accumulates the rows x[n][cols] into call->lo and hi, and outlier[c] |= 1 for the columns that
 * are not rounded. Start from zeros; calls for parts of the rows may follow each other. outlier is
 * not used without a threshold. */
void pith_input_survey(const struct pith_input *in, const float *x, size_t n, size_t cols,
                       struct pith_input_call *call, uint8_t *outlier);

/* y[cols] = x[cols] rounded; y may be x. The Hadamard matrix is not applied here. */
void pith_input_row(const struct pith_input *in, const struct pith_input_call *call, const float *x,
                    size_t cols, float *y);

/* Integer grids: the same as numbers x' = (q - zero) scale, scale of column c being scale[c /
 * block], for a block that the grid's own is a multiple of; sum[i] is the sum of block i's q. q is
 * 0 in outlier columns. *zero is one for the row: groups must be symmetric here. */
struct pith_input_codes {
    size_t block;
    int8_t *q;
    float *scale;
    int32_t *sum;
    float *zero;
};
void pith_input_encode(const struct pith_input *in, const struct pith_input_call *call,
                       const float *x, size_t cols, const struct pith_input_codes *out);

/* One group of columns that share a scale, n of them, as codes of the format (for blocks, of its
 * element): of integers unsigned, q + 2^(b-1). Not for GGUF's types. */
struct pith_input_group {
    uint8_t *codes;
    float *scale, *zero; /* as above; zero only of integers */
};
void pith_input_group(const struct pith_input *in, const struct pith_input_call *call,
                      const float *x, size_t n, const struct pith_input_group *out);

/* All rows of a call: survey, then row by row. outlier is scratch of cols bytes, or NULL without a
 * threshold. */
void pith_input_rows(const struct pith_input *in, const float *x, size_t n, size_t cols,
                     uint8_t *outlier, float *y);

#endif
