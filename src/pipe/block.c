/* One block: transform, split, round each site, store, and run it to make the next block's input.
 */
#include "pipe/work.h"

#include "base/mem.h"
#include "kern/ops.h"
#include "pipe/closeness.h"
#include "pipe/inspect.h"
#include "pipe/prune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void pith_work_mark_pass(struct pith_work *w, enum pith_phase phase)
{
    struct pith_run *r = w->run;
    pith_phases_mark(&r->phases, phase);
    pith_phases_move(&r->phases, phase, PITH_PHASE_HESSIAN, r->cal.collector.hessian_seconds);
    r->cal.collector.hessian_seconds = 0;
}

/* --- round --------------------------------------------------------------------------------- */

static enum pith_status find_tensor(const struct pith_work *w, const struct pith_choice *c,
                                    const struct pith_tensor **t, struct pith_error *err)
{
    char name[320];
    snprintf(name, sizeof name, "%s.weight", c->module);
    *t = pith_checkpoint_find(w->run->job->model->checkpoint, name);
    return *t ? PITH_OK : pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
}

/* How far the result is from the input's own matrix, by the measure that verify takes again; and
 * the hash of what it stands for. */
static enum pith_status measure_error(const struct pith_work *w, const struct pith_choice *c,
                                      const struct pith_weight *made,
                                      struct pith_linear_result *out, struct pith_error *err)
{
    struct pith_backend *be = w->run->job->backend;
    float *turned = NULL;
    const struct pith_tensor *t;
    PITH_TRY(find_tensor(w, c, &t, err));
    uint8_t *straight = NULL;
    if (!w->turned && !pith_tensor_straight(t, &straight)) return pith_fail_nomem(err, c->module);
    struct pith_weight original = {.rows = c->rows,
                                   .cols = c->cols,
                                   .dtype = t->dtype,
                                   .dense = straight ? straight : t->data};
    if (w->turned) {
        const struct pith_turn turn = pith_job_turn(w->run->job);
        PITH_TRY(pith_turned_linear(&turn, w->layer, c->linear, c->hadamard > 1, &turned, err));
        original.dtype = PITH_F32;
        original.dense = turned;
    }
    const bool good = pith_relative_error(be, made, &original, w->changes[c->linear].scaled,
                                          &out->relative_error);
    pith_free(turned);
    pith_free(straight);
    if (!good) return pith_fail_nomem(err, "a comparison");
    pith_checkpoint_release(w->run->job->model->checkpoint, t);
    PITH_TRY(pith_judge(w->run->job, c, out->relative_error, err));
    const enum pith_status s = pith_weights_digest(be, made, out->sha256, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* From here on the block computes with what will be served. */
static void install(struct pith_linear_weights *l, struct pith_qmat *q)
{
    l->q = *q;
    l->w.quant = &l->q;
    l->w.dense = NULL;
    pith_free(l->dense);
    l->dense = NULL;
}

/* Measures what a linear became; frees q on failure. */
static enum pith_status check_rounded(struct pith_work *w, const struct pith_choice *c,
                                      struct pith_qmat *q, struct pith_linear_result *made,
                                      struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_weight stored = {.rows = c->rows, .cols = c->cols, .quant = q};
    enum pith_status s = PITH_OK;
    pith_container_state_scales(r->job->container, &c->grid, q->scales, pith_qmat_scale_count(q));
    if (r->job->recipe.split->two_four) s = pith_two_four_check(r->job->backend, &stored, err);
    if (s == PITH_OK) s = measure_error(w, c, &stored, made, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

/* Stores it and goes on with it; takes q over, also on failure. */
static enum pith_status keep_rounded(struct pith_work *w, const struct pith_choice *c,
                                     struct pith_qmat *q, struct pith_linear_result *made,
                                     struct pith_error *err)
{
    struct pith_run *r = w->run;
    enum pith_status s = pith_store_linear(r, c->module, q, made, &r->phases, err);
    if (s == PITH_OK &&
        json_array_append_new(w->linears,
                              pith_linear_json(c, made, w->changes[c->linear].scaled)) != 0)
        s = pith_fail_nomem(err, c->module);
    if (s == PITH_OK) install(&w->block.linear[c->linear], q);
    else pith_qmat_free(q);
    return s;
}

/* What the linears of a site, which engines fuse into one, share when they have that grid. */
static float shared_global(const struct pith_work *w, const struct pith_site_spec *site,
                           const struct pith_grid *grid)
{
    const struct pith_kern *k = pith_backend_kern(w->run->job->backend);
    struct pith_grid widest = *grid;
    float most = 0.0f;
    if (!grid->format || pith_round_shared(grid, 1.0f) == 0.0f) return 0.0f;
    for (uint32_t i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_job_choice(w->run->job, w->layer, site->first + i);
        float lo, hi;
        if (!pith_grid_equal(&c->grid, grid)) continue;
        widest.mse |= c->grid.mse && c->grid.format->kind == PITH_KIND_BLOCK;
        k->range((size_t)c->rows * c->cols, w->block.linear[c->linear].dense, &lo, &hi);
        most = fmaxf(most, fmaxf(-lo, hi));
    }
    return pith_round_shared(&widest, most);
}

/* The same of each of them, global[site->count], before the first is rounded. */
static void share_globals(const struct pith_work *w, const struct pith_site_spec *site,
                          float *global)
{
    for (uint32_t i = 0; i < site->count; i++)
        global[i] =
            shared_global(w, site, &pith_job_choice(w->run->job, w->layer, site->first + i)->grid);
}

static enum pith_status split_linear(struct pith_work *w, const struct pith_choice *c,
                                     const struct pith_stats *stats, struct pith_kept *kept,
                                     struct pith_error *err)
{
    const struct pith_recipe *recipe = &w->run->job->recipe;
    const struct pith_split_job split = {
        .backend = w->run->job->backend,
        .rows = c->rows,
        .cols = c->cols,
        .w = w->block.linear[c->linear].dense,
        .stats = stats,
        .value = recipe->split_value,
        .keeps = recipe->round->keeps,
    };
    return recipe->split->run(&split, kept, err);
}

/* An expert that no token of the text has reached is rounded to nearest: there is nothing to go by,
 * and an input of zeros would make zeros of its weights. */
static const struct pith_rounder *rounder_for(const struct pith_work *w,
                                              const struct pith_choice *c,
                                              const struct pith_stats *stats)
{
    const bool unseen = stats && stats->tokens == 0 &&
                        w->plan->linear[c->linear].expert != PITH_NO_PART;
    return unseen ? pith_rounder_find("nearest") : w->run->job->recipe.round;
}

/* A site's statistics as one of its linears has them: guided, its own Hessians. */
static struct pith_stats stats_of(const struct pith_work *w, const struct pith_choice *c,
                                  const struct pith_stats *site)
{
    const struct pith_layer_plan *l = w->plan;
    const struct pith_site_spec *spec = &l->site[l->linear[c->linear].site];
    struct pith_stats own = *site;
    if (!(w->run->job->needs_round & PITH_NEED_GUIDED)) return own;
    own.views = site->views / spec->count;
    const size_t at = (size_t)(c->linear - spec->first) * own.views;
    if (own.squares) own.squares += at * own.dim;
    if (own.hessian) own.hessian += at * own.dim * own.dim;
    if (own.drift) own.drift += at * own.dim * own.dim;
    return own;
}

/* --- the block as it was ------------------------------------------------------------------------
 */

/* It shares everything with the block until a linear is rounded. */
static enum pith_status begin_twin(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    if (!(r->job->needs_round & PITH_NEED_DRIFT)) return PITH_OK;
    w->twin = w->block;
    w->twin.linear = pith_alloc(w->plan->linears, sizeof *w->twin.linear);
    if (!w->twin.linear) return pith_fail_nomem(err, "the block as it was");
    memcpy(w->twin.linear, w->block.linear, w->plan->linears * sizeof *w->twin.linear);
    for (uint32_t i = 0; i < w->plan->linears; i++) w->twin.linear[i].dense = NULL;
    w->twin_stages = (struct pith_stages){.collector = &r->cal.collector,
                                          .block = &w->twin,
                                          .in = &r->cal.learn.acts[0],
                                          .out = &r->cal.learn.acts[1],
                                          .between = r->cal.between_float.data};
    w->stages.twin = &w->twin_stages;
    return PITH_OK;
}

static void end_twin(struct pith_work *w)
{
    for (uint32_t i = 0; w->twin.linear && i < w->plan->linears; i++)
        pith_free(w->twin.linear[i].dense);
    pith_free(w->twin.linear);
}

/* Before a linear is rounded, and its floats are lost. */
static enum pith_status keep_twin(struct pith_work *w, const struct pith_choice *c,
                                  struct pith_error *err)
{
    struct pith_linear_weights *of = w->twin.linear ? &w->twin.linear[c->linear] : NULL;
    const size_t count = (size_t)c->rows * c->cols;
    if (!of) return PITH_OK;
    of->dense = pith_alloc_aligned(count, sizeof *of->dense);
    if (!of->dense) return pith_fail_nomem(err, c->module);
    of->w.dense = memcpy(of->dense, w->block.linear[c->linear].dense, count * sizeof *of->dense);
    return PITH_OK;
}

/* *q and *made of a linear, measured; on failure q owns nothing. */
static enum pith_status round_linear(struct pith_work *w, const struct pith_choice *c,
                                     const struct pith_stats *stats, float global,
                                     struct pith_rounded *out, struct pith_error *err)
{
    struct pith_run *r = w->run;
    struct pith_linear_weights *l = &w->block.linear[c->linear];
    struct pith_kept kept = {0};
    PITH_TRY(keep_twin(w, c, err));
    enum pith_status s = split_linear(w, c, stats, &kept, err);
    const struct pith_round_job job = {
        .backend = r->job->backend,
        .grid = c->grid,
        .options = r->job->recipe.round_options,
        .scale_dtype = r->job->container->scale_dtype(&c->grid, r->job->container_opts.model_dtype),
        .global = global,
        .rows = c->rows,
        .cols = c->cols,
        .w = l->dense,
        .stats = stats,
        .kept = &kept,
    };
    struct pith_round_report *report = &out->made.report;
    pith_phases_begin(&r->phases);
    if (s == PITH_OK) s = pith_round(rounder_for(w, c, stats), &job, &out->q, report, err);
    pith_kept_free(&kept);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    pith_phases_move(&r->phases, PITH_PHASE_ROUND, PITH_PHASE_FACTOR, report->factor_seconds);
    if (s != PITH_OK) return pith_fail_in(err, s, c->module);
    return check_rounded(w, c, &out->q, &out->made, err);
}

/* A linear that stays in 16 bits, with zeros in it. By every rank: it is floats that change. */
static enum pith_status prune_linear(struct pith_work *w, const struct pith_choice *c,
                                     const struct pith_stats *stats, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_linear_weights *l = &w->block.linear[c->linear];
    const struct pith_weight made = {
        .rows = c->rows, .cols = c->cols, .dtype = PITH_F32, .dense = l->dense};
    struct pith_kept kept = {0};
    const struct pith_tensor *t = NULL;
    enum pith_status s = find_tensor(w, c, &t, err);
    if (s == PITH_OK) s = keep_twin(w, c, err);
    if (s == PITH_OK) s = split_linear(w, c, stats, &kept, err);
    const struct pith_round_job job = {
        .backend = r->job->backend,
        .options = r->job->recipe.round_options,
        .scale_dtype = t ? t->dtype : PITH_F32,
        .rows = c->rows,
        .cols = c->cols,
        .w = l->dense,
        .stats = stats,
        .kept = &kept,
    };
    struct pith_linear_result *out = &w->changes[c->linear].pruned;
    pith_phases_begin(&r->phases);
    if (s == PITH_OK) s = pith_round_dense(r->job->recipe.round, &job, &out->report, err);
    pith_kept_free(&kept);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    pith_phases_move(&r->phases, PITH_PHASE_ROUND, PITH_PHASE_FACTOR, out->report.factor_seconds);
    if (s == PITH_OK) s = pith_two_four_check(r->job->backend, &made, err);
    if (s == PITH_OK) s = measure_error(w, c, &made, out, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* The account of the tensor that was stored last. */
static enum pith_status report_pruned(struct pith_work *w, const struct pith_choice *c,
                                      struct pith_error *err)
{
    const struct pith_linear_result *l = &w->changes[c->linear].pruned;
    json_t *entry = json_array_get(w->tensors, json_array_size(w->tensors) - 1);
    json_t *more =
        json_pack("{s:f, s:f, s:f, s:f, s:i, s:i, s:b}", "relative_error", l->relative_error,
                  "loss_nearest", l->report.nearest_loss, "loss", l->report.loss, "damp",
                  l->report.damp, "damp_retries", (int)l->report.damp_retries, "dead_columns",
                  (int)l->report.dead_columns, "transformed", (int)w->changes[c->linear].scaled);
    const int bad = !more || json_object_update(entry, more) != 0;
    json_decref(more);
    return bad ? pith_fail_nomem(err, c->module) : PITH_OK;
}

static bool is_changed(const struct pith_choice *c)
{
    return c->grid.format || c->prune;
}

static bool site_quantized(const struct pith_work *w, const struct pith_site_spec *site)
{
    for (uint32_t i = 0; i < site->count; i++)
        if (is_changed(pith_job_choice(w->run->job, w->layer, site->first + i))) return true;
    return false;
}

/* A site's first input whose statistics are not finite is told, with the linear that reads it: what
 * would be decided from them would be nonsense. */
static enum pith_status check_stats(const struct pith_work *w, const struct pith_site_spec *site,
                                    const struct pith_stats *st, struct pith_error *err)
{
    const char *module = pith_job_choice(w->run->job, w->layer, site->first)->module;
    for (uint32_t j = 0; j < st->dim; j++) {
        const float *const of[] = {st->absmean ? st->absmean + j : NULL,
                                   st->squares ? st->squares + j : NULL, st->lo ? st->lo + j : NULL,
                                   st->hi ? st->hi + j : NULL,
                                   st->hessian ? st->hessian + (size_t)j * st->dim + j : NULL};
        for (size_t i = 0; i < PITH_COUNT(of); i++)
            if (of[i] && !isfinite(*of[i]))
                return pith_fail(err, PITH_NUMERIC,
                                 "%s: its input %u is too large over the calibration text (its"
                                 " statistics become %g): the model's numbers overflow",
                                 module, j, fabs((double)*of[i]));
    }
    return PITH_OK;
}

/* Those matrices of a site that are not there yet: as floats where they change or have changed. */
static enum pith_status fetch_site(struct pith_work *w, const struct pith_site_spec *site,
                                   struct pith_error *err)
{
    for (uint32_t i = site->first; i < site->first + site->count; i++) {
        const struct pith_work_change *c = &w->changes[i];
        const bool same = !is_changed(pith_job_choice(w->run->job, w->layer, i)) && !c->scaled &&
                          !c->rotated;
        if (same)
            PITH_TRY(pith_block_fetch(w->run->job->model, &w->block, i, PITH_LOAD_MAPPED, err));
        else PITH_TRY(pith_work_fetch(w, i, err));
    }
    return PITH_OK;
}

/* The linears of a site on their way. */
struct rounding {
    const struct pith_site_spec *site;
    const struct pith_stats *stats; /* NULL: the rounder needs none */
    float *global;                  /* [site->count], as are the others */
    unsigned *owner;
    struct pith_rounded *made;
};

static enum pith_status begin_one(struct pith_work *w, const struct rounding *a, uint32_t i,
                                  struct pith_error *err)
{
    const struct pith_run *r = w->run;
    const struct pith_choice *c = pith_job_choice(r->job, w->layer, a->site->first + i);
    const struct pith_stats own = a->stats ? stats_of(w, c, a->stats) : (struct pith_stats){0};
    const struct pith_stats *known = a->stats ? &own : NULL;
    if (c->prune && !c->grid.format) return prune_linear(w, c, known, err);
    if (!c->grid.format || a->owner[i] != pith_ranks_own(r->ranks)) return PITH_OK;
    return round_linear(w, c, known, a->global[i], &a->made[i], err);
}

/* From its owner to everyone, and into the output. */
static enum pith_status end_one(struct pith_work *w, const struct rounding *a, uint32_t i,
                                struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_choice *c = pith_job_choice(r->job, w->layer, a->site->first + i);
    const struct pith_route route = {r->ranks, a->owner[i], PITH_TO_ALL};
    struct pith_rounded *m = &a->made[i];
    if (c->grid.format) {
        const struct pith_stats own = a->stats ? stats_of(w, c, a->stats) : (struct pith_stats){0};
        PITH_TRY(pith_route_qmat(&route, &m->q, err));
        PITH_TRY(pith_route_bytes(&route, &m->made, sizeof m->made, err));
        m->q.input = pith_inputs_make(r->job, c, a->stats ? &own : NULL);
        const enum pith_status s = keep_rounded(w, c, &m->q, &m->made, err);
        m->q = (struct pith_qmat){0};
        if (s != PITH_OK) return s;
    }
    return pith_run_step(r, r->job->recipe.round->name, 1, err);
}

/* One after the other; with several ranks each its own, and then they are handed round. */
static enum pith_status round_each(struct pith_work *w, const struct rounding *a,
                                   struct pith_error *err)
{
    const bool alone = pith_ranks_alone(w->run->ranks);
    for (uint32_t i = 0; i < a->site->count; i++) {
        PITH_TRY(begin_one(w, a, i, err));
        if (alone) PITH_TRY(end_one(w, a, i, err));
    }
    for (uint32_t i = 0; i < a->site->count && !alone; i++) PITH_TRY(end_one(w, a, i, err));
    return PITH_OK;
}

static enum pith_status round_all(struct pith_work *w, const struct pith_site_spec *site,
                                  const struct pith_stats *stats, struct pith_error *err)
{
    const uint32_t linears = w->plan->linears;
    struct rounding a = {.site = site,
                         .stats = stats,
                         .global = pith_alloc(site->count, sizeof *a.global),
                         .owner = pith_zalloc(linears, sizeof *a.owner),
                         .made = pith_zalloc(site->count, sizeof *a.made)};
    unsigned *owners = a.owner;
    enum pith_status s = a.global && owners && a.made ? PITH_OK : pith_fail_nomem(err, site->name);
    if (s == PITH_OK) {
        if (w->run->ranks) pith_ranks_owners(w->run->job, w->layer, owners);
        a.owner += site->first;
        share_globals(w, site, a.global);
        s = round_each(w, &a, err);
    }
    for (uint32_t i = 0; a.made && i < site->count; i++) pith_qmat_free(&a.made[i].q);
    pith_free(a.made);
    pith_free(owners);
    pith_free(a.global);
    return s;
}

/* Statistics for the rounder come from the block as it stands: linears rounded earlier are already
 * in their final form ("true sequential"). */
static enum pith_status round_site(struct pith_work *w, uint32_t which, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_site_spec *site = &w->plan->site[which];
    struct pith_stats stats = {0};
    pith_phases_begin(&r->phases);
    enum pith_status s = fetch_site(w, site, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    if (s != PITH_OK || !site_quantized(w, site)) return s;
    if (r->job->needs_round)
        s = pith_stages_collect(&w->stages, which, r->job->needs_round, 0, &stats, err);
    pith_work_mark_pass(w, PITH_PHASE_COLLECT);
    if (s == PITH_OK && r->job->needs_round) s = check_stats(w, site, &stats, err);
    if (s == PITH_OK) s = round_all(w, site, r->job->needs_round ? &stats : NULL, err);
    pith_stats_free(&stats, 1);
    return s;
}

static enum pith_status report_block(struct pith_work *w, const struct pith_round_block_report *rep,
                                     double values, struct pith_error *err)
{
    json_t *j = json_pack("{s:i, s:f, s:f, s:i, s:i}", "layer", (int)w->layer, "loss",
                          rep->loss / values, "loss_nearest", rep->nearest_loss / values,
                          "iterations", (int)rep->iterations, "kept", (int)rep->kept);
    return json_array_append_new(w->blocks, j) == 0 ? PITH_OK
                                                    : pith_fail_nomem(err, "a block's account");
}

/* Stores what the block's linears became. The loss is the block's; each linear is given an equal
 * share of it, as the squared error of an output vector. */
static enum pith_status keep_together(struct pith_work *w, struct pith_qmat *q,
                                      const struct pith_round_block_report *rep,
                                      struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_acts *a = &r->cal.acts[0];
    const double tokens = (double)(a->windows * a->length);
    unsigned count = 0;
    for (uint32_t i = 0; i < w->plan->linears; i++) count += q[i].codes != NULL;
    enum pith_status s = count ? report_block(w, rep, tokens * (double)a->hidden, err) : PITH_OK;
    for (uint32_t i = 0; i < w->plan->linears; i++) {
        const struct pith_choice *c = pith_job_choice(r->job, w->layer, i);
        struct pith_linear_result made = {
            .report = {.loss = rep->loss / tokens / count,
                       .nearest_loss = rep->nearest_loss / tokens / count}};
        if (!q[i].codes) continue;
        q[i].input =
            pith_inputs_make(r->job, c, NULL); /* what is learned leaves activations alone */
        if (s != PITH_OK) pith_qmat_free(&q[i]);
        if (s == PITH_OK) s = check_rounded(w, c, &q[i], &made, err);
        if (s == PITH_OK) s = keep_rounded(w, c, &q[i], &made, err);
        if (s == PITH_OK) s = pith_run_step(r, r->job->recipe.round->name, 1, err);
    }
    return s;
}

/* All linears of the block at once. */
static enum pith_status round_together(struct pith_work *w, struct pith_error *err)
{
    struct pith_round_block_report rep;
    const uint32_t linears = w->plan->linears;
    struct pith_qmat *q = pith_zalloc(linears, sizeof *q);
    float *global = pith_zalloc(linears, sizeof *global);
    enum pith_status s = q && global ? PITH_OK : pith_fail_nomem(err, "a block");
    for (uint32_t i = 0; s == PITH_OK && i < w->plan->sites; i++)
        share_globals(w, &w->plan->site[i], global + w->plan->site[i].first);
    if (s == PITH_OK) s = pith_learn_block(w->run, &w->block, global, q, &rep, err);
    pith_phases_mark(&w->run->phases, PITH_PHASE_ROUND);
    if (s == PITH_OK) s = keep_together(w, q, &rep, err);
    pith_free(global);
    pith_free(q);
    return s;
}

/* --- what is not rounded -------------------------------------------------------------------- */

static const char *changed_how(const struct pith_work *w)
{
    return w->turned ? "rotated" : "rescaled";
}

/* What a transform made of a linear's matrix or bias, or NULL. */
static const float *changed_values(void *ctx, uint32_t linear, bool bias)
{
    const struct pith_work *w = ctx;
    const struct pith_work_change *c = &w->changes[linear];
    if (bias) return c->rebias ? w->block.linear[linear].bias : NULL;
    return c->scaled || c->rotated ? w->block.linear[linear].dense : NULL;
}

static enum pith_status keep_one(struct pith_work *w, const char *module, const char *suffix,
                                 bool changed, const float *values, const char *reason,
                                 struct pith_error *err)
{
    char name[320];
    snprintf(name, sizeof name, "%s%s", module, suffix);
    if (changed)
        return pith_store_values(w->run, name, values, changed_how(w),
                                 "the transform was folded in", w->tensors, err);
    return pith_store_copy(w->run, name, reason, w->tensors, err);
}

static enum pith_status keep_linear(struct pith_work *w, const struct pith_choice *c,
                                    struct pith_error *err)
{
    static const struct pith_linear_weights none = {0};
    const struct pith_linear_weights *l = w->block.linear ? &w->block.linear[c->linear]
                                                          : &none; /* a stream loads no block */
    if (w->plan->linear[c->linear].bias && !pith_job_whole(w->run->job, w->layer, c->linear, true))
        PITH_TRY(keep_one(w, c->module, ".bias", w->changes[c->linear].rebias, l->bias,
                          "biases stay as they are", err));
    if (c->grid.format || pith_job_whole(w->run->job, w->layer, c->linear, false)) return PITH_OK;
    if (c->prune) {
        char name[320];
        snprintf(name, sizeof name, "%s.weight", c->module);
        PITH_TRY(pith_store_values(w->run, name, l->dense, "pruned", c->reason, w->tensors, err));
        return report_pruned(w, c, err);
    }
    return keep_one(w, c->module, ".weight", changed_values(w, c->linear, false) != NULL, l->dense,
                    c->reason, err);
}

/* Tensors of the layer that are neither linears nor norms: buffers that some exporters leave
 * behind. */
static enum pith_status keep_others(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_checkpoint *in = r->job->model->checkpoint;
    size_t count;
    const size_t first = pith_unit_tensors(r->job->model, w->layer + (size_t)1, &count);
    for (size_t i = first; i < first + count; i++) {
        const char *name = in->tensors[i].name;
        if (pith_plan_buffer(&r->job->model->plans, name) && !pith_job_leaves_out(r->job, name))
            PITH_TRY(pith_store_copy(r, name, "a buffer", w->tensors, err));
    }
    return PITH_OK;
}

/* A vector of the layer, as it is stored. */
static enum pith_status keep_vector(struct pith_work *w, uint32_t vector, struct pith_error *err)
{
    const struct pith_vector_spec *spec = &w->plan->vector[vector];
    char name[256];
    float *values = NULL;
    const size_t n = pith_vector_count(spec);
    pith_plan_name(&w->run->job->model->plans, w->layer, spec->name, name, sizeof name);
    if (w->regain[vector]) {
        values = pith_alloc(n, sizeof *values);
        if (!values) return pith_fail_nomem(err, name);
        for (size_t i = 0; i < n; i++) values[i] = w->block.vector[vector][i] - spec->plus;
    }
    const enum pith_status s =
        keep_one(w, name, "", w->regain[vector], values, "norms stay as they are", err);
    pith_free(values);
    return s;
}

static enum pith_status keep_rest(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    for (uint32_t i = 0; i < w->plan->linears; i++)
        PITH_TRY(keep_linear(w, pith_job_choice(r->job, w->layer, i), err));
    const struct pith_changes changes = {changed_values, w, changed_how(w)};
    PITH_TRY(pith_store_wholes(r, w->layer, &changes, w->tensors, err));
    for (uint32_t i = 0; i < w->plan->vectors; i++) PITH_TRY(keep_vector(w, i, err));
    return keep_others(w, err);
}

/* Said before the work, and of the tensor itself: one bad value spreads to whatever is computed. */
static enum pith_status check_layer(const struct pith_work *w, struct pith_error *err)
{
    const struct pith_checkpoint *in = w->run->job->model->checkpoint;
    size_t count;
    const size_t first = pith_unit_tensors(w->run->job->model, w->layer + (size_t)1, &count);
    for (size_t i = first; i < first + count; i++)
        PITH_TRY(pith_tensor_check_finite(&in->tensors[i], err));
    return PITH_OK;
}

static enum pith_status add_arrays(struct pith_work *w, json_t *unit, struct pith_error *err)
{
    w->linears = json_array();
    w->transforms = json_array();
    w->blocks = json_array();
    w->experts = json_array();
    w->tensors = json_array();
    /* set_new takes the reference even when it fails, also of NULL. */
    int bad = json_object_set_new(unit, "linears", w->linears);
    bad |= json_object_set_new(unit, "transforms", w->transforms);
    bad |= json_object_set_new(unit, "blocks", w->blocks);
    bad |= json_object_set_new(unit, "experts", w->experts);
    bad |= json_object_set_new(unit, "tensors", w->tensors);
    return bad ? pith_fail_nomem(err, "a block's account") : PITH_OK;
}

/* The block in the model's new basis, and which of its tensors are others then. */
static enum pith_status turn_block(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_turn t = pith_job_turn(r->job);
    w->turned = true;
    for (uint32_t i = 0; i < w->plan->linears; i++) {
        const uint32_t block = pith_job_choice(r->job, w->layer, i)->hadamard;
        w->block.linear[i].hadamard = block;
        w->changes[i].rotated = pith_turns_weight(&r->job->basis, w->plan, i, block > 1);
        w->changes[i].rebias = w->block.linear[i].bias &&
                               pith_turns_bias(&r->job->basis, w->plan, i);
    }
    for (uint32_t i = 0; i < w->plan->vectors; i++)
        w->regain[i] = pith_turns_vector(&r->job->basis, w->plan, i);
    const enum pith_status s = pith_turn_block(&t, &w->block, err);
    pith_phases_mark(&r->phases, PITH_PHASE_TRANSFORM);
    return s;
}

/* How many tokens of the text took each expert, where that was looked at. */
static enum pith_status report_experts(struct pith_work *w, struct pith_error *err)
{
    const bool learned = pith_job_learns(w->run->job) && pith_plan_experts(w->plan);
    const size_t *count = learned ? w->run->cal.learn.taken : w->stages.routed.count;
    if (!count) return PITH_OK;
    json_t *tokens = json_array();
    for (uint32_t e = 0; e < w->run->job->model->shape.moe.experts; e++)
        pith_json_add(&tokens, json_integer((json_int_t)count[e]));
    json_t *j = json_pack("{s:i, s:o}", "layer", (int)w->layer, "tokens", tokens);
    return json_array_append_new(w->experts, j) == 0 ? PITH_OK
                                                     : pith_fail_nomem(err, "a block's account");
}

/* Every stage, on the block's weights as floats. */
static enum pith_status run_stages(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    pith_phases_begin(&r->phases);
    PITH_TRY(check_layer(w, err));
    const enum pith_load how = r->job->whole_layers ? PITH_LOAD_FLOAT : PITH_LOAD_SHARED;
    enum pith_status s = pith_block_load(r->job->model, w->layer, how, &w->block, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    if (s == PITH_OK && pith_job_turns(r->job)) s = turn_block(w, err);
    if (s == PITH_OK && pith_job_learns(r->job)) s = pith_learn_targets(r, &w->block, err);
    pith_phases_mark(&r->phases, PITH_PHASE_COLLECT);
    if (s == PITH_OK && r->job->needs_transform) s = pith_work_transform(w, err);
    if (s == PITH_OK && pith_job_learns(r->job)) s = round_together(w, err);
    if (s == PITH_OK) s = begin_twin(w, err);
    for (uint32_t site = 0; site < w->plan->sites && s == PITH_OK; site++)
        if (!pith_job_learns(r->job)) s = round_site(w, site, err);
    return s == PITH_OK ? report_experts(w, err) : s;
}

/* The scales of keys and values: found when the block has its final form, or the input's. */
static enum pith_status store_kv(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const uint32_t heads = w->plan->state.heads;
    if (!pith_inputs_kv_of(r->job, w->layer)) return PITH_OK;
    float *scale = pith_alloc(2 * (size_t)heads, sizeof *scale);
    if (!scale) return pith_fail_nomem(err, "scales of keys and values");
    enum pith_status s = r->job->convert ? pith_kv_scales_load(r->job->model, w->layer, scale, err)
                                         : pith_inputs_measure_kv(r, &w->block, scale, err);
    for (uint32_t i = 0; i < 2 && s == PITH_OK; i++) {
        char name[PITH_KV_NAME];
        pith_inputs_kv_name(r->job, w->layer, (int)i, name);
        s = pith_store_scales(r, name, scale + i * heads, pith_inputs_kv_scales(r->job, w->layer),
                              w->tensors, err);
    }
    pith_free(scale);
    return s;
}

static enum pith_status run_block(struct pith_work *w, bool propagate, json_t *unit,
                                  struct pith_error *err)
{
    struct pith_run *r = w->run;
    PITH_TRY(pith_work_begin(w, err));
    PITH_TRY(add_arrays(w, unit, err));
    if (r->job->convert) PITH_TRY(pith_convert_layer(r, w->layer, w->linears, err));
    else if (pith_job_streams(r->job)) PITH_TRY(pith_stream_layer(r, w->layer, w->linears, err));
    else PITH_TRY(run_stages(w, err));
    PITH_TRY(store_kv(w, err));
    PITH_TRY(keep_rest(w, err));
    pith_phases_begin(&r->phases);
    const enum pith_status s = propagate ? pith_stages_finish(&w->stages, err) : PITH_OK;
    pith_phases_mark(&r->phases, PITH_PHASE_PROPAGATE);
    return s;
}

enum pith_status pith_run_block(struct pith_run *r, uint32_t layer, bool propagate, json_t *unit,
                                struct pith_error *err)
{
    struct pith_work w = {.run = r, .layer = layer, .plan = pith_job_plan(r->job, layer)};
    w.stages = (struct pith_stages){.collector = &r->cal.collector,
                                    .block = &w.block,
                                    .in = &r->cal.acts[0],
                                    .out = &r->cal.acts[1],
                                    .between = r->cal.between.data,
                                    .guided = {&r->cal.guiding.guide, layer},
                                    .routed = {.rule = r->job->experts}};
    const enum pith_status s = run_block(&w, propagate, unit, err);
    pith_stages_end(&w.stages);
    end_twin(&w);
    pith_work_end(&w);
    return s;
}
