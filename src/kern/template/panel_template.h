/* kern/template/panel_template.h: products with packed panels, written once in sixteen-lane
 * vectors. The including file defines, with its vec_*.h:
 *
 *     v16i                         sixteen 32-bit fields
 *     v16i_load(p), v16i_load_bytes(p)   a line; sixteen bytes, widened
 *     v16i_shift_left(x, n), v16i_shift_right(x, n), v16i_and(x, bits)
 *     v16_from_int(x), v16_from_bits(x)  the values of signed integers; the bits as floats
 *     v16_table, v16_table_load(p), v16_lookup(x, t)   one of sixteen floats by a field's low half
 *     v16_arithmetic_shift(x, n)   right, the sign copied
 *     v16_load_e4m3(p)             sixteen FP8 values
 *     v16_line_e4m3(x, i), v16_line_e5m2(x, i)   column i of a line of FP8; E4M3's values are
 *                                  E4M3_UNIT times too small
 *     v16i_byte(x, i)              byte i of each field
 *     v16i_line(bits, at, j)       sixteen columns of 2 or 3 bits: line j of the two they make as
 *                                  4-bit codes, in whose upper bits there may be anything
 *     v16i_word(bits, at, k)       the same of 5 or 6 bits: line k of the four they make as bytes
 *     LOOKUP_IS_FAST               whether v16_lookup() is one instruction
 *     PANELS_AT_ONCE               4, 2 or 1: registers of chains enough to hide the latency of the
 *                                  multiply-add, and no more than fit */
#include "kern/template/scales_template.h"

/* --- values ----------------------------------------------------------------------------------- */

/* How the codes of a matrix are read: its form and width, whether a zero is to be subtracted, and
 * whether that is part of the multiplication by the scale (struct pith_panels, fold); known where
 * this is inlined. */
struct reading {
    enum pith_panel_form form;
    unsigned bits;
    bool zeros, fold;
};

/* Byte i of each field moved to the top; the bytes below it mean nothing. */
INLINE v16i top_of(v16i line, int i)
{
    return i < 3 ? v16i_shift_left(line, 24 - 8 * i) : line;
}
INLINE v16 byte_of(v16i line, int i)
{
    return v16_from_int(v16i_byte(line, i));
}

/* Column i of eight in a line of codes of so many bits in halves of bytes. */
INLINE v16 half_byte_of(unsigned bits, v16i line, int i)
{
    const int all = ((1 << bits) - 1) * 0x01010101;
    return byte_of(v16i_and(i < 4 ? line : v16i_shift_right(line, 4), all), i % 4);
}

/* Column i of eight in a line of halves of bytes, at the lowest bits. */
INLINE v16i half_of(v16i line, int i)
{
    const int shift = i < 4 ? 8 * i : 8 * (i - 4) + 4;
    return shift ? v16i_shift_right(line, shift) : line;
}

/* Column i of eight (4 bits) or four columns of a line; where they are folded, without its zero or
 * E4M3_UNIT. */
INLINE v16 value(struct reading how, v16i line, int i, v16_table table, v16 zero)
{
    v16 v;
    switch (how.form) {
    case PITH_PANEL_LEVEL4:
        if (how.fold && !LOOKUP_IS_FAST) return half_byte_of(how.bits, line, i);
        v = v16_lookup(half_of(line, i), table);
        return how.zeros && !how.fold ? v16_sub(v, zero) : v;
    case PITH_PANEL_INT8: return how.fold ? byte_of(line, i) : v16_sub(byte_of(line, i), zero);
    case PITH_PANEL_E4M3:
        v = v16_line_e4m3(line, i);
        return how.fold || E4M3_UNIT == 1.0f ? v : v16_mul(v, v16_set(E4M3_UNIT));
    case PITH_PANEL_E5M2:
    default: return v16_line_e5m2(line, i);
    }
}

/* Columns of a line, and lines of a step of columns. */
INLINE int columns_of(struct reading how)
{
    return how.form == PITH_PANEL_LEVEL4 ? 8 : 4;
}
INLINE int lines_of(struct reading how)
{
    return pith_panel_has_planes(how.bits) ? PITH_PANEL_STEP / columns_of(how) : 1;
}

