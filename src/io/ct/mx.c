/* The OCP microscaling formats: a power of two for 32 columns. For a linear W[N, K]:
 *     weight_packed  U8 [N, K * bits / 8]   FP4 and FP6: codes of a row, a dense stream
 *     weight         F8_E4M3 [N, K]         FP8
 *     weight_scale   U8 [N, K / 32]         E8M0: exponent plus 127
 *
 * Sources: compressed-tensors compressors/mxfp4, mxfp6, mxfp8 and mx_utils.py; vLLM
 * compressed_tensors_w4a4_mxfp4.py and compressed_tensors_w8a8_mxfp8.py. */
#include "io/ct/form.h"

#include "base/mem.h"

#include <string.h>

static bool is_mxfp4(const struct pith_grid *weights)
{
    return strcmp(weights->format->name, "mxfp4") == 0;
}

static bool is_mxfp6(const struct pith_grid *weights)
{
    return strcmp(weights->format->name, "mxfp6_e2m3") == 0;
}

static bool is_mxfp8(const struct pith_grid *weights)
{
    return strcmp(weights->format->name, "mxfp8") == 0;
}

static bool writes_mxfp4(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    (void)inputs;
    return is_mxfp4(weights);
}

static bool writes_mxfp6(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    (void)inputs;
    return is_mxfp6(weights);
}

static bool writes_mxfp8(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    (void)inputs;
    return is_mxfp8(weights);
}

static void shape(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    const unsigned bits = m->format->bits;
    const uint64_t codes[] = {m->rows, ((uint64_t)m->cols * bits + 7) / 8};
    if (bits == 8) pith_packed_add(out, ".weight", PITH_F8_E4M3, 2, codes);
    else pith_packed_add(out, ".weight_packed", PITH_U8, 2, codes);
    pith_packed_add(out, ".weight_scale", PITH_U8, 2, (const uint64_t[]){m->scale_rows, m->groups});
}

static enum pith_status fill(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    (void)m;
    memcpy(set->item[0].data, q->codes, (size_t)q->rows * q->stride);
    return pith_scale_codes_store(q, pith_ct_item(set, ".weight_scale")->data, err);
}

static enum pith_status load(const struct pith_ct_source *s, struct pith_qmat *q,
                             struct pith_error *err)
{
    const struct pith_tensor *codes = NULL, *scale = NULL;
    const unsigned bits = s->scheme->weights.format->bits;
    const uint64_t bytes = ((uint64_t)s->cols * bits + 7) / 8;
    const struct pith_part weight = {.suffix = bits == 8 ? ".weight" : ".weight_packed",
                                     .dtypes = 1u << (bits == 8 ? PITH_F8_E4M3 : PITH_U8),
                                     .dims = 2,
                                     .shape = {s->rows, bytes}};
    PITH_TRY(pith_part_get(s->c, s->module, &weight, &codes, err));
    if (bits != 8)
        PITH_TRY(pith_part_absent(s->c, s->module, ".weight", "the module is packed", err));
    PITH_TRY(pith_ct_find_scale(s, 1u << PITH_U8 | 1u << PITH_F8_E8M0, &scale, err));
    PITH_TRY(pith_ct_init(s, PITH_F8_E8M0, q, err));
    pith_part_rows(codes, (size_t)bytes, q);
    pith_part_scale_codes(scale, q);
    return PITH_OK;
}

const struct pith_ct_form pith_ct_mxfp4 = {
    .name = "mxfp4-pack-quantized",
    .writes = writes_mxfp4,
    .holds = is_mxfp4,
    .shape = shape,
    .fill = fill,
    .load = load,
};

const struct pith_ct_form pith_ct_mxfp6 = {
    .name = "mxfp6-pack-quantized",
    .writes = writes_mxfp6,
    .holds = is_mxfp6,
    .shape = shape,
    .fill = fill,
    .load = load,
};

const struct pith_ct_form pith_ct_mxfp8 = {
    .name = "mxfp8-quantized",
    .writes = writes_mxfp8,
    .holds = is_mxfp8,
    .shape = shape,
    .fill = fill,
    .load = load,
};
