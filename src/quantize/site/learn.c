/* Rounding whole blocks by what they give. The target is what the float model's block gives for the
 * float model's activations; the block being rounded reads what the quantized blocks before it give
 * (or, if the recipe has it, the float activations too), so that it also learns to make up for
 * their errors. Where activations are rounded, the block that learns rounds them too. Sequences go
 * through the block one at a time, forward and backward: memory is that of one sequence, whatever
 * the batch.
 *
 * Several blocks that follow each other can be learned together, as in BRECQ (Li et al. 2021, arXiv
 * 2102.05426) and CBQ (Ding et al. 2023, arXiv 2312.07950): the target is then what the last gives,
 * and gradients go back through all of them. */
#include "quantize/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/grads.h"
#include "kern/ops.h"
#include "num/input.h"
#include "quantize/site/inputs.h"

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
        return pith_fail(
            err, PITH_UNSUPPORTED,
            "`round` %s does not go with `split` %s: what is stored off the grid is not"
            " known while rounding is learned",
            name, recipe->split->name);
    if (recipe->acts.format && pith_input_needs_scale(&in))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s cannot learn with scales of activations that calibration fixes"
                         " later; use scales by token",
                         name);
    if (job->basis.down.dim)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s does not see inputs that are rotated online; use `transform`"
                         " %s:folded",
                         name, recipe->transform->name);
    if (job->needs_transform && recipe->round_options.blocks > 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s with blocks of %u does not go with `transform` %s, which looks"
                         " at what the quantized block before gives: 1 does",
                         name, (unsigned)recipe->round_options.blocks, recipe->transform->name);
    return PITH_OK;
}

/* --- the float model's activations ------------------------------------------------------------ */

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

enum pith_status pith_learn_open(struct pith_run *r, struct pith_error *err)
{
    if (!pith_job_keeps_float(r->job)) return PITH_OK;
    const uint32_t experts = r->job->model->shape.moe.experts, most = pith_job_together(r->job, 0);
    for (int i = 0; i < 2; i++) PITH_TRY(open_file(r, i, err));
    if (!pith_job_learns(r->job)) return PITH_OK;
    PITH_TRY(pith_windows_open(r, err));
    r->cal.learn.taken = experts ? pith_zalloc(experts, most * sizeof(size_t)) : NULL;
    if (experts && !r->cal.learn.taken) return pith_fail_nomem(err, "the experts");
    return pith_chain_init(&r->cal.learn.chain, r->job->backend, r->job->model, most,
                           r->job->calib.length, err);
}

