/* The tile of the fast product: 32 vectors by 32 rows of W, four tiles of sums.
 *
 *     x:  [word / 16][32 vectors][16 words]     W:  lines of 64 bytes, a word of 16 rows of a panel
 *         tile 4: vectors  0 to 15                  tile 6: the first panel, 16 lines
 *         tile 5: vectors 16 to 31                  tile 7: the second
 *
 * so that every load of a tile reads 1 KiB straight on. Codes are unpacked as signed bytes with the
 * zero point taken off, so that a block needs no more than its products; only bytes with zero
 * points of their own stay unsigned, and theirs are taken off afterwards.
 *
 * A step of 64 columns is four loads (8 cycles each, on two ports that load 64 bytes) and four
 * products (16 cycles each), 64 cycles. When a block ends its sums go to memory (16 cycles a tile:
 * one store of 64 bytes a cycle) and come back to the vector units, which turn them into float32
 * and add them up (two operations for 16 sums, on two ports: 64 cycles for the 64 vectors). So the
 * ends of blocks of 64 columns cost as much as their products on other units, and all depends on
 * that the two happen at once: while the products of some blocks, a `unit`, are made, the sums of
 * the unit before are turned, a share of them beside each block, since the processor sees no
 * further ahead than that. The sums of a row pass through memory once for a unit.
 * (Cycles: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20.) */
#include "kern/amx/shapes.h"

#include <stdalign.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 32, COLS = 32, SUMS = ROWS * COLS, UNIT = 2, SHARE = 4 /* rows */, HALF = 16 };
enum { LINE_WORDS = 16, STRIDE = COLS * 4 /* bytes of a row of sums */ };

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- products ----------------------------------------------------------------------------------
 */

/* Where word `word` of the first vector of a tile is, and bytes to the next vector. */
struct place {
    const uint32_t *at;
    size_t stride;
};

INLINE struct place x_at(const struct pith_byte_tile *a, size_t word)
{
    const size_t line = word / LINE_WORDS, left = a->cols / 4 - line * LINE_WORDS;
    return (struct place){a->x + line * LINE_WORDS * ROWS + word % LINE_WORDS,
                          4 * least(left, LINE_WORDS)};
}

#define STEP(product, x, x_stride, w, w_panel)                                                     \
    {                                                                                              \
        const char *const x_ = (const char *)(x);                                                  \
        const uint8_t *const w_ = (w);                                                             \
        _tile_loadd(6, w_, AMX_LINE);                                                              \
        _tile_loadd(4, x_, x_stride);                                                              \
        product(0, 4, 6);                                                                          \
        _tile_loadd(7, w_ + (w_panel), AMX_LINE);                                                  \
        product(1, 4, 7);                                                                          \
        _tile_loadd(5, x_ + AMX_ROWS * (x_stride), x_stride);                                      \
        product(2, 5, 6);                                                                          \
        product(3, 5, 7);                                                                          \
    }

/* What fills less than a step, with zeros behind it. */
struct rest {
    alignas(64) uint32_t x[ROWS][LINE_WORDS];
    uint8_t w[2][AMX_TILE];
};

INLINE void fill_rest(const struct pith_byte_tile *a, struct place x, const uint8_t *w,
                      size_t words, struct rest *r)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < ROWS; i++) memcpy(r->x[i], (const char *)x.at + i * x.stride, 4 * words);
    for (size_t i = 0; i < 2; i++) memcpy(r->w[i], w + i * a->w_panel, words * AMX_LINE);
    /* gcc 12 does not know that a tile is loaded from memory. */
    __asm__ volatile("" : : "r"(r) : "memory");
}

/* Adds the products of words [word, end) to the sums. A step stays within a line of x. */
INLINE void multiply(const struct pith_byte_tile *a, bool codes, size_t step, size_t word,
                     size_t end)
{
    struct rest rest;
    for (size_t n; word < end; word += n) {
        const size_t room = LINE_WORDS - word % LINE_WORDS;
        const uint8_t *w = a->w + (word - a->col / 4) * AMX_LINE;
        const struct place x = x_at(a, word);
        n = least(least(room, step), end - word);
        if (n < step) {
            fill_rest(a, x, w, n, &rest);
            if (codes) STEP(_tile_dpbsud, rest.x, AMX_LINE, rest.w[0], AMX_TILE)
            else STEP(_tile_dpbssd, rest.x, AMX_LINE, rest.w[0], AMX_TILE)
        } else if (codes) {
            STEP(_tile_dpbsud, x.at, x.stride, w, a->w_panel)
        } else {
            STEP(_tile_dpbssd, x.at, x.stride, w, a->w_panel)
        }
    }
}

