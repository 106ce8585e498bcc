/* The page of pith plan: what was ranked, and why, with charts. */
#include "plan/page.h"

#include "base/mem.h"
#include "plan/hardware/hardware.h"

#include <stdio.h>

enum { POINTS_MOST = 160, NAME_ROOM = 96, DRAWN = 12, ROOF_POINTS = 41 };

struct drawn {
    struct pith_chart_point point[POINTS_MOST];
    char name[POINTS_MOST][NAME_ROOM];
    size_t count;
};

static void add_point(struct drawn *d, const char *name, double x, double y, bool muted)
{
    if (d->count == POINTS_MOST) return;
    (void)snprintf(d->name[d->count], NAME_ROOM, "%.90s", name);
    d->point[d->count] = (struct pith_chart_point){
        .label = d->name[d->count], .x = x, .y = y, .lo = y, .hi = y, .muted = muted};
    d->count++;
}

/* Its place in the table, which is what points are called by. */
static const char *place_name(size_t i, char name[NAME_ROOM])
{
    (void)snprintf(name, NAME_ROOM, "%zu", i + 1);
    return name;
}

/* --- tables ----------------------------------------------------------------------------------- */

static const struct {
    const char *key, *title;
    double unit;
    int digits;
} cells[] = {{"context", "context", 1, 7},
             {"users", "users", 1, 7},
             {"weight_bytes", "weights, GB", 1e-9, 4},
             {"kv_bytes", "cache, GB", 1e-9, 4},
             {"total_bytes", "in all, GB", 1e-9, 4},
             {"max_users", "users at most", 1, 7},
             {"max_context", "context at most", 1, 7},
             {"first_token_seconds", "first token, s", 1, 3},
             {"tokens_per_second_user", "tokens/s each", 1, 4},
             {"tokens_per_second", "tokens/s", 1, 4},
             {"cost_per_million_tokens", "USD a million", 1, 3},
             {"joules_per_token", "joules a token", 1, 3}};

/* Whether a column adds anything: a number in any row, or another value than the requested one. */
static bool differs(const json_t *rows, const char *key)
{
    const bool request = strcmp(key, "context") == 0 || strcmp(key, "users") == 0;
    const double first = page_number(json_array_get(rows, 0), key);
    const json_t *r;
    size_t i;
    json_array_foreach (rows, i, r) {
        const double x = page_number(r, key);
        if (request ? x != first : isfinite(x)) return true;
    }
    return false;
}

/* "h100-sxm x4"; of a pool with its groups in front: "7 x h100-sxm x4". */
static void place_cell(struct pith_table *t, const json_t *at, bool pool)
{
    char groups[32] = "", devices[32] = "";
    if (pool) (void)snprintf(groups, sizeof groups, "%.0f x ", page_number(at, "groups"));
    if (page_number(at, "count") > 1)
        (void)snprintf(devices, sizeof devices, " x%.0f", page_number(at, "count"));
    pith_table_printf(t, "%s%s%s", groups, page_text(at, "hardware"), devices);
}

static bool any_pools(const json_t *rows)
{
    const json_t *r;
    size_t i;
    json_array_foreach (rows, i, r)
        if (json_object_get(r, "pools")) return true;
    return false;
}

/* Where it runs, and with pools in any row where prompts are read. */
static void place_cells(struct pith_table *t, const json_t *r, bool apart)
{
    const json_t *pools = json_object_get(r, "pools");
    const json_t *answer = json_object_get(pools, "decode");
    place_cell(t, pools ? answer : r, pools != NULL);
    if (!apart) return;
    if (pools) place_cell(t, json_object_get(pools, "prefill"), true);
    else pith_table_text(t, "there");
}

