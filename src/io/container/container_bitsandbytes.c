/* The bitsandbytes container, as its serialized state dicts are. For a linear W[N, K]:
 *   LLM.int8()
 *     weight         I8 [N, K]       codes minus 128
 *     SCB            F32 [N]         127 times the scale of a row
 *     weight_format  U8 []           0: row by row
 *   nf4 and fp4, blocks of W read row by row
 *     weight         U8 [N K / 2, 1] two codes a byte, the first in the upper half
 *     weight.absmax  F32 [blocks]    scales; U8 when they are quantized again, and then
 *     weight.nested_absmax     F32 [ceil(blocks / 256)]
 *     weight.nested_quant_map  F32 [256]
 *     weight.quant_map         F32 [16]
 *     weight.quant_state.bitsandbytes__nf4 (__fp4)  U8, JSON: type, block, shape
 * The JSON ends in blanks here, so that its length is known before its numbers are.
 *
 * Sources: bitsandbytes functional.py (QuantState.as_dict, from_dict), nn/modules.py
 * (Linear8bitLt); transformers quantizers/quantizer_bnb_4bit.py, quantizer_bnb_8bit.py. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/container/bnb_config.h"
#include "io/container/module_match.h"
#include "io/parts.h"
#include "num/codebook.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STATE_BYTES = 256, STATE_MOST = 4096, MAP = 256 };

static bool is_int8(const struct pith_format *f)
{
    return f->kind == PITH_KIND_INT && f->bits == 8;
}

static const char *state_suffix(const struct pith_format *f)
{
    return strcmp(f->name, "nf4") == 0 ? ".weight.quant_state.bitsandbytes__nf4"
                                       : ".weight.quant_state.bitsandbytes__fp4";
}

/* --- what it holds ---------------------------------------------------------------------------- */

static enum pith_status accepts_int8(const struct pith_grid *grid,
                                     const struct pith_container_opts *opts, struct pith_error *err)
{
    const struct pith_grid *acts = &opts->acts;
    if (grid->asym || grid->granularity != PITH_PER_CHANNEL)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes holds 8-bit integers as int8:channel only");
    if (!acts->format || !is_int8(acts->format) || acts->granularity != PITH_PER_TOKEN ||
        acts->asym)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes multiplies int8 weights with int8:token activations; add "
                         "`acts=int8:token`, or take the recipe llm.int8");
    return PITH_OK;
}

static enum pith_status accepts_four(const struct pith_grid *grid, uint32_t cols,
                                     const struct pith_container_opts *opts, struct pith_error *err)
{
    const uint32_t g = grid->granularity == PITH_PER_GROUP ? grid->group : 0;
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes leaves the activations of 4-bit weights alone");
    if (g < 32 || g > 4096 || (g & (g - 1)))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes holds blocks of 32, 64, ... 4096, as in nf4:g64");
    if (cols % g)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes would let blocks of %" PRIu32 " run across rows of %" PRIu32
                         ": the block must divide them",
                         g, cols);
    return PITH_OK;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)rows;
    if (opts->hadamard || opts->kv.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "bitsandbytes has no place for rotations or a KV-cache format");
    if (is_int8(grid->format)) return accepts_int8(grid, opts, err);
    if (strcmp(grid->format->name, "nf4") == 0 || strcmp(grid->format->name, "bnb_fp4") == 0)
        return accepts_four(grid, cols, opts, err);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "bitsandbytes cannot hold %s weights; it holds int8, nf4 and bnb_fp4",
                     grid->format->name);
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F32;
}

/* A row's scale is stored times 127. Not every float is a 127th of one. */
static float stated_scale(const struct pith_grid *grid, float scale)
{
    return is_int8(grid->format) ? scale * 127.0f / 127.0f : scale;
}

