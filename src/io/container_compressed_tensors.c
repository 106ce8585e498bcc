/* The compressed-tensors container, for integer weights. For a linear W[N, K]:
 *   pack-quantized
 *     weight_packed      I32 [N, ceil(K * bits / 32)]   codes of a row, a dense stream
 *     weight_scale       model dtype [N, G], [N, 1] or [1]
 *     weight_shape       I64 [2]
 *     weight_zero_point  I32 [ceil(N * bits / 32), G]   of a group, a dense stream along N
 *     weight_g_idx       I32 [K]                        with act-order groups
 *   int-quantized (when activations are quantized too)
 *     weight             I8 [N, K]                      codes minus 2^(bits - 1)
 *     weight_scale       as above
 *     weight_zero_point  I8, shape of the scale
 * Its zero points are signed too, so both are stored as codes, offset by 2^(bits - 1): the offsets
 * cancel. Before version 0.18, words held floor(32 / bits) codes each; that is read as well.
 *
 * Sources: compressed-tensors compressors/pack_quantized, compressors/naive_quantized; vLLM
 * compressed_tensors_wNa16.py and compressed_tensors_w8a8_int8.py. */
#include "io/container.h"

#include "base/mem.h"
#include "io/ct_config.h"
#include "io/parts.h"

#include <inttypes.h>
#include <string.h>

#define BITS 0x1fcu /* 2..8 */

/* --- writing ------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)opts;
    (void)rows;
    PITH_TRY(pith_accepts_ints("compressed-tensors", grid, BITS, err));
    if (grid->granularity == PITH_PER_GROUP && cols % grid->group)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "compressed-tensors cannot hold groups of %" PRIu32 " in %" PRIu32
                         " columns: the group must divide them",
                         grid->group, cols);
    return PITH_OK;
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    return model_dtype;
}

/* What decides the shapes of a module's tensors. */
struct form {
    uint32_t rows, cols, groups;
    unsigned bits;
    bool tensor, asym, bytes, g_idx;
    enum pith_dtype scale;
};

static void shape_set(const struct form *f, struct pith_packed_set *out)
{
    *out = (struct pith_packed_set){0};
    const unsigned dims = f->tensor ? 1 : 2;
    const uint64_t scale[2] = {f->tensor ? 1 : f->rows, f->groups};
    if (f->bytes) {
        pith_packed_add(out, ".weight", PITH_I8, 2, (const uint64_t[]){f->rows, f->cols});
    } else {
        const uint64_t words = pith_stream_words(f->cols, f->bits);
        pith_packed_add(out, ".weight_packed", PITH_I32, 2, (const uint64_t[]){f->rows, words});
    }
    pith_packed_add(out, ".weight_scale", f->scale, dims, scale);
    if (!f->bytes) pith_packed_add(out, ".weight_shape", PITH_I64, 1, (const uint64_t[]){2});
    if (f->asym && (f->bytes || f->tensor)) {
        pith_packed_add(out, ".weight_zero_point", PITH_I8, dims, scale);
    } else if (f->asym) {
        const uint64_t words = pith_stream_words(f->rows, f->bits);
        pith_packed_add(out, ".weight_zero_point", PITH_I32, 2,
                        (const uint64_t[]){words, f->groups});
    }
    if (f->g_idx) pith_packed_add(out, ".weight_g_idx", PITH_I32, 1, (const uint64_t[]){f->cols});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const uint32_t groups = grid->granularity == PITH_PER_GROUP ? cols / grid->group : 1;
    const struct form f = {
        .rows = rows,
        .cols = cols,
        .groups = groups,
        .bits = grid->format->bits,
        .tensor = grid->granularity == PITH_PER_TENSOR,
        .asym = grid->asym,
        .bytes = opts->acts.format != NULL,
        .g_idx = opts->act_order_groups && groups > 1,
        .scale = opts->model_dtype,
    };
    shape_set(&f, out);
    return PITH_OK;
}

