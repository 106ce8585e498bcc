#include "quantize/ranks/foresee_parts.h"

#include "base/mem.h"
#include "calib/grads.h"
#include "quantize/work.h"

/* Why nothing is told, or NULL. */
static const char *why_not(const struct pith_job *job)
{
    struct pith_rehearsed list[PITH_REHEARSED_MOST];
    const uint32_t count = pith_rehearsed_blocks(&job->model->plans, list);
    bool routed = !job->model->shape.moe.experts;
    for (uint32_t i = 0; i < count; i++)
        routed |= pith_plan_experts(pith_job_plan(job, list[i].layer)) != NULL;
    if (!routed) return "not foretold where layers of so many kinds share keys and values";
    if (pith_job_together(job, 0) > 1) return "not foretold where blocks are learned together";
    return NULL;
}

static enum pith_status take_memory(struct pith_foresee *f, struct pith_error *err)
{
    const struct pith_job *job = f->job;
    const uint32_t linears = job->model->plans.most_linears;
    const size_t experts = job->model->shape.moe.experts;
    f->first = pith_alloc(linears, (PITH_CREW_MOST + 1) * sizeof *f->first);
    f->owner = pith_zalloc((size_t)PITH_FORESEE_ROWS * linears, sizeof *f->owner);
    f->taken = pith_alloc(experts + 1, PITH_CREW_MOST * sizeof *f->taken);
    return f->first && f->owner && f->taken ? PITH_OK
                                            : pith_fail_nomem(err, "what ranks would take");
}

enum pith_status pith_foresee_begin(const struct pith_job *job, struct pith_foresee *f,
                                    struct pith_error *err)
{
    f->job = job;
    f->why = why_not(job);
    const char *link = job->options->link ? job->options->link : PITH_CABLE_DEFAULT;
    PITH_TRY(pith_cable_parse(link, &f->cable, err));
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        f->whole[i] = (struct pith_crew){.ranks = 1u << i, .cable = f->cable};
        f->crew[PITH_FORESEE_BEFORE][i] = f->whole[i];
    }
    return f->why ? PITH_OK : take_memory(f, err);
}

void pith_foresee_end(struct pith_foresee *f)
{
    pith_free(f->first);
    pith_free(f->owner);
    pith_free(f->taken);
    f->first = NULL;
    f->owner = NULL;
    f->taken = NULL;
}

/* Seconds of a phase that were not counted yet. */
static double take(struct pith_foresee *f, const struct pith_phases *now, enum pith_phase phase)
{
    const double seconds = now->seconds[phase] - f->last.seconds[phase];
    f->last.seconds[phase] = now->seconds[phase];
    return seconds;
}

static bool tells(const struct pith_foresee *f)
{
    return f && f->job && !f->why;
}

/* The crew number i that does what is done now. */
static struct pith_crew *crew_of(struct pith_foresee *f, unsigned i)
{
    return &f->crew[f->stage][i];
}

static unsigned owner_of(const struct pith_crew *c, const struct pith_site_spec *site)
{
    return pith_relay_owner_of(c->ranks, site->expert);
}

/* Seconds that go to the rank whose expert it is. */
static void work_expert(struct pith_foresee *f, const struct pith_site_spec *site, double seconds)
{
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++)
        pith_crew_work(crew_of(f, i), owner_of(crew_of(f, i), site), seconds, 0);
}

/* Windows are divided, where there are any; what is written, where all write. */
static void count_phase(const struct pith_foresee *f, struct pith_crew *c, enum pith_crew_part part,
                        double seconds)
{
    const size_t windows = f->job->calib.windows;
    if (part == PITH_CREW_DIVIDED && windows) pith_crew_windows(c, seconds, windows);
    else if (part == PITH_CREW_DIVIDED) pith_crew_add(c, PITH_CREW_REPEATED, seconds);
    else if (part == PITH_CREW_FIRST && !f->job->options->gather)
        pith_crew_add(c, PITH_CREW_DIVIDED, seconds / c->ranks);
    else pith_crew_add(c, part, seconds);
}

/* --- before ----------------------------------------------------------------------------------- */

void pith_foresee_guided(struct pith_foresee *f, double seconds)
{
    if (!tells(f)) return;
    f->before += seconds;
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++)
        pith_crew_windows(crew_of(f, i), seconds, f->job->calib.windows);
}

/* --- a block ---------------------------------------------------------------------------------- */