/* Line j of a step of columns. */
INLINE v16i line_of(struct reading how, const uint8_t *at, int j)
{
    if (!pith_panel_has_planes(how.bits)) return v16i_load(at);
    return how.bits < 4 ? v16i_line(how.bits, at, j) : v16i_word(how.bits, at, j);
}

/* --- the exact product ------------------------------------------------------------------------ */

/* A panel on its way: where its codes and groups are, and its sums. */
struct panel {
    const uint8_t *codes;
    size_t group;       /* index of its first group in all groups */
    v16 zero, scale, y; /* zero: where it is folded, less itself times the scale */
};

INLINE void panel_open(const struct pith_panels *m, size_t index, const float *y, struct panel *p)
{
    p->codes = pith_panel_at(m, index, 0);
    p->group = index * m->groups;
    p->zero = v16_zero();
    p->y = v16_load(y);
}

/* Codes in planes share their loops among the types of scale; K-quants have small groups. */
static __attribute__((noinline)) v16 other_scales(const struct pith_panels *m, size_t group)
{
    return load_scales(m, m->scale, group);
}
INLINE v16 any_scales(const struct pith_panels *m, size_t group)
{
    if (m->scale == PITH_SCALE_PRODUCT) return load_scales(m, PITH_SCALE_PRODUCT, group);
    return other_scales(m, group);
}

INLINE void group_open(const struct pith_panels *m, struct reading how, enum pith_panel_scale kind,
                       size_t g, struct panel *p)
{
    const size_t at = p->group + g;
    const bool planes = pith_panel_has_planes(how.bits);
    p->scale = planes ? any_scales(m, at) : load_scales(m, kind, at);
    if (how.form == PITH_PANEL_E4M3) {
        if (how.fold) p->scale = v16_mul(p->scale, v16_set(E4M3_UNIT));
        return;
    }
    if (how.fold && planes && !m->zeros)
        p->zero = v16_set(how.form == PITH_PANEL_INT8 ? m->zero : -m->level[0]);
    else if (how.zeros || how.form == PITH_PANEL_INT8) p->zero = load_zeros(m, at);
    else if (how.fold) p->zero = v16_set(-m->level[0]);
    if (how.fold) p->zero = v16_negate(v16_mul(p->zero, p->scale));
}

/* W of column i. */
INLINE v16 weight(struct reading how, v16i line, int i, v16_table table, const struct panel *p)
{
    const v16 v = value(how, line, i, table, p->zero);
    const bool has_zero = how.fold && how.form != PITH_PANEL_E4M3;
    return has_zero ? v16_fma(v, p->scale, p->zero) : v16_mul(v, p->scale);
}

INLINE void line_step(struct reading how, v16i line, v16_table table, const float *x,
                      struct panel *p)
{
#define PANEL_STEP(i) p->y = v16_fma(weight(how, line, i, table, p), v16_set(x[i]), p->y)
    PANEL_STEP(0);
    PANEL_STEP(1);
    PANEL_STEP(2);
    PANEL_STEP(3);
    if (columns_of(how) == 4) return;
    PANEL_STEP(4);
    PANEL_STEP(5);
    PANEL_STEP(6);
    PANEL_STEP(7);
#undef PANEL_STEP
}

/* The columns of a step. */
INLINE void step(struct reading how, v16_table table, const float *x, size_t ahead, struct panel *p)
{
    const size_t bytes = pith_panel_span(how.bits, pith_panel_step(how.bits));
    const int lines = lines_of(how), width = columns_of(how);
    for (size_t i = 0; i < bytes; i += PITH_PANEL_LINE) __builtin_prefetch(p->codes + i + ahead);
    line_step(how, line_of(how, p->codes, 0), table, x, p);
    if (lines > 1) line_step(how, line_of(how, p->codes, 1), table, x + width, p);
    if (lines > 2) line_step(how, line_of(how, p->codes, 2), table, x + 2 * width, p);
    if (lines > 2) line_step(how, line_of(how, p->codes, 3), table, x + 3 * width, p);
    p->codes += bytes;
}

