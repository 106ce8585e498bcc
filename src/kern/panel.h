/* kern/panel.h: quantized matrices in the layout that the kernels read, and what is done with
 * them.
 *
 * Sixteen rows make a panel, since sixteen floats are the widest vector; a line is 64 bytes, one
 * 32-bit lane a row:
 *
 *     lane r of line j of a panel (row 16 * panel + r):
 *       4 bits: columns 8j .. 8j + 7    byte i = column 8j + i (low half), 8j + 4 + i (high half)
 *       8 bits: columns 4j .. 4j + 3    byte i = column 4j + i
 *
 * Codes of 2, 3, 5 and 6 bits lie sixteen columns at a time, 32 * bits bytes, in planes. A word,
 * four columns 4k .. 4k + 3 of sixteen rows, is what such a step has four of; of word k, in byte i
 * of a lane as above (column 4k + i):
 *
 *       line of 4 bits    two for a step, as of 4 bits: word k in line k / 2, its half k % 2
 *       line of 2 bits    words 0, 2, 1, 3 from the lowest bits on
 *       half line of 1    rows 0 to 7 only: bit 4 + k is their word k's, bit k that of rows 8 to 15
 *
 *       2 bits: a line of 2     5 bits: two lines of 4, half a line of 1 (the highest bit)
 *                               6 bits: two lines of 4, a line of 2 (the highest bits)
 *       3 bits: three halves of lines, 4 bits a code
 *               A: words 0, 1 of rows 0 to 7    B: words 0, 1 of rows 8 to 15
 *               C: words 2, 3 of rows 0 to 7    words 2, 3 of rows 8 to 15 are what these have
 *               over: bit 0 is the fourth bit in A, bit 1 that in B, bit 2 that in C
 *
 * So a load gives a column of sixteen rows in each field, four neighbouring columns in the low (or
 * high) halves of a lane's bytes as integer dot products want them, and a step of a matrix product
 * finds its sixteen outputs side by side.
 *
 *     codes: [panels][lines][64]   scales: [panels][groups][16] of a type   zeros: the same, bytes
 *
 * Rows past the matrix's last have codes and scales of 0. */
#ifndef PITH_KERN_PANEL_H
#define PITH_KERN_PANEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PITH_PANEL_ROWS = 16, PITH_PANEL_LINE = 64 };

enum pith_panel_form {
    PITH_PANEL_LEVEL4, /* codes of at most 4 bits, sixteen levels */
    PITH_PANEL_INT8,   /* unsigned integers of more */
    PITH_PANEL_E4M3,   /* FP8 */
    PITH_PANEL_E5M2
};

/* How scales are stored. E4M3 ones are multiplied by `global`; a product is a signed byte times a
 * half that 2^outer_shift groups of a row share, exact in float32 (GGUF's two levels). */
enum pith_panel_scale {
    PITH_SCALE_F32,
    PITH_SCALE_BF16,
    PITH_SCALE_F16,
    PITH_SCALE_E8M0,
    PITH_SCALE_E4M3,
    PITH_SCALE_PRODUCT
};
/* The integer products take these, and any of factors. */
static inline bool pith_panel_scale_wide(enum pith_panel_scale s)
{
    return s <= PITH_SCALE_F16 || s == PITH_SCALE_PRODUCT;
}

/* What the integer products take for codes of levels: factor[code], from 0 to 2 * zero, where
 * (factor[code] - zero) * unit is the level. The two kinds differ in their zero: products of small
 * ones with bytes fit 16 bits several times over. FP4's are small, twice its levels; GGUF's IQ4 has
 * large integers for levels. Both are exact. Other levels, NF4's and those of bitsandbytes' FP4,
 * are rounded to the grid below a hundredth of the largest that suits them best. */
enum pith_panel_factors { PITH_FACTORS_NONE, PITH_FACTORS_SMALL, PITH_FACTORS_LARGE };
enum { PITH_FACTORS_SMALL_ZERO = 12, PITH_FACTORS_LARGE_ZERO = 127 };

/* W[r][c] = v * scale[r][c / group], v = level[code] - zero: for LEVEL4 level is the table, for
 * INT8 the code itself, for FP8 the value. zero is zeros[r][c / group], or without zeros 0 for
 * LEVEL4 and FP8 and `zero` for INT8. v is exact in float32. FP8 codes are finite. */
