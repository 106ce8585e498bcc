/* The modelopt container: NVIDIA's unified checkpoint. One table of algorithms says what is stored;
 * see io/container/modelopt.h. */
#include "io/container/modelopt.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status check_shape(const struct pith_modelopt_algo *a,
                                    const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                    struct pith_error *err)
{
    if (a->codes == PITH_MODELOPT_PAIRS && rows % 2)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "modelopt cannot hold int4 of %" PRIu32 " rows: they are stored in pairs",
                         rows);
    const bool block = grid->granularity == PITH_PER_BLOCK;
    if (!block && grid->granularity != PITH_PER_GROUP) return PITH_OK;
    if (cols % grid->group == 0 && (!block || rows % grid->group == 0)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "modelopt cannot hold %" PRIu32 " x %" PRIu32 " in %s of %" PRIu32
                     ", which must divide them",
                     rows, cols, block ? "blocks" : "groups", grid->group);
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    char weights[PITH_GRID_TEXT], inputs[PITH_GRID_TEXT];
    const struct pith_modelopt_algo *a = grid->format ? pith_modelopt_for(grid, &opts->acts) : NULL;
    if (a && opts->threshold == 0.0f) return check_shape(a, grid, rows, cols, err);
    pith_grid_format(grid, weights);
    pith_grid_format(&opts->acts, inputs);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "modelopt cannot hold weights on %s with inputs on %s; it holds fp8_e4m3 "
                     "(tensor, channel, block128), nvfp4, mxfp8, mxfp4, int4 by group and "
                     "int8:channel, each with its kind of inputs",
                     weights, inputs);
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    enum pith_dtype dtype = PITH_F32;
    (void)model_dtype;
    (void)pith_grid_elements(grid, &dtype); /* block formats have their own */
    return dtype;
}

static void add_scale(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                      struct pith_packed_set *out)
{
    const enum pith_dtype dtype = scale_dtype(grid, PITH_F32);
    const uint64_t r = rows, c = cols, g = grid->group;
    switch (grid->granularity) {
    case PITH_PER_TENSOR: pith_packed_add(out, ".weight_scale", dtype, 0, NULL); break;
    case PITH_PER_CHANNEL: pith_packed_add(out, ".weight_scale", dtype, 1, &r); break;
    case PITH_PER_BLOCK:
        pith_packed_add(out, ".weight_scale", dtype, 4, (const uint64_t[]){r / g, 1, c / g, 1});
        break;
    case PITH_PER_GROUP:
    case PITH_PER_TOKEN:
    case PITH_PER_HEAD:
        pith_packed_add(out, ".weight_scale", dtype == PITH_F8_E8M0 ? PITH_U8 : dtype, 2,
                        (const uint64_t[]){r, c / g});
        break;
    }
}

static void shape(const struct pith_modelopt_algo *a, const struct pith_grid *grid, uint32_t rows,
                  uint32_t cols, struct pith_packed_set *out)
{
    const uint64_t bytes = (uint64_t)cols * grid->format->bits / 8;
    *out = (struct pith_packed_set){0};
    if (a->codes == PITH_MODELOPT_SIGNED)
        pith_packed_add(out, ".weight", PITH_I8, 2, (const uint64_t[]){rows, cols});
    else if (a->codes == PITH_MODELOPT_PAIRS)
        pith_packed_add(out, ".weight", PITH_U8, 2, (const uint64_t[]){rows / 2, cols});
    else
        pith_packed_add(out, ".weight", grid->format->bits == 8 ? PITH_F8_E4M3 : PITH_U8, 2,
                        (const uint64_t[]){rows, bytes});
    add_scale(grid, rows, cols, out);
    if (a->second) pith_packed_add(out, ".weight_scale_2", PITH_F32, 0, NULL);
    if (pith_modelopt_inputs(a).is_static) pith_packed_add(out, ".input_scale", PITH_F32, 0, NULL);
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    shape(pith_modelopt_for(grid, &opts->acts), grid, rows, cols, out);
    return PITH_OK;
}

