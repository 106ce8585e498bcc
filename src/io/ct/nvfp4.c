/* nvfp4-pack-quantized: FP4 in groups of 16 with E4M3 scales and a scale of the tensor. For a
 * linear W[N, K]: weight_packed        U8 [N, K / 2]        codes of a row, a dense stream: the
 * first is low weight_scale         F8_E4M3 [N, K / 16] weight_global_scale  F32 [1]              a
 * divisor: W = code * (scale / global)
 *
 * The divisor's inverse is what pith calls the global scale. Linears that engines hold as one must
 * have the same.
 *
 * Sources: compressed-tensors compressors/nvfp4; vLLM compressed_tensors_w4a4_nvfp4.py. */
#include "io/ct/form.h"

#include "base/mem.h"
#include "num/block.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool holds(const struct pith_grid *weights)
{
    return strcmp(weights->format->name, "nvfp4") == 0;
}

static bool writes(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    (void)inputs;
    return holds(weights);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void shape(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    const uint64_t codes[] = {m->rows, m->cols / 2}, scales[] = {m->rows, m->groups};
    pith_packed_add(out, ".weight_packed", PITH_U8, 2, codes);
    pith_packed_add(out, ".weight_scale", PITH_F8_E4M3, 2, scales);
    pith_packed_add(out, ".weight_global_scale", PITH_F32, 1, (const uint64_t[]){1});
}

/* True when every scale, divided so, is q's to the bit. */
static bool divides(const struct pith_qmat *q, const uint8_t *codes, float divisor)
{
    const struct pith_format *f = pith_format_find("fp8_e4m3");
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++)
        if (f->decode(codes[i]) / divisor != q->scales[i]) return false;
    return true;
}

/* The divisor that gives q's scales again: that of its factor, or a neighbour of the inverse (of
 * scales that were read from a file, which may have no twin). When none does, reading back shows
 * it. */
static float divisor_of(const struct pith_qmat *q, const uint8_t *codes)
{
    const float inverse = 1.0f / q->global, twin = pith_nvfp4_divisor(q->global);
    const float tries[] = {twin, inverse, nextafterf(inverse, INFINITY), nextafterf(inverse, 0.0f)};
    for (size_t i = 0; i < PITH_COUNT(tries); i++)
        if (divides(q, codes, tries[i])) return tries[i];
    return twin;
}

static enum pith_status fill(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    (void)m;
    uint8_t *scales = pith_ct_item(set, ".weight_scale")->data;
    float *divisor = pith_ct_item(set, ".weight_global_scale")->data;
    memcpy(pith_ct_item(set, ".weight_packed")->data, q->codes, (size_t)q->rows * q->stride);
    PITH_TRY(pith_scale_codes_store(q, scales, err));
    *divisor = divisor_of(q, scales);
    if (isnormal(*divisor)) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC, "the inverse of the scale %g of a matrix cannot be stored",
                     (double)q->global);
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status load(const struct pith_ct_source *s, struct pith_qmat *q,
                             struct pith_error *err)
{
    const struct pith_tensor *codes = NULL, *scale = NULL;
    const struct pith_part weight = {".weight_packed", 1u << PITH_U8, 2, {s->rows, s->cols / 2}};
    float divisor = 1.0f;
    bool found;
    PITH_TRY(pith_part_get(s->c, s->module, &weight, &codes, err));
    PITH_TRY(pith_part_absent(s->c, s->module, ".weight", "the module is packed", err));
    PITH_TRY(pith_ct_find_scale(s, 1u << PITH_F8_E4M3, &scale, err));
    PITH_TRY(pith_part_factor(s->c, s->module, ".weight_global_scale", &divisor, &found, err));
    if (!found || !isnormal(1.0f / divisor))
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s.weight_global_scale\" is %s",
                         s->c->dir, s->module, found ? "no divisor" : "missing");
    PITH_TRY(pith_ct_init(s, PITH_F8_E4M3, q, err));
    pith_part_rows(codes, s->cols / 2, q);
    pith_part_scale_codes(scale, q);
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) q->scales[i] /= divisor;
    q->global = 1.0f / divisor;
    return PITH_OK;
}

const struct pith_ct_form pith_ct_nvfp4 = {
    .name = "nvfp4-pack-quantized",
    .writes = writes,
    .holds = holds,
    .shape = shape,
    .fill = fill,
    .load = load,
};
