#include "choose/kv_auto.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/names.h"
#include "choose/kv_auto_record.h"
#include "choose/kv_measure.h"
#include "plan/refine.h"
#include "quantize/ranks/route.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a record; uniform caches that are measured whole. */
enum { FILE_LIMIT = 16 << 20, UNIFORM = 6 };

/* What differs by less on that text is as likely to be worse on another. */
static const double chance = 0.1;

/* Behind the model's name. */
static const char record[] = "kv.json";

static const char *const side_names[] = {"k", "v", "kv"};

/* What a layer can be: a row of its keys and one of its values that are alike in `near`, or of
 * both. */
struct choice {
    const struct pith_kv_plan_row *k, *v;
    uint64_t bytes; /* of p->context positions */
    double loss;
};
enum { CHOICES = 4 * PITH_KV_CANDIDATES * PITH_KV_CANDIDATES };

enum pith_status pith_kv_auto_parse(const char *name, double *bits, struct pith_error *err)
{
    const char *text = name ? pith_name_option(name, "auto") : NULL;
    char *end = NULL;
    *bits = 0;
    if (!text) return PITH_OK;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x >= 1 && x <= 32))
        return pith_fail(err, PITH_ARG,
                         "KV cache \"%s\": auto:BITS, the mean bits of a number, such as auto:5.0",
                         name);
    *bits = x;
    return PITH_OK;
}

/* Bytes of a part alone: of the layer without the other side's, which is in float32. */
static uint64_t bytes_of_row(const struct pith_kv_plan *p, const struct pith_kv_plan_part *part,
                             const struct pith_kv_plan_row *row)
{
    const struct pith_state_spec *s = &pith_plan(&p->job->model->plans, part->layer)->state;
    const double other = part->side == PITH_KV_KEYS     ? s->value
                         : part->side == PITH_KV_VALUES ? s->key
                                                        : 0;
    struct pith_kv_format f = pith_kv_floats(PITH_F32);
    pith_kv_plan_set(p, &f, part->side, row);
    const double plain = 32.0 * ((row->near ? 1 : 0) + (pith_kv_sink(&f) ? 1 : 0));
    return (uint64_t)(pith_kv_bytes_of(&f, s, (double)p->context, false) -
                      sizeof(float) * s->heads * other * ((double)p->context + plain));
}

static struct pith_kv_cost cost_of(const struct pith_kv_plan *p,
                                   const struct pith_kv_plan_part *part, size_t i)
{
    const struct pith_kv_plan_row *row = &part->row[i];
    const char *offset = p->offset[row->candidate];
    const bool leaves = part->side != PITH_KV_VALUES && *offset;
    struct pith_kv_cost r = {.grid = leaves ? offset : p->name[row->candidate],
                             .recent = row->near ? 32 : 0,
                             .bytes = bytes_of_row(p, part, row),
                             .kld = row->mean,
                             .capped = row->loss};
    pith_plan_name(&p->job->model->plans, part->layer, side_names[part->side], r.part,
                   sizeof r.part);
    return r;
}

static enum pith_status measure_cache(struct pith_kv_plan *p, struct pith_error *err)
{
    const struct pith_kv_extent extent = pith_kv_extent_of(p);
    struct pith_kv_judge j;
    if (!p->job->tokenizer)
        return pith_fail(err, PITH_ARG,
                         "%s is not there, or is of other weights: pith eval --kv auto:%g makes it",
                         p->path, p->job->bits);
    PITH_TRY(pith_kv_judge_open(p, extent.tokens, &j, err));
    enum pith_status s = pith_kv_measure_rows(p, &extent, &j, err);
    json_t *rows = json_array();
    for (size_t i = 0; i < p->parts && s == PITH_OK; i++)
        for (size_t k = 0; k < p->part[i].rows; k++) {
            const struct pith_kv_cost row = cost_of(p, &p->part[i], k);
            pith_json_add(&rows, pith_kv_cost_json(&row));
        }
    const struct pith_kv_rows_source of = {.checkpoint = p->identity,
                                           .text_sha256 = j.set.sha256,
                                           .tokens = j.set.windows * j.set.length,
                                           .context = p->context,
                                           .shared = !extent.singly,
                                           .numbers = p->numbers * (double)p->context,
                                           .levels = p->levels};
    json_decref(p->file);
    p->file = pith_kv_rows_json(&of, rows);
    pith_kv_judge_close(p, &j);
    if (s == PITH_OK && !p->file) s = pith_fail_nomem(err, p->path);
    return s;
}

