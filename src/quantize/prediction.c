#include "quantize/prediction.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "eval/divergence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One of the two models: its stream on the way through its blocks. */
struct side {
    struct pith_model *model;
    struct pith_collector collector;
    struct pith_acts acts[2];
    float *logits; /* [PITH_HEAD_ROWS][vocab] */
};

/* Windows of a text: the first `length` ids of every `stride`. */
struct text {
    const int32_t *ids;
    size_t windows, stride, length;
};

struct pair {
    struct pith_run *run;
    struct side side[2]; /* the original, what was made of it */
    struct text text;
    double *kld; /* [windows]: sums over tokens */
};

/* What is measured on a text: means over tokens. */
struct found {
    double kld, error; /* that of windows; not finite where there is but one */
    size_t tokens;
};

static enum pith_status open_side(const struct pair *p, struct side *s, struct pith_error *err)
{
    const struct pith_job *job = p->run->job;
    const struct pith_model *m = s->model;
    const struct text *t = &p->text;
    const size_t carried = pith_plans_carried(&m->plans);
    const size_t floats = t->windows * t->length * (m->shape.hidden + carried);
    for (int i = 0; i < 2; i++) {
        s->acts[i] = (struct pith_acts){.x = pith_alloc_aligned(floats, sizeof(float)),
                                        .windows = t->windows,
                                        .length = t->length,
                                        .hidden = m->shape.hidden,
                                        .carried = carried};
        if (!s->acts[i].x) return pith_fail_nomem(err, "activations");
    }
    s->logits = pith_alloc_aligned((size_t)PITH_HEAD_ROWS * m->shape.vocab, sizeof(float));
    if (!s->logits) return pith_fail_nomem(err, "logits");
    PITH_TRY(pith_collector_init(&s->collector, job->backend, m, t->length, err));
    for (size_t w = 0; w < t->windows; w++) {
        const int32_t *ids = t->ids + w * t->stride;
        float *x = pith_acts_window(&s->acts[0], w);
        PITH_TRY(pith_model_embed(m, ids, t->length, x, err));
        pith_plans_fill(&m->plans, ids, t->length, x + t->length * m->shape.hidden);
    }
    return PITH_OK;
}

static void close_side(struct side *s)
{
    for (int i = 0; i < 2; i++) pith_free(s->acts[i].x);
    pith_free(s->logits);
    pith_collector_free(&s->collector);
    *s = (struct side){.model = s->model};
}

static enum pith_status pass_block(struct side *s, uint32_t layer, struct pith_error *err)
{
    struct pith_block b;
    PITH_TRY(pith_block_load(s->model, layer, PITH_LOAD_MAPPED, &b, err));
    const enum pith_status r = pith_propagate(&s->collector, &b, &s->acts[0], &s->acts[1], err);
    pith_block_free(&b);
    const struct pith_acts done = s->acts[1];
    s->acts[1] = s->acts[0];
    s->acts[0] = done;
    return r;
}

struct divergence {
    const float *logits[2];
    const double *whole[2]; /* log of the sum of exponentials, by row */
    double *kld;            /* by row */
    size_t vocab;
};

static void diverge(void *ctx, size_t row, unsigned thread)
{
    const struct divergence *d = ctx;
    const size_t at = row * d->vocab;
    (void)thread;
    d->kld[row] = pith_kl_logits(d->logits[0] + at, d->whole[0][row], d->logits[1] + at,
                                 d->whole[1][row], d->vocab);
}

static enum pith_status compare_rows(struct pair *p, size_t window, size_t from, size_t n,
                                     struct pith_error *err)
{
    struct pith_backend *be = p->run->job->backend;
    double whole[2][PITH_HEAD_ROWS], kld[PITH_HEAD_ROWS];
    struct divergence d = {.kld = kld, .vocab = p->side[0].model->shape.vocab};
    for (int i = 0; i < 2; i++) {
        struct side *s = &p->side[i];
        const float *x = pith_acts_window(&s->acts[0], window) + from * s->model->shape.hidden;
        PITH_TRY(pith_model_logits(s->model, be, x, n, s->logits, err));
        pith_logsumexp(be, s->logits, n, d.vocab, whole[i]);
        d.logits[i] = s->logits;
        d.whole[i] = whole[i];
    }
    pith_pool_run(pith_backend_pool(be), n, diverge, &d);
    for (size_t i = 0; i < n; i++) p->kld[window] += kld[i];
    return PITH_OK;
}

static enum pith_status pass(struct pair *p, struct pith_error *err)
{
    const uint32_t layers = p->side[0].model->shape.layers;
    const size_t length = p->text.length;
    for (int i = 0; i < 2; i++) PITH_TRY(open_side(p, &p->side[i], err));
    for (uint32_t l = 0; l < layers; l++) {
        PITH_TRY(pith_run_step(p->run, "checking the prediction", 0, err));
        for (int i = 0; i < 2; i++) PITH_TRY(pass_block(&p->side[i], l, err));
    }
    for (size_t w = 0; w < p->text.windows; w++)
        for (size_t i = 0; i < length; i += PITH_HEAD_ROWS) {
            const size_t left = length - i;
            PITH_TRY(compare_rows(p, w, i, left < PITH_HEAD_ROWS ? left : PITH_HEAD_ROWS, err));
        }
    return PITH_OK;
}

