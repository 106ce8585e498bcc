/* AdamW: against torch.optim.AdamW (lr 0.1, betas 0.9 and 0.95, eps 1e-8, weight decay 0.01; torch
 * 2.x, float32), and its bits for any thread count and instruction set. */
#include "backend/adamw.h"
#include "base/cpu.h"
#include "test.h"

#include <math.h>

enum { COUNT = 4, STEPS = 4, MANY = 50000 };

static void gradient(size_t t, float g[COUNT])
{
    g[0] = 0.3f * (float)t;
    g[1] = -1.0f;
    g[2] = t % 2 ? -1.0f : 1.0f;
    g[3] = 1e-4f * (float)t;
}

static void steps_equal_torch(void **state)
{
    static const float want[STEPS][COUNT] = {
        {0.89899999f, -1.89800000f, 0.59950000f, -0.09998999f},
        {0.80230236f, -1.79610205f, 0.59363735f, -0.19568259f},
        {0.70704907f, -1.69430590f, 0.62662309f, -0.28993359f},
        {0.61225736f, -1.59261155f, 0.62073332f, -0.38372499f}};
    (void)state;
    struct pith_error err = {0};
    struct pith_backend *b;
    float p[COUNT] = {1, -2, 0.5f, 0}, m[COUNT] = {0}, v[COUNT] = {0}, g[COUNT];
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &b, &err), err);
    for (size_t t = 1; t <= STEPS; t++) {
        gradient(t, g);
        pith_adamw(b, &(struct pith_adamw){.p = p,
                                           .m = m,
                                           .v = v,
                                           .g = g,
                                           .n = COUNT,
                                           .step = t,
                                           .rate = 0.1f,
                                           .beta1 = 0.9f,
                                           .beta2 = 0.95f,
                                           .eps = 1e-8f,
                                           .decay = 0.01f});
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabsf(p[i] - want[t - 1][i]) <= 2e-6f);
    }
    pith_backend_free(b);
}

static void same_bits_for_any_thread_count(void **state)
{
    static float p[2][MANY], m[2][MANY], v[2][MANY], g[MANY];
    (void)state;
    for (size_t i = 0; i < MANY; i++) g[i] = (float)((int)(37 * i % 101) - 50) / 50.0f;
    for (unsigned k = 0; k < 2; k++) {
        struct pith_error err = {0};
        struct pith_pool *pool;
        struct pith_backend *b;
        assert_ok(pith_pool_new(1 + 2 * k, &pool, &err), err);
        assert_ok(pith_backend_new(pool, k ? PITH_CPU_ALL : 0, &b, &err), err);
        for (size_t t = 1; t <= 3; t++)
            pith_adamw(b, &(struct pith_adamw){.p = p[k],
                                               .m = m[k],
                                               .v = v[k],
                                               .g = g,
                                               .n = MANY,
                                               .step = t,
                                               .rate = 0.01f,
                                               .beta1 = 0.9f,
                                               .beta2 = 0.95f,
                                               .eps = 1e-15f});
        pith_backend_free(b);
        pith_pool_free(pool);
    }
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_equal_torch),
                                       cmocka_unit_test(same_bits_for_any_thread_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
