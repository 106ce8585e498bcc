/* Two steps of the AMX products: of bfloat16 against the scalar ones, at the corners of the tile,
 * where wrong shapes, another order of sums or subnormal numbers that are not zeros show in the
 * bits; of bytes against integers. */
#include "kern/ops.h"

#include <string.h>

enum { STEPS = 2, STEP = STEPS * PITH_BF16_STEP, WORDS = PITH_TILE_WORDS };

/* Numbers of either sign with all their bits in use; those of a vector of k with an odd number are
 * so small that its products with another such vector come out below the normal numbers. */
static float number(uint32_t *state, size_t vector)
{
    *state = *state * 1664525 + 1013904223;
    const float f = (float)(*state >> 8) * 0x1p-24f - 0.5f;
    return vector % 2 ? f * 0x1p-62f : f;
}

/* The product of x[][STEP] and y[STEP][], row stride cols: a tile of k, c[][its cols]. */
static void product(const struct pith_kern *k, const float *x, const float *y, size_t cols,
                    float *c)
{
    uint32_t a[STEPS * WORDS * PITH_TILE_ROWS_MAX], b[STEPS * WORDS * PITH_TILE_COLS_MAX];
    k->bf16_round(k->bf16_rows, STEP, x, STEP, k->bf16_rows, a);
    k->bf16_pairs(STEP, k->bf16_cols, y, cols, k->bf16_cols, b);
    k->tiles_open(WORDS);
    k->bf16_tile(STEPS, a, b, c, k->bf16_cols, PITH_TILE_SET, 0.0f);
    k->tiles_close();
}

static bool to_nibbles_agree(const struct pith_kern *k, const struct pith_kern *scalar)
{
    float x[PITH_TILE_ROWS_MAX * STEP], y[STEP * PITH_TILE_COLS_MAX];
    float got[PITH_TILE_ROWS_MAX * PITH_TILE_COLS_MAX], want[PITH_TILE_COLS_MAX];
    uint32_t state = 1;
    for (size_t i = 0; i < k->bf16_rows * STEP; i++) x[i] = number(&state, i / STEP);
    for (size_t i = 0; i < k->bf16_cols * STEP; i++) y[i] = number(&state, i % k->bf16_cols);
    product(k, x, y, k->bf16_cols, got);
    const size_t rows = scalar->bf16_rows, cols = scalar->bf16_cols;
    for (size_t i = 0; i < k->bf16_rows; i += k->bf16_rows - rows)
        for (size_t j = 0; j < k->bf16_cols; j += k->bf16_cols - cols) {
            product(scalar, x + i * STEP, y + j, k->bf16_cols, want);
            for (size_t r = 0; r < rows; r++)
                if (memcmp(got + (i + r) * k->bf16_cols + j, want + r * cols, cols * sizeof *got))
                    return false;
        }
    return true;
}

enum { COLS = 4 * PITH_TILE_WORDS, PANELS = PITH_BYTES_COLS_MAX / PITH_PANEL_ROWS };

/* A tile's rows of x, and of W as it is packed. */
struct bytes {
    _Alignas(PITH_PANEL_LINE) uint8_t codes[PANELS * COLS * PITH_PANEL_ROWS];
    uint8_t unpacked[PANELS * COLS / 4 * PITH_BYTES_LINE];
    int8_t q[PITH_BYTES_ROWS_MAX][COLS];
    uint32_t x[PITH_BYTES_ROWS_MAX * COLS / 4];
    float ones[PITH_BYTES_ROWS_MAX + PANELS * PITH_PANEL_ROWS];
    int32_t sum[PITH_BYTES_ROWS_MAX], less[PITH_BYTES_ROWS_MAX];
    int32_t zero[PANELS * PITH_PANEL_ROWS]; /* zero points, where there are any */
    uint8_t zeros[PANELS * PITH_PANEL_ROWS];
    float y[PITH_BYTES_ROWS_MAX * PITH_BYTES_COLS_MAX],
        t[PITH_BYTES_ROWS_MAX * PITH_BYTES_COLS_MAX];
    int32_t d[PITH_BYTES_ROWS_MAX * PITH_BYTES_COLS_MAX];
};

