/* The compressed-tensors container: a table of layouts (io/ct/form.c), one a distinct kind of grid,
 * chosen by the grids of a linear's weights and inputs; the config says which module has which. See
 * io/ct/form.h.
 *
 * Sources: compressed-tensors compressors/format.py; vLLM
 * layers/quantization/compressed_tensors/compressed_tensors.py. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/ct/form.h"

#include <inttypes.h>
#include <string.h>

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status refuse(const struct pith_grid *grid, const char *why,
                               struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    pith_grid_format(grid, text);
    return pith_fail(err, PITH_UNSUPPORTED, "compressed-tensors cannot hold %s%s", text, why);
}

static enum pith_status check_opts(const struct pith_container_opts *opts, struct pith_error *err)
{
    PITH_TRY(pith_ct_args_check_inputs(&opts->acts, err));
    if (opts->threshold > 0.0f)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "compressed-tensors has no columns in 16 bits; use bitsandbytes");
    return PITH_OK;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)rows;
    if (!grid->format) return refuse(grid, " weights", err);
    PITH_TRY(check_opts(opts, err));
    if (!pith_ct_form_for(grid, &opts->acts))
        return refuse(grid, "; it holds int2 to int8, fp8_e4m3, mxfp4, mxfp6_e2m3, mxfp8 and nvfp4",
                      err);
    if (grid->double_quant) return refuse(grid, ": it has no quantized scales", err);
    if (grid->hqq)
        return refuse(grid,
                      ": its zero points are whole numbers; use the container hqq, or mse instead "
                      "of hqq",
                      err);
    if (grid->granularity == PITH_PER_TOKEN || grid->granularity == PITH_PER_HEAD ||
        (grid->granularity == PITH_PER_BLOCK && grid->format->kind == PITH_KIND_INT))
        return refuse(grid, ": scales are by tensor, channel or group, of fp8_e4m3 also by block",
                      err);
    if (grid->granularity == PITH_PER_GROUP && cols % grid->group)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "compressed-tensors cannot hold groups of %" PRIu32 " in %" PRIu32
                         " columns: the group must divide them",
                         grid->group, cols);
    return PITH_OK;
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    enum pith_dtype dtype = model_dtype;
    (void)pith_grid_elements(grid, &dtype); /* block formats have their own */
    return dtype;
}

static uint32_t parts(uint32_t n, uint32_t size)
{
    return n / size + (n % size != 0);
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const bool block = grid->granularity == PITH_PER_BLOCK;
    const bool grouped = block || grid->granularity == PITH_PER_GROUP;
    struct pith_ct_matrix m = {
        .rows = rows,
        .cols = cols,
        .groups = grouped ? parts(cols, grid->group) : 1,
        .scale_rows = block ? parts(rows, grid->group) : rows,
        .format = pith_grid_elements(grid, NULL).format,
        .tensor = grid->granularity == PITH_PER_TENSOR,
        .asym = grid->asym,
        .scale = scale_dtype(grid, opts->model_dtype),
    };
    m.g_idx = opts->act_order_groups && m.groups > 1 && m.format->kind == PITH_KIND_INT;
    *out = (struct pith_packed_set){0};
    pith_ct_form_for(grid, &opts->acts)->shape(&m, out);
    pith_ct_inputs_shape(&opts->acts, out);
    pith_ct_rotation_shape(opts->hadamard, opts->model_dtype, out);
    return PITH_OK;
}

/* Permuted groups must be what the config says. */
static enum pith_status check_order(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                                    const struct pith_ct_form *form, struct pith_error *err)
{
    if (!(pith_qmat_parts(q) & PITH_QMAT_ORDER)) return PITH_OK;
    if (m->g_idx && form == pith_ct_form_find("pack-quantized")) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "compressed-tensors: a matrix has permuted groups, but the config does not "
                     "say so");
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = pith_qmat_grid(q);
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    const struct pith_ct_form *form = pith_ct_form_for(&grid, &opts->acts);
    const struct pith_ct_matrix m = {
        .rows = q->rows,
        .cols = q->cols,
        .groups = q->groups,
        .scale_rows = pith_qmat_scale_rows(q),
        .format = q->format,
        .tensor = pith_qmat_per_tensor(q),
        .asym = q->zeros != NULL,
        .g_idx = opts->act_order_groups && q->groups > 1 && q->format->kind == PITH_KIND_INT,
        .scale = scale_dtype(&grid, opts->model_dtype),
    };
    PITH_TRY(check_order(q, &m, form, err));
    *out = (struct pith_packed_set){0};
    form->shape(&m, out);
    pith_ct_inputs_shape(&opts->acts, out);
    pith_ct_rotation_shape(q->input.hadamard, opts->model_dtype, out);
    PITH_TRY(pith_packed_alloc(out, err));
    enum pith_status s = form->fill(q, &m, out, err);
    if (s == PITH_OK) s = pith_ct_inputs_fill(q, &opts->acts, out, err);
    if (s == PITH_OK) s = pith_ct_rotation_fill(q->input.hadamard, out, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    struct pith_ct_config *config = pith_zalloc(1, sizeof *config);
    if (!config) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = pith_ct_config_read(c, config, err);
    if (s != PITH_OK) {
        pith_free(config);
        return s;
    }
    *state = config;
    return PITH_OK;
}

