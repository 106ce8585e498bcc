#include "num/rowcode.h"

#include "num/elements/elements.h"
#include "num/gaussian.h"
#include "num/gguf/kquant.h"

#include <math.h>

#include <string.h>

/* --- encoding --------------------------------------------------------------------------------- */

static void encode_grid(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                        struct pith_row_scale *of)
{
    struct pith_input in = r->in;
    const struct pith_input_call call = {0};
    in.scale = scale;
    for (uint32_t g = 0, c = 0; g < r->groups; g++, c += r->width) {
        const uint32_t n = r->cols - c < r->width ? r->cols - c : r->width;
        of[g] = (struct pith_row_scale){0};
        pith_input_group(&in, &call, x + c, n,
                         &(struct pith_input_group){codes + c, &of[g].scale, &of[g].zero});
    }
}

static void encode_gguf(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                        struct pith_row_scale *of)
{
    const struct pith_kquant *t = pith_kquant_find(r->in.grid.format->name);
    (void)scale;
    for (uint32_t g = 0; g < r->groups; g++) {
        struct pith_kblock b;
        t->row(x + (size_t)g * r->width, &b);
        memcpy(codes + (size_t)g * r->width, b.codes, r->width);
        of[g] = (struct pith_row_scale){b.scale[0], 0.0f, r->offsets ? b.offset[0] : 0.0f};
    }
}

static void encode_gaussian(const struct pith_row_code *r, float scale, const float *x,
                            uint8_t *codes, struct pith_row_scale *of)
{
    (void)scale;
    *of = (struct pith_row_scale){.scale = pith_gaussian_scale(x, r->cols)};
    pith_gaussian_encode(r->bits, of->scale, x, r->cols, codes);
}

void pith_row_encode(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                     struct pith_row_scale *of)
{
    r->encode(r, scale, x, codes, of);
}

/* --- how rows are stored ---------------------------------------------------------------------- */

static bool is_gguf(const struct pith_row_code *r)
{
    return r->in.grid.format->kind == PITH_KIND_GGUF;
}

/* The values of the format's codes. */
static void fill_levels(const struct pith_format *f, float *level)
{
    for (uint32_t c = 0; c < PITH_ROW_LEVELS; c++) level[c] = f->decode(c & ((1u << f->bits) - 1));
}

static void set_gguf(struct pith_row_code *r, const struct pith_format **element)
{
    const struct pith_kquant *t = pith_kquant_find(r->in.grid.format->name);
    *element = pith_format_find(t->element);
    r->encode = encode_gguf;
    r->width = t->elements;
    r->scale = PITH_F16;
    r->offsets = t->minimums;
    r->middle = t->minimums ? 0.0f : (float)pith_format_middle(*element);
}

enum pith_status pith_row_code_make(const struct pith_grid *grid, uint32_t cols, float *level,
                                    struct pith_row_code *out, struct pith_error *err)
{
    const struct pith_format *f = grid->format;
    struct pith_row_code r = {.encode = encode_grid,
                              .in = {.grid = *grid, .scale = 1.0f},
                              .cols = cols,
                              .scale = PITH_F32};
    if (grid->granularity == PITH_PER_HEAD && grid->is_static)
        r.in.grid.granularity = PITH_PER_TENSOR;
    PITH_TRY(pith_input_check(&r.in, cols, err));
    if (pith_input_surveys(&r.in))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: rows of keys and values are stored one by one",
                         f->name);
    const struct pith_format *element = f;
    r.width = grid->granularity == PITH_PER_GROUP ? grid->group : cols;
    if (f->kind == PITH_KIND_BLOCK) {
        element = pith_format_find(f->element);
        r.width = f->block;
        const bool two = pith_input_needs_scale(&r.in); /* nvfp4 */
        r.scale = two ? PITH_F8_E4M3 : PITH_F8_E8M0;
        if (two) r.in.rule = PITH_INPUT_MODELOPT;
    } else if (is_gguf(&r)) {
        set_gguf(&r, &element);
    } else if (f->kind == PITH_KIND_INT) {
        r.middle = (float)pith_format_middle(f);
        r.zeros = grid->asym && !grid->is_static;
    }
    if (grid->granularity == PITH_PER_GROUP && !pith_format_has_blocks(f))
        r.scale = r.in.scale_dtype = f->kind == PITH_KIND_INT ? PITH_F16 : PITH_BF16;
    r.scale_bytes = grid->is_static && r.scale != PITH_F8_E4M3 ? 0 : pith_dtype_bits(r.scale) / 8;
    r.groups = (cols - 1) / r.width + 1;
    r.bits = element->bits;
    if (element->kind != PITH_KIND_INT) {
        fill_levels(element, level);
        r.level = level;
    }
    *out = r;
    return PITH_OK;
}

