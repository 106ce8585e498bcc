#include "num/trellis.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, BLOCK = PITH_TRELLIS_BLOCK, WEIGHTS = PITH_TRELLIS_WEIGHTS };

/* ---- one weight ---- */

const uint16_t pith_trellis_factors[9][2] = {
    {0, 0},        {37175, 12707}, {37175, 12707}, {59199, 29255}, {50479, 8903},
    {33487, 28407}, {61273, 17937}, {23115, 11871}, {12605, 31865},
};

float pith_trellis_halves(enum pith_trellis_code code, uint32_t window)
{
    uint32_t x = code == PITH_TRELLIS_MCG ? window * PITH_TRELLIS_BY_MCG
                                          : window * PITH_TRELLIS_BY_3INST + PITH_TRELLIS_AND_3INST;
    x = (x & 0x8fff8fffu) ^ 0x3b603b60u;
    /* Multiples of 2^-13 below 2. */
    return pith_f16_to_f32((uint16_t)x) + pith_f16_to_f32((uint16_t)(x >> 16));
}

static uint32_t bytes_of(uint32_t x)
{
    return (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
}

uint32_t pith_trellis_sum(enum pith_trellis_code code, unsigned bits, uint32_t window)
{
    const uint16_t *f = pith_trellis_factors[bits];
    if (code == PITH_TRELLIS_MUL1) return bytes_of(window * PITH_TRELLIS_BY_MUL1);
    return bytes_of((window * f[0] & 0xffff) | window * f[1] << 16);
}

/* Both numbers of mul1 are multiples of 2^-18 below 2^4, so that float32 has their sum. */
float pith_trellis_value(enum pith_trellis_code code, unsigned bits, uint32_t window)
{
    const float sum = code >= PITH_TRELLIS_MUL1 ? (float)pith_trellis_sum(code, bits, window) : 0;
    if (code == PITH_TRELLIS_MUL2) return sum * PITH_TRELLIS_TIMES_MUL2 + PITH_TRELLIS_PLUS_MUL2;
    const float exact = code == PITH_TRELLIS_MUL1
                            ? (1024 + sum) * PITH_TRELLIS_TIMES + PITH_TRELLIS_PLUS
                            : pith_trellis_halves(code, window);
    return pith_f16_to_f32(pith_f32_to_f16(exact));
}

/* ---- a tile ---- */

/* Where of the tile's words of 16 bits word i of the stream is. */
static size_t word_place(enum pith_trellis_code code, unsigned bits, size_t i)
{
    return code == PITH_TRELLIS_MUL2 ? i % bits * TILE + i / bits : i ^ 1;
}

static uint32_t word_at(const struct pith_trellis_tile *t, size_t i)
{
    uint16_t word;
    memcpy(&word, t->at + word_place(t->code, t->bits, i) * sizeof word, sizeof word);
    return word;
}

uint32_t pith_trellis_window(const struct pith_trellis_tile *t, unsigned i)
{
    const size_t words = (size_t)t->bits * WEIGHTS / 16, end = ((size_t)i + 1) * t->bits;
    const size_t last = (end - 1) / 16, before = (last + words - 1) % words;
    const uint32_t both = word_at(t, before) << 16 | word_at(t, last);
    return both >> ((last + 1) * 16 - end) & 0xffff;
}

void pith_trellis_pack(enum pith_trellis_code code, const uint16_t window[PITH_TRELLIS_WEIGHTS],
                       unsigned bits, uint8_t *tile)
{
    uint32_t buffer = 0;
    unsigned count = 0;
    for (size_t i = 0, words = 0; i < WEIGHTS; i++) {
        buffer = buffer << bits | (window[i] & ((1u << bits) - 1));
        count += bits;
        if (count < 16) continue;
        count -= 16;
        const uint16_t word = (uint16_t)(buffer >> count);
        memcpy(tile + word_place(code, bits, words++) * sizeof word, &word, sizeof word);
    }
}

void pith_trellis_decode(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                         float *out, size_t ld)
{
    const struct pith_trellis_tile t = {code, bits, tile};
    for (unsigned i = 0; i < WEIGHTS; i++)
        out[pith_trellis_row(code, i) * ld + pith_trellis_col(code, i)] =
            pith_trellis_value(code, bits, pith_trellis_window(&t, i));
}

/* ---- formats ---- */

static const char *const codes[] = {[PITH_TRELLIS_3INST] = "3inst",
                                    [PITH_TRELLIS_MCG] = "mcg",
                                    [PITH_TRELLIS_MUL1] = "mul1",
                                    [PITH_TRELLIS_MUL2] = "mul2"};

bool pith_trellis_code_find(const char *name, enum pith_trellis_code *out)
{
    for (enum pith_trellis_code c = 0; c < PITH_COUNT(codes); c++) {
        if (strcmp(name, codes[c]) != 0) continue;
        *out = c;
        return true;
    }
    return false;
}

bool pith_trellis_is(const struct pith_format *f)
{
    return f && f->kind == PITH_KIND_TRELLIS;
}

enum pith_trellis_code pith_trellis_code_of(const struct pith_format *f)
{
    enum pith_trellis_code code = PITH_TRELLIS_MUL1; /* which no name says */
    const char *at = strchr(f->name, '_');
    if (at) (void)pith_trellis_code_find(at + 1, &code);
    return code;
}

const struct pith_format *pith_trellis_format(enum pith_trellis_code code, unsigned bits)
{
    const bool named = code != PITH_TRELLIS_MUL1;
    char name[32];
    snprintf(name, sizeof name, "trellis%u%s%s", bits, named ? "_" : "", named ? codes[code] : "");
    return pith_format_find(name);
}

/* ---- the products with T ---- */

static void butterfly(size_t n, float *restrict a, float *restrict b)
{
    for (size_t i = 0; i < n; i++) {
        const float x = a[i], y = b[i];
        a[i] = x + y;
        b[i] = x - y;
    }
}

void pith_trellis_down(float *x, size_t ld, size_t n)
{
    for (size_t half = BLOCK / 2; half > 0; half /= 2)
        for (size_t first = 0; first < BLOCK; first += 2 * half)
            for (size_t i = first; i < first + half; i++)
                butterfly(n, x + i * ld, x + (i + half) * ld);
}

/* a = a + sign b: x - y is x + (-y) to the bit. */
static void add_signed(float *restrict a, const float *restrict b, float sign)
{
    for (size_t i = 0; i < BLOCK; i++) a[i] += sign * b[i];
}

/* Of both results of each pair of rows, the one that `row` comes from is followed. */
void pith_trellis_down_row(float *x, size_t row)
{
    for (size_t half = BLOCK / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            add_signed(x + i * BLOCK, x + (i + half) * BLOCK, row & half ? -1.0f : 1.0f);
}

void pith_trellis_across(float *x, size_t ld, size_t n)
{
    for (size_t r = 0; r < n; r++)
        for (size_t half = BLOCK / 2; half > 0; half /= 2)
            for (size_t first = 0; first < BLOCK; first += 2 * half)
                butterfly(half, x + r * ld + first, x + r * ld + first + half);
}

/* ---- a matrix ---- */

/* V of a block. */
static void decode_block(const struct pith_qmat *q, uint32_t row, uint32_t col, float *out)
{
    enum { SIDE = BLOCK / TILE };
    const enum pith_trellis_code code = pith_trellis_code_of(q->format);
    for (size_t r = 0; r < SIDE; r++)
        for (size_t c = 0; c < SIDE; c++)
            pith_trellis_decode(
                code, q->format->bits,
                q->codes + pith_trellis_tile_at(q, (size_t)row * SIDE + r, (size_t)col * SIDE + c),
                out + r * TILE * BLOCK + c * TILE, BLOCK);
}

static void multiply_columns(const struct pith_qmat *q, uint32_t col, size_t rows, float *x)
{
    const float *f = q->levels + (size_t)col * BLOCK;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < BLOCK; c++) x[r * BLOCK + c] *= f[c] * (1.0f / BLOCK);
}

void pith_trellis_block(const struct pith_qmat *q, uint32_t row, uint32_t col, float *out)
{
    decode_block(q, row, col, out);
    pith_trellis_down(out, BLOCK, BLOCK);
    pith_trellis_across(out, BLOCK, BLOCK);
    multiply_columns(q, col, BLOCK, out);
}

/* One row of a block, x[0 .. BLOCK). */
static void block_row(const struct pith_qmat *q, uint32_t row, uint32_t col, float *x)
{
    decode_block(q, row / BLOCK, col, x);
    pith_trellis_down_row(x, row % BLOCK);
    pith_trellis_across(x, BLOCK, 1);
    multiply_columns(q, col, 1, x);
}

static void read_trellis(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                         float *out)
{
    float x[BLOCK * BLOCK];
    for (uint32_t done = 0, m; done < n; done += m) {
        const uint32_t at = (col + done) % BLOCK;
        m = n - done < BLOCK - at ? n - done : BLOCK - at;
        block_row(in->q, row, (col + done) / BLOCK, x);
        memcpy(out + done, x + at, m * sizeof *out);
    }
}

const struct pith_codec pith_codec_trellis = {.name = "trellis",
                                              .span = 1,
                                              .side = BLOCK,
                                              .table = PITH_TABLE_COLUMNS,
                                              .read = read_trellis,
                                              .block = pith_trellis_block};
