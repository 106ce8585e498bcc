/* What linears give as the loss feels it, statistics that go by it, and what inputs have drifted
 * by. */
#include "calib/stages.h"

#include "base/rng.h"
#include "calib/gather.h"
#include "calib/pairs.h"
#include "llama.h"
#include "unit/model/arch_case.h"

enum { WINDOWS = 3, LENGTH = 10, TOKENS = WINDOWS * LENGTH, HIDDEN = 32, MOST = 16384, GROUPS = 3 };

struct fixture {
    struct rig rig;
    struct pith_collector collector;
    struct pith_block block;
    uint32_t layer;
    float x[TOKENS * HIDDEN], y[TOKENS * HIDDEN], d[LENGTH * HIDDEN], between[MOST];
    struct pith_acts in, out;
    struct pith_guide guide;
};

static void open_fixture(struct fixture *f, const char *name, unsigned threads)
{
    struct pith_error err = {0};
    struct pith_rng rng;
    memset(f, 0, sizeof *f);
    if (strcmp(name, "llama_gqa_tied") == 0) rig_open_golden(&f->rig, name, threads);
    else rig_open_arch(&f->rig, name, threads);
    assert_int_equal(f->rig.model->shape.hidden, HIDDEN);
    assert_true(TOKENS * pith_stages_width(&f->rig.model->plans) <= MOST);
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t id = (int32_t)((i * i * 7 + i * 3 + 1) % 80);
        assert_ok(pith_model_embed(f->rig.model, &id, 1, f->x + i * HIDDEN, &err), err);
    }
    pith_rng_seed(&rng, 3);
    for (size_t i = 0; i < LENGTH * HIDDEN; i++) f->d[i] = (float)pith_rng_normal(&rng);
    f->in = (struct pith_acts){f->x, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->out = (struct pith_acts){f->y, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    const struct pith_plans *plans = &f->rig.model->plans;
    while (plans->experts && !pith_plan_experts(pith_plan(plans, f->layer))) f->layer++;
    assert_ok(pith_block_load(f->rig.model, f->layer, PITH_LOAD_FLOAT, &f->block, &err), err);
    assert_ok(pith_collector_init(&f->collector, f->rig.backend, f->rig.model, LENGTH, &err), err);
    f->guide = (struct pith_guide){
        .backend = f->rig.backend, .model = f->rig.model, .groups = GROUPS, .tokens = TOKENS};
    f->guide.data = calloc(pith_guide_floats(&f->guide, plans->layers), sizeof(float));
}

static void close_fixture(struct fixture *f)
{
    free(f->guide.data);
    pith_collector_free(&f->collector);
    pith_block_free(&f->block);
    rig_close(&f->rig);
}

/* All windows back through the layer, with the same gradient of what each gives. */
static void fill(struct fixture *f)
{
    struct pith_tape t;
    struct pith_error err = {0};
    float **none = calloc(f->block.plan->linears, sizeof *none);
    assert_ok(pith_tape_init(&t, f->rig.backend, f->rig.model, LENGTH, &err), err);
    pith_guide_begin(&f->guide, f->layer);
    for (size_t w = 0; w < WINDOWS; w++) {
        struct pith_guide_window window = {&f->guide, f->layer, w * LENGTH, PITH_OK, &err};
        float d_x[LENGTH * HIDDEN];
        assert_ok(pith_tape_forward(&t, &f->block, pith_acts_window(&f->in, w), LENGTH,
                                    pith_acts_window(&f->out, w), &err),
                  err);
        pith_guide_routes(&window, &t, &f->block);
        pith_tape_backward(&t, &f->block,
                           &(struct pith_tape_grad){.d_out = f->d,
                                                    .w = none,
                                                    .d_x = d_x,
                                                    .gave = pith_guide_gave,
                                                    .gave_ctx = &window});
        assert_ok(window.status, err);
    }
    pith_tape_free(&t);
    free(none);
}

/* The mean square of a group of what is wanted of the stream, at a token. */
static double square_of(const struct fixture *f, uint32_t group, size_t token)
{
    const uint32_t from = pith_rows_from(GROUPS, group, HIDDEN),
                   end = pith_rows_from(GROUPS, group + 1, HIDDEN);
    double sum = 0;
    for (uint32_t r = from; r < end; r++) {
        const double d = (double)f->d[token % LENGTH * HIDDEN + r];
        sum += d * d;
    }
    return sum / (end - from);
}

/* What is added to the stream last is felt as the stream is. */
static void the_last_linear_is_felt_as_the_stream(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "llama_gqa_tied", 2);
    fill(&f);
    for (uint32_t g = 0; g < GROUPS; g++) {
        const struct pith_guide_view v = pith_guide_view(&f.guide, 0, LLAMA_DOWN, g);
        double sum = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            assert_true(fabs((double)v.value[t] - square_of(&f, g, t)) < 1e-5);
            sum += (double)pith_guide_weight(&v, t);
        }
        assert_true(fabs(sum / TOKENS - 1) < 1e-5);
    }
    for (uint32_t i = 0; i < f.block.plan->linears; i++)
        assert_true(pith_guide_view(&f.guide, 0, i, GROUPS - 1).mean > 0);
    close_fixture(&f);
}

