/* What ranks do together on a pass of choose/sense.h. */
#include "choose/sense_pass.h"

#include "base/mem.h"
#include "quantize/ranks/ranks.h"

#include <stdio.h>
#include <string.h>

struct pith_ranks *pith_sense_shares(const struct pith_job *job)
{
    struct pith_ranks *ranks = pith_backend_ranks(job->backend);
    return pith_ranks_alone(ranks) ? NULL : ranks;
}

/* --- room ------------------------------------------------------------------------------------- */

/* A file of this rank's, gone when the rank is. */
static enum pith_status open_own(const struct pith_sense_spread *s, const char *name,
                                 uint64_t bytes, struct pith_scratch_file *f,
                                 struct pith_error *err)
{
    char own[64];
    (void)snprintf(own, sizeof own, "pith.sense.%s.%u", name, pith_ranks_own(s->ranks));
    char *path = pith_path_join(s->folder, own);
    enum pith_status r = path ? pith_scratch_file_open(path, bytes ? bytes : 1, f, err)
                              : pith_fail_nomem(err, name);
    if (r == PITH_OK) r = pith_unlink(path, err);
    pith_free(path);
    return r;
}

static enum pith_status make_room(void *ctx, size_t floats, float **out, struct pith_error *err)
{
    struct pith_sense_spread *s = ctx;
    pith_scratch_file_close(&s->sent);
    PITH_TRY(open_own(s, "sent", floats * sizeof **out, &s->sent, err));
    *out = s->sent.data;
    return PITH_OK;
}

/* What the widest site reads, or with a transform all sites of a layer; and a layer's rows. */
static size_t widest_part(const struct pith_job *job, size_t *rows)
{
    const struct pith_plans *plans = &job->model->plans;
    size_t most = 0;
    *rows = 0;
    for (uint32_t k = 0; k < plans->kinds; k++) {
        const struct pith_layer_plan *l = &plans->kind[k];
        size_t sum = 0, widest = 0, all = 0;
        for (uint32_t i = 0; i < l->sites; i++) {
            sum += l->site[i].dim;
            widest = l->site[i].dim > widest ? l->site[i].dim : widest;
        }
        for (uint32_t i = 0; i < l->linears; i++) all += l->linear[i].rows;
        const size_t width = job->needs_transform ? sum : widest;
        most = width > most ? width : most;
        *rows = all > *rows ? all : *rows;
    }
    return most;
}

static enum pith_status open_logs(struct pith_sense_pass *p, struct pith_error *err)
{
    struct pith_sense_spread *s = &p->spread;
    const size_t reads = p->s->reads ? pith_reads_count(p->s->reads) : 0;
    const uint64_t dots = 2ull * p->windows * s->most_rows * p->s->grids * sizeof *s->dots;
    PITH_TRY(open_own(s, "dots", dots, &s->dots_file, err));
    s->dots = s->dots_file.data;
    if (p->sways) {
        const uint64_t window = 2ull * p->length * PITH_ROUTER_POINTS * sizeof *s->routes;
        PITH_TRY(open_own(s, "routes", p->windows * window, &s->routes_file, err));
        s->routes = s->routes_file.data;
    }
    if (p->s->guide && p->s->guide->block) {
        const uint64_t pairs = pith_pairs_floats(p->s->guide, p->windows * p->length);
        PITH_TRY(open_own(s, "pairs", pairs * sizeof(float), &s->pairs_file, err));
        s->pairs = (struct pith_pairs){.room = s->pairs_file.data, .floats = pairs};
        s->guide = p->s->guide;
        s->guide->pairs = &s->pairs;
    }
    s->reads = pith_zalloc((p->windows + 2) * reads + 1, sizeof *s->reads);
    return s->reads ? PITH_OK : pith_fail_nomem(err, "what layers read");
}

enum pith_status pith_sense_spread_open(struct pith_sense_pass *p, const char *folder,
                                        struct pith_error *err)
{
    struct pith_sense_spread *s = &p->spread;
    if (pith_ranks_alone(p->s->ranks)) return PITH_OK;
    *s = (struct pith_sense_spread){.ranks = p->s->ranks, .folder = pith_strdup(folder)};
    if (!s->folder) return pith_fail_nomem(err, folder);
    const size_t width = widest_part(p->job, &s->most_rows);
    PITH_TRY(open_own(s, "sites", p->windows * p->length * (uint64_t)width * sizeof(float),
                      &s->sites, err));
    p->collector.relay = (struct pith_relay){
        .ranks = s->ranks, .rows = s->sites.data, .width = width, .room = make_room, .room_ctx = s};
    return open_logs(p, err);
}

void pith_sense_spread_close(struct pith_sense_spread *s)
{
    pith_scratch_file_close(&s->sites);
    pith_scratch_file_close(&s->sent);
    pith_scratch_file_close(&s->dots_file);
    pith_scratch_file_close(&s->routes_file);
    pith_scratch_file_close(&s->pairs_file);
    pith_pairs_free(&s->pairs);
    if (s->guide) s->guide->pairs = NULL;
    pith_free(s->reads);
    pith_free(s->folder);
    s->reads = NULL;
    s->folder = NULL;
}

