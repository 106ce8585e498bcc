/* What stands outside the blocks: the embedding, the final norm, the head. */
#include "quantize/output/outer.h"

#include "base/mem.h"
#include "quantize/output/ends.h"
#include "quantize/output/layout.h"
#include "quantize/run.h"

#include <stdio.h>
#include <string.h>

static bool is_of(const char *tensor, const char *module)
{
    const size_t n = strlen(module);
    return strncmp(tensor, module, n) == 0 && tensor[n] == '.';
}

/* Of the head: it stays as it is, whatever becomes of the matrix. */
static bool is_bias(const char *tensor)
{
    const char *dot = strrchr(tensor, '.');
    return dot && strcmp(dot, ".bias") == 0;
}

static const char *outer_reason(const struct pith_model *m, const char *name)
{
    if (pith_plan_is_other(&m->plans, name)) return "no part of the language model";
    if (is_of(name, m->arch->names.head) && is_bias(name)) return "biases stay as they are";
    if (is_of(name, m->arch->names.head)) return "the head stays in the model's precision";
    if (is_of(name, m->arch->names.embed)) return "embeddings stay in the model's precision";
    const char *const joins[] = {m->arch->names.project_in, m->arch->names.project_out};
    for (size_t i = 0; i < PITH_COUNT(joins) && m->shape.ends.width; i++)
        if (is_of(name, joins[i])) return "between the stream and embeddings of another width";
    if (m->shape.tokens.width && is_of(name, m->arch->names.per_layer_embed))
        return "embeddings stay in the model's precision";
    if (m->shape.tokens.width && is_of(name, m->arch->names.per_layer_project))
        return "the projection for layers' own embeddings stays in the model's precision";
    return "not a linear layer";
}

/* --- in another basis ------------------------------------------------------------------------- */

/* Whether the change of basis makes a tensor anew. */
static bool is_rotated(const struct pith_job *job, const char *name)
{
    if (is_bias(name)) return false;
    const struct pith_arch_names *names = &job->model->arch->names;
    const char *const modules[] = {names->embed, names->head, names->norm};
    for (size_t i = 0; i < PITH_COUNT(modules) && job->basis.stream.dim; i++)
        if (is_of(name, modules[i])) return true;
    return false;
}

struct end {
    struct pith_basis_change change;
    bool head;
};

static enum pith_status end_rows(void *ctx, uint32_t first, uint32_t n, float *out,
                                 struct pith_error *err)
{
    const struct end *e = ctx;
    return pith_rotated_rows(&e->change, e->head, first, n, out, err);
}

static enum pith_status store_end(struct pith_run *r, bool head, json_t *tensors,
                                  struct pith_error *err)
{
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    struct end e = {pith_job_basis_change(r->job), head};
    char name[PITH_END_NAME], embed[PITH_END_NAME];
    pith_end_tensor(r->job->model, PITH_END_EMBED, embed);
    pith_end_tensor(r->job->model, head ? PITH_END_HEAD : PITH_END_EMBED, name);
    struct pith_made m = {.name = name,
                          .like = pith_checkpoint_find(in, name),
                          .rows = end_rows,
                          .ctx = &e,
                          .action = "rotated",
                          .reason = "reads or writes the rotated stream"};
    if (pith_job_unties(r->job) && head) {
        m.like = pith_checkpoint_find(in, embed);
        m.reason = "no longer the embedding: the final norm went into it";
    }
    if (!m.like) return pith_fail(err, PITH_FORMAT, "%s: missing in the input", m.name);
    return pith_store_made(r, &m, tensors, err);
}

static enum pith_status store_rotated(struct pith_run *r, json_t *tensors, struct pith_error *err)
{
    float *ones = NULL;
    const struct pith_basis_change t = pith_job_basis_change(r->job);
    for (int i = 0; i < PITH_END_COUNT; i++)
        if (!r->job->ends[i].grid.format) PITH_TRY(store_end(r, i == PITH_END_HEAD, tensors, err));
    char norm[PITH_END_NAME];
    (void)snprintf(norm, sizeof norm, "%s.weight", r->job->model->arch->names.norm);
    PITH_TRY(pith_rotated_tensor(&t, norm, false, &ones, err));
    const enum pith_status s =
        pith_store_values(r, norm, ones, "rotated", "went into the head", tensors, err);
    pith_free(ones);
    return s;
}

