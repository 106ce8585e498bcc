/* kern/amx/byte_products.h: the tile of 32 vectors by 32 rows of W, four tiles of sums.
 *
 *     x:  [word / 16][digits][32 vectors][16 words]   W:  lines of 64 bytes, a word of 16 rows
 *         tile 4: vectors  0 to 15                        tile 6: the first panel, 16 lines
 *         tile 5: vectors 16 to 31                        tile 7: the second
 *
 * so that every load of a tile reads 1 KiB straight on. Codes are unpacked as signed bytes with the
 * zero point taken off, so that a block needs no more than its products; only bytes with separate
 * zero points (`codes`) stay unsigned, and theirs are subtracted afterwards. For few vectors memory
 * is the limit: their tile unpacks codes itself, and prefetches the lines behind them.
 *
 * A step of 64 columns is four loads (8 cycles each, on two ports that load 64 bytes) and four
 * products (16 cycles each), 64 cycles. When a block ends its sums go to memory (16 cycles a tile:
 * one store of 64 bytes a cycle) and come back to the vector units, which convert them to float32
 * and add them up. These work on other ports, so speed depends on overlapping both: while the
 * products of some columns are made, the sums of earlier columns are converted, a share of them
 * with each block or digit, since the processor looks no further ahead than that. (Cycles: Intel 64
 * and IA-32 Architectures Optimization Reference Manual, chapter 20.) */
#ifndef PITH_KERN_AMX_BYTE_PRODUCTS_H
#define PITH_KERN_AMX_BYTE_PRODUCTS_H

#include "kern/amx/shapes.h"

#include <stdalign.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 32, COLS = 32, SUMS = ROWS * COLS, SHARE = 4 /* rows */, HALF = 16 };
enum { LINE_WORDS = 16, STRIDE = COLS * 4 /* bytes of a row of sums */ };

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- products --------------------------------------------------------------------------------- */

/* Where word `word` of a digit of the first vector of a tile is, and bytes to the next vector. */
struct place {
    const uint32_t *at;
    size_t stride;
};

INLINE struct place x_at(const struct pith_byte_tile *a, size_t digits, size_t digit, size_t word)
{
    const size_t line = word / LINE_WORDS, left = a->cols / 4 - line * LINE_WORDS;
    const size_t width = least(left, LINE_WORDS);
    return (struct place){a->x + line * LINE_WORDS * digits * ROWS + digit * ROWS * width +
                              word % LINE_WORDS,
                          4 * width};
}

/* `half`: vectors 0 to 15 alone. */
#define STEP(product, half, x, x_stride, first, second)                                            \
    {                                                                                              \
        const char *const x_ = (const char *)(x);                                                  \
        _tile_loadd(6, first, AMX_LINE);                                                           \
        _tile_loadd(4, x_, x_stride);                                                              \
        product(0, 4, 6);                                                                          \
        _tile_loadd(7, second, AMX_LINE);                                                          \
        product(1, 4, 7);                                                                          \
        if (!(half)) {                                                                             \
            _tile_loadd(5, x_ + AMX_ROWS * (x_stride), x_stride);                                  \
            product(2, 5, 6);                                                                      \
            product(3, 5, 7);                                                                      \
        }                                                                                          \
    }

/* What fills less than a step, with zeros behind it. */
struct rest {
    alignas(64) uint32_t x[ROWS][LINE_WORDS];
    uint8_t w[2][AMX_TILE];
};

INLINE void fill_rest(struct place x, const uint8_t *const w[2], size_t words, struct rest *r)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < ROWS; i++) memcpy(r->x[i], (const char *)x.at + i * x.stride, 4 * words);
    for (size_t i = 0; i < 2; i++) memcpy(r->w[i], w[i], words * AMX_LINE);
    /* gcc 12 does not know that a tile is loaded from memory. */
    __asm__ volatile("" : : "r"(r) : "memory");
}

/* How a tile is computed: `codes` with separate zero points; the first sixteen vectors only. */
struct shape {
    bool codes, half;
};
INLINE size_t rows_of(struct shape s)
{
    return s.half ? ROWS / 2 : ROWS;
}

/* Codes that are read as they are stored become signed bytes some way ahead of the products that
 * take them, or these would wait for the stores: a ring of lines of both panels, with room for a
 * block of digits. */
enum { RING = PITH_DIGITS_BLOCK / 4, AHEAD_WORDS = 2 * LINE_WORDS };
struct ring {
    alignas(64) uint8_t line[2][RING][AMX_LINE];
    bool used;
    size_t filled, group_end; /* words */
    const int32_t *zero;      /* of the group; NULL: none */
};

