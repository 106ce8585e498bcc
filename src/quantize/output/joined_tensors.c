/* Tensors that hold the matrices, or the biases, of all experts, put together again. */
#include "quantize/output/joined_tensors.h"

#include "base/mem.h"
#include "quantize/output/layout.h"
#include "quantize/run.h"

#include <stdio.h>
#include <string.h>

/* --- which there are -------------------------------------------------------------------------- */

/* The input's tensor of a part by itself. */
static const struct pith_tensor *part_of(const struct pith_job *job, const struct pith_whole *w,
                                         uint32_t linear)
{
    char name[320];
    (void)snprintf(name, sizeof name, "%s%s", pith_job_choice(job, w->layer, linear)->module,
                   w->as.bias ? ".bias" : ".weight");
    return pith_checkpoint_find(job->model->checkpoint, name);
}

/* Whether no part is rounded, or gets zeros, which are accounted for by matrix. */
static bool stays(const struct pith_job *job, uint32_t layer, const struct pith_fused_spec *spec)
{
    for (uint32_t e = 0; e < spec->experts; e++)
        for (uint32_t p = 0; p < spec->parts; p++) {
            const struct pith_choice *c =
                pith_job_choice(job, layer, pith_fused_linear(spec, e, p));
            if (c->grid.format || c->stored.format || c->prune) return false;
        }
    return true;
}

/* Whether all parts are there by themselves, of one dtype. */
static bool is_apart(const struct pith_job *job, struct pith_whole *w)
{
    const struct pith_fused_spec *spec = &w->as.spec;
    for (uint32_t e = 0; e < spec->experts; e++)
        for (uint32_t p = 0; p < spec->parts; p++) {
            const struct pith_tensor *t = part_of(job, w, pith_fused_linear(spec, e, p));
            if (!t) return false;
            const enum pith_dtype is = pith_job_weight_dtype(job, t);
            if (e + p > 0 && is != w->dtype) return false;
            w->dtype = is;
        }
    return true;
}

/* The whole that the output has: the input's, or of a file the one that others know alone. */
static bool find_whole(const struct pith_job *job, uint32_t layer, uint32_t fused, bool bias,
                       struct pith_whole *w)
{
    *w = (struct pith_whole){.layer = layer};
    if (!pith_fused_whole(job->model, layer, fused, bias, &w->as)) return false;
    if (!stays(job, layer, &w->as.spec)) return false;
    if (!w->as.stored)
        return (job->model->checkpoint->file_form || job->model->checkpoint->dense) &&
               w->as.spec.only && is_apart(job, w);
    w->dtype = pith_job_copy_dtype(job, w->as.stored);
    return true;
}

enum pith_status pith_job_wholes(struct pith_job *job, struct pith_error *err)
{
    const uint32_t layers = job->model->shape.layers;
    size_t most = 0;
    if (job->container->file) return PITH_OK; /* which has a separate form */
    for (uint32_t i = 0; i < layers; i++) most += 2 * (size_t)pith_job_plan(job, i)->fuseds;
    if (most == 0) return PITH_OK;
    job->wholes = pith_alloc(most, sizeof *job->wholes);
    if (!job->wholes) return pith_fail_nomem(err, "the experts' tensors");
    for (uint32_t i = 0; i < layers; i++)
        for (uint32_t k = 0; k < 2 * pith_job_plan(job, i)->fuseds; k++)
            if (find_whole(job, i, k / 2, k % 2, &job->wholes[job->whole_count]))
                job->whole_count++;
    return PITH_OK;
}

static bool holds(const struct pith_fused_spec *spec, uint32_t linear)
{
    const uint32_t at = linear - spec->first;
    return linear >= spec->first && at / spec->each < spec->experts &&
           at % spec->each < spec->parts;
}

