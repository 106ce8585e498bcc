#include "choose/sense.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "calib/stages.h"
#include "choose/sense_draw.h"
#include "choose/sense_pass.h"
#include "choose/sense_transform.h"
#include "kern/ops.h"
#include "model/grad/block_grad.h"
#include "model/grad/head_grad.h"
#include "quant/scale.h"
#include "quantize/ranks/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_A_TASK = 16 };

/* --- where things lie ------------------------------------------------------------------------- */

static struct pith_acts acts_of(const struct pith_sense_pass *p, size_t layer)
{
    struct pith_acts a = {.windows = p->windows,
                          .length = p->length,
                          .hidden = p->job->model->shape.hidden,
                          .carried = pith_plans_carried(&p->job->model->plans),
                          .first = p->first,
                          .all = p->all};
    a.stride = pith_acts_stride(pith_acts_floats(&a));
    a.x = (float *)p->acts_file.data + (layer * p->all + p->first) * a.stride;
    return a;
}

/* There are two gradients, that of a layer's output and that of its input. */
float *pith_sense_grad(const struct pith_sense_pass *p, unsigned slot, bool swaying, size_t window)
{
    const size_t each = p->sways ? 2 : 1;
    return (float *)p->grad_file.data +
           ((slot * each + swaying) * p->all + p->first + window) *
               pith_acts_stride(p->length * p->job->model->shape.hidden);
}

static enum pith_status hash_acts(const struct pith_sense_pass *p, size_t layer,
                                  char hex[PITH_SHA256_HEX], struct pith_error *err)
{
    const struct pith_acts a = acts_of(p, layer);
    return pith_ranks_digest(p->s->ranks, &a, hex, err);
}

static const char *const files[] = {"pith.sense.acts", "pith.sense.grad", "pith.journal"};

static enum pith_status open_file(const char *folder, const char *name, uint64_t bytes,
                                  struct pith_scratch_file *f, struct pith_error *err)
{
    char *path = pith_path_join(folder, name);
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s = pith_scratch_file_open(path, bytes, f, err);
    pith_free(path);
    return s;
}

static enum pith_status open_pass(struct pith_sense_pass *p, const char *folder,
                                  struct pith_error *err)
{
    const struct pith_model *m = p->job->model;
    const size_t hidden = p->length * m->shape.hidden;
    const size_t acts = p->length * (m->shape.hidden + pith_plans_carried(&m->plans));
    const uint64_t windows = p->all * (uint64_t)sizeof(float);
    p->felt = pith_zalloc(m->plans.most_linears, sizeof *p->felt);
    p->to = pith_zalloc(2 * (size_t)m->plans.most_linears, sizeof *p->to);
    p->left = pith_alloc_aligned(acts, sizeof *p->left);
    p->s->cell = pith_zalloc(p->job->choice_count * p->s->grids + 1, sizeof *p->s->cell);
    if (!p->felt || !p->to || !p->left || !p->s->cell) return pith_fail_nomem(err, "the linears");
    PITH_TRY(open_file(folder, files[0], windows * pith_acts_stride(acts) * (m->shape.layers + 1),
                       &p->acts_file, err));
    PITH_TRY(open_file(folder, files[1], windows * (p->sways ? 4 : 2) * pith_acts_stride(hidden),
                       &p->grad_file, err));
    if (p->sways) PITH_TRY(pith_route_work_init(&p->routing, m, p->length, err));
    PITH_TRY(pith_tape_init(&p->tape, p->job->backend, m, p->length, err));
    PITH_TRY(pith_collector_init(&p->collector, p->job->backend, m, p->length, err));
    p->collector.token_limit = p->job->recipe.round_options.token_limit;
    return pith_sense_spread_open(p, folder, err);
}

static void close_pass(struct pith_sense_pass *p)
{
    pith_sense_state_close(&p->state);
    pith_tape_free(&p->tape);
    pith_collector_free(&p->collector);
    pith_route_work_free(&p->routing);
    pith_scratch_file_close(&p->acts_file);
    pith_scratch_file_close(&p->grad_file);
    pith_sense_spread_close(&p->spread);
    pith_free(p->felt);
    pith_free(p->to);
    pith_free(p->left);
}

/* What so many layers, there and then back, weigh. */
static double weight_of(const struct pith_sense_pass *p, double layers)
{
    const double all = p->job->model->shape.layers;
    if (layers < all) return layers;
    return all + p->effort.head + (layers - all) * p->effort.back;
}