/* Codes of rows 2i and 2i + 1 in the halves of a byte, as two's complement. */
static enum pith_status store_pairs(const struct pith_qmat *q, uint8_t *out, struct pith_error *err)
{
    uint8_t *codes = pith_alloc(q->cols, 2);
    if (!codes) return pith_fail_nomem(err, "codes");
    for (uint32_t r = 0; r < q->rows; r += 2, out += q->cols) {
        pith_qmat_get_codes(q, r, codes);
        pith_qmat_get_codes(q, r + 1, codes + q->cols);
        for (uint32_t c = 0; c < q->cols; c++)
            out[c] = (uint8_t)((codes[c] ^ 8) | (codes[q->cols + c] ^ 8) << 4);
    }
    pith_free(codes);
    return PITH_OK;
}

/* What W4A8 kernels take the weights' part in FP8 by. */
static enum pith_status largest(const struct pith_qmat *q, float *out, struct pith_error *err)
{
    float *row = pith_alloc(q->cols, sizeof *row), most = 0.0f;
    if (!row) return pith_fail_nomem(err, "a row");
    for (uint32_t r = 0; r < q->rows; r++) {
        pith_qmat_decode(q, r, 1, row);
        for (uint32_t c = 0; c < q->cols; c++) most = fmaxf(most, fabsf(row[c]));
    }
    pith_free(row);
    *out = most > 0.0f ? most / 448.0f : 1.0f;
    return PITH_OK;
}

static enum pith_status fill(const struct pith_modelopt_algo *a, const struct pith_qmat *q,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    const bool codes = pith_dtype_bits(q->scale_dtype) == 8;
    void *scales = set->item[1].data;
    unsigned next = 2;
    if (a->codes == PITH_MODELOPT_ROWS)
        memcpy(set->item[0].data, q->codes, (size_t)q->rows * q->stride);
    else if (a->codes == PITH_MODELOPT_PAIRS) PITH_TRY(store_pairs(q, set->item[0].data, err));
    else PITH_TRY(pith_signed_codes_store(q, set->item[0].data, err));
    if (codes) PITH_TRY(pith_scale_codes_store(q, scales, err));
    else PITH_TRY(pith_scales_store(q, PITH_F32, false, pith_qmat_scale_rows(q), scales, err));
    if (a->second) {
        float *second = set->item[next++].data;
        if (a->codes == PITH_MODELOPT_PAIRS) PITH_TRY(largest(q, second, err));
        else *second = q->global;
    }
    if (next == set->count) return PITH_OK;
    if (!(isfinite(q->input.scale) && q->input.scale > 0.0f))
        return pith_fail(err, PITH_ARG, "modelopt: the inputs of a linear have no scale");
    memcpy(set->item[next].data, &q->input.scale, sizeof q->input.scale);
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    struct pith_grid grid = pith_qmat_grid(q);
    if (grid.granularity == PITH_PER_CHANNEL && q->format->bits == 4) {
        grid.granularity = PITH_PER_GROUP; /* one group a row */
        grid.group = q->group;
    }
    PITH_TRY(plan(&grid, q->rows, q->cols, opts, out, err));
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status s = fill(pith_modelopt_for(&grid, &opts->acts), q, out, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    struct pith_modelopt_config *config = pith_zalloc(1, sizeof *config);
    if (!config) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = pith_modelopt_config_read(c, config, err);
    if (s == PITH_OK) *state = config;
    else pith_free(config);
    return s;
}

static void close_config(void *state)
{
    pith_free(state);
}

/* Integers by group: the width shows in the tensors, and not always in the config. */
static void see_group(const struct pith_checkpoint *c, const char *module, uint32_t *group)
{
    const struct pith_tensor *codes = pith_part_find(c, module, ".weight"),
                             *scale = pith_part_find(c, module, ".weight_scale");
    if (!codes || !scale || codes->dims != 2 || scale->dims != 2 || scale->shape[1] == 0) return;
    const uint64_t width = codes->shape[1] / scale->shape[1];
    if (width > 0 && width <= UINT32_MAX) *group = (uint32_t)width;
}

/* What a module has by the config, if it looks so. The head has no separate weights in many
 * models, and is then nobody's business; embeddings are no linears, so that a config need not
 * exclude them. */
static enum pith_status find_algo(const struct pith_modelopt_config *config,
                                  const struct pith_checkpoint *c, const char *module,
                                  const struct pith_modelopt_algo **algo, uint32_t *group,
                                  struct pith_error *err)
{
    const bool any = pith_part_find(c, module, ".weight_scale") != NULL;
    const enum pith_status s = pith_modelopt_config_module(config, module, algo, group, err);
    if (s != PITH_OK) return pith_fail_in(err, s, c->dir);
    if (*algo && !any &&
        (pith_module_is_head(module) || pith_module_is_embedding(module) ||
         pith_part_plain(c, module, NULL, ".weight_scale")))
        *algo = NULL;
    if (!*algo && any) *algo = config->algo; /* its tensors count more than a list */
    if (!*algo && any)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" is quantized, but the config leaves it alone", c->dir,
                         module);
    if (*algo && (*algo)->codes == PITH_MODELOPT_PAIRS) see_group(c, module, group);
    return PITH_OK;
}

