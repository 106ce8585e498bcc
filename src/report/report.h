/* report/report.h: what a call found, as rows; built once, where the numbers are.
 *
 * A report is a list of items in the order in which they were added. Sections, lists and rows that
 * have a key are members of its JSON; rows that have a label, lines and tables are its text. What
 * one form has in another order or wording than the other is added for each alone: a row without a
 * label, a line. Nothing is checked while it is filled: that memory ran out is remembered, and
 * reported when it is written.
 *
 *   report.c     items and values          tree.c       their JSON
 *   terminal.c   their text                wrap.c       words, lines and columns of a terminal
 *   units.c      sizes and times         page_*.c     pages, from the JSON
 *   records.c    lists of objects with the same rows */
#ifndef PITH_REPORT_REPORT_H
#define PITH_REPORT_REPORT_H

#include <pith/report.h>

#include "base/json.h"
#include "base/status.h"
#include "report/page.h"
#include "report/table.h"

#include <math.h>

enum pith_value_kind {
    PITH_VALUE_NULL,
    PITH_VALUE_WHOLE,
    PITH_VALUE_REAL,
    PITH_VALUE_SHARE, /* a fraction; per cent in text */
    PITH_VALUE_TEXT,
    PITH_VALUE_YES,
    PITH_VALUE_TREE
};

struct pith_value {
    enum pith_value_kind kind;
    int digits;    /* after the point, in text */
    int64_t whole; /* of YES 0 or 1 */
    double real;   /* null in JSON where it is not finite */
    const char *text;
    json_t *tree; /* taken over by the report */
};

static inline struct pith_value pith_whole(int64_t x)
{
    return (struct pith_value){.kind = PITH_VALUE_WHOLE, .whole = x};
}
static inline struct pith_value pith_count(size_t x)
{
    return pith_whole((int64_t)x);
}
/* A count or bytes that were added up as doubles, rounded; null from 2^62 on. */
static inline struct pith_value pith_rounded(double x)
{
    if (!(fabs(x) < 0x1p62)) return (struct pith_value){.kind = PITH_VALUE_NULL};
    return pith_whole((int64_t)llround(x));
}
static inline struct pith_value pith_real(double x, int digits)
{
    return (struct pith_value){.kind = PITH_VALUE_REAL, .real = x, .digits = digits};
}
static inline struct pith_value pith_share(double x, int digits)
{
    return (struct pith_value){.kind = PITH_VALUE_SHARE, .real = x, .digits = digits};
}
/* NULL is null. Bytes that are no UTF-8 are written as pith_json_name() has them. */
static inline struct pith_value pith_words(const char *text)
{
    return (struct pith_value){.kind = text ? PITH_VALUE_TEXT : PITH_VALUE_NULL, .text = text};
}
static inline struct pith_value pith_yes(bool x)
{
    return (struct pith_value){.kind = PITH_VALUE_YES, .whole = x};
}
/* What a file format or another part of the library has as JSON already; NULL: memory was out. */
static inline struct pith_value pith_tree(json_t *tree)
{
    return (struct pith_value){.kind = PITH_VALUE_TREE, .tree = tree};
}

/* A value by name. */
struct pith_row {
    const char *key;   /* in JSON; NULL: text only */
    const char *label; /* in text; NULL: JSON only */
    const char *unit;  /* behind the value in text: " nats a token"; may be NULL */
    struct pith_value value;
};

/* An empty one, for pith_report_free(); NULL when memory is out. */
struct pith_report *pith_report_new(void);
/* Adds a row. In a list, which has no keys, one with the key "" is a member. */
void pith_report_row(struct pith_report *r, const struct pith_row *row);
/* The same of a row of JSON alone. */
void pith_report_set(struct pith_report *r, const char *key, struct pith_value value);
/* The members of an object that exists as JSON already; takes the reference, NULL: memory was out.
 */
void pith_report_merge(struct pith_report *r, json_t *object);
/* [lo, hi], each null where it is not finite. */
void pith_report_interval(struct pith_report *r, const char *key, double lo, double hi);

/* Begins an object or a list, which the same number of pith_report_close() ends; in a list the key
 * is "". */
void pith_report_open(struct pith_report *r, const char *key);
void pith_report_list(struct pith_report *r, const char *key);
void pith_report_close(struct pith_report *r);

