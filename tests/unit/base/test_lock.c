/* A folder is claimed by one at a time; space is reserved without touching what is there. */
#include "base/file.h"
#include "base/mem.h"
#include "test.h"

#include <unistd.h>

static void test_lock(void **state)
{
    (void)state;
    struct pith_error err = {0};
    int first, second;
    char *dir = test_temp_dir();
    assert_ok(pith_dir_lock(dir, &first, &err), err);
    assert_int_equal(pith_dir_lock(dir, &second, &err), PITH_IO);
    assert_int_equal(second, -1);
    assert_non_null(strstr(err.text, "another process is at work there"));
    pith_dir_unlock(second);
    pith_dir_unlock(first);
    err = (struct pith_error){0};
    assert_ok(pith_dir_lock(dir, &second, &err), err);
    pith_dir_unlock(second);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(pith_dir_lock(dir, &second, &err), PITH_IO);
    assert_int_equal(second, -1);
    free(dir);
}

static void test_reserve(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_out out;
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "file"), *data;
    size_t size;
    static const uint64_t sizes[] = {5, 100000, 7, 7};
    assert_ok(pith_file_write(path, "abcdefghij", 10, &err), err);
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        assert_ok(pith_out_open(path, sizes[i], &out, &err), err);
        pith_out_close(&out);
        assert_ok(pith_file_read(path, 1 << 20, &data, &size, &err), err);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(data, "abcde\0", 5 + (size > 5));
        pith_free(data);
    }
    pith_free(path);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lock), cmocka_unit_test(test_reserve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
