/* The tile of the fast product. Blocks of 64 columns end as often as there are steps. Two make a
 * unit, so that the sums of rows pass through memory once for 128 columns: with 128 cycles of
 * products there are 192 stores (128 of sums of bytes, 64 of sums of rows), 200 cycles of loads
 * (128 lines of operands, 128 of sums, 144 of scales and sums of rows) and 160 cycles of
 * conversions and multiply-adds. So stores and loads are the limit, at two thirds of the products'
 * speed. Of blocks as long as a row there are the products alone. */
#include "kern/amx/byte_products.h"
#include "kern/vnni/digits_vnni.h"

enum { UNIT = 2 };

/* --- the ends of blocks ----------------------------------------------------------------------- */

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

INLINE void add_block(struct amx_sums *t, const struct block *b, bool codes, size_t panel,
                      const int32_t *d, size_t row)
{
    EACH_SUM
    t->v[i][j] = _mm512_fmadd_ps(
        _mm512_cvtepi32_ps(whole_sum(codes, d + i * COLS + j * HALF, codes ? b->less[row + i] : 0,
                                     codes ? b->zero + j * panel : NULL)),
        _mm512_set1_ps(b->x_scale[row + i]), t->v[i][j]);
}

/* Adds up a unit's sums of vectors [row, end). */
INLINE void add_unit(const struct pith_byte_tile *a, bool codes, const struct unit *u, size_t row,
                     size_t end)
{
    for (; row < end; row += SHARE) {
        const size_t at = row * COLS;
        struct amx_sums t, y;
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

/* --- the tile --------------------------------------------------------------------------------- */

struct state {
    const struct pith_byte_tile *a;
    struct reach to;
    struct unit unit[2];
    struct ring ring;
};

/* The products of a block, or of what there is of it; its end goes to u. False at a block that does
 * not end. */
INLINE bool take_block(struct state *s, struct shape of, struct unit *u, const struct unit *before)
{
    const struct pith_byte_tile *a = s->a;
    const struct reach *to = &s->to;
    const size_t k = u->count, share = rows_of(of) / UNIT, row = to->block * ROWS;
    const bool ends = ends_block(to), group_ends = ends_group(to);
    if (to->col == a->col && to->col > to->block * a->block) sums_load(of.half, a->d);
    else sums_zero(of.half);
    multiply(a, of, (struct span){1, 0, to->col / 4, to->end / 4}, &s->ring);
    if (before->count > 0) add_unit(a, of.codes, before, k * share, (k + 1) * share);
    if (ends) {
        sums_store(of.half, u->d[k]);
        u->block[k] = (struct block){.x_scale = a->x_scale + row,
                                     .less = a->x_less + row,
                                     .zero = of.codes ? a->zero + to->lists : NULL,
                                     .scale = group_ends ? a->scale + to->lists : NULL};
        u->group_ends = group_ends;
        if (group_ends && to->group == 0) u->row_begins = true;
        u->count++;
    } else {
        sums_store(of.half, a->d);
    }
    reach_next(a, &s->to);
    return ends;
}

INLINE void run(const struct pith_byte_tile *a, struct shape of)
{
    const size_t end = a->col + a->n, rows = rows_of(of);
    struct state s; /* not cleared: it is large */
    struct unit *u = &s.unit[0], *before = &s.unit[1];
    s.a = a;
    s.to = reach_open(a);
    ring_open(a, of.codes, &s.ring);
    before->count = 0;
    while (s.to.col < end) {
        u->count = 0;
        u->row_begins = false;
        u->group_begins = s.to.block * a->block == s.to.group * a->group;
        bool more = true;
        while (more && u->count < UNIT && s.to.col < end) more = take_block(&s, of, u, before);
        /* The rows of the previous unit that no block of this one overlapped. */
        const size_t done = u->count + !more;
        if (before->count > 0 && done < UNIT)
            add_unit(a, of.codes, before, done * (rows / UNIT), rows);
        struct unit *const next = before;
        before = u;
        u = next;
    }
    if (before->count > 0) add_unit(a, of.codes, before, 0, rows);
}

void pith_bytes_tile_amx(const struct pith_byte_tile *a)
{
    const bool codes = a->zero && a->form == PITH_PANEL_INT8, half = a->count <= ROWS / 2;
    if (codes && half) run(a, (struct shape){true, true});
    else if (codes) run(a, (struct shape){true, false});
    else if (half) run(a, (struct shape){false, true});
    else run(a, (struct shape){false, false});
}

/* --- operands --------------------------------------------------------------------------------- */

/* What is taken off the codes of a panel in a group, in every byte of a row's word. */
INLINE __m512i zero_of(const struct pith_panels *m, size_t panel, size_t group)
{
    if (!m->zeros) return _mm512_set1_epi8((char)(int)m->zero);
    const uint8_t *zeros = m->zeros + (panel * m->groups + group) * PITH_PANEL_ROWS;
    const __m512i z = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
    return _mm512_mullo_epi32(z, _mm512_set1_epi32(0x01010101));
}

/* Columns [col, end) of a panel, from `at` on. */
INLINE void unpack_as(const struct pith_panels *m, unsigned bits, size_t panel, size_t col,
                      size_t end, uint8_t *dst)
{
    const uint8_t *at = pith_panel_at(m, panel, col);
    const __m512i table = factor_table(m);
    const size_t step = pith_panel_step(bits);
    while (col < end) {
        const __m512i zero = zero_of(m, panel, col / m->group);
        const size_t stop = m->zeros ? least((col / m->group + 1) * m->group, end) : end;
        for (; col < stop; col += step, at += pith_panel_span(bits, step))
            for (size_t k = 0; k < step / 4; k++, dst += PITH_PANEL_LINE) {
                __m512i v = planes_word(bits, at, (int)k);
                if (m->factors) v = _mm512_shuffle_epi8(table, v);
                _mm512_storeu_si512(dst, _mm512_sub_epi8(v, zero));
            }
    }
}

const uint8_t *pith_bytes_unpack_amx(const struct pith_panels *m, size_t panel, size_t col,
                                     size_t n, bool few, uint8_t *dst)
{
    if (m->form == PITH_PANEL_INT8 && m->zeros)
        return pith_bytes_unpack_vnni(m, panel, col, n, few, dst);
    if (few && !pith_panel_has_planes(m->bits)) return pith_panel_at(m, panel, col);
    switch (m->bits) {
#define CASE(bits_)                                                                                \
    case bits_: unpack_as(m, bits_, panel, col, col + n, dst); break;
        PITH_PANEL_PLANES(CASE)
        CASE(4)
#undef CASE
    default: unpack_as(m, 8, panel, col, col + n, dst);
    }
    return dst;
}

void pith_bytes_words_amx(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    for (size_t line = 0; line < words; line += LINE_WORDS) {
        const size_t n = least(words - line, LINE_WORDS);
        uint32_t *to = x + line * ROWS + first * n;
        for (size_t r = 0; r < count; r++, to += n) memcpy(to, q + (r * words + line) * 4, 4 * n);
    }
}
