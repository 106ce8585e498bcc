/* The embedding and the head, where they are quantized: one file for llama.cpp has them quantized,
 * as llama.cpp does by rule, and what is converted may come from one. */
#include "quantize/output/ends.h"

#include "base/mem.h"
#include "export/file.h"
#include "quantize/convert.h"
#include "quantize/run.h"
#include "quantize/stream.h"

#include <stdio.h>
#include <string.h>

const char *pith_end_module(const struct pith_model *m, enum pith_end end)
{
    const struct pith_arch_names *names = &m->arch->names;
    return end == PITH_END_HEAD ? names->head : names->embed;
}

void pith_end_tensor(const struct pith_model *m, enum pith_end end, char name[PITH_END_NAME])
{
    (void)snprintf(name, PITH_END_NAME, "%s.weight", pith_end_module(m, end));
}

const struct pith_choice *pith_job_end(const struct pith_job *job, const char *tensor)
{
    for (int i = 0; job->ends && i < PITH_END_COUNT; i++) {
        const char *module = job->ends[i].module;
        const size_t n = module ? strlen(module) : 0;
        if (job->ends[i].rows && strncmp(tensor, module, n) == 0 && tensor[n] == '.' &&
            strcmp(tensor + n, ".bias") != 0)
            return &job->ends[i];
    }
    return NULL;
}

enum pith_status pith_ends_list(struct pith_job *job, struct pith_error *err)
{
    const struct pith_model *m = job->model;
    for (int i = 0; i < PITH_END_COUNT; i++) {
        struct pith_choice *c = &job->ends[i];
        if (i == PITH_END_HEAD && m->shape.ends.tied && !pith_job_unties(job)) continue;
        c->module = pith_strdup(pith_end_module(m, (enum pith_end)i));
        if (!c->module) return pith_fail_nomem(err, "the ends of a model");
        c->rows = m->shape.vocab;
        c->cols = pith_shape_embed(&m->shape);
        if (!job->convert || !m->container) continue;
        PITH_TRY(m->container->describe(m->container_state, m->checkpoint, c->module, &c->stored,
                                        &job->container_opts, err));
    }
    return PITH_OK;
}

/* Only the container that llama.cpp reads has a place for them. */
bool pith_ends_may(const struct pith_job *job)
{
    return job->container->file;
}

void pith_ends_default(const struct pith_job *job, struct pith_choice *c)
{
    const bool tied = job->model->shape.ends.tied && !pith_job_unties(job);
    const bool reads_out = c == &job->ends[PITH_END_HEAD] || tied;
    c->grid = (struct pith_grid){0};
    if (!pith_ends_may(job) || !job->recipe.weights.format) return;
    const struct pith_file_export *file = pith_file_export_of(job->container);
    c->wanted = file->end_grid(&job->recipe.weights, reads_out, c->cols, &c->grid);
}

/* --- the work --------------------------------------------------------------------------------- */

/* Rows of a quantized matrix of the input. */
static enum pith_status decode_end(void *ctx, uint32_t first, uint32_t n, float *out,
                                   struct pith_error *err)
{
    (void)err;
    pith_weight_decode(ctx, first, n, out);
    return PITH_OK;
}

/* In the model's dtype, since the container has no other place. */
static enum pith_status store_plain(struct pith_run *r, const struct pith_choice *c,
                                    json_t *tensors, struct pith_error *err)
{
    struct pith_weight w = c == &r->job->ends[PITH_END_HEAD] ? r->job->model->head
                                                             : r->job->model->embed;
    char name[64];
    (void)snprintf(name, sizeof name, "%s.weight", c->module);
    struct pith_tensor like = {.name = name, .shape = {c->rows, c->cols}, .dims = 2};
    like.dtype = r->job->container_opts.model_dtype;
    (void)pith_tensor_size(like.dtype, 2, like.shape, &like.bytes);
    const struct pith_made m = {.name = name,
                                .like = &like,
                                .rows = decode_end,
                                .ctx = &w,
                                .action = "decoded",
                                .reason = "the container holds it in the model's precision"};
    return pith_store_made(r, &m, tensors, err);
}

enum pith_status pith_ends_store(struct pith_run *r, json_t *linears, json_t *tensors,
                                 struct pith_error *err)
{
    if (!r->job->convert) return pith_stream_ends(r, linears, err);
    PITH_TRY(pith_convert_linears(r, r->job->ends, PITH_END_COUNT, linears, err));
    for (int i = 0; i < PITH_END_COUNT; i++) {
        const struct pith_choice *c = &r->job->ends[i];
        if (!c->grid.format && c->stored.format) PITH_TRY(store_plain(r, c, tensors, err));
    }
    return PITH_OK;
}
