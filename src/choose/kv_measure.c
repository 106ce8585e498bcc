#include "choose/kv_measure.h"

#include "choose/kv_levels.h"
#include "plan/subject.h"

#include <math.h>

/* Tokens on which rows are measured, and whole caches, of models that are not too large for it; of
 * those that are the rows' at least. Whole caches, by layer, at most, and of any model at least. */
enum { TOKENS = 2048, WHOLE_TOKENS = 4096, FEW_TOKENS = 512, WHOLE_A_LAYER = 10, WHOLE_LEAST = 12 };
/* Multiplications that all rows take at most, and all whole caches, unless there would be too few:
 * some minutes of two cores. */
static const double most_products = 2e13;
/* Parts are compared in the candidate that loses about so much in all of a side: enough for
 * parts to differ, and not so much that losses no longer add up. */
static const double compared = 0.03;

/* --- how much --------------------------------------------------------------------------------- */

/* Multiplications for a token of a text: those of the model, and of the head of what it is compared
 * with. */
static double products_of(struct pith_model *m)
{
    struct pith_census census;
    pith_plan_subject_count(&(struct pith_plan_subject){.model = m}, &census);
    return census.active + (double)m->shape.vocab * m->shape.hidden;
}

/* Rows that are measured on all parts of a side at once: those without the current page in floats,
 * unless a candidate has it anyway. */
static bool is_common(const struct pith_kv_plan_part *part, size_t i)
{
    return !part->row[i].near || i == 0 || part->row[i - 1].candidate != part->row[i].candidate;
}

/* Whether the next row is the same with the current page in floats. */
static bool has_near(const struct pith_kv_plan_part *part, size_t i)
{
    return i + 1 < part->rows && !is_common(part, i + 1);
}

/* The first part of a side, or NULL. */
static const struct pith_kv_plan_part *first_of(const struct pith_kv_plan *p,
                                                enum pith_kv_side side)
{
    for (size_t i = 0; i < p->parts; i++)
        if (p->part[i].side == side) return &p->part[i];
    return NULL;
}

/* Measurements by shares: of a side its common rows, and one of them of each part, with the current
 * page in floats and without. */
static size_t count_shared(const struct pith_kv_plan *p)
{
    size_t n = 2 * p->parts;
    for (enum pith_kv_side side = PITH_KV_KEYS; side < PITH_KV_SIDES; side++) {
        const struct pith_kv_plan_part *part = first_of(p, side);
        for (size_t i = 0; part && i < part->rows; i++) n += is_common(part, i);
    }
    return n;
}

static size_t count_rows(const struct pith_kv_plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->parts; i++) n += p->part[i].rows;
    return n;
}

/* Layers that keep something. */
static size_t count_layers(const struct pith_kv_plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->parts; i++) n += p->part[i].side != PITH_KV_VALUES;
    return n;
}

struct pith_kv_extent pith_kv_extent_of(const struct pith_kv_plan *p)
{
    const double products = products_of(p->job->model);
    struct pith_kv_extent e = {.singly = (double)count_rows(p) * TOKENS * products <= most_products,
                               .tokens = TOKENS};
    while (!e.singly && e.tokens > FEW_TOKENS &&
           (double)count_shared(p) * (double)e.tokens * products > most_products)
        e.tokens /= 2;
    e.whole = 4 * e.tokens < WHOLE_TOKENS ? 4 * e.tokens : WHOLE_TOKENS;
    e.most = WHOLE_A_LAYER * count_layers(p);
    const double most = most_products / ((double)e.whole * products);
    if ((double)e.most > most) e.most = most > WHOLE_LEAST ? (size_t)most : WHOLE_LEAST;
    return e;
}

/* --- the text --------------------------------------------------------------------------------- */

void pith_kv_judge_close(const struct pith_kv_plan *p, struct pith_kv_judge *j)
{
    (void)pith_backend_set_mode(p->job->backend, j->mode, NULL);
    pith_cached_text_free(&j->cached);
    pith_calib_free(&j->set);
}

