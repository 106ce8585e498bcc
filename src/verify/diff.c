/* Two checkpoints, part by part: what the same part of the model is in each, whatever the
 * containers call and pack it. */
#include "verify/diff.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/progress.h"
#include "model/model.h"
#include "quantize/job.h"
#include "quantize/output/work_folder.h"
#include "quantize/site/closeness.h"
#include "verify/diff_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What stands in one row of the report. */
struct part {
    const char *name;
    struct pith_weight a, b;
};

/* What an account has of its checkpoint; without one, nothing. */
struct account_parts {
    json_t *account; /* owned */
    json_t *changed; /* owned: parts that a transform multiplied by something, by name */
};

struct diff {
    struct pith_backend *backend;
    struct pith_progress progress;
    struct pith_model *a, *b;
    struct account_parts of_a, of_b;
    bool rebased;                /* one is in another basis than the other */
    struct pith_diff_part *part; /* owned, as their names are */
    size_t count, cap, equal;
};

/* Distances over all values, in double. */
struct distance {
    double difference, original, most;
    bool equal;
};

/* How a matrix is stored: its grid, or the dtype. */
static void form_text(const struct pith_weight *w, char text[PITH_GRID_TEXT])
{
    if (w->quant) {
        const struct pith_grid grid = pith_qmat_grid(w->quant);
        pith_grid_format(&grid, text);
    } else {
        snprintf(text, PITH_GRID_TEXT, "%s", pith_dtype_name(w->dtype));
    }
}

static void add_row(struct distance *d, const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double delta = (double)y[i] - (double)x[i];
        d->difference += delta * delta;
        d->original += (double)x[i] * (double)x[i];
        if (fabs(delta) > d->most) d->most = fabs(delta);
        /* What is not a number equals nothing, and its distance has no size. */
        if (!(delta == 0.0)) d->equal = false;
    }
}

static enum pith_status measure(struct diff *d, const struct part *p, struct distance *out,
                                struct pith_error *err)
{
    const size_t cols = p->a.cols;
    float *rows = pith_alloc_aligned(2 * cols, sizeof *rows);
    if (!rows) return pith_fail_nomem(err, p->name);
    *out = (struct distance){.equal = true};
    for (uint32_t r = 0; r < p->a.rows; r++) {
        pith_decode_rows(d->backend, &p->a, r, 1, rows);
        pith_decode_rows(d->backend, &p->b, r, 1, rows + cols);
        add_row(out, rows, rows + cols, cols);
    }
    pith_free(rows);
    return PITH_OK;
}

/* Of matrices that a transform multiplied by something: what no multiplying explains. */
static enum pith_status measure_rescaled(struct diff *d, const struct part *p,
                                         struct pith_diff_part *out, struct pith_error *err)
{
    double relative;
    out->rescaled = true;
    if (p->a.rows == 1) return PITH_OK; /* it explains any vector */
    if (!pith_relative_error(d->backend, &p->b, &p->a, true, &relative))
        return pith_fail_nomem(err, p->name);
    if (isfinite(relative)) out->relative = relative;
    return PITH_OK;
}

/* A new part at the end, of which nothing is known but its name. */
static enum pith_status new_part(struct diff *d, const char *name, struct pith_diff_part **out,
                                 struct pith_error *err)
{
    struct pith_diff_part *all = pith_grow(d->part, d->count, &d->cap, 64, sizeof *all);
    if (!all) return pith_fail_nomem(err, name);
    d->part = all;
    const double unknown = (double)NAN;
    *out = &d->part[d->count];
    **out = (struct pith_diff_part){
        .name = pith_strdup(name), .relative = unknown, .largest = unknown, .loss = unknown};
    if (!(*out)->name) return pith_fail_nomem(err, name);
    d->count++;
    return PITH_OK;
}

static enum pith_status add_part(struct diff *d, const struct part *p, struct pith_error *err)
{
    struct pith_diff_part *out = NULL;
    struct distance x = {0};
    PITH_TRY(measure(d, p, &x, err));
    PITH_TRY(new_part(d, p->name, &out, err));
    form_text(&p->a, out->a);
    form_text(&p->b, out->b);
    out->equal = x.equal;
    d->equal += x.equal;
    const double relative = x.original > 0 ? sqrt(x.difference / x.original) : 0.0;
    const bool rescaled = json_object_get(d->of_a.changed, p->name) ||
                          json_object_get(d->of_b.changed, p->name);
    if (!x.equal && d->rebased) {
        out->rotated = true;
    } else if (!x.equal && rescaled) {
        return measure_rescaled(d, p, out, err);
    } else if (isfinite(relative)) {
        out->relative = relative;
        out->largest = x.most;
    }
    return PITH_OK;
}

