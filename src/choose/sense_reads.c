#include "choose/sense_reads.h"

#include "base/mem.h"
#include "base/str.h"
#include "num/hadamard.h"
#include "num/input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pith_read_work {
    const struct pith_job *job;
    uint32_t layer;
    double tokens;
    struct pith_input *input; /* [most sites][acts]: with its scale where that is static */
    float *rows;              /* [threads][2][widest] */
    double *channel;          /* [threads][widest] */
    size_t widest;
    /* Of the read at hand. */
    const struct pith_tape_read *read;
    double *to; /* [tasks] */
};

/* --- the request ------------------------------------------------------------------------------ */

/* The grids of inputs that are tried where nobody names any. */
static const char *const usual_acts[] = {"int8:token", "fp8_e4m3:token", "mxfp8", "mxfp6_e2m3",
                                         "int4:token", "mxfp4",          "nvfp4"};

static enum pith_status add_acts(struct pith_reads *r, const char *text, struct pith_error *err)
{
    if (strcmp(text, "none") == 0) return PITH_OK;
    if (r->acts_count == PITH_READ_TRIES)
        return pith_fail(err, PITH_LIMIT, "`acts`: at most %d grids", PITH_READ_TRIES);
    struct pith_grid *g = &r->acts[r->acts_count];
    PITH_TRY(pith_grid_parse(text, g, err));
    if (!g->format) return pith_fail(err, PITH_ARG, "`acts` %s: no grid", text);
    /* NVFP4's scale of the tensor is always fixed beforehand. */
    if (strcmp(g->format->name, "nvfp4") == 0) g->is_static = true;
    const struct pith_input in = {.grid = *g, .scale = 1.0f};
    PITH_TRY(pith_input_check(&in, g->group > 0 ? g->group : 32, err));
    r->acts_count++;
    return PITH_OK;
}

enum pith_status pith_reads_acts(struct pith_reads *r, const struct pith_list *texts,
                                 struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(usual_acts) && !texts->count; i++)
        PITH_TRY(add_acts(r, usual_acts[i], err));
    for (size_t i = 0; i < texts->count; i++)
        for (const char *at = texts->item[i]; *at;) {
            const size_t n = strcspn(at, ",");
            char one[PITH_GRID_TEXT];
            if (n >= sizeof one)
                return pith_fail(err, PITH_ARG, "`acts` %s: no such grid", texts->item[i]);
            memcpy(one, at, n);
            one[n] = '\0';
            if (n) PITH_TRY(add_acts(r, one, err));
            at += n + (at[n] == ',');
        }
    return PITH_OK;
}

/* What depends on a query's position, or is stored next to codes, is not predicted. */
static enum pith_status add_kv(struct pith_reads *r, const struct pith_model *m, const char *name,
                               struct pith_error *err)
{
    if (strcmp(name, "none") == 0) return PITH_OK;
    if (r->kv_count == PITH_READ_TRIES)
        return pith_fail(err, PITH_LIMIT, "`caches`: at most %d caches", PITH_READ_TRIES);
    struct pith_kv_format *f = &r->kv[r->kv_count];
    PITH_TRY(pith_kv_parse(name, PITH_F32, m, f, err));
    if ((pith_kv_needs(&f->k) | pith_kv_needs(&f->v)) & PITH_KV_LEVELS)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`caches` %s: what levels cost is not predicted; pith eval measures it",
                         name);
    if (f->sink || f->recent)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`caches` %s: what positions in floats gain is not predicted; pith eval"
                         " measures it",
                         name);
    pith_kv_name(f, r->kv_name[r->kv_count++]);
    return PITH_OK;
}

static bool keeps_any(const struct pith_model *m)
{
    for (uint32_t i = 0; i < m->plans.kinds; i++) {
        const enum pith_state_kind kind = m->plans.kind[i].state.kind;
        if (kind == PITH_STATE_KV || kind == PITH_STATE_LATENT) return true;
    }
    return false;
}

