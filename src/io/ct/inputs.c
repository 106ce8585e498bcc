/* What compressed-tensors stores with a linear's weights for its inputs:
 *     input_scale         F32 [1]  static scales: x = (code - zero) * scale
 *     input_zero_point    I8 [1]   minus 2^(bits - 1); asymmetric ones
 *     input_global_scale  F32 [1]  NVFP4: a divisor, as weight_global_scale
 * Scales that are found for each token leave nothing.
 *
 * Sources: compressed-tensors quantization/lifecycle/initialize.py; vLLM
 * compressed_tensors_w8a8_int8.py, compressed_tensors_w4a4_nvfp4.py. */
#include "io/ct/form.h"

#include "base/mem.h"
#include "num/block.h"

#include <math.h>
#include <string.h>

static bool is_block(const struct pith_grid *inputs)
{
    return inputs->format->kind == PITH_KIND_BLOCK;
}

void pith_ct_inputs_shape(const struct pith_grid *inputs, struct pith_packed_set *out)
{
    const uint64_t one[] = {1};
    if (!inputs->format || !inputs->is_static) return;
    if (is_block(inputs)) {
        pith_packed_add(out, ".input_global_scale", PITH_F32, 1, one);
        return;
    }
    pith_packed_add(out, ".input_scale", PITH_F32, 1, one);
    if (inputs->asym) pith_packed_add(out, ".input_zero_point", PITH_I8, 1, one);
}

/* The divisor whose inverse is that factor. Of a factor that was read from a file there may be two;
 * the other one means the same to the last bit but one. */
static float divisor_of(float factor)
{
    const float inverse = 1.0f / factor, twin = pith_nvfp4_divisor(factor);
    const float tries[] = {twin, inverse, nextafterf(inverse, INFINITY), nextafterf(inverse, 0.0f)};
    for (size_t i = 0; i < PITH_COUNT(tries); i++)
        if (1.0f / tries[i] == factor) return tries[i];
    return twin;
}

enum pith_status pith_ct_inputs_fill(const struct pith_qmat *q, const struct pith_grid *inputs,
                                     const struct pith_packed_set *set, struct pith_error *err)
{
    if (!inputs->format || !inputs->is_static) return PITH_OK;
    const float scale = q->input.scale, inverse = divisor_of(scale);
    if (!(isfinite(scale) && scale > 0.0f && isnormal(inverse)))
        return pith_fail(err, PITH_ARG,
                         "compressed-tensors: the inputs of a linear have no scale, but their grid "
                         "is static");
    if (is_block(inputs)) {
        memcpy(pith_ct_item(set, ".input_global_scale")->data, &inverse, sizeof inverse);
        return PITH_OK;
    }
    memcpy(pith_ct_item(set, ".input_scale")->data, &scale, sizeof scale);
    if (!inputs->asym) return PITH_OK;
    const int middle = (int)pith_format_middle(inputs->format), zero = (int)q->input.zero - middle;
    if (!(q->input.zero >= 0.0f && zero < middle) || (float)(zero + middle) != q->input.zero)
        return pith_fail(err, PITH_ARG, "compressed-tensors: the zero point %g of inputs",
                         (double)q->input.zero);
    *(int8_t *)pith_ct_item(set, ".input_zero_point")->data = (int8_t)zero;
    return PITH_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status find_scale(const struct pith_ct_source *s, const char *suffix, float *out,
                                   struct pith_error *err)
{
    bool found;
    PITH_TRY(pith_part_factor(s->c, s->module, suffix, out, &found, err));
    if (found && isnormal(1.0f / *out)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s%s\" is %s", s->c->dir, s->module,
                     suffix, found ? "no scale" : "missing");
}

static enum pith_status find_zero(const struct pith_ct_source *s, struct pith_qmat *q,
                                  struct pith_error *err)
{
    const struct pith_part want = {".input_zero_point", 1u << PITH_I8, 1, {1}};
    const struct pith_tensor *t = NULL;
    PITH_TRY(pith_part_get(s->c, s->module, &want, &t, err));
    const struct pith_format *f = s->scheme->inputs.format;
    const int zero = *(const int8_t *)t->data + (int)pith_format_middle(f);
    if (zero < 0 || zero >> f->bits)
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s\" is out of range", s->c->dir,
                         t->name);
    q->input.zero = (float)zero;
    return PITH_OK;
}

enum pith_status pith_ct_inputs_load(const struct pith_ct_source *s, struct pith_qmat *q,
                                     struct pith_error *err)
{
    const struct pith_grid *inputs = &s->scheme->inputs;
    q->input.grid = *inputs;
    if (!inputs->format || !inputs->is_static) return PITH_OK;
    if (is_block(inputs)) {
        float divisor = 1.0f;
        PITH_TRY(find_scale(s, ".input_global_scale", &divisor, err));
        q->input.scale = 1.0f / divisor;
        return PITH_OK;
    }
    PITH_TRY(find_scale(s, ".input_scale", &q->input.scale, err));
    return inputs->asym ? find_zero(s, q, err) : PITH_OK;
}
