/* quantize/site/guide.h: a recipe that is guided by the loss wants the pass that makes gradients,
 * and leaves nothing behind where nobody hands one down. */
#include "base/file.h"
#include "quantize/run.h"
#include "unit/model/fixture.h"

#include <unistd.h>

static enum pith_status guided(struct pith_backend *be, const char *out, struct pith_error *err)
{
    struct pith_quantize_options o;
    struct pith_report *report = NULL;
    pith_quantize_defaults(&o);
    o.model = "models/probe";
    o.out = out;
    o.recipe = "guided";
    o.calib_tokens = 64;
    o.seq_len = 32;
    const struct pith_frame frame = {.quiet = true};
    const enum pith_status s = pith_quantize_model(be, &o, false, &frame, &report, err);
    pith_report_free(&report);
    return s;
}

static void refused_without_a_pass(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct pith_backend *be;
    assert_ok(pith_pool_new(1, &pool, &err), err);
    assert_ok(pith_backend_new(pool, PITH_CPU_ALL, &be, &err), err);
    char *dir = test_temp_dir();
    char out[256], partial[272];
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(partial, sizeof partial, "%s.partial", out);
    assert_int_equal(guided(be, out, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "gradients"));
    assert_false(pith_path_exists(out));
    assert_false(pith_path_exists(partial));
    assert_int_equal(rmdir(dir), 0); /* nothing is in it */
    free(dir);
    pith_backend_free(be);
    pith_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_without_a_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