/* The number that gives the scale when divided by 127; 0 when there is none. */
static float row_absmax(float scale)
{
    const float near = scale * 127.0f;
    const float tries[] = {near, nextafterf(near, 0.0f), nextafterf(near, INFINITY)};
    for (size_t i = 0; i < PITH_COUNT(tries); i++)
        if (tries[i] / 127.0f == scale && isfinite(tries[i])) return tries[i];
    return 0.0f;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void shape_int8(uint32_t rows, uint32_t cols, struct pith_packed_set *out)
{
    pith_packed_add(out, ".weight", PITH_I8, 2, (const uint64_t[]){rows, cols});
    pith_packed_add(out, ".SCB", PITH_F32, 1, (const uint64_t[]){rows});
    pith_packed_add(out, ".weight_format", PITH_U8, 0, NULL);
}

static void shape_four(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                       struct pith_packed_set *out)
{
    const uint64_t count = (uint64_t)rows * cols, blocks = count / grid->group;
    const bool nested = grid->double_quant;
    pith_packed_add(out, ".weight", PITH_U8, 2, (const uint64_t[]){count / 2, 1});
    pith_packed_add(out, ".weight.absmax", nested ? PITH_U8 : PITH_F32, 1,
                    (const uint64_t[]){blocks});
    pith_packed_add(out, ".weight.quant_map", PITH_F32, 1, (const uint64_t[]){16});
    pith_packed_add(out, state_suffix(grid->format), PITH_U8, 1, (const uint64_t[]){STATE_BYTES});
    if (!nested) return;
    pith_packed_add(out, ".weight.nested_absmax", PITH_F32, 1,
                    (const uint64_t[]){(blocks - 1) / PITH_DOUBLE_QUANT_BLOCK + 1});
    pith_packed_add(out, ".weight.nested_quant_map", PITH_F32, 1, (const uint64_t[]){MAP});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    *out = (struct pith_packed_set){0};
    if (is_int8(grid->format)) shape_int8(rows, cols, out);
    else shape_four(grid, rows, cols, out);
    return PITH_OK;
}

static enum pith_status fill_int8(const struct pith_qmat *q, struct pith_packed_set *set,
                                  struct pith_error *err)
{
    uint8_t *codes = set->item[0].data;
    float *absmax = set->item[1].data;
    for (uint32_t r = 0; r < q->rows; r++) {
        absmax[r] = row_absmax(q->scales[r]);
        if (absmax[r] == 0.0f && q->scales[r] != 0.0f)
            return pith_fail(err, PITH_NUMERIC,
                             "bitsandbytes: the scale of row %" PRIu32 " is no 127th of a float",
                             r);
        const uint8_t *from = q->codes + r * q->stride;
        for (uint32_t c = 0; c < q->cols; c++) codes[(size_t)r * q->cols + c] = from[c] ^ 0x80;
    }
    return PITH_OK;
}

static const char *dtype_word(enum pith_dtype t)
{
    return t == PITH_BF16 ? "bfloat16" : t == PITH_F16 ? "float16" : "float32";
}

/* JSON, and blanks. */
static void write_state(const struct pith_qmat *q, const struct pith_container_opts *opts,
                        char text[STATE_BYTES])
{
    char nested[96] = "";
    if (q->nested)
        snprintf(nested, sizeof nested,
                 ", \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": "
                 "%.9g",
                 PITH_DOUBLE_QUANT_BLOCK, (double)q->nested->offset);
    char whole[STATE_BYTES + 1];
    const int n = snprintf(whole, sizeof whole,
                           "{\"quant_type\": \"%s\", \"blocksize\": %" PRIu32
                           ", \"dtype\": \"%s\", \"shape\": [%" PRIu32 ", %" PRIu32 "]%s}",
                           strcmp(q->format->name, "nf4") == 0 ? "nf4" : "fp4", q->group,
                           dtype_word(opts->model_dtype), q->rows, q->cols, nested);
    memset(text, ' ', STATE_BYTES);
    memcpy(text, whole, (size_t)n < STATE_BYTES ? (size_t)n : STATE_BYTES);
}

static void swap_halves(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(in[i] << 4 | in[i] >> 4);
}

static void fill_four(const struct pith_qmat *q, const struct pith_container_opts *opts,
                      struct pith_packed_set *set)
{
    const size_t count = pith_qmat_scale_count(q);
    float *map = set->item[2].data;
    swap_halves(q->codes, q->stride * q->rows, set->item[0].data);
    for (uint32_t c = 0; c < 16; c++) map[c] = q->format->decode(c) + 0.0f; /* no -0 */
    write_state(q, opts, set->item[3].data);
    if (!q->nested) {
        memcpy(set->item[1].data, q->scales, count * sizeof *q->scales);
        return;
    }
    memcpy(set->item[1].data, q->nested->code, count);
    memcpy(set->item[4].data, q->nested->absmax, set->item[4].bytes);
    pith_dynamic_map(set->item[5].data);
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    struct pith_grid grid = pith_qmat_grid(q);
    if (grid.granularity == PITH_PER_CHANNEL && !is_int8(q->format)) {
        grid.granularity = PITH_PER_GROUP; /* one block a row */
        grid.group = q->group;
    }
    PITH_TRY(plan(&grid, q->rows, q->cols, opts, out, err));
    PITH_TRY(pith_packed_alloc(out, err));
    enum pith_status s = PITH_OK;
    if (is_int8(q->format)) s = fill_int8(q, out, err);
    else fill_four(q, opts, out);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    struct pith_bnb_config *config = pith_zalloc(1, sizeof *config);
    if (!config) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = pith_bnb_config_read(c, config, err);
    if (s == PITH_OK) *state = config;
    else pith_free(config);
    return s;
}

static struct pith_input int8_input(const struct pith_bnb_config *config)
{
    return (struct pith_input){
        .grid = {.format = pith_int_format(8), .granularity = PITH_PER_TOKEN},
        .threshold = config->threshold,
        .rule = PITH_INPUT_BNB,
    };
}

static enum pith_status load_int8(const struct pith_bnb_config *config,
                                  const struct pith_checkpoint *c, const char *module,
                                  uint32_t rows, uint32_t cols, struct pith_qmat *q,
                                  struct pith_error *err)
{
    const struct pith_part weight = {".weight", 1u << PITH_I8, 2, {rows, cols}},
                           absmax = {".SCB", 1u << PITH_F32, 1, {rows}};
    const struct pith_tensor *codes, *scb, *format = pith_part_find(c, module, ".weight_format");
    if (!config->eight)
        return pith_fail(err, PITH_FORMAT, "%s: \"%.100s\" is int8, but the config says 4 bits",
                         c->dir, module);
    PITH_TRY(pith_part_get(c, module, &weight, &codes, err));
    PITH_TRY(pith_part_get(c, module, &absmax, &scb, err));
    if (format && (format->dtype != PITH_U8 || format->bytes != 1 || format->data[0] != 0))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"%.100s\" is not stored row by row", c->dir,
                         module);
    const struct pith_grid grid = {.format = pith_int_format(8), .granularity = PITH_PER_CHANNEL};
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F32, err));
    (void)pith_dtype_decode(PITH_F32, scb->data, rows, q->scales);
    for (uint32_t r = 0; r < rows; r++) {
        q->scales[r] /= 127.0f;
        const uint8_t *from = codes->data + (size_t)r * cols;
        for (uint32_t k = 0; k < cols; k++) q->codes[r * q->stride + k] = from[k] ^ 0x80;
    }
    q->input = int8_input(config);
    return pith_part_check(module, q, err);
}

