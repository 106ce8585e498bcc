#include "quantize/ranks/windows.h"

#include "base/mem.h"
#include "calib/grads.h"
#include "quantize/run.h"

#include <string.h>

struct pith_window_span pith_windows_here(const struct pith_run *r, size_t count)
{
    const unsigned own = pith_ranks_own(r->ranks);
    return (struct pith_window_span){pith_ranks_from(r->ranks, own, count),
                                     pith_ranks_from(r->ranks, own + 1, count)};
}

enum pith_status pith_windows_share(const struct pith_run *r, void *of, size_t count, size_t size,
                                    struct pith_error *err)
{
    return pith_ranks_share_parts(r->ranks, of, count, size, err);
}

enum pith_status pith_windows_sum(const struct pith_run *r, size_t *number, size_t n,
                                  struct pith_error *err)
{
    if (!r->ranks) return PITH_OK;
    size_t *before = pith_zalloc(n, sizeof *before);
    if (!before) return pith_fail_nomem(err, "sums over windows");
    const size_t bytes = n * sizeof *before;
    enum pith_status s = pith_relay_pass(r->ranks, PITH_RELAY_RECEIVE, before, bytes, err);
    for (size_t i = 0; i < n; i++) number[i] += before[i];
    if (s == PITH_OK) s = pith_relay_pass(r->ranks, PITH_RELAY_SEND, number, bytes, err);
    if (s == PITH_OK) s = pith_relay_pass(r->ranks, PITH_RELAY_SHARE, number, bytes, err);
    pith_free(before);
    return s;
}

/* --- activations of all windows --------------------------------------------------------------- */

/* Separate from the files of r->cal.acts: where ranks share a folder, these are the same files on
 * all ranks. */
enum pith_status pith_windows_open(struct pith_run *r, struct pith_error *err)
{
    const struct pith_acts *a = &r->cal.acts[0];
    const uint64_t bytes = (uint64_t)pith_acts_all(a) * pith_acts_step(a) * sizeof *a->x;
    for (int i = 0; i < 2 && r->ranks; i++)
        PITH_TRY(pith_calibration_own(r, "pith.acts.whole", bytes, &r->cal.learn.whole[i], err));
    return PITH_OK;
}

enum pith_status pith_windows_gather(const struct pith_run *r, const struct pith_acts *from,
                                     int which, struct pith_acts *to, struct pith_error *err)
{
    const size_t floats = pith_acts_floats(from), all = pith_acts_all(from);
    *to = *from;
    if (!r->ranks) return PITH_OK;
    *to = (struct pith_acts){.x = r->cal.learn.whole[which].data,
                             .windows = all,
                             .length = from->length,
                             .hidden = from->hidden,
                             .carried = from->carried,
                             .stride = from->stride};
    for (size_t w = 0; w < from->windows; w++)
        memcpy(pith_acts_window(to, from->first + w), pith_acts_window(from, w),
               floats * sizeof *to->x);
    for (size_t w = 0; w < all; w++)
        PITH_TRY(pith_relay_window(&r->cal.collector.relay, all, w, pith_acts_window(to, w), floats,
                                   err));
    return PITH_OK;
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Of the windows of a step, the most that a rank runs forward and back. */
static struct pith_grads_room grads_room(const struct pith_job *job, uint32_t layer)
{
    const size_t ranks = pith_ranks_count(pith_job_ranks(job)), all = job->calib.windows;
    const size_t batch = job->recipe.round_options.batch < all ? job->recipe.round_options.batch
                                                               : all;
    return (struct pith_grads_room){.model = job->model,
                                    .plan = pith_job_plan(job, layer),
                                    .windows = ranks > 1 ? (batch + ranks - 1) / ranks : 0,
                                    .length = job->calib.length};
}

enum pith_status pith_windows_open_grads(const struct pith_run *r, uint32_t layer,
                                         struct pith_grads *g, struct pith_error *err)
{
    const struct pith_grads_room room = grads_room(r->job, layer);
    return pith_grads_open(g, r->job->backend, r->ranks, &room, err);
}

uint64_t pith_windows_grads_bytes(const struct pith_job *job, uint32_t layer)
{
    const struct pith_grads_room room = grads_room(job, layer);
    return pith_grads_bytes(&room);
}

void pith_windows_keep_grads(const struct pith_run *r, struct pith_grads *g,
                             struct pith_tape_grad *back)
{
    if (!r->ranks) return;
    back->product = pith_grads_keep;
    back->product_ctx = g;
}

enum pith_status pith_windows_sum_grads(const struct pith_run *r, struct pith_grads *g,
                                        const struct pith_layer_plan *plan, float *const *w,
                                        struct pith_error *err)
{
    return r->ranks ? pith_grads_meet(g, plan, &(struct pith_grads_sums){.w = w}, err) : PITH_OK;
}

/* --- statistics on their way ------------------------------------------------------------------ */

/* What is read by the sites that a pass looks at: one when linears are rounded, all when the layer
 * is transformed. */
static size_t relay_width(const struct pith_job *job)
{
    size_t most = 0;
    if (pith_job_learns(job) && !job->needs_transform) return 0;
    for (uint32_t k = 0; k < job->model->plans.kinds; k++) {
        const struct pith_layer_plan *l = &job->model->plans.kind[k];
        size_t sum = 0, widest = 0;
        for (uint32_t i = 0; i < l->sites; i++) {
            sum += l->site[i].dim;
            widest = l->site[i].dim > widest ? l->site[i].dim : widest;
        }
        const size_t one = job->needs_round & PITH_NEED_DRIFT ? 2 * widest : widest;
        const size_t width = job->needs_transform && sum > one ? sum : one;
        most = width > most ? width : most;
    }
    return most;
}

static enum pith_status make_room(void *ctx, size_t floats, float **out, struct pith_error *err)
{
    struct pith_run *r = ctx;
    pith_scratch_file_close(&r->cal.sent);
    PITH_TRY(pith_calibration_own(r, "pith.acts.sent", floats * sizeof **out, &r->cal.sent, err));
    *out = r->cal.sent.data;
    return PITH_OK;
}

enum pith_status pith_windows_open_relay(struct pith_run *r, struct pith_error *err)
{
    const size_t tokens = r->cal.acts[0].windows * r->job->calib.length;
    const size_t width = relay_width(r->job);
    if (!r->ranks) return PITH_OK;
    const size_t bytes = (tokens && width ? tokens * width : 1) * sizeof(float);
    PITH_TRY(pith_calibration_own(r, "pith.acts.sites", bytes, &r->cal.sites, err));
    r->cal.collector.relay = (struct pith_relay){.ranks = r->ranks,
                                                 .rows = r->cal.sites.data,
                                                 .width = width,
                                                 .room = make_room,
                                                 .room_ctx = r};
    return PITH_OK;
}
