/* The pith container: codes of pith's own, which no other program has. For a linear W[N, K] of b
 * bits a weight, N and K multiples of 128:
 *     tiles    U8  [N / 16, K / 16, 32 b]  tiles of 16 outputs and 16 inputs (num/trellis.h)
 *     columns  F16 [K]                     factors of the inputs
 *     rows     F16 [N]                     factors of the outputs
 *
 * config.json names the code, one for all: "code": "mul2". */
#include "io/container/container.h"

#include "io/container/trellis_parts.h"

#include <string.h>

static const char CODE[] = "mul2";

static enum pith_status holds(const struct pith_format *f, struct pith_error *err)
{
    if (pith_trellis_is(f) && pith_trellis_code_of(f) == PITH_TRELLIS_MUL2) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "the container pith holds trellis1_mul2 to trellis8_mul2, not %s", f->name);
}

static const struct pith_trellis_parts parts = {
    .name = "pith",
    .subject = "the container pith",
    .tiles = ".tiles",
    .dtype = PITH_U8,
    .unit = 32,
    .inputs = {".columns"},
    .outputs = {".rows"},
    .plain = PITH_TRELLIS_MUL2,
    .untiled = "there are no tiles",
    .misshapen = "no shape or type of tiles",
    .unfilled = PITH_FORMAT,
    .unfilled_why = "no multiples of 128",
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

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_checked(const struct pith_checkpoint *c, void **state,
                                     struct pith_error *err)
{
    const char *code = NULL;
    *state = pith_trellis_state(&parts);
    PITH_TRY(pith_json_get_str(c->quantization, "code", &code, c->dir, err));
    if (code && strcmp(code, CODE) == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: codes of pith's own \"%.60s\", which this version cannot read", c->dir,
                     code ? code : "");
}

const struct pith_container pith_container_pith = {
    .name = "pith",
    .summary = "pith itself: 1 to 8 bits by a trellis whose numbers are made in few instructions",
    .method = "pith",
    .unloaded = "no other program has its code",
    .accepts = accepts,
    .scale_dtype = pith_trellis_scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .open = open_checked,
    .load = pith_trellis_load,
    .describe = pith_trellis_describe,
    .close = pith_container_close_stateless,
};