enum pith_status pith_reads_caches(struct pith_reads *r, const struct pith_model *m,
                                   const struct pith_list *names, struct pith_error *err)
{
    for (size_t i = 0; i < names->count; i++) PITH_TRY(add_kv(r, m, names->item[i], err));
    for (size_t i = 0; i < PITH_KV_CANDIDATES && !names->count && keeps_any(m); i++) {
        const struct pith_kv_row *row = pith_kv_candidate(i);
        const char *const usual[] = {row->name, row->unrotated};
        for (size_t k = 0; k < PITH_COUNT(usual) && usual[k]; k++) {
            struct pith_error ignored = {0};
            if (add_kv(r, m, usual[k], &ignored) != PITH_OK) continue;
            if (pith_kv_by_page(&r->kv[r->kv_count - 1].k)) r->kv_count--;
            break;
        }
    }
    return PITH_OK;
}

/* --- room ------------------------------------------------------------------------------------- */

static size_t widest_of(const struct pith_plans *p)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->kinds; i++) {
        const struct pith_state_spec *s = &p->kind[i].state;
        const size_t cached = (size_t)s->heads * (s->key > s->value ? s->key : s->value);
        most = cached > most ? cached : most;
        for (uint32_t k = 0; k < p->kind[i].sites; k++)
            if (p->kind[i].site[k].dim > most) most = p->kind[i].site[k].dim;
    }
    return most;
}

uint64_t pith_reads_bytes(const struct pith_reads *r, const struct pith_model *m, unsigned threads)
{
    const uint64_t found = (uint64_t)m->plans.layers *
                           (m->plans.most_sites * r->acts_count + 2 * r->kv_count);
    return (m->plans.experts ? 2 : 1) * found * sizeof(double) +
           (uint64_t)threads * widest_of(&m->plans) * (2 * sizeof(float) + sizeof(double)) +
           m->plans.most_sites * r->acts_count * sizeof(struct pith_input);
}

static double *take_unknown(size_t count)
{
    double *x = pith_alloc(count + 1, sizeof *x);
    for (size_t i = 0; x && i < count; i++) x[i] = (double)NAN;
    return x;
}

enum pith_status pith_reads_open(struct pith_reads *r, const struct pith_job *job,
                                 struct pith_error *err)
{
    const struct pith_plans *p = &job->model->plans;
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    const size_t sites = (size_t)p->layers * p->most_sites * r->acts_count;
    const size_t caches = 2 * (size_t)p->layers * r->kv_count;
    struct pith_read_work *w = pith_zalloc(1, sizeof *w);
    r->work = w;
    r->site = take_unknown(sites);
    r->cache = take_unknown(caches);
    if (p->experts) r->site_sway = take_unknown(sites);
    if (p->experts) r->cache_sway = take_unknown(caches);
    if (!w || !r->site || !r->cache || (p->experts && (!r->site_sway || !r->cache_sway)))
        return pith_fail_nomem(err, "what layers read");
    w->job = job;
    w->tokens = (double)job->calib.windows * (double)job->calib.length;
    w->widest = widest_of(p);
    w->input = pith_zalloc((size_t)p->most_sites * r->acts_count + 1, sizeof *w->input);
    w->rows = pith_alloc(2 * threads * w->widest, sizeof *w->rows);
    w->channel = pith_alloc(threads * w->widest, sizeof *w->channel);
    return w->input && w->rows && w->channel ? PITH_OK : pith_fail_nomem(err, "what layers read");
}

void pith_reads_free(struct pith_reads *r)
{
    if (r->work) {
        pith_free(r->work->input);
        pith_free(r->work->rows);
        pith_free(r->work->channel);
    }
    pith_free(r->work);
    pith_free(r->site);
    pith_free(r->cache);
    pith_free(r->site_sway);
    pith_free(r->cache_sway);
    r->work = NULL;
    r->site = r->cache = r->site_sway = r->cache_sway = NULL;
}

