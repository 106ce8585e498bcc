/* The squeezellm container. For a linear W[N, K] with b = 3 or 4 bits:
 *     qweight      I32 [K * b / 32, N]   word w of column n: codes of row n, a dense stream along K
 *     lookup_table F32 [N, 2^b]          the levels of row n
 * and, where weights are stored off the grid, in compressed rows,
 *     rows         I32 [N + 1]           where the weights of row n begin
 *     cols         I32 [nnz]             their inputs, ascending
 *     vals         F32 [nnz]             what they are beyond the level that their code names
 *
 * Source: SqueezeLLM squeezellm/quant.py (QuantLinearLUT.pack2) and quantization/pack.py, which
 * save it with torch.save; here the same tensors lie in safetensors files, with "wbits" in
 * config.json and in the quant_config.json that its loader reads. startrows, a table for one of its
 * kernels, follows from rows and is not written; full_rows, its mixed form, is not read. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ALIGN 32 /* codes of a column fill whole words */

/* --- writing ---------------------------------------------------------------------------------- */

static const struct pith_format *format_of(int64_t bits)
{
    return bits == 3   ? pith_format_find("codebook3")
           : bits == 4 ? pith_format_find("codebook4")
                       : NULL;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    if (grid->format->kind != PITH_KIND_LEVELS)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "squeezellm holds codebook3 and codebook4, one row's levels each, not %s",
                         grid->format->name);
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "squeezellm has no place for quantized inputs; use `acts=none`");
    if (opts->sparse < 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "squeezellm stores a number of weights off the grid that is given before "
                         "the work; how many this checkpoint has is not known then");
    if (cols % ALIGN)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "squeezellm cannot hold a matrix of %" PRIu32 " x %" PRIu32
                         ": inputs must be a multiple of %d",
                         rows, cols, ALIGN);
    return PITH_OK;
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F16; /* of the levels */
}

static void shape_set(unsigned bits, uint32_t rows, uint32_t cols, uint64_t count,
                      struct pith_packed_set *out)
{
    *out = (struct pith_packed_set){0};
    const uint64_t words = pith_stream_words(cols, bits);
    pith_packed_add(out, ".qweight", PITH_I32, 2, (const uint64_t[]){words, rows});
    pith_packed_add(out, ".lookup_table", PITH_F32, 2, (const uint64_t[]){rows, 1u << bits});
    if (count == 0) return;
    pith_packed_add(out, ".rows", PITH_I32, 1, (const uint64_t[]){(uint64_t)rows + 1});
    pith_packed_add(out, ".cols", PITH_I32, 1, (const uint64_t[]){count});
    pith_packed_add(out, ".vals", PITH_F32, 1, (const uint64_t[]){count});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const size_t count = opts->sparse > 0 ? pith_sparse_count(rows, cols, opts->sparse) : 0;
    shape_set(grid->format->bits, rows, cols, count, out);
    return PITH_OK;
}

/* q says nothing that has no place here. */
static enum pith_status check_matrix(const struct pith_qmat *q,
                                     const struct pith_container_opts *opts, struct pith_error *err)
{
    const struct pith_grid grid = {.format = q->format};
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    if (q->input.grid.format)
        return pith_fail(err, PITH_ARG, "squeezellm does not quantize inputs");
    for (uint32_t r = 0; r < q->rows; r++)
        if (q->scales[r] != 1.0f)
            return pith_fail(err, PITH_ARG, "squeezellm: row %" PRIu32 " has a scale and levels",
                             r);
    if (q->sparse && q->sparse->start[q->rows] > INT32_MAX)
        return pith_fail(err, PITH_UNSUPPORTED, "squeezellm: too many weights off the grid");
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    PITH_TRY(check_matrix(q, opts, err));
    const struct pith_sparse *s = q->sparse;
    const size_t count = s ? s->start[q->rows] : 0, levels = (size_t)q->rows << q->format->bits;
    shape_set(q->format->bits, q->rows, q->cols, count, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const size_t words = (size_t)pith_stream_words(q->cols, q->format->bits);
    pith_words_from_rows(q->codes, q->stride, q->rows, words, out->item[0].data);
    memcpy(out->item[1].data, q->levels, levels * sizeof *q->levels);
    if (count == 0) return PITH_OK;
    memcpy(out->item[2].data, s->start, ((size_t)q->rows + 1) * sizeof *s->start);
    memcpy(out->item[3].data, s->col, count * sizeof *s->col);
    memcpy(out->item[4].data, s->value, count * sizeof *s->value);
    return PITH_OK;
}

/* One width for the whole model is all that "wbits" can say. */
static enum pith_status config(const struct pith_linear_grid *linears, size_t count,
                               const struct pith_container_opts *opts, json_t **out,
                               struct pith_error *err)
{
    unsigned bits = 0;
    (void)opts;
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = linears[i].grid.format;
        if (!f) continue;
        if (bits && f->bits != bits)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: squeezellm has one width a model, %u or %u bits",
                             linears[i].module, bits, (unsigned)f->bits);
        bits = f->bits;
    }
    if (!bits) return pith_fail(err, PITH_ARG, "squeezellm: no linear is quantized");
    *out = json_pack("{s:s, s:i}", "quant_method", "squeezellm", "wbits", (int)bits);
    return *out ? PITH_OK : pith_fail_nomem(err, "the config");
}

