/* Attention over codes by rows of bytes: four rows of codes are interleaved, so that one
 * instruction adds up four products in 32 bits for sixteen columns. Of two codes a byte both the
 * whole bytes and their high halves are multiplied: the difference of the sums is that of the low
 * halves. Sums begin at what the middle of the codes takes off. */
#include "kern/avx512/vec_avx512.h"
#include "kern/coded.h"
#include "kern/ops.h"
#include "kern/panel.h"
#include "kern/template/coded_block.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { BLOCK = PITH_CODED_BLOCK, MOST_ROWS = 4, LINE = 64 };
/* Groups whose weights are made bytes before the first is used: each waits long for its own. */
enum { TOGETHER = 4 };

/* 32 sums of a row: of codes of 4 bits those of even columns and of odd ones, of 8 bits the first
 * sixteen and the last. */
struct columns {
    __m512i a, b;
};
struct column_floats {
    __m512 a, b;
};

/* Equal words of four quarters side by side; within each, four rows of four bytes transposed. */
INLINE __m512i words_together(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}
INLINE __m512i transposed(__m512i x)
{
    const __m128i at = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(at));
}

INLINE __m128i sixteen_bytes(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}
INLINE __m256i half_line(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Four rows of 16 bytes, 16 or `stride` apart, as sixteen columns of four. */
INLINE __m512i four_of_16(bool dense, const uint8_t *at, size_t stride)
{
    __m512i x;
    if (dense) {
        x = _mm512_loadu_si512(at);
    } else {
        x = _mm512_castsi128_si512(sixteen_bytes(at));
        x = _mm512_mask_broadcast_i32x4(x, 0x00f0, sixteen_bytes(at + stride));
        x = _mm512_mask_broadcast_i32x4(x, 0x0f00, sixteen_bytes(at + 2 * stride));
        x = _mm512_mask_broadcast_i32x4(x, 0xf000, sixteen_bytes(at + 3 * stride));
    }
    return transposed(_mm512_permutexvar_epi32(words_together(), x));
}

/* The same of 32 bytes. */
INLINE struct columns four_of_32(bool dense, const uint8_t *at, size_t stride)
{
    const __m512i first =
        _mm512_setr_epi32(0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
    const __m512i last = _mm512_add_epi32(first, _mm512_set1_epi32(4));
    __m512i x, y;
    if (dense) {
        x = _mm512_loadu_si512(at);
        y = _mm512_loadu_si512(at + 64);
    } else {
        x = _mm512_castsi256_si512(half_line(at));
        y = _mm512_castsi256_si512(half_line(at + 2 * stride));
        x = _mm512_mask_broadcast_i64x4(x, 0xf0, half_line(at + stride));
        y = _mm512_mask_broadcast_i64x4(y, 0xf0, half_line(at + 3 * stride));
    }
    return (struct columns){transposed(_mm512_permutex2var_epi32(x, first, y)),
                            transposed(_mm512_permutex2var_epi32(x, last, y))};
}

/* Rows of bytes, ldq apart, and the sums of each, lds apart. */
struct byte_rows {
    const int8_t *q;
    size_t ldq;
    const int32_t *sum;
    size_t lds;
};

struct code_rows {
    const uint8_t *at;
    size_t stride;
    const uint8_t
        *ahead; /* as many, in one piece, that are prefetched meanwhile, a line at a time */
};

/* The sums of 32 rows of 32 codes, `dense` when nothing lies between, times `rows` rows of q, less
 * their middle. */
INLINE void block_sums(size_t bits, size_t rows, bool dense, const struct code_rows *codes,
                       const struct byte_rows *q, struct columns *out)
{
    const size_t stride = dense ? BLOCK * bits / 8 : codes->stride;
    const uint8_t *at = codes->at, *ahead = codes->ahead;
    const int8_t *by = q->q;
    if (!dense) __asm__("" : "+r"(by)); /* or the compiler stores all of them for the next tile */
    const __m512i high = _mm512_set1_epi8((char)0xf0);
    __m512i a[MOST_ROWS], b[MOST_ROWS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const int32_t sum = q->sum[r * q->lds];
        a[r] = _mm512_set1_epi32((bits == 8 ? -128 : -8 - 8 * 16) * sum);
        b[r] = _mm512_set1_epi32(-128 * sum);
    }
    UNROLL
    for (size_t i = 0; i < BLOCK; i += 4, at += 4 * stride, ahead += BLOCK * bits / 2) {
        struct columns w;
        __builtin_prefetch(ahead, 0, 2);
        if (bits == 8) {
            w = four_of_32(dense, at, stride);
        } else {
            w.a = four_of_16(dense, at, stride);
            w.b = _mm512_and_si512(w.a, high);
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, by + r * q->ldq + i, sizeof four);
            const __m512i e = _mm512_set1_epi32(four);
            a[r] = _mm512_dpbusd_epi32(a[r], w.a, e);
            b[r] = _mm512_dpbusd_epi32(b[r], w.b, e);
            __asm__("" : "+v"(a[r]), "+v"(b[r]), "+r"(ahead)); /* or they are moved about */
        }
        if (bits == 8) __builtin_prefetch(ahead + LINE, 0, 2);
        __asm__(""
                : "+r"(ahead)); /* or the second is prefetched first, and the prefetcher does not
                                 * see that lines follow each other */
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        out[r].a = bits == 8 ? a[r] : _mm512_sub_epi32(a[r], b[r]);
        out[r].b = bits == 8 ? b[r] : _mm512_srai_epi32(b[r], 4);
    }
}

INLINE struct column_floats floats_of(struct columns x)
{
    return (struct column_floats){_mm512_cvtepi32_ps(x.a), _mm512_cvtepi32_ps(x.b)};
}

/* 32 numbers in the order of sums, and back. */
INLINE struct column_floats columns_at(size_t bits, const float *at)
{
    const __m512 x = _mm512_loadu_ps(at), y = _mm512_loadu_ps(at + PITH_LANES);
    if (bits == 8) return (struct column_floats){x, y};
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return (struct column_floats){_mm512_permutex2var_ps(x, even, y),
                                  _mm512_permutex2var_ps(x, odd, y)};
}
INLINE struct column_floats in_order(size_t bits, struct column_floats x)
{
    if (bits == 8) return x;
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    return (struct column_floats){_mm512_permutex2var_ps(x.a, low, x.b),
                                  _mm512_permutex2var_ps(x.a, high, x.b)};
}

/* Where a tile of what is read soon lies, of 32 rows of 32 codes; or the one that is read now. */
INLINE const uint8_t *next_tile(size_t bits, const struct pith_coded *c, size_t tile,
                                bool prefetches)
{
    return (prefetches && c->next ? c->next : c->codes) + tile * BLOCK * BLOCK * bits / 8;
}

INLINE void score_rows(size_t bits, size_t rows, const struct pith_coded *k,
                       const struct pith_coded_bytes *q, size_t row, float *s, size_t lds)
{
    const size_t ld = q->blocks, stride = BLOCK * bits / 8;
    struct column_floats sums[MOST_ROWS];
    UNROLL
    for (size_t r = 0; r < rows; r++) sums[r].a = sums[r].b = _mm512_setzero_ps();
    const size_t together = k->width / BLOCK;
    for (size_t b = 0, list = 0, end = together; b < q->blocks; b++) {
        if (b == end) list += PITH_KEYS, end += together;
        const size_t i = row * ld + b;
        const struct byte_rows of = {q->q + i * BLOCK, ld * BLOCK, q->sum + i, ld};
        const struct column_floats scale = columns_at(bits, k->scale + list);
        struct columns x[MOST_ROWS];
        block_sums(bits, rows, true,
                   &(struct code_rows){k->codes + b * BLOCK * stride, stride,
                                       next_tile(bits, k, b, row == 0)},
                   &of, x);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const struct column_floats d = floats_of(x[r]);
            const __m512 by = _mm512_set1_ps(q->scale[i + r * ld]);
            sums[r].a = _mm512_fmadd_ps(_mm512_mul_ps(d.a, by), scale.a, sums[r].a);
            sums[r].b = _mm512_fmadd_ps(_mm512_mul_ps(d.b, by), scale.b, sums[r].b);
        }
        if (!k->offset) continue;
        const struct column_floats offset = columns_at(bits, k->offset + list);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512 total = _mm512_set1_ps(q->total[i + r * ld]);
            sums[r].a = _mm512_fmadd_ps(offset.a, total, sums[r].a);
            sums[r].b = _mm512_fmadd_ps(offset.b, total, sums[r].b);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const struct column_floats x = in_order(bits, sums[r]);
        _mm512_storeu_ps(s + r * lds, x.a);
        _mm512_storeu_ps(s + r * lds + PITH_LANES, x.b);
    }
}