static enum pith_status step(struct pith_sense_pass *p, const char *what, size_t layer,
                             struct pith_error *err)
{
    char text[96];
    snprintf(text, sizeof text, "block %zu of %u: %s", layer + 1, p->job->model->shape.layers,
             what);
    p->done += 1;
    if (p->s->guide)
        return pith_progress_step(&p->job->options->progress, text, p->done * p->s->effort,
                                  p->s->whole, err);
    return pith_progress_step(&p->job->options->progress, text, weight_of(p, p->done - 1), p->total,
                              err);
}

/* --- there ------------------------------------------------------------------------------------ */

static enum pith_status embed(struct pith_sense_pass *p, struct pith_error *err)
{
    const struct pith_acts a = acts_of(p, 0);
    for (size_t w = 0; w < p->windows; w++) {
        const int32_t *ids = p->job->calib.ids + (p->first + w) * p->length;
        float *x = pith_acts_window(&a, w);
        const enum pith_status s = pith_model_embed(p->job->model, ids, p->length, x, err);
        if (s != PITH_OK)
            return pith_fail_as(err, s == PITH_ARG ? PITH_FORMAT : s,
                                "the tokenizer does not fit this model");
        pith_plans_fill(&p->job->model->plans, ids, p->length, x + p->length * a.hidden);
    }
    return PITH_OK;
}

static enum pith_status note_there(struct pith_sense_pass *p, uint32_t layer,
                                   struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    PITH_TRY(hash_acts(p, layer + 1, hex, err));
    return pith_sense_state_there(&p->state, layer, hex, err);
}

static enum pith_status go_there(struct pith_sense_pass *p, struct pith_error *err)
{
    struct pith_model *m = p->job->model;
    if (p->there == 0) PITH_TRY(embed(p, err));
    for (uint32_t l = p->there; l < m->shape.layers; l++) {
        const struct pith_acts in = acts_of(p, l), out = acts_of(p, l + 1);
        PITH_TRY(step(p, "forward", l, err));
        PITH_TRY(pith_block_load(m, l, PITH_LOAD_MAPPED, &p->block, err));
        const enum pith_status s = pith_propagate(&p->collector, &p->block, &in, &out, err);
        pith_block_free(&p->block);
        pith_model_shed(m, l);
        if (s != PITH_OK) return s;
        PITH_TRY(note_there(p, l, err));
    }
    return PITH_OK;
}

/* --- the head: a token drawn from each position's own distribution ---------------------------- */

static enum pith_status head_rows(struct pith_sense_pass *p, size_t window, size_t from, size_t n,
                                  float *room, struct pith_error *err)
{
    const struct pith_acts last = acts_of(p, p->job->model->shape.layers);
    const size_t hidden = p->job->model->shape.hidden;
    return pith_draw_rows(
        p->job,
        &(struct pith_draw_rows){.x = pith_acts_window(&last, window) + from * hidden,
                                 .n = n,
                                 .room = room,
                                 .seed = (p->job->options->seed + 1) * 0x9e3779b97f4a7c15u +
                                         (p->first + window) * p->length + from,
                                 .d_x = pith_sense_grad(p, 0, false, window) + from * hidden},
        err);
}

static enum pith_status head(struct pith_sense_pass *p, struct pith_error *err)
{
    const size_t vocab = p->job->model->shape.vocab;
    float *room = pith_alloc_aligned(2 * (size_t)PITH_HEAD_ROWS * vocab, sizeof *room);
    enum pith_status s = room ? PITH_OK : pith_fail_nomem(err, "logits");
    for (size_t w = 0; w < p->windows && s == PITH_OK; w++)
        for (size_t i = 0; i < p->length && s == PITH_OK; i += PITH_HEAD_ROWS) {
            const size_t left = p->length - i;
            s = head_rows(p, w, i, left < PITH_HEAD_ROWS ? left : PITH_HEAD_ROWS, room, err);
        }
    pith_free(room);
    return s;
}

static enum pith_status head_once(struct pith_sense_pass *p, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    if (p->head_done) return PITH_OK;
    p->slot = 0;
    PITH_TRY(head(p, err));
    for (size_t w = 0; p->sways && w < p->windows; w++) /* behind the last layer is no margin */
        memset(pith_sense_grad(p, 0, true, w), 0,
               p->length * p->job->model->shape.hidden * sizeof(float));
    PITH_TRY(pith_sense_digest_grad(p, 0, hex, err));
    return pith_sense_state_head(&p->state, hex, err);
}

