/* Keys and values on a grid: what the cache holds is what num/input.h makes of them, a head of a
 * token at a time; and names of caches. */
#include "base/mem.h"
#include "num/hadamard.h"
#include "num/input.h"
#include "unit/model/arch_case.h"

#include <math.h>

/* One layer's keys and values, [tokens][kv_heads][head_dim], as attention reads them. */
static void read_cache(struct pith_session *s, uint32_t layer, size_t tokens, float *k, float *v)
{
    const struct pith_kv *kv = &s->runner.kv;
    struct pith_cache c =
        pith_kv_layer(kv, layer, &pith_plan(&s->runner.model->plans, layer)->state);
    const struct pith_cache_span span = {.n = tokens, .page = pith_kv_pages(kv, layer, 0)};
    const float *scale = s->runner.model->blocks[layer].kv_scale;
    c.k.scale = scale;
    c.v.scale = scale ? scale + c.kv_heads : NULL;
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < c.kv_heads; h++, k += c.k.dim, v += c.v.dim) {
            float both[256];
            assert_in_range(c.k.dim + c.v.dim, 1, 256);
            pith_cache_read(s->runner.backend, &c, &span, t, h, both);
            memcpy(k, both, c.k.dim * sizeof *k);
            memcpy(v, both + c.k.dim, c.v.dim * sizeof *v);
        }
}

struct held {
    size_t count; /* values of one layer's keys */
    size_t xs;    /* of x */
    float *k, *v, *x;
};

/* Of a prompt that is read in chunks of so many tokens. */
static struct held hold_chunks(struct rig *r, uint32_t layer, const struct pith_kv_format *f,
                               size_t chunk)
{
    struct pith_error err = {0};
    int32_t ids[PROMPT_MAX];
    const size_t n = golden_prompt(0, ids);
    struct pith_session s;
    const struct pith_session_options options = {.capacity = n, .chunk = chunk, .kv = *f};
    const struct pith_shape *shape = &r->model->shape;
    struct held h = {.count = n * shape->kv_heads * shape->head_dim};
    h.k = malloc(h.count * sizeof *h.k);
    h.v = malloc(h.count * sizeof *h.v);
    h.xs = n * shape->hidden;
    h.x = malloc(h.xs * sizeof *h.x);
    assert_ok(pith_session_init(&s, r->model, r->backend, &options, &err), err);
    assert_ok(pith_session_append(&s, ids, n, h.x, &err), err);
    read_cache(&s, layer, n, h.k, h.v);
    pith_session_free(&s);
    return h;
}

static struct held hold(struct rig *r, uint32_t layer, const struct pith_kv_format *f)
{
    return hold_chunks(r, layer, f, PROMPT_MAX);
}

static struct held hold_floats(struct rig *r, uint32_t layer)
{
    const struct pith_kv_format plain = pith_kv_floats(PITH_F32);
    return hold(r, layer, &plain);
}

static void held_free(struct held *h)
{
    free(h->k), free(h->v), free(h->x);
}

/* Zeros of either sign are one number. */
static void assert_same_numbers(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) fail_msg("number %zu is %a, not %a", i, (double)b[i], (double)a[i]);
}

/* What is held is what was to be held, rounded a head of a token at a time. */
static void assert_rounded(const struct held *got, const struct held *want, size_t dim,
                           const struct pith_input *k, const struct pith_input *v)
{
    float *rounded = malloc(want->count * sizeof *rounded);
    pith_input_rows(k, want->k, want->count / dim, dim, NULL, rounded);
    assert_same_numbers(rounded, got->k, want->count);
    pith_input_rows(v, want->v, want->count / dim, dim, NULL, rounded);
    assert_same_numbers(rounded, got->v, want->count);
    free(rounded);
}

static void a_head_of_a_token_is_a_row(void **state)
{
    (void)state;
    static const char *const grids[] = {"int8:token", "int4:token:asym", "int4:g4:asym",
                                        "fp8_e4m3",   "fp8_e5m2:token",  "int2:g4"};
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 2);
    struct held want = hold_floats(&r, 0);
    const size_t dim = r.model->shape.head_dim;
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        assert_ok(pith_kv_parse(grids[i], PITH_BF16, r.model, &f, &err), err);
        float level[PITH_ROW_LEVELS];
        struct pith_row_code code;
        assert_ok(pith_row_code_make(&f.k.grid, (uint32_t)dim, level, &code, &err), err);
        struct held got = hold(&r, 0, &f);
        assert_rounded(&got, &want, dim, &code.in, &code.in);
        assert_true(memcmp(got.x, want.x, sizeof *got.x) != 0);
        held_free(&got);
    }
    held_free(&want);
    rig_close(&r);
}

