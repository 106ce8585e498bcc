/* tests/interop/containers.c: the C side of the container tests against other libraries.
 *
 *   containers write DIR   makes checkpoints of random matrices, one folder each, with what they
 *                          mean (tensor "truth", float32) in truth.safetensors
 *   containers read DIR    reads the checkpoints that other libraries made in DIR/<name> and
 * compares them with their own "truth", after rounding to its dtype
 *
 * Run by run.sh. */
#include "base/rng.h"
#include "num/block.h"
#include "ramp.h"

#define MODULE "model.layers.0.mlp.up_proj"

/* --- writing ------------------------------------------------------------------------------- */

/* Replaces the ramp by random codes, zeros and scales of the same kind. */
static void randomize(const struct ramp *p, struct pith_qmat *q, struct pith_rng *rng)
{
    uint8_t *codes = malloc(q->cols);
    for (uint32_t r = 0; r < q->rows; r++) {
        for (uint32_t c = 0; c < q->cols; c++)
            codes[c] = (uint8_t)pith_rng_below(rng, 1u << p->bits);
        pith_qmat_set_codes(q, r, codes);
    }
    free(codes);
    const size_t count = pith_qmat_scale_count(q);
    const enum pith_dtype dtype = p->dtype;
    for (size_t i = 0; i < count; i++) {
        q->scales[i] = pith_round_to(dtype, (float)(0.001 + 0.05 * pith_rng_unit(rng)));
        if (q->zeros)
            q->zeros[i] =
                (uint8_t)(p->from_one + pith_rng_below(rng, (1u << p->bits) - p->from_one));
    }
}

static void write_truth(const char *dir, const struct pith_qmat *q)
{
    float *w = malloc((size_t)q->rows * q->cols * sizeof *w);
    struct ramp_file file = {0};
    pith_qmat_decode(q, 0, q->rows, w);
    ramp_add_plain(&file, "truth", PITH_F32, 2, (const uint64_t[]){q->rows, q->cols}, w);
    ramp_save(&file, dir, NULL, "truth.safetensors");
    free(w);
}

static void write_matrix(const char *root, const char *name, const struct pith_container *c,
                         const struct pith_grid *grid, const struct pith_qmat *q,
                         struct pith_container_opts opts)
{
    const struct pith_linear_grid linears[] = {{.module = MODULE, .grid = *grid},
                                               {.module = "lm_head"}};
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    struct ramp_file file = {0};
    json_t *quantization = NULL, *extra = NULL;
    char dir[700], path[900];
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    if (mkdir(dir, 0777) != 0) fail_msg("%s", dir);
    assert_ok(c->config(linears, 2, &opts, &quantization, &err), err);
    assert_ok(c->pack(q, &opts, &set, &err), err);
    ramp_add(&file, MODULE, &set);
    pith_packed_free(&set);
    json_t *config = json_pack("{s:s, s:s, s:s, s:O}", "model_type", "llama", "container", c->name,
                               "dtype", pith_dtype_name(opts.model_dtype), "quantization_config",
                               quantization);
    ramp_save(&file, dir, config, "model.safetensors");
    if (c->extra_file) {
        const char *file_name;
        assert_ok(c->extra_file(quantization, &file_name, &extra, &err), err);
        snprintf(path, sizeof path, "%s/%s", dir, file_name);
        assert_int_equal(json_dump_file(extra, path, JSON_INDENT(2)), 0);
        json_decref(extra);
    }
    json_decref(config);
    json_decref(quantization);
    write_truth(dir, q);
}

static void write_case(const char *root, const char *container, const struct ramp *p,
                       struct pith_container_opts opts, struct pith_rng *rng)
{
    const struct pith_grid grid = ramp_grid(p);
    struct pith_qmat q;
    char text[PITH_GRID_TEXT], name[300];
    ramp_make(p, &q);
    randomize(p, &q, rng);
    q.input.grid = opts.acts;
    pith_grid_format(&grid, text);
    snprintf(name, sizeof name, "%s.%s%s%s%s", container, text, opts.acts.format ? ".acts" : "",
             p->permuted ? ".order" : "", opts.gptq_v2 ? ".v2" : "");
    write_matrix(root, name, pith_container_find(container), &grid, &q, opts);
    pith_qmat_free(&q);
}

