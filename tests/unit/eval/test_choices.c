/* eval/task/choices: what choices that fork from their shared context are worth has the bits that
 * it has when each sequence is read by itself. */
#include "eval/task/choices.h"
#include "eval/task/task.h"
#include "unit/eval/fixture.h"

/* One by one or together, into *out, which the caller frees. */
static void answer(struct rig *r, const struct pith_items *items, const char *kv, bool apart,
                   struct pith_task_answers *out)
{
    struct pith_error err = {0};
    struct pith_choices c;
    struct pith_scorer_options o = {.name = "model"};
    assert_ok(pith_kv_parse(kv, PITH_F32, r->model, &o.kv, &err), err);
    assert_ok(pith_choices_init(&c, items, r->model, r->backend, o, &err), err);
    *out = (struct pith_task_answers){.score = pith_alloc(items->choices, sizeof *out->score),
                                      .greedy = pith_alloc(items->choices, sizeof *out->greedy),
                                      .count = items->choices};
    c.scorer.session.runner.apart = apart;
    for (size_t i = 0; i < items->count; i++)
        assert_ok(pith_choices_answer(&c, &items->item[i], out, &err), err);
    assert_int_equal(c.scorer.session.runner.kv.sequence[1].open, 0);
    pith_choices_free(&c);
}

static void together_as_alone(void **state)
{
    (void)state;
    static const struct {
        const char *path, *kv;
        size_t shots;
    } cases[] = {{GOLDEN "tiny.jsonl", "f32", 0},
                 {GOLDEN "tiny.jsonl", "int4:token", 2},
                 {"copy:120", "bf16", 0},
                 {"kv:120", "k=int8:token,v=f32", 0}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct rig r;
        rig_open(&r, GOLDEN "tiny", 1 + (unsigned)i % 2);
        struct pith_error err = {0};
        const struct pith_task_job job = {.backend = r.backend,
                                          .model = r.model,
                                          .tokenizer = r.tokenizer,
                                          .path = cases[i].path,
                                          .shots = cases[i].shots,
                                          .limit = 3};
        struct pith_task_source source;
        struct pith_items items;
        struct pith_task_answers one, all;
        assert_ok(pith_task_items(&job, &source, &items, &err), err);
        answer(&r, &items, cases[i].kv, true, &one);
        answer(&r, &items, cases[i].kv, false, &all);
        assert_memory_equal(all.score, one.score, items.choices * sizeof *one.score);
        assert_memory_equal(all.greedy, one.greedy, items.choices * sizeof *one.greedy);
        pith_task_answers_free(&one);
        pith_task_answers_free(&all);
        pith_items_free(&items);
        pith_task_source_free(&source);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_as_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
