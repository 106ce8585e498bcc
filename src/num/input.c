#include "num/input.h"

#include "base/mem.h"
#include "num/block.h"
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"
#include "num/gguf/kquant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a zero scale is replaced by: the smallest step of a float32 from 1. */
static const float LEAST_SCALE = 0x1p-23f;

static bool is_int(const struct pith_input *in)
{
    return in->grid.format->kind == PITH_KIND_INT;
}

/* --- checks ----------------------------------------------------------------------------------- */

/* A type of GGUF whose rule for single blocks is here, or a message that lists these. */
static enum pith_status check_gguf(const char *name, struct pith_error *err)
{
    char list[128] = "";
    size_t count, used = 0;
    const struct pith_kquant *rows = pith_kquants(&count);
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].row) continue;
        if (strcmp(rows[i].format, name) == 0) return PITH_OK;
        const int n =
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", rows[i].format);
        if (n > 0 && (size_t)n < sizeof list - used) used += (size_t)n;
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s is for weights: its scales are searched over 256 of them; of GGUF's types "
                     "%s can hold activations, keys and values",
                     name, list);
}

static enum pith_status check_grid(const struct pith_grid *g, uint32_t cols, struct pith_error *err)
{
    const struct pith_format *f = g->format;
    char text[PITH_GRID_TEXT];
    pith_grid_format(g, text);
    if (f->kind == PITH_KIND_GGUF) PITH_TRY(check_gguf(f->name, err));
    if (g->hqq || g->even || g->ceil)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "activations cannot be %s: hqq, even and ceil are rules for weights",
                         text);
    if (f->kind == PITH_KIND_CODEBOOK || (f->kind == PITH_KIND_FLOAT && f->bits > 8) || g->mse ||
        g->double_quant || g->granularity == PITH_PER_CHANNEL || g->granularity == PITH_PER_BLOCK ||
        g->granularity == PITH_PER_HEAD)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "activations cannot be %s; int8:token, int8:tensor:static, "
                         "fp8_e4m3:token, fp8_e4m3:tensor:static, fp8_e4m3:g128, int8:g128, mxfp8, "
                         "mxfp4 and nvfp4 are some that they can",
                         text);
    const bool grouped = g->granularity == PITH_PER_GROUP;
    if (grouped && f->kind != PITH_KIND_BLOCK && g->is_static)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "activations cannot be %s: scales of groups are "
                         "dynamic",
                         text);
    if (grouped && (g->group == 0 || cols % g->group != 0))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "activations of %u columns are not whole groups of %u", (unsigned)cols,
                         (unsigned)g->group);
    return PITH_OK;
}

static bool has_scale(const struct pith_grid *g)
{
    return g->is_static || (g->format->kind == PITH_KIND_BLOCK && g->format->scale &&
                            strcmp(g->format->scale, "e8m0") != 0);
}

bool pith_input_needs_scale(const struct pith_input *in)
{
    return in->grid.format && has_scale(&in->grid);
}

enum pith_status pith_input_check(const struct pith_input *in, uint32_t cols,
                                  struct pith_error *err)
{
    const struct pith_grid *g = &in->grid;
    if (cols > PITH_INPUT_COLS)
        return pith_fail(err, PITH_UNSUPPORTED, "activations of %u columns", (unsigned)cols);
    if (in->hadamard > 1 && ((in->hadamard & (in->hadamard - 1)) != 0 || cols % in->hadamard != 0))
        return pith_fail(err, PITH_ARG, "no Hadamard matrices of %u for %u columns",
                         (unsigned)in->hadamard, (unsigned)cols);
    if (!(in->threshold >= 0.0f) || isinf(in->threshold))
        return pith_fail(err, PITH_ARG, "a threshold of %g for outliers", (double)in->threshold);
    if (!g->format)
        return in->threshold > 0.0f
                   ? pith_fail(err, PITH_ARG, "a threshold for outliers needs int8:token")
                   : PITH_OK;
    PITH_TRY(check_grid(g, cols, err));
    if (has_scale(g) && !(in->scale > 0.0f && isfinite(in->scale)))
        return pith_fail(err, PITH_ARG, "the scale of the activations is %g", (double)in->scale);
    const float top = (float)((1u << g->format->bits) - 1);
    if (g->is_static && g->asym && !(in->zero >= 0.0f && in->zero <= top))
        return pith_fail(err, PITH_ARG, "the zero point of the activations is %g, not in 0..%g",
                         (double)in->zero, (double)top);
    if (in->threshold > 0.0f && (!is_int(in) || g->asym || g->granularity != PITH_PER_TOKEN))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "outlier columns go with symmetric integers by token only");
    return PITH_OK;
}