/* Of an expert that is weighed by share s, s times that; a token's shares are 1 together. */
static void experts_are_felt_by_their_shares(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "qwen3_moe", 2);
    fill(&f);
    const struct pith_node *node = pith_plan_experts(f.block.plan);
    const uint32_t experts = f.rig.model->shape.moe.experts, each = node->u.experts.each;
    assert_true(f.rig.model->shape.moe.renormalised);
    size_t seen = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        double shares = 0;
        for (uint32_t e = 0; e < experts; e++) {
            const struct pith_guide_view v = pith_guide_view(
                &f.guide, f.layer, node->u.experts.first + e * each + 2, GROUPS - 1);
            for (uint32_t k = 0; k < v.each; k++)
                if (v.taken[t * v.each + k] == (float)e) {
                    shares += sqrt((double)v.value[t * v.each + k] / square_of(&f, GROUPS - 1, t));
                    seen++;
                }
        }
        assert_true(fabs(shares - 1) < 1e-4);
    }
    assert_int_equal(seen, TOKENS * f.rig.model->shape.moe.taken);
    close_fixture(&f);
}

static struct pith_stages stages_of(struct fixture *f, bool kept)
{
    return (struct pith_stages){.collector = &f->collector,
                                .block = &f->block,
                                .in = &f->in,
                                .out = &f->out,
                                .between = kept ? f->between : NULL,
                                .guided = {&f->guide, f->layer},
                                .routed = {.rule = PITH_EXPERTS_POOLED}};
}

/* 2 / mass * the sum of token weights times x x^T, from the inputs themselves. */
static void check_hessian(const struct fixture *f, const struct pith_site_spec *site,
                          const struct pith_stats *guided, const struct pith_stats *samples)
{
    const size_t dim = site->dim;
    for (uint32_t v = 0; v < guided->views; v++) {
        const struct pith_guide_view view =
            pith_guide_view(&f->guide, f->layer, site->first + v / GROUPS, v % GROUPS);
        const float *h = guided->hessian + v * dim * dim;
        for (size_t i = 0; i < dim; i++) {
            const double twice = 2 * (double)guided->squares[v * dim + i];
            assert_true(fabs(twice - (double)h[i * (dim + 1)]) < 1e-4 * (1 + twice));
        }
        for (size_t i = 0; i < dim * dim; i++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += (double)pith_guide_weight(&view, t) *
                       (double)samples->samples[t * dim + i / dim] *
                       (double)samples->samples[t * dim + i % dim];
            assert_true(fabs((double)h[i] - 2 * sum / TOKENS) < 1e-4 * (1 + fabs((double)h[i])));
        }
    }
}

