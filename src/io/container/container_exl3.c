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
#include "io/container/container.h"

#include "base/mem.h"
#include "io/container/trellis_parts.h"

static enum pith_status holds(const struct pith_format *f, struct pith_error *err)
{
    if (!pith_trellis_is(f))
        return pith_fail(err, PITH_UNSUPPORTED, "exl3 holds trellis1 to trellis8, not %s", f->name);
    if (pith_trellis_code_of(f) == PITH_TRELLIS_MUL2)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "exl3 does not hold %s: exllamav3 has no code mul2; `container=pith` does",
                         f->name);
    return PITH_OK;
}

static const struct pith_trellis_mark marks[] = {
    {PITH_TRELLIS_MCG, ".mcg", "mcg", PITH_TRELLIS_BY_MCG},
    {PITH_TRELLIS_MUL1, ".mul1", "mul1", PITH_TRELLIS_BY_MUL1},
};
static const struct pith_trellis_parts parts = {
    .name = "exl3",
    .subject = "exl3",
    .tiles = ".trellis",
    .dtype = PITH_I16,
    .unit = 16,
    .by_inputs = true,
    .inputs = {".suh", ".su"},
    .outputs = {".svh", ".sv"},
    .plain = PITH_TRELLIS_3INST,
    .mark = marks,
    .marks = PITH_COUNT(marks),
    .untiled = "there is no trellis",
    .misshapen = "its shape or type is not exl3's",
    .unfilled = PITH_UNSUPPORTED,
    .unfilled_why = "which exl3 fills up to multiples of 128: that is not read",
    .holds = holds,
};

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    return pith_trellis_accepts(&parts, grid, rows, cols, opts, err);
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    pith_trellis_plan(&parts, grid->format, rows, cols, out);
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    return pith_trellis_store(&parts, q, opts, out, err);
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
        for (size_t k = 0; k < PITH_COUNT(marks); k++)
            if (marks[k].code == pith_trellis_code_of(f)) code = marks[k].name;
    }
    if (!quantized) return pith_fail(err, PITH_ARG, "exl3: no linear is quantized");
    *out = json_pack("{s:s, s:s, s:f, s:i, s:s}", "quant_method", "exl3", "version", "1.4.1",
                     "bits", (double)sum / (double)quantized, "head_bits", (int)head, "codebook",
                     code);
    return *out ? PITH_OK : pith_fail_nomem(err, "the config");
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_parts(const struct pith_checkpoint *c, void **state,
                                   struct pith_error *err)
{
    (void)c;
    (void)err;
    *state = pith_trellis_state(&parts);
    return PITH_OK;
}

const struct pith_container pith_container_exl3 = {
    .name = "exl3",
    .summary = "exllamav3: 1 to 8 bits by a trellis between two Hadamard matrices",
    .method = "exl3",
    .unloaded = "exllamav3 loads it, for which there are no rules here",
    .accepts = accepts,
    .scale_dtype = pith_trellis_scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .open = open_parts,
    .load = pith_trellis_load,
    .describe = pith_trellis_describe,
    .close = pith_container_close_stateless,
};
