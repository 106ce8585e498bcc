/* The tile of the fast product: 4 vectors by 16 rows. Products of 4-bit codes with bytes are added
 * up in 16 bits, eight words at a time: |sum| <= 8 * 2 * 15 * 127 < 2^15, half as many of small
 * factors; a byte counts as two 4-bit codes, the upper one sixteen times. What is seldom needed,
 * sums of blocks and of groups, stays in memory. */
#include "kern/avx2/panel_avx2.h"
#include "kern/avx2/planes_avx2.h"
#include "kern/avx2/whole_avx2.h"
#include "kern/ops.h"

enum { ROWS = 4, COLS = PITH_PANEL_ROWS, RUN = 8, LANES = 8 };
#define EACH(X) X(0) X(1) X(2) X(3)

/* The sums of a block: rows 0 to 7 and 8 to 15 of the panel for the vectors of a tile. */
struct whole {
#define FIELD(i) __m256i a##i, b##i;
    EACH(FIELD)
#undef FIELD
};

/* d + the sums of pairs in p, times factor. */
INLINE __m256i widen(__m256i d, __m256i p, int factor)
{
    return _mm256_add_epi32(d, _mm256_madd_epi16(p, _mm256_set1_epi16((short)factor)));
}

/* What a tile reads: lines of 4-bit codes that were unpacked, of two times eight rows or of the
 * halves of eight rows' bytes; or those as they are stored. */
enum codes { LINES, HALVES, STORED, FACTORS, STORED_BYTES };

/* Where a tile is in a panel. */
struct place {
    const uint8_t *w;
    __m256i table; /* of FACTORS */
    size_t ahead;
};

/* The codes of one word of x. */
struct pair {
    __m256i u, v;
};

INLINE __m256i low_of(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

INLINE __m256i high_of(__m256i v)
{
    return low_of(_mm256_srli_epi16(v, 4));
}

/* Of the word that many words on. Of bytes: those of rows 0 to 7, or of the other `half`. */
INLINE struct pair pair_at(enum codes kind, const struct place *p, size_t word, size_t half)
{
    if (kind == LINES) {
        const uint8_t *at = p->w + word * PITH_PANEL_LINE;
        return (struct pair){load(at), load(at + 32)};
    }
    if (kind == HALVES) {
        const uint8_t *at = p->w + word * PITH_BYTES_LINE + 32 * half;
        return (struct pair){load(at), load(at + PITH_PANEL_LINE)};
    }
    if (kind == STORED_BYTES) {
        const uint8_t *at = p->w + word * PITH_PANEL_LINE + 32 * half;
        const __m256i v = load(at);
        __builtin_prefetch(at + p->ahead);
        return (struct pair){low_of(v), high_of(v)};
    }
    const uint8_t *at = p->w + word / 2 * PITH_PANEL_LINE;
    __m256i u = load(at), v = load(at + 32);
    if (word % 2 == 0) __builtin_prefetch(at + p->ahead);
    u = word % 2 ? high_of(u) : low_of(u);
    v = word % 2 ? high_of(v) : low_of(v);
    if (kind != FACTORS) return (struct pair){u, v};
    return (struct pair){_mm256_shuffle_epi8(p->table, u), _mm256_shuffle_epi8(p->table, v)};
}

/* At most RUN words, whose sums of pairs are in 16 bits. */
INLINE struct whole run(enum codes kind, size_t words, const struct place *p, size_t half,
                        const uint32_t *x)
{
    struct whole s;
#define ZERO(i) s.a##i = s.b##i = _mm256_setzero_si256();
    EACH(ZERO)
#undef ZERO
#define WORD(word)                                                                                 \
    {                                                                                              \
        const struct pair w = pair_at(kind, p, word, half);                                        \
        const uint32_t *const q = x + (word)*ROWS;                                                 \
        EACH(STEP)                                                                                 \
        EACH(KEEP)                                                                                 \
    }
/* Or the compiler reorders the additions of several words, for which there are no registers. */
#define KEEP(i) __asm__("" : "+x"(s.a##i), "+x"(s.b##i));
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m256i e = _mm256_set1_epi32((int)q[i]);                                            \
        s.a##i = _mm256_add_epi16(s.a##i, _mm256_maddubs_epi16(w.u, e));                           \
        s.b##i = _mm256_add_epi16(s.b##i, _mm256_maddubs_epi16(w.v, e));                           \
    }
    size_t i = 0;
    for (; i + 4 <= words; i += 4) {
        WORD(i)
        WORD(i + 1)
        WORD(i + 2)
        WORD(i + 3)
    }
    for (; i + 2 <= words; i += 2) {
        WORD(i)
        WORD(i + 1)
    }
    if (i < words) WORD(i)
#undef STEP
#undef KEEP
#undef WORD
    return s;
}

