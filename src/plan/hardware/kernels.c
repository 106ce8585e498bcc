#include "plan/hardware/kernels.h"

#include <math.h>
#include <string.h>

/* --- the figures ------------------------------------------------------------------------------ */

static bool rises(const json_t *rows)
{
    double before = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const double n = json_number_value(json_array_get(rows, i));
        if (!(n > before)) return false;
        before = n;
    }
    return true;
}

static bool is_kernel(const json_t *k)
{
    const json_t *rows = json_object_get(k, "rows"), *seconds = json_object_get(k, "seconds");
    const size_t n = json_array_size(rows);
    if (json_is_string(json_object_get(k, "grid")) + json_is_string(json_object_get(k, "cache")) +
                json_is_string(json_object_get(k, "rest")) !=
            1 ||
        n == 0 || !rises(rows))
        return false;
    if (json_array_size(seconds) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!(json_number_value(json_array_get(seconds, i)) > 0)) return false;
    return true;
}

enum pith_status pith_kernels_check(const json_t *kernels, const char *where,
                                    struct pith_error *err)
{
    bool good = !kernels || json_is_array(kernels);
    for (size_t i = 0; i < json_array_size(kernels) && good; i++)
        good = is_kernel(json_array_get(kernels, i));
    if (good) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: \"kernels\" are objects of \"grid\", \"cache\" or \"rest\", rising"
                     " \"rows\" and as many \"seconds\" above 0",
                     where);
}

static const json_t *find(const struct pith_hardware *h, const char *kind, const char *name)
{
    for (size_t i = 0; i < json_array_size(h->kernels); i++) {
        const json_t *k = json_array_get(h->kernels, i);
        const char *text = json_string_value(json_object_get(k, kind));
        if (text && strcmp(text, name) == 0) return k;
    }
    return NULL;
}

static double number_at(const json_t *k, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(k, key), i));
}

/* Seconds for `rows` rows, straight between the points that were measured; below the first as many
 * as for it, behind the last by the row. */
static double seconds_at(const json_t *k, double rows, bool each)
{
    const size_t n = json_array_size(json_object_get(k, "rows"));
    double x0 = 0, y0 = 0;
    for (size_t i = 0; i < n; i++) {
        const double x = number_at(k, "rows", i);
        const double y = number_at(k, "seconds", i) * (each ? x : 1);
        if (rows <= x) return i == 0 ? y : y0 + (y - y0) / (x - x0) * (rows - x0);
        x0 = x;
        y0 = y;
    }
    return y0 / x0 * rows;
}

/* --- a step ----------------------------------------------------------------------------------- */

struct sum {
    const struct pith_deployment *d;
    const struct pith_hardware *h;
    const struct pith_kernel_step *step;
    double seconds;
    bool lacks;
};

/* Rows that meet one of the matrices, and how many of these take part. */
static double rows_of(const struct sum *s, const struct pith_matrix *m, double *count)
{
    const double tokens = s->step->sequences * s->step->positions;
    *count = (double)m->count;
    if (m->reads_out) return s->step->sequences;
    if (m->class != PITH_PLAN_EXPERTS) return tokens;
    const struct pith_plans *plans = &s->d->model->model->plans;
    const double share = pith_experts_read(s->d->model, tokens);
    *count *= share;
    return fmax(1, tokens * plans->taken / (plans->experts * share));
}

static void add_matrix(void *ctx, const struct pith_matrix *m)
{
    struct sum *s = ctx;
    const struct pith_grid g = pith_form_grid(s->d->form, s->d->model, m);
    char name[PITH_GRID_TEXT];
    double count;
    if (m->class == PITH_PLAN_VECTOR || (!m->spec && !m->reads_out)) return;
    pith_grid_format(&g, name);
    const json_t *k = find(s->h, "grid", g.format ? name : "none");
    const double rows = rows_of(s, m, &count);
    if (k) s->seconds += seconds_at(k, rows, false) * (double)m->rows * m->cols * count;
    else s->lacks = true;
}

static void add_caches(struct sum *s)
{
    const struct pith_plans *plans = &s->d->model->model->plans;
    const struct pith_kernel_step *step = s->step;
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_node *node = pith_plan_attend(l);
        const struct pith_kv_format *own = pith_kv_of(s->d->kv, pith_plan_rows_of(plans, i));
        char name[PITH_KV_TEXT];
        if (!node) continue;
        pith_kv_name(own, name);
        const json_t *k = find(s->h, "cache", name);
        const double window = node->u.attend.window;
        const double seen = window > 0 && window < step->depth ? window : step->depth;
        const double numbers = (double)node->u.attend.heads * (l->state.key + l->state.value);
        if (k)
            s->seconds += seconds_at(k, step->positions, true) * step->sequences * numbers * seen;
        else s->lacks = true;
    }
}

/* What a layer does between its matrices; little, so that it may be missing. */
static void add_rest(struct sum *s)
{
    const struct pith_shape *shape = &s->d->model->model->shape;
    const double tokens = s->step->sequences * s->step->positions;
    const json_t *k = find(s->h, "rest", "layer");
    if (k) s->seconds += seconds_at(k, tokens, true) * shape->hidden * shape->layers;
}

double pith_kernels_seconds(const struct pith_deployment *d, const struct pith_hardware *h,
                            const struct pith_kernel_step *step)
{
    struct sum s = {.d = d, .h = h, .step = step};
    if (!h->kernels || strcmp(d->engine->name, "pith") != 0) return 0;
    pith_plan_subject_walk(d->model, add_matrix, &s);
    add_caches(&s);
    add_rest(&s);
    return s.lacks ? 0 : s.seconds;
}
