#include "io/parts.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

/* False when the name does not fit: no file has such a tensor then. */
static bool part_name(const char *module, const char *suffix, char name[PITH_MAX_NAME + 1])
{
    const int n = snprintf(name, PITH_MAX_NAME + 1, "%s%s", module, suffix);
    return n > 0 && n <= PITH_MAX_NAME;
}

const struct pith_tensor *pith_part_find(const struct pith_checkpoint *c, const char *module,
                                         const char *suffix)
{
    char name[PITH_MAX_NAME + 1];
    return part_name(module, suffix, name) ? pith_checkpoint_find(c, name) : NULL;
}

static unsigned without_ones(unsigned dims, const uint64_t *shape, uint64_t out[PITH_MAX_DIMS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < dims; i++)
        if (shape[i] != 1) out[n++] = shape[i];
    return n;
}

static bool same_but_ones(const struct pith_tensor *t, const struct pith_part *want)
{
    uint64_t is[PITH_MAX_DIMS], wanted[PITH_MAX_DIMS];
    const unsigned n = without_ones(t->dims, t->shape, is);
    return n == without_ones(want->dims, want->shape, wanted) &&
           memcmp(is, wanted, n * sizeof *is) == 0;
}

bool pith_part_plain(const struct pith_checkpoint *c, const char *module, const char *codes,
                     const char *scale)
{
    const struct pith_tensor *t = pith_part_find(c, module, ".weight");
    return t && (PITH_PART_FLOATS >> t->dtype & 1) &&
           !(codes && pith_part_find(c, module, codes)) &&
           !(scale && pith_part_find(c, module, scale));
}

void pith_part_see_scales(const struct pith_checkpoint *c, const char *module, const char *suffix,
                          uint64_t rows, struct pith_grid *grid)
{
    const struct pith_tensor *t = pith_part_find(c, module, suffix);
    const uint64_t n = t ? pith_tensor_elements(t) : 0;
    if (grid->granularity != PITH_PER_TENSOR && grid->granularity != PITH_PER_CHANNEL) return;
    if (n == 1) grid->granularity = PITH_PER_TENSOR;
    else if (n == rows) grid->granularity = PITH_PER_CHANNEL;
}

enum pith_status pith_part_get(const struct pith_checkpoint *c, const char *module,
                               const struct pith_part *want, const struct pith_tensor **out,
                               struct pith_error *err)
{
    char name[PITH_MAX_NAME + 1];
    if (!part_name(module, want->suffix, name))
        return pith_fail(err, PITH_FORMAT, "%s: name of a tensor is too long", c->dir);
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    if (!t || !same_but_ones(t, want))
        PITH_TRY(pith_checkpoint_get(c, name, want->dims, want->shape, &t, err));
    if (!(want->dtypes >> t->dtype & 1))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: tensor \"%.100s\" has dtype %s, which its container does not use",
                         c->dir, name, pith_dtype_name(t->dtype));
    *out = t;
    return PITH_OK;
}

enum pith_status pith_part_absent(const struct pith_checkpoint *c, const char *module,
                                  const char *suffix, const char *why, struct pith_error *err)
{
    if (!pith_part_find(c, module, suffix)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s%s\" is there, but %s", c->dir, module,
                     suffix, why);
}

enum pith_status pith_part_g_idx(const struct pith_tensor *t, struct pith_qmat *q,
                                 struct pith_error *err)
{
    q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
    if (!q->g_idx) return pith_fail_nomem(err, t->name);
    memcpy(q->g_idx, t->data, q->cols * sizeof *q->g_idx);
    for (uint32_t c = 0; c < q->cols; c++)
        if (q->g_idx[c] >= q->groups)
            return pith_fail(err, PITH_FORMAT,
                             "tensor \"%.100s\": column %" PRIu32 " is in group %" PRId32
                             ", but there are %" PRIu32,
                             t->name, c, (int32_t)q->g_idx[c], q->groups);
    if (!(pith_qmat_parts(q) & PITH_QMAT_ORDER)) {
        pith_free(q->g_idx);
        q->g_idx = NULL;
    }
    return PITH_OK;
}

