/* quantize/output/journal.h: what of a job is done, for --resume.
 *
 *   work_folder.c   whether there is something to resume
 *   journal.c       its file: whether that is of this job
 *   disk_check.c    the files against it
 *   source.c        the input against it */
#ifndef PITH_QUANTIZE_OUTPUT_JOURNAL_H
#define PITH_QUANTIZE_OUTPUT_JOURNAL_H

#include "base/async.h"
#include "calib/collect.h"
#include "quantize/job.h"
#include "quantize/units.h"

struct pith_run;

/* The last finished unit, while it is being made safe: activations hashed, shards synced, the
 * journal's line written, at the same time as the next unit's work. */
struct pith_finish {
    struct pith_async *job;
    json_t *unit;                      /* owned; the job's alone while it runs */
    const struct pith_acts *acts;      /* the unit's output, or NULL */
    struct pith_acts output, output_float; /* output_float.x: NULL when there is none */
};

struct pith_journal {
    json_t *units;               /* entries of finished units: "outer", then a block each */
    char chain[PITH_SHA256_HEX]; /* of the file's last line */
    struct pith_finish finish;
};

/* Reads what an earlier run finished into units (an empty array when there is none). Of a journal
 * that was changed, the lines before the first changed one count, and the listener gets a report.
 * PITH_IO when it was another job, or when a link stands in its place. */
enum pith_status pith_journal_open(const struct pith_job *job, struct pith_journal *journal,
                                   struct pith_error *err);
/* Appends one unit's line to the file, after everything it names is on disk. The caller adds it to
 * the list of units; one call at a time. */
enum pith_status pith_journal_write(const struct pith_job *job, struct pith_journal *journal,
                                    const json_t *unit, struct pith_error *err);
/* Forgets all units but the first `keep`, here and in the file. */
enum pith_status pith_journal_cut(const struct pith_job *job, struct pith_journal *journal,
                                  size_t keep, struct pith_error *err);

/* disk_check.c: how many of the first units in the journal's units are whole: every linear and
 * every tensor that the plan has for them, as long as planned, and in the files as the journal
 * says. */
enum pith_status pith_intact_units(struct pith_run *r, size_t *count, struct pith_error *err);
/* At the end: opens the shards anew, reads all of them from the disk and compares: headers with the
 * layout's, every tensor of the layout with what the journal's units say was written, what lies
 * between with zeros. PITH_MISMATCH or PITH_IO names the file, and the tensor. */
enum pith_status pith_reread(struct pith_run *r, struct pith_error *err);
/* Just before they get their final name, and behind it: nobody touched them since. `where`: the
 * folder that they are in now, or the file that is all of them; NULL: where they were read.
 * PITH_MISMATCH when somebody did. */
enum pith_status pith_reread_holds(const struct pith_run *r, const char *where,
                                   struct pith_error *err);

/* source.c: hashes the tensors of the input that a unit reads, in full, and notes them in *unit as
 * "source" where the journal is written (input_hashes.h). */
enum pith_status pith_source_note(struct pith_run *r, size_t index, json_t *unit,
                                  struct pith_error *err);
/* Once a unit is in the file, only a later resume reads these. */
void pith_source_forget(json_t *unit);
/* True when what the units in the journal's units read is still what the input holds; PITH_IO when
 * not. */
enum pith_status pith_source_check(struct pith_run *r, struct pith_error *err);
/* Identifies the job: input, recipe, options, calibration, version. */
enum pith_status pith_journal_fingerprint(struct pith_job *job, struct pith_error *err);

#endif