/* --- errors ----------------------------------------------------------------------------------- */

static bool accepts(const struct pith_job *job, const struct pith_choice *c,
                    const struct pith_grid *grid)
{
    struct pith_error ignored = {0};
    const struct pith_container_opts *opts = &job->container_opts;
    if (pith_job_plan(job, c->layer)->linear[c->linear].stays) return false;
    return pith_gridder_for(grid) &&
           job->container->accepts(grid, c->rows, c->cols, opts, &ignored) == PITH_OK;
}

static uint64_t bytes_of(const struct pith_job *job, const struct pith_choice *c,
                         const struct pith_grid *grid)
{
    const struct pith_qspec spec = {
        .rows = c->rows,
        .cols = c->cols,
        .grid = *grid,
        .scale_dtype = job->container->scale_dtype(grid, job->container_opts.model_dtype)};
    return (uint64_t)ceil(pith_qspec_bits(&spec) * c->rows * c->cols / 8);
}

static double squares(const struct pith_kern *k, const float *x, size_t rows, size_t cols,
                      size_t stride)
{
    double sum = 0;
    for (size_t r = 0; r < rows; r++) sum += k->sumsq(cols, x + r * stride);
    return sum;
}

/* W - Q of one grid into `error` ([rows][stride]). */
static enum pith_status round_once(const struct pith_sense_pass *p, const struct pith_felt *f,
                                   size_t grid, const struct pith_stats *stats,
                                   struct pith_error *err)
{
    const struct pith_job *job = p->job;
    const size_t cols = f->cols, stride = p->s->grids * cols;
    const struct pith_linear_spec *spec = &p->block.plan->linear[f->linear];
    const bool unseen = stats && stats->tokens == 0 && spec->expert != PITH_NO_PART;
    const struct pith_rounder *round = unseen ? pith_rounder_find("nearest") : job->recipe.round;
    const struct pith_grid *g = &p->s->grid[grid];
    float *w = pith_alloc_aligned((size_t)f->rows * cols, sizeof *w);
    if (!w) return pith_fail_nomem(err, "a matrix");
    memcpy(w, p->block.linear[f->linear].dense, (size_t)f->rows * cols * sizeof *w);
    const struct pith_round_job rounding = {
        .backend = job->backend,
        .grid = *g,
        .options = job->recipe.round_options,
        .scale_dtype = job->container->scale_dtype(g, job->container_opts.model_dtype),
        .rows = f->rows,
        .cols = f->cols,
        .w = w,
        .stats = stats};
    struct pith_qmat q;
    struct pith_round_report report = {0};
    const enum pith_status s = pith_round(round, &rounding, &q, &report, err);
    if (s == PITH_OK) pith_qmat_free(&q);
    for (uint32_t r = 0; r < f->rows && s == PITH_OK; r++)
        memcpy(f->error + r * stride + grid * cols, w + r * cols, cols * sizeof *w);
    pith_free(w);
    return s;
}

/* All grids of a linear. */
static enum pith_status round_linear(struct pith_sense_pass *p, struct pith_felt *f,
                                     const struct pith_stats *stats, struct pith_error *err)
{
    const struct pith_kern *k = pith_backend_kern(p->job->backend);
    const struct pith_choice *c = &p->job->choices[f->choice];
    const size_t stride = p->s->grids * f->cols;
    const double whole = squares(k, p->block.linear[f->linear].dense, f->rows, f->cols, f->cols);
    for (size_t g = 0; g < p->s->grids; g++) {
        struct pith_sense_cell *cell = pith_sense_at(p->s, f->choice, g);
        if (!cell->can || pith_sense_owner(p, f, g) != pith_ranks_own(p->s->ranks)) continue;
        const enum pith_status s = round_once(p, f, g, stats, err);
        if (s != PITH_OK) return pith_fail_in(err, s, c->module);
        const double off = squares(k, f->error + g * f->cols, f->rows, f->cols, stride);
        cell->error = whole > 0 ? sqrt(off / whole) : 0;
        cell->bytes = bytes_of(p->job, c, &p->s->grid[g]);
    }
    return PITH_OK;
}

/* --- back ------------------------------------------------------------------------------------- */

