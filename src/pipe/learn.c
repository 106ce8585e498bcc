/* Rounding whole blocks by what they give. The target is what the float model's block gives for the
 * float model's activations; the block being rounded reads what the quantized blocks before it give
 * (or, when the recipe says so, the float activations too), so that it also learns to make up for
 * their errors. Where activations are rounded, the block that learns rounds them too. Sequences go
 * through the block one at a time, there and back: memory is that of one sequence, whatever the
 * batch.
 *
 * With several ranks each has what all sequences read and are to give, and of those of a step takes
 * a run; gradients go round (calib/grads.h). All then make the same step. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/grads.h"
#include "kern/ops.h"
#include "num/input.h"

#include <stdio.h>
#include <string.h>

enum { FORWARD = 1, THERE_AND_BACK = 3 }; /* efforts */

enum pith_status pith_learn_check(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_recipe *recipe = &job->recipe;
    const struct pith_input in = {.grid = recipe->acts};
    const char *name = recipe->round->name;
    if (!pith_job_learns(job)) return PITH_OK;
    if (recipe->split != pith_split_find("none"))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "--round %s does not go with --split %s: what is kept off the grid is not"
                         " known while rounding is learned",
                         name, recipe->split->name);
    if (recipe->acts.format && pith_input_needs_scale(&in))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "--round %s cannot learn with scales of activations that calibration fixes"
                         " later; use scales by token",
                         name);
    if (job->basis.down.dim)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "--round %s does not see inputs that are rotated online; use --transform"
                         " %s:folded",
                         name, recipe->transform->name);
    return PITH_OK;
}

/* --- the float model's activations ----------------------------------------------------------- */

static enum pith_status open_file(struct pith_run *r, int which, struct pith_error *err)
{
    struct pith_learn *l = &r->cal.learn;
    const struct pith_acts *like = &r->cal.acts[0];
    char name[32];
    snprintf(name, sizeof name, "pith.acts.float.%d", which);
    char *path = pith_path_join(r->job->partial, name);
    if (!path) return pith_fail_nomem(err, name);
    const uint64_t bytes = (uint64_t)pith_acts_all(like) * pith_acts_step(like) * sizeof(float);
    const enum pith_status s = pith_scratch_file_open(path, bytes, &l->file[which], err);
    pith_free(path);
    if (s != PITH_OK) return s;
    l->acts[which] = *like;
    l->acts[which].x = (float *)l->file[which].data + like->first * pith_acts_step(like);
    return PITH_OK;
}

/* Room for the windows of other ranks, which are other files than those that a rank fills its own
 * of: that of all ranks may be one. */
static enum pith_status open_whole(struct pith_run *r, struct pith_error *err)
{
    const struct pith_acts *a = &r->cal.acts[0];
    const uint64_t bytes = (uint64_t)pith_acts_all(a) * pith_acts_step(a) * sizeof *a->x;
    for (int i = 0; i < 2 && r->ranks; i++)
        PITH_TRY(
            pith_calibration_own(r, "pith.acts.whole", bytes, &r->cal.learn.whole[i], err));
    return PITH_OK;
}

enum pith_status pith_learn_open(struct pith_run *r, struct pith_error *err)
{
    if (!pith_job_keeps_float(r->job)) return PITH_OK;
    const uint32_t experts = r->job->model->shape.moe.experts;
    for (int i = 0; i < 2; i++) PITH_TRY(open_file(r, i, err));
    if (!pith_job_learns(r->job)) return PITH_OK;
    PITH_TRY(open_whole(r, err));
    r->cal.learn.taken = experts ? pith_zalloc(experts, sizeof(size_t)) : NULL;
    if (experts && !r->cal.learn.taken) return pith_fail_nomem(err, "the experts");
    return pith_tape_init(&r->cal.learn.tape, r->job->backend, r->job->model, r->job->calib.length,
                          err);
}

void pith_learn_close(struct pith_learn *l)
{
    for (int i = 0; i < 2; i++) {
        pith_scratch_file_close(&l->file[i]);
        pith_scratch_file_close(&l->whole[i]);
    }
    pith_tape_free(&l->tape);
    pith_free(l->taken);
    l->taken = NULL;
}

void pith_learn_embedded(struct pith_run *r)
{
    const struct pith_acts *a = &r->cal.acts[0];
    if (!pith_job_keeps_float(r->job)) return;
    memcpy(r->cal.learn.acts[0].x, a->x, a->windows * pith_acts_step(a) * sizeof *a->x);
}

