/* pipe/kv_auto: formats by layer within a budget, the same ones again, and from the record alone.
 */
#include "pipe/kv_auto.h"
#include "unit/eval/fixture.h"

static enum pith_status choose(struct rig *r, double bits, bool measures, struct pith_kv_format *f,
                               struct pith_error *err)
{
    const struct pith_kv_auto_job job = {.backend = r->backend,
                                         .model = r->worse,
                                         .tokenizer = measures ? r->tokenizer : NULL,
                                         .bits = bits};
    *err = (struct pith_error){0};
    return pith_kv_auto(&job, f, err);
}

static void open_rig(struct rig *r)
{
    struct pith_error err = {0};
    rig_open(r, GOLDEN "tiny", 2);
    assert_ok(pith_model_load_blocks(r->worse, r->backend, &err), err);
}

static json_t *read_record(const struct rig *r, char **path)
{
    struct pith_error err = {0};
    json_t *j;
    *path = pith_path_join(r->worse_dir, "pith.kv.json");
    assert_ok(pith_json_load(*path, 1 << 20, &j, &err), err);
    return j;
}

/* What the record says of a candidate for all keys or all values together, with so many of the
 * newest in floats; -1 when it has none. */
static double loss_of(const json_t *rows, const json_t *as, char side, double recent)
{
    const char *grid = string(as, "grid");
    double sum = -1;
    const json_t *row;
    size_t i;
    json_array_foreach (rows, i, row) {
        const char *part = string(row, "part");
        if (strcmp(string(row, "grid"), grid) != 0 || part[strlen(part) - 1] != side ||
            number(row, "recent") != recent)
            continue;
        sum = (sum < 0 ? 0 : sum) + number(row, "kld");
    }
    return sum;
}

static void better_than_uniform_within_the_budget(void **state)
{
    (void)state;
    struct rig r;
    struct pith_error err;
    struct pith_kv_format f, uniform;
    char *path;
    open_rig(&r);
    assert_int_equal(choose(&r, 5.5, false, &f, &err), PITH_ARG);
    assert_null(f.layer);
    assert_ok(choose(&r, 5.5, true, &f, &err), err);
    const size_t context = r.worse->shape.max_position;
    const double bits = pith_kv_bits(&r.worse->plans, &f, context);
    assert_true(bits <= 5.5 && bits > 4.5);
    json_t *j = read_record(&r, &path);
    const json_t *rows = json_object_get(j, "rows"), *row;
    const double got = number(json_array_get(json_object_get(j, "assignments"), 0), "kld_sum");
    size_t i, k, compared = 0;
    json_array_foreach (rows, i, row) {
        const json_t *other;
        json_array_foreach (rows, k, other) {
            char name[160];
            const double near = number(row, "recent");
            const double keys = loss_of(rows, row, 'k', near);
            const double values = loss_of(rows, other, 'v', near);
            snprintf(name, sizeof name, "k=%s,v=%s%s", string(row, "grid"), string(other, "grid"),
                     near > 0 ? ",recent=32" : "");
            assert_ok(pith_kv_parse(name, PITH_F32, r.worse, &uniform, &err), err);
            if (keys < 0 || values < 0 || number(other, "recent") != near ||
                pith_kv_bits(&r.worse->plans, &uniform, context) > 5.5)
                continue;
            compared++;
            if (got > keys + values + 1e-12) fail_msg("%s loses less: %g", name, keys + values);
        }
    }
    assert_true(compared > 0);
    pith_kv_format_free(&f);
    json_decref(j);
    pith_free(path);
    rig_close(&r);
}

static void the_same_again(void **state)
{
    (void)state;
    struct rig r;
    struct pith_error err;
    struct pith_kv_format first, again;
    char *path;
    open_rig(&r);
    assert_ok(choose(&r, 5.5, true, &first, &err), err);
    assert_ok(choose(&r, 5.5, false, &again, &err), err);
    for (uint32_t i = 0; i < r.worse->shape.layers; i++) {
        char a[PITH_KV_TEXT], b[PITH_KV_TEXT];
        pith_kv_name(&first.layer[i], a);
        pith_kv_name(&again.layer[i], b);
        assert_string_equal(a, b);
    }
    pith_kv_format_free(&again);
    assert_ok(choose(&r, 9, false, &again, &err), err); /* another budget is not measured */
    pith_kv_format_free(&again);
    assert_int_equal(choose(&r, 3, false, &again, &err), PITH_LIMIT);

    json_t *j = read_record(&r, &path);
    assert_int_equal(json_array_size(json_object_get(j, "assignments")), 2);
    json_array_clear(
        json_object_get(json_array_get(json_object_get(j, "assignments"), 0), "layers"));
    assert_ok(pith_json_save(path, j, &err), err);
    assert_int_equal(choose(&r, 5.5, false, &again, &err), PITH_FORMAT); /* 32 bits each */
    json_object_set_new(j, "checkpoint", json_string("another"));
    assert_ok(pith_json_save(path, j, &err), err);
    assert_int_equal(choose(&r, 5.5, false, &again, &err), PITH_ARG);
    assert_ok(pith_file_write(path, "{", 1, &err), err);
    assert_int_equal(choose(&r, 5.5, true, &again, &err), PITH_FORMAT);
    assert_null(again.layer);
    pith_kv_format_free(&first);
    json_decref(j);
    pith_free(path);
    rig_close(&r);
}

/* What lies in floats until its page is full counts, and does the values of the layer good too. */
static void keys_by_channel_are_candidates(void **state)
{
    (void)state;
    struct rig r;
    struct pith_error err;
    struct pith_kv_format f;
    char *path;
    open_rig(&r);
    assert_ok(choose(&r, 6, true, &f, &err), err);
    json_t *j = read_record(&r, &path);
    const json_t *rows = json_object_get(j, "rows"), *row;
    size_t i, kivi = 0;
    json_array_foreach (rows, i, row) {
        if (strcmp(string(row, "grid"), "kivi4") != 0) continue;
        kivi++;
        assert_true(loss_of(rows, row, 'k', 0) < 0); /* their own page is never in codes */
        assert_true(loss_of(rows, row, 'k', 32) > 0);
        assert_true(loss_of(rows, row, 'v', 32) > 0);
        assert_true(loss_of(rows, row, 'v', 32) < loss_of(rows, row, 'v', 0));
    }
    assert_int_equal(kivi, 3 * r.worse->shape.layers);
    pith_kv_format_free(&f);
    json_decref(j);
    pith_free(path);
    rig_close(&r);
}

static void names_of_budgets(void **state)
{
    (void)state;
    struct pith_error err = {0};
    double bits;
    static const char *const wrong[] = {"auto",    "auto:x",  "auto:0",
                                        "auto:33", "auto:5x", "auto:nan"};
    assert_ok(pith_kv_auto_parse("auto:5.5", &bits, &err), err);
    assert_true(bits == 5.5);
    assert_ok(pith_kv_auto_parse("int4:g32", &bits, &err), err);
    assert_true(bits == 0);
    assert_ok(pith_kv_auto_parse(NULL, &bits, &err), err);
    assert_true(bits == 0);
    for (size_t i = 0; i < PITH_COUNT(wrong); i++) {
        err = (struct pith_error){0};
        assert_int_equal(pith_kv_auto_parse(wrong[i], &bits, &err), PITH_ARG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(better_than_uniform_within_the_budget),
        cmocka_unit_test(the_same_again),
        cmocka_unit_test(keys_by_channel_are_candidates),
        cmocka_unit_test(names_of_budgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
