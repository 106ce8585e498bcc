#include "choose/sense_state.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "quantize/ranks/route.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH = PITH_SHA256_HEX - 1, FILE_LIMIT = 1 << 30 };

/* --- lines ------------------------------------------------------------------------------------ */

static bool link_line(const char *before, const char *text, size_t size, char hex[PITH_SHA256_HEX])
{
    struct pith_sha256 *h = pith_sha256_new();
    pith_sha256_update(h, before, strlen(before));
    pith_sha256_update(h, text, size);
    pith_sha256_finish(h, hex);
    return hex[0] != '\0';
}

enum pith_status pith_sense_state_add(struct pith_sense_state *s, json_t *line,
                                      struct pith_error *err)
{
    struct pith_str json = {0}, text = {0};
    char hex[PITH_SHA256_HEX] = "";
    if (!pith_ranks_first(s->ranks)) {
        json_decref(line);
        return PITH_OK;
    }
    if (line) pith_json_dump(line, JSON_COMPACT, &json);
    const bool good = line && !json.failed && link_line(s->chain, json.data, json.len, hex);
    if (good) pith_str_printf(&text, "%s %s\n", hex, json.data);
    enum pith_status r = good && !text.failed ? pith_file_append(s->path, text.data, text.len, err)
                                              : pith_fail_nomem(err, s->path);
    if (r == PITH_OK) memcpy(s->chain, hex, sizeof hex);
    pith_str_free(&json);
    pith_str_free(&text);
    json_decref(line);
    return r;
}

enum pith_status pith_sense_state_there(struct pith_sense_state *s, uint32_t layer,
                                        const char *acts, struct pith_error *err)
{
    return pith_sense_state_add(s, json_pack("{s:i, s:s}", "there", (int)layer, "acts", acts), err);
}

enum pith_status pith_sense_state_head(struct pith_sense_state *s, const char *grad,
                                       struct pith_error *err)
{
    return pith_sense_state_add(s, json_pack("{s:b, s:s}", "turned", 1, "grad", grad), err);
}

enum pith_status pith_sense_state_guided(struct pith_sense_state *s, uint32_t layer,
                                         const char *grad, const char *guide,
                                         struct pith_error *err)
{
    return pith_sense_state_add(
        s, json_pack("{s:i, s:s, s:s}", "back", (int)layer, "grad", grad, "guide", guide), err);
}

/* What the numbers depend on: the job, and what is tried. */
static bool identify(const struct pith_job *job, const struct pith_sense *of,
                     char hex[PITH_SHA256_HEX])
{
    struct pith_str text = {0};
    char grid[PITH_GRID_TEXT];
    if (of->guide) pith_str_printf(&text, "guide of %u groups\n", of->guide->groups);
    pith_str_printf(&text, "sensitivity %s %zu %zu\n", job->fingerprint, job->calib.windows,
                    job->calib.length);
    if (of->made_up) pith_str_printf(&text, "made up\n");
    for (size_t i = 0; i < of->grids; i++) {
        pith_grid_format(&of->grid[i], grid);
        pith_str_printf(&text, "%s\n", grid);
    }
    for (size_t i = 0; of->reads && i < of->reads->acts_count; i++) {
        pith_grid_format(&of->reads->acts[i], grid);
        pith_str_printf(&text, "acts %s\n", grid);
    }
    for (size_t i = 0; of->reads && i < of->reads->kv_count; i++)
        pith_str_printf(&text, "kv %s\n", of->reads->kv_name[i]);
    const bool good = !text.failed && pith_sha256_hex(text.data, text.len, hex);
    pith_str_free(&text);
    return good;
}

enum pith_status pith_sense_state_reset(struct pith_sense_state *s, const struct pith_job *job,
                                        const struct pith_sense *of, struct pith_error *err)
{
    char whose[PITH_SHA256_HEX];
    json_decref(s->lines);
    s->lines = json_array();
    s->chain[0] = '\0';
    if (!s->lines || !identify(job, of, whose)) return pith_fail_nomem(err, s->path);
    if (pith_ranks_first(s->ranks)) PITH_TRY(pith_unlink(s->path, err));
    return pith_sense_state_add(s, json_pack("{s:s, s:s}", "pith", pith_version(), "job", whose),
                                err);
}

