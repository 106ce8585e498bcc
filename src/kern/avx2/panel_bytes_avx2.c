/* The fast product with packed panels of integers, and the rounding of activations to bytes. AVX2
 * multiplies bytes to 16-bit sums of pairs: those of 4-bit codes fit, eight times over, of 6 bits
 * twice, of 2 bits 42 times; those of large factors as signed bytes fit once; 8-bit codes are
 * widened first. */
#include "kern/avx2/block_bytes_avx2.h"
#include "kern/avx2/panel_avx2.h"
#include "kern/avx2/planes_avx2.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

/* What is multiplied: codes of so many bits, or factors in the place of those of 4. */
enum codes { TWO = 2, THREE = 3, FOUR = 4, FIVE = 5, SIX = 6, EIGHT = 8, SMALL = 16, LARGE };

INLINE unsigned bits_of(enum codes kind)
{
    return kind >= SMALL ? 4 : (unsigned)kind;
}

/* Half a line. The other half is read when the line is in the cache. */
INLINE __m256i load(const uint8_t *p)
{
    __builtin_prefetch(p + PITH_AHEAD_BYTES);
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

INLINE __m256i four_bytes(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm256_set1_epi32(v);
}

INLINE __m256 scales_at(const struct pith_panels *m, size_t index)
{
    const char *at = (const char *)m->scales + index * pith_panel_scale_bytes(m->scale);
    if (m->scale == PITH_SCALE_F32) return _mm256_loadu_ps((const float *)(const void *)at);
    if (m->scale == PITH_SCALE_PRODUCT) {
        const __m128i inner = _mm_loadl_epi64((const __m128i *)(const void *)at);
        const char *outer = (const char *)m->outer + pith_panel_outer(m, index) * 2;
        const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)outer);
        return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(inner)),
                             _mm256_cvtph_ps(half));
    }
    if (m->scale == PITH_SCALE_E8M0) {
        const __m128i e = _mm_loadl_epi64((const __m128i *)(const void *)at);
        const __m256i power = _mm256_slli_epi32(_mm256_cvtepu8_epi32(e), 23);
        return _mm256_max_ps(_mm256_castsi256_ps(power), _mm256_set1_ps(0x1p-127f));
    }
    if (m->scale == PITH_SCALE_E4M3) {
        const __m128i e = _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)at));
        return _mm256_mul_ps(load8_e4m3(_mm_slli_epi16(e, 7)), _mm256_set1_ps(m->global));
    }
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)at);
    if (m->scale == PITH_SCALE_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* Codes of low halves of bytes, and of high ones. */
INLINE __m256i low_codes(__m256i w)
{
    return _mm256_and_si256(w, _mm256_set1_epi8(15));
}

INLINE __m256i high_codes(__m256i w)
{
    return _mm256_and_si256(_mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
}

/* Eight columns of eight rows of 4-bit codes, two 16-bit sums a row: |sum| <= 2 * 2 * 15 * 128. */
INLINE __m256i level4_pairs(const uint8_t *line, const int8_t *q)
{
    const __m256i w = load(line);
    const __m256i a = _mm256_maddubs_epi16(low_codes(w), four_bytes(q));
    return _mm256_add_epi16(a, _mm256_maddubs_epi16(high_codes(w), four_bytes(q + 4)));
}

/* Sums of eight rows over the columns of q: `lines` lines, PITH_PANEL_LINE bytes apart. Four lines
 * of pairs stay below 2^15. */
INLINE __m256i level4_sum(const uint8_t *line, size_t lines, const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i sum = _mm256_setzero_si256();
    while (lines > 0) {
        const size_t n = lines < 4 ? lines : 4;
        __m256i pairs = level4_pairs(line, q);
        for (size_t i = 1; i < n; i++)
            pairs = _mm256_add_epi16(pairs, level4_pairs(line + i * PITH_PANEL_LINE, q + i * 8));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
        lines -= n;
        line += n * PITH_PANEL_LINE;
        q += n * 8;
    }
    return sum;
}

/* Sums of the first eight rows of a panel, and of the last. */
struct both {
    __m256i a, b;
};

/* The same of small factors, likewise: |sum| <= 2 * 2 * 24 * 128, so that two lines fit. */
INLINE struct both small_pairs(__m256i table, const uint8_t *line, const int8_t *q)
{
    const __m256i u = load(line), v = load(line + PITH_PANEL_LINE / 2);
    const __m256i x = four_bytes(q), y = four_bytes(q + 4);
#define SUM(w)                                                                                     \
    _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_shuffle_epi8(table, low_codes(w)), x),            \
                     _mm256_maddubs_epi16(_mm256_shuffle_epi8(table, high_codes(w)), y))
    return (struct both){SUM(u), SUM(v)};
#undef SUM
}

