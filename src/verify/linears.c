/* What every linear of a checkpoint stands for, against its entry in the account and against the
 * original. */
#include "verify/verify.h"

#include "base/mem.h"
#include "quantize/site/closeness.h"
#include "quantize/site/prune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- linears ---------------------------------------------------------------------------------- */

/* The recorded error was summed over the same numbers in the same order; JSON keeps nine digits. */
static const double error_slack = 1e-8;
/* Figures near 10, with nine digits. */
static const double figure_slack = 1e-6;

static void compare_error(struct pith_verification *v, const json_t *entry, double error)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const double recorded = json_number_value(json_object_get(entry, "relative_error"));
    if (fabs(error - recorded) > recorded * 1e-6 + error_slack)
        pith_problem(v, "%s: %.5f away from the original, where pith.json says %.5f", name, error,
                     recorded);
}

static void check_error(struct pith_verification *v, const json_t *entry,
                        const struct pith_weight *w, const struct pith_weight *original)
{
    const bool transformed = json_is_true(json_object_get(entry, "transformed"));
    double error;
    if (pith_relative_error(v->backend, w, original, transformed, &error))
        compare_error(v, entry, error);
    else v->failed = true;
}

/* An entry's own figures against what is stored. */
static void check_entry(struct pith_verification *v, const json_t *entry, const struct pith_qmat *q)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *shape = json_object_get(entry, "shape");
    const char *text = json_string_value(json_object_get(entry, "grid"));
    struct pith_grid grid = {0};
    const bool known = text && pith_grid_parse(text, &grid, NULL) == PITH_OK;
    const struct pith_grid elements = pith_grid_elements(&grid, NULL);
    struct pith_qspec spec = pith_qmat_spec(q);
    spec.grid.asym |= elements.asym; /* a reader leaves out zero points that are all the middle */
    const double bits = pith_qspec_bits(&spec);
    v->sums.weights += (uint64_t)q->rows * q->cols;
    v->sums.bits += bits * (double)q->rows * (double)q->cols;
    if (json_integer_value(json_array_get(shape, 0)) != q->rows ||
        json_integer_value(json_array_get(shape, 1)) != q->cols)
        pith_problem(v, "%s: is %u x %u, and pith.json says something else", name, q->rows,
                     q->cols);
    if (!known || elements.format != q->format || (q->zeros && !elements.asym))
        pith_problem(v, "%s: is not on the grid that pith.json names", name);
    if (fabs(json_number_value(json_object_get(entry, "bits_per_weight")) - bits) > figure_slack)
        pith_problem(v, "%s: takes %.4f bits a weight, and pith.json says something else", name,
                     bits);
}

/* What the original is in the basis of what is stored. */
static void check_rotated(struct pith_verification *v, uint32_t layer, uint32_t linear,
                          const json_t *entry, const struct pith_weight *w)
{
    const struct pith_basis_change t = {&v->basis, v->original, v->backend};
    struct pith_weight original = {.rows = w->rows, .cols = w->cols, .dtype = PITH_F32};
    struct pith_error err = {0};
    float *values = NULL;
    if (pith_rotated_linear(&t, layer, linear, w->quant != NULL, &values, &err) != PITH_OK) {
        pith_fault(v, NULL, &err);
        return;
    }
    original.dense = values;
    check_error(v, entry, w, &original);
    pith_free(values);
}

static void check_distance(struct pith_verification *v, const struct pith_block *original,
                           uint32_t linear, const json_t *entry, const struct pith_weight *w)
{
    if (pith_verify_rotates(v)) check_rotated(v, original->layer, linear, entry, w);
    else check_error(v, entry, w, &original->linear[linear].w);
}

/* The recipe promises zeros. */
static bool two_four(const struct pith_verification *v)
{
    const json_t *recipe = json_object_get(v->account, "recipe");
    const char *split = json_string_value(json_object_get(recipe, "split"));
    return split && strncmp(split, "2:4", 3) == 0;
}