static void write_ct(const char *root, struct pith_rng *rng)
{
    static const enum pith_dtype dtypes[] = {PITH_BF16, PITH_F16, PITH_F32};
    unsigned turn = 0;
    for (unsigned bits = 2; bits <= 8; bits++)
        for (unsigned kind = 0; kind < 12; kind++) {
            const bool acts = kind & 1, asym = kind & 2;
            if (acts && bits != 4 && bits != 8) continue;
            struct ramp p = {.bits = bits,
                             .rows = 96,
                             .cols = 160,
                             .asym = asym,
                             .group = kind / 4 == 0 ? 32 : 0,
                             .tensor = kind / 4 == 2,
                             .dtype = dtypes[turn++ % 3]};
            const struct pith_container_opts opts = {
                .model_dtype = p.dtype,
                .acts = {.format = acts ? pith_format_find("int8") : NULL,
                         .granularity = PITH_PER_TOKEN}};
            write_case(root, "compressed-tensors", &p, opts, rng);
        }
}

/* --- compressed-tensors: number formats other than integers, and inputs --------------------- */

static float random_scale(const struct pith_qmat *q, enum pith_dtype dtype, struct pith_rng *rng)
{
    if (q->scale_dtype == PITH_F8_E8M0) return ldexpf(1.0f, -(int)pith_rng_below(rng, 20));
    if (q->scale_dtype == PITH_F8_E4M3) /* all that are normal numbers */
        return pith_format_find("fp8_e4m3")->decode(8 + pith_rng_below(rng, 0x77)) * q->global;
    return pith_round_to(dtype, (float)(0.001 + 0.05 * pith_rng_unit(rng)));
}

static void randomize_any(struct pith_qmat *q, enum pith_dtype dtype, struct pith_rng *rng)
{
    uint8_t *codes = malloc(q->cols);
    for (uint32_t r = 0; r < q->rows; r++) {
        for (uint32_t c = 0; c < q->cols; c++) {
            codes[c] = (uint8_t)pith_rng_below(rng, 1u << q->format->bits);
            if (!isfinite(q->format->decode(codes[c]))) codes[c] = 0;
        }
        pith_qmat_set_codes(q, r, codes);
    }
    free(codes);
    if (q->scale_dtype == PITH_F8_E4M3)
        q->global = pith_nvfp4_twin((float)(1e-4 + 1e-3 * pith_rng_unit(rng)));
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++)
        q->scales[i] = random_scale(q, dtype, rng);
}

static void write_layout(const char *root, const char *container, const char *weights,
                         const char *inputs, enum pith_dtype dtype, struct pith_rng *rng)
{
    const struct pith_grid grid = ramp_parse(weights), acts = ramp_parse(inputs);
    struct pith_qmat q;
    char name[128];
    ramp_on(&grid, &acts, 128, 256, dtype, &q);
    if (grid.format->kind != PITH_KIND_INT) randomize_any(&q, dtype, rng);
    snprintf(name, sizeof name, "%s.%s.beside.%s", container, weights, inputs ? inputs : "none");
    write_matrix(root, name, pith_container_find(container), &grid, &q,
                 (struct pith_container_opts){.model_dtype = dtype, .acts = acts});
    pith_qmat_free(&q);
}

