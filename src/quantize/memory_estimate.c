/* The most own memory that the process will hold: what it holds now, measured, and what the run
 * takes from then on, from the same sizes that it allocates by. Mapped files (the input, the
 * output, the activations) are not counted: the kernel drops their pages when it needs memory. */
#include "quantize/memory_estimate.h"

#include "base/arena.h"
#include "base/async.h"
#include "base/file.h"
#include "base/integer.h"
#include "base/mem.h"
#include "calib/gather.h"
#include "num/trellis.h"
#include "quantize/convert.h"
#include "quantize/job.h"
#include "quantize/output/joined_tensors.h"
#include "quantize/output/output.h"
#include "quantize/output/store.h"
#include "quantize/ranks/ranks.h"
#include "quantize/site/closeness.h"
#include "quantize/site/guide.h"
#include "quantize/site/learn.h"
#include "quantize/site/module_output.h"
#include "quantize/stream.h"
#include "tok/tokenizer.h"

static unsigned threads_of(const struct pith_job *job)
{
    return pith_pool_threads(pith_backend_pool(job->backend));
}

static uint64_t float_bytes(const struct pith_choice *c)
{
    return pith_times_bytes((uint64_t)c->rows * c->cols, sizeof(float));
}

/* --- a linear --------------------------------------------------------------------------------- */

uint64_t pith_job_made_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    if (!c->grid.format) return 0;
    const struct pith_split *split = job->recipe.split;
    const uint64_t q = pith_heap_bytes(pith_qmat_bytes(c->rows, c->cols, &c->grid));
    const bool has_sparse = split->sparse && !job->convert;
    return q + (has_sparse ? pith_sparse_bytes(c->rows, pith_sparse_count(c->rows, c->cols,
                                                                          job->recipe.split_value))
                           : 0);
}

uint64_t pith_job_rounding_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    const struct pith_recipe *recipe = &job->recipe;
    float some = 0; /* what is there, not what it holds */
    const bool hessian = job->needs_round & PITH_NEED_HESSIAN;
    const struct pith_stats stats = {.dim = c->cols, .hessian = hessian ? &some : NULL};
    const struct pith_round_job rounding = {.backend = job->backend,
                                            .grid = c->grid,
                                            .options = recipe->round_options,
                                            .rows = c->rows,
                                            .cols = c->cols,
                                            .stats = job->needs_round ? &stats : NULL};
    const uint64_t splitting =
        pith_round_off_grid_scratch(recipe->split, recipe->split_value, c->rows, c->cols);
    const uint64_t levels = pith_fit_levels_scratch(&c->grid, c->cols, threads_of(job));
    const uint64_t solving = recipe->round->by->scratch(recipe->round, &rounding, recipe->split);
    return pith_sum_bytes(splitting, pith_larger(solving, levels));
}

/* For measuring the error against the input: the input's own form where its rows lie in another
 * order or the model is in another basis. */
static uint64_t comparing_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    const uint64_t other = pith_job_rotates(job) ? float_bytes(c) : pith_job_straight_bytes(job, c);
    return pith_sum_bytes(other, pith_relative_error_bytes(c->rows, c->cols, threads_of(job),
                                                           job->needs_transform != 0));
}

/* A linear whose codes are made: compared and stored; from then on they stand for its floats. */
static void keep_made(struct pith_meter *m, const struct pith_job *job, const struct pith_choice *c)
{
    pith_meter_touch(m, comparing_bytes(job, c));
    pith_meter_touch(m, pith_store_linear_bytes(job, c));
    pith_meter_give(m, float_bytes(c));
}

static void round_linear(struct pith_meter *m, const struct pith_job *job,
                         const struct pith_choice *c)
{
    if (!c->grid.format && !c->prune) return;
    const uint64_t made = pith_job_made_bytes(job, c);
    if (job->needs_round & PITH_NEED_DRIFT) /* a copy, for the block as it was */
        pith_meter_take(m, float_bytes(c));
    pith_meter_touch(m, pith_sum_bytes(made, pith_job_rounding_bytes(job, c)));
    pith_meter_take(m, made);
    if (c->grid.format) keep_made(m, job, c);
    else pith_meter_touch(m, comparing_bytes(job, c));
}

/* --- a block ---------------------------------------------------------------------------------- */

static bool is_expert(const struct pith_layer_plan *l, uint32_t linear)
{
    return l->linear[linear].expert != PITH_NO_PART;
}

