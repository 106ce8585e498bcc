/* pith sensitivity: a separate job that rounds but writes nothing. */
#include "choose/sensitivity.h"

#include "base/file.h"
#include "base/mem.h"
#include "choose/candidates.h"
#include "choose/sense.h"
#include "quantize/output/account.h"

#include <math.h>

/* What a change costs while choices are as they are, and what it adds to routers' variances. */
struct cost {
    double kld, sway;
};

/* Of mixtures a row has what sums over several changes need: see set_routers(). */
static void set_sway(struct pith_report *r, const struct pith_routes *routes, uint32_t from,
                     struct cost c)
{
    if (routes->routers == 0) return;
    pith_report_set(r, "fixed", pith_real(c.kld, 6));
    pith_report_set(r, "sway", pith_real(c.sway, 6));
    pith_report_set(r, "from", pith_whole(from));
}

static double alone(const struct pith_routes *r, uint32_t from, struct cost c)
{
    return c.kld + pith_routes_kld(r, from, c.sway);
}

/* Each router's curve: what a variance of its margins costs. Changes together cost the sum of their
 * "fixed", and of each router what the sum of the "sway" of those costs whose "from" is not behind
 * it. */
static void set_routers(struct pith_report *r, const struct pith_routes *routes)
{
    if (routes->routers == 0) return;
    pith_report_list(r, "routers");
    for (uint32_t i = 0; i < routes->routers; i++) {
        pith_report_open(r, "");
        pith_report_set(r, "layer", pith_whole(routes->router[i].layer));
        pith_report_list(r, "variance");
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++)
            pith_report_set(r, "", pith_real(pith_router_variance(k), 6));
        pith_report_close(r);
        pith_report_list(r, "kld");
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++)
            pith_report_set(r, "", pith_real(routes->router[i].kld[k], 6));
        pith_report_close(r);
        pith_report_close(r);
    }
    pith_report_close(r);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Rows of a kind, in JSON and in a table: a line a part, a column a grid. */
struct kind {
    struct pith_report *report;
    const struct pith_routes *routes;
    const char *name;
    struct pith_table table;
    size_t at; /* cells that the line has; 0: it is not begun */
};

static void begin_kind(struct kind *k, const char *first, size_t grids,
                       const char *(*grid)(const struct pith_sense *s, size_t g, char *text),
                       const struct pith_sense *s)
{
    char text[PITH_GRID_TEXT];
    pith_table_column(&k->table, first, NULL, PITH_CELL_TEXT);
    for (size_t g = 0; g < grids; g++) {
        const char *name = grid(s, g, text);
        pith_table_column(&k->table, name, NULL, PITH_CELL_NUMBER);
    }
}

/* The cell of a grid: a part has none where the grid cannot be. */
static void put_cost(struct kind *k, const char *part, size_t g, double kld)
{
    if (k->at == 0) {
        pith_table_row(&k->table);
        pith_table_text(&k->table, part);
        k->at = 1;
    }
    for (; k->at < g + 1; k->at++) pith_table_text(&k->table, "-");
    pith_table_printf(&k->table, "%.4g", 1000 * kld);
    k->at++;
}

static void end_part(struct kind *k)
{
    for (; k->at && k->at < k->table.columns; k->at++) pith_table_text(&k->table, "-");
    k->at = 0;
}

static void end_kind(struct kind *k, const char *title)
{
    struct pith_report *r = k->report;
    if (k->table.rows == 0) {
        if (k->table.failed) r->failed = true;
        pith_table_free(&k->table);
        return;
    }
    pith_report_gap(r);
    pith_report_line(r, &(struct pith_line){0}, "KL x 1000 (nats a token) that each %s", title);
    pith_report_gap(r);
    pith_report_take_table(r, PITH_DETAIL_ANY, &k->table);
}

static const char *weight_name(const struct pith_sense *s, size_t g, char *text)
{
    pith_grid_format(&s->grid[g], text);
    return text;
}

static const char *cache_name(const struct pith_sense *s, size_t g, char *text)
{
    (void)text;
    return s->reads->kv_name[g];
}

static const char *acts_name(const struct pith_sense *s, size_t g, char *text)
{
    pith_grid_format(&s->reads->acts[g], text);
    return text;
}

