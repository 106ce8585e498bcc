/* The exl3 container: exllamav3's. For a linear W[N, K] of b bits a weight, N and K multiples of
 * 128:
 *     trellis  I16 [K / 16, N / 16, 16 b]  tiles of 16 inputs and 16 outputs (num/trellis.h)
 *     suh      F16 [K]                     factors of the inputs
 *     svh      F16 [N]                     factors of the outputs
 *     mcg, mul1  I32 []                    one of them: the code, by its multiplier; neither: 3inst
 *
 * Older files have signs alone in suh's and svh's place:
 *     su, sv   I16 [K / 16], [N / 16]      a bit each, lowest first, set: -1
 *
 * Source: exllamav3 modules/quant/exl3.py, exl3_lib/quantize.py, conversion/compile.py. Its
 * quantization_config.json, a list of what is in the files' headers, is for transformers and is not
 * written. */
#include "io/container.h"

#include "base/mem.h"
#include "io/parts.h"
#include "num/trellis.h"

#include <inttypes.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, SIDE = PITH_TRELLIS_BLOCK };

static const struct {
    enum pith_trellis_code code;
    const char *suffix, *name;
    uint32_t multiplier;
} codes[] = {
    {PITH_TRELLIS_MCG, ".mcg", "mcg", 0xcbac1fed},
    {PITH_TRELLIS_MUL1, ".mul1", "mul1", 0x83dcd12d},
};

/* --- writing ------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    if (!pith_trellis_is(grid->format))
        return pith_fail(err, PITH_UNSUPPORTED, "exl3 holds trellis1 to trellis8, not %s",
                         grid->format->name);
    if (pith_trellis_code_of(grid->format) == PITH_TRELLIS_MUL2)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "exl3 does not hold %s: exllamav3 has no code mul2; --container pith does",
                         grid->format->name);
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "exl3 has no place for quantized inputs; use --acts none");
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "exl3 cannot hold a matrix of %" PRIu32 " x %" PRIu32
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
    pith_packed_add(out, ".trellis", PITH_I16, 3,
                    (const uint64_t[]){cols / TILE, rows / TILE, (uint64_t)TILE * f->bits});
    pith_packed_add(out, ".suh", PITH_F16, 1, (const uint64_t[]){cols});
    pith_packed_add(out, ".svh", PITH_F16, 1, (const uint64_t[]){rows});
    for (size_t i = 0; i < PITH_COUNT(codes); i++)
        if (codes[i].code == pith_trellis_code_of(f))
            pith_packed_add(out, codes[i].suffix, PITH_I32, 0, NULL);
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    shape_set(grid->format, rows, cols, out);
    return PITH_OK;
}

/* The file's tiles go by inputs, the matrix's by outputs: out is true for the way to the file. */
static void move_tiles(const struct pith_qmat *q, uint8_t *file, bool out)
{
    const size_t bytes = pith_trellis_bytes(q->format->bits), rows = q->rows / TILE;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < q->cols / TILE; c++) {
            uint8_t *own = q->codes + pith_trellis_tile_at(q, r, c);
            uint8_t *there = file + (c * rows + r) * bytes;
            memcpy(out ? there : own, out ? own : there, bytes);
        }
}

static enum pith_status store_halves(const char *what, const float *from, size_t n, uint16_t *to,
                                     struct pith_error *err)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = pith_f32_to_f16(from[i]);
        if (pith_f16_to_f32(to[i]) != from[i])
            return pith_fail(err, PITH_NUMERIC, "exl3: %s %zu is %g, which F16 does not hold", what,
                             i, (double)from[i]);
    }
    return PITH_OK;
}

static enum pith_status fill_packed(const struct pith_qmat *q, struct pith_packed_set *out,
                                    struct pith_error *err)
{
    move_tiles(q, out->item[0].data, true);
    for (size_t i = 0; out->count > 3 && i < PITH_COUNT(codes); i++)
        if (codes[i].code == pith_trellis_code_of(q->format))
            memcpy(out->item[3].data, &codes[i].multiplier, sizeof codes[i].multiplier);
    PITH_TRY(store_halves("the factor of input", q->levels, q->cols, out->item[1].data, err));
    return store_halves("the factor of output", q->scales, q->rows, out->item[2].data, err);
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = {.format = q->format};
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    if (q->input.grid.format)
        return pith_fail(err, PITH_ARG, "exl3 does not quantize inputs");
    shape_set(q->format, q->rows, q->cols, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status st = fill_packed(q, out, err);
    if (st != PITH_OK) pith_packed_free(out);
    return st;
}

/* "bits" is a mean; readers go by the tensors. The head is among the linears, or in 16 bits. */
static enum pith_status config(const struct pith_linear_grid *linears, size_t count,
                               const struct pith_container_opts *opts, json_t **out,
                               struct pith_error *err)
{
    size_t quantized = 0, sum = 0;
    unsigned head = 16;
    const char *code = "3inst";
    (void)opts;
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = linears[i].grid.format;
        if (f && pith_module_is_head(linears[i].module)) head = f->bits;
        if (!f || pith_module_is_head(linears[i].module)) continue;
        quantized++;
        sum += f->bits;
        for (size_t k = 0; k < PITH_COUNT(codes); k++)
            if (codes[k].code == pith_trellis_code_of(f)) code = codes[k].name;
    }
    if (!quantized) return pith_fail(err, PITH_ARG, "exl3: no linear is quantized");
    *out = json_pack("{s:s, s:s, s:f, s:i, s:s}", "quant_method", "exl3", "version", "1.4.1",
                     "bits", (double)sum / (double)quantized, "head_bits", (int)head, "codebook",
                     code);
    return *out ? PITH_OK : pith_fail_nomem(err, "the config");
}

