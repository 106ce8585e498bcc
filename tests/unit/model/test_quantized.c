/* Models whose linears are quantized, in every container: they compute what their dequantized
 * weights compute, and their tensors are accounted for. */
#include "llama.h"
#include "unit/model/fixture.h"

enum { MAX_TENSORS = 256, MAX_LINEARS = 32 };

/* A checkpoint in the making: the linears of a golden model rounded to a grid and packed. */
struct maker {
    struct pith_model *dense;
    const struct pith_container *container;
    struct pith_container_opts opts;
    struct pith_layout layout;
    const void *data[MAX_TENSORS]; /* in the order of `names` */
    char names[MAX_TENSORS][140];
    size_t tensors;
    struct pith_packed_set packed[MAX_LINEARS];
    struct pith_linear_grid grids[MAX_LINEARS];
    char modules[MAX_LINEARS][100];
    size_t linears, quantized;
    const char *skip; /* a tensor that is left out, or NULL */
};

static void add(struct maker *k, const char *name, enum pith_dtype dtype, unsigned dims,
                const uint64_t *shape, const void *data)
{
    struct pith_error err = {0};
    if (k->skip && strcmp(name, k->skip) == 0) return;
    assert_true(k->tensors < MAX_TENSORS);
    assert_ok(pith_layout_add(&k->layout, name, dtype, dims, shape, &err), err);
    snprintf(k->names[k->tensors], sizeof k->names[0], "%s", name);
    k->data[k->tensors++] = data;
}

static void add_dense(struct maker *k, const char *name)
{
    const struct pith_tensor *t = pith_checkpoint_find(k->dense->checkpoint, name);
    assert_non_null(t);
    add(k, name, t->dtype, t->dims, t->shape, t->data);
}

/* Rounds to nearest: scale by absmax, zero in the middle (stored when the grid is asym). */
static void round_matrix(const struct pith_weight *w, const struct pith_grid *grid,
                         const struct pith_container *c, struct pith_qmat *q)
{
    struct pith_error err = {0};
    const enum pith_dtype scales = c->scale_dtype(grid, PITH_F32);
    assert_ok(pith_qmat_init(q, w->rows, w->cols, grid, scales, &err), err);
    const float middle = (float)(1u << (grid->format->bits - 1));
    float *x = malloc(w->cols * sizeof *x);
    uint8_t *codes = malloc(w->cols);
    for (uint32_t r = 0; r < w->rows; r++) {
        pith_weight_decode(w, r, 1, x);
        for (uint32_t g = 0; g < q->groups; g++) {
            const uint32_t last = (g + 1) * q->group < w->cols ? (g + 1) * q->group : w->cols;
            float max = 0;
            for (uint32_t i = g * q->group; i < last; i++) max = fmaxf(max, fabsf(x[i]));
            const float scale = pith_round_to(scales, max / (middle - 1));
            q->scales[pith_qmat_scale_index(q, r, g)] = scale;
            if (q->zeros) q->zeros[pith_qmat_scale_index(q, r, g)] = (uint8_t)middle;
            for (uint32_t i = g * q->group; i < last; i++)
                codes[i] = (uint8_t)fminf(fmaxf(roundf(x[i] / scale) + middle, 0), 2 * middle - 1);
        }
        pith_qmat_set_codes(q, r, codes);
    }
    free(codes);
    free(x);
}

/* Adds a linear, packed when the container can hold it in that grid; a packed one's weights in the
 * dense model become what was packed. */
static void add_linear(struct maker *k, const char *module, struct pith_linear_weights *l,
                       const struct pith_grid *grid)
{
    struct pith_error err = {0};
    char name[140];
    struct pith_linear_grid *g = &k->grids[k->linears];
    snprintf(k->modules[k->linears], sizeof k->modules[0], "%s", module);
    g->module = k->modules[k->linears];
    k->linears++;
    if (k->container->accepts(grid, l->w.rows, l->w.cols, &k->opts, &err) != PITH_OK) {
        snprintf(name, sizeof name, "%s.weight", module);
        add_dense(k, name);
        return;
    }
    struct pith_qmat q;
    struct pith_packed_set *set = &k->packed[k->quantized++];
    g->grid = *grid;
    round_matrix(&l->w, grid, k->container, &q);
    assert_ok(pith_container_pack(k->container, &q, &k->opts, set, &err), err);
    for (unsigned i = 0; i < set->count; i++) {
        snprintf(name, sizeof name, "%s%s", module, set->item[i].suffix);
        add(k, name, set->item[i].dtype, set->item[i].dims, set->item[i].shape, set->item[i].data);
    }
    pith_qmat_decode(&q, 0, q.rows, l->dense);
    pith_qmat_free(&q);
}