void pith_learn_swap(struct pith_learn *l)
{
    const struct pith_acts a = l->acts[0];
    l->acts[0] = l->acts[1];
    l->acts[1] = a;
}

/* Of `all` windows that ranks share this one has done one of its `own`. */
static enum pith_status count(struct pith_run *r, double effort, size_t all, size_t own,
                              struct pith_error *err)
{
    return pith_run_step(r, r->job->recipe.round->name, effort * (double)all / (double)own, err);
}

/* How many tokens took each expert, of all ranks' windows. */
static enum pith_status sum_taken(struct pith_run *r, struct pith_error *err)
{
    struct pith_learn *l = &r->cal.learn;
    const uint32_t experts = r->job->model->shape.moe.experts;
    if (!l->taken || !r->ranks) return PITH_OK;
    size_t *before = pith_zalloc(experts, sizeof *before);
    if (!before) return pith_fail_nomem(err, "the experts");
    const size_t bytes = experts * sizeof *before;
    enum pith_status s = pith_relay_pass(r->ranks, PITH_RELAY_RECEIVE, before, bytes, err);
    for (uint32_t e = 0; e < experts; e++) l->taken[e] += before[e];
    if (s == PITH_OK) s = pith_relay_pass(r->ranks, PITH_RELAY_SEND, l->taken, bytes, err);
    if (s == PITH_OK) s = pith_relay_pass(r->ranks, PITH_RELAY_SHARE, l->taken, bytes, err);
    pith_free(before);
    return s;
}

enum pith_status pith_learn_targets(struct pith_run *r, const struct pith_block *b,
                                    struct pith_error *err)
{
    struct pith_learn *l = &r->cal.learn;
    const struct pith_acts *in = &l->acts[0];
    if (l->taken) memset(l->taken, 0, r->job->model->shape.moe.experts * sizeof *l->taken);
    for (size_t w = 0; w < in->windows; w++) {
        PITH_TRY(pith_tape_forward(&l->tape, b, pith_acts_window(in, w), in->length,
                                   pith_acts_window(&l->acts[1], w), err));
        if (l->taken) pith_tape_count(&l->tape, b, l->taken);
        PITH_TRY(count(r, FORWARD, pith_acts_all(in), in->windows, err));
    }
    return sum_taken(r, err);
}

/* --- a block --------------------------------------------------------------------------------- */

struct learning {
    struct pith_run *r;
    struct pith_block *block;
    struct pith_round_member *member; /* [plan->linears] */
    uint32_t *linear;                 /* of the members */
    float **grad;                     /* [plan->linears] */
    unsigned count;
    float *memory;              /* values and gradients of all members */
    struct pith_acts in, target; /* all windows: what the block reads, and what it is to give */
    struct pith_grads kept;     /* with several ranks */
};

/* All windows, of those that each rank has some of. */
static enum pith_status gather(const struct pith_run *r, const struct pith_acts *from, void *data,
                               struct pith_acts *to, struct pith_error *err)
{
    const size_t floats = pith_acts_floats(from), all = pith_acts_all(from);
    *to = *from;
    if (!r->ranks) return PITH_OK;
    *to = (struct pith_acts){.x = data,
                             .windows = all,
                             .length = from->length,
                             .hidden = from->hidden,
                             .carried = from->carried,
                             .stride = from->stride};
    for (size_t w = 0; w < from->windows; w++)
        memcpy(pith_acts_window(to, from->first + w), pith_acts_window(from, w),
               floats * sizeof *to->x);
    for (size_t w = 0; w < all; w++)
        PITH_TRY(pith_relay_window(&r->cal.collector.relay, all, w, pith_acts_window(to, w),
                                   floats, err));
    return PITH_OK;
}

/* The block's output for a window, less what it should be, in the collector's row; its squares. */
static enum pith_status run_window(const struct learning *t, size_t window, double *squares,
                                   struct pith_error *err)
{
    struct pith_run *r = t->r;
    const struct pith_acts *in = &t->in;
    const struct pith_kern *k = pith_backend_kern(r->job->backend);
    const size_t hidden = in->hidden, n = in->length * hidden;
    const float *target = pith_acts_window(&t->target, window);
    float *out = r->cal.collector.row;
    PITH_TRY(pith_tape_forward(&r->cal.learn.tape, t->block, pith_acts_window(in, window),
                               in->length, out, err));
    *squares = 0.0;
    for (size_t i = 0; i < n; i += hidden) *squares += k->sumsq_diff(hidden, out + i, target + i);
    for (size_t i = 0; i < n; i++) out[i] -= target[i];
    return PITH_OK;
}

