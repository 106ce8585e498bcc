/* The exact product of a vector with packed panels of floats. Eight lanes have no cheap look-up of
 * sixteen floats. So 32 codes at once become bytes: twice a level that is a multiple of a half, to
 * be converted, or each byte of any level, to be put together. FP8 becomes float32 by shifts. What
 * these are too large or too small by, a power of two, the scale takes.
 *
 * Two panels go side by side, column by column: four registers of chains hide the latency of the
 * multiply-add, and more do not fit. */
#include "kern/avx2/panel_avx2.h"
#include "kern/template/scales_template.h"

#include <math.h>

enum {
    TOGETHER = 2,
    CHUNK = 16 /* groups whose scales are made at a time */
};

/* How codes become W, known where it is inlined. */
enum how {
    HALVES,       /* value * scale, the value 2^25 as large */
    HALVES_POWER, /* value, likewise: the sum is in units of the scale */
    LEVELS,       /* value * scale */
    E4M3,         /* value * scale, the value 2^-120 as large */
    E4M3_LARGE,   /* the same where the scale cannot take that */
    E5M2,         /* 2^-112 as large */
    E5M2_LARGE
};

INLINE bool is_halves(enum how how)
{
    return how == HALVES || how == HALVES_POWER;
}
INLINE bool is_e4m3(enum how how)
{
    return how == E4M3 || how == E4M3_LARGE;
}

/* --- codes to values -------------------------------------------------------------------------- */

/* Look-ups of sixteen bytes, in both halves of a register: byte i of the levels, and twice them. */
struct tables {
    __m256i byte[4], twice;
};

static bool are_halves(const float level[16])
{
    for (int i = 0; i < 16; i++)
        if (!(fabsf(level[i]) < 64.0f) || level[i] * 2 != (float)(int)(level[i] * 2)) return false;
    return true;
}

static __m256i table_of(const uint8_t bytes[16])
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

static struct tables make_tables(const float level[16], bool halves)
{
    struct tables t;
    uint8_t bytes[5][16];
    for (int c = 0; c < 16; c++) {
        uint32_t bits;
        memcpy(&bits, &level[c], sizeof bits);
        for (int i = 0; i < 4; i++) bytes[i][c] = (uint8_t)(bits >> 8 * i);
        bytes[4][c] = halves ? (uint8_t)(int)(level[c] * 2) : 0;
    }
    for (int i = 0; i < 4; i++) t.byte[i] = table_of(bytes[i]);
    t.twice = table_of(bytes[4]);
    return t;
}

INLINE __m256i load_half(const uint8_t *at)
{
    return _mm256_load_si256((const __m256i *)(const void *)at);
}

/* The codes of columns 4 * part + 0..3 of half a line, a byte each. */
INLINE __m256i codes_of(__m256i w, int part)
{
    return _mm256_and_si256(part ? _mm256_srli_epi16(w, 4) : w, _mm256_set1_epi8(15));
}

/* Byte i of each field as its top byte, nothing below. */
INLINE __m256i top_byte(__m256i w, int i)
{
    const char n = -1;
    if (i == 3) return _mm256_and_si256(w, _mm256_set1_epi32((int)0xff000000));
    const __m128i at = i == 0   ? _mm_setr_epi8(n, n, n, 0, n, n, n, 4, n, n, n, 8, n, n, n, 12)
                       : i == 1 ? _mm_setr_epi8(n, n, n, 1, n, n, n, 5, n, n, n, 9, n, n, n, 13)
                                : _mm_setr_epi8(n, n, n, 2, n, n, n, 6, n, n, n, 10, n, n, n, 14);
    return _mm256_shuffle_epi8(w, _mm256_broadcastsi128_si256(at));
}

/* Four columns of eight rows on their way: bytes of halves, or FP8 where a float has its bits, the
 * even columns and the odd ones. */
struct four {
    __m256i even, odd;
};

INLINE struct four open_four(enum how how, const struct tables *t, const uint8_t *half, int part)
{
    const __m256i w = load_half(half);
    if (is_halves(how)) {
        const __m256i bytes = _mm256_shuffle_epi8(t->twice, codes_of(w, part));
        return (struct four){bytes, bytes};
    }
    /* The even bytes times 16, or 32, with their sign: one multiplication for two shifts. */
    const __m256i by = _mm256_set1_epi16(is_e4m3(how) ? 16 : 32);
    const __m256i even = _mm256_maddubs_epi16(by, w);
    return (struct four){even, _mm256_srai_epi16(w, is_e4m3(how) ? 4 : 3)};
}

