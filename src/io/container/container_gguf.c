/* Matrices in GGUF's blocks. A module's matrix is one tensor MODULE.TYPE of bytes, and for NVFP4
 * its scale of the tensor, MODULE.scale; io/gguf/model.h describes them in the file.
 *
 * Sources: ggml-common.h (blocks, by num/gguf/kmat.h), llama.cpp conversion/base.py (the scale for
 * NVFP4). */
#include "io/parts.h"

#include "base/mem.h"
#include "num/gguf/kmat.h"

#include <stdio.h>
#include <string.h>

static const struct {
    uint16_t id;
    const char *suffix;
} suffixes[] = {
#define PITH_KQUANT(id_, file_type_, name_, ...) {id_, "." name_},
#include "num/gguf/kquants.def"
#undef PITH_KQUANT
};

static const char *suffix_of(const struct pith_kquant *t)
{
    for (size_t i = 0; i < PITH_COUNT(suffixes); i++)
        if (suffixes[i].id == t->id) return suffixes[i].suffix;
    return NULL;
}

static bool is_nvfp4(const struct pith_kquant *t)
{
    return t->scale_dtype == PITH_F8_E4M3;
}

/* Integers with single scales, which other grids than the type's own are. */
static bool is_plain(const struct pith_kquant *t)
{
    return !t->copied && !t->scale_most && !t->minimums && t->scale_dtype == PITH_F16 &&
           pith_format_find(t->element)->kind == PITH_KIND_INT;
}

/* The type whose blocks hold a grid: the one it names, or one of single scales with those codes in
 * those groups. NULL when there is none. */
static const struct pith_kquant *type_of(const struct pith_grid *g)
{
    size_t count;
    const struct pith_kquant *rows = pith_kquants(&count);
    const struct pith_kquant *named = pith_kquant_find(g->format->name);
    if (named) return named;
    if (g->granularity != PITH_PER_GROUP || g->asym || g->double_quant) return NULL;
    for (size_t i = 0; i < count; i++)
        if (is_plain(&rows[i]) && rows[i].sub == g->group &&
            strcmp(rows[i].element, g->format->name) == 0)
            return &rows[i];
    return NULL;
}

/* The type that people take for codes of that width, or the next wider. */
static const char *of_bits(unsigned bits)
{
    size_t count;
    const struct pith_kquant *rows = pith_kquants(&count), *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct pith_format *f = pith_format_find(rows[i].element);
        if (rows[i].copied || f->kind != PITH_KIND_INT || f->bits < bits) continue;
        if (!best || f->bits <= pith_format_find(best->element)->bits) best = &rows[i];
    }
    return best ? best->format : "q8_0";
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)rows;
    char text[PITH_GRID_TEXT];
    const struct pith_kquant *t = type_of(grid);
    pith_grid_format(grid, text);
    if (!t && grid->asym)
        return pith_fail(
            err, PITH_UNSUPPORTED,
            "gguf has minimums where %s has zero points: use q4_1, q5_1, q2_k, q4_k or "
            "q5_k",
            text);
    if (!t)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "gguf has no type for %s; with %u bits it has %s, as in `weights` %s "
                         "('pith formats' lists its types)",
                         text, (unsigned)grid->format->bits, of_bits(grid->format->bits),
                         of_bits(grid->format->bits));
    if (cols % t->elements)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s of gguf needs rows of a multiple of %u weights, and these have %u",
                         t->name, (unsigned)t->elements, (unsigned)cols);
    if (opts->act_order_groups)
        return pith_fail(err, PITH_UNSUPPORTED, "gguf has no place for permuted groups");
    if (opts->acts.format || opts->kv.format || opts->threshold > 0 || opts->hadamard > 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "gguf stores weights alone: nothing that is done to inputs or the cache");
    return PITH_OK;
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid, (void)model_dtype;
    return PITH_F16;
}

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    const struct pith_kquant *t = type_of(grid);
    const uint64_t shape[] = {rows, (uint64_t)cols / t->elements * t->bytes}, one = 1;
    pith_packed_add(out, suffix_of(t), PITH_U8, 2, shape);
    if (is_nvfp4(t)) pith_packed_add(out, ".scale", PITH_F32, 1, &one);
    return PITH_OK;
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = pith_qmat_grid(q);
    const struct pith_kquant *t = type_of(&grid);
    PITH_TRY(plan(&grid, q->rows, q->cols, opts, out, err));
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status s = pith_kmat_pack(t, q, 0, q->rows, out->item[0].data, err);
    if (s != PITH_OK) pith_packed_free(out);
    else if (is_nvfp4(t)) memcpy(out->item[1].data, &q->global, sizeof q->global);
    return s;
}

