/* The recipe's transform, site by site, folded into what makes a site's input. */
#include "quantize/work.h"

#include "base/mem.h"
#include "quantize/site/change_basis.h"
#include "quantize/site/module_output.h"

#include <stdio.h>

/* Sets where a transform's 1/s of a site goes: a norm, or the linear before. */
static void fold_into(const struct pith_work *w, const struct pith_fold *fold,
                      struct pith_transform_job *job)
{
    if (fold->kind == PITH_FOLD_VECTOR) job->gain = w->block.vector[fold->from];
    if (fold->kind != PITH_FOLD_ROWS) return;
    const struct pith_linear_weights *before = &w->block.linear[fold->from];
    job->prev_w = before->dense;
    job->prev_bias = before->bias;
    job->prev_cols = before->w.cols;
    job->repeat = fold->repeat;
    job->tie_block = fold->block;
}

static enum pith_dtype vector_dtype(const struct pith_work *w, uint32_t vector)
{
    char name[256];
    pith_plan_name(&w->run->job->model->plans, w->layer, w->plan->vector[vector].name, name,
                   sizeof name);
    const struct pith_tensor *t = pith_checkpoint_find(w->run->job->model->checkpoint, name);
    return t ? t->dtype : PITH_F32;
}

static bool any_scaled(const float *s, uint32_t dim)
{
    for (uint32_t i = 0; i < dim; i++)
        if (s[i] != 1.0f) return true;
    return false;
}

static double weights_of(const struct pith_work *w, uint32_t linear)
{
    const struct pith_choice *c = pith_job_choice(w->run->job, w->layer, linear);
    return (double)c->rows * c->cols;
}

/* The linears that one rescaling concerns. */
struct group {
    const struct pith_site_spec *site; /* the first */
    uint32_t count, *member;
    struct pith_transform_linear *linear;
};

/* Where 1/s of a group goes. What is rotated online is not what is made before it, and a norm of a
 * rotated stream gives what no channel stands out of. */
static struct pith_fold fold_of(const struct pith_work *w, const struct group *g)
{
    const struct pith_fold none = {.kind = PITH_FOLD_NONE}, fold = g->site->fold;
    const bool online = w->block.linear[g->member[0]].hadamard > 1;
    const bool rotated = fold.kind == PITH_FOLD_VECTOR &&
                         pith_rotates_vector(&w->run->job->basis, w->plan, fold.from);
    return online || rotated ? none : fold;
}

/* Remembers which tensors no longer equal the input's: the group's linears, and what 1/s went into.
 */
static void mark_changed(struct pith_work *w, const struct group *g, bool scaled, bool clipped)
{
    const struct pith_fold fold = fold_of(w, g);
    for (uint32_t i = 0; i < g->count; i++) w->changes[g->member[i]].scaled |= scaled || clipped;
    if (fold.kind == PITH_FOLD_VECTOR) w->regain[fold.from] |= scaled;
    if (fold.kind != PITH_FOLD_ROWS) return;
    w->changes[fold.from].scaled |= scaled;
    w->changes[fold.from].bias_scaled |= scaled && w->block.linear[fold.from].bias;
}

/* --- experts ---------------------------------------------------------------------------------- */

/* A group of which some matrices are not there. */
struct lending {
    struct pith_work *w;
    const struct group *g;
    double effort; /* of the group's, what has not been reported */
};

/* Each is tried some twenty times: one trial's share of the group's effort. */
static enum pith_status one_step(struct lending *n, uint32_t i, struct pith_error *err)
{
    enum { STEPS = 24 };
    const double step = n->w->each * weights_of(n->w, n->g->member[i]) / STEPS;
    const double effort = step < n->effort ? step : n->effort;
    n->effort -= effort;
    return pith_run_step(n->w->run, n->w->run->job->recipe.transform->name, effort, err);
}

static enum pith_status hold(void *ctx, unsigned i, struct pith_error *err)
{
    struct lending *n = ctx;
    PITH_TRY(one_step(n, i, err));
    PITH_TRY(pith_work_fetch(n->w, n->g->member[i], err));
    n->g->linear[i].w = n->w->block.linear[n->g->member[i]].dense;
    return PITH_OK;
}

static void drop(void *ctx, unsigned i)
{
    const struct lending *n = ctx;
    pith_block_drop(&n->w->block, n->g->member[i]);
    n->g->linear[i].w = NULL;
}