/* --- ranges ----------------------------------------------------------------------------------- */

struct range {
    float lo, hi;
};

/* min(0, x), max(0, x); NaN when a value is not finite. */
static struct range range_of(const float *x, size_t n)
{
    enum { LANES = 16 };
    float lo[LANES] = {0}, hi[LANES] = {0}, bad[LANES] = {0};
    struct range r = {0.0f, 0.0f};
    float wrong = 0.0f;
    for (size_t i = 0; i < n; i += LANES) {
        const size_t m = n - i < LANES ? n - i : LANES;
        if (m == LANES) {
            for (size_t l = 0; l < LANES; l++) {
                lo[l] = x[i + l] < lo[l] ? x[i + l] : lo[l];
                hi[l] = x[i + l] > hi[l] ? x[i + l] : hi[l];
                bad[l] += x[i + l] * 0.0f;
            }
            continue;
        }
        for (size_t l = 0; l < m; l++) {
            lo[l] = x[i + l] < lo[l] ? x[i + l] : lo[l];
            hi[l] = x[i + l] > hi[l] ? x[i + l] : hi[l];
            bad[l] += x[i + l] * 0.0f;
        }
    }
    for (size_t l = 0; l < LANES; l++) {
        if (lo[l] < r.lo) r.lo = lo[l];
        if (hi[l] > r.hi) r.hi = hi[l];
        wrong += bad[l];
    }
    return wrong == 0.0f ? r : (struct range){NAN, NAN};
}

/* The same of the values below a threshold. */
static struct range range_below(const float *x, size_t n, float threshold)
{
    struct range r = {0.0f, 0.0f};
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) >= threshold) continue;
        if (x[i] < r.lo) r.lo = x[i];
        if (x[i] > r.hi) r.hi = x[i];
    }
    return r;
}

static float amax_of(struct range r)
{
    return -r.lo > r.hi ? -r.lo : r.hi; /* NaN for NaN */
}

static bool by_call(const struct pith_input *in)
{
    return in->grid.format && in->grid.granularity == PITH_PER_TENSOR && !in->grid.is_static &&
           in->grid.format->kind != PITH_KIND_BLOCK;
}

bool pith_input_surveys(const struct pith_input *in)
{
    return by_call(in) || in->threshold > 0.0f;
}

void pith_input_survey(const struct pith_input *in, const float *x, size_t n, size_t cols,
                       struct pith_input_call *call, uint8_t *outlier)
{
    if (by_call(in)) {
        const struct range r = range_of(x, n * cols);
        if (!(r.lo >= call->lo)) call->lo = r.lo;
        if (!(r.hi <= call->hi)) call->hi = r.hi;
    }
    if (!(in->threshold > 0.0f)) return;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < cols; c++) outlier[c] |= fabsf(x[i * cols + c]) >= in->threshold;
    call->outlier = outlier;
}

/* A scale in the form that it is stored in: neither 0 nor infinity. */
static float stored_scale(const struct pith_input *in, float scale)
{
    const float most = in->scale_dtype == PITH_F16 ? 65504.0f : 0x1.fep127f;
    const float least = in->scale_dtype == PITH_F16 ? 0x1p-24f : 0x1p-126f;
    if (in->scale_dtype != PITH_F16 && in->scale_dtype != PITH_BF16) return scale;
    return pith_round_to(in->scale_dtype, scale > most ? most : scale < least ? least : scale);
}

/* --- integers --------------------------------------------------------------------------------- */

/* At 2^23 the last place of a float is 1: the sum rounds to nearest even. |t| is at most 2^22. */
static inline float to_integer(float t)
{
    return (t + 0x1.8p23f) - 0x1.8p23f;
}

/* q = clamp(x / scale + zero, least, most) rounded, or x * inverse where that is not 0. */
struct ints {
    float scale, inverse, zero, least, most;
};

static struct ints ints_symmetric(const struct pith_input *in, float amax)
{
    const float half = (float)pith_format_middle(in->grid.format);
    if (in->rule == PITH_INPUT_BNB) {
        /* All zeros: bitsandbytes divides by 0 there. Below 2^-120 the reciprocal overflows. */
        const bool tiny = amax < 0x1p-120f;
        const struct ints t = {tiny ? LEAST_SCALE : amax / (half - 1.0f),
                               tiny ? 0x1p23f : (half - 1.0f) / amax, 0.0f, 1.0f - half,
                               half - 1.0f};
        return t;
    }
    const float scale = amax / (half - 0.5f);
    return (struct ints){scale == 0.0f ? LEAST_SCALE : stored_scale(in, scale), 0.0f, 0.0f, -half,
                         half - 1.0f};
}

