/* eval/task/records.h: a text cut into records, in the three ways that public task files are. Knows
 * nothing of what a record means. */
#ifndef PITH_EVAL_TASK_RECORDS_H
#define PITH_EVAL_TASK_RECORDS_H

#include "base/json.h"
#include "base/str.h"

/* JSON lines; comma-separated values with quotes (RFC 4180), six to a record; six lines each. */
enum pith_record_cut { PITH_CUT_JSON, PITH_CUT_CSV, PITH_CUT_SIX };
enum { PITH_RECORD_FIELDS = 6 };

/* Start with path, text, size and cut set and the rest 0. path stands in messages; path and text,
 * which has come in by tok/text_input.h, are borrowed. */
struct pith_records {
    const char *path, *text;
    size_t size;
    enum pith_record_cut cut;
    size_t at, lines;                          /* read so far */
    size_t line;                               /* where the record in hand begins, from 1 */
    json_t *json;                              /* the record in hand: JSON */
    struct pith_str field[PITH_RECORD_FIELDS]; /* or its fields */
};

/* Goes to the next record; *more is false at the end. Blank lines between records are skipped,
 * carriage returns at the end of lines too. PITH_FORMAT names the line: not JSON, a quote that is
 * not closed, another number of fields, a record cut short. */
enum pith_status pith_records_next(struct pith_records *r, bool *more, struct pith_error *err);
/* Frees what *r owns; the record in hand goes with it. */
void pith_records_free(struct pith_records *r);

#endif
