/* The exl3 container and the codes that it holds, against exllamav3's own Python. */
#include "num/trellis.h"

#include "base/mem.h"
#include "base/rng.h"
#include "io/checkpoint.h"
#include "io/container/container.h"
#include "test.h"

#include <math.h>

#define GOLDEN "tests/golden/exl3/golden.safetensors"
enum { ROWS = 128, COLS = 256, STEP = 8 };

static const struct {
    const char *name;
    enum pith_trellis_code code;
    unsigned bits;
} cases[] = {{"mul1", PITH_TRELLIS_MUL1, 3},
             {"mcg", PITH_TRELLIS_MCG, 2},
             {"3inst", PITH_TRELLIS_3INST, 4}};

struct golden {
    struct pith_safetensors st;
    struct pith_checkpoint c;
    void *state; /* of the container */
};

static void open_golden(struct golden *g)
{
    struct pith_error err = {0};
    assert_ok(pith_safetensors_open(GOLDEN, &g->st, &err), err);
    g->c = (struct pith_checkpoint){.dir = (char *)(uintptr_t) "golden",
                                    .files = &g->st,
                                    .file_count = 1,
                                    .tensors = g->st.tensors,
                                    .count = g->st.count};
    assert_ok(pith_container_find("exl3")->open(&g->c, &g->state, &err), err);
}

static const struct pith_tensor *tensor(const struct golden *g, const char *name)
{
    for (size_t i = 0; i < g->st.count; i++)
        if (strcmp(g->st.tensors[i].name, name) == 0) return &g->st.tensors[i];
    fail_msg("%s: not there", name);
    return NULL;
}

static void windows_say_what_numpy_has(void **state)
{
    struct golden g;
    (void)state;
    open_golden(&g);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char name[32];
        snprintf(name, sizeof name, "values.%s", cases[i].name);
        const float *want = (const void *)tensor(&g, name)->data;
        for (uint32_t group = 0; group < 64; group++) {
            double sum = 0;
            for (uint32_t w = 0; w < 1024; w++)
                sum += (double)pith_trellis_value(cases[i].code, cases[i].bits, group * 1024 + w);
            assert_true((float)sum == want[group]);
        }
    }
    pith_safetensors_close(&g.st);
}

/* Sums are in another order there, so the last bits differ. */
static void matrices_are_exllamav3s(void **state)
{
    struct golden g;
    const struct pith_container *exl3 = pith_container_find("exl3");
    static float all[ROWS * COLS], part[COLS];
    (void)state;
    open_golden(&g);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_qmat q;
        bool found = false;
        char name[32];
        assert_ok(exl3->load(g.state, &g.c, cases[i].name, ROWS, COLS, &q, &found, &err), err);
        assert_true(found);
        assert_ptr_equal(q.format, pith_trellis_format(cases[i].code, cases[i].bits));
        pith_qmat_decode(&q, 0, ROWS, all);
        snprintf(name, sizeof name, "want.%s", cases[i].name);
        const float *want = (const void *)tensor(&g, name)->data;
        double squares = 0, wrong = 0;
        for (size_t r = 0; r < ROWS; r += STEP)
            for (size_t c = 0; c < COLS; c += STEP) {
                const double w = *want++, d = (double)all[r * COLS + c] - w;
                squares += w * w;
                wrong = fmax(wrong, fabs(d));
            }
        assert_true(wrong < 1e-6 * sqrt(squares / ROWS / COLS * STEP * STEP) * 10);
        for (uint32_t r = 0; r < ROWS; r += 37) { /* one row by itself, and parts of it */
            pith_qmat_decode(&q, r, 1, part);
            assert_memory_equal(part, all + r * COLS, sizeof part);
            pith_qmat_decode_part(&q, r, 100, 77, part);
            assert_memory_equal(part, all + r * COLS + 100, 77 * sizeof *part);
        }
        pith_qmat_free(&q);
    }
    pith_safetensors_close(&g.st);
}

static void check_tile(enum pith_trellis_code code, unsigned bits, struct pith_rng *rng)
{
    uint8_t tile[256], again[256];
    uint16_t window[PITH_TRELLIS_WEIGHTS];
    for (size_t i = 0; i < pith_trellis_bytes(bits); i++) tile[i] = (uint8_t)pith_rng_next(rng);
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++)
        window[i] =
            (uint16_t)pith_trellis_window(&(struct pith_trellis_tile){code, bits, tile}, i);
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++) /* neighbours share their bits */
        assert_int_equal(window[i] & (0xffff >> bits),
                         window[(i + 1) % PITH_TRELLIS_WEIGHTS] >> bits);
    pith_trellis_pack(code, window, bits, again);
    assert_memory_equal(tile, again, pith_trellis_bytes(bits));
}

static void tiles_come_back(void **state)
{
    struct pith_rng rng;
    (void)state;
    pith_rng_seed(&rng, 7);
    for (enum pith_trellis_code code = 0; code < PITH_TRELLIS_CODES; code++)
        for (unsigned bits = 1; bits <= 8; bits++) check_tile(code, bits, &rng);
}