INLINE struct both small_sums(__m256i table, const uint8_t *line, size_t lines, const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    struct both sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; lines > 0; lines -= lines > 1 ? 2 : 1, line += 2 * PITH_PANEL_LINE, q += 16) {
        struct both pairs = small_pairs(table, line, q);
        if (lines > 1) {
            const struct both more = small_pairs(table, line + PITH_PANEL_LINE, q + 8);
            pairs.a = _mm256_add_epi16(pairs.a, more.a);
            pairs.b = _mm256_add_epi16(pairs.b, more.b);
        }
        sum.a = _mm256_add_epi32(sum.a, _mm256_madd_epi16(pairs.a, ones));
        sum.b = _mm256_add_epi32(sum.b, _mm256_madd_epi16(pairs.b, ones));
    }
    return sum;
}

/* Signed bytes w times x by magnitudes of x and w with its sign: of a pair |sum| <= 2 * 127 * 128.
 */
INLINE __m256i signed_pairs(__m256i w, __m256i x)
{
    return _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
}

/* Of large factors, whose table is of signed bytes. */
INLINE struct both large_sums(__m256i table, const uint8_t *line, size_t lines, const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    struct both sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (; lines > 0; lines--, line += PITH_PANEL_LINE, q += 8) {
        const __m256i u = load(line), v = load(line + PITH_PANEL_LINE / 2);
        const __m256i x = four_bytes(q), y = four_bytes(q + 4);
#define ADD(sum, codes, by)                                                                        \
    sum = _mm256_add_epi32(                                                                        \
        sum, _mm256_madd_epi16(signed_pairs(_mm256_shuffle_epi8(table, codes), by), ones));
        ADD(sum.a, low_codes(u), x)
        ADD(sum.b, low_codes(v), x)
        ADD(sum.a, high_codes(u), y)
        ADD(sum.b, high_codes(v), y)
#undef ADD
    }
    return sum;
}

/* The same for 8-bit codes: even and odd bytes as 16-bit numbers. */
INLINE __m256i int8_sum(const uint8_t *line, size_t lines, const int8_t *q)
{
    const __m256i even = _mm256_set1_epi16(255);
    __m256i sum = _mm256_setzero_si256();
    for (size_t i = 0; i < lines; i++) {
        const __m256i w = load(line + i * PITH_PANEL_LINE), x = four_bytes(q + i * 4);
        const __m256i x_even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_and_si256(w, even), x_even));
        sum = _mm256_add_epi32(sum,
                               _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(x, 8)));
    }
    return sum;
}

INLINE __m256i zeros_at(const struct pith_panels *m, size_t index)
{
    if (!m->zeros) return _mm256_set1_epi32((int)m->zero);
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(m->zeros + index)));
}

/* A digit's sum less what the zero points make of it. */
INLINE __m256i less_zero(__m256i sum, __m256i zero, int32_t of_digit)
{
    return _mm256_add_epi32(sum, _mm256_mullo_epi32(zero, _mm256_set1_epi32(-of_digit)));
}

/* Columns [c, c + n * width) of one block, by one digit of x. */
INLINE __m256i digit_dot(const struct pith_bytes *x, enum codes kind, const uint8_t *line, size_t n,
                         size_t c, size_t block, size_t digit, __m256i zero)
{
    const int8_t *q = x->q + c + digit * x->q_digit;
    const __m256i sum = kind == EIGHT ? int8_sum(line, n, q) : level4_sum(line, n, q);
    return less_zero(sum, zero, x->sum[block + digit * x->sum_digit]);
}

/* The sums of three digits. */
struct digits {
    __m256i d0, d1, d2;
};

INLINE __m256i pairs_of(__m256i low, __m256i high, const int8_t *q)
{
    return _mm256_add_epi16(_mm256_maddubs_epi16(low, four_bytes(q)),
                            _mm256_maddubs_epi16(high, four_bytes(q + 4)));
}

