/* Gradients of attention, norm and SwiGLU against plain double arithmetic, and their bits for any
 * thread count and instruction set. */
#include "backend/grad.h"
#include "base/cpu.h"
#include "test.h"

#include <math.h>

enum { N = 150, HEADS = 4, KV = 2, DIM = 20 };

static void fill(float *x, size_t n, unsigned seed, float scale)
{
    uint32_t s = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = scale * ((float)(s >> 8) / 8388608.0f - 1.0f);
    }
}

struct rig {
    struct pith_pool *pool;
    struct pith_backend *b;
};

static void rig_open(struct rig *r, unsigned threads, uint32_t mask)
{
    struct pith_error err = {0};
    assert_ok(pith_pool_new(threads, &r->pool, &err), err);
    assert_ok(pith_backend_new(r->pool, mask, &r->b, &err), err);
}

static void rig_close(struct rig *r)
{
    pith_backend_free(r->b);
    pith_pool_free(r->pool);
}

struct attention {
    float q[N][HEADS][DIM], k[N][KV][DIM], v[N][KV][DIM], out[N][HEADS][DIM], d_out[N][HEADS][DIM];
    float d_q[N][HEADS][DIM], d_k[N][KV][DIM], d_v[N][KV][DIM];
    double p[N][N];
    double e_q[N][HEADS][DIM], e_k[N][KV][DIM], e_v[N][KV][DIM]; /* expected */
};

static double dot(const float *x, const float *y)
{
    double s = 0;
    for (int e = 0; e < DIM; e++) s += (double)x[e] * (double)y[e];
    return s;
}

/* Weights of one query, its output, and what it adds to the gradients. */
static void query(struct attention *a, int i, int h, int window, double scale)
{
    const int kv = h / (HEADS / KV), from = window && i + 1 > window ? i + 1 - window : 0;
    double sum = 0, mean = 0, o[DIM] = {0};
    for (int j = from; j <= i; j++) sum += a->p[i][j] = exp(scale * dot(a->q[i][h], a->k[j][kv]));
    for (int j = from; j <= i; j++) {
        a->p[i][j] /= sum;
        for (int e = 0; e < DIM; e++) o[e] += a->p[i][j] * (double)a->v[j][kv][e];
        mean += a->p[i][j] * dot(a->d_out[i][h], a->v[j][kv]);
    }
    for (int e = 0; e < DIM; e++) a->out[i][h][e] = (float)o[e];
    for (int j = from; j <= i; j++) {
        const double ds = a->p[i][j] * (dot(a->d_out[i][h], a->v[j][kv]) - mean) * scale;
        for (int e = 0; e < DIM; e++) {
            a->e_v[j][kv][e] += a->p[i][j] * (double)a->d_out[i][h][e];
            a->e_q[i][h][e] += ds * (double)a->k[j][kv][e];
            a->e_k[j][kv][e] += ds * (double)a->q[i][h][e];
        }
    }
}

static struct attention *attention_new(int window, double scale)
{
    struct attention *a = calloc(1, sizeof *a);
    fill(&a->q[0][0][0], sizeof a->q / sizeof(float), 1, 2);
    fill(&a->k[0][0][0], sizeof a->k / sizeof(float), 2, 2);
    fill(&a->v[0][0][0], sizeof a->v / sizeof(float), 3, 1);
    fill(&a->d_out[0][0][0], sizeof a->d_out / sizeof(float), 4, 1);
    for (int i = 0; i < N; i++)
        for (int h = 0; h < HEADS; h++) query(a, i, h, window, scale);
    return a;
}

static void run(struct attention *a, struct pith_backend *b, unsigned threads, int window,
                float scale)
{
    float *work = malloc(pith_attention_grad_work(threads, N) * sizeof *work);
    const struct pith_attention_grad g = {.n = N,
                                          .heads = HEADS,
                                          .kv_heads = KV,
                                          .head_dim = DIM,
                                          .window = (size_t)window,
                                          .scale = scale,
                                          .q = &a->q[0][0][0],
                                          .k = &a->k[0][0][0],
                                          .v = &a->v[0][0][0],
                                          .out = &a->out[0][0][0],
                                          .d_out = &a->d_out[0][0][0],
                                          .d_q = &a->d_q[0][0][0],
                                          .d_k = &a->d_k[0][0][0],
                                          .d_v = &a->d_v[0][0][0],
                                          .work = work};
    pith_attention_grad(b, &g);
    free(work);
}

static void near(const float *x, const double *expected, size_t n, double tolerance)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(expected[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - expected[i]) <= tolerance * most))
            fail_msg("%zu: %g, expected %g", i, (double)x[i], expected[i]);
}