static struct found sum_up(const struct pair *p)
{
    const size_t windows = p->text.windows;
    const double n = (double)windows, length = (double)p->text.length;
    double sum = 0, squares = 0;
    for (size_t w = 0; w < windows; w++) sum += p->kld[w] / length;
    const double mean = sum / n;
    for (size_t w = 0; w < windows; w++)
        squares += (p->kld[w] / length - mean) * (p->kld[w] / length - mean);
    return (struct found){.kld = mean,
                          .error = n > 1 ? sqrt(squares / (n - 1) / n) : NAN,
                          .tokens = windows * p->text.length};
}

static enum pith_status measure(struct pair *p, const struct text *t, struct found *out,
                                struct pith_error *err)
{
    p->text = *t;
    p->kld = pith_zalloc(t->windows, sizeof *p->kld);
    enum pith_status s = p->kld ? pass(p, err) : pith_fail_nomem(err, "windows");
    for (int i = 0; i < 2; i++) close_side(&p->side[i]);
    if (s == PITH_OK) *out = sum_up(p);
    if (s == PITH_OK && !isfinite(out->kld))
        s = pith_fail(err, PITH_NUMERIC, "the finished model's logits are not finite");
    pith_free(p->kld);
    return s;
}

static json_t *error_of(const struct found *f)
{
    return pith_json_finite(f->error);
}

/* Whether rounding generalizes from the fitted tokens to others of the same text. */
static json_t *fit_remark(const struct found *fitted, const struct found *unseen)
{
    char line[256];
    if (unseen->tokens == 0)
        return json_string("the text is too short to hold some of it out: measured on tokens that "
                           "were fitted");
    if (!(unseen->kld > PITH_PREDICTION_APART * fitted->kld)) return NULL;
    (void)snprintf(line, sizeof line,
                   "a KL of %.4g on tokens that were held out, %.4g on fitted ones: rounding has "
                   "fitted too few tokens; more calibration (`calib_tokens`, `calib`) loses less",
                   unseen->kld, fitted->kld);
    return json_string(line);
}

/* What the estimate does not cover; NULL where it covers all. */
static json_t *size_remark(double predicted)
{
    char line[160];
    if (!(predicted > PITH_PREDICTION_COVERED)) return NULL;
    (void)snprintf(
        line, sizeof line,
        "estimates above %.1f nats can be too low: up to 1.5 times as much was measured, "
        "above 1 nat twice as much",
        PITH_PREDICTION_COVERED);
    return json_string(line);
}

static json_t *remarks_of(double predicted, const struct found *fitted, const struct found *unseen)
{
    json_t *const remark[] = {fit_remark(fitted, unseen), size_remark(predicted)};
    json_t *list = json_array();
    for (size_t i = 0; i < PITH_COUNT(remark); i++)
        if (remark[i]) pith_json_add(&list, remark[i]);
    return list;
}

static json_t *prediction_of(const struct pith_job *job, const struct found *fitted,
                             const struct found *unseen)
{
    const json_t *predicted = json_object_get(json_object_get(job->more, "predicted"), "kld");
    const struct found *f = unseen->tokens ? unseen : fitted;
    json_t *j = json_pack("{s:f, s:f, s:o, s:I, s:b, s:{s:f, s:o, s:I}}", "kld",
                          json_number_value(predicted), "measured", f->kld, "standard_error",
                          error_of(f), "tokens", (json_int_t)f->tokens, "held_out",
                          (int)(unseen->tokens > 0), "fitted", "measured", fitted->kld,
                          "standard_error", error_of(fitted), "tokens", (json_int_t)fitted->tokens);
    pith_json_set_some(&j, "remarks", remarks_of(json_number_value(predicted), fitted, unseen));
    return j;
}

/* The model as it lies in the partial folder. */
static enum pith_status open_made(const struct pith_job *job, struct pith_model **out,
                                  struct pith_error *err)
{
    const char *file = job->container->file;
    char *path = file ? pith_path_join(job->partial, file) : pith_strdup(job->partial);
    if (!path) return pith_fail_nomem(err, "a file's name");
    const enum pith_status s = pith_model_open(path, out, err);
    pith_free(path);
    return s;
}

/* The first windows of a set, of which the first `length` ids each; at most so many tokens. */
static struct text text_of(const struct pith_calib_set *set, size_t length, size_t most)
{
    const size_t windows = most / length ? most / length : 1;
    return (struct text){.ids = set->ids,
                         .windows = windows < set->windows ? windows : set->windows,
                         .stride = set->length,
                         .length = length};
}

enum pith_status pith_prediction_check(struct pith_run *r, json_t *account, struct pith_error *err)
{
    const struct pith_job *job = r->job;
    const struct pith_calib_set *all = &job->calib, *unseen = &job->judge;
    if (!pith_job_predicts(job) || !all->windows) return PITH_OK;
    const bool apart = unseen->windows > 0;
    const struct text fitted = apart ? text_of(all, unseen->length, PITH_PREDICTION_FITTED)
                                     : text_of(all, all->length, PITH_PREDICTION_TOKENS);
    struct pair p = {.run = r, .side[0].model = job->model};
    struct found on[2] = {{0}};
    enum pith_status s = open_made(job, &p.side[1].model, err);
    if (s == PITH_OK) s = measure(&p, &fitted, &on[0], err);
    if (s == PITH_OK && apart) {
        const struct text judge = text_of(unseen, unseen->length, PITH_PREDICTION_TOKENS);
        s = measure(&p, &judge, &on[1], err);
    }
    pith_model_close(p.side[1].model);
    if (s != PITH_OK) return s;
    json_t *j = prediction_of(job, &on[0], &on[1]);
    return json_object_set_new(account, "prediction", j) == 0 ? PITH_OK
                                                              : pith_fail_nomem(err, "pith.json");
}
