#include "eval/task/prompts.h"

#include "base/grow.h"
#include "base/json.h"
#include "base/mem.h"
#include "eval/divergence.h"
#include "eval/harm.h"
#include "eval/ranks_agree.h"
#include "eval/scorer.h"
#include "eval/stats.h"
#include "tok/text_input.h"

#include <math.h>
#include <string.h>

struct prompt {
    size_t first, count, line; /* in ids */
};

struct prompts {
    struct pith_ids ids;
    struct prompt *item;
    size_t count, cap, longest;
};

/* Sums over a prompt's continuation. */
struct comparison {
    size_t tokens, agreed;
    double kld;
};

struct run {
    const struct pith_prompts_job *job;
    const struct prompts *all;
    struct pith_scorer model, baseline;
    int32_t *ids;
    double *mean, *weight; /* [prompts] */
    struct comparison *comparison; /* [prompts] */
};

static void free_prompts(struct prompts *p)
{
    pith_ids_free(&p->ids);
    pith_free(p->item);
}

static enum pith_status add_prompt(struct prompts *p, const struct pith_prompts_job *job,
                                   const char *text, size_t size, size_t line,
                                   struct pith_error *err)
{
    size_t most = job->model->shape.max_position;
    if (job->baseline->shape.max_position < most) most = job->baseline->shape.max_position;
    struct prompt *item = pith_grow(p->item, p->count, &p->cap, 64, sizeof *item);
    if (!item) return pith_fail_nomem(err, "prompts");
    p->item = item;
    struct prompt *x = &p->item[p->count++];
    *x = (struct prompt){.first = p->ids.count, .line = line};
    PITH_TRY(pith_tokenizer_encode(job->tokenizer, text, size, true, &p->ids, err));
    x->count = p->ids.count - x->first;
    if (x->count > p->longest) p->longest = x->count;
    if (x->count && x->count + PITH_PROMPT_TOKENS <= most) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: line %zu: %zu tokens; with a continuation of %d the model takes 1 to %zu",
                     job->path, line, x->count, PITH_PROMPT_TOKENS,
                     most > PITH_PROMPT_TOKENS ? most - PITH_PROMPT_TOKENS : 0);
}

static enum pith_status add_line(struct prompts *p, const struct pith_prompts_job *job,
                                 const char *text, size_t size, size_t line, struct pith_error *err)
{
    json_t *j = NULL;
    if (text[0] != '{') return add_prompt(p, job, text, size, line, err);
    PITH_TRY(pith_json_parse(text, size, job->path, &j, err));
    const json_t *prompt = json_object_get(j, "prompt");
    const enum pith_status s =
        json_is_string(prompt)
            ? add_prompt(p, job, json_string_value(prompt), json_string_length(prompt), line, err)
            : pith_fail(err, PITH_FORMAT, "%s: line %zu: JSON without a \"prompt\"", job->path,
                        line);
    json_decref(j);
    return s;
}

static enum pith_status read_prompts(struct prompts *p, const struct pith_prompts_job *job,
                                     struct pith_error *err)
{
    struct pith_text text;
    size_t line = 0;
    PITH_TRY(pith_text_open(job->path, NULL, &text, err));
    enum pith_status s = PITH_OK;
    for (size_t at = 0; at < text.size && s == PITH_OK;) {
        const char *start = text.data + at, *stop = memchr(start, '\n', text.size - at);
        size_t size = stop ? (size_t)(stop - start) : text.size - at;
        at += size + 1;
        line++;
        if (size && start[size - 1] == '\r') size--;
        if (size) s = add_line(p, job, start, size, line, err);
    }
    s = pith_text_finish(&text, job->path, s, err);
    if (s == PITH_OK && p->count == 0) s = pith_fail(err, PITH_FORMAT, "%s: no prompts", job->path);
    return s;
}

/* The baseline's greedy continuation behind the prompt in r->ids; *n grows. */
static enum pith_status continue_prompt(struct run *r, size_t *n, struct pith_error *err)
{
    const int32_t eos = pith_tokenizer_eos(r->job->tokenizer);
    for (size_t i = 0; i < PITH_PROMPT_TOKENS; i++) {
        PITH_TRY(pith_scorer_read(&r->baseline, r->ids, *n, err));
        PITH_TRY(pith_scorer_logits(&r->baseline, *n - 1, 1, err));
        r->ids[*n] = (int32_t)pith_argmax(r->baseline.logits, r->baseline.model->shape.vocab);
        if (r->ids[(*n)++] == eos) break;
    }
    return PITH_OK;
}

/* Both models at positions from - 1 .. n - 2, which predict the continuation. */
static enum pith_status compare_reply(struct run *r, size_t from, size_t n, struct comparison *out,
                                      struct pith_error *err)
{
    const size_t vocab = r->model.model->shape.vocab;
    const size_t rows = r->model.rows < r->baseline.rows ? r->model.rows : r->baseline.rows;
    *out = (struct comparison){.tokens = n - from};
    PITH_TRY(pith_scorer_read(&r->model, r->ids, n - 1, err));
    PITH_TRY(pith_scorer_read(&r->baseline, r->ids, n - 1, err));
    for (size_t at = from; at < n; at += rows) {
        const size_t take = n - at < rows ? n - at : rows;
        PITH_TRY(pith_scorer_logits(&r->model, at - 1, take, err));
        PITH_TRY(pith_scorer_logits(&r->baseline, at - 1, take, err));
        for (size_t i = 0; i < take; i++) {
            const float *own = r->model.logits + i * vocab, *base = r->baseline.logits + i * vocab;
            out->kld += pith_kl_logits(base, r->baseline.lse[i], own, r->model.lse[i], vocab);
            out->agreed += pith_argmax(own, vocab) == (size_t)r->ids[at + i];
        }
    }
    return PITH_OK;
}

