/* The mlx container, as mlx-lm saves it. For a linear W[N, K] of b bits in groups of g inputs:
 *     weight  U32 [N, K b / 32]   codes of a row, a dense stream from the lowest bit on; with 3, 5
 *                                 and 6 bits codes lie across words
 *     scales  [N, K / g]          F32, F16 or BF16; U8 in the modes of small floats
 *     biases  [N, K / g]          of the same dtype; mode affine alone
 * affine: W = code * scale + bias, of 2, 3, 4, 5, 6 and 8 bits, g = 32, 64 or 128. mxfp4 and mxfp8:
 * g = 32 and scales E8M0; nvfp4: g = 16 and scales E4M3; of experts there may also be a
 * "global_scale" F32, whose 2688th part is a factor of all scales.
 *
 * A model's embedding and its routers are stored so too. The config has "bits", "group_size" and
 * "mode" for all, and an object, or false, under a module's name for what differs. Readers go by
 * the tensors where it says nothing of a module; here they decide in any case, and the config says
 * only which of several forms a module has whose number of columns is not known.
 *
 * Sources: mlx 0.32.4, mlx.core.quantize and its output (tests/golden/mlx); mlx-lm 0.32.2,
 * mlx_lm/utils.py (load_model, infer_quant_config, quantize_model). */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define BITS (1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 8)
static const uint32_t groups[] = {64, 32, 128};

/* The modes; what one of small floats has but one of: a format, and with it bits and group. */
static const struct mode {
    const char *name, *format;
} modes[] = {{"affine", NULL}, {"mxfp4", "mxfp4"}, {"mxfp8", "mxfp8"}, {"nvfp4", "nvfp4"}};

static bool is_group(uint64_t n)
{
    for (size_t i = 0; i < PITH_COUNT(groups); i++)
        if (groups[i] == n) return true;
    return false;
}

static bool is_affine(uint64_t bits, uint64_t group)
{
    return bits <= 8 && (BITS >> bits & 1) && is_group(group);
}

/* Whether the config says that all biases are those of symmetric grids, as pith's does where they
 * are: what converts codes needs the grid before it reads any. */
static bool is_symmetric(const struct pith_checkpoint *c)
{
    return json_is_true(json_object_get(c->quantization, "symmetric"));
}

static struct pith_grid affine(uint64_t bits, uint64_t group, bool symmetric)
{
    return (struct pith_grid){.format = pith_int_format((unsigned)bits),
                              .granularity = PITH_PER_GROUP,
                              .group = (uint32_t)group,
                              .asym = !symmetric,
                              .hqq = !symmetric};
}

/* Of small floats: a format has but one. */
static struct pith_grid floats(const struct pith_format *format)
{
    return (struct pith_grid){
        .format = format, .granularity = PITH_PER_GROUP, .group = format->block};
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The mode of a grid. */
static const struct mode *mode_of(const struct pith_grid *grid)
{
    for (size_t i = 1; i < PITH_COUNT(modes); i++)
        if (grid->format == pith_format_find(modes[i].format)) return &modes[i];
    return &modes[0];
}

/* Nothing but the weights has a place. */
static enum pith_status accepts_alone(const struct pith_container_opts *opts,
                                      struct pith_error *err)
{
    if (opts->acts.format || opts->kv.format || opts->threshold > 0.0f || opts->hadamard > 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "mlx stores weights alone: nothing that is done to inputs or the cache");
    if (opts->act_order_groups)
        return pith_fail(err, PITH_UNSUPPORTED, "mlx has no place for permuted groups");
    return PITH_OK;
}

static enum pith_status accepts_affine(const struct pith_grid *grid, struct pith_error *err)
{
    char text[PITH_GRID_TEXT] = "none";
    PITH_TRY(pith_accepts_ints("mlx", grid, BITS | PITH_ANY_ZEROS, err));
    pith_grid_format(grid, text);
    if (grid->asym && !grid->hqq)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "mlx has a bias where %s has whole zero points; use asym:hqq", text);
    if (grid->granularity != PITH_PER_GROUP || !is_group(grid->group))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "mlx cannot hold %s: its groups are of 32, 64 or 128", text);
    return PITH_OK;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    const struct mode *mode = mode_of(grid);
    (void)rows;
    PITH_TRY(accepts_alone(opts, err));
    if (!mode->format) PITH_TRY(accepts_affine(grid, err));
    else if (strcmp(mode->name, "nvfp4") == 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "mlx's nvfp4 has no scale of the tensor, without which scales lose what "
                         "E4M3 cannot hold: it is only read; use mxfp4");
    if (cols % grid->group == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "mlx cannot hold groups of %" PRIu32 " in %" PRIu32 " columns: the group must "
                     "divide them",
                     grid->group, cols);
}

