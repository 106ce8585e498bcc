/* The linears of a block, site by site: statistics, split, round, store. */
#include "quantize/work.h"

#include "base/mem.h"
#include "kern/ops.h"
#include "quantize/convert.h"
#include "quantize/site/closeness.h"
#include "quantize/site/error_limits.h"
#include "quantize/site/inputs.h"
#include "quantize/site/prune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- what a linear became --------------------------------------------------------------------- */

static enum pith_status find_tensor(const struct pith_work *w, const struct pith_choice *c,
                                    const struct pith_tensor **t, struct pith_error *err)
{
    char name[320];
    snprintf(name, sizeof name, "%s.weight", c->module);
    *t = pith_checkpoint_find(w->run->job->model->checkpoint, name);
    return *t ? pith_tensor_need(*t, err)
              : pith_fail(err, PITH_FORMAT, "%s: missing in the input", name);
}

enum pith_status pith_work_distance(const struct pith_work *w, const struct pith_choice *c,
                                    const struct pith_weight *made, double *relative,
                                    struct pith_error *err)
{
    struct pith_backend *be = w->run->job->backend;
    float *rotated = NULL;
    const struct pith_tensor *t;
    PITH_TRY(find_tensor(w, c, &t, err));
    uint8_t *straight = NULL;
    if (!w->rotated && !pith_tensor_straight(t, &straight)) return pith_fail_nomem(err, c->module);
    struct pith_weight original = {.rows = c->rows,
                                   .cols = c->cols,
                                   .dtype = t->dtype,
                                   .dense = straight ? straight : t->data};
    if (w->rotated) {
        const struct pith_basis_change change = pith_job_basis_change(w->run->job);
        PITH_TRY(pith_rotated_linear(&change, w->layer, c->linear, c->hadamard > 1, &rotated, err));
        original.dtype = PITH_F32;
        original.dense = rotated;
    }
    const bool good =
        pith_relative_error(be, made, &original, w->changes[c->linear].scaled, relative);
    pith_free(rotated);
    pith_free(straight);
    if (!good) return pith_fail_nomem(err, "a comparison");
    pith_checkpoint_release(w->run->job->model->checkpoint, t);
    return PITH_OK;
}

/* How far the result is from the input's own matrix, by the measure that verify takes again; and
 * the hash of what it stands for. */
