/* The journal: what is read back is what was written, a torn end is cut off, another job's is
 * refused. */
#include "base/str.h"
#include "quantize/output/journal.h"
#include "quantize/select.h"
#include "run_fixture.h"

#include <unistd.h>

static void begin(struct run_fixture *f)
{
    struct pith_error err = {0};
    run_open(f);
    assert_ok(pith_job_select(&f->job, &err), err);
    assert_ok(pith_journal_fingerprint(&f->job, &err), err);
    pith_free(f->job.partial); /* a folder that the fixture removes */
    pith_free(f->job.journal_path);
    f->job.partial = pith_strdup(f->work);
    f->job.journal_path = pith_path_join(f->work, "pith.journal");
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
    assert_ok(pith_journal_write(&f->job, &f->journal, j, &err), err);
    json_decref(j);
}

static void reopen(struct run_fixture *f)
{
    struct pith_error err = {0};
    json_decref(f->journal.units);
    assert_ok(pith_journal_open(&f->job, &f->journal, &err), err);
}

static size_t units(const struct run_fixture *f)
{
    return json_array_size(f->journal.units);
}

static void append(const struct run_fixture *f, const char *text)
{
    struct pith_error err = {0};
    assert_ok(pith_file_append(f->job.journal_path, text, strlen(text), &err), err);
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
        assert_true(json_equal(json_array_get(f.journal.units, i), want)); /* reals to the bit */
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
        assert_ok(pith_file_write(f.job.journal_path, texts[i], strlen(texts[i]), &err), err);
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
    assert_ok(pith_journal_cut(&f.job, &f.journal, 0, &err), err);
    assert_int_equal(units(&f), 0);
    reopen(&f);
    assert_int_equal(units(&f), 0);
    run_close(&f);
}

static char *text_of(const struct run_fixture *f, size_t *size)
{
    struct pith_error err = {0};
    char *text;
    assert_ok(pith_file_read_own(f->job.journal_path, 1 << 20, &text, size, &err), err);
    return text;
}

/* What a cut leaves is the same journal, to the byte, as if the rest had never been. */
static void test_cut(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    size_t size[2];
    begin(&f);
    reopen(&f);
    add(&f, 0);
    add(&f, 1);
    char *want = text_of(&f, &size[0]);
    add(&f, 2);
    reopen(&f);
    assert_ok(pith_journal_cut(&f.job, &f.journal, 2, &err), err);
    assert_int_equal(units(&f), 2);
    char *is = text_of(&f, &size[1]);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(is, want, size[0]);
    add(&f, 2);
    reopen(&f);
    assert_int_equal(units(&f), 3);
    pith_free(want);
    pith_free(is);
    run_close(&f);
}

/* The journal becomes that text; how many units it then gives, each as it was written. A first line
 * that names another job is refused: no unit either. */
static size_t survivors(struct run_fixture *f, const char *text, size_t size)
{
    struct pith_error err = {0};
    assert_ok(pith_file_write(f->job.journal_path, text, size, &err), err);
    json_decref(f->journal.units);
    const enum pith_status s = pith_journal_open(&f->job, &f->journal, &err);
    if (s != PITH_OK) assert_int_equal(s, PITH_IO);
    for (size_t i = 0; i < units(f); i++) {
        json_t *want = unit(i);
        assert_true(json_equal(json_array_get(f->journal.units, i), want));
        json_decref(want);
    }
    return units(f);
}

/* Whatever bit is flipped: the lines before count, the line itself and those behind do not. */
static void test_flipped_bits(void **state)
{
    (void)state;
    struct run_fixture f;
    size_t size, line = 0;
    begin(&f);
    reopen(&f);
    for (size_t i = 0; i < 3; i++) add(&f, i);
    char *text = text_of(&f, &size);
    for (size_t at = 0; at < size; at++) {
        const char kept = text[at];
        text[at] = (char)(kept ^ 1 << at % 8);
        assert_int_equal(survivors(&f, text, size), line ? line - 1 : 0);
        text[at] = kept;
        line += kept == '\n';
    }
    assert_int_equal(survivors(&f, text, size), 3);
    pith_free(text);
    run_close(&f);
}

static void put_line(struct pith_str *out, const char *const line[5], int i)
{
    pith_str_append(out, line[i], (size_t)(line[i + 1] - line[i]));
}

