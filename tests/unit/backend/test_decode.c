/* Whole rows by the kernels are what num/ makes of them, to the bit. */
#include "setups.h"

enum { ROWS = 9, COLS = 150 };

static void check(const struct setups *s, const struct pith_weight *w)
{
    float want[ROWS * COLS], got[ROWS * COLS];
    pith_weight_decode(w, 0, ROWS, want);
    for (size_t i = 0; i < s->count; i++) {
        memset(got, 0xff, sizeof got);
        pith_decode_rows(s->backend[i], w, 0, 2, got);
        pith_decode_rows(s->backend[i], w, 2, ROWS - 2, got + 2 * COLS);
        assert_memory_equal(got, want, sizeof want);
    }
}

static void integers(void **state)
{
    (void)state;
    static const char *const grids[] = {"int2:g32",    "int3:g50:asym",   "int4:g128",
                                        "int4:g7",     "int4:channel",    "int5:g64",
                                        "int6:tensor", "int7:g16:asym",   "int8:g30:asym",
                                        "int8:tensor", "fp8_e4m3:channel"};
    struct setups s;
    struct pith_rng rng;
    pith_rng_seed(&rng, 3);
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_qmat q;
        assert_ok(pith_grid_parse(grids[i], &grid, &err), err);
        assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F32, &err), err);
        const size_t scales = pith_qmat_scale_count(&q);
        for (size_t k = 0; k < scales; k++) {
            q.scales[k] = (float)pith_rng_normal(&rng);
            if (q.zeros) q.zeros[k] = (uint8_t)pith_rng_below(&rng, 1u << grid.format->bits);
        }
        for (uint32_t r = 0; r < ROWS; r++) {
            uint8_t codes[COLS];
            for (size_t c = 0; c < COLS; c++)
                codes[c] = (uint8_t)pith_rng_below(&rng, (1u << grid.format->bits) - 1);
            pith_qmat_set_codes(&q, r, codes);
        }
        const struct pith_weight w = {.rows = ROWS, .cols = COLS, .quant = &q};
        check(&s, &w);
        uint32_t *order = pith_alloc(COLS, sizeof *order);
        for (uint32_t c = 0; c < COLS; c++) order[c] = (c * 7 + 3) % q.groups;
        q.g_idx = order;
        check(&s, &w);
        pith_qmat_free(&q);
    }
    setups_close(&s);
}

static void floats_of_all_widths(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    float *x = normals(ROWS * COLS + 1, 5);
    uint16_t half[ROWS * COLS + 1];
    struct pith_weight w = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = x};
    check(&s, &w);
    static const enum pith_dtype types[] = {PITH_F16, PITH_BF16};
    for (size_t i = 0; i < PITH_COUNT(types); i++) {
        assert_true(pith_dtype_encode(types[i], x, ROWS * COLS, half));
        w.dtype = types[i];
        w.dense = half;
        check(&s, &w);
        memmove((char *)half + 1, half, ROWS * COLS * sizeof *half);
        w.dense = (char *)half + 1;
        check(&s, &w);
    }
    pith_free(x);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(floats_of_all_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
