/* kern/template/chain_template.h: products of a matrix as it is stored with a vector, each row one
 * chain of multiply-adds, written once for registers of VN_WIDTH floats (vn). A lane is a row: a
 * block, sixteen words of 32 bits of VN_WIDTH rows, is transposed in registers, and the chains of
 * those rows run in parallel. A word is two columns of bfloat16, or one that is widened as it is
 * loaded. Blocks are whole lines, since rows are often so far apart that their lines are too many
 * for one set of the first cache: the rest of a line would be evicted before it is needed.
 *
 * Bands of BAND_ROWS rows have chains enough to hide the latency of the multiply-add. The including
 * file defines, with its vec_*.h:
 *
 *     vn_words(p)        VN_WIDTH words from any address
 *     vn_from_f16(p)     VN_WIDTH halves from any address, widened
 *     vn_low_bf16(w), vn_high_bf16(w)   the first and the second bfloat16 of each word, widened
 *     vn_transpose(r)         transposes r[0 .. VN_WIDTH)
 *     BLOCKS_AT_ONCE     2, or 1: blocks whose chains are interleaved by hand */
#include "kern/ops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { BAND_ROWS = 32, BLOCK_WORDS = 16, BLOCKS = BAND_ROWS / VN_WIDTH };

/* How elements are stored; known where it is inlined. */
enum stored { STORED_F32, STORED_BF16, STORED_F16 };

INLINE size_t stored_bytes(enum stored kind)
{
    return kind == STORED_F32 ? 4 : 2;
}

/* Columns of a block. */
INLINE size_t block_cols(enum stored kind)
{
    return kind == STORED_BF16 ? 2 * BLOCK_WORDS : BLOCK_WORDS;
}

/* A matrix, or the remaining rows of it, and x. */
struct chain {
    size_t rows, cols, ld; /* ld in bytes */
    const char *w;
    const float *x;
};

/* Spelled out, since loops over an array of vectors end up in memory. */
#define CHAIN_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define CHAIN_16(X) CHAIN_8(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

/* The block at w, word i of all rows in r[i]; rows from `rows` on are the last one again.
 * Prefetches the line at `ahead`, when that is not NULL, and those below it into the second cache.
 */
INLINE void load_block(enum stored kind, const char *w, size_t ld, size_t rows, const char *ahead,
                       vn r[BLOCK_WORDS])
{
    const size_t size = kind == STORED_F16 ? 2 : 4; /* of what becomes a word */
#define BLOCK_ASK(i)                                                                               \
    if (ahead && (i) < VN_WIDTH) __builtin_prefetch(ahead + (i)*ld, 0, 2);
#define BLOCK_LOAD(i)                                                                              \
    {                                                                                              \
        const size_t row = (i) % VN_WIDTH, word = (i) / VN_WIDTH * VN_WIDTH;                       \
        const char *at = w + (row < rows ? row : rows - 1) * ld + word * size;                     \
        r[i] = kind == STORED_F16 ? vn_from_f16(at) : vn_words(at);                                \
    }
#define TRANSPOSE_WIDTH(i)                                                                         \
    if ((i) % VN_WIDTH == 0) vn_transpose(r + (i));
    CHAIN_16(BLOCK_ASK)
    CHAIN_16(BLOCK_LOAD)
    CHAIN_16(TRANSPOSE_WIDTH)
#undef BLOCK_ASK
#undef BLOCK_LOAD
#undef TRANSPOSE_WIDTH
}

/* Word i of a block: of its columns those in [from, to). */
INLINE vn word_step(enum stored kind, vn word, size_t i, const float *x, size_t from, size_t to,
                    vn sum)
{
    const bool two = kind == STORED_BF16;
    const size_t c = two ? 2 * i : i;
    const vn low = two ? vn_low_bf16(word) : word;
    if (c >= from && c < to) sum = vn_fma(low, vn_set(x[c]), sum);
    if (!two) return sum;
    return c + 1 >= from && c + 1 < to ? vn_fma(vn_high_bf16(word), vn_set(x[c + 1]), sum) : sum;
}

/* Goes on with the chains of `rows` rows by columns [from, to) of the block at w. */
static vn block_part(enum stored kind, const char *w, size_t ld, size_t rows, const float *x,
                     size_t from, size_t to, vn sum)
{
    vn r[BLOCK_WORDS];
    load_block(kind, w, ld, rows, NULL, r);
#define PART_STEP(i) sum = word_step(kind, r[i], i, x, from, to, sum);
    CHAIN_16(PART_STEP)
#undef PART_STEP
    return sum;
}

/* Columns [p, end) of rows [first, first + VN_WIDTH), fewer than a block has or as many: of the
 * block that begins or ends there, or, where rows are no longer than that, of a copy. */
INLINE vn rows_part(enum stored kind, const struct chain *c, size_t first, size_t p, size_t end,
                    vn sum)
{
    const size_t step = block_cols(kind), size = stored_bytes(kind);
    const size_t rows = c->rows - first < VN_WIDTH ? c->rows - first : VN_WIDTH;
    const size_t at = p + step <= c->cols ? p : c->cols - step;
    const char *w = c->w + first * c->ld;
    if (p == end) return sum;
    if (c->cols >= step)
        return block_part(kind, w + at * size, c->ld, rows, c->x + at, p - at, end - at, sum);
    char copy[VN_WIDTH * BLOCK_WORDS * 4] = {0};
    for (size_t r = 0; r < rows; r++) memcpy(copy + r * step * size, w + r * c->ld, c->cols * size);
    return block_part(kind, copy, step * size, rows, c->x, p, end, sum);
}