static void drop_felt(struct pith_sense_pass *p)
{
    for (size_t i = 0; i < p->felts; i++) {
        p->to[p->felt[i].linear] = NULL;
        pith_free(p->felt[i].error);
        pith_free(p->felt[i].square);
    }
    p->felts = p->tasks = p->rows = 0;
}

/* A linear that some grid can take; its errors are 0 so far. */
static enum pith_status add_felt(struct pith_sense_pass *p, uint32_t layer, uint32_t linear,
                                 struct pith_error *err)
{
    const struct pith_plans *plans = &p->job->model->plans;
    const size_t choice = plans->first[layer] + linear, grids = p->s->grids;
    const struct pith_choice *c = &p->job->choices[choice];
    struct pith_felt *f = &p->felt[p->felts];
    bool any = false;
    for (size_t g = 0; g < grids; g++) {
        struct pith_sense_cell *cell = pith_sense_at(p->s, choice, g);
        cell->can = accepts(p->job, c, &p->s->grid[g]) &&
                    (!p->s->tries || pith_tries_suit(p->job, p->s->tries, g, c));
        any |= cell->can;
    }
    if (!any) return PITH_OK;
    const size_t count = (size_t)c->rows * c->cols;
    *f = (struct pith_felt){.choice = choice,
                            .linear = linear,
                            .rows = c->rows,
                            .cols = c->cols,
                            .first = p->tasks,
                            .row = p->rows};
    f->error = pith_alloc_aligned(count * (grids + 1), sizeof *f->error);
    f->square = pith_zalloc(2 * c->rows * grids, sizeof *f->square);
    if (!f->error || !f->square) {
        pith_free(f->error);
        pith_free(f->square);
        return pith_fail_nomem(err, c->module);
    }
    memset(f->error, 0, count * grids * sizeof *f->error);
    f->sway = f->square + c->rows * grids;
    f->grad = p->to[linear] = f->error + count * grids;
    p->tasks += (c->rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
    p->rows += c->rows;
    p->felts++;
    return PITH_OK;
}

/* Some rows: the products of their gradient with their errors, or 0 of a window that was fitted. */
static void feel(void *ctx, size_t task, unsigned thread)
{
    const struct pith_sense_pass *p = ctx;
    const struct pith_kern *k = pith_backend_kern(p->job->backend);
    const size_t grids = p->s->grids;
    float dot[64];
    size_t i = 0;
    (void)thread;
    while (i + 1 < p->felts && p->felt[i + 1].first <= task) i++;
    const struct pith_felt *f = &p->felt[i];
    double *square = p->swaying ? f->sway : f->square;
    float *dots = pith_sense_spread_dots(p, f);
    const size_t from = (task - f->first) * ROWS_A_TASK;
    for (size_t r = from; r < f->rows && r < from + ROWS_A_TASK; r++) {
        memset(dot, 0, sizeof dot);
        if (p->judged)
            k->lanes_f32(grids, f->cols, f->error + r * grids * f->cols, f->cols,
                         f->grad + r * f->cols, dot);
        if (dots) memcpy(dots + r * grids, dot, grids * sizeof *dot);
        for (size_t g = 0; g < grids && !dots; g++)
            square[r * grids + g] += (double)dot[g] * (double)dot[g];
    }
}

/* Mixtures' sums are the routes' to hear of, the rest that of what layers read. */
static void hear(void *ctx, const struct pith_tape_read *read)
{
    struct pith_sense_pass *p = ctx;
    if (read->what != PITH_READ_MIXTURE) {
        if (p->s->reads) pith_reads_seen(p->s->reads, read);
    } else if (p->routing.curve) pith_route_feel(&p->routing, &p->s->routes, read, p->swaying);
}

/* A layer that is being felt; the last time also what it reads and what its choices cost. */
struct feeling {
    uint32_t layer;
    bool last, mixed;
};

/* A window forward, and back with the gradient of the output or of margins. */
static enum pith_status feel_window(struct pith_sense_pass *p, struct feeling *f, size_t w,
                                    struct pith_error *err)
{
    const struct pith_acts in = acts_of(p, f->layer);
    const size_t number = p->first + w;
    p->judged = pith_sense_judges(p, number);
    for (size_t i = 0; i < p->felts && p->judged; i++)
        memset(p->felt[i].grad, 0,
               (size_t)p->felt[i].rows * p->felt[i].cols * sizeof *p->felt[i].grad);
    PITH_TRY(
        pith_tape_forward(&p->tape, &p->block, pith_acts_window(&in, w), p->length, p->left, err));
    if (p->sways && !p->swaying)
        f->mixed = pith_route_look(&p->routing, &p->tape, &p->block,
                                   (p->job->options->seed + 1) * 0xd1342543de82ef95u +
                                       f->layer * p->all + number);
    const bool sways = p->swaying && f->mixed;
    const bool heard = f->last && (p->s->reads || p->sways);
    struct pith_guide_window guided = {p->s->guide, f->layer, number * p->length, PITH_OK, err};
    const bool guides = f->last && guided.guide;
    if (guides) pith_guide_routes(&guided, &p->tape, &p->block);
    if (p->s->reads) p->s->reads->swaying = p->swaying;
    pith_sense_spread_window(p, w);
    float *d_x = pith_sense_grad(p, p->slot ^ 1, p->swaying, w);
    float **nowhere = p->to + p->job->model->plans.most_linears;
    pith_tape_backward(&p->tape, &p->block,
                       &(struct pith_tape_grad){.d_out = pith_sense_grad(p, p->slot, p->swaying, w),
                                                .w = p->judged ? p->to : nowhere,
                                                .d_x = f->last ? d_x : NULL,
                                                .seen = heard ? hear : NULL,
                                                .ctx = p,
                                                .gave = guides ? pith_guide_gave : NULL,
                                                .gave_ctx = &guided,
                                                .rivals = sways ? &p->routing.rivals : NULL,
                                                .d_margin = sways ? p->routing.d_margin : NULL});
    PITH_TRY(guided.status);
    pith_pool_run(pith_backend_pool(p->job->backend), p->tasks, feel, p);
    return PITH_OK;
}

static enum pith_status feel_windows(struct pith_sense_pass *p, uint32_t layer, bool last,
                                     struct pith_error *err)
{
    const struct pith_routes *routes = &p->s->routes;
    struct feeling f = {.layer = layer, .last = last};
    /* Behind the last router nothing sways, and the gradient is 0. */
    const bool sways = p->sways && pith_routes_from(routes, &p->job->model->plans, layer,
                                                    PITH_NO_PART) < routes->routers;
    p->routing.curve = last ? pith_routes_of(routes, layer) : NULL;
    pith_sense_spread_begin(p, last);
    enum pith_status s = PITH_OK;
    for (size_t w = 0; w < p->windows && s == PITH_OK; w++) {
        s = feel_window(p, &f, w, err);
        p->swaying = sways;
        if (sways && s == PITH_OK) s = feel_window(p, &f, w, err);
        p->swaying = false;
        pith_sense_spread_keep(p, w, last);
        if (p->sways && !sways && last)
            memset(pith_sense_grad(p, p->slot ^ 1, true, w), 0,
                   p->length * p->job->model->shape.hidden * sizeof(float));
    }
    return s == PITH_OK ? pith_sense_spread_meet(p, last, sways, err) : s;
}

static double sum_of(const double *x, size_t rows, size_t stride)
{
    double sum = 0;
    for (size_t r = 0; r < rows; r++) sum += x[r * stride];
    return sum;
}

/* What was felt of the linears in memory so far is added to their cells. */
static enum pith_status settle(struct pith_sense_pass *p, uint32_t layer, bool last,
                               struct pith_error *err)
{
    const double tokens = (double)p->all * (double)p->length;
    const double judged = pith_sense_judged(p);
    const size_t grids = p->s->grids;
    enum pith_status s = PITH_OK;
    if (last && p->s->guide) pith_guide_begin(p->s->guide, layer);
    if (p->felts || last) s = feel_windows(p, layer, last, err);
    for (size_t i = 0; i < p->felts && s == PITH_OK; i++) {
        const struct pith_felt *f = &p->felt[i];
        const double left = p->s->made_up ? pith_sense_left(p->block.plan, f->linear) : 1;
        const uint32_t behind = p->s->routes.routers - pith_sense_from(p->s, p->job, f->choice);
        for (size_t g = 0; g < grids; g++) {
            struct pith_sense_cell *cell = pith_sense_at(p->s, f->choice, g);
            cell->kld = sum_of(f->square + g, f->rows, grids) / judged / 2 * left;
            cell->sway = behind ? sum_of(f->sway + g, f->rows, grids) / judged / behind : 0;
        }
    }
    if (s == PITH_OK && p->routing.curve && last) pith_route_settle(p->routing.curve, tokens);
    drop_felt(p);
    return s;
}

/* What is seen of an expert's site is its owner's. */
static enum pith_status note_range(struct pith_sense_pass *p, uint32_t which,
                                   const struct pith_stats *stats, struct pith_error *err)
{
    const uint32_t expert = p->block.plan->site[which].expert;
    struct pith_ranks *ranks = p->s->ranks;
    const unsigned owner = expert == PITH_NO_PART ? pith_ranks_own(ranks)
                                                  : pith_relay_owner(&p->collector.relay, expert);
    if (!p->s->reads) return PITH_OK;
    if (owner == pith_ranks_own(ranks)) pith_reads_range(p->s->reads, which, stats);
    return expert == PITH_NO_PART ? PITH_OK
                                  : pith_reads_share_range(p->s->reads, which, ranks, owner, err);
}

static enum pith_status round_site(struct pith_sense_pass *p, struct pith_stages *stages,
                                   uint32_t layer, uint32_t which, struct pith_error *err)
{
    const struct pith_site_spec *site = &p->block.plan->site[which];
    struct pith_stats stats = {0};
    const size_t before = p->felts;
    enum pith_status s = PITH_OK;
    for (uint32_t i = 0; i < site->count && s == PITH_OK; i++)
        s = add_felt(p, layer, site->first + i, err);
    if (s == PITH_OK && p->needs && (p->felts > before || (p->needs & PITH_NEED_RANGE)))
        s = pith_stages_collect(stages, which, p->needs, 0, &stats, err);
    if (s == PITH_OK) s = note_range(p, which, &stats, err);
    for (size_t i = before; i < p->felts && s == PITH_OK; i++)
        s = round_linear(p, &p->felt[i], p->needs ? &stats : NULL, err);
    pith_stats_free(&stats, 1);
    for (size_t i = before; i < p->felts && s == PITH_OK; i++)
        s = pith_sense_hand_round(p, &p->felt[i], err);
    return s;
}

static uint64_t resident(const struct pith_sense_pass *p)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->felts; i++)
        bytes += (uint64_t)p->felt[i].rows * p->felt[i].cols * (p->s->grids + 1) * sizeof(float);
    return bytes;
}