/* --- the record ------------------------------------------------------------------------------- */

static enum pith_status name_record(struct pith_kv_plan *p, struct pith_error *err)
{
    const struct pith_checkpoint *c = p->job->model->checkpoint;
    if (!pith_checkpoint_identity(c, p->identity)) return pith_fail_nomem(err, "a checkpoint");
    p->path = pith_checkpoint_sibling(c, record);
    return p->path ? PITH_OK : pith_fail_nomem(err, "a file's name");
}

bool pith_kv_auto_is_there(const struct pith_model *m)
{
    return pith_checkpoint_has_sibling(m->checkpoint, record);
}

/* Losses from the rows of a record: those of all options, or it is of another version. */
static bool take_rows(struct pith_kv_plan *p)
{
    const json_t *rows = json_object_get(p->file, "rows");
    size_t at = 0;
    for (size_t i = 0; i < p->parts; i++)
        for (size_t k = 0; k < p->part[i].rows; k++) {
            struct pith_kv_cost row = cost_of(p, &p->part[i], k);
            if (!pith_kv_cost_take(json_array_get(rows, at++), &row)) return false;
            p->part[i].row[k].mean = row.kld;
            p->part[i].row[k].loss = row.capped;
        }
    return at > 0 && json_array_size(rows) == at &&
           json_is_array(json_object_get(p->file, "assignments"));
}

/* Reads what is recorded of these weights; p->file stays NULL when there is nothing. */
static enum pith_status read_cache_record(struct pith_kv_plan *p, struct pith_error *err)
{
    const char *of = NULL;
    if (pith_ranks_first(p->job->ranks) && pith_path_exists(p->path))
        PITH_TRY(pith_json_load(p->path, FILE_LIMIT, &p->file, err));
    PITH_TRY(pith_ranks_share_json(p->job->ranks, &p->file, err));
    if (!p->file) return PITH_OK;
    PITH_TRY(pith_json_get_str(p->file, "checkpoint", &of, p->path, err));
    const bool same = of && strcmp(of, p->identity) == 0;
    if (same && json_is_false(json_object_get(p->file, "levels"))) pith_kv_plan_drop_levels(p);
    if (same && take_rows(p)) return PITH_OK;
    json_decref(p->file);
    p->file = NULL;
    return PITH_OK;
}

/* The layers of an assignment that is recorded for these bits. */
static enum pith_status take_layers(struct pith_kv_plan *p, bool *found, struct pith_error *err)
{
    const json_t *names;
    *found = pith_kv_assignment_find(p->file, p->job->bits, &names);
    if (!*found) return PITH_OK;
    for (uint32_t k = 0; k < p->job->model->plans.layers; k++) {
        const char *name = json_string_value(json_array_get(names, k));
        if (!name) name = "f32"; /* it keeps nothing */
        PITH_TRY(pith_fail_in(err, pith_kv_parse(name, PITH_F32, p->job->model, &p->layer[k], err),
                              p->path));
    }
    const struct pith_kv_format f = {.layer = p->layer};
    if (pith_kv_bits(&p->job->model->plans, &f, p->context) > p->job->bits)
        return pith_fail(err, PITH_FORMAT, "%s: layers of more than %g bits", p->path,
                         p->job->bits);
    return PITH_OK;
}