static void rank_table(struct pith_str *out, const json_t *rows)
{
    static const char *const texts[] = {"recipe", "cache", "engine", "on"};
    const bool apart = any_pools(rows);
    struct pith_table t = {0};
    const json_t *r;
    size_t i;
    pith_table_column(&t, "place", NULL, PITH_CELL_NUMBER);
    for (i = 0; i < PITH_COUNT(texts); i++) pith_table_column(&t, texts[i], NULL, PITH_CELL_TEXT);
    if (apart) pith_table_column(&t, "prompts", "prompts on", PITH_CELL_TEXT);
    for (i = 0; i < PITH_COUNT(cells); i++)
        if (differs(rows, cells[i].key))
            pith_table_column(&t, cells[i].key, cells[i].title, PITH_CELL_NUMBER);
    pith_table_column(&t, "kld", "KL", PITH_CELL_NUMBER);
    json_array_foreach (rows, i, r) {
        pith_table_row(&t);
        pith_table_number(&t, (double)i + 1, 0);
        pith_table_text(&t, page_text(r, "recipe"));
        pith_table_text(&t, page_text(r, "kv"));
        pith_table_text(&t, page_text(r, "engine"));
        place_cells(&t, r, apart);
        for (size_t k = 0; k < PITH_COUNT(cells); k++)
            if (differs(rows, cells[k].key))
                pith_table_significant(&t, page_number(r, cells[k].key) * cells[k].unit,
                                       cells[k].digits);
        pith_table_significant(&t, page_number(json_object_get(r, "quality"), "kld"), 3);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void reason_table(struct pith_str *out, const json_t *rows)
{
    struct pith_table t = {0};
    const json_t *r;
    size_t i;
    pith_table_column(&t, "place", NULL, PITH_CELL_NUMBER);
    pith_table_column(&t, "recipe", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "weights", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "why", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "source", "loss", PITH_CELL_TEXT);
    json_array_foreach (rows, i, r) {
        pith_table_row(&t);
        pith_table_number(&t, (double)i + 1, 0);
        pith_table_text(&t, page_text(r, "recipe"));
        pith_table_text(&t, page_text(r, "weights"));
        pith_table_text(&t, page_text(r, "reason"));
        pith_table_text(&t, page_text(json_object_get(r, "quality"), "source"));
    }
    pith_html_heading(out, "Why");
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void out_table(struct pith_str *out, const json_t *rows)
{
    static const char *const keys[] = {"recipe", "kv", "engine", "hardware", "reason"};
    struct pith_table t = {0};
    const json_t *r;
    size_t i;
    if (json_array_size(rows) == 0) return;
    for (size_t k = 0; k < PITH_COUNT(keys); k++)
        pith_table_column(&t, keys[k], NULL, PITH_CELL_TEXT);
    json_array_foreach (rows, i, r) {
        pith_table_row(&t);
        for (size_t k = 0; k < PITH_COUNT(keys); k++) pith_table_text(&t, page_text(r, keys[k]));
    }
    pith_html_heading(out, "Ruled out");
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void command_facts(struct pith_str *out, const json_t *row)
{
    const json_t *c = json_object_get(row, "commands"), *q = json_object_get(row, "quality");
    char request[96];
    (void)snprintf(request, sizeof request, "%.0f user%s with a context of %.0f",
                   page_number(row, "users"), page_number(row, "users") == 1 ? "" : "s",
                   page_number(row, "context"));
    const struct pith_html_fact facts[] = {{"line 1 is for", request, false},
                                           {"why it is first", page_text(row, "reason"), false},
                                           {"make it", page_text(c, "quantize"), true},
                                           {"read prompts", page_text(c, "prefill"), true},
                                           {"serve it", page_text(c, "serve"), true},
                                           {"in front", page_text(c, "route"), true},
                                           {"its loss", page_text(q, "source"), false},
                                           {"published", page_text(q, "published"), false}};
    pith_html_facts(out, facts, PITH_COUNT(facts));
}

/* --- charts ----------------------------------------------------------------------------------- */

/* What fills the memory of the best. */
static void memory_chart(struct pith_str *out, const json_t *row)
{
    struct drawn d = {.count = 0};
    const char *key;
    json_t *v;
    json_object_foreach (json_object_get(row, "weight_parts"), key, v)
        if (json_number_value(v) > 0) add_point(&d, key, 0, json_number_value(v) * 1e-9, false);
    add_point(&d, "cache", 0, page_number(row, "kv_bytes") * 1e-9, false);
    add_point(&d, "engine, work space", 0, page_number(row, "overhead_bytes") * 1e-9, false);
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_BARS,
                                              .title = "Memory of the first line, by part",
                                              .y_title = "GB",
                                              .points = d.point,
                                              .count = d.count});
}

/* The roof of that unit as grey points, from well below the steps (which the points of d are) and
 * the bend to well above. */
static void add_roof(struct drawn *d, const struct pith_hardware *h, size_t unit)
{
    const double bend = h->ops[unit] / h->bandwidth;
    double lo = bend, hi = bend;
    for (size_t i = 0; i < d->count; i++) {
        lo = fmin(lo, d->point[i].x);
        hi = fmax(hi, d->point[i].x);
    }
    for (size_t i = 0; i < ROOF_POINTS; i++) {
        const double x = lo / 4 * pow(hi / lo * 16, (double)i / (ROOF_POINTS - 1));
        add_point(d, "", x, fmin(h->ops[unit], x * h->bandwidth) * 1e-12, true);
    }
}

/* The roof of one device in the first row's unit, and where the steps of its rows lie below it. */
static void roofline_chart(struct pith_str *out, const json_t *rows)
{
    const json_t *first = json_array_get(rows, 0), *r;
    const struct pith_hardware *h = pith_hardware_find(page_text(first, "hardware"));
    const char *unit = page_text(first, "unit");
    char name[NAME_ROOM], title[160];
    struct drawn d = {.count = 0};
    size_t i, u = 0;
    while (h && u < PITH_UNITS && strcmp(pith_hardware_unit((enum pith_unit)u), unit) != 0) u++;
    if (!h || u == PITH_UNITS) return;
    json_array_foreach (rows, i, r) {
        if (i == DRAWN) break;
        if (strcmp(page_text(r, "hardware"), h->name) != 0) continue;
        const double ops = page_number(r, "operations_per_step"),
                     bytes = page_number(r, "bytes_per_step"),
                     time = page_number(r, "token_seconds") * page_number(r, "count");
        add_point(&d, place_name(i, name), ops / bytes, ops / time * 1e-12, false);
    }
    add_roof(&d, h, u);
    (void)snprintf(title, sizeof title, "Roofline of %.60s (%.8s, grey), and a step of each line",
                   h->title, unit);
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                              .title = title,
                                              .x_title = "operations a byte",
                                              .y_title = "10^12 operations/s, a device",
                                              .x_log = true,
                                              .y_log = true,
                                              .points = d.point,
                                              .count = d.count});
}

