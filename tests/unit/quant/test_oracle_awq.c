/* quant/transform/awq.c against the authors' search: the same scales, the same clipped ranges. */
#include "oracle.h"
#include "quant/transform.h"

struct layer {
    uint32_t hidden, inner, heads, tokens, shorter;
    float *q, *k, *v, *o, *gate, *up, *down;
    float *x_attention, *x_o, *x_mlp, *x_down;
    float *want; /* output of the inspected module with the original weights */
    struct machine machine;
};

static void linear(const struct layer *l, const float *w, uint32_t rows, uint32_t cols,
                   const float *x, uint32_t n, float *y)
{
    const struct pith_weight m = {.rows = rows, .cols = cols, .dtype = PITH_F32, .dense = w};
    pith_linear(l->machine.backend, &m, NULL, x, n, y);
}

static double mean_square(const float *a, const float *b, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum / (double)n;
}

static void mlp(const struct layer *l, const float *gate, const float *up, float *y)
{
    const size_t n = (size_t)l->tokens * l->inner;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    linear(l, gate, l->inner, l->hidden, l->x_mlp, l->tokens, a);
    linear(l, up, l->inner, l->hidden, l->x_mlp, l->tokens, b);
    for (size_t i = 0; i < n; i++) a[i] = a[i] / (1.0f + expf(-a[i])) * b[i];
    linear(l, l->down, l->hidden, l->inner, a, l->tokens, y);
    free(a), free(b);
}

/* Without mask and rotation. */
static void attention(const struct layer *l, const float *wq, const float *wk, const float *wv,
                      float *y)
{
    const uint32_t n = l->shorter, d = l->hidden, hd = d / l->heads;
    float *q = malloc(4 * (size_t)n * d * sizeof *q), *k = q + n * d, *v = k + n * d,
          *o = v + n * d;
    linear(l, wq, d, d, l->x_attention, n, q);
    linear(l, wk, d, d, l->x_attention, n, k);
    linear(l, wv, d, d, l->x_attention, n, v);
    for (uint32_t i = 0; i < n * l->heads; i++) {
        const uint32_t t = i / l->heads, at = i % l->heads * hd;
        double p[64], most = -INFINITY, sum = 0.0;
        for (uint32_t s = 0; s < n; s++) {
            p[s] = 0.0;
            for (uint32_t c = 0; c < hd; c++)
                p[s] += (double)q[t * d + at + c] * (double)k[s * d + at + c];
            p[s] /= sqrt(hd);
            most = fmax(most, p[s]);
        }
        for (uint32_t s = 0; s < n; s++) sum += p[s] = exp(p[s] - most);
        for (uint32_t c = 0; c < hd; c++) {
            double out = 0.0;
            for (uint32_t s = 0; s < n; s++) out += p[s] / sum * (double)v[s * d + at + c];
            o[t * d + at + c] = (float)out;
        }
    }
    linear(l, l->o, d, d, o, n, y);
    free(q);
}

static enum pith_status mlp_loss(void *ctx, const struct pith_trial *trial, double *loss,
                                 struct pith_error *err)
{
    const struct layer *l = ctx;
    (void)trial, (void)err;
    float *y = malloc((size_t)l->tokens * l->hidden * sizeof *y);
    mlp(l, l->gate, l->up, y);
    *loss = mean_square(y, l->want, (size_t)l->tokens * l->hidden);
    free(y);
    return PITH_OK;
}

static enum pith_status attention_loss(void *ctx, const struct pith_trial *trial, double *loss,
                                       struct pith_error *err)
{
    const struct layer *l = ctx;
    (void)trial, (void)err;
    float *y = malloc((size_t)l->shorter * l->hidden * sizeof *y);
    attention(l, l->q, l->k, l->v, y);
    *loss = mean_square(y, l->want, (size_t)l->shorter * l->hidden);
    free(y);
    return PITH_OK;
}

static float *absmean_of(const float *x, size_t n, size_t dim)
{
    float *mean = malloc(dim * sizeof *mean);
    for (size_t c = 0; c < dim; c++) {
        double sum = 0.0;
        for (size_t t = 0; t < n; t++) sum += fabs((double)x[t * dim + c]);
        mean[c] = (float)(sum / (double)n);
    }
    return mean;
}

