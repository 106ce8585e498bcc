/* io/: the bitsandbytes container: its own files, what it is given, and files that lie. */
#include "folder.h"
#include "io/container/container.h"
#include "num/codebook.h"

#include <math.h>

enum { ROWS = 24, COLS = 128 };
#define GOLDEN "tests/golden/bitsandbytes/"
#define EIGHT "{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true}"
#define FOUR "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true}"

/* A folder that holds a golden file and a config. */
static char *golden_folder(const char *file, const char *quantization)
{
    struct pith_error err = {0};
    char *dir = test_temp_dir(), path[128], config[512];
    char *to = pith_path_join(dir, "model.safetensors");
    snprintf(path, sizeof path, GOLDEN "%s.safetensors", file);
    assert_ok(pith_file_copy(path, to, &err), err);
    pith_free(to);
    snprintf(config, sizeof config, "{\"model_type\": \"llama\", \"quantization_config\": %s}",
             quantization);
    folder_text(dir, "config.json", config);
    return dir;
}

struct opened {
    struct pith_checkpoint *c;
    const struct pith_container *container;
    void *state;
};

static enum pith_status open_folder(const char *dir, struct opened *o, struct pith_error *err)
{
    *o = (struct opened){0};
    PITH_TRY(pith_checkpoint_open(dir, &o->c, err));
    PITH_TRY(pith_container_detect(o->c, &o->container, err));
    return o->container->open(o->c, &o->state, err);
}

static void close_folder(struct opened *o)
{
    if (o->state) o->container->close(o->state);
    pith_checkpoint_close(o->c);
}

static enum pith_status load(struct opened *o, uint32_t rows, uint32_t cols, struct pith_qmat *q,
                             struct pith_error *err)
{
    bool found = false;
    PITH_TRY(o->container->load(o->state, o->c, "m", rows, cols, q, &found, err));
    assert_true(found);
    return PITH_OK;
}

/* A reader's numbers against the library's own, and written again against the file. */
static void reads_and_writes_what_the_library_does(void **state)
{
    (void)state;
    static const struct {
        const char *file, *config, *grid;
        double slack; /* of int8: the library rounds a product where pith rounds a scale */
    } cases[] = {{"nf4", FOUR, "nf4:g64", 0},
                 {"fp4", FOUR, "bnb_fp4:g64", 0},
                 {"nested", FOUR, "nf4:g64:dq", 0},
                 {"int8", EIGHT, "int8:channel", 0x1p-22}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char *dir = golden_folder(cases[i].file, cases[i].config), text[PITH_GRID_TEXT];
        struct opened o;
        struct pith_qmat q;
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_container_opts opts = {.model_dtype = PITH_F32};
        struct pith_packed_set set = {0};
        float *got = malloc(ROWS * COLS * sizeof *got), *want = malloc(ROWS * COLS * sizeof *want);
        assert_ok(open_folder(dir, &o, &err), err);
        assert_ok(load(&o, ROWS, COLS, &q, &err), err);
        pith_qmat_decode(&q, 0, ROWS, got);
        memcpy(want, pith_checkpoint_find(o.c, "want")->data, ROWS * COLS * sizeof *want);
        for (int k = 0; k < ROWS * COLS; k++)
            if (fabs((double)got[k] - (double)want[k]) > cases[i].slack * fabs((double)want[k]))
                fail_msg("%s: value %d is %.9g, not %.9g", cases[i].file, k, (double)got[k],
                         (double)want[k]);
        assert_ok(o.container->describe(o.state, o.c, "m", &grid, &opts, &err), err);
        pith_grid_format(&grid, text);
        assert_string_equal(text, cases[i].grid);
        assert_true(opts.threshold == (i == 3 ? 6.0f : 0.0f));
        assert_ok(pith_container_pack(o.container, &q, &opts, &set, &err), err);
        for (unsigned k = 0; k < set.count; k++) {
            char name[128];
            snprintf(name, sizeof name, "m%s", set.item[k].suffix);
            const struct pith_tensor *t = pith_checkpoint_find(o.c, name);
            assert_non_null(t);
            assert_int_equal(t->dtype, set.item[k].dtype);
            if (strstr(name, "quant_state")) continue; /* spelled another way */
            assert_int_equal(t->bytes, set.item[k].bytes);
            if (memcmp(t->data, set.item[k].data, t->bytes) != 0) fail_msg("%s differs", name);
        }
        pith_packed_free(&set);
        pith_qmat_free(&q);
        close_folder(&o);
        folder_remove(dir);
        free(got);
        free(want);
    }
}

