/* quant/round/gptq.c against the authors' implementation on the same Hessian and grid. */
#include "oracle_round.h"

static void check_case(const json_t *c, FILE *codes)
{
    uint64_t state;
    struct problem p = problem_drawn(c, &state);
    const struct rounded_case r = round_case(c, &p, codes);
    assert_true(fabs(r.report.loss - r.loss) <= 0.02 * r.loss);
    assert_true(r.other * 50 <= r.codes);
    free_problem(&p);
}

static void losses_are_the_reference_implementations(void **state)
{
    (void)state;
    each_case("gptq", 14, check_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_the_reference_implementations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
