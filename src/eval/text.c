#include "eval/eval.h"

#include "base/file.h"
#include "base/mem.h"
#include "eval/baseline_text.h"
#include "eval/depth.h"
#include "eval/divergence.h"
#include "eval/harm.h"
#include "eval/scorer.h"
#include "eval/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tokens that the models put first. */
struct tops {
    int32_t base, model;
};

/* What was found at a position. */
struct scored {
    double nll, base_nll;
    float kld;
    struct tops top;
};

/* Some positions of a window. */
struct rows {
    size_t from, n;
};

/* One of the windows that are read at once: its ids, and hidden rows of its positions. */
struct reading {
    int32_t *ids;
    const float *model, *base; /* the latter of positions base_first and later */
    size_t base_first;
    bool recalled; /* the baseline has read it before */
};

/* Everything of one measurement; arrays over windows and over scored positions. */
struct run {
    const struct pith_text_job *job;
    struct pith_window *windows;
    size_t count;        /* of windows that are used */
    size_t tokens, done; /* positions to score; scored so far */
    struct pith_scorer model, base;
    size_t together;                   /* windows that are read at once, at most */
    int32_t *ids;                      /* [together][longest] */
    struct reading *reading;           /* [together] */
    double *weight, *loss, *base_loss; /* [count]: means of a window */
    struct pith_stretches stretches;   /* with a baseline */
    size_t stretch;                    /* the first of the window at work */
    float *kld;                        /* [tokens] */
    struct scored *scored;             /* [rows] of the chunk at work; several ranks: [tokens] */
    size_t first, own;                 /* the windows that this rank reads: the first, how many */
    size_t agreed;
    struct pith_depths depths;
    char what[80]; /* for the listener */
};

/* One chunk of rows, compared by all threads. */
struct chunk {
    const struct pith_scorer *base, *model;
    struct scored *out;
};

static void compare_row(void *ctx, size_t row, unsigned thread)
{
    (void)thread;
    const struct chunk *c = ctx;
    const size_t vocab = c->model->model->shape.vocab;
    const float *p = c->base->logits + row * vocab, *q = c->model->logits + row * vocab;
    struct scored *out = &c->out[row];
    out->kld = (float)pith_kl_logits(p, c->base->lse[row], q, c->model->lse[row], vocab);
    out->top = (struct tops){(int32_t)pith_argmax(p, vocab), (int32_t)pith_argmax(q, vocab)};
}

static enum pith_status compare(struct run *r, size_t n, struct scored *out, struct pith_error *err)
{
    struct chunk c = {&r->base, &r->model, out};
    pith_pool_run(pith_backend_pool(r->job->backend), n, compare_row, &c);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(out[i].kld))
            return pith_fail(err, PITH_NUMERIC,
                             "the divergence at a position is not a finite number");
    return PITH_OK;
}

static size_t pieces(const struct run *r, const struct pith_window *w)
{
    return pith_stretches_of(r->count, w->length - w->score_from);
}

/* Adds a position to the stretch that it lies in, and reports it to the watch. */
static void add_position(struct run *r, size_t index, size_t at, struct pith_position *p)
{
    const struct pith_window *w = &r->windows[index];
    const size_t scored = w->length - w->score_from;
    const size_t i = r->stretch + (at - w->score_from) * pieces(r, w) / scored;
    p->window = index;
    p->at = w->begin + at;
    p->weight = w->weight / (double)scored;
    pith_stretches_add(&r->stretches, i, p);
    pith_depths_add(&r->depths, at, p);
    if (r->job->watch.seen) r->job->watch.seen(r->job->watch.ctx, p);
}

static struct reading *reading_of(const struct run *r, size_t index)
{
    return &r->reading[(index - r->first) % r->together];
}

/* The baseline's logits of these positions: computed, or as they were for a model before. */
static enum pith_status find_base(struct run *r, size_t index, struct rows rows,
                                  struct pith_error *err)
{
    struct pith_cached_text *cached = reading_of(r, index)->recalled ? r->job->cached : NULL;
    struct pith_cached_logits found;
    if (cached && pith_cached_find_logits(cached, index, rows.from, rows.n, &found)) {
        pith_scorer_recall_logits(&r->base, found.logits, found.lse);
        return PITH_OK;
    }
    PITH_TRY(pith_scorer_logits(&r->base, rows.from - 1, rows.n, err));
    found = (struct pith_cached_logits){r->base.logits, r->base.lse};
    if (cached) pith_cached_put_logits(cached, index, rows.from, rows.n, &found);
    return PITH_OK;
}