struct pith_panels {
    enum pith_panel_form form;
    unsigned bits; /* of a code: 2 to 4 of LEVEL4, 5, 6 or 8 of INT8, else 8 */
    enum pith_panel_scale scale;
    size_t cols;  /* a multiple of pith_panel_step() */
    size_t group; /* likewise, or cols */
    size_t groups;
    const uint8_t *codes; /* 64-byte aligned */
    const void *scales;
    const uint8_t *zeros; /* NULL: none */
    float level[16];      /* of codes of 2 and 3 bits repeated */
    float zero;   /* of integers without zeros: a code less it is a signed byte */
    float global; /* 1 unless scales are E4M3 */
    /* Of integers: levels are the codes less `zero`, and zeros times scales are exact and finite,
     * so that (v - zero) * scale is also fma(v, scale, -(zero * scale)), but for the sign of a
     * zero. Of E4M3: scales are below 2^100, so that a small power of two can move to them. */
    bool fold;
    /* Unless there are none, the integer products take factor[code] for the code and scale * unit,
     * rounded, for the scale; `zero` is the factors'. Of LEVEL4 without zeros only. */
    enum pith_panel_factors factors;
    uint8_t factor[16];
    float unit;
    const void *outer;    /* of products: [panels][groups >> outer_shift][16] halves */
    unsigned outer_shift; /* groups is a multiple of 2^outer_shift */
};

/* The widths of codes in planes. */
#define PITH_PANEL_PLANES(X) X(2) X(3) X(5) X(6)
enum { PITH_PANEL_STEP = 16 /* columns of a step of planes */, PITH_PANEL_WORDS = 4 /* of it */ };
static inline bool pith_panel_has_planes(unsigned bits)
{
    return bits != 4 && bits != 8;
}

/* The columns that a matrix and its groups are made of: those of a line, or of a step. */
static inline size_t pith_panel_step(unsigned bits)
{
    return pith_panel_has_planes(bits) ? PITH_PANEL_STEP : 32 / bits;
}

/* Bytes of so many columns of a panel, and of a panel. */
static inline size_t pith_panel_span(unsigned bits, size_t cols)
{
    return cols * bits * PITH_PANEL_ROWS / 8;
}
static inline size_t pith_panel_bytes(const struct pith_panels *m)
{
    const size_t bytes = pith_panel_span(m->bits, m->cols);
    return (bytes + PITH_PANEL_LINE - 1) / PITH_PANEL_LINE * PITH_PANEL_LINE;
}

/* Where a panel's column `col`, a multiple of pith_panel_step(), is. */
static inline const uint8_t *pith_panel_at(const struct pith_panels *m, size_t panel, size_t col)
{
    return m->codes + panel * pith_panel_bytes(m) + pith_panel_span(m->bits, col);
}

/* A step of planes from its four words, a byte a code. */
void pith_panel_put_step(unsigned bits, const uint8_t words[PITH_PANEL_WORDS][PITH_PANEL_LINE],
                         uint8_t *to);

/* Weights come from memory, and what a core has in flight by itself does not cover the way there:
 * kernels prefetch lines ahead of use; the distances in bytes were measured to be best for float
 * products and for integer ones. */
enum { PITH_AHEAD_FLOAT = 6144, PITH_AHEAD_BYTES = 4096 };

/* How far ahead of byte `at` of a panel to ask when `together` panels of so many bytes are read at
 * a time: past its end it is not the neighbour, read at the same time, but the one after those. */
static inline size_t pith_panel_ahead(size_t together, size_t bytes, size_t at, size_t ahead)
{
    return ahead + (at + ahead < bytes ? 0 : (together - 1) * bytes);
}

/* Bytes of a scale. */
static inline size_t pith_panel_scale_bytes(enum pith_panel_scale s)
{
    return s == PITH_SCALE_F32 ? 4 : s == PITH_SCALE_BF16 || s == PITH_SCALE_F16 ? 2 : 1;
}

/* Where the half of scale `index` is, counted as scales are. */
static inline size_t pith_panel_outer(const struct pith_panels *m, size_t index)
{
    return (index / PITH_PANEL_ROWS >> m->outer_shift) * PITH_PANEL_ROWS + index % PITH_PANEL_ROWS;
}

