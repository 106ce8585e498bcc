#include "report/records.h"

#include "base/names.h"

#include <stdio.h>
#include <string.h>

size_t pith_record_first(const struct pith_report *r, size_t from)
{
    const bool there = !r->failed && from < r->count && r->item[from].kind == PITH_REPORT_OPEN;
    return there ? from : PITH_NO_RECORD;
}

size_t pith_record_next(const struct pith_report *r, size_t record)
{
    while (record < r->count && r->item[record].kind != PITH_REPORT_CLOSE) record++;
    return pith_record_first(r, record + 1);
}

/* The next row of a record behind an item; NULL behind the last. */
static const struct pith_report_item *next_row(const struct pith_report *r, size_t *at)
{
    ++*at;
    return *at < r->count && r->item[*at].kind == PITH_REPORT_ROW ? &r->item[*at] : NULL;
}

static const struct pith_report_item *find_row(const struct pith_report *r, size_t record,
                                               const char *key)
{
    const struct pith_report_item *n;
    while ((n = next_row(r, &record)))
        if (strcmp(pith_report_at(r, n->key), key) == 0) return n;
    return NULL;
}

const char *pith_record_text(const struct pith_report *r, size_t record, const char *key)
{
    const struct pith_report_item *n = find_row(r, record, key);
    return n ? pith_report_at(r, n->text) : NULL;
}

size_t pith_record_find(const struct pith_report *r, size_t from, const char *key, const char *word)
{
    size_t at = pith_record_first(r, from);
    for (; at != PITH_NO_RECORD; at = pith_record_next(r, at)) {
        const char *text = pith_record_text(r, at, key);
        if (text && pith_name_equal(text, word)) return at;
    }
    return PITH_NO_RECORD;
}

void pith_record_copy(struct pith_report *to, const struct pith_report *all, size_t record)
{
    const struct pith_report_item *n;
    to->failed |= all->failed;
    while (!all->failed && (n = next_row(all, &record))) {
        struct pith_value v = n->value;
        if (v.kind == PITH_VALUE_TEXT) v.text = pith_report_at(all, n->text);
        if (v.kind == PITH_VALUE_TREE) json_incref(v.tree);
        pith_report_set(to, pith_report_at(all, n->key), v);
    }
}

/* --- text ------------------------------------------------------------------------------------- */

/* Whether a row is a number; a tree is none. */
static bool is_number(const struct pith_report_item *n)
{
    return n->value.kind == PITH_VALUE_WHOLE || n->value.kind == PITH_VALUE_REAL;
}

/* A value as the text of a cell; nothing for a tree. */
static void put_value(const struct pith_report *r, const struct pith_report_item *n,
                      struct pith_str *out)
{
    const struct pith_value *v = &n->value;
    switch (v->kind) {
    case PITH_VALUE_WHOLE: pith_str_printf(out, "%lld", (long long)v->whole); break;
    case PITH_VALUE_REAL: pith_str_printf(out, "%.6g", v->real); break;
    case PITH_VALUE_TEXT: pith_str_puts(out, pith_report_at(r, n->text)); break;
    case PITH_VALUE_YES: pith_str_puts(out, v->whole ? "yes" : "no"); break;
    default: break;
    }
}

/* A name and what it is, next to each other; names take `most` columns. */
static void add_pair(struct pith_report *to, const char *name, size_t most, const char *what)
{
    struct pith_str lead = {0};
    const size_t columns = pith_text_columns(name);
    pith_str_printf(&lead, "  %s%*s", name, (int)(most > columns ? most - columns : 0) + 2, "");
    const struct pith_line how = {
        .lead = pith_str_text(&lead), .wrap = PITH_WRAP_PAIR, .indent = most + 4, .fields = true};
    pith_report_line(to, &how, "%s", what);
    if (lead.failed) to->failed = true;
    pith_str_free(&lead);
}

/* add_pair() of texts in a report that may be the one that grows. */
static void add_texts(struct pith_report *to, const struct pith_str *name, size_t most,
                      const struct pith_str *what)
{
    add_pair(to, pith_str_text(name), most, pith_str_text(what));
    to->failed |= name->failed || what->failed;
}

void pith_records_names(struct pith_report *to, const struct pith_report *all, size_t from,
                        const char *key)
{
    const size_t first = pith_record_first(all, from);
    size_t most = 0;
    to->failed |= all->failed;
    for (size_t at = first; at != PITH_NO_RECORD; at = pith_record_next(all, at)) {
        const size_t columns = pith_text_columns(pith_record_text(all, at, key));
        if (columns > most) most = columns;
    }
    for (size_t at = first; at != PITH_NO_RECORD; at = pith_record_next(all, at)) {
        struct pith_str name = {0}, what = {0};
        pith_str_puts(&name, pith_record_text(all, at, key));
        pith_str_puts(&what, pith_record_text(all, at, "what"));
        add_texts(to, &name, most, &what);
        pith_str_free(&name);
        pith_str_free(&what);
    }
}

/* Whether a row of a record in full says something. */
static bool says_something(const struct pith_report *r, const struct pith_report_item *n,
                           const char *title, const char *other)
{
    const char *text = pith_report_at(r, n->text), *key = pith_report_at(r, n->key);
    if (strcmp(key, title) == 0 || (other && strcmp(key, other) == 0)) return false;
    return n->value.kind != PITH_VALUE_TEXT || (*text && strcmp(text, "-") != 0);
}

void pith_record_entry(struct pith_report *to, const struct pith_report *all, size_t record,
                       const char *title, const char *other)
{
    const struct pith_report_item *n;
    size_t most = 0;
    to->failed |= all->failed;
    if (to->failed) return;
    for (size_t at = record; (n = next_row(all, &at));) {
        const size_t columns = pith_text_columns(pith_report_at(all, n->key));
        if (says_something(all, n, title, other) && columns > most) most = columns;
    }
    for (size_t at = record; (n = next_row(all, &at));) {
        struct pith_str name = {0}, what = {0};
        if (!says_something(all, n, title, other)) continue;
        pith_str_puts(&name, pith_report_at(all, n->key));
        put_value(all, n, &what);
        add_texts(to, &name, most, &what);
        pith_str_free(&name);
        pith_str_free(&what);
    }
}

void pith_records_table(const struct pith_report *r, size_t from, struct pith_table *t)
{
    const size_t first = pith_record_first(r, from);
    const struct pith_report_item *n, *title;
    if (first == PITH_NO_RECORD) return;
    for (size_t at = first; (n = next_row(r, &at));) {
        const char *key = pith_report_at(r, n->key);
        pith_table_column(t, key, key, is_number(n) ? PITH_CELL_NUMBER : PITH_CELL_TEXT);
    }
    for (size_t record = first; record != PITH_NO_RECORD; record = pith_record_next(r, record)) {
        pith_table_row(t);
        for (size_t at = first; (title = next_row(r, &at));) {
            struct pith_str text = {0};
            n = find_row(r, record, pith_report_at(r, title->key));
            if (n) put_value(r, n, &text);
            pith_table_text(t, pith_str_text(&text));
            t->failed |= text.failed;
            pith_str_free(&text);
        }
    }
}
