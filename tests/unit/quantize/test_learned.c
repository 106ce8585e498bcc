/* Learned rounding: against AutoRound's own code on the same blocks, inputs and settings
 * (tests/golden/autoround/make_autoround.py), and what its contract promises. */
#include "llama.h"
#include "unit/model/fixture.h"
#include "unit/quant/oracle.h"

#include "model/chain.h"
#include "quant/round.h"
#include "sanitized.h"

/* Of AutoRound's loss, at most: on the probe's block; on average over the tiny ones, whose few
 * weights end some percent apart when a last digit differs; on each of those. */
static const double on_probe = 1.02, on_average = 1.02, on_tiny = 1.08;

enum { SAMPLES = 16, TOKENS = 24 };

struct bench {
    struct rig r;
    struct pith_block block;
    struct pith_tape tape;
    size_t floats; /* of a sample */
    float *x, *target, *out;
    struct pith_round_member member[LLAMA_LINEARS];
    unsigned calls, limit; /* calls of the objective; fail at the limit */
};

static bool is_probe(const char *name)
{
    return strcmp(name, "probe") == 0;
}

/* The probe's inputs of make_autoround.py. */
static void embed(struct bench *t)
{
    struct pith_error err = {0};
    int32_t ids[SAMPLES * TOKENS];
    for (size_t i = 0; i < PITH_COUNT(ids); i++) ids[i] = (int32_t)((7 * i * i + 3 * i + 1) % 4000);
    assert_ok(pith_model_embed(t->r.model, ids, PITH_COUNT(ids), t->x, &err), err);
}

static void bench_open(struct bench *t, const char *name, const char *grid, unsigned threads)
{
    struct pith_error err = {0};
    uint64_t seed = 7;
    memset(t, 0, sizeof *t);
    if (is_probe(name)) rig_open(&t->r, "models/probe", threads);
    else rig_open_golden(&t->r, name, threads);
    t->floats = (size_t)TOKENS * t->r.model->shape.hidden;
    t->x = malloc(SAMPLES * t->floats * sizeof *t->x);
    t->target = malloc(SAMPLES * t->floats * sizeof *t->x);
    t->out = malloc(t->floats * sizeof *t->x);
    if (is_probe(name)) embed(t);
    else lcg_normal(&seed, SAMPLES * t->floats, t->x);
    assert_ok(pith_tape_init(&t->tape, t->r.backend, t->r.model, TOKENS, &err), err);
    assert_ok(pith_block_load(t->r.model, 0, PITH_LOAD_FLOAT, &t->block, &err), err);
    for (size_t i = 0; i < SAMPLES; i++)
        assert_ok(pith_tape_forward(&t->tape, &t->block, t->x + i * t->floats, TOKENS,
                                    t->target + i * t->floats, &err),
                  err);
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        const struct pith_linear_weights *l = &t->block.linear[i];
        const size_t n = (size_t)l->w.rows * l->w.cols;
        t->member[i] = (struct pith_round_member){.scale_dtype = PITH_F16,
                                                  .rows = l->w.rows,
                                                  .cols = l->w.cols,
                                                  .w = l->dense,
                                                  .values = malloc(n * sizeof(float)),
                                                  .grad = malloc(n * sizeof(float))};
        assert_ok(pith_grid_parse(grid, &t->member[i].grid, &err), err);
    }
}

static void bench_close(struct bench *t)
{
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        free(t->member[i].values);
        free(t->member[i].grad);
        t->block.linear[i].w.dense = t->block.linear[i].dense;
    }
    free(t->x);
    free(t->target);
    free(t->out);
    pith_tape_free(&t->tape);
    pith_block_free(&t->block);
    rig_close(&t->r);
}

static enum pith_status one_sample(struct bench *t, size_t sample, bool gradient, double *loss,
                                   struct pith_error *err)
{
    float *w[LLAMA_LINEARS];
    const struct pith_tape_grad g = {.d_out = t->out, .w = w};
    if (t->limit && ++t->calls >= t->limit) return pith_fail(err, PITH_INTERRUPTED, "enough");
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        t->block.linear[i].w.dense = t->member[i].values;
        w[i] = t->member[i].grad;
    }
    PITH_TRY(
        pith_tape_forward(&t->tape, &t->block, t->x + sample * t->floats, TOKENS, t->out, err));
    *loss = 0;
    for (size_t i = 0; i < t->floats; i++) {
        t->out[i] -= t->target[sample * t->floats + i];
        *loss += (double)t->out[i] * (double)t->out[i];
    }
    if (gradient) pith_tape_backward(&t->tape, &t->block, &g);
    return PITH_OK;
}

