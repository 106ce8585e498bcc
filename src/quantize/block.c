/* One block: transform, split, round each site, store, and run it to make the next block's input.
 * Or several that are learned together, which are then stored one after the other. */
#include "quantize/block.h"

#include "base/mem.h"
#include "quantize/convert.h"
#include "quantize/output/joined_tensors.h"
#include "quantize/output/layout.h"
#include "quantize/site/inputs.h"
#include "quantize/stream.h"
#include "quantize/work.h"

#include <stdio.h>
#include <string.h>

void pith_work_mark_pass(struct pith_work *w, enum pith_phase phase)
{
    struct pith_run *r = w->run;
    pith_phases_mark(&r->phases, phase);
    pith_phases_move(&r->phases, phase, PITH_PHASE_HESSIAN, r->cal.collector.hessian_seconds);
    r->cal.collector.hessian_seconds = 0;
}

/* --- blocks at once --------------------------------------------------------------------------- */

/* The loss is that of all blocks that were learned together, at the end of the last. */
static enum pith_status report_block(struct pith_work *w, double values, struct pith_error *err)
{
    const struct pith_round_block_report *rep = &w->learned.report;
    json_t *j = json_pack("{s:i, s:f, s:f, s:i, s:i}", "layer", (int)w->layer, "loss",
                          rep->loss / values, "loss_nearest", rep->nearest_loss / values,
                          "iterations", (int)rep->iterations, "kept", (int)rep->step);
    if (j && w->learned.blocks > 1)
        pith_json_set(&j, "together",
                      json_pack("[i, i]", (int)(w->layer - w->learned.place),
                                (int)(w->layer - w->learned.place + w->learned.blocks - 1)));
    return j && json_array_append_new(w->blocks, j) == 0
               ? PITH_OK
               : pith_fail_nomem(err, "a block's account");
}

/* Settles what a linear became; its maker also measures it. */
static enum pith_status check_together(struct pith_work *w, uint32_t linear, struct pith_qmat *q,
                                       struct pith_linear_result *made, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_choice *c = pith_job_choice(r->job, w->layer, linear);
    q->input = pith_inputs_make(r->job, c, NULL); /* what is learned leaves activations alone */
    if (pith_maker_is_here(r, pith_maker_of(r, linear))) return pith_work_check(w, c, q, made, err);
    return pith_work_settle(w, c, q, err);
}

/* Stores what the block's linears became. The loss is that of all blocks that were learned with it;
 * each of their linears is given an equal share of it, as the squared error of an output vector. */
static enum pith_status keep_learned(struct pith_work *w, struct pith_linear_result *made,
                                     struct pith_error *err)
{
    struct pith_run *r = w->run;
    struct pith_qmat *q = w->learned.q;
    const struct pith_round_block_report *rep = &w->learned.report;
    const struct pith_acts *a = &r->cal.acts[0];
    const double tokens = (double)(pith_acts_all(a) * a->length);
    unsigned count = 0;
    for (uint32_t i = 0; i < w->plan->linears; i++) count += q[i].codes != NULL;
    enum pith_status s = count ? report_block(w, tokens * (double)a->hidden, err) : PITH_OK;
    for (uint32_t i = 0; i < w->plan->linears && s == PITH_OK; i++) {
        made[i].report.loss = rep->loss / tokens / w->learned.members;
        made[i].report.nearest_loss = rep->nearest_loss / tokens / w->learned.members;
        if (!q[i].codes) continue;
        s = check_together(w, i, &q[i], &made[i], err);
    }
    for (uint32_t i = 0; i < w->plan->linears && s == PITH_OK; i++) {
        const struct pith_choice *c = pith_job_choice(r->job, w->layer, i);
        if (!q[i].codes) continue;
        s = pith_maker_share(r, pith_maker_of(r, i), &made[i], sizeof made[i], err);
        if (s != PITH_OK) break;
        s = pith_work_keep(w, c, &q[i], &made[i], err);
        q[i] = (struct pith_qmat){0}; /* the block's, or freed */
        if (s == PITH_OK) s = pith_run_step(r, r->job->recipe.round->name, 1, err);
    }
    return s;
}

