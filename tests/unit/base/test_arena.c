#include "base/arena.h"
#include "base/mem.h"

#include "test.h"

struct parts {
    float *x;
    uint32_t *ids;
    void *nothing;
    char *zeros, *one_byte, *early, *late;
};

/* Two parts for good, two that live one after the other. */
static void layout(struct pith_arena *a, size_t rows, size_t width, struct parts *p)
{
    p->x = pith_arena_take_rows(a, rows, width, sizeof *p->x);
    p->ids = pith_arena_take(a, rows, sizeof *p->ids);
    p->nothing = pith_arena_take(a, 0, 8);
    p->zeros = pith_arena_take_zeros(a, 10, 10, 1);
    p->one_byte = pith_arena_take(a, 1, 1);
    const size_t mark = a->used;
    p->early = pith_arena_take(a, 1000, 1);
    pith_arena_return(a, mark);
    p->late = pith_arena_take(a, 10, 1);
}

static void measured_is_placed(void **state)
{
    (void)state;
    for (size_t rows = 1; rows < 40; rows += 3) {
        struct parts p;
        struct pith_arena a = {0};
        layout(&a, rows, 5, &p);
        assert_null(p.x);
        const size_t bytes = (size_t)pith_arena_bytes(&a);
        assert_int_equal(bytes,
                         (rows * 20 + 63) / 64 * 64 + (rows * 4 + 63) / 64 * 64 + 128 + 64 + 1024);
        assert_true(pith_arena_open(&a));
        assert_int_equal(a.size, bytes);
        layout(&a, rows, 5, &p);
        assert_int_equal(pith_arena_bytes(&a), bytes);
        assert_false(a.failed);
        assert_null(p.nothing);
        assert_ptr_equal(p.early, p.late);
        const void *all[] = {p.x, p.ids, p.one_byte, p.early};
        for (size_t i = 0; i < PITH_COUNT(all); i++) assert_int_equal((uintptr_t)all[i] % 64, 0);
        for (size_t i = 0; i < 100; i++) assert_int_equal(p.zeros[i], 0);
        memset(p.x, 1, rows * 20);
        memset(p.ids, 2, rows * 4);
        *p.one_byte = 3;
        memset(p.late, 4, 10);
        assert_int_equal(((unsigned char *)p.x)[rows * 20 - 1], 1);
        assert_int_equal(((unsigned char *)p.ids)[rows * 4 - 1], 2);
        pith_free(a.base);
    }
}

static void too_little_storage_fails(void **state)
{
    (void)state;
    struct parts p;
    struct pith_arena a = {0};
    layout(&a, 7, 5, &p);
    assert_true(pith_arena_open(&a));
    a.size -= 64;
    layout(&a, 7, 5, &p);
    assert_true(a.failed);
    assert_null(p.early); /* nothing was placed behind the end */
    assert_non_null(p.x);
    assert_null(p.late); /* and nothing after the failure */
    assert_true(pith_arena_bytes(&a) == UINT64_MAX);
    pith_free(a.base);
}

static void overflow_fails(void **state)
{
    (void)state;
    struct pith_arena a = {0};
    assert_null(pith_arena_take(&a, SIZE_MAX / 2, 3));
    assert_true(a.failed);
    a = (struct pith_arena){0};
    assert_null(pith_arena_take_rows(&a, SIZE_MAX / 2, 3, 0)); /* the count itself */
    assert_true(a.failed);
    a = (struct pith_arena){0};
    assert_null(pith_arena_take(&a, SIZE_MAX - 10, 1)); /* its padding */
    assert_true(a.failed);
    a = (struct pith_arena){0};
    pith_arena_take(&a, SIZE_MAX - 127, 1);
    assert_false(a.failed);
    pith_arena_take(&a, 128, 1); /* behind what is there */
    assert_true(a.failed);
    pith_arena_return(&a, 0);
    assert_null(pith_arena_take(&a, 1, 1)); /* a failure stays */
    assert_true(pith_arena_bytes(&a) == UINT64_MAX);
    assert_false(pith_arena_open(&a));
    assert_null(a.base);
    a = (struct pith_arena){.used = 64, .most = SIZE_MAX / 2}; /* more than there is */
    assert_false(pith_arena_open(&a));
}

static void nothing_has_room(void **state)
{
    (void)state;
    struct pith_arena a = {0};
    assert_null(pith_arena_take(&a, 0, SIZE_MAX));
    assert_int_equal(pith_arena_bytes(&a), 0);
    assert_true(pith_arena_open(&a));
    assert_null(pith_arena_take(&a, 4, 0));
    assert_null(pith_arena_take_zeros(&a, 4, 0, 1));
    assert_false(a.failed);
    pith_free(a.base);
}

static void sums_stay_too_large(void **state)
{
    (void)state;
    assert_true(pith_sum_bytes(2, 3) == 5);
    assert_true(pith_sum_bytes(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(pith_times_bytes(4, 5) == 20);
    assert_true(pith_times_bytes(UINT64_MAX, 0) == 0);
    assert_true(pith_times_bytes(1ull << 40, 1ull << 30) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_is_placed),  cmocka_unit_test(too_little_storage_fails),
        cmocka_unit_test(overflow_fails),      cmocka_unit_test(nothing_has_room),
        cmocka_unit_test(sums_stay_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