/* Adds four lines of 4-bit codes, which are taken apart once. */
INLINE struct digits level4_digits(struct digits s, const uint8_t *line, const int8_t *q,
                                   size_t digit)
{
    const __m256i mask = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i p0 = _mm256_setzero_si256(), p1 = p0, p2 = p0;
    for (size_t i = 0; i < 4; i++, q += 8) {
        const __m256i w = load(line + i * PITH_PANEL_LINE);
        const __m256i low = _mm256_and_si256(w, mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(w, 4), mask);
        p0 = _mm256_add_epi16(p0, pairs_of(low, high, q));
        p1 = _mm256_add_epi16(p1, pairs_of(low, high, q + digit));
        p2 = _mm256_add_epi16(p2, pairs_of(low, high, q + 2 * digit));
    }
    return (struct digits){_mm256_add_epi32(s.d0, _mm256_madd_epi16(p0, ones)),
                           _mm256_add_epi32(s.d1, _mm256_madd_epi16(p1, ones)),
                           _mm256_add_epi32(s.d2, _mm256_madd_epi16(p2, ones))};
}

/* As one float32 (kern/panel.h). */
INLINE __m256 together(struct digits s)
{
    const __m256i middle = _mm256_and_si256(s.d1, _mm256_set1_epi32(255));
    const __m256i low = _mm256_add_epi32(s.d0, _mm256_slli_epi32(middle, 8));
    const __m256i high = _mm256_add_epi32(s.d2, _mm256_srai_epi32(s.d1, 8));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), _mm256_set1_ps(65536.0f),
                           _mm256_cvtepi32_ps(low));
}

/* Four columns of x as pairs of 16-bit numbers, the even ones and the odd ones: the first digit,
 * and the other two as one number, which 16 bits hold. */
struct pairs {
    __m256i low[2], high[2];
};

INLINE struct pairs four_digits(const int8_t *q, size_t digit)
{
    const __m256i x0 = four_bytes(q), x1 = four_bytes(q + digit), x2 = four_bytes(q + 2 * digit);
    const __m256i top = _mm256_set1_epi16((short)0xff00);
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(x1, 8), 8);
    return (struct pairs){
        {_mm256_srai_epi16(_mm256_slli_epi16(x0, 8), 8), _mm256_srai_epi16(x0, 8)},
        {_mm256_add_epi16(even, _mm256_slli_epi16(x2, 8)),
         _mm256_add_epi16(_mm256_srai_epi16(x1, 8), _mm256_and_si256(x2, top))}};
}

/* Adds half a line of 8-bit codes; d1 is of both digits above the first. */
INLINE struct digits int8_digits(struct digits s, const uint8_t *half, struct pairs x)
{
    const __m256i w = load(half), odd = _mm256_srli_epi16(w, 8);
    const __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(255));
    s.d0 = _mm256_add_epi32(s.d0, _mm256_madd_epi16(even, x.low[0]));
    s.d1 = _mm256_add_epi32(s.d1, _mm256_madd_epi16(even, x.high[0]));
    s.d0 = _mm256_add_epi32(s.d0, _mm256_madd_epi16(odd, x.low[1]));
    s.d1 = _mm256_add_epi32(s.d1, _mm256_madd_epi16(odd, x.high[1]));
    return s;
}

/* Sums of n lines of a panel of 8-bit codes, of both halves. */
INLINE void int8_block(const uint8_t *line, size_t n, const int8_t *q, size_t digit,
                       struct digits sums[2])
{
    const __m256i none = _mm256_setzero_si256();
    struct digits a = {none, none, none}, b = a;
    for (size_t i = 0; i < n; i++, line += PITH_PANEL_LINE) {
        const struct pairs by = four_digits(q + 4 * i, digit);
        a = int8_digits(a, line, by);
        b = int8_digits(b, line + PITH_PANEL_LINE / 2, by);
    }
    sums[0] = a;
    sums[1] = b;
}

/* They less the zeros, as float32: together() takes both upper digits' sum as it does that of the
 * second with none above. */
INLINE __m256 int8_total(struct digits s, __m256i zero, const int32_t *sum, size_t digit)
{
    s.d0 = less_zero(s.d0, zero, sum[0]);
    s.d1 = less_zero(s.d1, zero, sum[digit] + 256 * sum[2 * digit]);
    return together(s);
}

