/* The fast product with packed panels of integers: four columns of sixteen rows in one
 * instruction, exact in 32 bits. */
#include "kern/avx512/vec_avx512.h"
#include "kern/ops.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m512i four_bytes(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm512_set1_epi32(v);
}

INLINE __m512 scales_at(const struct pith_panels *m, size_t group)
{
    const char *at = m->scales;
    if (m->scale == PITH_SCALE_BF16) return v16_load_bf16(at + group * 32);
    if (m->scale == PITH_SCALE_F16) return v16_load_f16(at + group * 32);
    return _mm512_loadu_ps(at + group * 64);
}

/* One line of a panel times its columns of q. */
INLINE __m512i line_step(bool level4, const uint8_t *line, const int8_t *q, __m512i sum)
{
    const __m512i w = _mm512_load_si512(line), low = _mm512_set1_epi8(15);
    if (!level4) return _mm512_dpbusd_epi32(sum, w, four_bytes(q));
    sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(w, low), four_bytes(q));
    return _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(w, 4), low),
                               four_bytes(q + 4));
}

struct panel {
    const uint8_t *codes;
    size_t group;
    __m512i zero;
    __m512 y, t;
};

INLINE void panel_open(const struct pith_panels *m, size_t index, struct panel *p)
{
    p->codes = m->codes + index * pith_panel_lines(m) * PITH_PANEL_LINE;
    p->group = index * m->groups;
    p->zero = _mm512_set1_epi32((int)m->zero);
    p->y = _mm512_setzero_ps();
}

INLINE void group_open(const struct pith_panels *m, size_t g, struct panel *p)
{
    p->t = _mm512_setzero_ps();
    if (!m->zeros) return;
    const uint8_t *zeros = m->zeros + (p->group + g) * PITH_PANEL_ROWS;
    p->zero = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
}

INLINE __m512i block_open(const struct pith_bytes *x, size_t block, const struct panel *p)
{
    return _mm512_mullo_epi32(p->zero, _mm512_set1_epi32(-x->sum[block]));
}

INLINE void block_close(const struct pith_bytes *x, size_t block, __m512i sum, struct panel *p)
{
    p->t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(x->scale[block]), p->t);
}

INLINE void dot_panels(const struct pith_panels *m, bool level4, size_t index, bool two,
                       const struct pith_bytes *x, float *y)
{
    enum { STEP = 256 /* columns between decisions what to ask for */ };
    const size_t width = level4 ? 8 : 4, lines = pith_panel_lines(m);
    struct panel a, b;
    panel_open(m, index, &a);
    if (two) panel_open(m, index + 1, &b);
    size_t c = 0, block = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t stop = c + m->group < m->cols ? c + m->group : m->cols;
        group_open(m, g, &a);
        if (two) group_open(m, g, &b);
        for (; c < stop; block++) {
            const size_t end = c + x->block < stop ? c + x->block : stop;
            __m512i s = block_open(x, block, &a), t = s;
            if (two) t = block_open(x, block, &b);
            while (c < end) {
                const size_t step = c + STEP < end ? c + STEP : end;
                const size_t ahead = pith_panel_ahead(lines, c / width);
                for (; c < step; c += width) {
                    s = line_step(level4, a.codes, x->q + c, s);
                    __builtin_prefetch(a.codes + ahead);
                    a.codes += PITH_PANEL_LINE;
                    if (!two) continue;
                    t = line_step(level4, b.codes, x->q + c, t);
                    __builtin_prefetch(b.codes + ahead);
                    b.codes += PITH_PANEL_LINE;
                }
            }
            block_close(x, block, s, &a);
            if (two) block_close(x, block, t, &b);
        }
        a.y = _mm512_fmadd_ps(scales_at(m, a.group + g), a.t, a.y);
        if (two) b.y = _mm512_fmadd_ps(scales_at(m, b.group + g), b.t, b.y);
    }
    _mm512_storeu_ps(y, a.y);
    if (two) _mm512_storeu_ps(y + PITH_PANEL_ROWS, b.y);
}

INLINE void dot_as(const struct pith_panels *m, bool level4, size_t first, size_t count,
                   const struct pith_bytes *x, float *y)
{
    size_t i = 0;
    for (; i + 2 <= count; i += 2)
        dot_panels(m, level4, first + i, true, x, y + i * PITH_PANEL_ROWS);
    if (i < count) dot_panels(m, level4, first + i, false, x, y + i * PITH_PANEL_ROWS);
}

void pith_panel_dot_bytes_vnni(const struct pith_panels *m, size_t first, size_t count,
                               const struct pith_bytes *x, float *y)
{
    if (m->form == PITH_PANEL_LEVEL4) dot_as(m, true, first, count, x, y);
    else dot_as(m, false, first, count, x, y);
}