struct source {
    const struct pith_checkpoint *c;
    const char *module;
    const struct pith_modelopt_algo *algo;
    struct pith_grid grid;
    uint32_t rows, cols;
};

/* Weights whose inputs are multiplied column by column first are not what pith holds. */
static enum pith_status refuse_others(const struct source *s, struct pith_error *err)
{
    static const char *const others[] = {".pre_quant_scale", ".svdquant_lora_a"};
    for (size_t i = 0; i < PITH_COUNT(others); i++)
        if (pith_part_find(s->c, s->module, others[i]))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: tensor \"%.100s%s\" is not read by this version", s->c->dir,
                             s->module, others[i]);
    return PITH_OK;
}

static enum pith_status find_codes(const struct source *s, const struct pith_tensor **out,
                                   struct pith_error *err)
{
    const unsigned bits = s->grid.format->bits;
    struct pith_part want = {".weight", 1u << PITH_I8, 2, {s->rows, s->cols}};
    if (s->algo->codes == PITH_MODELOPT_PAIRS) {
        want.dtypes = 1u << PITH_U8;
        want.shape[0] = s->rows / 2;
    } else if (s->algo->codes == PITH_MODELOPT_ROWS) {
        want.dtypes = 1u << (bits == 8 ? PITH_F8_E4M3 : PITH_U8);
        want.shape[1] = (uint64_t)s->cols * bits / 8;
    }
    return pith_part_get(s->c, s->module, &want, out, err);
}

/* weight_scale of a plain format, in whichever of its shapes: those of one. */
static enum pith_status read_floats(const struct source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const struct pith_tensor *t = pith_part_find(s->c, s->module, ".weight_scale");
    const uint64_t want[2] = {pith_qmat_scale_rows(q), q->groups};
    uint64_t got[2] = {1, 1};
    unsigned n = 0;
    bool ok = t && (PITH_PART_FLOATS >> t->dtype & 1) && t->dims <= 4;
    for (unsigned i = 0; ok && i < t->dims; i++)
        if (t->shape[i] != 1) {
            /* Without the sides of 1, one side may be all rows or all groups. */
            const unsigned at = n == 0 && t->shape[i] != want[0] ? 1 : n;
            ok = at < 2;
            if (ok) got[at] = t->shape[i];
            n = at + 1;
        }
    if (!ok || got[0] != want[0] || got[1] != want[1])
        return pith_fail(err, PITH_FORMAT,
                         "%s: tensor \"%.100s.weight_scale\" is not %" PRIu64 " x %" PRIu64
                         " of floats",
                         s->c->dir, s->module, want[0], want[1]);
    pith_part_scales(t, false, q);
    return PITH_OK;
}

static enum pith_status read_scales(const struct source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    if (pith_dtype_bits(q->scale_dtype) != 8) return read_floats(s, q, err);
    const bool e8m0 = q->scale_dtype == PITH_F8_E8M0;
    const struct pith_part want = {".weight_scale",
                                   e8m0 ? 1u << PITH_U8 | 1u << PITH_F8_E8M0 : 1u << PITH_F8_E4M3,
                                   2,
                                   {s->rows, q->groups}};
    const struct pith_tensor *t = NULL;
    PITH_TRY(pith_part_get(s->c, s->module, &want, &t, err));
    pith_part_scale_codes(t, q);
    return PITH_OK;
}

static enum pith_status need_factor(const struct source *s, const char *suffix, float *out,
                                    struct pith_error *err)
{
    bool found;
    PITH_TRY(pith_part_factor(s->c, s->module, suffix, out, &found, err));
    if (found) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s%s\" is missing", s->c->dir, s->module,
                     suffix);
}

static enum pith_status read_second(const struct source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    float second = 1.0f;
    PITH_TRY(need_factor(s, ".weight_scale_2", &second, err));
    if (s->algo->codes == PITH_MODELOPT_PAIRS) return PITH_OK; /* is for kernels, not values */
    q->global = second;
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) q->scales[i] *= second;
    return PITH_OK;
}

