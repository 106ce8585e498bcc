/* A scratch file of which only parts are there. */
#include "base/sparse_file.h"
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PART = PITH_SPARSE_ALIGN, PARTS = 4096 };

/* Whether reading that place ends the process that does it. */
static bool faults(const uint8_t *at)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*(const volatile uint8_t *)at == 0xff ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) || WEXITSTATUS(status) > 1; /* a sanitizer exits */
}

static uint64_t on_disk(const struct pith_sparse_file *f)
{
    struct stat st;
    assert_int_equal(fstat(f->out.fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

static void parts_come_and_go(void **state)
{
    (void)state;
    static uint8_t data[PART + 100];
    struct pith_sparse_file f;
    struct pith_error err = {0};
    assert_int_equal(pith_sparse_file_open("/tmp", (size_t)PART * PARTS, &f, &err), PITH_OK);
    memset(data, 0x5a, sizeof data);
    assert_true(faults(f.data + 3 * PART));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(pith_sparse_file_write(&f, (size_t)3 * PART, data, sizeof data, &err),
                         PITH_OK);
        assert_int_equal(pith_sparse_file_show(&f, (size_t)3 * PART, sizeof data, &err), PITH_OK);
        assert_memory_equal(f.data + 3 * PART, data, sizeof data);
        assert_true(faults(f.data + 2 * PART));
        assert_true(faults(f.data + 5 * PART));
        assert_true(on_disk(&f) < (uint64_t)8 * PART);
        pith_sparse_file_drop(&f, (size_t)3 * PART, sizeof data);
        assert_true(faults(f.data + 3 * PART));
    }
    pith_sparse_file_close(&f);
}

static void the_last_part_may_be_short(void **state)
{
    (void)state;
    struct pith_sparse_file f;
    struct pith_error err = {0};
    const uint8_t x[3] = {1, 2, 3};
    assert_int_equal(pith_sparse_file_open("/tmp", PART + 3, &f, &err), PITH_OK);
    assert_int_equal(pith_sparse_file_write(&f, PART, x, sizeof x, &err), PITH_OK);
    assert_int_equal(pith_sparse_file_show(&f, PART, sizeof x, &err), PITH_OK);
    assert_memory_equal(f.data + PART, x, sizeof x);
    pith_sparse_file_drop(&f, PART, sizeof x);
    pith_sparse_file_close(&f);
    assert_int_equal(pith_sparse_file_open("/tmp", 0, &f, &err), PITH_OK);
    assert_int_equal(pith_sparse_file_show(&f, 0, 0, &err), PITH_OK);
    pith_sparse_file_close(&f);
    assert_int_equal(pith_sparse_file_open("/no/such/folder", 1, &f, &err), PITH_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_and_go),
        cmocka_unit_test(the_last_part_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
