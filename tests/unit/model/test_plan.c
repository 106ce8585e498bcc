/* Layers as lists: which are shared, how they are named, what hostile names are taken for, and no
 * request for memory that fails leaks. */
#include "llama.h"
#include "requests.h"
#include "unit/model/fixture.h"

/* --- Llama's plan ----------------------------------------------------------------------------- */

static const struct pith_shape shape = {.hidden = 16,
                                        .ffn = 44,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 8,
                                        .place = {.rotary = 8},
                                        .layers = 12,
                                        .vocab = 10};

static const struct pith_arch *llama(void)
{
    size_t n;
    const struct pith_arch *const *archs = pith_archs(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(archs[i]->model_type, "llama") == 0) return archs[i];
    fail_msg("no llama");
    return NULL;
}

static void make(struct pith_plans *p, const struct pith_arch *arch, const struct pith_shape *s)
{
    struct pith_error err = {0};
    assert_ok(pith_plans_make(arch, s, p, &err), err);
}

static void equal_layers_share_a_kind(void **state)
{
    (void)state;
    struct pith_plans p;
    make(&p, llama(), &shape);
    assert_ptr_equal(p.arch, llama());
    assert_int_equal(p.layers, 12);
    assert_int_equal(p.kinds, 1);
    assert_int_equal(p.rotary, 8);
    assert_int_equal(p.most_linears, LLAMA_LINEARS);
    assert_int_equal(p.most_sites, LLAMA_SITES);
    assert_int_equal(p.most_vectors, 2);
    for (uint32_t i = 0; i <= 12; i++) assert_int_equal(p.first[i], i * LLAMA_LINEARS);
    for (uint32_t i = 0; i < 12; i++) assert_ptr_equal(pith_plan(&p, i), &p.kind[0]);
    pith_plans_free(&p);
    assert_null(p.kind);
    assert_int_equal(p.kinds, 0);
    pith_plans_free(&p);
}

/* Layers with a window differ in one node; engines fuse and preflight counts sizes alone. */
static void windows_make_a_second_kind(void **state)
{
    (void)state;
    struct pith_shape s = shape;
    struct pith_plans p;
    s.windows.size = 5;
    for (uint32_t i = 7; i < s.layers; i++) pith_layer_put(&s.windows.layers, i);
    make(&p, &pith_arch_qwen3, &s);
    assert_int_equal(p.kinds, 2);
    assert_int_equal(p.most_vectors, 4);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(p.of[i], i >= 7);
        assert_int_equal(pith_plan_attend(pith_plan(&p, i))->u.attend.window, i >= 7 ? 5 : 0);
    }
    assert_true(pith_plan_same_sizes(&p.kind[0], &p.kind[1]));
    pith_plans_free(&p);
}