/* --- the whole -------------------------------------------------------------------------------- */

enum pith_status pith_run_outer(struct pith_run *r, json_t *tensors, struct pith_error *err)
{
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    struct pith_copy *list = pith_zalloc(in->count, sizeof *list);
    size_t count = 0;
    if (!list) return pith_fail_nomem(err, "the tensors outside the blocks");
    for (size_t i = 0; i < in->count; i++) {
        const struct pith_tensor *t = &in->tensors[i];
        const struct pith_choice *end = pith_job_end(r->job, t->name);
        if (pith_unit_of(&r->job->model->plans, t->name) != 0 || is_rotated(r->job, t->name))
            continue;
        if (pith_job_leaves_out(r->job, t->name)) continue;
        if (end && (end->grid.format || end->stored.format)) continue;
        list[count++] =
            (struct pith_copy){.tensor = t, .reason = outer_reason(r->job->model, t->name)};
    }
    enum pith_status s = pith_store_copies(r, list, count, tensors, err);
    pith_free(list);
    if (s == PITH_OK && r->job->basis.stream.dim) s = store_rotated(r, tensors, err);
    return s;
}

/* The stream as it will be served: rotated rows, rounded as they are stored. */
static enum pith_status rotate_window(const struct pith_job *job, float *x, size_t n,
                                      struct pith_error *err)
{
    const struct pith_basis_change t = pith_job_basis_change(job);
    if (!job->basis.stream.dim) return PITH_OK;
    PITH_TRY(pith_rotate_stream(&t, x, n, err));
    for (size_t i = 0; i < n * job->model->shape.hidden; i++)
        x[i] = pith_round_to(job->model->embed.dtype, x[i]);
    return PITH_OK;
}

static enum pith_status embed_windows(struct pith_run *r, struct pith_error *err)
{
    const size_t length = r->job->calib.length;
    const struct pith_acts *acts = &r->cal.acts[0];
    for (size_t w = 0; w < acts->windows; w++) {
        float *x = pith_acts_window(acts, w);
        const int32_t *ids = r->job->calib.ids + (acts->first + w) * length;
        const enum pith_status s = pith_model_embed(r->job->model, ids, length, x, err);
        if (s != PITH_OK)
            return pith_fail_as(err, s == PITH_ARG ? PITH_FORMAT : s,
                                "the tokenizer does not fit this model");
        pith_plans_fill(&r->job->model->plans, ids, length, x + length * acts->hidden);
        PITH_TRY(rotate_window(r->job, x, length, err));
        PITH_TRY(pith_progress_step(&r->job->options->progress, "embedding", r->work_done,
                                    r->work_total, err));
    }
    return PITH_OK;
}

/* As it lies in the output. */
static enum pith_status load_embedding(const struct pith_run *r, const struct pith_choice *c,
                                       struct pith_qmat *q, struct pith_error *err)
{
    bool found = false;
    PITH_TRY(r->job->container->load(r->out.written_state, r->out.written, c->module, c->rows,
                                     c->cols, q, &found, err));
    return found ? PITH_OK
                 : pith_fail(err, PITH_MISMATCH, "%s: not found when read back", c->module);
}

enum pith_status pith_run_embed(struct pith_run *r, struct pith_error *err)
{
    const struct pith_choice *c = &r->job->ends[PITH_END_EMBED];
    struct pith_model *m = r->job->model;
    const struct pith_weight original = m->embed;
    struct pith_qmat q = {0};
    if (!c->grid.format) return embed_windows(r, err);
    if (pith_run_writes(r)) PITH_TRY(load_embedding(r, c, &q, err));
    enum pith_status s = pith_writers_share_matrix(r, &q, err);
    if (s == PITH_OK) {
        m->embed = (struct pith_weight){.rows = c->rows, .cols = c->cols, .quant = &q};
        s = embed_windows(r, err);
        m->embed = original;
    }
    pith_qmat_free(&q);
    return s;
}
