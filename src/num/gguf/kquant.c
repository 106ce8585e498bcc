/* The layouts of GGUF's blocks. Where codes lie is data (struct pith_kplane), but for those of
 * num/gguf/iq.h; scales are a pair of functions a type. */
#include "num/gguf/kquant.h"

#include "base/mem.h"
#include "num/elements/elements.h"
#include "num/gguf/iq.h"
#include "num/gguf/krows.h"
#include "num/gguf/kscale.h"

#include <string.h>

/* --- one scale, or a scale and a minimum ------------------------------------------------------ */

static void set_minimum(struct pith_kblock *b, int i, int k)
{
    b->offset[i] = -(b->dmin * (float)k);
}

static void get_single(const uint8_t *block, struct pith_kblock *out)
{
    out->scale[0] = pith_get_half(block);
}

static bool put_single(const struct pith_kblock *in, uint8_t *block)
{
    return pith_put_half(in->scale[0], block);
}

static void get_pair(const uint8_t *block, struct pith_kblock *out)
{
    out->scale[0] = pith_get_half(block);
    out->offset[0] = pith_get_half(block + 2);
}

static bool put_pair(const struct pith_kblock *in, uint8_t *block)
{
    return pith_put_half(in->scale[0], block) && pith_put_half(in->offset[0], block + 2);
}

/* What is stored counts down from 2 in steps of d. */
static void get_q2_0(const uint8_t *block, struct pith_kblock *out)
{
    out->scale[0] = -pith_get_half(block);
}

static bool put_q2_0(const struct pith_kblock *in, uint8_t *block)
{
    return pith_put_half(-in->scale[0], block);
}

static void get_tq2_0(const uint8_t *block, struct pith_kblock *out)
{
    get_q2_0(block + 64, out);
}

static bool put_tq2_0(const struct pith_kblock *in, uint8_t *block)
{
    return put_q2_0(in, block + 64);
}

/* Signs alone: the codes of -1 and 1. */
static bool put_q1_0(const struct pith_kblock *in, uint8_t *block)
{
    bool fits = put_single(in, block);
    for (int i = 0; i < 128; i++) fits &= in->codes[i] == 1 || in->codes[i] == 3;
    return fits;
}

static void get_mxfp4(const uint8_t *block, struct pith_kblock *out)
{
    out->scale[0] = pith_e8m0_decode(block[0]);
}

static bool put_mxfp4(const struct pith_kblock *in, uint8_t *block)
{
    block[0] = (uint8_t)pith_e8m0_encode(in->scale[0]);
    return pith_e8m0_decode(block[0]) == in->scale[0];
}

/* ggml reads E4M3 without the sign, its NaN as 0; with the sign that code would be 480. */
static void get_nvfp4(const uint8_t *block, struct pith_kblock *out)
{
    for (int i = 0; i < 4; i++) {
        const float x = pith_fp8_e4m3_decode(block[i] & 0x7f);
        out->scale[i] = isnan(x) && block[i] == 0x7f ? 0.0f : x;
    }
}

static bool put_nvfp4(const struct pith_kblock *in, uint8_t *block)
{
    bool fits = true;
    for (int i = 0; i < 4; i++) {
        block[i] = (uint8_t)pith_fp8_e4m3_encode(in->scale[i]);
        fits &= in->scale[i] >= 0.0f && pith_fp8_e4m3_decode(block[i]) == in->scale[i];
        block[i] &= 0x7f;
    }
    return fits;
}

/* --- two levels ------------------------------------------------------------------------------- */

/* Q2_K: 16 pairs of 4 bits, then codes, then d and dmin. */
static void get_q2_k(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block + 80);
    out->dmin = pith_get_half(block + 82);
    for (int i = 0; i < 16; i++) {
        pith_set_scale(out, i, block[i] & 15);
        set_minimum(out, i, block[i] >> 4);
    }
}

static bool put_q2_k(const struct pith_kblock *in, uint8_t *block)
{
    bool fits = pith_put_half(in->d, block + 80) && pith_put_half(in->dmin, block + 82);
    for (int i = 0; i < 16; i++) {
        int scale, minimum;
        fits &= pith_divide_scale(in->scale[i], in->d, 0, 15, &scale);
        fits &= pith_divide_scale(-in->offset[i], in->dmin, 0, 15, &minimum);
        block[i] = (uint8_t)(scale | minimum << 4);
    }
    return fits;
}

/* Q3_K: 16 integers of 6 bits, less 32: the low halves in 8 bytes, the upper two bits in 4. */
static void get_q3_k(const uint8_t *block, struct pith_kblock *out)
{
    const uint8_t *s = block + 96;
    out->d = pith_get_half(block + 108);
    for (int i = 0; i < 16; i++) {
        const int low = s[i % 8] >> i / 8 * 4 & 15, high = s[8 + i % 4] >> i / 4 * 2 & 3;
        pith_set_scale(out, i, (low | high << 4) - 32);
    }
}