/* How long a line of text may become before it is wrapped at its blanks. */
enum pith_wrap {
    PITH_WRAP_NONE,     /* as long as it is */
    PITH_WRAP_TERMINAL, /* the terminal's width, where there is one */
    PITH_WRAP_PROSE,    /* the width for sentences */
    PITH_WRAP_ITEMS,    /* the same of a list, behind commas alone */
    PITH_WRAP_PAIR,     /* the terminal's; from the next line on where the lead takes over half */
    PITH_WRAP_BELOW     /* all of it on the next line where it is wider than the terminal */
};
/* Where lists are shown in part: lines that only the part has, or only the whole. BRIEF: what
 * stands in the place of all else where a brief text is wanted. TABLES: what is written where only
 * tables are wanted, and the report has several; a line is the title of one. */
enum pith_detail {
    PITH_DETAIL_ANY,
    PITH_DETAIL_PART,
    PITH_DETAIL_WHOLE,
    PITH_DETAIL_BRIEF,
    PITH_DETAIL_TABLES
};

/* A line of text: `lead` as it is, `strong` in bold, then what is formatted, wrapped. */
struct pith_line {
    const char *lead, *strong; /* may be NULL */
    size_t reserve; /* columns that a terminal keeps free behind `strong`, which is shortened for
                      it; 0: it stays whole */
    enum pith_wrap wrap;
    size_t indent; /* of lines after the first */
    enum pith_detail detail;
    bool fields; /* it may name fields of options, in backquotes */
};
void pith_report_line(struct pith_report *r, const struct pith_line *how, const char *fmt, ...)
    PITH_PRINTF(3, 4);
/* An empty line. */
void pith_report_gap(struct pith_report *r);
/* Where the values of labels begin. */
enum { PITH_REPORT_INDENT = 19 };
/* A line under a label: "  label            text". */
void pith_report_label(struct pith_report *r, const char *label, enum pith_wrap wrap,
                       const char *fmt, ...) PITH_PRINTF(4, 5);
/* A line that ends in a bar, as long as `share` of the longest, which leaves `reserve` columns. */
void pith_report_bar(struct pith_report *r, double share, size_t reserve, const char *fmt, ...)
    PITH_PRINTF(4, 5);

/* A table, which is filled at any time; it belongs to the report. */
struct pith_table *pith_report_add_table(struct pith_report *r, enum pith_detail detail);
/* Adds a table that was filled elsewhere, which is empty then. */
void pith_report_take_table(struct pith_report *r, enum pith_detail detail, struct pith_table *t);
/* The report's table alone, which its text does not show: for pith_report_form's `table`. */
struct pith_table *pith_report_alone(struct pith_report *r);

/* Its JSON is a list; what is added are its members. */
void pith_report_listed(struct pith_report *r);

/* What a report is judged by; the page that can be made of it. */
void pith_report_judge(struct pith_report *r, bool good);
void pith_report_paged(struct pith_report *r, pith_page_fn *page);
/* What is worth a line with a report and no part of it; a later one replaces it. */
void pith_report_remark_set(struct pith_report *r, const char *text);

/* Its JSON, a new reference; NULL when memory was out. */
json_t *pith_report_tree(const struct pith_report *r);

/* --- for the renderers ------------------------------------------------------------------------ */

enum pith_report_kind {
    PITH_REPORT_ROW,
    PITH_REPORT_OPEN,
    PITH_REPORT_LIST,
    PITH_REPORT_CLOSE,
    PITH_REPORT_LINE,
    PITH_REPORT_BAR,
    PITH_REPORT_TABLE
};
struct pith_report_item {
    enum pith_report_kind kind;
    enum pith_detail detail;
    /* Offsets into the report's text; 0: NULL. A line's lead, strong part and words. */
    size_t key, label, unit, text, lead, strong;
    struct pith_value value; /* its text stands in the report */
    struct pith_line line;   /* its texts stand in the report */
    double share;
    struct pith_table *table;
};
struct pith_report {
    struct pith_report_item *item;
    size_t count, cap;
    struct pith_str text; /* all texts, each with its NUL */
    struct pith_table alone;
    struct pith_table lost; /* what is filled in when memory is out: it has failed */
    pith_page_fn *page;
    size_t remark; /* as the offsets above */
    bool bad, failed, listed;
};
/* NULL for 0. */
const char *pith_report_at(const struct pith_report *r, size_t offset);
/* A value as text shows it. */
void pith_value_text(const struct pith_report *r, const struct pith_report_item *n,
                     struct pith_str *out);
/* The text of the whole. PITH_NOMEM. */
enum pith_status pith_report_terminal(const struct pith_report *r,
                                      const struct pith_report_form *form, struct pith_str *out,
                                      struct pith_error *err);
/* A table in columns, in parts where the terminal is too narrow. */
void pith_table_terminal(const struct pith_table *t, size_t width, struct pith_str *out);

#endif