/* One block of what is felt: [n][n], of outputs from `first` on; d[LENGTH][HIDDEN]: gradients. */
static void check_pairs(const float *felt, uint32_t first, uint32_t n, const float *d,
                        const struct pith_stats *read)
{
    for (uint32_t i = 0; i < n * n; i++) {
        double sum = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            const float *own = d + t % LENGTH * HIDDEN + first;
            double square = 0;
            for (size_t j = 0; j < read->dim; j++)
                square += (double)read->samples[t * read->dim + j] *
                          (double)read->samples[t * read->dim + j];
            sum += square * (double)own[i / n] * (double)own[i % n];
        }
        assert_true(fabs((double)felt[i] - sum / TOKENS) < 1e-4 * (1 + fabs((double)felt[i])));
    }
}

/* All of them of what is added to the stream last, by groups of rows. */
static void check_all_pairs(struct fixture *f, uint32_t block, const float *d)
{
    struct pith_error err = {0};
    struct pith_stats read;
    struct pith_stages plain = stages_of(f, false);
    const uint32_t site = f->block.plan->linear[LLAMA_DOWN].site, groups = f->guide.groups;
    assert_ok(pith_stages_collect(&plain, site, PITH_NEED_SAMPLES, TOKENS, &read, &err), err);
    const float *felt = pith_guide_outputs(&f->guide, 0, LLAMA_DOWN);
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t from = pith_rows_from(groups, g, HIDDEN),
                       end = pith_rows_from(groups, g + 1, HIDDEN);
        for (uint32_t at = from; at < end; at += block) {
            const uint32_t n = end - at < block ? end - at : block;
            check_pairs(felt + pith_outputs_at(end - from, block, at - from), at, n, d, &read);
        }
        felt += pith_outputs_at(end - from, block, end - from);
    }
    assert_true(felt <= f->guide.data + pith_guide_floats(&f->guide, 1));
    pith_stats_free(&read, 1);
    pith_stages_end(&plain);
}

/* What is added to the stream last is stored by a rotation, and nothing else is. */
static const struct pith_rotation *turns_last(const void *ctx, uint32_t layer, uint32_t linear)
{
    static const struct pith_rotation none = {0};
    (void)layer;
    return linear == LLAMA_DOWN ? ctx : &none;
}

/* The gradients, times the squares of what was read; of rows that are stored turned, turned. */
static void pairs_of_outputs_are_felt(void **state)
{
    (void)state;
    enum { BLOCK = 24 };
    static float scratch[LENGTH * (BLOCK + 4 * HIDDEN)];
    for (int output_rotation = 0; output_rotation < 2; output_rotation++)
        for (uint32_t groups = 1; groups <= GROUPS; groups += GROUPS - 1) {
            struct fixture f;
            struct pith_error err = {0};
            struct pith_rotation r = {0};
            struct pith_rng rng;
            float d[LENGTH * HIDDEN];
            open_fixture(&f, "llama_gqa_tied", 3);
            free(f.guide.data);
            f.guide.groups = groups;
            f.guide.block = groups == 1 ? BLOCK : BLOCK / 3;
            f.guide.scratch = scratch;
            f.guide.output_rotation = output_rotation ? turns_last : NULL;
            f.guide.rotation_ctx = &r;
            f.guide.data =
                calloc(pith_guide_floats(&f.guide, f.rig.model->plans.layers), sizeof(float));
            assert_true(pith_guide_scratch(&f.guide, LENGTH) <= sizeof scratch);
            pith_rng_seed(&rng, 5);
            assert_ok(pith_rotation_init(&r, HIDDEN, HIDDEN / 2, &rng, &err), err);
            memcpy(d, f.d, sizeof d);
            if (output_rotation)
                assert_ok(pith_rotate_inputs(pith_backend_pool(f.rig.backend), &r, d, LENGTH,
                                             HIDDEN, &err),
                          err);
            fill(&f);
            check_all_pairs(&f, f.guide.block, d);
            pith_rotation_free(&r);
            close_fixture(&f);
        }
}