static void check_zeros(struct pith_verification *v, const char *name, const struct pith_weight *w)
{
    struct pith_error err = {0};
    if (pith_two_four_check(v->backend, w, &err) != PITH_OK) pith_fault(v, name, &err);
}

/* What an entry says of the weights alone. */
static void check_values(struct pith_verification *v, const json_t *entry,
                         const struct pith_weight *w)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *want = json_string_value(json_object_get(entry, "sha256"));
    char hex[PITH_SHA256_HEX];
    struct pith_error err = {0};
    if (!w->quant) {
        pith_problem(v, "%s: is not quantized, though pith.json says so", name);
        return;
    }
    if (pith_weights_digest(v->backend, w, hex, &err) != PITH_OK) pith_fault(v, name, &err);
    else if (!want || strcmp(hex, want) != 0)
        pith_problem(v, "%s: dequantizes to other values than the quantizer meant", name);
    check_entry(v, entry, w->quant);
}

static void check_linear(struct pith_verification *v, const struct pith_block *original,
                         uint32_t linear, const json_t *entry, const struct pith_weight *w)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    check_values(v, entry, w);
    if (!w->quant) return;
    if (two_four(v)) check_zeros(v, name, w);
    if (original) check_distance(v, original, linear, entry, w);
}

/* The embedding or the head that an entry names, NULL for another name. */
static const struct pith_weight *end_of(const struct pith_model *m, const char *name)
{
    if (strcmp(name, m->arch->names.embed) == 0) return &m->embed;
    return strcmp(name, m->arch->names.head) == 0 && !m->shape.ends.tied ? &m->head : NULL;
}

static void check_rotated_end(struct pith_verification *v, const json_t *entry, bool head,
                              const struct pith_weight *w)
{
    const struct pith_basis_change t = {&v->basis, v->original, v->backend};
    struct pith_error err = {0};
    double error;
    if (pith_rotated_end_error(&t, head, w, &error, &err) == PITH_OK)
        compare_error(v, entry, error);
    else pith_fault(v, NULL, &err);
}

static void check_end(struct pith_verification *v, const json_t *entry, const char *name,
                      const struct pith_weight *w)
{
    const struct pith_weight *was = end_of(v->original, name);
    if (v->basis.stream.dim) check_rotated_end(v, entry, w == &v->model->head, w);
    else if (was) check_error(v, entry, w, was);
    else pith_problem(v, "%s: the original has no such tensor", name);
}

/* The embedding or the head: an entry, or not quantized. */
static void check_one_end(struct pith_verification *v, const char *name,
                          const struct pith_weight *w)
{
    json_t *entry = pith_verify_meet(v, &v->file.linears, name);
    if (!entry) {
        if (w->quant) pith_problem(v, "%s: quantized, but not in pith.json", name);
        return;
    }
    check_values(v, entry, w);
    if (v->original && w->quant) check_end(v, entry, name, w);
    json_decref(entry);
}

/* A linear in 16 bits, with zeros in it when its tensor's entry says so. */
static void check_pruned(struct pith_verification *v, const struct pith_block *original,
                         uint32_t linear, const char *module, const struct pith_weight *w)
{
    char name[264];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    json_t *entry = pith_verify_meet(v, &v->file.tensors, name);
    const char *action = json_string_value(json_object_get(entry, "action"));
    if (action && strcmp(action, "pruned") == 0) {
        v->sums.pruned++;
        check_zeros(v, name, w);
        if (original) check_distance(v, original, linear, entry, w);
    }
    json_decref(entry);
}

/* Every linear is quantized and recorded, or recorded as unquantized. */
static void check_linears_of(struct pith_verification *v, const struct pith_block *b,
                             const struct pith_block *original)
{
    for (uint32_t i = 0; i < b->plan->linears; i++) {
        const struct pith_weight *w = &b->linear[i].w;
        char name[256];
        pith_plan_linear_name(&v->model->plans, b->layer, i, name, sizeof name);
        json_t *entry = pith_verify_meet(v, &v->file.linears, name);
        if (entry) check_linear(v, original, i, entry, w);
        else if (w->quant) pith_problem(v, "%s: quantized, but not in pith.json", name);
        else check_pruned(v, original, i, name, w);
        json_decref(entry);
    }
}