/* What a quant_state says. */
struct four {
    const struct pith_format *format;
    uint32_t block;
    bool nested;
    float offset;
};

/* The module's quant_state, or NULL: the format follows from its name. */
static const struct pith_tensor *find_state(const struct pith_checkpoint *c, const char *module,
                                            const struct pith_format **format)
{
    static const char *const names[] = {"nf4", "bnb_fp4"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        *format = pith_format_find(names[i]);
        const struct pith_tensor *t = pith_part_find(c, module, state_suffix(*format));
        if (t) return t;
    }
    return NULL;
}

static enum pith_status check_shape(const json_t *state, const char *where, uint32_t rows,
                                    uint32_t cols, struct pith_error *err)
{
    const json_t *shape = json_object_get(state, "shape");
    if (json_array_size(shape) == 2 && json_integer_value(json_array_get(shape, 0)) == rows &&
        json_integer_value(json_array_get(shape, 1)) == cols)
        return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: shape is not [%" PRIu32 ", %" PRIu32 "]", where, rows,
                     cols);
}

static enum pith_status read_nested(const json_t *state, const char *where, struct four *out,
                                    struct pith_error *err)
{
    int64_t block = PITH_DOUBLE_QUANT_BLOCK;
    const char *dtype = "float32";
    double offset = 0;
    out->nested = json_object_get(state, "nested_blocksize") != NULL;
    if (!out->nested) return PITH_OK;
    PITH_TRY(pith_json_get_int(state, "nested_blocksize", 1, INT32_MAX, &block, where, err));
    PITH_TRY(pith_json_get_str(state, "nested_dtype", &dtype, where, err));
    PITH_TRY(pith_json_get_real(state, "nested_offset", &offset, where, err));
    out->offset = (float)offset;
    if (block == PITH_DOUBLE_QUANT_BLOCK && strcmp(dtype, "float32") == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: scales quantized again in blocks of %" PRId64 ", %.40s", where, block,
                     dtype);
}

