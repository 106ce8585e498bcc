/* pith sensitivity: a job of its own that rounds but writes nothing. */
#include "choose/sensitivity.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "choose/candidates.h"
#include "choose/sense.h"
#include "quantize/output/account.h"

#include <math.h>

/* What a change costs while choices are as they are, and what it adds to routers' variances. */
struct cost {
    double kld, sway;
};

/* Of mixtures a row tells what sums over several changes need: see add_routers(). */
static void add_sway(json_t **row, const struct pith_routes *r, uint32_t from, struct cost c)
{
    if (r->routers == 0) return;
    pith_json_set(row, "fixed", json_real(c.kld));
    pith_json_set(row, "sway", json_real(c.sway));
    pith_json_set(row, "from", json_integer((json_int_t)from));
}

static double alone(const struct pith_routes *r, uint32_t from, struct cost c)
{
    return c.kld + pith_routes_kld(r, from, c.sway);
}

/* Each router's curve: what a variance of its margins costs. Changes together cost the sum of their
 * "fixed", and of each router what the sum of the "sway" of those costs whose "from" is not behind
 * it. */
static json_t *routers_of(const struct pith_routes *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->routers; i++) {
        json_t *variance = json_array(), *kld = json_array();
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++) {
            pith_json_add(&variance, json_real(pith_router_variance(k)));
            pith_json_add(&kld, json_real(r->router[i].kld[k]));
        }
        pith_json_add(&list, json_pack("{s:I, s:o, s:o}", "layer", (json_int_t)r->router[i].layer,
                                       "variance", variance, "kld", kld));
    }
    return list;
}

static void add_rows(json_t **rows, const struct pith_job *job, const struct pith_sense *s)
{
    for (size_t i = 0; i < job->choice_count; i++)
        for (size_t g = 0; g < s->grids; g++) {
            const struct pith_sense_cell *cell = pith_sense_at(s, i, g);
            const struct pith_choice *c = &job->choices[i];
            char grid[PITH_GRID_TEXT];
            if (!cell->can) continue;
            pith_grid_format(&s->grid[g], grid);
            const struct cost cost = {cell->kld, cell->sway};
            const uint32_t from = pith_sense_from(s, job, i);
            json_t *row = json_pack("{s:s, s:s, s:s, s:f, s:I, s:f, s:f}", "kind", "weights",
                                    "part", c->module, "grid", grid, "bits",
                                    8.0 * (double)cell->bytes / c->rows / c->cols, "bytes",
                                    (json_int_t)cell->bytes, "kld", alone(&s->routes, from, cost),
                                    "error", cell->error);
            add_sway(&row, &s->routes, from, cost);
            pith_json_add(rows, row);
        }
}

static void add_read(json_t **rows, const struct pith_plans *plans, uint32_t layer,
                     const char *name, json_t *rest)
{
    char part[256];
    pith_plan_name(plans, layer, name, part, sizeof part);
    if (rest && json_object_set_new(rest, "part", json_string(part)) == 0)
        pith_json_add(rows, rest);
    else {
        json_decref(rest);
        pith_json_add(rows, NULL);
    }
}

/* Inputs of a layer's sites: bytes of a token. */
static void add_acts(json_t **rows, const struct pith_plans *plans, const struct pith_sense *s,
                     uint32_t layer)
{
    const struct pith_reads *r = s->reads;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    for (uint32_t i = 0; i < l->sites; i++)
        for (size_t g = 0; g < r->acts_count; g++) {
            const size_t at = pith_reads_site(r, plans, layer, i) + g;
            const uint32_t from = pith_routes_from(&s->routes, plans, layer, l->site[i].first);
            const struct cost c = {r->site[at], r->site_sway ? r->site_sway[at] : 0};
            const double bits = pith_reads_acts_bits(r, g, l->site[i].dim);
            char grid[PITH_GRID_TEXT];
            if (isnan(c.kld)) continue;
            pith_grid_format(&r->acts[g], grid);
            json_t *row = json_pack(
                "{s:s, s:s, s:f, s:I, s:f}", "kind", "acts", "grid", grid, "bits", bits, "bytes",
                (json_int_t)ceil(bits * l->site[i].dim / 8), "kld", alone(&s->routes, from, c));
            add_sway(&row, &s->routes, from, c);
            add_read(rows, plans, layer, l->site[i].name, row);
        }
}

