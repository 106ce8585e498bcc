/* eval/speed: of a mixture, a token reads the experts that it takes and no others. */
#include "eval/speed/speed.h"
#include "unit/model/arch_case.h"

/* Two layers of eight experts, of which a token takes two, 44 wide; half as many key heads. */
static void of_experts_those_taken_are_counted(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_model *m;
    char *dir = arch_folder("mixtral");
    assert_ok(pith_model_open(dir, &m, &err), err);
    assert_ok(pith_model_load_blocks(m, NULL, &err), err);
    const struct pith_shape *s = &m->shape;
    const double h = s->hidden, experts = 2 * 8 * 3 * h * 44;
    const double once = 2 * (2 * h * h + 2 * h * h / 2 + 8 * h), head = s->vocab * h;
    assert_true(s->layers == 2 && s->moe.experts == 8 && s->moe.taken == 2);
    assert_true(pith_speed_weight_bytes(m, 1) ==
                4 * (once + experts / 4 + head + h + h * (2 * s->layers + 1)));
    assert_true(pith_speed_prefill_operations(m, 7) == 2 * (7 * (once + experts / 4) + head));
    pith_model_close(m);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_experts_those_taken_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