static void run_back(struct learning *t)
{
    struct pith_run *r = t->r;
    const struct pith_tape_grad g = {.d_out = r->cal.collector.row,
                                     .w = t->grad,
                                     .product = r->ranks ? pith_grads_keep : NULL,
                                     .product_ctx = &t->kept};
    pith_tape_backward(&r->cal.learn.tape, t->block, &g);
}

static enum pith_status objective(void *ctx, const size_t *sample, size_t samples, bool gradient,
                                  double *loss, struct pith_error *err)
{
    struct learning *t = ctx;
    struct pith_run *r = t->r;
    const unsigned own = pith_ranks_own(r->ranks);
    const size_t from = pith_ranks_from(r->ranks, own, samples);
    const size_t to = pith_ranks_from(r->ranks, own + 1, samples);
    const double start = pith_clock();
    pith_grads_begin(&t->kept);
    for (size_t i = from; i < to; i++) {
        PITH_TRY(run_window(t, sample ? sample[i] : i, &loss[i], err));
        if (gradient) run_back(t);
        PITH_TRY(count(r, gradient ? THERE_AND_BACK : FORWARD, samples, to - from, err));
    }
    pith_foresee_step(r->foresee, samples, gradient ? t->grad : NULL, pith_clock() - start);
    PITH_TRY(pith_ranks_share_parts(r->ranks, loss, samples, sizeof *loss, err));
    if (!gradient || !r->ranks) return PITH_OK;
    return pith_grads_meet(&t->kept, t->block->plan, &(struct pith_grads_sums){.w = t->grad}, err);
}

static void list_members(struct learning *t, const float *global)
{
    const struct pith_run *r = t->r;
    for (uint32_t i = 0; i < t->block->plan->linears; i++) {
        const struct pith_choice *c = pith_job_choice(r->job, t->block->layer, i);
        if (!c->grid.format) continue;
        t->linear[t->count] = i;
        t->r->cal.learn.tape.input[i] = pith_inputs_make(r->job, c, NULL);
        t->member[t->count++] =
            (struct pith_round_member){.grid = c->grid,
                                       .scale_dtype = r->job->container->scale_dtype(
                                           &c->grid, r->job->container_opts.model_dtype),
                                       .global = global[i],
                                       .rows = c->rows,
                                       .cols = c->cols,
                                       .w = t->block->linear[i].dense};
    }
}

/* Room for what the members are while they are learned; the block then computes with that. */
static enum pith_status take_memory(struct learning *t, struct pith_error *err)
{
    size_t total = 0;
    for (unsigned i = 0; i < t->count; i++)
        total += 2 * (size_t)t->member[i].rows * t->member[i].cols;
    t->memory = pith_alloc_aligned(total, sizeof *t->memory);
    if (!t->memory) return pith_fail_nomem(err, "the gradients of a block");
    float *at = t->memory;
    for (unsigned i = 0; i < t->count; i++) {
        const size_t n = (size_t)t->member[i].rows * t->member[i].cols;
        t->member[i].values = at;
        t->member[i].grad = t->grad[t->linear[i]] = at + n;
        at += 2 * n;
        t->block->linear[t->linear[i]].w.dense = t->member[i].values;
    }
    return PITH_OK;
}

static void give_memory(struct learning *t)
{
    memset(t->r->cal.learn.tape.input, 0,
           t->block->plan->linears * sizeof *t->r->cal.learn.tape.input);
    for (unsigned i = 0; i < t->count; i++)
        t->block->linear[t->linear[i]].w.dense = t->block->linear[t->linear[i]].dense;
    pith_free(t->memory);
}

/* The seed of a layer: a block that is done again gives the same. */
static uint64_t seed_of(const struct pith_job *job, uint32_t layer)
{
    return job->options->seed + 0x9e3779b97f4a7c15u * ((uint64_t)layer + 1);
}

static enum pith_status take_lists(struct learning *t, struct pith_error *err)
{
    const uint32_t n = t->block->plan->linears;
    t->member = pith_zalloc(n, sizeof *t->member);
    t->linear = pith_zalloc(n, sizeof *t->linear);
    t->grad = pith_zalloc(n, sizeof *t->grad);
    return t->member && t->linear && t->grad ? PITH_OK : pith_fail_nomem(err, "a block");
}