/* The layers before it compute as ever, so what a layer on a grid holds is the plain one's rounded;
 * each takes the room of its own format, to the byte. */
static void layers_differ(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 2);
    const uint32_t layers = r.model->shape.layers, dim = r.model->shape.head_dim;
    assert_in_range(layers, 2, 9);
    for (uint32_t i = 0; i < layers; i++) {
        char text[2][40];
        snprintf(text[0], sizeof text[0], "%u=int8:token", i);
        snprintf(text[1], sizeof text[1], "layers.%u=v=int4:token", i);
        const char *const items[] = {"*=bf16", "*=f32", text[0], text[1]};
        const struct pith_kv_wish wish = {.name = "int4:token", .layers = {items, 4}};
        struct pith_kv_format f;
        assert_ok(pith_kv_choose(&wish, PITH_F32, r.model, &f, &err), err);
        for (uint32_t k = 0; k < layers; k++) {
            char name[PITH_KV_TEXT];
            pith_kv_name(pith_kv_of(&f, k), name);
            assert_string_equal(name, k == i ? "k=int8:token,v=int4:token" : "f32");
        }
        struct held want = hold_floats(&r, i), got = hold(&r, i, &f);
        const struct pith_input k_in = {.grid = f.layer[i].k.grid, .scale = 1.0f};
        const struct pith_input v_in = {.grid = f.layer[i].v.grid, .scale = 1.0f};
        assert_rounded(&got, &want, dim, &k_in, &v_in);
        held_free(&want);
        held_free(&got);

        const struct pith_kv_options o = {
            .layers = layers, .sequences = 2, .context = 70, .step = 70, .format = f};
        struct pith_kv kv;
        double bytes = 0;
        for (uint32_t k = 0; k < layers; k++)
            bytes += 2 * 3 * 32 *
                     pith_kv_position_bytes(&f.layer[k], &pith_plan(&r.model->plans, k)->state);
        assert_ok(pith_kv_open(&kv, &r.model->plans, &o, &err), err);
        assert_int_equal(kv.at[layers], bytes);
        assert_true(kv.format.layer != f.layer);
        pith_kv_free(&kv);
        pith_kv_format_free(&f);
    }
    rig_close(&r);
}

/* Rounded is what the Hadamard matrix makes of a head, and it makes no difference to floats but for
 * the order of sums. */
static void heads_are_rotated(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 2);
    struct pith_kv_format f;
    const uint32_t dim = r.model->shape.head_dim;
    struct held want = hold_floats(&r, 0);
    assert_ok(pith_kv_parse("f32,rotate", PITH_F32, r.model, &f, &err), err);
    struct held turned = hold(&r, 0, &f);
    for (size_t i = 0; i < want.xs; i++)
        assert_true(fabsf(turned.x[i] - want.x[i]) <= 2e-5f * (1 + fabsf(want.x[i])));
    pith_hadamard_rows(want.k, want.count / dim, dim, dim);
    pith_hadamard_rows(want.v, want.count / dim, dim, dim);
    assert_same_numbers(want.k, turned.k, want.count);
    assert_same_numbers(want.v, turned.v, want.count);
    assert_ok(pith_kv_parse("int4:token,rotate", PITH_F32, r.model, &f, &err), err);
    struct held got = hold(&r, 0, &f);
    const struct pith_input in = {.grid = f.k.grid, .scale = 1.0f};
    assert_rounded(&got, &want, dim, &in, &in);
    held_free(&want);
    held_free(&turned);
    held_free(&got);
    rig_close(&r);
}

/* Models whose keys have biases, and where in that of a linear those of head h begin. */
static const struct biased {
    const char *name, *linear;
    uint32_t first, each; /* in heads */
} biased[] = {
    {"qwen2", "self_attn.k_proj", 0, 1},       {"ernie4_5_bias", "self_attn.k_proj", 0, 1},
    {"glm4", "self_attn.k_proj", 0, 1},        {"granite_bias", "self_attn.k_proj", 0, 1},
    {"gpt_neox", "attention.query_key_value", 1, 3}, {"gpt2", "attn.c_attn", 4, 1},
    {"qwen2_vl", "self_attn.k_proj", 0, 1},
};

