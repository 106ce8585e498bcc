/* choose/kv_measure: by shares, parts together lose what all of a side lose at once, and each as
 * much more than another in one candidate as in the others; and how much is measured. */
#include "choose/kv_measure.h"

#include "unit/eval/fixture.h"

struct plan_rig {
    struct rig rig;
    struct pith_kv_auto_job job;
    struct pith_kv_plan plan;
    struct pith_kv_judge judge;
};

static void open_plan(struct plan_rig *r)
{
    struct pith_error err = {0};
    rig_open(&r->rig, GOLDEN "tiny", 2);
    assert_ok(pith_model_load_blocks(r->rig.worse, r->rig.backend, &err), err);
    r->job = (struct pith_kv_auto_job){
        .backend = r->rig.backend, .model = r->rig.worse, .tokenizer = r->rig.tokenizer};
    r->plan = (struct pith_kv_plan){.job = &r->job, .levels = true};
    assert_ok(pith_kv_plan_find(&r->plan, &err), err);
    assert_ok(pith_kv_judge_open(&r->plan, 512, &r->judge, &err), err);
}

static void close_plan(struct plan_rig *r)
{
    pith_kv_judge_close(&r->plan, &r->judge);
    pith_kv_plan_free(&r->plan);
    rig_close(&r->rig);
}

/* What all of a side lose in that row. */
static struct pith_text_result lost_by(struct plan_rig *r, enum pith_kv_side side, size_t row)
{
    struct pith_kv_plan *p = &r->plan;
    struct pith_text_result got;
    struct pith_error err = {0};
    for (uint32_t i = 0; i < p->job->model->plans.layers; i++)
        p->layer[i] = pith_kv_floats(PITH_F32);
    for (size_t i = 0; i < p->parts; i++)
        if (p->part[i].side == side)
            pith_kv_plan_set(p, &p->layer[p->part[i].layer], side, &p->part[i].row[row]);
    assert_ok(pith_kv_judge_cache(p, &r->judge, &got, &err), err);
    return got;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%g instead of %g", a, b);
}

/* The share of a loss that remains in the next row, which is the same with the current page in
 * floats; 0: it is not. */
static double near_share(const struct pith_kv_plan_part *part, size_t i)
{
    const bool has = i + 1 < part->rows && part->row[i + 1].candidate == part->row[i].candidate;
    return has ? part->row[i + 1].loss / part->row[i].loss : 0;
}

/* In all candidates one part loses as many times as much as another, and as much of what it loses
 * remains near. */
static void expect_shares(const struct pith_kv_plan_part *a, const struct pith_kv_plan_part *b)
{
    const double ratio = a->row[0].loss / b->row[0].loss;
    double near = 0;
    for (size_t i = 0; i < a->rows; i++) {
        if (i > 0 && a->row[i - 1].candidate == a->row[i].candidate) continue;
        const double share = near_share(a, i);
        assert_near(a->row[i].loss / b->row[i].loss, ratio);
        if (!(share > 0)) continue;
        assert_near(share, near > 0 ? near : share);
        near = share;
    }
    assert_true(near > 0 && near < 1);
}

static void shares_add_up(void **state)
{
    (void)state;
    struct plan_rig r;
    struct pith_error err = {0};
    open_plan(&r);
    const struct pith_kv_extent shared = {.tokens = 512};
    assert_ok(pith_kv_measure_rows(&r.plan, &shared, &r.judge, &err), err);
    assert_true(r.plan.parts >= 4 && r.plan.part[0].side == PITH_KV_KEYS &&
                r.plan.part[1].side == PITH_KV_VALUES);
    for (enum pith_kv_side side = PITH_KV_KEYS; side <= PITH_KV_VALUES; side++) {
        const struct pith_kv_plan_part *a = &r.plan.part[side];
        expect_shares(a, a + 2);
        for (size_t i = 0; i < a->rows; i++) {
            double loss = 0, mean = 0;
            if (i > 0 && a->row[i - 1].candidate == a->row[i].candidate) continue;
            for (size_t k = side; k < r.plan.parts; k += 2) {
                loss += r.plan.part[k].row[i].loss;
                mean += r.plan.part[k].row[i].mean;
            }
            const struct pith_text_result all = lost_by(&r, side, i);
            assert_near(loss, all.kld_capped);
            assert_near(mean, all.kld_mean);
        }
    }
    close_plan(&r);
}

static void one_part_alone(void **state)
{
    (void)state;
    struct plan_rig r;
    struct pith_error err = {0};
    open_plan(&r);
    const struct pith_kv_extent singly = {.singly = true, .tokens = 512};
    assert_ok(pith_kv_measure_rows(&r.plan, &singly, &r.judge, &err), err);
    const struct pith_kv_plan_part *last = &r.plan.part[r.plan.parts - 1];
    struct pith_text_result got;
    for (uint32_t i = 0; i < r.job.model->plans.layers; i++)
        r.plan.layer[i] = pith_kv_floats(PITH_F32);
    pith_kv_plan_set(&r.plan, &r.plan.layer[last->layer], last->side, &last->row[3]);
    assert_ok(pith_kv_judge_cache(&r.plan, &r.judge, &got, &err), err);
    assert_near(last->row[3].loss, got.kld_capped);
    close_plan(&r);
}

/* A model of a huge vocabulary is not measured row by row, and on fewer tokens. */
static void larger_models_are_measured_less(void **state)
{
    (void)state;
    struct plan_rig r;
    open_plan(&r);
    const struct pith_kv_extent small = pith_kv_extent_of(&r.plan);
    const uint32_t vocab = r.rig.worse->shape.vocab;
    assert_true(small.singly && small.tokens == 2048 && small.whole == 4096 &&
                small.most == 10 * r.rig.worse->shape.layers);
    r.rig.worse->shape.vocab = 1u << 26;
    const struct pith_kv_extent large = pith_kv_extent_of(&r.plan);
    r.rig.worse->shape.vocab = vocab;
    assert_true(!large.singly && large.tokens == 512 && large.whole == 2048 && large.most == 12);
    close_plan(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(one_part_alone),
        cmocka_unit_test(larger_models_are_measured_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