static enum pith_status config(const struct pith_linear_grid *linears, size_t count,
                               const struct pith_container_opts *opts, json_t **out,
                               struct pith_error *err)
{
    (void)linears, (void)count, (void)opts;
    *out = json_pack("{s:s}", "quant_method", "gguf");
    return *out ? PITH_OK : pith_fail_nomem(err, "the config");
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status open_gguf(const struct pith_checkpoint *c, void **state,
                                  struct pith_error *err)
{
    *state = NULL;
    return c->gguf ? PITH_OK
                   : pith_fail(err, PITH_UNSUPPORTED,
                               "%s: quant_method \"gguf\" is for GGUF files only", c->dir);
}

static void close_gguf(void *state)
{
    (void)state;
}

/* The tensor of a module's blocks and its type; both NULL when there is none. */
static void find_blocks(const struct pith_checkpoint *c, const char *module,
                        const struct pith_tensor **tensor, const struct pith_kquant **type)
{
    *tensor = NULL;
    *type = NULL;
    for (size_t i = 0; i < PITH_COUNT(suffixes) && !*tensor; i++) {
        *tensor = pith_part_find(c, module, suffixes[i].suffix);
        if (*tensor) *type = pith_kquant_by_id(suffixes[i].id);
    }
}

static enum pith_status read_global(const struct pith_checkpoint *c, const char *module,
                                    const struct pith_kquant *t, float *out, struct pith_error *err)
{
    const struct pith_part want = {".scale", 1u << PITH_F32, 1, {1}};
    const struct pith_tensor *scale = NULL;
    *out = 1.0f;
    if (!is_nvfp4(t) || !pith_part_find(c, module, want.suffix)) return PITH_OK;
    PITH_TRY(pith_part_get(c, module, &want, &scale, err));
    memcpy(out, scale->data, sizeof *out);
    return PITH_OK;
}

/* Whether blocks reach over parts of a row that lie in another order than they are shown in. */
static bool reach_over(const struct pith_tensor *tensor, const struct pith_kquant *t, uint32_t cols)
{
    const uint64_t pieces = pith_stow_pieces(&tensor->order);
    return pieces > 1 && cols % (pieces * t->elements) != 0;
}

/* Columns that were unpacked as they lie in the file go where they are shown, and say which group
 * they are of. */
static enum pith_status show_columns(const struct pith_stow *order, struct pith_qmat *q,
                                     struct pith_error *err)
{
    const uint32_t n = q->cols, part = n / (uint32_t)pith_stow_pieces(order);
    uint8_t *codes = pith_alloc(2 * (size_t)n, 1);
    q->g_idx = pith_alloc(n, sizeof *q->g_idx);
    if (!codes || !q->g_idx) {
        pith_free(codes);
        return pith_fail_nomem(err, "the order of columns");
    }
    uint8_t *shown = codes + n;
    for (uint32_t r = 0; r < q->rows; r++) {
        pith_qmat_get_codes(q, r, codes);
        for (uint32_t c = 0; c < n; c += part)
            memcpy(shown + pith_stow_piece_at(order, c / part) * part, codes + c, part);
        pith_qmat_set_codes(q, r, shown);
    }
    for (uint32_t c = 0; c < n; c++)
        q->g_idx[pith_stow_piece_at(order, c / part) * part + c % part] = c / q->group;
    pith_free(codes);
    return PITH_OK;
}

static enum pith_status read_blocks(const struct pith_tensor *tensor, const struct pith_kquant *t,
                                    float global, struct pith_qmat *q, struct pith_error *err)
{
    const uint32_t rows = q->rows, cols = q->cols;
    uint8_t *straight = NULL;
    const bool over = reach_over(tensor, t, cols);
    if (!pith_tensor_plain(tensor) && !over) {
        straight = pith_alloc((size_t)tensor->bytes, 1);
        if (!straight) return pith_fail_nomem(err, tensor->name);
        pith_tensor_straighten(tensor, straight);
    }
    enum pith_status s =
        pith_kmat_unpack(t, straight ? straight : tensor->data, rows, cols, global, q, err);
    pith_free(straight);
    if (s == PITH_OK && over) s = show_columns(&tensor->order, q, err);
    if (s != PITH_OK) pith_qmat_free(q);
    /* Single scales without minimums are what every container has: no more is recorded. */
    if (s == PITH_OK && is_plain(t)) q->gguf = NULL;
    return s;
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    const struct pith_tensor *tensor;
    const struct pith_kquant *t;
    float global;
    (void)state;
    *found = false;
    find_blocks(c, module, &tensor, &t);
    if (!tensor) return PITH_OK;
    const struct pith_part want = {
        suffix_of(t), 1u << PITH_U8, 2, {rows, (uint64_t)cols / t->elements * t->bytes}};
    if (cols % t->elements)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" has rows of %u weights, not whole blocks",
                         c->dir, module, (unsigned)cols);
    PITH_TRY(pith_part_get(c, module, &want, &tensor, err));
    PITH_TRY(read_global(c, module, t, &global, err));
    *q = (struct pith_qmat){.rows = rows, .cols = cols};
    const enum pith_status s = read_blocks(tensor, t, global, q, err);
    if (s != PITH_OK) return pith_fail_in(err, s, module);
    PITH_TRY(pith_part_check(module, q, err));
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    const struct pith_tensor *tensor;
    const struct pith_kquant *t;
    (void)state;
    *grid = (struct pith_grid){0};
    find_blocks(c, module, &tensor, &t);
    if (!t) return PITH_OK;
    if (tensor->dims == 2)
        opts->act_order_groups |=
            reach_over(tensor, t, (uint32_t)(tensor->shape[1] / t->bytes * t->elements));
    if (!is_plain(t)) return pith_grid_parse(t->format, grid, err);
    *grid = (struct pith_grid){
        .format = pith_format_find(t->element), .granularity = PITH_PER_GROUP, .group = t->sub};
    return PITH_OK;
}

const struct pith_container pith_container_gguf = {
    .name = "gguf",
    .holds = PITH_QMAT_OFFSETS,
    .summary = "one file with metadata and tokenizer, for llama.cpp",
    .method = "gguf",
    .file = "model.gguf",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .plan = plan,
    .pack = pack,
    .config = config,
    .open = open_gguf,
    .load = load,
    .describe = describe,
    .close = close_gguf,
};
