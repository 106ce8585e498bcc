/* kern/template/chain_template.h: products of a matrix as it is stored with a vector, each row one
 * chain of multiply-adds, written once for registers of VN_WIDTH floats (vn). A lane is a row:
 * squares of VN_WIDTH rows by VN_WIDTH words of 32 bits are transposed in registers, so that the
 * chains of that many rows run beside each other. The including file defines, beside its vec_*.h:
 *
 *     vn_words(p)        VN_WIDTH words from any address
 *     vn_from_f16(p)     VN_WIDTH halves from any address, widened
 *     vn_low_bf16(w), vn_high_bf16(w)   the first and the second bfloat16 of each word, widened
 *     vn_turn(r)         transposes r[0 .. VN_WIDTH)
 *
 * CHAIN_ROWS rows at a time: chains enough to hide the latency of the multiply-add. */
#include "kern/ops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { CHAIN_ROWS = 32 };

/* How elements are stored; known where it is inlined. */
enum stored { STORED_F32, STORED_BF16, STORED_F16 };

INLINE size_t stored_bytes(enum stored kind)
{
    return kind == STORED_F32 ? 4 : 2;
}

/* Columns of a square: words of two elements, or elements that are widened as they are loaded. */
INLINE size_t square_cols(enum stored kind)
{
    return kind == STORED_BF16 ? 2 * VN_WIDTH : VN_WIDTH;
}

INLINE vn square_row(enum stored kind, const char *w)
{
    return kind == STORED_F16 ? vn_from_f16(w) : vn_words(w);
}

/* Columns of word i: of those of the square only [from, to). */
INLINE vn square_step(enum stored kind, vn word, size_t i, size_t from, size_t to, const float *x,
                      vn sum)
{
    const bool two = kind == STORED_BF16;
    const size_t c = two ? 2 * i : i;
    const vn low = two ? vn_low_bf16(word) : word;
    if (c >= from && c < to) sum = vn_fma(low, vn_set(x[c]), sum);
    if (!two) return sum;
    return c + 1 >= from && c + 1 < to ? vn_fma(vn_high_bf16(word), vn_set(x[c + 1]), sum) : sum;
}

/* Spelled out, since loops over an array of vectors end up in memory. */
#define SQUARE_EACH(X)                                                                             \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* A band of CHAIN_ROWS rows, or of fewer. */
struct chain {
    size_t cols, ld; /* ld in bytes */
    const char *w;
    const float *x;
};

/* Goes on with the chains of the first `rows` rows at w by columns [from, to) of the square. */
INLINE vn square(enum stored kind, const char *w, size_t ld, size_t rows, const float *x,
                 size_t from, size_t to, vn sum)
{
    vn r[16];
#define SQUARE_LOAD(i)                                                                             \
    if ((i) < VN_WIDTH) r[i] = square_row(kind, w + ((i) < rows ? (i) : rows - 1) * ld);
    SQUARE_EACH(SQUARE_LOAD)
#undef SQUARE_LOAD
    vn_turn(r);
#define SQUARE_STEP(i)                                                                             \
    if ((i) < VN_WIDTH) sum = square_step(kind, r[i], i, from, to, x, sum);
    SQUARE_EACH(SQUARE_STEP)
#undef SQUARE_STEP
    return sum;
}

/* Columns [p, end) of rows [first, first + rows), at most VN_WIDTH, fewer columns than a square
 * has: of the square that begins or ends there, or, where rows are no longer than that, of a copy.
 */
INLINE vn part(enum stored kind, const struct chain *c, size_t first, size_t rows, size_t p,
               size_t end, vn sum)
{
    const size_t step = square_cols(kind), size = stored_bytes(kind);
    const size_t at = p + step <= c->cols ? p : c->cols - step;
    const char *w = c->w + first * c->ld;
    if (p == end) return sum;
    if (c->cols >= step)
        return square(kind, w + at * size, c->ld, rows, c->x + at, p - at, end - at, sum);
    char copy[VN_WIDTH * VN_WIDTH * 4] = {0};
    for (size_t r = 0; r < rows; r++) memcpy(copy + r * step * size, w + r * c->ld, c->cols * size);
    return square(kind, copy, step * size, rows, c->x, p, end, sum);
}

/* Asks for a line of each row of a band, for the second cache: rows are often so far apart that
 * their lines are too many for one set of the first. */
INLINE void chain_ask(const char *w, size_t ld)
{
    for (size_t r = 0; r < CHAIN_ROWS; r++) __builtin_prefetch(w + r * ld, 0, 2);
}