void pith_learn_close(struct pith_learn *l)
{
    for (int i = 0; i < 2; i++) {
        pith_scratch_file_close(&l->file[i]);
        pith_scratch_file_close(&l->whole[i]);
    }
    pith_chain_free(&l->chain);
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

/* One of the `own` windows here is done, of `all`; other ranks do as many meanwhile. */
static enum pith_status count(struct pith_run *r, double effort, size_t all, size_t own,
                              struct pith_error *err)
{
    return pith_run_step(r, r->job->recipe.round->name, effort * (double)all / (double)own, err);
}

enum pith_status pith_learn_targets(struct pith_run *r, const struct pith_block *b, uint32_t place,
                                    struct pith_error *err)
{
    struct pith_learn *l = &r->cal.learn;
    struct pith_tape *tape = &l->chain.tape[0];
    const struct pith_acts *in = &l->acts[place > 0];
    const uint32_t experts = r->job->model->shape.moe.experts;
    size_t *taken = l->taken ? l->taken + (size_t)place * experts : NULL;
    if (taken) memset(taken, 0, experts * sizeof *taken);
    for (size_t w = 0; w < in->windows; w++) {
        PITH_TRY(pith_tape_forward(tape, b, pith_acts_window(in, w), in->length,
                                   pith_acts_window(&l->acts[1], w), err));
        if (taken) pith_tape_count(tape, b, taken);
        PITH_TRY(count(r, FORWARD, pith_acts_all(in), in->windows, err));
    }
    return taken ? pith_windows_sum(r, taken, experts, err) : PITH_OK;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* A block of those that are learned together. */
struct pupil {
    struct pith_learn_part part;
    float **grad;            /* [plan->linears] */
    struct pith_grads grads; /* of a step's windows */
};

struct learning {
    struct pith_run *r;
    struct pupil *pupil;             /* [pupils] */
    const struct pith_block **block; /* [pupils] */
    struct pith_tape_grad *back;     /* [pupils] */
    unsigned pupils;
    struct pith_round_member *member; /* [count], of all pupils */
    struct place {
        uint32_t pupil, linear;
    } * place; /* of the members */
    unsigned count;
    float *memory;               /* values and gradients of all members */
    struct pith_acts in, target; /* all windows: what is read, and what the last is to give */
};

/* The last block's output for a window, less what it should be, in the collector's row; its
 * squares. */
static enum pith_status run_window(const struct learning *t, size_t window, double *squares,
                                   struct pith_error *err)
{
    struct pith_run *r = t->r;
    const struct pith_acts *in = &t->in;
    const struct pith_kern *k = pith_backend_kern(r->job->backend);
    const size_t hidden = in->hidden, n = in->length * hidden;
    const float *target = pith_acts_window(&t->target, window);
    float *out = r->cal.collector.row;
    PITH_TRY(pith_chain_forward(&r->cal.learn.chain, pith_acts_window(in, window), in->length, out,
                                err));
    *squares = 0.0;
    for (size_t i = 0; i < n; i += hidden) *squares += k->sumsq_diff(hidden, out + i, target + i);
    for (size_t i = 0; i < n; i++) out[i] -= target[i];
    return PITH_OK;
}

static void run_back(struct learning *t)
{
    struct pith_run *r = t->r;
    for (unsigned i = 0; i < t->pupils; i++) {
        struct pupil *p = &t->pupil[i];
        t->back[i] = (struct pith_tape_grad){.d_out = r->cal.collector.row, .w = p->grad};
        pith_windows_keep_grads(r, &p->grads, &t->back[i]);
    }
    pith_chain_backward(&r->cal.learn.chain, t->back);
}

static enum pith_status sum_gradients(struct learning *t, struct pith_error *err)
{
    for (unsigned i = 0; i < t->pupils; i++) {
        struct pupil *p = &t->pupil[i];
        PITH_TRY(pith_windows_sum_grads(t->r, &p->grads, p->part.block->plan, p->grad, err));
    }
    return PITH_OK;
}

static enum pith_status objective(void *ctx, const size_t *sample, size_t samples, bool gradient,
                                  double *loss, struct pith_error *err)
{
    struct learning *t = ctx;
    struct pith_run *r = t->r;
    const struct pith_window_span here = pith_windows_here(r, samples);
    const double effort = t->pupils * (gradient ? THERE_AND_BACK : FORWARD);
    const double start = pith_clock();
    for (unsigned i = 0; i < t->pupils; i++) pith_grads_begin(&t->pupil[i].grads);
    for (size_t i = here.first; i < here.end; i++) {
        PITH_TRY(run_window(t, sample ? sample[i] : i, &loss[i], err));
        if (gradient) run_back(t);
        PITH_TRY(count(r, effort, samples, here.end - here.first, err));
    }
    r->stepping += pith_clock() - start;
    PITH_TRY(pith_windows_share(r, loss, samples, sizeof *loss, err));
    return gradient ? sum_gradients(t, err) : PITH_OK;
}

static void list_members(struct learning *t, uint32_t pupil)
{
    const struct pith_run *r = t->r;
    const struct pith_learn_part *part = &t->pupil[pupil].part;
    const struct pith_block *b = part->block;
    for (uint32_t i = 0; i < b->plan->linears; i++) {
        const struct pith_choice *c = pith_job_choice(r->job, b->layer, i);
        if (!c->grid.format) continue;
        t->r->cal.learn.chain.tape[pupil].input[i] = pith_inputs_make(r->job, c, NULL);
        t->place[t->count] = (struct place){pupil, i};
        t->member[t->count++] =
            (struct pith_round_member){.grid = c->grid,
                                       .scale_dtype = r->job->container->scale_dtype(
                                           &c->grid, r->job->container_opts.model_dtype),
                                       .global = part->global[i],
                                       .rows = c->rows,
                                       .cols = c->cols,
                                       .w = b->linear[i].dense};
    }
}

static struct pith_linear_weights *linear_of(const struct learning *t, unsigned member)
{
    const struct place *p = &t->place[member];
    return &t->pupil[p->pupil].part.block->linear[p->linear];
}

/* Room for what the members are while they are learned; the blocks then compute with that. */
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
        const struct place *p = &t->place[i];
        t->member[i].values = at;
        t->member[i].grad = t->pupil[p->pupil].grad[p->linear] = at + n;
        at += 2 * n;
        linear_of(t, i)->w.dense = t->member[i].values;
    }
    return PITH_OK;
}

static void give_memory(struct learning *t)
{
    for (unsigned i = 0; i < t->pupils; i++) {
        struct pith_tape *tape = &t->r->cal.learn.chain.tape[i];
        memset(tape->input, 0, t->block[i]->plan->linears * sizeof *tape->input);
        pith_grads_close(&t->pupil[i].grads);
    }
    for (unsigned i = 0; i < t->count; i++) linear_of(t, i)->w.dense = linear_of(t, i)->dense;
    pith_free(t->memory);
}

/* The seed of a layer: a block that is done again gives the same. */
static uint64_t seed_of(const struct pith_job *job, uint32_t layer)
{
    return job->options->seed + 0x9e3779b97f4a7c15u * ((uint64_t)layer + 1);
}

/* All that is needed in addition to the members. */
static enum pith_status prepare(struct learning *t, struct pith_error *err)
{
    struct pith_run *r = t->r;
    struct pith_learn *l = &r->cal.learn;
    const struct pith_acts *in = r->job->recipe.round_options.float_input ? &l->acts[0]
                                                                          : &r->cal.acts[0];
    PITH_TRY(pith_windows_gather(r, in, 0, &t->in, err));
    PITH_TRY(pith_windows_gather(r, &l->acts[1], 1, &t->target, err));
    for (unsigned i = 0; i < t->pupils; i++)
        PITH_TRY(pith_windows_open_grads(r, t->block[i]->layer, &t->pupil[i].grads, err));
    return take_memory(t, err);
}