static const struct pith_packed *item(const struct pith_packed_set *set, const char *suffix)
{
    for (unsigned i = 0; i < set->count; i++)
        if (strcmp(set->item[i].suffix, suffix) == 0) return &set->item[i];
    return NULL;
}

static enum pith_status store_bytes(const struct pith_qmat *q, int8_t *out, struct pith_error *err)
{
    const int middle = 1 << (q->format->bits - 1);
    uint8_t *codes = pith_alloc(q->cols, 1);
    if (!codes) return pith_fail_nomem(err, "codes");
    for (uint32_t r = 0; r < q->rows; r++, out += q->cols) {
        pith_qmat_get_codes(q, r, codes);
        for (uint32_t c = 0; c < q->cols; c++) out[c] = (int8_t)((int)codes[c] - middle);
    }
    pith_free(codes);
    return PITH_OK;
}

static void store_rows(const struct pith_qmat *q, uint8_t *out)
{
    const size_t bytes = (size_t)pith_stream_words(q->cols, q->format->bits) * 4;
    for (uint32_t r = 0; r < q->rows; r++)
        memcpy(out + r * bytes, q->codes + r * q->stride, q->stride);
}

static enum pith_status store_zeros(const struct pith_qmat *q, const struct pith_packed *p,
                                    struct pith_error *err)
{
    if (p->dtype == PITH_I8) {
        const int middle = 1 << (q->format->bits - 1);
        for (size_t i = 0; i < p->bytes; i++)
            ((int8_t *)p->data)[i] = (int8_t)((int)q->zeros[i] - middle);
        return PITH_OK;
    }
    uint8_t *streams = pith_zalloc(p->bytes, 1);
    if (!streams) return pith_fail_nomem(err, "zero points");
    const enum pith_status s = pith_zeros_store(q, 0, streams, err);
    const size_t words = (size_t)p->shape[0];
    if (s == PITH_OK) pith_words_from_rows(streams, words * 4, q->groups, words, p->data);
    pith_free(streams);
    return s;
}