enum pith_status pith_row_code_gaussian(unsigned bits, uint32_t cols, float *level,
                                        struct pith_row_code *out, struct pith_error *err)
{
    const float *from = pith_gaussian_levels(bits);
    if (!from) return pith_fail(err, PITH_ARG, "no levels of %u bits", bits);
    memset(level, 0, PITH_ROW_LEVELS * sizeof *level);
    memcpy(level, from, (sizeof *level) << bits);
    *out = (struct pith_row_code){.encode = encode_gaussian,
                                  .cols = cols,
                                  .width = cols,
                                  .groups = 1,
                                  .bits = bits,
                                  .scale = PITH_F16,
                                  .scale_bytes = 2,
                                  .level = level};
    return PITH_OK;
}

/* --- decoding --------------------------------------------------------------------------------- */

void pith_row_decode(const struct pith_row_code *r, const uint8_t *codes,
                     const struct pith_row_scale *of, float *x)
{
    if (r->decode) {
        r->decode(r, codes, of, x);
        return;
    }
    for (uint32_t c = 0; c < r->cols; c++) {
        const struct pith_row_scale *s = &of[c / r->width];
        const float value = r->level ? r->level[codes[c]] : (float)codes[c] - r->middle;
        x[c] = (value - s->zero) * s->scale;
        if (r->offsets) x[c] += s->offset;
    }
}

/* --- scales in bytes -------------------------------------------------------------------------- */

static void put_scale(enum pith_dtype form, float x, uint8_t *bytes)
{
    if (form == PITH_F8_E8M0) *bytes = (uint8_t)pith_e8m0_encode(x);
    else if (form == PITH_F8_E4M3) *bytes = (uint8_t)pith_fp8_e4m3_encode(x);
    else (void)pith_dtype_encode(form, &x, 1, bytes);
}

static float get_scale(enum pith_dtype form, const uint8_t *bytes)
{
    float x;
    if (form == PITH_F8_E8M0) return pith_e8m0_decode(*bytes);
    if (form == PITH_F8_E4M3) return pith_fp8_e4m3_decode(*bytes);
    (void)pith_dtype_decode(form, bytes, 1, &x);
    return x;
}

void pith_row_scale_put(const struct pith_row_code *r, float scale, const struct pith_row_scale *of,
                        uint8_t *bytes)
{
    /* Of nvfp4 the quotient is next to the number it was. */
    const float stored = r->scale == PITH_F8_E4M3 ? of->scale / scale : of->scale;
    if (r->scale_bytes) put_scale(r->scale, stored, bytes);
    bytes += r->scale_bytes;
    if (r->zeros) *bytes++ = (uint8_t)(int8_t)of->zero;
    if (r->offsets) put_scale(PITH_F16, of->offset, bytes);
}

struct pith_row_scale pith_row_scale_get(const struct pith_row_code *r, float scale,
                                         const uint8_t *bytes)
{
    struct pith_row_scale of = {.scale = r->scale_bytes ? get_scale(r->scale, bytes) : scale};
    if (r->scale == PITH_F8_E4M3) of.scale *= scale;
    bytes += r->scale_bytes;
    if (r->zeros) of.zero = (float)(int8_t)*bytes++;
    if (r->offsets) of.offset = get_scale(PITH_F16, bytes);
    return of;
}
