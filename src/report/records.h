/* report/records.h: lists of records, objects with the same rows, as names, as one in full and as
 * tables. Each record stands between pith_report_open(r, "") and pith_report_close(); its rows have
 * keys alone. A place is the index of an item of a report. */
#ifndef PITH_REPORT_RECORDS_H
#define PITH_REPORT_RECORDS_H

#include "report/report.h"

#define PITH_NO_RECORD SIZE_MAX

/* The first record of the list whose records begin at `from`, and the one behind a record;
 * PITH_NO_RECORD: there is none, or memory was out while the list was filled. */
size_t pith_record_first(const struct pith_report *r, size_t from);
size_t pith_record_next(const struct pith_report *r, size_t record);
/* The text of a record's row; NULL where it has none of that key. Valid until the report grows. */
const char *pith_record_text(const struct pith_report *r, size_t record, const char *key);
/* The record whose row `key` is that word in any case. */
size_t pith_record_find(const struct pith_report *r, size_t from, const char *key,
                        const char *word);
/* Adds the rows of a record of `all` to `to`, another report, which fails where `all` has. */
void pith_record_copy(struct pith_report *to, const struct pith_report *all, size_t record);

/* Appends to `to` what shows records of `all`, which may be the same report: the names under `key`
 * and what each is; a record in full, but for the rows `title` and `other` (may be NULL) and for
 * what says nothing. `to` fails where `all` has. */
void pith_records_names(struct pith_report *to, const struct pith_report *all, size_t from,
                        const char *key);
void pith_record_entry(struct pith_report *to, const struct pith_report *all, size_t record,
                       const char *title, const char *other);
/* Fills a table with the list; its columns are the rows of the first record. */
void pith_records_table(const struct pith_report *r, size_t from, struct pith_table *t);

#endif