/* Adds p->layer to the assignments of p->file, as the one for that budget. */
static enum pith_status note(struct pith_kv_plan *p, double budget,
                             const struct pith_kv_losses *losses, struct pith_error *err)
{
    const struct pith_plans *plans = &p->job->model->plans;
    const struct pith_kv_format f = {.layer = p->layer};
    json_t *layers = json_array();
    for (uint32_t i = 0; i < plans->layers; i++) {
        char name[PITH_KV_TEXT];
        pith_kv_name(&p->layer[i], name);
        const bool cached = pith_kv_position_bytes(&p->layer[i], &pith_plan(plans, i)->state) > 0;
        pith_json_add(&layers, cached ? json_string(name) : json_null());
    }
    const struct pith_kv_assignment a = {budget, pith_kv_bits(plans, &f, p->context), *losses};
    return pith_kv_assignment_add(p->file, &a, layers, err);
}

/* By rank 0, whose record it is. */
static enum pith_status save(const struct pith_kv_plan *p, struct pith_error *err)
{
    return pith_ranks_first(p->job->ranks) ? pith_json_save(p->path, p->file, err) : PITH_OK;
}

static enum pith_status keep_cache(struct pith_kv_plan *p, const struct pith_kv_losses *losses,
                                   struct pith_error *err)
{
    PITH_TRY(note(p, p->job->bits, losses, err));
    return save(p, err);
}

/* --- choosing --------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->loss < y->loss ? -1 : x->loss > y->loss;
}

static struct choice choice_of(const struct pith_kv_plan *p, const struct pith_kv_plan_part *part,
                               const struct pith_kv_plan_row *k, const struct pith_kv_plan_row *v,
                               struct pith_kv_format *f)
{
    const struct pith_state_spec *s = &pith_plan(&p->job->model->plans, part->layer)->state;
    *f = pith_kv_floats(PITH_F32);
    if (v) pith_kv_plan_set(p, f, PITH_KV_VALUES, v);
    pith_kv_plan_set(p, f, v ? PITH_KV_KEYS : PITH_KV_BOTH, k);
    return (struct choice){
        .k = k,
        .v = v,
        .bytes = (uint64_t)ceil(pith_kv_bytes_of(f, s, (double)p->context, false)),
        .loss = k->loss + (v ? v->loss : 0)};
}

/* What a layer can be, smallest first; how many. Of the same bytes and loss the first rows. */
static size_t list_choices(const struct pith_kv_plan *p, const struct pith_kv_plan_part *part,
                           struct choice *out)
{
    const struct pith_kv_plan_part *values = part->side == PITH_KV_KEYS ? part + 1 : NULL;
    struct pith_kv_format f;
    size_t n = 0;
    for (size_t i = 0; i < part->rows; i++)
        for (size_t k = 0; k < (values ? values->rows : 1); k++) {
            const struct pith_kv_plan_row *v = values ? &values->row[k] : NULL;
            if (!v || v->near == part->row[i].near)
                out[n++] = choice_of(p, part, &part->row[i], v, &f);
        }
    qsort(out, n, sizeof *out, by_bytes);
    return n;
}

/* Those without what is larger and loses as much. */
static size_t drop_worse(struct choice *c, size_t count)
{
    size_t cached = 0;
    for (size_t i = 0; i < count; i++)
        if (cached == 0 || c[i].loss < c[cached - 1].loss) c[cached++] = c[i];
    return cached;
}

/* A layer's choices, as an assignment takes them, and all that are to be assigned. */
struct layer_choices {
    const struct pith_kv_plan_part *part;
    struct choice *choice;
    struct pith_assign_option *option;
    size_t count;
};
struct problem {
    struct layer_choices *layer;
    struct pith_assign_part *part;
    struct pith_assign a;
    size_t *chosen;
};

