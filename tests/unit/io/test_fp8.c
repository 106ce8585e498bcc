/* io/: the fp8 container: what it is given, configs of others, and files that lie. */
#include "pack_and_read.h"

static const char module[] = "model.layers.0.mlp.up_proj";
#define BLOCKS "\"weight_block_size\":[64,64]"

static void each_kind_returns_what_it_got(void **state)
{
    (void)state;
    static const struct {
        const char *weights, *inputs, *scheme;
    } kinds[] = {{"fp8_e4m3:block128", "fp8_e4m3:g128", "dynamic"},
                 {"fp8_e4m3:block64", "fp8_e4m3:g64", "dynamic"},
                 {"fp8_e4m3:tensor", "fp8_e4m3:token", "dynamic"},
                 {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", "static"}};
    const struct pith_container *c = pith_container_find("fp8");
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) {
        const struct pith_grid grid = ramp_parse(kinds[i].weights),
                               inputs = ramp_parse(kinds[i].inputs);
        struct pith_qmat q;
        json_t *config = NULL;
        ramp_on(&grid, &inputs, 200, 256, PITH_F32, &q); /* blocks end within the rows */
        pack_and_keep(c, &grid, &q,
                      (struct pith_container_opts){.model_dtype = PITH_BF16, .acts = inputs},
                      &config);
        assert_string_equal(json_string_value(json_object_get(config, "activation_scheme")),
                            kinds[i].scheme);
        const json_t *block = json_object_get(config, "weight_block_size");
        assert_int_equal(json_array_size(block), grid.granularity == PITH_PER_BLOCK ? 2 : 0);
        json_decref(config);
        pith_qmat_free(&q);
    }
}

static void what_it_does_not_hold_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *weights, *inputs;
    } bad[] = {{"fp8_e4m3:block128", NULL},
               {"fp8_e4m3:block128", "fp8_e4m3:g64"},
               {"fp8_e4m3:channel", "fp8_e4m3:token"},
               {"int8:channel", "int8:token"},
               {"fp8_e4m3:tensor", "fp8_e4m3:tensor"}};
    const struct pith_container *c = pith_container_find("fp8");
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        const struct pith_container_opts opts = {.acts = ramp_parse(bad[i].inputs)};
        check_refused(c, bad[i].weights, 128, 128, &opts, "cannot hold");
    }
    struct pith_error err = {0};
    json_t *config = NULL;
    const struct pith_container_opts opts = {.acts = ramp_parse("fp8_e4m3:g128")};
    const struct pith_linear_grid two[] = {{"a", ramp_parse("fp8_e4m3:block128"), 0},
                                           {"b", ramp_parse("fp8_e4m3:block64"), 0}};
    assert_int_equal(c->config(two, 2, &opts, &config, &err), PITH_UNSUPPORTED);
    assert_int_equal(c->config(two, 0, &opts, &config, &err), PITH_ARG);
}

/* --- files of others ----------------------------------------------------------------------- */