static enum pith_status check_block(struct pith_verification *v, uint32_t layer,
                                    struct pith_error *err)
{
    struct pith_block block, original;
    struct pith_error why = {0};
    if (pith_block_load(v->model, layer, PITH_LOAD_MAPPED, &block, &why) != PITH_OK) {
        char where[32];
        (void)snprintf(where, sizeof where, "block %u", layer);
        pith_fault(v, where, &why);
        return PITH_OK;
    }
    enum pith_status s = PITH_OK;
    if (v->original) s = pith_block_load(v->original, layer, PITH_LOAD_MAPPED, &original, err);
    if (s == PITH_OK) {
        check_linears_of(v, &block, v->original ? &original : NULL);
        if (v->original) pith_block_free(&original);
        if (v->original) pith_model_shed(v->original, layer);
        s = pith_verify_tick(v, "checking weights", err);
    }
    pith_block_free(&block);
    return s;
}

/* Every entry was met on the way through the model. */
static void check_matched(struct pith_verification *v)
{
    struct pith_entries *list = &v->file.linears;
    for (size_t i = 0; i < list->count; i++) {
        if (list->rows[i].met || list->rows[i].fault != PITH_ENTRY_GOOD) continue;
        json_t *entry = pith_verify_entry(v, list, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name) pith_problem(v, "%s: in pith.json, but no linear of the model", name);
        json_decref(entry);
    }
}

/* The blocks, the embedding and the head: of several ranks each a run of them. */
static enum pith_status check_parts(struct pith_verification *v, struct pith_error *err)
{
    const struct pith_model *m = v->model;
    const size_t layers = m->shape.layers, parts = layers + PITH_END_COUNT;
    for (uint32_t i = 0; i < layers; i++)
        PITH_TRY(pith_verify_own(v, i, parts) ? check_block(v, i, err)
                                              : pith_verify_tick(v, "checking weights", err));
    if (pith_verify_own(v, layers, parts)) check_one_end(v, m->arch->names.embed, &m->embed);
    if (!m->shape.ends.tied && pith_verify_own(v, layers + 1, parts))
        check_one_end(v, m->arch->names.head, &m->head);
    return PITH_OK;
}

enum pith_status pith_verify_linears(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    PITH_TRY(check_parts(v, err));
    PITH_TRY(pith_verify_share(v, before, err));
    PITH_TRY(pith_verify_share_met(v, &v->file.linears, err));
    PITH_TRY(pith_verify_share_sums(v, err));
    check_matched(v);
    const size_t listed = v->file.linears.names;
    const char *close = v->original ? ", as close to the original as recorded" : "";
    if (listed || !v->sums.pruned)
        pith_checked(v, before, "%zu quantized linears: finite, dequantized as meant%s%s", listed,
                     two_four(v) ? ", two zeros in each four" : "", close);
    if (v->sums.pruned)
        pith_checked(v, before, "%zu linears of 16 bits: two zeros in each four%s",
                     (size_t)v->sums.pruned, close);
    return PITH_OK;
}

/* --- without an account ----------------------------------------------------------------------- */

/* Rounding to two bits leaves less than this of relative error; another matrix, 1.4. */
static const double another = 0.9;

struct distances {
    double most;
    char name[256]; /* the linear that is furthest */
    size_t quantized, unquantized;
};

static void measure(struct pith_verification *v, const char *name, const struct pith_weight *w,
                    const struct pith_weight *original, struct distances *d)
{
    double error = 0;
    *(w->quant ? &d->quantized : &d->unquantized) += 1;
    /* Scales that another program folded into rows and columns are no error. */
    if (!pith_relative_error(v->backend, w, original, false, &error) ||
        (error > another && !pith_relative_error(v->backend, w, original, true, &error))) {
        v->failed = true;
        return;
    }
    if (!(error < another))
        pith_problem(v, "%s: is %.3f away from the original's: another matrix, or another basis",
                     name, error);
    if (error < d->most) return;
    d->most = error;
    (void)snprintf(d->name, sizeof d->name, "%s", name);
}