/* Scores positions from..from+n-1 of a window that both models have read. */
static enum pith_status score_rows(struct run *r, size_t index, struct rows rows,
                                   struct scored *out, struct pith_error *err)
{
    const int32_t *ids = reading_of(r, index)->ids;
    const size_t from = rows.from, n = rows.n;
    PITH_TRY(pith_scorer_logits(&r->model, from - 1, n, err));
    if (r->job->baseline) {
        PITH_TRY(find_base(r, index, rows, err));
        PITH_TRY(compare(r, n, out, err));
    }
    for (size_t i = 0; i < n; i++) {
        out[i].nll = pith_scorer_nll(&r->model, i, ids[from + i]);
        if (r->job->baseline) out[i].base_nll = pith_scorer_nll(&r->base, i, ids[from + i]);
    }
    return PITH_OK;
}

/* Adds it to all that is summed, in the order of the text. */
static void count_rows(struct run *r, size_t index, struct rows rows, const struct scored *of,
                       double sums[2])
{
    for (size_t i = 0; i < rows.n; i++) {
        struct pith_position p = {.nll = of[i].nll};
        sums[0] += p.nll;
        if (!r->job->baseline) pith_depths_add(&r->depths, rows.from + i, &p);
        if (!r->job->baseline) continue;
        p.base_nll = of[i].base_nll;
        p.kld = (double)of[i].kld;
        p.top = of[i].top.model;
        p.base_top = of[i].top.base;
        sums[1] += p.base_nll;
        r->kld[r->done + i] = of[i].kld;
        r->agreed += of[i].top.base == of[i].top.model;
        add_position(r, index, rows.from + i, &p);
    }
    r->done += rows.n;
}

/* Between the parts of a window too, which with a large model take long: whether to stop. */
static enum pith_status report(struct run *r, size_t windows, struct pith_error *err)
{
    return pith_progress_step(r->job->progress, r->what, (double)windows, (double)r->count, err);
}

/* Windows that a model is to read, in one step where it takes several. */
static enum pith_status read_spans(struct pith_scorer *s, size_t count, struct pith_error *err)
{
    if (count == 0) return PITH_OK;
    if (s->together > 1) return pith_scorer_read_all(s, s->span, count, err);
    s->span[0].x = s->hidden;
    return pith_scorer_read(s, s->span[0].ids, s->span[0].n, err);
}

static void choose_ids(const struct run *r, size_t index, int32_t *ids)
{
    const struct pith_window *w = &r->windows[index];
    memcpy(ids, r->job->ids + w->begin, w->length * sizeof *ids);
    if (w->bos_first && r->job->bos >= 0) ids[0] = r->job->bos;
}

/* The baseline reads these windows, or is reminded of them. */
static enum pith_status read_baseline(struct run *r, size_t first, size_t count,
                                      struct pith_error *err)
{
    const struct pith_cached_text *cached = r->job->cached;
    size_t spans = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pith_window *w = &r->windows[first + i];
        struct reading *own = &r->reading[i];
        own->base = cached ? pith_cached_find(cached, first + i, w, r->job->baseline->shape.hidden)
                           : NULL;
        own->recalled = own->base != NULL;
        own->base_first = own->base ? w->score_from - 1 : 0;
        if (!own->base)
            r->base.span[spans++] = (struct pith_step_span){.ids = own->ids, .n = w->length};
    }
    PITH_TRY(read_spans(&r->base, spans, err));
    for (size_t i = 0, at = 0; i < count; i++)
        if (!r->reading[i].base) r->reading[i].base = r->base.span[at++].x;
    return PITH_OK;
}

/* Both models read windows [first, first + count). */
static enum pith_status read_windows(struct run *r, size_t first, size_t count,
                                     struct pith_error *err)
{
    for (size_t i = 0; i < count; i++) {
        int32_t *ids = r->reading[i].ids;
        choose_ids(r, first + i, ids);
        r->model.span[i] =
            (struct pith_step_span){.ids = ids, .n = r->windows[first + i].length};
    }
    PITH_TRY(read_spans(&r->model, count, err));
    for (size_t i = 0; i < count; i++) {
        r->reading[i].model = r->model.span[i].x;
        if (!r->job->baseline && r->job->cached)
            pith_cached_put(r->job->cached, first + i, r->reading[i].model);
    }
    PITH_TRY(report(r, first, err));
    return r->job->baseline ? read_baseline(r, first, count, err) : PITH_OK;
}

/* The sums of a window all of whose positions are counted. */
static void end_window(struct run *r, size_t index, const double sums[2])
{
    const struct pith_window *w = &r->windows[index];
    const double scored = (double)(w->length - w->score_from);
    pith_depths_next(&r->depths);
    r->stretch += pieces(r, w);
    r->weight[index] = w->weight;
    r->loss[index] = sums[0] / scored;
    r->base_loss[index] = sums[1] / scored;
}

