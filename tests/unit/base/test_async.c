/* Work beside the caller, and hints to the kernel that must change nothing. */
#include "base/async.h"
#include "base/file.h"
#include "base/mem.h"
#include "test.h"

#include <string.h>

static enum pith_status count_up(void *ctx, struct pith_error *err)
{
    (void)err;
    for (int i = 0; i < 1000; i++) ++*(int *)ctx;
    return PITH_OK;
}

static enum pith_status give_up(void *ctx, struct pith_error *err)
{
    return pith_fail(err, PITH_IO, "%s", (const char *)ctx);
}

static void jobs_give_their_status(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_async *job = NULL, *other = NULL;
    int n = 0;
    assert_ok(pith_async_wait(&job, &err), err);
    assert_ok(pith_async_start(count_up, &n, &job, &err), err);
    assert_ok(pith_async_start(give_up, "no more", &other, &err), err);
    assert_ok(pith_async_wait(&job, &err), err);
    assert_null(job);
    assert_int_equal(n, 1000);
    assert_int_equal(pith_async_wait(&other, &err), PITH_IO);
    assert_string_equal(err.text, "no more");
    assert_null(other);
    assert_ok(pith_async_start(give_up, "unheard", &other, NULL), err);
    assert_int_equal(pith_async_wait(&other, NULL), PITH_IO);
}

static void hints_change_nothing(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_out out;
    struct pith_map map;
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "file"), data[10000];
    memset(data, 7, sizeof data);
    assert_ok(pith_out_open(path, sizeof data, &out, &err), err);
    assert_ok(pith_out_write(&out, 0, data, sizeof data, &err), err);
    pith_out_begin_sync(&out, 100, 5000);
    assert_ok(pith_out_sync(&out, &err), err);
    pith_out_close(&out);
    assert_ok(pith_map_open(path, &map, &err), err);
    pith_map_prefetch(&map, 0, sizeof data);
    pith_map_prefetch(&map, 4097, 10);
    pith_map_prefetch(&map, 9999, 2); /* beyond the end: nothing is done */
    pith_map_prefetch(&map, SIZE_MAX, 2);
    assert_memory_equal(map.data, data, sizeof data);
    pith_map_close(&map);
    assert_ok(pith_unlink(path, &err), err);
    assert_ok(pith_dir_remove(dir, &err), err);
    pith_free(path);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_give_their_status),
        cmocka_unit_test(hints_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
