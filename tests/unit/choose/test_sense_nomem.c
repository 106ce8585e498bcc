/* Whichever request for memory fails while sensitivities are measured, or -r auto looks for its
 * recipe, the call tells so and leaks nothing; what it leaves behind gives the same numbers when it
 * is gone on with, and so does what a kill leaves. */
#include <pith/context.h>
#include <pith/sensitivity.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "requests.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY "tests/golden/eval/tiny"
#define PROBE "models/probe"

static struct pith_context *context;
static char *folder, *work, *partial;

static enum pith_status sense(bool resume, char **report, struct pith_error *err)
{
    static const char *const grids[] = {"int4:channel", "int3:channel"};
    static const char *const acts[] = {"int8:token", "nvfp4"}, *const caches[] = {"turbo3"};
    struct pith_sensitivity_options o;
    pith_sensitivity_defaults(&o);
    o.model = TINY;
    o.work = work;
    o.tries = (struct pith_list){grids, 2};
    o.acts = (struct pith_list){acts, 2};
    o.caches = (struct pith_list){caches, 1};
    o.calib_tokens = 64;
    o.seq_len = 16;
    o.resume = resume;
    return pith_sensitivity(context, &o, report, err);
}

static enum pith_status find_recipe(bool resume, char **report, struct pith_error *err)
{
    static const char *const grids[] = {"int4:g128", "int3:g128"};
    struct pith_quantize_options o;
    pith_quantize_defaults(&o);
    o.model = PROBE;
    o.out = work;
    o.recipe = "auto";
    o.budget = "3.6";
    o.tries = (struct pith_list){grids, 2};
    o.calib_tokens = 16;
    o.seq_len = 16;
    o.resume = resume;
    return pith_quantize(context, &o, report, err);
}

typedef enum pith_status called(bool resume, char **report, struct pith_error *err);

static void clear(void)
{
    struct pith_error err = {0};
    const char *const ends[] = {"", ".partial", ".auto"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s%s", work, ends[i]);
        if (pith_path_exists(path)) assert_ok(pith_dir_remove(path, &err), err);
    }
}

/* A call with request n failing; true when one did. */
static bool survives(called call, long n, char **report)
{
    struct pith_error err = {0};
    *report = NULL;
    const long before = atomic_load(&live);
    atomic_store(&countdown, n);
    const enum pith_status s = call(false, report, &err);
    const bool failed = atomic_exchange(&countdown, -1) < 0;
    /* What can do without some memory may come to its end. */
    if (s != PITH_OK && (s != PITH_NOMEM || !failed))
        fail_msg("request %ld: status %d, %s", n, (int)s, err.text);
    if (s != PITH_OK && atomic_load(&live) != before)
        fail_msg("request %ld: %ld blocks leaked", n, atomic_load(&live) - before);
    return failed;
}

/* Requests 0, 1, 2, ..., later more and more of them left out. */
static long each_request(called call, const char *whole, long step)
{
    long n = 0, tried = 0;
    for (bool failed = PITH_REQUESTS; failed; n += 1 + n / step, tried++) {
        struct pith_error err = {0};
        char *report;
        clear();
        failed = survives(call, n, &report);
        if (!report && failed && whole) assert_ok(call(true, &report, &err), err);
        if (whole) assert_string_equal(report, whole);
        pith_text_free(report);
    }
    clear();
    return tried;
}

static void sensitivities(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char *whole;
    assert_ok(sense(false, &whole, &err), err);
    assert_false(pith_path_exists(partial));
    assert_non_null(strstr(whole, "\"acts\""));
    assert_true(!PITH_REQUESTS || each_request(sense, whole, test_thorough() ? 400 : 30) > 40);
    pith_text_free(whole);
}

static void recipes(void **state)
{
    (void)state;
    assert_true(!PITH_REQUESTS || each_request(find_recipe, NULL, test_thorough() ? 10 : 2) > 10);
}

static size_t steps, most;
static int stop(void *ctx, const char *what, double done, double total)
{
    (void)ctx, (void)what, (void)done, (void)total;
    return ++steps > most;
}

/* Stopped at every step there is. */
static void goes_on(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char *whole, *report = NULL;
    assert_ok(sense(false, &whole, &err), err);
    const struct pith_progress stopping = {stop, NULL}, none = {0};
    pith_context_listen(context, stopping, NULL, NULL);
    size_t stopped = 0;
    for (most = 0;; most++, stopped++) {
        steps = 0;
        const enum pith_status s = sense(pith_path_exists(partial), &report, &err);
        if (s == PITH_OK) break;
        assert_int_equal(s, PITH_INTERRUPTED);
        err = (struct pith_error){0};
    }
    pith_context_listen(context, none, NULL, NULL);
    assert_true(stopped >= 3);
    assert_string_equal(report, whole);
    pith_text_free(report);
    pith_text_free(whole);
}

static int make_place(void **state)
{
    (void)state;
    struct pith_error err = {0};
    folder = test_temp_dir();
    work = pith_path_join(folder, "w");
    partial = pith_path_join(folder, "w.partial");
    return pith_context_new(2, NULL, &context, &err) == PITH_OK && work && partial ? 0 : 1;
}

static int leave_place(void **state)
{
    (void)state;
    struct pith_error err = {0};
    pith_context_free(&context);
    const enum pith_status s = pith_dir_remove(folder, &err);
    pith_free(work);
    pith_free(partial);
    free(folder);
    return s == PITH_OK ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sensitivities), cmocka_unit_test(recipes),
                                       cmocka_unit_test(goes_on)};
    return cmocka_run_group_tests(tests, make_place, leave_place);
}