static void add_layer(struct maker *k, uint32_t layer, const struct pith_grid *grid)
{
    struct pith_error err = {0};
    char name[100], tensor[120];
    struct pith_block *b = &k->dense->blocks[layer];
    pith_block_free(b);
    assert_ok(pith_block_load(k->dense, layer, PITH_LOAD_FLOAT, b, &err), err);
    for (uint32_t i = 0; i < b->plan->linears; i++) {
        pith_plan_linear_name(&k->dense->plans, layer, i, name, sizeof name);
        add_linear(k, name, &b->linear[i], grid);
        if (!b->linear[i].bias) continue;
        snprintf(tensor, sizeof tensor, "%s.bias", name);
        add_dense(k, tensor);
    }
    for (uint32_t i = 0; i < b->plan->vectors; i++) {
        pith_plan_name(&k->dense->plans, layer, b->plan->vector[i].name, tensor, sizeof tensor);
        add_dense(k, tensor);
    }
}

/* Starts a maker over an open golden model: everything but what a test adds by itself. */
static void maker_fill(struct maker *k, struct rig *r, const struct pith_container *c,
                       const struct pith_grid *grid)
{
    k->dense = r->model;
    k->container = c;
    k->opts.model_dtype = PITH_F32;
    add_dense(k, "model.embed_tokens.weight");
    add_dense(k, "model.norm.weight");
    if (!r->model->shape.ends.tied) add_dense(k, "lm_head.weight");
    for (uint32_t i = 0; i < r->model->shape.layers; i++) add_layer(k, i, grid);
}

static void write_file(struct maker *k, const char *dir)
{
    struct pith_error err = {0};
    struct pith_out out;
    char path[600];
    assert_ok(pith_layout_finish(&k->layout, UINT64_MAX, &err), err);
    assert_int_equal(k->layout.shards, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(pith_out_open(path, k->layout.shard_bytes[0], &out, &err), err);
    assert_ok(pith_out_write(&out, 0, k->layout.headers[0], k->layout.header_bytes[0], &err), err);
    for (size_t i = 0; i < k->tensors; i++) {
        const struct pith_tensor_plan *t = pith_layout_find(&k->layout, k->names[i]);
        assert_ok(pith_out_write(&out, t->offset, k->data[i], t->bytes, &err), err);
    }
    pith_out_close(&out);
}

/* Writes the folder and frees what the maker owns. */
static char *maker_finish(struct maker *k)
{
    struct pith_error err = {0};
    json_t *quantization = NULL;
    assert_ok(k->container->config(k->grids, k->linears, &k->opts, &quantization, &err), err);
    json_t *config = json_copy(k->dense->checkpoint->config);
    json_object_set_new(config, "quantization_config", quantization);
    char *dir = folder_make(config, NULL);
    write_file(k, dir);
    json_decref(config);
    pith_layout_free(&k->layout);
    for (size_t i = 0; i < k->quantized; i++) pith_packed_free(&k->packed[i]);
    return dir;
}

/* The values of a layer, made anew from the files each time, are what the codes stand for. */
static void check_layer(const struct pith_model *source, uint32_t layer,
                        const struct pith_block *expected)
{
    struct pith_error err = {0};
    struct pith_block b;
    for (int time = 0; time < 2; time++) {
        assert_ok(pith_block_load(source, layer, PITH_LOAD_FLOAT, &b, &err), err);
        pith_model_shed(source, layer);
        for (uint32_t i = 0; i < b.plan->linears; i++) {
            const struct pith_weight *w = &b.linear[i].w;
            assert_null(w->quant);
            assert_memory_equal(b.linear[i].dense, expected->linear[i].dense,
                                (size_t)w->rows * w->cols * sizeof *b.linear[i].dense);
        }
        pith_block_free(&b);
    }
}

/* The folder as an original to start from. */
static void check_source(const char *dir, const struct pith_model *dense)
{
    struct pith_error err = {0};
    const struct pith_merge_into merge = {.room = dir};
    struct pith_model *m;
    assert_ok(pith_model_open_source(dir, &merge, &m, &err), err);
    assert_null(m->container);
    assert_non_null(m->checkpoint->dense);
    for (uint32_t i = 0; i < m->shape.layers; i++) check_layer(m, i, &dense->blocks[i]);
    pith_model_close(m);
}

static const char *const grids[] = {"int4:g16", "int4:g16:asym", "int8:channel", "int8:g32"};

static void check_container(const struct pith_container *c, const char *golden, const char *text)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    struct rig r, rq;
    struct maker k = {0};
    assert_ok(pith_grid_parse(text, &grid, &err), err);
    const struct pith_container_opts opts = {.model_dtype = PITH_F32};
    if (c->accepts(&grid, 32, 32, &opts, &err) != PITH_OK) return;
    rig_open_golden(&r, golden, 1);
    maker_fill(&k, &r, c, &grid);
    rig_open_own(&rq, maker_finish(&k), 2);
    assert_ptr_equal(rq.model->container, c);
    size_t quantized = 0;
    for (uint32_t i = 0; i < rq.model->shape.layers; i++)
        for (int role = 0; role < LLAMA_LINEARS; role++)
            quantized += rq.model->blocks[i].linear[role].w.quant != NULL;
    assert_int_equal(quantized, k.quantized);
    int32_t ids[PROMPT_MAX];
    const size_t n = golden_prompt(0, ids);
    for (size_t chunk = 1; chunk < 50; chunk *= 7) {
        float *expected = rig_logits(&r, ids, n, chunk), *logits = rig_logits(&rq, ids, n, chunk);
        assert_memory_equal(logits, expected, n * PROMPT_VOCAB * sizeof *logits);
        free(logits);
        free(expected);
    }
    check_source(rq.dir, r.model);
    print_message("%-20s %-14s %-14s %zu of %zu linears\n", c->name, golden, text, quantized,
                  k.linears);
    rig_close(&rq);
    rig_close(&r);
}

