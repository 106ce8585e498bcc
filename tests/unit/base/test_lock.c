/* A folder is claimed by one at a time; space is reserved without touching what is there; what was
 * written is read back from the disk. */
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

/* Any part of a file, through the page cache and past it, with nothing beyond. */
static void test_read_back(void **state)
{
    (void)state;
    enum { SIZE = 3 * PITH_DIRECT_ALIGN + 700, ROOM = SIZE + 2 * PITH_DIRECT_ALIGN };
    static const struct {
        uint64_t at;
        size_t size;
    } parts[] = {{0, SIZE},
                 {0, 1},
                 {1, PITH_DIRECT_ALIGN},
                 {PITH_DIRECT_ALIGN - 1, 2},
                 {PITH_DIRECT_ALIGN, PITH_DIRECT_ALIGN},
                 {SIZE - 1, 1},
                 {4999, SIZE - 4999}};
    struct pith_error err = {0};
    struct pith_out out;
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "file");
    unsigned char *want = pith_alloc(SIZE, 1), *memory = pith_alloc(ROOM + PITH_DIRECT_ALIGN, 1);
    assert_non_null(want);
    assert_non_null(memory);
    unsigned char *room = memory + PITH_DIRECT_ALIGN - (uintptr_t)memory % PITH_DIRECT_ALIGN;
    for (size_t i = 0; i < SIZE; i++) want[i] = (unsigned char)(i * 7 + i / 256);
    assert_ok(pith_file_write(path, want, SIZE, &err), err);
    assert_int_equal(pith_out_reopen(path, SIZE + 1, &out, &err), PITH_MISMATCH);
    err = (struct pith_error){0};
    assert_ok(pith_out_reopen(path, SIZE, &out, &err), err);
    for (size_t i = 0; i < PITH_COUNT(parts); i++)
        for (int direct = 0; direct < 2; direct++) {
            const void *data = room;
            memset(room, 0xee, ROOM);
            assert_ok(
                direct ? pith_out_read_direct(&out, parts[i].at, room, parts[i].size, &data, &err)
                       : pith_out_read(&out, parts[i].at, room, parts[i].size, &err),
                err);
            assert_memory_equal(data, want + parts[i].at, parts[i].size);
        }
    const void *data;
    assert_int_equal(pith_out_read_direct(&out, SIZE - 1, room, 2, &data, &err), PITH_IO);
    assert_non_null(strstr(err.text, "before what was written"));
    pith_out_close(&out);
    pith_free(memory);
    pith_free(want);
    pith_free(path);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lock), cmocka_unit_test(test_reserve),
                                       cmocka_unit_test(test_read_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
