/* int-quantized: integers in bytes, with inputs that are integers too. For a linear W[N, K]:
 *     weight             I8 [N, K]   codes minus 2^(bits - 1)
 *     weight_scale       model dtype
 *     weight_zero_point  I8, shape of the scale; minus 2^(bits - 1)
 *
 * Sources: compressed-tensors compressors/naive_quantized; vLLM compressed_tensors_w8a8_int8.py. */
#include "io/ct/form.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static bool holds(const struct pith_grid *weights)
{
    return weights->format->kind == PITH_KIND_INT;
}

/* With FP8 inputs, engines read the packed layout (vLLM compressed_tensors_w4a8_fp8.py). */
static bool writes(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    return holds(weights) && inputs->format && inputs->format->kind == PITH_KIND_INT;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void shape(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    pith_packed_add(out, ".weight", PITH_I8, 2, (const uint64_t[]){m->rows, m->cols});
    pith_ct_add_scale(m, out);
    const struct pith_packed scale = out->item[out->count - 1];
    if (m->asym) pith_packed_add(out, ".weight_zero_point", PITH_I8, scale.dims, scale.shape);
}

void pith_ct_store_zero_bytes(const struct pith_qmat *q, int8_t *out)
{
    const int middle = (int)pith_format_middle(q->format);
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) out[i] = (int8_t)((int)q->zeros[i] - middle);
}

static enum pith_status fill(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    PITH_TRY(pith_signed_codes_store(q, pith_ct_item(set, ".weight")->data, err));
    PITH_TRY(pith_ct_store_scale(q, m, set, err));
    if (m->asym) pith_ct_store_zero_bytes(q, pith_ct_item(set, ".weight_zero_point")->data);
    return PITH_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum pith_status pith_ct_read_zero_bytes(const struct pith_tensor *t, struct pith_qmat *q,
                                         struct pith_error *err)
{
    if (pith_signed_to_codes(q->format, t->data, (size_t)t->bytes, q->zeros)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\" has values that are no %s", t->name,
                     q->format->name);
}

enum pith_status pith_ct_load_bytes(const struct pith_ct_source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const struct pith_tensor *codes = NULL, *scale = NULL, *zeros = NULL;
    const struct pith_part weight = {".weight", 1u << PITH_I8, 2, {s->rows, s->cols}};
    PITH_TRY(pith_part_get(s->c, s->module, &weight, &codes, err));
    PITH_TRY(pith_ct_find_scale(s, PITH_PART_FLOATS, &scale, err));
    struct pith_part zero = {".weight_zero_point", 1u << PITH_I8, scale->dims, {0}};
    memcpy(zero.shape, scale->shape, sizeof zero.shape);
    if (s->scheme->weights.asym) PITH_TRY(pith_part_get(s->c, s->module, &zero, &zeros, err));
    else PITH_TRY(pith_part_absent(s->c, s->module, zero.suffix, "the config says symmetric", err));
    PITH_TRY(pith_ct_init(s, scale->dtype, q, err));
    PITH_TRY(pith_part_signed_codes(codes, q, err));
    pith_part_scales(scale, false, q);
    return zeros ? pith_ct_read_zero_bytes(zeros, q, err) : PITH_OK;
}

const struct pith_ct_form pith_ct_int_quantized = {
    .name = "int-quantized",
    .writes = writes,
    .holds = holds,
    .shape = shape,
    .fill = fill,
    .load = pith_ct_load_bytes,
};
