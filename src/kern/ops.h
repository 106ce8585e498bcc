/* kern/ops.h: the operations of one thread on plain arrays: one function type each, the table of
 * their kernels, and the choice among them.
 *
 * A kernel is one row of kernels.def and one file. The scalar version of an operation is its
 * definition; every other version gives THE SAME BITS. That holds because each operation below
 * fixes the order of its rounding steps, and all use correctly rounded primitives only: + - * /
 * sqrt and fused multiply-add.
 *
 * Sums over a row use PITH_LANES running sums: lane l takes the elements l, l + 16, l + 32, ...
 * in that order, then lanes are folded 16 -> 8 -> 4 -> 2 -> 1, lane l taking lane l + half. A
 * vector unit of any width up to 16 floats can follow that order. Only NaN bit patterns may
 * differ between kernels.
 *
 * No pointer needs more alignment than stated; nothing is read or written outside the stated
 * elements; n may be 0; arrays do not overlap unless stated. */
#ifndef PITH_KERN_OPS_H
#define PITH_KERN_OPS_H

#include "base/cpu.h"
#include "kern/panel.h"
#include "num/trellis.h"

#include <stddef.h>
#include <stdint.h>

enum { PITH_LANES = 16 };
/* The largest tile of any gemm_tile or bf16_tile kernel. */
enum { PITH_TILE_ROWS_MAX = 32, PITH_TILE_COLS_MAX = 32 };
/* The same of bytes_tile and digits_tile; columns are a multiple of PITH_PANEL_ROWS. */
enum { PITH_BYTES_ROWS_MAX = 32, PITH_BYTES_COLS_MAX = 32 };

enum pith_tile_mode {
    PITH_TILE_SET,  /* s starts at 0;  c = s */
    PITH_TILE_ADD,  /* s starts at c;  c = s */
    PITH_TILE_SCALE /* s starts at 0;  c = fma(alpha, s, c) */
};

/* One tile of C, `rows` x `cols` of the kernel's row in kernels.def, row stride ldc:
 * s[i][j] = fma(a[p * rows + i], b[p * ldb + j], s[i][j]) for p = 0, 1, ..., k - 1, then as the
 * mode says.
 * a is packed: k columns of `rows` floats. b has k rows of at least `cols` floats. */
typedef void pith_gemm_tile_fn(size_t k, const float *a, const float *b, size_t ldb, float *c,
                               size_t ldc, enum pith_tile_mode mode, float alpha);

/* What the tiles of a tier need of the calling thread: tiles_open before the first of bf16_tile or
 * bytes_tile, tiles_close after the last, both cheap. `words` is how many columns of 32 bits a step
 * of the products takes: 1 to PITH_TILE_WORDS. Between the two the thread calls no tile of another
 * `words`. */
enum { PITH_TILE_WORDS = 16 };
typedef void pith_tiles_open_fn(size_t words);
typedef void pith_tiles_close_fn(void);

/* The same tile for operands of bfloat16, a step of PITH_BF16_STEP elements of k at a time, summed
 * as x86's matrix unit does it:
 *     e = fma(x[p], y[p], e) for the even elements of the step in order, from 0
 *     o = fma(x[p], y[p], o) for the odd ones
 *     s = s + (e + o)
 * where operands, sums and results below 2^-126 in magnitude, as rounded to 24 bits, count as zeros
 * of their sign. The mode's own step is an ordinary one.
 *
 *     a   [steps][rows][16] words of two elements      b   [steps][16][cols] words
 *
 * as bf16_round, bf16_words and bf16_pairs of the same tier make them: the order of a step's
 * elements in its words is the tier's own. Between tiles_open(PITH_TILE_WORDS) and tiles_close. */
enum { PITH_BF16_STEP = 2 * PITH_TILE_WORDS };
typedef void pith_bf16_tile_fn(size_t steps, const uint32_t *a, const uint32_t *b, float *c,
                               size_t ldc, enum pith_tile_mode mode, float alpha);

/* Rows of k elements, row stride ld, as words of a tier: dst[(s * height + r) * 16 + w] has two
 * elements of step s of row r < rows <= height, in the tier's order; those from k on are zeros.
 * bf16_round rounds as narrow_bf16 does, but takes what is below 2^-126 in magnitude for zeros;
 * bf16_words has bfloat16 at any address and may keep what is. */
typedef void pith_bf16_round_fn(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                                uint32_t *dst);
typedef void pith_bf16_words_fn(size_t rows, size_t k, const void *src, size_t ld, size_t height,
                                uint32_t *dst);

