/* The fp8 container: what DeepSeek-V3 and Qwen3-FP8 are published in, and transformers'
 * fine-grained FP8. For a linear W[N, K]: weight            F8_E4M3 [N, K] weight_scale_inv  F32
 * [ceil(N / B), ceil(K / B)]  by block; a factor, whatever its name says weight_scale      F32 [1]
 * by tensor, [N] or [N, 1] by row; input_scale, activation_scale  F32 [1]  static inputs, by
 * tensor. A shape [] is one of [1]. Inputs are always FP8 too: with blocks, by B columns of a
 * token; with a scale of the tensor, by token or static. What a linear has is seen from its tensors
 * alone: lists of the config are not used, and weights in 16 bits are plain.
 *
 * Sources: transformers integrations/finegrained_fp8.py and utils/quantization_config.py,
 * FineGrainedFP8Config; vLLM layers/quantization/fp8.py. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/container/module_match.h"
#include "io/json_members.h"
#include "io/parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct pith_grid fp8_grid(enum pith_granularity granularity, uint32_t group, bool is_static)
{
    return (struct pith_grid){.format = pith_format_find("fp8_e4m3"),
                              .granularity = granularity,
                              .group = group,
                              .is_static = is_static};
}

/* The inputs that go with weights by block or tensor. */
static struct pith_grid inputs_of(const struct pith_grid *weights, bool is_static)
{
    if (weights->granularity == PITH_PER_BLOCK)
        return fp8_grid(PITH_PER_GROUP, weights->group, false);
    return fp8_grid(is_static ? PITH_PER_TENSOR : PITH_PER_TOKEN, 0, is_static);
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)rows;
    (void)cols;
    const bool block = grid->granularity == PITH_PER_BLOCK;
    const bool fp8 = grid->format && strcmp(grid->format->name, "fp8_e4m3") == 0;
    const struct pith_grid inputs = inputs_of(grid, opts->acts.is_static);
    if (fp8 && (block || grid->granularity == PITH_PER_TENSOR) && opts->threshold == 0.0f &&
        pith_grid_equal(&inputs, &opts->acts))
        return PITH_OK;
    char weights[PITH_GRID_TEXT], acts[PITH_GRID_TEXT];
    pith_grid_format(grid, weights);
    pith_grid_format(&opts->acts, acts);
    return pith_fail(
        err, PITH_UNSUPPORTED,
        "fp8 cannot hold weights on %s with inputs on %s; it holds fp8_e4m3:block128 with "
        "fp8_e4m3:g128, and fp8_e4m3:tensor with fp8_e4m3:token or fp8_e4m3:tensor:static",
        weights, acts);
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F32;
}

static uint64_t parts(uint32_t n, uint32_t size)
{
    return ((uint64_t)n + size - 1) / size;
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    const uint64_t one[] = {1};
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    *out = (struct pith_packed_set){0};
    pith_packed_add(out, ".weight", PITH_F8_E4M3, 2, (const uint64_t[]){rows, cols});
    if (grid->granularity == PITH_PER_BLOCK)
        pith_packed_add(out, ".weight_scale_inv", PITH_F32, 2,
                        (const uint64_t[]){parts(rows, grid->group), parts(cols, grid->group)});
    else pith_packed_add(out, ".weight_scale", PITH_F32, 1, one);
    if (opts->acts.is_static) pith_packed_add(out, ".input_scale", PITH_F32, 1, one);
    return PITH_OK;
}

