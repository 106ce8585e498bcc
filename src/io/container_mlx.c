/* The mlx container, as mlx-lm saves it. For a linear W[N, K] of b bits in groups of g inputs:
 *     weight  U32 [N, K b / 32]   codes of a row, a dense stream from the lowest bit on; with 3, 5
 *                                 and 6 bits codes lie across words
 *     scales  [N, K / g]          F32, F16 or BF16; U8 in the modes of small floats
 *     biases  [N, K / g]          of the same dtype; mode affine alone
 * affine: W = code * scale + bias, of 2, 3, 4, 5, 6 and 8 bits, g = 32, 64 or 128. mxfp4 and mxfp8:
 * g = 32 and scales E8M0; nvfp4: g = 16 and scales E4M3; of experts a "global_scale" F32 may stand
 * beside them, whose 2688th part is a factor of all scales.
 *
 * A model's embedding and its routers are stored so too. The config has "bits", "group_size" and
 * "mode" for all, and an object, or false, under a module's name for what differs. Readers go by
 * the tensors where it says nothing of a module; here they decide in any case, and the config says
 * only which of several forms a module has whose number of columns is not known.
 *
 * Sources: mlx 0.32.4, mlx.core.quantize and its output (tests/golden/mlx); mlx-lm 0.32.2,
 * mlx_lm/utils.py (load_model, infer_quant_config, quantize_model). */
#include "io/container.h"

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

static struct pith_grid affine(uint64_t bits, uint64_t group)
{
    return (struct pith_grid){.format = pith_int_format((unsigned)bits),
                              .granularity = PITH_PER_GROUP,
                              .group = (uint32_t)group,
                              .asym = true,
                              .hqq = true};
}

/* --- reading ------------------------------------------------------------------------------- */

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
        *grid = affine(bits, group);
        return whole && is_affine(bits, group) ? PITH_OK : no_form(c, module, err);
    }
    if (!f || !whole || f->block != group) return no_form(c, module, err);
    *grid = (struct pith_grid){
        .format = f, .granularity = PITH_PER_GROUP, .group = f->block};
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
    return PITH_OK;
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

/* --- what a module is, told without its columns ----------------------------------------------- */

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
static const json_t *said_of(const struct pith_checkpoint *c, const struct tensors *t)
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

/* Of the forms with that product the one that has the bits or the group that are said, or the first
 * of the groups. */
static struct pith_grid choose(uint64_t bits_by_group, uint64_t bits, uint64_t group)
{
    const uint64_t by_bits = bits ? bits_by_group / bits : 0;
    if (is_group(group) && bits_by_group % group == 0 && is_affine(bits_by_group / group, group))
        return affine(bits_by_group / group, group);
    if (by_bits * bits == bits_by_group && is_affine(bits, by_bits)) return affine(bits, by_bits);
    for (size_t i = 0; i < PITH_COUNT(groups); i++)
        if (bits_by_group % groups[i] == 0 && is_affine(bits_by_group / groups[i], groups[i]))
            return affine(bits_by_group / groups[i], groups[i]);
    return (struct pith_grid){0};
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
        return f ? pith_grid_parse(f->name, grid, err) : no_form(c, module, err);
    }
    int64_t bits = 0, group = 0;
    const json_t *said = said_of(c, &t);
    PITH_TRY(pith_json_get_int(said, "bits", 0, 64, &bits, c->dir, err));
    PITH_TRY(pith_json_get_int(said, "group_size", 0, INT32_MAX, &group, c->dir, err));
    *grid = choose(t.bits_by_group, (uint64_t)bits, (uint64_t)group);
    return grid->format ? PITH_OK : no_form(c, module, err);
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)grid, (void)rows, (void)cols, (void)opts;
    return pith_fail(err, PITH_UNSUPPORTED, "mlx is only read by this version");
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    return model_dtype == PITH_BF16 ? PITH_BF16 : PITH_F16;
}

const struct pith_container pith_container_mlx = {
    .name = "mlx",
    .holds = PITH_QMAT_OFFSETS,
    .summary = "mlx-lm: 2, 3, 4, 5, 6, 8 bits with a scale and a bias, MXFP4, MXFP8, NVFP4",
    .method = "mlx",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .open = open_config,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