/* The place of a linear in the group, or g->count. */
static uint32_t place_of(const struct group *g, uint32_t linear)
{
    uint32_t i = 0;
    while (i < g->count && g->member[i] != linear) i++;
    return i;
}

/* A linear for the inspector; see struct pith_lender. */
static enum pith_status lend(void *ctx, uint32_t linear, const struct pith_trial *trial,
                             struct pith_error *err)
{
    const struct lending *n = ctx;
    const uint32_t i = place_of(n->g, linear);
    if (!trial || i == n->g->count)
        return pith_block_fetch(n->w->run->job->model, &n->w->block, linear, PITH_LOAD_MAPPED, err);
    PITH_TRY(hold(ctx, i, err));
    return trial->make(trial->ctx, i, err);
}

static void back(void *ctx, uint32_t linear)
{
    const struct lending *n = ctx;
    pith_block_drop(&n->w->block, linear);
    const uint32_t i = place_of(n->g, linear);
    if (i < n->g->count) n->g->linear[i].w = NULL;
}

/* Room for what is clipped of those that will be made again, here or elsewhere. */
static enum pith_status take_picks(struct pith_work *w, const struct group *g,
                                   struct pith_error *err)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const size_t picks = pith_transform_picks(&g->linear[i]);
        const bool again = pith_work_is_late(w, g->member[i]) ||
                           pith_expert_waits(w, g->site->expert);
        if (!again || picks == 0 || w->redo[g->member[i]].pick) continue;
        uint8_t *pick = w->redo[g->member[i]].pick = pith_zalloc(picks, 1);
        if (!pick) return pith_fail_nomem(err, "clipped groups");
        g->linear[i].pick = pick;
    }
    return PITH_OK;
}

/* Notes what was done to them; takes s over. */
static enum pith_status note_redo(struct pith_work *w, const struct group *g,
                                  const struct pith_transform_job *job, bool clipped, float *s,
                                  struct pith_error *err)
{
    const struct pith_fold fold = fold_of(w, g);
    w->scale[g->site - w->plan->site] = s;
    for (uint32_t i = 0; i < g->count; i++) {
        struct pith_work_redo *redo = &w->redo[g->member[i]];
        redo->by = s;
        if (clipped) continue;
        pith_free(redo->pick);
        redo->pick = NULL;
    }
    if (fold.kind != PITH_FOLD_ROWS) return PITH_OK;
    float *over = pith_alloc(w->plan->linear[fold.from].rows, sizeof *over);
    if (!over) return pith_fail_nomem(err, "what a transform did");
    pith_transform_over(job, s, w->redo[fold.from].over = over);
    return PITH_OK;
}

/* --- a group ---------------------------------------------------------------------------------- */

static enum pith_status report_transform(struct pith_work *w, const struct pith_site_spec *site,
                                         const struct pith_transform_report *rep,
                                         struct pith_error *err)
{
    json_t *j = json_pack("{s:i, s:s, s:f, s:f, s:f, s:f}", "layer", (int)w->layer, "site",
                          site->name, "ratio", rep->ratio, "loss_before", rep->loss_before,
                          "loss_after", rep->loss_after, "clipped", rep->clipped);
    return json_array_append_new(w->transforms, j) == 0 ? PITH_OK
                                                        : pith_fail_nomem(err, site->name);
}

static bool lends(const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->linear[i].lent) return true;
    return false;
}

/* The group's linears as they are in the block. */
static void see_linears(const struct pith_work *w, const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct pith_linear_weights *l = &w->block.linear[g->member[i]];
        g->linear[i] = (struct pith_transform_linear){
            .w = l->dense,
            .rows = l->w.rows,
            .cols = l->w.cols,
            .grid = pith_job_choice(w->run->job, w->layer, g->member[i])->grid,
            .clip = !w->plan->linear[g->member[i]].scores,
            .lent = !l->dense,
        };
    }
}