/* Names of backend/cache/kv.def lead to its rows and back; a number takes at least the bits of its
 * code, and floats beside codes are as many as the kind needs. */
static void rows_have_names(void **state)
{
    (void)state;
    const struct pith_state_spec heads = {
        .kind = PITH_STATE_KV, .heads = 2, .key = 64, .value = 64};
    size_t count;
    const struct pith_kv_row *row = pith_kv_rows(&count);
    for (size_t i = 0; i < count; i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        char name[PITH_KV_TEXT];
        assert_ok(pith_kv_parse(row[i].name, PITH_F32, NULL, &f, &err), err);
        pith_kv_name(&f, name);
        assert_string_equal(name, row[i].name);
        assert_ptr_equal(f.k.row, row[i].kind ? &row[i] : NULL);
        if (!row[i].kind) continue;
        assert_ptr_equal(f.v.row, &row[i]);
        assert_int_equal(pith_kv_needs_levels(&f, 1), row[i].kind->needs == PITH_KV_LEVELS);
        assert_int_equal(pith_kv_sink(&f), row[i].kind->least_sink);
        assert_int_equal(pith_kv_recent(&f), row[i].kind->least_recent);
        const double bits = 8 * pith_kv_position_bytes(&f, &heads) / pith_kv_numbers(&heads);
        if (!(bits > row[i].bits && bits < row[i].bits + 2.5))
            fail_msg("%s: %g bits", row[i].name, bits);
    }
    struct pith_error err = {0};
    struct pith_kv_format f;
    assert_int_equal(pith_kv_parse("none", PITH_F32, NULL, &f, &err), PITH_ARG);
    for (size_t i = 0; i < count; i++)
        if (row[i].kind) assert_non_null(strstr(err.text, row[i].kind->name));
}

static const float *bias_of(const struct rig *r, const char *linear)
{
    const struct pith_block *b = &r->model->blocks[0];
    for (uint32_t i = 0; i < b->plan->linears; i++)
        if (strcmp(b->plan->linear[i].name, linear) == 0) return b->linear[i].bias;
    fail_msg("no %s", linear);
    return NULL;
}

static struct pith_kv_format format_of(const struct rig *r, const char *name)
{
    struct pith_error err = {0};
    struct pith_kv_format f;
    assert_ok(pith_kv_parse(name, PITH_F32, r->model, &f, &err), err);
    return f;
}

/* In floats nothing is lost; in codes what is kept is what is left, rounded; chunks do not show. */
static void biases_are_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(biased); i++) {
        struct rig r;
        json_t *file = arch_load(biased[i].name);
        rig_open_own(&r, arch_folder_make(file), 2);
        json_decref(file);
        const uint32_t dim = r.model->shape.head_dim, heads = r.model->shape.kv_heads;
        const float *bias = bias_of(&r, biased[i].linear);
        const float factor = (float)r.model->rope[0].factor;
        const struct pith_kv_format floats = format_of(&r, "f32,offset"),
                                    codes = format_of(&r, "int4:token,offset");
        struct held whole = hold_floats(&r, 0), left = hold(&r, 0, &floats);
        float most = 0;
        for (uint32_t e = 0; e < heads * dim; e++) { /* of position 0, which is not turned */
            const uint32_t from = biased[i].first + e / dim * biased[i].each;
            const float of = bias[from * dim + e % dim];
            assert_true(fabsf(whole.k[e] - factor * of - left.k[e]) < 1e-6f);
            most = fmaxf(most, fabsf(of));
        }
        assert_true(most > 0.01f);
        assert_same_numbers(whole.v, left.v, whole.count);
        for (size_t k = 0; k < whole.xs; k++)
            assert_true(fabsf(left.x[k] - whole.x[k]) <= 2e-5f * (1 + fabsf(whole.x[k])));
        struct held got = hold(&r, 0, &codes), one = hold_chunks(&r, 0, &codes, 1);
        const struct pith_input in = {.grid = codes.k.grid, .scale = 1.0f};
        assert_rounded(&got, &left, dim, &in, &in);
        assert_same_numbers(one.k, got.k, got.count);
        assert_same_numbers(one.x, got.x, got.xs);
        held_free(&whole), held_free(&left), held_free(&got), held_free(&one);
        rig_close(&r);
    }
}

