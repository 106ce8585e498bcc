/* Converting: linears that the input has quantized go to another container with their codes as they
 * are, or, where that container cannot hold them, rounded anew. */
#include "pipe/run.h"

#include "base/mem.h"
#include "pipe/closeness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what becomes of which linear ------------------------------------------------------------ */

static enum pith_status describe(struct pith_run *r, const char *module, struct pith_grid *grid,
                                 struct pith_error *err)
{
    const struct pith_model *m = r->model;
    *grid = (struct pith_grid){0};
    if (!m->container) return PITH_OK;
    return m->container->describe(m->container_state, m->checkpoint, module, grid,
                                  &r->container_opts, err);
}

enum pith_status pith_convert_describe(struct pith_run *r, struct pith_error *err)
{
    uint32_t widest = 0;
    for (size_t i = 0; i < r->choice_count; i++) {
        struct pith_choice *c = &r->choices[i];
        r->container_opts.hadamard = 0;
        PITH_TRY(describe(r, c->module, &c->stored, err));
        c->hadamard = r->container_opts.hadamard == UINT32_MAX ? c->cols
                                                               : r->container_opts.hadamard;
        if (c->hadamard > widest) widest = c->hadamard;
    }
    r->container_opts.hadamard = widest;
    return pith_inputs_converts(r, err);
}

/* The same codes on a grid of smaller groups, whose scales repeat: GGUF's types have groups of 32
 * where most checkpoints have 64, 128, or a scale a row. */
static bool choose_finer(const struct pith_run *r, struct pith_choice *c)
{
    enum { GROUP = 32 };
    struct pith_grid finer = c->stored;
    const bool group = finer.granularity == PITH_PER_GROUP && finer.group % GROUP == 0;
    if (!r->container->file || (!group && finer.granularity != PITH_PER_CHANNEL)) return false;
    finer.granularity = PITH_PER_GROUP;
    finer.group = GROUP;
    if (r->container->accepts(&finer, c->rows, c->cols, &r->container_opts, NULL) != PITH_OK)
        return false;
    c->grid = finer;
    return true;
}

enum pith_status pith_convert_choose(const struct pith_run *r, struct pith_choice *c,
                                     struct pith_error *err)
{
    struct pith_error why = {0};
    if (!c->stored.format) {
        c->reason = "not quantized in the input";
        return PITH_OK;
    }
    c->grid = c->stored;
    enum pith_status s =
        r->container->accepts(&c->grid, c->rows, c->cols, &r->container_opts, &why);
    if (s == PITH_OK || choose_finer(r, c)) return PITH_OK;
    if (!r->recipe.weights.format)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: %s; --weights GRID rounds such linears anew",
                         c->module, why.text);
    c->grid = r->recipe.weights;
    c->anew = true;
    s = r->container->accepts(&c->grid, c->rows, c->cols, &r->container_opts, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* --- the work -------------------------------------------------------------------------------- */

/* Scales as the container stores them: most often another name for the same numbers. */
static enum pith_status restate_scales(struct pith_qmat *q, enum pith_dtype scales,
                                       struct pith_error *err)
{
    q->scale_dtype = scales;
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++) {
        q->scales[i] = pith_round_to(scales, q->scales[i]);
        if (!isfinite(q->scales[i]))
            return pith_fail(err, PITH_NUMERIC, "a scale is too large for %s",
                             pith_dtype_name(scales));
    }
    return PITH_OK;
}

static enum pith_status load(const struct pith_run *r, const struct pith_choice *c,
                             struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_model *m = r->model;
    bool found = false;
    PITH_TRY(m->container->load(m->container_state, m->checkpoint, c->module, c->rows, c->cols, q,
                                &found, err));
    if (found) q->input.rule = r->container->input_rule; /* as its engines will compute */
    return found ? PITH_OK : pith_fail(err, PITH_FORMAT, "%s: is not quantized", c->module);
}

/* Repeats scales so that each covers `group` columns, which divide what it covered. */
static enum pith_status split_groups(struct pith_qmat *q, uint32_t group, struct pith_error *err)
{
    const uint32_t groups = q->cols / group;
    if (q->group == group && q->row_group == 1) return PITH_OK;
    if (q->g_idx || q->zeros)
        return pith_fail(err, PITH_UNSUPPORTED, "its groups are permuted or have zero points");
    float *scales = pith_alloc((size_t)q->rows * groups, sizeof *scales);
    if (!scales) return pith_fail_nomem(err, "scales");
    for (uint32_t row = 0; row < q->rows; row++)
        for (uint32_t g = 0; g < groups; g++)
            scales[(size_t)row * groups + g] =
                q->scales[pith_qmat_scale_index(q, row, g * group / q->group)];
    pith_free(q->scales);
    q->scales = scales;
    q->group = group;
    q->groups = groups;
    q->row_group = 1;
    return PITH_OK;
}

/* The same codes, told as the new container tells them. */
static enum pith_status restate(const struct pith_run *r, const struct pith_choice *c,
                                struct pith_qmat *q, struct pith_error *err)
{
    PITH_TRY(load(r, c, q, err));
    if (c->grid.format->kind == PITH_KIND_BLOCK || c->grid.format->kind == PITH_KIND_GGUF)
        return PITH_OK; /* scales are the format's own */
    enum pith_status s =
        restate_scales(q, r->container->scale_dtype(&c->grid, r->container_opts.model_dtype), err);
    if (s == PITH_OK && r->container->file) s = split_groups(q, c->grid.group, err);
    if (s == PITH_OK)
        pith_container_state_scales(r->container, &c->grid, q->scales, pith_qmat_scale_count(q));
    else pith_qmat_free(q);
    return s;
}