/* Scales are stored times 127: what went through stated_scale() once comes back to the bit. */
static void scales_of_rows_come_back(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("bitsandbytes");
    const struct pith_grid grid = {.format = pith_format_find("int8"),
                                   .granularity = PITH_PER_CHANNEL};
    const struct pith_container_opts opts = {
        .model_dtype = PITH_BF16, .acts = {.format = grid.format, .granularity = PITH_PER_TOKEN}};
    enum { MANY = 4096 };
    struct pith_qmat q;
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    assert_ok(pith_qmat_init(&q, MANY, 4, &grid, PITH_F32, &err), err);
    for (int i = 0; i < MANY; i++) {
        q.scales[i] = c->stated_scale(&grid, ldexpf(1.0f + (float)i / MANY, i % 40 - 30));
        assert_true(c->stated_scale(&grid, q.scales[i]) == q.scales[i]);
    }
    assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
    for (int i = 0; i < MANY; i++)
        assert_true(((const float *)set.item[1].data)[i] / 127.0f == q.scales[i]);
    pith_packed_free(&set);
    pith_qmat_free(&q);
}

static void what_it_cannot_hold_is_refused(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("bitsandbytes");
    static const struct {
        const char *grid, *acts, *word;
        uint32_t cols;
    } cases[] = {
        {"int8:channel", "none", "add `acts=int8:token`", 128},
        {"int8:g64", "int8:token", "int8:channel only", 128},
        {"int8:channel:asym", "int8:token", "int8:channel only", 128},
        {"int4:g64", "none", "cannot hold int4", 128},
        {"nf4:g64", "int8:token", "leaves the activations", 128},
        {"nf4:g48", "none", "blocks of 32, 64", 96},
        {"nf4:g64", "none", "must divide", 96},
        {"fp8_e4m3:channel", "none", "cannot hold fp8_e4m3", 128},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_container_opts opts = {.model_dtype = PITH_BF16};
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        assert_ok(pith_grid_parse(cases[i].acts, &opts.acts, &err), err);
        assert_int_equal(c->accepts(&grid, 64, cases[i].cols, &opts, &err), PITH_UNSUPPORTED);
        if (!strstr(err.text, cases[i].word)) fail_msg("%s", err.text);
    }
}

/* Replaces `from` by `to` (of the same length) in the golden file. */
static void spoil(const char *dir, const char *from, const char *to)
{
    struct pith_error err = {0};
    char *path = pith_path_join(dir, "model.safetensors"), *data;
    size_t size, n = strlen(from);
    assert_ok(pith_file_read(path, 1 << 20, &data, &size, &err), err);
    bool done = false;
    for (size_t i = 0; i + n <= size && !done; i++)
        if (memcmp(data + i, from, n) == 0) {
            memcpy(data + i, to, n);
            done = true;
        }
    assert_true(done && strlen(to) == n);
    assert_ok(pith_file_write(path, data, size, &err), err);
    pith_free(data);
    pith_free(path);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *config, *from, *to, *word;
    } cases[] = {
        {"nf4", EIGHT, NULL, NULL, "has 4 bits, but the config says 8"},
        {"int8", FOUR, NULL, NULL, "is int8, but the config says 4 bits"},
        {"nf4", "{\"quant_method\": \"bitsandbytes\"}", NULL, NULL, "one of load_in_8bit"},
        {"int8",
         "{\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": true, "
         "\"llm_int8_threshold\": -1.0}",
         NULL, NULL, "threshold is -1"},
        {"nf4", FOUR, "\"shape\": [24, 128]", "\"shape\": [24, 129]", "shape is not [24, 128]"},
        {"nf4", FOUR, "\"blocksize\": 64", "\"blocksize\": 48", "run across rows"},
        {"nf4", FOUR, "\"blocksize\": 64", "\"blocksize\": 32", "requires [96]"},
        {"nf4", FOUR, "\"quant_type\": \"nf4\"", "\"quant_type\": \"nf5\"",
         "quant_type is \"nf5\""},
        {"nf4", FOUR, "{\"quant_type\"", "[\"quant_type\"", "quant_state"},
        {"nested", FOUR, "\"nested_blocksize\": 256", "\"nested_blocksize\": 255", "blocks of 255"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char *dir = golden_folder(cases[i].file, cases[i].config);
        struct opened o;
        struct pith_qmat q = {0};
        struct pith_error err = {0};
        if (cases[i].from) spoil(dir, cases[i].from, cases[i].to);
        enum pith_status s = open_folder(dir, &o, &err);
        if (s == PITH_OK) s = load(&o, ROWS, COLS, &q, &err);
        assert_true(s == PITH_FORMAT || s == PITH_UNSUPPORTED);
        if (!strstr(err.text, cases[i].word)) fail_msg("case %zu: %s", i, err.text);
        assert_null(q.codes);
        close_folder(&o);
        folder_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes_what_the_library_does),
        cmocka_unit_test(scales_of_rows_come_back),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(damaged_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
