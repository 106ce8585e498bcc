/* The gptq container. For a linear W[N, K], all transposed against it:
 *     qweight I32 [K * bits / 32, N]   word w of column n: codes of row n, a dense stream along K
 *     qzeros  I32 [G, N * bits / 32]   zero points of a group, a dense stream along N
 *     scales  F16 [G, N]             BF16 in models of BF16
 *     g_idx   I32 [K]                  group of each input
 * v1 ("gptq") stores zero points minus one, v2 ("gptq_v2") as they are.
 *
 * Sources: AutoGPTQ nn_modules/qlinear/qlinear_cuda.py, GPTQModel nn_modules/qlinear/__init__.py.
 * Their special cases for 3 bits are the dense stream, spelled out. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/container/gptq_config.h"
#include "io/parts.h"

#include <inttypes.h>
#include <string.h>

#define BITS (1u << 2 | 1u << 3 | 1u << 4 | 1u << 8)
#define ALIGN 32 /* what both sides of a matrix must be a multiple of */

/* --- writing ---------------------------------------------------------------------------------- */

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)opts;
    PITH_TRY(pith_accepts_ints("gptq", grid, BITS, err));
    if (rows % ALIGN || cols % ALIGN)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "gptq cannot hold a matrix of %" PRIu32 " x %" PRIu32
                         ": both sides must be multiples of %d; use compressed-tensors",
                         rows, cols, ALIGN);
    return PITH_OK;
}

/* Groups do not depend on whether a shorter last one is there. */
static void shape_set(unsigned bits, uint32_t groups, uint32_t rows, uint32_t cols,
                      enum pith_dtype scale, struct pith_packed_set *out)
{
    *out = (struct pith_packed_set){0};
    const uint64_t words = pith_stream_words(cols, bits),
                   zero_words = pith_stream_words(rows, bits);
    pith_packed_add(out, ".qweight", PITH_I32, 2, (const uint64_t[]){words, rows});
    pith_packed_add(out, ".qzeros", PITH_I32, 2, (const uint64_t[]){groups, zero_words});
    pith_packed_add(out, ".scales", scale, 2, (const uint64_t[]){groups, rows});
    pith_packed_add(out, ".g_idx", PITH_I32, 1, (const uint64_t[]){cols});
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const uint32_t group = grid->granularity == PITH_PER_GROUP ? grid->group : cols;
    shape_set(grid->format->bits, cols / group + (cols % group != 0), rows, cols,
              pith_scale_half(grid, opts->model_dtype), out);
    return PITH_OK;
}

/* v1 subtracts one, and a field of b bits has no place for the -1 of a zero point 0. */
static enum pith_status check_zeros(const struct pith_qmat *q, struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; q->zeros && i < count; i++)
        if (q->zeros[i] == 0)
            return pith_fail(
                err, PITH_UNSUPPORTED,
                "gptq: row %zu has a zero point of 0, which checkpoint_format \"gptq\" "
                "cannot store; write \"gptq_v2\"",
                i / q->groups);
    return PITH_OK;
}

static enum pith_status check_order(const struct pith_qmat *q,
                                    const struct pith_container_opts *opts, struct pith_error *err)
{
    if (opts->act_order_groups || !(pith_qmat_parts(q) & PITH_QMAT_ORDER)) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "gptq: a matrix has permuted groups, but desc_act is false in the config");
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    struct pith_grid grid = {.format = q->format};
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    PITH_TRY(check_order(q, opts, err));
    if (!opts->gptq_v2) PITH_TRY(check_zeros(q, err));
    const enum pith_dtype scale = pith_scale_half(&grid, opts->model_dtype);
    shape_set(q->format->bits, q->groups, q->rows, q->cols, scale, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const size_t words = (size_t)pith_stream_words(q->cols, q->format->bits);
    pith_words_from_rows(q->codes, q->stride, q->rows, words, out->item[0].data);
    enum pith_status s = pith_zeros_store(q, opts->gptq_v2 ? 0 : 1, out->item[1].data, err);
    if (s == PITH_OK) s = pith_scales_store(q, scale, true, q->rows, out->item[2].data, err);
    pith_g_idx_store(q, out->item[3].data);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

static void settle(const struct pith_grid *grid, struct pith_container_opts *opts)
{
    if (grid->asym) opts->gptq_v2 = true;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_config(const struct pith_checkpoint *c, void **state,
                                    struct pith_error *err)
{
    struct pith_gptq_config *config = pith_zalloc(1, sizeof *config);
    if (!config) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = pith_gptq_config_read(c, config, err);
    if (s != PITH_OK) {
        pith_free(config);
        return s;
    }
    *state = config;
    return PITH_OK;
}

static void close_config(void *state)
{
    struct pith_gptq_config *config = state;
    if (!config) return;
    pith_gptq_config_free(config);
    pith_free(config);
}

struct tensors {
    const struct pith_tensor *qweight, *qzeros, *scales, *g_idx;
};

static enum pith_status find_tensors(const struct pith_checkpoint *c, const char *module,
                                     const struct pith_gptq_scheme *scheme, uint32_t rows,
                                     uint32_t cols, struct tensors *t, struct pith_error *err)
{
    if (rows % ALIGN || cols % ALIGN)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"%.100s\" is %" PRIu32 " x %" PRIu32
                         ", and gptq holds only multiples of %d",
                         c->dir, module, rows, cols, ALIGN);
    const uint32_t group = scheme->group && scheme->group < cols ? scheme->group : cols;
    const uint64_t groups = ((uint64_t)cols + group - 1) / group;
    const uint64_t words = pith_stream_words(cols, scheme->bits);
    const uint64_t zero_words = pith_stream_words(rows, scheme->bits);
    const struct pith_part weight = {".qweight", 1u << PITH_I32, 2, {words, rows}};
    const struct pith_part zeros = {".qzeros", 1u << PITH_I32, 2, {groups, zero_words}};
    const struct pith_part scales = {".scales", PITH_PART_FLOATS, 2, {groups, rows}};
    const struct pith_part order = {".g_idx", 1u << PITH_I32, 1, {cols}};
    PITH_TRY(pith_part_get(c, module, &weight, &t->qweight, err));
    PITH_TRY(pith_part_get(c, module, &zeros, &t->qzeros, err));
    PITH_TRY(pith_part_get(c, module, &scales, &t->scales, err));
    if (!scheme->desc_act && !pith_part_find(c, module, order.suffix)) return PITH_OK;
    return pith_part_get(c, module, &order, &t->g_idx, err);
}

/* What a symmetric config says of the zero points must be so: engines do not look at them. */
static enum pith_status check_sym(const struct pith_gptq_scheme *scheme, bool v2,
                                  const struct pith_qmat *q, struct pith_error *err)
{
    if (!scheme->sym || !q->zeros) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "sym is true, but not all zero points are %u (checkpoint_format is \"%s\")",
                     pith_format_middle(q->format), v2 ? "gptq_v2" : "gptq");
}

