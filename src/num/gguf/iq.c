/* Blocks of vectors from a grid, and of ternary digits. */
#include "num/gguf/iq.h"

#include "base/mem.h"
#include "num/gguf/kscale.h"

#include <string.h>

enum { MINUS = 8, VECTORS = PITH_KBLOCK / 8, SHORT_VECTORS = PITH_KBLOCK / 4 };

/* --- vectors ---------------------------------------------------------------------------------- */

struct grid {
    const uint16_t *vector;
    unsigned count, width, bits; /* vectors, elements of one, bits of a digit */
};
static const struct grid iq1 = {pith_iq1_grid, 2048, 8, 2},
                         iq2_xxs = {pith_iq2_xxs_grid, 256, 8, 2},
                         iq2_xs = {pith_iq2_xs_grid, 512, 8, 2},
                         iq2_s = {pith_iq2_s_grid, 1024, 8, 2},
                         iq3_xxs = {pith_iq3_xxs_grid, 256, 4, 3},
                         iq3_s = {pith_iq3_s_grid, 512, 4, 3};

/* Vector `at` as the codes of elements, bit i of `minus` for element i. */
static void get_vector(const struct grid *g, unsigned at, unsigned minus, uint8_t *codes)
{
    const unsigned vector = g->vector[at], mask = (1u << g->bits) - 1;
    for (unsigned i = 0; i < g->width; i++)
        codes[i] = (uint8_t)((vector >> g->bits * i & mask) | (minus >> i & 1) * MINUS);
}

/* The reverse; false when the grid has no such vector. */
static bool put_vector(const struct grid *g, const uint8_t *codes, unsigned *at, unsigned *minus)
{
    unsigned vector = 0, low = 0, high = g->count;
    *minus = 0;
    for (unsigned i = 0; i < g->width; i++) {
        const unsigned digit = codes[i] & (MINUS - 1);
        if (digit >> g->bits) return false;
        vector |= digit << g->bits * i;
        *minus |= (unsigned)(codes[i] >= MINUS) << i;
    }
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (g->vector[middle] < vector) low = middle + 1;
        else high = middle;
    }
    *at = low;
    return low < g->count && g->vector[low] == vector;
}

/* Eight signs of which seven are stored: those with a minus are an even number. */
static unsigned all_signs(unsigned seven)
{
    unsigned odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return seven | (odd & 1) << 7;
}

/* --- numbers in bytes ------------------------------------------------------------------------- */

static unsigned get_16(const uint8_t *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static void or_16(unsigned x, uint8_t *p)
{
    p[0] |= (uint8_t)x;
    p[1] |= (uint8_t)(x >> 8);
}

static uint32_t get_32(const uint8_t *p)
{
    return get_16(p) | (uint32_t)get_16(p + 2) << 16;
}

static void or_32(uint32_t x, uint8_t *p)
{
    or_16(x & 0xffff, p);
    or_16(x >> 16, p + 2);
}

/* Number i of such that have 1, 2, 4 or 8 bits each. */
static unsigned get_bits(const uint8_t *p, unsigned bits, unsigned i)
{
    return (unsigned)p[i * bits / 8] >> i * bits % 8 & ((1u << bits) - 1);
}

static void or_bits(uint8_t *p, unsigned bits, unsigned i, unsigned x)
{
    p[i * bits / 8] |= (uint8_t)(x << i * bits % 8);
}

/* Scale i is d (2 s + 1). */
static void set_odd(struct pith_kblock *b, unsigned i, unsigned s)
{
    pith_set_scale(b, (int)i, (int)(2 * s + 1));
}

/* The s of scale i; false when there is none up to `most`. */
static bool get_odd(const struct pith_kblock *b, unsigned i, unsigned most, unsigned *s)
{
    int k = 0;
    const bool zero = b->d == 0.0f && b->scale[i] == 0.0f;
    const bool fits = zero || (pith_divide_scale(b->scale[i], b->d, 1, (int)(2 * most + 1), &k) &&
                               k % 2 == 1);
    *s = (unsigned)k / 2;
    return fits;
}

/* The scales of a block as 4 bits each. */
static void get_scales(const uint8_t *p, unsigned count, struct pith_kblock *out)
{
    for (unsigned i = 0; i < count; i++) set_odd(out, i, get_bits(p, 4, i));
}

static bool or_scales(const struct pith_kblock *in, unsigned count, uint8_t *p)
{
    bool fits = true;
    for (unsigned i = 0, s; i < count; i++) {
        fits &= get_odd(in, i, 15, &s);
        or_bits(p, 4, i, s & 15);
    }
    return fits;
}

/* --- IQ2_XXS and IQ2_XS ----------------------------------------------------------------------- */

/* IQ2_XXS: d, then for each 32 weights four places and a word: seven signs for each, the scale. */
void pith_get_iq2_xxs(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block);
    for (unsigned v = 0; v < VECTORS; v++) {
        const uint8_t *p = block + 2 + v / 4 * 8;
        const uint32_t word = get_32(p + 4);
        get_vector(&iq2_xxs, p[v % 4], all_signs(word >> 7 * (v % 4) & 127), out->codes + 8 * v);
        set_odd(out, v / 4, word >> 28);
    }
}

