/* pack-quantized: integers of 2 to 8 bits in words. For a linear W[N, K]:
 *     weight_packed      I32 [N, ceil(K * bits / 32)]   codes of a row, a dense stream
 *     weight_scale       model dtype
 *     weight_shape       I64 [2]
 *     weight_zero_point  I32 [ceil(N * bits / 32), G]   of a group, a dense stream along N;
 *                        I8 [1] for a scale of the tensor
 *     weight_g_idx       I32 [K]                        with act-order groups
 * Codes and zero points are signed, offset by 2^(bits - 1): the offsets cancel. Before version
 * 0.18, a word had floor(32 / bits) codes; that is read as well.
 *
 * Sources: compressed-tensors compressors/pack_quantized; vLLM compressed_tensors_wNa16.py. */
#include "io/ct/form.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static bool holds(const struct pith_grid *weights)
{
    return weights->format->kind == PITH_KIND_INT;
}

/* With inputs in integers, bytes are the layout. */
static bool writes(const struct pith_grid *weights, const struct pith_grid *inputs)
{
    (void)inputs; /* the row of int-quantized comes first */
    return holds(weights);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void shape(const struct pith_ct_matrix *m, struct pith_packed_set *out)
{
    const unsigned bits = m->format->bits;
    const uint64_t packed[] = {m->rows, pith_stream_words(m->cols, bits)};
    const uint64_t zeros[] = {pith_stream_words(m->rows, bits), m->groups};
    pith_packed_add(out, ".weight_packed", PITH_I32, 2, packed);
    pith_ct_add_scale(m, out);
    pith_packed_add(out, ".weight_shape", PITH_I64, 1, (const uint64_t[]){2});
    if (m->asym && m->tensor)
        pith_packed_add(out, ".weight_zero_point", PITH_I8, 1, (const uint64_t[]){1});
    else if (m->asym) pith_packed_add(out, ".weight_zero_point", PITH_I32, 2, zeros);
    if (m->g_idx) pith_packed_add(out, ".weight_g_idx", PITH_I32, 1, (const uint64_t[]){m->cols});
}

static enum pith_status store_zeros(const struct pith_qmat *q, const struct pith_packed *p,
                                    struct pith_error *err)
{
    if (p->dtype == PITH_I8) {
        pith_ct_store_zero_bytes(q, p->data);
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

static enum pith_status fill(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err)
{
    const size_t bytes = (size_t)pith_stream_words(q->cols, q->format->bits) * 4;
    uint8_t *packed = pith_ct_item(set, ".weight_packed")->data;
    for (uint32_t r = 0; r < q->rows; r++)
        memcpy(packed + r * bytes, q->codes + r * q->stride, q->stride);
    const int64_t size[2] = {q->rows, q->cols};
    memcpy(pith_ct_item(set, ".weight_shape")->data, size, sizeof size);
    PITH_TRY(pith_ct_store_scale(q, m, set, err));
    if (m->asym) PITH_TRY(store_zeros(q, pith_ct_item(set, ".weight_zero_point"), err));
    if (m->g_idx) pith_g_idx_store(q, pith_ct_item(set, ".weight_g_idx")->data);
    return PITH_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

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

static enum pith_status check_shape(const struct pith_ct_source *s, struct pith_error *err)
{
    const struct pith_part want = {".weight_shape", 1u << PITH_I64 | 1u << PITH_I32, 1, {2}};
    const struct pith_tensor *t = NULL;
    PITH_TRY(pith_part_get(s->c, s->module, &want, &t, err));
    int64_t size[2];
    if (t->dtype == PITH_I64) {
        memcpy(size, t->data, sizeof size);
    } else {
        int32_t s32[2];
        memcpy(s32, t->data, sizeof s32);
        size[0] = s32[0];
        size[1] = s32[1];
    }
    if (size[0] == s->rows && size[1] == s->cols) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: tensor \"%.100s\" says %" PRId64 " x %" PRId64
                     ", but the config requires %" PRIu32 " x %" PRIu32,
                     s->c->dir, t->name, size[0], size[1], s->rows, s->cols);
}

static enum pith_status find_codes(const struct pith_ct_source *s, struct tensors *t,
                                   struct pith_error *err)
{
    PITH_TRY(check_shape(s, err));
    const unsigned bits = s->scheme->weights.format->bits;
    const uint64_t dense = pith_stream_words(s->cols, bits), older = older_words(s->cols, bits);
    const struct pith_tensor *found = pith_part_find(s->c, s->module, ".weight_packed");
    t->dense = true;
    if (found && found->dims == 2 && found->shape[1] == older && dense != older) t->dense = false;
    else if (dense == older && s->config->dense_known) t->dense = s->config->dense;
    const struct pith_part codes = {
        ".weight_packed", 1u << PITH_I32, 2, {s->rows, t->dense ? dense : older}};
    PITH_TRY(pith_part_get(s->c, s->module, &codes, &t->codes, err));
    return pith_part_absent(s->c, s->module, ".weight", "the module is packed", err);
}

static enum pith_status find_zeros(const struct pith_ct_source *s, struct tensors *t,
                                   struct pith_error *err)
{
    const struct pith_grid *g = &s->scheme->weights;
    struct pith_part want = {".weight_zero_point", 1u << PITH_I8, t->scale->dims, {0}};
    memcpy(want.shape, t->scale->shape, sizeof want.shape);
    if (g->granularity != PITH_PER_TENSOR) {
        const unsigned bits = g->format->bits;
        want.dtypes = 1u << PITH_I32;
        want.shape[0] = t->dense ? pith_stream_words(s->rows, bits) : older_words(s->rows, bits);
    }
    if (g->asym) return pith_part_get(s->c, s->module, &want, &t->zeros, err);
    return pith_part_absent(s->c, s->module, want.suffix, "the config says symmetric", err);
}

static enum pith_status find_tensors(const struct pith_ct_source *s, struct tensors *t,
                                     struct pith_error *err)
{
    const struct pith_part order = {".weight_g_idx", 1u << PITH_I32, 1, {s->cols}};
    PITH_TRY(find_codes(s, t, err));
    PITH_TRY(pith_ct_find_scale(s, PITH_PART_FLOATS, &t->scale, err));
    PITH_TRY(find_zeros(s, t, err));
    if (!s->scheme->g_idx)
        return pith_part_absent(s->c, s->module, order.suffix, "actorder is not group", err);
    const bool one = s->scheme->weights.group == s->cols;
    if (one && !pith_part_find(s->c, s->module, order.suffix)) return PITH_OK;
    return pith_part_get(s->c, s->module, &order, &t->g_idx, err);
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
    if (t->dense) {
        pith_part_rows(t->codes, bytes, q);
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

static enum pith_status read_zeros(const struct tensors *t, struct pith_qmat *q,
                                   struct pith_error *err)
{
    const struct pith_tensor *z = t->zeros;
    const unsigned bits = q->format->bits;
    if (z->dtype == PITH_I8) return pith_ct_read_zero_bytes(z, q, err);
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

static enum pith_status load(const struct pith_ct_source *s, struct pith_qmat *q,
                             struct pith_error *err)
{
    struct tensors t = {0};
    PITH_TRY(find_tensors(s, &t, err));
    PITH_TRY(pith_ct_init(s, t.scale->dtype, q, err));
    PITH_TRY(read_rows(&t, q, err));
    pith_part_scales(t.scale, false, q);
    if (t.zeros) PITH_TRY(read_zeros(&t, q, err));
    return t.g_idx ? pith_part_g_idx(t.g_idx, q, err) : PITH_OK;
}

const struct pith_ct_form pith_ct_pack_quantized = {
    .name = "pack-quantized",
    .writes = writes,
    .holds = holds,
    .shape = shape,
    .fill = fill,
    .load = load,
};