/* How far ahead of byte `at` of its rows: past their end come those of the next band. */
INLINE size_t chain_ahead(enum stored kind, const struct chain *c, size_t at)
{
    enum { AHEAD = 512 /* bytes, as measured */ };
    const size_t row = c->cols * stored_bytes(kind);
    return at + AHEAD + (at + AHEAD < row ? 0 : CHAIN_ROWS * c->ld - row);
}

/* Columns before rows are aligned to registers, as far as they can be: lines that two loads share
 * may be gone from the first cache by the second. */
INLINE size_t before_aligned(enum stored kind, const struct chain *c)
{
    const size_t size = stored_bytes(kind), whole = square_cols(kind) * size;
    const size_t odd = (uintptr_t)c->w % whole, n = odd ? (whole - odd) / size : 0;
    return n < c->cols ? n : c->cols;
}

/* Spelled out for the same reason. */
#define CHAIN_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

INLINE void chain_band(enum stored kind, const struct chain *c, float *y)
{
    const size_t step = square_cols(kind), size = stored_bytes(kind);
    size_t p = before_aligned(kind, c);
    vn sum[8];
    chain_ask(c->w + CHAIN_ROWS * c->ld, c->ld);
#define CHAIN_OPEN(i)                                                                              \
    if ((i)*VN_WIDTH < CHAIN_ROWS)                                                                 \
        sum[i] = part(kind, c, (i)*VN_WIDTH, VN_WIDTH, 0, p, vn_load(y + (i)*VN_WIDTH));
    CHAIN_EACH(CHAIN_OPEN)
#undef CHAIN_OPEN
    for (; p + step <= c->cols; p += step) {
        const char *w = c->w + p * size;
        if ((uintptr_t)w % 64 < step * size)
            chain_ask(c->w + chain_ahead(kind, c, p * size), c->ld);
#define CHAIN_SQUARE(i)                                                                            \
    if ((i)*VN_WIDTH < CHAIN_ROWS)                                                                 \
        sum[i] = square(kind, w + (i)*VN_WIDTH * c->ld, c->ld, VN_WIDTH, c->x + p, 0, step, sum[i]);
        CHAIN_EACH(CHAIN_SQUARE)
#undef CHAIN_SQUARE
    }
#define CHAIN_CLOSE(i)                                                                             \
    if ((i)*VN_WIDTH < CHAIN_ROWS)                                                                 \
        vn_store(y + (i)*VN_WIDTH, part(kind, c, (i)*VN_WIDTH, VN_WIDTH, p, c->cols, sum[i]));
    CHAIN_EACH(CHAIN_CLOSE)
#undef CHAIN_CLOSE
}

/* At most VN_WIDTH rows. */
INLINE void chain_last(enum stored kind, const struct chain *c, size_t rows, float *y)
{
    const size_t step = square_cols(kind), size = stored_bytes(kind);
    float sums[VN_WIDTH] = {0};
    memcpy(sums, y, rows * sizeof *y);
    vn sum = vn_load(sums);
    size_t p = 0;
    for (; p + step <= c->cols; p += step)
        sum = square(kind, c->w + p * size, c->ld, rows, c->x + p, 0, step, sum);
    vn_store(sums, part(kind, c, 0, rows, p, c->cols, sum));
    memcpy(y, sums, rows * sizeof *y);
}

INLINE void chains(enum stored kind, size_t rows, size_t cols, const void *w, size_t ldw,
                   const float *x, float *y)
{
    struct chain c = {cols, ldw * stored_bytes(kind), w, x};
    size_t r = 0;
    for (; r + CHAIN_ROWS <= rows; r += CHAIN_ROWS, c.w += CHAIN_ROWS * c.ld)
        chain_band(kind, &c, y + r);
    for (; r < rows; r += VN_WIDTH, c.w += VN_WIDTH * c.ld)
        chain_last(kind, &c, rows - r < VN_WIDTH ? rows - r : VN_WIDTH, y + r);
}

static inline void matvec_f32(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                              float *y)
{
    chains(STORED_F32, rows, cols, w, ldw, x, y);
}

static inline void matvec_bf16(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                               float *y)
{
    chains(STORED_BF16, rows, cols, w, ldw, x, y);
}

static inline void matvec_f16(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                              float *y)
{
    chains(STORED_F16, rows, cols, w, ldw, x, y);
}
#undef INLINE
#undef SQUARE_EACH
#undef CHAIN_EACH
