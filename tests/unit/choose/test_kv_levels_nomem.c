/* Whichever request for memory fails while levels of keys and values are made or read, the call
 * tells so, leaks nothing and leaves the model without them. */
#include "choose/kv_levels.h"
#include "requests.h"
#include "unit/eval/fixture.h"

#include <unistd.h>

static struct rig r;
static char *path;

/* With request n failing; true when one did. */
static bool survives(long n, bool record)
{
    struct pith_error err = {0};
    const struct pith_kv_levels_job job = {
        .backend = r.backend, .model = r.worse, .tokenizer = r.tokenizer};
    if (!record) (void)unlink(path);
    const long before = atomic_load(&live);
    atomic_store(&countdown, n);
    const enum pith_status s = pith_kv_levels_need(&job, &err);
    const bool failed = atomic_exchange(&countdown, -1) < 0;
    if (s != PITH_OK && (s != PITH_NOMEM || !failed))
        fail_msg("request %ld: status %d, %s", n, (int)s, err.text);
    assert_true((s == PITH_OK) == (r.worse->kv_levels != NULL));
    pith_kv_levels_free(r.worse->kv_levels);
    r.worse->kv_levels = NULL;
    if (n >= 0 && atomic_load(&live) != before)
        fail_msg("request %ld: %ld blocks leaked", n, atomic_load(&live) - before);
    return failed;
}

static void each_request(void **state)
{
    (void)state;
    for (int record = 0; record < 2; record++) {
        long tried = 0;
        (void)survives(-1, false); /* what is made once and stays */
        for (long n = 0; PITH_REQUESTS && survives(n, record); n += 1 + n / 20) tried++;
        assert_true(!PITH_REQUESTS || tried > (record ? 3 : 30));
    }
}

int main(void)
{
    struct pith_error err = {0};
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_request)};
    rig_open(&r, GOLDEN "tiny", 1);
    assert_ok(pith_model_load_blocks(r.worse, r.backend, &err), err);
    path = pith_path_join(r.worse_dir, "pith.kvquant.json");
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    pith_free(path);
    rig_close(&r);
    return result;
}