/* What four rows of weights make of a group: bytes, and for row r, at 4 r of `scale` and at
 * sum_of(r), their scale and sum; what offsets add. */
struct weighed {
    int8_t q[MOST_ROWS * BLOCK];
    float scale[16], more[MOST_ROWS];
    int32_t sum[16];
};
INLINE size_t sum_of(size_t r)
{
    return r / 2 * 8 + r % 2 * 2;
}

INLINE __m512i larger_of(__m512i x, __m512i y)
{
    return _mm512_max_epi32(x, y);
}

/* The largest magnitude of each of four rows, in all lanes of a quarter. */
INLINE __m512i largest_of_four(const struct column_floats x[MOST_ROWS])
{
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i m[MOST_ROWS];
    UNROLL
    for (size_t r = 0; r < MOST_ROWS; r++)
        m[r] = larger_of(_mm512_and_si512(_mm512_castps_si512(x[r].a), size),
                         _mm512_and_si512(_mm512_castps_si512(x[r].b), size));
    const __m512i t =
        larger_of(_mm512_shuffle_i32x4(m[0], m[1], 0x44), _mm512_shuffle_i32x4(m[0], m[1], 0xee));
    const __m512i u =
        larger_of(_mm512_shuffle_i32x4(m[2], m[3], 0x44), _mm512_shuffle_i32x4(m[2], m[3], 0xee));
    __m512i most = larger_of(_mm512_shuffle_i32x4(t, u, 0x88), _mm512_shuffle_i32x4(t, u, 0xdd));
    most = larger_of(most, _mm512_shuffle_epi32(most, _MM_PERM_BADC));
    return larger_of(most, _mm512_shuffle_epi32(most, _MM_PERM_CDAB));
}