/* Of one matrix of the block: true when it is loaded only when it is worked on. */
static bool loads_late(const struct pith_job *job, const struct pith_layer_plan *l, uint32_t linear)
{
    return !job->whole_layers && is_expert(l, linear);
}

/* What it takes when it is there: its floats, or where it stays as it is what is not mapped. */
static uint64_t late_bytes(const struct pith_job *job, const struct pith_choice *c)
{
    const bool changes = c->grid.format || c->prune || job->needs_transform ||
                         pith_job_rotates(job);
    return changes ? float_bytes(c) : pith_job_straight_bytes(job, c);
}

static void load_block(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    uint64_t bytes = pith_block_float_bytes(l);
    for (uint32_t i = 0; i < l->linears; i++)
        if (loads_late(job, l, i)) bytes -= float_bytes(pith_job_choice(job, layer, i));
    pith_meter_take(m, bytes);
    if (pith_job_rotates(job))
        pith_meter_touch(m, pith_rotate_scratch(&job->basis, threads_of(job)));
}

/* What windows take more where tokens have a limit. */
static uint64_t limited_bytes(const struct pith_job *job, const struct pith_site_spec *site,
                              unsigned needs)
{
    return job->recipe.round_options.token_limit
               ? pith_gather_limited_bytes(site->dim, needs, job->calib.length)
               : 0;
}

static void round_site(struct pith_meter *m, const struct pith_job *job, uint32_t layer,
                       uint32_t which)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const struct pith_site_spec *site = &l->site[which];
    const struct pith_guide guide = pith_guiding_plan(job);
    const struct pith_guided guided = {&guide, layer};
    const uint64_t stats = pith_sum_bytes(pith_stats_bytes(site->dim, job->needs_round, 0),
                                          pith_guided_bytes(site, job->needs_round, &guided));
    bool any = false;
    for (uint32_t i = site->first; i < site->first + site->count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        any |= c->grid.format || c->prune;
    }
    for (uint32_t i = site->first; i < site->first + site->count; i++)
        if (loads_late(job, l, i))
            pith_meter_take(m, late_bytes(job, pith_job_choice(job, layer, i)));
    if (!any) return;
    pith_meter_take(m, stats);
    pith_meter_touch(
        m, pith_gather_bytes(site->dim, job->needs_round) +
               limited_bytes(job, site, job->needs_round) +
               pith_gather_rows_bytes(site, job->needs_round, &guided, job->calib.length));
    for (uint32_t i = site->first; i < site->first + site->count; i++)
        round_linear(m, job, pith_job_choice(job, layer, i));
    pith_meter_give(m, stats);
}

/* Blocks that are learned together; afterwards their matrices are stored one by one. */
static void round_together(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    const uint32_t end = layer + pith_job_together(job, layer);
    pith_meter_touch(m, pith_learn_blocks_bytes(job, layer, threads_of(job)));
    for (uint32_t k = layer; k < end; k++)
        for (uint32_t i = 0; i < pith_job_plan(job, k)->linears; i++)
            pith_meter_take(m, pith_job_made_bytes(job, pith_job_choice(job, k, i)));
    for (uint32_t k = layer; k < end; k++)
        for (uint32_t i = 0; i < pith_job_plan(job, k)->linears; i++)
            if (pith_job_choice(job, k, i)->grid.format)
                keep_made(m, job, pith_job_choice(job, k, i));
}

/* --- a transform ------------------------------------------------------------------------------ */

/* In place of an inspector, where only sizes are needed. */
static enum pith_status no_loss(void *ctx, const struct pith_trial *trial, double *loss,
                                struct pith_error *err)
{
    (void)ctx, (void)trial, (void)err;
    *loss = 0;
    return PITH_OK;
}

/* Bytes of the matrices of one expert in memory, 0 of none. */
static uint64_t expert_bytes(const struct pith_job *job, uint32_t layer, uint32_t expert)
{
    const struct pith_node *node = pith_plan_experts(pith_job_plan(job, layer));
    uint64_t bytes = 0;
    if (job->whole_layers || expert == PITH_NO_PART) return 0;
    for (uint32_t i = 0; i < node->u.experts.each; i++)
        bytes += late_bytes(
            job,
            pith_job_choice(job, layer, node->u.experts.first + expert * node->u.experts.each + i));
    return bytes;
}

/* What is there at a time of the experts behind a norm, while a transform looks at them all: one
 * matrix, or with the module inspected one expert, of which others are as they were. */