static enum pith_status keep_together(struct pith_work *w, struct pith_error *err)
{
    struct pith_linear_result *made = pith_zalloc(w->plan->linears, sizeof *made);
    const enum pith_status s = made ? keep_learned(w, made, err) : pith_fail_nomem(err, "a block");
    pith_free(made);
    return s;
}

/* What a block needs to be learned with others. */
static enum pith_status join(struct pith_work *w, struct pith_learn_part *part,
                             struct pith_error *err)
{
    const uint32_t linears = w->plan->linears;
    w->learned.q = pith_zalloc(linears, sizeof *w->learned.q);
    w->learned.global = pith_zalloc(linears, sizeof *w->learned.global);
    if (!w->learned.q || !w->learned.global) return pith_fail_nomem(err, "a block");
    for (uint32_t i = 0; i < w->plan->sites; i++)
        pith_work_globals(w, &w->plan->site[i], w->learned.global + w->plan->site[i].first);
    *part = (struct pith_learn_part){&w->block, w->learned.global, w->learned.q};
    return PITH_OK;
}

/* All linears of all blocks at once. */
static enum pith_status round_together(struct pith_blocks *b, struct pith_error *err)
{
    struct pith_round_block_report report;
    struct pith_learn_part *part = pith_zalloc(b->count, sizeof *part);
    enum pith_status s = part ? PITH_OK : pith_fail_nomem(err, "a block");
    unsigned members = 0;
    for (uint32_t i = 0; i < b->count && s == PITH_OK; i++) s = join(&b->work[i], &part[i], err);
    if (s == PITH_OK) s = pith_learn_blocks(b->run, part, b->count, &report, err);
    pith_phases_mark(&b->run->phases, PITH_PHASE_ROUND);
    for (uint32_t i = 0; i < b->count && s == PITH_OK; i++)
        for (uint32_t l = 0; l < b->work[i].plan->linears; l++)
            members += part[i].q[l].codes != NULL;
    for (uint32_t i = 0; i < b->count && s == PITH_OK; i++) {
        b->work[i].learned.report = report;
        b->work[i].learned.members = members;
    }
    pith_free(part);
    return s;
}

/* --- what is not rounded ---------------------------------------------------------------------- */

static const char folded_in[] = "the transform was folded in";

/* What was done to a tensor that changed. What is rotated alone is to be found again to the bit. */
static const char *changed_how(bool scaled)
{
    return scaled ? "rescaled" : "rotated";
}

/* The same of a linear's matrix or bias. */
static const char *linear_how(const void *ctx, uint32_t linear, bool bias)
{
    const struct pith_work *w = ctx;
    return changed_how(bias ? w->changes[linear].bias_scaled : w->changes[linear].scaled);
}

/* What a transform made of a linear's matrix or bias, or NULL. */
static const float *changed_values(void *ctx, uint32_t linear, bool bias)
{
    const struct pith_work *w = ctx;
    const struct pith_work_change *c = &w->changes[linear];
    if (bias) return c->bias_scaled || c->bias_rotated ? w->block.linear[linear].bias : NULL;
    return c->scaled || c->rotated ? w->block.linear[linear].dense : NULL;
}

/* A matrix or bias of a linear. */
static enum pith_status keep_part(struct pith_work *w, const struct pith_choice *c, bool bias,
                                  const char *reason, struct pith_error *err)
{
    const float *values = changed_values(w, c->linear, bias);
    char name[320];
    snprintf(name, sizeof name, "%s%s", c->module, bias ? ".bias" : ".weight");
    if (values)
        return pith_store_values(w->run, name, values, linear_how(w, c->linear, bias), folded_in,
                                 w->tensors, err);
    return pith_store_copy(w->run, name, reason, w->tensors, err);
}

