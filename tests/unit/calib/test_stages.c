/* A block in stages gives the statistics and the output of whole passes, to the bit, while its
 * linears change on the way. */
#include "calib/stages.h"

#include "llama.h"
#include "unit/model/arch_case.h"

enum { WINDOWS = 3, LENGTH = 10, TOKENS = WINDOWS * LENGTH, HIDDEN = 32, FFN = 44 };

struct fixture {
    struct rig rig;
    struct pith_collector collector;
    struct pith_block block;
    float x[TOKENS * HIDDEN], y[TOKENS * HIDDEN], z[TOKENS * HIDDEN], between[TOKENS * FFN];
    struct pith_acts in, out, want;
    unsigned steps;
};

static enum pith_status count_step(void *ctx, struct pith_error *err)
{
    (void)err;
    ((struct fixture *)ctx)->steps++;
    return PITH_OK;
}

static void open_fixture(struct fixture *f, unsigned threads)
{
    struct pith_error err = {0};
    memset(f, 0, sizeof *f);
    rig_open_golden(&f->rig, "llama_gqa_tied", threads);
    assert_int_equal(f->rig.model->shape.hidden, HIDDEN);
    assert_int_equal(pith_stages_width(&f->rig.model->plans), FFN);
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t id = (int32_t)((i * i * 7 + i * 3 + 1) % 80);
        assert_ok(pith_model_embed(f->rig.model, &id, 1, f->x + i * HIDDEN, &err), err);
    }
    f->in = (struct pith_acts){f->x, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->out = (struct pith_acts){f->y, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->want = (struct pith_acts){f->z, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    assert_ok(pith_block_load(f->rig.model, 0, PITH_LOAD_FLOAT, &f->block, &err), err);
    assert_ok(pith_collector_init(&f->collector, f->rig.backend, f->rig.model, LENGTH, &err), err);
    f->collector.step = count_step;
    f->collector.step_ctx = f;
}

static void close_fixture(struct fixture *f)
{
    pith_collector_free(&f->collector);
    pith_block_free(&f->block);
    rig_close(&f->rig);
}

/* What rounding would do. */
static void change_site(struct fixture *f, uint32_t site)
{
    const struct pith_site_spec *spec = &f->block.plan->site[site];
    for (unsigned i = 0; i < spec->count; i++) {
        struct pith_linear_weights *l = &f->block.linear[spec->first + i];
        for (size_t k = 0; k < (size_t)l->w.rows * l->w.cols; k++)
            l->dense[k] = roundf(l->dense[k] * 50) / 50;
    }
}

static void compare(const struct pith_stats *a, const struct pith_stats *b)
{
    const size_t dim = a->dim;
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->tokens, TOKENS);
    assert_int_equal(b->tokens, TOKENS);
    assert_memory_equal(a->hessian, b->hessian, dim * dim * sizeof(float));
    assert_memory_equal(a->absmean, b->absmean, dim * sizeof(float));
    assert_memory_equal(a->squares, b->squares, dim * sizeof(float));
}

/* Sites with a bit in `sites` are asked for; kept: between stages, or computed again. */
static void run(unsigned sites, bool kept, unsigned threads)
{
    struct fixture f;
    struct pith_error err = {0};
    const unsigned needs = PITH_NEED_HESSIAN | PITH_NEED_ABSMEAN | PITH_NEED_SQUARES;
    open_fixture(&f, threads);
    struct pith_stages s = {.collector = &f.collector,
                            .block = &f.block,
                            .in = &f.in,
                            .out = &f.out,
                            .between = kept ? f.between : NULL};
    for (uint32_t site = 0; site < LLAMA_SITES; site++) {
        struct pith_stats want, got;
        const struct pith_collect what = {.first = site, .count = 1, .needs = needs};
        if (!(sites & 1u << site)) continue;
        assert_ok(pith_collect(&f.collector, &f.block, &f.in, &what, &want, &err), err);
        assert_ok(pith_stages_collect(&s, site, needs, 0, &got, &err), err);
        compare(&want, &got);
        pith_stats_free(&want, 1);
        pith_stats_free(&got, 1);
        change_site(&f, site);
    }
    f.steps = 0;
    assert_ok(pith_stages_finish(&s, &err), err);
    if (kept && sites == 15) assert_int_equal(f.steps, WINDOWS);
    assert_ok(pith_propagate(&f.collector, &f.block, &f.in, &f.want, &err), err);
    assert_memory_equal(f.y, f.z, sizeof f.y);
    close_fixture(&f);
}

static void all_sites(void **state)
{
    (void)state;
    run(15, true, 1);
    run(15, true, 3);
    run(15, false, 2);
}

static void some_sites(void **state)
{
    (void)state;
    for (unsigned sites = 0; sites < 15; sites++) run(sites, true, 2);
}

/* What layers carry comes out of the stages as out of the block at once, layer after layer; of
 * gemma4_small, where some are told of tokens and share keys and values. */
static void what_is_carried_goes_on(void **state)
{
    (void)state;
    struct rig rig;
    struct pith_collector c;
    struct pith_error err = {0};
    rig_open_arch(&rig, "gemma4_small", 2);
    const struct pith_plans *plans = &rig.model->plans;
    const size_t carried = pith_plans_carried(plans), count = TOKENS * (HIDDEN + carried);
    const size_t between = TOKENS * pith_stages_width(plans);
    float *x = calloc(4 * count + between, sizeof *x);
    struct pith_acts in = {x, WINDOWS, LENGTH, HIDDEN, carried, 0, 0, 0};
    struct pith_acts out = {x + count, WINDOWS, LENGTH, HIDDEN, carried, 0, 0, 0};
    struct pith_acts want = {x + 2 * count, WINDOWS, LENGTH, HIDDEN, carried, 0, 0, 0};
    struct pith_acts anew = {x + 3 * count, WINDOWS, LENGTH, HIDDEN, carried, 0, 0, 0};
    assert_int_equal(carried, 1 + 2 * 2 * (12 + 16));
    assert_ok(pith_collector_init(&c, rig.backend, rig.model, LENGTH, &err), err);
    for (size_t w = 0; w < WINDOWS; w++) {
        int32_t ids[LENGTH];
        for (size_t i = 0; i < LENGTH; i++) ids[i] = (int32_t)((w * 31 + i * i * 7 + i) % 80);
        float *at = pith_acts_window(&in, w);
        assert_ok(pith_model_embed(rig.model, ids, LENGTH, at, &err), err);
        pith_plans_fill(plans, ids, LENGTH, at + LENGTH * HIDDEN);
    }
    for (uint32_t layer = 0; layer < plans->layers; layer++) {
        struct pith_block b;
        const uint32_t sites = pith_plan(plans, layer)->sites;
        assert_ok(pith_block_load(rig.model, layer, PITH_LOAD_FLOAT, &b, &err), err);
        struct pith_stages s = {
            .collector = &c, .block = &b, .in = &in, .out = &out, .between = x + 4 * count};
        struct pith_stages whole = {.collector = &c, .block = &b, .in = &in, .out = &anew};
        for (uint32_t site = 0; site < sites; site += 1 + layer % 2) {
            const unsigned needs = PITH_NEED_HESSIAN | PITH_NEED_ABSMEAN | PITH_NEED_SQUARES;
            struct pith_stats a, o;
            assert_ok(pith_stages_collect(&s, site, needs, 0, &a, &err), err);
            assert_ok(pith_stages_collect(&whole, site, needs, 0, &o, &err), err);
            compare(&a, &o);
            pith_stats_free(&a, 1);
            pith_stats_free(&o, 1);
        }
        assert_ok(pith_stages_finish(&s, &err), err);
        assert_ok(pith_stages_finish(&whole, &err), err);
        assert_ok(pith_propagate(&c, &b, &in, &want, &err), err);
        assert_memory_equal(out.x, want.x, count * sizeof *x);
        assert_memory_equal(anew.x, want.x, count * sizeof *x);
        pith_block_free(&b);
        const struct pith_acts old = in;
        in = out;
        out = old;
    }
    float *logits = malloc(PROMPT_VOCAB * sizeof *logits);
    for (size_t w = 0; w < WINDOWS; w++) { /* the session, with keys and values of its own */
        int32_t ids[LENGTH];
        for (size_t i = 0; i < LENGTH; i++) ids[i] = (int32_t)((w * 31 + i * i * 7 + i) % 80);
        float *all = rig_logits(&rig, ids, LENGTH, 3);
        const float *last = pith_acts_window(&in, w) + (LENGTH - 1) * HIDDEN;
        assert_ok(pith_model_logits(rig.model, rig.backend, last, 1, logits, &err), err);
        assert_memory_equal(logits, all + (LENGTH - 1) * PROMPT_VOCAB,
                            PROMPT_VOCAB * sizeof *logits);
        free(all);
    }
    free(logits);
    free(x);
    pith_collector_free(&c);
    rig_close(&rig);
}

static enum pith_status stop(void *ctx, struct pith_error *err)
{
    (void)ctx;
    return pith_fail(err, PITH_INTERRUPTED, "stopped");
}

static void a_listener_ends_it(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_stats stats;
    open_fixture(&f, 1);
    f.collector.step = stop;
    struct pith_stages s = {.collector = &f.collector,
                            .block = &f.block,
                            .in = &f.in,
                            .out = &f.out,
                            .between = f.between};
    assert_int_equal(pith_stages_collect(&s, LLAMA_SITE_O, PITH_NEED_HESSIAN, 0, &stats, &err),
                     PITH_INTERRUPTED);
    pith_stats_free(&stats, 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sites),
        cmocka_unit_test(what_is_carried_goes_on),
        cmocka_unit_test(some_sites),
        cmocka_unit_test(a_listener_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