static const struct pith_layer_plan *plan_of(const struct pith_foresee *f)
{
    return pith_job_plan(f->job, f->block.layer);
}

static unsigned *owners(const struct pith_foresee *f, unsigned i)
{
    return f->owner + (size_t)i * f->job->model->plans.most_linears;
}

void pith_foresee_block(struct pith_foresee *f, const struct pith_rehearsed *block)
{
    f->stage = PITH_FORESEE_BLOCK;
    f->last = (struct pith_phases){0};
    f->block = *block;
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        *c = (struct pith_crew){.ranks = 1u << i, .cable = f->cable};
        if (tells(f)) pith_ranks_owners(f->job, block->layer, c->ranks, owners(f, i));
    }
}

void pith_foresee_source(struct pith_foresee *f, const struct pith_phases *now, double largest)
{
    if (!tells(f)) return;
    const double seconds = take(f, now, PITH_PHASE_READ);
    if (f->stage == PITH_FORESEE_BEFORE) f->before += seconds;
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        const double even = 1.0 / c->ranks, part = largest > even ? largest : even;
        pith_crew_add(c, PITH_CREW_DIVIDED, seconds * even);
        pith_crew_add(c, PITH_CREW_REPEATED, seconds * (part - even));
    }
}

/* --- what streams ----------------------------------------------------------------------------- */

void pith_foresee_streamed(struct pith_foresee *f, const struct pith_streamed *s)
{
    enum { STORING = 3 }; /* from here on, of who stores it */
    static const enum pith_phase own[] = {PITH_PHASE_READ, PITH_PHASE_ROUND, PITH_PHASE_ERROR,
                                          PITH_PHASE_PACK, PITH_PHASE_WRITE, PITH_PHASE_VERIFY};
    const bool gather = tells(f) && f->job->options->gather;
    double seconds = 0;
    if (!tells(f)) return;
    for (size_t i = 0; i < (gather ? STORING : PITH_COUNT(own)); i++) {
        const double one = s->time->seconds[own[i]] / s->threads;
        seconds += one;
        f->last.seconds[own[i]] += one;
    }
    if (f->stage == PITH_FORESEE_BEFORE) f->before += seconds;
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        const unsigned owner = s->end ? s->which % c->ranks : owners(f, i)[s->which];
        pith_crew_work(c, owner, seconds, 0);
        if (s->shares) pith_crew_share(c, owner, 2 * sizeof(float));
        if (gather) pith_foresee_send_matrix(c, owner, 0, s->sent);
        pith_foresee_send(c, owner, 0, sizeof(struct pith_linear_result));
    }
}

void pith_foresee_embedded(struct pith_foresee *f, const struct pith_qmat *q)
{
    if (!tells(f)) return;
    const struct pith_route_sizes sizes = pith_route_sizes(q);
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++)
        pith_foresee_send_matrix(crew_of(f, i), 0, PITH_TO_ALL, &sizes);
}

/* --- the steps -------------------------------------------------------------------------------- */

void pith_foresee_site(struct pith_foresee *f, const struct pith_phases *now,
                       const struct pith_site_spec *site, const struct pith_stats *stats)
{
    if (!tells(f)) return;
    const double reading = take(f, now, PITH_PHASE_READ);
    const double collecting = take(f, now, PITH_PHASE_COLLECT);
    const double products = take(f, now, PITH_PHASE_HESSIAN);
    if (site->expert != PITH_NO_PART) {
        work_expert(f, site, reading + collecting + products);
        return;
    }
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        pith_crew_add(c, PITH_CREW_REPEATED, reading);
        count_phase(f, c, PITH_CREW_DIVIDED, collecting);
        if (!stats) continue;
        const struct pith_crew_products of = {site->dim, f->job->needs_round, stats->views,
                                              f->job->fast, products};
        pith_crew_sums(c, site->dim, f->job->needs_round, stats->views);
        pith_crew_products(c, &of);
    }
}

void pith_foresee_routed(struct pith_foresee *f, const struct pith_routed *r, size_t width)
{
    for (unsigned i = 0; tells(f) && i < PITH_FORESEE_ROWS; i++)
        pith_foresee_sent(crew_of(f, i), f->job, r, width, f->taken);
}