static enum pith_status keep_linear(struct pith_work *w, const struct pith_choice *c,
                                    struct pith_error *err)
{
    static const struct pith_linear_weights none = {0};
    const struct pith_linear_weights *l = w->block.linear ? &w->block.linear[c->linear]
                                                          : &none; /* a stream loads no block */
    if (w->plan->linear[c->linear].bias && !pith_job_whole(w->run->job, w->layer, c->linear, true))
        PITH_TRY(keep_part(w, c, true, "biases stay as they are", err));
    if (c->grid.format || pith_job_whole(w->run->job, w->layer, c->linear, false)) return PITH_OK;
    if (c->prune) {
        char name[320];
        snprintf(name, sizeof name, "%s.weight", c->module);
        PITH_TRY(pith_store_values(w->run, name, l->dense, "pruned", c->reason, w->tensors, err));
        return pith_work_report_pruned(w, c, err);
    }
    return keep_part(w, c, false, c->reason, err);
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
    const size_t n = pith_vector_count(spec);
    pith_plan_name(&w->run->job->model->plans, w->layer, spec->name, name, sizeof name);
    if (!w->regain[vector])
        return pith_store_copy(w->run, name, "norms stay as they are", w->tensors, err);
    float *values = pith_alloc(n, sizeof *values);
    if (!values) return pith_fail_nomem(err, name);
    for (size_t i = 0; i < n; i++) values[i] = w->block.vector[vector][i] - spec->plus;
    const bool scaled = !pith_rotates_vector(&w->run->job->basis, w->plan, vector);
    const enum pith_status s =
        pith_store_values(w->run, name, values, changed_how(scaled), folded_in, w->tensors, err);
    pith_free(values);
    return s;
}

static enum pith_status keep_rest(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    for (uint32_t i = 0; i < w->plan->linears; i++)
        PITH_TRY(keep_linear(w, pith_job_choice(r->job, w->layer, i), err));
    const struct pith_changes changes = {changed_values, linear_how, w};
    PITH_TRY(pith_store_wholes(r, w->layer, &changes, w->tensors, err));
    for (uint32_t i = 0; i < w->plan->vectors; i++) PITH_TRY(keep_vector(w, i, err));
    return keep_others(w, err);
}

/* Checked before the work: one bad value spreads to everything that is computed from it. */
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
static enum pith_status rotate_block(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    const struct pith_basis_change t = pith_job_basis_change(r->job);
    w->rotated = true;
    for (uint32_t i = 0; i < w->plan->linears; i++) {
        const uint32_t block = pith_job_choice(r->job, w->layer, i)->hadamard;
        w->block.linear[i].hadamard = block;
        w->changes[i].rotated = pith_rotates_weight(&r->job->basis, w->plan, i, block > 1);
        w->changes[i].bias_rotated = w->block.linear[i].bias &&
                                     pith_rotates_bias(&r->job->basis, w->plan, i);
    }
    for (uint32_t i = 0; i < w->plan->vectors; i++)
        w->regain[i] = pith_rotates_vector(&r->job->basis, w->plan, i);
    const enum pith_status s = pith_rotate_block(&t, &w->block, err);
    pith_phases_mark(&r->phases, PITH_PHASE_TRANSFORM);
    return s;
}

/* How many tokens of the text took each expert, where that was looked at. */
static enum pith_status report_experts(struct pith_work *w, struct pith_error *err)
{
    const bool learned = pith_job_learns(w->run->job) && pith_plan_experts(w->plan);
    const uint32_t experts = w->run->job->model->shape.moe.experts;
    const size_t *count = learned ? w->run->cal.learn.taken + (size_t)w->learned.place * experts
                                  : w->stages.routed.count;
    if (!count) return PITH_OK;
    json_t *tokens = json_array();
    for (uint32_t e = 0; e < experts; e++)
        pith_json_add(&tokens, json_integer((json_int_t)count[e]));
    json_t *j = json_pack("{s:i, s:o}", "layer", (int)w->layer, "tokens", tokens);
    return json_array_append_new(w->experts, j) == 0 ? PITH_OK
                                                     : pith_fail_nomem(err, "a block's account");
}

/* Whether the block's weights are there as floats, all at once. */
static bool has_stages(const struct pith_job *job)
{
    return !job->convert && !pith_job_streams(job);
}