/* dst[c][r] = src[r][c] for elements of `size` 2 or 4 bytes, both unaligned; in tiles, so that
 * neither side walks through memory a page at a time. */
static void transpose(const uint8_t *src, size_t stride, size_t rows, size_t cols, size_t size,
                      uint8_t *dst, size_t dst_stride)
{
    enum { TILE = 32 };
    for (size_t r0 = 0; r0 < rows; r0 += TILE) {
        const size_t r1 = rows - r0 < TILE ? rows : r0 + TILE;
        for (size_t c0 = 0; c0 < cols; c0 += TILE) {
            const size_t c1 = cols - c0 < TILE ? cols : c0 + TILE;
            for (size_t c = c0; c < c1; c++)
                for (size_t r = r0; r < r1; r++) {
                    uint8_t *to = dst + c * dst_stride + r * size;
                    const uint8_t *from = src + r * stride + c * size;
                    if (size == 4) memcpy(to, from, 4);
                    else memcpy(to, from, 2);
                }
        }
    }
}

void pith_part_scales(const struct pith_tensor *t, bool by_group, struct pith_qmat *q)
{
    const size_t count = pith_qmat_scale_count(q);
    if (!by_group) {
        (void)pith_dtype_decode(t->dtype, t->data, count, q->scales);
        return;
    }
    const size_t size = pith_dtype_bits(t->dtype) / 8;
    for (uint32_t g = 0; g < q->groups; g++)
        for (uint32_t r = 0; r < q->rows; r++) {
            const uint8_t *from = t->data + ((size_t)g * q->rows + r) * size;
            (void)pith_dtype_decode(t->dtype, from, 1, q->scales + (size_t)r * q->groups + g);
        }
}

/* The format of scales of one byte. */
static const struct pith_format *scale_format(enum pith_dtype dtype)
{
    return pith_format_find(dtype == PITH_F8_E8M0 ? "e8m0" : "fp8_e4m3");
}

void pith_part_scale_codes(const struct pith_tensor *t, struct pith_qmat *q)
{
    const struct pith_format *f = scale_format(q->scale_dtype);
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) q->scales[i] = f->decode(t->data[i]);
}

void pith_part_rows(const struct pith_tensor *t, size_t bytes, struct pith_qmat *q)
{
    const unsigned rest = (unsigned)((uint64_t)q->cols * q->format->bits % 8);
    if (bytes == q->stride && !rest && (uintptr_t)t->data % 4 == 0) {
        pith_qmat_borrow(q, t->data); /* a model of gigabytes is not copied */
        return;
    }
    for (uint32_t r = 0; r < q->rows; r++) {
        uint8_t *row = q->codes + r * q->stride;
        memcpy(row, t->data + r * bytes, q->stride);
        if (rest) row[q->stride - 1] &= (uint8_t)((1u << rest) - 1);
    }
}

bool pith_signed_to_codes(const struct pith_format *f, const uint8_t *in, size_t n, uint8_t *codes)
{
    const unsigned middle = pith_format_middle(f), top = (1u << f->bits) - 1;
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) {
        /* in[i] ^ 0x80 is the signed byte plus 128. */
        const unsigned u = (unsigned)(in[i] ^ 0x80) + middle - 128;
        bad |= u > top;
        codes[i] = (uint8_t)u;
    }
    return !bad;
}

enum pith_status pith_part_signed_codes(const struct pith_tensor *t, struct pith_qmat *q,
                                        struct pith_error *err)
{
    uint8_t *codes = pith_alloc(q->cols, 1);
    if (!codes) return pith_fail_nomem(err, t->name);
    enum pith_status s = PITH_OK;
    for (uint32_t r = 0; r < q->rows && s == PITH_OK; r++) {
        const uint8_t *in = t->data + (size_t)r * q->cols;
        if (pith_signed_to_codes(q->format, in, q->cols, codes)) pith_qmat_set_codes(q, r, codes);
        else
            s = pith_fail(err, PITH_FORMAT,
                          "tensor \"%.100s\": row %" PRIu32 " has values that are no %s", t->name,
                          r, q->format->name);
    }
    pith_free(codes);
    return s;
}