bool pith_put_iq2_xxs(const struct pith_kblock *in, uint8_t *block)
{
    memset(block, 0, 66);
    bool fits = pith_put_half(in->d, block);
    for (unsigned v = 0, at, minus, s; v < VECTORS; v++) {
        uint8_t *p = block + 2 + v / 4 * 8;
        fits = put_vector(&iq2_xxs, in->codes + 8 * v, &at, &minus) && fits;
        fits = get_odd(in, v / 4, 15, &s) && all_signs(minus & 127) == minus && fits;
        if (!fits) return false;
        p[v % 4] = (uint8_t)at;
        or_32((uint32_t)(minus & 127) << 7 * (v % 4) | (uint32_t)s << 28, p + 4);
    }
    return true;
}

/* IQ2_XS: d, for each vector 9 bits of its place and 7 signs, then scales. */
void pith_get_iq2_xs(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block);
    for (unsigned v = 0; v < VECTORS; v++) {
        const unsigned word = get_16(block + 2 + 2 * v);
        get_vector(&iq2_xs, word & 511, all_signs(word >> 9), out->codes + 8 * v);
    }
    get_scales(block + 66, 16, out);
}

bool pith_put_iq2_xs(const struct pith_kblock *in, uint8_t *block)
{
    memset(block, 0, 74);
    for (unsigned v = 0, at, minus; v < VECTORS; v++) {
        if (!put_vector(&iq2_xs, in->codes + 8 * v, &at, &minus)) return false;
        if (all_signs(minus & 127) != minus) return false;
        or_16(at | (minus & 127) << 9, block + 2 + 2 * v);
    }
    return pith_put_half(in->d, block) && or_scales(in, 16, block + 66);
}

/* --- IQ3_XXS ---------------------------------------------------------------------------------- */

/* IQ3_XXS: d, a byte for each vector of four, and for each 32 weights a word as in IQ2_XXS. */
void pith_get_iq3_xxs(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block);
    for (unsigned v = 0; v < SHORT_VECTORS; v++) {
        const uint32_t word = get_32(block + 66 + v / 8 * 4);
        const unsigned signs = all_signs(word >> 7 * (v / 2 % 4) & 127);
        get_vector(&iq3_xxs, block[2 + v], signs >> v % 2 * 4, out->codes + 4 * v);
        set_odd(out, v / 8, word >> 28);
    }
}

bool pith_put_iq3_xxs(const struct pith_kblock *in, uint8_t *block)
{
    memset(block, 0, 98);
    for (unsigned v = 0, at, low, high, s; v < SHORT_VECTORS; v += 2) {
        if (!put_vector(&iq3_xxs, in->codes + 4 * v, &at, &low)) return false;
        block[2 + v] = (uint8_t)at;
        if (!put_vector(&iq3_xxs, in->codes + 4 * v + 4, &at, &high)) return false;
        block[3 + v] = (uint8_t)at;
        const unsigned seven = (low | high << 4) & 127;
        if (all_signs(seven) != (low | high << 4) || !get_odd(in, v / 8, 15, &s)) return false;
        or_32((uint32_t)seven << 7 * (v / 2 % 4) | (uint32_t)s << 28, block + 66 + v / 8 * 4);
    }
    return pith_put_half(in->d, block);
}