static void sizes_are_those_of_the_shape(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rows, cols, site;
    } want[LLAMA_LINEARS] = {
        [LLAMA_Q] = {"self_attn.q_proj", 32, 16, LLAMA_SITE_QKV},
        [LLAMA_K] = {"self_attn.k_proj", 16, 16, LLAMA_SITE_QKV},
        [LLAMA_V] = {"self_attn.v_proj", 16, 16, LLAMA_SITE_QKV},
        [LLAMA_O] = {"self_attn.o_proj", 16, 32, LLAMA_SITE_O},
        [LLAMA_GATE] = {"mlp.gate_proj", 44, 16, LLAMA_SITE_GATE_UP},
        [LLAMA_UP] = {"mlp.up_proj", 44, 16, LLAMA_SITE_GATE_UP},
        [LLAMA_DOWN] = {"mlp.down_proj", 16, 44, LLAMA_SITE_DOWN},
    };
    struct pith_plans p;
    make(&p, llama(), &shape);
    const struct pith_layer_plan *l = pith_plan(&p, 3);
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        const bool back = i == LLAMA_O || i == LLAMA_DOWN;
        assert_string_equal(l->linear[i].name, want[i].name);
        assert_int_equal(l->linear[i].rows, want[i].rows);
        assert_int_equal(l->linear[i].cols, want[i].cols);
        assert_int_equal(l->linear[i].site, want[i].site);
        assert_int_equal(l->linear[i].expert, PITH_NO_PART);
        assert_int_equal(l->linear[i].to_stream, back);
        assert_int_equal(l->linear[i].by_cols, back);
        assert_int_equal(l->linear[i].scores, i == LLAMA_Q || i == LLAMA_K);
        assert_int_equal(l->linear[i].copied, i == LLAMA_K || i == LLAMA_V);
        assert_false(l->linear[i].bias || l->linear[i].stays);
    }
    /* Where divisions of inputs go: the gain before, and the rows that made them. */
    const struct pith_fold *fold[LLAMA_SITES];
    for (int i = 0; i < LLAMA_SITES; i++) fold[i] = &l->site[i].fold;
    assert_int_equal(fold[LLAMA_SITE_QKV]->kind, PITH_FOLD_VECTOR);
    assert_int_equal(fold[LLAMA_SITE_QKV]->from, LLAMA_INPUT);
    assert_int_equal(fold[LLAMA_SITE_GATE_UP]->kind, PITH_FOLD_VECTOR);
    assert_int_equal(fold[LLAMA_SITE_GATE_UP]->from, LLAMA_POST);
    assert_int_equal(fold[LLAMA_SITE_O]->kind, PITH_FOLD_ROWS);
    assert_int_equal(fold[LLAMA_SITE_O]->from, LLAMA_V);
    assert_int_equal(fold[LLAMA_SITE_O]->repeat, 2);
    assert_int_equal(fold[LLAMA_SITE_O]->block, 8);
    assert_int_equal(fold[LLAMA_SITE_DOWN]->kind, PITH_FOLD_ROWS);
    assert_int_equal(fold[LLAMA_SITE_DOWN]->from, LLAMA_UP);
    assert_int_equal(fold[LLAMA_SITE_DOWN]->repeat, 1);
    assert_int_equal(pith_plan_after_attend(l), LLAMA_SITE_O);
    pith_plans_free(&p);
}

/* --- names ------------------------------------------------------------------------------------ */

static void names_are_of_layers(void **state)
{
    (void)state;
    struct pith_plans p;
    make(&p, llama(), &shape);
    static const struct {
        const char *tensor;
        int layer; /* -1: of none */
        const char *part;
    } cases[] = {
        {"model.layers.0.mlp.up_proj.weight", 0, "mlp.up_proj.weight"},
        {"model.layers.11.mlp.up_proj.weight", 11, "mlp.up_proj.weight"},
        {"model.layers.9.", 9, ""},
        {"model.layers.9..x", 9, ".x"},
        {"model.layers.12.mlp.up_proj.weight", -1, ""},
        {"model.layers.01.mlp.up_proj.weight", -1, ""},
        {"model.layers.00.mlp.up_proj.weight", -1, ""},
        {"model.layers.99999999999.x", -1, ""},
        {"model.layers.4294967296.x", -1, ""}, /* 0 in 32 bits */
        {"model.layers.4294967299.x", -1, ""},
        {"model.layers.18446744073709551616.x", -1, ""}, /* 0 in 64 bits */
        {"model.layers.18446744073709551619.x", -1, ""},
        {"model.layers.99999999999999999999999999999999.x", -1, ""},
        {"model.layers.-1.x", -1, ""},
        {"model.layers.+1.x", -1, ""},
        {"model.layers. 1.x", -1, ""},
        {"model.layers.1e0.x", -1, ""},
        {"model.layers.0x1.x", -1, ""},
        {"model.layers.1", -1, ""},
        {"model.layers.0", -1, ""},
        {"model.layers.1x.y", -1, ""},
        {"model.layers..x", -1, ""},
        {"model.layers.", -1, ""},
        {"model.layers", -1, ""},
        {"model.layersx1.x", -1, ""},
        {"xmodel.layers.1.x", -1, ""},
        {"model.norm.weight", -1, ""},
        {"", -1, ""},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        uint32_t layer = 77;
        const char *part = pith_plan_layer_of(&p, cases[i].tensor, &layer);
        if ((part != NULL) != (cases[i].layer >= 0)) fail_msg("\"%s\"", cases[i].tensor);
        assert_int_equal(layer, part ? cases[i].layer : 77);
        if (part) assert_string_equal(part, cases[i].part);
    }
    pith_plans_free(&p);
}