static enum pith_status fill(const struct pith_qmat *q, const struct pith_packed_set *set,
                             struct pith_error *err)
{
    memcpy(set->item[0].data, q->codes, (size_t)q->rows * q->cols);
    PITH_TRY(
        pith_scales_store(q, PITH_F32, false, pith_qmat_scale_rows(q), set->item[1].data, err));
    if (set->count < 3) return PITH_OK;
    if (!(isfinite(q->input.scale) && q->input.scale > 0.0f))
        return pith_fail(err, PITH_ARG, "fp8: the inputs of a linear have no scale");
    memcpy(set->item[2].data, &q->input.scale, sizeof q->input.scale);
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = pith_qmat_grid(q);
    PITH_TRY(plan(&grid, q->rows, q->cols, opts, out, err));
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status s = fill(q, out, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

static enum pith_status make_config(const struct pith_linear_grid *linears, size_t count,
                                    const struct pith_container_opts *opts, json_t **out,
                                    struct pith_error *err)
{
    const struct pith_linear_grid *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!linears[i].grid.format) continue;
        if (!first) first = &linears[i];
        if (!pith_grid_equal(&first->grid, &linears[i].grid))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "fp8 has one grid, but %s has another than %s; use compressed-tensors",
                             linears[i].module, first->module);
    }
    if (!first) return pith_fail(err, PITH_ARG, "fp8: no linear is quantized");
    if (opts->kv.format)
        return pith_fail(err, PITH_UNSUPPORTED, "fp8 says nothing of keys and values");
    const int block = (int)first->grid.group;
    json_t *o = json_pack("{s:s, s:s, s:s, s:o}", "quant_method", "fp8", "activation_scheme",
                          opts->acts.is_static ? "static" : "dynamic", "fmt", "e4m3",
                          "modules_to_not_convert", pith_ignored_modules(linears, count));
    json_t *size = block ? json_pack("[i, i]", block, block) : json_null();
    const bool ok = o && json_object_set(o, "weight_block_size", size) == 0;
    json_decref(size);
    if (ok) {
        *out = o;
        return PITH_OK;
    }
    json_decref(o);
    return pith_fail_nomem(err, "the config of fp8");
}

/* --- reading ---------------------------------------------------------------------------------- */

struct config {
    uint32_t block; /* 0: the config has none */
    bool is_static;
    const json_t *ignored[2]; /* what its lists leave alone */
};

static enum pith_status read_block(const json_t *o, const char *where, struct config *c,
                                   struct pith_error *err)
{
    const json_t *v = json_object_get(o, "weight_block_size");
    if (!v || json_is_null(v)) return PITH_OK;
    const json_int_t rows = json_integer_value(json_array_get(v, 0)),
                     cols = json_integer_value(json_array_get(v, 1));
    if (json_array_size(v) != 2 || rows < 1 || rows > 1 << 20 || cols < 1)
        return pith_fail(err, PITH_FORMAT, "%s: weight_block_size is no pair of sizes", where);
    if (rows != cols)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: blocks that are not square", where);
    c->block = (uint32_t)rows;
    return PITH_OK;
}

static enum pith_status read_config(const struct pith_checkpoint *ck, struct config *c,
                                    struct pith_error *err)
{
    const json_t *o = ck->quantization;
    const char *scheme = "dynamic";
    PITH_TRY(pith_json_get_str(o, "activation_scheme", &scheme, ck->dir, err));
    c->is_static = strcmp(scheme, "static") == 0;
    if (!c->is_static && strcmp(scheme, "dynamic") != 0)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: activation_scheme \"%.40s\"", ck->dir, scheme);
    PITH_TRY(read_block(o, ck->dir, c, err));
    c->ignored[0] = json_object_get(o, "modules_to_not_convert");
    c->ignored[1] = json_object_get(o, "ignored_layers");
    if (!c->is_static || c->block == 0) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: blocks go with activation_scheme \"dynamic\"", ck->dir);
}

static enum pith_status open_config(const struct pith_checkpoint *ck, void **state,
                                    struct pith_error *err)
{
    struct config *c = pith_zalloc(1, sizeof *c);
    if (!c) return pith_fail_nomem(err, ck->dir);
    const enum pith_status s = read_config(ck, c, err);
    if (s == PITH_OK) *state = c;
    else pith_free(c);
    return s;
}

static void close_config(void *state)
{
    pith_free(state);
}

/* --- a module: its tensors suffice ------------------------------------------------------------ */

/* Factors of the weights, and those of the inputs, as DeepSeek and transformers call them. */
static const char *const scale_names[] = {".weight_scale_inv", ".weight_scale"};
static const char *const input_names[] = {".input_scale", ".activation_scale"};

/* The first of two names that the module has, else the first. */
static const char *name_of(const struct pith_checkpoint *ck, const char *module,
                           const char *const names[2])
{
    const bool second = !pith_part_find(ck, module, names[0]) &&
                        pith_part_find(ck, module, names[1]);
    return names[second];
}

/* Whatever lists of the config say, a linear is quantized whose weights are bytes of FP8. */
static bool is_quantized(const struct pith_checkpoint *ck, const char *module)
{
    const struct pith_tensor *t = pith_part_find(ck, module, ".weight");
    return t && t->dtype == PITH_F8_E4M3;
}

