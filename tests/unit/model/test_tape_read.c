/* The gradients of what is read: each site's is what its linears' own gradients say of it, keys'
 * and values' what those of the linears say that made them; and whoever listens changes no bit. */
#include "unit/model/arch_case.h"
#include "unit/model/grad_bench.h"

enum { SITES = 256 };

/* The sums of what is read times its gradient, and of magnitudes. */
struct heard {
    double site[SITES], scale[SITES], keys, values;
    bool told[SITES];
    size_t rows[SITES];
};

static void hear(void *ctx, const struct pith_tape_read *read)
{
    struct heard *h = ctx;
    double sum = 0, scale = 0;
    for (size_t i = 0; i < read->n * read->width; i++) {
        const double product = (double)read->x[i] * (double)read->d[i];
        sum += product;
        scale += fabs(product);
    }
    if (read->what == PITH_READ_KEYS) h->keys = sum;
    if (read->what == PITH_READ_VALUES) h->values = sum;
    if (read->what != PITH_READ_SITE) return;
    assert_true(read->site < SITES);
    h->told[read->site] = true;
    h->site[read->site] += sum;
    h->scale[read->site] += scale;
    h->rows[read->site] += read->n;
}

static void run_heard(struct bench *t, struct heard *h)
{
    struct pith_error err = {0};
    const struct pith_tape_grad g = {
        .d_out = t->d_out, .w = t->grad, .d_x = t->d_x, .seen = hear, .ctx = h};
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->out, &err), err);
    pith_tape_backward(&t->tape, &t->block, &g);
}

/* The gradient of a matrix times the matrix: of y = x W^T that is dy y, and d x. */
static double product_of(const struct bench *t, uint32_t linear)
{
    const float *w = t->block.linear[linear].w.dense;
    double sum = 0;
    for (size_t i = 0; i < count_of(t, linear); i++)
        sum += (double)w[i] * (double)t->grad[linear][i];
    return sum;
}

static size_t check_sites(const struct bench *t, const struct heard *h, const char *name)
{
    const struct pith_layer_plan *l = t->block.plan;
    size_t told = 0;
    for (uint32_t s = 0; s < l->sites; s++) {
        double sum = 0;
        if (!h->told[s]) continue;
        told++;
        for (uint32_t i = 0; i < l->site[s].count; i++) sum += product_of(t, l->site[s].first + i);
        if (!(fabs(sum - h->site[s]) <= 1e-4 * h->scale[s]))
            fail_msg("%s, %s: %g, and its linears say %g", name, l->site[s].name, h->site[s], sum);
        if (l->site[s].expert == PITH_NO_PART) assert_int_equal(h->rows[s], t->n);
    }
    return told;
}

/* Without a listener, then with one: the same gradients. */
static void check_layer(struct bench *t, const char *name, size_t *told, struct heard *h)
{
    const uint32_t linears = t->block.plan->linears;
    float **before = calloc(linears, sizeof *before);
    float *d_x = malloc(t->n * t->hidden * sizeof *d_x);
    bench_run(t);
    memcpy(d_x, t->d_x, t->n * t->hidden * sizeof *d_x);
    for (uint32_t i = 0; i < linears; i++) {
        before[i] = t->grad[i];
        t->grad[i] = calloc(count_of(t, i), sizeof **t->grad);
    }
    run_heard(t, h);
    assert_memory_equal(d_x, t->d_x, t->n * t->hidden * sizeof *d_x);
    for (uint32_t i = 0; i < linears; i++) {
        assert_memory_equal(before[i], t->grad[i], count_of(t, i) * sizeof(float));
        free(before[i]);
    }
    free(before);
    free(d_x);
    *told += check_sites(t, h, name);
}

static void sites_are_felt_by_their_linears(void **state)
{
    static const char *const names[] = {"llama",      "mixtral",          "gpt_oss",
                                        "qwen3_next", "deepseek_v3",      "gemma3",
                                        "gpt_neox",   "granitemoehybrid", "llama4"};
    (void)state;
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        struct bench t;
        size_t told = 0;
        memset(&t, 0, sizeof t);
        rig_open_arch(&t.r, names[k], 2);
        bench_init(&t);
        for (uint32_t layer = 0; layer < t.r.model->shape.layers; layer++) {
            struct heard h = {.keys = 0};
            layer_open(&t, layer);
            check_layer(&t, names[k], &told, &h);
            layer_close(&t);
        }
        print_message("%-20s %zu sites\n", names[k], told);
        assert_true(told >= 4);
        bench_close(&t);
    }
}

static uint32_t linear_named(const struct bench *t, const char *name)
{
    for (uint32_t i = 0; i < t->block.plan->linears; i++)
        if (strcmp(t->block.plan->linear[i].name, name) == 0) return i;
    fail_msg("no %s", name);
    return 0;
}

/* Keys are turned by rotary positions, which changes no product. */
static void keys_and_values_come_of_linears(void **state)
{
    struct bench t;
    struct heard h = {.keys = 0};
    (void)state;
    memset(&t, 0, sizeof t);
    rig_open_arch(&t.r, "mistral", 2);
    bench_init(&t);
    layer_open(&t, 1);
    run_heard(&t, &h);
    const double k = product_of(&t, linear_named(&t, "self_attn.k_proj"));
    const double v = product_of(&t, linear_named(&t, "self_attn.v_proj"));
    assert_true(fabs(k) > 1e-6 && fabs(v) > 1e-6);
    assert_true(fabs(h.keys - k) <= 1e-3 * fabs(k) && fabs(h.values - v) <= 1e-3 * fabs(v));
    layer_close(&t);
    bench_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sites_are_felt_by_their_linears),
                                       cmocka_unit_test(keys_and_values_come_of_linears)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