static void bytes_fill(struct bytes *b)
{
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof b->codes; i++)
        b->codes[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < PITH_BYTES_ROWS_MAX; i++) {
        b->sum[i] = 0;
        for (size_t c = 0; c < COLS; c++) {
            const uint32_t r = (state = state * 1664525 + 1013904223) >> 24;
            b->q[i][c] = (int8_t)((int)r - 128);
            b->sum[i] += b->q[i][c];
        }
    }
    for (size_t i = 0; i < PANELS * PITH_PANEL_ROWS; i++)
        b->zero[i] = b->zeros[i] = (uint8_t)(i * 37 + 100);
    for (size_t i = 0; i < sizeof b->ones / sizeof *b->ones; i++) b->ones[i] = 1.0f;
}

static void bytes_multiply(const struct pith_kern *k, const struct pith_panels *m, struct bytes *b)
{
    const size_t panel = COLS / 4 * PITH_BYTES_LINE;
    for (size_t i = 0; i < PITH_BYTES_ROWS_MAX; i++)
        b->less[i] = -(m->zeros ? 1 : (int32_t)m->zero) * b->sum[i];
    k->bytes_words(COLS / 4, 0, k->bytes_rows, b->q[0], b->x);
    struct pith_byte_tile a = {.form = m->form,
                               .cols = COLS,
                               .group = COLS,
                               .block = COLS,
                               .n = COLS,
                               .count = k->bytes_rows,
                               .adjacent = PITH_TILE_PANELS,
                               .scale = b->ones,
                               .zero = m->zeros ? b->zero : NULL,
                               .scale_panel = PITH_PANEL_ROWS,
                               .x = b->x,
                               .x_scale = b->ones,
                               .x_less = b->less,
                               .y = b->y,
                               .t = b->t,
                               .d = b->d};
    for (size_t p = 0; p < k->bytes_cols / PITH_PANEL_ROWS; p++)
        a.w[p] = k->bytes_unpack(m, p, 0, COLS, false, b->unpacked + p * panel);
    a.stored = a.w[0] != b->unpacked;
    k->tiles_open(pith_bytes_step(COLS));
    k->bytes_tile(&a);
    k->tiles_close();
}

/* Codes with one zero point, or each row's own: they are multiplied as other bytes. */
static bool bytes_agree(const struct pith_kern *k, bool zeros)
{
    struct bytes b;
    const struct pith_panels m = {.form = PITH_PANEL_INT8,
                                  .bits = 8,
                                  .cols = COLS,
                                  .group = COLS,
                                  .groups = 1,
                                  .codes = b.codes,
                                  .zeros = zeros ? b.zeros : NULL,
                                  .zero = 128.0f};
    bytes_fill(&b);
    bytes_multiply(k, &m, &b);
    for (size_t i = 0; i < k->bytes_rows; i++)
        for (size_t j = 0; j < k->bytes_cols; j++) {
            const uint8_t *w = b.codes + j / PITH_PANEL_ROWS * COLS * PITH_PANEL_ROWS;
            int32_t sum = 0;
            for (size_t c = 0; c < COLS; c++) {
                const size_t at = c / 4 * PITH_PANEL_LINE + j % PITH_PANEL_ROWS * 4 + c % 4;
                sum += (w[at] - (zeros ? b.zeros[j] : 128)) * b.q[i][c];
            }
            if (b.y[i * k->bytes_cols + j] != (float)sum) return false;
        }
    return true;
}

uint32_t pith_kern_usable(void)
{
    const uint32_t mask = pith_cpu_detect();
    struct pith_kern unit, scalar;
    if (!(mask & PITH_CPU_AMX)) return mask;
    pith_kern_select(mask, &unit);
    pith_kern_select(PITH_CPU_SCALAR, &scalar);
    const bool agree = to_nibbles_agree(&unit, &scalar) && bytes_agree(&unit, false) &&
                       bytes_agree(&unit, true);
    return agree ? mask : mask & ~(uint32_t)PITH_CPU_AMX;
}
