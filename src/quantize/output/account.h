/* quantize/output/account.h: pith.json: what was done, to every tensor, and what it cost. */
#ifndef PITH_QUANTIZE_OUTPUT_ACCOUNT_H
#define PITH_QUANTIZE_OUTPUT_ACCOUNT_H

#include "plan/time/rehearsed.h"
#include "quantize/job.h"
#include "quantize/phases.h"
#include "report/report.h"

struct pith_rehearsal;
struct pith_run;

/* Names of what the calibration text was read from, "builtin" for the text that ships;
 * and which of its tokens, all sources one after the other, a set's windows have: [from, to) each,
 * those that touch as one. New references, NULL when memory is out. */
json_t *pith_job_sources(const struct pith_job *job);
json_t *pith_job_offsets(const struct pith_calib_set *set);
/* pith.json of a finished run; new reference, NULL when memory is out. */
json_t *pith_run_account(const struct pith_run *r);
/* Adds its list of files ("files": io/digest.h), as they lie on the disk now. */
enum pith_status pith_account_files(const struct pith_run *r, json_t *account,
                                    struct pith_error *err);
/* Parts of it that a rehearsal has too; new references, NULL when memory is out. The calibration,
 * null where nothing is calibrated; the arrays `key` of all units, joined; the container's name,
 * "none" where nothing is quantized. */
json_t *pith_account_calibration(const struct pith_job *job);
json_t *pith_account_joined(const struct pith_run *r, const char *key);
const char *pith_account_container(const struct pith_job *job);
/* How many weights an entry of "linears" stands for. */
double pith_account_weights(const json_t *linear);
/* Where groups are smaller than the recipe's: {"wanted", "grid", "linears": how many, "columns": of
 * those rows that the recipe's own do not divide}; an empty list: nowhere. */
json_t *pith_account_groups(const json_t *linears);

/* rehearsal.c: NULL when memory is out. */
struct pith_report *pith_run_rehearsal(struct pith_run *r, const struct pith_rehearsal *all);

#endif