unsigned pith_reads_needs(const struct pith_reads *r)
{
    for (size_t i = 0; i < r->acts_count; i++)
        if (pith_input_needs_scale(&(struct pith_input){.grid = r->acts[i]}))
            return PITH_NEED_RANGE;
    return 0;
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* A site is measured only when a rounded linear reads it. */
static bool is_rounded(const struct pith_layer_plan *l, const struct pith_site_spec *site)
{
    for (uint32_t i = 0; i < site->count; i++)
        if (!l->linear[site->first + i].stays) return true;
    return false;
}

void pith_reads_begin(struct pith_reads *r, uint32_t layer)
{
    struct pith_read_work *w = r->work;
    const struct pith_plans *plans = &w->job->model->plans;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    w->layer = layer;
    for (uint32_t s = 0; s < l->sites; s++)
        for (size_t g = 0; g < r->acts_count; g++) {
            struct pith_input *in = &w->input[s * r->acts_count + g];
            struct pith_error ignored = {0};
            *in = (struct pith_input){
                .grid = r->acts[g], .scale = 1.0f, .rule = w->job->container->input_rule};
            const bool can = is_rounded(l, &l->site[s]) &&
                             pith_input_check(in, l->site[s].dim, &ignored) == PITH_OK;
            const size_t at = pith_reads_site(r, plans, layer, s) + g;
            r->site[at] = can ? 0 : (double)NAN;
            if (r->site_sway) r->site_sway[at] = r->site[at];
        }
    for (size_t k = 0; k < 2 * r->kv_count; k++) {
        const size_t at = pith_reads_cache(r, layer, false) + k;
        r->cache[at] = (double)NAN;
        if (r->cache_sway) r->cache_sway[at] = (double)NAN;
    }
}

void pith_reads_range(struct pith_reads *r, uint32_t site, const struct pith_stats *stats)
{
    float lo = 0.0f, hi = 0.0f;
    for (uint32_t i = 0; stats->lo && i < stats->dim; i++) {
        lo = fminf(lo, stats->lo[i]);
        hi = fmaxf(hi, stats->hi[i]);
    }
    for (size_t g = 0; g < r->acts_count; g++) {
        struct pith_input *in = &r->work->input[site * r->acts_count + g];
        if (pith_input_needs_scale(in)) pith_input_calibrate(in, lo, hi);
    }
}

static void scale(double *x, size_t count, double over)
{
    for (size_t i = 0; x && i < count; i++) x[i] /= over;
}

/* The routers behind a site, or behind what attention keeps, share what was found. */
static double routers_behind(const struct pith_reads *r, const struct pith_routes *routes,
                             const struct pith_site_spec *site)
{
    const struct pith_plans *p = &r->work->job->model->plans;
    const uint32_t from =
        pith_routes_from(routes, p, r->work->layer, site ? site->first : PITH_NO_PART);
    return from < routes->routers ? routes->routers - from : 1;
}

void pith_reads_end(struct pith_reads *r, const struct pith_routes *routes)
{
    const struct pith_read_work *w = r->work;
    const struct pith_plans *plans = &w->job->model->plans;
    const struct pith_layer_plan *l = pith_plan(plans, w->layer);
    const size_t site = pith_reads_site(r, plans, w->layer, 0);
    const size_t cache = pith_reads_cache(r, w->layer, false);
    scale(r->site + site, plans->most_sites * r->acts_count, 2 * w->tokens);
    scale(r->cache + cache, 2 * r->kv_count, 2 * w->tokens);
    if (!r->site_sway) return;
    for (uint32_t i = 0; i < l->sites; i++)
        scale(r->site_sway + site + i * r->acts_count, r->acts_count,
              w->tokens * routers_behind(r, routes, &l->site[i]));
    scale(r->cache_sway + cache, 2 * r->kv_count, w->tokens * routers_behind(r, routes, NULL));
}

/* --- between ranks ---------------------------------------------------------------------------- */

size_t pith_reads_count(const struct pith_reads *r)
{
    const size_t one = r->work->job->model->plans.most_sites * r->acts_count + 2 * r->kv_count;
    return r->site_sway ? 2 * one : one;
}

/* The parts of a layer's numbers, one after the other: to `out`, or from `in`. */
static void each_part(const struct pith_reads *r, double *out, const double *in)
{
    const struct pith_read_work *w = r->work;
    const struct pith_plans *plans = &w->job->model->plans;
    const size_t site = pith_reads_site(r, plans, w->layer, 0);
    const size_t cache = pith_reads_cache(r, w->layer, false);
    const size_t sites = plans->most_sites * r->acts_count, caches = 2 * r->kv_count;
    const struct {
        double *of;
        size_t count;
    } part[] = {{r->site + site, sites},
                {r->cache + cache, caches},
                {r->site_sway ? r->site_sway + site : NULL, sites},
                {r->site_sway ? r->cache_sway + cache : NULL, caches}};
    size_t at = 0;
    for (size_t i = 0; i < PITH_COUNT(part) && part[i].of; at += part[i].count, i++)
        if (in) memcpy(part[i].of, in + at, part[i].count * sizeof *in);
        else memcpy(out + at, part[i].of, part[i].count * sizeof *out);
}

void pith_reads_take(const struct pith_reads *r, double *out)
{
    each_part(r, out, NULL);
}

void pith_reads_put(struct pith_reads *r, const double *in)
{
    each_part(r, NULL, in);
}

void pith_reads_add(const double *begun, const double *one, size_t count, double *sum)
{
    for (size_t i = 0; i < count; i++)
        sum[i] = (isnan(begun[i]) && isnan(sum[i]) ? 0 : sum[i]) + one[i];
}

enum pith_status pith_reads_share_range(struct pith_reads *r, uint32_t site,
                                        struct pith_ranks *ranks, unsigned from,
                                        struct pith_error *err)
{
    for (size_t g = 0; g < r->acts_count; g++) {
        struct pith_input *in = &r->work->input[site * r->acts_count + g];
        float of[2] = {in->scale, in->zero};
        PITH_TRY(pith_ranks_share(ranks, from, of, sizeof of, err));
        in->scale = of[0];
        in->zero = of[1];
    }
    return PITH_OK;
}

/* --- what is felt ----------------------------------------------------------------------------- */

/* Adds a row's errors y - x times its gradient to the channels. */
static void add_row(double *channel, const float *x, const float *y, const float *d, size_t n)
{
    for (size_t c = 0; c < n; c++) channel[c] += ((double)y[c] - (double)x[c]) * (double)d[c];
}

static double squares_of(const double *channel, size_t n)
{
    double sum = 0;
    for (size_t c = 0; c < n; c++) sum += channel[c] * channel[c];
    return sum;
}

/* A site's input on one grid. */
static void feel_acts(void *ctx, size_t grid, unsigned thread)
{
    const struct pith_reads *r = ctx;
    const struct pith_read_work *w = r->work;
    const struct pith_tape_read *read = w->read;
    const struct pith_input *in = &w->input[read->site * r->acts_count + grid];
    double *channel = w->channel + thread * w->widest;
    float *y = w->rows + 2 * (size_t)thread * w->widest;
    struct pith_input_call call = {0};
    if (isnan(w->to[grid])) return;
    memset(channel, 0, read->width * sizeof *channel);
    if (pith_input_surveys(in)) pith_input_survey(in, read->x, read->n, read->width, &call, NULL);
    for (size_t i = 0; i < read->n; i++) {
        const float *x = read->x + i * read->width;
        pith_input_row(in, &call, x, read->width, y);
        add_row(channel, x, y, read->d + i * read->width, read->width);
    }
    w->to[grid] += squares_of(channel, read->width);
}

/* A head of a token as a cache gives it back. */
static void keep_head(const struct pith_row_code *code, const float *x, float *y)
{
    uint8_t codes[PITH_CODED];
    struct pith_row_scale of[PITH_CODED];
    pith_row_encode(code, 1.0f, x, codes, of);
    pith_row_decode(code, codes, of, y);
}

/* Keys or values, or latents, whose first columns alone are codes, in one format. */
static void feel_cache(void *ctx, size_t kv, unsigned thread)
{
    const struct pith_reads *r = ctx;
    const struct pith_read_work *w = r->work;
    const struct pith_tape_read *read = w->read;
    const struct pith_state_spec *s = &pith_plan(&w->job->model->plans, w->layer)->state;
    const bool keys = read->what == PITH_READ_KEYS, latent = read->what == PITH_READ_LATENT;
    const struct pith_kv_part *part = keys || latent ? &r->kv[kv].k : &r->kv[kv].v;
    const size_t head = keys ? s->key : s->value, stride = keys || latent ? s->key : s->value;
    double *channel = w->channel + thread * w->widest;
    float level[PITH_ROW_LEVELS], y[PITH_CODED];
    float *x = w->rows + 2 * (size_t)thread * w->widest, *d = x + w->widest;
    struct pith_row_code code;
    struct pith_error ignored = {0};
    if (!pith_kv_coded(part) || part->offset || ((keys || latent) && pith_kv_by_page(part))) return;
    if (pith_kv_code(part, keys, (uint32_t)head, level, &code, &ignored) != PITH_OK) return;
    memset(channel, 0, s->heads * head * sizeof *channel);
    for (size_t i = 0; i < read->n; i++)
        for (size_t h = 0; h < s->heads; h++) {
            const size_t at = i * read->width + h * stride;
            memcpy(x, read->x + at, head * sizeof *x);
            memcpy(d, read->d + at, head * sizeof *d);
            if (part->rotate) pith_hadamard_rows(x, 1, head, (uint32_t)head);
            if (part->rotate) pith_hadamard_rows(d, 1, head, (uint32_t)head);
            keep_head(&code, x, y);
            add_row(channel + h * head, x, y, d, head);
        }
    w->to[kv] = (isnan(w->to[kv]) ? 0 : w->to[kv]) + squares_of(channel, s->heads * head);
}

/* Of layers that read another's rows, or whose rows others read, only the effect on this one would
 * be measured: they are omitted. */
static bool shares(const struct pith_plans *p, uint32_t layer)
{
    for (uint32_t i = 0; i < p->layers; i++)
        if (i != layer && pith_plan_rows_of(p, i) == layer) return true;
    return pith_plan_rows_of(p, layer) != layer;
}

void pith_reads_seen(void *ctx, const struct pith_tape_read *read)
{
    struct pith_reads *r = ctx;
    struct pith_read_work *w = r->work;
    const struct pith_plans *plans = &w->job->model->plans;
    const bool site = read->what == PITH_READ_SITE;
    if (!site && shares(plans, w->layer)) return;
    w->read = read;
    if (site)
        w->to = (r->swaying ? r->site_sway : r->site) +
                pith_reads_site(r, plans, w->layer, read->site);
    else
        w->to = (r->swaying ? r->cache_sway : r->cache) +
                pith_reads_cache(r, w->layer, read->what == PITH_READ_VALUES);
    pith_pool_run(pith_backend_pool(w->job->backend), site ? r->acts_count : r->kv_count,
                  site ? feel_acts : feel_cache, r);
}

/* --- sizes ------------------------------------------------------------------------------------ */

double pith_reads_acts_bits(const struct pith_reads *r, size_t grid, uint32_t width)
{
    const struct pith_grid *g = &r->acts[grid];
    float level[PITH_ROW_LEVELS];
    struct pith_row_code code;
    struct pith_error ignored = {0};
    if (g->granularity == PITH_PER_TENSOR || width > PITH_CODED ||
        pith_row_code_make(g, width, level, &code, &ignored) != PITH_OK)
        return pith_format_bits(g->format);
    return (double)code.bits + 8.0 * code.groups * pith_row_group_bytes(&code) / width;
}

double pith_reads_cache_bytes(const struct pith_reads *r, size_t kv,
                              const struct pith_state_spec *s, bool values)
{
    const struct pith_kv_format plain = pith_kv_floats(PITH_F32);
    struct pith_kv_format f = plain;
    if (s->kind == PITH_STATE_LATENT) return pith_kv_position_bytes(&r->kv[kv], s);
    if (values) f.v = r->kv[kv].v;
    else f.k = r->kv[kv].k;
    return pith_kv_position_bytes(&f, s) -
           sizeof(float) * s->heads * (double)(values ? s->key : s->value);
}
