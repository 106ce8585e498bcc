#include "kern/ops.h"
#include "kern/trellis.h"

#include <math.h>

void pith_trellis_decode_scalar(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                                float *out, size_t ld)
{
    pith_trellis_decode(code, bits, tile, out, ld);
}

void pith_trellis_step_scalar(unsigned bits, const float *in, const float *table, float x,
                              float *out, uint8_t *from)
{
    const uint32_t nodes = PITH_TRELLIS_STATES >> bits, ways = 1u << bits, apart = nodes >> bits;
    for (uint32_t o = 0; o < nodes; o++) {
        const float *value = table + (size_t)(o / 16) * ways * 16 + o % 16;
        float best = INFINITY;
        uint32_t first = 0;
        for (uint32_t k = 0; k < ways; k++) {
            const float d = value[(size_t)k * 16] - x;
            const float cost = fmaf(d, d, in[k * apart + (o >> bits)]);
            if (cost >= best) continue;
            best = cost;
            first = k;
        }
        out[o] = best;
        from[o] = (uint8_t)first;
    }
}

/* ---- products ---- */

/* Weight 4 t + e, t < 4, of a row of a tile: its number in the tile. */
static unsigned weight_at(size_t row, unsigned te)
{
    return (unsigned)(row % 8 * 32 + row / 8 * 4) + te / 4 * 8 + te % 4;
}

static struct pith_trellis_tile tile_of(const struct pith_trellis_strip *m, const uint8_t *tiles,
                                        size_t tile)
{
    return (struct pith_trellis_tile){m->code, m->bits,
                                      tiles + tile * pith_trellis_bytes(m->bits)};
}

static int32_t byte_sum(const struct pith_trellis_strip *m, const uint8_t *tiles, size_t row,
                        const uint16_t *x)
{
    int32_t sum = 0;
    for (size_t tile = 0; tile < PITH_TRELLIS_SIDE; tile++, x += PITH_TRELLIS_WORDS) {
        const struct pith_trellis_tile at = tile_of(m, tiles, tile);
        for (unsigned te = 0; te < PITH_TRELLIS_TILE; te++) {
            const unsigned i = weight_at(row, te);
            sum += (int32_t)pith_trellis_sum(m->code, m->bits, pith_trellis_window(&at, i)) *
                   (int8_t)(x[i % PITH_TRELLIS_WORDS] & 255);
        }
    }
    return sum;
}

/* Column j of a tile in words of lanes. */
static int32_t lane_sum(const struct pith_trellis_strip *m, const uint8_t *tiles, size_t row,
                        const uint32_t *x)
{
    int32_t sum = 0;
    for (size_t tile = 0; tile < PITH_TRELLIS_SIDE; tile++, x += PITH_TRELLIS_TILE / 2) {
        const struct pith_trellis_tile at = tile_of(m, tiles, tile);
        for (unsigned j = 0; j < PITH_TRELLIS_TILE; j++) {
            const unsigned i = (unsigned)row % 8 * 32 + j / 8 * 16 + (unsigned)row / 8 * 8 + j % 8;
            sum += (int32_t)pith_trellis_sum(m->code, m->bits, pith_trellis_window(&at, i)) *
                   (int8_t)(x[j % 8] >> (j / 8 * 16) & 255);
        }
    }
    return sum;
}

static float float_sum(const struct pith_trellis_strip *m, const uint8_t *tiles, size_t row,
                       const float *x)
{
    float s[2][4] = {{0}};
    for (size_t tile = 0; tile < PITH_TRELLIS_SIDE; tile++, x += PITH_TRELLIS_WORDS) {
        const struct pith_trellis_tile at = tile_of(m, tiles, tile);
        for (unsigned te = 0; te < PITH_TRELLIS_TILE; te++) {
            const unsigned i = weight_at(row, te);
            float *to = &s[te / 4 % 2][te % 4];
            *to = fmaf(pith_trellis_halves(m->code, pith_trellis_window(&at, i)),
                       x[i % PITH_TRELLIS_WORDS], *to);
        }
    }
    for (size_t e = 0; e < 4; e++) s[0][e] += s[1][e];
    return (s[0][0] + s[0][2]) + (s[0][1] + s[0][3]);
}

/* Block by block, vector by vector, row by row. */
static void rows(const struct pith_trellis_strip *m, bool bytes)
{
    for (size_t i = 0; i < m->blocks * m->count; i++) {
        const uint8_t *block = m->tiles +
                               i / m->count * PITH_TRELLIS_SIDE * pith_trellis_bytes(m->bits);
        const size_t at = i * PITH_TRELLIS_STEP;
        float *y = m->y + i % m->count * m->ldy;
        for (size_t j = 0; j < PITH_TRELLIS_ROWS * PITH_TRELLIS_TILE; j++, y++) {
            const uint8_t *tiles = block + j / PITH_TRELLIS_TILE * m->ld;
            const size_t row = j % PITH_TRELLIS_TILE;
            if (bytes)
                *y = fmaf((float)byte_sum(m, tiles, row, (const uint16_t *)m->x + at), m->scale[i],
                          *y);
            else *y += float_sum(m, tiles, row, (const float *)m->x + at);
        }
    }
}

void pith_trellis_bytes_scalar(const struct pith_trellis_strip *m)
{
    rows(m, true);
}

void pith_trellis_floats_scalar(const struct pith_trellis_strip *m)
{
    rows(m, false);
}

void pith_trellis_lanes_scalar(const struct pith_trellis_strip *m)
{
    const size_t bytes = PITH_TRELLIS_SIDE * pith_trellis_bytes(m->bits);
    for (size_t i = 0; i < m->blocks * m->count; i++) {
        const uint8_t *tiles = m->tiles + i / m->count * bytes;
        const uint32_t *x = (const uint32_t *)m->x + i * PITH_LANES_STEP;
        float *y = m->y + i % m->count * m->ldy;
        for (size_t row = 0; row < PITH_TRELLIS_ROWS * PITH_TRELLIS_TILE; row++, y++)
            *y = fmaf((float)lane_sum(m, tiles + row / PITH_TRELLIS_TILE * m->ld,
                                      row % PITH_TRELLIS_TILE, x),
                      m->scale[i], *y);
    }
}