enum pith_status pith_part_factor(const struct pith_checkpoint *c, const char *module,
                                  const char *suffix, float *out, bool *found,
                                  struct pith_error *err)
{
    const struct pith_tensor *t = pith_part_find(c, module, suffix);
    *found = t != NULL;
    if (!t) return PITH_OK;
    uint64_t count = 1;
    for (unsigned i = 0; i < t->dims; i++) count *= t->shape[i] == 1 ? 1 : 2;
    if (count != 1)
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s\" is not one number", c->dir,
                         t->name);
    if (!(PITH_PART_FLOATS >> t->dtype & 1) || !pith_dtype_decode(t->dtype, t->data, 1, out))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: tensor \"%.100s\" has dtype %s, which its container does not use",
                         c->dir, t->name, pith_dtype_name(t->dtype));
    if (isfinite(*out) && *out > 0.0f) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s\" is %g", c->dir, t->name,
                     (double)*out);
}

void pith_qmat_drop_zeros(struct pith_qmat *q)
{
    if (!q->zeros) return;
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++)
        if (q->zeros[i] != pith_format_middle(q->format)) return;
    pith_free(q->zeros);
    q->zeros = NULL;
}

enum pith_status pith_part_check(const char *module, struct pith_qmat *q, struct pith_error *err)
{
    enum pith_status s = pith_qmat_check(q, err);
    if (s == PITH_OK) return s;
    s = pith_fail_in(err, s, module);
    pith_qmat_free(q);
    return s;
}

enum pith_status pith_part_end(const char *module, enum pith_status filled, struct pith_qmat *q,
                               bool *found, struct pith_error *err)
{
    if (filled != PITH_OK) {
        pith_qmat_free(q);
        return pith_fail_in(err, filled, module);
    }
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

void pith_packed_add(struct pith_packed_set *set, const char *suffix, enum pith_dtype dtype,
                     unsigned dims, const uint64_t *shape)
{
    struct pith_packed *p = &set->item[set->count++];
    *p = (struct pith_packed){.suffix = suffix, .dtype = dtype, .dims = dims};
    if (dims) memcpy(p->shape, shape, dims * sizeof *shape); /* a single number has no shape */
}

enum pith_status pith_packed_alloc(struct pith_packed_set *set, struct pith_error *err)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct pith_packed *p = &set->item[i];
        uint64_t bytes;
        if (pith_tensor_size(p->dtype, p->dims, p->shape, &bytes) && bytes <= SIZE_MAX)
            p->data = pith_zalloc((size_t)bytes, 1);
        if (!p->data) {
            pith_packed_free(set);
            return pith_fail_nomem(err, "packed weights");
        }
        p->bytes = (size_t)bytes;
    }
    return PITH_OK;
}

bool pith_number_store(enum pith_dtype dtype, float x, size_t at, void *out)
{
    if (!(pith_round_to(dtype, x) == x)) return false; /* NaN too */
    return pith_dtype_encode(dtype, &x, 1, (uint8_t *)out + at * (pith_dtype_bits(dtype) / 8));
}

enum pith_status pith_scales_store(const struct pith_qmat *q, enum pith_dtype dtype, bool by_group,
                                   uint32_t rows, void *out, struct pith_error *err)
{
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < q->groups; g++) {
            const bool each = rows == q->rows;
            const size_t i = each ? pith_qmat_scale_index(q, r, g) : (size_t)r * q->groups + g;
            const float scale = q->scales[i];
            const size_t at = by_group ? (size_t)g * rows + r : (size_t)r * q->groups + g;
            if (!pith_number_store(dtype, scale, at, out))
                return pith_fail(err, PITH_NUMERIC,
                                 "row %" PRIu32 ", group %" PRIu32
                                 ": scale %.9g cannot be stored as %s",
                                 r, g, (double)scale, pith_dtype_name(dtype));
        }
    return PITH_OK;
}