static enum pith_status fill_set(const struct pith_qmat *q, const struct form *f,
                                 const struct pith_packed_set *set, struct pith_error *err)
{
    if (f->bytes) {
        PITH_TRY(store_bytes(q, item(set, ".weight")->data, err));
    } else {
        store_rows(q, item(set, ".weight_packed")->data);
        const int64_t shape[2] = {q->rows, q->cols};
        memcpy(item(set, ".weight_shape")->data, shape, sizeof shape);
    }
    const uint32_t rows = f->tensor ? 1 : q->rows;
    PITH_TRY(pith_scales_store(q, f->scale, false, rows, item(set, ".weight_scale")->data, err));
    if (f->asym) PITH_TRY(store_zeros(q, item(set, ".weight_zero_point"), err));
    if (f->g_idx) pith_g_idx_store(q, item(set, ".weight_g_idx")->data);
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = {
        .format = q->format, .granularity = PITH_PER_GROUP, .group = q->group};
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    const struct form f = {
        .rows = q->rows,
        .cols = q->cols,
        .groups = q->groups,
        .bits = q->format->bits,
        .tensor = pith_qmat_per_tensor(q),
        .asym = q->zeros != NULL,
        .bytes = opts->acts.format != NULL,
        .g_idx = opts->act_order_groups && q->groups > 1,
        .scale = opts->model_dtype,
    };
    if ((!f.g_idx || f.bytes) && !pith_g_idx_is_identity(q))
        return pith_fail(
            err, PITH_ARG,
            "compressed-tensors: a matrix has permuted groups, but the config does not "
            "say so");
    shape_set(&f, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status s = fill_set(q, &f, out, err);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- reading ------------------------------------------------------------------------------- */

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

struct tensors {
    const struct pith_tensor *codes, *scale, *zeros, *g_idx;
    bool dense; /* codes across words */
};

/* Words that n codes take in the older packing. */
static uint64_t older_words(uint64_t n, unsigned bits)
{
    const unsigned per = 32 / bits;
    return (n + per - 1) / per;
}

static enum pith_status check_shape(const struct pith_checkpoint *c, const char *module,
                                    uint32_t rows, uint32_t cols, struct pith_error *err)
{
    const struct pith_part want = {".weight_shape", 1u << PITH_I64 | 1u << PITH_I32, 1, {2}};
    const struct pith_tensor *t = NULL;
    PITH_TRY(pith_part_get(c, module, &want, &t, err));
    int64_t shape[2];
    if (t->dtype == PITH_I64) {
        memcpy(shape, t->data, sizeof shape);
    } else {
        int32_t s32[2];
        memcpy(s32, t->data, sizeof s32);
        shape[0] = s32[0];
        shape[1] = s32[1];
    }
    if (shape[0] == rows && shape[1] == cols) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: tensor \"%.100s\" says %" PRId64 " x %" PRId64
                     ", but the config asks for %" PRIu32 " x %" PRIu32,
                     c->dir, t->name, shape[0], shape[1], rows, cols);
}

static enum pith_status find_packed(const struct pith_ct_config *config,
                                    const struct pith_ct_scheme *s, const struct pith_checkpoint *c,
                                    const char *module, const uint32_t size[2], struct tensors *t,
                                    struct pith_error *err)
{
    PITH_TRY(check_shape(c, module, size[0], size[1], err));
    const uint64_t dense = pith_stream_words(size[1], s->bits),
                   older = older_words(size[1], s->bits);
    const struct pith_tensor *found = pith_part_find(c, module, ".weight_packed");
    t->dense = true;
    if (found && found->dims == 2 && found->shape[1] == older && dense != older) t->dense = false;
    else if (dense == older && config->dense_known) t->dense = config->dense;
    const struct pith_part codes = {
        ".weight_packed", 1u << PITH_I32, 2, {size[0], t->dense ? dense : older}};
    return pith_part_get(c, module, &codes, &t->codes, err);
}

static enum pith_status find_zeros(const struct pith_ct_scheme *s, const struct pith_checkpoint *c,
                                   const char *module, uint32_t rows, struct tensors *t,
                                   struct pith_error *err)
{
    struct pith_part want = {".weight_zero_point", 1u << PITH_I8, t->scale->dims, {0}};
    memcpy(want.shape, t->scale->shape, sizeof want.shape);
    if (s->form == PITH_CT_PACKED && s->granularity != PITH_PER_TENSOR) {
        want.dtypes = 1u << PITH_I32;
        want.shape[0] = t->dense ? pith_stream_words(rows, s->bits) : older_words(rows, s->bits);
    }
    if (!s->sym) return pith_part_get(c, module, &want, &t->zeros, err);
    return pith_part_absent(c, module, want.suffix, "the config says symmetric", err);
}

static enum pith_status find_tensors(const struct pith_ct_config *config,
                                     const struct pith_ct_scheme *s,
                                     const struct pith_checkpoint *c, const char *module,
                                     const uint32_t size[2], struct tensors *t,
                                     struct pith_error *err)
{
    const bool tensor = s->granularity == PITH_PER_TENSOR;
    const uint32_t groups = s->group ? size[1] / s->group : 1;
    if (s->group && size[1] % s->group)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" has %" PRIu32 " columns, which groups of %" PRIu32
                         " do not divide",
                         c->dir, module, size[1], s->group);
    if (s->form == PITH_CT_PACKED) {
        PITH_TRY(find_packed(config, s, c, module, size, t, err));
        PITH_TRY(pith_part_absent(c, module, ".weight", "the module is packed", err));
    } else {
        const struct pith_part codes = {".weight", 1u << PITH_I8, 2, {size[0], size[1]}};
        PITH_TRY(pith_part_get(c, module, &codes, &t->codes, err));
    }
    const struct pith_part scale = {
        ".weight_scale", PITH_PART_FLOATS, tensor ? 1 : 2, {tensor ? 1 : size[0], groups}};
    PITH_TRY(pith_part_get(c, module, &scale, &t->scale, err));
    PITH_TRY(find_zeros(s, c, module, size[0], t, err));
    const struct pith_part order = {".weight_g_idx", 1u << PITH_I32, 1, {size[1]}};
    if (!s->g_idx) return pith_part_absent(c, module, order.suffix, "actorder is not group", err);
    if (groups == 1 && !pith_part_find(c, module, order.suffix)) return PITH_OK;
    return pith_part_get(c, module, &order, &t->g_idx, err);
}