static enum pith_status go_through(struct pith_sense_pass *p, uint32_t layer,
                                   struct pith_error *err)
{
    const struct pith_acts in = pith_sense_fitted(p, acts_of(p, layer)),
                           spare = pith_sense_fitted(p, acts_of(p, layer + 1));
    struct pith_stages stages = {.collector = &p->collector,
                                 .block = &p->block,
                                 .in = &in,
                                 .out = &spare,
                                 .routed = {.rule = p->job->experts}};
    enum pith_status s = PITH_OK;
    if (p->s->reads) pith_reads_begin(p->s->reads, layer);
    for (uint32_t i = 0; i < p->block.plan->sites && s == PITH_OK; i++) {
        if (resident(p) > p->most) s = settle(p, layer, false, err);
        if (s == PITH_OK) s = round_site(p, &stages, layer, i, err);
    }
    pith_stages_end(&stages);
    if (s == PITH_OK) s = settle(p, layer, true, err);
    if (s == PITH_OK && p->s->reads) pith_reads_end(p->s->reads, &p->s->routes);
    drop_felt(p);
    return s;
}

static enum pith_status note_guide(struct pith_sense_pass *p, uint32_t layer, const char *grad,
                                   struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    PITH_TRY(pith_guide_share(p->s->guide, layer, p->s->ranks, p->all, err));
    if (!pith_guide_hash(p->s->guide, layer, hex)) return pith_fail_nomem(err, p->state.path);
    return pith_sense_state_guided(&p->state, layer, grad, hex, err);
}

