/* Whichever request for memory fails, timing a model and putting it on another grid say so and leak
 * nothing. */
#include "requests.h"

#include "eval/speed/regrid.h"
#include "eval/speed/speed.h"
#include "unit/eval/fixture.h"

static enum pith_status regrid_and_time(void *ctx, struct pith_error *err)
{
    struct pith_backend *b = ctx;
    struct pith_model *m;
    struct pith_grid linears, head;
    struct pith_speed out;
    PITH_TRY(pith_grid_parse("int4:g16:asym", &linears, err));
    PITH_TRY(pith_grid_parse("fp8_e4m3:channel", &head, err));
    PITH_TRY(pith_model_open(GOLDEN "tiny", &m, err));
    enum pith_status s = pith_model_load_blocks(m, NULL, err);
    if (s == PITH_OK) s = pith_model_regrid(m, NULL, &linears, &head, err);
    if (s == PITH_OK) s = pith_model_pack(m, b, err);
    const struct pith_speed_job job = {.backend = b,
                                       .model = m,
                                       .kv = pith_kv_floats(PITH_F32),
                                       .prompt = 2,
                                       .gen = 1,
                                       .depth = 3,
                                       .reps = 1};
    if (s == PITH_OK) s = pith_speed_measure(&job, &out, err);
    pith_model_close(m);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_backend *b;
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b, &err), err);
    const long n = fail_each_request(regrid_and_time, b, false);
    print_message("%ld of %ld requests failed\n", n, atomic_load(&requests));
    assert_true(!PITH_REQUESTS || n > 40); /* a sanitizer's allocator never fails */
    pith_backend_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
