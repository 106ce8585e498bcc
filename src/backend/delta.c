/* Layers that keep a state: the short convolution, the gated delta rule, Mamba 2's scan. */
#include "backend/layer.h"
#include "backend/parts.h"

#include "base/mem.h"
#include "num/elements/elements.h"

#include <math.h>
#include <string.h>

static float sigmoid(float x)
{
    return 1.0f / (1.0f + pith_exp_f32(-x));
}

void pith_form_put(const struct pith_backend *b, enum pith_state_form form, size_t n,
                   const float *x, void *to)
{
    uint8_t *code = to;
    if (form == PITH_FORM_F32) memcpy(to, x, n * sizeof *x);
    else if (form == PITH_FORM_BF16) b->kern.narrow_bf16(n, x, to);
    else
        for (size_t i = 0; i < n; i++)
            code[i] = (uint8_t)(form == PITH_FORM_E4M3 ? pith_fp8_e4m3_encode(x[i])
                                                       : pith_fp8_e5m2_encode(x[i]));
}

void pith_form_get(const struct pith_backend *b, enum pith_state_form form, size_t n,
                   const void *from, float *x)
{
    const uint8_t *code = from;
    if (form == PITH_FORM_F32) memcpy(x, from, n * sizeof *x);
    else if (form == PITH_FORM_BF16) b->kern.widen_bf16(n, from, x);
    else
        for (size_t i = 0; i < n; i++)
            x[i] = form == PITH_FORM_E4M3 ? pith_fp8_e4m3_decode(code[i])
                                          : pith_fp8_e5m2_decode(code[i]);
}

/* x[n] as it will be stored. */
static void round_to(const struct pith_backend *b, enum pith_state_form form, float *x, size_t n)
{
    enum { PIECE = 512 };
    uint16_t stored[PIECE];
    for (size_t i = 0; i < n && form != PITH_FORM_F32; i += PIECE) {
        const size_t count = pith_min(PIECE, n - i);
        pith_form_put(b, form, count, x + i, stored);
        pith_form_get(b, form, count, stored, x + i);
    }
}

/* --- convolution ------------------------------------------------------------------------------ */

enum { CHANNELS = 128 /* that a task takes */ };

struct conv_job {
    struct pith_backend *b;
    const struct pith_conv *c;
};

/* Channels from `first` on; the newest inputs of each are stored as the state, oldest first. */
static void conv_task(void *ctx, size_t task, unsigned thread)
{
    const struct conv_job *job = ctx;
    const struct pith_conv *c = job->c;
    const size_t first = task * CHANNELS, count = pith_min(CHANNELS, c->channels - first);
    const size_t before = c->taps - 1;
    float old[PITH_CONV_TAPS][CHANNELS], sum[CHANNELS];
    (void)thread;
    for (size_t j = 0; j < before; j++)
        memcpy(old[j], c->tail + j * c->channels + first, count * sizeof **old);
    for (size_t t = 0; t < c->n; t++) {
        float *x = c->x + t * c->channels + first;
        memcpy(old[before], x, count * sizeof *x);
        for (size_t i = 0; i < count; i++) sum[i] = c->bias ? c->bias[first + i] : 0.0f;
        for (size_t j = 0; j < c->taps; j++)
            for (size_t i = 0; i < count; i++)
                sum[i] += c->weight[(first + i) * c->taps + j] * old[j][i];
        memcpy(x, sum, count * sizeof *x);
        if (c->silu) {
            job->b->kern.sigmoid(count, sum);
            job->b->kern.mul(count, sum, x);
        }
        round_to(job->b, c->form, old[before], count);
        for (size_t j = 0; j < before; j++) memcpy(old[j], old[j + 1], count * sizeof **old);
    }
    for (size_t j = 0; j < before; j++)
        memcpy(c->tail + j * c->channels + first, old[j], count * sizeof **old);
}

void pith_conv(struct pith_backend *b, const struct pith_conv *c)
{
    struct conv_job job = {b, c};
    pith_pool_run(b->pool, (c->channels + CHANNELS - 1) / CHANNELS, conv_task, &job);
}

/* --- delta rule ------------------------------------------------------------------------------- */

struct job {
    struct pith_backend *b;
    const struct pith_delta *d;
};

size_t pith_delta_state(size_t value_heads, size_t key_dim, size_t value_dim)
{
    size_t floats;
    if (!pith_mul_size(value_heads, key_dim, &floats) ||
        !pith_mul_size(floats, pith_cache_row(value_dim), &floats))
        return SIZE_MAX;
    return floats;
}

/* to = x * factor / sqrt(sum of squares + 1e-6) */
static void unit(const float *x, size_t n, double factor, float *to)
{
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    const double scale = factor / sqrt(square + 1e-6);
    for (size_t i = 0; i < n; i++) to[i] = (float)((double)x[i] * scale);
}