static enum pith_status measure_block(struct pith_verification *v, uint32_t layer,
                                      struct distances *d, struct pith_error *err)
{
    struct pith_block is, was;
    PITH_TRY(pith_block_load(v->model, layer, PITH_LOAD_MAPPED, &is, err));
    enum pith_status s = pith_block_load(v->original, layer, PITH_LOAD_MAPPED, &was, err);
    if (s == PITH_OK) {
        for (uint32_t i = 0; i < is.plan->linears; i++) {
            char name[256];
            pith_plan_linear_name(&v->model->plans, layer, i, name, sizeof name);
            measure(v, name, &is.linear[i].w, &was.linear[i].w, d);
        }
        pith_block_free(&was);
        pith_model_shed(v->original, layer);
        s = pith_verify_tick(v, "checking weights", err);
    }
    pith_block_free(&is);
    return s;
}

/* What each rank measured, as if it had been one behind the other. */
static enum pith_status share_distances(struct pith_verification *v, struct distances *d,
                                        struct pith_error *err)
{
    struct pith_ranks *r = pith_backend_ranks(v->backend);
    const size_t ranks = pith_ranks_count(r);
    struct distances *of = pith_zalloc(ranks, sizeof *of), all = {0};
    if (!of) return pith_fail_nomem(err, "the report");
    of[pith_ranks_own(r)] = *d;
    const enum pith_status s = pith_ranks_share_parts(r, of, ranks, sizeof *of, err);
    for (size_t i = 0; i < ranks; i++) {
        all.quantized += of[i].quantized;
        all.unquantized += of[i].unquantized;
        if (of[i].quantized + of[i].unquantized == 0 || of[i].most < all.most) continue;
        all.most = of[i].most;
        memcpy(all.name, of[i].name, sizeof all.name);
    }
    if (s == PITH_OK) *d = all;
    pith_free(of);
    return s;
}

static enum pith_status measure_parts(struct pith_verification *v, struct distances *d,
                                      struct pith_error *err)
{
    const struct pith_model *is = v->model, *was = v->original;
    const size_t layers = was->shape.layers, parts = layers + PITH_END_COUNT;
    for (uint32_t i = 0; i < layers; i++)
        if (pith_verify_own(v, i, parts)) PITH_TRY(measure_block(v, i, d, err));
    if (pith_verify_own(v, layers, parts))
        measure(v, is->arch->names.embed, &is->embed, &was->embed, d);
    if ((!is->shape.ends.tied || !was->shape.ends.tied) && pith_verify_own(v, layers + 1, parts))
        measure(v, is->arch->names.head, &is->head, &was->head, d);
    return share_distances(v, d, err);
}

enum pith_status pith_verify_unaccounted(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    const struct pith_checkpoint *c = v->checkpoint;
    const size_t count = c->count + c->whole_count;
    struct distances d = {0};
    v->total = v->original->shape.layers;
    PITH_TRY(measure_parts(v, &d, err));
    PITH_TRY(pith_verify_share(v, before, err));
    const size_t then = pith_problems(v);
    for (size_t i = 0; i < count; i++) {
        struct pith_error why = {0};
        const struct pith_tensor *t = i < c->count ? &c->tensors[i] : &c->wholes[i - c->count];
        if (!t->slice && pith_verify_own(v, i, count) &&
            pith_tensor_check_finite(t, &why) != PITH_OK)
            pith_fault(v, NULL, &why);
    }
    PITH_TRY(pith_verify_share(v, then, err));
    pith_checked(v, before,
                 "%zu quantized linears and %zu others: the original's matrices, at most %.3f away"
                 " (%s)",
                 d.quantized, d.unquantized, d.most, d.name);
    return PITH_OK;
}