static void write_ct_layouts(const char *root, struct pith_rng *rng)
{
    static const struct {
        const char *weights, *inputs;
    } layouts[] = {
        {"int8:tensor", "int8:tensor:static"},
        {"int8:channel", "int8:tensor:asym:static"},
        {"int8:channel", "int8:token:asym"},
        {"int4:g32", "fp8_e4m3:token"},
        {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static"},
        {"fp8_e4m3:tensor", NULL},
        {"fp8_e4m3:channel", "fp8_e4m3:token"},
        {"fp8_e4m3:channel", NULL},
        {"fp8_e4m3:g32", "fp8_e4m3:g32"},
        {"fp8_e4m3:block64", "fp8_e4m3:g32"},
        {"fp8_e4m3:block128", NULL},
        {"mxfp4", NULL},
        {"mxfp4", "mxfp4"},
        {"mxfp6_e2m3", NULL},
        {"mxfp6_e2m3", "mxfp8"},
        {"mxfp8", NULL},
        {"mxfp8", "mxfp8"},
        {"nvfp4", NULL},
        {"nvfp4", "nvfp4:static"},
    };
    static const enum pith_dtype dtypes[] = {PITH_BF16, PITH_F16, PITH_F32};
    for (size_t i = 0; i < PITH_COUNT(layouts); i++)
        write_layout(root, "compressed-tensors", layouts[i].weights, layouts[i].inputs,
                     dtypes[i % 3], rng);
}

static void write_modelopt(const char *root, struct pith_rng *rng)
{
    static const struct {
        const char *weights, *inputs;
    } layouts[] = {
        {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static"},
        {"fp8_e4m3:channel", "fp8_e4m3:token"},
        {"fp8_e4m3:block128", NULL},
        {"nvfp4", "nvfp4:static"},
        {"nvfp4", NULL},
        {"mxfp8", "mxfp8"},
        {"mxfp4", "fp8_e4m3:tensor"},
        {"int4:g128", NULL},
        {"int4:g64", "fp8_e4m3:tensor:static"},
        {"int8:channel", NULL},
        {"int8:channel", "int8:tensor:static"},
    };
    for (size_t i = 0; i < PITH_COUNT(layouts); i++)
        write_layout(root, "modelopt", layouts[i].weights, layouts[i].inputs, PITH_F32, rng);
}

static void write_fp8(const char *root, struct pith_rng *rng)
{
    write_layout(root, "fp8", "fp8_e4m3:block128", "fp8_e4m3:g128", PITH_F32, rng);
    write_layout(root, "fp8", "fp8_e4m3:block64", "fp8_e4m3:g64", PITH_F32, rng);
}

static void write_gptq(const char *root, struct pith_rng *rng)
{
    static const unsigned widths[] = {2, 3, 4, 8};
    for (size_t b = 0; b < PITH_COUNT(widths); b++)
        for (unsigned kind = 0; kind < 16; kind++) {
            const bool grouped = kind & 1, asym = kind & 2, v2 = kind & 4, order = kind & 8;
            if (order && !grouped) continue;
            const enum pith_dtype dtype = b & 1 ? PITH_BF16 : PITH_F16;
            const struct ramp p = {.bits = widths[b],
                                   .rows = 96,
                                   .cols = 160,
                                   .asym = asym,
                                   .group = grouped ? 32 : 0,
                                   .from_one = !v2,
                                   .permuted = order,
                                   .dtype = dtype};
            const struct pith_container_opts opts = {
                .model_dtype = dtype, .gptq_v2 = v2, .act_order_groups = order};
            write_case(root, "gptq", &p, opts, rng);
        }
}

static void write_awq(const char *root, struct pith_rng *rng)
{
    static const uint32_t groups[] = {0, 32, 64};
    for (size_t g = 0; g < PITH_COUNT(groups); g++)
        for (unsigned asym = 0; asym < 2; asym++) {
            const enum pith_dtype dtype = g & 1 ? PITH_BF16 : PITH_F16;
            const struct ramp p = {.bits = 4,
                                   .rows = 96,
                                   .cols = 192,
                                   .asym = asym,
                                   .group = groups[g],
                                   .dtype = dtype};
            const struct pith_container_opts opts = {.model_dtype = dtype};
            write_case(root, "awq", &p, opts, rng);
        }
}

/* --- reading ------------------------------------------------------------------------------- */

static void read_case(const char *dir)
{
    struct pith_checkpoint *ck, *truth;
    const struct pith_container *c;
    const struct pith_tensor *t;
    struct pith_error err = {0};
    struct pith_qmat q;
    void *state;
    bool found = false;
    char path[900];
    assert_ok(pith_checkpoint_open(dir, &ck, &err), err);
    snprintf(path, sizeof path, "%s/truth", dir);
    assert_ok(pith_checkpoint_open(path, &truth, &err), err);
    t = pith_checkpoint_find(truth, "truth");
    assert_non_null(t);
    const uint32_t rows = (uint32_t)t->shape[0], cols = (uint32_t)t->shape[1];
    assert_ok(pith_container_detect(ck, &c, &err), err);
    assert_non_null(c);
    assert_ok(c->open(ck, &state, &err), err);
    assert_ok(c->load(state, ck, MODULE, rows, cols, &q, &found, &err), err);
    assert_true(found);
    const size_t count = (size_t)rows * cols;
    float *w = malloc(count * sizeof *w), *want = malloc(count * sizeof *want);
    pith_qmat_decode(&q, 0, rows, w);
    assert_true(pith_dtype_decode(t->dtype, t->data, count, want));
    for (size_t i = 0; i < count; i++)
        if (pith_round_to(t->dtype, w[i]) != want[i])
            fail_msg("%s: row %zu, column %zu: %.9g, expected %.9g", dir, i / cols, i % cols,
                     (double)w[i], (double)want[i]);
    free(want);
    free(w);
    pith_qmat_free(&q);
    c->close(state);
    pith_checkpoint_close(truth);
    pith_checkpoint_close(ck);
}

static size_t read_all(const char *root)
{
    struct pith_error err = {0};
    char **names, path[700];
    size_t count;
    assert_ok(pith_dir_list(root, &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        read_case(path);
    }
    pith_names_free(names, count);
    return count;
}

int main(int argc, char **argv)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, 20260101);
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_ct(argv[2], &rng);
        write_ct_layouts(argv[2], &rng);
        write_modelopt(argv[2], &rng);
        write_fp8(argv[2], &rng);
        write_gptq(argv[2], &rng);
        write_awq(argv[2], &rng);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "read") == 0) {
        printf("read by pith: %zu checkpoints of other libraries, equal to the bit\n",
               read_all(argv[2]));
        return 0;
    }
    fprintf(stderr, "usage: containers write|read DIR\n");
    return 2;
}
