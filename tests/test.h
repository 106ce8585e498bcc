/* tests/test.h: what every unit test needs. Tests may use libc freely. */
#ifndef PITH_TEST_H
#define PITH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pith/status.h>

/* The call succeeds; otherwise its own message is shown. */
#define assert_ok(call, err)                                                  \
    do {                                                                      \
        const enum pith_status s_ = (call);                                   \
        if (s_ != PITH_OK) fail_msg("%s: status %d: %s", #call, (int)s_, (err).text); \
    } while (0)

/* A fresh directory under TMPDIR; free() the name. The test removes what it puts there. */
static inline char *test_temp_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    char name[512];
    snprintf(name, sizeof name, "%s/pith-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(name)) fail_msg("mkdtemp failed");
    return strdup(name);
}

/* The optional data folder (real tokenizers, texts, models) or NULL: PITH_DATA, else ../shared/data. */
static inline const char *test_data_dir(void)
{
    const char *d = getenv("PITH_DATA");
    return d ? d : "../shared/data";
}

/* Whether the loops that take long are to be run too ("make test-all"). */
static inline bool test_thorough(void)
{
    const char *all = getenv("PITH_TEST_ALL");
    return all && *all;
}

#endif