static enum pith_status fill_choices(const struct pith_kv_plan *p, struct layer_choices *l,
                                     struct pith_error *err)
{
    l->choice = pith_alloc(CHOICES, sizeof *l->choice);
    if (!l->choice) return pith_fail_nomem(err, "an assignment");
    l->count = list_choices(p, l->part, l->choice);
    l->option = pith_alloc(l->count, sizeof *l->option);
    if (!l->option) return pith_fail_nomem(err, "an assignment");
    for (size_t i = 0; i < l->count; i++)
        l->option[i] = (struct pith_assign_option){l->choice[i].bytes, l->choice[i].loss};
    return PITH_OK;
}

static void close_problem(struct problem *q)
{
    for (size_t i = 0; q->layer && i < q->a.parts; i++) {
        pith_free(q->layer[i].choice);
        pith_free(q->layer[i].option);
    }
    pith_free(q->layer);
    pith_free(q->part);
    pith_free(q->chosen);
}

static enum pith_status open_problem(const struct pith_kv_plan *p, struct problem *q,
                                     struct pith_error *err)
{
    *q = (struct problem){.layer = pith_zalloc(p->parts, sizeof *q->layer),
                          .part = pith_zalloc(p->parts, sizeof *q->part),
                          .chosen = pith_zalloc(p->parts, sizeof *q->chosen)};
    q->a = (struct pith_assign){
        .part = q->part, .budget = (uint64_t)(p->job->bits / 8 * p->numbers * (double)p->context)};
    enum pith_status s = q->layer && q->part && q->chosen ? PITH_OK
                                                          : pith_fail_nomem(err, "an assignment");
    for (size_t i = 0; i < p->parts && s == PITH_OK; i++) {
        if (p->part[i].side == PITH_KV_VALUES) continue;
        struct layer_choices *l = &q->layer[q->a.parts];
        l->part = &p->part[i];
        s = fill_choices(p, l, err);
        q->part[q->a.parts++] = (struct pith_assign_part){l->option, l->count};
    }
    if (s != PITH_OK) close_problem(q);
    return s;
}

/* Into p->layer. */
static void set_layers(struct pith_kv_plan *p, const struct problem *q, const size_t *chosen)
{
    for (uint32_t i = 0; i < p->job->model->plans.layers; i++)
        p->layer[i] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < q->a.parts; i++) {
        const struct choice *c = &q->layer[i].choice[chosen[i]];
        (void)choice_of(p, q->layer[i].part, c->k, c->v, &p->layer[q->layer[i].part->layer]);
    }
}

/* --- whole assignments ------------------------------------------------------------------------ */

/* The same candidates in all layers. */
struct uniform {
    size_t k, v;
    bool near;
};

/* It as an assignment, what its rows add up to; infinite where it costs more than the budget, or a
 * layer cannot be so. */
static double uniform_loss(const struct problem *q, const struct uniform *u, size_t *chosen)
{
    double loss = 0;
    uint64_t cost = 0;
    for (size_t i = 0; i < q->a.parts; i++) {
        const struct layer_choices *l = &q->layer[i];
        size_t k = 0;
        while (k < l->count &&
               (l->choice[k].k->candidate != u->k ||
                (l->choice[k].v ? l->choice[k].v : l->choice[k].k)->candidate != u->v ||
                l->choice[k].k->near != u->near))
            k++;
        if (k == l->count) return INFINITY;
        chosen[i] = k;
        loss += l->choice[k].loss;
        cost += l->choice[k].bytes;
    }
    return cost <= q->a.budget ? loss : INFINITY;
}

/* Those within the budget that are expected to lose least, best first, into start[UNIFORM][parts];
 * how many. */
static size_t list_uniform(const struct problem *q, size_t *start)
{
    const size_t row = q->a.parts;
    double loss[UNIFORM];
    size_t n = 0;
    for (size_t i = 0; i < 2 * PITH_KV_CANDIDATES * PITH_KV_CANDIDATES; i++) {
        const struct uniform u = {i / 2 / PITH_KV_CANDIDATES, i / 2 % PITH_KV_CANDIDATES, i % 2};
        const double x = uniform_loss(q, &u, q->chosen);
        if (isinf(x) || (n == UNIFORM && x >= loss[n - 1])) continue;
        size_t at = n < UNIFORM ? n++ : n - 1;
        for (; at > 0 && loss[at - 1] > x; at--) {
            loss[at] = loss[at - 1];
            memcpy(start + at * row, start + (at - 1) * row, row * sizeof *start);
        }
        loss[at] = x;
        memcpy(start + at * row, q->chosen, row * sizeof *start);
    }
    return n;
}