/* One panel, two or four: `together` is known where it is inlined. */
INLINE void dot_panels(const struct pith_panels *m, struct reading how, enum pith_panel_scale kind,
                       size_t index, size_t together, const float *x, float *y)
{
    enum { STEP = 256 /* columns between decisions what to prefetch */ };
    const v16_table table = v16_table_load(m->level);
    const size_t width = pith_panel_step(how.bits), bytes = pith_panel_bytes(m);
    struct panel a, b, c, d;
    panel_open(m, index, y, &a);
    if (together > 1) panel_open(m, index + 1, y + PITH_PANEL_ROWS, &b);
    if (together > 2) panel_open(m, index + 2, y + 2 * PITH_PANEL_ROWS, &c);
    if (together > 2) panel_open(m, index + 3, y + 3 * PITH_PANEL_ROWS, &d);
    size_t col = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t end = col + m->group < m->cols ? col + m->group : m->cols;
        group_open(m, how, kind, g, &a);
        if (together > 1) group_open(m, how, kind, g, &b);
        if (together > 2) group_open(m, how, kind, g, &c);
        if (together > 2) group_open(m, how, kind, g, &d);
        while (col < end) {
            const size_t stop = col + STEP < end ? col + STEP : end;
            const size_t at = pith_panel_span(how.bits, col);
            const size_t ahead = pith_panel_ahead(together, bytes, at, PITH_AHEAD_FLOAT);
            for (; col < stop; col += width) {
                step(how, table, x + col, ahead, &a);
                if (together > 1) step(how, table, x + col, ahead, &b);
                if (together > 2) step(how, table, x + col, ahead, &c);
                if (together > 2) step(how, table, x + col, ahead, &d);
            }
        }
    }
    v16_store(y, a.y);
    if (together > 1) v16_store(y + PITH_PANEL_ROWS, b.y);
    if (together > 2) v16_store(y + 2 * PITH_PANEL_ROWS, c.y);
    if (together > 2) v16_store(y + 3 * PITH_PANEL_ROWS, d.y);
}

INLINE void dot_as(const struct pith_panels *m, struct reading how, enum pith_panel_scale kind,
                   size_t first, size_t count, const float *x, float *y)
{
    size_t i = 0;
    for (; PANELS_AT_ONCE > 2 && i + 4 <= count; i += 4)
        dot_panels(m, how, kind, first + i, 4, x, y + i * PITH_PANEL_ROWS);
    for (; PANELS_AT_ONCE > 1 && i + 2 <= count; i += 2)
        dot_panels(m, how, kind, first + i, 2, x, y + i * PITH_PANEL_ROWS);
    for (; i < count; i++) dot_panels(m, how, kind, first + i, 1, x, y + i * PITH_PANEL_ROWS);
}

#define PANEL_SCALES(X) X(F32) X(BF16) X(F16) X(E8M0) X(E4M3) X(PRODUCT)

/* One function for each way of reading, each with its own loop for each type of scale: both are
 * known inside. */
#define PANEL_DOT(name, form_, zeros_, fold_)                                                      \
    static void name(const struct pith_panels *m, size_t first, size_t count, const float *x,      \
                     float *y)                                                                     \
    {                                                                                              \
        const struct reading how = {form_, form_ == PITH_PANEL_LEVEL4 ? 4 : 8, zeros_, fold_};     \
        switch (m->scale) {                                                                        \
            PANEL_SCALES(PANEL_DOT_CASE)                                                           \
        }                                                                                          \
    }
#define PANEL_DOT_CASE(s)                                                                          \
    case PITH_SCALE_##s: dot_as(m, how, PITH_SCALE_##s, first, count, x, y); break;

