/* Forward and backward through both models: the original's output, and the training of the
 * quantized one towards it. */
#include "recover/recover.h"

#include "base/mem.h"
#include "eval/divergence.h"
#include "kern/ops.h"
#include "model/grad/head_grad.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct pith_acts acts_of(const struct pith_recover *r, void *data, size_t windows)
{
    return (struct pith_acts){.x = data,
                              .windows = windows,
                              .length = r->text.length,
                              .hidden = r->model->shape.hidden,
                              .carried = pith_plans_carried(&r->model->plans)};
}

static enum pith_status embed(const struct pith_model *m, const struct pith_calib_set *text,
                              size_t window, float *x, struct pith_error *err)
{
    const int32_t *ids = text->ids + window * text->length;
    const enum pith_status s = pith_model_embed(m, ids, text->length, x, err);
    if (s != PITH_OK)
        return pith_fail_as(err, s == PITH_ARG ? PITH_FORMAT : s,
                            "the tokenizer does not fit this model");
    pith_plans_fill(&m->plans, ids, text->length, x + text->length * m->shape.hidden);
    return PITH_OK;
}

/* --- the original ----------------------------------------------------------------------------- */

static enum pith_status run_original(struct pith_recover *r, struct pith_collector *c,
                                     struct pith_error *err)
{
    struct pith_model *m = r->original;
    const struct pith_acts all = acts_of(r, r->target.data, r->text.windows);
    const struct pith_acts one = acts_of(r, r->acts.data, 1);
    const size_t bytes = pith_acts_floats(&all) * sizeof *all.x;
    size_t from;
    const size_t end = pith_recover_own(r, all.windows, &from) + from;
    for (size_t w = from; w < end; w++)
        PITH_TRY(embed(m, &r->text, w, pith_acts_window(&all, w), err));
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        char what[64];
        struct pith_block b;
        enum pith_status s = PITH_OK;
        (void)snprintf(what, sizeof what, "the original's block %u of %u", l + 1, m->shape.layers);
        PITH_TRY(pith_progress_step(&r->options->progress, what, l, m->shape.layers, err));
        PITH_TRY(pith_block_load(m, l, PITH_LOAD_MAPPED, &b, err));
        for (size_t w = from; w < end && s == PITH_OK; w++) {
            const struct pith_acts in = acts_of(r, pith_acts_window(&all, w), 1);
            s = pith_propagate(c, &b, &in, &one, err);
            if (s == PITH_OK) memcpy(in.x, one.x, bytes);
        }
        pith_block_free(&b);
        pith_model_shed(m, l);
        if (s != PITH_OK) return s;
    }
    return pith_ranks_share_parts(r->ranks, all.x, all.windows, bytes, err);
}

/* Those that rank 0 has found. */
static enum pith_status find_original(struct pith_recover *r, const char *hex, bool *found,
                                      struct pith_error *err)
{
    *found = r->target_hash[0] && strcmp(hex, r->target_hash) == 0;
    PITH_TRY(pith_ranks_share(r->ranks, 0, found, sizeof *found, err));
    return *found ? pith_ranks_share(r->ranks, 0, r->target.data, r->target.size, err) : PITH_OK;
}

enum pith_status pith_recover_targets(struct pith_recover *r, struct pith_error *err)
{
    struct pith_collector c;
    char hex[PITH_SHA256_HEX];
    r->target_acts = acts_of(r, r->target.data, r->text.windows);
    if (!pith_sha256_hex(r->target.data, r->target.size, hex))
        return pith_fail_nomem(err, "a hash");
    bool found;
    PITH_TRY(find_original(r, hex, &found, err));
    if (found) return PITH_OK;
    PITH_TRY(pith_collector_init(&c, r->backend, r->original, r->text.length, err));
    const enum pith_status s = run_original(r, &c, err);
    pith_collector_free(&c);
    PITH_TRY(s);
    return pith_sha256_hex(r->target.data, r->target.size, r->target_hash)
               ? PITH_OK
               : pith_fail_nomem(err, "a hash");
}

/* --- the divergence --------------------------------------------------------------------------- */

struct rows {
    const struct pith_kern *kern;
    const float *is;
    float *want; /* scratch once d is wanted */
    const double *want_lse, *is_lse;
    float *d;   /* one of the two is wanted */
    double *kl;
    size_t vocab;
    float share; /* of a row in the mean */
};

static void row_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *j = ctx;
    const float *q = j->is + row * j->vocab;
    float *p = j->want + row * j->vocab;
    const float p0 = (float)j->want_lse[row], q0 = (float)j->is_lse[row];
    (void)thread;
    if (!j->d) {
        j->kl[row] = pith_kl_logits(p, j->want_lse[row], q, j->is_lse[row], j->vocab);
        return;
    }
    float *d = j->d + row * j->vocab;
    memcpy(d, q, j->vocab * sizeof *d);
    (void)j->kern->exp_sum(j->vocab, d, q0);
    (void)j->kern->exp_sum(j->vocab, p, p0);
    for (size_t v = 0; v < j->vocab; v++) d[v] = j->share * (d[v] - p[v]);
}