/* The first of a layer, or of a later one. */
static size_t first_of(const struct pith_job *job, uint32_t layer)
{
    size_t lo = 0, hi = job->whole_count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (job->wholes[mid].layer < layer) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

struct pith_whole *pith_job_whole(const struct pith_job *job, uint32_t layer, uint32_t linear,
                                  bool bias)
{
    for (size_t i = first_of(job, layer); i < job->whole_count && job->wholes[i].layer == layer;
         i++)
        if (job->wholes[i].as.bias == bias && holds(&job->wholes[i].as.spec, linear))
            return &job->wholes[i];
    return NULL;
}

struct pith_whole *pith_job_tensor_whole(const struct pith_job *job, const char *tensor)
{
    uint32_t layer;
    const char *suffix = NULL, *part = job->whole_count
                                           ? pith_plan_layer_of(&job->model->plans, tensor, &layer)
                                           : NULL;
    if (!part) return NULL;
    const uint32_t linear = pith_plan_find_linear(pith_job_plan(job, layer), part, &suffix);
    if (linear == PITH_NO_PART) return NULL;
    const bool bias = strcmp(suffix, ".bias") == 0;
    return bias || strcmp(suffix, ".weight") == 0 ? pith_job_whole(job, layer, linear, bias) : NULL;
}

/* --- storing ---------------------------------------------------------------------------------- */

struct making {
    struct pith_run *r;
    const struct pith_whole *w;
    const struct pith_changes *changes;
};

static const float *changed(const struct making *m, uint32_t linear)
{
    return m->changes->values(m->changes->ctx, linear, m->w->as.bias);
}

/* Elements of `size` bytes from rows in order to their places. */
static void scatter(const struct pith_fused_place *to, uint32_t rows, uint32_t cols, size_t size,
                    const uint8_t *from, uint8_t *out)
{
    enum { TILE = 32 };
    for (uint32_t r0 = 0; r0 < rows; r0 += TILE)
        for (uint32_t c0 = 0; c0 < cols; c0 += TILE)
            for (uint32_t r = r0; r < rows && r < r0 + TILE; r++)
                for (uint32_t c = c0; c < cols && c < c0 + TILE; c++) {
                    const uint8_t *x = from + ((size_t)r * cols + c) * size;
                    uint8_t *y = out + (to->first + r * to->row_step + c * to->col_step) * size;
                    if (size == 2) memcpy(y, x, 2);
                    else memcpy(y, x, size);
                }
}

/* A part's bytes, rows in order; *made is to be freed, and NULL where they are the input's. */
static enum pith_status bytes_of(const struct making *m, uint32_t linear, uint64_t n,
                                 uint8_t **made, const uint8_t **bytes, struct pith_error *err)
{
    const float *values = changed(m, linear);
    *made = NULL;
    if (values) {
        *made = pith_alloc(n, pith_dtype_bits(m->w->dtype) / 8);
        if (!*made) return pith_fail_nomem(err, m->w->as.name);
        *bytes = *made;
        return pith_store_encode(m->w->as.name, m->w->dtype, values, n, *made, err);
    }
    const struct pith_tensor *t = part_of(m->r->job, m->w, linear);
    if (!t || pith_tensor_elements(t) != n)
        return pith_fail(err, PITH_MISMATCH, "%s: a part of it is missing", m->w->as.name);
    PITH_TRY(pith_tensor_need(t, err));
    if (t->dtype != m->w->dtype)
        PITH_TRY(pith_store_recode(t, m->w->dtype, PITH_AS_SHOWN, made, err));
    else if (!pith_tensor_straight(t, made)) return pith_fail_nomem(err, t->name);
    *bytes = *made ? *made : t->data;
    return PITH_OK;
}

/* All of an expert. */
static enum pith_status make_expert(void *ctx, uint32_t e, uint8_t *out, struct pith_error *err)
{
    const struct making *m = ctx;
    const struct pith_fused_spec *spec = &m->w->as.spec;
    const struct pith_layer_plan *plan = pith_job_plan(m->r->job, m->w->layer);
    enum pith_status s = PITH_OK;
    for (uint32_t p = 0; p < spec->parts && s == PITH_OK; p++) {
        const uint32_t linear = pith_fused_linear(spec, e, p);
        const struct pith_linear_spec *l = &plan->linear[linear];
        const uint32_t cols = m->w->as.bias ? 1 : l->cols;
        const struct pith_fused_place to = pith_fused_place(&m->w->as, l, p);
        const uint8_t *bytes = NULL;
        uint8_t *made;
        s = bytes_of(m, linear, (uint64_t)l->rows * cols, &made, &bytes, err);
        if (s == PITH_OK) scatter(&to, l->rows, cols, pith_dtype_bits(m->w->dtype) / 8, bytes, out);
        pith_free(made);
    }
    return s;
}

static bool any_changed(const struct making *m)
{
    const struct pith_fused_spec *spec = &m->w->as.spec;
    for (uint32_t e = 0; e < spec->experts; e++)
        for (uint32_t p = 0; p < spec->parts; p++)
            if (changed(m, pith_fused_linear(spec, e, p))) return true;
    return false;
}

/* Whether the input has it in codes, or in another precision. */
static bool is_decoded(const struct pith_job *job, const struct pith_whole *w)
{
    const struct pith_tensor *t = part_of(job, w, pith_fused_linear(&w->as.spec, 0, 0));
    return t && (t->lazy || t->dtype != w->dtype);
}

uint64_t pith_store_whole_bytes(const struct pith_job *job, uint32_t layer)
{
    uint64_t most = 0;
    for (size_t i = first_of(job, layer); i < job->whole_count && job->wholes[i].layer == layer;
         i++) {
        const struct pith_whole *w = &job->wholes[i];
        uint64_t all = 0;
        (void)pith_tensor_size(w->dtype, w->as.dims, w->as.shape, &all);
        /* An expert, and its parts' copies or, of two bytes at least, floats and what they make. */
        all = (is_decoded(job, w) ? 4 : 2) * (all / w->as.spec.experts);
        if (all > most) most = all;
    }
    return most;
}

enum pith_status pith_store_wholes(struct pith_run *r, uint32_t layer, const struct pith_changes *c,
                                   json_t *tensors, struct pith_error *err)
{
    const struct pith_job *job = r->job;
    for (size_t i = first_of(job, layer); i < job->whole_count && job->wholes[i].layer == layer;
         i++) {
        struct making m = {r, &job->wholes[i], c};
        const struct pith_fused_whole *as = &m.w->as;
        const bool new = any_changed(&m), decoded = is_decoded(job, m.w);
        const char *reason = new        ? "the transform was folded in"
                             : as->bias ? "biases stay as they are"
                                        : pith_job_choice(job, layer, as->spec.first)->reason;
        const char *action = new       ? c->action(c->ctx, as->spec.first, as->bias)
                             : decoded ? "decoded"
                                       : "copied";
        const struct pith_parts parts = {as->name, as->spec.experts, make_expert, &m, action,
                                         reason};
        if (new || decoded || !as->stored) PITH_TRY(pith_store_parts(r, &parts, tensors, err));
        else {
            struct pith_copy copy = {.tensor = as->stored, .reason = reason};
            PITH_TRY(pith_store_copies(r, &copy, 1, tensors, err));
        }
    }
    return PITH_OK;
}