INLINE __m512i zero_bytes(const struct pith_byte_tile *a, const int32_t *zero)
{
    if (!zero) return _mm512_set1_epi8((char)a->middle);
    return _mm512_mullo_epi32(_mm512_loadu_si512(zero), _mm512_set1_epi32(0x01010101));
}

/* `words` words of a panel, from the line of `word` on; ahead: bytes to what is prefetched. */
INLINE void unpack_bytes(const uint8_t *at, size_t ahead, size_t words, __m512i zero, uint8_t *to)
{
    for (size_t i = 0; i < words; i++, at += AMX_LINE, to += AMX_LINE) {
        __builtin_prefetch(at + ahead, 0, 2);
        _mm512_store_si512(to, _mm512_sub_epi8(_mm512_loadu_si512(at), zero));
    }
}
INLINE void unpack_halves(const uint8_t *at, size_t ahead, size_t words, __m512i zero,
                          const __m512i *table, uint8_t *to)
{
    const __m512i low = _mm512_set1_epi8(15);
    for (size_t i = 0; i < words; i += 2, at += AMX_LINE, to += (size_t)2 * AMX_LINE) {
        const __m512i v = _mm512_loadu_si512(at);
        __m512i x = _mm512_and_si512(v, low), y = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
        __builtin_prefetch(at + ahead, 0, 2);
        if (table) {
            x = _mm512_shuffle_epi8(*table, x);
            y = _mm512_shuffle_epi8(*table, y);
        }
        _mm512_store_si512(to, _mm512_sub_epi8(x, zero));
        _mm512_store_si512(to + AMX_LINE, _mm512_sub_epi8(y, zero));
    }
}

/* Words [word, word + n) of both panels, of one group. */
static void unpack_step(const struct pith_byte_tile *a, size_t word, size_t n, struct ring *to)
{
    const bool halves = a->factors || a->form == PITH_PANEL_LEVEL4;
    const size_t each = halves ? AMX_LINE / 2 : AMX_LINE, place = word % RING;
    const size_t ahead =
        pith_panel_ahead(a->adjacent, a->cols / 4 * each, word * each, PITH_AHEAD_BYTES);
    for (size_t p = 0; p < 2; p++) {
        const uint8_t *const at = a->w[p] + (word - a->col / 4) * each;
        const __m512i less = zero_bytes(a, to->zero ? to->zero + p * a->scale_panel : NULL);
        if (a->factors) {
            const __m128i *const factor = (const __m128i *)(const void *)a->factor;
            const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(factor));
            unpack_halves(at, ahead, n, less, &table, to->line[p][place]);
        } else if (halves) {
            unpack_halves(at, ahead, n, less, NULL, to->line[p][place]);
        } else {
            unpack_bytes(at, ahead, n, less, to->line[p][place]);
        }
    }
}

static void ring_open(const struct pith_byte_tile *a, bool codes, struct ring *r)
{
    r->used = a->stored && !codes;
    r->filled = a->col / 4;
    r->group_end = least((a->col / a->group + 1) * a->group, a->cols) / 4;
    r->zero = a->zero;
}

/* Fills it up to word `end` or the last of the call. */
static void ring_fill(const struct pith_byte_tile *a, struct ring *r, size_t end)
{
    end = least(end, (a->col + a->n) / 4);
    for (size_t n; r->filled < end; r->filled += n) {
        if (r->filled == r->group_end) {
            r->group_end = least(r->group_end + a->group / 4, a->cols / 4);
            r->zero = r->zero ? r->zero + PITH_PANEL_ROWS : NULL;
        }
        n = least(LINE_WORDS - r->filled % LINE_WORDS, least(end, r->group_end) - r->filled);
        unpack_step(a, r->filled, n, r);
    }
    /* gcc 12 does not know that a tile is loaded from memory. */
    __asm__ volatile("" : : "r"(r) : "memory");
}

/* Words [word, end) of a digit of x. */
struct span {
    size_t digits, digit, word, end;
};