static void quantized_models_compute_their_weights(void **state)
{
    (void)state;
    size_t count;
    const struct pith_container *const *containers = pith_containers(&count);
    for (size_t c = 0; c < count; c++)
        for (size_t i = 0; i < PITH_COUNT(grids); i++) {
            if (containers[c]->file) continue; /* not a folder: tests/unit/export/test_gguf.c */
            check_container(containers[c], "llama_mha", grids[i]);
            check_container(containers[c], "qwen2", grids[i]);
        }
}

/* One stray or missing tensor in a checkpoint of each container. */
static const struct {
    const char *extra, *skip;
    uint8_t byte; /* that the extra tensor of 32 floats is filled with */
    enum pith_status status;
    const char *says; /* the error; of a model that opens, the stray tensor, if it has one */
} strays[] = {
    {NULL, NULL, 0, PITH_OK, ""},
    {"model.layers.0.self_attn.k_scale", NULL, 1, PITH_OK, ""},
    {"model.layers.0.self_attn.k_proj.k_scale", NULL, 1, PITH_OK, ""},
    {"model.layers.1.self_attn.o_proj.bias", NULL, 0, PITH_OK, ""},
    {"model.layers.1.self_attn.o_proj.bias", NULL, 1, PITH_OK, "self_attn.o_proj.bias"},
    {"model.layers.1.self_attn.rotary_emb.inv_freq", NULL, 1, PITH_OK, ""},
    {"model.layers.1.self_attn.extra", NULL, 1, PITH_OK, "self_attn.extra"},
    {"model.layers.2.self_attn.q_proj.weight", NULL, 1, PITH_OK, "layers.2.self_attn.q_proj"},
    {"model.layers.1.self_attn.q_projx.weight", NULL, 1, PITH_OK, "q_projx.weight"},
    {"lm_heads.weight", NULL, 1, PITH_OK, "lm_heads.weight"},
    {"v_head.summary.weight", NULL, 1, PITH_OK, "v_head.summary.weight"},
    {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", NULL, 1, PITH_FORMAT,
     "lora_A.weight\" is not part of"},
    {NULL, "model.norm.weight", 0, PITH_FORMAT, "\"model.norm.weight\" is missing"},
    {NULL, "model.layers.1.mlp.up_proj.weight", 0, PITH_FORMAT, "mlp.up_proj.weight\" is missing"},
};

static void stray_and_missing_tensors(void **state)
{
    (void)state;
    struct pith_grid grid;
    struct pith_error err = {0};
    assert_ok(pith_grid_parse("int4:g16", &grid, &err), err);
    const struct pith_container *c = pith_container_find("gptq");
    assert_non_null(c);
    for (size_t i = 0; i < PITH_COUNT(strays); i++) {
        struct rig r;
        struct maker k = {.skip = strays[i].skip};
        uint8_t filler[32 * 4];
        memset(filler, strays[i].byte, sizeof filler);
        rig_open_golden(&r, "llama_gqa_tied", 1);
        maker_fill(&k, &r, c, &grid);
        if (strays[i].extra) add(&k, strays[i].extra, PITH_F32, 1, (const uint64_t[]){32}, filler);
        char *packed = maker_finish(&k);
        struct pith_model *m = NULL;
        err = (struct pith_error){0};
        const enum pith_status s = pith_model_open(packed, &m, &err);
        const char *said = s != PITH_OK ? err.text : m->strays ? m->stray[0] : "";
        if (s != strays[i].status || !strstr(said, strays[i].says) || !*said != !*strays[i].says)
            fail_msg("stray %zu: status %d, \"%s\"", i, (int)s, said);
        if (s == PITH_OK) {
            assert_ok(pith_model_load_blocks(m, NULL, &err), err);
            pith_model_close(m);
        }
        rig_close(&r);
        folder_remove(packed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantized_models_compute_their_weights),
        cmocka_unit_test(stray_and_missing_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
