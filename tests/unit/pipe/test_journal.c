/* The journal: what is read back is what was written, a torn end is cut off, another job's is
 * refused. */
#include "run_fixture.h"

static void begin(struct run_fixture *f)
{
    struct pith_error err = {0};
    run_open(f);
    assert_ok(pith_run_select(&f->run, &err), err);
    assert_ok(pith_journal_fingerprint(&f->run, &err), err);
    pith_free(f->run.partial); /* a folder that the fixture removes */
    pith_free(f->run.journal_path);
    f->run.partial = pith_strdup(f->work);
    f->run.journal_path = pith_path_join(f->work, "pith.journal");
}

static json_t *unit(size_t index)
{
    char name[PITH_UNIT_NAME];
    pith_unit_name(index, name);
    return json_pack("{s:s, s:[], s:[], s:[{s:s, s:f}]}", "unit", name, "linears", "transforms",
                     "tensors", "name", "x", "figure", 1.0 / 3);
}

static void add(struct run_fixture *f, size_t index)
{
    struct pith_error err = {0};
    json_t *j = unit(index);
    assert_ok(pith_journal_add(&f->run, j, &err), err);
    json_decref(j);
}

static void reopen(struct run_fixture *f)
{
    struct pith_error err = {0};
    json_decref(f->run.units);
    assert_ok(pith_journal_open(&f->run, &err), err);
}

static size_t units(const struct run_fixture *f)
{
    return json_array_size(f->run.units);
}

static void append(const struct run_fixture *f, const char *text)
{
    struct pith_error err = {0};
    assert_ok(pith_file_append(f->run.journal_path, text, strlen(text), &err), err);
}

static void test_units_come_back(void **state)
{
    (void)state;
    struct run_fixture f;
    begin(&f);
    reopen(&f);
    assert_int_equal(units(&f), 0);
    for (size_t i = 0; i < 3; i++) add(&f, i);
    reopen(&f);
    assert_int_equal(units(&f), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *want = unit(i);
        assert_true(json_equal(json_array_get(f.run.units, i), want)); /* reals to the bit */
        json_decref(want);
    }
    run_close(&f);
}

/* After whatever ends a journal, the good lines count and new ones join them. */
static void test_torn_end(void **state)
{
    (void)state;
    static const char *const ends[] = {
        "{\"unit\": \"block 1\", \"linears\": [",
        "\n",
        "{}\n",
        "null\n",
        "[1]\n",
        "garbage\n{\"unit\": \"block 1\", \"linears\": [], \"transforms\": [], \"tensors\": []}\n",
        "{\"unit\": \"block 2\", \"linears\": [], \"transforms\": [], \"tensors\": []}\n",
        "{\"unit\": \"block 1\", \"linears\": 5, \"transforms\": [], \"tensors\": []}\n",
        "{\"unit\": \"block 1\", \"transforms\": [], \"tensors\": []}\n",
        "\xff\xfe\n",
    };
    for (size_t i = 0; i < PITH_COUNT(ends); i++) {
        struct run_fixture f;
        begin(&f);
        reopen(&f);
        add(&f, 0);
        add(&f, 1);
        append(&f, ends[i]);
        reopen(&f);
        assert_int_equal(units(&f), 2);
        add(&f, 2);
        reopen(&f);
        assert_int_equal(units(&f), 3);
        run_close(&f);
    }
}

/* More units than the model has are cut off too. */
static void test_too_many(void **state)
{
    (void)state;
    struct run_fixture f;
    begin(&f);
    reopen(&f);
    for (size_t i = 0; i < 5; i++) add(&f, i);
    reopen(&f);
    assert_int_equal(units(&f), 3); /* outer, two blocks */
    run_close(&f);
}

static void test_garbage_begins_anew(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "\n",   "garbage",       "garbage\nmore\n",
                                        "{}\n", "[]\n", "{\"job\": 5}\n"};
    for (size_t i = 0; i < PITH_COUNT(texts); i++) {
        struct run_fixture f;
        struct pith_error err = {0};
        begin(&f);
        assert_ok(pith_file_write(f.run.journal_path, texts[i], strlen(texts[i]), &err), err);
        reopen(&f);
        assert_int_equal(units(&f), 0);
        add(&f, 0);
        reopen(&f);
        assert_int_equal(units(&f), 1);
        run_close(&f);
    }
}

static void test_restart(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    begin(&f);
    reopen(&f);
    add(&f, 0);
    assert_ok(pith_journal_restart(&f.run, &err), err);
    assert_int_equal(units(&f), 0);
    reopen(&f);
    assert_int_equal(units(&f), 0);
    run_close(&f);
}

static void test_another_job(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    begin(&f);
    reopen(&f);
    add(&f, 0);
    f.run.fingerprint[0] = f.run.fingerprint[0] == '0' ? '1' : '0';
    json_decref(f.run.units);
    assert_int_equal(pith_journal_open(&f.run, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "belongs to another run"));
    run_close(&f);
}

/* Each thing that changes the result changes the fingerprint; what does not, does not. */
static void test_fingerprint(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    char first[PITH_SHA256_HEX];
    begin(&f);
    memcpy(first, f.run.fingerprint, sizeof first);
    f.options.memory = 1 << 20;
    f.options.resume = true;
    f.options.out = "elsewhere";
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_equal(f.run.fingerprint, first);

    f.options.seed = 1;
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_not_equal(f.run.fingerprint, first);
    f.options.seed = 0;
    f.options.max_shard--;
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_not_equal(f.run.fingerprint, first);
    f.options.max_shard++;
    f.run.container = pith_container_find("gptq");
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_not_equal(f.run.fingerprint, first);
    f.run.container = pith_container_find("compressed-tensors");
    f.run.choices[3].grid = (struct pith_grid){0};
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_not_equal(f.run.fingerprint, first);
    f.run.choices[3].grid = f.run.choices[2].grid;
    f.run.recipe.round_options.damp += 1e-12;
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_not_equal(f.run.fingerprint, first);
    assert_ok(pith_recipe_load("rtn", &f.run.recipe, &err), err);
    assert_ok(pith_recipe_set(&f.run.recipe, "weights", "int4:channel", &err), err);
    assert_ok(pith_journal_fingerprint(&f.run, &err), err);
    assert_string_equal(f.run.fingerprint, first);
    run_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_come_back), cmocka_unit_test(test_torn_end),
        cmocka_unit_test(test_too_many),        cmocka_unit_test(test_garbage_begins_anew),
        cmocka_unit_test(test_restart),         cmocka_unit_test(test_another_job),
        cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