/* The same of the columns of src, dst[(s * 16 + w) * width + i] of column i < n <= width: element
 * p of it is src[p * ld + i]. */
typedef void pith_bf16_pairs_fn(size_t k, size_t n, const float *src, size_t ld, size_t width,
                                uint32_t *dst);

/* dst[c * ld_dst + r] = src[r * ld_src + c] for r < rows, c < cols. */
typedef void pith_transpose_fn(size_t rows, size_t cols, const float *src, size_t ld_src,
                               float *dst, size_t ld_dst);

/* dst[r * ld_dst + c] = src[r * ld_src + c] for r < rows, c < cols; made for few columns. */
typedef pith_transpose_fn pith_copy_rows_fn;

/* dst[i] = level[code i] for n codes of 3 or 4 bits, code i at bits [i * bits, (i + 1) * bits) of
 * the little-endian stream; of 3 bits, level has the eight and the same again. */
typedef void pith_levels_unpack_fn(unsigned bits, size_t n, const uint8_t *codes,
                                   const float level[16], float *dst);

/* pith_trellis_decode() (num/trellis.h). */
typedef void pith_trellis_decode_fn(enum pith_trellis_code code, unsigned bits,
                                    const uint8_t *tile, float *out, size_t ld);

/* Products with what trellises hold: kern/trellis.h. */
struct pith_trellis_strip;
typedef void pith_trellis_bytes_fn(const struct pith_trellis_strip *m);
typedef pith_trellis_bytes_fn pith_trellis_floats_fn;
typedef pith_trellis_bytes_fn pith_trellis_lanes_fn;

/* A step of Viterbi's algorithm over the N = 2^(16 - bits) nodes of a trellis: for o < N the least
 * of fma(d, d, in[k << (16 - 2 bits) | o >> bits]), d = value(k << (16 - bits) | o) - x, over
 * k < 2^bits, to out[o], and the first such k to from[o]. Costs are not negative or NaN.
 * table[(o / 16 << bits | k) * 16 + o % 16] is the value. bits is 1 to 8. */
typedef void pith_trellis_step_fn(unsigned bits, const float *in, const float *table, float x,
                                  float *out, uint8_t *from);

/* acc[p % 16] = fma(x[p], y[p], acc[p % 16]) for p = 0..n-1: a dot product in lanes, to be
 * continued by another call when n is a multiple of 16 and closed by pith_lanes_sum(). */
typedef void pith_dot_acc_fn(size_t n, const float *x, const float *y, float acc[PITH_LANES]);

/* Goes on with y[r] = fma(w[r][c], x[c], y[r]) for c = 0, 1, ..., cols - 1, for r < rows. Row r
 * starts ldw elements after row r - 1; w is float32, bfloat16 or float16 at any address; 16-bit
 * elements are widened exactly. */
typedef void pith_matvec_f32_fn(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                                float *y);
typedef pith_matvec_f32_fn pith_matvec_bf16_fn;
typedef pith_matvec_f32_fn pith_matvec_f16_fn;

/* y[r] = the dot product in lanes of row r of w with x, w as above. */
typedef pith_matvec_f32_fn pith_lanes_f32_fn;
typedef pith_matvec_f32_fn pith_lanes_f16_fn;

/* Sixteen adjacent elements of `rows` rows of y, by sixteen rows of w in a panel, w[c * 16 + j]:
 * y[i * ldy + j] = y[i * ldy + j] + the dot product in lanes of w's row j with x[i * ldx + c], c <
 * cols. */
typedef void pith_lanes_panel_fn(size_t rows, size_t cols, const float *x, size_t ldx,
                                 const float *w, float *y, size_t ldy);

/* dst[i] = src[i], widened exactly from 16 bits at any address. */
typedef void pith_widen_bf16_fn(size_t n, const void *src, float *dst);
typedef pith_widen_bf16_fn pith_widen_f16_fn;
/* dst[i] = the number of the FP8 code src[i], by OCP's rules, NaN among them. */
typedef pith_widen_bf16_fn pith_widen_e4m3_fn;
typedef pith_widen_bf16_fn pith_widen_e5m2_fn;

/* dst[i] = src[i] rounded to nearest, ties to even, stored in 16 bits at any address; a NaN stays
 * one. For float16 what is beyond 65504, the largest, is that number, infinities too. */
typedef void pith_narrow_bf16_fn(size_t n, const float *src, void *dst);
typedef pith_narrow_bf16_fn pith_narrow_f16_fn;

