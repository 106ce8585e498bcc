#include "pipe/inspect.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static size_t windows_kept(size_t windows, size_t length)
{
    const size_t want = PITH_INSPECT_TOKENS / length ? PITH_INSPECT_TOKENS / length : 1;
    return want < windows ? want : windows;
}

uint64_t pith_inspector_bytes(const struct pith_shape *s, uint32_t dim, size_t windows,
                              size_t length)
{
    const uint64_t kept = windows_kept(windows, length);
    return (kept * dim + (kept + 1) * s->hidden) * length * sizeof(float);
}

/* The module's output for one window, into out[length][hidden]. */
static enum pith_status run_module(const struct pith_inspector *in, size_t window, float *out,
                                   struct pith_error *err)
{
    struct pith_collector *c = in->collector;
    const struct pith_pass pass = {
        .backend = c->backend,
        .model = c->model,
        .scratch = &c->scratch,
        .kv = &c->kv,
    };
    const float *x = in->input + window * in->length * in->dim;
    return pith_module_forward(&pass, in->block, in->site, x, in->length, out, err);
}

/* Mean squared difference from the reference; infinite when the pass fails, so that it is not
 * chosen. */
static double module_loss(void *ctx, const float *s)
{
    (void)s; /* candidate weights already carry 1/s: see transform.h */
    const struct pith_inspector *in = ctx;
    const size_t count = in->length * in->hidden;
    double sum = 0;
    for (size_t w = 0; w < in->windows; w++) {
        if (run_module(in, w, in->output, NULL) != PITH_OK) return INFINITY;
        const float *reference = in->reference + w * count;
        for (size_t i = 0; i < count; i++) {
            const double d = (double)in->output[i] - reference[i];
            sum += d * d;
        }
    }
    return sum / (double)(in->windows * count);
}

enum pith_status pith_inspector_init(struct pith_inspector *in, struct pith_collector *c,
                                     const struct pith_block *block, const struct pith_acts *acts,
                                     uint32_t site, struct pith_transform_job *job,
                                     struct pith_error *err)
{
    *in = (struct pith_inspector){
        .collector = c,
        .block = block,
        .site = site,
        .length = acts->length,
        .windows = windows_kept(acts->windows, acts->length),
        .dim = block->plan->site[site].dim,
        .hidden = c->model->shape.hidden,
    };
    const size_t count = in->length * in->hidden;
    in->input = pith_alloc_aligned(in->windows * in->length * in->dim, sizeof(float));
    in->reference = pith_alloc_aligned(in->windows * count, sizeof(float));
    in->output = pith_alloc_aligned(count, sizeof(float));
    if (!in->input || !in->reference || !in->output)
        return pith_fail_nomem(err, "inspected windows");
    PITH_TRY(pith_collect_windows(c, block, acts, site, in->windows, in->input, err));
    for (size_t w = 0; w < in->windows; w++)
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
    *in = (struct pith_inspector){0};
}