/* Where nothing is known of keys there is nothing to leave out. */
static void offsets_that_are_not_there(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "qwen3", "deepseek_v3", "gemma3"};
    for (size_t i = 0; i < PITH_COUNT(models); i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        struct rig r;
        json_t *file = arch_load(models[i]);
        rig_open_own(&r, arch_folder_make(file), 1);
        json_decref(file);
        assert_int_equal(pith_kv_parse("int8:token,offset", PITH_F32, r.model, &f, &err),
                         PITH_UNSUPPORTED);
        assert_non_null(strstr(err.text, "offset: "));
        rig_close(&r);
    }
}

static void patterns_that_are_wrong(void **state)
{
    (void)state;
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 1);
    static const char *const wrong[] = {"77=bf16", "bf16",   "=bf16",
                                        "0=",      "0=int9", "0=k=bf16,k=bf16"};
    for (size_t i = 0; i < PITH_COUNT(wrong); i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        const struct pith_kv_wish wish = {.layers = {&wrong[i], 1}};
        assert_int_equal(pith_kv_choose(&wish, PITH_F32, r.model, &f, &err), PITH_ARG);
        assert_null(f.layer);
        if (i > 0) assert_int_equal(pith_kv_choose(&wish, PITH_F32, NULL, &f, &err), PITH_ARG);
    }
    rig_close(&r);
}

/* A scale for each head of keys and of values, as a checkpoint would have stored them. */
static void scales_are_those_of_heads(void **state)
{
    (void)state;
    static const char *const grids[] = {"fp8_e4m3:head", "int8:head", "fp8_e5m2"};
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 1);
    struct held want = hold_floats(&r, 0);
    const size_t dim = r.model->shape.head_dim, heads = r.model->shape.kv_heads;
    float *scale = pith_alloc(2 * heads, sizeof *scale);
    for (size_t i = 0; i < 2 * heads; i++) scale[i] = 0.01f * (float)(i + 1);
    r.model->blocks[0].kv_scale = scale; /* the block frees it */
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        float level[PITH_ROW_LEVELS], row[256];
        struct pith_row_code code;
        assert_ok(pith_kv_parse(grids[i], PITH_F32, NULL, &f, &err), err);
        assert_ok(pith_row_code_make(&f.k.grid, (uint32_t)dim, level, &code, &err), err);
        struct held got = hold(&r, 0, &f);
        for (size_t at = 0, h = 0; at < want.count; at += dim, h = (h + 1) % heads) {
            struct pith_input in = code.in;
            const struct pith_input_call call = {0};
            in.scale = scale[h];
            pith_input_row(&in, &call, want.k + at, dim, row);
            assert_same_numbers(row, got.k + at, dim);
            in.scale = scale[heads + h];
            pith_input_row(&in, &call, want.v + at, dim, row);
            assert_same_numbers(row, got.v + at, dim);
        }
        held_free(&got);
    }
    held_free(&want);
    rig_close(&r);
}

