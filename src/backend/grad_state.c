/* Gradients of layers with a state. Delta rule and scan go backward through time over states
 * [rows][cols] of one head: those before every EACH-th token are saved in a forward pass, those
 * between are computed anew. */
#include "backend/grad.h"
#include "backend/parts.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* --- convolution ------------------------------------------------------------------------------ */

enum { CHANNELS = 128 /* that a task takes */ };

/* What the convolution gives of a token's channel before SiLU, and the gradient of that. */
static float before_act(const struct pith_conv_grad *g, size_t t, size_t channel)
{
    const struct pith_conv *c = g->of;
    const float *w = c->weight + channel * c->taps;
    const float dy = g->dy[t * c->channels + channel];
    double sum = c->bias ? (double)c->bias[channel] : 0;
    if (!c->silu) return dy;
    for (size_t j = 0; j < c->taps; j++)
        if (t + j + 1 >= c->taps)
            sum += (double)w[j] * (double)g->x[(t + j + 1 - c->taps) * c->channels + channel];
    const double s = pith_sigmoid_f64(sum);
    return (float)((double)dy * s * (1 + sum * (1 - s)));
}

static void conv_grad_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_conv_grad *g = ctx;
    const struct pith_conv *c = g->of;
    const size_t first = task * CHANNELS, last = pith_min(c->channels, first + CHANNELS);
    (void)thread;
    for (size_t t = 0; t < g->n; t++)
        memset(g->dx + t * c->channels + first, 0, (last - first) * sizeof *g->dx);
    for (size_t t = 0; t < g->n; t++)
        for (size_t k = first; k < last; k++) {
            const float d = before_act(g, t, k), *w = c->weight + k * c->taps;
            for (size_t j = 0; j < c->taps; j++)
                if (t + j + 1 >= c->taps)
                    g->dx[(t + j + 1 - c->taps) * c->channels + k] += d * w[j];
        }
}

void pith_conv_grad(struct pith_backend *b, const struct pith_conv_grad *g)
{
    pith_pool_run(b->pool, pith_tasks(g->of->channels, CHANNELS), conv_grad_task,
                  (struct pith_conv_grad *)(uintptr_t)g);
}

/* --- through time ----------------------------------------------------------------------------- */

/* One head's state on its way. */
struct recurrence {
    size_t n, rows, cols;
    const void *of;
    size_t head;
    /* state becomes that behind token t. */
    void (*forward)(const struct recurrence *r, size_t t, float *state);
    /* d, the gradient of the state behind token t, becomes that of the one before it. */
    void (*backward)(const struct recurrence *r, size_t t, const float *before, float *d);
    float *row[3]; /* room for vectors of the head */
    float *memory; /* states */
};

static size_t each_of(size_t n)
{
    size_t each = 1;
    while (each * each < n) each++;
    return each;
}

static size_t states_of(size_t n)
{
    return 2 * each_of(n) + 2;
}

size_t pith_state_grad_work(unsigned threads, size_t n, size_t rows, size_t cols)
{
    size_t floats, widest = 3 * (rows > cols ? rows : cols);
    if (n > SIZE_MAX / 8 || !pith_mul_size(rows, cols, &floats) ||
        !pith_mul_size(floats, states_of(n), &floats) || floats > SIZE_MAX / 2 ||
        !pith_mul_size(floats + widest, threads ? threads : 1, &floats))
        return SIZE_MAX;
    return floats;
}

static void through_time(const struct recurrence *r)
{
    const size_t size = r->rows * r->cols, each = each_of(r->n);
    float *saved = r->memory, *between = saved + (each + 1) * size, *d = between + each * size;
    memset(d, 0, size * sizeof *d); /* the state on the way forward, then its gradient */
    for (size_t t = 0; t < r->n; t++) {
        if (t % each == 0) memcpy(saved + t / each * size, d, size * sizeof *d);
        r->forward(r, t, d);
    }
    memset(d, 0, size * sizeof *d);
    for (size_t end = r->n; end > 0;) {
        const size_t from = (end - 1) / each * each;
        memcpy(between, saved + from / each * size, size * sizeof *between);
        for (size_t t = from; t + 1 < end; t++) {
            float *next = between + (t + 1 - from) * size;
            memcpy(next, next - size, size * sizeof *next);
            r->forward(r, t, next);
        }
        for (size_t t = end; t-- > from;) r->backward(r, t, between + (t - from) * size, d);
        end = from;
    }
}