/* How much of the state stays after a step: exp(-exp(a_log) dt). */
static float decay(double dt, float a_log)
{
    return (float)pith_exp_f64(-pith_exp_f64((double)a_log) * dt);
}

/* What a head works on besides its state; q, k of key_dim, the rest of value_dim, padded. */
struct token {
    float *q, *k, *d, *read;
};

/* One token of head v. */
static void step(const struct job *j, size_t t, size_t v, const struct token *w)
{
    const struct pith_delta *d = j->d;
    const struct pith_kern *kern = &j->b->kern;
    const size_t dk = d->key_dim, dv = d->value_dim, padded = pith_cache_row(dv);
    const size_t h = v * d->key_heads / d->value_heads, keys = d->key_heads * dk;
    const float *row = d->mixed + t * (2 * keys + d->value_heads * dv);
    const float *value = row + 2 * keys + v * dv;
    const size_t at = t * d->value_heads + v;
    const float stays =
        decay(pith_softplus_f64((double)d->a[at] + (double)d->dt_bias[v]), d->a_log[v]);
    const float beta = sigmoid(d->beta[at]);
    float *state = d->state + v * dk * padded;
    unit(row + h * dk, dk, 1 / sqrt((double)dk), w->q);
    unit(row + keys + h * dk, dk, 1, w->k);
    memset(w->read, 0, padded * sizeof *w->read);
    kern->attn_values_f32(1, dk, padded, w->k, dk, state, w->read, padded);
    for (size_t i = 0; i < dv; i++) w->d[i] = beta * (value[i] - stays * w->read[i]);
    for (size_t i = 0; i < dk; i++) kern->mix(padded, stays, w->k[i], w->d, state + i * padded);
    memset(w->read, 0, padded * sizeof *w->read);
    kern->attn_values_f32(1, dk, padded, w->q, dk, state, w->read, padded);
    memcpy(d->out + at * dv, w->read, dv * sizeof *w->read);
    round_to(j->b, d->form, state, dk * padded);
}

static void delta_task(void *ctx, size_t v, unsigned thread)
{
    const struct job *j = ctx;
    const size_t key = pith_cache_row(j->d->key_dim), value = pith_cache_row(j->d->value_dim);
    float *memory = j->b->scratch[thread].scores;
    const struct token w = {
        .q = memory, .k = memory + key, .d = memory + 2 * key, .read = memory + 2 * key + value};
    _Static_assert(PITH_SCORES >= 4 * PITH_DELTA_DIM, "a token fits");
    memset(w.d, 0, value * sizeof *w.d);
    for (size_t t = 0; t < j->d->n; t++) step(j, t, v, &w);
}

void pith_delta(struct pith_backend *b, const struct pith_delta *d)
{
    struct job j = {b, d};
    pith_pool_run(b->pool, d->value_heads, delta_task, &j);
}

/* --- Mamba 2 ---------------------------------------------------------------------------------- */

struct scan_job {
    struct pith_backend *b;
    const struct pith_scan *s;
};

/* One token of head h; dx and read of dim, padded. */
static void scan_step(const struct scan_job *j, size_t t, size_t h, float *dx, float *read)
{
    const struct pith_scan *s = j->s;
    const struct pith_kern *kern = &j->b->kern;
    const size_t wide = s->heads * s->dim, group = h * s->groups / s->heads;
    const size_t padded = pith_cache_row(s->dim), at = t * s->heads + h;
    const float *row = s->mixed + t * (wide + 2 * s->groups * s->states);
    const float *x = row + h * s->dim, *in = row + wide + group * s->states;
    const float *from = in + s->groups * s->states;
    double dt = pith_softplus_f64((double)s->step[at] + (double)s->dt_bias[h]);
    dt = fmin(fmax(dt, (double)s->least), (double)s->most);
    const float stays = decay(dt, s->a_log[h]);
    float *state = s->state + h * s->states * padded, *out = s->out + at * s->dim;
    for (size_t i = 0; i < s->dim; i++) dx[i] = (float)dt * x[i];
    for (size_t i = 0; i < s->states; i++) kern->mix(padded, stays, in[i], dx, state + i * padded);
    memset(read, 0, padded * sizeof *read);
    kern->attn_values_f32(1, s->states, padded, from, s->states, state, read, padded);
    for (size_t i = 0; i < s->dim; i++) out[i] = fmaf(s->skip[h], x[i], read[i]);
    round_to(j->b, s->form, state, s->states * padded);
}

static void scan_task(void *ctx, size_t h, unsigned thread)
{
    const struct scan_job *j = ctx;
    const size_t padded = pith_cache_row(j->s->dim);
    float *dx = j->b->scratch[thread].scores;
    memset(dx, 0, padded * sizeof *dx);
    for (size_t t = 0; t < j->s->n; t++) scan_step(j, t, h, dx, dx + padded);
}

void pith_scan(struct pith_backend *b, const struct pith_scan *s)
{
    struct scan_job j = {b, s};
    pith_pool_run(b->pool, s->heads, scan_task, &j);
}