static enum pith_status measure_error(const struct pith_work *w, const struct pith_choice *c,
                                      const struct pith_weight *made,
                                      struct pith_linear_result *out, struct pith_error *err)
{
    PITH_TRY(pith_work_distance(w, c, made, &out->relative_error, err));
    PITH_TRY(pith_judge(w->run->job, c, out->relative_error, err));
    const enum pith_status s = pith_weights_digest(w->run->job->backend, made, out->sha256, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* From here on the block computes with what will be served. */
void pith_work_install(struct pith_work *w, uint32_t linear, const struct pith_qmat *q)
{
    struct pith_linear_weights *l = &w->block.linear[linear];
    l->q = *q;
    l->w.quant = &l->q;
    l->w.dense = NULL;
    pith_free(l->dense);
    l->dense = NULL;
}

enum pith_status pith_work_settle(struct pith_work *w, const struct pith_choice *c,
                                  struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_job *job = w->run->job;
    const struct pith_weight stored = {.rows = c->rows, .cols = c->cols, .quant = q};
    pith_container_state(job->container, &c->grid, q, 0, pith_qmat_scale_count(q));
    return job->recipe.split->two_four ? pith_two_four_check(job->backend, &stored, err) : PITH_OK;
}

/* Measures what a linear became; frees q on failure. */
enum pith_status pith_work_check(struct pith_work *w, const struct pith_choice *c,
                                 struct pith_qmat *q, struct pith_linear_result *made,
                                 struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_weight stored = {.rows = c->rows, .cols = c->cols, .quant = q};
    enum pith_status s = pith_work_settle(w, c, q, err);
    if (s == PITH_OK) s = measure_error(w, c, &stored, made, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

/* Stores it and goes on with it; takes q over, also on failure. */
static enum pith_status store_and_install(struct pith_work *w, const struct pith_choice *c,
                                          struct pith_qmat *q, struct pith_linear_result *made,
                                          struct pith_error *err)
{
    const enum pith_status s = pith_store_shared(w->run, c, q, made, err);
    if (s == PITH_OK) pith_work_install(w, c->linear, q);
    else pith_qmat_free(q);
    return s;
}

/* Its account. */
static enum pith_status note(struct pith_work *w, const struct pith_choice *c,
                             const struct pith_linear_result *made, struct pith_error *err)
{
    json_t *entry = pith_linear_json(c, made, w->changes[c->linear].scaled);
    return json_array_append_new(w->linears, entry) == 0 ? PITH_OK
                                                         : pith_fail_nomem(err, c->module);
}

enum pith_status pith_work_keep(struct pith_work *w, const struct pith_choice *c,
                                struct pith_qmat *q, struct pith_linear_result *made,
                                struct pith_error *err)
{
    PITH_TRY(store_and_install(w, c, q, made, err));
    return note(w, c, made, err);
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
void pith_work_globals(const struct pith_work *w, const struct pith_site_spec *site, float *global)
{
    for (uint32_t i = 0; i < site->count; i++)
        global[i] =
            shared_global(w, site, &pith_job_choice(w->run->job, w->layer, site->first + i)->grid);
}

static enum pith_status split_linear(struct pith_work *w, const struct pith_choice *c,
                                     const struct pith_stats *stats, struct pith_off_grid *off_grid,
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
        .keeps = recipe->round->by->keeps,
    };
    return recipe->split->run(&split, off_grid, err);
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
    if (!(w->run->job->needs_round & PITH_NEED_OUTPUTS)) return own;
    own.outputs = pith_guide_outputs(&w->run->cal.guiding.guide, w->layer, c->linear);
    own.outputs_by = w->redo[c->linear].over;
    own.output_block = w->run->cal.guiding.guide.block;
    return own;
}

/* --- the block as it was ---------------------------------------------------------------------- */

/* It shares everything with the block until a linear is rounded. */
enum pith_status pith_work_twin(struct pith_work *w, struct pith_error *err)
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

void pith_work_untwin(struct pith_work *w)
{
    for (uint32_t i = 0; w->twin.linear && i < w->plan->linears; i++)
        pith_free(w->twin.linear[i].dense);
    pith_free(w->twin.linear);
}

/* Before a linear is rounded, and its floats are lost. */
enum pith_status pith_work_keep_twin(struct pith_work *w, const struct pith_choice *c,
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

/* The site's linear i, measured if all of it is rounded here. On failure out->q owns nothing. */
static enum pith_status round_linear(const struct pith_division *d, uint32_t i,
                                     const struct pith_round_job *known, struct pith_rounded *out,
                                     struct pith_error *err)
{
    struct pith_work *w = d->work;
    struct pith_run *r = w->run;
    const struct pith_choice *c = &d->choice[i];
    struct pith_off_grid off_grid = {0};
    enum pith_status s = split_linear(w, c, known->stats, &off_grid, err);
    const struct pith_rounder *rounder = rounder_for(w, c, known->stats);
    const struct pith_round_job job = {
        .backend = r->job->backend,
        .grid = c->grid,
        .options = r->job->recipe.round_options,
        .scale_dtype = r->job->container->scale_dtype(&c->grid, r->job->container_opts.model_dtype),
        .global = known->global,
        .rows = c->rows,
        .cols = c->cols,
        .w = w->block.linear[c->linear].dense,
        .stats = known->stats,
        .off_grid = &off_grid,
        .factor = known->factor,
    };
    pith_phases_begin(&r->phases);
    if (s == PITH_OK && c->keeps) s = pith_convert_keep(r->job, c, &out->q, err);
    else if (s == PITH_OK) s = pith_division_round(d, i, rounder, &job, out, err);
    pith_off_grid_free(&off_grid);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    pith_phases_move(&r->phases, PITH_PHASE_ROUND, PITH_PHASE_FACTOR,
                     out->made.report.factor_seconds);
    if (s != PITH_OK) return pith_fail_in(err, s, c->module);
    return pith_division_whole(d, i) ? pith_work_check(w, c, &out->q, &out->made, err) : PITH_OK;
}

/* A linear that stays in 16 bits, with zeros in it: it is floats that change. */
static enum pith_status prune_linear(struct pith_work *w, const struct pith_choice *c,
                                     const struct pith_round_job *known, struct pith_error *err)
{
    const struct pith_stats *stats = known->stats;
    struct pith_run *r = w->run;
    const struct pith_linear_weights *l = &w->block.linear[c->linear];
    const struct pith_weight made = {
        .rows = c->rows, .cols = c->cols, .dtype = PITH_F32, .dense = l->dense};
    struct pith_off_grid off_grid = {0};
    const struct pith_tensor *t = NULL;
    enum pith_status s = find_tensor(w, c, &t, err);
    if (s == PITH_OK) s = pith_work_keep_twin(w, c, err);
    if (s == PITH_OK) s = split_linear(w, c, stats, &off_grid, err);
    const struct pith_round_job job = {
        .backend = r->job->backend,
        .options = r->job->recipe.round_options,
        .scale_dtype = t ? pith_job_weight_dtype(r->job, t) : PITH_F32,
        .rows = c->rows,
        .cols = c->cols,
        .w = l->dense,
        .stats = stats,
        .off_grid = &off_grid,
        .factor = known->factor,
    };
    struct pith_linear_result *out = &w->changes[c->linear].pruned;
    pith_phases_begin(&r->phases);
    if (s == PITH_OK) s = pith_round_dense(r->job->recipe.round, &job, &out->report, err);
    pith_off_grid_free(&off_grid);
    pith_phases_mark(&r->phases, PITH_PHASE_ROUND);
    pith_phases_move(&r->phases, PITH_PHASE_ROUND, PITH_PHASE_FACTOR, out->report.factor_seconds);
    if (s == PITH_OK) s = pith_two_four_check(r->job->backend, &made, err);
    if (s == PITH_OK) s = measure_error(w, c, &made, out, err);
    pith_phases_mark(&r->phases, PITH_PHASE_ERROR);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* The account of the tensor that was stored last. */
enum pith_status pith_work_report_pruned(struct pith_work *w, const struct pith_choice *c,
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

static bool site_quantized(const struct pith_work *w, const struct pith_site_spec *site)
{
    const struct pith_choice *c = pith_job_choice(w->run->job, w->layer, site->first);
    for (uint32_t i = 0; i < site->count; i++)
        if (pith_choice_changes(&c[i])) return true;
    return false;
}

/* Reports a site's first input whose statistics are not finite, with the linear that reads it: what
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

/* Those matrices of a site that are not there yet: as floats where they change or have changed,
 * unless that is done elsewhere. */
static enum pith_status fetch_site(struct pith_work *w, const struct pith_site_spec *site,
                                   bool here, struct pith_error *err)
{
    for (uint32_t i = site->first; i < site->first + site->count; i++) {
        const struct pith_work_change *c = &w->changes[i];
        const bool changes = pith_choice_changes(pith_job_choice(w->run->job, w->layer, i));
        const bool same = !changes && !c->scaled && !c->rotated;
        if (!here && changes) continue;
        if (same)
            PITH_TRY(pith_block_fetch(w->run->job->model, &w->block, i, PITH_LOAD_MAPPED, err));
        else PITH_TRY(pith_work_fetch(w, i, err));
    }
    return PITH_OK;
}

/* The linears of a site on their way. */
struct rounding {
    struct pith_division division;
    const struct pith_site_spec *site;
    const struct pith_stats *stats; /* NULL: the rounder needs none */
    float *global;                  /* [site->count] */
    struct pith_rounded *made;      /* [site->count] */
    struct pith_factor *factor;     /* of the site's Hessian; NULL: each linear makes its own */
};

/* H's factor, once for the site's linears. */
static enum pith_status factor_site(struct pith_work *w, struct rounding *a, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_recipe *recipe = &r->job->recipe;
    const struct pith_off_grid off_grid = {.choose = recipe->split->left &&
                                                     recipe->round->by->keeps};
    const struct pith_choice *c = NULL;
    for (uint32_t i = 0; i < a->site->count && !c; i++)
        if (pith_choice_changes(&a->division.choice[i])) c = &a->division.choice[i];
    if (!c || !a->stats || r->job->needs_round & PITH_NEED_GUIDED) return PITH_OK;
    if (!c->prune && !pith_division_factors(&a->division)) return PITH_OK;
    const struct pith_round_job job = {.backend = r->job->backend,
                                       .grid = c->grid,
                                       .options = recipe->round_options,
                                       .rows = c->rows,
                                       .cols = c->cols,
                                       .stats = a->stats,
                                       .off_grid = &off_grid};
    pith_phases_begin(&r->phases);
    const enum pith_status s = pith_round_factor(
        rounder_for(w, c, a->stats), &job, pith_division_factorers(&a->division), &a->factor, err);
    pith_phases_mark(&r->phases, PITH_PHASE_FACTOR);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

static enum pith_status round_one(struct pith_work *w, const struct rounding *a, uint32_t i,
                                  struct pith_error *err)
{
    const struct pith_choice *c = &a->division.choice[i];
    const struct pith_stats own = a->stats ? stats_of(w, c, a->stats) : (struct pith_stats){0};
    const struct pith_stats *known = a->stats ? &own : NULL;
    const struct pith_round_job job = {.stats = known, .global = a->global[i], .factor = a->factor};
    if (c->prune && !c->grid.format) return prune_linear(w, c, &job, err);
    if (!c->grid.format) return PITH_OK;
    PITH_TRY(pith_work_keep_twin(w, c, err));
    if (!pith_division_has(&a->division, i)) return PITH_OK;
    PITH_TRY(round_linear(&a->division, i, &job, &a->made[i], err));
    a->made[i].q.input = pith_inputs_make(w->run->job, c, known);
    return PITH_OK;
}

static enum pith_status store_one(struct pith_work *w, const struct rounding *a, uint32_t i,
                                  struct pith_error *err)
{
    const struct pith_choice *c = &a->division.choice[i];
    struct pith_rounded *m = &a->made[i];
    if (pith_expert_waits(w, a->site->expert)) return pith_expert_keep(w, c->linear, m, err);
    if (c->grid.format) {
        const enum pith_status s = store_and_install(w, c, &m->q, &m->made, err);
        m->q = (struct pith_qmat){0};
        if (s != PITH_OK) return s;
    }
    return pith_run_step(w->run, w->run->job->recipe.round->name, 1, err);
}

static enum pith_status note_one(struct pith_work *w, const struct rounding *a, uint32_t i,
                                 struct pith_error *err)
{
    const struct pith_choice *c = &a->division.choice[i];
    const bool noted = c->grid.format && !pith_expert_waits(w, a->site->expert);
    return noted ? note(w, c, &a->made[i].made, err) : PITH_OK;
}

/* Batch by batch: linears are rounded, made whole and stored, and the block computes with them. */
static enum pith_status round_each(struct pith_work *w, const struct rounding *a,
                                   struct pith_error *err)
{
    const uint32_t batch = pith_division_batch(&a->division);
    for (uint32_t at = 0; at < a->site->count; at += batch) {
        for (uint32_t i = at; i < at + batch; i++) PITH_TRY(round_one(w, a, i, err));
        PITH_TRY(pith_division_join(&a->division, a->made, err));
        for (uint32_t i = at; i < at + batch; i++) PITH_TRY(store_one(w, a, i, err));
        PITH_TRY(pith_division_share(&a->division, a->made, err));
        for (uint32_t i = at; i < at + batch; i++) PITH_TRY(note_one(w, a, i, err));
    }
    return PITH_OK;
}

static enum pith_status round_all(struct pith_work *w, const struct pith_site_spec *site,
                                  const struct pith_stats *stats, struct pith_error *err)
{
    struct rounding a = {.site = site,
                         .stats = stats,
                         .global = pith_alloc(site->count, sizeof *a.global),
                         .made = pith_zalloc(site->count, sizeof *a.made)};
    enum pith_status s = a.global && a.made ? pith_division_open(w, site, &a.division, err)
                                            : pith_fail_nomem(err, site->name);
    if (s == PITH_OK) {
        pith_work_globals(w, site, a.global);
        s = factor_site(w, &a, err);
    }
    if (s == PITH_OK) s = round_each(w, &a, err);
    pith_round_factor_free(a.factor);
    for (uint32_t i = 0; a.made && i < site->count; i++) {
        pith_qmat_free(&a.made[i].q);
        pith_free(a.made[i].lost.loss);
    }
    pith_free(a.made);
    pith_division_close(&a.division);
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
    const bool here = pith_expert_is_here(w, site->expert);
    pith_phases_begin(&r->phases);
    enum pith_status s = fetch_site(w, site, here, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    if (s != PITH_OK || !site_quantized(w, site)) return s;
    if (r->job->needs_round)
        s = pith_stages_collect(&w->stages, which, r->job->needs_round, 0, &stats, err);
    pith_work_mark_pass(w, PITH_PHASE_COLLECT);
    if (s == PITH_OK && r->job->needs_round) s = check_stats(w, site, &stats, err);
    if (s == PITH_OK && here) s = round_all(w, site, r->job->needs_round ? &stats : NULL, err);
    pith_stats_free(&stats, 1);
    return s;
}

enum pith_status pith_work_round(struct pith_work *w, struct pith_error *err)
{
    bool routed = false; /* the sites so far end with those of experts */
    for (uint32_t i = 0; i < w->plan->sites; i++) {
        const bool expert = w->plan->site[i].expert != PITH_NO_PART;
        if (routed && !expert) PITH_TRY(pith_experts_meet(w, err));
        routed = expert;
        PITH_TRY(round_site(w, i, err));
    }
    return routed ? pith_experts_meet(w, err) : PITH_OK;
}
