/* base/status.h: recording a failure. The codes themselves are public: <pith/status.h>. */
#ifndef PITH_BASE_STATUS_H
#define PITH_BASE_STATUS_H

#include <pith/status.h>

#include <stdbool.h>

#if defined(__GNUC__)
#define PITH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PITH_PRINTF(fmt, args)
#endif

/* Records the message in *err unless err is NULL or already holds a failure; returns s, so that a
 * function can end in `return pith_fail(err, PITH_FORMAT, "%s: header ends at %zu", path, n);`.
 * Control characters in the expanded text (names come from hostile files) are replaced by '?'. */
enum pith_status pith_fail(struct pith_error *err, enum pith_status s, const char *fmt, ...)
    PITH_PRINTF(3, 4);

/* Puts "prefix: " before the message that err holds; no effect when err is NULL or holds none,
 * or when its message begins so already, or reports an interrupt.
 * Returns err's status, or s when err is NULL. */
enum pith_status pith_fail_in(struct pith_error *err, enum pith_status s, const char *prefix);
/* The same, and the failure becomes s: what was a wrong argument there is a wrong file here. prefix
 * may be NULL: the message says where already. */
enum pith_status pith_fail_as(struct pith_error *err, enum pith_status s, const char *prefix);

/* For a call with unfinished work: puts "; finished work is stored: go on with `resume`" behind the
 * message of the failure s, but for one that comes again in the same way (what is wrong with a file
 * or an option), and but for a message that names `resume`. Returns s. */
enum pith_status pith_fail_resumable(struct pith_error *err, enum pith_status s);
/* Whether the same call would fail in the same way again: nothing that it left is of use. */
bool pith_status_is_final(enum pith_status s);

/* pith_fail() for a failed system call: appends strerror(errno). ENOMEM becomes PITH_NOMEM, every
 * other errno PITH_IO. `what` is a verb phrase such as "cannot open". */
enum pith_status pith_fail_errno(struct pith_error *err, const char *what, const char *path);

/* pith_fail() for a failed allocation of `what`. */
enum pith_status pith_fail_nomem(struct pith_error *err, const char *what);

/* Forwards a failure: PITH_TRY(f(...)) returns from the calling function when f did not succeed.
 * Only for functions that own nothing at that point; others use the cleanup ladder. */
#define PITH_TRY(expr)                                                                             \
    do {                                                                                           \
        const enum pith_status pith_try_ = (expr);                                                 \
        if (pith_try_ != PITH_OK) return pith_try_;                                                \
    } while (0)

#endif
