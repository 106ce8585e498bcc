/* Any bytes as config.json: pith_shape_read() refuses or gives a shape whose numbers keep every
 * promise that model/ builds on, and the rotary frequencies it leads to are finite. */
#include "base/json.h"
#include "model/arch.h"
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth) abort();
}

static void check_rope(const struct pith_shape *s)
{
    double factor, *inv = malloc(s->head_dim / 2 * sizeof *inv);
    float cos_sin[2];
    if (!inv) return;
    pith_rope_frequencies(&s->place.rope, s->head_dim, inv, &factor);
    must(isfinite(factor) && factor > 0);
    for (uint32_t i = 0; i < s->head_dim / 2; i++) must(isfinite(inv[i]) && inv[i] >= 0);
    pith_rope_table(inv, 1, factor, s->max_position, 1, &cos_sin[0], &cos_sin[1]);
    must(isfinite(cos_sin[0]) && isfinite(cos_sin[1]));
    free(inv);
}

/* Every layer has a plan; of models with many layers a few, which takes a moment less. */
static void check_plans(const struct pith_arch *arch, const struct pith_shape *s)
{
    enum { FEW = 40 };
    struct pith_shape few = *s;
    struct pith_plans p;
    struct pith_error err = {0};
    if (few.layers > FEW) few.layers = FEW;
    const enum pith_status made = pith_plans_make(arch, &few, &p, &err);
    must(made == PITH_OK || made == PITH_UNSUPPORTED);
    for (uint32_t i = 0; i < p.layers; i++) {
        const struct pith_layer_plan *l = pith_plan(&p, i);
        must(l->linears && l->sites && l->nodes && l->width[PITH_REG_STREAM] == s->hidden);
        must(p.first[i + 1] == p.first[i] + l->linears);
        for (uint32_t k = 0; k < l->linears; k++) must(l->linear[k].rows && l->linear[k].cols);
        for (uint32_t k = 0; k < l->vectors; k++) must(l->vector[k].length);
    }
    pith_plans_free(&p);
}

static void check_shape(const struct pith_arch *arch, const struct pith_shape *s)
{
    must(s->hidden && s->ffn && s->layers && s->vocab && s->heads && s->kv_heads && s->head_dim);
    must(s->heads % s->kv_heads == 0 && s->head_dim % 2 == 0);
    must(s->hidden <= PITH_MAX_WIDTH && s->ffn <= PITH_MAX_WIDTH);
    must(s->vocab <= PITH_MAX_VOCAB && s->layers <= PITH_MAX_LAYERS);
    must((uint64_t)s->heads * s->head_dim <= PITH_MAX_WIDTH);
    must(s->eps >= 0 && s->eps < 1);
    must(s->dtype == PITH_F32 || s->dtype == PITH_F16 || s->dtype == PITH_BF16);
    must(arch->names.layers && arch->names.embed && arch->names.norm && arch->names.head);
    check_plans(arch, s);
    check_rope(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_error err = {0};
    json_t *config = NULL;
    if (pith_json_parse((const char *)data, size, "config.json", &config, &err) != PITH_OK)
        return 0;
    const struct pith_arch *arch = NULL;
    struct pith_shape shape;
    const enum pith_status s = pith_shape_read(config, "config.json", &arch, &shape, &err);
    if (s == PITH_OK) check_shape(arch, &shape);
    else must((s == PITH_FORMAT || s == PITH_UNSUPPORTED) && err.text[0] != '\0');
    (void)pith_shape_has_dtype(config);
    json_decref(config);
    return 0;
}