/* How far ahead of byte `at` of a band's rows to ask: past their end come those of the next band.
 */
INLINE size_t band_ahead(enum stored kind, const struct chain *c, size_t at)
{
    /* The line behind: from further on, rows that begin late in a page are read a third slower. */
    enum { AHEAD = 64 };
    const size_t row = c->cols * stored_bytes(kind);
    return AHEAD + (at + AHEAD < row ? 0 : BAND_ROWS * c->ld - row);
}

/* BLOCKS_AT_ONCE blocks, the first at w. */
INLINE void blocks_step(enum stored kind, const char *w, size_t ld, size_t ahead, const float *x,
                        vn *sum)
{
    const size_t step = block_cols(kind);
    vn r[BLOCK_WORDS], s[BLOCK_WORDS];
    load_block(kind, w, ld, VN_WIDTH, w + ahead, r);
    if (BLOCKS_AT_ONCE == 2) {
        w += VN_WIDTH * ld;
        __asm__("" : "+r"(w)); /* see band_step() */
        load_block(kind, w, ld, VN_WIDTH, w + ahead, s);
    }
#define BLOCKS_WORD(i)                                                                             \
    sum[0] = word_step(kind, r[i], i, x, 0, step, sum[0]);                                         \
    if (BLOCKS_AT_ONCE == 2) sum[1] = word_step(kind, s[i], i, x, 0, step, sum[1]);
    CHAIN_16(BLOCKS_WORD)
#undef BLOCKS_WORD
}

/* Columns [p, p + a block's) of a whole band. */
INLINE void band_step(enum stored kind, const struct chain *c, size_t p, vn sum[8])
{
    const size_t at = p * stored_bytes(kind), ahead = band_ahead(kind, c, at);
    const char *w = c->w + at;
/* Hidden from the compiler, so that it does not step a pointer for every row: there are more than
 * registers. */
#define BAND_BLOCKS(i)                                                                             \
    if ((i) < BLOCKS && (i) % BLOCKS_AT_ONCE == 0) {                                               \
        __asm__("" : "+r"(w));                                                                     \
        blocks_step(kind, w, c->ld, ahead, c->x + p, sum + (i));                                   \
        w += BLOCKS_AT_ONCE * VN_WIDTH * c->ld;                                                    \
    }
    CHAIN_8(BAND_BLOCKS)
#undef BAND_BLOCKS
}

/* Columns before rows are aligned to lines, as far as they can be. */
INLINE size_t before_aligned(enum stored kind, const struct chain *c)
{
    const size_t size = stored_bytes(kind), whole = block_cols(kind) * size;
    const size_t odd = (uintptr_t)c->w % whole, n = odd ? (whole - odd) / size : 0;
    return n < c->cols ? n : c->cols;
}

/* The first BAND_ROWS rows. */
INLINE void whole_band(enum stored kind, const struct chain *c, float *y)
{
    const size_t step = block_cols(kind);
    size_t p = before_aligned(kind, c);
    vn sum[8];
    for (size_t r = 0; r < BAND_ROWS; r++) /* of the next band, the lines before band_ahead()'s */
        __builtin_prefetch(c->w + (BAND_ROWS + r) * c->ld, 0, 2);
#define BAND_OPEN(i)                                                                               \
    if ((i) < BLOCKS) sum[i] = rows_part(kind, c, (i)*VN_WIDTH, 0, p, vn_load(y + (i)*VN_WIDTH));
#define BAND_CLOSE(i)                                                                              \
    if ((i) < BLOCKS)                                                                              \
        vn_store(y + (i)*VN_WIDTH, rows_part(kind, c, (i)*VN_WIDTH, p, c->cols, sum[i]));
    CHAIN_8(BAND_OPEN)
    for (; p + step <= c->cols; p += step) band_step(kind, c, p, sum);
    CHAIN_8(BAND_CLOSE)
#undef BAND_OPEN
#undef BAND_CLOSE
}

/* The first VN_WIDTH rows, or all where there are fewer. */
INLINE void few_rows(enum stored kind, const struct chain *c, float *y)
{
    const size_t rows = c->rows < VN_WIDTH ? c->rows : VN_WIDTH, step = block_cols(kind);
    float all[VN_WIDTH] = {0};
    memcpy(all, y, rows * sizeof *y);
    vn sum = vn_load(all);
    for (size_t p = 0; p < c->cols; p += step)
        sum = rows_part(kind, c, 0, p, p + step < c->cols ? p + step : c->cols, sum);
    vn_store(all, sum);
    memcpy(y, all, rows * sizeof *y);
}

INLINE void chains(enum stored kind, size_t rows, size_t cols, const void *w, size_t ldw,
                   const float *x, float *y)
{
    struct chain c = {rows, cols, ldw * stored_bytes(kind), w, x};
    for (; c.rows >= BAND_ROWS; c.rows -= BAND_ROWS, c.w += BAND_ROWS * c.ld, y += BAND_ROWS)
        whole_band(kind, &c, y);
    for (; c.rows > 0; c.w += VN_WIDTH * c.ld, y += VN_WIDTH) {
        few_rows(kind, &c, y);
        c.rows = c.rows > VN_WIDTH ? c.rows - VN_WIDTH : 0;
    }
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
#undef CHAIN_8
#undef CHAIN_16