/* The memory of a thread. */
static void take_memory(struct recurrence *r, float *work, unsigned thread)
{
    const size_t widest = r->rows > r->cols ? r->rows : r->cols;
    float *at = work + thread * pith_state_grad_work(1, r->n, r->rows, r->cols);
    for (int i = 0; i < 3; i++, at += widest) r->row[i] = at;
    r->memory = at;
}

/* to[cols] = state^T x[rows] */
static void read_state(const struct recurrence *r, const float *state, const float *x, float *to)
{
    memset(to, 0, r->cols * sizeof *to);
    for (size_t i = 0; i < r->rows; i++, state += r->cols)
        for (size_t j = 0; j < r->cols; j++) to[j] += state[j] * x[i];
}

static float dot(size_t n, const float *x, const float *y)
{
    float lane[8] = {0};
    for (size_t i = 0; i < n; i++) lane[i % 8] += x[i] * y[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) +
           ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double product(const struct recurrence *r, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < r->rows; i++, x += r->cols, y += r->cols)
        sum += (double)dot(r->cols, x, y);
    return sum;
}

/* --- delta rule ------------------------------------------------------------------------------- */

/* One token of a value head. */
struct token {
    const float *q, *k, *value;
    double q_norm, k_norm; /* what q and k are multiplied with */
    double x;              /* of the softplus */
    float stays, beta;
    size_t at; /* of its head in a, beta, out */
    size_t key, own;
};

static double unit_factor(const float *x, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    return 1 / sqrt(square + 1e-6);
}

static struct token token_of(const struct pith_delta *d, size_t t, size_t v)
{
    const size_t dk = d->key_dim, keys = d->key_heads * dk, h = v * d->key_heads / d->value_heads;
    const size_t row = t * (2 * keys + d->value_heads * d->value_dim);
    struct token o = {.key = row + h * dk, .own = row + 2 * keys + v * d->value_dim};
    o.at = t * d->value_heads + v;
    o.q = d->mixed + o.key;
    o.k = o.q + keys;
    o.value = d->mixed + o.own;
    o.q_norm = unit_factor(o.q, dk);
    o.k_norm = unit_factor(o.k, dk);
    o.x = (double)d->a[o.at] + (double)d->dt_bias[v];
    o.stays = (float)pith_exp_f64(-pith_exp_f64((double)d->a_log[v]) * pith_softplus_f64(o.x));
    o.beta = (float)pith_sigmoid_f64((double)d->beta[o.at]);
    return o;
}

/* d = beta (value - g S^T k) of a token, what is read to `read`. */
static void change_of(const struct recurrence *r, const struct token *o, const float *state,
                      float *read, float *change)
{
    memset(read, 0, r->cols * sizeof *read);
    for (size_t i = 0; i < r->rows; i++) {
        const float k = (float)((double)o->k[i] * o->k_norm);
        for (size_t j = 0; j < r->cols; j++) read[j] += state[i * r->cols + j] * k;
    }
    for (size_t j = 0; j < r->cols; j++) change[j] = o->beta * (o->value[j] - o->stays * read[j]);
}

static void delta_forward(const struct recurrence *r, size_t t, float *state)
{
    const struct pith_delta_grad *g = r->of;
    const struct token o = token_of(g->of, t, r->head);
    change_of(r, &o, state, r->row[0], r->row[1]);
    for (size_t i = 0; i < r->rows; i++, state += r->cols) {
        const float k = (float)((double)o.k[i] * o.k_norm);
        for (size_t j = 0; j < r->cols; j++) state[j] = o.stays * state[j] + k * r->row[1][j];
    }
}

/* dx[n] += the gradient of x factor from that of what it gives, with factor = 1 / sqrt(x x + e). */
static void through_unit(size_t n, const float *x, double factor, const float *dy, double sum,
                         float *dx)
{
    for (size_t i = 0; i < n; i++)
        dx[i] += (float)(factor * ((double)dy[i] - (double)x[i] * factor * factor * sum));
}

/* Both gradients of q and k, of the state before, and that of how much of it stays; `dy` is of what
 * is read by q, `change` what was written, dr of what is read by k. */