/* mlx-lm's own are of the weights' dtype; products with codes are exact with 16 bits. */
static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    return mode_of(grid)->format ? PITH_F8_E8M0 : pith_scale_half(grid, model_dtype);
}

static float stated_offset(enum pith_dtype dtype, float scale, float offset)
{
    (void)scale;
    return pith_round_to(dtype, offset);
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const bool floats = mode_of(grid)->format != NULL;
    const enum pith_dtype scale = floats ? PITH_U8 : scale_dtype(grid, opts->model_dtype);
    const uint64_t codes[] = {rows, pith_stream_words(cols, grid->format->bits)};
    const uint64_t scales[] = {rows, cols / grid->group};
    *out = (struct pith_packed_set){0};
    pith_packed_add(out, ".weight", PITH_U32, 2, codes);
    pith_packed_add(out, ".scales", scale, 2, scales);
    if (!floats) pith_packed_add(out, ".biases", scale, 2, scales);
    return PITH_OK;
}

static enum pith_status store_biases(const struct pith_qmat *q, enum pith_dtype dtype,
                                     uint8_t *out, struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) {
        const float bias = q->offsets ? q->offsets[i] : -(pith_qmat_zero(q, i) * q->scales[i]);
        if (!pith_number_store(dtype, bias, i, out))
            return pith_fail(err, PITH_NUMERIC, "a bias of %.9g cannot be stored as %s",
                             (double)bias, pith_dtype_name(dtype));
    }
    return PITH_OK;
}

static enum pith_status store(const struct pith_qmat *q, struct pith_packed_set *out,
                              struct pith_error *err)
{
    memcpy(out->item[0].data, q->codes, q->rows * q->stride);
    const enum pith_dtype dtype = out->item[1].dtype;
    if (dtype == PITH_U8) return pith_scale_codes_store(q, out->item[1].data, err);
    PITH_TRY(pith_scales_store(q, dtype, false, q->rows, out->item[1].data, err));
    return store_biases(q, dtype, out->item[2].data, err);
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    struct pith_grid grid = pith_qmat_grid(q);
    grid.granularity = PITH_PER_GROUP; /* also one of a whole row */
    grid.group = q->group;
    PITH_TRY(plan(&grid, q->rows, q->cols, opts, out, err));
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status s = store(q, out, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- config ----------------------------------------------------------------------------------- */

static json_t *params(const struct pith_grid *grid)
{
    const struct mode *mode = mode_of(grid);
    return json_pack("{s:I, s:I, s:s}", "group_size", (json_int_t)grid->group, "bits",
                     (json_int_t)grid->format->bits, "mode", mode->name);
}

/* mlx-lm puts experts together when it loads them; of these names their scales too. */
static enum pith_status check_expert(const char *module, struct pith_error *err)
{
    const char *expert = strstr(module, ".experts.");
    if (!expert || strstr(expert, ".w")) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "mlx: mlx-lm has all experts of \"%.100s\" in one tensor, which is only read "
                     "by this version; ignore them, or use compressed-tensors",
                     module);
}

/* The first grid is stated for all; those of other linears under their names. */
static enum pith_status make_config(const struct pith_linear_grid *linears, size_t count,
                                    const struct pith_container_opts *opts, json_t **out,
                                    struct pith_error *err)
{
    const struct pith_grid *usual = NULL;
    bool symmetric = true, good = true;
    (void)opts;
    for (size_t i = 0; i < count; i++) {
        const struct pith_grid *g = &linears[i].grid;
        if (!g->format) continue;
        PITH_TRY(check_expert(linears[i].module, err));
        if (!usual) usual = g;
        symmetric &= !g->asym;
    }
    if (!usual) return pith_fail(err, PITH_ARG, "mlx: no linear is quantized");
    json_t *o = params(usual);
    if (o && symmetric) good = json_object_set_new(o, "symmetric", json_true()) == 0;
    for (size_t i = 0; i < count && o && good; i++)
        if (linears[i].grid.format && !pith_grid_equal(&linears[i].grid, usual))
            good = json_object_set_new(o, linears[i].module, params(&linears[i].grid)) == 0;
    if (o && good) good = json_object_set_new(o, "quant_method", json_string("mlx")) == 0;
    if (o && good) {
        *out = o;
        return PITH_OK;
    }
    json_decref(o);
    return pith_fail_nomem(err, "the config of mlx");
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    const char *mode = modes[0].name;
    PITH_TRY(pith_json_get_str(c->quantization, "mode", &mode, c->dir, err));
    *state = NULL;
    for (size_t i = 0; i < PITH_COUNT(modes); i++)
        if (strcmp(modes[i].name, mode) == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: mlx of mode \"%.40s\"; this version reads affine, mxfp4, mxfp8 and nvfp4",
                     c->dir, mode);
}

/* A module's tensors. */
struct tensors {
    const struct pith_tensor *weight, *scales;
    uint64_t bits_by_group; /* of a row: bits of codes / scales = bits of a code * group */
};

static enum pith_status find_tensors(const struct pith_checkpoint *c, const char *module,
                                     struct tensors *t, struct pith_error *err)
{
    *t = (struct tensors){.weight = pith_part_find(c, module, ".weight"),
                          .scales = pith_part_find(c, module, ".scales")};
    const bool codes = t->weight && t->weight->dtype == PITH_U32;
    if (!t->scales && !codes)
        return pith_part_absent(c, module, ".biases", "there are no codes and scales", err);
    if (!t->scales || !codes)
        return pith_fail(err, PITH_FORMAT, "%s: \"%.100s\" has %s", c->dir, module,
                         codes ? "codes, but no scales" : "scales, but no codes (U32 weight)");
    const uint64_t words = t->weight->shape[1], scales = t->scales->shape[1];
    if (t->weight->dims != 2 || t->scales->dims != 2 || scales == 0 || words % scales * 32 % scales)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" has codes and scales whose shapes do not go together",
                         c->dir, module);
    t->bits_by_group = words * 32 / scales;
    return PITH_OK;
}