static enum pith_status objective(void *ctx, const size_t *sample, size_t count, bool gradient,
                                  double *loss, struct pith_error *err)
{
    for (size_t i = 0; i < count; i++)
        PITH_TRY(one_sample(ctx, sample ? sample[i] : i, gradient, &loss[i], err));
    return PITH_OK;
}

static enum pith_status learn(struct bench *t, uint32_t iterations, uint32_t batch,
                              struct pith_qmat q[LLAMA_LINEARS],
                              struct pith_round_block_report *report, struct pith_error *err)
{
    const struct pith_round_block job = {.backend = t->r.backend,
                                         .options = {.iterations = iterations, .batch = batch},
                                         .seed = 5,
                                         .member = t->member,
                                         .count = LLAMA_LINEARS,
                                         .samples = SAMPLES,
                                         .objective = objective,
                                         .ctx = t};
    return pith_rounder_find("learned")->by->block(&job, q, report, err);
}

/* The mean squared error of the block with what the codes stand for. */
static double served_loss(struct bench *t, struct pith_qmat q[LLAMA_LINEARS])
{
    struct pith_error err = {0};
    double sum = 0;
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        pith_qmat_decode(&q[i], 0, q[i].rows, t->member[i].values);
        pith_qmat_free(&q[i]);
    }
    for (size_t i = 0; i < SAMPLES; i++) {
        double one = 0;
        assert_ok(one_sample(t, i, false, &one, &err), err);
        sum += one;
    }
    return sum / (double)(SAMPLES * t->floats);
}

static double check_case(const json_t *c)
{
    struct pith_error err = {0};
    struct bench t;
    struct pith_qmat q[LLAMA_LINEARS];
    struct pith_round_block_report report;
    char grid[64], group[32] = "channel";
    const int columns = (int)json_integer_value(json_object_get(c, "group"));
    const double after = json_real_value(json_object_get(c, "after"));
    if (columns) snprintf(group, sizeof group, "g%d", columns);
    snprintf(grid, sizeof grid, "int%d:%s%s", (int)json_integer_value(json_object_get(c, "bits")),
             group, json_is_true(json_object_get(c, "asym")) ? ":asym" : "");
    bench_open(&t, json_string_value(json_object_get(c, "model")), grid, 2);
    assert_ok(learn(&t, 200, SAMPLES, q, &report, &err), err);
    const double reported = report.loss / (double)(SAMPLES * t.floats);
    const double loss = served_loss(&t, q);
    print_message("%-16s %-16s nearest %.5f, AutoRound %.5f, here %.5f (step %u)\n",
                  json_string_value(json_object_get(c, "model")), grid,
                  report.nearest_loss / (double)(SAMPLES * t.floats), after, loss, report.step);
    assert_true(fabs(loss - reported) <= 1e-9 * loss);
    bench_close(&t);
    return loss / after;
}

static void losses_are_those_of_autoround(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *file, *c;
    size_t i;
    double worst = 0, probe = 0, sum = 0, tiny = 0;
    const bool learn_large = test_thorough() && !SANITIZED; /* that takes minutes */
    assert_ok(pith_json_load("tests/golden/autoround/autoround.json", 1 << 20, &file, &err), err);
    json_t *cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) >= 10);
    json_array_foreach (cases, i, c) {
        const bool large = is_probe(json_string_value(json_object_get(c, "model")));
        if (large && !learn_large) continue;
        const double ratio = check_case(c);
        if (large) {
            probe = fmax(probe, ratio);
            continue;
        }
        worst = fmax(worst, ratio);
        sum += ratio;
        tiny++;
    }
    print_message(
        "of AutoRound's loss: probe %.4f at most, tiny %.4f on average and %.4f at most\n", probe,
        sum / tiny, worst);
    assert_true((probe > 0) == learn_large && probe <= on_probe);
    assert_true(sum / tiny <= on_average);
    assert_true(worst <= on_tiny);
    json_decref(file);
}

static void same_bytes_for_any_thread_count(void **state)
{
    (void)state;
    static const char *const grids[] = {"int3:g16", "int2:channel:asym", "int4:tensor"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct pith_error err = {0};
        struct bench t[2];
        struct pith_qmat q[2][LLAMA_LINEARS];
        struct pith_round_block_report report[2];
        for (unsigned i = 0; i < 2; i++) {
            bench_open(&t[i], "llama_gqa_tied", grids[g], 1 + 2 * i);
            assert_ok(learn(&t[i], 15, 5, q[i], &report[i], &err), err);
        }
        assert_true(report[0].loss == report[1].loss);
        assert_true(report[0].loss < report[0].nearest_loss);
        for (int i = 0; i < LLAMA_LINEARS; i++) {
            assert_true(pith_qmat_equal(&q[0][i], &q[1][i]));
            pith_qmat_free(&q[0][i]);
            pith_qmat_free(&q[1][i]);
        }
        bench_close(&t[0]);
        bench_close(&t[1]);
    }
}