INLINE bool is_bytes(enum codes kind)
{
    return kind == HALVES || kind == STORED_BYTES;
}

INLINE void multiply_run(enum codes kind, size_t words, const struct place *p, const uint32_t *x,
                         struct whole *d)
{
    const struct whole s = run(kind, words, p, 0, x);
    if (!is_bytes(kind)) {
#define ADD(i)                                                                                     \
    d->a##i = widen(d->a##i, s.a##i, 1);                                                           \
    d->b##i = widen(d->b##i, s.b##i, 1);
        EACH(ADD)
#undef ADD
        return;
    }
    const struct whole t = run(kind, words, p, 1, x);
#define ADD(i)                                                                                     \
    d->a##i = widen(widen(d->a##i, s.a##i, 1), s.b##i, 16);                                        \
    d->b##i = widen(widen(d->b##i, t.a##i, 1), t.b##i, 16);
    EACH(ADD)
#undef ADD
}

/* Bytes of a panel for so many words: two, of codes of 4 bits as they are stored, share a line. */
INLINE size_t bytes_of(enum codes kind, size_t words)
{
    if (kind == HALVES) return words * PITH_BYTES_LINE;
    return kind == STORED || kind == FACTORS ? words * PITH_PANEL_LINE / 2
                                             : words * PITH_PANEL_LINE;
}

/* And on to the words behind them. */
INLINE void multiply(enum codes kind, size_t most, size_t words, struct place *p, const uint32_t *x,
                     struct whole *d)
{
    for (; words > most; words -= most, x += most * ROWS) {
        multiply_run(kind, most, p, x, d);
        p->w += bytes_of(kind, most);
    }
    if (words == most) multiply_run(kind, most, p, x, d);
    else multiply_run(kind, words, p, x, d);
    p->w += bytes_of(kind, words);
}

INLINE void block_open(struct whole *d, const int32_t *less, const int32_t *zero)
{
    if (!zero) {
#define START(i) d->a##i = d->b##i = _mm256_set1_epi32(less[i]);
        EACH(START)
#undef START
        return;
    }
    const __m256i a = load(zero), b = load(zero + LANES);
#define START(i)                                                                                   \
    d->a##i = _mm256_mullo_epi32(_mm256_set1_epi32(less[i]), a);                                   \
    d->b##i = _mm256_mullo_epi32(_mm256_set1_epi32(less[i]), b);
    EACH(START)
#undef START
}

INLINE void whole_load(struct whole *d, const int32_t *from)
{
#define LOAD(i)                                                                                    \
    d->a##i = load(from + i * COLS);                                                               \
    d->b##i = load(from + i * COLS + LANES);
    EACH(LOAD)
#undef LOAD
}