/* --- reading ------------------------------------------------------------------------------- */

static enum pith_status fail_shape(const struct pith_tensor *t, struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": its shape or type is not exl3's",
                     t->name);
}

/* The format that a module's tensors show; NULL when it is not quantized. */
static enum pith_status format_of(const struct pith_checkpoint *c, const char *module,
                                  const struct pith_format **out, const struct pith_tensor **tiles,
                                  struct pith_error *err)
{
    const struct pith_tensor *t = pith_part_find(c, module, ".trellis");
    enum pith_trellis_code code = PITH_TRELLIS_3INST;
    *out = NULL;
    *tiles = t;
    if (!t) return PITH_OK;
    const uint64_t width = t->dims == 3 ? t->shape[2] : 0;
    if (t->dtype != PITH_I16 || width == 0 || width % TILE || width / TILE > 8)
        return fail_shape(t, err);
    for (size_t i = 0; i < PITH_COUNT(codes); i++)
        if (pith_part_find(c, module, codes[i].suffix)) code = codes[i].code;
    if (code == PITH_TRELLIS_MUL1)
        PITH_TRY(pith_part_absent(c, module, ".mcg", "it has a mul1 as well", err));
    *out = pith_trellis_format(code, (unsigned)(width / TILE));
    return PITH_OK;
}

/* n factors, or their signs alone. */
static enum pith_status load_factors(const struct pith_checkpoint *c, const char *module,
                                     const char *const suffix[2], uint64_t n, float *to,
                                     struct pith_error *err)
{
    const struct pith_part halves = {suffix[0], 1u << PITH_F16, 1, {n}};
    const struct pith_part signs = {suffix[1], 1u << PITH_I16, 1, {n / 16}};
    const struct pith_tensor *t;
    if (!pith_part_find(c, module, suffix[0]) && pith_part_find(c, module, suffix[1])) {
        PITH_TRY(pith_part_get(c, module, &signs, &t, err));
        const uint8_t *bits = t->data;
        for (uint64_t i = 0; i < n; i++) to[i] = bits[i / 8] >> i % 8 & 1 ? -1.0f : 1.0f;
        return PITH_OK;
    }
    PITH_TRY(pith_part_get(c, module, &halves, &t, err));
    (void)pith_dtype_decode(t->dtype, t->data, (size_t)n, to);
    return PITH_OK;
}

static enum pith_status fill(const struct pith_checkpoint *c, const char *module,
                             const struct pith_tensor *tiles, struct pith_qmat *q,
                             struct pith_error *err)
{
    static const char *const inputs[] = {".suh", ".su"}, *const outputs[] = {".svh", ".sv"};
    if (tiles->shape[0] != q->cols / TILE || tiles->shape[1] != q->rows / TILE)
        return fail_shape(tiles, err);
    move_tiles(q, (uint8_t *)(uintptr_t)tiles->data, false);
    PITH_TRY(load_factors(c, module, inputs, q->cols, q->levels, err));
    return load_factors(c, module, outputs, q->rows, q->scales, err);
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    static const char *const parts[] = {".suh", ".svh", ".su", ".sv", ".mcg", ".mul1"};
    struct pith_grid grid = {.granularity = PITH_PER_CHANNEL};
    const struct pith_tensor *tiles;
    (void)state;
    *found = false;
    PITH_TRY(format_of(c, module, &grid.format, &tiles, err));
    for (size_t i = 0; !tiles && i < PITH_COUNT(parts); i++)
        PITH_TRY(pith_part_absent(c, module, parts[i], "there is no trellis", err));
    if (!tiles) return PITH_OK;
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"%.100s\" is %" PRIu32 " x %" PRIu32
                         ", which exl3 fills up to multiples of %d: that is not read",
                         c->dir, module, rows, cols, SIDE);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F16, err));
    return pith_part_end(module, fill(c, module, tiles, q, err), q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_tensor *tiles;
    (void)state;
    (void)opts;
    *grid = (struct pith_grid){.granularity = PITH_PER_CHANNEL};
    PITH_TRY(format_of(c, module, &grid->format, &tiles, err));
    if (!tiles) *grid = (struct pith_grid){0};
    return PITH_OK;
}

const struct pith_container pith_container_exl3 = {
    .name = "exl3",
    .summary = "exllamav3: 1 to 8 bits by a trellis between two Hadamard matrices",
    .method = "exl3",
    .unloaded = "exllamav3 loads it, for which there are no rules here",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .open = pith_container_open_stateless,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
