#include "report/report.h"

#include "base/grow.h"

#include <stdio.h>
#include <string.h>

struct pith_report *pith_report_new(void)
{
    struct pith_report *r = pith_zalloc(1, sizeof *r);
    if (r) pith_str_putc(&r->text, '\0'); /* offset 0 is NULL */
    return r;
}

void pith_report_free(struct pith_report **report)
{
    struct pith_report *r = report ? *report : NULL;
    if (!r) return;
    for (size_t i = 0; i < r->count; i++) {
        json_decref(r->item[i].value.tree);
        if (r->item[i].table) pith_table_free(r->item[i].table);
        pith_free(r->item[i].table);
    }
    pith_table_free(&r->alone);
    pith_str_free(&r->text);
    pith_free(r->item);
    pith_free(r);
    *report = NULL;
}

const char *pith_report_at(const struct pith_report *r, size_t offset)
{
    return offset ? r->text.data + offset : NULL;
}

static size_t keep(struct pith_report *r, const char *text)
{
    if (!text) return 0;
    const size_t at = r->text.len;
    pith_str_append(&r->text, text, strlen(text) + 1);
    return r->text.failed ? 0 : at;
}

/* An item at the end; NULL when memory is out, now or before. */
static struct pith_report_item *add(struct pith_report *r, enum pith_report_kind kind)
{
    if (!r || r->failed) return NULL;
    struct pith_report_item *all = pith_grow(r->item, r->count, &r->cap, 64, sizeof *all);
    if (!all) {
        r->failed = true;
        return NULL;
    }
    r->item = all;
    struct pith_report_item *n = &r->item[r->count++];
    *n = (struct pith_report_item){.kind = kind};
    return n;
}

void pith_report_row(struct pith_report *r, const struct pith_row *row)
{
    struct pith_report_item *n = add(r, PITH_REPORT_ROW);
    const bool lost = row->value.kind == PITH_VALUE_TREE && !row->value.tree;
    if (!n) {
        if (row->value.kind == PITH_VALUE_TREE) json_decref(row->value.tree);
        return;
    }
    n->key = keep(r, row->key);
    n->label = keep(r, row->label);
    n->unit = keep(r, row->unit);
    n->value = row->value;
    if (row->value.kind == PITH_VALUE_TEXT) n->text = keep(r, row->value.text);
    n->value.text = NULL; /* the caller's */
    if (row->value.kind != PITH_VALUE_TREE) n->value.tree = NULL;
    r->failed = r->failed || r->text.failed || lost;
}

void pith_report_set(struct pith_report *r, const char *key, struct pith_value value)
{
    pith_report_row(r, &(struct pith_row){.key = key, .value = value});
}

void pith_report_merge(struct pith_report *r, json_t *object)
{
    const char *key;
    json_t *value;
    if (!object) r->failed = true;
    json_object_foreach (object, key, value) pith_report_set(r, key, pith_tree(json_incref(value)));
    json_decref(object);
}

void pith_report_interval(struct pith_report *r, const char *key, double lo, double hi)
{
    pith_report_list(r, key);
    pith_report_set(r, "", pith_real(lo, 0));
    pith_report_set(r, "", pith_real(hi, 0));
    pith_report_close(r);
}

static void open(struct pith_report *r, enum pith_report_kind kind, const char *key)
{
    struct pith_report_item *n = add(r, kind);
    if (n) n->key = keep(r, key);
    if (n && r->text.failed) r->failed = true;
}

void pith_report_open(struct pith_report *r, const char *key)
{
    open(r, PITH_REPORT_OPEN, key);
}

void pith_report_list(struct pith_report *r, const char *key)
{
    open(r, PITH_REPORT_LIST, key);
}

void pith_report_close(struct pith_report *r)
{
    (void)add(r, PITH_REPORT_CLOSE);
}

/* The words of a line, formatted; its other texts. */
static struct pith_report_item *add_line(struct pith_report *r, enum pith_report_kind kind,
                                         const struct pith_line *how, const char *fmt, va_list ap)
{
    struct pith_str s = {0};
    struct pith_report_item *n = add(r, kind);
    if (!n) return NULL;
    pith_str_vprintf(&s, fmt, ap);
    n->lead = keep(r, how->lead);
    n->strong = keep(r, how->strong);
    n->text = keep(r, pith_str_text(&s));
    n->line = *how;
    n->line.lead = n->line.strong = NULL; /* the caller's */
    n->detail = how->detail;
    r->failed = r->failed || s.failed || r->text.failed;
    pith_str_free(&s);
    return n;
}

void pith_report_line(struct pith_report *r, const struct pith_line *how, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)add_line(r, PITH_REPORT_LINE, how, fmt, ap);
    va_end(ap);
}

void pith_report_gap(struct pith_report *r)
{
    pith_report_line(r, &(struct pith_line){0}, "%s", "");
}

void pith_report_label(struct pith_report *r, const char *label, enum pith_wrap wrap,
                       const char *fmt, ...)
{
    struct pith_str lead = {0};
    va_list ap;
    pith_str_printf(&lead, "  %-*s ", PITH_REPORT_INDENT - 3, label);
    const struct pith_line how = {
        .lead = pith_str_text(&lead), .wrap = wrap, .indent = PITH_REPORT_INDENT};
    va_start(ap, fmt);
    (void)add_line(r, PITH_REPORT_LINE, &how, fmt, ap);
    va_end(ap);
    if (lead.failed && r) r->failed = true;
    pith_str_free(&lead);
}

void pith_report_bar(struct pith_report *r, double share, size_t reserve, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct pith_report_item *n =
        add_line(r, PITH_REPORT_BAR, &(struct pith_line){.reserve = reserve}, fmt, ap);
    va_end(ap);
    if (n) n->share = share;
}

struct pith_table *pith_report_add_table(struct pith_report *r, enum pith_detail detail)
{
    struct pith_report_item *n = add(r, PITH_REPORT_TABLE);
    r->lost.failed = true;
    if (!n) return &r->lost;
    n->detail = detail;
    n->table = pith_zalloc(1, sizeof *n->table);
    if (n->table) return n->table;
    r->failed = true;
    return &r->lost;
}

void pith_report_take_table(struct pith_report *r, enum pith_detail detail, struct pith_table *t)
{
    struct pith_table *to = pith_report_add_table(r, detail);
    if (to == &r->lost) pith_table_free(t);
    else *to = *t;
    *t = (struct pith_table){0};
}

struct pith_table *pith_report_alone(struct pith_report *r)
{
    return &r->alone;
}

void pith_report_listed(struct pith_report *r)
{
    r->listed = true;
}

void pith_report_judge(struct pith_report *r, bool good)
{
    if (r) r->bad = !good;
}

int pith_report_good(const struct pith_report *report)
{
    return report && !report->bad;
}

void pith_report_paged(struct pith_report *r, pith_page_fn *page)
{
    if (r) r->page = page;
}

void pith_report_remark_set(struct pith_report *r, const char *text)
{
    r->remark = keep(r, text);
    r->failed = r->failed || r->text.failed;
}

const char *pith_report_remark(const struct pith_report *report)
{
    return report && !report->failed ? pith_report_at(report, report->remark) : NULL;
}