static void hessians_count_tokens_so(void **state)
{
    (void)state;
    const unsigned needs = PITH_NEED_HESSIAN | PITH_NEED_SQUARES | PITH_NEED_GUIDED;
    struct fixture f;
    struct pith_error err = {0};
    open_fixture(&f, "llama_gqa_tied", 3);
    fill(&f);
    for (int kept = 0; kept < 2; kept++) {
        struct pith_stages s = stages_of(&f, kept), plain = stages_of(&f, false);
        for (uint32_t site = 0; site < LLAMA_SITES; site++) {
            struct pith_stats guided, samples;
            const struct pith_site_spec *spec = &f.block.plan->site[site];
            assert_ok(pith_stages_collect(&s, site, needs, 0, &guided, &err), err);
            assert_ok(pith_stages_collect(&plain, site, PITH_NEED_SAMPLES, TOKENS, &samples, &err),
                      err);
            assert_int_equal(guided.views, spec->count * GROUPS);
            assert_int_equal(samples.sample_count, TOKENS);
            check_hessian(&f, spec, &guided, &samples);
            pith_stats_free(&guided, 1);
            pith_stats_free(&samples, 1);
        }
        pith_stages_end(&s);
    }
    close_fixture(&f);
}

/* Where nothing was felt all tokens count the same: to the bit as without a guide. */
static void without_feeling_it_is_the_plain_one(void **state)
{
    (void)state;
    static const char *const cases[] = {"llama_gqa_tied", "qwen3_moe"};
    for (size_t c = 0; c < PITH_COUNT(cases); c++) {
        struct fixture f;
        struct pith_error err = {0};
        open_fixture(&f, cases[c], 2);
        struct pith_stages a = stages_of(&f, true), b = stages_of(&f, true);
        for (uint32_t site = 0; site < f.block.plan->sites; site++) {
            struct pith_stats guided, plain;
            assert_ok(pith_stages_collect(&a, site, PITH_NEED_HESSIAN | PITH_NEED_GUIDED, 0,
                                          &guided, &err),
                      err);
            pith_stages_end(&b);
            assert_ok(pith_stages_collect(&b, site, PITH_NEED_HESSIAN, 0, &plain, &err), err);
            const size_t square = (size_t)plain.dim * plain.dim;
            for (uint32_t v = 0; v < guided.views; v++)
                assert_memory_equal(guided.hessian + v * square, plain.hessian,
                                    square * sizeof(float));
            pith_stats_free(&guided, 1);
            pith_stats_free(&plain, 1);
        }
        pith_stages_end(&a);
        pith_stages_end(&b);
        close_fixture(&f);
    }
}

/* 2 (X' - X) X^T / n, from the inputs of both. */
static void check_drift(const struct pith_stats *got, const struct pith_stats *x,
                        const struct pith_stats *other, double *most)
{
    const size_t dim = got->dim;
    for (size_t i = 0; i < dim * dim; i++) {
        double sum = 0;
        for (size_t t = 0; t < TOKENS; t++)
            sum += ((double)other->samples[t * dim + i / dim] -
                    (double)x->samples[t * dim + i / dim]) *
                   (double)x->samples[t * dim + i % dim];
        assert_true(fabs((double)got->drift[i] - 2 * sum / TOKENS) <
                    1e-4 * (1 + fabs((double)got->drift[i])));
        *most = fmax(*most, fabs(2 * sum / TOKENS));
    }
}

