/* The tile of the exact product: a pass of the products for each digit, and then the three sums of
 * the block as one float32. A block of 128 columns is 3 * 2 steps, 384 cycles of products. A group
 * of as many columns also takes 256 stores (192 of sums of bytes, 64 of sums of rows), 344 cycles
 * of loads (384 lines of operands, 192 of sums, 112 of scales and sums of rows) and ten operations
 * on each of 64 vectors (five on integers, two conversions, three multiply-adds), 320 cycles. The
 * last block of a call overlaps no products. */
#include "kern/amx/byte_products.h"
#include "kern/vnni/digits_vnni.h"

/* A block whose sums wait. */
struct block {
    alignas(64) int32_t d[PITH_DIGITS][SUMS];
    const float *x_scale;
    const int32_t *less, *zero; /* for codes only */
    const float *scale;         /* the group's, if it ends with the block, else NULL */
    bool group_begins, row_begins;
};

INLINE void add_block(struct amx_sums *t, const struct block *b, bool codes, size_t panel,
                      size_t row)
{
    const int32_t *const d = b->d[0] + row * COLS, *const less = b->less + row * PITH_DIGITS;
    EACH_SUM
    {
        const size_t at = i * COLS + j * HALF;
        const int32_t *const zero = codes ? b->zero + j * panel : NULL;
#define SUM(k) whole_sum(codes, d + (k)*SUMS + at, codes ? less[i * PITH_DIGITS + (k)] : 0, zero)
        __m512i middle = SUM(1);
        __asm__("" : "+v"(middle)); /* used twice, loaded once */
        t->v[i][j] = _mm512_fmadd_ps(digits_together(SUM(0), middle, SUM(2)),
                                     _mm512_set1_ps(b->x_scale[row + i]), t->v[i][j]);
#undef SUM
    }
}

/* Adds up a block's sums of vectors [row, end). */
INLINE void add_rows(const struct pith_byte_tile *a, bool codes, const struct block *b, size_t row,
                     size_t end)
{
    for (; row < end; row += SHARE) {
        const size_t at = row * COLS;
        struct amx_sums t, y;
        load(&t, b->group_begins, a->t + at);
        add_block(&t, b, codes, a->scale_panel, row);
        if (!b->scale) {
            store(&t, a->t + at);
            continue;
        }
        load(&y, b->row_begins, a->y + at);
        end_group(&y, &t, b->scale, a->scale_panel);
        store(&y, a->y + at);
    }
}

INLINE void describe(const struct pith_byte_tile *a, const struct reach *to, struct block *b)
{
    b->x_scale = a->x_scale + to->block * ROWS;
    b->less = a->x_less + to->block * ROWS * PITH_DIGITS;
    b->zero = a->zero ? a->zero + to->lists : NULL;
    b->scale = ends_group(to) ? a->scale + to->lists : NULL;
    b->group_begins = to->col == to->group * a->group;
    b->row_begins = to->group == 0;
}

/* How many vectors of the previous block are added during the digits before `digit`. */
INLINE size_t added_before(size_t rows, size_t digit)
{
    return least((digit * rows / PITH_DIGITS + SHARE - 1) / SHARE * SHARE, rows);
}

/* How far codes are unpacked before a digit: the block, and what there is room for behind it. */
INLINE size_t ring_end(const struct reach *to, size_t digit)
{
    const size_t room = RING - (to->end - to->col) / 4;
    return to->end / 4 + (digit > 0 ? least(room, AHEAD_WORDS) : 0);
}

INLINE void run(const struct pith_byte_tile *a, struct shape s)
{
    const size_t rows = rows_of(s);
    struct block blocks[2], *b = &blocks[0], *before = NULL;
    struct ring ring;
    ring_open(a, s.codes, &ring);
    for (struct reach to = reach_open(a); to.col < a->col + a->n; reach_next(a, &to)) {
        describe(a, &to, b);
        for (size_t k = 0; k < PITH_DIGITS; k++) {
            sums_zero(s.half);
            if (ring.used) ring_fill(a, &ring, ring_end(&to, k));
            multiply(a, s, (struct span){PITH_DIGITS, k, to.col / 4, to.end / 4}, &ring);
            if (before)
                add_rows(a, s.codes, before, added_before(rows, k), added_before(rows, k + 1));
            sums_store(s.half, b->d[k]);
        }
        before = b;
        b = &blocks[b == blocks];
    }
    if (before) add_rows(a, s.codes, before, 0, rows);
}

void pith_digits_tile_amx(const struct pith_byte_tile *a)
{
    const bool codes = a->zero && a->form == PITH_PANEL_INT8, half = a->count <= ROWS / 2;
    if (codes && half) run(a, (struct shape){true, true});
    else if (codes) run(a, (struct shape){true, false});
    else if (half) run(a, (struct shape){false, true});
    else run(a, (struct shape){false, false});
}

void pith_digits_words_amx(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    for (size_t line = 0; line < words; line += LINE_WORDS) {
        const size_t n = least(words - line, LINE_WORDS);
        uint32_t *to = x + line * PITH_DIGITS * ROWS + first * n;
        for (size_t r = 0; r < count; r++, to += n)
            for (size_t k = 0; k < PITH_DIGITS; k++)
                memcpy(to + k * ROWS * n, q + ((r * PITH_DIGITS + k) * words + line) * 4, 4 * n);
    }
}