/* A row's quarter of x in all four. */
INLINE __m512 quarter(__m512 x, size_t r)
{
    if (r == 0) return _mm512_shuffle_f32x4(x, x, 0x00);
    if (r == 1) return _mm512_shuffle_f32x4(x, x, 0x55);
    return r == 2 ? _mm512_shuffle_f32x4(x, x, 0xaa) : _mm512_shuffle_f32x4(x, x, 0xff);
}

/* Two rows times their factors, to nearest: words of four bytes of the first row's halves and the
 * second's. */
INLINE __m512i two_to_bytes(const struct column_floats x[2], __m512 first, __m512 second)
{
    const __m512i a = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(x[0].a, first)),
                                         _mm512_cvtps_epi32(_mm512_mul_ps(x[0].b, first)));
    const __m512i b = _mm512_packs_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(x[1].a, second)),
                                         _mm512_cvtps_epi32(_mm512_mul_ps(x[1].b, second)));
    return _mm512_packs_epi16(a, b);
}

/* to_bytes() for four blocks of 32 numbers. */
INLINE void four_to_bytes(struct column_floats x[MOST_ROWS], struct weighed *w)
{
    const __m512i most = largest_of_four(x);
    const __mmask16 finite = _mm512_cmplt_epi32_mask(most, _mm512_set1_epi32(0x7f800000));
    const __m512 largest =
        _mm512_mask_mov_ps(_mm512_set1_ps(__builtin_nanf("")), finite, _mm512_castsi512_ps(most));
    const __mmask16 live =
        _mm512_cmp_ps_mask(largest, _mm512_set1_ps(PITH_BYTES_LEAST), _CMP_GE_OQ);
    const __m512 top = _mm512_set1_ps(127.0f);
    const __m512 factor = _mm512_maskz_div_ps(live, top, largest);
    _mm512_storeu_ps(w->scale, _mm512_div_ps(largest, top));
    if (live != 0xffff) {
        UNROLL
        for (size_t r = 0; r < MOST_ROWS; r++) {
            const __mmask16 all = (__mmask16)(0 - (live >> 4 * r & 1));
            x[r].a = _mm512_maskz_mov_ps(all, x[r].a);
            x[r].b = _mm512_maskz_mov_ps(all, x[r].b);
        }
    }
    const __m512i low = two_to_bytes(x, quarter(factor, 0), quarter(factor, 1));
    const __m512i high = two_to_bytes(x + 2, quarter(factor, 2), quarter(factor, 3));
    _mm512_storeu_si512(w->q, _mm512_permutexvar_epi32(words_together(), low));
    _mm512_storeu_si512(w->q + 2 * BLOCK, _mm512_permutexvar_epi32(words_together(), high));
    const __m512i one = _mm512_set1_epi8(1), none = _mm512_setzero_si512();
    const __m512i a = _mm512_dpbusd_epi32(none, one, low);
    const __m512i b = _mm512_dpbusd_epi32(none, one, high);
    __m512i t =
        _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
    t = _mm512_add_epi32(t, _mm512_shuffle_i32x4(t, t, 0xb1));
    _mm512_storeu_si512(w->sum, _mm512_add_epi32(t, _mm512_shuffle_epi32(t, _MM_PERM_CDAB)));
}

