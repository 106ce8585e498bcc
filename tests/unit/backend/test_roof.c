/* backend/roof: what is measured, never how much it is. */
#include "backend/roof.h"
#include "base/cpu.h"
#include "test.h"

static void a_tier_has_the_peaks_of_its_instructions(void **state)
{
    (void)state;
    const uint32_t cpu = pith_cpu_detect(), bytes = PITH_CPU_VNNI | PITH_CPU_DOTPROD;
    const uint32_t masks[] = {PITH_CPU_SCALAR, PITH_CPU_AVX2, PITH_CPU_ALL};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        struct pith_error err = {0};
        struct pith_pool *pool;
        struct pith_backend *b;
        struct pith_roof *roof;
        struct pith_roof_sample s;
        assert_ok(pith_pool_new(2, &pool, &err), err);
        assert_ok(pith_backend_new(pool, masks[i], &b, &err), err);
        assert_ok(pith_roof_new(b, &roof, &err), err);
        pith_roof_measure(roof, &s);
        assert_true(s.read_one > 0 && s.read_all > 0 && s.f32 > 0);
        assert_int_equal(s.int8 > 0, (cpu & masks[i] & bytes) != 0);
        assert_int_equal(s.bf16 > 0, (cpu & masks[i] & PITH_CPU_BF16) != 0);
        pith_roof_free(roof);
        pith_backend_free(b);
        pith_pool_free(pool);
    }
    pith_roof_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tier_has_the_peaks_of_its_instructions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