INLINE void whole_store(const struct whole *d, int32_t *to)
{
#define STORE(i)                                                                                   \
    store(to + i * COLS, d->a##i);                                                                 \
    store(to + i * COLS + LANES, d->b##i);
    EACH(STORE)
#undef STORE
}

/* t += scale * d. */
INLINE void add(float *t, __m256i d, __m256 scale)
{
    _mm256_storeu_ps(t, _mm256_fmadd_ps(_mm256_cvtepi32_ps(d), scale, _mm256_loadu_ps(t)));
}

INLINE void block_close(float *t, const struct whole *d, const float *scale){
#define CLOSE(i)                                                                                   \
    {                                                                                              \
        const __m256 f = _mm256_set1_ps(scale[i]);                                                 \
        add(t + i * COLS, d->a##i, f);                                                             \
        add(t + i * COLS + LANES, d->b##i, f);                                                     \
    }
    EACH(CLOSE)
#undef CLOSE
}

/* y += scale * t, t = 0. */
INLINE void group_close(float *y, float *t, const float *scale)
{
    const __m256 a = _mm256_loadu_ps(scale), b = _mm256_loadu_ps(scale + LANES);
    for (size_t i = 0; i < ROWS; i++, y += COLS, t += COLS) {
        const __m256 u = _mm256_loadu_ps(t), v = _mm256_loadu_ps(t + LANES);
        _mm256_storeu_ps(y, _mm256_fmadd_ps(a, u, _mm256_loadu_ps(y)));
        _mm256_storeu_ps(y + LANES, _mm256_fmadd_ps(b, v, _mm256_loadu_ps(y + LANES)));
        _mm256_storeu_ps(t, _mm256_setzero_ps());
        _mm256_storeu_ps(t + LANES, _mm256_setzero_ps());
    }
}

INLINE void clear(float *sums)
{
    for (size_t e = 0; e < (size_t)ROWS * COLS; e += LANES)
        _mm256_storeu_ps(sums + e, _mm256_setzero_ps());
}

INLINE struct place place_of(const struct pith_byte_tile *a, enum codes kind)
{
    const size_t width = kind == STORED_BYTES ? 4 : 8;
    struct place p = {.w = a->w[0],
                      .ahead = pith_panel_ahead(a->adjacent, a->cols / width * PITH_PANEL_LINE,
                                                a->col / width * PITH_PANEL_LINE,
                                                PITH_AHEAD_BYTES)};
    if (kind == FACTORS)
        p.table =
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)a->factor));
    return p;
}

/* Of at most `most` words whose sums fit 16 bits. */
INLINE void tile(const struct pith_byte_tile *a, enum codes kind, size_t most)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    struct whole d;
    if (a->col == 0) clear(a->y);
    if (a->col % a->group == 0) clear(a->t);
    size_t c = a->col, group = first, block = c / a->block;
    size_t group_end = least((group + 1) * a->group, a->cols);
    struct place p = place_of(a, kind);
    while (c < end) {
        const size_t at = (group - first) * PITH_PANEL_ROWS;
        const size_t block_end = least((block + 1) * a->block, group_end);
        const size_t stop = least(block_end, end), words = (stop - c) / 4;
        if (c == block * a->block)
            block_open(&d, a->x_less + block * ROWS, a->zero ? a->zero + at : NULL);
        else whole_load(&d, a->d);
        multiply(kind, most, words, &p, a->x + c / 4 * ROWS, &d);
        c = stop;
        if (stop < block_end) {
            whole_store(&d, a->d);
            break;
        }
        block_close(a->t, &d, a->x_scale + block * ROWS);
        block++;
        if (c < group_end) continue;
        group_close(a->y, a->t, a->scale + at);
        group++;
        group_end = least(group_end + a->group, a->cols);
    }
}

void pith_bytes_tile_avx2(const struct pith_byte_tile *a)
{
    const bool level4 = a->form == PITH_PANEL_LEVEL4;
    if (a->stored && a->factors) tile(a, FACTORS, RUN / 2);
    else if (a->stored && level4) tile(a, STORED, RUN);
    else if (a->stored) tile(a, STORED_BYTES, RUN);
    else if (a->factors == PITH_FACTORS_SMALL) tile(a, LINES, RUN / 2);
    else if (level4) tile(a, LINES, RUN);
    else tile(a, HALVES, RUN);
}