static enum pith_status read_pairs(const struct pith_tensor *t, struct pith_qmat *q,
                                   struct pith_error *err)
{
    uint8_t *codes = pith_alloc(q->cols, 2);
    if (!codes) return pith_fail_nomem(err, t->name);
    const uint8_t *in = t->data;
    for (uint32_t r = 0; r < q->rows; r += 2, in += q->cols) {
        for (uint32_t c = 0; c < q->cols; c++) {
            codes[c] = (uint8_t)((in[c] & 15) ^ 8);
            codes[q->cols + c] = (uint8_t)(in[c] >> 4 ^ 8);
        }
        pith_qmat_set_codes(q, r, codes);
        pith_qmat_set_codes(q, r + 1, codes + q->cols);
    }
    pith_free(codes);
    return PITH_OK;
}

/* Inputs by tensor may have a scale where the algorithm does not need one. */
static enum pith_status read_input(const struct source *s, struct pith_qmat *q,
                                   struct pith_error *err)
{
    q->input.grid = pith_modelopt_inputs(s->algo);
    if (q->input.grid.format) q->input.rule = PITH_INPUT_MODELOPT;
    if (q->input.grid.format && q->input.grid.granularity == PITH_PER_TENSOR)
        q->input.grid.is_static |= pith_part_find(s->c, s->module, ".input_scale") != NULL;
    return q->input.grid.is_static ? need_factor(s, ".input_scale", &q->input.scale, err) : PITH_OK;
}

static enum pith_status read_module(const struct source *s, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const struct pith_tensor *codes = NULL;
    PITH_TRY(refuse_others(s, err));
    enum pith_status status = check_shape(s->algo, &s->grid, s->rows, s->cols, err);
    if (status != PITH_OK) return pith_fail_in(err, PITH_FORMAT, s->module);
    PITH_TRY(find_codes(s, &codes, err));
    PITH_TRY(pith_qmat_init(q, s->rows, s->cols, &s->grid, PITH_F32, err));
    if (s->algo->codes == PITH_MODELOPT_ROWS) pith_part_rows(codes, q->stride, q);
    else if (s->algo->codes == PITH_MODELOPT_PAIRS) PITH_TRY(read_pairs(codes, q, err));
    else PITH_TRY(pith_part_signed_codes(codes, q, err));
    PITH_TRY(read_scales(s, q, err));
    if (s->algo->second) PITH_TRY(read_second(s, q, err));
    return read_input(s, q, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    struct source s = {.c = c, .module = module, .rows = rows, .cols = cols};
    uint32_t group;
    *found = false;
    PITH_TRY(find_algo(state, c, module, &s.algo, &group, err));
    if (!s.algo) return PITH_OK;
    s.grid = pith_modelopt_weights(s.algo, group);
    *q = (struct pith_qmat){0};
    const enum pith_status status = read_module(&s, q, err);
    if (status != PITH_OK) {
        pith_qmat_free(q);
        return status;
    }
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_modelopt_config *config = state;
    const struct pith_modelopt_algo *algo;
    uint32_t group;
    *grid = (struct pith_grid){0};
    if (config->kv.format) opts->kv = config->kv;
    PITH_TRY(find_algo(config, c, module, &algo, &group, err));
    if (!algo) return PITH_OK;
    *grid = pith_modelopt_weights(algo, group);
    if (!algo->inputs) return PITH_OK;
    opts->acts = pith_modelopt_inputs(algo);
    if (opts->acts.granularity == PITH_PER_TENSOR)
        opts->acts.is_static |= pith_part_find(c, module, ".input_scale") != NULL;
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    const struct pith_modelopt_algo *algo;
    uint32_t group;
    PITH_TRY(pith_modelopt_config_module(state, module, &algo, &group, err));
    *quantized = algo != NULL;
    return PITH_OK;
}

const struct pith_container pith_container_modelopt = {
    .name = "modelopt",
    .summary = "NVIDIA ModelOpt: FP8, NVFP4, MXFP8, int4 and int8, with hf_quant_config.json",
    .method = "modelopt",
    .kv_scale = {"self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale"},
    .input_rule = PITH_INPUT_MODELOPT,
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = pith_modelopt_config_make,
    .extra_file = pith_modelopt_extra_file,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = close_config,
};