INLINE void sums_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

INLINE void sums_load(const int32_t *d)
{
    _tile_loadd(0, d, STRIDE);
    _tile_loadd(1, d + HALF, STRIDE);
    _tile_loadd(2, d + SUMS / 2, STRIDE);
    _tile_loadd(3, d + SUMS / 2 + HALF, STRIDE);
}

INLINE void sums_store(int32_t *d)
{
    _tile_stored(0, d, STRIDE);
    _tile_stored(1, d + HALF, STRIDE);
    _tile_stored(2, d + SUMS / 2, STRIDE);
    _tile_stored(3, d + SUMS / 2 + HALF, STRIDE);
}

/* --- the ends of blocks ------------------------------------------------------------------------
 */

struct block {
    const float *x_scale;
    const int32_t *less, *zero; /* for codes only */
    const float *scale;         /* the group's, if it ends with the block, else NULL */
};

/* Blocks that end, and their sums. */
struct unit {
    alignas(64) int32_t d[UNIT][SUMS];
    struct block block[UNIT];
    size_t count;
    bool group_begins, group_ends, row_begins; /* with the first, the last, the first to end one */
};

/* Two panels of SHARE vectors. */
struct sums {
    __m512 v[SHARE][2];
};
#define EACH_SUM                                                                                   \
    _Pragma("GCC unroll 4") for (size_t i = 0; i < SHARE; i++)                                     \
        _Pragma("GCC unroll 2") for (size_t j = 0; j < 2; j++)

INLINE void load(struct sums *s, bool zero, const float *from)
{
    EACH_SUM s->v[i][j] = zero ? _mm512_setzero_ps() : _mm512_loadu_ps(from + i * COLS + j * HALF);
}

INLINE void store(const struct sums *s, float *to)
{
    EACH_SUM _mm512_storeu_ps(to + i * COLS + j * HALF, s->v[i][j]);
}

INLINE __m512i whole_sum(const struct block *b, bool codes, size_t panel, const int32_t *d,
                         size_t row, size_t j)
{
    const __m512i sum = _mm512_load_si512(d + j * HALF);
    if (!codes) return sum;
    const __m512i zero = _mm512_loadu_si512(b->zero + j * panel);
    return _mm512_add_epi32(sum, _mm512_mullo_epi32(zero, _mm512_set1_epi32(b->less[row])));
}

INLINE void add_block(struct sums *t, const struct block *b, bool codes, size_t panel,
                      const int32_t *d, size_t row)
{
    EACH_SUM
    t->v[i][j] =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole_sum(b, codes, panel, d + i * COLS, row + i, j)),
                        _mm512_set1_ps(b->x_scale[row + i]), t->v[i][j]);
}

INLINE void end_group(struct sums *y, struct sums *t, const float *scale, size_t panel)
{
    EACH_SUM
    {
        y->v[i][j] = _mm512_fmadd_ps(_mm512_loadu_ps(scale + j * panel), t->v[i][j], y->v[i][j]);
        t->v[i][j] = _mm512_setzero_ps();
    }
}

/* Adds up a unit's sums of vectors [row, end). */
INLINE void turn(const struct pith_byte_tile *a, bool codes, const struct unit *u, size_t row,
                 size_t end)
{
    for (; row < end; row += SHARE) {
        const size_t at = row * COLS;
        struct sums t, y;
        bool rows = false; /* y is there */
        load(&t, u->group_begins, a->t + at);
        for (size_t k = 0; k < u->count; k++) {
            const struct block *b = &u->block[k];
            add_block(&t, b, codes, a->scale_panel, u->d[k] + at, row);
            if (!b->scale) continue;
            if (!rows) load(&y, u->row_begins, a->y + at);
            rows = true;
            end_group(&y, &t, b->scale, a->scale_panel);
        }
        if (rows) store(&y, a->y + at);
        if (!u->group_ends) store(&t, a->t + at);
    }
}

/* --- the tile ----------------------------------------------------------------------------------
 */

struct state {
    const struct pith_byte_tile *a;
    size_t step, col;
    struct unit unit[2];
};

/* The columns of the block at s->col: where it ends, if it does so before the call's columns do,
 * and whether the group ends there too. */
struct reach {
    size_t end;
    bool block, group;
};

INLINE struct reach reach_of(const struct pith_byte_tile *a, size_t col)
{
    const size_t group_end = least((col / a->group + 1) * a->group, a->cols);
    const size_t block_end = least((col / a->block + 1) * a->block, group_end);
    const size_t end = least(block_end, a->col + a->n);
    return (struct reach){end, end == block_end, end == group_end};
}