/* A vector of floats as a matrix of one row. */
static struct pith_weight vector(const float *v, uint32_t n)
{
    return (struct pith_weight){.rows = 1, .cols = n, .dtype = PITH_F32, .dense = v};
}

static enum pith_status add_vector(struct diff *d, const char *name, const float *a, const float *b,
                                   uint32_t n, struct pith_error *err)
{
    const struct part p = {name, vector(a, n), vector(b, n)};
    if (!a || !b || n == 0) return PITH_OK;
    return add_part(d, &p, err);
}

static enum pith_status add_linears(struct diff *d, const struct pith_block *a,
                                    const struct pith_block *b, struct pith_error *err)
{
    for (uint32_t i = 0; i < a->plan->linears; i++) {
        char name[256], bias[264];
        pith_plan_linear_name(&d->a->plans, a->layer, i, name, sizeof name);
        snprintf(bias, sizeof bias, "%s.bias", name);
        const struct pith_linear_weights *x = &a->linear[i], *y = &b->linear[i];
        PITH_TRY(add_part(d, &(struct part){name, x->w, y->w}, err));
        PITH_TRY(add_vector(d, bias, x->bias, y->bias, x->w.rows, err));
    }
    return PITH_OK;
}

static enum pith_status add_block(struct diff *d, const struct pith_block *a,
                                  const struct pith_block *b, struct pith_error *err)
{
    PITH_TRY(add_linears(d, a, b, err));
    for (uint32_t i = 0; i < a->plan->vectors; i++) {
        const struct pith_vector_spec *spec = &a->plan->vector[i];
        char name[256];
        pith_plan_name(&d->a->plans, a->layer, spec->name, name, sizeof name);
        char *end = strrchr(name, '.');
        if (end && strcmp(end, ".weight") == 0) *end = '\0'; /* by modules */
        PITH_TRY(add_vector(d, name, a->vector[i], b->vector[i], (uint32_t)pith_vector_count(spec),
                            err));
    }
    return PITH_OK;
}

static enum pith_status add_layer(struct diff *d, uint32_t layer, struct pith_error *err)
{
    struct pith_block a, b;
    PITH_TRY(pith_block_load(d->a, layer, PITH_LOAD_MAPPED, &a, err));
    enum pith_status s = pith_block_load(d->b, layer, PITH_LOAD_MAPPED, &b, err);
    if (s == PITH_OK) {
        s = add_block(d, &a, &b, err);
        pith_block_free(&b);
    }
    pith_block_free(&a);
    return s;
}

static enum pith_status add_ends(struct diff *d, struct pith_error *err)
{
    const struct part embed = {d->a->arch->names.embed, d->a->embed, d->b->embed},
                      head = {d->a->arch->names.head, d->a->head, d->b->head};
    PITH_TRY(add_part(d, &embed, err));
    PITH_TRY(add_vector(d, d->a->arch->names.norm, d->a->final_norm, d->b->final_norm,
                        d->a->shape.hidden, err));
    return d->a->shape.ends.tied && d->b->shape.ends.tied ? PITH_OK : add_part(d, &head, err);
}

static enum pith_status check_shapes(const struct diff *d, const char *a, const char *b,
                                     struct pith_error *err)
{
    const struct pith_shape *x = &d->a->shape, *y = &d->b->shape;
    bool same = d->a->arch == d->b->arch && x->layers == y->layers && x->vocab == y->vocab;
    for (uint32_t i = 0; same && i < x->layers; i++)
        same = pith_plan_same_sizes(pith_plan(&d->a->plans, i), pith_plan(&d->b->plans, i));
    if (same) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s and %s are models of different shapes", a, b);
}

/* Keys of config.json that differ, the quantization aside. */
static json_t *config_keys(const json_t *a, const json_t *b)
{
    json_t *keys = json_array();
    const json_t *const sides[2][2] = {{a, b}, {b, a}};
    for (int side = 0; side < 2; side++)
        for (void *it = json_object_iter((json_t *)(uintptr_t)sides[side][0]); it;
             it = json_object_iter_next((json_t *)(uintptr_t)sides[side][0], it)) {
            const char *key = json_object_iter_key(it);
            const json_t *other = json_object_get(sides[side][1], key);
            if (strcmp(key, "quantization_config") == 0 || (side == 1 && other)) continue;
            if (!other || !json_equal(json_object_iter_value(it), other))
                pith_json_add(&keys, json_string(key));
        }
    return keys;
}

static void note_changed(struct account_parts *t, const json_t *list, const char *key,
                         const char *is)
{
    static const char suffix[] = ".weight"; /* parts have the names of modules */
    const json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry) {
        const json_t *value = json_object_get(entry, key);
        const char *name = json_string_value(json_object_get(entry, "name"));
        const char *text = json_string_value(value);
        if (!name || !(json_is_true(value) || (text && strcmp(text, is) == 0))) continue;
        size_t n = strlen(name);
        const size_t m = sizeof suffix - 1;
        if (text && n > m && strcmp(name + n - m, suffix) == 0) n -= m;
        (void)json_object_setn_new(t->changed, name, n, json_true());
    }
}

