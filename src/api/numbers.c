/* A part of a model as the numbers that it stands for. */
#include <pith/inspect.h>

#include "api/context.h"
#include "base/mem.h"
#include "base/progress.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

/* The search for a part: `found` becomes true when it was there, and was copied. */
struct search {
    struct pith_context *context;
    struct pith_model *model;
    const char *name;
    struct pith_numbers *out;
    bool found;
};

static enum pith_status copy_rows(const struct search *s, const struct pith_weight *w,
                                  struct pith_error *err)
{
    const struct pith_progress *progress = &s->context->progress;
    enum { STEP = 1024 };
    size_t count;
    if (!pith_mul_size(w->rows, w->cols, &count)) return pith_fail_nomem(err, s->name);
    float *value = pith_alloc_aligned(count, sizeof *value);
    if (!value) return pith_fail_nomem(err, s->name);
    enum pith_status status = PITH_OK;
    for (uint32_t r = 0; r < w->rows && status == PITH_OK; r += STEP) {
        const uint32_t n = w->rows - r < STEP ? w->rows - r : STEP;
        status = pith_progress_step(progress, "reading", r, w->rows, err);
        if (status == PITH_OK)
            pith_decode_rows(s->context->backend, w, r, n, value + (size_t)r * w->cols);
    }
    if (status == PITH_OK) *s->out = (struct pith_numbers){value, w->rows, w->cols};
    else pith_free(value);
    return status;
}

static enum pith_status try_matrix(struct search *s, const char *name, const struct pith_weight *w,
                                   struct pith_error *err)
{
    if (s->found || strcmp(name, s->name) != 0) return PITH_OK;
    s->found = true;
    return copy_rows(s, w, err);
}

static enum pith_status try_vector(struct search *s, const char *name, const float *v, size_t n,
                                   struct pith_error *err)
{
    if (!v || n == 0 || n > UINT32_MAX) return PITH_OK;
    const struct pith_weight w = {.rows = 1, .cols = (uint32_t)n, .dtype = PITH_F32, .dense = v};
    return try_matrix(s, name, &w, err);
}

static enum pith_status search_block(struct search *s, const struct pith_block *b,
                                     struct pith_error *err)
{
    char name[256], bias[264];
    for (uint32_t i = 0; i < b->plan->linears; i++) {
        pith_plan_linear_name(&s->model->plans, b->layer, i, name, sizeof name);
        snprintf(bias, sizeof bias, "%s.bias", name);
        PITH_TRY(try_matrix(s, name, &b->linear[i].w, err));
        PITH_TRY(try_vector(s, bias, b->linear[i].bias, b->linear[i].w.rows, err));
    }
    for (uint32_t i = 0; i < b->plan->vectors; i++) {
        const struct pith_vector_spec *spec = &b->plan->vector[i];
        pith_plan_name(&s->model->plans, b->layer, spec->name, name, sizeof name);
        char *end = strrchr(name, '.');
        if (end && strcmp(end, ".weight") == 0) *end = '\0'; /* by modules */
        PITH_TRY(try_vector(s, name, b->vector[i], pith_vector_count(spec), err));
    }
    return PITH_OK;
}

/* The layer that the name is of, if any: the others are not loaded. */
static enum pith_status search_layers(struct search *s, struct pith_error *err)
{
    for (uint32_t layer = 0; layer < s->model->shape.layers && !s->found; layer++) {
        struct pith_block block;
        char front[256];
        pith_plan_name(&s->model->plans, layer, "", front, sizeof front);
        if (strncmp(front, s->name, strlen(front)) != 0) continue;
        PITH_TRY(pith_block_load(s->model, layer, PITH_LOAD_MAPPED, &block, err));
        const enum pith_status status = search_block(s, &block, err);
        pith_block_free(&block);
        PITH_TRY(status);
    }
    return PITH_OK;
}

static enum pith_status search_model(struct search *s, const char *path, struct pith_error *err)
{
    const struct pith_model *m = s->model;
    PITH_TRY(try_matrix(s, m->arch->names.embed, &m->embed, err));
    PITH_TRY(try_vector(s, m->arch->names.norm, m->final_norm, m->shape.hidden, err));
    if (!m->shape.ends.tied) PITH_TRY(try_matrix(s, m->arch->names.head, &m->head, err));
    if (!s->found) PITH_TRY(search_layers(s, err));
    if (s->found) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s: the model has no part '%.200s'", path, s->name);
}

enum pith_status pith_numbers_read(struct pith_context *context, const char *model,
                                   const char *part, struct pith_numbers *out,
                                   struct pith_error *err)
{
    struct search s = {.context = context, .name = part, .out = out};
    *out = (struct pith_numbers){0};
    pith_context_look(context, model);
    PITH_TRY(pith_model_open(model, &s.model, err));
    enum pith_status status = search_model(&s, model, err);
    status = pith_checkpoint_settle(s.model->checkpoint, false, status, err);
    pith_model_close(s.model);
    if (status != PITH_OK) {
        pith_free(out->value);
        *out = (struct pith_numbers){0};
    }
    return status;
}