static void add_users(struct drawn *d, const json_t *row, const char *name, bool muted)
{
    const json_t *list = json_object_get(row, "users_by_context"), *pair;
    const size_t last = json_array_size(list) - 1;
    size_t k;
    json_array_foreach (list, k, pair)
        add_point(d, k == last ? name : "", json_number_value(json_array_get(pair, 0)),
                  json_number_value(json_array_get(pair, 1)), muted);
}

/* The first row, and in grey the best in 16 bits. */
static void users_chart(struct pith_str *out, const json_t *rows)
{
    struct drawn d = {.count = 0};
    const json_t *r;
    char name[NAME_ROOM];
    size_t i;
    json_array_foreach (rows, i, r)
        if (i > 0 && strcmp(page_text(r, "recipe"), "none") == 0) {
            add_users(&d, r, place_name(i, name), true);
            break;
        }
    add_users(&d, json_array_get(rows, 0), "1", false);
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                              .title = "Users at most against context (line 1, "
                                                       "grey: in 16 bits)",
                                              .x_title = "positions of each user",
                                              .y_title = "users",
                                              .x_log = true,
                                              .y_log = true,
                                              .points = d.point,
                                              .count = d.count});
}

static void quality_chart(struct pith_str *out, const json_t *rows)
{
    struct drawn d = {.count = 0};
    const json_t *r;
    char name[NAME_ROOM];
    size_t i;
    json_array_foreach (rows, i, r) {
        const double kld = page_number(json_object_get(r, "quality"), "likened");
        if (kld > 0)
            add_point(&d, i < DRAWN ? place_name(i, name) : "",
                      page_number(r, "total_bytes") * 1e-9, kld, i >= DRAWN);
    }
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                              .title = "Quality against bytes (the lowest and "
                                                       "leftmost are best)",
                                              .x_title = "GB in all",
                                              .y_title = "KL by which rows are ordered",
                                              .x_log = true,
                                              .y_log = true,
                                              .front = true,
                                              .points = d.point,
                                              .count = d.count});
}

enum pith_status pith_page_plan(const json_t *report, struct pith_str *out, struct pith_error *err)
{
    const json_t *rows = json_object_get(report, "rows");
    char title[320];
    if (!json_is_array(rows) || !json_object_get(report, "model"))
        return pith_fail(err, PITH_FORMAT, "this is no report of pith plan");
    (void)snprintf(title, sizeof title, "Plan of %.250s", page_text(report, "model"));
    pith_html_begin(out, title);
    if (json_array_size(rows)) {
        command_facts(out, json_array_get(rows, 0));
        pith_html_figures(out, true, false);
        memory_chart(out, json_array_get(rows, 0));
        roofline_chart(out, rows);
        users_chart(out, rows);
        quality_chart(out, rows);
        pith_html_figures(out, false, false);
        pith_html_heading(out, "Best first");
        rank_table(out, rows);
        reason_table(out, rows);
    } else pith_html_paragraph(out, "Nothing fits.");
    out_table(out, json_object_get(report, "ruled_out"));
    pith_html_end(out);
    return PITH_OK;
}