/* --- IQ2_S and IQ3_S -------------------------------------------------------------------------- */

/* d, low bytes of the places, then in another order the upper bits of the places and the
 * signs, and scales. */
struct spread {
    const struct grid *grid;
    uint8_t upper, upper_bits, signs, scales, scale_count; /* where they begin; bits a vector */
    uint8_t bytes;
};
static const struct spread spread_iq2_s = {&iq2_s, 66, 2, 34, 74, 16, 82},
                           spread_iq3_s = {&iq3_s, 66, 1, 74, 106, 8, 110};

static void get_spread(const struct spread *s, const uint8_t *block, struct pith_kblock *out)
{
    const unsigned width = s->grid->width;
    out->d = pith_get_half(block);
    for (unsigned v = 0; v < PITH_KBLOCK / width; v++)
        get_vector(s->grid, block[2 + v] | get_bits(block + s->upper, s->upper_bits, v) << 8,
                   get_bits(block + s->signs, width, v), out->codes + width * v);
    get_scales(block + s->scales, s->scale_count, out);
}

static bool put_spread(const struct spread *s, const struct pith_kblock *in, uint8_t *block)
{
    const unsigned width = s->grid->width;
    memset(block, 0, s->bytes);
    for (unsigned v = 0, at, minus; v < PITH_KBLOCK / width; v++) {
        if (!put_vector(s->grid, in->codes + width * v, &at, &minus)) return false;
        block[2 + v] = (uint8_t)at;
        or_bits(block + s->upper, s->upper_bits, v, at >> 8);
        or_bits(block + s->signs, width, v, minus);
    }
    return pith_put_half(in->d, block) && or_scales(in, s->scale_count, block + s->scales);
}

void pith_get_iq2_s(const uint8_t *block, struct pith_kblock *out)
{
    get_spread(&spread_iq2_s, block, out);
}

bool pith_put_iq2_s(const struct pith_kblock *in, uint8_t *block)
{
    return put_spread(&spread_iq2_s, in, block);
}

void pith_get_iq3_s(const uint8_t *block, struct pith_kblock *out)
{
    get_spread(&spread_iq3_s, block, out);
}

bool pith_put_iq3_s(const struct pith_kblock *in, uint8_t *block)
{
    return put_spread(&spread_iq3_s, in, block);
}

/* --- IQ1 -------------------------------------------------------------------------------------- */

/* The place of a vector whose elements all have the 1/8 added or all subtracted. */
static bool put_shifted(const uint8_t *codes, unsigned *at, bool *minus)
{
    unsigned signs;
    if (!put_vector(&iq1, codes, at, &signs) || (signs && signs != 255)) return false;
    *minus = signs;
    return true;
}

/* IQ1_S: d, low bytes of the places, then for each 32 weights the upper three bits of their places,
 * the scale and the sign of the eighth. */
void pith_get_iq1_s(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block);
    for (unsigned v = 0; v < VECTORS; v++) {
        const unsigned word = get_16(block + 34 + v / 4 * 2);
        get_vector(&iq1, block[2 + v] | (word >> 3 * (v % 4) & 7) << 8, word >> 15 ? 255 : 0,
                   out->codes + 8 * v);
        set_odd(out, v / 4, word >> 12 & 7);
    }
}

bool pith_put_iq1_s(const struct pith_kblock *in, uint8_t *block)
{
    bool minus, first = false;
    memset(block, 0, 50);
    for (unsigned v = 0, at, s; v < VECTORS; v++) {
        if (!put_shifted(in->codes + 8 * v, &at, &minus)) return false;
        if (v % 4 == 0) first = minus;
        if (minus != first || !get_odd(in, v / 4, 7, &s)) return false;
        block[2 + v] = (uint8_t)at;
        or_16((at >> 8) << 3 * (v % 4) | s << 12 | (unsigned)minus << 15, block + 34 + v / 4 * 2);
    }
    return pith_put_half(in->d, block);
}

