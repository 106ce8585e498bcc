/* Which linear gets which grid: patterns, overrides, what is refused. */
#include "llama.h"
#include "quantize/select.h"
#include "run_fixture.h"

static void set(struct run_fixture *f, const char *const *ignore, size_t ignores,
                const char *const *overrides, size_t override_count)
{
    pith_job_unselect(&f->job);
    f->options.ignore = (struct pith_list){ignore, ignores};
    f->options.overrides = (struct pith_list){overrides, override_count};
}

/* The grid of a linear as text, "none" when left alone. */
static const char *grid_of(const struct run_fixture *f, uint32_t layer, uint32_t role)
{
    static char text[PITH_GRID_TEXT];
    const struct pith_choice *c = pith_job_choice(&f->job, layer, role);
    if (!c->grid.format) return "none";
    pith_grid_format(&c->grid, text);
    return text;
}

static void test_all(void **state)
{
    (void)state;
    struct run_fixture f;
    struct pith_error err = {0};
    run_open(&f);
    assert_ok(pith_job_select(&f.job, &err), err);
    assert_int_equal(f.job.choice_count, 2 * LLAMA_LINEARS);
    for (uint32_t layer = 0; layer < 2; layer++)
        for (int role = 0; role < LLAMA_LINEARS; role++) {
            const struct pith_choice *c = pith_job_choice(&f.job, layer, (uint32_t)role);
            assert_string_equal(grid_of(&f, layer, (uint32_t)role), "int4:channel");
            assert_int_equal(c->layer, layer);
            assert_int_equal(c->linear, role);
            assert_null(c->reason);
        }
    const struct pith_choice *down = pith_job_choice(&f.job, 1, LLAMA_DOWN);
    assert_string_equal(down->module, "model.layers.1.mlp.down_proj");
    assert_int_equal(down->rows, 32);
    assert_int_equal(down->cols, 44);
    assert_string_equal(f.job.linears[f.job.choice_count].module, "lm_head");
    assert_null(f.job.linears[f.job.choice_count].grid.format);
    run_close(&f);
}

/* Whole names, last parts, wildcards; a pattern is not a substring. */
static void test_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        unsigned layers; /* bit a layer */
        unsigned roles;  /* bit a role */
    } cases[] = {
        {"model.layers.1.mlp.up_proj", 2, 1u << LLAMA_UP},
        {"up_proj", 3, 1u << LLAMA_UP},
        {"mlp.up_proj", 3, 1u << LLAMA_UP},
        {"layers.0.*", 1, (1u << LLAMA_LINEARS) - 1},
        {"?_proj", 3, 15u},
        {"self_attn.*", 3, 15u},
        {"*0*down_proj", 1, 1u << LLAMA_DOWN},
        {"*", 3, (1u << LLAMA_LINEARS) - 1},
        {"lm_head", 0, 0},
    };
    struct run_fixture f;
    run_open(&f);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        set(&f, &cases[i].pattern, 1, NULL, 0);
        assert_ok(pith_job_select(&f.job, &err), err);
        for (uint32_t layer = 0; layer < 2; layer++)
            for (int role = 0; role < LLAMA_LINEARS; role++) {
                const bool hit = (cases[i].layers >> layer & 1) && (cases[i].roles >> role & 1);
                assert_string_equal(grid_of(&f, layer, (uint32_t)role),
                                    hit ? "none" : "int4:channel");
                if (hit)
                    assert_non_null(
                        strstr(pith_job_choice(&f.job, layer, (uint32_t)role)->reason, "`ignore`"));
            }
    }
    run_close(&f);
}

