/* The awq container, GEMM layout. For a linear W[N, K], transposed against it:
 *     qweight I32 [K, N / 8]   nibble i of word c: the code of row 8c + order[i]
 *     qzeros  I32 [G, N / 8]   zero points, in the same order, as they are
 *     scales  F16 [G, N]       BF16 in models of BF16
 * The older GEMV layout is read as well: qweight I32 [N, K / 8] in natural order, qzeros I32 [N,
 * Z], scales F16 [N, 8 Z] with the groups padded to Z words.
 *
 * Sources: AutoAWQ awq/modules/linear/gemm.py and gemv.py, awq/utils/packing_utils.py. */
#include "io/container/container.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/container/module_match.h"
#include "io/json_members.h"
#include "io/parts.h"

#include <inttypes.h>
#include <string.h>

#define ROWS 8 /* that share a word */

/* Nibble i of word c holds row 8c + order[i]. */
static const uint8_t order[ROWS] = {0, 2, 4, 6, 1, 3, 5, 7};

/* --- nibbles ---------------------------------------------------------------------------------- */

/* Exchanges nibble i of word j with nibble j of word i, in three steps of halves. */
static void transpose_nibbles(uint32_t w[8])
{
    for (size_t i = 0; i < 4; i++) {
        const uint32_t t = (w[i] >> 16 ^ w[i + 4]) & 0x0000ffffu;
        w[i + 4] ^= t;
        w[i] ^= t << 16;
    }
    for (size_t i = 0; i < 8; i += 4)
        for (size_t j = i; j < i + 2; j++) {
            const uint32_t t = (w[j] >> 8 ^ w[j + 2]) & 0x00ff00ffu;
            w[j + 2] ^= t;
            w[j] ^= t << 8;
        }
    for (size_t i = 0; i < 8; i += 2) {
        const uint32_t t = (w[i] >> 4 ^ w[i + 1]) & 0x0f0f0f0fu;
        w[i + 1] ^= t;
        w[i] ^= t << 4;
    }
}

/* The 4 bytes of eight codes at `p`, of which `have` bytes are there. */
static uint32_t read_word(const uint8_t *p, size_t have)
{
    uint32_t w = 0;
    memcpy(&w, p, have < 4 ? have : 4);
    return w;
}

/* Eight rows and eight columns at word c and column k0. */
static void pack_tile(const struct pith_qmat *q, size_t c, size_t k0, uint8_t *out)
{
    const size_t words = q->rows / ROWS, ks = q->cols - k0 < 8 ? q->cols - k0 : 8;
    uint32_t w[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        w[i] = read_word(q->codes + (c * ROWS + order[i]) * q->stride + k0 / 2, q->stride - k0 / 2);
    transpose_nibbles(w);
    for (size_t k = 0; k < ks; k++) memcpy(out + ((k0 + k) * words + c) * 4, &w[k], 4);
}

static void unpack_tile(const uint8_t *in, size_t c, size_t k0, struct pith_qmat *q)
{
    const size_t words = q->rows / ROWS, ks = q->cols - k0 < 8 ? q->cols - k0 : 8;
    const size_t bytes = q->stride - k0 / 2 < 4 ? q->stride - k0 / 2 : 4;
    uint32_t w[ROWS] = {0};
    for (size_t k = 0; k < ks; k++) memcpy(&w[k], in + ((k0 + k) * words + c) * 4, 4);
    transpose_nibbles(w);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(q->codes + (c * ROWS + order[i]) * q->stride + k0 / 2, &w[i], bytes);
}

/* Columns are taken 128 at a time, a cache line of codes: then each line of either side is touched
 * once while it is near. Words [cols][rows / 8] are `out`. */
#define SPAN 128
static void pack_weights(const struct pith_qmat *q, uint8_t *out)
{
    for (size_t span = 0; span < q->cols; span += SPAN)
        for (size_t c = 0; c < q->rows / ROWS; c++)
            for (size_t k0 = span; k0 < span + SPAN && k0 < q->cols; k0 += 8)
                pack_tile(q, c, k0, out);
}

static void unpack_weights(const uint8_t *in, struct pith_qmat *q)
{
    for (size_t span = 0; span < q->cols; span += SPAN)
        for (size_t c = 0; c < q->rows / ROWS; c++)
            for (size_t k0 = span; k0 < span + SPAN && k0 < q->cols; k0 += 8)
                unpack_tile(in, c, k0, q);
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)opts;
    PITH_TRY(pith_accepts_ints("awq", grid, 1u << 4, err));
    const uint32_t group = grid->granularity == PITH_PER_GROUP ? grid->group : cols;
    if (rows % ROWS)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "awq cannot hold a matrix of %" PRIu32 " rows: they must be a multiple of "
                         "%d; use compressed-tensors",
                         rows, ROWS);
    if (cols % group)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "awq cannot hold groups of %" PRIu32 " in %" PRIu32 " columns: the group "
                         "must divide them",
                         group, cols);
    return PITH_OK;
}