static void close_config(void *state)
{
    struct pith_ct_config *config = state;
    if (!config) return;
    pith_ct_config_free(config);
    pith_free(config);
}

/* The tensors of a module show whether it is quantized; the config and the number of its scales
 * show how. The config's list of unquantized modules is not used then. The head is a special case:
 * engines do not take it for a "Linear", so that a config may name it and mean nothing by it. */
static enum pith_status find_scheme(const struct pith_ct_config *config,
                                    const struct pith_checkpoint *c, const char *module,
                                    struct pith_ct_scheme *scheme, bool *found,
                                    struct pith_error *err)
{
    const struct pith_ct_scheme *of = NULL;
    const struct pith_tensor *weight = pith_part_find(c, module, ".weight"),
                             *packed = pith_part_find(c, module, ".weight_packed");
    bool by_class;
    const bool any = packed || pith_part_find(c, module, ".weight_scale");
    PITH_TRY(pith_ct_config_scheme(config, module, any, &of, &by_class, err));
    if (of && !any && by_class && pith_module_is_head(module)) of = NULL;
    if (of && pith_part_plain(c, module, ".weight_packed", ".weight_scale")) of = NULL;
    if (!of && any)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" is quantized, but no config group names it", c->dir,
                         module);
    *found = of != NULL;
    if (!of) return PITH_OK;
    *scheme = *of;
    if (weight || packed)
        pith_part_see_scales(c, module, ".weight_scale", (weight ? weight : packed)->shape[0],
                             &scheme->weights);
    return PITH_OK;
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    const struct pith_ct_config *config = state;
    struct pith_ct_scheme scheme;
    bool quantized;
    *found = false;
    uint32_t block;
    PITH_TRY(find_scheme(config, c, module, &scheme, &quantized, err));
    PITH_TRY(pith_ct_rotations_find(&config->rotations, c, module, cols, &block, err));
    if (!quantized && block > 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: the input of \"%.100s\" is rotated, which this version does for "
                         "quantized linears alone",
                         c->dir, module);
    if (!quantized) return PITH_OK;
    const struct pith_ct_source source = {c, module, config, &scheme, rows, cols};
    *q = (struct pith_qmat){0};
    enum pith_status s = scheme.form->load(&source, q, err);
    if (s == PITH_OK) s = pith_ct_inputs_load(&source, q, err);
    if (s != PITH_OK) {
        pith_qmat_free(q);
        return s;
    }
    q->input.hadamard = block > 1 ? block : 0;
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_ct_config *config = state;
    struct pith_ct_scheme scheme;
    bool quantized;
    *grid = (struct pith_grid){0};
    PITH_TRY(find_scheme(config, c, module, &scheme, &quantized, err));
    if (config->kv.format) opts->kv = config->kv;
    if (!quantized) return PITH_OK;
    *grid = scheme.weights;
    opts->act_order_groups |= scheme.g_idx;
    PITH_TRY(pith_ct_rotations_claim(&config->rotations, module, &opts->hadamard, err));
    if (scheme.inputs.format) opts->acts = scheme.inputs;
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    const struct pith_ct_scheme *scheme;
    bool by_class;
    PITH_TRY(pith_ct_config_scheme(state, module, false, &scheme, &by_class, err));
    *quantized = scheme != NULL;
    return PITH_OK;
}

const struct pith_container pith_container_compressed_tensors = {
    .name = "compressed-tensors",
    .holds = PITH_QMAT_ORDER,
    .summary = "vLLM's own: int2 to int8, FP8, MXFP4, MXFP6, MXFP8, NVFP4; inputs too",
    .method = "compressed-tensors",
    .kv_scale = {"self_attn.k_scale", "self_attn.v_scale"},
    .online = true,
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = pith_ct_config_make,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = close_config,
};
