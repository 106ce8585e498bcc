/* model/same_model: what one architecture alone has is compared member by member. */
#include "model/same_model.h"
#include "unit/model/arch_case.h"

struct found {
    unsigned count;
    char text[200]; /* the first: WHAT: A, B */
};

static void note(void *ctx, const char *what, const char *a, const char *b)
{
    struct found *f = ctx;
    if (f->count++ == 0) snprintf(f->text, sizeof f->text, "%s: %s, %s", what, a, b);
}

/* The model of a case, whose config is changed to have `json`. */
static struct pith_model *model_of(const char *name, const char *json)
{
    struct pith_error err = {0};
    struct pith_model *m;
    json_t *file = arch_load(name), *more = json_loads(json, 0, NULL);
    assert_non_null(more);
    json_object_update_recursive(json_object_get(file, "config"), more);
    char *dir = arch_folder_make(file);
    assert_ok(pith_model_open(dir, &m, &err), err);
    folder_remove(dir);
    json_decref(more);
    json_decref(file);
    return m;
}

static void members_of_one_architecture(void **state)
{
    (void)state;
    static const struct {
        const char *name, *json, *want; /* NULL: the same */
    } cases[] = {
        {"olmoe_clip", "{}", NULL},
        {"olmoe_clip", "{\"clip_qkv\": 0.5}", "clip_qkv: 0.75, 0.5"},
        {"llama4", "{}", NULL},
        {"llama4", "{\"attn_scale\": 0.5000000000001}", NULL}, /* the same as float32 */
        {"llama4", "{\"attn_scale\": 0.25}",
         "the growth of queries with their position: 0.5, 0.25"},
        {"llama4", "{\"use_qk_norm\": false}", "norms on q and k: true, false"},
        {"ministral3", "{\"rope_parameters\": {\"llama_4_scaling_beta\": 0.25}}",
         "the growth of queries with their position: 0.5, 0.25"},
        {"cohere", "{}", NULL},
        {"gemma4_shared", "{}", NULL},
        {"gemma4_shared", "{\"use_double_wide_mlp\": false}", NULL},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct found f = {0};
        struct pith_model *a = model_of(cases[i].name, "{}");
        struct pith_model *b = model_of(cases[i].name, cases[i].json);
        (void)pith_model_same(a, b, note, &f);
        print_message("%s %s: %s\n", cases[i].name, cases[i].json, f.text);
        assert_int_equal(f.count != 0, cases[i].want != NULL);
        if (cases[i].want) assert_string_equal(f.text, cases[i].want);
        pith_model_close(a);
        pith_model_close(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_of_one_architecture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
