#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifndef PITH_VERSION
#define PITH_VERSION "0.0.0"
#endif

const char *pith_version(void)
{
    return PITH_VERSION;
}

const char *pith_status_text(enum pith_status s)
{
    switch (s) {
#define PITH_STATUS_CASE(name, number, text)                                                       \
    case PITH_##name: return text;
        PITH_STATUS_MAP(PITH_STATUS_CASE)
#undef PITH_STATUS_CASE
    }
    return "unknown status";
}

/* Messages quote names from files that may be hostile: no control characters reach a terminal. */
static void make_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f) *p = '?';
}

enum pith_status pith_fail(struct pith_error *err, enum pith_status s, const char *fmt, ...)
{
    if (!err || err->status != PITH_OK) return s;
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(err->text, sizeof err->text, fmt, ap) < 0) err->text[0] = '\0';
    va_end(ap);
    make_printable(err->text);
    err->status = s;
    return s;
}

enum pith_status pith_fail_in(struct pith_error *err, enum pith_status s, const char *prefix)
{
    if (!err || err->status == PITH_OK) return s;
    if (err->status == PITH_INTERRUPTED) return err->status; /* it has no place */
    char old[sizeof err->text];
    const size_t length = strlen(prefix);
    if (strncmp(err->text, prefix, length) == 0 && strncmp(err->text + length, ": ", 2) == 0)
        return err->status; /* the callee has named the place */
    memcpy(old, err->text, sizeof old);
    const int n = snprintf(err->text, sizeof err->text, "%s: ", prefix);
    if (n > 0 && (size_t)n < sizeof err->text) {
        const size_t room = sizeof err->text - (size_t)n - 1;
        const size_t len = strnlen(old, room);
        memcpy(err->text + n, old, len);
        err->text[(size_t)n + len] = '\0';
    }
    make_printable(err->text);
    return err->status;
}

enum pith_status pith_fail_as(struct pith_error *err, enum pith_status s, const char *prefix)
{
    if (err && err->status != PITH_OK) err->status = s;
    return prefix ? pith_fail_in(err, s, prefix) : s;
}

bool pith_status_is_final(enum pith_status s)
{
    return s == PITH_FORMAT || s == PITH_NUMERIC || s == PITH_UNSUPPORTED || s == PITH_ARG;
}

enum pith_status pith_fail_resumable(struct pith_error *err, enum pith_status s)
{
    static const char stored[] = "; finished work is stored: go on with `resume`";
    if (s == PITH_OK || pith_status_is_final(s) || !err || err->status != s) return s;
    const size_t length = strlen(err->text);
    if (length + sizeof stored <= sizeof err->text && !strstr(err->text, "`resume`"))
        memcpy(err->text + length, stored, sizeof stored);
    return s;
}

enum pith_status pith_fail_errno(struct pith_error *err, const char *what, const char *path)
{
    const int e = errno;
    const enum pith_status s = e == ENOMEM ? PITH_NOMEM : PITH_IO;
    const char *hint = e == ENOSPC || e == EDQUOT ? " (free some space and run again)"
                       : e == EFBIG ? " (a limit on the size of files, as ulimit -f sets it)"
                                    : "";
    return pith_fail(err, s, "%s: %s: %s%s", path, what, strerror(e), hint);
}

enum pith_status pith_fail_nomem(struct pith_error *err, const char *what)
{
    return pith_fail(err, PITH_NOMEM, "out of memory for %s", what);
}
