/* Latent attention's two products, the short convolution, the gated delta rule and Mamba 2: the
 * formulas computed naively, the same bits on all tiers and threads, however rows are cut into
 * calls. */
#include "backend/layer.h"
#include "setups.h"

static void close_to(const char *what, const float *x, const double *exact, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - exact[i]) <= 1e-4 * (1 + fabs(exact[i]))))
            fail_msg("%s, element %zu: %g, exact %g", what, i, (double)x[i], exact[i]);
}

/* --- latent ----------------------------------------------------------------------------------- */

struct latent_case {
    size_t n, heads, nope, rope, value, rank;
};

static void naive_latent(const struct latent_case *c, const float *w, const float *q,
                         const float *in, double *down, double *up)
{
    const size_t each = c->nope + c->value, from = c->nope + c->rope, to = c->rank + c->rope;
    for (size_t r = 0; r < c->n; r++)
        for (size_t h = 0; h < c->heads; h++) {
            const float *qh = q + (r * c->heads + h) * from, *wh = w + h * each * c->rank;
            const float *ih = in + (r * c->heads + h) * c->rank;
            double *d = down + (r * c->heads + h) * to, *u = up + (r * c->heads + h) * c->value;
            for (size_t e = 0; e < to; e++) {
                d[e] = e < c->rank ? 0 : (double)qh[c->nope + e - c->rank];
                for (size_t i = 0; e < c->rank && i < c->nope; i++)
                    d[e] += (double)qh[i] * (double)wh[i * c->rank + e];
            }
            for (size_t v = 0; v < c->value; v++) {
                u[v] = 0;
                for (size_t e = 0; e < c->rank; e++)
                    u[v] += (double)wh[(c->nope + v) * c->rank + e] * (double)ih[e];
            }
        }
}

static void one_latent(struct setups *s, struct latent_case c)
{
    const size_t each = c.nope + c.value, down = c.n * c.heads * (c.rank + c.rope);
    const size_t up = c.n * c.heads * c.value;
    float *w = normals(c.heads * each * c.rank, 1), *in = normals(c.n * c.heads * c.rank, 3);
    float *q = normals(c.n * c.heads * (c.nope + c.rope), 2);
    struct pith_latent_parts p = {c.heads, c.nope, c.value, c.rank, NULL, NULL};
    p.k = floats(pith_latent_k_floats(&p));
    p.v = floats(pith_latent_v_floats(&p));
    for (size_t r = 0; r < c.heads * each; r++) pith_latent_put(&p, r, 1, w + r * c.rank);
    double *exact = pith_alloc(down + up, sizeof *exact);
    float *first = floats(down + up), *got = floats(down + up);
    naive_latent(&c, w, q, in, exact, exact + down);
    for (size_t i = 0; i < s->count; i++) {
        float *to = i ? got : first;
        pith_latent_queries(s->backend[i], &p, q, c.n, c.rope, to);
        pith_latent_values(s->backend[i], &p, in, c.n, to + down);
        if (i == 0) close_to("latent", first, exact, down + up);
        else assert_memory_equal(got, first, (down + up) * sizeof *got);
        for (size_t r = 0; r < c.n; r++) { /* one by one */
            pith_latent_queries(s->backend[i], &p, q + r * c.heads * (c.nope + c.rope), 1, c.rope,
                                got + r * c.heads * (c.rank + c.rope));
            pith_latent_values(s->backend[i], &p, in + r * c.heads * c.rank, 1,
                               got + down + r * c.heads * c.value);
        }
        assert_memory_equal(got, first, (down + up) * sizeof *got);
    }
    pith_free(got), pith_free(first), pith_free(exact);
    pith_free(p.k), pith_free(p.v), pith_free(w), pith_free(in), pith_free(q);
}

static void latents_follow_the_formula(void **state)
{
    static const struct latent_case cases[] = {
        {3, 4, 12, 8, 10, 16},  {7, 2, 5, 2, 33, 21},    {1, 3, 1, 4, 1, 1},
        {40, 2, 16, 6, 64, 48}, {150, 1, 3, 2, 7, 1000}, /* more rows than a thread's memory holds
                                                          */
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) one_latent(*state, cases[i]);
}

/* --- convolution, delta rule ------------------------------------------------------------------ */

struct delta_case {
    size_t n, key_heads, value_heads, key_dim, value_dim, taps;
};

static void naive_conv(const struct pith_conv *c, double *out)
{
    for (size_t t = 0; t < c->n; t++)
        for (size_t i = 0; i < c->channels; i++) {
            double sum = (double)c->bias[i];
            for (size_t j = 0; j < c->taps; j++)
                if (t + j + 1 >= c->taps)
                    sum += (double)c->weight[i * c->taps + j] *
                           (double)c->x[(t + j + 1 - c->taps) * c->channels + i];
            out[t * c->channels + i] = sum / (1 + exp(-sum));
        }
}