void pith_foresee_factor(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, const struct pith_factor *factor)
{
    if (!tells(f) || !factor) return;
    const double seconds = take(f, now, PITH_PHASE_FACTOR);
    if (site->expert != PITH_NO_PART) {
        work_expert(f, site, seconds);
        return;
    }
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        pith_ranks_rows(f->job, f->block.layer, site, c->ranks, f->first);
        const bool shared = pith_rows_workers(f->first, site->count, c->ranks) > 1 &&
                            pith_cholesky_scratch(c->ranks, site->dim) > 0;
        if (shared) pith_cholesky_told(c->ranks, site->dim, pith_crew_told, c);
        pith_crew_add(c, shared ? PITH_CREW_DIVIDED : PITH_CREW_REPEATED,
                      shared ? seconds / c->ranks : seconds);
    }
}

void pith_foresee_sites(struct pith_foresee *f, const struct pith_phases *now,
                        const struct pith_site_spec *site, uint32_t count)
{
    if (!tells(f)) return;
    const unsigned needs = f->job->needs_transform;
    const double collecting = take(f, now, PITH_PHASE_COLLECT);
    const double products = take(f, now, PITH_PHASE_HESSIAN);
    double squares = 0; /* products take time by these */
    for (uint32_t i = 0; i < count; i++) squares += (double)site[i].dim * site[i].dim;
    for (unsigned k = 0; k < PITH_FORESEE_ROWS; k++) {
        struct pith_crew *c = crew_of(f, k);
        count_phase(f, c, PITH_CREW_DIVIDED, collecting);
        for (uint32_t i = 0; i < count; i++) {
            const double part = (double)site[i].dim * site[i].dim / squares;
            const struct pith_crew_products of = {site[i].dim, needs, 1, f->job->fast,
                                                  products * part};
            pith_crew_sums(c, site[i].dim, needs, 1);
            pith_crew_products(c, &of);
            if (needs & PITH_NEED_SAMPLES) pith_foresee_samples(c, f->job, site[i].dim);
        }
    }
}

void pith_foresee_expert(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site)
{
    static const enum pith_phase own[] = {PITH_PHASE_READ, PITH_PHASE_COLLECT, PITH_PHASE_HESSIAN,
                                          PITH_PHASE_TRANSFORM};
    for (size_t i = 0; tells(f) && i < PITH_COUNT(own); i++)
        work_expert(f, site, take(f, now, own[i]));
}

void pith_foresee_found(struct pith_foresee *f, const struct pith_site_spec *site, uint64_t bytes)
{
    for (unsigned i = 0; tells(f) && i < PITH_FORESEE_ROWS; i++)
        pith_crew_share(crew_of(f, i), owner_of(crew_of(f, i), site), bytes);
}

void pith_foresee_windows(struct pith_foresee *f, size_t count, uint64_t bytes)
{
    const size_t all = tells(f) ? f->job->calib.windows : 0;
    for (unsigned k = 0; all && k < PITH_FORESEE_ROWS; k++)
        for (size_t i = 0; i < count; i++) {
            unsigned rank = 0;
            while (pith_ranks_cut(crew_of(f, k)->ranks, rank + 1, all) <= i * all / count) rank++;
            pith_crew_share(crew_of(f, k), rank, bytes);
        }
}

/* The items of a rank, and what it tells of them. */
static size_t told_by(struct pith_crew *c, const struct pith_searched *t, unsigned rank)
{
    size_t n = 0;
    if (t->run) {
        const size_t runs = (t->items + t->run - 1) / t->run;
        const size_t first = pith_ranks_cut(c->ranks, rank, runs) * t->run,
                     end = pith_ranks_cut(c->ranks, rank + 1, runs) * t->run;
        n = (end < t->items ? end : t->items) - (first < t->items ? first : t->items);
        pith_crew_told(c, rank, n * t->each);
        return n;
    }
    for (size_t i = rank; i < t->items; i += c->ranks) n++;
    pith_crew_told(c, rank, t->items ? n * t->each : t->each);
    return n;
}

void pith_foresee_told(void *ctx, const struct pith_searched *t)
{
    struct pith_foresee *f = ctx;
    if (!tells(f)) return;
    f->last.seconds[PITH_PHASE_TRANSFORM] += t->seconds; /* the rest of that phase is repeated */
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        size_t most = 0;
        for (unsigned k = 0; k < c->ranks; k++) {
            const size_t n = told_by(c, t, k);
            most = n > most ? n : most;
        }
        if (t->items)
            pith_crew_add(c, PITH_CREW_DIVIDED, t->seconds * (double)most / (double)t->items);
    }
}

/* Seconds that a linear took. */
struct took {
    double factor, round, error;
};