/* Lines left out, doubled, swapped, of another job, or with a hash that does not follow. */
static void test_moved_lines(void **state)
{
    (void)state;
    static const struct {
        const char *order; /* of lines; 'x' is forged */
        size_t units;
    } cases[] = {{"0123", 3}, {"012", 2},   {"013", 1},  {"0223", 0}, {"01123", 1}, {"0213", 0},
                 {"123", 0},  {"00123", 0}, {"01x3", 1}, {"x123", 0}, {"0132", 1},  {"", 0}};
    static const char forged[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef {\"unit\": \"block 1\","
        " \"linears\": [], \"transforms\": [], \"tensors\": []}";
    struct run_fixture f;
    size_t size, count = 0;
    const char *line[5];
    begin(&f);
    reopen(&f);
    for (size_t i = 0; i < 3; i++) add(&f, i);
    char *text = text_of(&f, &size);
    for (const char *p = text; count < 5; p = strchr(p, '\n') + 1) {
        line[count++] = p;
        if (!*p) break;
    }
    assert_int_equal(count, 5);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_str made = {0};
        for (const char *p = cases[i].order; *p; p++)
            if (*p == 'x') pith_str_printf(&made, "%s\n", forged);
            else put_line(&made, line, *p - '0');
        assert_int_equal(survivors(&f, pith_str_text(&made), made.len), cases[i].units);
        pith_str_free(&made);
    }
    pith_free(text);
    run_close(&f);
}

/* A link in the journal's place is not followed, neither to read nor to write. */
static void test_links(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    begin(&f);
    reopen(&f);
    add(&f, 0);
    char *other = pith_path_join(f.work, "other");
    for (int hard = 0; hard < 2; hard++) {
        size_t size, now;
        assert_ok(pith_rename(f.job.journal_path, other, &err), err);
        assert_int_equal(
            hard ? link(other, f.job.journal_path) : symlink(other, f.job.journal_path), 0);
        json_decref(f.journal.units);
        err = (struct pith_error){0};
        assert_int_equal(pith_journal_open(&f.job, &f.journal, &err), PITH_IO);
        assert_non_null(strstr(err.text, "link"));
        err = (struct pith_error){0};
        json_t *j = unit(1);
        char *before, *after;
        assert_ok(pith_file_read(other, 1 << 20, &before, &size, &err), err);
        assert_int_equal(pith_journal_write(&f.job, &f.journal, j, &err), PITH_IO);
        err = (struct pith_error){0};
        assert_ok(pith_file_read(other, 1 << 20, &after, &now, &err), err);
        assert_int_equal(size, now);
        json_decref(j);
        pith_free(before);
        pith_free(after);
        assert_ok(pith_unlink(f.job.journal_path, &err), err);
        assert_ok(pith_rename(other, f.job.journal_path, &err), err);
    }
    pith_free(other);
    run_close(&f);
}

/* Two copies of a checkpoint are the same input, whatever their names' age; one flipped bit in a
 * header or in a short file makes another. */
static void test_identity(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    char first[PITH_SHA256_HEX], second[PITH_SHA256_HEX];
    char *data, *path;
    size_t size;
    begin(&f);
    const struct pith_checkpoint *c = f.job.model->checkpoint;
    assert_true(pith_checkpoint_identity(c, first));
    path = pith_strdup(c->files[0].path);
    assert_ok(pith_file_read(path, 1 << 24, &data, &size, &err), err);
    for (int flip = 0; flip < 2; flip++) {
        data[size - 5] = (char)(data[size - 5] ^ flip);
        assert_ok(pith_file_write(path, data, size, &err), err);
        struct pith_checkpoint *again;
        assert_ok(pith_checkpoint_open(f.model, &again, &err), err);
        assert_true(pith_checkpoint_identity(again, second));
        if (flip) assert_string_not_equal(first, second);
        else assert_string_equal(first, second);
        pith_checkpoint_close(again);
    }
    pith_free(data);
    pith_free(path);
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
    f.job.fingerprint[0] = f.job.fingerprint[0] == '0' ? '1' : '0';
    json_decref(f.journal.units);
    assert_int_equal(pith_journal_open(&f.job, &f.journal, &err), PITH_IO);
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
    memcpy(first, f.job.fingerprint, sizeof first);
    f.options.memory = 1 << 20;
    f.options.resume = true;
    f.options.out = "elsewhere";
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_equal(f.job.fingerprint, first);

    f.options.seed = 1;
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_not_equal(f.job.fingerprint, first);
    f.options.seed = 0;
    f.options.max_shard--;
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_not_equal(f.job.fingerprint, first);
    f.options.max_shard++;
    f.job.container = pith_container_find("gptq");
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_not_equal(f.job.fingerprint, first);
    f.job.container = pith_container_find("compressed-tensors");
    f.job.choices[3].grid = (struct pith_grid){0};
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_not_equal(f.job.fingerprint, first);
    f.job.choices[3].grid = f.job.choices[2].grid;
    f.job.recipe.round_options.damp += 1e-12;
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_not_equal(f.job.fingerprint, first);
    assert_ok(pith_recipe_load("rtn", &f.job.recipe, &err), err);
    assert_ok(pith_recipe_set(&f.job.recipe, "weights", "int4:channel", &err), err);
    assert_ok(pith_journal_fingerprint(&f.job, &err), err);
    assert_string_equal(f.job.fingerprint, first);
    run_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_come_back), cmocka_unit_test(test_torn_end),
        cmocka_unit_test(test_too_many),        cmocka_unit_test(test_garbage_begins_anew),
        cmocka_unit_test(test_restart),         cmocka_unit_test(test_another_job),
        cmocka_unit_test(test_fingerprint),     cmocka_unit_test(test_cut),
        cmocka_unit_test(test_flipped_bits),    cmocka_unit_test(test_moved_lines),
        cmocka_unit_test(test_links),           cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