/* Column i of them. */
INLINE __m256 value_of(enum how how, struct four f, int i)
{
    if (is_halves(how)) return _mm256_cvtepi32_ps(top_byte(f.even, i));
    const __m256i mask = _mm256_set1_epi32(is_e4m3(how) ? (int)0x87f00000 : (int)0x8fe00000);
    const __m256i w = i % 2 ? f.odd : f.even;
    return _mm256_castsi256_ps(_mm256_and_si256(i < 2 ? _mm256_slli_epi32(w, 16) : w, mask));
}

/* Four columns of any levels: bytes column by column, then halves of floats, then floats. */
INLINE void look_up_four(const struct tables *t, const uint8_t *half, int part, __m256 v[4])
{
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i w = _mm256_shuffle_epi8(load_half(half), _mm256_broadcastsi128_si256(order));
    const __m256i c = codes_of(w, part);
    const __m256i b0 = _mm256_shuffle_epi8(t->byte[0], c), b1 = _mm256_shuffle_epi8(t->byte[1], c);
    const __m256i b2 = _mm256_shuffle_epi8(t->byte[2], c), b3 = _mm256_shuffle_epi8(t->byte[3], c);
    const __m256i low = _mm256_unpacklo_epi8(b0, b1), high = _mm256_unpacklo_epi8(b2, b3);
    const __m256i low2 = _mm256_unpackhi_epi8(b0, b1), high2 = _mm256_unpackhi_epi8(b2, b3);
    v[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(low, high));
    v[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(low, high));
    v[2] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(low2, high2));
    v[3] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(low2, high2));
}

INLINE __m256 weight(enum how how, __m256 v, const float *scale)
{
    if (how == HALVES_POWER) return v;
    if (how == E4M3_LARGE) v = _mm256_mul_ps(v, _mm256_set1_ps(0x1p120f));
    if (how == E5M2_LARGE) v = _mm256_mul_ps(v, _mm256_set1_ps(0x1p112f));
    return _mm256_mul_ps(v, _mm256_loadu_ps(scale));
}

/* --- panels side by side ---------------------------------------------------------------------- */

/* Columns [col, end) of `together` panels; of col a group begins. */
struct run {
    const struct pith_panels *m;
    struct tables table;
    size_t together, panel, col, end; /* panel: bytes from one to the next */
    const uint8_t *line;              /* of the first panel, at col */
    const float *x;                   /* of column 0 */
    float *y;                         /* [together][16] */
    float scale[CHUNK][TOGETHER][16]; /* of powers: from the unit of the group before to this one */
};

/* Where a line is. */
struct place {
    const uint8_t *line;
    const float *x, (*scale)[16];
};

/* Columns 4 * part + 0..3: with four registers of bytes of levels there is only one half of one
 * panel at a time. */
INLINE void four_columns(enum how how, const struct run *r, size_t together, struct place p,
                         int part, v16 *y)
{
    struct four a[TOGETHER], b[TOGETHER];
    __m256 v[4];
    p.x += 4 * part;
#define FMA(sum, i, value, scale)                                                                  \
    sum = _mm256_fmadd_ps(weight(how, value, scale), _mm256_broadcast_ss(p.x + (i)), sum)
#define HALF(sum, at, scale)                                                                       \
    do {                                                                                           \
        look_up_four(&r->table, at, part, v);                                                      \
        FMA(sum, 0, v[0], scale);                                                                  \
        FMA(sum, 1, v[1], scale);                                                                  \
        FMA(sum, 2, v[2], scale);                                                                  \
        FMA(sum, 3, v[3], scale);                                                                  \
    } while (0)
#define OPEN(j)                                                                                    \
    if (j < together && how == LEVELS) {                                                           \
        HALF(y[j].a, p.line + j * r->panel, p.scale[j]);                                           \
        HALF(y[j].b, p.line + j * r->panel + 32, p.scale[j] + 8);                                  \
    } else if (j < together) {                                                                     \
        a[j] = open_four(how, &r->table, p.line + j * r->panel, part);                             \
        b[j] = open_four(how, &r->table, p.line + j * r->panel + 32, part);                        \
    }
#define STEP(i, j)                                                                                 \
    if (j < together && how != LEVELS) {                                                           \
        FMA(y[j].a, i, value_of(how, a[j], i), p.scale[j]);                                        \
        FMA(y[j].b, i, value_of(how, b[j], i), p.scale[j] + 8);                                    \
    }
    OPEN(0)
    OPEN(1)
    STEP(0, 0)
    STEP(0, 1)
    STEP(1, 0)
    STEP(1, 1)
    STEP(2, 0)
    STEP(2, 1)
    STEP(3, 0)
    STEP(3, 1)
#undef FMA
#undef HALF
#undef OPEN
#undef STEP
}