/* The site's linears before that one of which several ranks have rows. */
static unsigned cut_before(const struct pith_foresee *f, const struct pith_site_spec *site,
                           uint32_t which, unsigned ranks)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < which; i++)
        n += pith_job_choice(f->job, f->block.layer, site->first + i)->grid.format &&
             pith_rows_owner(f->first + (size_t)i * (ranks + 1), ranks) == PITH_TO_ALL;
    return n;
}

/* What its owner made of a linear, or of one that keeps 16 bits, has zeros and is an expert's. */
static void hand_round(struct pith_crew *c, unsigned owner, const struct pith_choice *choice,
                       const struct pith_qmat *q)
{
    pith_crew_share(c, owner, sizeof(struct pith_linear_result));
    if (!q) {
        pith_crew_share(c, owner, (uint64_t)choice->rows * choice->cols * sizeof(float));
        return;
    }
    const struct pith_route_sizes sizes = pith_route_sizes(q);
    pith_foresee_send_matrix(c, owner, PITH_TO_ALL, &sizes);
    pith_crew_share(c, owner, 2 * sizeof(float));
}

static void round_one(const struct pith_foresee *f, struct pith_crew *c,
                      const struct pith_site_spec *site, uint32_t which, const struct took *t,
                      const struct pith_qmat *q)
{
    const uint32_t *first = f->first + (size_t)which * (c->ranks + 1);
    const unsigned owner = c->ranks == 1 ? 0 : pith_rows_owner(first, c->ranks);
    const bool expert = site->expert != PITH_NO_PART;
    if (owner != PITH_TO_ALL) {
        pith_crew_work(c, owner, t->round + t->error + (expert ? t->factor : 0),
                       expert ? 0 : t->factor);
        hand_round(c, owner, pith_job_choice(f->job, f->block.layer, site->first + which), q);
        return;
    }
    for (unsigned k = 0; k < c->ranks; k++)
        if (first[k] < first[k + 1])
            pith_crew_work(c, k, t->round * (first[k + 1] - first[k]) / q->rows, t->factor);
    pith_cut_foresee(c, q, first, (uint32_t)(site - plan_of(f)->site),
                     cut_before(f, site, which, c->ranks), t->error);
}

void pith_foresee_linear(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, uint32_t which,
                         const struct pith_qmat *q)
{
    if (!tells(f)) return;
    if (!q && site->expert == PITH_NO_PART) return; /* zeros that every rank finds */
    const struct took t = {take(f, now, PITH_PHASE_FACTOR), take(f, now, PITH_PHASE_ROUND),
                           take(f, now, PITH_PHASE_ERROR)};
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        pith_ranks_rows(f->job, f->block.layer, site, c->ranks, f->first);
        round_one(f, c, site, which, &t, q);
    }
}

void pith_foresee_meet(struct pith_foresee *f)
{
    for (unsigned i = 0; tells(f) && i < PITH_FORESEE_ROWS; i++) pith_crew_meet(crew_of(f, i));
}

/* --- a block at once -------------------------------------------------------------------------- */

static void pass_gradients(struct pith_crew *c, const struct pith_layer_plan *l, float *const *w)
{
    const size_t panels = pith_grads_panels(l, w, c->ranks);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const uint64_t one = (uint64_t)l->linear[i].rows * l->linear[i].cols * sizeof(float);
        if (!w[i]) continue;
        bytes += one;
        pith_crew_share(c, c->ranks - 1, one);
    }
    if (panels) pith_crew_relay(c, 0, bytes, panels);
}

void pith_foresee_step(struct pith_foresee *f, size_t windows, float *const *w, double seconds)
{
    if (!tells(f)) return;
    f->last.seconds[PITH_PHASE_ROUND] += seconds; /* the rest of that phase is repeated */
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        pith_crew_windows(c, seconds, windows);
        pith_crew_parts(c, windows, sizeof(double));
        if (w) pass_gradients(c, plan_of(f), w);
    }
}

void pith_foresee_measured(struct pith_foresee *f, const struct pith_phases *now, uint32_t linear)
{
    if (!tells(f)) return;
    const double seconds = take(f, now, PITH_PHASE_ERROR);
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = crew_of(f, i);
        pith_crew_work(c, linear % c->ranks, seconds, 0);
        pith_crew_share(c, linear % c->ranks, sizeof(struct pith_linear_result));
    }
}

/* --- the report ------------------------------------------------------------------------------- */