/* What the authors' loader reads. */
static enum pith_status extra_file(const json_t *quantization, const char **name, json_t **out,
                                   struct pith_error *err)
{
    *name = "quant_config.json";
    *out = json_pack("{s:O}", "wbits", json_object_get(quantization, "wbits"));
    return *out ? PITH_OK : pith_fail_nomem(err, *name);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct state {
    const struct pith_format *format;
};

static enum pith_status open_config(const struct pith_checkpoint *c, void **out,
                                    struct pith_error *err)
{
    int64_t bits = 0;
    char where[512];
    snprintf(where, sizeof where, "%.400s: quantization_config", c->dir);
    PITH_TRY(pith_json_get_int(c->quantization, "wbits", 1, 32, &bits, where, err));
    const struct pith_format *format = format_of(bits);
    if (!format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: squeezellm with %" PRId64 " bits; there are 3 and 4", where, bits);
    struct state *s = pith_zalloc(1, sizeof *s);
    if (!s) return pith_fail_nomem(err, where);
    s->format = format;
    *out = s;
    return PITH_OK;
}

static void close_config(void *state)
{
    pith_free(state);
}

/* The weights off the grid, when there are any. */
static enum pith_status load_sparse(const struct pith_checkpoint *c, const char *module,
                                    struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_tensor *vals = pith_part_find(c, module, ".vals"), *rows, *cols;
    if (!vals) {
        PITH_TRY(pith_part_absent(c, module, ".rows", "there are no vals", err));
        return pith_part_absent(c, module, ".cols", "there are no vals", err);
    }
    const uint64_t most = (uint64_t)q->rows * q->cols;
    const uint64_t count = vals->dims == 1 && vals->shape[0] <= most ? vals->shape[0] : 0;
    if (count == 0 || count > INT32_MAX)
        return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": its shape cannot be that of weights",
                         vals->name);
    const struct pith_part value = {".vals", 1u << PITH_F32, 1, {count}};
    const struct pith_part start = {".rows", 1u << PITH_I32, 1, {(uint64_t)q->rows + 1}};
    const struct pith_part col = {".cols", 1u << PITH_I32, 1, {count}};
    PITH_TRY(pith_part_get(c, module, &value, &vals, err));
    PITH_TRY(pith_part_get(c, module, &start, &rows, err));
    PITH_TRY(pith_part_get(c, module, &col, &cols, err));
    q->sparse = pith_sparse_new(q->rows, (size_t)count);
    if (!q->sparse) return pith_fail_nomem(err, module);
    memcpy(q->sparse->start, rows->data, ((size_t)q->rows + 1) * sizeof(uint32_t));
    memcpy(q->sparse->col, cols->data, (size_t)count * sizeof(uint32_t));
    memcpy(q->sparse->value, vals->data, (size_t)count * sizeof(float));
    if (q->sparse->start[0] == 0 && q->sparse->start[q->rows] == count) return PITH_OK;
    /* Nobody may believe it, not even to look at the rest. */
    pith_sparse_free(q->sparse);
    q->sparse = NULL;
    return pith_fail(err, PITH_FORMAT,
                     "tensor \"%.100s\": rows do not begin at 0 and end at %" PRIu64, rows->name,
                     count);
}

static enum pith_status fill(const struct pith_checkpoint *c, const char *module,
                             struct pith_qmat *q, struct pith_error *err)
{
    const uint64_t words = pith_stream_words(q->cols, q->format->bits);
    const size_t levels = (size_t)q->rows << q->format->bits;
    const struct pith_part codes = {".qweight", 1u << PITH_I32, 2, {words, q->rows}};
    const struct pith_part table = {
        ".lookup_table", PITH_PART_FLOATS, 2, {q->rows, (uint64_t)1 << q->format->bits}};
    const struct pith_tensor *t;
    PITH_TRY(pith_part_get(c, module, &codes, &t, err));
    pith_words_to_rows(t->data, q->rows, (size_t)words, q->codes, q->stride);
    PITH_TRY(pith_part_get(c, module, &table, &t, err));
    (void)pith_dtype_decode(t->dtype, t->data, levels, q->levels);
    for (uint32_t r = 0; r < q->rows; r++) q->scales[r] = 1.0f;
    return load_sparse(c, module, q, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    static const char *const suffixes[] = {".qweight", ".lookup_table", ".rows", ".cols", ".vals"};
    const struct state *s = state;
    const struct pith_grid grid = {.format = s->format, .granularity = PITH_PER_CHANNEL};
    bool any = false;
    *found = false;
    for (size_t i = 0; i < PITH_COUNT(suffixes); i++)
        any |= pith_part_find(c, module, suffixes[i]) != NULL;
    if (!any) return PITH_OK;
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    PITH_TRY(
        pith_part_absent(c, module, ".full_rows", "whole rows off the grid are not read", err));
    if (cols % ALIGN)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" has %" PRIu32 " inputs, and squeezellm holds multiples of"
                         " %d",
                         c->dir, module, cols, ALIGN);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F16, err));
    return pith_part_end(module, fill(c, module, q, err), q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct state *s = state;
    (void)err;
    *grid = (struct pith_grid){0};
    if (!pith_part_find(c, module, ".qweight")) return PITH_OK;
    if (pith_part_find(c, module, ".vals")) opts->sparse = -1;
    *grid = (struct pith_grid){.format = s->format, .granularity = PITH_PER_CHANNEL};
    return PITH_OK;
}

const struct pith_container pith_container_squeezellm = {
    .name = "squeezellm",
    .summary = "SqueezeLLM: 3 and 4 bits by each row's own levels, and weights off the grid; for "
               "pith alone",
    .method = "squeezellm",
    .holds = PITH_QMAT_SPARSE,
    .unloaded = "no engine loads it since vLLM dropped it in 2024",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .extra_file = extra_file,
    .open = open_config,
    .load = load,
    .describe = describe,
    .close = close_config,
};