enum pith_status pith_scale_codes_store(const struct pith_qmat *q, uint8_t *out,
                                        struct pith_error *err)
{
    const struct pith_format *f = scale_format(q->scale_dtype);
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++) {
        const float scale = q->scales[i];
        out[i] = (uint8_t)f->encode(scale / q->global);
        /* Of a product with the global scale, which was rounded, E4M3's four bits are sure. */
        const float back = f->decode(out[i]) * q->global;
        const bool near = q->global == 1.0f ? back == scale
                                            : fabsf(back - scale) <= fabsf(scale) * 0x1p-20f;
        if (!near)
            return pith_fail(err, PITH_NUMERIC,
                             "scale %zu of a matrix, %.9g, cannot be stored as %s", i,
                             (double)scale, f->name);
    }
    return PITH_OK;
}

enum pith_status pith_signed_codes_store(const struct pith_qmat *q, int8_t *out,
                                         struct pith_error *err)
{
    const int middle = (int)pith_format_middle(q->format);
    uint8_t *codes = pith_alloc(q->cols, 1);
    if (!codes) return pith_fail_nomem(err, "codes");
    for (uint32_t r = 0; r < q->rows; r++, out += q->cols) {
        pith_qmat_get_codes(q, r, codes);
        for (uint32_t c = 0; c < q->cols; c++) out[c] = (int8_t)((int)codes[c] - middle);
    }
    pith_free(codes);
    return PITH_OK;
}

void pith_g_idx_store(const struct pith_qmat *q, int32_t *out)
{
    for (uint32_t c = 0; c < q->cols; c++)
        out[c] = (int32_t)(q->g_idx ? q->g_idx[c] : c / q->group);
}

/* --- streams of codes ------------------------------------------------------------------------- */

void pith_words_from_rows(const uint8_t *rows, size_t stride, size_t n, size_t words, uint8_t *out)
{
    transpose(rows, stride, n, words, 4, out, n * 4);
}

void pith_words_to_rows(const uint8_t *in, size_t n, size_t words, uint8_t *rows, size_t stride)
{
    transpose(in, n * 4, words, n, 4, rows, stride);
}

enum pith_status pith_zeros_store(const struct pith_qmat *q, unsigned minus, uint8_t *out,
                                  struct pith_error *err)
{
    const unsigned bits = q->format->bits;
    const size_t bytes = (size_t)pith_stream_words(q->rows, bits) * 4;
    uint8_t *column = pith_alloc(q->rows, 1);
    if (!column) return pith_fail_nomem(err, "zero points");
    for (uint32_t g = 0; g < q->groups; g++) {
        for (uint32_t r = 0; r < q->rows; r++) {
            const float zero = pith_qmat_zero(q, pith_qmat_scale_index(q, r, g));
            column[r] = (uint8_t)((unsigned)zero - minus);
        }
        pith_bits_put(out + g * bytes, 0, bits, q->rows, column);
    }
    pith_free(column);
    return PITH_OK;
}

enum pith_status pith_zeros_read(const uint8_t *in, unsigned plus, struct pith_qmat *q,
                                 struct pith_error *err)
{
    const unsigned bits = q->format->bits, top = (1u << bits) - 1;
    const size_t bytes = (size_t)pith_stream_words(q->rows, bits) * 4;
    uint8_t *column = pith_alloc(q->rows, 1);
    if (!column) return pith_fail_nomem(err, "zero points");
    enum pith_status s = PITH_OK;
    for (uint32_t g = 0; g < q->groups && s == PITH_OK; g++) {
        pith_bits_get(in + g * bytes, 0, bits, q->rows, column);
        for (uint32_t r = 0; r < q->rows; r++) {
            if (column[r] + plus > top) {
                s = pith_fail(err, PITH_FORMAT,
                              "row %" PRIu32 ", group %" PRIu32
                              ": the zero point is stored as %u, which readers take for %u or 0",
                              r, g, (unsigned)column[r], column[r] + plus);
                break;
            }
            q->zeros[(size_t)r * q->groups + g] = (uint8_t)(column[r] + plus);
        }
    }
    pith_free(column);
    return s;
}

