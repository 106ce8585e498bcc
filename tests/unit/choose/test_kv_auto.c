/* choose/kv_auto: formats by layer within a budget, the same ones again, and from the record alone.
 */
#include "choose/kv_auto.h"

#include "calib/corpus.h"
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
        assert_true(number(row, "kld_capped") <= number(row, "kld"));
        sum = (sum < 0 ? 0 : sum) + number(row, "kld_capped");
    }
    return sum;
}

/* What a cache loses on the text that assignments are measured on, each position as much as 99 in
 * 100 at most. */
static double measured(struct rig *r, const struct pith_kv_format *f)
{
    const struct pith_calib_options o = {.tokens = 4096, .seq_len = r->worse->shape.max_position};
    struct pith_error err = {0};
    struct pith_calib_set set;
    struct pith_text_result got;
    assert_ok(pith_calib_load(&o, r->tokenizer, &set, &err), err);
    const struct pith_text_job job = {.backend = r->backend,
                                      .model = r->worse,
                                      .baseline = r->worse,
                                      .kv = *f,
                                      .ids = set.ids,
                                      .count = set.windows * set.length,
                                      .bos = -1,
                                      .convention = PITH_CONVENTION_GPTQ,
                                      .context = set.length};
    assert_ok(pith_eval_text(&job, &got, &err), err);
    pith_calib_free(&set);
    assert_true(got.kld_capped <= got.kld_mean && got.kld_capped >= 0.99 * got.kld_median / 2);
    return got.kld_capped;
}

enum { LEAST = 3 };

/* The uniform choices of at most so many bits that are expected to lose least, best first. */
static void expect_least(struct rig *r, const json_t *rows, double bits, char name[LEAST][160])
{
    const size_t context = r->worse->shape.max_position;
    struct pith_error err;
    double least[LEAST] = {INFINITY, INFINITY, INFINITY};
    const json_t *row, *other;
    size_t i, k;
    json_array_foreach (rows, i, row)
        json_array_foreach (rows, k, other) {
            struct pith_kv_format f;
            char text[160];
            const double near = number(row, "recent");
            const double keys = loss_of(rows, row, 'k', near);
            const double values = loss_of(rows, other, 'v', near);
            snprintf(text, sizeof text, "k=%s,v=%s%s", string(row, "grid"), string(other, "grid"),
                     near > 0 ? ",recent=32" : "");
            size_t at = LEAST;
            if (keys < 0 || values < 0 || number(other, "recent") != near) continue;
            assert_ok(pith_kv_parse(text, PITH_F32, r->worse, &f, &err), err);
            if (pith_kv_bits(&r->worse->plans, &f, context) > bits) continue;
            for (size_t n = 0; n < LEAST; n++)
                if (strcmp(name[n], text) == 0) at = 0;
            while (at > 0 && keys + values < least[at - 1]) at--;
            if (at == LEAST || keys + values >= least[at]) continue;
            memmove(name[at + 1], name[at], (LEAST - 1 - at) * sizeof name[0]);
            memmove(&least[at + 1], &least[at], (LEAST - 1 - at) * sizeof least[0]);
            memcpy(name[at], text, sizeof text);
            least[at] = keys + values;
        }
}

static void better_than_uniform_within_the_budget(void **state)
{
    (void)state;
    struct rig r;
    struct pith_error err;
    struct pith_kv_format f, uniform;
    char *path, name[LEAST][160] = {{0}};
    open_rig(&r);
    assert_int_equal(choose(&r, 5.5, false, &f, &err), PITH_ARG);
    assert_null(f.layer);
    assert_ok(choose(&r, 5.5, true, &f, &err), err);
    const double bits = pith_kv_bits(&r.worse->plans, &f, r.worse->shape.max_position);
    assert_true(bits <= 5.5 && bits > 4.5);
    json_t *j = read_record(&r, &path);
    const json_t *a = json_array_get(json_object_get(j, "assignments"), 0);
    const double got = number(a, "kld_capped");
    assert_true(got <= number(a, "kld_capped_first") && got <= number(a, "kld_capped_uniform"));
    assert_true(number(a, "measured") > 1 && number(a, "tokens") == 4096);
    assert_true(fabs(measured(&r, &f) - got) <= 1e-6 * got);
    expect_least(&r, json_object_get(j, "rows"), 5.5, name);
    for (size_t i = 0; i < LEAST; i++) {
        assert_ok(pith_kv_parse(name[i], PITH_F32, r.worse, &uniform, &err), err);
        const double loss = measured(&r, &uniform);
        if (got > loss || (i == 0 && number(a, "kld_capped_uniform") > loss * (1 + 1e-6)))
            fail_msg("%s loses less: %g", name[i], loss);
    }
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
    json_t *row = json_array_get(json_object_get(j, "rows"), 0);
    json_t *capped = json_incref(json_object_get(row, "kld_capped"));
    json_object_del(row, "kld_capped"); /* as another version wrote it */
    assert_ok(pith_json_save(path, j, &err), err);
    assert_int_equal(choose(&r, 5.5, false, &again, &err), PITH_ARG);
    json_object_set_new(row, "kld_capped", capped);
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
