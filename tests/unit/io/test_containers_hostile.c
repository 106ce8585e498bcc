/* io/: quantized checkpoints that lie: each is one change to a good one. */
#include "folder.h"
#include "ramp.h"

#define MODULE "model.layers.0.mlp.up_proj"

enum change {
    KEEP,
    DROP,   /* the tensor is missing */
    RETYPE, /* another dtype: value */
    WIDEN,  /* the last dimension is larger by value */
    LOWER,  /* the first dimension is smaller by value */
    POKE,   /* the first element's bits are value */
    ADD     /* a tensor of that name is there: dtype value, shape [1] */
};

struct hostile {
    const char *container;
    const char *set; /* "a/b=json": a change to the config; "a/b" removes; NULL: none */
    enum change change;
    const char *suffix;
    uint64_t value;
    enum pith_status want; /* PITH_OK: still read, as the same matrix */
    const char *text;      /* part of the message */
};

#define CT "compressed-tensors"
#define WEIGHTS "config_groups/group_0/weights/"

static const struct hostile cases[] = {
    /* The unchanged ones are read. */
    {"gptq", NULL, KEEP, NULL, 0, PITH_OK, ""},
    {"awq", NULL, KEEP, NULL, 0, PITH_OK, ""},
    {CT, NULL, KEEP, NULL, 0, PITH_OK, ""},
    /* Configs: which container. */
    {"gptq", "quant_method=\"quanto\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "\"quanto\""},
    {"gptq", "quant_method=4", KEEP, NULL, 0, PITH_FORMAT, "quant_method"},
    {"gptq", "quant_method", KEEP, NULL, 0, PITH_OK, ""}, /* its other keys tell */
    {"gptq", "quant_method=\"auto-round\"", KEEP, NULL, 0, PITH_OK, ""},
    {"gptq", "quant_method=\"intel/auto-round\"", KEEP, NULL, 0, PITH_OK, ""},
    /* gptq: config. */
    {"gptq", "bits=5", KEEP, NULL, 0, PITH_UNSUPPORTED, "5 bits"},
    {"gptq", "bits=\"4\"", KEEP, NULL, 0, PITH_FORMAT, "bits"},
    {"gptq", "bits=-4", KEEP, NULL, 0, PITH_FORMAT, "bits"},
    {"gptq", "bits", KEEP, NULL, 0, PITH_FORMAT, "bits"},
    {"gptq", "bits=8", KEEP, NULL, 0, PITH_FORMAT, "qweight"},
    {"gptq", "group_size=0", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"gptq", "group_size=-2", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"gptq", "group_size=64", KEEP, NULL, 0, PITH_FORMAT, "qzeros"},
    {"gptq", "group_size=9e18", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"gptq", "group_size", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"gptq", "checkpoint_format=\"marlin\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "marlin"},
    {"gptq", "checkpoint_format=\"gptq_v2\"", KEEP, NULL, 0, PITH_FORMAT, "zero points"},
    {"gptq", "pack_dtype=\"int64\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "int64"},
    {"gptq", "sym=1", KEEP, NULL, 0, PITH_FORMAT, "sym"},
    {"gptq", "dynamic=[]", KEEP, NULL, 0, PITH_FORMAT, "dynamic"},
    {"gptq", "dynamic={\"+:(\":{}}", KEEP, NULL, 0, PITH_FORMAT, "pattern"},
    {"gptq", "dynamic={\"+:.*\":4}", KEEP, NULL, 0, PITH_FORMAT, "not an object"},
    {"gptq", "dynamic={\"+:.*\":{\"bits\":6}}", KEEP, NULL, 0, PITH_UNSUPPORTED, "6 bits"},
    {"gptq", "dynamic={\"-:.*\":{}}", KEEP, NULL, 0, PITH_OK, ""},
    {"gptq", "dynamic={\"([a-z0-9_.]+)+[A-Z]$\":{}}", KEEP, NULL, 0, PITH_UNSUPPORTED,
     "cannot be matched"},
    {"gptq", "dynamic={\"other\":{\"bits\":8}}", KEEP, NULL, 0, PITH_OK, ""},
    /* gptq: tensors. */
    {"gptq", NULL, DROP, ".qweight", 0, PITH_FORMAT, "qweight\" is missing"},
    {"gptq", NULL, DROP, ".qzeros", 0, PITH_FORMAT, "qzeros\" is missing"},
    {"gptq", NULL, DROP, ".scales", 0, PITH_FORMAT, "scales\" is missing"},
    {"gptq", NULL, DROP, ".g_idx", 0, PITH_OK, ""},
    {"gptq", "desc_act=true", DROP, ".g_idx", 0, PITH_FORMAT, "g_idx\" is missing"},
    {"gptq", NULL, RETYPE, ".qweight", PITH_F32, PITH_UNSUPPORTED, "F32"},
    {"gptq", NULL, RETYPE, ".scales", PITH_I16, PITH_UNSUPPORTED, "I16"},
    {"gptq", NULL, WIDEN, ".qweight", 1, PITH_FORMAT, "shape"},
    {"gptq", NULL, LOWER, ".qweight", 1, PITH_FORMAT, "shape"},
    {"gptq", NULL, LOWER, ".scales", 1, PITH_FORMAT, "shape"},
    {"gptq", NULL, WIDEN, ".qzeros", 4, PITH_FORMAT, "shape"},
    {"gptq", NULL, WIDEN, ".g_idx", 1, PITH_FORMAT, "shape"},
    {"gptq", NULL, POKE, ".scales", 0x7e00, PITH_FORMAT, "not finite"},
    {"gptq", NULL, POKE, ".scales", 0xfc00, PITH_FORMAT, "not finite"},
    {"gptq", NULL, POKE, ".g_idx", 3, PITH_FORMAT, "group 3"},
    {"gptq", NULL, POKE, ".g_idx", 0xffffffff, PITH_FORMAT, "group -1"},
    {"gptq", NULL, POKE, ".qzeros", 0x77777770, PITH_FORMAT, "sym is true"},
    {"gptq", "sym=false", POKE, ".qzeros", 0x7777777f, PITH_FORMAT, "zero point is stored as 15"},
    {"gptq", NULL, ADD, ".weight", PITH_F16, PITH_FORMAT, "is quantized"},
    /* awq. */
    {"awq", "bits=8", KEEP, NULL, 0, PITH_UNSUPPORTED, "8 bits"},
    {"awq", "bits", KEEP, NULL, 0, PITH_FORMAT, "0 bits"},
    {"awq", "group_size=-7", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"awq", "group_size=0", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {"awq", "group_size=40", KEEP, NULL, 0, PITH_FORMAT, "groups of 40"},
    {"awq", "version=\"gemv_fast\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "gemv_fast"},
    {"awq", "version=\"gemv\"", KEEP, NULL, 0, PITH_FORMAT, "qweight"},
    {"awq", "zero_point=false", KEEP, NULL, 0, PITH_UNSUPPORTED, "zero points"},
    {"awq", "modules_to_not_convert=[\"up_proj\"]", KEEP, NULL, 0, PITH_OK, ""},
    {"awq", "modules_to_not_convert=[1]", KEEP, NULL, 0, PITH_FORMAT, "no string"},
    {"awq", "modules_to_not_convert=\"up\"", KEEP, NULL, 0, PITH_FORMAT, "not a list"},
    {"awq", NULL, DROP, ".qzeros", 0, PITH_FORMAT, "missing"},
    {"awq", NULL, RETYPE, ".qzeros", PITH_U8, PITH_UNSUPPORTED, "U8"},
    {"awq", NULL, WIDEN, ".scales", 8, PITH_FORMAT, "shape"},
    {"awq", NULL, POKE, ".scales", 0x7c01, PITH_FORMAT, "not finite"},
    {"awq", NULL, ADD, ".g_idx", PITH_I32, PITH_FORMAT, "none"},
    /* compressed-tensors: config. */
    {CT, "config_groups={}", KEEP, NULL, 0, PITH_FORMAT, "config_groups"},
    {CT, "config_groups=7", KEEP, NULL, 0, PITH_FORMAT, "config_groups"},
    {CT, "config_groups/group_0=[]", KEEP, NULL, 0, PITH_FORMAT, "not an object"},
    {CT, "config_groups/group_0/targets=\"Linear\"", KEEP, NULL, 0, PITH_FORMAT, "not a list"},
    {CT, "config_groups/group_0/targets=[\"re:[\"]", KEEP, NULL, 0, PITH_FORMAT, "pattern"},
    {CT, "config_groups/group_0/surprise=1", KEEP, NULL, 0, PITH_UNSUPPORTED, "surprise"},
    {CT, "config_groups/group_0/weights", KEEP, NULL, 0, PITH_UNSUPPORTED, "not quantized"},
    {CT, "config_groups/group_0/targets=[]", KEEP, NULL, 0, PITH_OK, ""},
    {CT, "ignore=[\"re:.*up_proj\"]", KEEP, NULL, 0, PITH_OK, ""},
    {CT, WEIGHTS "num_bits=9", KEEP, NULL, 0, PITH_UNSUPPORTED, "9 bits"},
    {CT, WEIGHTS "num_bits=0", KEEP, NULL, 0, PITH_FORMAT, "num_bits"},
    {CT, WEIGHTS "num_bits=8", KEEP, NULL, 0, PITH_FORMAT, "weight_packed"},
    {CT, WEIGHTS "type=\"float\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "float"},
    {CT, WEIGHTS "strategy=\"block\"", KEEP, NULL, 0, PITH_FORMAT, "block"},
    {CT, WEIGHTS "strategy=\"channel\"", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {CT, WEIGHTS "group_size=-1", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {CT, WEIGHTS "group_size=-32", KEEP, NULL, 0, PITH_FORMAT, "group_size"},
    {CT, WEIGHTS "group_size=36", KEEP, NULL, 0, PITH_FORMAT, "groups of 36"},
    {CT, WEIGHTS "group_size=96", KEEP, NULL, 0, PITH_FORMAT, "weight_scale"},
    {CT, WEIGHTS "dynamic=true", KEEP, NULL, 0, PITH_FORMAT, "dynamic"},
    {CT, WEIGHTS "actorder=\"group\"", KEEP, NULL, 0, PITH_FORMAT, "weight_g_idx"},
    {CT, WEIGHTS "actorder=\"later\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "later"},
    {CT, WEIGHTS "actorder=\"static\"", KEEP, NULL, 0, PITH_OK, ""},
    {CT, WEIGHTS "symmetric=true", KEEP, NULL, 0, PITH_FORMAT, "symmetric"},
    {CT, WEIGHTS "extra=0", KEEP, NULL, 0, PITH_UNSUPPORTED, "extra"},
    {CT, "format=\"marlin-24\"", KEEP, NULL, 0, PITH_UNSUPPORTED, "marlin-24"},
    {CT, "format=\"int-quantized\"", KEEP, NULL, 0, PITH_FORMAT, ".weight\" is missing"},
    {CT, "quantization_status=\"frozen\"", KEEP, NULL, 0, PITH_OK, ""},
    {CT, "sparsity_config={\"format\":\"sparse-24-bitmask\"}", KEEP, NULL, 0, PITH_UNSUPPORTED,
     "sparsity_config"},
    {CT, "transform_config={\"config_groups\":{\"R1\":{}}}", KEEP, NULL, 0, PITH_UNSUPPORTED,
     "transform_config"},
    {CT, "config_groups/group_1={\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8}}", KEEP,
     NULL, 0, PITH_FORMAT, "two config groups"},
    /* compressed-tensors: tensors. */
    {CT, NULL, DROP, ".weight_packed", 0, PITH_FORMAT, "weight_packed\" is missing"},
    {CT, NULL, DROP, ".weight_scale", 0, PITH_FORMAT, "weight_scale\" is missing"},
    {CT, NULL, DROP, ".weight_shape", 0, PITH_FORMAT, "weight_shape\" is missing"},
    {CT, NULL, DROP, ".weight_zero_point", 0, PITH_FORMAT, "weight_zero_point\" is missing"},
    {CT, NULL, POKE, ".weight_shape", 41, PITH_FORMAT, "says 41 x 96"},
    {CT, NULL, POKE, ".weight_shape", UINT64_MAX, PITH_FORMAT, "says -1 x 96"},
    {CT, NULL, RETYPE, ".weight_shape", PITH_F64, PITH_UNSUPPORTED, "F64"},
    {CT, NULL, RETYPE, ".weight_packed", PITH_U32, PITH_UNSUPPORTED, "U32"},
    {CT, NULL, RETYPE, ".weight_zero_point", PITH_I8, PITH_UNSUPPORTED, "I8"},
    {CT, NULL, WIDEN, ".weight_packed", 1, PITH_FORMAT, "shape"},
    {CT, NULL, LOWER, ".weight_packed", 1, PITH_FORMAT, "shape"},
    {CT, NULL, WIDEN, ".weight_scale", 1, PITH_FORMAT, "shape"},
    {CT, NULL, LOWER, ".weight_zero_point", 1, PITH_FORMAT, "shape"},
    {CT, NULL, POKE, ".weight_scale", 0x7fff, PITH_FORMAT, "not finite"},
    {CT, NULL, ADD, ".weight_g_idx", PITH_I32, PITH_FORMAT, "actorder"},
    {CT, NULL, ADD, ".weight", PITH_F16, PITH_FORMAT, "packed"},
};

/* --- making one ---------------------------------------------------------------------------- */

/* Follows "a/b=json" or "a/b" into o. */
static void change_config(json_t *o, const char *set)
{
    char path[200];
    const char *equals = strchr(set, '=');
    const size_t n = equals ? (size_t)(equals - set) : strlen(set);
    snprintf(path, sizeof path, "%.*s", (int)n, set);
    char *key = path;
    for (char *slash = strchr(key, '/'); slash; slash = strchr(key, '/')) {
        *slash = '\0';
        o = json_object_get(o, key);
        assert_non_null(o);
        key = slash + 1;
    }
    if (!equals) {
        json_object_del(o, key);
        return;
    }
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    json_object_set_new(o, key, value);
}

static void change_tensor(const struct hostile *h, struct pith_packed_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct pith_packed *t = &set->item[i];
        if (strcmp(t->suffix, h->suffix) != 0) continue;
        if (h->change == POKE) {
            memcpy(t->data, &h->value, pith_dtype_bits(t->dtype) / 8);
            return;
        }
        if (h->change == RETYPE) t->dtype = (enum pith_dtype)h->value;
        if (h->change == WIDEN) t->shape[t->dims - 1] += h->value;
        if (h->change == LOWER) t->shape[0] -= h->value;
        uint64_t bytes;
        assert_true(pith_tensor_size(t->dtype, t->dims, t->shape, &bytes));
        pith_free(t->data);
        t->data = pith_zalloc((size_t)bytes, 1);
        t->bytes = (size_t)bytes;
        if (h->change != DROP) return;
        pith_free(t->data);
        *t = set->item[--set->count];
        return;
    }
    fail_msg("no tensor %s", h->suffix);
}

static char *make(const struct hostile *h, struct pith_qmat *q)
{
    const struct pith_container *c = pith_container_find(h->container);
    const bool asym = strcmp(h->container, CT) == 0;
    const struct ramp p = {
        .bits = 4, .rows = 64, .cols = 96, .group = 32, .asym = asym, .dtype = PITH_F16};
    const struct pith_container_opts opts = {.model_dtype = PITH_F16};
    const struct pith_linear_grid linear = {MODULE, ramp_grid(&p), 0};
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    struct ramp_file file = {0};
    json_t *config = json_object(), *quantization = NULL;
    ramp_make(&p, q);
    assert_ok(c->config(&linear, 1, &opts, &quantization, &err), err);
    assert_ok(pith_container_pack(c, q, &opts, &set, &err), err);
    if (h->set) change_config(quantization, h->set);
    if (h->change != KEEP && h->change != ADD) change_tensor(h, &set);
    char *dir = test_temp_dir(), name[200];
    ramp_add(&file, MODULE, &set);
    snprintf(name, sizeof name, MODULE "%s", h->suffix ? h->suffix : "");
    if (h->change == ADD)
        ramp_add_plain(&file, name, (enum pith_dtype)h->value, 1, (const uint64_t[]){1},
                       (const uint64_t[]){0});
    json_object_set_new(config, "quantization_config", quantization);
    ramp_save(&file, dir, config, "model.safetensors");
    json_decref(config);
    pith_packed_free(&set);
    return dir;
}

static enum pith_status read_it(const char *dir, const struct pith_qmat *want,
                                struct pith_error *err)
{
    struct pith_checkpoint *ck = NULL;
    const struct pith_container *c = NULL;
    void *state = NULL;
    struct pith_qmat q;
    bool found = false;
    memset(&q, 0x5a, sizeof q);
    assert_ok(pith_checkpoint_open(dir, &ck, err), *err);
    enum pith_status s = pith_container_detect(ck, &c, err);
    if (s == PITH_OK) s = c->open(ck, &state, err);
    if (s == PITH_OK) {
        s = c->load(state, ck, MODULE, want->rows, want->cols, &q, &found, err);
        c->close(state);
    }
    if (s == PITH_OK) {
        assert_true(found);
        assert_true(pith_qmat_equal(&q, want));
        pith_qmat_free(&q);
    }
    pith_checkpoint_close(ck);
    return s;
}

static void lies_are_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct hostile *h = &cases[i];
        struct pith_error err = {0};
        struct pith_qmat q;
        char *dir = make(h, &q);
        const enum pith_status s = read_it(dir, &q, &err);
        if (s != h->want || !strstr(err.text, h->text) || strchr(err.text, '\n'))
            fail_msg("case %zu (%s, %s, %s): status %d, \"%s\"; expected %d, \"%s\"", i,
                     h->container, h->set ? h->set : "-", h->suffix ? h->suffix : "-", (int)s,
                     err.text, (int)h->want, h->text);
        folder_remove(dir);
        pith_qmat_free(&q);
    }
    print_message("%zu cases\n", PITH_COUNT(cases));
}

/* --- what cannot be written ---------------------------------------------------------------- */

static void refuse(const char *container, const char *grid, uint32_t rows, uint32_t cols,
                   const char *text)
{
    struct pith_grid g;
    struct pith_error err = {0};
    assert_ok(pith_grid_parse(grid, &g, &err), err);
    const enum pith_status s = pith_container_find(container)->accepts(
        &g, rows, cols, &(struct pith_container_opts){.model_dtype = PITH_BF16}, &err);
    if (s != PITH_UNSUPPORTED || !strstr(err.text, text))
        fail_msg("%s %s: status %d, \"%s\"", container, grid, (int)s, err.text);
}

static void containers_refuse_with_the_reason(void **state)
{
    (void)state;
    refuse("gptq", "int5:g32", 64, 64, "int2, int3, int4, int8");
    refuse("gptq", "int4:g32", 40, 64, "multiples of 32");
    refuse("gptq", "int4:g32", 64, 40, "multiples of 32");
    refuse("awq", "int3:g32", 64, 64, "int4");
    refuse("awq", "int4:g64", 64, 96, "must divide");
    refuse("awq", "int4:g32", 60, 96, "multiple of 8");
    refuse(CT, "int4:g128", 64, 100, "must divide");
    refuse(CT, "nf4:g64", 64, 64, "nf4");
    refuse(CT, "fp8_e5m2:channel", 64, 64, "fp8_e5m2");
    refuse(CT, "mxfp6_e3m2", 64, 64, "mxfp6_e2m3");
    refuse(CT, "nvfp4", 64, 72, "must divide");
    refuse(CT, "mxfp8", 64, 48, "must divide");
    refuse(CT, "int8:block32", 64, 64, "by block");
}

/* A zero point of 0 in the older gptq, a scale that float16 does not hold, an order that the config
 * does not tell. */
static void packing_refuses_what_would_be_lost(void **state)
{
    (void)state;
    const struct pith_container *gptq = pith_container_find("gptq");
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    struct pith_packed_set set = {0};
    struct pith_qmat q;
    struct pith_error err = {0};
    struct ramp p = {
        .bits = 4, .rows = 64, .cols = 96, .group = 32, .asym = true, .dtype = PITH_F16};
    ramp_make(&p, &q);
    assert_int_equal(pith_container_pack(gptq, &q, &opts, &set, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "zero point of 0"));
    opts.gptq_v2 = true;
    q.scales[7] = 1e-30f;
    err = (struct pith_error){0};
    assert_int_equal(pith_container_pack(gptq, &q, &opts, &set, &err), PITH_NUMERIC);
    assert_non_null(strstr(err.text, "row 2, group 1"));
    q.scales[7] = NAN;
    err = (struct pith_error){0};
    assert_int_equal(pith_container_pack(gptq, &q, &opts, &set, &err), PITH_NUMERIC);
    q.scales[7] = 0.5f;
    q.sparse = pith_sparse_new(q.rows, 1);
    err = (struct pith_error){0};
    assert_int_equal(pith_container_pack(gptq, &q, &opts, &set, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "gptq cannot hold a matrix with weights off its grid"));
    pith_qmat_free(&q);
    p.permuted = true;
    ramp_make(&p, &q);
    static const char *const names[] = {"gptq", "awq", CT};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        err = (struct pith_error){0};
        assert_true(pith_container_pack(pith_container_find(names[i]), &q, &opts, &set, &err) !=
                    PITH_OK);
        assert_int_equal(set.count, 0);
    }
    pith_qmat_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_told),
        cmocka_unit_test(containers_refuse_with_the_reason),
        cmocka_unit_test(packing_refuses_what_would_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
