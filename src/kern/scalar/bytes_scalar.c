/* The definition of the tile of the fast product: see kern/panel.h. */
#include "kern/ops.h"

#include <math.h>
#include <string.h>

enum { ROWS = 2, COLS = PITH_PANEL_ROWS };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int32_t start(const struct pith_byte_tile *a, size_t col, size_t i, size_t j)
{
    const int32_t less = a->x_less[col / a->block * ROWS + i];
    if (!a->zero) return less;
    return less * a->zero[(col / a->group - a->col / a->group) * PITH_PANEL_ROWS + j];
}

/* Four columns of one element. */
static int32_t four(const struct pith_byte_tile *a, size_t col, size_t i, size_t j)
{
    int8_t x[4];
    int32_t sum = 0;
    const uint8_t *w = a->w[0] + (col - a->col) / 4 * PITH_PANEL_LINE + j * 4;
    memcpy(x, &a->x[col / 4 * ROWS + i], sizeof x);
    for (size_t e = 0; e < 4; e++) sum += (int32_t)w[e] * x[e];
    return sum;
}

static void element(const struct pith_byte_tile *a, size_t i, size_t j)
{
    const size_t end = a->col + a->n, at = i * COLS + j;
    float y = a->col > 0 ? a->y[at] : 0.0f, t = a->col % a->group > 0 ? a->t[at] : 0.0f;
    int32_t d = a->col % a->group % a->block > 0 ? a->d[at] : start(a, a->col, i, j);
    for (size_t c = a->col; c < end;) {
        const size_t group = c / a->group, block = c / a->block;
        const size_t group_end = least((group + 1) * a->group, a->cols);
        d += four(a, c, i, j);
        c += 4;
        if (c < least((block + 1) * a->block, group_end)) continue;
        t = fmaf((float)d, a->x_scale[block * ROWS + i], t);
        if (c == group_end) {
            y = fmaf(a->scale[(group - a->col / a->group) * PITH_PANEL_ROWS + j], t, y);
            t = 0.0f;
        }
        if (c < end) d = start(a, c, i, j);
    }
    a->y[at] = y;
    a->t[at] = t;
    a->d[at] = d;
}

void pith_bytes_tile_scalar(const struct pith_byte_tile *a)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) element(a, i, j);
}

/* One digit of four columns of an element, in all digits of ROWS vectors. */
static int32_t four_of(const struct pith_byte_tile *a, size_t col, size_t word, size_t j)
{
    int8_t x[4];
    int32_t sum = 0;
    const uint8_t *w = a->w[0] + (col - a->col) / 4 * PITH_PANEL_LINE + j * 4;
    memcpy(x, &a->x[col / 4 * ROWS * PITH_DIGITS + word], sizeof x);
    for (size_t e = 0; e < 4; e++) sum += (int32_t)w[e] * x[e];
    return sum;
}

/* Columns [c, end) of a block. */
static int64_t digits_block(const struct pith_byte_tile *a, size_t c, size_t end, size_t i,
                            size_t j)
{
    const size_t group = c / a->group - a->col / a->group;
    const int32_t zero = a->zero ? a->zero[group * PITH_PANEL_ROWS + j] : 1;
    int64_t sum = 0;
    for (size_t k = PITH_DIGITS; k-- > 0;) {
        const size_t word = i * PITH_DIGITS + k;
        int32_t d = a->x_less[c / a->block * ROWS * PITH_DIGITS + word] * zero;
        for (size_t col = c; col < end; col += 4) d += four_of(a, col, word, j);
        sum = 256 * sum + d;
    }
    return sum;
}

static void digits_element(const struct pith_byte_tile *a, size_t i, size_t j)
{
    const size_t end = a->col + a->n, at = i * COLS + j;
    float y = a->col > 0 ? a->y[at] : 0.0f, t = a->col % a->group > 0 ? a->t[at] : 0.0f;
    for (size_t c = a->col, stop; c < end; c = stop) {
        const size_t group = c / a->group, block = c / a->block;
        const size_t group_end = least((group + 1) * a->group, a->cols);
        stop = least((block + 1) * a->block, group_end);
        t = fmaf((float)digits_block(a, c, stop, i, j), a->x_scale[block * ROWS + i], t);
        if (stop < group_end) continue;
        y = fmaf(a->scale[(group - a->col / a->group) * PITH_PANEL_ROWS + j], t, y);
        t = 0.0f;
    }
    a->y[at] = y;
    a->t[at] = t;
}

void pith_digits_tile_scalar(const struct pith_byte_tile *a)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) digits_element(a, i, j);
}

const uint8_t *pith_bytes_unpack_scalar(const struct pith_panels *m, size_t panel, size_t col,
                                        size_t n, bool few, uint8_t *dst)
{
    (void)few;
    for (size_t c = 0; c < n; c++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++) {
            const unsigned code = pith_panel_code_at(m, panel, r, col + c);
            dst[c / 4 * PITH_PANEL_LINE + r * 4 + c % 4] =
                m->factors ? m->factor[code] : (uint8_t)code;
        }
    return dst;
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_scalar(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}

void pith_digits_words_scalar(size_t words, size_t first, size_t count, const int8_t *q,
                              uint32_t *x)
{
    pith_transpose_scalar(PITH_DIGITS * count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + PITH_DIGITS * first), PITH_DIGITS * ROWS);
}

void pith_tiles_open_scalar(size_t words)
{
    (void)words;
}

void pith_tiles_close_scalar(void)
{
}