/* Levels where candidates need them. */
static enum pith_status need_levels(const struct pith_kv_plan *p, struct pith_error *err)
{
    const struct pith_kv_levels_job levels = {.backend = p->job->backend,
                                              .model = p->job->model,
                                              .tokenizer = p->job->tokenizer,
                                              .progress = p->job->progress,
                                              .ranks = p->job->ranks};
    for (size_t c = 0; c < PITH_KV_CANDIDATES && p->levels; c++)
        if (p->name[c] && pith_kv_needs_levels(&p->format[c], 1))
            return pith_kv_levels_need(&levels, err);
    return PITH_OK;
}

enum pith_status pith_kv_judge_open(const struct pith_kv_plan *p, size_t tokens,
                                    struct pith_kv_judge *j, struct pith_error *err)
{
    const struct pith_calib_options o = {.tokens = tokens,
                                         .seq_len = tokens < p->context ? tokens : p->context};
    struct pith_text_result ignored;
    *j = (struct pith_kv_judge){.cached.most = (size_t)256 << 20,
                                .mode = pith_backend_mode(p->job->backend)};
    PITH_TRY(pith_calib_load(&o, p->job->tokenizer, &j->set, err));
    j->text = (struct pith_text_job){.backend = p->job->backend,
                                     .model = p->job->model,
                                     .kv = pith_kv_floats(PITH_F32),
                                     .ids = j->set.ids,
                                     .count = j->set.windows * j->set.length,
                                     .bos = -1,
                                     .convention = PITH_CONVENTION_GPTQ,
                                     .context = j->set.length,
                                     .cached = &j->cached,
                                     .ranks = p->job->ranks};
    enum pith_status s = pith_backend_set_mode(p->job->backend, PITH_MODE_EXACT, err);
    if (s == PITH_OK) s = need_levels(p, err);
    if (s == PITH_OK) s = pith_eval_text(&j->text, &ignored, err);
    j->text.baseline = p->job->model;
    if (s != PITH_OK) pith_kv_judge_close(p, j);
    return s;
}

enum pith_status pith_kv_judge_cache(const struct pith_kv_plan *p, struct pith_kv_judge *j,
                                     struct pith_text_result *out, struct pith_error *err)
{
    j->text.kv = (struct pith_kv_format){.layer = p->layer};
    return pith_eval_text(&j->text, out, err);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Measurements on their way. */
struct measuring {
    struct pith_kv_plan *plan;
    struct pith_kv_judge *judge;
    size_t done, all;
};
struct lost {
    double loss, mean;
};

/* What that row loses in one part, or (NULL) in all of its side, everything else in float32. */
static enum pith_status measure(struct measuring *m, const struct pith_kv_plan_part *only,
                                enum pith_kv_side side, const struct pith_kv_plan_row *row,
                                struct lost *out, struct pith_error *err)
{
    struct pith_kv_plan *p = m->plan;
    struct pith_text_result r;
    PITH_TRY(pith_progress_step(p->job->progress, "measuring the KV cache by layer",
                                (double)m->done++, (double)m->all, err));
    for (uint32_t k = 0; k < p->job->model->plans.layers; k++)
        p->layer[k] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < p->parts; i++)
        if (only ? &p->part[i] == only : p->part[i].side == side)
            pith_kv_plan_set(p, &p->layer[p->part[i].layer], side, row);
    PITH_TRY(pith_kv_judge_cache(p, m->judge, &r, err));
    *out = (struct lost){r.kld_capped, r.kld_mean};
    return PITH_OK;
}

/* The same of a row of a part alone, into it. */
static enum pith_status measure_row(struct measuring *m, struct pith_kv_plan_part *part, size_t i,
                                    struct pith_error *err)
{
    struct lost lost;
    PITH_TRY(measure(m, part, part->side, &part->row[i], &lost, err));
    part->row[i].loss = lost.loss;
    part->row[i].mean = lost.mean;
    return PITH_OK;
}

static enum pith_status measure_singly(struct measuring *m, struct pith_error *err)
{
    for (size_t i = 0; i < m->plan->parts; i++)
        for (size_t k = 0; k < m->plan->part[i].rows; k++)
            PITH_TRY(measure_row(m, &m->plan->part[i], k, err));
    return PITH_OK;
}