static void add_linear(struct kind *k, const struct pith_job *job, const struct pith_sense *s,
                       size_t i)
{
    struct pith_report *r = k->report;
    const struct pith_choice *c = &job->choices[i];
    const uint32_t from = pith_sense_from(s, job, i);
    for (size_t g = 0; g < s->grids; g++) {
        const struct pith_sense_cell *cell = pith_sense_at(s, i, g);
        const struct cost cost = {cell->kld, cell->sway};
        char grid[PITH_GRID_TEXT];
        if (!cell->can) continue;
        pith_report_open(r, "");
        pith_report_set(r, "kind", pith_words(k->name));
        pith_report_set(r, "part", pith_words(c->module));
        pith_report_set(r, "grid", pith_words(weight_name(s, g, grid)));
        pith_report_set(r, "bits", pith_real(8.0 * (double)cell->bytes / c->rows / c->cols, 3));
        pith_report_set(r, "bytes", pith_count(cell->bytes));
        pith_report_set(r, "kld", pith_real(alone(k->routes, from, cost), 6));
        pith_report_set(r, "error", pith_real(cell->error, 6));
        set_sway(r, k->routes, from, cost);
        pith_report_close(r);
        put_cost(k, c->module, g, alone(k->routes, from, cost));
    }
    end_part(k);
}

/* What a layer reads, on a grid. */
struct read {
    const char *part, *grid;
    double bits, bytes;
    uint32_t from;
    struct cost cost;
};

static void add_read(struct kind *k, const struct read *x, size_t g)
{
    struct pith_report *r = k->report;
    const double kld = alone(k->routes, x->from, x->cost);
    pith_report_open(r, "");
    pith_report_set(r, "kind", pith_words(k->name));
    pith_report_set(r, "grid", pith_words(x->grid));
    pith_report_set(r, "bits", pith_real(x->bits, 3));
    pith_report_set(r, "bytes", pith_whole((int64_t)ceil(x->bytes)));
    pith_report_set(r, "kld", pith_real(kld, 6));
    set_sway(r, k->routes, x->from, x->cost);
    pith_report_set(r, "part", pith_words(x->part));
    pith_report_close(r);
    put_cost(k, x->part, g, kld);
}

/* Inputs of a layer's sites: bytes of a token. */
static void add_measured_acts(struct kind *k, const struct pith_plans *plans,
                              const struct pith_sense *s, uint32_t layer)
{
    const struct pith_reads *r = s->reads;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    for (uint32_t i = 0; i < l->sites; i++) {
        char part[256], grid[PITH_GRID_TEXT];
        pith_plan_name(plans, layer, l->site[i].name, part, sizeof part);
        for (size_t g = 0; g < r->acts_count; g++) {
            const size_t at = pith_reads_site(r, plans, layer, i) + g;
            const double bits = pith_reads_acts_bits(r, g, l->site[i].dim);
            const struct read x = {
                .part = part,
                .grid = acts_name(s, g, grid),
                .bits = bits,
                .bytes = bits * l->site[i].dim / 8,
                .from = pith_routes_from(&s->routes, plans, layer, l->site[i].first),
                .cost = {r->site[at], r->site_sway ? r->site_sway[at] : 0}};
            if (!isnan(x.cost.kld)) add_read(k, &x, g);
        }
        end_part(k);
    }
}

/* Keys and values of a layer: bytes of a position. */
static void add_measured_caches(struct kind *k, const struct pith_plans *plans,
                                const struct pith_sense *of, uint32_t layer)
{
    const struct pith_reads *r = of->reads;
    const struct pith_state_spec *s = &pith_plan(plans, layer)->state;
    const bool latent = s->kind == PITH_STATE_LATENT;
    for (int values = 0; values < 2; values++) {
        const double width = latent ? pith_kv_numbers(s)
                                    : (double)s->heads * (values ? s->value : s->key);
        char part[256];
        pith_plan_name(plans, layer, latent ? "kv" : values ? "v" : "k", part, sizeof part);
        for (size_t g = 0; g < r->kv_count; g++) {
            const size_t at = pith_reads_cache(r, layer, values == 1) + g;
            const double bytes = pith_reads_cache_bytes(r, g, s, values == 1);
            const struct read x = {
                .part = part,
                .grid = r->kv_name[g],
                .bits = 8 * bytes / width,
                .bytes = bytes,
                .from = pith_routes_from(&of->routes, plans, layer, PITH_NO_PART),
                .cost = {r->cache[at], r->cache_sway ? r->cache_sway[at] : 0}};
            if (!isnan(x.cost.kld)) add_read(k, &x, g);
        }
        end_part(k);
    }
}