static enum pith_status fill(const struct tensors *t, const struct pith_gptq_scheme *scheme,
                             bool v2, struct pith_qmat *q, struct pith_error *err)
{
    const size_t words = (size_t)pith_stream_words(q->cols, scheme->bits);
    pith_words_to_rows(t->qweight->data, q->rows, words, q->codes, q->stride);
    pith_part_scales(t->scales, true, q);
    PITH_TRY(pith_zeros_read(t->qzeros->data, v2 ? 0 : 1, q, err));
    pith_qmat_drop_zeros(q);
    PITH_TRY(check_sym(scheme, v2, q, err));
    return t->g_idx ? pith_part_g_idx(t->g_idx, q, err) : PITH_OK;
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    static const char *const suffixes[] = {".qweight", ".qzeros", ".scales", ".g_idx"};
    const struct pith_gptq_config *config = state;
    *found = false;
    bool any = false;
    for (size_t i = 0; i < PITH_COUNT(suffixes); i++)
        any |= pith_part_find(c, module, suffixes[i]) != NULL;
    if (!any) return PITH_OK;
    struct pith_gptq_scheme scheme;
    bool excluded;
    PITH_TRY(pith_gptq_config_scheme(config, module, &scheme, &excluded, err));
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    struct tensors t = {0};
    PITH_TRY(find_tensors(c, module, &scheme, rows, cols, &t, err));
    const struct pith_grid grid = {
        .format = pith_int_format(scheme.bits),
        .granularity = scheme.group && scheme.group < cols ? PITH_PER_GROUP : PITH_PER_CHANNEL,
        .group = scheme.group,
        .asym = true,
    };
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, t.scales->dtype, err));
    return pith_part_end(module, fill(&t, &scheme, config->v2, q, err), q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_gptq_config *config = state;
    struct pith_gptq_scheme scheme;
    bool excluded;
    *grid = (struct pith_grid){0};
    PITH_TRY(pith_gptq_config_scheme(config, module, &scheme, &excluded, err));
    if (!pith_part_find(c, module, ".qweight")) return PITH_OK;
    *grid = (struct pith_grid){
        .format = pith_int_format(scheme.bits),
        .granularity = scheme.group ? PITH_PER_GROUP : PITH_PER_CHANNEL,
        .group = scheme.group,
        .asym = !scheme.sym,
    };
    opts->act_order_groups |= scheme.desc_act && scheme.group;
    opts->gptq_v2 = config->v2;
    return PITH_OK;
}

static enum pith_status listed(void *state, const char *module, bool *quantized,
                               struct pith_error *err)
{
    struct pith_gptq_scheme scheme;
    bool excluded;
    PITH_TRY(pith_gptq_config_scheme(state, module, &scheme, &excluded, err));
    *quantized = !excluded;
    return PITH_OK;
}

const struct pith_container pith_container_gptq = {
    .name = "gptq",
    .holds = PITH_QMAT_ORDER,
    .summary = "GPTQModel and AutoGPTQ: 2, 3, 4 and 8 bits, act-order",
    .method = "gptq",
    .accepts = accepts,
    /* Engines compute with scales in the model's dtype (vLLM auto_gptq.py: params_dtype), so that
     * those of a BF16 model would be rounded from F16 without a word. */
    .scale_dtype = pith_scale_half,
    .plan = plan,
    .pack = pack,
    .settle = settle,
    .config = pith_gptq_config_make,
    .extra_file = pith_gptq_extra_file,
    .open = open_config,
    .load = load,
    .describe = describe,
    .listed = listed,
    .close = close_config,
};
