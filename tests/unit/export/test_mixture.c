/* export/mixture: the types of every tensor are those that llama-quantize gives, for models of many
 * shapes (tests/golden/export/make_mixtures.py). */
#include "base/mem.h"
#include "export/gguf.h"
#include "export/mixture.h"
#include "llama.h"
#include "num/gguf/kquant.h"
#include "test.h"

#include <ctype.h>

static json_t *golden;

static uint32_t number(const json_t *j, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(j, key));
}

/* Type number `layer` of runs such as "Q6_K*2 Q4_K". */
static void nth(const char *runs, uint32_t layer, char type[16])
{
    for (;;) {
        unsigned count = 1;
        int used = 0;
        assert_int_equal(sscanf(runs, "%15[^* ]%n", type, &used), 1);
        runs += used;
        if (*runs == '*') count = (unsigned)strtoul(runs + 1, (char **)&runs, 10);
        if (layer < count) return;
        layer -= count;
        assert_int_equal(*runs, ' ');
        runs++;
    }
}

/* "Q4_K_M" is q4_k and m, "Q2_K" q2_k and m, "Q8_0" q8_0 alone. */
static struct pith_grid read_kind(const char *kind, const struct pith_mixture **m)
{
    char name[16];
    struct pith_error err = {0};
    struct pith_grid g;
    size_t n = strlen(kind);
    for (size_t i = 0; i <= n; i++) name[i] = (char)tolower((unsigned char)kind[i]);
    const bool told = n > 4 && name[n - 2] == '_' && strchr("sml", name[n - 1]);
    const char letter = told ? name[n - 1] : 'm';
    if (told) name[n - 2] = '\0';
    assert_ok(pith_grid_parse(name, &g, &err), err);
    *m = pith_mixture_find(g.format, letter);
    return g;
}

static void assert_type(const struct pith_grid *g, const char *want, const char *what)
{
    const struct pith_kquant *t = g->format ? pith_kquant_find(g->format->name) : NULL;
    const char *got = t ? t->name : g->format ? "Q8_0" : "F16"; /* int8:g32 is Q8_0 */
    if (strcmp(got, want) != 0) fail_msg("%s: %s, llama-quantize takes %s", what, got, want);
}

static void check_linears(const struct pith_model *m, const struct pith_grid *base,
                          const struct pith_mixture *mixture, const json_t *types)
{
    static const char *const names[LLAMA_LINEARS] = {
        [LLAMA_Q] = "attn_q",      [LLAMA_K] = "attn_k",  [LLAMA_V] = "attn_v",
        [LLAMA_O] = "attn_output", [LLAMA_UP] = "ffn_up", [LLAMA_GATE] = "ffn_gate",
        [LLAMA_DOWN] = "ffn_down"};
    for (uint32_t layer = 0; layer < m->shape.layers; layer++)
        for (int role = 0; role < LLAMA_LINEARS; role++) {
            char want[16], what[96];
            char module[96];
            pith_plan_linear_name(&m->plans, layer, (uint32_t)role, module, sizeof module);
            const uint32_t cols = pith_plan(&m->plans, layer)->linear[role].cols;
            struct pith_grid g = mixture ? pith_mixture_grid(mixture, m, layer, module) : *base;
            (void)pith_mixture_fall_back(&g, cols);
            nth(json_string_value(json_object_get(types, names[role])), layer, want);
            snprintf(what, sizeof what, "%s, %u layers, layer %u, %s", base->format->name,
                     m->shape.layers, layer, names[role]);
            assert_type(&g, want, what);
        }
}

static void check_ends(const struct pith_model *m, const struct pith_grid *base,
                       const json_t *types)
{
    const char *want = json_string_value(json_object_get(types, "token_embd"));
    struct pith_grid g = {0};
    pith_gguf_end_grid(base, m->shape.ends.tied, m->shape.hidden, &g);
    assert_type(&g, want, "token_embd");
    if (m->shape.ends.tied) return;
    g = (struct pith_grid){0};
    pith_gguf_end_grid(base, true, m->shape.hidden, &g);
    assert_type(&g, json_string_value(json_object_get(types, "output")), "output");
}