/* The code of row 16 * panel + r, column c. */
unsigned pith_panel_code_at(const struct pith_panels *m, size_t panel, size_t r, size_t c);
/* The scale of that index, and v of row 16 * panel + r, column c. */
float pith_panel_scale_at(const struct pith_panels *m, size_t index);
float pith_panel_value_at(const struct pith_panels *m, size_t panel, size_t r, size_t c);

/* One vector of activations as signed bytes: x[c] ~ q[c] * scale[c / block], sum the sum of a
 * block's q. Or as numbers of three digits: x[c] ~ (q[c] + 256 q[c + q_digit] + 65536 q[c + 2
 * q_digit]) * scale[c / block], each digit with its sums, sum_digit apart. */
struct pith_bytes {
    size_t block;
    const int8_t *q;
    const float *scale;
    const int32_t *sum;
    size_t q_digit, sum_digit; /* three digits only */
};
enum { PITH_DIGITS = 3 };

/* Goes on with y[16 * count] by panels [first, first + count) of m times x[cols], a row one chain:
 *     y = fma(v(c) * scale, x[c], y)  for the columns in order, the product in brackets rounded */
typedef void pith_panel_dot_fn(const struct pith_panels *m, size_t first, size_t count,
                               const float *x, float *y);

/* y[16 * count] = panels [first, first + count) of m times x[cols], for bytes without zeros whose
 * scales are halves. A row is summed group by group, a group in four chains:
 *     s[c % 4] = fma(v(c), x[c], s[c % 4])  for the columns of the group in order, from 0
 *     y = fma(scale, (s[0] + s[1]) + (s[2] + s[3]), y)  for the groups in order, from 0 */
typedef pith_panel_dot_fn pith_offsets_dot_fn;

/* The fast mode's product of an integer matrix. A block lies within a group (block <= group, and
 * group a multiple of it, or of the rest at the end of a row); block is a multiple of 8 (of codes
 * in planes of 16) or cols.
 *     d = sum over the block's columns of u(c) * q[c], exactly, u the unsigned code
 *     d = d - zero * sum, exactly          (a block has at most 2^16 columns)
 *     t = fma((float)d, scale of the block, t)  for the blocks of a group in order, from 0
 *     y = fma(scale of the group, t, y)         for the groups in order, from 0
 * Of factors u(c) is that of the code, and scale of the group * unit, rounded, stands for it. */
typedef void pith_panel_dot_bytes_fn(const struct pith_panels *m, size_t first, size_t count,
                                     const struct pith_bytes *x, float *y);

/* The exact mode's product of an integer matrix: integers of 24 bits for float32 activations. As
 * above, but d is the sum over all three digits, D[0] + 256 D[1] + 65536 D[2], in up to 40 bits, of
 * which the conversion to float32 is the only rounding. A block has at most PITH_DIGITS_BLOCK
 * columns. The error of an activation is 2^-23 of its block's largest, as that of a float32 sum is
 * of its largest part, and the integer sums add none.
 *
 * Every D[i] is below 2^23 in magnitude, so that d = 65536 h + l with l = D[0] + 256 (D[1] mod 256)
 * and h = D[2] + floor(D[1] / 256) of less than 24 bits both, and one multiply-add rounds it. */
enum { PITH_DIGITS_BLOCK = 256 };
typedef pith_panel_dot_bytes_fn pith_panel_dot_digits_fn;

/* The fast mode's product for many vectors at once, a tile of `rows` vectors (the kernel's row in
 * kernels.def) by `cols` rows of W at a time, over some of the columns: [col, col + n). Sums pass
 * from call to call; nothing shows in the result of how the columns were divided.
 *
 *     w        of each panel, where bytes_unpack of the same tier says that these columns are
 *     scale    of each panel, [groups][16] from the group of col on; zero likewise, or NULL
 *     x        what bytes_words of the same tier made of the vectors
 *     x_scale  [blocks][rows]
 *     x_less   [blocks][rows]: less the sum of the block's bytes, times the matrix's zero without
 *              zeros
 *     count    of the tile's vectors that are wanted; the others' sums may stay unchanged
 *     y, t, d  [rows][cols]: the definition's y, t and d, read where col is within a row, a
 *              group or a block, written where col + n is */