static uint64_t lent_bytes(const struct pith_job *job, uint32_t layer, uint32_t which)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const struct pith_node *node = pith_plan_experts(l);
    const struct pith_site_spec *site = &l->site[which];
    uint64_t all = 0, one = 0;
    if (!node || job->whole_layers || which != pith_plan_router(l)) return 0;
    for (uint32_t i = 0; i < node->u.experts.each; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, node->u.experts.first + i);
        const struct pith_fold *fold = &l->site[l->linear[c->linear].site].fold;
        const bool lent = fold->kind == PITH_FOLD_VECTOR && fold->from == site->fold.from;
        all += lent ? float_bytes(c) : pith_job_straight_bytes(job, c);
        if (lent) one = pith_larger(one, float_bytes(c));
    }
    return one && site->to ? all : one;
}

/* A transform of one site, as a job that has shapes but no numbers. */
struct request {
    struct pith_transform_job job;
    struct pith_stats stats;
    uint64_t picks; /* bytes for how experts' groups are clipped */
};

/* Fills the request of a transform. False: no memory for it; the linears are to be freed. */
static bool make_request(const struct pith_job *job, uint32_t layer, uint32_t which,
                         struct request *a)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const struct pith_site_spec *site = &l->site[which];
    *a = (struct request){.stats = {.dim = site->dim, .sample_count = pith_transform_samples(job)}};
    a->job = (struct pith_transform_job){
        .backend = job->backend,
        .stats = &a->stats,
        .scale_dtype =
            job->container->scale_dtype(&job->recipe.weights, job->container_opts.model_dtype),
        .clip_search = job->recipe.clip,
        .value = job->recipe.transform_value,
        .input = {.grid = job->recipe.acts},
        .loss = site->to ? no_loss : NULL,
        .feeds_back = job->needs_transform & PITH_NEED_HESSIAN,
        .count = pith_plan_group(l, which, NULL),
    };
    uint32_t *member = pith_alloc(a->job.count, sizeof *member);
    a->job.linear = pith_zalloc(a->job.count, sizeof *a->job.linear);
    if (member) (void)pith_plan_group(l, which, member);
    for (uint32_t i = 0; member && a->job.linear && i < a->job.count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, member[i]);
        const bool late = loads_late(job, l, member[i]);
        a->job.linear[i] = (struct pith_transform_linear){
            .rows = c->rows,
            .cols = c->cols,
            .grid = c->grid,
            .clip = !l->linear[member[i]].scores,
            .lent = late && site->expert == PITH_NO_PART,
        };
        if (late && job->recipe.clip) a->picks += pith_transform_picks(&a->job.linear[i]);
    }
    const bool good = member && a->job.linear;
    pith_free(member);
    return good;
}

/* A site whose statistics are in memory; what is needed to redo it stays. */
static void transform_site(struct pith_meter *m, const struct pith_job *job, uint32_t layer,
                           uint32_t which)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const struct pith_site_spec *site = &l->site[which];
    const struct pith_calib_set *set = &job->calib;
    const uint64_t lent = lent_bytes(job, layer, which);
    struct request a;
    if (pith_plan_group(l, which, NULL) == 0) return;
    const uint64_t inspected = site->to ? pith_inspector_bytes(&job->model->shape, site->dim,
                                                               set->windows, set->length, lent > 0)
                                        : 0;
    const bool good = make_request(job, layer, which, &a);
    const uint64_t scratch = good ? job->recipe.transform->scratch(&a.job) : UINT64_MAX;
    pith_free(a.job.linear);
    pith_meter_take(m, site->dim * sizeof(float) + a.picks);
    pith_meter_touch(m, pith_sum_bytes(pith_sum_bytes(inspected, lent), scratch));
}

/* Sites that all tokens reach are looked at together, then one after the other. */
/* While a transform's statistics of a site are gathered. */
static uint64_t gathering_bytes(const struct pith_job *job, const struct pith_site_spec *site)
{
    return pith_gather_bytes(site->dim, job->needs_transform) +
           limited_bytes(job, site, job->needs_transform);
}