/* Steps of codes in planes whose products with bytes are added up in 16 bits: of 2 bits 8 * 4 * 2 *
 * 3 * 128, of 3 bits 4 * 4 * 2 * 7 * 128, of 5 bits 4 * 2 * 31 * 128; of 6 bits only half a step,
 * 2 * 2 * 63 * 128. */
INLINE size_t steps_of(enum codes kind)
{
    return kind == TWO ? 8 : kind == THREE ? 4 : 1;
}

INLINE __m256i widen(__m256i sum, __m256i pairs)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Adds `steps` steps of codes in planes, at most steps_of(), of one digit or three. */
INLINE struct digits planes_run(struct digits s, enum codes kind, size_t digits, size_t steps,
                                const uint8_t *at, int half, const int8_t *q, size_t digit)
{
    const size_t bytes = pith_panel_span(bits_of(kind), PITH_PANEL_STEP);
    __m256i p0 = _mm256_setzero_si256(), p1 = p0, p2 = p0;
#define WORD(k)                                                                                    \
    {                                                                                              \
        const __m256i w = planes_word(bits_of(kind), at, half, k);                                 \
        const int8_t *const x = q + 4 * (k);                                                       \
        p0 = _mm256_add_epi16(p0, _mm256_maddubs_epi16(w, four_bytes(x)));                         \
        if (digits > 1) {                                                                          \
            p1 = _mm256_add_epi16(p1, _mm256_maddubs_epi16(w, four_bytes(x + digit)));             \
            p2 = _mm256_add_epi16(p2, _mm256_maddubs_epi16(w, four_bytes(x + 2 * digit)));         \
        }                                                                                          \
    }
#define WIDEN()                                                                                    \
    {                                                                                              \
        s.d0 = widen(s.d0, p0);                                                                    \
        if (digits > 1) s.d1 = widen(s.d1, p1);                                                    \
        if (digits > 1) s.d2 = widen(s.d2, p2);                                                    \
        p0 = p1 = p2 = _mm256_setzero_si256();                                                     \
    }
    for (size_t i = 0; i < steps; i++, at += bytes, q += PITH_PANEL_STEP) {
        if (half == 0)
            for (size_t b = 0; b < bytes; b += PITH_PANEL_LINE)
                __builtin_prefetch(at + b + PITH_AHEAD_BYTES);
        WORD(0)
        WORD(1)
        if (kind == SIX) WIDEN()
        WORD(2)
        WORD(3)
    }
    WIDEN()
#undef WIDEN
#undef WORD
    return s;
}

/* Columns [c, c + n) of a block. */
INLINE struct digits planes_sum(enum codes kind, size_t digits, const uint8_t *at, int half,
                                size_t n, const int8_t *q, size_t digit)
{
    const size_t most = steps_of(kind), bytes = pith_panel_span(bits_of(kind), PITH_PANEL_STEP);
    struct digits s = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t steps = n / PITH_PANEL_STEP;
    for (; steps >= most; steps -= most, at += most * bytes, q += most * PITH_PANEL_STEP)
        s = planes_run(s, kind, digits, most, at, half, q, digit);
    return steps > 0 ? planes_run(s, kind, digits, steps, at, half, q, digit) : s;
}

/* Columns [c, c + n) of eight rows of a panel, `at` where these columns are. */
INLINE __m256 block_dot(const struct pith_bytes *x, enum codes kind, size_t digits,
                        const uint8_t *at, int half, size_t n, size_t c, size_t block, __m256i zero)
{
    const uint8_t *line = at + 32 * half;
    const size_t lines = n / (kind == EIGHT ? 4 : 8);
    const int32_t *sum = x->sum + block;
    struct digits s = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    if (pith_panel_has_planes(bits_of(kind))) {
        s = planes_sum(kind, digits, at, half, n, x->q + c, x->q_digit);
        if (digits == 1) return _mm256_cvtepi32_ps(less_zero(s.d0, zero, sum[0]));
    } else if (digits == 1) {
        return _mm256_cvtepi32_ps(digit_dot(x, kind, line, lines, c, block, 0, zero));
    } else if (kind == FOUR && lines % 4 == 0) {
        for (size_t i = 0; i < lines; i += 4)
            s = level4_digits(s, line + i * PITH_PANEL_LINE, x->q + c + 8 * i, x->q_digit);
    } else {
        return together((struct digits){digit_dot(x, kind, line, lines, c, block, 0, zero),
                                        digit_dot(x, kind, line, lines, c, block, 1, zero),
                                        digit_dot(x, kind, line, lines, c, block, 2, zero)});
    }
    return together((struct digits){less_zero(s.d0, zero, sum[0]),
                                    less_zero(s.d1, zero, sum[x->sum_digit]),
                                    less_zero(s.d2, zero, sum[2 * x->sum_digit])});
}

