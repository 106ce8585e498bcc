/* quantize/output/work_folder.h: where a run works: which folders may be there before, what remains
 * of them after. */
#ifndef PITH_QUANTIZE_OUTPUT_WORK_FOLDER_H
#define PITH_QUANTIZE_OUTPUT_WORK_FOLDER_H

#include "quantize/job.h"

struct pith_run;

/* Names the folder to work in: "<out>.partial" or "<out>.rehearsal". */
enum pith_status pith_place_name(struct pith_job *job, struct pith_error *err);
/* Whether `out`, or an unfinished run on the way to it, is there; true when memory is out. */
bool pith_place_is_begun(const struct pith_quantize_options *o);
/* Where the account of a finished model is: in its folder, or next to its file
 * ("NAME.pith.json"); pith_free() it, NULL when memory is out. */
char *pith_account_path(const char *model);
/* PITH_IO when what is there already forbids this run. */
enum pith_status pith_place_check(const struct pith_job *job, struct pith_error *err);
/* When `out` is this very job's finished result (a run may be killed after its last step), *report
 * receives its account, a new reference, and the run's remaining work files go. PITH_IO when `out`
 * is anything else; no report when there is none. */
enum pith_status pith_place_published(const struct pith_job *job, json_t **report,
                                      struct pith_error *err);
/* Removes from `dir` what only an unfinished run needs; the journal only with `journal`. */
enum pith_status pith_place_sweep(const struct pith_job *job, const char *dir, bool journal,
                                  struct pith_error *err);
/* At the end: what is in the folder that was worked in gets its final place, so that a kill at any
 * point leaves something that --resume completes. The account is sealed and saved by it. */
enum pith_status pith_place_publish(struct pith_run *r, json_t *account, struct pith_error *err);
/* Makes the folder, or takes the one that is there, and locks it. */
enum pith_status pith_place_make(struct pith_run *r, struct pith_error *err);
/* At the end of a run: removes the folder when nobody can go on with it (a rehearsal's, or after a
 * failure that would come again), else lets the message say how to go on. */
void pith_place_leave(const struct pith_run *r, enum pith_status s, struct pith_error *err);

#endif