INLINE void weigh_group(size_t rows, const struct pith_coded *v, size_t g, const float *p,
                        size_t ldp, struct weighed *w)
{
    const float *scale = v->scale + g * PITH_KEYS, *offset = v->offset + g * PITH_KEYS;
    const __m512 a = _mm512_loadu_ps(scale), b = _mm512_loadu_ps(scale + PITH_LANES);
    struct column_floats x[MOST_ROWS];
    UNROLL
    for (size_t r = 0; r < MOST_ROWS; r++) {
        const float *from = p + (r < rows ? r : 0) * ldp;
        x[r].a = _mm512_mul_ps(_mm512_loadu_ps(from), a);
        x[r].b = _mm512_mul_ps(_mm512_loadu_ps(from + PITH_LANES), b);
    }
    four_to_bytes(x, w);
    for (size_t r = 0; r < rows; r++) {
        w->more[r] = 0;
        if (!v->offset) continue;
        const v16 low = v16_fma(v16_load(p + r * ldp), v16_load(offset), v16_zero());
        w->more[r] = v16_sum(
            v16_fma(v16_load(p + r * ldp + PITH_LANES), v16_load(offset + PITH_LANES), low));
    }
}

/* 32 elements of the values. */
INLINE void value_tile(size_t bits, size_t rows, const struct pith_coded *v, size_t tile,
                       const uint8_t *ahead, const struct weighed *w, float *o, size_t ldo)
{
    struct columns sums[MOST_ROWS];
    int32_t sum[MOST_ROWS];
    const struct byte_rows of = {w->q, BLOCK, sum, 1};
    UNROLL
    for (size_t r = 0; r < rows; r++) sum[r] = w->sum[sum_of(r)];
    block_sums(bits, rows, false,
               &(struct code_rows){v->codes + tile * BLOCK * bits / 8, v->stride, ahead}, &of,
               sums);
    o += tile * BLOCK;
    UNROLL
    for (size_t r = 0; r < rows; r++, o += ldo) {
        const struct column_floats d = in_order(bits, floats_of(sums[r]));
        const __m512 scale = _mm512_set1_ps(w->scale[4 * r]);
        __m512 a = _mm512_fmadd_ps(d.a, scale, _mm512_loadu_ps(o));
        __m512 b = _mm512_fmadd_ps(d.b, scale, _mm512_loadu_ps(o + PITH_LANES));
        if (v->offset) {
            a = _mm512_add_ps(a, _mm512_set1_ps(w->more[r]));
            b = _mm512_add_ps(b, _mm512_set1_ps(w->more[r]));
        }
        _mm512_storeu_ps(o, a);
        _mm512_storeu_ps(o + PITH_LANES, b);
    }
}

INLINE void value_rows(size_t bits, size_t rows, const struct pith_coded *v,
                       const struct pith_coded_sums *s, size_t row, float *o, size_t ldo)
{
    const size_t tiles = v->width / BLOCK, groups = v->dim / v->width;
    for (size_t g = 0; g < groups; g += TOGETHER) {
        struct weighed w[TOGETHER];
        const size_t n = groups - g < TOGETHER ? groups - g : TOGETHER;
        for (size_t i = 0; i < n; i++)
            weigh_group(rows, v, g + i, s->p + row * s->ldp, s->ldp, &w[i]);
        for (size_t i = 0; i < n; i++)
            for (size_t t = (g + i) * tiles; t < (g + i + 1) * tiles; t++)
                value_tile(bits, rows, v, t, next_tile(bits, v, t, row == 0), &w[i], o, ldo);
    }
}

/* By fours of rows, then the remaining ones. */
#define BY_ROWS(name, bits, c, x, to, ld)                                                          \
    {                                                                                              \
        size_t r = 0;                                                                              \
        for (; r + 4 <= (x)->rows; r += 4) name(bits, 4, c, x, r, (to) + r * (ld), ld);            \
        if (r + 3 == (x)->rows) name(bits, 3, c, x, r, (to) + r * (ld), ld);                       \
        if (r + 2 == (x)->rows) name(bits, 2, c, x, r, (to) + r * (ld), ld);                       \
        if (r + 1 == (x)->rows) name(bits, 1, c, x, r, (to) + r * (ld), ld);                       \
    }

void pith_attn_scores_bytes_vnni(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                 float *s, size_t lds)
{
    if (pith_coded_bits(k) == 8) BY_ROWS(score_rows, 8, k, q, s, lds)
    else BY_ROWS(score_rows, 4, k, q, s, lds)
}

void pith_attn_values_bytes_vnni(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    if (pith_coded_bits(v) == 8) BY_ROWS(value_rows, 8, v, s, s->o, s->ldo)
    else BY_ROWS(value_rows, 4, v, s, s->o, s->ldo)
}
