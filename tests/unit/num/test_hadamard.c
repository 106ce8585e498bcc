/* num/hadamard: rows at right angles, the orders that models have, and Sylvester's signs. */
#include "base/mem.h"
#include "base/rng.h"
#include "num/hadamard.h"
#include "test.h"

#include <math.h>

/* The definition: entry (i, j) of Sylvester's matrix is -1 to the number of bits that i and j
 * share. */
static int sylvester(uint32_t i, uint32_t j)
{
    return __builtin_parity(i & j) ? -1 : 1;
}

/* False when there is no core of that order. */
static bool check_core(uint32_t m)
{
    int8_t *h = pith_alloc((size_t)m * m, 1);
    assert_non_null(h);
    if (!pith_hadamard_fill(m, h)) {
        pith_free(h);
        return false;
    }
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j <= i; j++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < m; k++) sum += h[(size_t)i * m + k] * h[(size_t)j * m + k];
            if (sum != (i == j ? (int32_t)m : 0)) fail_msg("order %u, rows %u and %u", m, i, j);
        }
    for (size_t i = 0; i < (size_t)m * m; i++)
        if (h[i] != 1 && h[i] != -1) fail_msg("order %u: entry %d", m, h[i]);
    pith_free(h);
    return true;
}

/* Every core that is claimed is a Hadamard matrix: over fields of primes, and of their powers. */
static void cores_are_hadamard_matrices(void **state)
{
    (void)state;
    unsigned count = 0;
    for (uint32_t m = 4; m <= 400; m += 4) count += check_core(m);
    assert_int_equal(count, 59);
}

static void widths_of_models_are_covered(void **state)
{
    (void)state;
    static const uint32_t widths[][2] = {
        /* width, its core */
        {1, 1},     {2, 1},       {64, 1},      {4096, 1},   {12, 12},     {20, 20},
        {28, 28},   {36, 36},     {40, 20},     {52, 52},    {60, 60},     {80, 20},
        {96, 12},   {108, 108},   {112, 28},    {140, 140},  {576, 36},    {768, 12},
        {896, 28},  {1152, 36},   {1536, 12},   {2304, 36},  {2560, 20},   {2880, 180},
        {3072, 12}, {3584, 28},   {5120, 20},   {5376, 84},  {6144, 12},   {6656, 52},
        {7168, 28}, {11008, 344}, {13824, 108}, {14336, 28}, {18944, 148}, {28672, 28},
    };
    for (size_t i = 0; i < PITH_COUNT(widths); i++) {
        assert_int_equal(pith_hadamard_core(widths[i][0]), widths[i][1]);
        assert_int_equal(pith_hadamard_divisor(widths[i][0]), widths[i][0]);
    }
}

static void other_widths_fall_back_to_blocks(void **state)
{
    (void)state;
    assert_int_equal(pith_hadamard_core(0), 0);
    assert_int_equal(pith_hadamard_core(3), 0);
    assert_int_equal(pith_hadamard_core(6), 0);
    assert_int_equal(pith_hadamard_core(156), 0);
    assert_int_equal(pith_hadamard_divisor(156), 52);
    assert_int_equal(pith_hadamard_divisor(15), 1);
    assert_int_equal(pith_hadamard_divisor(6), 2);
    assert_int_equal(pith_hadamard_divisor(1), 1);
    assert_int_equal(pith_hadamard_power(14336, 512), 512);
    assert_int_equal(pith_hadamard_power(14336, 4096), 2048);
    assert_int_equal(pith_hadamard_power(768, UINT32_MAX), 256);
    assert_int_equal(pith_hadamard_power(15, 32), 1);
    int8_t h[36];
    assert_false(pith_hadamard_fill(6, h));
}

/* Small integers: every sum is exact, so the result is the definition's to the bit. */
static void rows_are_sylvesters_product(void **state)
{
    (void)state;
    struct pith_rng rng;
    float x[3 * 64], want[3 * 64];
    pith_rng_seed(&rng, 1);
    for (uint32_t block = 1; block <= 64; block *= 2) {
        const float scale = (float)(1 / sqrt((double)block));
        for (size_t i = 0; i < PITH_COUNT(x); i++) x[i] = (float)(pith_rng_below(&rng, 65)) - 32;
        for (uint32_t i = 0; i < PITH_COUNT(x); i++) {
            float sum = 0;
            for (uint32_t j = 0; j < block; j++)
                sum += (float)sylvester(i % block, j) * x[i / block * block + j];
            want[i] = sum * scale;
        }
        pith_hadamard_rows(x, 3, 64, block);
        assert_memory_equal(x, want, sizeof x);
    }
}

static void rows_twice_are_the_rows(void **state)
{
    (void)state;
    struct pith_rng rng;
    enum { DIM = 1536, BLOCK = 512 };
    static float x[2 * DIM], was[2 * DIM];
    pith_rng_seed(&rng, 2);
    for (size_t i = 0; i < PITH_COUNT(x); i++) was[i] = x[i] = (float)pith_rng_normal(&rng);
    x[7] = was[7] = 1000; /* an outlier, spread over its block */
    pith_hadamard_rows(x, 2, DIM, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) assert_true(fabsf(x[i]) < 60);
    for (size_t i = BLOCK; i < PITH_COUNT(x); i++) assert_true(fabsf(x[i]) < 10);
    pith_hadamard_rows(x, 2, DIM, BLOCK);
    for (size_t i = 0; i < PITH_COUNT(x); i++) assert_true(fabsf(x[i] - was[i]) < 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_hadamard_matrices),
        cmocka_unit_test(widths_of_models_are_covered),
        cmocka_unit_test(other_widths_fall_back_to_blocks),
        cmocka_unit_test(rows_are_sylvesters_product),
        cmocka_unit_test(rows_twice_are_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
