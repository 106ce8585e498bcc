/* Gradients of every kind of node: against torch's autograd (tests/golden/grad/make_grad_arch.py)
 * and, of every case of tests/golden/arch, against finite differences; the pass that remembers
 * gives the bits of the model's own.
 *
 * test_arch_grad [prefix]: only the cases whose names begin so. */
#include "unit/model/arch_case.h"
#include "unit/model/grad_bench.h"

static const char *prefix = "";

static void bench_open(struct bench *t, const char *name, unsigned threads)
{
    memset(t, 0, sizeof *t);
    rig_open_arch(&t->r, name, threads);
    bench_init(t);
}

/* --- torch ------------------------------------------------------------------------------------ */

/* The tensor that is of a linear: by its name, the end of that, or its place in its expert. */
static const struct pith_tensor *tensor_of(const struct pith_safetensors *f,
                                           const struct pith_layer_plan *l, uint32_t linear)
{
    static const char *const part[] = {"gate", "up", "down"};
    const struct pith_linear_spec *spec = &l->linear[linear];
    const struct pith_node *experts = pith_plan_experts(l);
    char name[64];
    const char *last = strrchr(spec->name, '.');
    snprintf(name, sizeof name, "%s", spec->name);
    if (spec->expert != PITH_NO_PART)
        snprintf(name, sizeof name, "%s.%u", part[(linear - experts->u.experts.first) % 3],
                 spec->expert);
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    for (size_t i = 0; last && i < f->count; i++) {
        const char *dot = strrchr(f->tensors[i].name, '.');
        if (dot && strcmp(dot, last) == 0) return &f->tensors[i];
    }
    return NULL;
}

/* The gradient times the pattern over its columns, and over its rows. */
static void both_ways(const struct bench *t, uint32_t linear, float *to)
{
    const size_t rows = t->block.linear[linear].w.rows, cols = t->block.linear[linear].w.cols;
    const float *g = t->grad[linear];
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < cols; j++) sum += (double)g[i * cols + j] * (double)pattern(j);
        to[i] = (float)sum;
    }
    for (size_t j = 0; j < cols; j++) {
        double sum = 0;
        for (size_t i = 0; i < rows; i++) sum += (double)g[i * cols + j] * (double)pattern(i);
        to[rows + j] = (float)sum;
    }
}

static double differs(const float *x, const struct pith_tensor *t, size_t n)
{
    float *expected = malloc(n * sizeof *expected);
    assert_int_equal(t->bytes, n * sizeof *expected);
    memcpy(expected, t->data, n * sizeof *expected);
    const double d = difference(x, expected, n);
    free(expected);
    return d;
}

static bool check_golden(const char *file, const char *name, uint32_t layer)
{
    struct pith_error err = {0};
    struct pith_safetensors f;
    struct bench t;
    char path[300];
    double worst = 0;
    const char *where = "";
    snprintf(path, sizeof path, "tests/golden/grad/%s", file);
    assert_ok(pith_safetensors_open(path, &f, &err), err);
    bench_open(&t, name, 2);
    layer_open(&t, layer);
    bench_run(&t);
    const struct pith_layer_plan *l = t.block.plan;
    for (size_t i = 0; i < f.count; i++) {
        const bool out = strcmp(f.tensors[i].name, "output") == 0;
        if (!out && strcmp(f.tensors[i].name, "d_x") != 0) continue;
        const double d = differs(out ? t.out : t.d_x, &f.tensors[i], t.n * t.hidden);
        if (!(d <= worst)) worst = d, where = f.tensors[i].name;
    }
    float *both = malloc(2 * (size_t)PITH_MAX_WIDTH * sizeof *both);
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_tensor *expected = tensor_of(&f, l, i);
        if (!expected) fail_msg("%s: nothing of %s", file, l->linear[i].name);
        both_ways(&t, i, both);
        const double d = differs(both, expected, (size_t)l->linear[i].rows + l->linear[i].cols);
        if (!(d <= worst)) worst = d, where = l->linear[i].name;
    }
    print_message("%-28s layer %u: %.1e %s\n", name, layer, worst, where);
    free(both);
    pith_safetensors_close(&f);
    bench_close(&t);
    return worst <= tolerance;
}

/* Calls fn with every file of that ending, its name without the ending: how many it was, and not.
 */
typedef bool case_fn(const char *file, const char *name);
static void each_case(const char *folder, const char *ending, size_t least, case_fn *fn)
{
    struct pith_error err = {0};
    char **names;
    size_t count, done = 0, bad = 0;
    assert_ok(pith_dir_list(folder, &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ending) != 0 || strncmp(names[i], prefix, strlen(prefix)) != 0)
            continue;
        char *name = strdup(names[i]);
        name[dot - names[i]] = '\0';
        bad += !fn(names[i], name);
        done++;
        free(name);
    }
    pith_names_free(names, count);
    assert_int_equal(bad, 0);
    if (!*prefix) assert_true(done >= least);
}

static bool golden_case(const char *file, const char *name)
{
    char *dot = strrchr(name, '.');
    const uint32_t layer = (uint32_t)strtoul(dot + 1, NULL, 10);
    char arch[64];
    snprintf(arch, sizeof arch, "%.*s", (int)(dot - name), name);
    return check_golden(file, arch, layer);
}

