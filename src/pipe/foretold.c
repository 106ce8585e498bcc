#include "pipe/foretold.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "eval/divergence.h"

#include <math.h>
#include <string.h>

/* One of the two models: its stream on the way through its blocks. */
struct side {
    struct pith_model *model;
    struct pith_collector collector;
    struct pith_acts acts[2];
    float *logits; /* [PITH_HEAD_ROWS][vocab] */
};

struct pair {
    struct pith_run *run;
    struct side side[2]; /* the original, what was made of it */
    size_t windows, length;
    double *kld; /* [windows]: sums over tokens */
};

static enum pith_status open_side(const struct pair *p, struct side *s, struct pith_error *err)
{
    const struct pith_job *job = p->run->job;
    const struct pith_model *m = s->model;
    const size_t carried = pith_plans_carried(&m->plans);
    const size_t floats = p->windows * p->length * (m->shape.hidden + carried);
    for (int i = 0; i < 2; i++) {
        s->acts[i] = (struct pith_acts){.x = pith_alloc_aligned(floats, sizeof(float)),
                                        .windows = p->windows,
                                        .length = p->length,
                                        .hidden = m->shape.hidden,
                                        .carried = carried};
        if (!s->acts[i].x) return pith_fail_nomem(err, "activations");
    }
    s->logits = pith_alloc_aligned((size_t)PITH_HEAD_ROWS * m->shape.vocab, sizeof(float));
    if (!s->logits) return pith_fail_nomem(err, "logits");
    PITH_TRY(pith_collector_init(&s->collector, job->backend, m, p->length, err));
    for (size_t w = 0; w < p->windows; w++) {
        const int32_t *ids = job->calib.ids + w * p->length;
        float *x = pith_acts_window(&s->acts[0], w);
        PITH_TRY(pith_model_embed(m, ids, p->length, x, err));
        pith_plans_fill(&m->plans, ids, p->length, x + p->length * m->shape.hidden);
    }
    return PITH_OK;
}

static void close_side(struct side *s)
{
    for (int i = 0; i < 2; i++) pith_free(s->acts[i].x);
    pith_free(s->logits);
    pith_collector_free(&s->collector);
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

static enum pith_status measure(struct pair *p, struct pith_error *err)
{
    const uint32_t layers = p->side[0].model->shape.layers;
    for (int i = 0; i < 2; i++) PITH_TRY(open_side(p, &p->side[i], err));
    for (uint32_t l = 0; l < layers; l++) {
        PITH_TRY(pith_run_step(p->run, "checking the prediction", 0, err));
        for (int i = 0; i < 2; i++) PITH_TRY(pass_block(&p->side[i], l, err));
    }
    for (size_t w = 0; w < p->windows; w++)
        for (size_t i = 0; i < p->length; i += PITH_HEAD_ROWS) {
            const size_t left = p->length - i;
            PITH_TRY(compare_rows(p, w, i, left < PITH_HEAD_ROWS ? left : PITH_HEAD_ROWS, err));
        }
    return PITH_OK;
}

static enum pith_status report(const struct pair *p, double predicted, json_t *account,
                               struct pith_error *err)
{
    double sum = 0, squares = 0;
    const double n = (double)p->windows, length = (double)p->length;
    for (size_t w = 0; w < p->windows; w++) sum += p->kld[w] / length;
    const double mean = sum / n;
    for (size_t w = 0; w < p->windows; w++)
        squares += (p->kld[w] / length - mean) * (p->kld[w] / length - mean);
    json_t *error = n > 1 ? json_real(sqrt(squares / (n - 1) / n)) : json_null();
    json_t *j = isfinite(mean) ? json_pack("{s:f, s:f, s:o, s:I}", "kld", predicted, "measured",
                                           mean, "standard_error", error, "tokens",
                                           (json_int_t)(p->windows * p->length))
                               : NULL;
    if (!isfinite(mean)) {
        json_decref(error);
        return pith_fail(err, PITH_NUMERIC, "the finished model's logits are not finite");
    }
    return json_object_set_new(account, "prediction", j) == 0 ? PITH_OK
                                                              : pith_fail_nomem(err, "pith.json");
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

enum pith_status pith_foretold(struct pith_run *r, json_t *account, struct pith_error *err)
{
    const struct pith_job *job = r->job;
    const json_t *kld = json_object_get(json_object_get(job->more, "predicted"), "kld");
    if (!json_is_number(kld) || !job->calib.windows) return PITH_OK;
    struct pair p = {.run = r, .length = job->calib.length};
    const size_t most = PITH_FORETOLD_TOKENS / p.length;
    p.windows = most == 0 ? 1 : most < job->calib.windows ? most : job->calib.windows;
    p.side[0].model = job->model;
    p.kld = pith_zalloc(p.windows, sizeof *p.kld);
    enum pith_status s = p.kld ? open_made(job, &p.side[1].model, err)
                               : pith_fail_nomem(err, "windows");
    if (s == PITH_OK) s = measure(&p, err);
    if (s == PITH_OK) s = report(&p, json_number_value(kld), account, err);
    for (int i = 0; i < 2; i++) close_side(&p.side[i]);
    pith_model_close(p.side[1].model);
    pith_free(p.kld);
    return s;
}
