/* eval/speed/regrid: the same matrices that rounding to nearest makes. */
#include "base/rng.h"
#include "eval/speed/regrid.h"
#include "model/session.h"
#include "num/block.h"
#include "quant/round.h"
#include "llama.h"
#include "unit/eval/fixture.h"

static struct pith_grid grid_of(const char *text)
{
    struct pith_error err = {0};
    struct pith_grid g;
    assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static float *randoms(size_t n)
{
    float *x = malloc(n * sizeof *x);
    struct pith_rng rng;
    pith_rng_seed(&rng, n);
    for (size_t i = 0; i < n; i++) x[i] = (float)pith_rng_normal(&rng);
    return x;
}

/* 70 rows of 65,540: more than one panel, and a last one that is not full. */
static void grids_are_rounded_to_as_by_the_rounder(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
    } cases[] = {{"int4:g128", 70, 65540},
                 {"int4:g64:asym", 33, 200},
                 {"int8:channel", 20, 100},
                 {"int3:tensor", 20, 100},
                 {"fp8_e4m3:block128", 300, 200},
                 {"fp8_e4m3:tensor", 20, 100},
                 {"fp8_e4m3:tensor:mse", 20, 100},
                 {"nvfp4", 70, 65536},
                 {"nvfp4:mse", 20, 64},
                 {"mxfp4:even", 20, 64},
                 {"nf4:g64:dq", 33, 200},
                 {"int4:g64:asym:hqq", 20, 100},
                 {"codebook3", 20, 100}};
    struct pith_error err = {0};
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const uint32_t rows = cases[i].rows, cols = cases[i].cols;
        float *w = randoms((size_t)rows * cols);
        const struct pith_weight weight = {
            .rows = rows, .cols = cols, .dtype = PITH_F32, .dense = w};
        const struct pith_round_job job = {.backend = r.backend,
                                           .grid = grid_of(cases[i].grid),
                                           .scale_dtype = PITH_BF16,
                                           .rows = rows,
                                           .cols = cols,
                                           .w = w};
        struct pith_round_report report;
        struct pith_qmat got, want;
        assert_ok(pith_regrid(r.pool, &weight, &job.grid, PITH_BF16, &got, &err), err);
        assert_ok(pith_rounder_run(pith_rounder_find("nearest"), &job, &want, &report, &err), err);
        assert_true(pith_qmat_equal(&got, &want));
        pith_qmat_free(&got);
        pith_qmat_free(&want);
        free(w);
    }
    rig_close(&r);
}

/* No gridder knows these: by definition the nearest value at a scale from the largest magnitude. */
static void other_formats_take_the_nearest_value(void **state)
{
    (void)state;
    static const char *const grids[] = {"fp8_e4m3:channel", "nf4:g64", "fp4_e2m1:g32",
                                        "fp8_e5m2:tensor"};
    enum { ROWS = 9, COLS = 200 };
    struct pith_error err = {0};
    float *w = randoms(ROWS * COLS), back[COLS];
    memset(w, 0, COLS * sizeof *w); /* a row of zeros stays one */
    const struct pith_weight weight = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = w};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid grid = grid_of(grids[i]);
        struct pith_qmat q;
        assert_ok(pith_regrid(NULL, &weight, &grid, PITH_F16, &q, &err), err);
        assert_ok(pith_qmat_check(&q, &err), err);
        for (uint32_t row = 0; row < ROWS; row++) {
            pith_qmat_decode(&q, row, 1, back);
            for (uint32_t c = 0; c < COLS; c++) {
                const float scale = q.scales[pith_qmat_scale_index(&q, row, c / q.group)];
                float best = INFINITY;
                for (uint32_t code = 0; code < 1u << q.format->bits; code++) {
                    const float v = q.format->decode(code);
                    if (isfinite(v)) best = fminf(best, fabsf(v * scale - w[row * COLS + c]));
                }
                assert_true(fabsf(back[c] - w[row * COLS + c]) <= best + 1e-6f);
            }
        }
        pith_qmat_free(&q);
    }
    const struct pith_grid block = grid_of("bf16");
    struct pith_qmat q;
    assert_int_not_equal(pith_regrid(NULL, &weight, &block, PITH_F16, &q, NULL), PITH_OK);
    w[300] = NAN;
    const struct pith_grid grid = grid_of("int4:g128");
    assert_int_equal(pith_regrid(NULL, &weight, &grid, PITH_F16, &q, NULL), PITH_NUMERIC);
    free(w);
}

