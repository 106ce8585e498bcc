#include "pipe/foresee.h"

#include "base/mem.h"
#include "calib/relay.h"
#include "pipe/inspect.h"
#include "pipe/work.h"

/* Why nothing is told, or NULL. */
static const char *why_not(const struct pith_job *job)
{
    if (!pith_job_calibrates(job)) return "not foretold for recipes without calibration";
    if (job->model->shape.moe.experts) return "not foretold for mixtures of experts";
    if (pith_job_learns(job)) return "not foretold for learned rounding";
    if (job->needs_round & PITH_NEED_GUIDED) return "not foretold for guided rounding";
    return NULL;
}

enum pith_status pith_foresee_begin(const struct pith_job *job, struct pith_foresee *f,
                                    struct pith_error *err)
{
    f->job = job;
    f->why = why_not(job);
    const char *link = job->options->link ? job->options->link : PITH_CABLE_DEFAULT;
    PITH_TRY(pith_cable_parse(link, &f->cable, err));
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++)
        f->crew[i] = (struct pith_crew){.ranks = 1u << i, .cable = f->cable};
    if (f->why) return PITH_OK;
    f->first = pith_alloc(job->model->plans.most_linears, (PITH_CREW_MOST + 1) * sizeof *f->first);
    return f->first ? PITH_OK : pith_fail_nomem(err, "what ranks would take");
}

void pith_foresee_end(struct pith_foresee *f)
{
    pith_free(f->first);
    f->first = NULL;
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

/* --- what goes round -------------------------------------------------------------------------- */

/* What of a site's statistics is no product; as calib/relay.c passes it. */
static void relay_sums(struct pith_crew *c, size_t dim, unsigned needs)
{
    pith_crew_sum(c, 0, 2 * sizeof(uint64_t), 1);
    pith_crew_sum(c, 0, sizeof(double), 1);
    if (needs & PITH_NEED_ABSMEAN) pith_crew_sum(c, 0, dim * sizeof(double), 1);
    if (needs & PITH_NEED_SQUARES) pith_crew_sum(c, 0, dim * sizeof(double), 1);
    for (int end = 0; needs & PITH_NEED_RANGE && end < 2; end++)
        pith_crew_sum(c, 0, dim * sizeof(float), 1);
}

static void relay_products(struct pith_crew *c, const struct pith_job *job, size_t dim,
                           unsigned needs, double seconds)
{
    const size_t rows = job->fast ? dim : pith_ranks_panel(c->ranks, dim);
    const size_t panels = (dim + rows - 1) / rows;
    if (needs & PITH_NEED_HESSIAN)
        pith_crew_sum(c, seconds, dim * (dim + 1) / 2 * sizeof(float), panels);
    if (!(needs & PITH_NEED_DRIFT)) return;
    const size_t narrow = pith_ranks_panel(c->ranks, dim);
    pith_crew_relay(c, 0, dim * dim * sizeof(float), (dim + narrow - 1) / narrow);
    pith_crew_share(c, c->ranks - 1, dim * dim * sizeof(float));
}

/* Samples that have been taken before the windows of each rank, and at last all of them. */
static void relay_samples(struct pith_crew *c, const struct pith_job *job, size_t dim)
{
    const size_t most = pith_transform_samples(job), windows = job->calib.windows;
    const size_t tokens = windows * job->calib.length;
    const size_t step = tokens > most ? tokens / most : 1;
    for (unsigned k = 1; k <= c->ranks; k++) {
        const size_t before = pith_ranks_cut(c->ranks, k, windows) * job->calib.length;
        const size_t taken = (before + step - 1) / step;
        const uint64_t bytes = (taken < most ? taken : most) * dim * sizeof(float);
        if (k < c->ranks) pith_crew_pass(c, k, bytes);
        else pith_crew_share(c, k - 1, bytes);
    }
}

/* pith_ranks_agree(), at the start of each unit. */
static void agree(struct pith_crew *c)
{
    enum { SAID = 256 };
    pith_crew_share(c, 0, SAID);
    for (unsigned k = 0; k < c->ranks; k++) pith_crew_share(c, k, 1);
}

/* pith_ranks_digest(), behind each block but the last. */
static void digest(struct pith_crew *c, const struct pith_job *job)
{
    const size_t all = job->calib.windows, n = c->ranks;
    const int streams = job->needs_round & PITH_NEED_DRIFT ? 2 : 1;
    for (int i = 0; i < streams; i++)
        for (size_t k = 0; k < n; k++)
            pith_crew_share(c, (unsigned)k, (all / n + (k < all % n)) * PITH_SHA256_HEX);
}

/* The ends of keys and values, where the cache has scales. */
static void measure_kv(struct pith_crew *c, const struct pith_job *job)
{
    const struct pith_layer_plan *l = pith_job_plan(job, 0);
    if (!pith_inputs_kv_of(job, 0)) return;
    relay_sums(c, l->site[pith_plan_after_attend(l)].dim, PITH_NEED_RANGE);
    for (unsigned k = 0; k < c->ranks; k++)
        pith_crew_share(c, k, 2ull * l->state.heads * sizeof(float));
}

/* --- the steps -------------------------------------------------------------------------------- */

void pith_foresee_site(struct pith_foresee *f, const struct pith_phases *now,
                       const struct pith_site_spec *site)
{
    if (!tells(f)) return;
    const double collecting = take(f, now, PITH_PHASE_COLLECT);
    const double products = take(f, now, PITH_PHASE_HESSIAN);
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = &f->crew[i];
        pith_crew_windows(c, collecting, f->job->calib.windows);
        if (!f->job->needs_round) continue;
        relay_sums(c, site->dim, f->job->needs_round);
        relay_products(c, f->job, site->dim, f->job->needs_round, products);
    }
}