static void an_interrupted_objective_ends_it(void **state)
{
    (void)state;
    static const unsigned limits[] = {1, SAMPLES + 3, SAMPLES + 40, SAMPLES + 15 * 4 + 20};
    for (size_t i = 0; i < PITH_COUNT(limits); i++) {
        struct pith_error err = {0};
        struct bench t;
        struct pith_qmat q[LLAMA_LINEARS];
        struct pith_round_block_report report;
        bench_open(&t, "llama_gqa_tied", "int3:g16", 1);
        t.limit = limits[i];
        assert_int_equal(learn(&t, 15, 4, q, &report, &err), PITH_INTERRUPTED);
        for (int r = 0; r < LLAMA_LINEARS; r++) assert_null(q[r].codes);
        bench_close(&t);
    }
}

static void what_cannot_be_learned_is_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench t;
    struct pith_qmat q[LLAMA_LINEARS];
    struct pith_round_block_report report;
    bench_open(&t, "llama_gqa_tied", "nf4:g16", 1);
    assert_int_equal(learn(&t, 5, 5, q, &report, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "nf4"));
    for (int r = 0; r < LLAMA_LINEARS; r++) assert_null(q[r].codes);
    bench_close(&t);
    err = (struct pith_error){0};
    bench_open(&t, "llama_gqa_tied", "int4:g16", 1);
    float *w = t.block.linear[3].dense;
    w[5] = INFINITY;
    assert_int_equal(learn(&t, 5, 5, q, &report, &err), PITH_NUMERIC);
    bench_close(&t);
}

/* Float formats learn offsets in units of the distance to the next value. */
static void float_formats_learn_too(void **state)
{
    (void)state;
    static const char *const grids[] = {"fp8_e4m3:channel", "mxfp4", "nvfp4", "mxfp6_e2m3"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_error err = {0};
        struct bench t;
        struct pith_qmat q[LLAMA_LINEARS];
        struct pith_round_block_report report;
        bench_open(&t, "llama_gqa_tied", grids[i], 2);
        assert_ok(learn(&t, 60, SAMPLES, q, &report, &err), err);
        print_message("%-18s %.3f of nearest's loss\n", grids[i],
                      report.loss / report.nearest_loss);
        assert_true(report.loss < 0.95 * report.nearest_loss);
        assert_true(fabs(served_loss(&t, q) * (double)(SAMPLES * t.floats) - report.loss) <=
                    1e-9 * report.loss);
        bench_close(&t);
    }
}

/* --- two blocks ------------------------------------------------------------------------------ */

enum { PAIR = 2, PAIR_LINEARS = PAIR * LLAMA_LINEARS };

/* The bench's block and the one that follows it: all of their linears are learned from what the
 * second gives, or those of one block from what it gives for inputs that are made up already. */
struct pair {
    struct bench t;
    struct pith_block second;
    struct pith_chain chain;
    const struct pith_block *block[PAIR];
    unsigned from, to;   /* blocks that are learned now */
    float *target[PAIR]; /* [SAMPLES][floats], of the float blocks */
    float *middle;       /* what the second reads when it is learned alone */
    struct pith_round_member member[PAIR_LINEARS];
};

static void pair_open(struct pair *p, const char *name, const char *grid)
{
    struct pith_error err = {0};
    memset(p, 0, sizeof *p);
    bench_open(&p->t, name, grid, 2);
    struct bench *t = &p->t;
    assert_ok(pith_block_load(t->r.model, 1, PITH_LOAD_FLOAT, &p->second, &err), err);
    assert_ok(pith_chain_init(&p->chain, t->r.backend, t->r.model, PAIR, TOKENS, &err), err);
    p->block[0] = &t->block;
    p->block[1] = &p->second;
    p->target[0] = t->target;
    p->target[1] = malloc(SAMPLES * t->floats * sizeof(float));
    p->middle = malloc(SAMPLES * t->floats * sizeof(float));
    for (size_t i = 0; i < SAMPLES * t->floats; i += t->floats)
        assert_ok(
            pith_tape_forward(&t->tape, &p->second, t->target + i, TOKENS, p->target[1] + i, &err),
            err);
    for (int i = 0; i < PAIR_LINEARS; i++) {
        const struct pith_round_member *like = &t->member[i % LLAMA_LINEARS];
        const size_t n = (size_t)like->rows * like->cols;
        p->member[i] = *like;
        p->member[i].w = p->block[i / LLAMA_LINEARS]->linear[i % LLAMA_LINEARS].dense;
        p->member[i].values = malloc(n * sizeof(float));
        p->member[i].grad = malloc(n * sizeof(float));
        memcpy(p->member[i].values, p->member[i].w, n * sizeof(float));
        p->block[i / LLAMA_LINEARS]->linear[i % LLAMA_LINEARS].w.dense = p->member[i].values;
    }
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < PAIR_LINEARS; i++) {
        struct pith_linear_weights *l = &p->block[i / LLAMA_LINEARS]->linear[i % LLAMA_LINEARS];
        l->w.dense = l->dense;
        free(p->member[i].values);
        free(p->member[i].grad);
    }
    free(p->target[1]);
    free(p->middle);
    pith_chain_free(&p->chain);
    pith_block_free(&p->second);
    bench_close(&p->t);
}