/* What the codes stand for, put on the new grid. */
static enum pith_status round_anew(const struct pith_run *r, const struct pith_choice *c,
                                   const struct pith_qmat *from, struct pith_qmat *q,
                                   struct pith_error *err)
{
    const struct pith_weight source = {.rows = c->rows, .cols = c->cols, .quant = from};
    struct pith_round_report report;
    float *w = pith_alloc_aligned((size_t)c->rows * c->cols, sizeof *w);
    if (!w) return pith_fail_nomem(err, c->module);
    pith_decode_rows(r->backend, &source, 0, c->rows, w);
    const struct pith_round_job job = {
        .backend = r->backend,
        .grid = c->grid,
        .scale_dtype = r->container->scale_dtype(&c->grid, r->container_opts.model_dtype),
        .rows = c->rows,
        .cols = c->cols,
        .w = w,
    };
    const enum pith_status s = r->recipe.round->run(&job, q, &report, err);
    if (s == PITH_OK) {
        q->input = from->input;
        pith_container_state_scales(r->container, &c->grid, q->scales, pith_qmat_scale_count(q));
    }
    pith_free(w);
    return s;
}

static enum pith_status compare(const struct pith_run *r, const struct pith_choice *c,
                                const struct pith_qmat *from, const struct pith_qmat *made,
                                struct pith_linear_result *out, bool *lossless,
                                struct pith_error *err)
{
    const struct pith_weight a = {.rows = c->rows, .cols = c->cols, .quant = made},
                             b = {.rows = c->rows, .cols = c->cols, .quant = from};
    char hex[PITH_SHA256_HEX];
    if (!pith_relative_error(r->backend, &a, &b, false, &out->relative_error))
        return pith_fail_nomem(err, "a comparison");
    PITH_TRY(pith_weights_digest(r->backend, &b, hex, err));
    PITH_TRY(pith_weights_digest(r->backend, &a, out->sha256, err));
    *lossless = strcmp(hex, out->sha256) == 0;
    return PITH_OK;
}

static enum pith_status add_entry(const struct pith_choice *c,
                                  const struct pith_linear_result *made, bool lossless,
                                  json_t *linears, struct pith_error *err)
{
    char from[PITH_GRID_TEXT];
    pith_grid_format(&c->stored, from);
    json_t *entry = pith_linear_json(c, made, false);
    if (!entry || json_object_set_new(entry, "from", json_string(from)) != 0 ||
        json_object_set_new(entry, "lossless", json_boolean(lossless)) != 0 ||
        json_array_append(linears, entry) != 0) {
        json_decref(entry);
        return pith_fail_nomem(err, c->module);
    }
    json_decref(entry);
    return PITH_OK;
}

enum pith_status pith_convert_linear(struct pith_run *r, const struct pith_choice *c,
                                     json_t *linears, struct pith_error *err)
{
    struct pith_qmat from, q;
    struct pith_linear_result made = {0};
    bool lossless = false;
    pith_phases_begin(&r->phases);
    PITH_TRY(load(r, c, &from, err));
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    enum pith_status s = c->anew ? round_anew(r, c, &from, &q, err) : restate(r, c, &q, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    if (s == PITH_OK) {
        s = compare(r, c, &from, &q, &made, &lossless, err);
        pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
        if (s == PITH_OK) s = pith_store_linear(r, c->module, &q, &made, &r->phases, err);
        if (s == PITH_OK) s = add_entry(c, &made, lossless, linears, err);
        pith_qmat_free(&q);
    }
    pith_qmat_free(&from);
    return s == PITH_OK ? pith_run_step(r, "converting", 1, err) : pith_fail_in(err, s, c->module);
}

enum pith_status pith_convert_layer(struct pith_run *r, uint32_t layer, json_t *linears,
                                    struct pith_error *err)
{
    for (int role = 0; role < PITH_ROLE_COUNT; role++) {
        const struct pith_choice *c = pith_run_choice(r, layer, (enum pith_role)role);
        if (c->grid.format) PITH_TRY(pith_convert_linear(r, c, linears, err));
    }
    return PITH_OK;
}

/* Both forms of a matrix, and either its floats or its packed form and what is read back. */
uint64_t pith_convert_bytes(const struct pith_run *r)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    uint64_t most = 0;
    for (size_t i = 0; i < r->choice_count + PITH_END_COUNT; i++) {
        const struct pith_choice *c = &r->choices[i];
        if (!c->grid.format) continue;
        const uint64_t q = pith_qmat_bytes(c->rows, c->cols, &c->grid),
                       from = pith_qmat_bytes(c->rows, c->cols, &c->stored);
        const uint64_t anew = c->anew ? (uint64_t)c->rows * c->cols * sizeof(float) +
                                            r->recipe.round->scratch(c->rows, c->cols)
                                      : 0;
        const uint64_t comparing = pith_relative_error_bytes(c->rows, c->cols, threads, false);
        uint64_t work = anew > comparing ? anew : comparing;
        if (work < 3 * q) work = 3 * q;
        if (from + q + work > most) most = from + q + work;
    }
    return most;
}