/* Sum over rows and groups of the mean over tokens of (sum over the group of x / s (q - w s))^2. */
static double group_error(const struct pith_transform_linear *l, const float *original,
                          const float *s, const float *x, size_t tokens)
{
    const uint32_t cols = l->cols, group = l->grid.group;
    float *q = malloc((size_t)l->rows * cols * sizeof *q);
    memcpy(q, l->w, (size_t)l->rows * cols * sizeof *q);
    struct pith_error err = {0};
    assert_ok(pith_pseudo_quantize(NULL, &l->grid, PITH_F32, l->rows, cols, q, &err), err);
    double total = 0.0;
    for (uint32_t r = 0; r < l->rows; r++)
        for (uint32_t first = 0; first < cols; first += group)
            for (size_t t = 0; t < tokens; t++) {
                double y = 0.0;
                for (uint32_t c = first; c < first + group; c++) {
                    const size_t at = (size_t)r * cols + c;
                    y += (double)(x[t * cols + c] / s[c]) * (double)(q[at] - original[at] * s[c]);
                }
                total += y * y / (double)tokens;
            }
    free(q);
    return total;
}

/* Group by group, the step that the range was clipped by; and what the clipping achieved. A
 * range that is clipped on both sides has its zero point at an exact tie, decided by the last
 * bit of the scale: so not every step can be the same. */
static void check_clip(const struct pith_transform_linear *l, const float *original, const float *s,
                       const struct pith_stats *stats, const json_t *site)
{
    const char *want = text_of(site, "clip");
    const uint32_t group = l->grid.group, groups = l->cols / group;
    size_t same = 0;
    assert_int_equal(strlen(want), l->rows * groups);
    for (uint32_t i = 0; i < l->rows * groups; i++) {
        const size_t at = (size_t)i / groups * l->cols + i % groups * group;
        float before = 0.0f, after = 0.0f;
        for (uint32_t c = 0; c < group; c++) {
            before = fmaxf(before, fabsf(original[at + c] * s[i % groups * group + c]));
            after = fmaxf(after, fabsf(l->w[at + c]));
        }
        same += (long)lrintf(20.0f * (1.0f - after / before)) == want[i] - '0';
    }
    const double equal = (double)same / (l->rows * groups);
    const double error = group_error(l, original, s, stats->samples, stats->sample_count);
    const double reference = json_real_value(json_object_get(site, "clip_error"));
    print_message("    %.2f%% of clipped ranges equal, error %.5g, reference %.5g\n", 100.0 * equal,
                  error, reference);
    assert_true(equal >= 0.95);
    assert_true(fabs(error - reference) <= 0.005 * reference);
}