enum { PITH_TILE_PANELS = 2 /* at most */ };
struct pith_byte_tile {
    enum pith_panel_form form; /* pith_panel_tile_form() */
    enum pith_panel_factors factors;
    size_t cols, group, block; /* of W and x */
    size_t col, n, count;
    const uint8_t *w[PITH_TILE_PANELS];
    bool stored;           /* w is within the panels */
    const uint8_t *factor; /* [16], where there are factors */
    int32_t middle;        /* the zero of a matrix without zeros */
    size_t adjacent;       /* panels whose columns [col, col + n) are read one after the other */
    const float *scale;
    const int32_t *zero;
    size_t scale_panel; /* elements from one panel to the next */
    const uint32_t *x;
    const float *x_scale;
    const int32_t *x_less;
    float *y, *t;
    int32_t *d;
};
typedef void pith_bytes_tile_fn(const struct pith_byte_tile *a);

/* What a tile multiplies: large factors as bytes are. Codes in planes are unpacked, a byte each. */
static inline enum pith_panel_form pith_panel_tile_form(const struct pith_panels *m)
{
    return m->factors == PITH_FACTORS_LARGE ? PITH_PANEL_INT8 : m->form;
}

/* Vectors [first, first + count) of a tile, `words` words of four neighbouring bytes each, one
 * after the other in q, to where the tile of the same tier wants them: [words][rows] in all tiers
 * but one. Together the vectors of a tile are rows * words words. */
typedef void pith_bytes_words_fn(size_t words, size_t first, size_t count, const int8_t *q,
                                 uint32_t *x);

/* The exact mode's product for many vectors: panel_dot_digits as bytes_tile is panel_dot_bytes, but
 * for these:
 *     col, n   no block is divided: both are multiples of block, or n ends the row; d is not used
 *     w        what digits_unpack made of these columns
 *     x        what digits_words made of the vectors
 *     x_less   [blocks][rows][3]: of each digit */
typedef pith_bytes_tile_fn pith_digits_tile_fn;
/* Likewise; q has all three digits of a vector, one after the other, before the next vector. All
 * vectors of a tile take at most rows * words * PITH_DIGITS_WORDS words. */
enum { PITH_DIGITS_WORDS = 4 };
typedef pith_bytes_words_fn pith_digits_words_fn;

/* The argument of tiles_open() before bytes_tile or digits_tile with blocks of that many columns.
 */
static inline size_t pith_bytes_step(size_t block)
{
    return block % 64 == 0 || block > 64 ? 16 : block / 4;
}

/* The codes of columns [col, col + n) of a panel, multiples of pith_panel_step(), in the form that
 * bytes_tile reads, at most PITH_BYTES_LINE bytes for four columns. Returns where they are: dst, or
 * within the panel where that tile reads codes as they are stored; some do if `few` tiles of
 * vectors are to follow, to each of which that adds a little. */
enum { PITH_BYTES_LINE = 2 * PITH_PANEL_LINE };
typedef const uint8_t *pith_bytes_unpack_fn(const struct pith_panels *m, size_t panel, size_t col,
                                            size_t n, bool few, uint8_t *dst);
typedef pith_bytes_unpack_fn pith_digits_unpack_fn;

/* dst[(c - col) * ld + r] = W[16 * panel + r][c] for c in [col, col + n), r < 16: both steps
 * rounded, v * scale. col and n are multiples of pith_panel_step(). */
typedef void pith_panel_unpack_fn(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                                  float *dst, size_t ld);

/* Rounds n values to bytes, block by block: a = max |x|; scale = a / 127; q = x * (127 / a) rounded
 * to nearest even, all 0 when a is below PITH_BYTES_LEAST (whose reciprocal is finite). A block
 * with a NaN or infinity has q = 0 and scale NaN. */
#define PITH_BYTES_LEAST 0x1p-100f
typedef void pith_to_bytes_fn(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                              int32_t *sum);

/* The same to three digits: q = x * (c / a) rounded, c = 127 * 65536, scale = a / c; digits from
 * -128 to 127, the last one first, `q_digit` and `sum_digit` apart. The third is at least -127, so
 * that the second and 256 times it are a number of 16 bits, which kernels may build on. */
typedef void pith_to_digits_fn(size_t n, size_t block, const float *x, int8_t *q, size_t q_digit,
                               float *scale, int32_t *sum, size_t sum_digit);
#define PITH_DIGITS_MOST 8323072.0f

/* Words of eight 4-bit codes, the first lowest, to fields of a line, in place: byte i of a field
 * has code i in its low half and code i + 4 in its high half. */
typedef void pith_to_nibbles_fn(size_t n, uint32_t *words);

#endif