/* What is named is found again; a prefix of a name is none. */
static void linears_are_found_by_name(void **state)
{
    (void)state;
    struct pith_plans p;
    make(&p, llama(), &shape);
    char name[96];
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) {
        const char *suffix;
        uint32_t layer;
        pith_plan_linear_name(&p, 10, i, name, sizeof name - 8);
        strcat(name, ".scales");
        const char *part = pith_plan_layer_of(&p, name, &layer);
        assert_non_null(part);
        assert_int_equal(layer, 10);
        assert_int_equal(pith_plan_find_linear(pith_plan(&p, layer), part, &suffix), i);
        assert_string_equal(suffix, ".scales");
    }
    static const struct {
        const char *part, *suffix; /* NULL: none */
    } cases[] = {
        {"mlp.up_proj.weight", ".weight"},
        {"mlp.up_proj.a.b", ".a.b"},
        {"mlp.up_proj.", "."},
        {"mlp.up_proj", NULL},
        {"mlp.up_projx.weight", NULL},
        {"mlp.up_pro.weight", NULL},
        {"mlp.up", NULL},
        {"mlp.", NULL},
        {"xmlp.up_proj.weight", NULL},
        {"up_proj.weight", NULL},
        {"input_layernorm.weight", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const char *suffix = "untouched";
        const uint32_t found = pith_plan_find_linear(&p.kind[0], cases[i].part, &suffix);
        if (found != (cases[i].suffix ? LLAMA_UP : PITH_NO_PART)) fail_msg("%s", cases[i].part);
        assert_string_equal(suffix, cases[i].suffix ? cases[i].suffix : "untouched");
    }
    pith_plans_free(&p);
}

/* No more than `size` bytes are written, an end included. */
static void names_are_cut(void **state)
{
    (void)state;
    struct pith_plans p;
    make(&p, llama(), &shape);
    char name[64];
    pith_plan_linear_name(&p, 11, LLAMA_DOWN, name, sizeof name);
    assert_string_equal(name, "model.layers.11.mlp.down_proj");
    memset(name, '#', sizeof name);
    pith_plan_linear_name(&p, 11, LLAMA_DOWN, name, 16);
    assert_string_equal(name, "model.layers.11");
    assert_int_equal(name[16], '#');
    pith_plan_name(&p, 0, "x", name, 1);
    assert_int_equal(name[0], '\0');
    pith_plans_free(&p);
}

/* --- other plans ------------------------------------------------------------------------------ */

/* Even layers: "a" of 3 x 5. Odd ones: "a" of 7 x 5, then "a.b" of 2 x 7, added to the stream. */
static void layer_two(struct pith_plan_maker *m)
{
    if (m->layer == m->shape->windows.size) m->failed = true;
    const bool odd = m->layer % 2;
    pith_plan_reg(m, PITH_REG_STREAM, 2);
    pith_plan_reg(m, 1, 5);
    (void)pith_plan_site(m, "one", 5, (struct pith_fold){0});
    (void)pith_plan_linear(m, "a", odd ? 7 : 3, true);
    pith_plan_compute(m, 1, 2, 1);
    if (!odd) return;
    (void)pith_plan_site(m, "two", 7, (struct pith_fold){0});
    (void)pith_plan_linear(m, "a.b", 2, false);
    pith_plan_compute(m, 2, 3, 2);
    pith_plan_add(m, 3, 1.0f);
    (void)pith_plan_vector(m, "v", 9);
}

static const struct pith_arch two = {.layer = layer_two, .names = {.layers = "h."}};