/* With several ranks, the results are stored in cached[scored]; else they are counted at once. */
static enum pith_status score_window(struct run *r, size_t index, struct scored *cached,
                                     struct pith_error *err)
{
    const struct pith_window *w = &r->windows[index];
    const struct reading *own = reading_of(r, index);
    double sums[2] = {0};
    pith_scorer_recall(&r->model, own->model, 0);
    if (r->job->baseline) pith_scorer_recall(&r->base, own->base, own->base_first);
    for (size_t from = w->score_from; from < w->length; from += r->model.rows) {
        const size_t left = w->length - from;
        const struct rows rows = {from, left < r->model.rows ? left : r->model.rows};
        struct scored *out = cached ? cached + (from - w->score_from) : r->scored;
        PITH_TRY(report(r, index, err));
        PITH_TRY(score_rows(r, index, rows, out, err));
        if (!cached) count_rows(r, index, rows, out, sums);
    }
    if (!cached) end_window(r, index, sums);
    return PITH_OK;
}

/* The windows of this rank. */
static enum pith_status score_own(struct run *r, struct scored *cached, struct pith_error *err)
{
    double sum = 0, weight = 0;
    snprintf(r->what, sizeof r->what, "scoring");
    for (size_t i = r->first; i < r->first + r->own; i++) {
        const struct pith_window *w = &r->windows[i];
        const size_t left = r->first + r->own - i;
        if ((i - r->first) % r->together == 0)
            PITH_TRY(read_windows(r, i, left < r->together ? left : r->together, err));
        PITH_TRY(score_window(r, i, cached, err));
        if (cached) {
            cached += w->length - w->score_from;
        } else {
            sum += r->weight[i] * r->loss[i];
            weight += r->weight[i];
            snprintf(r->what, sizeof r->what, "scoring, perplexity so far %.4g",
                     exp(sum / weight));
        }
        PITH_TRY(report(r, i + 1, err));
    }
    return PITH_OK;
}

/* Positions to score in the windows before that one. */
static size_t scored_before(const struct run *r, size_t index)
{
    size_t n = 0;
    for (size_t i = 0; i < index; i++) n += r->windows[i].length - r->windows[i].score_from;
    return n;
}

/* What each rank found becomes everyone's. */
static enum pith_status share_scored(struct run *r, struct pith_error *err)
{
    struct pith_ranks *ranks = r->job->ranks;
    const unsigned count = pith_ranks_count(ranks);
    size_t *edges = pith_alloc(count + 1, sizeof *edges);
    if (!edges) return pith_fail_nomem(err, "whose windows are whose");
    for (unsigned i = 0; i <= count; i++)
        edges[i] = scored_before(r, pith_ranks_from(ranks, i, r->count)) * sizeof *r->scored;
    const enum pith_status s = pith_ranks_share_runs(ranks, r->scored, edges, err);
    pith_free(edges);
    return s;
}

/* The same, counted as one rank would have. */
static enum pith_status count_all(struct run *r, struct pith_error *err)
{
    PITH_TRY(share_scored(r, err));
    const struct scored *of = r->scored;
    for (size_t i = 0; i < r->count; i++) {
        const struct pith_window *w = &r->windows[i];
        const struct rows rows = {w->score_from, w->length - w->score_from};
        double sums[2] = {0};
        count_rows(r, i, rows, of, sums);
        end_window(r, i, sums);
        of += rows.n;
    }
    return PITH_OK;
}

