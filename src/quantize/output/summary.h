/* quantize/output/summary.h: what a run says of its pith.json.
 *
 *   summary.c         the report of a finished run, a conversion's too
 *   summary_parts.c   what it has in common with that of a rehearsal (rehearsal.c) */
#ifndef PITH_QUANTIZE_OUTPUT_SUMMARY_H
#define PITH_QUANTIZE_OUTPUT_SUMMARY_H

#include "quantize/job.h"
#include "report/report.h"

/* The report of a finished run, whose JSON is its account (taken over, NULL: memory was out). NULL
 * when memory is out. */
struct pith_report *pith_account_report(const struct pith_job *job, json_t *account);

/* A text under a label, wrapped; frees it. It may name fields of options. */
void pith_summary_line(struct pith_report *r, const char *label, enum pith_wrap wrap,
                       struct pith_str *text);
/* "32768 tokens in windows of 512 of the text that ships" of an account's "calibration"; nothing
 * where it is null. */
void pith_summary_calibration(struct pith_report *r, const json_t *calibration);
/* "read 1.2 s, round 3.4 s": members "seconds_..." of an object, each `times` as long, that took a
 * hundredth of the whole or more. */
void pith_summary_phases(struct pith_report *r, const json_t *phases, double times);
/* Which part of the weights has which grid, for a recipe that names those of single linears. */
void pith_summary_grids(struct pith_report *r, const json_t *linears);
/* Where groups are smaller than the recipe's: "groups" of an account, of so many linears. */
void pith_summary_groups(struct pith_report *r, const json_t *groups, size_t linears);
/* What the cache is expected to cost that was chosen with the recipe. */
void pith_summary_cache(struct pith_report *r, const json_t *recipe);

/* A number or a text of an object; 0 and "" where there is none. */
static inline double pith_summary_number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}
static inline const char *pith_summary_text(const json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? text : "";
}

#endif