/* One scale, one a row, or one a block, by their number. */
static struct pith_grid weights_of(const struct config *config, const struct pith_checkpoint *ck,
                                   const char *module, uint64_t rows, uint64_t cols)
{
    const struct pith_tensor *t =
        pith_part_find(ck, module, name_of(ck, module, scale_names));
    const uint32_t block = config->block ? config->block : 128;
    const uint64_t n = t ? pith_tensor_elements(t) : 1,
                   blocks = (rows / block + (rows % block != 0)) *
                            (cols / block + (cols % block != 0));
    /* Without a word of the config, blocks are a matrix of scales. */
    const bool matrix = t && t->dims == 2 && t->shape[1] > 1;
    if (n == blocks && (config->block || matrix))
        return fp8_grid(PITH_PER_BLOCK, block, false);
    if (n == rows && n > 1) return fp8_grid(PITH_PER_CHANNEL, 0, false);
    if (n == 1) return fp8_grid(PITH_PER_TENSOR, 0, false);
    return config->block ? fp8_grid(PITH_PER_BLOCK, block, false)
                         : fp8_grid(PITH_PER_TENSOR, 0, false);
}

/* With scale_fmt "ue8m0" scales are powers of two, as float32 or as bytes of E8M0. */
#define BYTES (1u << PITH_U8 | 1u << PITH_F8_E8M0)
static void read_scales(const struct pith_tensor *t, struct pith_qmat *q)
{
    const struct pith_format *e8m0 = pith_format_find("e8m0");
    const size_t count = pith_qmat_scale_count(q);
    if (PITH_PART_FLOATS >> t->dtype & 1) pith_part_scales(t, false, q);
    else
        for (size_t i = 0; i < count; i++) q->scales[i] = e8m0->decode(t->data[i]);
}

static enum pith_status read_inputs(const struct config *config, const struct pith_checkpoint *ck,
                                    const char *module, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const struct pith_grid weights = pith_qmat_grid(q);
    bool found = true;
    q->input.grid = inputs_of(&weights, config->is_static);
    if (q->input.grid.is_static)
        PITH_TRY(pith_part_factor(ck, module, name_of(ck, module, input_names), &q->input.scale,
                                  &found, err));
    if (found) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: \"%.100s\" lacks a scale", ck->dir, module);
}

static enum pith_status read_module(const struct config *config, const struct pith_checkpoint *ck,
                                    const char *module, uint32_t rows, uint32_t cols,
                                    struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_grid grid = weights_of(config, ck, module, rows, cols);
    const struct pith_part weight = {".weight", 1u << PITH_F8_E4M3, 2, {rows, cols}};
    const char *name = name_of(ck, module, scale_names);
    const struct pith_tensor *codes = NULL, *scale = NULL;
    bool found = true;
    PITH_TRY(pith_part_get(ck, module, &weight, &codes, err));
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F32, err));
    pith_part_rows(codes, cols, q);
    if (grid.granularity == PITH_PER_TENSOR) {
        PITH_TRY(pith_part_factor(ck, module, name, q->scales, &found, err));
        if (!found)
            return pith_fail(err, PITH_FORMAT, "%s: \"%.100s\" lacks a scale", ck->dir, module);
    } else {
        const struct pith_part want = {
            name, PITH_PART_FLOATS | BYTES, 2, {pith_qmat_scale_rows(q), q->groups}};
        PITH_TRY(pith_part_get(ck, module, &want, &scale, err));
        read_scales(scale, q);
    }
    return read_inputs(config, ck, module, q, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *ck, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    *found = false;
    if (!is_quantized(ck, module)) return PITH_OK;
    *q = (struct pith_qmat){0};
    const enum pith_status s = read_module(state, ck, module, rows, cols, q, err);
    if (s != PITH_OK) {
        pith_qmat_free(q);
        return s;
    }
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *ck, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct config *config = state;
    const struct pith_tensor *t = pith_part_find(ck, module, ".weight");
    (void)err;
    *grid = (struct pith_grid){0};
    if (!is_quantized(ck, module) || t->dims != 2) return PITH_OK;
    *grid = weights_of(config, ck, module, t->shape[0], t->shape[1]);
    opts->acts = inputs_of(grid, config->is_static);
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    const struct config *c = state;
    (void)err;
    *quantized = !pith_module_listed(c->ignored[0], module) &&
                 !pith_module_listed(c->ignored[1], module);
    return PITH_OK;
}

const struct pith_container pith_container_fp8 = {
    .name = "fp8",
    .summary = "DeepSeek's and transformers' FP8: blocks of 128 by 128, or one scale a tensor",
    .method = "fp8",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = make_config,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = close_config,
};