static void check_drift_of(const char *name)
{
    struct fixture f, g;
    struct pith_error err = {0};
    open_fixture(&f, name, 2);
    open_fixture(&g, name, 2);
    for (size_t i = 0; i < TOKENS * HIDDEN; i++) f.x[i] = roundf(f.x[i] * 20) / 20;
    struct pith_stages s = stages_of(&f, true), twin = stages_of(&g, true);
    struct pith_stages x = stages_of(&f, false), other = stages_of(&g, false);
    twin.collector = s.collector;
    s.twin = &twin;
    s.routed.rule = x.routed.rule = other.routed.rule = PITH_EXPERTS_ALL;
    for (uint32_t site = 0; site < f.block.plan->sites; site++) {
        struct pith_stats got, a, b;
        double most = 0;
        assert_ok(pith_stages_collect(&s, site, PITH_NEED_HESSIAN | PITH_NEED_DRIFT, 0, &got, &err),
                  err);
        assert_ok(pith_stages_collect(&x, site, PITH_NEED_SAMPLES, TOKENS, &a, &err), err);
        assert_ok(pith_stages_collect(&other, site, PITH_NEED_SAMPLES, TOKENS, &b, &err), err);
        check_drift(&got, &a, &b, &most);
        assert_true(most > 0.0001);
        pith_stats_free(&got, 1);
        pith_stats_free(&a, 1);
        pith_stats_free(&b, 1);
    }
    assert_ok(pith_stages_finish(&s, &err), err);
    float *want = malloc(sizeof g.y);
    struct pith_acts whole = {want, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    assert_ok(pith_propagate(&g.collector, &g.block, &g.in, &whole, &err), err);
    assert_memory_equal(twin.out->x, want, sizeof g.y); /* the twin's own output */
    free(want);
    pith_stages_end(&s);
    pith_stages_end(&x);
    pith_stages_end(&other);
    close_fixture(&f);
    close_fixture(&g);
}

/* Also what experts read, whoever takes them in the model as it was. */
static void drift_is_against_the_twin(void **state)
{
    (void)state;
    check_drift_of("llama_gqa_tied");
    check_drift_of("qwen3_moe");
}

/* Kept window by window, and then added, they are to the bit what is added at once; where there is
 * no room for all, that is said. */
static void pairs_that_are_kept_are_the_same(void **state)
{
    (void)state;
    enum { BLOCK = 8 };
    static const char *const models[] = {"llama_gqa_tied", "qwen3_moe"};
    for (size_t i = 0; i < PITH_COUNT(models); i++) {
        struct fixture f;
        struct pith_pairs pairs = {0};
        struct pith_error err = {0};
        open_fixture(&f, models[i], 2);
        f.guide.block = BLOCK;
        free(f.guide.data);
        const uint64_t all = pith_guide_floats(&f.guide, f.rig.model->plans.layers);
        float *data[2] = {calloc(all, sizeof(float)), calloc(all, sizeof(float))};
        f.guide.scratch = malloc(pith_guide_scratch(&f.guide, LENGTH));
        f.guide.data = data[0];
        fill(&f);
        f.guide.data = data[1];
        pairs.floats = pith_pairs_floats(&f.guide, TOKENS);
        pairs.room = malloc(pairs.floats * sizeof(float));
        f.guide.pairs = &pairs;
        fill(&f);
        assert_true(pairs.count > 0);
        assert_ok(pith_pairs_meet(&f.guide, f.layer, NULL, &err), err);
        assert_int_equal(pairs.count, 0);
        assert_memory_equal(data[0], data[1], all * sizeof(float));
        const struct pith_tape_gave gave = {.n = LENGTH, .rows = HIDDEN};
        pairs.floats = pairs.used + LENGTH * HIDDEN - 1;
        assert_int_equal(pith_pairs_keep(&f.guide, &gave, &err), PITH_NOMEM);
        free(pairs.room);
        pith_pairs_free(&pairs);
        free(f.guide.scratch);
        free(data[0]);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_linear_is_felt_as_the_stream),
        cmocka_unit_test(experts_are_felt_by_their_shares),
        cmocka_unit_test(pairs_of_outputs_are_felt),
        cmocka_unit_test(pairs_that_are_kept_are_the_same),
        cmocka_unit_test(hessians_count_tokens_so),
        cmocka_unit_test(without_feeling_it_is_the_plain_one),
        cmocka_unit_test(drift_is_against_the_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