/* --- what windows give ------------------------------------------------------------------------ */

static float *dots_of(const struct pith_sense_pass *p, size_t window, bool swaying,
                      const struct pith_felt *f)
{
    const struct pith_sense_spread *s = &p->spread;
    return s->dots + ((2 * window + swaying) * s->most_rows + f->row) * p->s->grids;
}

static double *routes_of(const struct pith_sense_pass *p, size_t window, bool swaying)
{
    return p->spread.routes + (2 * window + swaying) * p->length * PITH_ROUTER_POINTS;
}

/* Numbers of a window; `windows` of them: what a layer begins with, then the sum. */
static double *reads_of(const struct pith_sense_pass *p, size_t window)
{
    return p->spread.reads + window * pith_reads_count(p->s->reads);
}

void pith_sense_spread_begin(struct pith_sense_pass *p, bool last)
{
    if (p->spread.ranks && p->s->reads && last)
        pith_reads_take(p->s->reads, reads_of(p, p->windows));
}

void pith_sense_spread_window(struct pith_sense_pass *p, size_t window)
{
    const struct pith_sense_spread *s = &p->spread;
    if (!s->ranks) return;
    p->at = window;
    if (p->s->reads && !p->swaying) pith_reads_put(p->s->reads, reads_of(p, p->windows));
    if (!s->routes) return;
    p->routing.log = routes_of(p, window, p->swaying);
    memset(p->routing.log, 0, p->length * PITH_ROUTER_POINTS * sizeof *p->routing.log);
}

void pith_sense_spread_keep(struct pith_sense_pass *p, size_t window, bool last)
{
    if (p->spread.ranks && p->s->reads && last) pith_reads_take(p->s->reads, reads_of(p, window));
}

float *pith_sense_spread_dots(const struct pith_sense_pass *p, const struct pith_felt *f)
{
    return p->spread.ranks ? dots_of(p, p->at, p->swaying, f) : NULL;
}

/* --- sums ------------------------------------------------------------------------------------- */

static void add_dots(const struct pith_sense_pass *p, const struct pith_felt *f, bool swaying)
{
    const size_t count = (size_t)f->rows * p->s->grids;
    double *square = swaying ? f->sway : f->square;
    for (size_t w = 0; w < p->windows; w++) {
        const float *dot = dots_of(p, w, swaying, f);
        for (size_t i = 0; i < count; i++) square[i] += (double)dot[i] * (double)dot[i];
    }
}

static enum pith_status relay_felt(const struct pith_sense_pass *p, const struct pith_felt *f,
                                   bool sways, struct pith_error *err)
{
    const size_t bytes = 2 * (size_t)f->rows * p->s->grids * sizeof *f->square;
    PITH_TRY(pith_relay_pass(p->spread.ranks, PITH_RELAY_RECEIVE, f->square, bytes, err));
    add_dots(p, f, false);
    if (sways) add_dots(p, f, true);
    return pith_relay_pass(p->spread.ranks, PITH_RELAY_SEND, f->square, bytes, err);
}

static void add_routes(const struct pith_sense_pass *p, size_t window, bool swaying, double *kld)
{
    const double *log = routes_of(p, window, swaying);
    for (size_t i = 0; i < p->length; i++)
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++) kld[k] += log[i * PITH_ROUTER_POINTS + k];
}

static enum pith_status relay_curve(const struct pith_sense_pass *p, bool sways,
                                    struct pith_error *err)
{
    struct pith_ranks *ranks = p->spread.ranks;
    double *kld = p->routing.curve->kld;
    const size_t bytes = sizeof p->routing.curve->kld;
    PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_RECEIVE, kld, bytes, err));
    for (size_t w = 0; w < p->windows; w++) {
        add_routes(p, w, false, kld);
        if (sways) add_routes(p, w, true, kld);
    }
    PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_SEND, kld, bytes, err));
    return pith_relay_pass(ranks, PITH_RELAY_SHARE, kld, bytes, err);
}

static enum pith_status relay_reads(const struct pith_sense_pass *p, struct pith_error *err)
{
    struct pith_ranks *ranks = p->spread.ranks;
    const size_t count = pith_reads_count(p->s->reads), bytes = count * sizeof(double);
    const double *begun = reads_of(p, p->windows);
    double *sum = reads_of(p, p->windows + 1);
    memcpy(sum, begun, bytes);
    PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_RECEIVE, sum, bytes, err));
    for (size_t w = 0; w < p->windows; w++) pith_reads_add(begun, reads_of(p, w), count, sum);
    PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_SEND, sum, bytes, err));
    PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_SHARE, sum, bytes, err));
    pith_reads_put(p->s->reads, sum);
    return PITH_OK;
}