/* The products of a block, or of what there is of it; its end goes to u. False at a block that does
 * not end. */
INLINE bool take_block(struct state *s, bool codes, struct unit *u, const struct unit *before)
{
    const struct pith_byte_tile *a = s->a;
    const size_t col = s->col, group = col / a->group, k = u->count;
    const size_t at = (group - a->col / a->group) * PITH_PANEL_ROWS;
    const struct reach to = reach_of(a, col);
    if (col == a->col && col % a->group % a->block > 0) sums_load(a->d);
    else sums_zero();
    multiply(a, codes, s->step, col / 4, to.end / 4);
    s->col = to.end;
    if (before->count > 0) turn(a, codes, before, k * (ROWS / UNIT), (k + 1) * (ROWS / UNIT));
    if (!to.block) {
        sums_store(a->d);
        return false;
    }
    sums_store(u->d[k]);
    u->block[k] = (struct block){.x_scale = a->x_scale + col / a->block * ROWS,
                                 .less = a->x_less + col / a->block * ROWS,
                                 .zero = codes ? a->zero + at : NULL,
                                 .scale = to.group ? a->scale + at : NULL};
    u->group_ends = to.group;
    if (to.group && group == 0) u->row_begins = true;
    u->count++;
    return true;
}

INLINE void run(const struct pith_byte_tile *a, bool codes)
{
    const size_t end = a->col + a->n;
    struct state s; /* not cleared: it is large */
    struct unit *u = &s.unit[0], *before = &s.unit[1];
    s.a = a;
    s.step = pith_bytes_step(a->block);
    s.col = a->col;
    before->count = 0;
    while (s.col < end) {
        u->count = 0;
        u->row_begins = false;
        u->group_begins = (s.col - s.col % a->group % a->block) % a->group == 0;
        bool more = true;
        while (more && u->count < UNIT && s.col < end) more = take_block(&s, codes, u, before);
        /* The rows of the unit before that had no block beside them. */
        const size_t done = u->count + !more;
        if (before->count > 0 && done < UNIT) turn(a, codes, before, done * (ROWS / UNIT), ROWS);
        struct unit *const next = before;
        before = u;
        u = next;
    }
    if (before->count > 0) turn(a, codes, before, 0, ROWS);
}

void pith_bytes_tile_amx(const struct pith_byte_tile *a)
{
    if (a->zero && a->form == PITH_PANEL_INT8) run(a, true);
    else run(a, false);
}

/* --- operands ----------------------------------------------------------------------------------
 */

/* What is taken off the codes of a panel in a group, in every byte of a row's word. */
INLINE __m512i zero_of(const struct pith_panels *m, size_t panel, size_t group)
{
    if (!m->zeros) return _mm512_set1_epi8((char)(int)m->zero);
    const uint8_t *zeros = m->zeros + (panel * m->groups + group) * PITH_PANEL_ROWS;
    const __m512i z = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
    return _mm512_mullo_epi32(z, _mm512_set1_epi32(0x01010101));
}

void pith_bytes_unpack_amx(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                           uint8_t *dst)
{
    const bool level4 = m->form == PITH_PANEL_LEVEL4;
    if (!level4 && m->zeros) {
        pith_bytes_unpack_vnni(m, panel, col, n, dst);
        return;
    }
    const size_t width = level4 ? 8 : 4, end = col + n;
    const uint8_t *line = m->codes + (panel * pith_panel_lines(m) + col / width) * PITH_PANEL_LINE;
    const __m512i low = _mm512_set1_epi8(15);
    while (col < end) {
        const __m512i zero = zero_of(m, panel, col / m->group);
        const size_t stop = m->zeros ? least((col / m->group + 1) * m->group, end) : end;
        for (; col < stop; col += width, line += PITH_PANEL_LINE, dst += PITH_PANEL_LINE) {
            const __m512i v = _mm512_load_si512(line);
            if (!level4) {
                _mm512_storeu_si512(dst, _mm512_sub_epi8(v, zero));
                continue;
            }
            _mm512_storeu_si512(dst, _mm512_sub_epi8(_mm512_and_si512(v, low), zero));
            dst += PITH_PANEL_LINE;
            _mm512_storeu_si512(
                dst, _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), low), zero));
        }
    }
}

void pith_bytes_words_amx(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    for (size_t line = 0; line < words; line += LINE_WORDS) {
        const size_t n = least(words - line, LINE_WORDS);
        uint32_t *to = x + line * ROWS + first * n;
        for (size_t r = 0; r < count; r++, to += n) memcpy(to, q + (r * words + line) * 4, 4 * n);
    }
}