INLINE void run_as(enum how how, size_t together, const struct run *r)
{
    const size_t width = how <= LEVELS ? 8 : 4;
    struct place p = {r->line, r->x + r->col, r->scale[0]};
    v16 y[TOGETHER];
    for (size_t i = 0; i < together; i++) y[i] = v16_load(r->y + i * 16);
    for (size_t c = r->col; c < r->end; p.scale += TOGETHER) {
        const size_t stop = c + r->m->group < r->end ? c + r->m->group : r->end;
        for (size_t i = 0; how == HALVES_POWER && i < together; i++)
            y[i] = v16_mul(y[i], v16_load(p.scale[i]));
        for (; c < stop; c += width, p.line += PITH_PANEL_LINE, p.x += width) {
            for (size_t i = 0; i < together; i++)
                __builtin_prefetch(p.line + i * r->panel + PITH_AHEAD_FLOAT);
            four_columns(how, r, together, p, 0, y);
            if (width == 8) four_columns(how, r, together, p, 1, y);
        }
    }
    for (size_t i = 0; i < together; i++) v16_store(r->y + i * 16, y[i]);
}

typedef void run_fn(const struct run *r);
#define HOWS(X) X(HALVES) X(HALVES_POWER) X(LEVELS) X(E4M3) X(E4M3_LARGE) X(E5M2) X(E5M2_LARGE)
#define RUN(how)                                                                                   \
    static void run_##how(const struct run *r)                                                     \
    {                                                                                              \
        if (r->together == TOGETHER) run_as(how, TOGETHER, r);                                     \
        else run_as(how, 1, r);                                                                    \
    }
HOWS(RUN)
#undef RUN
#define ROW(how) run_##how,
static run_fn *const runs[] = {HOWS(ROW)};
#undef ROW

/* --- what halves need --------------------------------------------------------------------------
 * As integers they have no zero with a sign. That never shows where no sum becomes a zero with one:
 * where none begins as one and none becomes too small for a float. */

enum { BIAS = 127 };
#define HALVES_LEAST 0x1p-40f /* of scales but zeros */

/* Exponents, as floats have them, between which all but zeros lie. */
struct range {
    int least, most;
};

/* Of n floats, a multiple of four: zeros less one are the largest integers. */
static struct range range_of(size_t n, const float *x)
{
    const __m128i size = _mm_set1_epi32(0x7fffffff), one = _mm_set1_epi32(1);
    __m128i least = _mm_set1_epi32(-1), most = _mm_setzero_si128();
    uint32_t low[4], high[4];
    struct range r = {255, 0};
    for (size_t i = 0; i < n; i += 4) {
        const __m128i v = _mm_and_si128(_mm_castps_si128(_mm_loadu_ps(x + i)), size);
        least = _mm_min_epu32(least, _mm_sub_epi32(v, one));
        most = _mm_max_epu32(most, v);
    }
    _mm_storeu_si128((__m128i *)(void *)low, least);
    _mm_storeu_si128((__m128i *)(void *)high, most);
    for (int i = 0; i < 4; i++) {
        const int of_least = low[i] == UINT32_MAX ? 255 : (int)((low[i] + 1) >> 23);
        r.least = of_least < r.least ? of_least : r.least;
        r.most = (int)(high[i] >> 23) > r.most ? (int)(high[i] >> 23) : r.most;
    }
    return r;
}

/* Whether x and y, where chains begin, are such as halves need. */
static bool halves_fit(struct range x, size_t n, const float *y)
{
    for (size_t i = 0; i < n; i++)
        if (y[i] == 0 && signbit(y[i])) return false;
    return x.least >= BIAS - 60;
}