PANEL_DOT(dot_level4, PITH_PANEL_LEVEL4, false, false)
PANEL_DOT(dot_level4_zeros, PITH_PANEL_LEVEL4, true, false)
PANEL_DOT(dot_level4_fold, PITH_PANEL_LEVEL4, false, true)
PANEL_DOT(dot_level4_fold_zeros, PITH_PANEL_LEVEL4, true, true)
PANEL_DOT(dot_int8, PITH_PANEL_INT8, true, false)
PANEL_DOT(dot_int8_fold, PITH_PANEL_INT8, true, true)
PANEL_DOT(dot_e4m3, PITH_PANEL_E4M3, false, false)
PANEL_DOT(dot_e4m3_fold, PITH_PANEL_E4M3, false, true)
PANEL_DOT(dot_e5m2, PITH_PANEL_E5M2, false, false)

/* Where a lookup is fast the levels have their zero already. */
static inline pith_panel_dot_fn *level4_of(const struct pith_panels *m)
{
    if (m->zeros) return m->fold ? dot_level4_fold_zeros : dot_level4_zeros;
    return m->fold && !LOOKUP_IS_FAST ? dot_level4_fold : dot_level4;
}

static inline bool folds_e4m3(const struct pith_panels *m)
{
    return m->fold && E4M3_UNIT != 1.0f;
}

/* Codes in planes: without zeros as with such of 0, or of the same one, except where a lookup is
 * fast. */
INLINE void dot_planes(const struct pith_panels *m, struct reading how, size_t first, size_t count,
                       const float *x, float *y)
{
    size_t i = 0;
    for (; PANELS_AT_ONCE > 1 && i + PANELS_AT_ONCE <= count; i += PANELS_AT_ONCE)
        dot_panels(m, how, PITH_SCALE_F32, first + i, PANELS_AT_ONCE, x, y + i * PITH_PANEL_ROWS);
    for (; i < count; i++)
        dot_panels(m, how, PITH_SCALE_F32, first + i, 1, x, y + i * PITH_PANEL_ROWS);
}

#define PLANES_DOT(bits_)                                                                          \
    static void dot_planes##bits_(const struct pith_panels *m, size_t first, size_t count,         \
                                  const float *x, float *y)                                        \
    {                                                                                              \
        const enum pith_panel_form form = bits_ < 4 ? PITH_PANEL_LEVEL4 : PITH_PANEL_INT8;         \
        const struct reading plain = {form, bits_, true, false}, fold = {form, bits_, true, true}; \
        const struct reading levels = {form, bits_, false, false};                                 \
        if (LOOKUP_IS_FAST && bits_ < 4 && !m->zeros) dot_planes(m, levels, first, count, x, y);   \
        else if (m->fold) dot_planes(m, fold, first, count, x, y);                                 \
        else dot_planes(m, plain, first, count, x, y);                                             \
    }
PITH_PANEL_PLANES(PLANES_DOT)

static inline void panel_dot(const struct pith_panels *m, size_t first, size_t count,
                             const float *x, float *y)
{
#define PLANES_CASE(bits_)                                                                         \
    case bits_: dot_planes##bits_(m, first, count, x, y); return;
    switch (m->bits) {
        PITH_PANEL_PLANES(PLANES_CASE)
    default: break;
    }
#undef PLANES_CASE
    switch (m->form) {
    case PITH_PANEL_LEVEL4: level4_of(m)(m, first, count, x, y); break;
    case PITH_PANEL_INT8: (m->fold ? dot_int8_fold : dot_int8)(m, first, count, x, y); break;
    case PITH_PANEL_E4M3: (folds_e4m3(m) ? dot_e4m3_fold : dot_e4m3)(m, first, count, x, y); break;
    case PITH_PANEL_E5M2: dot_e5m2(m, first, count, x, y); break;
    }
}

/* --- the product of offsets ------------------------------------------------------------------- */

