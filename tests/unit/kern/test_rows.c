/* Activations, and sums over rows side by side: each row of kernels.def that this CPU runs against
 * the scalar one, in buffers that end, and others that begin, where reading faults. */
#define _DEFAULT_SOURCE
#include "fenced.h"
#include "kern/ops.h"

enum { LONGEST = 300 };

typedef void check_fn(const struct pith_kernel *k, size_t n, enum fill kind);

static void check_act(const struct pith_kernel *k, size_t n, enum fill kind)
{
    pith_silu_fn *const scalar = k->op == PITH_OP_silu      ? pith_silu_scalar
                                 : k->op == PITH_OP_sigmoid ? pith_sigmoid_scalar
                                                            : pith_gelu_tanh_scalar;
    float *want = fresh(0, n, kind);
    if (n > 0 && kind == EXTREME) want[n / 2] = NAN;
    float *got = same(1, want, n);
    scalar(n, want);
    ((pith_silu_fn *)k->fn)(n, got);
    assert_bits(got, want, n, n);
}

static void check_softcap(const struct pith_kernel *k, size_t n, enum fill kind)
{
    for (float cap = 0.3f; cap < 200; cap *= 5) {
        float *want = fresh(0, n, kind), *got = same(1, want, n);
        pith_softcap_scalar(n, cap, want);
        ((pith_softcap_fn *)k->fn)(n, cap, got);
        assert_bits(got, want, n, n);
    }
}

static void check_clamped_mul(const struct pith_kernel *k, size_t n, enum fill kind)
{
    float *up = fresh(0, n, kind), *want = fresh(1, n, kind);
    if (n > 2 && kind == EXTREME) up[n - 1] = want[n - 2] = NAN;
    float *got = same(2, want, n);
    pith_clamped_mul_scalar(n, 7.0f, 1.702f, want, up);
    ((pith_clamped_mul_fn *)k->fn)(n, 7.0f, 1.702f, got, up);
    assert_bits(got, want, n, n);
}

static void check_mul(const struct pith_kernel *k, size_t n, enum fill kind)
{
    const float *x = fresh(0, n, kind);
    float *want = fresh(1, n, kind), *got = same(2, want, n);
    pith_mul_scalar(n, x, want);
    ((pith_mul_fn *)k->fn)(n, x, got);
    assert_bits(got, want, n, n);
}

static void check_lanes_panel(const struct pith_kernel *k, size_t n, enum fill kind)
{
    for (size_t rows = 0; rows <= 9; rows++) {
        const size_t ldx = n + rows % 3, ldy = PITH_LANES + rows % 2 * 5;
        const size_t yn = rows ? (rows - 1) * ldy + PITH_LANES : 0;
        const float *x = fresh(0, rows ? (rows - 1) * ldx + n : 0, kind);
        const float *w = fresh(1, n * PITH_LANES, kind);
        float *want = fresh(2, yn, kind), *got = same(3, want, yn);
        pith_lanes_panel_scalar(rows, n, x, ldx, w, want, ldy);
        ((pith_lanes_panel_fn *)k->fn)(rows, n, x, ldx, w, got, ldy);
        assert_bits(got, want, yn, n);
    }
}

static check_fn *const checks[PITH_OP_COUNT] = {
    [PITH_OP_silu] = check_act,
    [PITH_OP_sigmoid] = check_act,
    [PITH_OP_gelu_tanh] = check_act,
    [PITH_OP_softcap] = check_softcap,
    [PITH_OP_clamped_mul] = check_clamped_mul,
    [PITH_OP_mul] = check_mul,
    [PITH_OP_lanes_panel] = check_lanes_panel,
};

static void every_tier_equals_scalar(void **state)
{
    (void)state;
    const uint32_t cpu = pith_cpu_detect();
    for (size_t i = 0; i < pith_kernel_count; i++) {
        const struct pith_kernel *k = &pith_kernels[i];
        if ((k->isa & cpu) != k->isa || !checks[k->op]) continue;
        now = k->name;
        for (size_t n = 0; n <= LONGEST; n = n < 40 ? n + 1 : n * 2 + 7)
            for (enum fill kind = 0; kind < FILLS; kind++)
                if (kind == RANDOM || !behind_fence) checks[k->op](k, n, kind);
    }
    now = NULL;
}

/* The functions themselves, against libm. */
static void activations_follow_their_formulas(void **state)
{
    (void)state;
    enum { COUNT = 4001 };
    static float gelu[COUNT], cap[COUNT], silu[COUNT], sigmoid[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        gelu[i] = cap[i] = silu[i] = sigmoid[i] = ((float)i - COUNT / 2) / 128;
    pith_gelu_tanh_scalar(COUNT, gelu);
    pith_softcap_scalar(COUNT, 5.0f, cap);
    pith_silu_scalar(COUNT, silu);
    pith_sigmoid_scalar(COUNT, sigmoid);
    for (size_t i = 0; i < COUNT; i++) {
        const double x = ((double)i - COUNT / 2) / 128, root = sqrt(2 / acos(-1));
        const double g = 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
        const double s = 1 / (1 + exp(-x));
        if (!(fabs((double)gelu[i] - g) <= 1e-7 * fabs(g) + 1e-14 &&
              fabs((double)cap[i] - 5 * tanh(x / 5)) <= 1e-7 * fabs(x) &&
              fabs((double)silu[i] - x * s) <= 4e-7 * fabs(x * s) &&
              fabs((double)sigmoid[i] - s) <= 4e-7 * s))
            fail_msg("of %g: %g, %g, %g, %g", x, (double)gelu[i], (double)cap[i], (double)silu[i],
                     (double)sigmoid[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(every_tier_equals_scalar),
        cmocka_unit_test(activations_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