static void caches_have_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        enum pith_status status;
    } cases[] = {
        {NULL, "bf16", PITH_OK},
        {"f32", "f32", PITH_OK},
        {"bf16", "bf16", PITH_OK},
        {"F16", "f16", PITH_OK},
        {"k=f16,v=kivi4", "k=f16,v=kivi4", PITH_OK},
        {"v=f16,k=bf16,recent=9", "k=bf16,v=f16,recent=9", PITH_OK},
        {"fp8", "fp8_e4m3:tensor:static", PITH_OK},
        {"fp8_e5m2:tensor", "fp8_e5m2:tensor:static", PITH_OK},
        {"int8:token", "int8:token", PITH_OK},
        {"int4:g32:asym", "int4:g32:asym", PITH_OK},
        {"mxfp8", "mxfp8", PITH_OK},
        {"k=int8:token,v=int4:g32", "k=int8:token,v=int4:g32", PITH_OK},
        {"v=bf16,k=q8_0", "k=q8_0,v=bf16", PITH_OK},
        {"k=q8_0,v=q8_0", "q8_0", PITH_OK},
        {"int4:g32,rotate", "int4:g32,rotate", PITH_OK},
        {"rotate=v,k=bf16,v=mxfp4", "k=bf16,v=mxfp4,rotate=v", PITH_OK},
        {"k=int8:token,rotate,v=int4:g32", "k=int8:token,v=int4:g32,rotate", PITH_OK},
        {"turbo4", "turbo4", PITH_OK},
        {"k=turbo4,v=turbo2", "k=turbo4,v=turbo2", PITH_OK},
        {"turbo3,rotate", "turbo3", PITH_OK},
        {"int4:g32,sink=4,recent=128", "int4:g32,sink=4,recent=128", PITH_OK},
        {"recent=9,k=bf16,v=turbo2,rotate=k", "k=bf16,v=turbo2,rotate=k,recent=9", PITH_OK},
        {"int4:g32,sink=0", NULL, PITH_ARG},
        {"int4:g32,sink=-1", NULL, PITH_ARG},
        {"int4:g32,recent=9999999999", NULL, PITH_ARG},
        {"kivi2", "kivi2", PITH_OK},
        {"v=kivi4,k=turbo3,sink=4", "k=turbo3,v=kivi4,sink=4", PITH_OK},
        {"kivi4,rotate", "kivi4,rotate", PITH_OK},
        {"kvquant3", "kvquant3", PITH_OK},
        {"v=KVQuant2,k=kivi4,recent=9", "k=kivi4,v=kvquant2,recent=9", PITH_OK},
        {"k=kvquant4,v=turbo2,sink=4", "k=kvquant4,v=turbo2,sink=4", PITH_OK},
        {"kvquant4,rotate", NULL, PITH_UNSUPPORTED},
        {"k=bf16,v=kvquant4,rotate=v", NULL, PITH_UNSUPPORTED},
        {"k=bf16,v=kvquant4,rotate=k", "k=bf16,v=kvquant4,rotate=k", PITH_OK},
        {"kvquant5", NULL, PITH_ARG},
        {"offset,int4:g32", "int4:g32,offset", PITH_OK},
        {"turbo4,Offset=Middle,recent=9", "turbo4,offset=middle,recent=9", PITH_OK},
        {"k=q4_0,v=q8_0,offset,rotate=k", "k=q4_0,v=q8_0,rotate=k,offset", PITH_OK},
        {"kvquant4,offset", NULL, PITH_UNSUPPORTED},
        {"int4:g32,offset=mean", NULL, PITH_ARG},
        {"offset", NULL, PITH_ARG},
        {"f32,state=bf16", "f32,state=bf16", PITH_OK},
        {"State=BF16,int4:g32,recent=9", "int4:g32,recent=9,state=bf16", PITH_OK},
        {"bf16,state=f32", "bf16", PITH_OK},
        {"bf16,state=FP8_E4M3", "bf16,state=fp8_e4m3", PITH_OK},
        {"state=fp8_e5m2,q8_0", "q8_0,state=fp8_e5m2", PITH_OK},
        {"bf16,state=fp8", NULL, PITH_ARG},
        {"state=bf16", NULL, PITH_ARG},
        {"bf16,state=int8", NULL, PITH_ARG},
        {"kivi3", NULL, PITH_ARG},
        {"kivi4:g32", NULL, PITH_ARG},
        {"turbo5", NULL, PITH_ARG},
        {"rotate", NULL, PITH_ARG},
        {"int4:g32,rotated", NULL, PITH_ARG},
        {"int4:g32,int8:token", NULL, PITH_ARG},
        {"k=q8_0", NULL, PITH_ARG},
        {"k=q8_0,k=q8_0", NULL, PITH_ARG},
        {"k=q8_0,v=", NULL, PITH_ARG},
        {"k=q8_0,v=nf4", NULL, PITH_UNSUPPORTED},
        {"int8", NULL, PITH_UNSUPPORTED},
        {"nf4", NULL, PITH_UNSUPPORTED},
        {"nvfp4", "nvfp4:static", PITH_OK},
        {"fp8:head", "fp8_e4m3:head:static", PITH_OK},
        {"int8:head", "int8:head:static", PITH_OK},
        {"none", NULL, PITH_ARG},
        {"int9", NULL, PITH_ARG},
        {"", NULL, PITH_ARG},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_kv_format f;
        char text[PITH_KV_TEXT];
        assert_int_equal(pith_kv_parse(cases[i].name, PITH_BF16, NULL, &f, &err), cases[i].status);
        if (cases[i].status != PITH_OK) continue;
        pith_kv_name(&f, text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_of_a_token_is_a_row),
        cmocka_unit_test(layers_differ),
        cmocka_unit_test(heads_are_rotated),
        cmocka_unit_test(patterns_that_are_wrong),
        cmocka_unit_test(scales_are_those_of_heads),
        cmocka_unit_test(caches_have_names),
        cmocka_unit_test(rows_have_names),
        cmocka_unit_test(biases_are_left_out),
        cmocka_unit_test(offsets_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