/* The object of a line that follows from those before it, s->chain going on, or NULL. */
static enum pith_status read_line(struct pith_sense_state *s, const char *line, size_t size,
                                  json_t **j, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    *j = NULL;
    if (size < HASH + 2 || line[HASH] != ' ') return PITH_OK;
    if (!link_line(s->chain, line + HASH + 1, size - HASH - 1, hex))
        return pith_fail_nomem(err, s->path);
    if (memcmp(hex, line, HASH) != 0) return PITH_OK;
    const enum pith_status r = pith_json_parse(line + HASH + 1, size - HASH - 1, s->path, j, err);
    if (r == PITH_OK) memcpy(s->chain, hex, sizeof hex);
    return r;
}

static enum pith_status check_job(const struct pith_sense_state *s, const json_t *head,
                                  const char *whose, struct pith_error *err)
{
    const char *job = json_string_value(json_object_get(head, "job"));
    if (job && strcmp(job, whose) == 0) return PITH_OK;
    return pith_fail(err, PITH_IO,
                     "%s: belongs to another run (other input, options or version): remove that"
                     " folder, or repeat the command it was started with",
                     s->path);
}

/* Takes the good lines of a text, and cuts what follows them off the file. */
static enum pith_status take_state_lines(struct pith_sense_state *s, const char *text, size_t size,
                                         const char *whose, struct pith_error *err)
{
    size_t whole = 0;
    bool headed = false;
    const char *end;
    while (whole < size && (end = memchr(text + whole, '\n', size - whole)) != NULL) {
        const size_t length = (size_t)(end - (text + whole));
        json_t *j;
        enum pith_status r = read_line(s, text + whole, length, &j, err);
        if (r == PITH_OK && !j) break;
        if (r != PITH_OK) return r;
        if (!headed) r = check_job(s, j, whose, err);
        else if (json_array_append(s->lines, j) != 0) r = pith_fail_nomem(err, s->path);
        json_decref(j);
        if (r != PITH_OK) return r;
        headed = true;
        whole += length + 1;
    }
    return whole == size ? PITH_OK : pith_file_write(s->path, text, whole, err);
}

static enum pith_status read_file(struct pith_sense_state *s, const struct pith_job *job,
                                  const struct pith_sense *of, const char *whose,
                                  struct pith_error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (pith_path_exists(s->path))
        PITH_TRY(pith_file_read_own(s->path, FILE_LIMIT, &text, &size, err));
    const enum pith_status r = take_state_lines(s, text, size, whose, err);
    pith_free(text);
    if (r != PITH_OK) return r;
    return s->chain[0] ? PITH_OK : pith_sense_state_reset(s, job, of, err);
}

enum pith_status pith_sense_state_open(struct pith_sense_state *s, const char *folder,
                                       const struct pith_job *job, const struct pith_sense *of,
                                       struct pith_error *err)
{
    char whose[PITH_SHA256_HEX];
    *s = (struct pith_sense_state){.path = pith_path_join(folder, pith_sense_journal(of)),
                                   .lines = json_array(),
                                   .ranks = of->ranks};
    if (!s->path || !s->lines || !identify(job, of, whose)) return pith_fail_nomem(err, folder);
    PITH_TRY(pith_ranks_agree(s->ranks, whose, "an input, options or a version", err));
    if (pith_ranks_first(s->ranks)) PITH_TRY(read_file(s, job, of, whose, err));
    return pith_ranks_share_json(s->ranks, &s->lines, err);
}

void pith_sense_state_close(struct pith_sense_state *s)
{
    pith_free(s->path);
    json_decref(s->lines);
    *s = (struct pith_sense_state){0};
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* To the bit: NaN as well. */
static json_t *number_of(double x)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%a", x);
    return json_string(text);
}

static bool take_number(const json_t *j, double *x)
{
    const char *text = json_string_value(j);
    char *end = NULL;
    if (!text || !*text) return false;
    *x = strtod(text, &end);
    return *end == '\0';
}

static json_t *numbers_of(const double *x, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) pith_json_add(&list, number_of(x[i]));
    return list;
}

static bool take_numbers(const json_t *list, double *x, size_t count)
{
    bool good = json_array_size(list) == count;
    for (size_t i = 0; i < count && good; i++) good = take_number(json_array_get(list, i), &x[i]);
    return good;
}

/* The layer's choices and cells; how many of the latter. */
static struct pith_sense_cell *cells_of(const struct pith_job *job, const struct pith_sense *of,
                                        uint32_t layer, size_t *count)
{
    const size_t *first = job->model->plans.first;
    *count = (first[layer + 1] - first[layer]) * of->grids;
    return &of->cell[first[layer] * of->grids];
}