static enum pith_status score_all(struct run *r, struct pith_error *err)
{
    const bool alone = pith_ranks_alone(r->job->ranks);
    PITH_TRY(score_own(r, alone ? NULL : r->scored + scored_before(r, r->first), err));
    if (r->job->cached) PITH_TRY(pith_cached_check(r->job->cached, err));
    return alone ? PITH_OK : count_all(r, err);
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* What there is to say of divergences, which lie as positions were scored. */
static enum pith_status summarize_kld(struct run *r, struct pith_text_result *out,
                                      struct pith_error *err)
{
    const double rare = 0.99;
    double sum = 0;
    float *sorted = pith_alloc(r->tokens, sizeof *sorted);
    if (!sorted) return pith_fail_nomem(err, "the losses of a text");
    for (size_t i = 0; i < r->tokens; i++) sum += (double)r->kld[i];
    memcpy(sorted, r->kld, r->tokens * sizeof *sorted);
    qsort(sorted, r->tokens, sizeof *sorted, by_size);
    out->kld_mean = sum / (double)r->tokens;
    out->kld_median = pith_quantile(sorted, r->tokens, 0.5);
    out->kld_p99 = pith_quantile(sorted, r->tokens, rare);
    out->kld_max = (double)sorted[r->tokens - 1];
    sum = 0;
    for (size_t i = 0; i < r->tokens; i++) sum += fmin((double)r->kld[i], out->kld_p99);
    out->kld_capped = sum / (double)r->tokens;
    const enum pith_status s =
        pith_stretches_quantile(&r->stretches, r->kld, sorted, rare, &out->kld_p99_ci95, err);
    pith_free(sorted);
    return s;
}

static enum pith_status summarize_baseline(struct run *r, struct pith_text_result *out,
                                           struct pith_error *err)
{
    out->has_baseline = true;
    PITH_TRY(summarize_kld(r, out, err));
    out->top1_agreement = (double)r->agreed / (double)r->tokens;
    pith_weighted_se(r->base_loss, r->weight, r->count, &out->baseline_nll);
    for (size_t i = 0; i < r->count; i++) r->base_loss[i] = r->loss[i] - r->base_loss[i];
    pith_weighted_ci95(r->base_loss, r->weight, r->count, &out->nll_delta, &out->nll_delta_ci95);
    out->verdict = pith_verdict_of(out->nll_delta_ci95);
    PITH_TRY(pith_stretches_same(&r->stretches, &out->top1_ci95, err));
    return pith_harm_judge(&r->stretches, out->baseline_nll, &out->harm, err);
}

static enum pith_status summarize(struct run *r, struct pith_text_result *out,
                                  struct pith_error *err)
{
    out->nll_se = pith_weighted_se(r->loss, r->weight, r->count, &out->nll);
    out->perplexity = exp(out->nll);
    out->perplexity_se = out->perplexity * out->nll_se;
    out->tokens = r->tokens;
    out->windows = r->count;
    out->model_seconds = r->model.seconds;
    pith_depths_sum(&r->depths, out->depth);
    return r->job->baseline ? summarize_baseline(r, out, err) : PITH_OK;
}

/* Drops the windows beyond max_tokens and counts the rest; the longest one is what must fit. */
static size_t choose_windows(struct run *r, size_t all)
{
    size_t longest = 0;
    const size_t most = r->job->max_tokens ? r->job->max_tokens : SIZE_MAX;
    for (r->count = 0; r->count < all && r->tokens < most; r->count++) {
        const struct pith_window *w = &r->windows[r->count];
        r->tokens += w->length - w->score_from;
        if (w->length > longest) longest = w->length;
    }
    return longest;
}

/* Of windows of at most so many tokens, those that are read at once: as many as suits both. */
static size_t choose_together(const struct pith_text_job *job, size_t longest, size_t windows)
{
    const struct pith_scorer_options model = {.capacity = longest, .kv = job->kv},
                                     base = {.capacity = longest};
    const size_t own = pith_scorer_together(job->model, &model, windows);
    return job->baseline ? pith_scorer_together(job->baseline, &base, own) : own;
}

/* Before windows are made: no more than they will be. */
static size_t most_windows(const struct pith_text_job *job)
{
    const size_t step = job->convention == PITH_CONVENTION_HF ? job->stride : job->context;
    return job->count / (step ? step : 1) + 2;
}

static size_t most_length(const struct pith_text_job *job)
{
    return job->count < job->context ? job->count : job->context;
}

size_t pith_eval_text_rows(const struct pith_text_job *job)
{
    const size_t longest = most_length(job);
    return pith_scorer_chunk(longest, choose_together(job, longest, most_windows(job)));
}

void pith_eval_text_meter(const struct pith_text_job *job, struct pith_meter *meter)
{
    enum { A_WINDOW = 288 };
    const size_t step = job->convention == PITH_CONVENTION_HF ? job->stride : job->context;
    const size_t capacity = most_length(job);
    const size_t together = choose_together(job, capacity, most_windows(job));
    const size_t limit = job->max_tokens ? job->max_tokens + job->context : job->count;
    const size_t scored = limit < job->count ? limit : job->count;
    const struct pith_scorer_options model = {.capacity = capacity,
                                              .kv = job->kv,
                                              .together = together},
                                     base = {.capacity = capacity, .together = together};
    pith_meter_take(meter, pith_scorer_bytes(job->model, &model));
    if (job->baseline) pith_meter_take(meter, pith_scorer_bytes(job->baseline, &base));
    pith_meter_take(meter, most_windows(job) * sizeof(struct pith_window));
    pith_meter_take(meter, (scored / (step ? step : 1) + 2) * (uint64_t)A_WINDOW);
    pith_meter_take(meter, together * (capacity * sizeof(int32_t) + sizeof(struct reading)));
    /* Divergences, and at the end these in order. */
    if (job->baseline) pith_meter_take(meter, 2 * scored * sizeof(float));
}

static enum pith_status prepare_arrays(struct run *r, size_t longest, struct pith_error *err)
{
    const struct pith_text_job *job = r->job;
    size_t stretches = 0;
    for (size_t i = 0; i < r->count; i++) stretches += pieces(r, &r->windows[i]);
    r->ids = pith_alloc(r->together, longest * sizeof *r->ids);
    r->reading = pith_alloc(r->together, sizeof *r->reading);
    r->weight = pith_alloc(r->count, sizeof *r->weight);
    r->loss = pith_alloc(r->count, sizeof *r->loss);
    r->base_loss = pith_alloc(r->count, sizeof *r->base_loss);
    r->kld = pith_alloc(job->baseline ? r->tokens : 0, sizeof *r->kld);
    const bool alone = pith_ranks_alone(job->ranks);
    r->scored = pith_zalloc(alone ? r->model.rows : r->tokens, sizeof *r->scored);
    if (!r->ids || !r->reading || !r->weight || !r->loss || !r->base_loss || !r->kld || !r->scored)
        return pith_fail_nomem(err, "the losses of a text");
    for (size_t i = 0; i < r->together; i++) r->reading[i].ids = r->ids + i * longest;
    PITH_TRY(pith_depths_init(&r->depths, longest, r->count, err));
    return job->baseline ? pith_stretches_init(&r->stretches, stretches, err) : PITH_OK;
}

static enum pith_status prepare(struct run *r, struct pith_error *err)
{
    const struct pith_text_job *job = r->job;
    if (job->baseline && job->baseline->shape.vocab != job->model->shape.vocab)
        return pith_fail(err, PITH_ARG,
                         "the baseline has %u tokens in its vocabulary, the model %u",
                         job->baseline->shape.vocab, job->model->shape.vocab);
    if (job->bos >= 0 && (uint32_t)job->bos >= job->model->shape.vocab)
        return pith_fail(err, PITH_ARG, "BOS is %d, outside the vocabulary of %u", job->bos,
                         job->model->shape.vocab);
    size_t all;
    PITH_TRY(pith_windows_make(job->convention, job->count, job->context, job->stride, &r->windows,
                               &all, err));
    const size_t longest = choose_windows(r, all);
    r->together = choose_together(job, longest, r->count);
    const unsigned rank = pith_ranks_own(job->ranks);
    r->first = pith_ranks_from(job->ranks, rank, r->count);
    r->own = pith_ranks_from(job->ranks, rank + 1, r->count) - r->first;
    const struct pith_scorer_options model = {.name = "model",
                                              .capacity = longest,
                                              .kv = job->kv,
                                              .together = r->together},
                                     base = {.name = "baseline",
                                             .capacity = longest,
                                             .exact = true,
                                             .together = r->together};
    PITH_TRY(pith_scorer_init(&r->model, job->model, job->backend, &model, err));
    if (job->baseline)
        PITH_TRY(pith_scorer_init(&r->base, job->baseline, job->backend, &base, err));
    else if (job->cached)
        PITH_TRY(
            pith_cached_begin(job->cached, r->windows, r->count, &job->model->shape, err));
    /* Where one scale is of a whole call, a window alone is one. */
    if (r->model.session.runner.apart || (job->baseline && r->base.session.runner.apart))
        r->together = r->model.together = r->base.together = 1;
    return prepare_arrays(r, longest, err);
}

enum pith_status pith_eval_text(const struct pith_text_job *job, struct pith_text_result *out,
                                struct pith_error *err)
{
    const double start = pith_clock();
    struct run r = {.job = job};
    *out = (struct pith_text_result){0};
    enum pith_status s = prepare(&r, err);
    if (s == PITH_OK) s = score_all(&r, err);
    if (s == PITH_OK) s = summarize(&r, out, err);
    out->seconds = pith_clock() - start;
    pith_scorer_free(&r.model);
    pith_scorer_free(&r.base);
    pith_free(r.windows);
    pith_free(r.ids);
    pith_free(r.reading);
    pith_free(r.weight);
    pith_free(r.loss);
    pith_free(r.base_loss);
    pith_stretches_free(&r.stretches);
    pith_depths_free(&r.depths);
    pith_free(r.kld);
    pith_free(r.scored);
    return s;
}