/* dst[i] = ((float)code[i] - zero) * scale, both steps rounded. */
typedef void pith_dequant_u8_fn(size_t n, const uint8_t *code, float zero, float scale, float *dst);
/* The same for 4-bit codes: code i is the low (i even) or high half of byte i / 2. */
typedef void pith_dequant_u4_fn(size_t n, const uint8_t *code, float zero, float scale, float *dst);

/* The greatest of x; -infinity for n = 0. NaN elements are passed over, and of zeros either sign
 * may be given. */
typedef float pith_max_fn(size_t n, const float *x);

/* x = exp(x - max(x)) / sum, in place: m = max, e = exp(x - m) by pith_exp_f32(), sum in lanes,
 * then each e is multiplied by 1 / sum. */
typedef void pith_softmax_fn(size_t n, float *x);

/* x[i] = exp(x[i] - max) by pith_exp_f32(); returns their sum in lanes. */
typedef float pith_exp_sum_fn(size_t n, float *x, float max);

/* The scores of `rows` queries with 32 * blocks keys: s[r * lds + j] is the chain of
 * s = fma(q[r * ldq + e], key j[e], s) for e = 0, 1, ..., dim - 1 from 0. k has the keys in blocks
 * of PITH_KEYS, in a block element by element, so that a vector holds the same element of
 * neighbours: key j[e] is k[(j / 32 * dim + e) * 32 + j % 32], in float32, bfloat16 or float16
 * (widened exactly). */
enum { PITH_KEYS = 32 };
typedef void pith_attn_scores_f32_fn(size_t rows, size_t dim, size_t blocks, const float *q,
                                     size_t ldq, const void *k, float *s, size_t lds);
typedef pith_attn_scores_f32_fn pith_attn_scores_bf16_fn;
typedef pith_attn_scores_f32_fn pith_attn_scores_f16_fn;

/* Adds up values by weight: o[r * ldo + e] = fma(p[r * ldp + j], v[j * dim + e], o[r * ldo + e])
 * for j = 0, 1, ..., keys - 1, for e < dim, a multiple of 16. v is as keys are. */
typedef void pith_attn_values_f32_fn(size_t rows, size_t keys, size_t dim, const float *p,
                                     size_t ldp, const void *v, float *o, size_t ldo);
typedef pith_attn_values_f32_fn pith_attn_values_bf16_fn;
typedef pith_attn_values_f32_fn pith_attn_values_f16_fn;

/* x[e * 32 + j] = (x[e * 32 + j] - zero[j]) * scale[j] + offset[j] for n elements e of 32
 * neighbours j, each step rounded; zero or offset NULL: that step is omitted. */
typedef void pith_scale_keys_fn(size_t n, const float *zero, const float *scale,
                                const float *offset, float *x);

/* Both over codes (kern/coded.h): the scores of `rows` queries with the 32 keys of k; and, for
 * `values` of v, whose dim is a multiple of 16, o[r * ldo + e] = fma(p[r * ldp + j], x[j][e],
 * o[r * ldo + e]). */
struct pith_coded;
typedef void pith_attn_scores_codes_fn(const struct pith_coded *k, size_t rows, const float *q,
                                       size_t ldq, float *s, size_t lds);
struct pith_coded_sums {
    size_t rows, values;
    const float *p;
    size_t ldp;
    float *o;
    size_t ldo;
};
typedef void pith_attn_values_codes_fn(const struct pith_coded *v, const struct pith_coded_sums *s);

/* The fast mode's, over unsigned codes of 4 or 8 bits (of either kind) less their middle, 8 or 128:
 * that is v. dim and width are multiples of 32, zeros are not read, the sums of products of bytes d
 * are exact. Scores, for
 * the blocks of 32 elements in order, from 0:
 *
 *     s[r * lds + j] = fma(d * scale of the block, k's scale, s), the product rounded
 *     s = fma(k's offset, total, s), where k has offsets
 *
 * Values, of all 32 positions of a page, whose scales and offsets are [groups][32] here: the
 * products of weights p[r * ldp + j] and scales of a group, each rounded, are made bytes of one
 * scale, as to_bytes does. Then
 *
 *     o[r * ldo + e] = fma(d, that scale, o[r * ldo + e])
 *
 * and where v has offsets, plus the dot product in lanes of the weights and the group's offsets. */
