/* Work beside the caller, and hints to the kernel that must change nothing. */
#include "base/async.h"
#include "base/file.h"
#include "base/mem.h"
#include "sanitized.h"
#include "test.h"

#include <pith/context.h>
#include <semaphore.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static enum pith_status pass(void *gate, struct pith_error *err)
{
    return sem_wait(gate) == 0 ? PITH_OK : pith_fail(err, PITH_IO, "the gate");
}

static enum pith_status let_pass(void *gate, struct pith_error *err)
{
    return sem_post(gate) == 0 ? PITH_OK : pith_fail(err, PITH_IO, "the gate");
}

/* Without threads of their own the first would wait for the second without end. In a process of its
 * own, since the ceiling stays; before others, whose stacks are kept. */
static void jobs_meet_below_a_ceiling(void **state)
{
    enum { TOUCHED = 128 << 10, PATIENCE = 60 };
    (void)state;
    if (SANITIZED) skip(); /* its shadow has no room below a ceiling */
    const pid_t child = fork();
    if (child == 0) {
        sem_t gate;
        struct pith_async *one = NULL, *two = NULL;
        alarm(PATIENCE);
        if (sem_init(&gate, 0, 0) != 0) _exit(1);
        if (pith_limit_memory(pith_memory_anonymous() + TOUCHED, NULL) != PITH_OK) _exit(2);
        if (pith_async_start(pass, &gate, &one, NULL) != PITH_OK) _exit(3);
        if (pith_async_start(let_pass, &gate, &two, NULL) != PITH_OK) _exit(4);
        if (pith_async_wait(&one, NULL) != PITH_OK) _exit(5);
        _exit(pith_async_wait(&two, NULL) == PITH_OK ? 0 : 6);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
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
        cmocka_unit_test(jobs_meet_below_a_ceiling),
        cmocka_unit_test(jobs_give_their_status),
        cmocka_unit_test(hints_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