/* The block's weights as floats, on which all stages work, and what goes before rounding. */
static enum pith_status begin_stages(struct pith_work *w, struct pith_error *err)
{
    struct pith_run *r = w->run;
    pith_phases_begin(&r->phases);
    PITH_TRY(check_layer(w, err));
    const enum pith_load how = r->job->whole_layers ? PITH_LOAD_FLOAT : PITH_LOAD_SHARED;
    enum pith_status s = pith_block_load(r->job->model, w->layer, how, &w->block, err);
    pith_phases_mark(&r->phases, PITH_PHASE_READ);
    if (s == PITH_OK && pith_job_rotates(r->job)) s = rotate_block(w, err);
    if (s == PITH_OK && pith_job_learns(r->job))
        s = pith_learn_targets(r, &w->block, w->learned.place, err);
    pith_phases_mark(&r->phases, PITH_PHASE_COLLECT);
    return s == PITH_OK && r->job->needs_transform ? pith_work_transform(w, err) : s;
}

static enum pith_status end_stages(struct pith_work *w, struct pith_error *err)
{
    const bool learns = pith_job_learns(w->run->job);
    pith_phases_begin(&w->run->phases);
    if (learns) PITH_TRY(keep_together(w, err));
    PITH_TRY(pith_work_twin(w, err));
    if (!learns) PITH_TRY(pith_work_round(w, err));
    return report_experts(w, err);
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

static enum pith_status finish_block(struct pith_work *w, bool propagate, struct pith_error *err)
{
    struct pith_run *r = w->run;
    if (r->job->convert)
        PITH_TRY(pith_convert_linears(r, pith_job_choice(r->job, w->layer, 0), w->plan->linears,
                                      w->linears, err));
    else if (pith_job_streams(r->job)) PITH_TRY(pith_stream_layer(r, w->layer, w->linears, err));
    else PITH_TRY(end_stages(w, err));
    PITH_TRY(store_kv(w, err));
    PITH_TRY(keep_rest(w, err));
    pith_phases_begin(&r->phases);
    const enum pith_status s = propagate ? pith_stages_finish(&w->stages, err) : PITH_OK;
    pith_phases_mark(&r->phases, PITH_PHASE_PROPAGATE);
    return s;
}

static enum pith_status begin_block(struct pith_blocks *b, uint32_t place, struct pith_error *err)
{
    struct pith_run *r = b->run;
    struct pith_work *w = &b->work[place];
    const uint32_t layer = b->first + place;
    *w = (struct pith_work){.run = r,
                            .layer = layer,
                            .plan = pith_job_plan(r->job, layer),
                            .learned = {.place = place, .blocks = b->count}};
    w->stages = (struct pith_stages){.collector = &r->cal.collector,
                                     .block = &w->block,
                                     .in = &r->cal.acts[0],
                                     .out = &r->cal.acts[1],
                                     .between = r->cal.between.data,
                                     .guided = {&r->cal.guiding.guide, layer},
                                     .routed = {.rule = r->job->experts}};
    PITH_TRY(pith_work_begin(w, err));
    PITH_TRY(add_arrays(w, b->unit[place], err));
    return has_stages(r->job) ? begin_stages(w, err) : PITH_OK;
}

enum pith_status pith_blocks_open(struct pith_blocks *b, struct pith_error *err)
{
    b->work = pith_zalloc(b->count, sizeof *b->work);
    if (!b->work) return pith_fail_nomem(err, "a block");
    for (uint32_t i = 0; i < b->count; i++) PITH_TRY(begin_block(b, i, err));
    return has_stages(b->run->job) && pith_job_learns(b->run->job) ? round_together(b, err)
                                                                   : PITH_OK;
}

static void end_block(struct pith_work *w)
{
    if (!w->plan) return;
    pith_stages_end(&w->stages);
    pith_work_untwin(w);
    pith_work_end(w);
    w->plan = NULL;
}

enum pith_status pith_blocks_finish(struct pith_blocks *b, uint32_t place, bool propagate,
                                    struct pith_error *err)
{
    const enum pith_status s = finish_block(&b->work[place], propagate, err);
    end_block(&b->work[place]);
    return s;
}

void pith_blocks_close(struct pith_blocks *b)
{
    for (uint32_t i = 0; b->work && i < b->count; i++) end_block(&b->work[i]);
    pith_free(b->work);
    b->work = NULL;
}