static struct ints ints_asymmetric(const struct pith_input *in, struct range r)
{
    const float half = (float)pith_format_middle(in->grid.format);
    struct ints t = {(r.hi - r.lo) / (2.0f * half - 1.0f), 0.0f, 0.0f, -half, half - 1.0f};
    if (t.scale == 0.0f) {
        t.scale = LEAST_SCALE;
        return t;
    }
    const float zero = -half - r.lo / t.scale;
    t.scale = stored_scale(in, t.scale);
    t.zero = to_integer(zero < -half ? -half : zero > half - 1.0f ? half - 1.0f : zero);
    return t;
}

static struct ints ints_static(const struct pith_input *in)
{
    const float half = (float)pith_format_middle(in->grid.format);
    const float least = in->rule == PITH_INPUT_MODELOPT ? 1.0f - half : -half;
    return (struct ints){in->scale, 0.0f, in->grid.asym ? in->zero - half : 0.0f, least,
                         half - 1.0f};
}

/* The grid of the n values at x. */
static struct ints ints_of(const struct pith_input *in, const struct pith_input_call *call,
                           const float *x, size_t n)
{
    if (in->grid.is_static) return ints_static(in);
    const struct range r = by_call(in)            ? (struct range){call->lo, call->hi}
                           : in->threshold > 0.0f ? range_below(x, n, in->threshold)
                                                  : range_of(x, n);
    return in->grid.asym ? ints_asymmetric(in, r) : ints_symmetric(in, amax_of(r));
}

static inline float int_code(const struct ints *t, float x)
{
    const float u = t->inverse != 0.0f ? x * t->inverse : x / t->scale + t->zero;
    const float clamped = u < t->least ? t->least : u > t->most ? t->most : u;
    return to_integer(clamped);
}

static void round_ints(const struct ints *t, const float *x, size_t n, float *y)
{
    enum { STEP = 16 };
    const struct ints s = *t; /* a copy that y cannot alias */
    size_t i = 0;
    if (s.inverse != 0.0f) {
        for (; i < n; i++) y[i] = int_code(&s, x[i]) * s.scale;
        return;
    }
    for (; i + STEP <= n; i += STEP)
        for (size_t l = 0; l < STEP; l++) {
            const float u = x[i + l] / s.scale + s.zero;
            const float clamped = u < s.least ? s.least : u > s.most ? s.most : u;
            y[i + l] = (to_integer(clamped) - s.zero) * s.scale;
        }
    for (; i < n; i++) y[i] = (int_code(&s, x[i]) - s.zero) * s.scale;
}

void pith_input_calibrate(struct pith_input *in, float lo, float hi)
{
    const struct pith_format *f = in->grid.format;
    const struct range r = {lo < 0.0f ? lo : 0.0f, hi > 0.0f ? hi : 0.0f};
    const float amax = amax_of(r);
    if (!pith_input_needs_scale(in)) return;
    in->zero = 0.0f;
    in->scale = 1.0f;
    if (is_int(in)) {
        const float half = (float)pith_format_middle(f);
        const bool narrow = in->rule != PITH_INPUT_CT;
        const struct ints t = in->grid.asym ? ints_asymmetric(in, r) : ints_symmetric(in, amax);
        if (amax > 0.0f) in->scale = narrow && !in->grid.asym ? amax / (half - 1.0f) : t.scale;
        if (in->grid.asym) in->zero = amax > 0.0f ? t.zero + half : half;
    } else if (f->kind == PITH_KIND_BLOCK) {
        in->scale = pith_nvfp4_twin(pith_nvfp4_global(amax));
    } else if (amax > 0.0f) {
        in->scale = amax / f->max;
    }
}

/* --- floats ----------------------------------------------------------------------------------- */

/* Rounding to a small float without its code: a magnitude in [2^e, 2^(e+1)) is a multiple of
 * 2^(e-m), and adding 1.5 * 2^(e-m+23) leaves just that. */
struct floats {
    float scale, max;
    uint32_t least; /* the exponent of the smallest normal number, in place */
    uint32_t shift; /* 23 - m, in place, with the half */
};

static struct floats floats_of(const struct pith_format *element, float scale)
{
    const uint32_t bias = (1u << (element->exponent_bits - 1)) - 1;
    return (struct floats){
        .scale = scale,
        .max = element->max,
        .least = (128u - bias) << 23,
        .shift = ((23u - element->mantissa_bits) << 23) | 0x400000u,
    };
}

