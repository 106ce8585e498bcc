#include "io/row_order.h"

#include <math.h>
#include <string.h>

struct pith_stow pith_stow_interleaved(uint64_t rows, uint32_t heads)
{
    struct pith_stow o = {0};
    if (heads == 0) return o;
    o.kind = PITH_STOW_PARTED;
    o.groups = 2;
    o.even = 1;
    o.parts = rows % heads == 0 && rows / heads % 2 == 0 ? (uint32_t)(rows / heads / 2) : 0;
    return o;
}

static uint64_t group_rows(const struct pith_stow *o)
{
    uint64_t sum = 0;
    if (o->kind == PITH_STOW_LATENT) return (uint64_t)o->size[0] + o->size[1];
    if (o->even) return (uint64_t)o->parts * o->even;
    for (uint32_t p = 0; p < o->parts; p++) sum += o->size[p];
    return sum;
}

bool pith_stow_fits(const struct pith_stow *o, uint64_t rows)
{
    if (o->kind == PITH_STOW_STRAIGHT) return true;
    if (o->kind == PITH_STOW_ACROSS) return pith_stow_pieces(o) != 0;
    if (!o->even && o->parts > PITH_STOW_PARTS) return false;
    const uint64_t run = o->groups * group_rows(o);
    if (run == 0 || rows < o->skip) return false;
    return o->kind == PITH_STOW_LATENT ? rows == run : (rows - o->skip) % run == 0;
}

/* The part of a group that `row` of it (or, of a run of `groups` of them, row / groups) is in;
 * *before is where it begins in a group. */
static uint32_t part_at(const struct pith_stow *o, uint64_t row, uint64_t *before)
{
    uint32_t p = 0;
    if (o->even) {
        *before = row / o->even * o->even;
        return o->even;
    }
    for (*before = 0; p + 1 < o->parts && row >= *before + o->size[p]; p++) *before += o->size[p];
    return o->size[p];
}

uint64_t pith_stow_place(const struct pith_stow *o, uint64_t r)
{
    if (o->kind != PITH_STOW_PARTED || r < o->skip) return r;
    const uint64_t rows = group_rows(o), run = o->groups * rows, i = (r - o->skip) % run;
    const uint64_t group = i / rows, at = i % rows;
    uint64_t before;
    const uint32_t size = part_at(o, at, &before);
    return r - i + o->groups * before + group * size + (at - before);
}

uint64_t pith_stow_row(const struct pith_stow *o, uint64_t place)
{
    if (o->kind != PITH_STOW_PARTED || place < o->skip) return place;
    const uint64_t rows = group_rows(o), run = o->groups * rows, i = (place - o->skip) % run;
    uint64_t before;
    const uint32_t size = part_at(o, i / o->groups, &before);
    const uint64_t in = i - o->groups * before;
    return place - i + in / size * rows + before + in % size;
}

/* Element (r, c) of a latent's matrix. */
static uint64_t latent_place(const struct pith_stow *o, uint64_t cols, uint64_t r, uint64_t c)
{
    const uint64_t key = o->size[0], value = o->size[1];
    const uint64_t head = r / (key + value), at = r % (key + value);
    if (at < key) return (head * cols + c) * key + at;
    return (o->groups * key + head * value + (at - key)) * cols + c;
}

static void move_across(const struct pith_stow *o, size_t row, const uint8_t *from, uint8_t *to,
                        bool apply)
{
    const size_t piece = row / (size_t)pith_stow_pieces(o);
    memcpy(to, from, row); /* parts may end within a byte, where nothing can move */
    for (size_t place = 0; place < pith_stow_pieces(o); place++) {
        const size_t shown = (size_t)pith_stow_piece_at(o, place);
        memcpy(to + (apply ? place : shown) * piece, from + (apply ? shown : place) * piece, piece);
    }
}

static void move(const struct pith_stow *o, const struct pith_stow_shape *s, const uint8_t *from,
                 uint8_t *to, bool apply)
{
    const size_t row = (size_t)s->cols * s->element;
    for (uint64_t r = 0; r < s->rows; r++) {
        if (pith_stow_by_rows(o)) {
            const uint64_t p = pith_stow_place(o, r);
            memcpy(to + (apply ? p : r) * row, from + (apply ? r : p) * row, row);
            continue;
        }
        if (o->kind == PITH_STOW_ACROSS) {
            move_across(o, row, from + r * row, to + r * row, apply);
            continue;
        }
        for (uint64_t c = 0; c < s->cols; c++) {
            const uint64_t shown = r * s->cols + c, place = latent_place(o, s->cols, r, c);
            memcpy(to + (apply ? place : shown) * s->element,
                   from + (apply ? shown : place) * s->element, s->element);
        }
    }
}

void pith_stow_apply(const struct pith_stow *o, const struct pith_stow_shape *s,
                     const uint8_t *from, uint8_t *to)
{
    move(o, s, from, to, true);
}

void pith_stow_undo(const struct pith_stow *o, const struct pith_stow_shape *s, const uint8_t *from,
                    uint8_t *to)
{
    move(o, s, from, to, false);
}

void pith_stored_apply(enum pith_stored_as as, float *x, size_t n)
{
    for (size_t i = 0; i < n && as == PITH_AS_PLUS_ONE; i++) x[i] += 1;
    for (size_t i = 0; i < n && as == PITH_AS_MINUS_EXP; i++) x[i] = (float)-exp((double)x[i]);
}

void pith_stored_undo(enum pith_stored_as as, float *x, size_t n)
{
    for (size_t i = 0; i < n && as == PITH_AS_PLUS_ONE; i++) x[i] -= 1;
    for (size_t i = 0; i < n && as == PITH_AS_MINUS_EXP; i++) x[i] = (float)log(-(double)x[i]);
}
