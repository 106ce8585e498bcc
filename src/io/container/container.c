/* The table of containers. */
#include "io/container/container.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <string.h>

#define PITH_CONTAINER(row) extern const struct pith_container row;
#include "io/container/containers.def"
#undef PITH_CONTAINER

static const struct pith_container *const rows[] = {
#define PITH_CONTAINER(row) &row,
#include "io/container/containers.def"
#undef PITH_CONTAINER
};

const struct pith_container *const *pith_containers(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}

const struct pith_container *pith_container_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (pith_name_equal(rows[i]->name, name)) return rows[i];
    return NULL;
}

enum pith_status pith_container_pack(const struct pith_container *container,
                                     const struct pith_qmat *q,
                                     const struct pith_container_opts *opts,
                                     struct pith_packed_set *out, struct pith_error *err)
{
    const char *beyond = pith_qmat_beyond(q, container->holds);
    if (!beyond) return container->pack(q, opts, out, err);
    return pith_fail(err, PITH_UNSUPPORTED, "%s cannot hold a matrix with %s", container->name,
                     beyond);
}

const struct pith_container *pith_container_of_path(const char *path)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        const char *ending = rows[i]->file ? strrchr(rows[i]->file, '.') : NULL;
        if (ending && pith_ends_in(path, ending) && !pith_path_is_dir(path)) return rows[i];
    }
    return NULL;
}

enum pith_status pith_container_detect(const struct pith_checkpoint *c,
                                       const struct pith_container **out, struct pith_error *err)
{
    *out = NULL;
    if (!c->quantization) return PITH_OK;
    const char *method = NULL;
    PITH_TRY(pith_json_get_str(c->quantization, "quant_method", &method, c->dir, err));
    if (!method)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: config.json has a quantization_config without quant_method", c->dir);
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (strcmp(rows[i]->method, method) == 0) {
            *out = rows[i];
            return PITH_OK;
        }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: quantized with quant_method \"%.60s\", which this version cannot read",
                     c->dir, method);
}

void pith_container_settle(const struct pith_container *container,
                           const struct pith_linear_grid *linears, size_t count,
                           struct pith_container_opts *opts)
{
    if (!container->settle) return;
    for (size_t i = 0; i < count; i++)
        if (linears[i].grid.format) container->settle(&linears[i].grid, opts);
}

void pith_container_state_scales(const struct pith_container *container,
                                 const struct pith_grid *grid, float *scales, size_t count)
{
    for (size_t i = 0; container->stated_scale && i < count; i++)
        scales[i] = container->stated_scale(grid, scales[i]);
}

void pith_container_state(const struct pith_container *container, const struct pith_grid *grid,
                          struct pith_qmat *q, size_t first, size_t count)
{
    pith_container_state_scales(container, grid, q->scales + first, count);
    if (!container->stated_offset || !q->offsets || q->gguf) return;
    for (size_t i = first; i < first + count; i++)
        q->offsets[i] = container->stated_offset(q->scale_dtype, q->scales[i], q->offsets[i]);
}

void pith_packed_free(struct pith_packed_set *set)
{
    for (unsigned i = 0; i < set->count; i++) pith_free(set->item[i].data);
    *set = (struct pith_packed_set){0};
}

enum pith_status pith_container_open_stateless(const struct pith_checkpoint *c, void **state,
                                               struct pith_error *err)
{
    (void)c;
    (void)err;
    *state = NULL;
    return PITH_OK;
}

void pith_container_close_stateless(void *state)
{
    (void)state;
}