/* What of the block no step has counted. */
static void count_rest(struct pith_foresee *f, const struct pith_phases *now, double block)
{
    static const struct {
        enum pith_phase phase;
        enum pith_crew_part part;
    } of[] = {{PITH_PHASE_READ, PITH_CREW_REPEATED},      {PITH_PHASE_COLLECT, PITH_CREW_DIVIDED},
              {PITH_PHASE_HESSIAN, PITH_CREW_DIVIDED},    {PITH_PHASE_PROPAGATE, PITH_CREW_DIVIDED},
              {PITH_PHASE_TRANSFORM, PITH_CREW_REPEATED}, {PITH_PHASE_FACTOR, PITH_CREW_REPEATED},
              {PITH_PHASE_ROUND, PITH_CREW_REPEATED},     {PITH_PHASE_ERROR, PITH_CREW_REPEATED},
              {PITH_PHASE_PACK, PITH_CREW_FIRST},         {PITH_PHASE_WRITE, PITH_CREW_FIRST},
              {PITH_PHASE_VERIFY, PITH_CREW_FIRST},       {PITH_PHASE_SYNC, PITH_CREW_FIRST},
              {PITH_PHASE_REREAD, PITH_CREW_FIRST}};
    struct pith_crew *crew = f->crew[PITH_FORESEE_BLOCK];
    double rest = block;
    for (int i = 0; i < PITH_PHASE_COUNT; i++) rest -= now->seconds[i];
    for (size_t i = 0; i < PITH_COUNT(of); i++) {
        const double seconds = take(f, now, of[i].phase);
        for (unsigned k = 0; k < PITH_FORESEE_ROWS; k++)
            count_phase(f, &crew[k], of[i].part, seconds);
    }
    for (unsigned k = 0; k < PITH_FORESEE_ROWS; k++) {
        const struct pith_foresee_unit unit = {f->job, f->block.layer};
        if (rest > 0) pith_crew_add(&crew[k], PITH_CREW_REPEATED, rest);
        pith_foresee_count(&crew[k], &unit, PITH_FORESEE_LAYER);
    }
}

void pith_foresee_done(struct pith_foresee *f, const struct pith_phases *now, double seconds)
{
    const uint32_t like = f->block.like;
    f->alone += like * seconds;
    if (!tells(f)) return;
    count_rest(f, now, seconds);
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        const struct pith_crew *c = crew_of(f, i);
        for (int k = 0; k < PITH_CREW_PARTS_COUNT; k++)
            f->whole[i].seconds[k] += like * c->seconds[k];
        for (unsigned k = 0; k < c->ranks; k++) f->whole[i].received[k] += like * c->received[k];
    }
}

/* The whole, and a block of it on average. */
static json_t *row(struct pith_foresee *f, unsigned i, double other)
{
    const struct pith_foresee_unit unit = {f->job, 0};
    const uint32_t blocks = f->job->model->shape.layers;
    struct pith_crew *before = &f->crew[PITH_FORESEE_BEFORE][i], *c = &f->whole[i];
    struct pith_crew behind = {.ranks = c->ranks, .cable = c->cable};
    pith_foresee_count(before, &unit, PITH_FORESEE_ONCE);
    pith_foresee_count(before, &unit, PITH_FORESEE_BETWEEN);
    pith_foresee_count(&behind, &unit, PITH_FORESEE_BETWEEN);
    json_t *received = json_array();
    for (unsigned k = 0; k < c->ranks; k++) {
        pith_json_add(&received,
                      json_integer((json_int_t)(before->received[k] + c->received[k] +
                                                (blocks - 1) * behind.received[k])));
        c->received[k] = c->received[k] / blocks + behind.received[k];
    }
    pith_crew_add(c, PITH_CREW_LINK, blocks * behind.seconds[PITH_CREW_LINK]);
    const double all = other - f->before + pith_crew_seconds(before) + pith_crew_seconds(c);
    for (int k = 0; k < PITH_CREW_PARTS_COUNT; k++) c->seconds[k] /= blocks;
    return pith_crew_row(c, all, all > 0 ? (other + f->alone) / all : 1.0, received);
}

json_t *pith_foresee_report(struct pith_foresee *f, double other)
{
    json_t *rows = json_array();
    for (unsigned i = 0; !f->why && i < PITH_FORESEE_ROWS; i++)
        pith_json_add(&rows, row(f, i, other));
    return json_pack("{s:{s:f, s:f}, s:s?, s:o}", "link", "bits_per_second", f->cable.bits,
                     "delay_seconds", f->cable.delay, "why", f->why, "rows", rows);
}
