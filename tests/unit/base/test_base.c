/* base/: strings, memory, JSON, files, hashes, threads. */
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/utf8.h"
#include "test.h"

#include <pith/context.h>

#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static void glob_matches_whole_text(void **state)
{
    (void)state;
    assert_true(pith_glob_match("*", ""));
    assert_true(pith_glob_match("model.layers.*.mlp.*", "model.layers.10.mlp.up_proj"));
    assert_true(pith_glob_match("lm_head", "lm_head"));
    assert_false(pith_glob_match("lm_head", "model.lm_head"));
    assert_true(pith_glob_match("*lm_hea?", "model.lm_head"));
    assert_false(pith_glob_match("a*b*c", "abbbbd"));
    assert_true(pith_glob_match("a*b*c", "aXbYbZc"));
}

static void texts_are_looked_at(void **state)
{
    (void)state;
    assert_true(pith_ends_in("a.json", ".json") && pith_ends_in("x", "") && pith_ends_in("x", "x"));
    assert_false(pith_ends_in("json", ".json") || pith_ends_in("a.json ", ".json"));
    assert_true(pith_is_blank(" \t\r", 3) && pith_is_blank("x", 0));
    assert_false(pith_is_blank("\0", 1) || pith_is_blank(" x", 2) || pith_is_blank("\n", 1));
    assert_int_equal(pith_hex_digit('0'), 0);
    assert_int_equal(pith_hex_digit('f'), 15);
    assert_int_equal(pith_hex_digit('A'), 10);
    assert_true(pith_hex_digit('g') == -1 && pith_hex_digit('/') == -1);
    assert_int_equal(pith_hex_digit('\0'), -1);
    struct pith_str s = {0};
    static const uint32_t written[] = {0, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
    for (size_t i = 0; i < PITH_COUNT(written); i++) pith_utf8_put(&s, written[i]);
    static const char want[] = "\0\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"
                               "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    assert_int_equal(s.len, sizeof want - 1);
    assert_memory_equal(s.data, want, s.len);
    assert_int_equal(pith_utf8_count(s.data, s.len), PITH_COUNT(written));
    pith_str_free(&s);
}

static void first_error_wins_and_is_printable(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_int_equal(pith_fail(&err, PITH_FORMAT, "bad \033[31m name"), PITH_FORMAT);
    assert_int_equal(pith_fail(&err, PITH_IO, "later"), PITH_IO);
    assert_string_equal(err.text, "bad ?[31m name");
    assert_int_equal(pith_fail_in(&err, PITH_IO, "file"), PITH_FORMAT);
    assert_string_equal(err.text, "file: bad ?[31m name");
    assert_int_equal(pith_fail_in(&err, PITH_IO, "file"), PITH_FORMAT);
    assert_string_equal(err.text, "file: bad ?[31m name");
}

static void json_reports_key_and_file(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *j = NULL;
    static const char text[] = "{\"n\": 3, \"x\": \"s\", \"z\": null}";
    assert_ok(pith_json_parse(text, sizeof text - 1, "t", &j, &err), err);
    int64_t n = 7;
    assert_ok(pith_json_get_int(j, "n", 0, 9, &n, "t", &err), err);
    assert_int_equal(n, 3);
    assert_ok(pith_json_get_int(j, "z", 0, 9, &n, "t", &err), err);
    assert_int_equal(n, 3);
    assert_int_equal(pith_json_get_int(j, "n", 5, 9, &n, "t", &err), PITH_FORMAT);
    assert_string_equal(err.text, "t: \"n\" is 3, outside 5..9");
    err = (struct pith_error){0};
    assert_int_equal(pith_json_get_int(j, "x", 5, 9, &n, "t", &err), PITH_FORMAT);
    json_decref(j);
    err = (struct pith_error){0};
    assert_int_equal(pith_json_parse("{\"a\":1,\"a\":2", 12, "t", &j, &err), PITH_FORMAT);
}

static void sha256_of_abc(void **state)
{
    (void)state;
    char hex[PITH_SHA256_HEX];
    assert_true(pith_sha256_hex("abc", 3, hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void count_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    atomic_int *seen = ctx;
    atomic_fetch_add(&seen[task], 1);
}

static void pool_runs_each_task_once(void **state)
{
    (void)state;
    struct pith_error err = {0};
    for (unsigned threads = 1; threads <= 5; threads++) {
        struct pith_pool *pool;
        assert_ok(pith_pool_new(threads, &pool, &err), err);
        for (size_t count = 0; count < 300; count = count * 2 + 1) {
            atomic_int seen[300] = {0};
            pith_pool_run(pool, count, count_task, seen);
            for (size_t i = 0; i < 300; i++) assert_int_equal(seen[i], i < count ? 1 : 0);
        }
        pith_pool_free(pool);
    }
}

/* Runs of every length follow each other and pauses, with fewer threads than processors and many
 * more: workers come early, late and not at all. */
static void pool_survives_late_workers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    static const unsigned threads[] = {2, 3, 40};
    for (size_t t = 0; t < PITH_COUNT(threads); t++) {
        struct pith_pool *pool;
        struct pith_rng rng;
        pith_rng_seed(&rng, t);
        assert_ok(pith_pool_new(threads[t], &pool, &err), err);
        for (int run = 0; run < 3000; run++) {
            atomic_int seen[64] = {0};
            const size_t count = pith_rng_below(&rng, run % 10 ? 4 : 64);
            if (run % 100 == 0)
                nanosleep(&(struct timespec){.tv_nsec = (long)pith_rng_below(&rng, 200000)}, NULL);
            pith_pool_run(pool, count, count_task, seen);
            for (size_t i = 0; i < 64; i++) assert_int_equal(seen[i], i < count ? 1 : 0);
        }
        pith_pool_free(pool);
    }
}

static void large_memory_is_aligned(void **state)
{
    (void)state;
    char *small = pith_alloc_huge(100, 3), *large = pith_alloc_huge(PITH_HUGE_PAGE + 5, 3);
    assert_non_null(small);
    assert_non_null(large);
    assert_int_equal((uintptr_t)small % 64, 0);
    assert_int_equal((uintptr_t)large % PITH_HUGE_PAGE, 0);
    large[0] = large[(size_t)3 * PITH_HUGE_PAGE + 14] = 1;
    pith_free(small);
    pith_free(large);
    assert_null(pith_alloc_huge(SIZE_MAX / 2, 3));
    assert_null(pith_alloc_huge(SIZE_MAX, 1));
}

/* Against malloc's own books: a request that is mapped by itself takes at most one page more than
 * is said, which is never touched. */
static void heap_bytes_are_those_of_pages(void **state)
{
    (void)state;
    static const size_t sizes[] = {32 << 10, (32 << 10) + 4000, 811008, 811008 - 64, 811008 - 63};
    enum { PAGE = 4096 };
    pith_return_memory();
    pith_heap_trim(); /* what the heap has left serves before a mapping does */
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        const size_t before = mallinfo2().hblkhd;
        char *p = pith_alloc_aligned(sizes[i], 1);
        assert_non_null(p);
        p[0] = p[sizes[i] - 1] = 1;
        const size_t taken = mallinfo2().hblkhd - before;
        const uint64_t touched = ((uintptr_t)p + sizes[i] - 1) / PAGE - ((uintptr_t)p - 64) / PAGE +
                                 1;
        pith_free(p);
        if (taken == 0) skip(); /* another malloc, of a sanitizer */
        assert_true(pith_heap_bytes(sizes[i]) >= touched * PAGE);
        assert_in_range(taken - pith_heap_bytes(sizes[i]), 0, PAGE);
    }
    assert_int_equal(pith_heap_bytes(1000), 1000);
    assert_true(pith_heap_bytes(UINT64_MAX) == UINT64_MAX);
}

static void files_are_replaced_whole(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char *dir = test_temp_dir();
    char *path = pith_path_join(dir, "f");
    assert_ok(pith_file_write(path, "one", 3, &err), err);
    assert_ok(pith_file_write(path, "twoo", 4, &err), err);
    char *data;
    size_t size;
    assert_ok(pith_file_read(path, 4, &data, &size, &err), err);
    assert_int_equal(size, 4);
    assert_memory_equal(data, "twoo", 5);
    pith_free(data);
    assert_int_equal(pith_file_read(path, 3, &data, &size, &err), PITH_FORMAT);
    char **names;
    size_t count;
    err = (struct pith_error){0};
    assert_ok(pith_dir_list(dir, &names, &count, &err), err);
    assert_int_equal(count, 1); /* no temporary file stays behind */
    pith_names_free(names, count);
    assert_ok(pith_dir_remove(dir, &err), err);
    assert_false(pith_path_exists(dir));
    assert_int_equal(pith_map_open(path, &(struct pith_map){0}, &err), PITH_IO);
    pith_free(path);
    pith_free(dir);
}

static void rng_is_pinned(void **state)
{
    (void)state;
    struct pith_rng r;
    pith_rng_seed(&r, 0);
    /* SplitMix64(0) then xoshiro256++: reproduced by the reference algorithms' own definitions. */
    assert_true(pith_rng_next(&r) == 0x53175d61490b23dfu);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        assert_true(pith_rng_below(&r, 3) < 3);
        sum += pith_rng_normal(&r);
    }
    assert_true(sum > -400 && sum < 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(glob_matches_whole_text),
        cmocka_unit_test(texts_are_looked_at),
        cmocka_unit_test(first_error_wins_and_is_printable),
        cmocka_unit_test(json_reports_key_and_file),
        cmocka_unit_test(sha256_of_abc),
        cmocka_unit_test(pool_runs_each_task_once),
        cmocka_unit_test(pool_survives_late_workers),
        cmocka_unit_test(large_memory_is_aligned),
        cmocka_unit_test(heap_bytes_are_those_of_pages),
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(rng_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