static void gradients_equal_torch(void **state)
{
    (void)state;
    each_case("tests/golden/grad", ".safetensors", 23, golden_case);
}

/* --- differences ------------------------------------------------------------------------------ */

static bool is_read(const char *name)
{
    struct pith_error err = {0};
    struct pith_model *m = NULL;
    char *dir = arch_folder(name);
    const enum pith_status s = pith_model_open(dir, &m, &err);
    pith_model_close(m);
    folder_remove(dir);
    return s == PITH_OK;
}

/* A step, and which experts were chosen without it. */
struct at {
    size_t n;
    double h;
    const uint32_t *chosen;
    bool same;
};

/* Which experts were chosen in the last pass, or nothing. */
static const struct pith_tape_step *choice(const struct bench *t)
{
    const struct pith_node *experts = pith_plan_experts(t->block.plan);
    return experts ? &t->tape.step[experts - t->block.plan->node] : NULL;
}

/* The loss with w + h direction, and whether the same experts give it. */
static double loss_at(struct bench *t, float *w, const float *old, const float *direction,
                      struct at *at)
{
    const size_t places = t->n * t->r.model->shape.moe.taken;
    for (size_t i = 0; i < at->n; i++)
        w[i] = (float)((double)old[i] + at->h * (double)direction[i]);
    const double sum = loss(t);
    if (choice(t))
        at->same &= memcmp(at->chosen, choice(t)->routes.chosen, places * sizeof(uint32_t)) == 0;
    return sum;
}

/* Along the gradient itself the slope of the loss is its length; the error of third order cancels.
 * A step over which other experts are chosen, or a kink lies (a clamp, ReLU), is made shorter. Ends
 * with w as it was: how far slope and length are apart, relative to the length. */
static double off(struct bench *t, float *w, const float *direction, size_t n)
{
    const size_t places = t->n * t->r.model->shape.moe.taken + 1;
    uint32_t *chosen = calloc(places, sizeof *chosen);
    float *old = malloc(n * sizeof *old);
    double square = 0, d[2] = {0}, best = INFINITY;
    struct at at = {.n = n, .chosen = chosen};
    memcpy(old, w, n * sizeof *old);
    for (size_t i = 0; i < n; i++) square += (double)direction[i] * (double)direction[i];
    (void)loss(t);
    if (choice(t)) memcpy(chosen, choice(t)->routes.chosen, (places - 1) * sizeof *chosen);
    for (double length = 0.004; square > 0 && best > 0.01 && length > 1e-5; length /= 4) {
        at.same = true;
        for (int k = 0; k < 2; k++) {
            at.h = length * (k + 1) / sqrt(square);
            const double up = loss_at(t, w, old, direction, &at);
            at.h = -at.h;
            d[k] = (up - loss_at(t, w, old, direction, &at)) / (2 * length * (k + 1));
        }
        const double apart = fabs((4 * d[0] - d[1]) / 3 / sqrt(square) - 1);
        if (at.same && apart < best) best = apart;
    }
    memcpy(w, old, n * sizeof *old);
    free(old);
    free(chosen);
    return square > 0 ? best : 0;
}

static bool differences_case(const char *file, const char *name)
{
    struct bench t;
    double worst = 0;
    bool same = true;
    (void)file;
    if (!is_read(name)) return true;
    bench_open(&t, name, 1);
    if (t.r.model->container) { /* no floats to learn */
        bench_close(&t);
        return true;
    }
    for (uint32_t layer = 0; layer < t.r.model->shape.layers; layer++) {
        layer_open(&t, layer);
        bench_run(&t);
        same = same && forward_is_the_same(&t, layer);
        float *d_x = malloc(t.n * t.hidden * sizeof *d_x);
        memcpy(d_x, t.d_x, t.n * t.hidden * sizeof *d_x);
        double d = off(&t, t.x, d_x, t.n * t.hidden);
        if (!(d <= worst)) worst = d;
        free(d_x);
        for (uint32_t i = 0; i < t.block.plan->linears; i++) {
            if (t.block.plan->linear[i].expert != PITH_NO_PART && i % 5 != 0) continue;
            float *w = (float *)(uintptr_t)t.block.linear[i].w.dense;
            d = off(&t, w, t.grad[i], count_of(&t, i));
            if (!(d <= worst)) worst = d;
            if (d > 0.01)
                print_message("%s %u %s: %g\n", name, layer, t.block.plan->linear[i].name, d);
        }
        layer_close(&t);
    }
    print_message("%-28s %.1e%s\n", name, worst, same ? "" : "  OTHER BITS THAN THE MODEL'S OWN");
    bench_close(&t);
    return same && worst <= 0.01;
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    each_case(ARCH_GOLDEN, ".json", 100, differences_case);
}

static void same_bits_for_any_thread_count(void **state)
{
    static const char *const names[] = {"deepseek_v3", "qwen3_next", "granitemoehybrid", "gpt_oss"};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        struct bench one, three;
        bench_open(&one, names[i], 1);
        bench_open(&three, names[i], 3);
        layer_open(&one, 1);
        layer_open(&three, 1);
        assert_same_gradients(&one, &three);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_torch),
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(same_bits_for_any_thread_count),
    };
    if (argc > 1) prefix = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