static void delta_rows(const struct recurrence *r, const struct token *o, const float *before,
                       float *d, const float *dr)
{
    const struct pith_delta_grad *g = r->of;
    const size_t dk = r->rows, keys = g->of->key_heads * dk, cols = r->cols;
    const float *dy = g->d_out + o->at * cols, *change = r->row[1];
    const double root = sqrt((double)dk);
    const float written = dot(cols, change, dy);
    float *dq = g->d_mixed + o->key, *dkey = dq + keys;
    float *to_q = r->row[0]; /* what was read is not needed any more; dk floats at a time */
    double q_sum = 0, k_sum = 0;
    for (size_t i = 0; i < dk; i++) {
        const float k = (float)((double)o->k[i] * o->k_norm);
        to_q[i] =
            (float)((double)(o->stays * dot(cols, before + i * cols, dy) + k * written) / root);
        q_sum += (double)to_q[i] * (double)o->q[i];
    }
    through_unit(dk, o->q, o->q_norm, to_q, q_sum, dq);
    for (size_t i = 0; i < dk; i++) {
        to_q[i] = dot(cols, d + i * cols, change) + dot(cols, before + i * cols, dr);
        k_sum += (double)to_q[i] * (double)o->k[i];
    }
    through_unit(dk, o->k, o->k_norm, to_q, k_sum, dkey);
    for (size_t i = 0; i < dk; i++, d += cols) {
        const float k = (float)((double)o->k[i] * o->k_norm);
        for (size_t j = 0; j < cols; j++) d[j] = o->stays * d[j] + k * dr[j];
    }
}

static void delta_backward(const struct recurrence *r, size_t t, const float *before, float *d)
{
    const struct pith_delta_grad *g = r->of;
    const struct token o = token_of(g->of, t, r->head);
    const size_t cols = r->cols;
    const float *dy = g->d_out + o.at * cols;
    float *read = r->row[0], *change = r->row[1], *dr = r->row[2];
    const double root = sqrt((double)r->rows);
    double d_beta = 0, d_stays = 0;
    change_of(r, &o, before, read, change);
    memset(dr, 0, cols * sizeof *dr);
    for (size_t i = 0; i < r->rows; i++) {
        const float q = (float)((double)o.q[i] * o.q_norm / root);
        const float k = (float)((double)o.k[i] * o.k_norm);
        float *row = d + i * cols;
        for (size_t j = 0; j < cols; j++) row[j] += q * dy[j];
        for (size_t j = 0; j < cols; j++) dr[j] += row[j] * k; /* of what is written */
    }
    d_stays = product(r, d, before);
    for (size_t j = 0; j < cols; j++) {
        const float dd = dr[j];
        d_beta += (double)dd * (double)(o.value[j] - o.stays * read[j]);
        d_stays -= (double)(o.beta * dd * read[j]);
        g->d_mixed[o.own + j] = o.beta * dd;
        dr[j] = -o.beta * o.stays * dd;
    }
    g->d_beta[o.at] = (float)(d_beta * (double)o.beta * (1 - (double)o.beta));
    g->d_a[o.at] = (float)(-d_stays * (double)o.stays *
                           pith_exp_f64((double)g->of->a_log[r->head]) * pith_sigmoid_f64(o.x));
    delta_rows(r, &o, before, d, dr);
}

/* A key head with its value heads, which add to the same gradients in order. */
static void delta_grad_task(void *ctx, size_t h, unsigned thread)
{
    const struct pith_delta_grad *g = ctx;
    const struct pith_delta *d = g->of;
    const size_t keys = d->key_heads * d->key_dim, shared = d->value_heads / d->key_heads;
    struct recurrence r = {.n = d->n,
                           .rows = d->key_dim,
                           .cols = d->value_dim,
                           .of = g,
                           .forward = delta_forward,
                           .backward = delta_backward};
    take_memory(&r, g->work, thread);
    for (size_t t = 0; t < d->n; t++) {
        float *dq = g->d_mixed + t * (2 * keys + d->value_heads * d->value_dim) + h * d->key_dim;
        memset(dq, 0, d->key_dim * sizeof *dq);
        memset(dq + keys, 0, d->key_dim * sizeof *dq);
    }
    for (r.head = h * shared; r.head < (h + 1) * shared; r.head++) through_time(&r);
}

void pith_delta_grad(struct pith_backend *b, const struct pith_delta_grad *g)
{
    pith_pool_run(b->pool, g->of->key_heads, delta_grad_task,
                  (struct pith_delta_grad *)(uintptr_t)g);
}

/* --- Mamba 2 ---------------------------------------------------------------------------------- */

