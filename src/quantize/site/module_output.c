#include "quantize/site/module_output.h"

#include "base/mem.h"

static size_t sample_windows(size_t windows, size_t length)
{
    const size_t want = PITH_INSPECT_TOKENS / length ? PITH_INSPECT_TOKENS / length : 1;
    return want < windows ? want : windows;
}

uint64_t pith_inspector_bytes(const struct pith_shape *s, uint32_t dim, size_t windows,
                              size_t length, bool lends)
{
    const uint64_t stored = sample_windows(windows, length), outputs = lends ? stored : 1;
    const uint64_t choices = lends ? stored * s->moe.taken * (sizeof(uint32_t) + sizeof(float)) : 0;
    return ((stored * dim + (stored + outputs) * s->hidden) * sizeof(float) + choices) * length;
}

static struct pith_pass pass_of(const struct pith_inspector *in)
{
    struct pith_collector *c = in->collector;
    return (struct pith_pass){
        .backend = c->backend,
        .model = c->model,
        .scratch = &c->scratch,
        .kv = &c->kv,
    };
}

/* --- an expert at a time ---------------------------------------------------------------------- */

/* A window's, of which out[windows][length][hidden] gets the output. */
static struct pith_module_rows rows_of(const struct pith_inspector *in, size_t window, float *out)
{
    const size_t first = window * in->length, taken = in->collector->model->shape.moe.taken;
    return (struct pith_module_rows){.x = in->input + first * in->dim,
                                     .n = in->length,
                                     .out = out + first * in->hidden,
                                     .chosen = in->chosen + first * taken,
                                     .share = in->share + first * taken};
}

static bool is_taken(const struct pith_inspector *in, uint32_t expert)
{
    const size_t n = in->windows * in->length * in->collector->model->shape.moe.taken;
    for (size_t i = 0; i < n; i++)
        if (in->chosen[i] == expert) return true;
    return false;
}

static enum pith_status run_expert(const struct pith_inspector *in, uint32_t expert,
                                   const struct pith_trial *trial, float *out,
                                   struct pith_error *err)
{
    const struct pith_pass pass = pass_of(in);
    const struct pith_node *node = pith_plan_experts(in->block->plan);
    const uint32_t each = node->u.experts.each, first = node->u.experts.first + expert * each;
    enum pith_status s = PITH_OK;
    for (uint32_t i = 0; i < each && s == PITH_OK; i++)
        s = in->lender->lend(in->lender->ctx, first + i, trial, err);
    for (size_t w = 0; w < in->windows && s == PITH_OK; w++) {
        const struct pith_module_rows rows = rows_of(in, w, out);
        pith_module_expert(&pass, in->block, expert, &rows);
    }
    for (uint32_t i = 0; i < each; i++) in->lender->back(in->lender->ctx, first + i);
    return s;
}

/* The module's output for all windows. */
static enum pith_status run_experts(const struct pith_inspector *in, const struct pith_trial *trial,
                                    float *out, struct pith_error *err)
{
    const struct pith_pass pass = pass_of(in);
    for (size_t w = 0; w < in->windows; w++) {
        const struct pith_module_rows rows = rows_of(in, w, out);
        PITH_TRY(pith_module_begin(&pass, in->block, &rows, err));
    }
    for (uint32_t e = 0; e < in->collector->model->shape.moe.experts; e++)
        if (is_taken(in, e)) PITH_TRY(run_expert(in, e, trial, out, err));
    for (size_t w = 0; w < in->windows; w++) {
        const struct pith_module_rows rows = rows_of(in, w, out);
        PITH_TRY(pith_module_end(&pass, in->block, &rows, err));
    }
    return PITH_OK;
}

/* --- the loss --------------------------------------------------------------------------------- */

/* The module's output for one window, into out[length][hidden]. */
static enum pith_status run_module(const struct pith_inspector *in, size_t window, float *out,
                                   struct pith_error *err)
{
    const struct pith_pass pass = pass_of(in);
    const float *x = in->input + window * in->length * in->dim;
    return pith_module_forward(&pass, in->block, in->site, x, in->length, out, err);
}

/* Mean squared difference from the reference. */
static enum pith_status module_loss(void *ctx, const struct pith_trial *trial, double *loss,
                                    struct pith_error *err)
{
    const struct pith_inspector *in = ctx;
    const size_t count = in->length * in->hidden;
    double sum = 0;
    if (in->lender) PITH_TRY(run_experts(in, trial, in->output, err));
    for (size_t w = 0; w < in->windows; w++) {
        const float *reference = in->reference + w * count;
        const float *output = in->output + (in->lender ? w * count : 0);
        if (!in->lender) PITH_TRY(run_module(in, w, in->output, err));
        for (size_t i = 0; i < count; i++) {
            const double d = (double)output[i] - reference[i];
            sum += d * d;
        }
    }
    *loss = sum / (double)(in->windows * count);
    return PITH_OK;
}

static bool take_memory(struct pith_inspector *in)
{
    const size_t tokens = in->windows * in->length, hidden = in->hidden;
    const size_t taken = in->collector->model->shape.moe.taken;
    in->input = pith_alloc_aligned(tokens * in->dim, sizeof(float));
    in->reference = pith_alloc_aligned(tokens * hidden, sizeof(float));
    in->output = pith_alloc_aligned((in->lender ? tokens : in->length) * hidden, sizeof(float));
    if (!in->lender) return in->input && in->reference && in->output;
    in->chosen = pith_alloc(tokens * taken, sizeof *in->chosen);
    in->share = pith_alloc(tokens * taken, sizeof *in->share);
    return in->input && in->reference && in->output && in->chosen && in->share;
}

enum pith_status pith_inspector_init(struct pith_inspector *in, const struct pith_inspected *what,
                                     struct pith_transform_job *job, struct pith_error *err)
{
    const struct pith_acts *acts = what->acts;
    *in = (struct pith_inspector){
        .collector = what->collector,
        .block = what->block,
        .site = what->site,
        .lender = what->lender,
        .length = acts->length,
        .windows = sample_windows(pith_acts_all(acts), acts->length),
        .dim = what->block->plan->site[what->site].dim,
        .hidden = what->collector->model->shape.hidden,
    };
    const size_t count = in->length * in->hidden;
    if (!take_memory(in)) return pith_fail_nomem(err, "inspected windows");
    PITH_TRY(pith_collect_windows(in->collector, in->block, acts, in->site, in->windows, in->input,
                                  err));
    if (in->lender) PITH_TRY(run_experts(in, NULL, in->reference, err));
    for (size_t w = 0; w < in->windows && !in->lender; w++)
        PITH_TRY(run_module(in, w, in->reference + w * count, err));
    job->loss = module_loss;
    job->loss_ctx = in;
    return PITH_OK;
}

void pith_inspector_free(struct pith_inspector *in)
{
    pith_free(in->input);
    pith_free(in->reference);
    pith_free(in->output);
    pith_free(in->chosen);
    pith_free(in->share);
    *in = (struct pith_inspector){0};
}