/* The last override that matches counts; --ignore wins; bf16 leaves alone. */
static void test_overrides(void **state)
{
    (void)state;
    static const char *const overrides[] = {"*_proj=int8:channel", "layers.1.*=int2:channel",
                                            "o_proj=none", "down_proj=int6:g11"};
    static const char *const ignore[] = {"layers.1.mlp.gate_proj"};
    struct run_fixture f;
    struct pith_error err = {0};
    run_open(&f);
    set(&f, ignore, 1, overrides, 4);
    assert_ok(pith_job_select(&f.job, &err), err);
    assert_string_equal(grid_of(&f, 0, LLAMA_Q), "int8:channel");
    assert_string_equal(grid_of(&f, 1, LLAMA_Q), "int2:channel");
    assert_string_equal(grid_of(&f, 0, LLAMA_O), "none");
    assert_non_null(strstr(pith_job_choice(&f.job, 0, LLAMA_O)->reason, "16 bits"));
    assert_string_equal(grid_of(&f, 1, LLAMA_DOWN), "int6:g11");
    assert_string_equal(grid_of(&f, 0, LLAMA_GATE), "int8:channel");
    assert_string_equal(grid_of(&f, 1, LLAMA_GATE), "none");
    run_close(&f);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *ignore, *override, *says;
        enum pith_status status;
    } cases[] = {
        {"upproj", NULL, "`ignore` upproj matches no linear", PITH_ARG},
        {"layers.2.*", NULL, "matches no linear", PITH_ARG},
        {"", NULL, "matches no linear", PITH_ARG},
        {NULL, "nothing=int4:channel", "matches no linear", PITH_ARG},
        {NULL, "up_proj", "expected PATTERN=GRID", PITH_ARG},
        {NULL, "=int4:channel", "expected PATTERN=GRID", PITH_ARG},
        {NULL, "up_proj=", "`overrides`", PITH_ARG},
        {NULL, "up_proj=int9", "int9", PITH_ARG},
        {NULL, "up_proj=int8:token", "cannot be put on that grid", PITH_UNSUPPORTED},
        {NULL, "lm_head=int8:channel", "leaves the head", PITH_UNSUPPORTED},
        {NULL, "up_proj=int4:g7", "up_proj", PITH_UNSUPPORTED}, /* 7 does not divide 32 */
    };
    struct run_fixture f;
    run_open(&f);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        set(&f, &cases[i].ignore, cases[i].ignore ? 1 : 0, &cases[i].override,
            cases[i].override ? 1 : 0);
        assert_int_equal(pith_job_select(&f.job, &err), cases[i].status);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].says, err.text);
    }
    run_close(&f);
}

/* The grid of a linear of layer 0 by its name within the layer. */
static const char *grid_named(const struct run_fixture *f, const char *name, const char **reason)
{
    const struct pith_layer_plan *l = pith_job_plan(&f->job, 0);
    for (uint32_t i = 0; i < l->linears; i++)
        if (strcmp(l->linear[i].name, name) == 0) {
            *reason = pith_job_choice(&f->job, 0, i)->reason;
            return grid_of(f, 0, i);
        }
    return "absent";
}

/* A router is not what "layers.0.*" asks for; its own name is. */
static void test_routers(void **state)
{
    (void)state;
    static const struct {
        const char *override, *router, *says, *expert;
    } cases[] = {
        {NULL, "none", "router", "int4:channel"},
        {"*=int8:channel", "none", "router", "int8:channel"},
        {"layers.0.mlp.*=int8:channel", "none", "router", "int8:channel"},
        {"mlp.gate=int8:channel", "int8:channel", NULL, "int4:channel"},
        {"layers.*.gate=int8:channel", "int8:channel", NULL, "int4:channel"},
        {"gat?=bf16", "none", "`overrides`", "int4:channel"},
    };
    struct run_fixture f;
    run_open_arch(&f, "qwen3_moe");
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        const char *reason;
        set(&f, NULL, 0, &cases[i].override, cases[i].override ? 1 : 0);
        assert_ok(pith_job_select(&f.job, &err), err);
        assert_string_equal(grid_named(&f, "mlp.gate", &reason), cases[i].router);
        assert_int_equal(reason != NULL, cases[i].says != NULL);
        if (reason) assert_non_null(strstr(reason, cases[i].says));
        assert_string_equal(grid_named(&f, "mlp.experts.1.up_proj", &reason), cases[i].expert);
    }
    run_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),       cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_overrides), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_routers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