/* The prompts of this rank; what each found becomes everyone's. */
static enum pith_status hear_prompts(struct run *r, struct pith_error *err)
{
    struct pith_ranks *ranks = r->job->ranks;
    const unsigned own = pith_ranks_own(ranks);
    const size_t from = pith_ranks_from(ranks, own, r->all->count);
    const size_t to = pith_ranks_from(ranks, own + 1, r->all->count);
    for (size_t i = from; i < to; i++) {
        const struct prompt *x = &r->all->item[i];
        size_t n = x->count;
        memcpy(r->ids, r->all->ids.id + x->first, n * sizeof *r->ids);
        PITH_TRY(continue_prompt(r, &n, err));
        PITH_TRY(compare_reply(r, x->count, n, &r->comparison[i], err));
        PITH_TRY(pith_progress_step(r->job->progress, "continuing prompts", (double)(i + 1 - from),
                                    (double)(to - from), err));
    }
    return pith_ranks_share_parts(ranks, r->comparison, r->all->count, sizeof *r->comparison, err);
}

static enum pith_status run_prompts(struct run *r, struct pith_prompts_result *out,
                                    struct pith_error *err)
{
    size_t agreed = 0;
    PITH_TRY(hear_prompts(r, err));
    for (size_t i = 0; i < r->all->count; i++) {
        const struct comparison *comparison = &r->comparison[i];
        r->mean[i] = comparison->kld / (double)comparison->tokens;
        r->weight[i] = (double)comparison->tokens;
        out->tokens += comparison->tokens;
        out->same += comparison->agreed == comparison->tokens;
        agreed += comparison->agreed;
    }
    out->prompts = r->all->count;
    out->top1_agreement = (double)agreed / (double)out->tokens;
    pith_weighted_ci95(r->mean, r->weight, out->prompts, &out->kld_mean, &out->kld_ci95);
    if (out->kld_ci95.lo < 0) out->kld_ci95.lo = 0; /* no divergence is */
    return PITH_OK;
}

static const char *judge(struct pith_interval kld)
{
    const enum pith_harm least = pith_harm_level(kld.lo), most = pith_harm_level(kld.hi);
    return pith_harm_name(least == PITH_HARM_NONE && most != least ? PITH_HARM_UNRESOLVED : least);
}

static enum pith_status agree(const struct pith_prompts_job *job, const struct prompts *all,
                              struct pith_error *err)
{
    const struct pith_measured is = {.model = job->model,
                                     .baseline = job->baseline,
                                     .kv = &job->kv,
                                     .ids = all->ids.id,
                                     .count = all->ids.count,
                                     .cut = all->item,
                                     .cut_bytes = all->count * sizeof *all->item};
    return pith_eval_agree(job->ranks, &is, err);
}

static enum pith_status open_scorers(struct run *r, struct pith_error *err)
{
    const struct pith_prompts_job *job = r->job;
    const size_t capacity = r->all->longest + PITH_PROMPT_TOKENS;
    const struct pith_scorer_options own = {.name = "model", .capacity = capacity, .kv = job->kv};
    const struct pith_scorer_options base = {
        .name = "baseline", .capacity = capacity, .exact = true};
    PITH_TRY(pith_scorer_init(&r->model, job->model, job->backend, &own, err));
    PITH_TRY(pith_scorer_init(&r->baseline, job->baseline, job->backend, &base, err));
    r->ids = pith_alloc(capacity, sizeof *r->ids);
    r->mean = pith_alloc(r->all->count, sizeof *r->mean);
    r->weight = pith_alloc(r->all->count, sizeof *r->weight);
    r->comparison = pith_zalloc(r->all->count, sizeof *r->comparison);
    const bool good = r->ids && r->mean && r->weight && r->comparison;
    return good ? PITH_OK : pith_fail_nomem(err, "prompts");
}

enum pith_status pith_eval_prompts(const struct pith_prompts_job *job,
                                   struct pith_prompts_result *out, struct pith_error *err)
{
    struct prompts all = {0};
    struct run r = {.job = job, .all = &all};
    *out = (struct pith_prompts_result){0};
    if (job->baseline->shape.vocab != job->model->shape.vocab)
        return pith_fail(err, PITH_ARG, "the baseline has another vocabulary (%u, not %u)",
                         job->baseline->shape.vocab, job->model->shape.vocab);
    enum pith_status s = read_prompts(&all, job, err);
    if (s == PITH_OK) s = agree(job, &all, err);
    if (s == PITH_OK) s = open_scorers(&r, err);
    if (s == PITH_OK) s = run_prompts(&r, out, err);
    if (s == PITH_OK) out->verdict = judge(out->kld_ci95);
    pith_scorer_free(&r.model);
    pith_scorer_free(&r.baseline);
    pith_free(r.ids);
    pith_free(r.mean);
    pith_free(r.weight);
    pith_free(r.comparison);
    free_prompts(&all);
    return s;
}
