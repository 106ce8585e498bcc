/* The pith container: codes of pith's own, which no other program has. For a linear W[N, K] of b
 * bits a weight, N and K multiples of 128:
 *     tiles    U8  [N / 16, K / 16, 32 b]  tiles of 16 outputs and 16 inputs (num/trellis.h)
 *     columns  F16 [K]                     factors of the inputs
 *     rows     F16 [N]                     factors of the outputs
 *
 * config.json names the code, one for all: "code": "mul2". */
#include "io/container.h"

#include "base/mem.h"
#include "io/parts.h"
#include "num/trellis.h"

#include <inttypes.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, SIDE = PITH_TRELLIS_BLOCK };
static const char CODE[] = "mul2";

/* --- writing ------------------------------------------------------------------------------- */

static bool ours(const struct pith_format *f)
{
    return pith_trellis_is(f) && pith_trellis_code_of(f) == PITH_TRELLIS_MUL2;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    if (!ours(grid->format))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "the container pith holds trellis1_mul2 to trellis8_mul2, not %s",
                         grid->format->name);
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "the container pith has no place for quantized inputs; use --acts none");
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "the container pith cannot hold a matrix of %" PRIu32 " x %" PRIu32
                         ": both must be multiples of %d",
                         rows, cols, SIDE);
    return PITH_OK;
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F16;
}

static void shape_set(const struct pith_format *f, uint32_t rows, uint32_t cols,
                      struct pith_packed_set *out)
{
    *out = (struct pith_packed_set){0};
    pith_packed_add(out, ".tiles", PITH_U8, 3,
                    (const uint64_t[]){rows / TILE, cols / TILE, pith_trellis_bytes(f->bits)});
    pith_packed_add(out, ".columns", PITH_F16, 1, (const uint64_t[]){cols});
    pith_packed_add(out, ".rows", PITH_F16, 1, (const uint64_t[]){rows});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    shape_set(grid->format, rows, cols, out);
    return PITH_OK;
}

static enum pith_status store_halves(const char *what, const float *from, size_t n, uint16_t *to,
                                     struct pith_error *err)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = pith_f32_to_f16(from[i]);
        if (pith_f16_to_f32(to[i]) != from[i])
            return pith_fail(err, PITH_NUMERIC, "pith: %s %zu is %g, which F16 does not hold", what,
                             i, (double)from[i]);
    }
    return PITH_OK;
}

static enum pith_status fill_packed(const struct pith_qmat *q, struct pith_packed_set *out,
                                    struct pith_error *err)
{
    memcpy(out->item[0].data, q->codes, (size_t)q->rows * q->stride);
    PITH_TRY(store_halves("the factor of input", q->levels, q->cols, out->item[1].data, err));
    return store_halves("the factor of output", q->scales, q->rows, out->item[2].data, err);
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = {.format = q->format};
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    if (q->input.grid.format)
        return pith_fail(err, PITH_ARG, "the container pith does not quantize inputs");
    shape_set(q->format, q->rows, q->cols, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status st = fill_packed(q, out, err);
    if (st != PITH_OK) pith_packed_free(out);
    return st;
}

static enum pith_status config(const struct pith_linear_grid *linears, size_t count,
                               const struct pith_container_opts *opts, json_t **out,
                               struct pith_error *err)
{
    bool any = false;
    (void)opts;
    for (size_t i = 0; i < count; i++) any |= linears[i].grid.format != NULL;
    if (!any) return pith_fail(err, PITH_ARG, "pith: no linear is quantized");
    *out = json_pack("{s:s, s:s}", "quant_method", "pith", "code", CODE);
    return *out ? PITH_OK : pith_fail_nomem(err, "the config");
}

/* --- reading ------------------------------------------------------------------------------- */

static enum pith_status open_checked(const struct pith_checkpoint *c, void **state,
                                     struct pith_error *err)
{
    const char *code = NULL;
    *state = NULL;
    PITH_TRY(pith_json_get_str(c->quantization, "code", &code, c->dir, err));
    if (code && strcmp(code, CODE) == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: codes of pith's own \"%.60s\", which this version cannot read", c->dir,
                     code ? code : "");
}

static enum pith_status fail_tiles(const struct pith_tensor *t, struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": no shape or type of tiles", t->name);
}

/* The format that a module's tiles show; NULL when it is not quantized. */
static enum pith_status format_of(const struct pith_checkpoint *c, const char *module,
                                  const struct pith_format **out, struct pith_error *err)
{
    const struct pith_tensor *t = pith_part_find(c, module, ".tiles");
    const size_t each = pith_trellis_bytes(1);
    *out = NULL;
    if (!t) return PITH_OK;
    const uint64_t width = t->dims == 3 ? t->shape[2] : 0;
    if (t->dtype != PITH_U8 || width == 0 || width % each || width / each > 8)
        return fail_tiles(t, err);
    *out = pith_trellis_format(PITH_TRELLIS_MUL2, (unsigned)(width / each));
    return PITH_OK;
}

static enum pith_status load_factors(const struct pith_checkpoint *c, const char *module,
                                     const char *suffix, uint64_t n, float *to,
                                     struct pith_error *err)
{
    const struct pith_part part = {suffix, 1u << PITH_F16, 1, {n}};
    const struct pith_tensor *t;
    PITH_TRY(pith_part_get(c, module, &part, &t, err));
    (void)pith_dtype_decode(t->dtype, t->data, (size_t)n, to);
    return PITH_OK;
}

static enum pith_status fill(const struct pith_checkpoint *c, const char *module,
                             struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_tensor *t = pith_part_find(c, module, ".tiles");
    if (t->shape[0] != q->rows / TILE || t->shape[1] != q->cols / TILE) return fail_tiles(t, err);
    memcpy(q->codes, t->data, (size_t)q->rows * q->stride);
    PITH_TRY(load_factors(c, module, ".columns", q->cols, q->levels, err));
    return load_factors(c, module, ".rows", q->rows, q->scales, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    static const char *const parts[] = {".columns", ".rows"};
    struct pith_grid grid = {.granularity = PITH_PER_CHANNEL};
    (void)state;
    *found = false;
    PITH_TRY(format_of(c, module, &grid.format, err));
    for (size_t i = 0; !grid.format && i < PITH_COUNT(parts); i++)
        PITH_TRY(pith_part_absent(c, module, parts[i], "there are no tiles", err));
    if (!grid.format) return PITH_OK;
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" is %" PRIu32 " x %" PRIu32 ", no multiples of %d", c->dir,
                         module, rows, cols, SIDE);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F16, err));
    return pith_part_end(module, fill(c, module, q, err), q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    (void)state;
    (void)opts;
    *grid = (struct pith_grid){.granularity = PITH_PER_CHANNEL};
    PITH_TRY(format_of(c, module, &grid->format, err));
    if (!grid->format) *grid = (struct pith_grid){0};
    return PITH_OK;
}

const struct pith_container pith_container_pith = {
    .name = "pith",
    .summary = "pith itself: 1 to 8 bits by a trellis whose numbers are made in few instructions",
    .method = "pith",
    .unloaded = "no other program has its code",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .open = open_checked,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
