#include "model/kinds.h"

#include "model/load.h"

#include <stdio.h>

/* A stored tensor that cannot be used where it lies is copied as it is. */
static uint64_t copied_bytes(const struct pith_model *m, const char *module)
{
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const struct pith_tensor *t = pith_checkpoint_find(m->checkpoint, name);
    return t && !pith_tensor_plain(t) ? t->bytes : 0;
}

/* Reads one matrix. */
static bool look(const struct pith_model *m, const struct pith_kind_of *w, struct pith_kind *out)
{
    struct pith_qmat q;
    bool found = false;
    if (m->container->load(m->container_state, m->checkpoint, w->module, w->rows, w->cols, &q,
                           &found, NULL) != PITH_OK ||
        !found)
        return false;
    out->spec = pith_qmat_spec(&q);
    out->spec.grid.asym |= out->grid.asym; /* another's zero points are not all the middle, */
    out->spec.grid.hqq |= out->grid.hqq;   /* or whole */
    out->input = q.input.grid;
    out->loaded = pith_qspec_bytes(&out->spec) - (q.borrowed ? (uint64_t)q.rows * q.stride : 0);
    pith_qmat_free(&q);
    return true;
}

enum pith_status pith_kind_find(struct pith_kinds *k, const struct pith_model *m,
                                const struct pith_kind_of *which, struct pith_kind *out,
                                struct pith_error *err)
{
    struct pith_container_opts opts = {.model_dtype = m->shape.dtype};
    struct pith_kind made = {.spec = {.rows = which->rows, .cols = which->cols}};
    if (m->container)
        PITH_TRY(m->container->describe(m->container_state, m->checkpoint, which->module,
                                        &made.grid, &opts, err));
    if (!made.grid.format) {
        *out = made;
        out->loaded = copied_bytes(m, which->module);
        return PITH_OK;
    }
    for (unsigned i = 0; i < k->count; i++) {
        *out = k->list[i];
        if (out->spec.rows == which->rows && out->spec.cols == which->cols &&
            pith_grid_equal(&out->grid, &made.grid))
            return PITH_OK;
    }
    made.spec.grid = made.grid;
    made.loaded = pith_qspec_bytes(&made.spec);
    if (k->count < PITH_KINDS && look(m, which, &made)) k->list[k->count++] = made;
    *out = made;
    return PITH_OK;
}
