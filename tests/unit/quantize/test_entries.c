/* pith.json read entry by entry: what is found, what is told of its names, what is refused. */
#include "quantize/output/seal.h"

#include "base/mem.h"
#include "base/str.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/pith-entries-XXXXXX";

static enum pith_status open_text(const char *text, struct pith_account *a, struct pith_error *err)
{
    *err = (struct pith_error){0};
    assert_ok(pith_file_write(path, text, strlen(text), err), *err);
    return pith_account_open(path, a, err);
}

/* The number that an entry holds; -1 without such a name. */
static int number_of(struct pith_entries *e, const char *name)
{
    struct pith_error err = {0};
    struct pith_entry *row;
    json_t *entry;
    assert_ok(pith_entries_find(e, name, &row, &entry, &err), err);
    assert_true((row == NULL) == (entry == NULL));
    const int n = entry ? (int)json_integer_value(json_object_get(entry, "n")) : -1;
    if (row) row->met = true;
    json_decref(entry);
    return n;
}

static void test_lists(void **state)
{
    (void)state;
    struct pith_account a;
    struct pith_error err;
    assert_ok(
        open_text("{\"pith\": 1, \"linears\": [ {\"name\": \"a\", \"n\": 1},\n"
                  " {\"n\": 2}, {\"name\": \"b\\u0063\", \"n\": 3}, {\"name\": \"a\", \"n\": 4},"
                  " 5 ], \"tensors\": [], \"last\": [1, 2]}\n",
                  &a, &err),
        err);
    assert_int_equal(a.linears.count, 5);
    assert_int_equal(a.linears.names, 2);
    assert_int_equal(number_of(&a.linears, "a"), 1);
    assert_int_equal(number_of(&a.linears, "bc"), 3);
    assert_int_equal(number_of(&a.linears, "b"), -1);
    static const int faults[] = {PITH_ENTRY_GOOD, PITH_ENTRY_NAMELESS, PITH_ENTRY_GOOD,
                                 PITH_ENTRY_TWICE, PITH_ENTRY_NAMELESS};
    for (size_t i = 0; i < a.linears.count; i++) {
        assert_int_equal(a.linears.rows[i].fault, faults[i]);
        assert_int_equal(a.linears.rows[i].met, i == 0 || i == 2);
    }
    assert_int_equal(a.tensors.count, 0);
    assert_int_equal(number_of(&a.tensors, "a"), -1);
    assert_int_equal(json_array_size(json_object_get(a.head, "last")), 2);
    assert_int_equal(json_array_size(json_object_get(a.head, "linears")), 0);
    assert_true(json_is_array(json_object_get(a.head, "linears")));
    assert_int_equal(a.seal, PITH_SEAL_NONE);
    pith_account_close(&a);
}

static void test_many(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct pith_account a;
    struct pith_error err;
    struct pith_str s = {0};
    pith_str_puts(&s, "{\"tensors\": [");
    for (int i = 0; i < MANY; i++)
        pith_str_printf(&s, "%s{\"name\": \"layer.%d\", \"n\": %d, \"more\": \"%0512d\"}",
                        i ? "," : "", i, i, i);
    pith_str_puts(&s, "]}");
    assert_ok(open_text(pith_str_text(&s), &a, &err), err);
    assert_int_equal(a.tensors.names, MANY);
    for (int i = 0; i < MANY; i += 7) {
        char name[32];
        snprintf(name, sizeof name, "layer.%d", (i * 31) % MANY);
        assert_int_equal(number_of(&a.tensors, name), (i * 31) % MANY);
    }
    pith_account_close(&a);
    pith_str_free(&s);
}

/* What is no JSON is refused at once, wherever it stands. */
static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "[]",
        "{\"linears\": [{\"name\": \"a\"},]}",
        "{\"linears\": [{\"name\": \"a\"} {\"name\": \"b\"}]}",
        "{\"linears\": [{\"name\": a}]}",
        "{\"linears\": [{\"name\": \"\xff\"}]}",
        "{\"linears\": [{\"name\": \"a\"}}",
        "{\"linears\": [{\"name\": \"a\"}",
        "{\"linears\": [], \"last\": nul}",
        "{\"linears\": []} x",
        "{\"linears\": [[[]]",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pith_account a;
        struct pith_error err;
        if (open_text(cases[i], &a, &err) != PITH_FORMAT) fail_msg("%s: %s", cases[i], err.text);
        assert_null(a.head);
    }
}

static void test_seal(void **state)
{
    (void)state;
    struct pith_account a;
    struct pith_error err = {0};
    json_t *j = json_pack("{s:[{s:s}], s:[]}", "linears", "name", "a", "tensors");
    assert_ok(pith_account_save(path, j, &err), err);
    json_decref(j);
    assert_ok(pith_account_open(path, &a, &err), err);
    assert_int_equal(a.seal, PITH_SEAL_INTACT);
    assert_int_equal(a.linears.count, 1);
    pith_account_close(&a);
    char *text;
    size_t size;
    assert_ok(pith_file_read(path, 4096, &text, &size, &err), err);
    strstr(text, "\"a\"")[1] = 'b';
    assert_ok(pith_file_write(path, text, size, &err), err);
    pith_free(text);
    assert_ok(pith_account_open(path, &a, &err), err);
    assert_int_equal(a.seal, PITH_SEAL_BROKEN);
    pith_account_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_seal),
    };
    const int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