static enum pith_status read_state(const json_t *state, const char *where, uint32_t rows,
                                   uint32_t cols, struct four *out, struct pith_error *err)
{
    const char *type = "";
    int64_t block = 0;
    PITH_TRY(pith_json_get_str(state, "quant_type", &type, where, err));
    PITH_TRY(pith_json_get_int(state, "blocksize", 2, 65536, &block, where, err));
    if (strcmp(type, strcmp(out->format->name, "nf4") == 0 ? "nf4" : "fp4") != 0)
        return pith_fail(err, PITH_FORMAT, "%s: quant_type is \"%.40s\"", where, type);
    if (block == 0) return pith_fail(err, PITH_FORMAT, "%s: has no blocksize", where);
    out->block = (uint32_t)block;
    if (cols % out->block)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: blocks of %" PRIu32 " run across rows of %" PRIu32, where, out->block,
                         cols);
    PITH_TRY(check_shape(state, where, rows, cols, err));
    return read_nested(state, where, out, err);
}

static enum pith_status parse_state(const struct pith_checkpoint *c, const struct pith_tensor *t,
                                    uint32_t rows, uint32_t cols, struct four *out,
                                    struct pith_error *err)
{
    char where[PITH_MAX_NAME + 32];
    json_t *state;
    (void)c;
    snprintf(where, sizeof where, "tensor \"%.200s\"", t->name);
    if (t->dtype != PITH_U8 || t->bytes > STATE_MOST)
        return pith_fail(err, PITH_FORMAT, "%s: is no text of at most %d bytes", where, STATE_MOST);
    PITH_TRY(pith_json_parse((const char *)t->data, (size_t)t->bytes, where, &state, err));
    const enum pith_status s = json_is_object(state)
                                   ? read_state(state, where, rows, cols, out, err)
                                   : pith_fail(err, PITH_FORMAT, "%s: is no object", where);
    json_decref(state);
    return s;
}

/* Levels that a file brings along must be those that the engines' kernels have built in. */
static enum pith_status check_map(const struct pith_checkpoint *c, const char *module,
                                  const char *suffix, const float *want, uint64_t n,
                                  struct pith_error *err)
{
    const struct pith_part part = {suffix, 1u << PITH_F32, 1, {n}};
    const struct pith_tensor *t;
    PITH_TRY(pith_part_get(c, module, &part, &t, err));
    bool same = true;
    for (uint64_t i = 0; i < n && same; i++) {
        float level;
        memcpy(&level, t->data + i * sizeof level, sizeof level);
        same = level == want[i];
    }
    if (same) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "tensor \"%.200s\": its levels are not those of its type", t->name);
}

static enum pith_status load_scales(const struct pith_checkpoint *c, const char *module,
                                    const struct four *f, struct pith_qmat *q,
                                    struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    const struct pith_part part = {
        ".weight.absmax", 1u << (f->nested ? PITH_U8 : PITH_F32), 1, {count}};
    const struct pith_part outer = {
        ".weight.nested_absmax", 1u << PITH_F32, 1, {(count - 1) / PITH_DOUBLE_QUANT_BLOCK + 1}};
    const struct pith_tensor *t, *nested;
    float map[MAP];
    PITH_TRY(pith_part_get(c, module, &part, &t, err));
    if (!f->nested) {
        (void)pith_dtype_decode(PITH_F32, t->data, count, q->scales);
        return PITH_OK;
    }
    pith_dynamic_map(map);
    PITH_TRY(check_map(c, module, ".weight.nested_quant_map", map, MAP, err));
    PITH_TRY(pith_part_get(c, module, &outer, &nested, err));
    q->nested = pith_nested_new(q);
    if (!q->nested) return pith_fail_nomem(err, module);
    memcpy(q->nested->code, t->data, count);
    memcpy(q->nested->absmax, nested->data, (size_t)nested->bytes);
    q->nested->offset = f->offset;
    pith_double_quant_decode(q->nested->code, q->nested->absmax, f->offset, count, q->scales);
    return PITH_OK;
}