static enum pith_status note_back(struct pith_sense_pass *p, uint32_t layer, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    p->slot ^= 1;
    PITH_TRY(pith_sense_digest_grad(p, p->slot, hex, err));
    if (p->s->guide) return note_guide(p, layer, hex, err);
    return pith_sense_state_add(&p->state, pith_sense_state_layer(p->job, p->s, layer, hex), err);
}

/* A guide is of the model as it is; its linears are rounded by it whatever is done to them. */
static enum pith_status transform(struct pith_sense_pass *p, uint32_t layer, struct pith_error *err)
{
    const double each = p->effort.transform > 0 ? p->effort.transform : 1;
    const struct pith_sense_place place = {.layer = layer,
                                           .collector = &p->collector,
                                           .in = acts_of(p, layer),
                                           .spare = acts_of(p, layer + 1),
                                           .ranks = p->s->ranks,
                                           .done = weight_of(p, p->done - 1) / each,
                                           .total = p->total / each};
    return p->s->guide ? PITH_OK : pith_sense_transform(p->job, &place, &p->block, err);
}

static enum pith_status go_back(struct pith_sense_pass *p, struct pith_error *err)
{
    struct pith_model *m = p->job->model;
    for (uint32_t l = m->shape.layers - p->back; l-- > 0;) {
        PITH_TRY(step(p, "backward", l, err));
        PITH_TRY(pith_block_load(m, l, PITH_LOAD_FLOAT, &p->block, err));
        enum pith_status s = transform(p, l, err);
        if (s == PITH_OK) s = go_through(p, l, err);
        pith_block_free(&p->block);
        pith_model_shed(m, l);
        if (s != PITH_OK) return s;
        PITH_TRY(note_back(p, l, err));
    }
    return PITH_OK;
}

