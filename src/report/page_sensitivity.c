/* The page of pith sensitivity: what each part would cost on each grid, by layer. */
#include "report/page.h"

#include "base/mem.h"
#include "base/names.h"

#include <stdio.h>

enum { DEAREST = 25, GRIDS_MOST = 24, NAME_ROOM = 256 };

static const struct {
    const char *kind, *grids, *title, *text;
} kinds[] = {
    {"weights", "grids", "Weights", "What each linear alone adds, rounded to that grid."},
    {"cache", "caches", "Keys and values", "What the keys or the values of one layer alone add."},
    {"acts", "acts", "Inputs of linears",
     "What the input of one site alone adds: its linears read"
     " one input."}};

/* "model.layers.3.mlp.experts.7.up_proj": the experts of a layer count as one. */
static void plain_name(const char *part, char name[NAME_ROOM])
{
    const char *at = strstr(part, "experts.");
    const char *end = at ? at + 8 : NULL;
    while (end && *end >= '0' && *end <= '9') end++;
    if (!at || end == at + 8) (void)snprintf(name, NAME_ROOM, "%.*s", NAME_ROOM - 1, part);
    else (void)snprintf(name, NAME_ROOM, "%.*s*%.120s", (int)((at + 8 - part) % 128), part, end);
}

/* What rows of a kind lose on a grid, by name, experts summed; NULL when memory is out. */
static json_t *sums_of(const json_t *rows, const char *kind, const char *grid)
{
    json_t *sums = json_object();
    const json_t *r;
    char name[NAME_ROOM];
    size_t i;
    json_array_foreach (rows, i, r) {
        if (strcmp(page_text(r, "kind"), kind) != 0 || strcmp(page_text(r, "grid"), grid) != 0)
            continue;
        plain_name(page_text(r, "part"), name);
        const double had = json_number_value(json_object_get(sums, name));
        pith_json_set(&sums, name, json_real(had + page_number(r, "kld")));
    }
    return sums;
}

/* The range of all values of grids but 0. */
static struct pith_page_range range_of(json_t *const *sums, size_t count)
{
    struct pith_page_range range = {0, 0};
    json_t *e;
    const char *name;
    for (size_t g = 0; g < count; g++)
        json_object_foreach (sums[g], name, e) {
            const double v = json_number_value(e);
            if (!(v > 0)) continue;
            if (range.least == 0 || v < range.least) range.least = v;
            if (v > range.most) range.most = v;
        }
    return range;
}

struct total {
    double kld, bits, bytes; /* bits: of a number, over all parts */
    double worst;
    const char *part; /* that costs most */
};

static struct total total_of(const json_t *rows, const char *kind, const char *grid)
{
    struct total t = {.part = ""};
    const json_t *r;
    double numbers = 0;
    size_t i;
    json_array_foreach (rows, i, r) {
        if (strcmp(page_text(r, "kind"), kind) != 0 || strcmp(page_text(r, "grid"), grid) != 0)
            continue;
        const double kld = page_number(r, "kld");
        t.kld += kld;
        t.bytes += page_number(r, "bytes");
        numbers += 8 * page_number(r, "bytes") / page_number(r, "bits");
        if (kld < t.worst) continue;
        t.worst = kld;
        t.part = page_text(r, "part");
    }
    t.bits = numbers > 0 ? 8 * t.bytes / numbers : (double)NAN;
    return t;
}

static void totals_table(struct pith_str *out, const json_t *rows, const char *kind,
                         const json_t *grids)
{
    struct pith_table t = {0};
    const json_t *g;
    size_t i;
    pith_table_column(&t, "grid", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "bits", NULL, PITH_CELL_NUMBER);
    pith_table_column(&t, "kld", "KL x 1000 of all", PITH_CELL_NUMBER);
    pith_table_column(&t, "part", "most by", PITH_CELL_TEXT);
    pith_table_column(&t, "worst", "KL x 1000 of it", PITH_CELL_NUMBER);
    json_array_foreach (grids, i, g) {
        const struct total all = total_of(rows, kind, json_string_value(g));
        pith_table_row(&t);
        pith_table_text(&t, json_string_value(g));
        pith_table_significant(&t, all.bits, 4);
        pith_table_significant(&t, 1000 * all.kld, 4);
        pith_table_text(&t, all.part);
        pith_table_significant(&t, 1000 * all.worst, 4);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void totals_chart(struct pith_str *out, const json_t *rows, const char *kind,
                         const json_t *grids)
{
    struct pith_chart_point point[GRIDS_MOST];
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(grids) && count < GRIDS_MOST; i++) {
        const char *name = json_string_value(json_array_get(grids, i));
        const struct total all = total_of(rows, kind, name);
        if (all.kld > 0)
            point[count++] = (struct pith_chart_point){
                .label = name, .x = all.bits, .y = all.kld, .lo = all.kld, .hi = all.kld};
    }
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                              .title = "All parts on one grid",
                                              .x_title = "bits a number",
                                              .y_title = "KL, nats a token",
                                              .y_log = true,
                                              .front = true,
                                              .points = point,
                                              .count = count});
}

