#include "io/ct/form.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

extern const struct pith_ct_form pith_ct_mxfp4, pith_ct_mxfp6, pith_ct_mxfp8, pith_ct_nvfp4,
    pith_ct_int_quantized, pith_ct_pack_quantized, pith_ct_float_quantized, pith_ct_naive_quantized;

/* The first that writes a grid is taken. */
static const struct pith_ct_form *const rows[] = {
    &pith_ct_mxfp4,           &pith_ct_mxfp6,           &pith_ct_mxfp8,
    &pith_ct_nvfp4,           &pith_ct_int_quantized,   &pith_ct_pack_quantized,
    &pith_ct_float_quantized, &pith_ct_naive_quantized,
};

const struct pith_ct_form *pith_ct_form_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strcmp(rows[i]->name, name) == 0) return rows[i];
    return NULL;
}

const struct pith_ct_form *pith_ct_form_for(const struct pith_grid *weights,
                                            const struct pith_grid *inputs)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (rows[i]->writes(weights, inputs)) return rows[i];
    return NULL;
}

void pith_ct_add_scale(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    const uint64_t one[] = {1}, all[] = {m->scale_rows, m->groups};
    pith_packed_add(out, ".weight_scale", m->scale, m->tensor ? 1 : 2, m->tensor ? one : all);
}

enum pith_status pith_ct_store_scale(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                                     const struct pith_packed_set *set, struct pith_error *err)
{
    void *out = pith_ct_item(set, ".weight_scale")->data;
    return pith_scales_store(q, m->scale, false, m->scale_rows, out, err);
}

const struct pith_packed *pith_ct_item(const struct pith_packed_set *set, const char *suffix)
{
    for (unsigned i = 0; i < set->count; i++)
        if (strcmp(set->item[i].suffix, suffix) == 0) return &set->item[i];
    return NULL;
}

/* ceil(n / size) */
static uint64_t parts(uint32_t n, uint32_t size)
{
    return ((uint64_t)n + size - 1) / size;
}

enum pith_status pith_ct_find_scale(const struct pith_ct_source *s, uint32_t dtypes,
                                    const struct pith_tensor **out, struct pith_error *err)
{
    const struct pith_grid *g = &s->scheme->weights;
    struct pith_part want = {".weight_scale", dtypes, 2, {s->rows, 1}};
    if (g->granularity == PITH_PER_TENSOR) {
        want.dims = 1;
        want.shape[0] = 1;
    } else if (g->granularity == PITH_PER_BLOCK) {
        want.shape[0] = parts(s->rows, g->group);
        want.shape[1] = parts(s->cols, g->group);
    } else if (g->granularity == PITH_PER_GROUP) {
        if (s->cols % g->group)
            return pith_fail(err, PITH_FORMAT,
                             "%s: \"%.100s\" has %" PRIu32 " columns, which groups of %" PRIu32
                             " do not divide",
                             s->c->dir, s->module, s->cols, g->group);
        want.shape[1] = s->cols / g->group;
    }
    return pith_part_get(s->c, s->module, &want, out, err);
}

enum pith_status pith_ct_init(const struct pith_ct_source *s, enum pith_dtype scale_dtype,
                              struct pith_qmat *q, struct pith_error *err)
{
    return pith_qmat_init(q, s->rows, s->cols, &s->scheme->weights, scale_dtype, err);
}
