/* pith sensitivity: what each part would cost on each of several grids. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/sensitivity.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    struct pith_sensitivity_options q; /* but for its lists, which are these */
    const char *page;
    struct text_list tries, acts, caches, calib, targets;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(try_sensitivity, AT(tries)),
    OPTION(acts_sensitivity, AT(acts)),
    OPTION(kv_sensitivity, AT(caches)),
    OPTION(recipe_sensitivity, AT(q.recipe)),
    OPTION(round_sensitivity, AT(q.round)),
    OPTION(container_sensitivity, AT(q.container)),
    OPTION(for_sensitivity, AT(targets)),
    OPTION(calib_sensitivity, AT(calib)),
    OPTION(crlf, AT(q.crlf)),
    OPTION(calib_tokens_sensitivity, AT(q.calib_tokens)),
    OPTION(seq_len, AT(q.seq_len)),
    OPTION(experts_sensitivity, AT(q.experts)),
    OPTION(out_sensitivity, AT(page)),
    OPTION(resume, AT(q.resume)),
    OPTION(work_sensitivity, AT(q.work)),
};

static void defaults(void *settings)
{
    pith_sensitivity_defaults(&((struct settings *)settings)->q);
    ((struct settings *)settings)->q.work = "pith.sensitivity";
}

/* The tables: rows of a kind, and where the columns' names stand. */
static const struct {
    const char *kind, *columns, *first, *title;
} tables[] = {{"weights", "grids", "linear", "linear alone adds on each grid"},
              {"cache", "caches", "cache", "layer's keys or values alone add in each format"},
              {"acts", "acts", "input", "input of linears alone adds on each grid"}};

static json_t *columns_of(const json_t *grids, const char *first)
{
    json_t *columns = json_array();
    const json_t *g;
    size_t i;
    table_column(columns, first, "left");
    json_array_foreach (grids, i, g) table_column(columns, json_string_value(g), "right");
    return columns;
}

/* A row a part: KL x 1000 on each grid. */
static json_t *rows_of(const json_t *report, const json_t *grids, const char *kind)
{
    json_t *rows = json_array(), *row = NULL;
    const json_t *r;
    const char *part = "";
    size_t i;
    json_array_foreach (json_object_get(report, "rows"), i, r) {
        char text[32];
        if (strcmp(kind, json_text(r, "kind")) != 0) continue;
        if (strcmp(part, json_text(r, "part")) != 0) {
            part = json_text(r, "part");
            row = json_array();
            json_array_append_new(row, json_string(part));
            for (size_t k = 0; k < json_array_size(grids); k++)
                json_array_append_new(row, json_string("-"));
            json_array_append_new(rows, row);
        }
        snprintf(text, sizeof text, "%.4g", 1000 * json_number_value(json_object_get(r, "kld")));
        for (size_t k = 0; k < json_array_size(grids); k++)
            if (json_equal(json_array_get(grids, k), json_object_get(r, "grid")))
                json_array_set_new(row, k + 1, json_string(text));
    }
    return rows;
}

static int print_one(const struct settings *s, const json_t *report, size_t which)
{
    const json_t *grids = json_object_get(report, tables[which].columns);
    json_t *rows = rows_of(report, grids, tables[which].kind);
    if (json_array_size(rows) == 0) {
        json_decref(rows);
        return EXIT_DONE;
    }
    printf("\nKL x 1000 (nats a token) that each %s\n\n", tables[which].title);
    return print_table(&s->common, columns_of(grids, tables[which].first), rows, NULL);
}

static int print_report(void *settings, const char *report)
{
    const struct settings *s = settings;
    int rc = EXIT_DONE;
    json_t *j = read_report(&s->common, report, &rc);
    if (!j) return rc;
    printf("predicted on %.0f tokens in windows of %.0f; linears are rounded by %s\n",
           json_number_value(json_object_get(j, "tokens")),
           json_number_value(json_object_get(j, "context")), json_text(j, "round"));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && rc == EXIT_DONE; i++)
        rc = print_one(s, j, i);
    json_decref(j);
    return rc;
}

static int write_page(void *settings, const char *report)
{
    const struct settings *s = settings;
    struct pith_error err = {0};
    char *html = NULL;
    if (pith_sensitivity_html(report, &html, &err) != PITH_OK)
        return report_failure(&s->common, &err);
    return page_write(&s->common, s->page, html);
}

static enum pith_status work(struct pith_context *context, void *settings, char **report,
                             struct pith_error *err)
{
    return pith_sensitivity(context, &((struct settings *)settings)->q, report, err);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const int rc = page_check(&s->common, s->page);
    if (rc != EXIT_DONE) return rc;
    s->q.model = operands->item[0];
    s->q.tries = as_list(&s->tries);
    s->q.acts = as_list(&s->acts);
    s->q.caches = as_list(&s->caches);
    s->q.calib = as_list(&s->calib);
    s->q.targets = as_list(&s->targets);
    s->q.seed = s->common.seed;
    return run_reported(&(struct reported){.common = &s->common,
                                           .settings = s,
                                           .progress = &s->q.progress,
                                           .work = work,
                                           .print = print_report,
                                           .also = s->page ? write_page : NULL});
}

const struct command command_sensitivity = {
    .name = "sensitivity",
    .summary = "what each part would cost on each of several grids",
    .operands = "MODEL [options]",
    .examples = "  pith sensitivity models/probe\n"
                "  pith sensitivity models/probe --try int3:g128,int4:g128,int8:g128 --json\n"
                "  pith sensitivity models/probe --container gguf -o sensitivity.html\n",
    .details = "One pass through the model and one back show how much its answers would diverge\n"
               "(KL, nats a token) if this one linear, its input, or the keys or values of this\n"
               "one layer were rounded so; what several parts cost adds up. -r auto of\n"
               "'pith quantize' chooses grids of linears by it.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .defaults = defaults,
    .run = run,
};
