#include "report/table.h"

#include "base/mem.h"
#include "base/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

const struct pith_writer pith_writers[] = {
    {"text", "aligned columns for a terminal", pith_table_write_text},
    {"markdown", "a Markdown table", pith_table_write_markdown},
    {"csv", "comma-separated values (RFC 4180), keys as header", pith_table_write_csv},
    {"json", "a list of objects", pith_table_write_json},
    {"html", "a page by itself", pith_table_write_html},
};
const size_t pith_writer_count = PITH_COUNT(pith_writers);

const struct pith_writer *pith_writer_find(const char *name)
{
    for (size_t i = 0; i < pith_writer_count; i++)
        if (pith_name_equal(pith_writers[i].name, name)) return &pith_writers[i];
    return NULL;
}

static const char *form_name(size_t i)
{
    return i < pith_writer_count ? pith_writers[i].name : NULL;
}

enum pith_status pith_writer_need(const char *name, const struct pith_writer **writer,
                                  struct pith_error *err)
{
    *writer = pith_writer_find(name);
    return *writer ? PITH_OK : pith_fail_name(err, "form", name, form_name);
}

/* Controls of both sets, and the marks that change the direction of writing and so can hide
 * what follows. */
static bool is_unsafe(utf8proc_int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

void pith_clean_append(struct pith_str *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (used <= 0) {
            pith_str_puts(out, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (is_unsafe(c)) pith_str_putc(out, '?');
        else pith_str_append(out, text + i, (size_t)used);
        i += (size_t)used;
    }
}

size_t pith_text_width(const char *text)
{
    const size_t n = strlen(text);
    size_t width = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (used <= 0) return width + n - i;
        width += (size_t)utf8proc_charwidth(c);
        i += (size_t)used;
    }
    return width;
}

/* Keeps a string and returns its offset; offset 0 is the empty string. */
static size_t keep(struct pith_table *t, const char *text)
{
    if (t->text.len == 0) pith_str_putc(&t->text, '\0');
    if (!text || !*text) return 0;
    const size_t at = t->text.len;
    pith_clean_append(&t->text, text, strlen(text));
    pith_str_putc(&t->text, '\0');
    t->failed = t->failed || t->text.failed;
    return at;
}

static void *grow(struct pith_table *t, void *array, size_t need, size_t *cap, size_t size)
{
    if (need <= *cap) return array;
    size_t more = *cap ? *cap * 2 : 16;
    if (more < need) more = need;
    void *p = pith_realloc(array, more, size);
    if (!p) {
        t->failed = true;
        return NULL;
    }
    *cap = more;
    return p;
}

void pith_table_column(struct pith_table *t, const char *key, const char *title,
                       enum pith_cell kind)
{
    if (t->rows) t->failed = true;
    if (t->failed) return;
    struct pith_column *all = grow(t, t->column, t->columns + 1, &t->column_cap, sizeof *all);
    if (!all) return;
    t->column = all;
    const size_t k = keep(t, key), name = title ? keep(t, title) : k;
    all[t->columns++] = (struct pith_column){k, name, kind};
}

void pith_table_row(struct pith_table *t)
{
    if (t->failed) return;
    size_t *all = grow(t, t->cell, (t->rows + 1) * t->columns, &t->cell_cap, sizeof *all);
    if (!all) return;
    t->cell = all;
    t->cells = t->rows++ * t->columns;
    memset(all + t->cells, 0, t->columns * sizeof *all);
}

void pith_table_text(struct pith_table *t, const char *text)
{
    if (t->failed || t->cells >= t->rows * t->columns) {
        t->failed = true;
        return;
    }
    const size_t at = keep(t, text);
    t->cell[t->cells++] = at;
}

void pith_table_printf(struct pith_table *t, const char *fmt, ...)
{
    struct pith_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    if (s.failed) t->failed = true;
    pith_table_text(t, pith_str_text(&s));
    pith_str_free(&s);
}

void pith_table_number(struct pith_table *t, double value, int digits)
{
    if (isnan(value)) pith_table_text(t, NULL);
    else pith_table_printf(t, "%.*f", digits, value);
}

void pith_table_significant(struct pith_table *t, double value, int digits)
{
    if (isnan(value)) pith_table_text(t, NULL);
    else pith_table_printf(t, "%.*g", digits, value);
}

void pith_table_known(struct pith_table *t, double value, const char *format)
{
    char text[48] = "-";
    if (isfinite(value)) (void)snprintf(text, sizeof text, format, value);
    pith_table_text(t, text);
}

void pith_table_free(struct pith_table *t)
{
    pith_str_free(&t->text);
    pith_free(t->column);
    pith_free(t->cell);
    *t = (struct pith_table){0};
}

const char *pith_table_key(const struct pith_table *t, size_t column)
{
    return t->text.data + t->column[column].key;
}

const char *pith_table_title(const struct pith_table *t, size_t column)
{
    return t->text.data + t->column[column].title;
}

const char *pith_table_cell(const struct pith_table *t, size_t row, size_t column)
{
    return t->text.data + t->cell[row * t->columns + column];
}