static struct pith_transform_job job_of(const struct pith_work *w, const struct group *g,
                                        const struct pith_stats *stats)
{
    struct pith_run *r = w->run;
    struct pith_transform_job job = {
        .backend = r->job->backend,
        .scale_dtype = r->job->container->scale_dtype(&r->job->recipe.weights,
                                                      r->job->container_opts.model_dtype),
        .linear = g->linear,
        .count = g->count,
        .stats = stats,
        .ratio_step = 1.0 / 20,
        .clip_search = r->job->recipe.clip,
        .value = r->job->recipe.transform_value,
        .feeds_back = r->job->needs_transform & PITH_NEED_HESSIAN,
        .input = {.grid = r->job->recipe.acts, .rule = r->job->container->input_rule},
    };
    pith_expert_divide_search(w, g->site->expert, &job);
    const struct pith_fold fold = fold_of(w, g);
    see_linears(w, g);
    fold_into(w, &fold, &job);
    if (job.gain) {
        job.gain_dtype = vector_dtype(w, fold.from);
        job.gain_plus = w->plan->vector[fold.from].plus;
    }
    return job;
}

static enum pith_status inspect(struct pith_work *w, const struct group *g,
                                const struct pith_lender *lender, struct pith_inspector *inspector,
                                struct pith_transform_job *job, struct pith_error *err)
{
    const struct pith_inspected what = {.collector = &w->run->cal.collector,
                                        .block = &w->block,
                                        .acts = &w->run->cal.acts[0],
                                        .site = (uint32_t)(g->site - w->plan->site),
                                        .lender = lends(g) ? lender : NULL};
    if (!g->site->to) return PITH_OK;
    return pith_inspector_init(inspector, &what, job, err);
}

static double effort_of(const struct pith_work *w, const struct group *g)
{
    double weights = 0;
    for (uint32_t i = 0; i < g->count; i++) weights += weights_of(w, g->member[i]);
    return w->each * weights;
}

/* What a search found of a group, and did to its matrices where it was made. */
struct found {
    float *s; /* [dim], owned; NULL: nothing was seen of what it reads */
    struct pith_transform_report rep;
};

static enum pith_status search(struct pith_work *w, const struct group *g,
                               const struct pith_stats *stats, struct found *found,
                               struct pith_error *err)
{
    struct lending lending = {w, g, effort_of(w, g)};
    const struct pith_lender lender = {lend, back, &lending};
    struct pith_transform_job job = job_of(w, g, stats);
    struct pith_inspector inspector = {0};
    job.hold = hold;
    job.drop = drop;
    job.lender = &lending;
    found->s = pith_alloc(stats->dim, sizeof *found->s);
    enum pith_status s = found->s ? PITH_OK : pith_fail_nomem(err, "transform scales");
    if (s == PITH_OK && job.clip_search) s = take_picks(w, g, err);
    if (s == PITH_OK) s = inspect(w, g, &lender, &inspector, &job, err);
    if (s == PITH_OK) s = w->run->job->recipe.transform->run(&job, found->s, &found->rep, err);
    pith_inspector_free(&inspector);
    PITH_TRY(s);
    return pith_run_step(w->run, w->run->job->recipe.transform->name, lending.effort, err);
}

/* From now on the block's matrices are those; takes found->s over. */
static enum pith_status settle(struct pith_work *w, const struct group *g, struct found *found,
                               struct pith_error *err)
{
    const struct pith_stats stats = {.dim = g->site->dim};
    const struct pith_transform_job job = job_of(w, g, &stats);
    float *s = found->s;
    found->s = NULL;
    mark_changed(w, g, any_scaled(s, stats.dim), found->rep.clipped > 0);
    PITH_TRY(note_redo(w, g, &job, found->rep.clipped > 0, s, err));
    return report_transform(w, g->site, &found->rep, err);
}

/* Does to matrices that are there what was done to them elsewhere: as when they are made again. */
static enum pith_status follow(const struct pith_work *w, const struct group *g,
                               const struct found *found, struct pith_error *err)
{
    const struct pith_stats stats = {.dim = g->site->dim};
    const struct pith_transform_job job = job_of(w, g, &stats);
    for (uint32_t i = 0; i < g->count; i++) {
        struct pith_transform_linear l = g->linear[i];
        l.pick = found->rep.clipped > 0 ? w->redo[g->member[i]].pick : NULL;
        if (l.w) pith_transform_redo(job.backend, &l, found->s);
    }
    const struct pith_fold fold = fold_of(w, g);
    if (fold.kind != PITH_FOLD_ROWS) return PITH_OK;
    const uint32_t rows = w->plan->linear[fold.from].rows;
    float *over = pith_alloc(rows, sizeof *over);
    if (!over) return pith_fail_nomem(err, "what a transform did");
    pith_transform_over(&job, found->s, over);
    if (job.prev_w) pith_transform_redo_rows(job.prev_w, rows, job.prev_cols, over);
    if (job.prev_bias) pith_transform_redo_rows(job.prev_bias, rows, 1, over);
    pith_free(over);
    return PITH_OK;
}