void pith_foresee_factor(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, const struct pith_factor *factor)
{
    if (!tells(f) || !factor) return;
    const double seconds = take(f, now, PITH_PHASE_FACTOR);
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = &f->crew[i];
        pith_ranks_rows(f->job, 0, site, c->ranks, f->first);
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
        struct pith_crew *c = &f->crew[k];
        pith_crew_windows(c, collecting, f->job->calib.windows);
        for (uint32_t i = 0; i < count; i++) {
            const double part = (double)site[i].dim * site[i].dim / squares;
            relay_sums(c, site[i].dim, needs);
            relay_products(c, f->job, site[i].dim, needs, products * part);
            if (needs & PITH_NEED_SAMPLES) relay_samples(c, f->job, site[i].dim);
        }
    }
}

void pith_foresee_windows(struct pith_foresee *f, size_t count, uint64_t bytes)
{
    const size_t all = tells(f) ? f->job->calib.windows : 0;
    for (unsigned k = 0; all && k < PITH_FORESEE_ROWS; k++)
        for (size_t i = 0; i < count; i++) {
            unsigned rank = 0;
            while (pith_ranks_cut(f->crew[k].ranks, rank + 1, all) <= i * all / count) rank++;
            pith_crew_share(&f->crew[k], rank, bytes);
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
        pith_crew_share(c, rank, n * t->each);
        return n;
    }
    for (size_t i = rank; i < t->items; i += c->ranks, n++) pith_crew_share(c, rank, t->each);
    if (t->items == 0) pith_crew_share(c, rank, t->each);
    return n;
}

void pith_foresee_told(void *ctx, const struct pith_searched *t)
{
    struct pith_foresee *f = ctx;
    if (!tells(f)) return;
    f->last.seconds[PITH_PHASE_TRANSFORM] += t->seconds; /* the rest of that phase is repeated */
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = &f->crew[i];
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
        n += pith_job_choice(f->job, 0, site->first + i)->grid.format &&
             pith_rows_owner(f->first + (size_t)i * (ranks + 1), ranks) == PITH_TO_ALL;
    return n;
}

static void round_one(const struct pith_foresee *f, struct pith_crew *c,
                      const struct pith_site_spec *site, uint32_t which, const struct took *t,
                      const struct pith_qmat *q)
{
    const uint32_t *first = f->first + (size_t)which * (c->ranks + 1);
    const unsigned owner = c->ranks == 1 ? 0 : pith_rows_owner(first, c->ranks);
    if (owner != PITH_TO_ALL) {
        pith_crew_work(c, owner, t->round + t->error, t->factor);
        pith_route_foresee(c, owner, q);
        pith_crew_share(c, owner, sizeof(struct pith_linear_result));
        pith_crew_share(c, owner, 2 * sizeof(float));
        return;
    }
    for (unsigned k = 0; k < c->ranks; k++)
        if (first[k] < first[k + 1])
            pith_crew_work(c, k, t->round * (first[k + 1] - first[k]) / q->rows, t->factor);
    pith_cut_foresee(c, q, first, cut_before(f, site, which, c->ranks), t->error);
}