/* IQ1_M: low bytes of the places, for each vector the upper three bits and the sign of the eighth,
 * then four words of four scales and a quarter of d each. */
void pith_get_iq1_m(const uint8_t *block, struct pith_kblock *out)
{
    uint8_t half[2] = {0};
    for (unsigned i = 0; i < 4; i++) or_bits(half, 4, i, block[49 + 2 * i] >> 4);
    out->d = pith_get_half(half);
    for (unsigned v = 0; v < VECTORS; v++) {
        const unsigned upper = get_bits(block + 32, 4, v);
        get_vector(&iq1, block[v] | (upper & 7) << 8, upper & 8 ? 255 : 0, out->codes + 8 * v);
    }
    for (unsigned i = 0; i < 16; i++)
        set_odd(out, i, get_16(block + 48 + i / 4 * 2) >> 3 * (i % 4) & 7);
}

bool pith_put_iq1_m(const struct pith_kblock *in, uint8_t *block)
{
    bool minus;
    uint8_t half[2];
    memset(block, 0, 56);
    bool fits = pith_put_half(in->d, half);
    for (unsigned i = 0; i < 4; i++) or_16(get_bits(half, 4, i) << 12, block + 48 + 2 * i);
    for (unsigned i = 0, s; i < 16; i++) {
        fits &= get_odd(in, i, 7, &s);
        or_16((s & 7) << 3 * (i % 4), block + 48 + i / 4 * 2);
    }
    for (unsigned v = 0, at; v < VECTORS; v++) {
        if (!put_shifted(in->codes + 8 * v, &at, &minus)) return false;
        block[v] = (uint8_t)at;
        or_bits(block + 32, 4, v, at >> 8 | (unsigned)minus << 3);
    }
    return fits;
}

/* --- TQ1_0 ------------------------------------------------------------------------------------ */

/* A byte is a fraction of 256, whose first digits to the base of 3 are weights. Those of one run of
 * bytes, digit by digit, are one run of weights. Behind them is the scale. */
enum { TERNARY_SCALE = 52, DIGITS = 5, MINUS_ONE = 1 };
static const struct run {
    uint8_t at, bytes, digits, first;
} runs[] = {{0, 32, DIGITS, 0}, {32, 16, DIGITS, 160}, {48, 4, 4, 240}};

void pith_get_tq1_0(const uint8_t *block, struct pith_kblock *out)
{
    out->scale[0] = pith_get_half(block + TERNARY_SCALE);
    for (size_t r = 0; r < PITH_COUNT(runs); r++)
        for (unsigned b = 0; b < runs[r].bytes; b++) {
            unsigned rest = block[runs[r].at + b];
            for (unsigned n = 0; n < runs[r].digits; n++, rest = rest * 3 & 255)
                out->codes[runs[r].first + n * runs[r].bytes + b] =
                    (uint8_t)(MINUS_ONE + (rest * 3 >> 8));
        }
}

bool pith_put_tq1_0(const struct pith_kblock *in, uint8_t *block)
{
    enum { NUMBERS = 243 }; /* of five digits */
    for (size_t r = 0; r < PITH_COUNT(runs); r++)
        for (unsigned b = 0; b < runs[r].bytes; b++) {
            unsigned number = 0;
            for (unsigned n = 0; n < DIGITS; n++) {
                const unsigned e = runs[r].first + n * runs[r].bytes + b;
                const unsigned code = n < runs[r].digits ? in->codes[e] : MINUS_ONE;
                if (code < MINUS_ONE || code > MINUS_ONE + 2) return false;
                number = number * 3 + code - MINUS_ONE;
            }
            block[runs[r].at + b] = (uint8_t)((number * 256 + NUMBERS - 1) / NUMBERS);
        }
    return pith_put_half(in->scale[0], block + TERNARY_SCALE);
}
