/* Parameters of well-known models to the last one, and what their weights and caches take. */
#include "base/mem.h"
#include "model/kv/kv.h"
#include "plan/capacity.h"
#include "plan/shapes.h"
#include "test.h"

#include <math.h>
#include <string.h>

/* All shapes, in the table of which the counts are transformers' (tests/golden/plan). */
static void every_shape_has_its_parameters(void **state)
{
    json_t *shapes;
    const json_t *s;
    struct pith_error err = {0};
    size_t i;
    (void)state;
    assert_int_equal(pith_shapes_read(&shapes, &err), PITH_OK);
    assert_true(json_array_size(shapes) >= 60);
    json_array_foreach (shapes, i, s) {
        const char *name = json_string_value(json_object_get(s, "name"));
        struct pith_plan_subject p;
        struct pith_census n;
        if (pith_plan_subject_read(json_object_get(s, "config"), name, &p, &err) != PITH_OK)
            fail_msg("%s: %s", name, err.text);
        pith_plan_subject_count(&p, &n);
        const json_int_t want = json_integer_value(json_object_get(s, "parameters"));
        if ((json_int_t)n.all != want)
            fail_msg("%s: %lld parameters, expected %lld", name, (long long)n.all, (long long)want);
        uint64_t sum = 0;
        for (int c = 0; c < PITH_PLAN_CLASSES; c++) sum += n.class[c];
        assert_int_equal(sum, n.all);
        pith_plan_subject_free(&p);
    }
    json_decref(shapes);
}

/* Numbers that their makers publish, for shapes that stand in the table. */
static void published_counts(void **state)
{
    static const struct {
        const char *name;
        uint64_t all;
    } known[] = {{"Llama-2-7B", 6738415616},        {"Llama-2-13B", 13015864320},
                 {"Llama-2-70B", 68976648192},      {"Llama-3.1-8B", 8030261248},
                 {"Llama-3.1-70B", 70553706496},    {"Llama-3.1-405B", 405853388800},
                 {"Llama-3.2-1B", 1235814400},      {"Llama-3.2-3B", 3212749824},
                 {"Mistral-7B-v0.1", 7241732096},   {"Mixtral-8x7B", 46702792704},
                 {"Qwen2.5-7B", 7615616512},        {"Qwen2.5-72B", 72706203648},
                 {"Qwen3-8B", 8190735360},          {"Qwen3-30B-A3B", 30532122624},
                 {"Gemma-2-9B", 9241705984},        {"Gemma-2-27B", 27227128320},
                 {"Gemma-3-1B", 999885952},         {"Phi-4", 14659507200},
                 {"DeepSeek-V2-Lite", 15706484224}, {"gpt-oss-120b", 116829156672}};
    json_t *shapes;
    struct pith_error err = {0};
    (void)state;
    assert_int_equal(pith_shapes_read(&shapes, &err), PITH_OK);
    for (size_t i = 0; i < PITH_COUNT(known); i++) {
        const json_t *s = pith_shapes_find(shapes, known[i].name);
        assert_non_null(s);
        assert_int_equal(json_integer_value(json_object_get(s, "parameters")), known[i].all);
    }
    assert_null(pith_shapes_find(shapes, "Llama-3.1-9B"));
    json_decref(shapes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_its_parameters),
        cmocka_unit_test(published_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