/* The block formats against num/block.h, row by row. */
static void block_formats_follow_their_definition(void **state)
{
    (void)state;
    enum { ROWS = 70, COLS = 96 };
    struct pith_error err = {0};
    float *w = randoms((size_t)ROWS * COLS), most = 0;
    for (size_t i = 0; i < ROWS * COLS; i++) most = fmaxf(most, fabsf(w[i]));
    const struct pith_weight weight = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = w};
    const char *const names[] = {"mxfp4", "mxfp8", "nvfp4"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const struct pith_grid grid = grid_of(names[i]);
        const struct pith_format *f = grid.format;
        const bool nvfp4 = i == 2;
        const float global = pith_round_global(&grid, most);
        struct pith_qmat q;
        assert_ok(pith_regrid(NULL, &weight, &grid, PITH_BF16, &q, &err), err);
        for (uint32_t r = 0; r < ROWS; r++) {
            float got[COLS], want[COLS];
            uint8_t codes[64];
            pith_qmat_decode(&q, r, 1, got);
            for (uint32_t c = 0; c < COLS; c += f->block) {
                const float *x = w + r * COLS + c;
                const uint8_t s = nvfp4 ? pith_nvfp4_scale(x, f->block, global)
                                        : pith_mx_scale(f, x, f->block);
                if (nvfp4) {
                    pith_nvfp4_encode(x, f->block, global, s, codes);
                    pith_nvfp4_decode(codes, f->block, global, s, want + c);
                } else {
                    pith_mx_encode(f, x, f->block, s, codes);
                    pith_mx_decode(f, codes, f->block, s, want + c);
                }
            }
            for (uint32_t c = 0; c < COLS; c++)
                assert_true(fabsf(got[c] - want[c]) <= 2e-7f * fabsf(want[c]));
        }
        pith_qmat_free(&q);
    }
    free(w);
}

static void compute(struct rig *r, const int32_t ids[4], float *logits)
{
    struct pith_error err = {0};
    struct pith_model *m = r->model;
    struct pith_session s;
    float *x = malloc(4 * m->shape.hidden * sizeof *x);
    const struct pith_session_options options = {
        .capacity = 4, .chunk = 4, .kv = pith_kv_floats(PITH_F32)};
    assert_ok(pith_session_init(&s, m, r->backend, &options, &err), err);
    assert_ok(pith_session_append(&s, ids, 4, x, &err), err);
    assert_ok(pith_model_logits(m, r->backend, x + 3 * m->shape.hidden, 1, logits, &err), err);
    pith_session_free(&s);
    free(x);
}

static void a_model_on_another_grid_still_computes(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    struct pith_model *m = r.model;
    const struct pith_grid linears = grid_of("int8:channel"), head = grid_of("int8:g32");
    const int32_t ids[] = {1, 5, 9, 2};
    float *before = malloc(m->shape.vocab * sizeof *before);
    float *after = malloc(m->shape.vocab * sizeof *after);
    float *packed = malloc(m->shape.vocab * sizeof *packed);
    assert_ok(pith_model_load_blocks(m, NULL, &err), err);
    compute(&r, ids, before);
    for (int pass = 0; pass < 2; pass++) { /* the second puts a grid upon a grid */
        assert_ok(pith_model_regrid(m, r.pool, &linears, &head, &err), err);
        compute(&r, ids, after);
    }
    memcpy(packed, after, m->shape.vocab * sizeof *packed);
    double error = 0, size = 0;
    for (uint32_t i = 0; i < m->shape.vocab; i++) {
        error += ((double)after[i] - before[i]) * ((double)after[i] - before[i]);
        size += (double)before[i] * before[i];
    }
    assert_true(error > 0 && sqrt(error / size) < 0.15);
    assert_non_null(m->blocks[0].linear[LLAMA_Q].w.quant);
    assert_non_null(m->head.quant);
    assert_null(m->embed.quant);
    assert_ok(pith_model_pack(m, r.backend, &err), err);
    assert_non_null(m->blocks[0].linear[LLAMA_Q].w.pack);
    assert_non_null(m->head.pack);
    assert_null(m->head.quant);
    compute(&r, ids, after);
    error = 0;
    for (uint32_t i = 0; i < m->shape.vocab; i++)
        error += ((double)after[i] - packed[i]) * ((double)after[i] - packed[i]);
    assert_true(sqrt(error / size) < 1e-6);
    free(before), free(after), free(packed);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_rounded_to_as_by_the_rounder),
        cmocka_unit_test(other_formats_take_the_nearest_value),
        cmocka_unit_test(block_formats_follow_their_definition),
        cmocka_unit_test(a_model_on_another_grid_still_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