/* One token of a head. */
struct scan_token {
    size_t own, in, from; /* of x, B and C in mixed */
    size_t at;            /* in step and out */
    double x, dt;         /* of the softplus; clamped */
    bool free;            /* it is not clamped */
    float stays;
};

static struct scan_token scan_token_of(const struct pith_scan *s, size_t t, size_t h)
{
    const size_t wide = s->heads * s->dim, group = h * s->groups / s->heads;
    const size_t row = t * (wide + 2 * s->groups * s->states);
    struct scan_token o = {.own = row + h * s->dim, .in = row + wide + group * s->states};
    o.from = o.in + s->groups * s->states;
    o.at = t * s->heads + h;
    o.x = (double)s->step[o.at] + (double)s->dt_bias[h];
    const double dt = pith_softplus_f64(o.x);
    o.dt = fmin(fmax(dt, (double)s->least), (double)s->most);
    o.free = o.dt == dt;
    o.stays = (float)pith_exp_f64(-pith_exp_f64((double)s->a_log[h]) * o.dt);
    return o;
}

static void scan_forward(const struct recurrence *r, size_t t, float *state)
{
    const struct pith_scan *s = ((const struct pith_scan_grad *)r->of)->of;
    const struct scan_token o = scan_token_of(s, t, r->head);
    const float *x = s->mixed + o.own, *in = s->mixed + o.in, dt = (float)o.dt;
    for (size_t i = 0; i < r->rows; i++, state += r->cols)
        for (size_t j = 0; j < r->cols; j++) state[j] = o.stays * state[j] + in[i] * (dt * x[j]);
}

static void scan_backward(const struct recurrence *r, size_t t, const float *before, float *d)
{
    const struct pith_scan_grad *g = r->of;
    const struct pith_scan *s = g->of;
    const struct scan_token o = scan_token_of(s, t, r->head);
    const size_t cols = r->cols;
    const float *x = s->mixed + o.own, *in = s->mixed + o.in, *from = s->mixed + o.from;
    const float *dy = g->d_out + o.at * cols;
    float *put = r->row[0], *d_put = r->row[1];
    double d_dt = 0;
    for (size_t j = 0; j < cols; j++) put[j] = (float)o.dt * x[j];
    const float written = dot(cols, put, dy);
    for (size_t i = 0; i < r->rows; i++) {
        float *row = d + i * cols;
        g->d_mixed[o.from + i] += o.stays * dot(cols, before + i * cols, dy) + in[i] * written;
        for (size_t j = 0; j < cols; j++) row[j] += from[i] * dy[j];
        g->d_mixed[o.in + i] += dot(cols, row, put);
    }
    read_state(r, d, in, d_put);
    const double d_stays = product(r, d, before);
    for (size_t j = 0; j < cols; j++) {
        g->d_mixed[o.own + j] = s->skip[r->head] * dy[j] + (float)o.dt * d_put[j];
        d_dt += (double)x[j] * (double)d_put[j];
    }
    d_dt -= d_stays * (double)o.stays * pith_exp_f64((double)s->a_log[r->head]);
    g->d_step[o.at] = o.free ? (float)(d_dt * pith_sigmoid_f64(o.x)) : 0.0f;
    for (size_t i = 0; i < r->rows * cols; i++) d[i] *= o.stays;
}

/* A group with its heads. */
static void scan_grad_task(void *ctx, size_t group, unsigned thread)
{
    const struct pith_scan_grad *g = ctx;
    const struct pith_scan *s = g->of;
    const size_t wide = s->heads * s->dim, shared = s->heads / s->groups;
    const size_t both = s->groups * s->states;
    struct recurrence r = {.n = s->n,
                           .rows = s->states,
                           .cols = s->dim,
                           .of = g,
                           .forward = scan_forward,
                           .backward = scan_backward};
    take_memory(&r, g->work, thread);
    for (size_t t = 0; t < s->n; t++) {
        float *in = g->d_mixed + t * (wide + 2 * both) + wide + group * s->states;
        memset(in, 0, s->states * sizeof *in);
        memset(in + both, 0, s->states * sizeof *in);
    }
    for (r.head = group * shared; r.head < (group + 1) * shared; r.head++) through_time(&r);
}

void pith_scan_grad(struct pith_backend *b, const struct pith_scan_grad *g)
{
    pith_pool_run(b->pool, g->of->groups, scan_grad_task, (struct pith_scan_grad *)(uintptr_t)g);
}