/* n codes from words that hold floor(32 / bits) each. */
static void older_get(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes)
{
    const unsigned per = 32 / bits, mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; in += 4) {
        uint32_t w;
        memcpy(&w, in, 4);
        for (unsigned j = 0; j < per && i < n; j++, i++)
            codes[i] = (uint8_t)(w >> (j * bits) & mask);
    }
}

static enum pith_status read_rows(const struct tensors *t, struct pith_qmat *q,
                                  struct pith_error *err)
{
    const size_t bytes = (size_t)t->codes->shape[1] * 4;
    const unsigned rest = (unsigned)((uint64_t)q->cols * q->format->bits % 8);
    if (t->dense && bytes == q->stride && (uintptr_t)t->codes->data % 4 == 0) {
        pith_qmat_borrow(q, t->codes->data); /* a model of gigabytes is not copied */
        return PITH_OK;
    }
    if (t->dense) {
        for (uint32_t r = 0; r < q->rows; r++) {
            uint8_t *row = q->codes + r * q->stride;
            memcpy(row, t->codes->data + r * bytes, q->stride);
            if (rest) row[q->stride - 1] &= (uint8_t)((1u << rest) - 1);
        }
        return PITH_OK;
    }
    uint8_t *codes = pith_alloc(q->cols, 1);
    if (!codes) return pith_fail_nomem(err, t->codes->name);
    for (uint32_t r = 0; r < q->rows; r++) {
        older_get(t->codes->data + r * bytes, q->cols, q->format->bits, codes);
        pith_qmat_set_codes(q, r, codes);
    }
    pith_free(codes);
    return PITH_OK;
}

/* n signed bytes to codes; false when one does not fit the format. */
static bool bytes_to_codes(const uint8_t *in, size_t n, unsigned bits, uint8_t *codes)
{
    const unsigned middle = 1u << (bits - 1), top = (1u << bits) - 1;
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) {
        /* in[i] ^ 0x80 is the signed byte plus 128. */
        const unsigned u = (unsigned)(in[i] ^ 0x80) + middle - 128;
        bad |= u > top;
        codes[i] = (uint8_t)u;
    }
    return !bad;
}

static enum pith_status read_bytes(const struct tensors *t, struct pith_qmat *q,
                                   struct pith_error *err)
{
    uint8_t *codes = pith_alloc(q->cols, 1);
    if (!codes) return pith_fail_nomem(err, t->codes->name);
    enum pith_status s = PITH_OK;
    for (uint32_t r = 0; r < q->rows && s == PITH_OK; r++) {
        const uint8_t *in = t->codes->data + (size_t)r * q->cols;
        if (bytes_to_codes(in, q->cols, q->format->bits, codes)) pith_qmat_set_codes(q, r, codes);
        else
            s = pith_fail(err, PITH_FORMAT,
                          "tensor \"%.100s\": row %" PRIu32 " has values that are"
                          " no %s",
                          t->codes->name, r, q->format->name);
    }
    pith_free(codes);
    return s;
}

static enum pith_status read_zeros(const struct tensors *t, struct pith_qmat *q,
                                   struct pith_error *err)
{
    const struct pith_tensor *z = t->zeros;
    const unsigned bits = q->format->bits;
    if (z->dtype == PITH_I8) {
        if (bytes_to_codes(z->data, (size_t)z->bytes, bits, q->zeros)) return PITH_OK;
        return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\" has values that are no %s", z->name,
                         q->format->name);
    }
    const size_t words = (size_t)z->shape[0], bytes = words * 4;
    uint8_t *streams = pith_zalloc(bytes, q->groups), *column = pith_alloc(q->rows, 1);
    enum pith_status s = PITH_OK;
    if (!streams || !column) {
        s = pith_fail_nomem(err, z->name);
    } else {
        pith_words_to_rows(z->data, q->groups, words, streams, bytes);
        for (uint32_t g = 0; g < q->groups; g++) {
            if (t->dense) pith_bits_get(streams + g * bytes, 0, bits, q->rows, column);
            else older_get(streams + g * bytes, q->rows, bits, column);
            for (uint32_t r = 0; r < q->rows; r++) q->zeros[(size_t)r * q->groups + g] = column[r];
        }
    }
    pith_free(column);
    pith_free(streams);
    return s;
}