static void check_site(struct layer *l, const json_t *site, struct pith_grid grid)
{
    const char *name = text_of(site, "site");
    const uint32_t d = l->hidden, inner = l->inner;
    struct pith_stats stats = {.dim = d};
    struct pith_transform_linear linear[3];
    struct pith_transform_job job = {.backend = l->machine.backend,
                                     .linear = linear,
                                     .scale_dtype = PITH_F32,
                                     .stats = &stats,
                                     .loss_ctx = l,
                                     .repeat = 1};
    stats.tokens = stats.sample_count = l->tokens;
    float gain[256];
    for (size_t i = 0; i < 256; i++) gain[i] = 1.0f;
    job.gain = gain;
    job.count = 1;
    if (strcmp(name, "attention") == 0) {
        stats.samples = l->x_attention;
        stats.tokens = stats.sample_count = l->shorter;
        job.count = 3;
        job.linear[0] = (struct pith_transform_linear){
            .w = l->q, .rows = d, .cols = d, .grid = grid, .clip = false};
        job.linear[1] = (struct pith_transform_linear){
            .w = l->k, .rows = d, .cols = d, .grid = grid, .clip = false};
        job.linear[2] = (struct pith_transform_linear){
            .w = l->v, .rows = d, .cols = d, .grid = grid, .clip = false};
        job.loss = attention_loss;
        attention(l, l->q, l->k, l->v, l->want);
    } else if (strcmp(name, "mlp") == 0) {
        stats.samples = l->x_mlp;
        job.count = 2;
        job.linear[0] = (struct pith_transform_linear){
            .w = l->gate, .rows = inner, .cols = d, .grid = grid, .clip = false};
        job.linear[1] = (struct pith_transform_linear){
            .w = l->up, .rows = inner, .cols = d, .grid = grid, .clip = false};
        job.loss = mlp_loss;
        mlp(l, l->gate, l->up, l->want);
    } else if (strcmp(name, "o") == 0) {
        stats.samples = l->x_o;
        job.linear[0] = (struct pith_transform_linear){
            .w = l->o, .rows = d, .cols = d, .grid = grid, .clip = true};
        job.clip_search = true;
    } else {
        stats.dim = inner;
        stats.samples = l->x_down;
        job.linear[0] = (struct pith_transform_linear){
            .w = l->down, .rows = d, .cols = inner, .grid = grid, .clip = true};
        job.clip_search = true;
    }
    stats.absmean = absmean_of(stats.samples, stats.tokens, stats.dim);
    float *copy[3];
    for (unsigned i = 0; i < job.count; i++) {
        const size_t bytes = (size_t)job.linear[i].rows * job.linear[i].cols * sizeof(float);
        copy[i] = memcpy(malloc(bytes), job.linear[i].w, bytes);
    }
    float s[256];
    struct pith_transform_report report;
    struct pith_error err = {0};
    assert_ok(pith_transform_find("awq")->run(&job, s, &report, &err), err);
    const json_t *want = json_object_get(site, "scales");
    double worst = 0.0;
    for (uint32_t c = 0; c < stats.dim; c++) {
        const double x = json_real_value(json_array_get(want, c));
        worst = fmax(worst, fabs((double)s[c] - x) / x);
        assert_true(fabs((double)(gain[c] * s[c]) - 1.0) < 1e-6);
    }
    print_message("  %-9s ratio %.2f, loss %.5g -> %.5g, scales within %.1e\n", name, report.ratio,
                  report.loss_before, report.loss_after, worst);
    assert_true(worst < 1e-4);
    if (text_of(site, "clip")) check_clip(&job.linear[0], copy[0], s, &stats, site);
    for (unsigned i = 0; i < job.count; i++) {
        memcpy(job.linear[i].w, copy[i],
               (size_t)job.linear[i].rows * job.linear[i].cols * sizeof(float));
        free(copy[i]);
    }
    free(stats.absmean);
}

static void check_layer(const json_t *golden, const json_t *c)
{
    uint64_t seed = count_of(c, "seed");
    struct layer l = {.hidden = count_of(golden, "hidden"),
                      .inner = count_of(golden, "inner"),
                      .heads = count_of(golden, "heads"),
                      .tokens = count_of(golden, "tokens"),
                      .shorter = count_of(golden, "short"),
                      .machine = make_machine(2)};
    const uint32_t d = l.hidden, n = l.inner;
    l.q = oracle_weights(&seed, d, d);
    l.k = oracle_weights(&seed, d, d);
    l.v = oracle_weights(&seed, d, d);
    l.o = oracle_weights(&seed, d, d);
    l.gate = oracle_weights(&seed, n, d);
    l.up = oracle_weights(&seed, n, d);
    l.down = oracle_weights(&seed, d, n);
    l.x_attention = oracle_inputs(&seed, l.shorter, d);
    l.x_o = oracle_inputs(&seed, l.tokens, d);
    l.x_mlp = oracle_inputs(&seed, l.tokens, d);
    l.x_down = oracle_inputs(&seed, l.tokens, n);
    l.want = malloc((size_t)l.tokens * d * sizeof *l.want);
    print_message("%s\n", text_of(c, "grid"));
    size_t i;
    json_t *site;
    json_array_foreach (json_object_get(c, "sites"), i, site)
        check_site(&l, site, grid_of(text_of(c, "grid")));
    assert_int_equal(i, 4);
    free(l.q), free(l.k), free(l.v), free(l.o), free(l.gate), free(l.up), free(l.down);
    free(l.x_attention), free(l.x_o), free(l.x_mlp), free(l.x_down), free(l.want);
    free_machine(&l.machine);
}

static void scales_and_ranges_are_the_reference_implementations(void **state)
{
    (void)state;
    json_t *golden = load_golden("awq.json");
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(golden, "cases"), i, c) check_layer(golden, c);
    assert_int_equal(i, 4);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_and_ranges_are_the_reference_implementations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