struct pith_coded_bytes;
typedef void pith_attn_scores_bytes_fn(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                       float *s, size_t lds);
typedef pith_attn_values_codes_fn pith_attn_values_bytes_fn;

/* y[i] = fma(a, y[i], b * x[i]), the product rounded. */
typedef void pith_mix_fn(size_t n, float a, float b, const float *x, float *y);

/* y[i] = y[i] + x[i]. */
typedef void pith_add_fn(size_t n, const float *x, float *y);

/* Rotates the pairs (low[i], high[i]) by angles, each step rounded: low[i] = low[i] cos[i] -
 * high[i] sin[i], high[i] = high[i] cos[i] + low[i] sin[i]. */
typedef void pith_rope_pairs_fn(size_t n, const float *cos, const float *sin, float *low,
                                float *high);

/* gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i], each step rounded, exp by pith_exp_f32(). */
typedef void pith_silu_mul_fn(size_t n, float *gate, const float *up);

/* Activations in place, each step rounded, exp by pith_exp_f32(): x / (1 + exp(-x)), and
 * 1 / (1 + exp(-x)). */
typedef void pith_silu_fn(size_t n, float *x);
typedef pith_silu_fn pith_sigmoid_fn;

/* By tanh(u) = (1 - e) / (1 + e), e = exp(-2 |u|), with the sign of u, in double, each step rounded
 * and exp by pith_exp_f64(); the result is rounded to float32 once. In place:
 *     gelu_tanh  x = (x / 2) * (1 + tanh(sqrt(2 / pi) * (x + ((0.044715 * x) * x) * x)))
 *     softcap    x = cap * tanh(x / cap) */
typedef pith_silu_fn pith_gelu_tanh_fn;
typedef void pith_softcap_fn(size_t n, float cap, float *x);

/* With g = min(gate[i], limit) and u = max(min(up[i], limit), -limit), `limit` in place of NaN:
 * gate[i] = g / (1 + exp(-alpha * g)) * (u + 1), each step rounded, exp by pith_exp_f32(). */
typedef void pith_clamped_mul_fn(size_t n, float limit, float alpha, float *gate, const float *up);

/* y[i] = y[i] * x[i]. */
typedef pith_add_fn pith_mul_fn;

/* Sum of x[i]^2 in double, in lanes: a square is exact in double, so only the additions round. */
typedef double pith_sumsq_fn(size_t n, const float *x);

/* y[i] = (x[i] * r) * weight[i]; y may be x. */
typedef void pith_scale_mul_fn(size_t n, const float *x, float r, const float *weight, float *y);

/* Sum of exp((x[i] - max) * scale) in double, in lanes, exp by pith_exp_f64(). No x[i] exceeds max;
 * scale is not negative. */
typedef double pith_sum_exp_fn(size_t n, const float *x, float max, double scale);

/* y[i] = y[i] - a * x[i] in double, product and difference rounded. */
typedef void pith_axmy_f64_fn(size_t n, double a, const double *x, double *y);

/* Solves X T^T = X in place for eight rows of X at once, T upper triangular and both in double.
 * t is T transposed, t[p * ldt + j] = T[j][p] for j <= p; x is X transposed, x[p * 8 + lane].
 * For p = n - 1, ..., 0: x[p] = x[p] / t[p][p], then x[j] = x[j] - x[p] * t[p][j] for j < p,
 * each step rounded. */
enum { PITH_SOLVE_LANES = 8 };
typedef void pith_solve_f64_fn(size_t n, const double *t, size_t ldt, double *x);

/* What a machine's limits are measured with (backend/roof.h): nothing but reading, nothing but
 * multiply-adds. */

/* The exclusive or of the 8 * lines 8-byte words at data. */
typedef uint64_t pith_read_lines_fn(size_t lines, const void *data);

/* acc[i] = fma(x, y, acc[i]) for every i, PITH_PEAK_STEPS times `rounds` times. Twelve registers of
 * the widest vectors, and four tiles, divide the lanes. */
enum { PITH_PEAK_LANES = 3072, PITH_PEAK_STEPS = 16 };
typedef void pith_peak_f32_fn(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES]);
/* acc[i] = acc[i] + x[0] y[0] + ... + x[3] y[3] modulo 2^32, likewise. */
typedef void pith_peak_int8_fn(size_t rounds, const uint8_t x[4], const int8_t y[4],
                               uint32_t acc[PITH_PEAK_LANES]);
/* acc[i] = acc[i] + x[0] y[0] + x[1] y[1] of bfloat16, likewise; defined where each product and
 * sum is exact in float32. */