/* --- scales ----------------------------------------------------------------------------------- */

/* What values are too small by. */
static float factor_of(enum how how)
{
    return how == HALVES ? 0x1p-25f : how == E4M3 ? 0x1p120f : how == E5M2 ? 0x1p112f : 1.0f;
}

/* How to go on where a scale cannot take it. */
static enum how plain(enum how how)
{
    return how == HALVES ? LEVELS : how == E4M3 ? E4M3_LARGE : how == E5M2 ? E5M2_LARGE : how;
}

/* Whether some scale of m might not: halves and products with them are large enough. */
static bool may_leave(enum how how, const struct pith_panels *m)
{
    if (plain(how) == how) return false;
    if (how != HALVES) return true;
    if (m->scale == PITH_SCALE_E4M3) return !(m->global > 0x1p-30f && m->global < 0x1p60f);
    return m->scale != PITH_SCALE_F16 && m->scale != PITH_SCALE_PRODUCT;
}

/* Whether all of x are finite, and zeros or at least so large. */
INLINE bool all_within(__m256 x, float least)
{
    const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    const __m256 above = _mm256_cmp_ps(size, _mm256_set1_ps(least), _CMP_GE_OQ);
    const __m256 below = _mm256_cmp_ps(size, _mm256_set1_ps(__builtin_inff()), _CMP_LT_OQ);
    const __m256 zero = _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_EQ_OQ);
    return _mm256_movemask_ps(_mm256_or_ps(zero, _mm256_and_ps(above, below))) == 255;
}

/* The scales of groups [g, g + n) of panels [panel, panel + r->together); how to go on. */
static enum how take_scales(enum how how, size_t panel, size_t g, size_t n, struct run *r)
{
    const struct pith_panels *m = r->m;
    const v16 factor = v16_set(factor_of(how));
    const bool doubt = may_leave(how, m);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < r->together; j++) {
            const v16 scale = load_scales(m, m->scale, (panel + j) * m->groups + g + i);
            const v16 by = v16_mul(scale, factor), what = how == HALVES ? scale : by;
            const float least = how == HALVES ? HALVES_LEAST : 0.0f;
            if (doubt && !(all_within(what.a, least) && all_within(what.b, least)))
                return take_scales(plain(how), panel, g, n, r);
            v16_store(r->scale[i][j], by);
        }
    return how;
}

/* --- sums in units of the scale ---------------------------------------------------------------
 * Scales that are powers of two change no bit of a chain when its sum is stored divided by them and
 * is converted from each group's unit to the next one's, as long as nothing leaves the range of
 * normal floats. Every sum is a multiple of the smallest level times the smallest scale times the
 * last bit of the smallest x, so that can be checked before. */

/* The same of the scales of panels [panel, panel + together). */
static struct range scales_range(const struct pith_panels *m, size_t panel, size_t together)
{
    const uint8_t *e = (const uint8_t *)m->scales + panel * m->groups * PITH_PANEL_ROWS;
    __m128i low = _mm_set1_epi8(-1), high = _mm_setzero_si128();
    for (size_t i = 0; i < together * m->groups; i++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(e + i * 16));
        low = _mm_min_epu8(low, v);
        high = _mm_max_epu8(high, v);
    }
    uint8_t least[16], most[16];
    struct range r = {255, 0};
    _mm_storeu_si128((__m128i *)(void *)least, low);
    _mm_storeu_si128((__m128i *)(void *)most, high);
    for (int i = 0; i < 16; i++) {
        r.least = least[i] < r.least ? least[i] : r.least;
        r.most = most[i] > r.most ? most[i] : r.most;
    }
    return r;
}

/* Whether the sums of r's panels, the first `panel`, may be stored so. */
static bool power_fits(const struct run *r, struct range x, size_t panel)
{
    enum { SMALLEST = -126, LARGEST = 127 };
    const struct range e = scales_range(r->m, panel, r->together);
    for (size_t i = 0; i < r->together * 16; i++)
        if (r->y[i] != 0) return false;
    /* Of x and half a level: the last bit; of 2^24 columns with levels 2^31 as large: a bound. */
    const int last = x.least - BIAS - 24, bound = x.most - BIAS + 58, spread = e.most - e.least;
    return e.least >= 32 && e.most <= 240 && spread <= 100 && r->m->cols < 1u << 24 &&
           last - spread >= SMALLEST && last + e.least - BIAS >= SMALLEST &&
           bound + spread <= LARGEST && bound + e.most - BIAS <= LARGEST;
}