static void add_rows(struct pith_report *r, const struct pith_job *job, const struct pith_sense *s)
{
    const struct pith_plans *plans = &job->model->plans;
    struct kind weights = {.report = r, .routes = &s->routes, .name = "weights"},
                cache = {.report = r, .routes = &s->routes, .name = "cache"},
                acts = {.report = r, .routes = &s->routes, .name = "acts"};
    pith_report_list(r, "rows");
    begin_kind(&weights, "linear", s->grids, weight_name, s);
    for (size_t i = 0; i < job->choice_count; i++) add_linear(&weights, job, s, i);
    end_kind(&weights, "linear alone adds on each grid");
    begin_kind(&cache, "cache", s->reads->kv_count, cache_name, s);
    for (uint32_t i = 0; i < plans->layers; i++) add_measured_caches(&cache, plans, s, i);
    end_kind(&cache, "layer's keys or values alone add in each format");
    begin_kind(&acts, "input", s->reads->acts_count, acts_name, s);
    for (uint32_t i = 0; i < plans->layers; i++) add_measured_acts(&acts, plans, s, i);
    end_kind(&acts, "input of linears alone adds on each grid");
    pith_report_close(r);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void set_names(struct pith_report *r, const char *key, size_t count,
                      const char *(*grid)(const struct pith_sense *s, size_t g, char *text),
                      const struct pith_sense *s)
{
    char text[PITH_GRID_TEXT];
    pith_report_list(r, key);
    for (size_t g = 0; g < count; g++) pith_report_set(r, "", pith_words(grid(s, g, text)));
    pith_report_close(r);
}

static struct pith_report *report_of(const struct pith_job *job, const struct pith_sense *s)
{
    const size_t length = job->calib.length, tokens = job->calib.windows * length;
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_report_paged(r, pith_page_sensitivity);
    pith_report_set(r, "model", pith_words(job->options->model));
    pith_report_set(r, "round", pith_words(job->recipe.round->name));
    pith_report_set(r, "container", pith_words(job->container->name));
    pith_report_set(r, "tokens", pith_count(tokens));
    pith_report_set(r, "context", pith_count(length));
    pith_report_line(r, &(struct pith_line){0},
                     "predicted on %zu tokens in windows of %zu; linears are rounded by %s", tokens,
                     length, job->recipe.round->name);
    set_names(r, "grids", s->grids, weight_name, s);
    set_names(r, "caches", s->reads->kv_count, cache_name, s);
    set_names(r, "acts", s->reads->acts_count, acts_name, s);
    add_rows(r, job, s);
    set_routers(r, &s->routes);
    pith_report_open(r, "calibration");
    pith_report_set(r, "sources", pith_tree(pith_job_sources(job)));
    pith_report_set(r, "sha256", pith_words(job->calib.sha256));
    pith_report_set(r, "offsets", pith_tree(pith_job_offsets(&job->calib)));
    pith_report_close(r);
    return r;
}

static enum pith_status look(struct pith_job *job, struct pith_candidates *t,
                             struct pith_reads *reads, struct pith_report **report,
                             struct pith_error *err)
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
                                      struct pith_report **report, struct pith_error *err)
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
                                       const struct pith_sensitivity_wish *wish,
                                       struct pith_report **report, struct pith_error *err)
{
    struct pith_job job = {.options = o, .backend = be, .senses = true};
    enum pith_status s = open_and_look(&job, wish, report, err);
    s = pith_checkpoint_settle(job.model ? job.model->checkpoint : NULL, false, s, err);
    pith_job_close(&job);
    s = pith_ranks_fail(pith_backend_ranks(be), s, err);
    if (s == PITH_OK) return s;
    pith_report_free(report);
    return s;
}
