/* quant/round/gptq.c against the algorithm as published, in double precision. */
#include "quant/round/hessian.h"
#include "quant_test.h"

/* Upper Cholesky factor of the inverse of h (Hinv = U^T U), as the paper has it. */
static double *factor_inverse(const double *h, uint32_t n)
{
    double *a = malloc(sizeof *a * n * n), *inv = calloc((size_t)n * n, sizeof *inv);
    memcpy(a, h, sizeof *a * n * n);
    for (uint32_t i = 0; i < n; i++) inv[i * n + i] = 1.0;
    for (uint32_t k = 0; k < n; k++) { /* Gauss-Jordan; h is positive definite */
        const double pivot = a[k * n + k];
        for (uint32_t j = 0; j < n; j++) a[k * n + j] /= pivot, inv[k * n + j] /= pivot;
        for (uint32_t i = 0; i < n; i++) {
            const double f = a[i * n + k];
            if (i == k || f == 0.0) continue;
            for (uint32_t j = 0; j < n; j++) {
                a[i * n + j] -= f * a[k * n + j];
                inv[i * n + j] -= f * inv[k * n + j];
            }
        }
    }
    double *u = calloc((size_t)n * n, sizeof *u);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i; j < n; j++) {
            double sum = inv[i * n + j];
            for (uint32_t k = 0; k < i; k++) sum -= u[k * n + i] * u[k * n + j];
            u[i * n + j] = i == j ? sqrt(sum) : sum / u[i * n + i];
        }
    free(a);
    free(inv);
    return u;
}

static void order(const struct problem *p, enum pith_act_order act, uint32_t *perm)
{
    for (uint32_t k = 0; k < p->cols; k++) perm[k] = k;
    for (uint32_t k = 1; act != PITH_ORDER_NONE && k < p->cols; k++)
        for (uint32_t j = k; j > 0; j--) { /* insertion sort: stable */
            const uint32_t a = perm[j - 1], b = perm[j];
            if (p->h[a * p->cols + a] >= p->h[b * p->cols + b]) break;
            perm[j - 1] = b;
            perm[j] = a;
        }
}

/* The published loop, with groups fitted on up-to-date weights. The codes, by column of the
 * matrix; *loss receives the sum of (w - q)^2 / U^2, which is the loss by the damped Hessian. */
static uint8_t *naive(const struct problem *p, const struct pith_grid *grid,
                      enum pith_act_order act, double damp, double *loss)
{
    const uint32_t n = p->cols, g = grid->group ? grid->group : n;
    uint32_t *perm = malloc(n * sizeof *perm);
    order(p, act, perm);
    double mean = 0.0, *h = malloc(sizeof *h * n * n);
    for (uint32_t i = 0; i < n; i++) mean += (double)p->h[i * n + i] / n;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            h[i * n + j] = (double)p->h[perm[i] * n + perm[j]] + (i == j ? damp * mean : 0.0);
    double *u = factor_inverse(h, n), *w = malloc(n * sizeof *w);
    uint8_t *codes = malloc((size_t)p->rows * n);
    float *fit = malloc(n * sizeof *fit);
    const struct pith_gridder *gridder = pith_gridder_for(grid);
    const struct pith_grid_rule rule = {.grid = grid, .scale_dtype = PITH_F32};
    *loss = 0.0;
    for (uint32_t r = 0; r < p->rows; r++) {
        for (uint32_t k = 0; k < n; k++) w[k] = (double)p->w[r * n + perm[k]];
        for (uint32_t k = 0; k < n; k++) {
            static float scale, zero;
            if (act == PITH_ORDER_STATIC || !grid->group) {
                const uint32_t first = perm[k] / g * g, width = n - first < g ? n - first : g;
                const struct pith_weights x = {p->w + r * n + first, width, 1};
                pith_grid_fit(gridder, &rule, &x, &scale, &zero);
            } else if (k % g == 0) {
                const uint32_t width = n - k < g ? n - k : g;
                for (uint32_t i = 0; i < width; i++) fit[i] = (float)w[k + i];
                pith_grid_fit(gridder, &rule, &(struct pith_weights){fit, width, 1}, &scale, &zero);
            }
            const uint8_t c = gridder->encode(grid->format, (float)w[k], scale, zero);
            const double e = w[k] - ((double)c - (double)zero) * (double)scale;
            codes[r * n + perm[k]] = c;
            for (uint32_t j = k; j < n; j++) w[j] -= e / u[k * n + k] * u[k * n + j];
            *loss += e * e / (u[k * n + k] * u[k * n + k]) / p->rows;
        }
    }
    free(perm), free(h), free(u), free(w), free(fit);
    return codes;
}

/* What the damping added to the loss. */
static double damping_share(const struct problem *p, const float *q, double damp)
{
    double mean = 0.0, sum = 0.0;
    for (uint32_t i = 0; i < p->cols; i++) mean += (double)p->h[i * p->cols + i] / p->cols;
    for (size_t i = 0; i < (size_t)p->rows * p->cols; i++)
        sum += ((double)p->w[i] - (double)q[i]) * ((double)p->w[i] - (double)q[i]);
    return damp * mean * sum / p->rows;
}

