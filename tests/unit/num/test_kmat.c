/* num/gguf/kmat: matrices in GGUF's blocks. */
#include "base/mem.h"
#include "base/rng.h"
#include "num/gguf/kmat.h"
#include "test.h"

#include <math.h>

enum { ROWS = 3, COLS = 512 };

/* Blocks with finite scales, some of them 0. */
static uint8_t *random_blocks(const struct pith_kquant *t, struct pith_rng *rng, size_t *bytes)
{
    *bytes = pith_kmat_bytes(t, ROWS, COLS);
    assert_true(*bytes > 0 && *bytes % t->bytes == 0);
    uint8_t *out = malloc(*bytes);
    for (size_t at = 0; at < *bytes; at += t->bytes) {
        struct pith_kblock b;
        do
            for (size_t i = 0; i < t->bytes; i++) out[at + i] = (uint8_t)pith_rng_next(rng);
        while (!pith_kquant_unpack(t, out + at, &b));
        /* Bytes that pack() gives again: one form of a scale of 0. */
        assert_true(pith_kquant_pack(t, &b, out + at));
    }
    return out;
}

static void every_type_comes_and_goes(void **state)
{
    (void)state;
    struct pith_rng rng;
    struct pith_error err = {0};
    size_t count, bytes;
    const struct pith_kquant *all = pith_kquants(&count);
    pith_rng_seed(&rng, 5);
    for (size_t i = 0; i < count; i++) {
        const struct pith_kquant *t = &all[i];
        uint8_t *blocks = random_blocks(t, &rng, &bytes), *again = malloc(bytes);
        struct pith_qmat q;
        const float global = strcmp(t->name, "NVFP4") == 0 ? 0.37f : 1.0f;
        assert_ok(pith_kmat_unpack(t, blocks, ROWS, COLS, global, &q, &err), err);
        assert_ok(pith_qmat_check(&q, &err), err);
        assert_string_equal(pith_qmat_grid(&q).format->name, t->format);
        assert_true(pith_qmat_bits_per_weight(&q) == 8.0 * t->bytes / t->elements);
        for (uint32_t r = 0; r < ROWS; r++) {
            float row[COLS], want[PITH_KBLOCK];
            pith_qmat_decode(&q, r, 1, row);
            for (size_t c = 0; c < COLS; c += t->elements) {
                struct pith_kblock b;
                pith_kquant_unpack(t, blocks + ((size_t)r * COLS + c) / t->elements * t->bytes, &b);
                for (size_t k = 0; global != 1.0f && k < PITH_KSUBS; k++) b.scale[k] *= global;
                pith_kquant_values(t, &b, want);
                for (size_t e = 0; e < t->elements; e++) assert_true(row[c + e] == want[e]);
            }
        }
        assert_ok(pith_kmat_pack(t, &q, 0, ROWS, again, &err), err);
        assert_memory_equal(blocks, again, bytes);
        memset(again, 0, bytes);
        assert_ok(pith_kmat_pack(t, &q, 1, 1, again, &err), err);
        assert_memory_equal(blocks + bytes / ROWS, again, bytes / ROWS);
        pith_qmat_free(&q);
        free(blocks);
        free(again);
    }
}

/* int4 in groups of 32 with halves as scales is Q4_0, and nothing else is. */
static void other_matrices_are_judged(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_grid grid;
    struct pith_qmat q;
    uint8_t blocks[ROWS * COLS];
    assert_ok(pith_grid_parse("int4:g32", &grid, &err), err);
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F16, &err), err);
    for (size_t i = 0; i < pith_qmat_scale_count(&q); i++) q.scales[i] = (float)(i + 1) / 64;
    assert_ok(pith_kmat_pack(pith_kquant_find("Q4_0"), &q, 0, ROWS, blocks, &err), err);
    size_t count;
    const struct pith_kquant *all = pith_kquants(&count);
    for (size_t i = 0; i < count; i++) {
        err = (struct pith_error){0};
        if (strcmp(all[i].name, "Q4_0") == 0) continue;
        assert_int_equal(pith_kmat_pack(&all[i], &q, 0, ROWS, blocks, &err), PITH_UNSUPPORTED);
    }
    q.scales[5] = 0.1f; /* no half */
    err = (struct pith_error){0};
    assert_int_equal(pith_kmat_pack(pith_kquant_find("Q4_0"), &q, 0, ROWS, blocks, &err),
                     PITH_UNSUPPORTED);
    pith_qmat_free(&q);
}

static void shapes_and_scales_are_checked(void **state)
{
    (void)state;
    const struct pith_kquant *t = pith_kquant_find("q4_k");
    struct pith_qmat q;
    uint8_t block[144] = {0};
    struct pith_error err = {0};
    assert_int_equal(pith_kmat_bytes(t, 2, 128), 0);
    assert_int_equal(pith_kmat_bytes(t, 2, 512), 576);
    assert_int_equal(pith_kmat_unpack(t, block, 1, 128, 1.0f, &q, &err), PITH_ARG);
    assert_null(q.codes);
    block[1] = 0x7c; /* d is infinite */
    err = (struct pith_error){0};
    assert_int_equal(pith_kmat_unpack(t, block, 1, 256, 1.0f, &q, &err), PITH_FORMAT);
    assert_null(q.codes);
    const struct pith_grid grid = {
        .format = pith_format_find("q4_k"), .granularity = PITH_PER_GROUP, .group = 32};
    err = (struct pith_error){0};
    assert_int_equal(pith_qmat_init(&q, 1, 128, &grid, PITH_F16, &err), PITH_ARG);
    /* 8 scales and offsets, d and dmin, 128 bytes of codes. */
    assert_int_equal(pith_qmat_bytes(1, 256, &grid), 8 * 8 + 8 + 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_and_goes),
        cmocka_unit_test(other_matrices_are_judged),
        cmocka_unit_test(shapes_and_scales_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