/* Eight rows of a panel on their way. */
struct half {
    size_t index; /* of the first row's scale of the group */
    __m256i zero;
    __m256 t, y;
};

INLINE void group_open(const struct pith_panels *m, size_t index, struct half *h)
{
    h->index = index;
    h->zero = zeros_at(m, index);
    h->t = _mm256_setzero_ps();
}

INLINE void group_close(const struct pith_panels *m, struct half *h)
{
    __m256 scale = scales_at(m, h->index);
    if (m->factors) scale = _mm256_mul_ps(scale, _mm256_set1_ps(m->unit));
    h->y = _mm256_fmadd_ps(scale, h->t, h->y);
}

/* What is looked up: of large factors signed bytes. */
INLINE __m256i factors_for(const struct pith_panels *m, enum codes kind)
{
    const __m256i zero = _mm256_set1_epi8(PITH_FACTORS_LARGE_ZERO), table = factor_table(m);
    return kind == LARGE ? _mm256_sub_epi8(table, zero) : table;
}

/* Both halves of a panel, block by block: a pass for each would leave memory idle in the second. */
INLINE void dot_panel(const struct pith_panels *m, enum codes kind, size_t digits, size_t panel,
                      const struct pith_bytes *x, float *y)
{
    const uint8_t *at = pith_panel_at(m, panel, 0);
    const __m256i table = factors_for(m, kind);
    struct half a = {.y = _mm256_setzero_ps()}, b = a;
    size_t c = 0, block = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t index = (panel * m->groups + g) * PITH_PANEL_ROWS;
        const size_t stop = c + m->group < m->cols ? c + m->group : m->cols;
        group_open(m, index, &a);
        group_open(m, index + 8, &b);
        for (; c < stop; block++) {
            const size_t end = c + x->block < stop ? c + x->block : stop, n = end - c;
            const __m256 by = _mm256_set1_ps(x->scale[block]);
            if (kind == EIGHT && digits == PITH_DIGITS) {
                const int32_t *of = x->sum + block;
                struct digits sums[2];
                int8_block(at, n / 4, x->q + c, x->q_digit, sums);
                a.t = _mm256_fmadd_ps(int8_total(sums[0], a.zero, of, x->sum_digit), by, a.t);
                b.t = _mm256_fmadd_ps(int8_total(sums[1], b.zero, of, x->sum_digit), by, b.t);
            } else if (kind == SMALL || kind == LARGE) {
                const int32_t of = kind == SMALL ? x->sum[block] : 0;
                const struct both s = kind == SMALL ? small_sums(table, at, n / 8, x->q + c)
                                                    : large_sums(table, at, n / 8, x->q + c);
                a.t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(less_zero(s.a, a.zero, of)), by, a.t);
                b.t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(less_zero(s.b, b.zero, of)), by, b.t);
            } else {
                a.t = _mm256_fmadd_ps(block_dot(x, kind, digits, at, 0, n, c, block, a.zero), by,
                                      a.t);
                b.t = _mm256_fmadd_ps(block_dot(x, kind, digits, at, 1, n, c, block, b.zero), by,
                                      b.t);
            }
            at += pith_panel_span(bits_of(kind), n);
            c = end;
        }
        group_close(m, &a);
        group_close(m, &b);
    }
    _mm256_storeu_ps(y, a.y);
    _mm256_storeu_ps(y + 8, b.y);
}

INLINE void dot_as(const struct pith_panels *m, enum codes kind, size_t digits, size_t first,
                   size_t count, const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        dot_panel(m, kind, digits, first + i, x, y + i * PITH_PANEL_ROWS);
}

#define TIER(op) pith_##op##_avx2
#include "kern/template/panel_bytes_template.h"

/* --- rounding to bytes ------------------------------------------------------------------------ */

/* The greatest magnitude as bits of a float: as integers these are in the order of the floats, with
 * infinity and NaN above. */