typedef void pith_peak_bf16_fn(size_t rounds, const uint16_t x[2], const uint16_t y[2],
                               float acc[PITH_PEAK_LANES]);

/* Sum of (x[i] - y[i])^2 in double, in lanes: difference and addition are rounded, the square is
 * part of a fused multiply-add. */
typedef double pith_sumsq_diff_fn(size_t n, const float *x, const float *y);

/* *lo = min(0, x), *hi = max(0, x); both NaN when some x is not finite. */
typedef void pith_range_fn(size_t n, const float *x, float *lo, float *hi);

/* The codes of n weights on an even grid and what they stand for, each step rounded:
 *     t = w / scale, cut off at +-2^20 (NaN: -2^20); u = t to the nearest integer, ties to even,
 *     + zero, cut off to 0..top; code = u; value = (u - zero) * scale
 * with scale[i * step] and zero[i * step], step 0 or 1; zero is an integer, top at most 255.
 * codes or values may be NULL; values may be w. */
typedef void pith_grid_round_fn(size_t n, const float *w, const float *scale, const float *zero,
                                size_t step, float top, uint8_t *codes, float *values);

/* One candidate for a grid: `unit` is a power of two that keeps the power below in range. */
struct pith_grid_trial {
    float scale, zero, top, unit;
};
/* acc[i % 32] += p(|w[i] - value[i]| * unit) for value as in grid_round and p(x) = |x|^2.4 as
 * pith_pow24() has it. */
enum { PITH_TRIAL_LANES = 32 };
typedef void pith_grid_error_fn(size_t n, const float *w, const struct pith_grid_trial *t,
                                float acc[PITH_TRIAL_LANES]);

/* Weighted squares of n errors for a scale of either sign, given by its inverse. With t = w *
 * inverse, cut off as in grid_round, q its code minus zero and e = t - q, the sums in lanes of
 * (weight e) e, (weight e) q and (weight q) q, each last product and addition fused. In units of
 * the scale: with it times 1 + x the same codes have the error error - 2 x slope + x^2 square. */
struct pith_grid_fit {
    float inverse, zero, top;
};
struct pith_grid_sums {
    float error, slope, square;
};
typedef void pith_grid_squares_fn(size_t n, const float *w, const float *weight,
                                  const struct pith_grid_fit *t, struct pith_grid_sums *sums);

/* most[g] = the greatest |x[i]| of i in [g * group, g * group + group), for the ceil(n / group)
 * groups of at least one; NaN when one of them is not finite. */
typedef void pith_group_max_fn(size_t n, size_t group, const float *x, float *most);

/* The codes of n weights on the levels of a small float format and what they stand for, each step
 * rounded:
 *     t = |w / s|, s = scale[i / group] > 0, cut off at max (NaN: 0); v = t to the nearest level,
 *     ties to the even code; code = v's, with the sign bit of w; value = +-v * s
 * codes or values may be NULL; values may be w. kern/grid.h says what `levels` holds. */
struct pith_float_levels;
typedef void pith_float_round_fn(size_t n, const float *w, const float *scale, size_t group,
                                 const struct pith_float_levels *levels, uint8_t *codes,
                                 float *values);

/* How far n weights are from such levels, for `count` scales given by their inverses: sum[k] is the
 * sum in lanes of d = t - v, t = |w[i] * inverse[k]|, v its nearest level as above, d times itself,
 * or times weight[i] d (weight NULL: all alike), added by a fused multiply-add: in units of the
 * scale, squared. */
typedef void pith_float_trials_fn(size_t n, const float *w, const float *weight, size_t count,
                                  const float *inverse, const struct pith_float_levels *levels,
                                  float *sum);

/* float_round for sixteen arbitrary levels (num/codebook.h): t = w * (1 / max(s, 1e-38)), both
 * steps rounded, takes the level after the last threshold that it exceeds (NaN: the first level);
 * value = level * s. */
struct pith_codebook;
typedef void pith_book_round_fn(size_t n, const float *w, const float *scale, size_t group,
                                const struct pith_codebook *book, uint8_t *codes, float *values);

