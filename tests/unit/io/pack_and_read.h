/* A matrix packed by a container, saved as a checkpoint, and read from it. */
#ifndef PITH_TEST_PACK_AND_READ_H
#define PITH_TEST_PACK_AND_READ_H

#include "folder.h"
#include "ramp.h"

/* A container does not accept a grid, written out, for a matrix of that shape, and says why. */
static inline void check_refused(const struct pith_container *c, const char *text, uint32_t rows,
                                 uint32_t cols, const struct pith_container_opts *opts,
                                 const char *why)
{
    const struct pith_grid grid = ramp_parse(text);
    struct pith_error err = {0};
    assert_int_equal(c->accepts(&grid, rows, cols, opts, &err), PITH_UNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("%s: %s", text, err.text);
}

/* Codes that differ from weight to weight, of which all are numbers in every format. */
static inline void fill_codes(struct pith_qmat *q)
{
    uint8_t *codes = malloc(q->cols);
    for (uint32_t r = 0; r < q->rows; r++) {
        for (uint32_t c = 0; c < q->cols; c++) {
            const unsigned code = (r * 7 + c * 5) % (1u << q->format->bits);
            codes[c] = (uint8_t)((code & 127) == 127 ? code - 1 : code); /* E4M3's NaN */
        }
        pith_qmat_set_codes(q, r, codes);
    }
    free(codes);
}

/* plan() foretold what pack() made. */
static inline void check_plan(const struct pith_container *c, const struct pith_grid *grid,
                              const struct pith_qmat *q, const struct pith_container_opts *opts,
                              const struct pith_packed_set *packed)
{
    struct pith_packed_set plan = {0};
    struct pith_error err = {0};
    assert_ok(c->plan(grid, q->rows, q->cols, opts, &plan, &err), err);
    assert_int_equal(plan.count, packed->count);
    for (unsigned i = 0; i < plan.count; i++) {
        const struct pith_packed *a = &plan.item[i], *b = &packed->item[i];
        assert_string_equal(a->suffix, b->suffix);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->dims, b->dims);
        assert_memory_equal(a->shape, b->shape, a->dims * sizeof a->shape[0]);
        assert_null(a->data);
        uint64_t bytes;
        assert_true(pith_tensor_size(b->dtype, b->dims, b->shape, &bytes));
        assert_int_equal(b->bytes, bytes);
    }
    pith_packed_free(&plan);
}

static inline json_t *wrap(json_t *quantization)
{
    return json_pack("{s:s, s:o}", "model_type", "llama", "quantization_config", quantization);
}

static inline void read_back(const struct pith_container *c, const char *dir, const char *module,
                             const struct pith_qmat *q)
{
    struct pith_checkpoint *ck;
    struct pith_error err = {0};
    const struct pith_container *found_container = NULL;
    assert_ok(pith_checkpoint_open(dir, &ck, &err), err);
    assert_ok(pith_container_detect(ck, &found_container, &err), err);
    assert_ptr_equal(found_container, c);
    void *state = NULL;
    assert_ok(c->open(ck, &state, &err), err);
    struct pith_qmat again;
    bool found = false;
    assert_ok(c->load(state, ck, module, q->rows, q->cols, &again, &found, &err), err);
    assert_true(found);
    if (!pith_qmat_equal(q, &again)) fail_msg("%s %s: not what was written", c->name, module);
    pith_qmat_free(&again);
    assert_ok(c->load(state, ck, "lm_head", 64, 64, &again, &found, &err), err);
    assert_false(found);
    c->close(state);
    pith_checkpoint_close(ck);
}

/* *config, when asked for, receives the config object: a new reference. */
static inline void pack_and_keep(const struct pith_container *c, const struct pith_grid *grid,
                                 const struct pith_qmat *q, struct pith_container_opts opts,
                                 json_t **config)
{
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    struct ramp_file file = {0};
    json_t *quantization = NULL;
    const struct pith_linear_grid linears[] = {{"model.layers.0.mlp.up_proj", *grid, 0},
                                               {"lm_head", {0}, 0}};
    pith_container_settle(c, linears, 2, &opts);
    assert_ok(c->accepts(grid, q->rows, q->cols, &opts, &err), err);
    assert_ok(c->config(linears, 2, &opts, &quantization, &err), err);
    assert_ok(pith_container_pack(c, q, &opts, &set, &err), err);
    check_plan(c, grid, q, &opts, &set);
    char *dir = test_temp_dir();
    ramp_add(&file, linears[0].module, &set);
    pith_packed_free(&set);
    if (config) *config = json_incref(quantization);
    json_t *whole = wrap(quantization);
    ramp_save(&file, dir, whole, "model.safetensors");
    json_decref(whole);
    read_back(c, dir, linears[0].module, q);
    folder_remove(dir);
}

static inline void pack_and_read(const struct pith_container *c, const struct pith_grid *grid,
                                 const struct pith_qmat *q, struct pith_container_opts opts)
{
    pack_and_keep(c, grid, q, opts, NULL);
}

#endif