/* Bytes as a line of low and one of high halves. */
INLINE void split(__m256i v, uint8_t *dst)
{
    const __m256i low = _mm256_set1_epi8(15);
    store(dst, _mm256_and_si256(v, low));
    store(dst + PITH_PANEL_LINE, _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
}

/* Large factors of n columns from the line on, as codes of 8 bits become. */
static void unpack_large(const struct pith_panels *m, const uint8_t *line, size_t n, uint8_t *dst)
{
    const __m256i low = _mm256_set1_epi8(15), table = factor_table(m);
    for (; n > 0; n -= 8, line += PITH_PANEL_LINE, dst += 2 * PITH_BYTES_LINE)
        for (size_t i = 0; i < PITH_PANEL_LINE; i += 32) {
            const __m256i v = load(line + i), high = _mm256_srli_epi16(v, 4);
            split(_mm256_shuffle_epi8(table, _mm256_and_si256(v, low)), dst + i);
            split(_mm256_shuffle_epi8(table, _mm256_and_si256(high, low)),
                  dst + PITH_BYTES_LINE + i);
        }
}

/* Codes in planes: of at most 4 bits a line a word, of more one of low and one of high halves. */
INLINE void unpack_planes(unsigned bits, const uint8_t *at, size_t n, uint8_t *dst)
{
    const size_t line = bits < 4 ? PITH_PANEL_LINE : PITH_BYTES_LINE;
    for (; n > 0; n -= PITH_PANEL_STEP, at += pith_panel_span(bits, PITH_PANEL_STEP))
        for (int k = 0; k < PITH_PANEL_WORDS; k++, dst += line) {
            const __m256i a = planes_word(bits, at, 0, k), b = planes_word(bits, at, 1, k);
            if (bits < 4) {
                store(dst, a);
                store(dst + 32, b);
            } else {
                split(a, dst);
                split(b, dst + 32);
            }
        }
}

/* Halves of bytes are either two codes, of different columns, or two parts of one: in both cases a
 * line becomes one of low and one of high halves. */
static void unpack_halves(const struct pith_panels *m, const uint8_t *line, size_t lines,
                          uint8_t *dst)
{
    const __m256i low = _mm256_set1_epi8(15), table = factor_table(m);
    for (; lines > 0; lines--, line += PITH_PANEL_LINE, dst += 2 * PITH_PANEL_LINE)
        for (size_t i = 0; i < PITH_PANEL_LINE; i += 32) {
            const __m256i v = load(line + i);
            const __m256i a = _mm256_and_si256(v, low);
            const __m256i b = _mm256_and_si256(_mm256_srli_epi16(v, 4), low);
            store(dst + i, m->factors ? _mm256_shuffle_epi8(table, a) : a);
            store(dst + i + PITH_PANEL_LINE, m->factors ? _mm256_shuffle_epi8(table, b) : b);
        }
}

const uint8_t *pith_bytes_unpack_avx2(const struct pith_panels *m, size_t panel, size_t col,
                                      size_t n, bool few, uint8_t *dst)
{
    const uint8_t *at = pith_panel_at(m, panel, col);
    switch (m->bits) {
#define CASE(bits_)                                                                                \
    case bits_: unpack_planes(bits_, at, n, dst); return dst;
        PITH_PANEL_PLANES(CASE)
#undef CASE
    default: break;
    }
    if (few && m->factors != PITH_FACTORS_LARGE) return at;
    if (m->factors == PITH_FACTORS_LARGE) unpack_large(m, at, n, dst);
    else unpack_halves(m, at, n / pith_panel_step(m->bits), dst);
    return dst;
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_avx2(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_avx2(count, words, (const float *)(const void *)q, words,
                        (float *)(void *)(x + first), ROWS);
}