static bool put_q3_k(const struct pith_kblock *in, uint8_t *block)
{
    uint8_t *s = block + 96;
    bool fits = pith_put_half(in->d, block + 108);
    memset(s, 0, 12);
    for (int i = 0; i < 16; i++) {
        int k;
        fits &= pith_divide_scale(in->scale[i], in->d, -32, 31, &k);
        k += 32;
        s[i % 8] |= (uint8_t)((k & 15) << i / 8 * 4);
        s[8 + i % 4] |= (uint8_t)(k >> 4 << i / 4 * 2);
    }
    return fits;
}

/* Q4_K, Q5_K: 8 scales and 8 minimums of 6 bits in 12 bytes. The first four of each fill the low 6
 * bits of bytes 0-3 and 4-7; of the others, bytes 8-11 have the low halves (scale, minimum) and the
 * upper two bits of bytes 0-3 and 4-7 the rest. */
static void get_q4_k(const uint8_t *block, struct pith_kblock *out)
{
    const uint8_t *s = block + 4;
    out->d = pith_get_half(block);
    out->dmin = pith_get_half(block + 2);
    for (int i = 0; i < 4; i++) {
        pith_set_scale(out, i, s[i] & 63);
        set_minimum(out, i, s[4 + i] & 63);
        pith_set_scale(out, 4 + i, (s[8 + i] & 15) | s[i] >> 6 << 4);
        set_minimum(out, 4 + i, s[8 + i] >> 4 | s[4 + i] >> 6 << 4);
    }
}

static bool put_q4_k(const struct pith_kblock *in, uint8_t *block)
{
    uint8_t *s = block + 4;
    bool fits = pith_put_half(in->d, block) && pith_put_half(in->dmin, block + 2);
    int scale[8], minimum[8];
    for (int i = 0; i < 8; i++) {
        fits &= pith_divide_scale(in->scale[i], in->d, 0, 63, &scale[i]);
        fits &= pith_divide_scale(-in->offset[i], in->dmin, 0, 63, &minimum[i]);
    }
    for (int i = 0; i < 4; i++) {
        s[i] = (uint8_t)(scale[i] | scale[4 + i] >> 4 << 6);
        s[4 + i] = (uint8_t)(minimum[i] | minimum[4 + i] >> 4 << 6);
        s[8 + i] = (uint8_t)((scale[4 + i] & 15) | (minimum[4 + i] & 15) << 4);
    }
    return fits;
}

/* Q6_K: 16 signed bytes, then d. */
static void get_q6_k(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block + 208);
    for (int i = 0; i < 16; i++) pith_set_scale(out, i, (int)(block[192 + i] ^ 0x80) - 128);
}

static bool put_q6_k(const struct pith_kblock *in, uint8_t *block)
{
    bool fits = pith_put_half(in->d, block + 208);
    for (int i = 0; i < 16; i++) {
        int k;
        fits &= pith_divide_scale(in->scale[i], in->d, -128, 127, &k);
        block[192 + i] = (uint8_t)((k + 128) ^ 0x80);
    }
    return fits;
}

/* IQ4_XS: 8 integers of 6 bits, less 32: upper two bits in a word, low halves in 4 bytes. */
static void get_iq4_xs(const uint8_t *block, struct pith_kblock *out)
{
    out->d = pith_get_half(block);
    for (int i = 0; i < 8; i++) {
        const int low = block[4 + i / 2] >> i % 2 * 4 & 15,
                  high = block[2 + i / 4] >> i % 4 * 2 & 3;
        pith_set_scale(out, i, (low | high << 4) - 32);
    }
}

static bool put_iq4_xs(const struct pith_kblock *in, uint8_t *block)
{
    bool fits = pith_put_half(in->d, block);
    memset(block + 2, 0, 6);
    for (int i = 0; i < 8; i++) {
        int k;
        fits &= pith_divide_scale(in->scale[i], in->d, -32, 31, &k);
        k += 32;
        block[4 + i / 2] |= (uint8_t)((k & 15) << i % 2 * 4);
        block[2 + i / 4] |= (uint8_t)(k >> 4 << i % 4 * 2);
    }
    return fits;
}

/* --- the table -------------------------------------------------------------------------------- */

static const struct pith_kquant kquants[] = {
#define PITH_KQUANT(id_, file_type_, name_, format_, element_, elements_, bytes_, sub_, ...)       \
    {.id = id_,                                                                                    \
     .file_type = file_type_,                                                                      \
     .name = name_,                                                                                \
     .format = format_,                                                                            \
     .element = element_,                                                                          \
     .elements = elements_,                                                                        \
     .bytes = bytes_,                                                                              \
     .sub = sub_,                                                                                  \
     __VA_ARGS__},
#include "num/gguf/kquants.def"
#undef PITH_KQUANT
};

