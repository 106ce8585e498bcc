#include "eval/task/records.h"

#include "base/names.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static enum pith_status bad(const struct pith_records *r, struct pith_error *err, const char *what)
{
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: %s", r->path, r->line, what);
}

/* The next line without its end; false at the end of the text. */
static bool next_line(struct pith_records *r, const char **line, size_t *size)
{
    if (r->at >= r->size) return false;
    const char *start = r->text + r->at, *stop = memchr(start, '\n', r->size - r->at);
    *line = start;
    *size = stop ? (size_t)(stop - start) : r->size - r->at;
    r->at += *size + (stop != NULL);
    r->lines++;
    if (*size && start[*size - 1] == '\r') --*size;
    return true;
}

/* The next line that is not blank, where a record begins. */
static bool begin(struct pith_records *r, const char **line, size_t *size)
{
    do {
        if (!next_line(r, line, size)) return false;
    } while (pith_is_blank(*line, *size));
    r->line = r->lines;
    return true;
}

static enum pith_status cut_json(struct pith_records *r, const char *line, size_t size,
                                 struct pith_error *err)
{
    char where[300];
    snprintf(where, sizeof where, "%.250s: line %zu", pith_name_of_path(r->path), r->line);
    json_decref(r->json);
    r->json = NULL;
    return pith_json_parse(line, size, where, &r->json, err);
}

/* A field in quotes; r->at is behind the opening one and ends behind the closing one. */
static enum pith_status cut_quoted(struct pith_records *r, struct pith_str *field,
                                   struct pith_error *err)
{
    for (; r->at < r->size; r->at++) {
        const char c = r->text[r->at];
        const bool quote = c == '"';
        if (quote && (r->at + 1 == r->size || r->text[r->at + 1] != '"')) {
            r->at++;
            return PITH_OK;
        }
        r->at += quote;
        r->lines += c == '\n';
        pith_str_putc(field, c);
    }
    return bad(r, err, "a quote that is not closed");
}

/* One field; *last when the record ends behind it. */
static enum pith_status cut_field(struct pith_records *r, struct pith_str *field, bool *last,
                                  struct pith_error *err)
{
    if (r->at < r->size && r->text[r->at] == '"') {
        r->at++;
        PITH_TRY(cut_quoted(r, field, err));
    }
    const size_t start = r->at;
    while (r->at < r->size && r->text[r->at] != ',' && r->text[r->at] != '\n') r->at++;
    *last = r->at == r->size || r->text[r->at] == '\n';
    size_t size = r->at - start;
    if (*last && size && r->text[r->at - 1] == '\r') size--;
    pith_str_append(field, r->text + start, size);
    r->at += r->at < r->size;
    return PITH_OK;
}

static enum pith_status cut_csv(struct pith_records *r, const char *line, struct pith_error *err)
{
    r->at = (size_t)(line - r->text);
    bool last = false;
    size_t n = 0;
    for (; n < PITH_RECORD_FIELDS && !last; n++)
        PITH_TRY(cut_field(r, &r->field[n], &last, err));
    if (last && n == PITH_RECORD_FIELDS) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: line %zu: %s %zu fields, not %d", r->path, r->line,
                     last ? "has" : "has more than", n, PITH_RECORD_FIELDS);
}

static enum pith_status cut_six(struct pith_records *r, const char *line, size_t size,
                                struct pith_error *err)
{
    size_t n = 0;
    do pith_str_append(&r->field[n++], line, size);
    while (n < PITH_RECORD_FIELDS && next_line(r, &line, &size));
    return n == PITH_RECORD_FIELDS ? PITH_OK : bad(r, err, "a record of fewer than six lines");
}

static enum pith_status check_fields(const struct pith_records *r, struct pith_error *err)
{
    for (size_t i = 0; i < PITH_RECORD_FIELDS; i++)
        if (r->field[i].failed) return pith_fail_nomem(err, "the questions of a task");
    return PITH_OK;
}

enum pith_status pith_records_next(struct pith_records *r, bool *more, struct pith_error *err)
{
    const char *line;
    size_t size;
    *more = begin(r, &line, &size);
    if (!*more) return PITH_OK;
    if (r->cut == PITH_CUT_JSON) return cut_json(r, line, size, err);
    for (size_t i = 0; i < PITH_RECORD_FIELDS; i++) pith_str_clear(&r->field[i]);
    PITH_TRY(r->cut == PITH_CUT_CSV ? cut_csv(r, line, err) : cut_six(r, line, size, err));
    return check_fields(r, err);
}

void pith_records_free(struct pith_records *r)
{
    json_decref(r->json);
    r->json = NULL;
    for (size_t i = 0; i < PITH_RECORD_FIELDS; i++) pith_str_free(&r->field[i]);
}