/* The format of small floats that a module of U8 scales is in; NULL: none. */
static const struct pith_format *floats_of(uint64_t bits_by_group)
{
    for (size_t i = 0; i < PITH_COUNT(modes); i++) {
        const struct pith_format *f = modes[i].format ? pith_format_find(modes[i].format) : NULL;
        if (f && (uint64_t)f->bits * f->block == bits_by_group) return f;
    }
    return NULL;
}

static enum pith_status no_form(const struct pith_checkpoint *c, const char *module,
                                struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"%.100s\" is in none of mlx's forms that are read: 2, 3, 4, 5, 6 or 8 "
                     "bits in groups of 32, 64 or 128, mxfp4, mxfp8, nvfp4",
                     c->dir, module);
}

/* The grid of a module of so many columns. */
static enum pith_status grid_of(const struct pith_checkpoint *c, const char *module,
                                const struct tensors *t, uint32_t cols, struct pith_grid *grid,
                                struct pith_error *err)
{
    const uint64_t scales = t->scales->shape[1], group = cols / scales;
    const uint64_t bits = group ? t->bits_by_group / group : 0;
    const bool whole = group * scales == cols && bits * group == t->bits_by_group;
    const struct pith_format *f = floats_of(t->bits_by_group);
    if (t->scales->dtype != PITH_U8) {
        *grid = affine(bits, group, false);
        return whole && is_affine(bits, group) ? PITH_OK : no_form(c, module, err);
    }
    if (!f || !whole || f->block != group) return no_form(c, module, err);
    *grid = floats(f);
    return PITH_OK;
}

/* A grid whose offsets are all those of the symmetric one says the same without them, to the bit
 * where scales have 16 bits: products with codes are exact then. */
static void drop_offsets(struct pith_qmat *q)
{
    const float middle = (float)pith_format_middle(q->format);
    const size_t count = pith_qmat_scale_count(q);
    if (q->scale_dtype == PITH_F32) return;
    for (size_t i = 0; i < count; i++)
        if (q->offsets[i] != -middle * q->scales[i]) return;
    pith_free(q->offsets);
    q->offsets = NULL;
}

/* Experts may have a number of the tensor, of which scales are parts: the largest magnitude that
 * codes of FP4 with scales of E4M3 stand for. */
static enum pith_status scale_all(const struct pith_checkpoint *c, const char *module,
                                  struct pith_qmat *q, struct pith_error *err)
{
    float most = 0.0f;
    bool found;
    PITH_TRY(pith_part_factor(c, module, ".global_scale", &most, &found, err));
    if (!found) return PITH_OK;
    q->global = most / (6.0f * 448.0f);
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) q->scales[i] *= q->global;
    return PITH_OK;
}