/* Powers of two by exponents of 16 rows less those of `less`, or less a number. */
INLINE v16 powers(v16i e, v16i less)
{
    const v16i d = {_mm256_sub_epi32(e.a, less.a), _mm256_sub_epi32(e.b, less.b)};
    return v16_from_bits(v16i_shift_left(d, 23));
}
INLINE v16i exponents(const struct pith_panels *m, size_t group, int more)
{
    const v16i e = v16i_load_bytes((const uint8_t *)m->scales + group * PITH_PANEL_ROWS);
    const __m256i add = _mm256_set1_epi32(more);
    return (v16i){_mm256_add_epi32(e.a, add), _mm256_add_epi32(e.b, add)};
}

static void take_powers(size_t panel, size_t g, size_t n, struct run *r)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < r->together; j++) {
            const size_t at = (panel + j) * r->m->groups + g + i;
            const v16i before = exponents(r->m, g + i ? at - 1 : at, 127);
            v16_store(r->scale[i][j], powers(before, exponents(r->m, at, 0)));
        }
}

/* From the unit of the last group, and of values 2^25 as large. */
static void close_powers(size_t panel, struct run *r)
{
    const __m256i large = _mm256_set1_epi32(25);
    for (size_t j = 0; j < r->together; j++) {
        const v16i last = exponents(r->m, (panel + j + 1) * r->m->groups - 1, 0);
        const v16 unit = powers(last, (v16i){large, large});
        v16_store(r->y + j * 16, v16_mul(v16_load(r->y + j * 16), unit));
    }
}

/* --- the product ------------------------------------------------------------------------------ */

static void dot_panels(enum how how, size_t panel, struct run *r)
{
    const struct pith_panels *m = r->m;
    const size_t width = how <= LEVELS ? 8 : 4;
    for (size_t g = 0; g < m->groups; g += CHUNK) {
        const size_t n = m->groups - g < CHUNK ? m->groups - g : CHUNK;
        enum how now = how;
        r->col = g * m->group;
        r->end = g + n < m->groups ? (g + n) * m->group : m->cols;
        r->line = m->codes + panel * r->panel + r->col / width * PITH_PANEL_LINE;
        if (how == HALVES_POWER) take_powers(panel, g, n, r);
        else now = take_scales(how, panel, g, n, r);
        runs[now](r);
    }
    if (how == HALVES_POWER) close_powers(panel, r);
}

static void dot_floats(const struct pith_panels *m, size_t first, size_t count, const float *x,
                       float *y)
{
    const bool level4 = m->form == PITH_PANEL_LEVEL4, halves = level4 && are_halves(m->level);
    const struct range range = halves ? range_of(m->cols, x) : (struct range){0};
    struct run r = {.m = m, .x = x, .panel = pith_panel_bytes(m)};
    if (level4) r.table = make_tables(m->level, halves);
    for (size_t i = 0; i < count; i += r.together) {
        enum how how = level4 ? LEVELS : m->form == PITH_PANEL_E4M3 ? E4M3 : E5M2;
        r.together = i + TOGETHER <= count ? TOGETHER : 1;
        r.y = y + i * PITH_PANEL_ROWS;
        if (halves && halves_fit(range, r.together * PITH_PANEL_ROWS, r.y)) {
            const bool power = m->scale == PITH_SCALE_E8M0 && power_fits(&r, range, first + i);
            how = power ? HALVES_POWER : HALVES;
        }
        dot_panels(how, first + i, &r);
    }
}

void pith_panel_dot_avx2(const struct pith_panels *m, size_t first, size_t count, const float *x,
                         float *y)
{
    const bool planes = pith_panel_has_planes(m->bits);
    const bool folds = m->fold && m->form == PITH_PANEL_LEVEL4;
    const bool floats = m->form != PITH_PANEL_INT8 && !planes && !m->zeros && !folds;
    (floats ? dot_floats : pith_panel_dot_ints_avx2)(m, first, count, x, y);
}