static enum pith_status share_picks(struct pith_work *w, const struct group *g,
                                    struct pith_error *err)
{
    PITH_TRY(take_picks(w, g, err));
    for (uint32_t i = 0; i < g->count; i++) {
        const size_t picks = pith_transform_picks(&g->linear[i]);
        uint8_t *pick = w->redo[g->member[i]].pick;
        if (picks) PITH_TRY(pith_expert_share(w, g->site->expert, pick, picks, err));
    }
    return PITH_OK;
}

/* What was found of an expert becomes everyone's, and is done to its matrices everywhere. */
static enum pith_status share_found(struct pith_work *w, const struct group *g, struct found *found,
                                    struct pith_error *err)
{
    const uint32_t expert = g->site->expert;
    const size_t dim = g->site->dim;
    const bool here = pith_expert_is_here(w, expert);
    bool any = found->s;
    PITH_TRY(pith_expert_share(w, expert, &any, sizeof any, err));
    if (!any) return PITH_OK;
    if (!here) found->s = pith_alloc(dim, sizeof *found->s);
    if (!found->s) return pith_fail_nomem(err, "transform scales");
    PITH_TRY(pith_expert_share(w, expert, found->s, dim * sizeof *found->s, err));
    PITH_TRY(pith_expert_share(w, expert, &found->rep, sizeof found->rep, err));
    see_linears(w, g);
    if (found->rep.clipped > 0) PITH_TRY(share_picks(w, g, err));
    if (!here) PITH_TRY(follow(w, g, found, err));
    return settle(w, g, found, err);
}

/* The group that begins with a site, no linears where none does; free_group() it, also after a
 * failure. */
static enum pith_status take_group(const struct pith_work *w, uint32_t site, struct group *g,
                                   struct pith_error *err)
{
    *g =
        (struct group){.site = &w->plan->site[site], .count = pith_plan_group(w->plan, site, NULL)};
    if (g->count == 0) return PITH_OK;
    g->member = pith_alloc(g->count, sizeof *g->member);
    g->linear = pith_zalloc(g->count, sizeof *g->linear);
    if (!g->member || !g->linear) return pith_fail_nomem(err, "the linears of a site");
    (void)pith_plan_group(w->plan, site, g->member);
    return PITH_OK;
}

static void free_group(struct group *g)
{
    pith_free(g->member);
    pith_free(g->linear);
}

static enum pith_status fail_at(const struct pith_work *w, uint32_t site, enum pith_status s,
                                struct pith_error *err)
{
    char where[128];
    snprintf(where, sizeof where, "layer %u, %s", w->layer, w->plan->site[site].name);
    return pith_fail_in(err, s, where);
}

/* The group that begins with a site; the statistics of others, and of sites that no token reached,
 * change nothing. With `later`, what is found waits there for settle_experts(). */
static enum pith_status transform_site(struct pith_work *w, uint32_t site,
                                       const struct pith_stats *stats, struct found *later,
                                       struct pith_error *err)
{
    struct group g = {0};
    struct found now = {0}, *found = later ? later : &now;
    enum pith_status s = take_group(w, site, &g, err);
    if (s == PITH_OK && g.count && stats->tokens > 0) {
        s = search(w, &g, stats, found, err);
        if (s == PITH_OK && !later) s = settle(w, &g, found, err);
    }
    pith_free(now.s);
    free_group(&g);
    return s == PITH_OK ? s : fail_at(w, site, s, err);
}

/* All that was found of experts, found[plan->sites]. */
static enum pith_status settle_experts(struct pith_work *w, struct found *found,
                                       struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    for (uint32_t site = 0; site < w->plan->sites && s == PITH_OK; site++) {
        struct group g = {0};
        if (w->plan->site[site].expert == PITH_NO_PART) continue;
        s = take_group(w, site, &g, err);
        if (s == PITH_OK && g.count) s = share_found(w, &g, &found[site], err);
        free_group(&g);
        if (s != PITH_OK) s = fail_at(w, site, s, err);
    }
    return s;
}