static void agrees_with_the_published_loop(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        enum pith_act_order order;
    } cases[] = {
        {"int4:g32", 40, 160, PITH_ORDER_NONE},
        {"int4:g32", 40, 160, PITH_ORDER_STATIC},
        {"int4:g32", 40, 160, PITH_ORDER_GROUP},
        {"int3:g48:asym", 70, 200, PITH_ORDER_NONE},
        {"int2:g16:asym", 33, 150, PITH_ORDER_GROUP},
        {"int8:channel", 20, 300, PITH_ORDER_STATIC},
        {"int4:channel:asym", 65, 130, PITH_ORDER_NONE},
        {"int4:g200:mse", 20, 330, PITH_ORDER_NONE},
        {"int3:g128:mse", 24, 300, PITH_ORDER_GROUP},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct problem p = make_problem(i + 1, cases[i].rows, cases[i].cols, 2 * cases[i].cols);
        struct pith_error err = {0};
        struct pith_qmat q;
        struct pith_round_report report;
        assert_ok(run_rounder("gptq", &p, cases[i].grid, cases[i].order, 1, &q, &report, &err),
                  err);
        const struct pith_grid grid = grid_of(cases[i].grid);
        double loss;
        uint8_t *want = naive(&p, &grid, cases[i].order, 0.01, &loss), *got = malloc(p.cols);
        size_t same = 0;
        for (uint32_t r = 0; r < p.rows; r++) {
            pith_qmat_get_codes(&q, r, got);
            for (uint32_t c = 0; c < p.cols; c++) same += got[c] == want[r * p.cols + c];
        }
        float *values = decode_all(&q);
        const double exact = exact_loss(&p, values),
                     damped = exact + damping_share(&p, values, 0.01);
        const double equal = (double)same / ((double)p.rows * p.cols);
        print_message(
            "%-18s order %d: %.4f%% of codes equal, loss %.6g, published %.6g, nearest %.6g\n",
            cases[i].grid, (int)cases[i].order, 100.0 * equal, damped, loss, report.nearest_loss);
        assert_true(equal > 0.99);
        assert_true(fabs(damped - loss) < 2e-3 * loss);
        assert_true(fabs(report.loss - exact) < 1e-4 * exact);
        assert_true(report.loss < report.nearest_loss);
        assert_int_equal(q.g_idx != NULL, cases[i].order == PITH_ORDER_GROUP);
        free(values), free(want), free(got);
        pith_qmat_free(&q);
        free_problem(&p);
    }
}

/* Wherever it stands in a row: the check takes many at a time. */
static void refuses_what_is_not_finite(void **state)
{
    enum { N = 71 };
    static float h[N * N];
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    (void)state;
    for (size_t i = 0; i < (size_t)N * N; i++) h[i] = i % (N + 1) ? -3e38f : 3e38f;
    assert_int_equal(pith_hessian_check(h, N, NULL), PITH_OK);
    for (size_t at = 0; at < N; at++)
        for (size_t k = 0; k < 3; k++) {
            const size_t i = at * N + (at * 7 + k) % N;
            const float was = h[i];
            char place[48];
            struct pith_error err = {0};
            h[i] = wrong[k];
            assert_int_equal(pith_hessian_check(h, N, &err), PITH_NUMERIC);
            snprintf(place, sizeof place, "at input %zu, %zu", i / N, i % N);
            assert_non_null(strstr(err.text, place));
            h[i] = was;
        }
    h[(N - 1) * (N + 1)] = -1;
    assert_int_equal(pith_hessian_check(h, N, NULL), PITH_NUMERIC);
}

static double loss_of(const struct problem *p, const char *grid, enum pith_act_order order,
                      bool range_search)
{
    struct machine m = make_machine(1);
    float *w = malloc((size_t)p->rows * p->cols * sizeof *w);
    struct pith_round_job job = problem_job(p, &m, grid, order, w);
    job.options.range_search = range_search;
    struct pith_error err = {0};
    struct pith_qmat q;
    struct pith_round_report report;
    assert_ok(pith_rounder_run(pith_rounder_find("gptq"), &job, &q, &report, &err), err);
    pith_qmat_free(&q);
    free(w);
    free_machine(&m);
    return report.loss;
}

static void searched_ranges_lose_less(void **state)
{
    static const struct {
        const char *grid;
        double at_most; /* of the loss without a search */
    } cases[] = {
        {"int4:g32", 0.65},      {"int4:g32:asym", 0.8},    {"int3:g64", 0.65},
        {"int2:g64:asym", 0.65}, {"int4:channel", 0.7},     {"int8:channel", 0.9},
        {"nvfp4:mse", 0.9},      {"fp4_e2m1:g32:mse", 0.8}, {"fp8_e4m3:channel:mse", 0.75}};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct problem p = make_problem(i + 1, 48, 192, 400);
        for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
            const double plain = loss_of(&p, cases[i].grid, (enum pith_act_order)order, false),
                         searched = loss_of(&p, cases[i].grid, (enum pith_act_order)order, true);
            print_message("%-14s order %d: %.3f of %.4g\n", cases[i].grid, order, searched / plain,
                          plain);
            assert_true(searched < cases[i].at_most * plain);
        }
        free_problem(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_published_loop),
        cmocka_unit_test(refuses_what_is_not_finite),
        cmocka_unit_test(searched_ranges_lose_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
