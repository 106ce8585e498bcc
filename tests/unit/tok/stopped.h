/* tests/unit/tok/stopped.h: a listener that stops a tokenizer the first time it is asked. */
#ifndef PITH_TEST_TOK_STOPPED_H
#define PITH_TEST_TOK_STOPPED_H

#include "base/progress.h"
#include "test.h"
#include "tok/tokenizer.h"

static int stop_at_once(void *ctx, const char *name, double done, double total)
{
    (void)name;
    (void)done;
    (void)total;
    ++*(int *)ctx;
    return 1;
}

/* Encoding a long text ends at the first question, with no tokens; closes t. */
static void check_stopped(struct pith_tokenizer *t, const char *text, size_t size)
{
    int asked = 0;
    const struct pith_progress listener = {stop_at_once, &asked};
    struct pith_ids ids = {0};
    struct pith_error err = {0};
    pith_tokenizer_listen(t, &listener);
    assert_int_equal(pith_tokenizer_encode(t, text, size, false, &ids, &err), PITH_INTERRUPTED);
    assert_int_equal(asked, 1);
    assert_int_equal(ids.count, 0);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
}

#endif