enum pith_status pith_sense_spread_meet(struct pith_sense_pass *p, bool last, bool sways,
                                        struct pith_error *err)
{
    if (!p->spread.ranks) return PITH_OK;
    for (size_t i = 0; i < p->felts; i++) PITH_TRY(relay_felt(p, &p->felt[i], sways, err));
    for (size_t i = 0; i < p->felts; i++)
        PITH_TRY(pith_relay_pass(
            p->spread.ranks, PITH_RELAY_SHARE, p->felt[i].square,
            2 * (size_t)p->felt[i].rows * p->s->grids * sizeof *p->felt[i].square, err));
    if (p->routing.curve) PITH_TRY(relay_curve(p, sways, err));
    return p->s->reads && last ? relay_reads(p, err) : PITH_OK;
}

/* --- rounding --------------------------------------------------------------------------------- */

unsigned pith_sense_owner(const struct pith_sense_pass *p, const struct pith_felt *f, size_t grid)
{
    const uint32_t expert = p->block.plan->linear[f->linear].expert;
    if (expert != PITH_NO_PART) return pith_relay_owner(&p->collector.relay, expert);
    return (unsigned)((f->choice * p->s->grids + grid) % pith_ranks_count(p->s->ranks));
}

enum pith_status pith_sense_hand_round(const struct pith_sense_pass *p, const struct pith_felt *f,
                                       struct pith_error *err)
{
    struct pith_ranks *ranks = p->s->ranks;
    const size_t cols = f->cols, stride = p->s->grids * cols;
    if (pith_ranks_alone(ranks)) return PITH_OK;
    float *packed = pith_alloc_aligned(f->rows * cols, sizeof *packed);
    enum pith_status s = packed ? PITH_OK : pith_fail_nomem(err, "a matrix");
    for (size_t g = 0; g < p->s->grids && s == PITH_OK; g++) {
        struct pith_sense_cell *cell = pith_sense_at(p->s, f->choice, g);
        const unsigned owner = pith_sense_owner(p, f, g);
        float *error = f->error + g * cols;
        if (!cell->can) continue;
        for (uint32_t r = 0; r < f->rows; r++)
            memcpy(packed + r * cols, error + r * stride, cols * sizeof *packed);
        s = pith_ranks_share(ranks, owner, packed, f->rows * cols * sizeof *packed, err);
        for (uint32_t r = 0; r < f->rows; r++)
            memcpy(error + r * stride, packed + r * cols, cols * sizeof *packed);
        if (s == PITH_OK) s = pith_ranks_share(ranks, owner, cell, sizeof *cell, err);
    }
    pith_free(packed);
    return s;
}

/* --- hashes ----------------------------------------------------------------------------------- */

enum pith_status pith_sense_digest_grad(const struct pith_sense_pass *p, unsigned slot,
                                        char hex[PITH_SHA256_HEX], struct pith_error *err)
{
    char of[2][PITH_SHA256_HEX] = {""};
    for (int swaying = 0; swaying <= (int)p->sways; swaying++) {
        const struct pith_acts a = {
            .x = pith_sense_grad(p, slot, swaying, 0),
            .windows = p->windows,
            .length = p->length,
            .hidden = p->job->model->shape.hidden,
            .stride = pith_acts_stride(p->length * p->job->model->shape.hidden),
            .first = p->first,
            .all = p->all};
        PITH_TRY(pith_ranks_digest(p->s->ranks, &a, of[swaying], err));
    }
    return pith_sha256_hex(of, sizeof of, hex) ? PITH_OK : pith_fail_nomem(err, "a digest");
}

bool pith_sense_same(const json_t *line, const char *key, const char *hex)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text && strcmp(text, hex) == 0;
}

static bool own_intact(const struct pith_sense_pass *p)
{
    const size_t head_line = (size_t)p->there + 1;
    char hex[PITH_SHA256_HEX];
    for (uint32_t b = 0; p->s->guide && b < p->back; b++)
        if (!pith_guide_hash(p->s->guide, p->there - 1 - b, hex) ||
            !pith_sense_same(json_array_get(p->state.lines, head_line + b), "guide", hex))
            return false;
    return true;
}

/* Rank 0's, which becomes everyone's. */
enum pith_status pith_sense_guide_intact(const struct pith_sense_pass *p, bool *intact,
                                         struct pith_error *err)
{
    *intact = !pith_ranks_first(p->s->ranks) || own_intact(p);
    PITH_TRY(pith_ranks_share(p->s->ranks, 0, intact, sizeof *intact, err));
    for (uint32_t b = 0; p->s->guide && *intact && b < p->back; b++) {
        const uint32_t layer = p->there - 1 - b;
        PITH_TRY(pith_ranks_share(p->s->ranks, 0, pith_guide_layer(p->s->guide, layer),
                                  pith_guide_layer_floats(p->s->guide, layer) * sizeof(float),
                                  err));
    }
    return PITH_OK;
}