static void a_matrix_is_whole_blocks(void **state)
{
    (void)state;
    struct pith_qmat q;
    struct pith_grid grid;
    struct pith_error err = {0};
    assert_ok(pith_grid_parse("trellis3", &grid, &err), err);
    assert_int_equal(pith_qmat_init(&q, 128, 64, &grid, PITH_F16, &err), PITH_ARG);
    assert_int_equal(pith_qmat_init(&q, 96, 128, &grid, PITH_F16, &err), PITH_ARG);
    assert_ok(pith_qmat_init(&q, 256, 128, &grid, PITH_F16, &err), err);
    /* 3 bits, 16 a column and a row */
    assert_true(pith_qmat_bits_per_weight(&q) == 3 + 16.0 / 256 + 16.0 / 128);
    pith_qmat_free(&q);
    assert_int_equal(pith_grid_parse("trellis3:g128", &grid, &err), PITH_ARG);
    assert_int_equal(pith_grid_parse("trellis3:asym", &grid, &err), PITH_ARG);
}

/* What was read is written as it was; signs alone become factors. */
static void writes_what_it_reads(void **state)
{
    struct golden g;
    const struct pith_container *exl3 = pith_container_find("exl3");
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    (void)state;
    open_golden(&g);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_packed_set set, plan;
        struct pith_qmat q;
        bool found;
        assert_ok(exl3->load(g.state, &g.c, cases[i].name, ROWS, COLS, &q, &found, &err), err);
        const struct pith_grid grid = pith_qmat_grid(&q);
        assert_ok(pith_container_pack(exl3, &q, &opts, &set, &err), err);
        assert_ok(exl3->plan(&grid, ROWS, COLS, &opts, &plan, &err), err);
        assert_int_equal(set.count, cases[i].code == PITH_TRELLIS_3INST ? 3 : 4);
        assert_int_equal(set.count, plan.count);
        for (unsigned p = 0; p < set.count; p++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", cases[i].name, set.item[p].suffix);
            assert_string_equal(set.item[p].suffix, plan.item[p].suffix);
            if (cases[i].code == PITH_TRELLIS_3INST && p > 0) continue;
            const struct pith_tensor *t = tensor(&g, name);
            assert_int_equal(t->dtype, set.item[p].dtype);
            assert_int_equal(t->bytes, set.item[p].bytes);
            assert_int_equal(t->dims, set.item[p].dims);
            assert_memory_equal(t->data, set.item[p].data, t->bytes);
        }
        pith_packed_free(&set);
        pith_qmat_free(&q);
    }
    pith_safetensors_close(&g.st);
}

static void files_that_lie_are_refused(void **state)
{
    const struct pith_container *exl3 = pith_container_find("exl3");
    (void)state;
    for (int lie = 0; lie < 6; lie++) {
        struct golden g;
        struct pith_error err = {0};
        struct pith_qmat q;
        bool found = true;
        open_golden(&g);
        struct pith_tensor *t = (struct pith_tensor *)(uintptr_t)tensor(&g, "mul1.trellis");
        struct pith_tensor *suh = (struct pith_tensor *)(uintptr_t)tensor(&g, "mul1.suh");
        if (lie == 0) t->shape[2] = 47;
        if (lie == 1) t->shape[2] = 9 * 16;
        if (lie == 2) t->dims = 2;
        if (lie == 3) t->dtype = PITH_I32;
        if (lie == 4) t->shape[0]++;
        if (lie == 5) suh->shape[0]--;
        const enum pith_status s = exl3->load(g.state, &g.c, "mul1", ROWS, COLS, &q, &found, &err);
        assert_int_equal(s, PITH_FORMAT);
        assert_false(found);
        pith_safetensors_close(&g.st);
    }
}

static void what_it_cannot_hold_is_refused(void **state)
{
    const struct pith_container *exl3 = pith_container_find("exl3");
    struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    struct pith_grid grid, other, own;
    struct pith_error err = {0};
    (void)state;
    assert_ok(pith_grid_parse("trellis3", &grid, &err), err);
    assert_ok(pith_grid_parse("int4:g128", &other, &err), err);
    assert_ok(exl3->accepts(&grid, 128, 384, &opts, &err), err);
    assert_int_equal(exl3->accepts(&grid, 128, 64, &opts, &err), PITH_UNSUPPORTED);
    assert_int_equal(exl3->accepts(&grid, 192, 128, &opts, &err), PITH_UNSUPPORTED);
    assert_int_equal(exl3->accepts(&other, 128, 128, &opts, &err), PITH_UNSUPPORTED);
    assert_ok(pith_grid_parse("trellis3_mul2", &own, &err), err);
    err = (struct pith_error){0};
    assert_int_equal(exl3->accepts(&own, 128, 128, &opts, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "exllamav3 has no code mul2"));
    opts.acts = other;
    assert_int_equal(exl3->accepts(&grid, 128, 128, &opts, &err), PITH_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_say_what_numpy_has),
        cmocka_unit_test(matrices_are_exllamav3s),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(tiles_come_back),
        cmocka_unit_test(a_matrix_is_whole_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