static void layers_may_differ(void **state)
{
    (void)state;
    struct pith_shape s = {.layers = 5, .windows.size = 99, .head_dim = 4, .place = {.rotary = 4}};
    struct pith_plans p;
    make(&p, &two, &s);
    assert_int_equal(p.kinds, 2);
    assert_int_equal(p.most_linears, 2);
    assert_int_equal(p.most_sites, 2);
    assert_int_equal(p.most_vectors, 1);
    static const size_t first[] = {0, 1, 3, 4, 6, 7};
    for (uint32_t i = 0; i <= 5; i++) assert_int_equal(p.first[i], first[i]);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(p.of[i], i % 2);
    const struct pith_layer_plan *even = &p.kind[0], *odd = &p.kind[1];
    static const uint32_t widths[3][4] = {{2, 5, 3, 0}, {2, 5, 7, 2}, {2, 5, 7, 2}};
    for (int i = 0; i < PITH_LAYER_REGS; i++) {
        assert_int_equal(even->width[i], i < 4 ? widths[0][i] : 0);
        assert_int_equal(odd->width[i], i < 4 ? widths[1][i] : 0);
        assert_int_equal(p.width[i], i < 4 ? widths[2][i] : 0);
    }
    assert_false(pith_plan_same_sizes(even, odd));
    assert_true(odd->linear[0].bias && !odd->linear[0].to_stream);
    assert_true(!odd->linear[1].bias && odd->linear[1].to_stream);
    assert_int_equal(odd->site[1].from, 1);
    assert_int_equal(odd->site[1].first, 1);
    assert_null(pith_plan_attend(odd));
    assert_int_equal(pith_plan_after_attend(odd), 0);
    /* A linear whose name begins with another's. */
    const char *suffix;
    assert_int_equal(pith_plan_find_linear(odd, "a.weight", &suffix), 0);
    assert_string_equal(suffix, ".weight");
    assert_int_equal(pith_plan_find_linear(odd, "a.b.weight", &suffix), 1);
    assert_string_equal(suffix, ".weight");
    char name[16];
    pith_plan_linear_name(&p, 3, 1, name, sizeof name);
    assert_string_equal(name, "h.3.a.b");
    pith_plans_free(&p);
}

/* A layer that fails: nothing is left of those before it. */
static void what_fails_owns_nothing(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_shape s = {.layers = 5, .windows = {.size = 3}};
    struct pith_plans p;
    assert_int_equal(pith_plans_make(&two, &s, &p, &err), PITH_NOMEM);
    assert_true(!p.kind && !p.of && !p.first && p.kinds == 0 && p.layers == 0);
}

static void layer_long(struct pith_plan_maker *m)
{
    char name[PITH_PART_NAME + 1];
    memset(name, 'x', sizeof name);
    name[m->shape->windows.size] = '\0';
    (void)pith_plan_vector(m, name, 3);
}

/* A name is never cut. */
static void names_have_room_or_fail(void **state)
{
    (void)state;
    struct pith_error err = {0};
    static const struct pith_arch arch = {.layer = layer_long, .names = {.layers = "h."}};
    struct pith_shape s = {.layers = 1, .windows = {.size = PITH_PART_NAME - 1}};
    struct pith_plans p;
    make(&p, &arch, &s);
    assert_int_equal(strlen(p.kind[0].vector[0].name), PITH_PART_NAME - 1);
    pith_plans_free(&p);
    s.windows.size++;
    assert_int_not_equal(pith_plans_make(&arch, &s, &p, &err), PITH_OK);
    assert_null(p.kind);
}

static enum pith_status make_both(void *ctx, struct pith_error *err)
{
    struct pith_shape s = shape;
    struct pith_plans p;
    (void)ctx;
    s.windows.size = 5;
    for (uint32_t i = 7; i < s.layers; i++) pith_layer_put(&s.windows.layers, i);
    PITH_TRY(pith_plans_make(&pith_arch_qwen3, &s, &p, err));
    pith_plans_free(&p);
    s.windows.size = 99;
    PITH_TRY(pith_plans_make(&two, &s, &p, err));
    pith_plans_free(&p);
    return PITH_OK;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    const long n = fail_each_request(make_both, NULL, false);
    assert_true(!PITH_REQUESTS || n > 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_layers_share_a_kind),
        cmocka_unit_test(windows_make_a_second_kind),
        cmocka_unit_test(sizes_are_those_of_the_shape),
        cmocka_unit_test(names_are_of_layers),
        cmocka_unit_test(linears_are_found_by_name),
        cmocka_unit_test(names_are_cut),
        cmocka_unit_test(layers_may_differ),
        cmocka_unit_test(what_fails_owns_nothing),
        cmocka_unit_test(names_have_room_or_fail),
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