/* What measures them. */
struct whole {
    struct pith_kv_plan *plan;
    const struct problem *problem;
    struct pith_kv_judge judge;
    size_t done, most;
};

static enum pith_status measure_whole(void *ctx, const size_t *chosen, double *loss,
                                      struct pith_error *err)
{
    struct whole *w = ctx;
    struct pith_text_result r;
    PITH_TRY(pith_progress_step(w->plan->job->progress, "measuring whole KV caches",
                                (double)w->done++, (double)w->most, err));
    set_layers(w->plan, w->problem, chosen);
    PITH_TRY(pith_kv_judge_cache(w->plan, &w->judge, &r, err));
    *loss = r.kld_capped;
    return PITH_OK;
}

static enum pith_status refine(struct pith_kv_plan *p, struct problem *q, struct pith_refined *got,
                               struct pith_kv_losses *losses, struct pith_error *err)
{
    const struct pith_kv_extent extent = pith_kv_extent_of(p);
    struct whole w = {.plan = p, .problem = q, .most = extent.most};
    size_t *start = pith_alloc(UNIFORM * q->a.parts, sizeof *start);
    if (!start) return pith_fail_nomem(err, "an assignment");
    const struct pith_refine r = {.assign = &q->a,
                                  .start = start,
                                  .starts = list_uniform(q, start),
                                  .most = w.most,
                                  .measure = measure_whole,
                                  .ctx = &w,
                                  .margin = chance};
    enum pith_status s = pith_kv_judge_open(p, extent.whole, &w.judge, err);
    if (s == PITH_OK) {
        s = pith_refine(&r, q->chosen, got, err);
        *losses = (struct pith_kv_losses){got->sum, got, w.judge.set.windows * w.judge.set.length};
        pith_kv_judge_close(p, &w.judge);
    }
    pith_free(start);
    return s;
}

/* What is best within the budget, into p->layer and the record: by what was measured of rows, and
 * with a tokenizer of whole assignments too. */
static enum pith_status solve(struct pith_kv_plan *p, struct pith_error *err)
{
    struct problem q;
    struct pith_assigned got = {0};
    struct pith_refined whole;
    struct pith_error why = {0};
    PITH_TRY(open_problem(p, &q, err));
    enum pith_status s = pith_assign(&q.a, q.chosen, &got, &why);
    struct pith_kv_losses losses = {.sum = got.loss};
    if (s == PITH_LIMIT)
        s = pith_fail(err, s, "`kv` auto:%g: the smallest formats take more bits a number",
                      p->job->bits);
    else if (s != PITH_OK) s = pith_fail(err, s, "%s", why.text);
    else if (p->job->tokenizer) s = refine(p, &q, &whole, &losses, err);
    if (s == PITH_OK) {
        set_layers(p, &q, q.chosen);
        s = keep_cache(p, &losses, err);
    }
    close_problem(&q);
    return s;
}

/* --- a menu ----------------------------------------------------------------------------------- */

static enum pith_status fill_menu_part(const struct pith_kv_plan *p,
                                       const struct pith_kv_plan_part *part,
                                       struct pith_kv_menu_part *out, struct pith_error *err)
{
    struct choice *all = pith_alloc(CHOICES, sizeof *all);
    if (!all) return pith_fail_nomem(err, "a layer's caches");
    out->layer = part->layer;
    out->options = drop_worse(all, list_choices(p, part, all));
    out->option = pith_alloc(out->options, sizeof *out->option);
    for (size_t i = 0; i < out->options && out->option; i++) {
        struct pith_kv_format f;
        (void)choice_of(p, part, all[i].k, all[i].v, &f);
        out->option[i] = (struct pith_kv_option){all[i].bytes, all[i].loss, f};
    }
    pith_free(all);
    return out->option ? PITH_OK : pith_fail_nomem(err, "a layer's caches");
}

