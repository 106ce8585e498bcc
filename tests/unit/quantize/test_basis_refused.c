/* quantize/site/change_basis: which streams can be rotated, by the plan of the model; the others
 * are refused. */
#include "quantize/site/change_basis.h"
#include "unit/model/arch_case.h"

static const struct {
    const char *name, *why; /* NULL: it can */
} cases[] = {
    {"llama", NULL},
    {"granite", NULL},
    {"phi3", NULL},
    {"qwen3_vl", NULL},
    {"qwen3_moe", NULL},
    {"gemma2", "what is added to the stream is no linear's result"},
    {"gemma3", "what is added to the stream is no linear's result"},
    {"glm4", "what is added to the stream is no linear's result"},
    {"olmo2", "linears read the stream without a norm before them"},
    {"exaone4", "linears read the stream without a norm before them"},
    {"cohere2", "its norms take away the mean or add a bias"},
};

static void by_the_plan(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_basis basis;
        struct pith_model *m;
        char *dir = arch_folder(cases[i].name);
        assert_ok(pith_model_open(dir, &m, &err), err);
        const struct pith_shape *s = &m->shape;
        struct pith_basis_plan plan = {.hidden = s->hidden,
                                       .head_dim = s->head_dim,
                                       .attention = s->heads * s->head_dim,
                                       .ffn = s->ffn,
                                       .stream = s->hidden};
        assert_ok(pith_basis_init(&basis, &plan, &err), err);
        const enum pith_status got = pith_rotate_check(&basis, m, &err);
        if (got != (cases[i].why ? PITH_UNSUPPORTED : PITH_OK))
            fail_msg("%s: status %d %s", cases[i].name, got, err.text);
        if (cases[i].why && !strstr(err.text, cases[i].why))
            fail_msg("%s: %s", cases[i].name, err.text);
        pith_basis_free(&basis);

        /* A rotation of what is online alone asks nothing of the stream. */
        plan.stream = 0;
        assert_ok(pith_basis_init(&basis, &plan, &err), err);
        assert_ok(pith_rotate_check(&basis, m, &err), err);
        pith_basis_free(&basis);
        pith_model_close(m);
        folder_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_the_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