void pith_foresee_linear(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, uint32_t which,
                         const struct pith_qmat *q)
{
    if (!tells(f)) return;
    const struct took t = {take(f, now, PITH_PHASE_FACTOR), take(f, now, PITH_PHASE_ROUND),
                           take(f, now, PITH_PHASE_ERROR)};
    for (unsigned i = 0; i < PITH_FORESEE_ROWS; i++) {
        struct pith_crew *c = &f->crew[i];
        pith_ranks_rows(f->job, 0, site, c->ranks, f->first);
        round_one(f, c, site, which, &t, q);
    }
}

void pith_foresee_meet(struct pith_foresee *f)
{
    for (unsigned i = 0; tells(f) && i < PITH_FORESEE_ROWS; i++) pith_crew_meet(&f->crew[i]);
}

/* What no step has counted. */
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
    double rest = block;
    for (int i = 0; i < PITH_PHASE_COUNT; i++) rest -= now->seconds[i];
    for (size_t i = 0; i < PITH_COUNT(of); i++) {
        const double seconds = take(f, now, of[i].phase);
        for (unsigned k = 0; k < PITH_FORESEE_ROWS; k++)
            if (of[i].part == PITH_CREW_DIVIDED)
                pith_crew_windows(&f->crew[k], seconds, f->job->calib.windows);
            else pith_crew_add(&f->crew[k], of[i].part, seconds);
    }
    for (unsigned k = 0; k < PITH_FORESEE_ROWS; k++) {
        if (rest > 0) pith_crew_add(&f->crew[k], PITH_CREW_REPEATED, rest);
        measure_kv(&f->crew[k], f->job);
        agree(&f->crew[k]);
    }
}

/* --- the report ------------------------------------------------------------------------------- */

struct whole {
    double other, alone; /* seconds before the blocks; of all with one rank */
    uint32_t blocks;
};

/* Of all blocks, as if each were this one, and of what goes before. */
static json_t *received(const struct pith_foresee *f, const struct pith_crew *c,
                        const struct pith_crew *behind, uint32_t blocks)
{
    struct pith_crew before = {.ranks = c->ranks, .cable = c->cable};
    json_t *list = json_array();
    agree(&before);
    digest(&before, f->job);
    for (unsigned k = 0; k < c->ranks; k++)
        pith_json_add(&list,
                      json_integer((json_int_t)(before.received[k] + blocks * c->received[k] +
                                                (blocks - 1) * behind->received[k])));
    return list;
}

static json_t *row(const struct pith_foresee *f, const struct pith_crew *block,
                   const struct whole *w)
{
    struct pith_crew c = *block, behind = {.ranks = c.ranks, .cable = c.cable};
    digest(&behind, f->job);
    json_t *bytes = received(f, &c, &behind, w->blocks);
    for (unsigned k = 0; k < c.ranks; k++) c.received[k] += behind.received[k];
    pith_crew_add(&c, PITH_CREW_LINK, behind.seconds[PITH_CREW_LINK]);
    const double all = w->other + w->blocks * pith_crew_seconds(&c);
    return pith_crew_row(&c, all, all > 0 ? w->alone / all : 1.0, bytes);
}

json_t *pith_foresee_report(struct pith_foresee *f, const struct pith_phases *now, double block,
                            double other)
{
    struct whole w = {.other = other, .blocks = f->job->model->shape.layers};
    json_t *rows = json_array();
    w.alone = other + w.blocks * block;
    if (!f->why) count_rest(f, now, block);
    for (unsigned i = 0; !f->why && i < PITH_FORESEE_ROWS; i++)
        pith_json_add(&rows, row(f, &f->crew[i], &w));
    return json_pack("{s:{s:f, s:f}, s:s?, s:o}", "link", "bits_per_second", f->cable.bits,
                     "delay_seconds", f->cable.delay, "why", f->why, "rows", rows);
}
