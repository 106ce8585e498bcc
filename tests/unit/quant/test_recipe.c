/* quant/recipe.h: named recipes, recipe files, and files that are wrong or hostile. */
#include "quant/recipe.h"

#include "base/file.h"
#include "base/mem.h"
#include "test.h"

static enum pith_status load_text(const char *text, size_t size, struct pith_recipe *r,
                                  struct pith_error *err)
{
    char *dir = test_temp_dir(), path[600];
    snprintf(path, sizeof path, "%s/r.json", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    fclose(f);
    const enum pith_status s = pith_recipe_load(path, r, err);
    remove(path);
    remove(dir);
    free(dir);
    return s;
}

static void assert_same(const struct pith_recipe *a, const struct pith_recipe *b)
{
    json_t *x = pith_recipe_json(a), *y = pith_recipe_json(b);
    assert_non_null(x);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
}

static void every_row_loads_and_survives_a_round_trip(void **state)
{
    (void)state;
    size_t count;
    const struct pith_recipe_row *rows = pith_recipe_rows(&count);
    assert_true(count >= 5);
    for (size_t i = 0; i < count; i++) {
        struct pith_recipe r, back;
        struct pith_error err = {0};
        assert_ok(pith_recipe_load(rows[i].name, &r, &err), err);
        assert_string_equal(r.name, rows[i].name);
        const char *transform = rows[i].transform ? rows[i].transform : "none";
        const size_t name = strlen(r.transform->name);
        assert_memory_equal(r.transform->name, transform, name);
        assert_true(transform[name] == '\0' || transform[name] == ':');
        assert_string_equal(r.round->name, rows[i].round ? rows[i].round : "nearest");
        assert_true(r.round_options.damp == 0.01 && r.round_options.shrink == 1);
        assert_int_equal(r.round_options.act_order, PITH_ORDER_STATIC);
        json_t *json = pith_recipe_json(&r);
        assert_string_equal(json_string_value(json_object_get(json, "weights")),
                            rows[i].weights ? rows[i].weights : "none");
        char *text = json_dumps(json, 0);
        assert_ok(load_text(text, strlen(text), &back, &err), err);
        assert_same(&r, &back);
        free(text);
        json_decref(json);
    }
}

static void a_file_changes_what_it_names(void **state)
{
    (void)state;
    static const char text[] =
        "{\"name\": \"mine\", \"base\": \"awq\", \"weights\": \"int3:g64:mse\", \"round\": "
        "\"gptq\","
        " \"acts\": \"int8:token\", \"damp\": 0.05, \"act_order\": \"group\", \"clip\": false,"
        " \"container\": \"gptq\", \"kv\": null}";
    struct pith_recipe r;
    struct pith_error err = {0};
    assert_ok(load_text(text, sizeof text - 1, &r, &err), err);
    assert_string_equal(r.name, "mine");
    assert_string_equal(r.transform->name, "awq");
    assert_string_equal(r.round->name, "gptq");
    assert_int_equal(r.weights.group, 64);
    assert_true(r.weights.mse && !r.weights.asym);
    assert_int_equal(r.acts.granularity, PITH_PER_TOKEN);
    assert_null(r.kv.format);
    assert_true(r.round_options.damp == 0.05);
    assert_int_equal(r.round_options.act_order, PITH_ORDER_GROUP);
    assert_false(r.clip);
    assert_string_equal(r.container, "gptq");
    assert_ok(load_text("{}", 2, &r, &err), err);
    assert_string_equal(r.name, "custom");
    assert_string_equal(r.round->name, "nearest");
}

/* As -r auto writes of a large mixture: a line for each of 20,000 linears. */
static void a_file_may_name_every_linear(void **state)
{
    (void)state;
    enum { LINEARS = 20000, LINE = 80 };
    struct pith_recipe r;
    struct pith_error err = {0};
    char *text = pith_alloc(LINEARS + 1, LINE);
    assert_non_null(text);
    size_t n = (size_t)snprintf(text, LINE, "{\"linears\": {");
    for (int i = 0; i < LINEARS; i++)
        n += (size_t)snprintf(text + n, LINE, "%s\"layers.%d.mlp.down_proj\": \"int4:g128\"",
                              i ? "," : "", i);
    n += (size_t)snprintf(text + n, LINE, "}}");
    assert_ok(load_text(text, n, &r, &err), err);
    pith_free(text);
}

/* What `pith recipes --keys` prints is what a file may hold: the default that it states, and the
 * names that there are. */
static void keys_are_what_files_hold(void **state)
{
    (void)state;
    struct pith_recipe r;
    struct pith_error err = {0};
    struct pith_recipe_key k;
    static const char text[] = "{\"round\": \"learned\"}";
    assert_ok(load_text(text, sizeof text - 1, &r, &err), err);
    json_t *json = pith_recipe_json(&r);
    size_t found = 0, i;
    for (i = 0; pith_recipe_key(i, &k); i++) {
        const json_t *is = json_object_get(json, k.key);
        found += is != NULL;
        /* What another run found is held only where a file gives it. */
        assert_true(is || strcmp(k.key, "base") == 0 || strcmp(k.key, "linears") == 0 ||
                    strcmp(k.key, "predicted") == 0);
        if (json_is_string(is) && k.usual[0]) assert_string_equal(json_string_value(is), k.usual);
        if (json_is_number(is)) assert_true(json_number_value(is) == atof(k.usual));
        if (json_is_boolean(is)) assert_string_equal(json_is_true(is) ? "true" : "false", k.usual);
    }
    assert_int_equal(found, json_object_size(json));
    json_decref(json);
    size_t n;
    for (i = 0; pith_recipe_key(i, &k); i++) {
        if (strcmp(k.key, "transform") == 0)
            for (size_t j = 0; j < (pith_transforms(&n), n); j++)
                assert_non_null(strstr(k.values, pith_transforms(&n)[j]->name));
        if (strcmp(k.key, "split") == 0)
            for (size_t j = 0; j < (pith_splits(&n), n); j++)
                assert_non_null(strstr(k.values, pith_splits(&n)[j]->name));
        if (strcmp(k.key, "round") == 0)
            for (size_t j = 0; j < (pith_rounders(&n), n); j++)
                assert_non_null(strstr(k.values, pith_rounders(&n)[j].name));
    }
}

static void stages_are_set_by_text(void **state)
{
    (void)state;
    struct pith_recipe r, before;
    struct pith_error err = {0};
    assert_ok(pith_recipe_load("gptq", &r, &err), err);
    assert_ok(pith_recipe_set(&r, "weights", "int3:g32:asym", &err), err);
    assert_int_equal(r.weights.group, 32);
    assert_ok(pith_recipe_set(&r, "weights", "int5", &err), err); /* the rest stays */
    assert_true(r.weights.format->bits == 5 && r.weights.group == 32 && r.weights.asym);
    assert_ok(pith_recipe_set(&r, "weights", "int3:mse", &err), err);
    assert_true(r.weights.group == 32 && r.weights.mse && !r.weights.asym);
    assert_ok(pith_recipe_set(&r, "weights", "fp8_e4m3", &err), err); /* of another kind */
    assert_int_equal(r.weights.granularity, PITH_PER_CHANNEL);
    assert_ok(pith_recipe_set(&r, "weights", "int3:g32:asym", &err), err);
    assert_ok(pith_recipe_set(&r, "acts", "int8:token", &err), err);
    assert_ok(pith_recipe_set(&r, "acts", "none", &err), err);
    assert_null(r.acts.format);
    assert_ok(pith_recipe_set(&r, "kv", "fp8_e4m3:tensor:static", &err), err);
    assert_ok(pith_recipe_set(&r, "transform", "awq", &err), err);
    static const char *const splits[] = {"2:4", "2:4:wanda", "2:4:magnitude", "sparse", "sparse:1"};
    for (size_t i = 0; i < PITH_COUNT(splits); i++) {
        assert_ok(pith_recipe_set(&r, "split", splits[i], &err), err);
        json_t *json = pith_recipe_json(&r);
        assert_string_equal(json_string_value(json_object_get(json, "split")), splits[i]);
        json_decref(json);
    }
    assert_true(r.split_value == 1);
    assert_ok(pith_recipe_set(&r, "split", "none", &err), err);
    assert_ok(pith_recipe_set(&r, "round", "nearest", &err), err);
    before = r;
    static const struct {
        const char *stage, *text, *message;
        enum pith_status status;
    } bad[] = {{"weights", "int9", "int9", PITH_ARG},
               {"weights", "GPTQ", "is a recipe, no grid: `recipe` GPTQ", PITH_ARG},
               {"weights", "int4:g64:dq", "int4:g128, fp8", PITH_UNSUPPORTED},
               {"weights", "", "", PITH_ARG},
               {"transform", "smoother", "did you mean \"smooth\"?", PITH_ARG},
               {"split", "2:3", "did you mean \"2:4\"?", PITH_ARG},
               {"split", "2:4:sparse", "takes no option", PITH_ARG},
               {"split", "sparse:60", "at most 50", PITH_ARG},
               {"round", "dearest", "did you mean \"nearest\"?", PITH_ARG},
               {"round", "best", "there are nearest, gptq", PITH_ARG},
               {"act_order", "none", "no stage", PITH_ARG},
               {"name", "x", "no stage", PITH_ARG},
               {"", "", "no stage", PITH_ARG}};
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        err = (struct pith_error){0};
        assert_int_equal(pith_recipe_set(&r, bad[i].stage, bad[i].text, &err), bad[i].status);
        assert_non_null(strstr(err.text, bad[i].message));
        assert_same(&r, &before);
    }
    err = (struct pith_error){0};
    assert_int_equal(pith_recipe_load("nonesuch", &r, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "rtn, w8a16, gptq, awq, awq+gptq"));
}