static void shape_set(uint32_t groups, uint32_t rows, uint32_t cols, enum pith_dtype scale,
                      struct pith_packed_set *out)
{
    *out = (struct pith_packed_set){0};
    pith_packed_add(out, ".qweight", PITH_I32, 2, (const uint64_t[]){cols, rows / ROWS});
    pith_packed_add(out, ".qzeros", PITH_I32, 2, (const uint64_t[]){groups, rows / ROWS});
    pith_packed_add(out, ".scales", scale, 2, (const uint64_t[]){groups, rows});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const uint32_t group = grid->granularity == PITH_PER_GROUP ? grid->group : cols;
    shape_set(cols / group, rows, cols, pith_scale_half(grid, opts->model_dtype), out);
    return PITH_OK;
}

static void store_zeros(const struct pith_qmat *q, uint32_t *out)
{
    for (uint32_t g = 0; g < q->groups; g++)
        for (uint32_t r = 0; r < q->rows; r += ROWS) {
            uint32_t w = 0;
            for (uint32_t i = 0; i < ROWS; i++) {
                const size_t at = pith_qmat_scale_index(q, r + order[i], g);
                w |= (uint32_t)pith_qmat_zero(q, at) << (4 * i);
            }
            out[((size_t)g * q->rows + r) / ROWS] = w;
        }
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = {
        .format = q->format, .granularity = PITH_PER_GROUP, .group = q->group};
    const enum pith_dtype scale = pith_scale_half(&grid, opts->model_dtype);
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    shape_set(q->groups, q->rows, q->cols, scale, out);
    PITH_TRY(pith_packed_alloc(out, err));
    pack_weights(q, out->item[0].data);
    store_zeros(q, out->item[1].data);
    const enum pith_status s = pith_scales_store(q, scale, true, q->rows, out->item[2].data, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- config ----------------------------------------------------------------------------------- */

/* Loaders leave a module alone when an entry of the list is part of its name. */
static enum pith_status add_left_alone(json_t *list, const struct pith_linear_grid *linears,
                                       size_t count, const char *module, struct pith_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (linears[i].grid.format && strstr(linears[i].module, module))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "awq: leaving \"%.100s\" alone would leave \"%.100s\" alone too",
                             module, linears[i].module);
    return json_array_append_new(list, json_string(module)) == 0 ? PITH_OK
                                                                 : pith_fail_nomem(err, module);
}

static enum pith_status collect(const struct pith_linear_grid *linears, size_t count,
                                const struct pith_grid **grid, json_t *list, struct pith_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct pith_linear_grid *l = &linears[i];
        const bool head = pith_module_is_head(l->module);
        if (!l->grid.format) {
            if (!head) PITH_TRY(add_left_alone(list, linears, count, l->module, err));
            continue;
        }
        if (head)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "awq: its loaders keep lm_head as it is; ignore it, or use "
                             "compressed-tensors");
        if (*grid && !pith_grid_equal(*grid, &l->grid))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "awq: \"%.100s\" has another grid than the others, and its config has "
                             "one for all; use compressed-tensors",
                             l->module);
        *grid = &l->grid;
    }
    return PITH_OK;
}