/* Some rows of the last block's output, and the original's. */
struct head_rows {
    const float *x, *target;
    size_t n;
    float share; /* of a row in the mean */
    float *d_x;  /* receives the gradient of the mean; NULL: not wanted */
    float *norms; /* with it: grows by those of the last norm's vectors, [2][hidden] */
    double *each; /* [n]: receives the divergence of each, where d_x is NULL */
};

static enum pith_status head_back(struct pith_recover *r, const struct head_rows *s,
                                  const float *logits, float *d_logits, struct pith_error *err)
{
    float *bias = s->norms + r->model->shape.hidden;
    const struct pith_head_grad g = {.x = s->x,
                                     .logits = logits,
                                     .d_logits = d_logits,
                                     .n = s->n,
                                     .d_x = s->d_x,
                                     .d_gain = r->last_gain.count ? s->norms : NULL,
                                     .d_bias = r->last_bias.count ? bias : NULL};
    return pith_head_grad(r->model, r->backend, &g, err);
}

/* At most PITH_HEAD_ROWS rows. */
static enum pith_status through_head(struct pith_recover *r, const struct head_rows *s,
                                     struct pith_error *err)
{
    const size_t vocab = r->model->shape.vocab, n = s->n;
    float *want = r->logits, *is = want + (size_t)PITH_HEAD_ROWS * vocab;
    double want_lse[PITH_HEAD_ROWS], is_lse[PITH_HEAD_ROWS];
    struct rows j = {.kern = pith_backend_kern(r->backend),
                     .want = want,
                     .is = is,
                     .want_lse = want_lse,
                     .is_lse = is_lse,
                     .kl = s->each,
                     .vocab = vocab,
                     .share = s->share};
    PITH_TRY(pith_model_logits(r->original, r->backend, s->target, n, want, err));
    PITH_TRY(pith_model_logits(r->model, r->backend, s->x, n, is, err));
    pith_logsumexp(r->backend, want, n, vocab, want_lse);
    pith_logsumexp(r->backend, is, n, vocab, is_lse);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(want_lse[i]) || !isfinite(is_lse[i]))
            return pith_fail(err, PITH_NUMERIC, "the logits of %s are not finite",
                             isfinite(want_lse[i]) ? r->options->model : r->options->original);
    if (s->d_x) j.d = is + (size_t)PITH_HEAD_ROWS * vocab;
    pith_pool_run(pith_backend_pool(r->backend), n, row_task, &j);
    return s->d_x ? head_back(r, s, is, j.d, err) : PITH_OK;
}

/* A whole window, of a step that one; of `all` n and norms are not looked at. */
static enum pith_status through_heads(struct pith_recover *r, const struct head_rows *all,
                                      size_t window, struct pith_error *err)
{
    const size_t hidden = r->model->shape.hidden, length = r->text.length;
    for (size_t i = 0; i < length; i += PITH_HEAD_ROWS) {
        struct head_rows s = *all;
        s.n = length - i < PITH_HEAD_ROWS ? length - i : PITH_HEAD_ROWS;
        s.x += i * hidden;
        s.target += i * hidden;
        if (s.each) s.each += i;
        if (s.d_x) s.d_x += i * hidden;
        if (s.d_x) s.norms = pith_recover_norms_at(r, window, i);
        PITH_TRY(through_head(r, &s, err));
    }
    return PITH_OK;
}

/* --- the quantized model ---------------------------------------------------------------------- */

/* What enters a block, of a step's windows. */
static float *entering(const struct pith_recover *r, size_t layer, size_t which)
{
    const struct pith_acts a = acts_of(r, r->acts.data, 0);
    return a.x + (layer * r->batch + which) * pith_acts_floats(&a);
}

static enum pith_status tick(struct pith_recover *r, const char *what, struct pith_error *err)
{
    char text[128];
    const size_t end = r->steps ? r->steps : r->until ? r->until : r->step + r->step / 2 + 50;
    (void)snprintf(text, sizeof text, "%s; held-out KL %.5f, at first %.5f", what, r->best,
                   r->before);
    return pith_progress_step(&r->options->progress, text, (double)r->step, (double)end, err);
}

