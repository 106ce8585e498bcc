/* pith/report.h: what a call found, built once by the library, and the forms in which it is
 * written: JSON for programs, text for people, a table, a page. The calls that end in _report give
 * one; those without it give its JSON. */
#ifndef PITH_REPORT_H
#define PITH_REPORT_H

#include <pith/names.h>
#include <pith/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pith_report;

/* How a report is written. Start with all zero, which is text without a terminal. */
struct pith_report_form {
    int json;             /* as JSON; nothing else here matters then but `field` */
    int all;              /* lists whole, where a text shows their beginning */
    int brief;            /* the short text that a report may have in place of the usual one */
    int bold;             /* names stand out by the terminal's marks for bold */
    size_t width;         /* columns of the terminal; 0: there is none, and nothing is shortened */
    size_t prose;         /* columns in which sentences are wrapped; 0: lines stay whole */
    const char *table;    /* the report's table alone, in this form: "markdown", "csv"; or NULL */
    pith_field_fn *field; /* how the fields that it names are called; NULL: as they are marked */
    void *field_ctx;
};

/* The report in that form, for pith_text_free(). PITH_ARG for an unknown form of tables. */
PITH_API enum pith_status pith_report_write(const struct pith_report *report,
                                            const struct pith_report_form *form, char **text,
                                            struct pith_error *err);

/* What a page says of its making; any may be NULL. Without a model it is the report's. */
struct pith_provenance {
    const char *model, *version, *date, *command;
};
/* The report as a page by itself, for pith_text_free(). PITH_ARG: it has none. */
PITH_API enum pith_status pith_report_page(const struct pith_report *report,
                                           const struct pith_provenance *from, char **html,
                                           struct pith_error *err);

/* Whether all that was looked for is as it should be: what a program may end with. 1 where the
 * report judges nothing. */
PITH_API int pith_report_good(const struct pith_report *report);

/* What is worth a line with it and no part of it, such as an option that had no effect; NULL:
 * nothing. It may name fields, and lives as long as the report. */
PITH_API const char *pith_report_remark(const struct pith_report *report);

/* Frees *report and sets it to NULL; NULL and a NULL *report are allowed. */
PITH_API void pith_report_free(struct pith_report **report);

/* Into text [room], of which 32 suffice: "3.20 GiB"; "12.3 s", "4 min 10 s". */
PITH_API void pith_bytes_text(double bytes, char *text, size_t room);
PITH_API void pith_seconds_text(double seconds, char *text, size_t room);

/* --- text at a terminal; columns are counted as the locale says ------------------------------- */

/* Columns that a text takes, and the bytes of it that fit into some. */
PITH_API size_t pith_text_columns(const char *text);
PITH_API size_t pith_text_fitting(const char *text, size_t columns);

/* Text into out [room], in at most `columns` columns (0: all of it): of what is longer the middle
 * gives way to "...", since the ends of a path say most. Cut where out ends. */
PITH_API void pith_text_shorten(const char *text, size_t columns, char *out, size_t room);

struct pith_text_wrap {
    size_t column; /* where the text begins */
    size_t indent; /* of the lines after the first */
    size_t width;  /* of a line; 0: one line */
    int shorten;   /* words that no line has room for; else they stay whole */
    int items;     /* lines end behind commas alone, not at every blank */
};
/* The text with line ends between its words, and one at its end; for pith_text_free(). NULL when
 * memory is out. */
PITH_API char *pith_text_wrapped(const char *text, const struct pith_text_wrap *wrap);

#ifdef __cplusplus
}
#endif
#endif