INLINE void dot_offsets(const struct pith_panels *m, size_t index, const float *x, float *y)
{
    const uint8_t *codes = pith_panel_at(m, index, 0);
    v16 sum = v16_zero();
    for (size_t g = 0, c = 0; g < m->groups; g++) {
        const size_t end = c + m->group < m->cols ? c + m->group : m->cols;
        v16 s0 = v16_zero(), s1 = s0, s2 = s0, s3 = s0;
        for (; c < end; c += 4, codes += PITH_PANEL_LINE) {
            const v16i line = v16i_load(codes);
            s0 = v16_fma(byte_of(line, 0), v16_set(x[c]), s0);
            s1 = v16_fma(byte_of(line, 1), v16_set(x[c + 1]), s1);
            s2 = v16_fma(byte_of(line, 2), v16_set(x[c + 2]), s2);
            s3 = v16_fma(byte_of(line, 3), v16_set(x[c + 3]), s3);
        }
        const v16 scale = load_scales(m, PITH_SCALE_F16, index * m->groups + g);
        sum = v16_fma(scale, v16_add(v16_add(s0, s1), v16_add(s2, s3)), sum);
    }
    v16_store(y, sum);
}

static inline void offsets_dot(const struct pith_panels *m, size_t first, size_t count,
                               const float *x, float *y)
{
    for (size_t i = 0; i < count; i++) dot_offsets(m, first + i, x, y + i * PITH_PANEL_ROWS);
}

/* --- unpacking -------------------------------------------------------------------------------- */

INLINE void unpack_line(struct reading how, v16_table table, v16i line, v16 zero, v16 scale,
                        float *dst, size_t ld)
{
    v16_store(dst, v16_mul(value(how, line, 0, table, zero), scale));
    v16_store(dst + ld, v16_mul(value(how, line, 1, table, zero), scale));
    v16_store(dst + 2 * ld, v16_mul(value(how, line, 2, table, zero), scale));
    v16_store(dst + 3 * ld, v16_mul(value(how, line, 3, table, zero), scale));
    if (columns_of(how) == 4) return;
    v16_store(dst + 4 * ld, v16_mul(value(how, line, 4, table, zero), scale));
    v16_store(dst + 5 * ld, v16_mul(value(how, line, 5, table, zero), scale));
    v16_store(dst + 6 * ld, v16_mul(value(how, line, 6, table, zero), scale));
    v16_store(dst + 7 * ld, v16_mul(value(how, line, 7, table, zero), scale));
}

INLINE void unpack_as(const struct pith_panels *m, struct reading how, size_t panel, size_t col,
                      size_t n, float *dst, size_t ld)
{
    const v16_table table = v16_table_load(m->level);
    const size_t width = (size_t)columns_of(how), each = pith_panel_step(how.bits), last = col + n;
    const uint8_t *at = pith_panel_at(m, panel, col);
    for (size_t c = col; c < last;) {
        const size_t g = panel * m->groups + c / m->group;
        const size_t stop = (c / m->group + 1) * m->group, end = stop < last ? stop : last;
        const v16 scale = load_scales(m, m->scale, g), zero = load_zeros(m, g);
        for (; c < end; c += each, at += pith_panel_span(how.bits, each))
            for (int j = 0; j < lines_of(how); j++, dst += width * ld)
                unpack_line(how, table, line_of(how, at, j), zero, scale, dst, ld);
    }
}

static inline void panel_unpack(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                                float *dst, size_t ld)
{
#define UNPACK(form_, bits_)                                                                       \
    unpack_as(m, (struct reading){form_, bits_, true, false}, panel, col, n, dst, ld)
#define UNPACK_PLANES(bits_)                                                                       \
    case bits_: UNPACK(bits_ < 4 ? PITH_PANEL_LEVEL4 : PITH_PANEL_INT8, bits_); return;
    switch (m->bits) {
        PITH_PANEL_PLANES(UNPACK_PLANES)
    default: break;
    }
    switch (m->form) {
    case PITH_PANEL_LEVEL4: UNPACK(PITH_PANEL_LEVEL4, 4); break;
    case PITH_PANEL_INT8: UNPACK(PITH_PANEL_INT8, 8); break;
    case PITH_PANEL_E4M3: UNPACK(PITH_PANEL_E4M3, 8); break;
    case PITH_PANEL_E5M2: UNPACK(PITH_PANEL_E5M2, 8); break;
    }
#undef UNPACK_PLANES
#undef UNPACK
}