static inline float float_value(const struct floats *f, float t)
{
    const float x = t < -f->max ? -f->max : t > f->max ? f->max : t;
    const uint32_t e = pith_float_to_bits(x) & 0x7f800000u;
    const float magic = pith_bits_to_float((e > f->least ? e : f->least) + f->shift);
    return (x + magic) - magic;
}

static void round_floats(const struct floats *f, const float *x, size_t n, float *y)
{
    enum { STEP = 16 };
    const struct floats s = *f;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (size_t l = 0; l < STEP; l++) y[i + l] = float_value(&s, x[i + l] / s.scale) * s.scale;
    for (; i < n; i++) y[i] = float_value(&s, x[i] / s.scale) * s.scale;
}

static float float_scale(const struct pith_input *in, const struct pith_input_call *call,
                         const float *x, size_t n)
{
    if (in->grid.is_static) return in->scale;
    const struct range r = by_call(in) ? (struct range){call->lo, call->hi} : range_of(x, n);
    const float scale = amax_of(r) / in->grid.format->max;
    return scale == 0.0f ? LEAST_SCALE : stored_scale(in, scale);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static float mx_scale(const struct pith_input *in, const struct pith_format *element, float amax)
{
    int top;
    if (!isfinite(amax)) return NAN;
    (void)frexpf(element->max, &top); /* max is in [2^(top-1), 2^top) */
    if (in->rule == PITH_INPUT_MODELOPT) {
        const uint32_t bits = pith_float_to_bits(amax / element->max);
        const uint32_t e = (bits >> 23) + ((bits & 0x7fffffu) != 0);
        return pith_e8m0_decode(e > 254 ? 254 : e);
    }
    const unsigned places = element->bits == 6 ? element->mantissa_bits : 1;
    const int e = (int)((pith_float_to_bits(amax) + (1u << (22 - places))) >> 23) - (top - 1);
    return pith_e8m0_decode((uint32_t)(e < 0 ? 0 : e));
}

/* inverse: compressed-tensors' form of the scale of the tensor. */
static float nvfp4_scale(const struct pith_input *in, float inverse, float amax)
{
    if (in->rule == PITH_INPUT_MODELOPT) {
        const float s = amax / (6.0f * in->scale);
        const float clamped = s == 0.0f ? 1.0f : s < 0x1p-9f ? 0x1p-9f : s;
        return pith_fp8_e4m3_decode(pith_fp8_e4m3_encode(clamped)) * in->scale;
    }
    const float s = pith_fp8_e4m3_decode(pith_fp8_e4m3_encode(inverse * (amax / 6.0f)));
    return (s == 0.0f ? 0.125f : s) / inverse;
}

static float block_scale(const struct pith_input *in, const struct pith_format *element, float amax)
{
    return has_scale(&in->grid) ? nvfp4_scale(in, pith_nvfp4_divisor(in->scale), amax)
                                : mx_scale(in, element, amax);
}

static void round_blocks(const struct pith_input *in, const float *x, size_t cols, float *y)
{
    const struct pith_format *element = pith_format_find(in->grid.format->element);
    const size_t block = in->grid.format->block;
    for (size_t c = 0; c < cols; c += block) {
        const size_t n = cols - c < block ? cols - c : block;
        const struct floats f =
            floats_of(element, block_scale(in, element, amax_of(range_of(x + c, n))));
        round_floats(&f, x + c, n, y + c);
    }
}

/* GGUF's types of one scale: whole blocks, as pith_input_check() has seen to. */
static void round_gguf(const struct pith_format *f, const float *x, size_t cols, float *y)
{
    const struct pith_kquant *t = pith_kquant_find(f->name);
    for (size_t c = 0; c + t->elements <= cols; c += t->elements) {
        struct pith_kblock b;
        t->row(x + c, &b);
        pith_kquant_values(t, &b, y + c);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static void copy_outliers(const uint8_t *outlier, const float *x, size_t cols, const struct ints *t,
                          float *y)
{
    for (size_t c = 0; c < cols; c++) y[c] = outlier[c] ? x[c] : int_code(t, x[c]) * t->scale;
}

void pith_input_row(const struct pith_input *in, const struct pith_input_call *call, const float *x,
                    size_t cols, float *y)
{
    const struct pith_format *f = in->grid.format;
    if (!f || f->kind == PITH_KIND_BLOCK || f->kind == PITH_KIND_GGUF) {
        if (!f && y != x) memcpy(y, x, cols * sizeof *y);
        if (f && f->kind == PITH_KIND_BLOCK) round_blocks(in, x, cols, y);
        if (f && f->kind == PITH_KIND_GGUF) round_gguf(f, x, cols, y);
        return;
    }
    const size_t width = in->grid.granularity == PITH_PER_GROUP ? in->grid.group : cols;
    for (size_t c = 0; c < cols; c += width) {
        const size_t n = cols - c < width ? cols - c : width;
        if (is_int(in)) {
            const struct ints t = ints_of(in, call, x + c, n);
            if (call->outlier) copy_outliers(call->outlier + c, x + c, n, &t, y + c);
            else round_ints(&t, x + c, n, y + c);
        } else {
            const struct floats t = floats_of(f, float_scale(in, call, x + c, n));
            round_floats(&t, x + c, n, y + c);
        }
    }
}

/* An integer's low byte, whatever a NaN gives. */
static inline int8_t low_byte(float integer)
{
    return (int8_t)(pith_float_to_bits(integer + 0x1.8p23f) & 0xff);
}

/* One block's codes; returns their sum. */
static int32_t encode_block(const struct ints *t, const uint8_t *outlier, const float *x, size_t n,
                            int8_t *q)
{
    const struct ints s = *t;
    int32_t sum = 0;
    if (!outlier && s.inverse == 0.0f) {
        for (size_t i = 0; i < n; i++) {
            const float u = x[i] / s.scale + s.zero;
            const float clamped = u < s.least ? s.least : u > s.most ? s.most : u;
            q[i] = low_byte(clamped); /* the sum within it rounds */
        }
    } else {
        for (size_t i = 0; i < n; i++)
            q[i] = outlier && outlier[i] ? 0 : low_byte(int_code(&s, x[i]));
    }
    for (size_t i = 0; i < n; i++) sum += q[i];
    return sum;
}

void pith_input_encode(const struct pith_input *in, const struct pith_input_call *call,
                       const float *x, size_t cols, const struct pith_input_codes *out)
{
    const size_t width = in->grid.granularity == PITH_PER_GROUP ? in->grid.group : cols;
    size_t b = 0;
    *out->zero = 0.0f;
    for (size_t c = 0; c < cols; c += width) {
        const size_t end = cols - c < width ? cols : c + width;
        const struct ints t = ints_of(in, call, x + c, end - c);
        *out->zero = t.zero;
        for (size_t i = c; i < end; i += out->block, b++) {
            const size_t n = end - i < out->block ? end - i : out->block;
            const uint8_t *outlier = call->outlier ? call->outlier + i : NULL;
            /* A static grid has not looked at the values. */
            const bool good = !in->grid.is_static || isfinite(range_of(x + i, n).lo);
            out->scale[b] = good ? t.scale : NAN;
            out->sum[b] = encode_block(&t, outlier, x + i, n, out->q + i);
        }
    }
}

void pith_input_group(const struct pith_input *in, const struct pith_input_call *call,
                      const float *x, size_t n, const struct pith_input_group *out)
{
    const struct pith_format *f = in->grid.format;
    if (is_int(in)) {
        const uint8_t half = (uint8_t)(1u << (f->bits - 1));
        const struct ints t = ints_of(in, call, x, n);
        (void)encode_block(&t, NULL, x, n, (int8_t *)out->codes);
        for (size_t i = 0; i < n; i++) out->codes[i] = (uint8_t)(out->codes[i] + half);
        for (size_t i = 0; i < n && f->bits < 8; i++) out->codes[i] &= (uint8_t)(2 * half - 1);
        *out->scale = t.scale;
        *out->zero = t.zero;
        return;
    }
    const bool block = f->kind == PITH_KIND_BLOCK;
    const struct pith_format *element = block ? pith_format_find(f->element) : f;
    *out->scale = block ? block_scale(in, element, amax_of(range_of(x, n)))
                        : float_scale(in, call, x, n);
    for (size_t i = 0; i < n; i++) {
        const float t = x[i] / *out->scale;
        const float cut = t < -element->max ? -element->max : t > element->max ? element->max : t;
        out->codes[i] = (uint8_t)element->encode(cut);
    }
}

void pith_input_rows(const struct pith_input *in, const float *x, size_t n, size_t cols,
                     uint8_t *outlier, float *y)
{
    struct pith_input_call call = {0};
    if (outlier) memset(outlier, 0, cols);
    if (pith_input_surveys(in)) pith_input_survey(in, x, n, cols, &call, outlier);
    for (size_t i = 0; i < n; i++) pith_input_row(in, &call, x + i * cols, cols, y + i * cols);
}