static enum pith_status fill_matrix(const struct pith_ct_scheme *s, const struct tensors *t,
                                    struct pith_qmat *q, struct pith_error *err)
{
    PITH_TRY(s->form == PITH_CT_PACKED ? read_rows(t, q, err) : read_bytes(t, q, err));
    pith_part_scales(t->scale, false, q);
    if (t->zeros) PITH_TRY(read_zeros(t, q, err));
    return t->g_idx ? pith_part_g_idx(t->g_idx, q, err) : PITH_OK;
}

/* A module that the config leaves alone must look so. The head is a special case: engines do not
 * take it for a "Linear", so that a config may name it and mean nothing by it. */
static enum pith_status is_quantized(const struct pith_checkpoint *c, const char *module,
                                     const struct pith_ct_scheme *scheme, bool by_class, bool *yes,
                                     struct pith_error *err)
{
    const bool any = pith_part_find(c, module, ".weight_packed") ||
                     pith_part_find(c, module, ".weight_scale");
    *yes = scheme != NULL;
    if (scheme && by_class && !any && strcmp(module, "lm_head") == 0) *yes = false;
    if (scheme || !any) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: \"%.100s\" is quantized, but the config leaves it alone", c->dir, module);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    const struct pith_ct_config *config = state;
    const struct pith_ct_scheme *scheme;
    bool by_class, yes;
    *found = false;
    PITH_TRY(pith_ct_config_scheme(config, module, &scheme, &by_class, err));
    PITH_TRY(is_quantized(c, module, scheme, by_class, &yes, err));
    if (!yes) return PITH_OK;
    struct tensors t = {0};
    PITH_TRY(find_tensors(config, scheme, c, module, (const uint32_t[]){rows, cols}, &t, err));
    const struct pith_grid grid = {
        .format = pith_int_format(scheme->bits),
        .granularity = scheme->granularity,
        .group = scheme->group,
        .asym = !scheme->sym,
    };
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, t.scale->dtype, err));
    const enum pith_status s = fill_matrix(scheme, &t, q, err);
    if (s != PITH_OK) {
        pith_qmat_free(q);
        return pith_fail_in(err, s, c->dir);
    }
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_ct_config *config = state;
    const struct pith_ct_scheme *scheme;
    bool by_class, yes;
    *grid = (struct pith_grid){0};
    PITH_TRY(pith_ct_config_scheme(config, module, &scheme, &by_class, err));
    PITH_TRY(is_quantized(c, module, scheme, by_class, &yes, err));
    if (!yes) return PITH_OK;
    *grid = (struct pith_grid){
        .format = pith_int_format(scheme->bits),
        .granularity = scheme->granularity,
        .group = scheme->group,
        .asym = !scheme->sym,
    };
    opts->act_order_groups |= scheme->g_idx;
    /* The layout of bytes is what goes with quantized activations. */
    if (scheme->form == PITH_CT_BYTES)
        opts->acts =
            (struct pith_grid){.format = pith_int_format(8), .granularity = PITH_PER_TOKEN};
    return PITH_OK;
}

const struct pith_container pith_container_compressed_tensors = {
    .name = "compressed-tensors",
    .summary = "vLLM's own: integers of 2 to 8 bits, packed or as bytes",
    .method = "compressed-tensors",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = pith_ct_config_make,
    .open = open_config,
    .load = load,
    .describe = describe,
    .close = close_config,
};