INLINE uint32_t most_bits(size_t n, const float *x)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i most = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i v = _mm256_castps_si256(_mm256_loadu_ps(x + i));
        most = _mm256_max_epi32(most, _mm256_and_si256(v, magnitude));
    }
    uint32_t lanes[8], best = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, most);
    for (size_t l = 0; l < 8; l++) best = lanes[l] > best ? lanes[l] : best;
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        best = bits > best ? bits : best;
    }
    return best;
}

/* The largest magnitude of a block; NaN when one is not finite. */
INLINE float largest(size_t n, const float *x)
{
    return number_of(most_bits(n, x));
}

/* Digit i of eight numbers to q[i * step], its sum added to sum[i * sum_step]. */
INLINE void store_digits(__m256i v, size_t n, size_t digits, int8_t *q, size_t step, int32_t *sum,
                         size_t sum_step)
{
    for (size_t d = 0; d < digits; d++) {
        const __m256i digit = _mm256_srai_epi32(_mm256_slli_epi32(v, 24), 24);
        int32_t out[8];
        v = _mm256_srai_epi32(_mm256_sub_epi32(v, digit), 8);
        _mm256_storeu_si256((__m256i *)(void *)out, digit);
        for (size_t l = 0; l < n; l++) {
            q[d * step + l] = (int8_t)out[l];
            sum[d * sum_step] += out[l];
        }
    }
}

INLINE void to_digits(size_t n, size_t block, size_t digits, float most_number, const float *x,
                      int8_t *q, size_t step, float *scale, int32_t *sum, size_t sum_step)
{
    for (size_t b = 0, first = 0; first < n; first += block, b++) {
        const size_t end = n - first < block ? n : first + block;
        const float most = largest(end - first, x + first);
        const float inverse = most >= PITH_BYTES_LEAST ? most_number / most : 0.0f;
        scale[b] = most / most_number;
        for (size_t d = 0; d < digits; d++) sum[b + d * sum_step] = 0;
        for (size_t i = first; i < end; i += 8) {
            float last[8] = {0};
            const size_t left = end - i < 8 ? end - i : 8;
            __m256 v = _mm256_setzero_ps();
            if (left < 8) memcpy(last, x + i, left * sizeof *x);
            if (inverse > 0.0f) v = _mm256_loadu_ps(left < 8 ? last : x + i);
            const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(inverse)));
            store_digits(whole, left, digits, q + i, step, sum + b, sum_step);
        }
    }
}

void pith_to_bytes_avx2(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                        int32_t *sum)
{
    if (block == 32)
        for (; n >= block; n -= block, x += block, q += block)
            block_to_bytes(v16_load(x), v16_load(x + 16), q, scale++, sum++);
    to_digits(n, block, 1, 127.0f, x, q, 0, scale, sum, 0);
}

void pith_to_digits_avx2(size_t n, size_t block, const float *x, int8_t *q, size_t q_digit,
                         float *scale, int32_t *sum, size_t sum_digit)
{
    to_digits(n, block, PITH_DIGITS, PITH_DIGITS_MOST, x, q, q_digit, scale, sum, sum_digit);
}

/* --- packing ---------------------------------------------------------------------------------- */

/* A word's bytes are pairs of codes b0 = (1 0), b1 = (3 2), b2 = (5 4), b3 = (7 6). The low bytes
 * doubled, b0 b0 b1 b1, give the low halves, the high ones the high halves. */
void pith_to_nibbles_avx2(size_t n, uint32_t *words)
{
    const __m256i first = _mm256_setr_epi8(0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13, 0, 0,
                                           1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13);
    const __m256i last = _mm256_add_epi8(first, _mm256_set1_epi8(2));
    const __m256i even = _mm256_set1_epi16(0x000f), odd = _mm256_set1_epi16(0x0f00);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i *at = (__m256i *)(void *)(words + i);
        const __m256i w = _mm256_loadu_si256(at);
        const __m256i a = _mm256_shuffle_epi8(w, first), b = _mm256_shuffle_epi8(w, last);
        const __m256i low = _mm256_or_si256(_mm256_and_si256(a, even),
                                            _mm256_and_si256(_mm256_srli_epi16(a, 4), odd));
        const __m256i high = _mm256_or_si256(_mm256_and_si256(b, even),
                                             _mm256_and_si256(_mm256_srli_epi16(b, 4), odd));
        _mm256_storeu_si256(at, _mm256_or_si256(low, _mm256_slli_epi16(high, 4)));
    }
    pith_to_nibbles_scalar(n - i, words + i);
}
