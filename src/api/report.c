/* From a report to its forms. */
#include "api/report.h"

#include "api/context.h"
#include "base/mem.h"

/* Several tables, each under its title. */
static void write_tables(const struct pith_report *r, const struct pith_writer *w, bool bold,
                         struct pith_str *out)
{
    const bool markdown = w->write == pith_table_write_markdown;
    for (size_t i = 0; i < r->count; i++) {
        const struct pith_report_item *n = &r->item[i];
        if (n->detail != PITH_DETAIL_TABLES) continue;
        if (n->kind == PITH_REPORT_TABLE) {
            w->write(n->table, out);
            pith_str_putc(out, '\n');
        } else {
            pith_str_printf(out, "%s%s%s%s\n\n", bold ? "\x1b[1m" : "", markdown ? "## " : "",
                            pith_report_at(r, n->text), bold ? "\x1b[0m" : "");
        }
    }
}

static bool has_tables(const struct pith_report *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->item[i].detail == PITH_DETAIL_TABLES) return true;
    return false;
}

/* A table with the fields that its cells name as the form calls them. */
static void name_cells(const struct pith_table *t, const struct pith_report_form *form,
                       struct pith_table *out)
{
    for (size_t c = 0; c < t->columns; c++)
        pith_table_column(out, pith_table_key(t, c), pith_table_title(t, c), t->column[c].kind);
    for (size_t i = 0; i < t->rows; i++) {
        pith_table_row(out);
        for (size_t c = 0; c < t->columns; c++) {
            char *text = pith_fields_show(pith_table_cell(t, i, c), form->field, form->field_ctx);
            pith_table_text(out, text);
            out->failed |= !text;
            pith_free(text);
        }
    }
}

static enum pith_status write_table(const struct pith_report *r,
                                    const struct pith_report_form *form, char **text,
                                    struct pith_error *err)
{
    const struct pith_writer *w;
    struct pith_str out = {0};
    PITH_TRY(pith_writer_need(form->table, &w, err));
    if (!r || r->failed || r->alone.failed) return pith_fail_nomem(err, "the report");
    if (has_tables(r)) {
        write_tables(r, w, form->bold, &out);
        return pith_text_give(&out, PITH_OK, "the report", text, err);
    }
    if (r->alone.columns == 0) return pith_fail(err, PITH_ARG, "this report is no table");
    struct pith_table named = {0};
    if (form->field) name_cells(&r->alone, form, &named);
    w->write(form->field ? &named : &r->alone, &out);
    pith_table_free(&named);
    return pith_text_give(&out, PITH_OK, "the report", text, err);
}

/* The fields that a text names, as the form calls them; takes the text. */
static enum pith_status name_fields(const struct pith_report_form *form, char **text,
                                    struct pith_error *err)
{
    if (!form->field) return PITH_OK;
    char *named = pith_fields_show(*text, form->field, form->field_ctx);
    pith_free(*text);
    *text = named;
    return named ? PITH_OK : pith_fail_nomem(err, "the report");
}

enum pith_status pith_report_write(const struct pith_report *report,
                                   const struct pith_report_form *form, char **text,
                                   struct pith_error *err)
{
    struct pith_str out = {0};
    *text = NULL;
    if (form->json) {
        PITH_TRY(pith_report_text(pith_report_tree(report), text, err));
        return name_fields(form, text, err);
    }
    if (form->table) return write_table(report, form, text, err);
    const enum pith_status s = pith_report_terminal(report, form, &out, err);
    return pith_text_give(&out, s, "the report", text, err);
}

/* "provenance" of a page: what is known of its making. The model is the report's where none is
 * named. */
static json_t *provenance(const struct pith_provenance *from, const json_t *report)
{
    const char *own = json_string_value(json_object_get(report, "model"));
    json_t *j = json_object();
    pith_json_set(&j, "model",
                  pith_json_name(from->model && *from->model ? from->model
                                 : own                       ? own
                                                             : ""));
    if (from->version) pith_json_set(&j, "version", pith_json_name(from->version));
    if (from->date) pith_json_set(&j, "date", pith_json_name(from->date));
    if (from->command) pith_json_set(&j, "command", pith_json_name(from->command));
    return j;
}

enum pith_status pith_report_page(const struct pith_report *report,
                                  const struct pith_provenance *from, char **html,
                                  struct pith_error *err)
{
    struct pith_str out = {0};
    *html = NULL;
    if (!report || !report->page) return pith_fail(err, PITH_ARG, "this report has no page");
    json_t *j = pith_report_tree(report);
    if (from) pith_json_set(&j, "provenance", provenance(from, j));
    const enum pith_status s = j ? report->page(j, &out, err) : pith_fail_nomem(err, "a page");
    json_decref(j);
    return pith_text_give(&out, s, "the report", html, err);
}

enum pith_status pith_report_give(struct pith_report **report, enum pith_status s, char **json,
                                  struct pith_error *err)
{
    if (*report && json) {
        const enum pith_status t = pith_report_text(pith_report_tree(*report), json, err);
        if (t != PITH_OK) s = t;
    }
    pith_report_free(report);
    return s;
}