static enum pith_status make_config(const struct pith_linear_grid *linears, size_t count,
                                    const struct pith_container_opts *opts, json_t **out,
                                    struct pith_error *err)
{
    const struct pith_grid *grid = NULL;
    json_t *list = json_array();
    if (!list) return pith_fail_nomem(err, "the config of awq");
    enum pith_status s = PITH_OK;
    if (opts->acts.format || opts->act_order_groups)
        s = pith_fail(err, PITH_UNSUPPORTED, "awq cannot express %s; use compressed-tensors",
                      opts->acts.format ? "quantized activations" : "act-order groups");
    if (s == PITH_OK) s = collect(linears, count, &grid, list, err);
    if (s == PITH_OK && !grid) s = pith_fail(err, PITH_ARG, "awq: no linear is quantized");
    if (s == PITH_OK) {
        const json_int_t group = grid->granularity == PITH_PER_GROUP ? (json_int_t)grid->group : -1;
        json_t *skip = json_array_size(list) ? json_incref(list) : json_null();
        *out = json_pack("{s:s, s:i, s:I, s:b, s:s, s:o}", "quant_method", "awq", "bits", 4,
                         "group_size", group, "zero_point", true, "version", "gemm",
                         "modules_to_not_convert", skip);
        if (!*out) s = pith_fail_nomem(err, "the config of awq");
    }
    json_decref(list);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct awq {
    bool gemv;
    uint32_t group;           /* 0: one group a row */
    const json_t *left_alone; /* modules_to_not_convert, or NULL; the checkpoint's */
};

static enum pith_status read_config(const json_t *o, const char *where, struct awq *a,
                                    struct pith_error *err)
{
    int64_t bits = 0, group = 0;
    bool zero_point = true;
    const char *version = "gemm";
    PITH_TRY(pith_json_get_int(o, "w_bit", 1, 64, &bits, where, err));
    PITH_TRY(pith_json_get_int(o, "bits", 1, 64, &bits, where, err));
    PITH_TRY(pith_json_get_int(o, "q_group_size", -1, INT32_MAX, &group, where, err));
    PITH_TRY(pith_json_get_int(o, "group_size", -1, INT32_MAX, &group, where, err));
    PITH_TRY(pith_json_get_bool(o, "zero_point", &zero_point, where, err));
    PITH_TRY(pith_json_get_str(o, "version", &version, where, err));
    if (bits != 4)
        return pith_fail(err, bits ? PITH_UNSUPPORTED : PITH_FORMAT,
                         "%s: awq with %" PRId64 " bits; the format has 4", where, bits);
    if (group == 0)
        return pith_fail(err, PITH_FORMAT, "%s: group_size must be positive or -1", where);
    if (!zero_point)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: awq without zero points is not read", where);
    a->gemv = strcmp(version, "gemv") == 0 || strcmp(version, "GEMV") == 0;
    if (!a->gemv && strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: awq version \"%.40s\"; this version reads gemm and gemv", where,
                         version);
    a->group = group < 0 ? 0 : (uint32_t)group;
    const json_t *list = json_object_get(o, "modules_to_not_convert");
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: modules_to_not_convert is not a list", where);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!pith_json_plain(json_array_get(list, i)))
            return pith_fail(err, PITH_FORMAT,
                             "%s: modules_to_not_convert has an entry that is no "
                             "string",
                             where);
    a->left_alone = list;
    return PITH_OK;
}

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    struct awq *a = pith_zalloc(1, sizeof *a);
    if (!a) return pith_fail_nomem(err, c->dir);
    enum pith_status s = read_config(c->quantization, "quantization_config", a, err);
    if (s != PITH_OK) {
        pith_free(a);
        return pith_fail_in(err, s, c->dir);
    }
    *state = a;
    return PITH_OK;
}

struct tensors {
    const struct pith_tensor *qweight, *qzeros, *scales;
    uint32_t group, groups;
};

/* Words of zero points of a row in the GEMV layout: groups of 64 and 32 are padded to whole vectors
 * of 128 columns' worth. */
static uint64_t gemv_words(uint32_t group, uint64_t groups)
{
    const uint64_t step = group >= 128 ? 1 : group == 64 ? 2 : 4, words = (groups + 7) / 8;
    return (words + step - 1) / step * step;
}

