/* What a pass over the calibration windows gathers, against a block computed here in double. */
#include "calib/collect.h"
#include "calib/gather.h"

#include "llama.h"
#include "unit/model/fixture.h"

/* Three windows over a vocabulary of 80, on the golden model with grouped queries. */
enum { WINDOWS = 3, LENGTH = 10, TOKENS = WINDOWS * LENGTH };
enum { HIDDEN = 32, FFN = 44, HEADS = 4, KV_HEADS = 2, DIM = 8 };

struct fixture {
    struct rig rig;
    struct pith_collector collector;
    float *x, *y; /* [WINDOWS][LENGTH][HIDDEN] */
    struct pith_acts in, out;
};

static void open_fixture(struct fixture *f, unsigned threads)
{
    struct pith_error err = {0};
    rig_open_golden(&f->rig, "llama_gqa_tied", threads);
    const struct pith_shape *s = &f->rig.model->shape;
    assert_int_equal(s->hidden, HIDDEN);
    assert_int_equal(s->ffn, FFN);
    assert_int_equal(s->heads, HEADS);
    assert_int_equal(s->kv_heads, KV_HEADS);
    assert_int_equal(s->head_dim, DIM);
    f->x = calloc(TOKENS * HIDDEN, sizeof *f->x);
    f->y = calloc(TOKENS * HIDDEN, sizeof *f->y);
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t id = (int32_t)((i * i * 7 + i * 3 + 1) % 80);
        assert_ok(pith_model_embed(f->rig.model, &id, 1, f->x + i * HIDDEN, &err), err);
    }
    f->in = (struct pith_acts){f->x, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->out = (struct pith_acts){f->y, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    assert_ok(pith_collector_init(&f->collector, f->rig.backend, f->rig.model, LENGTH, &err), err);
}

static void close_fixture(struct fixture *f)
{
    pith_collector_free(&f->collector);
    rig_close(&f->rig);
    free(f->x);
    free(f->y);
}

static const struct pith_block *first_block(const struct fixture *f)
{
    return &f->rig.model->blocks[0];
}

/* --- the same block in double ---------------------------------------------------------------- */

struct naive {
    double site[LLAMA_SITES][TOKENS][FFN]; /* inputs; HIDDEN or FFN of them are used */
    double out[TOKENS][HIDDEN];
};

static void multiply(const struct pith_block *b, int role, const double *x, double *y)
{
    const struct pith_weight *w = &b->linear[role].w;
    const float *v = w->dense;
    for (uint32_t r = 0; r < w->rows; r++) {
        y[r] = 0;
        for (uint32_t c = 0; c < w->cols; c++) y[r] += (double)v[r * w->cols + c] * x[c];
    }
}

static void normalise(const float *gain, const double *x, double *y)
{
    double squares = 0;
    for (int i = 0; i < HIDDEN; i++) squares += x[i] * x[i];
    for (int i = 0; i < HIDDEN; i++) y[i] = gain[i] * x[i] / sqrt(squares / HIDDEN + 1e-5);
}

static void rotate(double *head, size_t position)
{
    for (int i = 0; i < DIM / 2; i++) {
        const double angle = (double)position * pow(10000, -2.0 * i / DIM);
        const double a = head[i], b = head[i + DIM / 2];
        head[i] = a * cos(angle) - b * sin(angle);
        head[i + DIM / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void attend(const double *q, double k[LENGTH][KV_HEADS * DIM],
                   double v[LENGTH][KV_HEADS * DIM], size_t position, double *out)
{
    for (int h = 0; h < HEADS; h++) {
        const int kv = h / (HEADS / KV_HEADS) * DIM;
        double weight[LENGTH], sum = 0;
        for (size_t t = 0; t <= position; t++) {
            double dot = 0;
            for (int i = 0; i < DIM; i++) dot += q[h * DIM + i] * k[t][kv + i];
            weight[t] = exp(dot / sqrt(DIM));
            sum += weight[t];
        }
        for (int i = 0; i < DIM; i++) {
            out[h * DIM + i] = 0;
            for (size_t t = 0; t <= position; t++)
                out[h * DIM + i] += weight[t] / sum * v[t][kv + i];
        }
    }
}

static void run_window(const struct fixture *f, size_t window, struct naive *n)
{
    const struct pith_block *b = first_block(f);
    double k[LENGTH][KV_HEADS * DIM], v[LENGTH][KV_HEADS * DIM];
    for (size_t p = 0; p < LENGTH; p++) {
        const size_t t = window * LENGTH + p;
        double q[HEADS * DIM], o[HIDDEN], up[FFN], *x = n->out[t];
        for (size_t i = 0; i < HIDDEN; i++) x[i] = (double)f->x[t * HIDDEN + i];
        normalise(b->vector[LLAMA_INPUT], x, n->site[LLAMA_SITE_QKV][t]);
        multiply(b, LLAMA_Q, n->site[LLAMA_SITE_QKV][t], q);
        multiply(b, LLAMA_K, n->site[LLAMA_SITE_QKV][t], k[p]);
        multiply(b, LLAMA_V, n->site[LLAMA_SITE_QKV][t], v[p]);
        for (int h = 0; h < HEADS; h++) rotate(q + h * DIM, p);
        for (int h = 0; h < KV_HEADS; h++) rotate(k[p] + h * DIM, p);
        attend(q, k, v, p, n->site[LLAMA_SITE_O][t]);
        multiply(b, LLAMA_O, n->site[LLAMA_SITE_O][t], o);
        for (int i = 0; i < HIDDEN; i++) x[i] += o[i];
        normalise(b->vector[LLAMA_POST], x, n->site[LLAMA_SITE_GATE_UP][t]);
        multiply(b, LLAMA_GATE, n->site[LLAMA_SITE_GATE_UP][t], n->site[LLAMA_SITE_DOWN][t]);
        multiply(b, LLAMA_UP, n->site[LLAMA_SITE_GATE_UP][t], up);
        for (int i = 0; i < FFN; i++) {
            double *g = &n->site[LLAMA_SITE_DOWN][t][i];
            *g = *g / (1 + exp(-*g)) * up[i];
        }
        multiply(b, LLAMA_DOWN, n->site[LLAMA_SITE_DOWN][t], o);
        for (int i = 0; i < HIDDEN; i++) x[i] += o[i];
    }
}

static struct naive *make_naive(const struct fixture *f)
{
    struct naive *n = calloc(1, sizeof *n);
    for (size_t w = 0; w < WINDOWS; w++) run_window(f, w, n);
    return n;
}

/* |a - b| <= 2e-5 of the larger of b and `scale`. */
static void assert_close(float a, double b, double scale)
{
    const double most = fabs(b) > scale ? fabs(b) : scale;
    if (!(fabs((double)a - b) <= 2e-5 * most)) fail_msg("%.9g is not %.9g", (double)a, b);
}

/* --- tests ----------------------------------------------------------------------------------- */

static const unsigned all_needs = PITH_NEED_ABSMEAN | PITH_NEED_SAMPLES | PITH_NEED_HESSIAN |
                                  PITH_NEED_SQUARES | PITH_NEED_RANGE;

static struct pith_collect all_sites(unsigned needs, size_t samples)
{
    return (struct pith_collect){0, LLAMA_SITES, needs, samples, NULL};
}

static void check_site(const struct naive *n, uint32_t site, const struct pith_stats *st)
{
    const size_t dim = site == LLAMA_SITE_DOWN ? FFN : HIDDEN;
    assert_int_equal(st->dim, dim);
    assert_int_equal(st->tokens, TOKENS);
    double largest = 0;
    for (size_t i = 0; i < dim; i++) {
        double mean = 0;
        for (size_t t = 0; t < TOKENS; t++) mean += fabs(n->site[site][t][i]) / TOKENS;
        assert_close(st->absmean[i], mean, 1e-3);
        if (mean > largest) largest = mean;
        double squares = 0;
        for (size_t t = 0; t < TOKENS; t++)
            squares += n->site[site][t][i] * n->site[site][t][i] / TOKENS;
        assert_close(st->squares[i], squares, 1e-4);
        double lo = 0, hi = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            lo = fmin(lo, n->site[site][t][i]);
            hi = fmax(hi, n->site[site][t][i]);
        }
        assert_close(st->lo[i], lo, 1);
        assert_close(st->hi[i], hi, 1);
    }
    for (size_t i = 0; i < dim; i++)
        for (size_t j = 0; j < dim; j++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += 2 * n->site[site][t][i] * n->site[site][t][j] / TOKENS;
            assert_close(st->hessian[i * dim + j], sum, largest * largest);
            assert_true(st->hessian[i * dim + j] == st->hessian[j * dim + i]);
        }
    assert_int_equal(st->sample_count, TOKENS / 3);
    for (size_t k = 0; k < st->sample_count; k++)
        for (size_t i = 0; i < dim; i++)
            assert_close(st->samples[k * dim + i], n->site[site][k * 3][i], largest);
}

static void test_statistics(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_stats stats[LLAMA_SITES];
    open_fixture(&f, 2);
    struct naive *n = make_naive(&f);
    const struct pith_collect what = all_sites(all_needs, TOKENS / 3);
    assert_ok(pith_collect(&f.collector, first_block(&f), &f.in, &what, stats, &err), err);
    for (uint32_t site = 0; site < LLAMA_SITES; site++) check_site(n, site, &stats[site]);
    pith_stats_free(stats, LLAMA_SITES);
    free(n);
    close_fixture(&f);
}

/* Only what is asked for is gathered: of the sites that are, nothing of another is touched, and the
 * pass ends at the last of them. */
static void test_nothing_more(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_stats stats[LLAMA_SITES];
    static const struct pith_stats other = {.dim = 77, .tokens = 78};
    open_fixture(&f, 1);
    for (int site = 0; site < LLAMA_SITES; site++) stats[site] = other;
    struct pith_collect what = {.first = LLAMA_SITE_O, .count = 1, .needs = PITH_NEED_HESSIAN};
    const struct pith_block *b = first_block(&f);
    float *gate =
        f.collector.scratch.reg[b->plan->node[b->plan->site[LLAMA_SITE_GATE_UP].from].out];
    gate[0] = 12345;
    assert_ok(pith_collect(&f.collector, b, &f.in, &what, &stats[LLAMA_SITE_O], &err), err);
    assert_true(gate[0] == 12345); /* not computed */
    for (int site = 0; site < LLAMA_SITES; site++) {
        assert_true((stats[site].hessian != NULL) == (site == LLAMA_SITE_O));
        assert_int_equal(stats[site].dim, site == LLAMA_SITE_O ? HIDDEN : other.dim);
        assert_int_equal(stats[site].tokens, site == LLAMA_SITE_O ? TOKENS : other.tokens);
        assert_null(stats[site].absmean);
        assert_null(stats[site].squares);
        assert_null(stats[site].samples);
    }
    pith_stats_free(&stats[LLAMA_SITE_O], 1);
    what = (struct pith_collect){LLAMA_SITE_QKV, 1, PITH_NEED_SAMPLES, 1000, NULL};
    assert_ok(pith_collect(&f.collector, b, &f.in, &what, stats, &err), err);
    assert_int_equal(stats[0].sample_count, TOKENS);
    assert_null(stats[0].hessian);
    pith_stats_free(stats, 1);
    close_fixture(&f);
}

/* A part of the sites gives what all of them give. */
static void test_some_sites(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_stats all[LLAMA_SITES], some[LLAMA_SITES];
    open_fixture(&f, 2);
    struct pith_collect what = all_sites(PITH_NEED_HESSIAN, 0);
    assert_ok(pith_collect(&f.collector, first_block(&f), &f.in, &what, all, &err), err);
    for (what.first = 0; what.first < LLAMA_SITES; what.first++)
        for (what.count = 1; what.first + what.count <= LLAMA_SITES; what.count++) {
            assert_ok(pith_collect(&f.collector, first_block(&f), &f.in, &what, some, &err), err);
            for (uint32_t i = 0; i < what.count; i++) {
                const struct pith_stats *want = &all[what.first + i];
                assert_int_equal(some[i].dim, want->dim);
                assert_memory_equal(some[i].hessian, want->hessian,
                                    (size_t)want->dim * want->dim * sizeof(float));
            }
            pith_stats_free(some, what.count);
        }
    pith_stats_free(all, LLAMA_SITES);
    close_fixture(&f);
}

static void test_propagate(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    open_fixture(&f, 2);
    struct naive *n = make_naive(&f);
    assert_ok(pith_propagate(&f.collector, first_block(&f), &f.in, &f.out, &err), err);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < HIDDEN; i++) assert_close(f.y[t * HIDDEN + i], n->out[t][i], 0.1);
    free(n);
    close_fixture(&f);
}

static void test_windows(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    float *x = calloc(2 * LENGTH * FFN, sizeof *x);
    open_fixture(&f, 2);
    struct naive *n = make_naive(&f);
    assert_ok(
        pith_collect_windows(&f.collector, first_block(&f), &f.in, LLAMA_SITE_DOWN, 2, x, &err),
        err);
    for (size_t k = 0; k < 2; k++) /* windows 0 and 1 of three */
        for (size_t p = 0; p < LENGTH; p++)
            for (size_t i = 0; i < FFN; i++)
                assert_close(x[(k * LENGTH + p) * FFN + i],
                             n->site[LLAMA_SITE_DOWN][k * LENGTH + p][i], 0.1);
    free(x);
    free(n);
    close_fixture(&f);
}

static void assert_same(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof *a);
}

static void test_threads(void **state)
{
    (void)state;
    struct fixture f[3];
    struct pith_error err = {0};
    struct pith_stats stats[3][LLAMA_SITES];
    for (unsigned i = 0; i < 3; i++) {
        open_fixture(&f[i], i + 1);
        const struct pith_block *b = first_block(&f[i]);
        const struct pith_collect what = all_sites(all_needs, 7);
        assert_ok(pith_collect(&f[i].collector, b, &f[i].in, &what, stats[i], &err), err);
        assert_ok(pith_propagate(&f[i].collector, b, &f[i].in, &f[i].out, &err), err);
        assert_same(f[i].y, f[0].y, TOKENS * HIDDEN);
        for (int site = 0; site < LLAMA_SITES; site++) {
            const struct pith_stats *a = &stats[0][site], *c = &stats[i][site];
            assert_int_equal(a->sample_count, 7);
            assert_int_equal(c->sample_count, 7);
            assert_same(a->absmean, c->absmean, a->dim);
            assert_same(a->squares, c->squares, a->dim);
            assert_same(a->samples, c->samples, 7 * a->dim);
            assert_same(a->hessian, c->hessian, (size_t)a->dim * a->dim);
        }
    }
    for (int i = 0; i < 3; i++) {
        pith_stats_free(stats[i], LLAMA_SITES);
        close_fixture(&f[i]);
    }
}

static enum pith_status stop_at_second(void *ctx, struct pith_error *err)
{
    int *calls = ctx;
    return ++*calls < 2 ? PITH_OK : pith_fail(err, PITH_INTERRUPTED, "interrupted");
}

/* The listener hears of every window and can end the pass. */
static void test_listener(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_stats stats[LLAMA_SITES];
    int calls = 0;
    open_fixture(&f, 1);
    f.collector.step = stop_at_second;
    f.collector.step_ctx = &calls;
    const struct pith_collect what = all_sites(PITH_NEED_HESSIAN, 0);
    assert_int_equal(pith_collect(&f.collector, first_block(&f), &f.in, &what, stats, &err),
                     PITH_INTERRUPTED);
    assert_int_equal(calls, 2);
    pith_stats_free(stats, LLAMA_SITES);
    err = (struct pith_error){0};
    calls = 0;
    assert_int_equal(pith_propagate(&f.collector, first_block(&f), &f.in, &f.out, &err),
                     PITH_INTERRUPTED);
    assert_int_equal(calls, 2);
    close_fixture(&f);
}

/* What estimates go by is what is asked for. */
static void test_bytes(void **state)
{
    (void)state;
    assert_int_equal(pith_stats_bytes(10, PITH_NEED_HESSIAN, 0), 400);
    assert_int_equal(pith_stats_bytes(10, PITH_NEED_SAMPLES, 7), 280);
    assert_int_equal(pith_stats_bytes(10, PITH_NEED_ABSMEAN, 0), 40);
    assert_int_equal(pith_stats_bytes(10, PITH_NEED_SQUARES, 0), 40);
    const uint64_t none = pith_gather_bytes(10, PITH_NEED_HESSIAN); /* sums are doubles */
    assert_int_equal(pith_gather_bytes(10, PITH_NEED_ABSMEAN), none + 80);
    assert_int_equal(pith_gather_bytes(10, PITH_NEED_ABSMEAN | PITH_NEED_SQUARES), none + 160);
    assert_int_equal(pith_stats_bytes(0xffffffff, PITH_NEED_HESSIAN, 0),
                     4ull * 0xffffffff * 0xffffffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics), cmocka_unit_test(test_nothing_more),
        cmocka_unit_test(test_some_sites), cmocka_unit_test(test_propagate),
        cmocka_unit_test(test_windows),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_listener),   cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