/* Every operation, by the name of its type without pith_ and _fn. */
/* clang-format off */
#define PITH_OPS(X)                                                                                \
    X(gemm_tile) X(bf16_tile) X(bf16_round) X(bf16_words) X(bf16_pairs) X(transpose) X(copy_rows)  \
    X(dot_acc) X(matvec_f32) X(matvec_bf16) X(matvec_f16) X(lanes_f32) X(lanes_f16)                \
    X(lanes_panel) X(levels_unpack) X(widen_bf16) X(widen_f16) X(dequant_u8) X(dequant_u4) X(max) \
    X(softmax) X(silu_mul) X(silu) X(sigmoid) X(gelu_tanh) X(softcap) X(clamped_mul) X(mul)        \
    X(sumsq) X(scale_mul) X(sum_exp) X(axmy_f64) X(solve_f64) X(panel_dot) X(offsets_dot)          \
    X(panel_dot_bytes) X(panel_dot_digits) X(panel_unpack) X(to_bytes) X(to_digits) X(to_nibbles)  \
    X(bytes_tile) X(bytes_words) X(digits_tile) X(digits_words) X(digits_unpack) X(bytes_unpack)   \
    X(read_lines) X(peak_f32) X(peak_int8) X(peak_bf16) X(narrow_bf16) X(narrow_f16) X(exp_sum)    \
    X(attn_scores_f32) X(attn_scores_bf16) X(attn_scores_f16) X(attn_values_f32)                   \
    X(attn_values_bf16) X(attn_values_f16) X(scale_keys) X(attn_scores_codes) X(attn_values_codes) \
    X(attn_scores_bytes) X(attn_values_bytes) X(mix) X(add) X(widen_e4m3) X(widen_e5m2)            \
    X(trellis_lanes) X(rope_pairs) X(sumsq_diff) X(range) X(grid_round) X(grid_error)              \
    X(grid_squares) X(group_max) X(float_round) X(float_trials) X(book_round) X(tiles_open)        \
    X(tiles_close) X(trellis_decode) X(trellis_step) X(trellis_bytes) X(trellis_floats)

/* clang-format on */

enum pith_op {
#define PITH_OP_ID(op) PITH_OP_##op,
    PITH_OPS(PITH_OP_ID)
#undef PITH_OP_ID
        PITH_OP_COUNT
};

#define PITH_KERNEL(op, isa, fn, rows, cols) pith_##op##_fn fn;
#include "kern/kernels.def"
#undef PITH_KERNEL

/* The chosen kernel of each operation, and the tiles of gemm_tile, bf16_tile and bytes_tile. */
struct pith_kern {
#define PITH_OP_FIELD(op) pith_##op##_fn *op;
    PITH_OPS(PITH_OP_FIELD)
#undef PITH_OP_FIELD
    size_t tile_rows, tile_cols;
    size_t bf16_rows, bf16_cols;
    size_t bytes_rows, bytes_cols;
    size_t digits_rows, digits_cols;
};

/* The fastest kernel of each operation whose instruction set is in mask (scalar always is). The
 * caller has limited mask to what pith_kern_usable() found. */
void pith_kern_select(uint32_t mask, struct pith_kern *out);

/* The instruction sets to choose from: those of pith_cpu_detect(), but AMX only when it gives the
 * scalar bits on a small product, since a matrix unit's order of sums is no one's standard. */
uint32_t pith_kern_usable(void);

/* The table itself, for the tests and the benchmark: every row of kernels.def. */
typedef void pith_any_fn(void);
struct pith_kernel {
    enum pith_op op;
    uint32_t isa;
    const char *op_name, *name;
    pith_any_fn *fn; /* to be cast to the operation's type */
    size_t tile_rows, tile_cols;
};
extern const struct pith_kernel pith_kernels[];
extern const size_t pith_kernel_count;

/* Closes a sum in lanes: the tree described at the top. Changes acc. */
float pith_lanes_sum(float acc[PITH_LANES]);
double pith_lanes_sum_f64(double acc[PITH_LANES]);

/* e^x, the definition that softmax and silu follow: within 1 ulp, 0 below about -103.97,
 * subnormal results rounded once, +infinity above 88.72, NaN for NaN. */
float pith_exp_f32(float x);
/* e^x within 1e-15 relative; x below -700 counts as -700, +infinity above 709.43, NaN for NaN. */
double pith_exp_f64(double x);
/* |x|^2.4 by plain float arithmetic, within 1e-6 relative where it neither overflows nor
 * underflows: libm's pow() differs between machines. */
float pith_pow24(float x);
/* Natural logarithm of a finite x >= 1 (NaN otherwise), within 1e-15 relative or absolute, from
 * pith_exp_f64's arithmetic: libm's own result depends on the CPU that it was dispatched for. */
double pith_log_f64(double x);

#endif