static enum pith_status load_four(const struct pith_bnb_config *config,
                                  const struct pith_checkpoint *c, const char *module,
                                  uint32_t rows, uint32_t cols, const struct pith_tensor *state,
                                  struct four f, struct pith_qmat *q, struct pith_error *err)
{
    const uint64_t bytes = (uint64_t)rows * cols / 2;
    const struct pith_tensor *codes = pith_part_find(c, module, ".weight");
    const unsigned size = codes ? pith_dtype_bits(codes->dtype) / 8 : 1;
    /* bnb_4bit_quant_storage: the same bytes under another dtype's name. */
    const struct pith_part weight = {".weight",
                                     PITH_PART_FLOATS | 1u << PITH_U8 | 1u << PITH_I8,
                                     2,
                                     {size ? bytes / size : bytes, 1}};
    float levels[16];
    if (config->eight)
        return pith_fail(err, PITH_FORMAT, "%s: \"%.100s\" has 4 bits, but the config says 8",
                         c->dir, module);
    PITH_TRY(parse_state(c, state, rows, cols, &f, err));
    PITH_TRY(pith_part_get(c, module, &weight, &codes, err));
    if (codes->bytes != bytes)
        return pith_fail(err, PITH_FORMAT, "%s: \"%.100s.weight\" has %" PRIu64 " bytes, not %"
                         PRIu64, c->dir, module, codes->bytes, bytes);
    for (uint32_t i = 0; i < 16; i++) levels[i] = f.format->decode(i);
    PITH_TRY(check_map(c, module, ".weight.quant_map", levels, 16, err));
    const struct pith_grid grid = {.format = f.format,
                                   .granularity = PITH_PER_GROUP,
                                   .group = f.block,
                                   .double_quant = f.nested};
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F32, err));
    swap_halves(codes->data, (size_t)bytes, q->codes);
    const enum pith_status s = load_scales(c, module, &f, q, err);
    if (s != PITH_OK) {
        pith_qmat_free(q);
        return s;
    }
    return pith_part_check(module, q, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    struct four f = {0};
    const struct pith_tensor *text = find_state(c, module, &f.format);
    *found = false;
    if (text) PITH_TRY(load_four(state, c, module, rows, cols, text, f, q, err));
    else if (pith_part_find(c, module, ".SCB"))
        PITH_TRY(load_int8(state, c, module, rows, cols, q, err));
    else return PITH_OK;
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_bnb_config *config = state;
    struct four f = {0};
    const struct pith_tensor *text = find_state(c, module, &f.format);
    const struct pith_tensor *absmax = pith_part_find(c, module, ".weight.absmax"),
                             *weight = pith_part_find(c, module, ".weight");
    (void)err;
    *grid = (struct pith_grid){0};
    if (text && absmax && weight && pith_tensor_elements(absmax)) {
        *grid = (struct pith_grid){
            .format = f.format,
            .granularity = PITH_PER_GROUP,
            .group = (uint32_t)(weight->bytes * 2 / pith_tensor_elements(absmax)),
            .double_quant = absmax->dtype == PITH_U8,
        };
    } else if (pith_part_find(c, module, ".SCB")) {
        *grid = (struct pith_grid){.format = pith_int_format(8), .granularity = PITH_PER_CHANNEL};
        opts->acts = int8_input(config).grid;
        opts->threshold = config->threshold;
    }
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    const struct pith_bnb_config *config = state;
    (void)err;
    *quantized = !pith_module_listed(config->skipped, module);
    return PITH_OK;
}

const struct pith_container pith_container_bitsandbytes = {
    .name = "bitsandbytes",
    .summary = "LLM.int8(), nf4 and fp4 (QLoRA), scales quantized again or not",
    .method = "bitsandbytes",
    .input_rule = PITH_INPUT_BNB,
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .stated_scale = stated_scale,
    .plan = plan,
    .pack = pack,
    .config = pith_bnb_config_make,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = pith_free,
};