static enum pith_status pair_objective(void *ctx, const size_t *sample, size_t count, bool gradient,
                                       double *loss, struct pith_error *err)
{
    struct pair *p = ctx;
    const unsigned blocks = p->to - p->from;
    const float *x = p->from ? p->middle : p->t.x;
    float *w[PAIR][LLAMA_LINEARS];
    struct pith_tape_grad g[PAIR] = {{.w = w[0]}, {.w = w[1]}};
    for (unsigned i = 0; i < blocks * LLAMA_LINEARS; i++)
        w[i / LLAMA_LINEARS][i % LLAMA_LINEARS] = p->member[p->from * LLAMA_LINEARS + i].grad;
    g[blocks - 1].d_out = p->t.out;
    for (size_t i = 0; i < count; i++) {
        const size_t at = (sample ? sample[i] : i) * p->t.floats;
        PITH_TRY(pith_chain_forward(&p->chain, x + at, TOKENS, p->t.out, err));
        loss[i] = 0;
        for (size_t k = 0; k < p->t.floats; k++) {
            p->t.out[k] -= p->target[p->to - 1][at + k];
            loss[i] += (double)p->t.out[k] * (double)p->t.out[k];
        }
        if (gradient) pith_chain_backward(&p->chain, g);
    }
    return PITH_OK;
}

/* Learns blocks [from, to), which then compute with what became of them; their loss at the end. */
static double pair_learn(struct pair *p, unsigned from, unsigned to)
{
    struct pith_error err = {0};
    struct pith_qmat q[PAIR_LINEARS];
    struct pith_round_block_report report;
    struct pith_round_member *member = p->member + from * LLAMA_LINEARS;
    const struct pith_round_block job = {.backend = p->t.r.backend,
                                         .options = {.iterations = 200, .batch = SAMPLES},
                                         .seed = 5,
                                         .member = member,
                                         .count = (to - from) * LLAMA_LINEARS,
                                         .samples = SAMPLES,
                                         .objective = pair_objective,
                                         .ctx = p};
    p->from = from;
    p->to = to;
    p->chain.block = p->block + from;
    p->chain.count = to - from;
    assert_ok(pith_rounder_find("learned")->by->block(&job, q, &report, &err), err);
    for (unsigned i = 0; i < job.count; i++) {
        pith_qmat_decode(&q[i], 0, q[i].rows, member[i].values);
        pith_qmat_free(&q[i]);
    }
    return report.loss;
}

/* One after the other, the second reading what the quantized first gives. */
static double learn_apart(struct pair *p)
{
    struct pith_error err = {0};
    (void)pair_learn(p, 0, 1);
    for (size_t i = 0; i < SAMPLES * p->t.floats; i += p->t.floats)
        assert_ok(
            pith_tape_forward(&p->t.tape, &p->t.block, p->t.x + i, TOKENS, p->middle + i, &err),
            err);
    return pair_learn(p, 1, 2);
}

/* At few bits; at 4 it is the other way round. */
static void blocks_learned_together_lose_less_at_their_end(void **state)
{
    (void)state;
    static const struct {
        const char *model, *grid;
    } cases[] = {{"qwen3", "int2:g16"}, {"llama_gqa_tied", "int3:g16"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pair p;
        pair_open(&p, cases[i].model, cases[i].grid);
        const double apart = learn_apart(&p);
        pair_close(&p);
        pair_open(&p, cases[i].model, cases[i].grid);
        const double together = pair_learn(&p, 0, PAIR);
        pair_close(&p);
        print_message("%-16s %-10s two blocks apart %.1f, together %.3f of it\n", cases[i].model,
                      cases[i].grid, apart, together / apart);
        assert_true(together < 0.99 * apart);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_autoround),
        cmocka_unit_test(same_bytes_for_any_thread_count),
        cmocka_unit_test(an_interrupted_objective_ends_it),
        cmocka_unit_test(what_cannot_be_learned_is_refused),
        cmocka_unit_test(float_formats_learn_too),
        cmocka_unit_test(blocks_learned_together_lose_less_at_their_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