static enum pith_status find_tensors(const struct awq *a, const struct pith_checkpoint *c,
                                     const char *module, uint32_t rows, uint32_t cols,
                                     struct tensors *t, struct pith_error *err)
{
    t->group = a->group ? a->group : cols;
    if (cols % t->group || (a->gemv ? cols : rows) % ROWS)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" is %" PRIu32 " x %" PRIu32
                         ", which awq with groups of %" PRIu32 " cannot hold",
                         c->dir, module, rows, cols, t->group);
    t->groups = cols / t->group;
    const uint64_t words = gemv_words(t->group, t->groups);
    const uint32_t i32 = 1u << PITH_I32;
    const struct pith_part gemm[3] = {{".qweight", i32, 2, {cols, rows / ROWS}},
                                      {".qzeros", i32, 2, {t->groups, rows / ROWS}},
                                      {".scales", PITH_PART_FLOATS, 2, {t->groups, rows}}};
    const struct pith_part gemv[3] = {{".qweight", i32, 2, {rows, cols / ROWS}},
                                      {".qzeros", i32, 2, {rows, words}},
                                      {".scales", PITH_PART_FLOATS, 2, {rows, words * 8}}};
    const struct pith_part *want = a->gemv ? gemv : gemm;
    PITH_TRY(pith_part_get(c, module, &want[0], &t->qweight, err));
    PITH_TRY(pith_part_get(c, module, &want[1], &t->qzeros, err));
    return pith_part_get(c, module, &want[2], &t->scales, err);
}

static void fill_gemm(const struct tensors *t, struct pith_qmat *q)
{
    unpack_weights(t->qweight->data, q);
    pith_part_scales(t->scales, true, q);
    for (uint32_t g = 0; g < q->groups; g++)
        for (uint32_t r = 0; r < q->rows; r += ROWS) {
            uint32_t w;
            memcpy(&w, t->qzeros->data + ((size_t)g * q->rows + r) / ROWS * 4, 4);
            for (uint32_t i = 0; i < ROWS; i++)
                q->zeros[(size_t)(r + order[i]) * q->groups + g] = w >> (4 * i) & 15;
        }
}

static void fill_gemv(const struct tensors *t, struct pith_qmat *q)
{
    memcpy(q->codes, t->qweight->data, (size_t)q->rows * q->stride);
    const size_t words = (size_t)t->qzeros->shape[1];
    const size_t size = pith_dtype_bits(t->scales->dtype) / 8;
    for (uint32_t r = 0; r < q->rows; r++) {
        const size_t to = (size_t)r * q->groups;
        pith_bits_get(t->qzeros->data + r * words * 4, 0, 4, q->groups, q->zeros + to);
        (void)pith_dtype_decode(t->scales->dtype, t->scales->data + r * words * 8 * size, q->groups,
                                q->scales + to);
    }
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    static const char *const suffixes[] = {".qweight", ".qzeros", ".scales"};
    const struct awq *a = state;
    *found = false;
    bool any = false;
    for (size_t i = 0; i < PITH_COUNT(suffixes); i++)
        any |= pith_part_find(c, module, suffixes[i]) != NULL;
    if (!any) return PITH_OK;
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    PITH_TRY(pith_part_absent(c, module, ".g_idx", "awq has none", err));
    struct tensors t;
    PITH_TRY(find_tensors(a, c, module, rows, cols, &t, err));
    const struct pith_grid grid = {
        .format = pith_int_format(4),
        .granularity = a->group ? PITH_PER_GROUP : PITH_PER_CHANNEL,
        .group = a->group,
        .asym = true,
    };
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, t.scales->dtype, err));
    if (a->gemv) fill_gemv(&t, q);
    else fill_gemm(&t, q);
    pith_qmat_drop_zeros(q);
    return pith_part_end(module, PITH_OK, q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct awq *a = state;
    (void)opts;
    (void)err;
    *grid = (struct pith_grid){0};
    if (!pith_part_find(c, module, ".qweight")) return PITH_OK;
    *grid = (struct pith_grid){
        .format = pith_int_format(4),
        .granularity = a->group ? PITH_PER_GROUP : PITH_PER_CHANNEL,
        .group = a->group,
        .asym = true,
    };
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    const struct awq *a = state;
    (void)err;
    *quantized = !pith_module_listed(a->left_alone, module);
    return PITH_OK;
}

const struct pith_container pith_container_awq = {
    .name = "awq",
    .summary = "AutoAWQ, GEMM layout: 4 bits",
    .method = "awq",
    .accepts = accepts,
    .scale_dtype = pith_scale_half, /* as in gptq (vLLM auto_awq.py: params_dtype) */
    .plan = plan,
    .pack = pack,
    .config = make_config,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = pith_free,
};
