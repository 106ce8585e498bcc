/* float-quantized: FP8 with inputs that are quantized; naive-quantized: FP8 alone, and in older
 * checkpoints whatever was given. For a linear W[N, K]:
 *     weight        F8_E4M3 [N, K]
 *     weight_scale  model dtype; by tensor, channel, group or block
 *
 * Sources: compressed-tensors compressors/naive_quantized; vLLM compressed_tensors_w8a8_fp8.py and
 * compressed_tensors_w8a16_fp8.py. */
#include "io/ct/form.h"

#include "base/mem.h"

#include <string.h>

static bool is_fp8(const struct pith_grid *weights)
{
    return strcmp(weights->format->name, "fp8_e4m3") == 0;
}

static bool writes_float(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    return is_fp8(weights) && inputs->format;
}

static bool writes_naive(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    return is_fp8(weights) && !inputs->format;
}

static bool holds_naive(const struct pith_grid *weights)
{
    return is_fp8(weights) || weights->format->kind == PITH_KIND_INT;
}

static void shape(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    pith_packed_add(out, ".weight", PITH_F8_E4M3, 2, (const uint64_t[]){m->rows, m->cols});
    pith_ct_add_scale(m, out);
}

static enum pith_status fill(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    memcpy(pith_ct_item(set, ".weight")->data, q->codes, (size_t)q->rows * q->cols);
    return pith_ct_store_scale(q, m, set, err);
}

/* float-quantized: FP8 codes and scales. */
static enum pith_status ct_load_fp8(const struct pith_ct_source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const struct pith_tensor *codes = NULL, *scale = NULL;
    const struct pith_part weight = {".weight", 1u << PITH_F8_E4M3, 2, {s->rows, s->cols}};
    PITH_TRY(pith_part_get(s->c, s->module, &weight, &codes, err));
    PITH_TRY(pith_ct_find_scale(s, PITH_PART_FLOATS, &scale, err));
    PITH_TRY(pith_ct_init(s, scale->dtype, q, err));
    pith_part_rows(codes, s->cols, q);
    pith_part_scales(scale, false, q);
    return PITH_OK;
}

static enum pith_status load_naive(const struct pith_ct_source *s, struct pith_qmat *q,
                                   struct pith_error *err)
{
    return is_fp8(&s->scheme->weights) ? ct_load_fp8(s, q, err) : pith_ct_load_bytes(s, q, err);
}

const struct pith_ct_form pith_ct_float_quantized = {
    .name = "float-quantized",
    .writes = writes_float,
    .holds = is_fp8,
    .shape = shape,
    .fill = fill,
    .load = ct_load_fp8,
};

const struct pith_ct_form pith_ct_naive_quantized = {
    .name = "naive-quantized",
    .writes = writes_naive,
    .holds = holds_naive,
    .shape = shape,
    .fill = fill,
    .load = load_naive,
};