/* Rounds the members, of which there is at least one. */
static enum pith_status learn(struct learning *t, struct pith_round_block_report *report,
                              struct pith_error *err)
{
    struct pith_run *r = t->r;
    struct pith_qmat *made = pith_zalloc(t->count, sizeof *made);
    if (!made) return pith_fail_nomem(err, "a block");
    const struct pith_round_block job = {.backend = r->job->backend,
                                         .options = r->job->recipe.round_options,
                                         .seed = seed_of(r->job, t->block[0]->layer),
                                         .member = t->member,
                                         .count = t->count,
                                         .samples = pith_acts_all(&r->cal.acts[0]),
                                         .objective = objective,
                                         .ctx = t};
    enum pith_status s = prepare(t, err);
    if (s == PITH_OK) s = r->job->recipe.round->by->block(&job, made, report, err);
    for (unsigned i = 0; i < t->count && s == PITH_OK; i++)
        t->pupil[t->place[i].pupil].part.q[t->place[i].linear] = made[i];
    give_memory(t);
    pith_free(made);
    return s;
}

static enum pith_status take_lists(struct learning *t, const struct pith_learn_part *part,
                                   unsigned parts, struct pith_error *err)
{
    size_t linears = 0;
    t->pupil = pith_zalloc(parts, sizeof *t->pupil);
    t->block = pith_zalloc(parts, sizeof *t->block);
    t->back = pith_zalloc(parts, sizeof *t->back);
    if (!t->pupil || !t->block || !t->back) return pith_fail_nomem(err, "a block");
    t->pupils = parts;
    for (unsigned i = 0; i < parts; i++) {
        const uint32_t n = part[i].block->plan->linears;
        t->pupil[i] = (struct pupil){.part = part[i], .grad = pith_zalloc(n, sizeof(float *))};
        t->block[i] = part[i].block;
        if (!t->pupil[i].grad) return pith_fail_nomem(err, "a block");
        linears += n;
    }
    t->member = pith_zalloc(linears, sizeof *t->member);
    t->place = pith_zalloc(linears, sizeof *t->place);
    return t->member && t->place ? PITH_OK : pith_fail_nomem(err, "a block");
}

static void give_lists(struct learning *t)
{
    for (unsigned i = 0; i < t->pupils; i++) pith_free(t->pupil[i].grad);
    pith_free(t->pupil);
    pith_free(t->block);
    pith_free(t->back);
    pith_free(t->member);
    pith_free(t->place);
}

enum pith_status pith_learn_blocks(struct pith_run *r, const struct pith_learn_part *part,
                                   unsigned parts, struct pith_round_block_report *report,
                                   struct pith_error *err)
{
    struct learning t = {.r = r};
    for (unsigned i = 0; i < parts; i++)
        memset(part[i].q, 0, part[i].block->plan->linears * sizeof *part[i].q);
    *report = (struct pith_round_block_report){0};
    enum pith_status s = take_lists(&t, part, parts, err);
    r->cal.learn.chain.block = t.block;
    r->cal.learn.chain.count = parts;
    for (unsigned i = 0; i < parts && s == PITH_OK; i++) list_members(&t, i);
    if (s == PITH_OK && t.count) s = learn(&t, report, err);
    give_lists(&t);
    return s;
}

/* --- what it takes ---------------------------------------------------------------------------- */

uint64_t pith_learn_bytes(const struct pith_job *job, unsigned threads)
{
    if (!pith_job_learns(job)) return 0;
    return pith_chain_bytes(job->model, threads, pith_job_together(job, 0), job->calib.length);
}

/* Of one block. */
static uint64_t block_bytes(const struct pith_job *job, uint32_t layer, unsigned threads)
{
    uint64_t total = pith_windows_grads_bytes(job, layer);
    for (uint32_t i = 0; i < pith_job_plan(job, layer)->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        if (!c->grid.format) continue;
        const struct pith_round_member member = {.grid = c->grid, .rows = c->rows, .cols = c->cols};
        total += 2ull * c->rows * c->cols * sizeof(float) +
                 job->recipe.round->by->member_scratch(&member, threads);
    }
    return total;
}

uint64_t pith_learn_blocks_bytes(const struct pith_job *job, uint32_t layer, unsigned threads)
{
    uint64_t total = job->calib.windows * (sizeof(size_t) + 2 * sizeof(double));
    for (uint32_t i = 0; i < pith_job_together(job, layer); i++)
        total += block_bytes(job, layer + i, threads);
    return total;
}

double pith_learn_effort(const struct pith_job *job)
{
    const struct pith_round_options *o = &job->recipe.round_options;
    const double windows = (double)job->calib.windows;
    const double batch = o->batch < windows ? o->batch : windows;
    return windows * FORWARD * 4 + (double)o->iterations * batch * THERE_AND_BACK;
}