/* --- what was done before --------------------------------------------------------------------- */

/* Takes a line that comes next: forward by layer, then the head, then back. */
static bool take_line(struct pith_sense_pass *p, const json_t *line)
{
    const uint32_t layers = p->job->model->shape.layers;
    const json_t *there = json_object_get(line, "there"), *back = json_object_get(line, "back");
    if (p->there < layers)
        return json_is_integer(there) && json_integer_value(there) == (json_int_t)p->there++;
    if (!p->head_done) return (p->head_done = json_is_true(json_object_get(line, "turned")));
    if (p->back == layers || json_integer_value(back) != (json_int_t)(layers - 1 - p->back))
        return false;
    p->back++;
    p->slot ^= 1;
    if (p->s->guide) return json_is_string(json_object_get(line, "guide"));
    return pith_sense_state_take(p->job, p->s, line);
}

/* Whether the files match the lines, as far as the rest needs them. */
static enum pith_status is_intact(const struct pith_sense_pass *p, bool *intact,
                                  struct pith_error *err)
{
    const json_t *lines = p->state.lines;
    char hex[PITH_SHA256_HEX];
    PITH_TRY(pith_sense_guide_intact(p, intact, err));
    /* In the backward part the output of a layer is scratch. */
    for (uint32_t l = 0; *intact && l + p->back + p->head_done < p->there; l++) {
        PITH_TRY(hash_acts(p, l + 1, hex, err));
        *intact = pith_sense_same(json_array_get(lines, l), "acts", hex);
    }
    if (!p->head_done || !*intact) return PITH_OK;
    PITH_TRY(pith_sense_digest_grad(p, p->slot, hex, err));
    *intact = pith_sense_same(json_array_get(lines, p->there + p->back), "grad", hex);
    return PITH_OK;
}

/* Once; of a guide before there is anything else, since it may be whole. */
static void take_lines(struct pith_sense_pass *p)
{
    bool good = true;
    if (p->taken) return;
    for (size_t i = 0; i < json_array_size(p->state.lines) && good; i++)
        good = take_line(p, json_array_get(p->state.lines, i));
    p->taken = true;
    p->good = good;
}

/* Goes on where the journal ends, or from the beginning where something is not as it says. */
static enum pith_status take_up(struct pith_sense_pass *p, struct pith_error *err)
{
    bool intact = false;
    take_lines(p);
    if (p->good) PITH_TRY(is_intact(p, &intact, err));
    if (intact) {
        /* What entered the first layer is no line: it is made again, to the same bits. */
        p->done = (double)p->there + p->back;
        return p->there ? embed(p, err) : PITH_OK;
    }
    p->there = p->back = p->slot = 0;
    p->head_done = false;
    PITH_TRY(pith_progress_step(&p->job->options->progress,
                                "the earlier run's files were changed: all is done again", 0,
                                p->total, err));
    return pith_sense_state_reset(&p->state, p->job, p->s, err);
}

/* --- the whole -------------------------------------------------------------------------------- */