static struct pith_model model_of(const json_t *j)
{
    const char *arch = json_string_value(json_object_get(j, "arch"));
    struct pith_model m = {0};
    size_t count;
    const struct pith_arch *const *archs = pith_archs(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(archs[i]->model_type, arch) == 0) m.arch = archs[i];
    assert_non_null(m.arch);
    m.shape = (struct pith_shape){.layers = number(j, "layers"),
                                  .hidden = number(j, "hidden"),
                                  .ffn = number(j, "ffn"),
                                  .heads = number(j, "heads"),
                                  .kv_heads = number(j, "kv_heads"),
                                  .head_dim = number(j, "hidden") / number(j, "heads"),
                                  .ends = {.tied = json_is_true(json_object_get(j, "tied"))}};
    struct pith_error err = {0};
    assert_ok(pith_plans_make(m.arch, &m.shape, &m.plans, &err), err);
    return m;
}

/* By the source of llama-quant.cpp: experts as the linears of a dense layer, and with eight of them
 * more for the attention. */
static void mixtures_of_experts(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *kind, *module, *type;
        uint32_t experts, layer;
    } cases[] = {
        {"qwen3_moe", "q4_k_m", "mlp.experts.3.down_proj", "q6_k", 16, 0},
        {"qwen3_moe", "q4_k_m", "mlp.experts.3.down_proj", "q4_k", 16, 2},
        {"qwen3_moe", "q4_k_m", "mlp.experts.3.up_proj", "q4_k", 16, 0},
        {"qwen3_moe", "q3_k_l", "self_attn.k_proj", "q3_k", 16, 0},
        {"qwen3_moe", "q3_k_l", "self_attn.o_proj", "q5_k", 16, 0},
        {"mixtral", "q4_k_m", "block_sparse_moe.experts.7.w2", "q6_k", 8, 0},
        {"mixtral", "q4_k_m", "self_attn.v_proj", "q8_0", 8, 3},
        {"mixtral", "q4_k_m", "self_attn.k_proj", "q8_0", 8, 3},
        {"mixtral", "q4_k_m", "self_attn.o_proj", "q5_k", 8, 3},
        {"mixtral", "q3_k_l", "self_attn.o_proj", "q3_k", 8, 3},
        {"mixtral", "q4_k_m", "self_attn.q_proj", "q4_k", 8, 3},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct pith_mixture *mixture;
        struct pith_model m = {.shape = {.layers = 16, .heads = 8, .kv_heads = 4}};
        size_t count;
        char module[96];
        const struct pith_arch *const *archs = pith_archs(&count);
        for (size_t k = 0; k < count; k++)
            if (strcmp(archs[k]->model_type, cases[i].arch) == 0) m.arch = archs[k];
        m.shape.moe.experts = cases[i].experts;
        (void)read_kind(cases[i].kind, &mixture);
        snprintf(module, sizeof module, "model.layers.%u.%s", cases[i].layer, cases[i].module);
        const struct pith_grid g = pith_mixture_grid(mixture, &m, cases[i].layer, module);
        if (strcmp(g.format->name, cases[i].type) != 0)
            fail_msg("%s %s: %s", cases[i].kind, module, g.format->name);
    }
}

static void types_are_those_of_llama_quantize(void **state)
{
    const json_t *shape, *types;
    const char *kind;
    size_t i, files = 0;
    (void)state;
    json_array_foreach (golden, i, shape) {
        struct pith_model m = model_of(shape);
        json_object_foreach (json_object_get(shape, "files"), kind, types) {
            const struct pith_mixture *mixture;
            const struct pith_grid base = read_kind(kind, &mixture);
            check_linears(&m, &base, mixture, types);
            check_ends(&m, &base, types);
            if (mixture) assert_int_equal(mixture->file_type, number(types, "file_type"));
            else
                assert_int_equal(pith_kquant_find(base.format->name)->file_type,
                                 number(types, "file_type"));
            files++;
        }
        pith_plans_free(&m.plans);
    }
    assert_int_equal(files, 12 * 16);
}

static void integers_imply_a_type(void **state)
{
    static const char *const rows[][2] = {
        {"int4:g128:asym", "q4_k"}, {"int3:g64", "q3_k"}, {"int8:channel", "q8_0"},
        {"int5:g32", "q5_k"},       {"nf4", NULL},        {"mxfp4", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pith_error err = {0};
        struct pith_grid from, to = {0};
        assert_ok(pith_grid_parse(rows[i][0], &from, &err), err);
        assert_int_equal(pith_mixture_implied(&from, &to), rows[i][1] != NULL);
        if (rows[i][1]) assert_string_equal(to.format->name, rows[i][1]);
    }
}

static int setup(void **state)
{
    struct pith_error err = {0};
    (void)state;
    assert_ok(pith_json_load("tests/golden/export/mixtures.json", 1 << 20, &golden, &err), err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures_of_experts),
        cmocka_unit_test(types_are_those_of_llama_quantize),
        cmocka_unit_test(integers_imply_a_type),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