static void transform_block(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const uint32_t router = pith_plan_router(l),
                   first = router == PITH_NO_PART ? l->sites : router + 1;
    uint64_t all = 0;
    if (!job->needs_transform) return;
    for (uint32_t i = 0; i < first; i++)
        all += pith_stats_bytes(l->site[i].dim, job->needs_transform, pith_transform_samples(job));
    pith_meter_take(m, all);
    for (uint32_t i = 0; i < first; i++) {
        pith_meter_touch(m, gathering_bytes(job, &l->site[i]));
        transform_site(m, job, layer, i);
    }
    pith_meter_give(m, all);
    for (uint32_t i = first; i < l->sites; i++) {
        const uint64_t expert = expert_bytes(job, layer, l->site[i].expert);
        const uint64_t one =
            pith_stats_bytes(l->site[i].dim, job->needs_transform, pith_transform_samples(job));
        pith_meter_take(m, one + expert);
        pith_meter_touch(m, gathering_bytes(job, &l->site[i]));
        transform_site(m, job, layer, i);
        pith_meter_give(m, one + expert);
    }
}

uint64_t pith_job_transform_bytes(const struct pith_job *job, uint32_t layer)
{
    struct pith_meter m = {0};
    transform_block(&m, job, layer);
    return m.most;
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* What is stored from floats: zeros in 16 bits, what a transform went into. */
static void keep_rest(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        const bool changed = c->prune || job->needs_transform || pith_job_rotates(job);
        if (!c->grid.format && changed) pith_meter_touch(m, pith_job_tensor_bytes(job, c));
    }
    pith_meter_touch(m, pith_store_whole_bytes(job, layer));
}