static void attention_is_right(void **state)
{
    static const int windows[] = {0, 70, 3};
    (void)state;
    struct rig r;
    rig_open(&r, 2, PITH_CPU_ALL);
    for (size_t w = 0; w < 3; w++) {
        struct attention *a = attention_new(windows[w], 0.25);
        run(a, r.b, 2, windows[w], 0.25f);
        near(&a->d_q[0][0][0], &a->e_q[0][0][0], N * HEADS * DIM, 2e-6);
        near(&a->d_k[0][0][0], &a->e_k[0][0][0], N * KV * DIM, 2e-6);
        near(&a->d_v[0][0][0], &a->e_v[0][0][0], N * KV * DIM, 2e-6);
        free(a);
    }
    rig_close(&r);
}

static void norm_is_right(void **state)
{
    enum { ROWS = 5, D = 37 };
    (void)state;
    struct rig r;
    float x[ROWS][D], weight[D], dy[ROWS][D], dx[ROWS][D];
    double expected[ROWS][D];
    fill(&x[0][0], ROWS * D, 5, 3);
    fill(weight, D, 6, 2);
    fill(&dy[0][0], ROWS * D, 7, 1);
    for (int i = 0; i < ROWS; i++) {
        double squares = 0, z = 0;
        for (int e = 0; e < D; e++) {
            squares += (double)x[i][e] * (double)x[i][e];
            z += (double)x[i][e] * (double)weight[e] * (double)dy[i][e];
        }
        const double s = 1 / sqrt(squares / D + 0.5);
        for (int e = 0; e < D; e++)
            expected[i][e] = s * (double)weight[e] * (double)dy[i][e] -
                             (double)x[i][e] * s * s * s * z / D;
    }
    rig_open(&r, 2, PITH_CPU_ALL);
    struct pith_rmsnorm_grad g = {.x = &x[0][0],
                                  .weight = weight,
                                  .dy = &dy[0][0],
                                  .n = ROWS,
                                  .dim = D,
                                  .eps = 0.5,
                                  .dx = &dx[0][0]};
    pith_rmsnorm_grad(r.b, &g);
    near(&dx[0][0], &expected[0][0], ROWS * D, 1e-6);
    g.accumulate = true;
    pith_rmsnorm_grad(r.b, &g);
    for (int i = 0; i < ROWS * D; i++) (&expected[0][0])[i] *= 2;
    near(&dx[0][0], &expected[0][0], ROWS * D, 1e-6);
    rig_close(&r);
}

static void silu_is_right(void **state)
{
    enum { COUNT = 20000 };
    (void)state;
    struct rig r;
    float *gate = malloc(COUNT * sizeof *gate), *up = malloc(COUNT * sizeof *up);
    float *dy = malloc(COUNT * sizeof *dy), *d_up = malloc(COUNT * sizeof *d_up);
    double *e_gate = malloc(COUNT * sizeof *e_gate), *e_up = malloc(COUNT * sizeof *e_up);
    fill(gate, COUNT, 8, 30);
    fill(up, COUNT, 9, 2);
    fill(dy, COUNT, 10, 1);
    gate[0] = -1e4f; /* exp(-gate) is infinite */
    gate[1] = 1e4f;
    for (int i = 0; i < COUNT; i++) {
        const double z = (double)gate[i], s = 1 / (1 + exp(-z));
        e_up[i] = (double)dy[i] * z * s;
        e_gate[i] = (double)dy[i] * (double)up[i] * s * (1 + z * (1 - s));
    }
    e_up[0] = e_gate[0] = 0;
    rig_open(&r, 2, PITH_CPU_ALL);
    const struct pith_silu_grad g = {
        .gate = gate, .up = up, .dy = dy, .count = COUNT, .d_gate = dy, .d_up = d_up};
    pith_silu_mul_grad(r.b, &g);
    near(dy, e_gate, COUNT, 1e-6);
    near(d_up, e_up, COUNT, 1e-6);
    rig_close(&r);
    free(gate);
    free(up);
    free(dy);
    free(d_up);
    free(e_gate);
    free(e_up);
}

static void same_bits_everywhere(void **state)
{
    (void)state;
    struct rig one, three;
    struct attention *a = attention_new(70, 0.25), *c = attention_new(70, 0.25);
    rig_open(&one, 1, 0);
    rig_open(&three, 3, PITH_CPU_ALL);
    run(a, one.b, 1, 70, 0.25f);
    run(c, three.b, 3, 70, 0.25f);
    assert_memory_equal(a->d_q, c->d_q, sizeof a->d_q);
    assert_memory_equal(a->d_k, c->d_k, sizeof a->d_k);
    assert_memory_equal(a->d_v, c->d_v, sizeof a->d_v);
    rig_close(&one);
    rig_close(&three);
    free(a);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_right),
        cmocka_unit_test(norm_is_right),
        cmocka_unit_test(silu_is_right),
        cmocka_unit_test(same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