static void maps(struct pith_str *out, const json_t *rows, const char *kind, const json_t *grids)
{
    json_t *sums[GRIDS_MOST];
    const size_t n = json_array_size(grids) < GRIDS_MOST ? json_array_size(grids) : GRIDS_MOST;
    for (size_t g = 0; g < n; g++) {
        sums[g] = sums_of(rows, kind, json_string_value(json_array_get(grids, g)));
        out->failed |= !sums[g];
    }
    const struct pith_page_range range = range_of(sums, n);
    for (size_t g = 0; g < n; g++) {
        pith_page_heat_within(out, json_string_value(json_array_get(grids, g)), sums[g],
                              json_number_value, range);
        json_decref(sums[g]);
    }
}

static int dearer(const void *a, const void *b)
{
    const double x = page_number(*(const json_t *const *)a, "kld");
    const double y = page_number(*(const json_t *const *)b, "kld");
    return (x < y) - (x > y);
}

/* The parts that cost most on any grid. */
static void dearest_table(struct pith_str *out, const json_t *rows)
{
    const size_t n = json_array_size(rows);
    const json_t **row = pith_alloc(n + 1, sizeof(const json_t *));
    struct pith_table t = {0};
    if (!row) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) row[i] = json_array_get(rows, i);
    qsort(row, n, sizeof *row, dearer);
    pith_table_column(&t, "part", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "kind", "of", PITH_CELL_TEXT);
    pith_table_column(&t, "grid", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "bits", NULL, PITH_CELL_NUMBER);
    pith_table_column(&t, "kld", "KL x 1000", PITH_CELL_NUMBER);
    for (size_t i = 0; i < n && i < DEAREST; i++) {
        pith_table_row(&t);
        pith_table_text(&t, page_text(row[i], "part"));
        pith_table_text(&t, page_text(row[i], "kind"));
        pith_table_text(&t, page_text(row[i], "grid"));
        pith_table_significant(&t, page_number(row[i], "bits"), 4);
        pith_table_significant(&t, 1000 * page_number(row[i], "kld"), 4);
    }
    pith_html_heading(out, "The dearest");
    pith_html_table(out, &t);
    pith_table_free(&t);
    pith_free(row);
}

static void facts(struct pith_str *out, const json_t *j)
{
    char tokens[96];
    (void)snprintf(tokens, sizeof tokens, "%.0f tokens in windows of %.0f",
                   page_number(j, "tokens"), page_number(j, "context"));
    const struct pith_html_fact all[] = {
        {"model", page_text(j, "model"), true},
        {"predicted on", tokens, false},
        {"linears are rounded by", page_text(j, "round"), false},
        {"for the container", page_text(j, "container"), false},
        {"what is shown",
         "the divergence (KL, nats a token) from the model as it is, to second order; of several"
         " parts it adds up. Colours are of one range in all maps of a kind.",
         false}};
    pith_html_facts(out, all, PITH_COUNT(all));
}

static bool is_row(const json_t *r)
{
    return *page_text(r, "part") && *page_text(r, "grid") && isfinite(page_number(r, "kld"));
}

static bool is_report(const json_t *j)
{
    const json_t *rows = json_object_get(j, "rows"), *r;
    size_t i;
    if (!json_is_array(rows) || !json_is_string(json_object_get(j, "model"))) return false;
    for (size_t k = 0; k < PITH_COUNT(kinds); k++) {
        const json_t *grids = json_object_get(j, kinds[k].grids);
        if (!json_is_array(grids)) return false;
        json_array_foreach (grids, i, r)
            if (!json_is_string(r)) return false;
    }
    json_array_foreach (rows, i, r)
        if (!is_row(r)) return false;
    return true;
}

enum pith_status pith_page_sensitivity(const json_t *report, struct pith_str *out,
                                       struct pith_error *err)
{
    char title[320];
    if (!is_report(report))
        return pith_fail(err, PITH_FORMAT, "this is no report of pith sensitivity");
    const json_t *rows = json_object_get(report, "rows");
    (void)snprintf(title, sizeof title, "Sensitivity of %.250s",
                   pith_name_of_path(page_text(report, "model")));
    pith_html_begin(out, title);
    facts(out, report);
    for (size_t k = 0; k < PITH_COUNT(kinds); k++) {
        const json_t *grids = json_object_get(report, kinds[k].grids);
        if (json_array_size(grids) == 0) continue;
        pith_html_heading(out, kinds[k].title);
        pith_html_paragraph(out, kinds[k].text);
        totals_table(out, rows, kinds[k].kind, grids);
        pith_html_subheading(out, "By grid and by layer");
        pith_html_figures(out, true, false);
        totals_chart(out, rows, kinds[k].kind, grids);
        maps(out, rows, kinds[k].kind, grids);
        pith_html_figures(out, false, false);
    }
    dearest_table(out, rows);
    pith_html_end(out);
    return PITH_OK;
}