static double length_of(const float *x, size_t n)
{
    double s = 1e-6;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    return sqrt(s);
}

/* As it is said in the paper: the state decays, is read, and takes the difference. */
static void naive_delta(const struct pith_delta *d, double *state, double *out)
{
    const size_t dk = d->key_dim, dv = d->value_dim, keys = d->key_heads * dk;
    const size_t width = 2 * keys + d->value_heads * dv;
    for (size_t t = 0; t < d->n; t++)
        for (size_t v = 0; v < d->value_heads; v++) {
            const size_t h = v / (d->value_heads / d->key_heads), at = t * d->value_heads + v;
            const float *q = d->mixed + t * width + h * dk, *k = q + keys;
            const float *value = d->mixed + t * width + 2 * keys + v * dv;
            const double lq = length_of(q, dk) * sqrt((double)dk), lk = length_of(k, dk);
            const double x = (double)d->a[at] + (double)d->dt_bias[v];
            const double g = exp(-exp((double)d->a_log[v]) * log1p(exp(x)));
            double *s = state + v * dk * dv;
            for (size_t i = 0; i < dk * dv; i++) s[i] *= g;
            for (size_t e = 0; e < dv; e++) {
                double read = 0, o = 0;
                for (size_t i = 0; i < dk; i++) read += s[i * dv + e] * (double)k[i] / lk;
                const double beta = 1 / (1 + exp(-(double)d->beta[at]));
                const double add = beta * ((double)value[e] - read);
                for (size_t i = 0; i < dk; i++) {
                    s[i * dv + e] += (double)k[i] / lk * add;
                    o += s[i * dv + e] * (double)q[i] / lq;
                }
                out[at * dv + e] = o;
            }
        }
}

/* Both in calls of `cut` rows. */
static void run(struct pith_backend *b, struct pith_conv c, struct pith_delta d, size_t cut)
{
    const size_t n = c.n, width = c.channels;
    for (size_t t = 0; t < n; t += cut) {
        c.n = d.n = cut < n - t ? cut : n - t;
        pith_conv(b, &c);
        pith_delta(b, &d);
        c.x += cut * width;
        d.mixed += cut * width;
        d.a += cut * d.value_heads;
        d.beta += cut * d.value_heads;
        d.out += cut * d.value_heads * d.value_dim;
    }
}

static void one_delta(struct setups *s, struct delta_case c)
{
    const size_t width = 2 * c.key_heads * c.key_dim + c.value_heads * c.value_dim;
    const size_t count = c.n * width, outs = c.n * c.value_heads * c.value_dim;
    const size_t tail = (c.taps - 1) * width;
    const size_t floats_of = pith_delta_state(c.value_heads, c.key_dim, c.value_dim);
    float *in = normals(count, 4), *weight = normals(width * c.taps, 5), *bias = normals(width, 6);
    float *a = normals(c.n * c.value_heads, 7), *beta = normals(c.n * c.value_heads, 8);
    float *heads = normals(2 * c.value_heads, 9), *x = floats(count), *out = floats(outs);
    float *first = floats(count + outs), *kept = floats(tail + floats_of + 1);
    struct pith_conv conv = {x, kept, c.n, width, c.taps, weight, bias, true, false};
    struct pith_delta delta = {
        x,           a,           beta,          heads,     heads + c.value_heads,
        c.n,         c.key_heads, c.value_heads, c.key_dim, c.value_dim,
        kept + tail, out,         false};
    for (size_t i = 0; i < s->count; i++)
        for (size_t cut = 1; cut <= c.n + 6; cut += 3) {
            memcpy(x, in, count * sizeof *x);
            memset(kept, 0, (tail + floats_of) * sizeof *kept);
            run(s->backend[i], conv, delta, cut);
            if (i == 0 && cut == 1) {
                memcpy(first, x, count * sizeof *x);
                memcpy(first + count, out, outs * sizeof *x);
            }
            assert_memory_equal(x, first, count * sizeof *x);
            assert_memory_equal(out, first + count, outs * sizeof *x);
        }
    double *exact =
        pith_zalloc(count + outs + c.value_heads * c.key_dim * c.value_dim, sizeof *exact);
    memcpy(x, in, count * sizeof *x);
    naive_conv(&conv, exact);
    close_to("convolution", first, exact, count);
    delta.mixed = first;
    naive_delta(&delta, exact + count + outs, exact + count);
    close_to("delta", first + count, exact + count, outs);
    pith_free(exact), pith_free(kept), pith_free(first), pith_free(out), pith_free(x);
    pith_free(heads), pith_free(beta), pith_free(a), pith_free(bias), pith_free(weight);
    pith_free(in);
}