#define CASE(text, message)                                                                        \
    {                                                                                              \
        text, sizeof text - 1, message                                                             \
    }

/* Each is refused with one line that names the file and the reason. */
static void wrong_files_are_refused(void **state)
{
    (void)state;
    static char big[200000], deep[20000];
    memset(big, ' ', sizeof big);
    memset(deep, '[', sizeof deep);
    const struct {
        const char *text;
        size_t size;
        const char *message;
    } cases[] = {
        CASE("", "JSON"),
        CASE("{", "JSON"),
        CASE("[]", "must be a JSON object"),
        CASE("\"gptq\"", "JSON"),
        CASE("null", "JSON"),
        CASE("{\"weigths\": \"int4\"}", "no key \"weigths\""),
        CASE("{\"\": 1}", "no key \"\""),
        CASE("{\"weights\": 4}", "\"weights\" is not a string"),
        CASE("{\"weights\": [\"int4\"]}", "\"weights\" is not a string"),
        CASE("{\"weights\": \"int4:g0\"}", "\"weights\""),
        CASE("{\"weights\": \"int4:g99999999999999999999\"}", "\"weights\""),
        CASE("{\"weights\": \"int4:g128:g128\"}", "\"weights\""),
        CASE("{\"weights\": \"int8:token\"}", "int4:g128, fp8"),
        CASE("{\"weights\": \"int4:g128\\u0000:asym\"}", "NUL"),
        CASE("{\"base\": \"gptq\\u0000\"}", "NUL"),
        CASE("{\"base\": \"nope\"}", "\"base\": unknown recipe \"nope\""),
        CASE("{\"base\": \"./r.json\"}", "\"base\": unknown recipe"),
        CASE("{\"base\": {}}", "\"base\" is not a string"),
        CASE("{\"transform\": \"awq \"}", "unknown transform"),
        CASE("{\"split\": \"none\\n\"}", "unknown split"),
        CASE("{\"round\": true}", "\"round\" is not a string"),
        CASE("{\"round\": \"GPTQQ\"}", "unknown rounder \"GPTQQ\"; did you mean \"gptq\"?"),
        CASE("{\"damp\": \"0.01\"}", "\"damp\" is not a number"),
        CASE("{\"damp\": -0.01}", "outside 0..1"),
        CASE("{\"damp\": 1.5}", "outside 0..1"),
        CASE("{\"damp\": 1e999}", "not a number that is finite"),
        CASE("{\"damp\": NaN}", "not a number that is finite"),
        CASE("{\"act_order\": true}", "\"act_order\" is not a string"),
        CASE("{\"act_order\": \"desc\"}", "there are: none, static, group"),
        CASE("{\"clip\": 1}", "\"clip\" is not true or false"),
        CASE("{\"clip\": \"yes\"}", "\"clip\" is not true or false"),
        CASE("{\"container\": \"\"}", "\"container\""),
        CASE("{\"container\": \"../../etc/passwd\"}", "\"container\""),
        CASE("{\"container\": \"0123456789012345678901234567890123456789\"}", "\"container\""),
        CASE("{\"name\": \"a\\u001b[31mb\"}", "\"name\""),
        CASE("{\"name\": \"0123456789012345678901234567890123456789012345678901234567890123\"}",
             "\"name\""),
        CASE("{\"kv\": \"int4:g128\"} x", "JSON"),
        CASE("{\"kv\": \"\xff\xfe\"}", "JSON"),
        CASE("\0\0\0\0", "JSON"),
        {big, sizeof big, ""},
        {deep, sizeof deep, "JSON"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_recipe r;
        struct pith_error err = {0};
        const enum pith_status s = load_text(cases[i].text, cases[i].size, &r, &err);
        if (s == PITH_OK) fail_msg("case %zu was accepted: %.60s", i, cases[i].text);
        assert_true(s == PITH_FORMAT || s == PITH_UNSUPPORTED || s == PITH_LIMIT);
        assert_int_equal(err.status, s);
        assert_non_null(strstr(err.text, "r.json"));
        if (!strstr(err.text, cases[i].message))
            fail_msg("case %zu (%.60s) says: %s", i, cases[i].text, err.text);
        assert_null(strchr(err.text, '\n'));
    }
    struct pith_recipe r;
    struct pith_error err = {0};
    assert_int_equal(pith_recipe_load("/nonexistent/r.json", &r, &err), PITH_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_loads_and_survives_a_round_trip),
        cmocka_unit_test(a_file_changes_what_it_names),
        cmocka_unit_test(a_file_may_name_every_linear),
        cmocka_unit_test(keys_are_what_files_hold),
        cmocka_unit_test(stages_are_set_by_text),
        cmocka_unit_test(wrong_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
