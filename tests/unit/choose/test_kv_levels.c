/* choose/kv_levels: made of text once, the same from the record; what of a record makes no sense is
 * refused. */
#include "choose/kv_fisher.h"
#include "unit/eval/fixture.h"

static enum pith_status need(struct rig *r, bool measures, struct pith_error *err)
{
    const struct pith_kv_levels_job job = {
        .backend = r->backend, .model = r->worse, .tokenizer = measures ? r->tokenizer : NULL};
    *err = (struct pith_error){0};
    pith_kv_levels_free(r->worse->kv_levels);
    r->worse->kv_levels = NULL;
    return pith_kv_levels_need(&job, err);
}

static void open_rig(struct rig *r)
{
    struct pith_error err = {0};
    rig_open(r, GOLDEN "tiny", 2);
    assert_ok(pith_model_load_blocks(r->worse, r->backend, &err), err);
}

static void assert_sense(const struct pith_kv_layer_levels *l)
{
    const size_t n = (size_t)l->heads * l->key;
    assert_in_range(n, 1, 4096);
    for (size_t i = 0; i < n; i++) assert_true(l->range[i] > 0 && isfinite(l->middle[i]));
    assert_true(l->beyond > 1.5f && l->beyond < 6);
    for (int side = 0; side < 2; side++)
        for (unsigned b = 0; b < 3; b++) {
            const float *x = l->level[side][b];
            assert_true(x[0] < -0.4f && x[(4u << b) - 1] > 0.4f);
            for (unsigned i = 1; i < 4u << b; i++) assert_true(x[i] > x[i - 1]);
        }
}

static void from_text_and_from_the_record(void **state)
{
    (void)state;
    struct rig r;
    struct pith_error err;
    open_rig(&r);
    assert_int_equal(need(&r, false, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "pith eval --kv kvquant4 makes it"));
    assert_null(r.worse->kv_levels);
    assert_ok(need(&r, true, &err), err);
    struct pith_kv_levels *measured = r.worse->kv_levels;
    for (uint32_t i = 0; i < measured->layers; i++) assert_sense(&measured->layer[i]);
    r.worse->kv_levels = NULL;
    assert_ok(need(&r, false, &err), err);
    const struct pith_kv_levels *read = r.worse->kv_levels;
    for (uint32_t i = 0; i < measured->layers; i++) {
        const struct pith_kv_layer_levels *a = &measured->layer[i], *b = &read->layer[i];
        const size_t bytes = (size_t)a->heads * a->key * sizeof(float);
        assert_memory_equal(a->middle, b->middle, bytes);
        assert_memory_equal(a->range, b->range, bytes);
        assert_memory_equal(a->level, b->level, sizeof a->level);
        assert_true(a->beyond == b->beyond);
    }
    pith_kv_levels_free(measured);
    rig_close(&r);
}

/* One value of the record, as a path of names and places, becomes another. */
static void spoil(json_t *file, const char *const path[], json_t *value)
{
    json_t *at = file;
    for (size_t i = 0; path[i + 1]; i++)
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(path[i]))
                               : json_object_get(at, path[i]);
    const char *last = path[0];
    for (size_t i = 0; path[i]; i++) last = path[i];
    assert_non_null(at);
    if (json_is_array(at)) assert_int_equal(json_array_set_new(at, (size_t)atoi(last), value), 0);
    else assert_int_equal(json_object_set_new(at, last, value), 0);
}

static void damaged_records(void **state)
{
    (void)state;
    static const char *const paths[][6] = {
        {"layers"},
        {"layers", "0"},
        {"layers", "1", "beyond"},
        {"layers", "1", "range", "0"},
        {"layers", "0", "range"},
        {"layers", "0", "middle", "3"},
        {"layers", "0", "k", "3", "7"},
        {"layers", "0", "v", "4"},
        {"layers", "0", "k", "2", "0"},
    };
    struct rig r;
    struct pith_error err;
    open_rig(&r);
    assert_ok(need(&r, true, &err), err);
    char *path = pith_path_join(r.worse_dir, "pith.kvquant.json");
    for (size_t i = 0; i < PITH_COUNT(paths); i++)
        for (int how = 0; how < 3; how++) {
            json_t *file, *whole;
            assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
            whole = json_deep_copy(file);
            spoil(file, paths[i],
                  how == 0   ? json_null()
                  : how == 1 ? json_real(-1e39)
                             : json_string("1"));
            assert_ok(pith_json_save(path, file, &err), err);
            assert_int_equal(need(&r, true, &err), PITH_FORMAT);
            assert_null(r.worse->kv_levels);
            assert_ok(pith_json_save(path, whole, &err), err);
            json_decref(file);
            json_decref(whole);
        }
    /* Of other weights: nothing is there. */
    json_t *file;
    assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
    assert_int_equal(json_object_set_new(file, "checkpoint", json_string("other")), 0);
    assert_ok(pith_json_save(path, file, &err), err);
    json_decref(file);
    assert_int_equal(need(&r, false, &err), PITH_ARG);
    assert_ok(need(&r, true, &err), err);
    assert_ok(need(&r, false, &err), err);
    pith_free(path);
    rig_close(&r);
}

/* Every channel is, and with the same bits on any number of threads. */
static void channels_are_felt(void **state)
{
    (void)state;
    enum { LENGTH = 40 };
    int32_t ids[2 * LENGTH];
    struct pith_kv_fisher first = {0};
    for (int i = 0; i < 2 * LENGTH; i++) ids[i] = (i * i * 7 + i * 3) % 90;
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct rig r;
        struct pith_error err = {0};
        struct pith_kv_fisher f;
        rig_open(&r, GOLDEN "tiny", threads);
        const struct pith_kv_levels_job job = {.backend = r.backend, .model = r.worse};
        assert_ok(pith_kv_fisher_measure(&job, &(struct pith_kv_windows){ids, 2, LENGTH}, &f, &err),
                  err);
        const struct pith_state_spec *s = &pith_plan(&r.worse->plans, 0)->state;
        const size_t keys = (size_t)s->heads * s->key, values = (size_t)s->heads * s->value;
        const uint32_t layers = r.worse->plans.layers;
        assert_int_equal(f.at[1], keys);
        assert_int_equal(f.at[2 * layers], layers * (keys + values));
        for (size_t i = 0; i < f.at[2 * layers]; i++)
            assert_true(f.memory[i] > 0 && isfinite(f.memory[i]));
        if (threads == 1) first = f;
        else {
            assert_memory_equal(f.memory, first.memory, f.at[2 * layers] * sizeof *f.memory);
            assert_ptr_equal(pith_kv_fisher_keys(&f, 1), f.memory + keys + values);
            assert_ptr_equal(pith_kv_fisher_values(&f, 0), f.memory + keys);
            pith_kv_fisher_free(&f);
        }
        assert_true(pith_kv_levels_bytes(r.worse, r.backend) > 1000);
        rig_close(&r);
    }
    pith_kv_fisher_free(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_text_and_from_the_record),
        cmocka_unit_test(damaged_records),
        cmocka_unit_test(channels_are_felt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