/* Every token's experts, from the first expert's site to the end of the layer. */
static uint64_t choices_bytes(const struct pith_job *job, const struct pith_layer_plan *l)
{
    const struct pith_moe *moe = &job->model->shape.moe;
    const uint64_t each = moe->taken * (sizeof(uint32_t) + (moe->scales_input ? sizeof(float) : 0));
    if (!pith_plan_experts(l) || !pith_job_calibrates(job)) return 0;
    return job->calib.windows * job->calib.length * each + moe->experts * sizeof(uint64_t);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Of a tensor's entry in the account, as a tree and as text. */
enum { TENSOR_JSON = 704, TENSOR_TEXT = 256, A_PIECE = 64 /* when it is read back */ };

/* A tokenizer's file as a tree, and the text of its largest member with names in order, which has
 * about three times the file's bytes: at the end, when the files are digested; or where it is made
 * of a GGUF file. */
static uint64_t side_file_bytes(const struct pith_job *job)
{
    struct pith_map map;
    uint64_t bytes = 0;
    if (job->model->checkpoint->gguf)
        return job->container->file ? 0 : pith_tokenizer_json_bytes(job->model->checkpoint);
    char *path = pith_path_join(job->options->model, "tokenizer.json");
    if (path && pith_path_exists(path) && pith_map_open(path, &map, NULL) == PITH_OK) {
        bytes = pith_json_tree_bytes((const char *)map.data, map.size) + 3 * (uint64_t)map.size;
        pith_map_close(&map);
    }
    pith_free(path);
    return bytes;
}

/* What a linear's entry in the account takes, as a tree and as text: the largest of the last
 * layer's, whose names are the longest. */
struct entry {
    uint64_t tree, text;
};

static struct entry entry_of(const struct pith_job *job)
{
    const uint32_t layers = job->model->shape.layers;
    const uint32_t linears = pith_job_plan(job, layers - 1)->linears;
    struct entry most = {0};
    for (uint32_t i = 0; i < linears; i++) {
        uint64_t text;
        const uint64_t tree =
            pith_linear_json_bytes(job, pith_job_choice(job, layers - 1, i), &text);
        most.tree = pith_larger(most.tree, tree);
        most.text = pith_larger(most.text, text);
    }
    return most;
}

/* Tensors of the file that has most of them, 0 of a lone file. */
static size_t most_in_a_shard(const struct pith_layout *out)
{
    size_t most = 0;
    for (size_t f = 0; out->shards > 1 && f < out->shards; f++) {
        size_t n = 0;
        for (size_t i = 0; i < out->count; i++) n += out->tensors[i].shard == f;
        most = n > most ? n : most;
    }
    return most;
}

/* The list of what is written (with that of one file, while the list is made from several), and the
 * entries of unchanged tensors. */
static uint64_t list_bytes(const struct pith_job *job)
{
    const struct pith_layout *out = &job->layout;
    const size_t tensors = job->model->checkpoint->count;
    uint64_t bytes = (out->count + most_in_a_shard(out)) * sizeof(struct pith_tensor);
    bytes += (tensors > job->choice_count ? tensors - job->choice_count : 0) * TENSOR_JSON;
    for (size_t i = 0; i < out->shards; i++) bytes += out->header_bytes[i];
    return bytes;
}

static void begin_block(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    load_block(m, job, layer);
    pith_meter_take(m, choices_bytes(job, pith_job_plan(job, layer)));
    transform_block(m, job, layer);
}

/* A block, or those that are rounded together, of which it is the first. */
static void do_blocks(struct pith_meter *m, const struct pith_job *job, uint32_t layer)
{
    const uint64_t before = m->now;
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const uint32_t end = layer + pith_job_together(job, layer);
    for (uint32_t k = layer; k < end; k++) begin_block(m, job, k);
    if (pith_job_learns(job)) round_together(m, job, layer);
    for (uint32_t i = 0; i < l->sites && !pith_job_learns(job); i++) round_site(m, job, layer, i);
    for (uint32_t k = layer; k < end; k++) keep_rest(m, job, k);
    pith_meter_give(m, m->now - before);
}

/* A layer, or those that are rounded together, whose entries are made while it goes on, or once all
 * its linears went through; then the text of a unit for the journal, which grows by doubling. */
static void do_layers(struct pith_meter *m, const struct pith_job *job, uint32_t layer,
                      const struct entry *entry)
{
    const uint32_t end = layer + pith_job_together(job, layer);
    const bool streams = pith_job_streams(job);
    if (streams) pith_meter_touch(m, pith_stream_layer_bytes(job, layer, threads_of(job)));
    for (uint32_t k = layer; k < end; k++)
        pith_meter_take(m, pith_job_plan(job, k)->linears * entry->tree);
    if (!streams) do_blocks(m, job, layer);
    for (uint32_t k = layer; k < end; k++)
        pith_meter_touch(m, 2ull * pith_job_plan(job, k)->linears * entry->text);
}

/* The account's text, which grows by doubling; the list of what is read back. */
static uint64_t end_bytes(const struct pith_job *job, const struct entry *entry)
{
    const uint64_t all = job->choice_count * entry->text +
                         job->layout.count * (uint64_t)TENSOR_TEXT;
    const uint64_t pieces = job->layout.count * (uint64_t)A_PIECE;
    return pith_larger(pith_larger(2 * all, pieces), side_file_bytes(job));
}

bool pith_job_prepares(const struct pith_job *job)
{
    bool any = false;
    for (size_t i = 0; i < job->choice_count; i++)
        any |= pith_trellis_is(job->choices[i].grid.format);
    return any && pith_job_calibrates(job);
}

/* What calibration holds all the time. */
static uint64_t calibration_bytes(const struct pith_job *job, unsigned threads)
{
    return pith_backend_bytes(threads) + (job->fast ? pith_backend_bf16_bytes(threads) : 0) +
           (pith_job_prepares(job) ? pith_backend_prepared_bytes() : 0) +
           pith_learn_bytes(job, threads) + pith_collector_bytes(job->model, job->calib.length) +
           pith_ranks_bytes(job);
}

uint64_t pith_job_estimate(const struct pith_job *job)
{
    const unsigned threads = threads_of(job);
    struct pith_meter m = {0};
    pith_meter_take(&m, job->own_memory + PITH_MEASURED_TO +
                            (threads + PITH_ASYNC_MOST) * (uint64_t)PITH_THREAD_HEAP);
    pith_meter_take(&m, list_bytes(job));
    const struct entry entry = entry_of(job);
    const uint64_t entries = job->choice_count * entry.tree;
    pith_meter_touch(&m, entries + end_bytes(job, &entry));
    if (job->convert) {
        pith_meter_touch(&m, entries + pith_convert_bytes(job));
        return m.most;
    }
    const struct pith_guide guide = pith_guiding_plan(job);
    if (job->guide_pass && job->needs_round & PITH_NEED_GUIDED)
        pith_meter_touch(&m, pith_backend_bytes(threads) + job->guide_pass->bytes(job) +
                                 pith_guide_scratch(&guide, job->calib.length) +
                                 pith_rotate_scratch(&job->basis, threads));
    if (pith_job_calibrates(job)) pith_meter_take(&m, calibration_bytes(job, threads));
    pith_meter_touch(&m, pith_stream_end_bytes(job, threads));
    pith_meter_touch(&m, pith_store_outer_bytes(job));
    if (pith_job_rotates(job))
        pith_meter_touch(&m, pith_rotate_scratch(&job->basis, threads) +
                                 pith_made_bytes(job->model->shape.hidden));
    for (uint32_t layer = 0; layer < job->model->shape.layers;
         layer += pith_job_together(job, layer))
        do_layers(&m, job, layer, &entry);
    return m.most;
}
