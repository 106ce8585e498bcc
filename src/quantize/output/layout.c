/* Which tensors the output will hold, and where. */
#include "quantize/output/layout.h"

#include "base/str.h"
#include "export/file.h"
#include "quantize/job.h"
#include "quantize/output/ends.h"
#include "quantize/output/joined_tensors.h"
#include "quantize/site/inputs.h"
#include "quantize/units.h"

#include <stdio.h>
#include <string.h>

/* Linear search in the tensor's layer only. A quantized linear has tensors of any suffix. */
const struct pith_choice *pith_job_tensor_choice(const struct pith_job *job, const char *tensor)
{
    uint32_t layer;
    if (!pith_plan_layer_of(&job->model->plans, tensor, &layer)) return pith_job_end(job, tensor);
    for (uint32_t i = 0; i < pith_job_plan(job, layer)->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        const size_t n = strlen(c->module);
        if (strncmp(tensor, c->module, n) != 0 || tensor[n] != '.') continue;
        const bool part = c->stored.format && strcmp(tensor + n, ".bias") != 0;
        if (part || strcmp(tensor + n, ".weight") == 0) return c;
    }
    return NULL;
}

static enum pith_status plan_linear(struct pith_job *job, const struct pith_choice *c,
                                    struct pith_error *err)
{
    struct pith_packed_set set = {0};
    struct pith_container_opts opts = job->container_opts;
    opts.hadamard = c->hadamard;
    enum pith_status s = job->container->plan(&c->grid, c->rows, c->cols, &opts, &set, err);
    for (unsigned i = 0; i < set.count && s == PITH_OK; i++) {
        const struct pith_packed *p = &set.item[i];
        struct pith_str name = {0};
        pith_str_printf(&name, "%s%s", c->module, p->suffix);
        s = name.failed
                ? pith_fail_nomem(err, c->module)
                : pith_layout_add(&job->layout, name.data, p->dtype, p->dims, p->shape, err);
        pith_str_free(&name);
    }
    pith_packed_free(&set);
    return s;
}

/* A head like the embedding that it was, unless the input stores it twice. */
static enum pith_status plan_head(struct pith_job *job, struct pith_error *err)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    struct pith_choice *c = &job->ends[PITH_END_HEAD];
    if (c->planned) return PITH_OK;
    c->planned = c->grid.format != NULL;
    if (c->planned) return plan_linear(job, c, err);
    char embed[PITH_END_NAME], head[PITH_END_NAME];
    pith_end_tensor(job->model, PITH_END_EMBED, embed);
    pith_end_tensor(job->model, PITH_END_HEAD, head);
    const struct pith_tensor *t = pith_checkpoint_find(in, embed);
    if (!t || pith_checkpoint_find(in, head)) return PITH_OK;
    return pith_layout_add(&job->layout, head, t->dtype, t->dims, t->shape, err);
}

/* The embedding or the head of a quantized input, in the model's precision. */
static enum pith_status plan_plain(struct pith_job *job, const struct pith_choice *c,
                                   struct pith_error *err)
{
    const uint64_t shape[] = {c->rows, c->cols};
    char name[64];
    (void)snprintf(name, sizeof name, "%s.weight", c->module);
    return pith_layout_add(&job->layout, name, job->container_opts.model_dtype, 2, shape, err);
}

static enum pith_status plan_kv(struct pith_job *job, uint32_t layer, struct pith_error *err)
{
    const uint64_t count = pith_inputs_kv_scales(job, layer), shape[] = {count, 1, 1};
    for (int i = 0; i < 2; i++) {
        char name[PITH_KV_NAME];
        pith_inputs_kv_name(job, layer, i, name);
        PITH_TRY(pith_layout_add(&job->layout, name, PITH_F32, pith_inputs_kv_by_head(job) ? 3 : 1,
                                 shape, err));
    }
    return PITH_OK;
}

/* Next to a linear it could have the name of something that a container writes there. */
static bool leaves_out_stray(const struct pith_job *job, const char *tensor)
{
    return pith_model_is_stray(job->model, tensor) &&
           (job->container->file || pith_unit_of(&job->model->plans, tensor) != 0 ||
            pith_job_end(job, tensor));
}

bool pith_job_leaves_out(const struct pith_job *job, const char *tensor)
{
    return pith_plan_unread(&job->model->plans, tensor) || leaves_out_stray(job, tensor) ||
           (job->container->file && pith_plan_buffer(&job->model->plans, tensor));
}

enum pith_dtype pith_job_copy_dtype(const struct pith_job *job, const struct pith_tensor *t)
{
    const struct pith_file_export *file = pith_file_export_of(job->container);
    struct pith_tensor as = *t;
    as.dtype = pith_job_weight_dtype(job, t);
    return file ? file->stored_dtype(job->model, &as) : as.dtype;
}

static enum pith_status plan_copy(struct pith_job *job, const struct pith_tensor *t,
                                  struct pith_error *err)
{
    const struct pith_file_export *file = pith_file_export_of(job->container);
    const enum pith_dtype dtype = pith_job_copy_dtype(job, t);
    const struct pith_tensor stored = pith_tensor_stored_in(t, file != NULL);
    return pith_layout_add(&job->layout, t->name, dtype, t->dims, stored.shape, err);
}

static enum pith_status plan_whole(struct pith_job *job, struct pith_whole *w,
                                   struct pith_error *err)
{
    if (w->planned) return PITH_OK;
    w->planned = true;
    return pith_layout_add(&job->layout, w->as.name, w->dtype, w->as.dims, w->as.shape, err);
}

static enum pith_status plan_tensor(struct pith_job *job, const struct pith_tensor *t,
                                    struct pith_error *err)
{
    if (job->convert && pith_is_kv_scale(t->name)) return PITH_OK;
    if (pith_job_leaves_out(job, t->name)) return PITH_OK;
    struct pith_whole *w = pith_job_tensor_whole(job, t->name);
    if (w) return plan_whole(job, w, err);
    const struct pith_choice *c = pith_job_tensor_choice(job, t->name);
    if (c && c->planned) return PITH_OK;
    if (c && c->grid.format) {
        job->choices[c - job->choices].planned = true;
        return plan_linear(job, c, err);
    }
    return c && c->stored.format ? plan_plain(job, c, err) : plan_copy(job, t, err);
}

/* In the order in which a reader needs them: outer ones first, then by layer. */
enum pith_status pith_job_layout(struct pith_job *job, struct pith_error *err)
{
    const struct pith_checkpoint *in = job->model->checkpoint;
    PITH_TRY(pith_job_wholes(job, err));
    for (size_t unit = 0; unit <= job->model->shape.layers; unit++) {
        size_t count;
        const size_t first = pith_unit_tensors(job->model, unit, &count);
        if (unit == 1 && pith_job_unties(job)) PITH_TRY(plan_head(job, err));
        for (size_t i = first; i < first + count; i++)
            if (pith_unit_of(&job->model->plans, in->tensors[i].name) == unit)
                PITH_TRY(plan_tensor(job, &in->tensors[i], err));
        if (unit > 0 && pith_inputs_kv_of(job, (uint32_t)unit - 1))
            PITH_TRY(plan_kv(job, (uint32_t)unit - 1, err));
    }
    const struct pith_file_export *file = pith_file_export_of(job->container);
    if (!file) return pith_layout_finish(&job->layout, job->options->max_shard, err);
    return file->finish(job->model, job->options->model, job->container->file,
                        job->mixture ? job->mixture->file_type : 0, &job->layout, err);
}