const struct pith_kquant *pith_kquants(size_t *count)
{
    *count = PITH_COUNT(kquants);
    return kquants;
}

const struct pith_kquant *pith_kquant_by_id(uint32_t id)
{
    for (size_t i = 0; i < PITH_COUNT(kquants); i++)
        if (kquants[i].id == id) return &kquants[i];
    return NULL;
}

/* ASCII only: what is a letter must not depend on the locale. */
static bool same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char x = *a >= 'A' && *a <= 'Z' ? (char)(*a - 'A' + 'a') : *a;
        const char y = *b >= 'A' && *b <= 'Z' ? (char)(*b - 'A' + 'a') : *b;
        if (x != y) return false;
    }
    return *a == *b;
}

const struct pith_kquant *pith_kquant_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(kquants); i++)
        if (same_name(kquants[i].name, name) || same_name(kquants[i].format, name))
            return &kquants[i];
    return NULL;
}

/* --- codes ------------------------------------------------------------------------------------ */

/* Ors a run's bits from `shift` on into the codes, eight at a time: none leave their byte. */
static void get_run(const struct pith_kplane *p, const uint8_t *src, unsigned shift, uint8_t *codes)
{
    const unsigned mask = (1u << p->bits) - 1;
    const uint64_t masks = (uint64_t)0x0101010101010101 * mask;
    size_t l = 0;
    for (uint64_t v, c; l + sizeof v <= p->run; l += sizeof v) {
        memcpy(&v, src + l, sizeof v);
        memcpy(&c, codes + l, sizeof c);
        c |= (v >> shift & masks) << p->up;
        memcpy(codes + l, &c, sizeof c);
    }
    for (; l < p->run; l++) codes[l] |= (uint8_t)((src[l] >> shift & mask) << p->up);
}

static void get_plane(const struct pith_kplane *p, const uint8_t *block, size_t n, uint8_t *codes)
{
    const uint8_t *src = block + p->at;
    for (size_t e = 0; e < n; src += p->run)
        for (unsigned shift = 0; shift < 8; shift += p->bits, e += p->run)
            get_run(p, src, shift, codes + e);
}

static void put_plane(const struct pith_kplane *p, const uint8_t *codes, size_t n, uint8_t *block)
{
    uint8_t *out = block + p->at;
    const unsigned mask = (1u << p->bits) - 1;
    for (size_t e = 0; e < n; out += p->run) {
        memset(out, 0, p->run);
        for (unsigned shift = 0; shift < 8; shift += p->bits, e += p->run)
            for (size_t l = 0; l < p->run; l++)
                out[l] |= (uint8_t)((codes[e + l] >> p->up & mask) << shift);
    }
}

/* --- blocks ----------------------------------------------------------------------------------- */

bool pith_kquant_unpack(const struct pith_kquant *t, const uint8_t *block, struct pith_kblock *out)
{
    *out = (struct pith_kblock){.d = 0.0f};
    t->get(block, out);
    for (unsigned i = 0; i < 2 && t->plane[i].bits; i++)
        get_plane(&t->plane[i], block, t->elements, out->codes);
    for (unsigned i = 0; t->flip && i < t->elements; i++) out->codes[i] ^= t->flip;
    bool finite = isfinite(out->d) && isfinite(out->dmin);
    for (unsigned i = 0; i < t->elements / t->sub; i++)
        finite &= isfinite(out->scale[i]) && isfinite(out->offset[i]);
    return finite;
}

bool pith_kquant_pack(const struct pith_kquant *t, const struct pith_kblock *in, uint8_t *block)
{
    uint8_t flipped[PITH_KBLOCK];
    const uint8_t *codes = in->codes;
    if (t->flip) {
        for (unsigned i = 0; i < t->elements; i++) flipped[i] = codes[i] ^ t->flip;
        codes = flipped;
    }
    for (unsigned i = 0; i < 2 && t->plane[i].bits; i++)
        put_plane(&t->plane[i], codes, t->elements, block);
    return t->put(in, block);
}

void pith_kquant_values(const struct pith_kquant *t, const struct pith_kblock *in, float *out)
{
    const struct pith_format *f = pith_format_find(t->element);
    const float zero = t->minimums ? 0.0f : (float)pith_format_middle(f);
    for (unsigned e = 0; e < t->elements; e++) {
        const unsigned c = in->codes[e], i = e / t->sub;
        const float v = f->kind == PITH_KIND_INT ? (float)c - zero : f->decode(c);
        out[e] = v * in->scale[i];
        if (t->minimums) out[e] += in->offset[i];
    }
}
