/* Slices of larger tensors as tensors of their own: where values lie, hashes, and what is refused.
 */
#include "folder.h"
#include "io/checkpoint.h"
#include "io/digest.h"

enum { EXPERTS = 2, A = 3, B = 4, COUNT = EXPERTS * A * B };

/* A checkpoint with "w", F32 [2, 3, 4] of 0, 1, 2 ..., and "z". */
static struct pith_checkpoint *open_whole(char **dir)
{
    struct pith_error err = {0};
    struct pith_layout layout = {0};
    struct pith_out out;
    struct pith_checkpoint *c;
    char path[600];
    float values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = (float)i;
    *dir = test_temp_dir();
    folder_text(*dir, "config.json", "{}");
    assert_ok(pith_layout_add(&layout, "w", PITH_F32, 3, (uint64_t[]){EXPERTS, A, B}, &err), err);
    assert_ok(pith_layout_add(&layout, "z", PITH_F32, 1, (uint64_t[]){1}, &err), err);
    assert_ok(pith_layout_finish(&layout, 0, &err), err);
    snprintf(path, sizeof path, "%s/model.safetensors", *dir);
    assert_ok(pith_out_open(path, layout.shard_bytes[0], &out, &err), err);
    assert_ok(pith_out_write(&out, 0, layout.headers[0], layout.header_bytes[0], &err), err);
    assert_ok(
        pith_out_write(&out, pith_layout_find(&layout, "w")->offset, values, sizeof values, &err),
        err);
    pith_out_close(&out);
    pith_layout_free(&layout);
    assert_ok(pith_checkpoint_open(*dir, &c, &err), err);
    return c;
}

static struct pith_slice slice(const struct pith_checkpoint *c, const char *name, uint64_t rows,
                               uint64_t cols)
{
    return (struct pith_slice){
        .name = name, .whole = pith_checkpoint_find(c, "w"), .dims = 2, .shape = {rows, cols}};
}

static void check_values(const struct pith_checkpoint *c, const char *name, const float *want,
                         size_t count)
{
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    float is[COUNT], part[2];
    uint8_t *copy;
    assert_non_null(t);
    assert_int_equal(t->bytes, count * sizeof *want);
    assert_true(pith_tensor_decode(t, is));
    assert_memory_equal(is, want, count * sizeof *want);
    assert_true(pith_tensor_straight(t, &copy));
    assert_memory_equal(copy ? copy : t->data, want, count * sizeof *want);
    pith_free(copy);
    for (size_t i = 0; i + 2 <= count; i++) {
        pith_tensor_copy(t, i, 2, part);
        assert_memory_equal(part, want + i, sizeof part);
    }
    struct pith_tensor plain = *t;
    plain.data = (const uint8_t *)want;
    plain.row_step = plain.col_step = 0;
    char hex[2][PITH_SHA256_HEX];
    assert_true(pith_tensor_digest(t, hex[0]) && pith_tensor_digest(&plain, hex[1]));
    assert_string_equal(hex[0], hex[1]);
}

/* Of expert 1: the matrix, its last rows, every other column by rows, and the matrix turned. */
static void values_lie_where_they_are_said_to(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char *dir;
    struct pith_checkpoint *c = open_whole(&dir);
    struct pith_slice list[] = {slice(c, "m", A, B), slice(c, "a", 2, B), slice(c, "odd", A, 2),
                                slice(c, "turned", B, A), slice(c, "one", 2, 1)};
    list[0].first = 12;
    list[1].first = 16;
    list[2].first = 13, list[2].row_step = B, list[2].col_step = 2;
    list[3].first = 12, list[3].row_step = 1, list[3].col_step = B;
    list[4].dims = 1, list[4].first = 12, list[4].row_step = 11, list[4].col_step = 1;
    assert_ok(pith_checkpoint_slice(c, list, 5, &err), err);
    assert_int_equal(c->count, 6);
    assert_int_equal(c->whole_count, 1);
    assert_null(pith_checkpoint_find(c, "w"));
    assert_non_null(pith_checkpoint_find(c, "z"));
    check_values(c, "m", (float[]){12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}, 12);
    check_values(c, "a", (float[]){16, 17, 18, 19, 20, 21, 22, 23}, 8);
    check_values(c, "odd", (float[]){13, 15, 17, 19, 21, 23}, 6);
    check_values(c, "turned", (float[]){12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}, 12);
    check_values(c, "one", (float[]){12, 23}, 2);
    assert_int_equal(pith_tensor_extent(pith_checkpoint_find(c, "one")), 12 * sizeof(float));
    pith_checkpoint_close(c);
    folder_remove(dir);
}

static void refuse(struct pith_slice first, struct pith_slice second, struct pith_checkpoint *c,
                   const char *text)
{
    struct pith_error err = {0};
    const struct pith_slice list[] = {first, second};
    assert_int_equal(pith_checkpoint_slice(c, list, 2, &err), PITH_FORMAT);
    if (!strstr(err.text, text)) fail_msg("%s", err.text);
    assert_int_equal(c->count, 2);
    assert_int_equal(c->whole_count, 0);
    assert_non_null(pith_checkpoint_find(c, "w"));
}

/* Beyond the end by one element, by arithmetic that would overflow, names that are there. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    char *dir;
    struct pith_checkpoint *c = open_whole(&dir);
    const struct pith_slice good = slice(c, "good", A, B);
    struct pith_slice bad = slice(c, "bad", A, B);
    bad.first = 13;
    refuse(good, bad, c, "\"w\" has no place for \"bad\"");
    bad.first = 0, bad.row_step = 5, bad.col_step = 5;
    refuse(good, bad, c, "has no place");
    bad.row_step = UINT64_MAX, bad.col_step = 1;
    refuse(good, bad, c, "has no place");
    bad.row_step = 0, bad.shape[0] = UINT64_MAX / 2;
    refuse(good, bad, c, "has no place");
    bad.shape[0] = 0;
    refuse(good, bad, c, "has no place");
    bad = good;
    bad.name = "z";
    refuse(good, bad, c, "\"z\" is there");
    refuse(good, good, c, "\"good\" is there");
    pith_checkpoint_close(c);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_lie_where_they_are_said_to),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