/* An account that cannot be read has nothing. */
static enum pith_status read_account(const char *model, struct account_parts *t,
                                     struct pith_error *err)
{
    enum { LIMIT = 1 << 30 };
    char *path = pith_account_path(model);
    struct pith_error why = {0};
    if (path && pith_path_exists(path)) (void)pith_json_load(path, LIMIT, &t->account, &why);
    const bool bad = !path || why.status == PITH_NOMEM;
    pith_free(path);
    t->changed = json_object();
    note_changed(t, json_object_get(t->account, "linears"), "transformed", "");
    note_changed(t, json_object_get(t->account, "tensors"), "action", "rescaled");
    return bad || !t->changed ? pith_fail_nomem(err, "the report") : PITH_OK;
}

static void free_account(struct account_parts *t)
{
    json_decref(t->changed);
    json_decref(t->account);
}

static enum pith_status read_accounts(struct diff *d, const char *a, const char *b,
                                      struct pith_error *err)
{
    PITH_TRY(read_account(a, &d->of_a, err));
    PITH_TRY(read_account(b, &d->of_b, err));
    const json_t *x = json_object_get(d->of_a.account, "basis"),
                 *y = json_object_get(d->of_b.account, "basis");
    const bool in_x = json_is_object(x), in_y = json_is_object(y);
    d->rebased = in_x != in_y || (in_x && !json_equal(x, y));
    return PITH_OK;
}

/* What b's account has of the harm at each linear's output, if it does, for the same linears. */
static enum pith_status add_losses(struct diff *d, struct pith_error *err)
{
    const json_t *linear, *account = d->of_b.account;
    size_t i;
    bool bad = false;
    const char *losses = json_string_value(json_object_get(account, "losses"));
    const bool outputs = losses && strcmp(losses, "outputs") == 0;
    json_t *by_name = outputs ? json_object() : NULL;
    bad |= outputs && !by_name;
    if (by_name)
        json_array_foreach (json_object_get(account, "linears"), i, linear) {
            const char *name = json_string_value(json_object_get(linear, "name"));
            json_t *loss = json_object_get(linear, "loss");
            if (name && json_is_number(loss)) bad |= json_object_set(by_name, name, loss) != 0;
        }
    for (i = 0; by_name && i < d->count; i++) {
        const json_t *loss = json_object_get(by_name, d->part[i].name);
        if (loss) d->part[i].loss = json_number_value(loss);
    }
    json_decref(by_name);
    return bad ? pith_fail_nomem(err, "the report") : PITH_OK;
}

static enum pith_status compare(struct diff *d, const char *a, const char *b,
                                struct pith_report **report, struct pith_error *err)
{
    PITH_TRY(pith_model_open(a, &d->a, err));
    PITH_TRY(pith_model_open(b, &d->b, err));
    PITH_TRY(check_shapes(d, a, b, err));
    PITH_TRY(read_accounts(d, a, b, err));
    PITH_TRY(add_ends(d, err));
    for (uint32_t i = 0; i < d->a->shape.layers; i++) {
        PITH_TRY(pith_progress_step(&d->progress, "comparing", i, d->a->shape.layers, err));
        PITH_TRY(add_layer(d, i, err));
    }
    PITH_TRY(add_losses(d, err));
    json_t *keys = config_keys(d->a->checkpoint->config, d->b->checkpoint->config);
    const struct pith_diff_found found = {
        .a = a,
        .b = b,
        .container_a = d->a->container ? d->a->container->name : "none",
        .container_b = d->b->container ? d->b->container->name : "none",
        .config = keys,
        .part = d->part,
        .count = d->count,
        .equal = d->equal,
    };
    const enum pith_status s = keys ? pith_diff_write(&found, report, err)
                                    : pith_fail_nomem(err, "the report");
    json_decref(keys);
    return s;
}

enum pith_status pith_diff_find(const struct pith_diff_job *job, struct pith_report **report,
                                struct pith_error *err)
{
    struct diff d = {.backend = job->backend, .progress = job->progress};
    *report = NULL;
    enum pith_status s = compare(&d, job->a, job->b, report, err);
    if (d.a) s = pith_checkpoint_settle(d.a->checkpoint, false, s, err);
    if (d.b) s = pith_checkpoint_settle(d.b->checkpoint, false, s, err);
    if (s != PITH_OK) pith_report_free(report);
    for (size_t i = 0; i < d.count; i++) pith_free(d.part[i].name);
    pith_free(d.part);
    free_account(&d.of_a);
    free_account(&d.of_b);
    pith_model_close(d.a);
    pith_model_close(d.b);
    return s;
}