/* Keys and values of a layer: bytes of a position. */
static void add_caches(json_t **rows, const struct pith_plans *plans, const struct pith_sense *of,
                       uint32_t layer)
{
    const struct pith_reads *r = of->reads;
    const struct pith_state_spec *s = &pith_plan(plans, layer)->state;
    const bool latent = s->kind == PITH_STATE_LATENT;
    const uint32_t from = pith_routes_from(&of->routes, plans, layer, PITH_NO_PART);
    for (int values = 0; values < 2; values++)
        for (size_t k = 0; k < r->kv_count; k++) {
            const size_t at = pith_reads_cache(r, layer, values == 1) + k;
            const struct cost c = {r->cache[at], r->cache_sway ? r->cache_sway[at] : 0};
            const double bytes = pith_reads_cache_bytes(r, k, s, values == 1);
            const char *what = latent ? "kv" : values ? "v" : "k";
            const double width = latent ? pith_kv_numbers(s)
                                        : (double)s->heads * (values ? s->value : s->key);
            if (isnan(c.kld)) continue;
            json_t *row = json_pack("{s:s, s:s, s:f, s:I, s:f}", "kind", "cache", "grid",
                                    r->kv_name[k], "bits", 8 * bytes / width, "bytes",
                                    (json_int_t)ceil(bytes), "kld", alone(&of->routes, from, c));
            add_sway(&row, &of->routes, from, c);
            add_read(rows, plans, layer, what, row);
        }
}

static json_t *names_of(const struct pith_reads *r, bool caches)
{
    json_t *names = json_array();
    for (size_t i = 0; i < (caches ? r->kv_count : r->acts_count); i++) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(&r->acts[i], text);
        pith_json_add(&names, json_string(caches ? r->kv_name[i] : text));
    }
    return names;
}

static json_t *report_of(const struct pith_job *job, const struct pith_sense *s)
{
    json_t *rows = json_array(), *grids = json_array();
    for (size_t g = 0; g < s->grids; g++) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(&s->grid[g], text);
        pith_json_add(&grids, json_string(text));
    }
    add_rows(&rows, job, s);
    for (uint32_t i = 0; i < job->model->plans.layers; i++)
        add_caches(&rows, &job->model->plans, s, i);
    for (uint32_t i = 0; i < job->model->plans.layers; i++)
        add_acts(&rows, &job->model->plans, s, i);
    json_t *j =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "model", job->options->model,
                  "round", job->recipe.round->name, "container", job->container->name, "tokens",
                  (json_int_t)(job->calib.windows * job->calib.length), "context",
                  (json_int_t)job->calib.length, "grids", grids, "caches", names_of(s->reads, true),
                  "acts", names_of(s->reads, false), "rows", rows);
    if (s->routes.routers) pith_json_set(&j, "routers", routers_of(&s->routes));
    pith_json_set(&j, "calibration",
                  json_pack("{s:o, s:s, s:o}", "sources", pith_job_sources(job), "sha256",
                            job->calib.sha256, "offsets", pith_job_offsets(&job->calib)));
    return j;
}

static enum pith_status look(struct pith_job *job, struct pith_candidates *t,
                             struct pith_reads *reads, json_t **report, struct pith_error *err)
{
    PITH_TRY(pith_sense_check(job, err));
    PITH_TRY(pith_tries_settle(job, t, err));
    PITH_TRY(pith_dir_make(job->partial, err));
    struct pith_ranks *ranks = pith_sense_shares(job);
    struct pith_sense s = {
        .grid = t->grid, .grids = t->count, .tries = t, .reads = reads, .ranks = ranks};
    enum pith_status r = pith_sense_run(job, job->partial, &s, err);
    if (r == PITH_OK || (pith_ranks_first(ranks) && !pith_sense_is_begun(job->partial)))
        (void)pith_dir_remove(job->partial, NULL);
    if (r == PITH_OK && !(*report = report_of(job, &s))) r = pith_fail_nomem(err, "the report");
    pith_sense_free(&s);
    return r;
}

static enum pith_status open_and_look(struct pith_job *job, const struct pith_sensitivity_wish *w,
                                      json_t **report, struct pith_error *err)
{
    struct pith_candidates t;
    struct pith_reads *reads = pith_zalloc(1, sizeof *reads);
    if (!reads) return pith_fail_nomem(err, "what layers read");
    enum pith_status s = pith_tries_parse(&w->tries, &t, err);
    if (s == PITH_OK) s = pith_reads_acts(reads, &w->acts, err);
    if (s == PITH_OK) s = pith_job_open(job, err);
    if (s == PITH_OK) s = pith_reads_caches(reads, job->model, &w->caches, err);
    struct pith_ranks *all = pith_backend_ranks(job->backend);
    const bool shared = s == PITH_OK && pith_sense_shares(job);
    if (s == PITH_OK && (shared || pith_ranks_first(all))) s = look(job, &t, reads, report, err);
    if (s == PITH_OK && !shared) s = pith_ranks_meet(all, err);
    pith_reads_free(reads);
    pith_free(reads);
    return s;
}

enum pith_status pith_sensitivity_find(struct pith_backend *be,
                                       const struct pith_quantize_options *o,
                                       const struct pith_sensitivity_wish *wish, json_t **report,
                                       struct pith_error *err)
{
    struct pith_job job = {.options = o, .backend = be, .senses = true};
    enum pith_status s = open_and_look(&job, wish, report, err);
    s = pith_checkpoint_settle(job.model ? job.model->checkpoint : NULL, false, s, err);
    pith_job_close(&job);
    s = pith_ranks_fail(pith_backend_ranks(be), s, err);
    if (s == PITH_OK) return s;
    json_decref(*report);
    *report = NULL;
    return s;
}