/* Several windows through all blocks: entering(r, layers, i) receives what leaves the last. */
static enum pith_status go_there(struct pith_recover *r, float *p, const size_t *windows,
                                 size_t count, const char *what, struct pith_error *err)
{
    for (size_t i = 0; i < count; i++)
        PITH_TRY(embed(r->model, &r->text, windows[i], entering(r, 0, i), err));
    for (uint32_t l = 0; l < r->model->shape.layers; l++) {
        struct pith_recover_block b;
        enum pith_status s = PITH_OK;
        PITH_TRY(tick(r, what, err));
        PITH_TRY(pith_recover_open(r, l, p, false, &b, err));
        for (size_t i = 0; i < count && s == PITH_OK; i++)
            s = pith_tape_forward(&r->tape, &b.block, entering(r, l, i), r->text.length,
                                  entering(r, l + 1, i), err);
        pith_recover_close(&b);
        PITH_TRY(s);
    }
    pith_recover_last_norm(r, p);
    return PITH_OK;
}

static void see_memory(struct pith_recover *r)
{
    const uint64_t now = pith_memory_anonymous();
    if (now > r->peak) r->peak = now;
}

/* A block of a step, back; its output of the way there is scratch by then. */
static enum pith_status back_block(struct pith_recover *r, uint32_t layer,
                                   const struct pith_recover_rates *rates, struct pith_error *err)
{
    const size_t floats = r->text.length * r->model->shape.hidden;
    struct pith_recover_block b;
    size_t from;
    const size_t own = pith_recover_own(r, r->batch, &from);
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_recover_open(r, layer, pith_recover_state(r, 0), true, &b, err));
    s = pith_recover_begin_block(r, &b, err);
    for (size_t i = 0; i < own && s == PITH_OK; i++) {
        float *d = r->grad + i * floats;
        struct pith_tape_grad g = pith_recover_grads(r, &b, from + i);
        s = pith_tape_forward(&r->tape, &b.block, entering(r, layer, i), r->text.length,
                              entering(r, layer + 1, i), err);
        if (s != PITH_OK) break;
        g.d_out = g.d_x = d;
        pith_tape_backward(&r->tape, &b.block, &g);
    }
    if (s == PITH_OK) s = pith_recover_meet(r, &b, err);
    if (s == PITH_OK) pith_recover_step_block(r, layer, &b, rates);
    see_memory(r); /* while most of it is there */
    pith_recover_close(&b);
    return s;
}

enum pith_status pith_recover_train(struct pith_recover *r, const size_t *windows,
                                    const struct pith_recover_rates *rates, struct pith_error *err)
{
    const size_t hidden = r->model->shape.hidden, floats = r->text.length * hidden;
    const uint32_t layers = r->model->shape.layers;
    const float share = 1.0f / (float)(r->batch * r->text.length);
    size_t from;
    const size_t own = pith_recover_own(r, r->batch, &from);
    PITH_TRY(go_there(r, pith_recover_state(r, 0), windows + from, own, "training", err));
    pith_recover_begin_norms(r);
    for (size_t i = 0; i < own; i++) {
        const struct head_rows s = {.x = entering(r, layers, i),
                                    .target = pith_acts_window(&r->target_acts, windows[from + i]),
                                    .share = share,
                                    .d_x = r->grad + i * floats};
        PITH_TRY(through_heads(r, &s, from + i, err));
    }
    PITH_TRY(pith_recover_meet_norms(r, err));
    pith_recover_step_last(r, rates);
    for (uint32_t l = layers; l-- > 0;) {
        PITH_TRY(tick(r, "training", err));
        PITH_TRY(back_block(r, l, rates, err));
    }
    return PITH_OK;
}

/* The divergences of held-out windows [from, end), of those that are held out. */
static enum pith_status measure_some(struct pith_recover *r, float *p, size_t from, size_t end,
                                     struct pith_error *err)
{
    const uint32_t layers = r->model->shape.layers;
    size_t list[64] = {0};
    const size_t most = r->batch < 64 ? r->batch : 64, period = pith_recover_validation(r);
    while (from < end) {
        size_t n = 0;
        for (; n < most && from + n < end; n++) list[n] = (from + n + 1) * period - 1;
        PITH_TRY(go_there(r, p, list, n, "measuring", err));
        for (size_t i = 0; i < n; i++) {
            const struct head_rows s = {.x = entering(r, layers, i),
                                        .target = pith_acts_window(&r->target_acts, list[i]),
                                        .each = r->each + (from + i) * r->text.length};
            PITH_TRY(through_heads(r, &s, 0, err));
        }
        from += n;
    }
    return PITH_OK;
}

enum pith_status pith_recover_measure(struct pith_recover *r, float *p, double *kl,
                                      struct pith_error *err)
{
    const size_t length = r->text.length, windows = r->text.windows / pith_recover_validation(r);
    size_t from;
    const size_t own = pith_recover_own(r, windows, &from);
    PITH_TRY(measure_some(r, p, from, from + own, err));
    PITH_TRY(pith_ranks_share_parts(r->ranks, r->each, windows, length * sizeof *r->each, err));
    *kl = 0;
    for (size_t i = 0; i < windows * length; i++) *kl += r->each[i];
    *kl /= (double)(windows * length);
    return PITH_OK;
}