static void keep_reads(json_t **j, const struct pith_reads *r, const struct pith_plans *plans,
                       uint32_t layer)
{
    const size_t site = pith_reads_site(r, plans, layer, 0);
    const size_t cache = pith_reads_cache(r, layer, false);
    const size_t sites = plans->most_sites * r->acts_count, caches = 2 * r->kv_count;
    pith_json_set(j, "site", numbers_of(r->site + site, sites));
    pith_json_set(j, "cache", numbers_of(r->cache + cache, caches));
    if (!r->site_sway) return;
    pith_json_set(j, "site_sway", numbers_of(r->site_sway + site, sites));
    pith_json_set(j, "cache_sway", numbers_of(r->cache_sway + cache, caches));
}

static bool take_reads(const json_t *j, struct pith_reads *r, const struct pith_plans *plans,
                       uint32_t layer)
{
    const size_t site = pith_reads_site(r, plans, layer, 0);
    const size_t cache = pith_reads_cache(r, layer, false);
    const size_t sites = plans->most_sites * r->acts_count, caches = 2 * r->kv_count;
    if (!take_numbers(json_object_get(j, "site"), r->site + site, sites) ||
        !take_numbers(json_object_get(j, "cache"), r->cache + cache, caches))
        return false;
    return !r->site_sway ||
           (take_numbers(json_object_get(j, "site_sway"), r->site_sway + site, sites) &&
            take_numbers(json_object_get(j, "cache_sway"), r->cache_sway + cache, caches));
}

json_t *pith_sense_state_layer(const struct pith_job *job, const struct pith_sense *of,
                               uint32_t layer, const char *grad)
{
    const struct pith_plans *plans = &job->model->plans;
    const struct pith_reads *r = of->reads;
    json_t *list = json_array();
    size_t count;
    const struct pith_sense_cell *cell = cells_of(job, of, layer, &count);
    for (size_t i = 0; i < count; i++)
        pith_json_add(&list, cell[i].can
                                 ? json_pack("[o, o, I, o]", number_of(cell[i].kld),
                                             number_of(cell[i].error), (json_int_t)cell[i].bytes,
                                             number_of(cell[i].sway))
                                 : json_null());
    json_t *j = json_pack("{s:i, s:s, s:o}", "back", (int)layer, "grad", grad, "cells", list);
    if (r) keep_reads(&j, r, plans, layer);
    const struct pith_router_curve *curve = pith_routes_of(&of->routes, layer);
    if (curve) pith_json_set(&j, "router", numbers_of(curve->kld, PITH_ROUTER_POINTS));
    return j;
}

static bool take_cell(const json_t *j, struct pith_sense_cell *cell)
{
    const json_t *bytes = json_array_get(j, 2);
    *cell = (struct pith_sense_cell){.can = !json_is_null(j)};
    if (!cell->can) return true;
    if (!json_is_integer(bytes) || json_integer_value(bytes) < 0) return false;
    cell->bytes = (uint64_t)json_integer_value(bytes);
    return take_number(json_array_get(j, 0), &cell->kld) &&
           take_number(json_array_get(j, 1), &cell->error) &&
           take_number(json_array_get(j, 3), &cell->sway);
}

bool pith_sense_state_take(const struct pith_job *job, struct pith_sense *of, const json_t *line)
{
    const struct pith_plans *plans = &job->model->plans;
    const json_t *list = json_object_get(line, "cells"), *back = json_object_get(line, "back");
    const json_int_t layer = json_is_integer(back) ? json_integer_value(back) : -1;
    size_t count;
    if (layer < 0 || layer >= (json_int_t)plans->layers) return false;
    struct pith_sense_cell *cell = cells_of(job, of, (uint32_t)layer, &count);
    bool good = json_array_size(list) == count;
    for (size_t i = 0; i < count && good; i++) good = take_cell(json_array_get(list, i), &cell[i]);
    struct pith_router_curve *curve = pith_routes_of(&of->routes, (uint32_t)layer);
    if (good && curve)
        good = take_numbers(json_object_get(line, "router"), curve->kld, PITH_ROUTER_POINTS);
    return good && (!of->reads || take_reads(line, of->reads, plans, (uint32_t)layer));
}