/* What all parts of a side lose, row by row, and the row that parts are compared in. */
struct at_once {
    struct lost all[2 * PITH_KV_CANDIDATES];
    size_t row;
};

/* How far a row of that loss is from what parts are best compared in; what is not also there with
 * the current page in floats is beyond all others. */
static double distance(const struct pith_kv_plan_part *first, size_t i, double loss)
{
    const double beyond = has_near(first, i) ? 0 : 1e6;
    return loss > 0 ? fabs(log(loss / compared)) + beyond : INFINITY;
}

static enum pith_status measure_at_once(struct measuring *m, const struct pith_kv_plan_part *first,
                                        struct at_once *a, struct pith_error *err)
{
    double least = INFINITY;
    *a = (struct at_once){0};
    for (size_t i = 0; i < first->rows; i++) {
        if (!is_common(first, i)) continue;
        PITH_TRY(measure(m, NULL, first->side, &first->row[i], &a->all[i], err));
        const double here = distance(first, i, a->all[i].loss);
        if (here < least) {
            least = here;
            a->row = i;
        }
    }
    return PITH_OK;
}

/* What parts lose in that row, and with the current page in floats, into their rows; and together.
 */
static enum pith_status measure_parts(struct measuring *m, enum pith_kv_side side, size_t row,
                                      struct lost *sum, struct pith_error *err)
{
    *sum = (struct lost){0};
    for (size_t i = 0; i < m->plan->parts; i++) {
        struct pith_kv_plan_part *part = &m->plan->part[i];
        if (part->side != side) continue;
        PITH_TRY(measure_row(m, part, row, err));
        if (has_near(part, row)) PITH_TRY(measure_row(m, part, row + 1, err));
        sum->loss += part->row[row].loss;
        sum->mean += part->row[row].mean;
    }
    return PITH_OK;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 1;
}

/* The rows of a part that was measured in one of them, from its share of what all lose there and
 * the share that remains with the current page in floats. */
static void share_out(const struct at_once *a, const struct lost *sum, struct pith_kv_plan_part *to)
{
    const struct pith_kv_plan_row own = to->row[a->row],
                                  nearer = to->row[a->row + has_near(to, a->row)];
    const struct lost part = {share(own.loss, sum->loss), share(own.mean, sum->mean)};
    const struct lost near = {share(nearer.loss, own.loss), share(nearer.mean, own.mean)};
    size_t common = 0;
    for (size_t i = 0; i < to->rows; i++) {
        const bool is_near = !is_common(to, i);
        if (!is_near) common = i;
        to->row[i].loss = part.loss * a->all[common].loss * (is_near ? near.loss : 1);
        to->row[i].mean = part.mean * a->all[common].mean * (is_near ? near.mean : 1);
    }
}

static enum pith_status measure_side(struct measuring *m, enum pith_kv_side side,
                                     struct pith_error *err)
{
    const struct pith_kv_plan_part *first = first_of(m->plan, side);
    struct at_once a;
    struct lost sum;
    if (!first) return PITH_OK;
    PITH_TRY(measure_at_once(m, first, &a, err));
    PITH_TRY(measure_parts(m, side, a.row, &sum, err));
    for (size_t i = 0; i < m->plan->parts; i++)
        if (m->plan->part[i].side == side) share_out(&a, &sum, &m->plan->part[i]);
    return PITH_OK;
}

enum pith_status pith_kv_measure_rows(struct pith_kv_plan *p, const struct pith_kv_extent *extent,
                                      struct pith_kv_judge *j, struct pith_error *err)
{
    struct measuring m = {
        .plan = p, .judge = j, .all = extent->singly ? count_rows(p) : count_shared(p)};
    if (extent->singly) return measure_singly(&m, err);
    for (enum pith_kv_side side = PITH_KV_KEYS; side < PITH_KV_SIDES; side++)
        PITH_TRY(measure_side(&m, side, err));
    return PITH_OK;
}