/* Adds their products to the sums. A step stays within a line of x. */
INLINE void multiply(const struct pith_byte_tile *a, struct shape s, struct span of, struct ring *r)
{
    const size_t step = pith_bytes_step(a->block);
    struct rest rest;
    for (size_t word = of.word, n; word < of.end; word += n) {
        const size_t room = LINE_WORDS - word % LINE_WORDS;
        const size_t line = (word - a->col / 4) * AMX_LINE;
        const struct place x = x_at(a, of.digits, of.digit, word);
        const uint8_t *w[2] = {a->w[0] + line, a->w[1] + line};
        n = least(least(room, step), of.end - word);
        if (r->used) {
            if (of.digits == 1) ring_fill(a, r, word + AHEAD_WORDS);
            w[0] = r->line[0][word % RING];
            w[1] = r->line[1][word % RING];
        }
        if (n < step) {
            fill_rest(x, w, n, &rest);
            if (s.codes) STEP(_tile_dpbsud, s.half, rest.x, AMX_LINE, rest.w[0], rest.w[1])
            else STEP(_tile_dpbssd, s.half, rest.x, AMX_LINE, rest.w[0], rest.w[1])
        } else if (s.codes) {
            STEP(_tile_dpbsud, s.half, x.at, x.stride, w[0], w[1])
        } else {
            STEP(_tile_dpbssd, s.half, x.at, x.stride, w[0], w[1])
        }
    }
}

INLINE void sums_zero(bool half)
{
    _tile_zero(0);
    _tile_zero(1);
    if (half) return;
    _tile_zero(2);
    _tile_zero(3);
}

INLINE void sums_load(bool half, const int32_t *d)
{
    _tile_loadd(0, d, STRIDE);
    _tile_loadd(1, d + HALF, STRIDE);
    if (half) return;
    _tile_loadd(2, d + SUMS / 2, STRIDE);
    _tile_loadd(3, d + SUMS / 2 + HALF, STRIDE);
}

INLINE void sums_store(bool half, int32_t *d)
{
    _tile_stored(0, d, STRIDE);
    _tile_stored(1, d + HALF, STRIDE);
    if (half) return;
    _tile_stored(2, d + SUMS / 2, STRIDE);
    _tile_stored(3, d + SUMS / 2 + HALF, STRIDE);
}

/* --- sums in float32 -------------------------------------------------------------------------- */

/* Two panels of SHARE vectors. */
struct amx_sums {
    __m512 v[SHARE][2];
};
#define EACH_SUM                                                                                   \
    _Pragma("GCC unroll 4") for (size_t i = 0; i < SHARE; i++)                                     \
        _Pragma("GCC unroll 2") for (size_t j = 0; j < 2; j++)

INLINE void load(struct amx_sums *s, bool zero, const float *from)
{
    EACH_SUM s->v[i][j] = zero ? _mm512_setzero_ps() : _mm512_loadu_ps(from + i * COLS + j * HALF);
}

INLINE void store(const struct amx_sums *s, float *to)
{
    EACH_SUM _mm512_storeu_ps(to + i * COLS + j * HALF, s->v[i][j]);
}

/* Sixteen integers that wait in d; of codes with the zero points taken off: less * zero. */
INLINE __m512i whole_sum(bool codes, const int32_t *d, int32_t less, const int32_t *zero)
{
    const __m512i sum = _mm512_load_si512(d);
    if (!codes) return sum;
    return _mm512_add_epi32(sum,
                            _mm512_mullo_epi32(_mm512_loadu_si512(zero), _mm512_set1_epi32(less)));
}

INLINE void end_group(struct amx_sums *y, struct amx_sums *t, const float *scale, size_t panel)
{
    EACH_SUM
    {
        y->v[i][j] = _mm512_fmadd_ps(_mm512_loadu_ps(scale + j * panel), t->v[i][j], y->v[i][j]);
        t->v[i][j] = _mm512_setzero_ps();
    }
}

/* Where a call has come to: the columns [col, end) are the rest of a block, or what there is of it
 * before the call's columns end, all in one group. */
struct reach {
    size_t col, end, block, group;
    size_t block_end, group_end;
    size_t lists; /* where those of the group are */
};

INLINE void reach_on(const struct pith_byte_tile *a, struct reach *r)
{
    r->end = least(least(r->block_end, r->group_end), a->col + a->n);
}

INLINE struct reach reach_open(const struct pith_byte_tile *a)
{
    struct reach r = {.col = a->col, .block = a->col / a->block, .group = a->col / a->group};
    r.block_end = (r.block + 1) * a->block;
    r.group_end = least((r.group + 1) * a->group, a->cols);
    reach_on(a, &r);
    return r;
}

INLINE bool ends_block(const struct reach *r)
{
    return r->end == least(r->block_end, r->group_end);
}
INLINE bool ends_group(const struct reach *r)
{
    return r->end == r->group_end;
}

/* To what is behind it. */
INLINE void reach_next(const struct pith_byte_tile *a, struct reach *r)
{
    r->col = r->end;
    if (r->col == r->block_end) {
        r->block++;
        r->block_end += a->block;
    }
    if (r->col == r->group_end) {
        r->group++;
        r->group_end = least(r->group_end + a->group, a->cols);
        r->lists += PITH_PANEL_ROWS;
    }
    reach_on(a, r);
}

#endif