/* The windows of a step that a rank takes there and back, at most. */
static struct pith_grads_room kept_room(const struct pith_job *job, uint32_t layer)
{
    const size_t ranks = pith_ranks_count(pith_job_ranks(job)), all = job->calib.windows;
    const size_t batch = job->recipe.round_options.batch < all ? job->recipe.round_options.batch
                                                               : all;
    return (struct pith_grads_room){.model = job->model,
                                    .plan = pith_job_plan(job, layer),
                                    .windows = ranks > 1 ? (batch + ranks - 1) / ranks : 0,
                                    .length = job->calib.length};
}

/* All that is needed beside the members. */
static enum pith_status prepare(struct learning *t, struct pith_error *err)
{
    struct pith_run *r = t->r;
    struct pith_learn *l = &r->cal.learn;
    const struct pith_acts *in =
        r->job->recipe.round_options.float_input ? &l->acts[0] : &r->cal.acts[0];
    const struct pith_grads_room room = kept_room(r->job, t->block->layer);
    PITH_TRY(gather(r, in, l->whole[0].data, &t->in, err));
    PITH_TRY(gather(r, &l->acts[1], l->whole[1].data, &t->target, err));
    PITH_TRY(pith_grads_open(&t->kept, r->job->backend, r->ranks, &room, err));
    return take_memory(t, err);
}

/* Rounds the members, of which there is at least one. */
static enum pith_status learn(struct learning *t, struct pith_qmat *q,
                              struct pith_round_block_report *report, struct pith_error *err)
{
    struct pith_run *r = t->r;
    struct pith_qmat *made = pith_zalloc(t->count, sizeof *made);
    if (!made) return pith_fail_nomem(err, "a block");
    const struct pith_round_block job = {.backend = r->job->backend,
                                         .options = r->job->recipe.round_options,
                                         .seed = seed_of(r->job, t->block->layer),
                                         .member = t->member,
                                         .count = t->count,
                                         .samples = pith_acts_all(&r->cal.acts[0]),
                                         .objective = objective,
                                         .ctx = t};
    enum pith_status s = prepare(t, err);
    if (s == PITH_OK) s = r->job->recipe.round->block(&job, made, report, err);
    for (unsigned i = 0; i < t->count && s == PITH_OK; i++) q[t->linear[i]] = made[i];
    give_memory(t);
    pith_grads_close(&t->kept);
    pith_free(made);
    return s;
}

enum pith_status pith_learn_block(struct pith_run *r, struct pith_block *b, const float *global,
                                  struct pith_qmat *q, struct pith_round_block_report *report,
                                  struct pith_error *err)
{
    struct learning t = {.r = r, .block = b};
    memset(q, 0, b->plan->linears * sizeof *q);
    *report = (struct pith_round_block_report){0};
    enum pith_status s = take_lists(&t, err);
    if (s == PITH_OK) list_members(&t, global);
    if (s == PITH_OK && t.count) s = learn(&t, q, report, err);
    pith_free(t.member);
    pith_free(t.linear);
    pith_free(t.grad);
    return s;
}

/* --- what it takes --------------------------------------------------------------------------- */

uint64_t pith_learn_bytes(const struct pith_job *job, unsigned threads)
{
    if (!pith_job_learns(job)) return 0;
    return pith_tape_bytes(job->model, threads, job->calib.length);
}

uint64_t pith_learn_block_bytes(const struct pith_job *job, uint32_t layer, unsigned threads)
{
    const struct pith_grads_room room = kept_room(job, layer);
    uint64_t total = job->calib.windows * (sizeof(size_t) + 2 * sizeof(double)) +
                     pith_grads_bytes(&room);
    for (uint32_t i = 0; i < pith_job_plan(job, layer)->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        if (!c->grid.format) continue;
        const struct pith_round_member member = {.grid = c->grid, .rows = c->rows, .cols = c->cols};
        total += 2ull * c->rows * c->cols * sizeof(float) +
                 job->recipe.round->member_scratch(&member, threads);
    }
    return total;
}

double pith_learn_effort(const struct pith_job *job)
{
    const struct pith_round_options *o = &job->recipe.round_options;
    const double windows = (double)job->calib.windows;
    const double batch = o->batch < windows ? o->batch : windows;
    return windows * FORWARD * 4 + (double)o->iterations * batch * THERE_AND_BACK;
}