static void states_follow_the_formula(void **state)
{
    static const struct delta_case cases[] = {
        {9, 2, 4, 8, 6, 4}, {1, 1, 1, 1, 1, 1}, {20, 3, 3, 17, 33, 2}, {12, 1, 4, 64, 128, 16}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) one_delta(*state, cases[i]);
}

/* --- Mamba 2 ---------------------------------------------------------------------------------- */

/* As it is said in the paper, S being [dim][states]. */
static void naive_scan(const struct pith_scan *c, double *state, double *out)
{
    const size_t wide = c->heads * c->dim, row = wide + 2 * c->groups * c->states;
    for (size_t t = 0; t < c->n; t++)
        for (size_t h = 0; h < c->heads; h++) {
            const size_t group = h / (c->heads / c->groups), at = t * c->heads + h;
            const float *x = c->mixed + t * row + h * c->dim;
            const float *in = c->mixed + t * row + wide + group * c->states;
            const float *from = in + c->groups * c->states;
            double dt = log1p(exp((double)c->step[at] + (double)c->dt_bias[h]));
            dt = fmin(fmax(dt, (double)c->least), (double)c->most);
            const double stays = exp(-exp((double)c->a_log[h]) * dt);
            for (size_t p = 0; p < c->dim; p++) {
                double *s = state + (h * c->dim + p) * c->states, y = (double)(c->skip[h] * x[p]);
                for (size_t k = 0; k < c->states; k++) {
                    s[k] = stays * s[k] + dt * (double)x[p] * (double)in[k];
                    y += s[k] * (double)from[k];
                }
                out[at * c->dim + p] = y;
            }
        }
}

static void run_scan(struct pith_backend *b, struct pith_scan c, size_t cut)
{
    const size_t n = c.n, row = c.heads * c.dim + 2 * c.groups * c.states;
    for (size_t t = 0; t < n; t += cut) {
        c.n = cut < n - t ? cut : n - t;
        pith_scan(b, &c);
        c.mixed += cut * row;
        c.step += cut * c.heads;
        c.out += cut * c.heads * c.dim;
    }
}

static void one_scan(struct setups *s, struct pith_scan c)
{
    const size_t outs = c.n * c.heads * c.dim, kept = pith_scan_state(c.heads, c.dim, c.states);
    float *mixed = normals(c.n * (c.heads * c.dim + 2 * c.groups * c.states), 4);
    float *step = normals(c.n * c.heads, 5), *heads = normals(3 * c.heads, 6);
    float *out = floats(outs), *first = floats(outs), *state = floats(kept + 1);
    double *exact = pith_zalloc(outs + c.heads * c.dim * c.states, sizeof *exact);
    c.mixed = mixed, c.step = step, c.out = out, c.state = state;
    c.a_log = heads, c.dt_bias = heads + c.heads, c.skip = heads + 2 * c.heads;
    for (size_t i = 0; i < s->count; i++)
        for (size_t cut = 1; cut <= c.n + 6; cut += 3) {
            memset(state, 0, kept * sizeof *state);
            run_scan(s->backend[i], c, cut);
            if (i == 0 && cut == 1) memcpy(first, out, outs * sizeof *out);
            assert_memory_equal(out, first, outs * sizeof *out);
        }
    naive_scan(&c, exact + outs, exact);
    close_to("scan", first, exact, outs);
    pith_free(exact), pith_free(state), pith_free(first), pith_free(out);
    pith_free(heads), pith_free(step), pith_free(mixed);
}

static void scans_follow_the_formula(void **state)
{
    static const struct pith_scan cases[] = {
        {.n = 9, .heads = 4, .dim = 6, .groups = 2, .states = 5, .most = INFINITY},
        {.n = 1, .heads = 1, .dim = 1, .groups = 1, .states = 1, .most = INFINITY},
        {.n = 20, .heads = 3, .dim = 33, .groups = 1, .states = 17, .least = 0.5f, .most = 1.0f},
        {.n = 12, .heads = 4, .dim = 64, .groups = 4, .states = 128, .most = 0.75f}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) one_scan(*state, cases[i]);
}

static int open_all(void **state)
{
    static struct setups s;
    setups_open(&s);
    *state = &s;
    return 0;
}

static int close_all(void **state)
{
    setups_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latents_follow_the_formula),
        cmocka_unit_test(states_follow_the_formula),
        cmocka_unit_test(scans_follow_the_formula),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