static const struct file {
    const char *config; /* the members beside quant_method */
    const char *scale;  /* its name, or NULL */
    enum pith_dtype dtype, weight;
    unsigned dims;
    uint64_t shape[2];
    uint32_t bits; /* of the first scale */
    enum pith_status want;
    const char *text; /* part of the message; "left" when the module is left alone */
} files[] = {
    {BLOCKS, ".weight_scale_inv", PITH_F32, PITH_F8_E4M3, 2, {2, 3}, 0, PITH_OK, ""},
    {BLOCKS, ".weight_scale_inv", PITH_BF16, PITH_F8_E4M3, 2, {2, 3}, 0, PITH_OK, ""},
    {BLOCKS, ".weight_scale_inv", PITH_F8_E8M0, PITH_F8_E4M3, 2, {2, 3}, 0, PITH_OK, ""},
    {BLOCKS, ".weight_scale_inv", PITH_U8, PITH_F8_E4M3, 2, {2, 3}, 0, PITH_OK, ""},
    {"", ".weight_scale", PITH_F32, PITH_F8_E4M3, 0, {0}, 0x3f000000, PITH_OK, ""},
    {"", ".weight_scale", PITH_F32, PITH_F8_E4M3, 1, {1}, 0x3f000000, PITH_OK, ""},
    {BLOCKS ",\"modules_to_not_convert\":[\"lm_head\",\"mlp.gate\"]",
     ".weight_scale_inv",
     PITH_F32,
     PITH_F8_E4M3,
     2,
     {2, 3},
     0,
     PITH_OK,
     ""},
    {BLOCKS ",\"modules_to_not_convert\":[\"model.layers.0\"]",
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_OK,
     "left"},
    {BLOCKS ",\"ignored_layers\":[\"up_proj\"]",
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_OK,
     "left"},
    {BLOCKS ",\"ignored_layers\":[\"up_proj\"]",
     ".weight_scale_inv",
     PITH_F32,
     PITH_F8_E4M3,
     2,
     {2, 3},
     0,
     PITH_OK,
     ""},
    {BLOCKS, NULL, PITH_F32, PITH_BF16, 0, {0}, 0, PITH_OK, "left"},
    {"", ".weight_scale_inv", PITH_F32, PITH_F8_E4M3, 0, {0}, 0x3f000000, PITH_OK, ""},
    {BLOCKS, ".weight_scale_inv", PITH_F32, PITH_F8_E4M3, 0, {0}, 0x3f000000, PITH_OK, ""},
    {BLOCKS, NULL, PITH_F32, PITH_F8_E4M3, 0, {0}, 0, PITH_FORMAT, "lacks a scale"},
    {"", NULL, PITH_F32, PITH_F8_E4M3, 0, {0}, 0, PITH_FORMAT, "lacks a scale"},
    {BLOCKS, ".weight_scale_inv", PITH_F32, PITH_F8_E4M3, 2, {3, 2}, 0, PITH_FORMAT, "shape"},
    {BLOCKS, ".weight_scale_inv", PITH_I32, PITH_F8_E4M3, 2, {2, 3}, 0, PITH_UNSUPPORTED, "I32"},
    {BLOCKS,
     ".weight_scale_inv",
     PITH_F32,
     PITH_F8_E4M3,
     2,
     {2, 3},
     0x7f800000,
     PITH_FORMAT,
     "not finite"},
    {BLOCKS,
     ".weight_scale_inv",
     PITH_U8,
     PITH_F8_E4M3,
     2,
     {2, 3},
     0xff,
     PITH_FORMAT,
     "not finite"},
    {"",
     ".weight_scale",
     PITH_F32,
     PITH_F8_E4M3,
     1,
     {2},
     0x3f000000,
     PITH_FORMAT,
     "not one number"},
    {"\"activation_scheme\":\"static\"",
     ".weight_scale",
     PITH_F32,
     PITH_F8_E4M3,
     0,
     {0},
     0x3f000000,
     PITH_FORMAT,
     "lacks a scale"},
    {"\"activation_scheme\":\"static\"," BLOCKS,
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_FORMAT,
     "dynamic"},
    {"\"activation_scheme\":\"later\"",
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_UNSUPPORTED,
     "later"},
    {"\"fmt\":\"float8_e4m3fn\"", NULL, PITH_F32, PITH_BF16, 0, {0}, 0, PITH_OK, "left"},
    {"\"weight_block_size\":[64]", NULL, PITH_F32, PITH_BF16, 0, {0}, 0, PITH_FORMAT, "pair"},
    {"\"weight_block_size\":[64,0]", NULL, PITH_F32, PITH_BF16, 0, {0}, 0, PITH_FORMAT, "pair"},
    {"\"weight_block_size\":[1,128]",
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_UNSUPPORTED,
     "square"},
    {"\"modules_to_not_convert\":7",
     NULL,
     PITH_F32,
     PITH_BF16,
     0,
     {0},
     0,
     PITH_OK,
     "left"},
    {"\"ignored_layers\":[7]", NULL, PITH_F32, PITH_BF16, 0, {0}, 0, PITH_OK, "left"},
};

static char *save_file(const struct file *f)
{
    struct ramp_file out = {0};
    char name[128], text[400], *dir = test_temp_dir();
    uint8_t *weights = calloc(128 * 192, 2), scales[64] = {0};
    memcpy(scales, &f->bits, sizeof f->bits);
    snprintf(name, sizeof name, "%s.weight", module);
    ramp_add_plain(&out, name, f->weight, 2, (const uint64_t[]){128, 192}, weights);
    snprintf(name, sizeof name, "%s%s", module, f->scale ? f->scale : "");
    if (f->scale) ramp_add_plain(&out, name, f->dtype, f->dims, f->shape, scales);
    ramp_save(&out, dir, NULL, "model.safetensors");
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":\"fp8\"%s%s}}",
             f->config[0] ? "," : "", f->config);
    folder_text(dir, "config.json", text);
    free(weights);
    return dir;
}

static void files_are_understood_or_refused(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("fp8");
    for (size_t i = 0; i < PITH_COUNT(files); i++) {
        const struct file *f = &files[i];
        struct pith_error err = {0};
        struct pith_checkpoint *ck = NULL;
        struct pith_qmat q;
        void *s = NULL;
        bool found = false;
        char *dir = save_file(f);
        assert_ok(pith_checkpoint_open(dir, &ck, &err), err);
        enum pith_status status = c->open(ck, &s, &err);
        if (status == PITH_OK) {
            status = c->load(s, ck, module, 128, 192, &q, &found, &err);
            c->close(s);
        }
        const bool left = strcmp(f->text, "left") == 0;
        if (status != f->want || (!left && !strstr(err.text, f->text)) ||
            (status == PITH_OK && found == left))
            fail_msg("file %zu (%s): status %d, \"%s\"", i, f->config, (int)status, err.text);
        if (found) pith_qmat_free(&q);
        pith_checkpoint_close(ck);
        folder_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_returns_what_it_got),
        cmocka_unit_test(what_it_does_not_hold_is_refused),
        cmocka_unit_test(files_are_understood_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