void pith_kv_menu_free(struct pith_kv_menu *menu)
{
    for (size_t i = 0; menu->part && i < menu->parts; i++) pith_free(menu->part[i].option);
    pith_free(menu->part);
    json_decref(menu->record);
    *menu = (struct pith_kv_menu){0};
}

enum pith_status pith_kv_auto_menu(const struct pith_kv_auto_job *job, size_t positions,
                                   struct pith_kv_menu *out, struct pith_error *err)
{
    struct pith_kv_plan p = {.job = job};
    *out = (struct pith_kv_menu){0};
    enum pith_status s = pith_kv_plan_find(&p, err);
    if (s == PITH_OK) s = name_record(&p, err);
    if (s == PITH_OK) s = measure_cache(&p, err);
    for (size_t i = 0; i < p.parts; i++) /* what else is weighed against them are means too */
        for (size_t k = 0; k < p.part[i].rows; k++) p.part[i].row[k].loss = p.part[i].row[k].mean;
    if (s == PITH_OK && !(out->part = pith_zalloc(p.parts, sizeof *out->part)))
        s = pith_fail_nomem(err, "caches");
    p.context = positions;
    for (size_t i = 0; i < p.parts && s == PITH_OK; i++)
        if (p.part[i].side != PITH_KV_VALUES)
            s = fill_menu_part(&p, &p.part[i], &out->part[out->parts++], err);
    if (s == PITH_OK) out->record = json_incref(p.file);
    else pith_kv_menu_free(out);
    pith_kv_plan_free(&p);
    return s;
}

enum pith_status pith_kv_menu_choose(struct pith_kv_menu *menu, const struct pith_kv_auto_job *job,
                                     const size_t *chosen, double *bits, struct pith_error *err)
{
    const struct pith_plans *plans = &job->model->plans;
    struct pith_kv_plan p = {.job = job, .file = menu->record};
    const json_int_t context = json_integer_value(json_object_get(menu->record, "context"));
    double loss = 0;
    p.context = (size_t)context;
    p.layer = pith_alloc(plans->layers, sizeof *p.layer);
    if (!p.layer) return pith_fail_nomem(err, "the layers of a KV cache");
    for (uint32_t i = 0; i < plans->layers; i++) p.layer[i] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < menu->parts; i++) {
        p.layer[menu->part[i].layer] = menu->part[i].option[chosen[i]].format;
        loss += menu->part[i].option[chosen[i]].loss;
    }
    const struct pith_kv_format f = {.layer = p.layer};
    *bits = ceil(100 * pith_kv_bits(plans, &f, p.context) - 1e-9) / 100;
    const enum pith_status s = note(&p, *bits, &(struct pith_kv_losses){.sum = loss}, err);
    pith_free(p.layer);
    return s;
}

enum pith_status pith_kv_auto(const struct pith_kv_auto_job *job, struct pith_kv_format *out,
                              struct pith_error *err)
{
    struct pith_kv_plan p = {.job = job, .levels = true};
    bool found = false;
    *out = (struct pith_kv_format){0};
    enum pith_status s = pith_kv_plan_find(&p, err);
    if (s == PITH_OK) s = name_record(&p, err);
    if (s == PITH_OK) s = read_cache_record(&p, err);
    if (s == PITH_OK && p.file) s = take_layers(&p, &found, err);
    if (s == PITH_OK && !p.file) {
        s = measure_cache(&p, err);
        if (s == PITH_OK) s = save(&p, err); /* remains if what follows is interrupted */
    }
    if (s == PITH_OK && !found) s = solve(&p, err);
    if (s == PITH_OK) {
        out->layer = p.layer;
        p.layer = NULL;
    }
    pith_kv_plan_free(&p);
    return s;
}
