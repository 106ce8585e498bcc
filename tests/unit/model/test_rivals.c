/* What another choice of experts would change is what it does change once a router's row is bent so
 * far that it happens; and gradients of margins are differences of margins. */
#include "unit/model/arch_case.h"
#include "unit/model/grad_bench.h"

#include "model/nodes/nodes.h"

struct rivals {
    struct pith_tape_rivals r;
    struct pith_rival rival[PROMPT_MAX];
    float weight[PROMPT_MAX];
    uint32_t row[PROMPT_MAX];
};

static void rivals_init(struct rivals *v, const struct bench *t)
{
    v->r = (struct pith_tape_rivals){
        .rival = v->rival, .weight = v->weight, .row = v->row,
        .change = malloc(t->n * t->hidden * sizeof(float))};
}

/* The rivals of the first n rows, and the mixture's step. */
static const struct pith_tape_step *look(struct bench *t, struct rivals *v, size_t n)
{
    struct pith_error err = {0};
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, n, t->out, &err), err);
    if (!pith_tape_find_rivals(&t->tape, &t->block, &v->r)) return NULL;
    return &t->tape.step[pith_plan_experts(t->block.plan) - t->block.plan->node];
}

/* The node that gives the router's logits. */
static uint32_t router_of(const struct bench *t)
{
    const struct pith_layer_plan *l = t->block.plan;
    const uint8_t logits = pith_plan_experts(l)->u.experts.logits;
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].kind == PITH_NODE_LINEAR && l->node[i].out == logits) return i;
    fail_msg("no router");
    return 0;
}

/* Bends the router's row of an expert until row 0 wants it by that margin less than who goes; of
 * scores that are no logits that takes several steps. */
static const struct pith_tape_step *bend(struct bench *t, struct rivals *v, uint32_t comes,
                                         double margin)
{
    const uint32_t node = router_of(t), linear = t->block.plan->node[node].u.linear.linear;
    float *w = (float *)(uintptr_t)t->block.linear[linear].w.dense;
    const size_t cols = t->block.linear[linear].w.cols;
    for (int tries = 0; tries < 400; tries++) {
        const struct pith_tape_step *s = look(t, v, 1);
        const float *in = t->tape.step[node].in;
        const double sign = v->rival[0].comes == comes ? 1 : -1;
        const double by = sign * (double)v->rival[0].margin - margin;
        double squares = 0;
        if (fabs(by) < 1e-4) return s;
        for (size_t j = 0; j < cols; j++) squares += (double)in[j] * (double)in[j];
        for (size_t j = 0; j < cols; j++)
            w[comes * cols + j] += (float)(by * (double)in[j] / squares);
    }
    fail_msg("no such margin");
    return NULL;
}

/* What changes where row 0 crosses over to its rival. */
static void check_change(struct bench *t, struct rivals *v, const char *name)
{
    float *found = malloc(t->hidden * sizeof *found), *change = malloc(t->hidden * sizeof *change);
    const uint32_t comes = v->rival[0].comes, goes = v->rival[0].goes;
    const struct pith_tape_step *s = bend(t, v, comes, 1e-3);
    assert_true(v->rival[0].comes == comes && v->rival[0].goes == goes);
    for (size_t j = 0; j < t->hidden; j++) found[j] = -s->out[j];
    memcpy(change, v->r.change, t->hidden * sizeof *change);
    s = bend(t, v, comes, -1e-3);
    assert_true(v->rival[0].comes == goes && v->rival[0].goes == comes);
    for (size_t j = 0; j < t->hidden; j++) found[j] += s->out[j];
    const double off = difference(change, found, t->hidden);
    if (!(off < 0.02)) fail_msg("%s: %g", name, off);
    free(found);
    free(change);
}

static void a_change_happens(void **state)
{
    static const char *const names[] = {"mixtral", "qwen2_moe", "gpt_oss", "llama4"};
    (void)state;
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        struct bench t;
        struct rivals v;
        memset(&t, 0, sizeof t);
        rig_open_arch(&t.r, names[k], 2);
        bench_init(&t);
        rivals_init(&v, &t);
        size_t layers = 0;
        for (uint32_t layer = 0; layer < t.r.model->shape.layers; layer++) {
            layer_open(&t, layer);
            if (look(&t, &v, 1) && isfinite(v.rival[0].margin)) {
                check_change(&t, &v, names[k]);
                layers++;
            }
            layer_close(&t);
        }
        if (layers == 0) fail_msg("%s: no mixture", names[k]);
        free(v.r.change);
        bench_close(&t);
    }
}

static double margins(struct bench *t, struct rivals *v, const float *d_margin)
{
    double sum = 0;
    look(t, v, t->n);
    for (size_t i = 0; i < t->n; i++)
        if (isfinite(v->rival[i].margin)) sum += (double)d_margin[i] * (double)v->rival[i].margin;
    return sum;
}

/* By how much they grow along their gradient. */
static void check_gradient(struct bench *t, struct rivals *v, const float *d_margin,
                           const char *name)
{
    const size_t count = t->n * t->hidden;
    float *x = malloc(count * sizeof *x);
    double along = 0, most = 0, size = 0;
    const struct pith_tape_grad g = {
        .d_out = t->d_out, .w = t->grad, .d_x = t->d_x, .rivals = &v->r, .d_margin = d_margin};
    pith_tape_backward(&t->tape, &t->block, &g);
    memcpy(x, t->x, count * sizeof *x);
    for (size_t i = 0; i < count; i++) {
        size = fmax(size, fabs((double)x[i]));
        most = fmax(most, fabs((double)t->d_x[i]));
    }
    assert_true(most > 0);
    const double step = 1e-4 * size / most;
    for (size_t i = 0; i < count; i++) {
        along += step * (double)t->d_x[i] * (double)t->d_x[i];
        t->x[i] = x[i] + (float)(step / 2 * (double)t->d_x[i]);
    }
    const double after = margins(t, v, d_margin);
    for (size_t i = 0; i < count; i++) t->x[i] = x[i] - (float)(step / 2 * (double)t->d_x[i]);
    const double found = after - margins(t, v, d_margin);
    memcpy(t->x, x, count * sizeof *x);
    if (!(fabs(found - along) < 0.02 * along))
        fail_msg("%s: %g, by differences %g", name, along, found);
    free(x);
}

static void margins_have_gradients(void **state)
{
    static const char *const names[] = {"mixtral", "qwen3_next", "deepseek_v3", "gpt_oss"};
    (void)state;
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        struct bench t;
        struct rivals v;
        size_t layers = 0;
        float d_margin[PROMPT_MAX];
        memset(&t, 0, sizeof t);
        rig_open_arch(&t.r, names[k], 2);
        bench_init(&t);
        rivals_init(&v, &t);
        for (size_t i = 0; i < t.n; i++) d_margin[i] = pattern(i + 3);
        memset(t.d_out, 0, t.n * t.hidden * sizeof *t.d_out);
        for (uint32_t layer = 0; layer < t.r.model->shape.layers; layer++) {
            layer_open(&t, layer);
            if (look(&t, &v, t.n)) check_gradient(&t, &v, d_margin, names[k]), layers++;
            layer_close(&t);
        }
        if (layers == 0) fail_msg("%s: no mixture", names[k]);
        free(v.r.change);
        bench_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_change_happens),
                                       cmocka_unit_test(margins_have_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