/* --- configs ---------------------------------------------------------------------------------- */

const struct pith_format *pith_int_format(unsigned bits)
{
    static const char *const names[] = {NULL,   NULL,   "int2", "int3", "int4",
                                        "int5", "int6", "int7", "int8"};
    return bits >= 2 && bits < PITH_COUNT(names) ? pith_format_find(names[bits]) : NULL;
}

enum pith_status pith_accepts_ints(const char *who, const struct pith_grid *grid, uint32_t mask,
                                   struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    if (!grid->format || grid->format->kind != PITH_KIND_INT || !(mask >> grid->format->bits & 1)) {
        char allowed[40] = "";
        for (unsigned b = 2; b <= 8; b++)
            if (mask >> b & 1) {
                const size_t n = strlen(allowed);
                (void)snprintf(allowed + n, sizeof allowed - n, "%sint%u", n ? ", " : "", b);
            }
        return pith_fail(err, PITH_UNSUPPORTED, "%s cannot hold %s weights; it holds %s", who,
                         grid->format ? grid->format->name : "unquantized", allowed);
    }
    pith_grid_format(grid, text);
    if (grid->granularity == PITH_PER_BLOCK || grid->granularity == PITH_PER_TOKEN ||
        grid->granularity == PITH_PER_HEAD)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s cannot hold %s: scales are by tensor, channel or group", who, text);
    if (grid->double_quant)
        return pith_fail(err, PITH_UNSUPPORTED, "%s cannot hold %s: it has no quantized scales",
                         who, text);
    if (grid->hqq && !(mask & PITH_ANY_ZEROS))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s cannot hold %s: its zero points are whole numbers; use the container "
                         "hqq, or mse instead of hqq",
                         who, text);
    return PITH_OK;
}

enum pith_dtype pith_scale_half(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    return model_dtype == PITH_BF16 ? PITH_BF16 : PITH_F16;
}

/* True when the last component of the module's name is `name`. */
static bool module_ends(const char *module, const char *name)
{
    const char *dot = strrchr(module, '.');
    return strcmp(dot ? dot + 1 : module, name) == 0;
}

bool pith_module_is_head(const char *module)
{
    return module_ends(module, "lm_head") || strcmp(module, "embed_out") == 0;
}

size_t *pith_distinct_grids(const struct pith_linear_grid *linears, size_t count, size_t *distinct)
{
    size_t n = 0, *first = pith_alloc(count + 1, sizeof *first);
    for (size_t i = 0; first && i < count; i++) {
        size_t k = 0;
        while (k < n && !pith_grid_equal(&linears[first[k]].grid, &linears[i].grid)) k++;
        if (k == n && linears[i].grid.format) first[n++] = i;
    }
    *distinct = n;
    return first;
}

bool pith_module_is_embedding(const char *module)
{
    static const char *const names[] = {"embed_tokens", "embed_tokens_per_layer", "embed_in",
                                        "wte"};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        if (module_ends(module, names[i])) return true;
    return false;
}

json_t *pith_ignored_modules(const struct pith_linear_grid *linears, size_t count)
{
    json_t *list = json_array();
    bool ok = list != NULL, head = false;
    for (size_t i = 0; i < count && ok; i++) {
        head |= pith_module_is_head(linears[i].module);
        if (!linears[i].grid.format)
            ok = json_array_append_new(list, json_string(linears[i].module)) == 0;
    }
    if (ok && !head) ok = json_array_append_new(list, json_string("lm_head")) == 0;
    if (ok) return list;
    json_decref(list);
    return NULL;
}