/* The sites that all tokens reach before a mixture's experts: one pass for all of them. */
static enum pith_status transform_first(struct pith_work *w, uint32_t count, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_collect what = {.count = count,
                                      .needs = r->job->needs_transform,
                                      .samples = pith_transform_samples(r->job)};
    struct pith_stats *stats = pith_zalloc(count, sizeof *stats);
    if (!stats) return pith_fail_nomem(err, "calibration statistics");
    enum pith_status s =
        pith_collect(&r->cal.collector, &w->block, &r->cal.acts[0], &what, stats, err);
    pith_work_mark_pass(w, PITH_PHASE_COLLECT);
    for (uint32_t site = 0; site < count && s == PITH_OK; site++)
        s = transform_site(w, site, &stats[site], NULL, err);
    pith_phases_mark(&r->phases, PITH_PHASE_TRANSFORM);
    pith_stats_free(stats, count);
    pith_free(stats);
    return s;
}

/* A site of those behind the router. */
static enum pith_status transform_one(struct pith_work *w, uint32_t site, struct found *later,
                                      struct pith_error *err)
{
    struct pith_run *r = w->run;
    const uint32_t expert = w->plan->site[site].expert;
    const bool here = pith_expert_is_here(w, expert);
    struct pith_stats stats = {0};
    enum pith_status s = here ? pith_work_fetch_expert(w, expert, err) : PITH_OK;
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    if (s == PITH_OK)
        s = pith_stages_collect(&w->stages, site, r->job->needs_transform,
                                pith_transform_samples(r->job), &stats, err);
    pith_work_mark_pass(w, PITH_PHASE_COLLECT);
    if (s == PITH_OK && here) s = transform_site(w, site, &stats, later, err);
    pith_phases_mark(&r->phases, PITH_PHASE_TRANSFORM);
    pith_stats_free(&stats, 1);
    return s;
}

/* The experts, and what comes after, one stage at a time, so that one site's statistics and one
 * expert are in memory. */
static enum pith_status transform_rest(struct pith_work *w, uint32_t from, struct pith_error *err)
{
    struct found *found = pith_zalloc(w->plan->sites, sizeof *found);
    bool waits = false; /* what was found of experts */
    enum pith_status s = found ? PITH_OK : pith_fail_nomem(err, "experts");
    for (uint32_t site = from; site < w->plan->sites && s == PITH_OK; site++) {
        const bool expert = w->plan->site[site].expert != PITH_NO_PART;
        if (pith_plan_group(w->plan, site, NULL) == 0) continue;
        if (waits && !expert) s = settle_experts(w, found, err);
        waits = expert;
        if (s == PITH_OK) s = transform_one(w, site, expert ? &found[site] : NULL, err);
    }
    if (s == PITH_OK && waits) s = settle_experts(w, found, err);
    for (uint32_t site = 0; found && site < w->plan->sites; site++) pith_free(found[site].s);
    pith_free(found);
    pith_stages_end(&w->stages);
    return s == PITH_OK ? pith_work_fetch_expert(w, PITH_NO_PART, err) : s;
}

size_t pith_transform_samples(const struct pith_job *job)
{
    const size_t tokens = job->calib.windows * job->calib.length;
    return tokens < PITH_TRANSFORM_SAMPLES ? tokens : PITH_TRANSFORM_SAMPLES;
}

/* Of what all sites take together, a weight's part: those of a norm in front of many experts take
 * longer than one expert's. */
static double each_weight(const struct pith_work *w)
{
    double weights = 0;
    for (uint32_t i = 0; i < w->plan->linears; i++) weights += weights_of(w, i);
    return w->plan->sites * pith_job_site_effort(w->run->job) / weights;
}

enum pith_status pith_work_transform(struct pith_work *w, struct pith_error *err)
{
    const uint32_t router = pith_plan_router(w->plan);
    const uint32_t first = router == PITH_NO_PART ? w->plan->sites : router + 1;
    w->each = each_weight(w);
    pith_phases_begin(&w->run->phases);
    /* What reads the experts' sum lies behind the last site, or whole layers are in memory. */
    w->block.idle = !w->run->job->whole_layers;
    PITH_TRY(transform_first(w, first, err));
    PITH_TRY(transform_rest(w, first, err));
    w->block.idle = false;
    return PITH_OK;
}
