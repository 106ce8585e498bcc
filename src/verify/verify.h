/* verify/verify.h: one verification, shared by the files that make its checks.
 *
 *   verify.c   the account against the files; the order of checks
 *   files.c    files, headers and keys that hold no tensor's data
 *   linears.c  what the linears dequantize to, and how far that is from the original
 *   tensors.c  every other tensor against the original
 *   meaning.c  what a forward pass reads from both configs and tokenizers
 *   ranks.c    what ranks share of it */
#ifndef PITH_VERIFY_VERIFY_H
#define PITH_VERIFY_VERIFY_H

#include "quantize/output/seal.h"
#include "quantize/run.h"
#include "report/report.h"

/* Of the linears, counted as they are met. */
struct pith_verify_sums {
    uint64_t weights, pruned; /* quantized weights; linears of 16 bits with zeros in them */
    double bits;              /* of the quantized weights */
};

/* A line of the report. */
struct pith_check {
    char *what; /* owned */
    bool good;
};

struct pith_verification {
    const struct pith_verify_options *options;
    struct pith_backend *backend;
    /* The files alone: damage beyond repair still gets a report. The model's when there is one,
     * which may show parts of tensors in their place. */
    struct pith_checkpoint *checkpoint;
    struct pith_model *model, *original;
    struct pith_account file; /* pith.json */
    const json_t *account;    /* of it all but its lists; NULL: there is none */
    struct pith_basis basis;  /* of the stored tensors, against the original's */
    struct pith_check *check; /* [checks] */
    size_t checks, check_cap;
    json_t *problems, *notes;
    bool failed;     /* memory was out: a line of these is missing, or wrong */
    bool elsewhere;  /* another rank checks: problems are not reported here */
    uint64_t others; /* elements of all tensors but the quantized weights */
    struct pith_verify_sums sums;
    double passed; /* bytes of the stored tensors that were met */
    double done, total;
};

/* Something that is not as it should be. */
void pith_problem(struct pith_verification *v, const char *fmt, ...) PITH_PRINTF(2, 3);
/* A call that failed, which is a problem of `where` (or of none, NULL); when memory was out it is
 * none, and there is no report. */
void pith_fault(struct pith_verification *v, const char *where, const struct pith_error *why);
/* Something that a reader of the report should know, and that is no fault. */
void pith_note(struct pith_verification *v, const char *fmt, ...) PITH_PRINTF(2, 3);
/* What was checked; it is good when no problem came since there were `before` of them. */
void pith_checked(struct pith_verification *v, size_t before, const char *fmt, ...)
    PITH_PRINTF(3, 4);
static inline size_t pith_problems(const struct pith_verification *v)
{
    return json_array_size(v->problems);
}
enum pith_status pith_verify_tick(struct pith_verification *v, const char *what,
                                  struct pith_error *err);
/* Whether tensors are stored in another basis than the original's. */
static inline bool pith_verify_rotates(const struct pith_verification *v)
{
    return v->basis.stream.dim || v->basis.head.dim || v->basis.o.dim || v->basis.down.dim;
}
/* Entry i of one of the account's lists: a new reference, NULL where a problem was reported. */
json_t *pith_verify_entry(struct pith_verification *v, struct pith_entries *list, size_t i);
/* The entry of that name, which is then met: a new reference; NULL without one likewise. */
json_t *pith_verify_meet(struct pith_verification *v, struct pith_entries *list, const char *name);
/* Whether there is one, which stays as it is. */
bool pith_verify_has(struct pith_verification *v, struct pith_entries *list, const char *name);
/* The account's version; 1 where it states none. */
int64_t pith_account_version(const json_t *account);

/* ranks.c. All ranks make these calls; one alone owns everything and goes on as it is.
 *
 * Whether question i of `count` is this rank's; problems of the others' are not reported until
 * pith_verify_share(), by which those since there were `before` become everyone's. */
bool pith_verify_own(struct pith_verification *v, size_t i, size_t count);
enum pith_status pith_verify_share(struct pith_verification *v, size_t before,
                                   struct pith_error *err);
/* Which entries were met; what was counted. */
enum pith_status pith_verify_share_met(struct pith_verification *v, struct pith_entries *list,
                                       struct pith_error *err);
enum pith_status pith_verify_share_sums(struct pith_verification *v, struct pith_error *err);
/* All have found the same so far, so that they go on alike; PITH_MISMATCH. */
enum pith_status pith_verify_agree(struct pith_verification *v, struct pith_error *err);
/* Reports a failure; else everyone is done. */
enum pith_status pith_verify_end(struct pith_verification *v, enum pith_status s,
                                 struct pith_error *err);

/* The account's seal, and its list of files against those that are there. */
enum pith_status pith_verify_files(struct pith_verification *v, struct pith_error *err);
/* Every linear of the model against its entry, and with an original against that. */
enum pith_status pith_verify_linears(struct pith_verification *v, struct pith_error *err);
/* Every tensor of the original: quantized, or what the account says of it. */
enum pith_status pith_verify_tensors(struct pith_verification *v, struct pith_error *err);
/* The same for a checkpoint without an account. */
enum pith_status pith_verify_unaccounted(struct pith_verification *v, struct pith_error *err);
/* Whether both configs mean the same model; false, with problems, when the shapes differ so that
 * no tensor can be compared. */
bool pith_verify_shape(struct pith_verification *v);
/* Token ids and tokenizers. */
enum pith_status pith_verify_tokens(struct pith_verification *v, struct pith_error *err);

/* The whole, for include/pith/quantize.h. *report is new, for pith_report_free(); NULL where there
 * is none. */
enum pith_status pith_verify_model(struct pith_backend *be, const struct pith_verify_options *o,
                                   struct pith_report **report, struct pith_error *err);

#endif