static enum pith_status fill(const struct pith_checkpoint *c, const char *module,
                             const struct tensors *t, struct pith_qmat *q, struct pith_error *err)
{
    const bool floats = t->scales->dtype == PITH_U8;
    const struct pith_part weight = {".weight", 1u << PITH_U32, 2, {q->rows, q->stride / 4}};
    const struct pith_part scales = {
        ".scales", floats ? 1u << PITH_U8 : PITH_PART_FLOATS, 2, {q->rows, q->groups}};
    const struct pith_part biases = {
        ".biases", 1u << t->scales->dtype, 2, {q->rows, q->groups}};
    const struct pith_tensor *part;
    PITH_TRY(pith_part_get(c, module, &weight, &part, err));
    pith_part_rows(part, q->stride, q);
    PITH_TRY(pith_part_get(c, module, &scales, &part, err));
    if (floats) {
        pith_part_scale_codes(part, q);
        PITH_TRY(pith_part_absent(c, module, ".biases", "its mode has none", err));
        return q->scale_dtype == PITH_F8_E4M3 ? scale_all(c, module, q, err) : PITH_OK;
    }
    pith_part_scales(part, false, q);
    PITH_TRY(pith_part_get(c, module, &biases, &part, err));
    (void)pith_dtype_decode(part->dtype, part->data, pith_qmat_scale_count(q), q->offsets);
    drop_offsets(q);
    if (!q->offsets || !is_symmetric(c)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "its biases are not those of a symmetric grid, as config.json says");
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    struct tensors t;
    struct pith_grid grid;
    (void)state;
    *found = false;
    PITH_TRY(find_tensors(c, module, &t, err));
    if (!t.scales) return PITH_OK;
    PITH_TRY(grid_of(c, module, &t, cols, &grid, err));
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, t.scales->dtype, err));
    return pith_part_end(module, fill(c, module, &t, q, err), q, found, err);
}

/* --- what a module is, without its columns ---------------------------------------------------- */

/* A module's name, of n bytes, without what stands in front of its layers: wrappers come and go. */
static const char *tail_of(const char *name, size_t *n)
{
    static const char layers[] = "layers.";
    const char *tail = name;
    for (size_t i = 0; i < *n; i++) {
        const bool starts = i == 0 || name[i - 1] == '.';
        if (starts) tail = name + i;
        if (starts && strncmp(tail, layers, strlen(layers)) == 0) break;
    }
    *n -= (size_t)(tail - name);
    return tail;
}

/* What the config says of a module alone, or of all. */
static const json_t *entry_of(const struct pith_checkpoint *c, const struct tensors *t)
{
    const struct pith_tensor *whole = pith_checkpoint_whole(c, t->weight);
    const char *name = whole ? whole->name : t->weight->name, *key;
    size_t n = strlen(name) - strlen(".weight");
    const char *tail = tail_of(name, &n);
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)c->quantization, key, value) {
        size_t length = strlen(key);
        const char *of = tail_of(key, &length);
        if (json_is_object(value) && length == n && memcmp(of, tail, n) == 0) return value;
    }
    return c->quantization;
}

/* Of the forms with that product the one that has the group or the stated bits, or the first
 * of the groups; bits 0: there is none. */
struct form {
    uint64_t bits, group;
};
static struct form choose(uint64_t bits_by_group, uint64_t bits, uint64_t group)
{
    const uint64_t by_bits = bits ? bits_by_group / bits : 0;
    if (is_group(group) && bits_by_group % group == 0 && is_affine(bits_by_group / group, group))
        return (struct form){bits_by_group / group, group};
    if (by_bits * bits == bits_by_group && is_affine(bits, by_bits))
        return (struct form){bits, by_bits};
    for (size_t i = 0; i < PITH_COUNT(groups); i++)
        if (bits_by_group % groups[i] == 0 && is_affine(bits_by_group / groups[i], groups[i]))
            return (struct form){bits_by_group / groups[i], groups[i]};
    return (struct form){0, 0};
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    struct tensors t;
    (void)state;
    (void)opts;
    *grid = (struct pith_grid){0};
    PITH_TRY(find_tensors(c, module, &t, err));
    if (!t.scales) return PITH_OK;
    if (t.scales->dtype == PITH_U8) {
        const struct pith_format *f = floats_of(t.bits_by_group);
        if (!f) return no_form(c, module, err);
        *grid = floats(f);
        return PITH_OK;
    }
    int64_t bits = 0, group = 0;
    const json_t *entry = entry_of(c, &t);
    PITH_TRY(pith_json_get_int(entry, "bits", 0, 64, &bits, c->dir, err));
    PITH_TRY(pith_json_get_int(entry, "group_size", 0, INT32_MAX, &group, c->dir, err));
    const struct form form = choose(t.bits_by_group, (uint64_t)bits, (uint64_t)group);
    if (!form.bits) return no_form(c, module, err);
    *grid = affine(form.bits, form.group, is_symmetric(c));
    return PITH_OK;
}

const struct pith_container pith_container_mlx = {
    .name = "mlx",
    .holds = PITH_QMAT_OFFSETS,
    .summary = "mlx-lm: 2, 3, 4, 5, 6, 8 bits with a scale and a bias, MXFP4, MXFP8, NVFP4",
    .method = "mlx",
    .unloaded = "mlx-lm loads it, for which there are no rules here",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .stated_offset = stated_offset,
    .plan = plan,
    .pack = pack,
    .config = make_config,
    .open = open_config,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