enum pith_status pith_sense_check(const struct pith_job *job, struct pith_error *err)
{
    if (job->recipe.transform->basis)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "the transform %s changes the basis of the whole model; sensitivities are"
                         " of the model's own: `transform=none`",
                         job->recipe.transform->name);
    if (job->needs_round & (PITH_NEED_GUIDED | PITH_NEED_DRIFT))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s looks at the whole model; sensitivities are of one linear:"
                         " `round=gptq`",
                         job->recipe.round->name);
    if (pith_job_learns(job))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`round` %s rounds blocks as a whole; sensitivities are of one linear",
                         job->recipe.round->name);
    if (job->recipe.split != pith_split_find("none"))
        return pith_fail(err, PITH_UNSUPPORTED, "`split` %s: sensitivities are of grids alone",
                         job->recipe.split->name);
    return PITH_OK;
}

static void forget(const char *folder, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *path = pith_path_join(folder, files[i]);
        if (path) (void)pith_unlink(path, NULL);
        pith_free(path);
    }
}

void pith_sense_forget(const char *folder)
{
    forget(folder, PITH_COUNT(files));
}

bool pith_sense_is_begun(const char *folder)
{
    char *path = pith_path_join(folder, files[2]);
    const bool begun = path && pith_path_exists(path);
    pith_free(path);
    return begun;
}

void pith_sense_free(struct pith_sense *s)
{
    pith_free(s->cell);
    pith_routes_free(&s->routes);
    s->cell = NULL;
}

static enum pith_status go_through_all(struct pith_sense_pass *p, const char *folder,
                                       struct pith_error *err)
{
    PITH_TRY(open_pass(p, folder, err));
    PITH_TRY(take_up(p, err));
    PITH_TRY(go_there(p, err));
    PITH_TRY(head_once(p, err));
    return go_back(p, err);
}

/* What a guide is made from goes when it is whole; what says that it is stays. */
static enum pith_status run_guide(struct pith_sense_pass *p, const char *folder,
                                  struct pith_error *err)
{
    bool whole = false;
    take_lines(p);
    if (p->good && p->back == p->job->model->shape.layers)
        PITH_TRY(pith_sense_guide_intact(p, &whole, err));
    if (whole) return PITH_OK;
    PITH_TRY(go_through_all(p, folder, err));
    PITH_TRY(pith_ranks_meet(p->s->ranks, err)); /* none reads the files any more */
    pith_tape_free(&p->tape);
    forget(folder, 2);
    return PITH_OK;
}

enum pith_status pith_sense_run(const struct pith_job *job, const char *folder,
                                struct pith_sense *s, struct pith_error *err)
{
    struct pith_sense_pass p = {.job = job,
                                .s = s,
                                .all = job->calib.windows,
                                .length = job->calib.length,
                                .needs = s->guide ? 0 : job->recipe.round->needs,
                                .effort = pith_expect_effort(job, pith_sense_tried(s))};
    p.total = weight_of(&p, 2.0 * job->model->shape.layers);
    const unsigned own = pith_ranks_own(s->ranks);
    s->cell = NULL;
    s->routes = (struct pith_routes){0};
    p.first = pith_ranks_from(s->ranks, own, p.all);
    p.windows = pith_ranks_from(s->ranks, own + 1, p.all) - p.first;
    if (!s->guide) PITH_TRY(pith_routes_open(&s->routes, &job->model->plans, err));
    p.sways = s->routes.routers > 0;
    for (size_t g = 0; g < s->grids; g++)
        if (pith_gridder_for(&s->grid[g])) p.needs |= pith_gridder_for(&s->grid[g])->needs;
    if (s->reads) p.needs |= pith_reads_needs(s->reads);
    enum pith_status r = pith_sense_fit(job, s, p.needs, &p.most, err);
    if (r == PITH_OK && s->reads) r = pith_reads_open(s->reads, job, err);
    if (r == PITH_OK) r = pith_sense_state_open(&p.state, folder, job, s, err);
    const bool mine = r == PITH_OK;
    if (r == PITH_OK) r = s->guide ? run_guide(&p, folder, err) : go_through_all(&p, folder, err);
    close_pass(&p);
    if (r == PITH_OK) r = pith_ranks_meet(s->ranks, err);
    if (s->guide) return r;
    /* The same would fail again in the same way. */
    if (r == PITH_OK || pith_status_is_final(r)) pith_sense_forget(folder);
    else if (mine && pith_sense_is_begun(folder)) (void)pith_fail_resumable(err, r);
    if (r != PITH_OK) pith_sense_free(s);
    return r;
}
