/* The numbers of a model, and their JSON. */
#include "eval/results.h"

#include "base/mem.h"
#include "eval/harm.h"
#include "eval/task/task_report.h"

void pith_results_free(struct pith_results *m)
{
    for (size_t i = 0; i < m->texts; i++) {
        pith_free(m->text[i].label);
        pith_report_free(&m->text[i].details);
    }
    for (size_t i = 0; i < m->tasks; i++) pith_task_result_free(&m->task[i]);
    pith_free(m->text);
    pith_free(m->task);
    pith_free(m->name);
    json_decref(m->engines);
    json_decref(m->kv_layers);
    pith_report_free(&m->made);
    *m = (struct pith_results){0};
}

static void set_interval(struct pith_report *r, const char *key, struct pith_interval i)
{
    pith_report_interval(r, key, i.lo, i.hi);
}

static void set_harm(struct pith_report *r, const struct pith_harm_result *h)
{
    char why[256];
    pith_harm_reason(h, why, sizeof why);
    set_interval(r, "kld_ci95", h->kld_ci95);
    pith_report_set(r, "harm", pith_words(pith_harm_name(h->harm)));
    pith_report_set(r, "harm_reason", pith_words(why));
    set_interval(r, "harm_delta_ci95", h->delta_ci95);
    pith_report_set(r, "harm_stretches", pith_count(h->stretches));
    pith_report_set(r, "resolvable_delta", pith_real(h->resolvable_delta, 5));
    pith_report_set(r, "tokens_needed", pith_real(h->tokens_needed, 0));
}

/* What a baseline makes known. */
static void set_compared(struct pith_report *r, const struct pith_text_result *t)
{
    pith_report_set(r, "baseline_nll", pith_real(t->baseline_nll, 5));
    pith_report_set(r, "kld_mean", pith_real(t->kld_mean, 6));
    pith_report_set(r, "kld_median", pith_real(t->kld_median, 6));
    pith_report_set(r, "kld_p99", pith_real(t->kld_p99, 5));
    set_interval(r, "kld_p99_ci95", t->kld_p99_ci95);
    pith_report_set(r, "kld_max", pith_real(t->kld_max, 5));
    pith_report_set(r, "top1_agreement", pith_share(t->top1_agreement, 2));
    set_interval(r, "top1_ci95", t->top1_ci95);
    pith_report_set(r, "nll_delta", pith_real(t->nll_delta, 5));
    set_interval(r, "nll_delta_ci95", t->nll_delta_ci95);
    pith_report_set(r, "verdict", pith_words(pith_verdict_name(t->verdict)));
    set_harm(r, &t->harm);
}

/* "depth": the parts of a window where anything is scored. JSON has no infinity: what is not
 * defined for a single window (an interval, an error) is null. */
static void set_depth(struct pith_report *r, const struct pith_text_result *t)
{
    pith_report_list(r, "depth");
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const struct pith_depth *d = &t->depth[i];
        if (d->tokens == 0) continue;
        pith_report_open(r, "");
        pith_report_set(r, "from", pith_count(d->from));
        pith_report_set(r, "to", pith_count(d->to));
        pith_report_set(r, "tokens", pith_count(d->tokens));
        pith_report_set(r, "nll", pith_real(d->nll, 4));
        if (t->has_baseline) {
            pith_report_set(r, "nll_delta", pith_real(d->nll - d->base_nll, 5));
            pith_report_set(r, "kld", pith_real(d->kld, 6));
            set_interval(r, "kld_ci95", d->kld_ci95);
        }
        pith_report_close(r);
    }
    pith_report_close(r);
}

static void set_text(struct pith_report *r, const struct pith_result_text *m)
{
    const struct pith_text_result *t = &m->result;
    const double seconds = t->model_seconds;
    pith_report_set(r, "text", pith_words(m->path));
    pith_report_set(r, "convention", pith_words(pith_convention_name(m->convention)));
    pith_report_set(r, "context", pith_count(m->context));
    pith_report_set(r, "tokens", pith_count(t->tokens));
    pith_report_set(r, "windows", pith_count(t->windows));
    if (m->without_bos) pith_report_set(r, "windows_without_bos", pith_count(m->without_bos));
    pith_report_set(r, "perplexity", pith_real(t->perplexity, 4));
    pith_report_set(r, "perplexity_se", pith_real(t->perplexity_se, 4));
    pith_report_set(r, "nll", pith_real(t->nll, 5));
    pith_report_set(r, "nll_se", pith_real(t->nll_se, 5));
    pith_report_set(r, "seconds", pith_real(t->seconds, 1));
    pith_report_set(r, "tokens_per_second",
                    pith_real(seconds > 0 ? (double)t->tokens / seconds : 0, 1));
    if (t->has_baseline) set_compared(r, t);
    if (m->depth) set_depth(r, t);
    if (*m->sha256) pith_report_set(r, "sha256", pith_words(m->sha256));
    if (m->details) pith_report_merge(r, pith_report_tree(m->details));
    pith_report_set(r, "text_name", pith_words(m->label));
    if (m->crlf_lines == 0) return;
    pith_report_set(r, "crlf_lines", pith_count(m->crlf_lines));
    pith_report_set(r, "crlf", pith_words(m->crlf));
}

static void set_prompts(struct pith_report *r, const char *file,
                        const struct pith_prompts_result *p)
{
    pith_report_open(r, "prompts");
    pith_report_set(r, "file", pith_words(file));
    pith_report_set(r, "n", pith_count(p->prompts));
    pith_report_set(r, "tokens", pith_count(p->tokens));
    pith_report_set(r, "same", pith_count(p->same));
    pith_report_set(r, "verdict", pith_words(p->verdict));
    pith_report_set(r, "top1_agreement", pith_share(p->top1_agreement, 2));
    pith_report_set(r, "kld_mean", pith_real(p->kld_mean, 6));
    set_interval(r, "kld_ci95", p->kld_ci95);
    pith_report_close(r);
}

static void set_model(struct pith_report *r, const struct pith_results *m)
{
    pith_report_set(r, "model", pith_words(m->model));
    pith_report_set(r, "bits_per_weight", pith_real(m->bits_per_weight, 3));
    pith_report_set(r, "bytes", pith_count(m->bytes));
    pith_report_set(r, "kv", pith_words(m->kv));
    pith_report_set(r, "kv_bits", pith_real(m->kv_bits, 2));
    if (m->engines) pith_report_set(r, "engines", pith_tree(json_incref(m->engines)));
    if (*m->attn) pith_report_set(r, "attn", pith_words(m->attn));
    if (m->kv_layers) pith_report_set(r, "kv_layers", pith_tree(json_incref(m->kv_layers)));
    pith_report_set(r, "parameters", pith_count(m->parameters));
    if (m->memory_expected) pith_report_set(r, "memory_expected", pith_count(m->memory_expected));
}

void pith_results_set(struct pith_report *r, const struct pith_results *m)
{
    set_model(r, m);
    if (m->texts == 1) set_text(r, m->text); /* a single text's numbers are the model's own, too */
    pith_report_list(r, "texts");
    for (size_t i = 0; i < m->texts; i++) {
        pith_report_open(r, "");
        set_text(r, &m->text[i]);
        pith_report_close(r);
    }
    pith_report_close(r);
    pith_report_list(r, "tasks");
    for (size_t i = 0; i < m->tasks; i++) {
        pith_report_open(r, "");
        pith_task_set(r, &m->task[i]);
        pith_report_close(r);
    }
    pith_report_close(r);
    if (m->prompts_file) set_prompts(r, m->prompts_file, &m->prompts);
    if (m->made) pith_report_merge(r, pith_report_tree(m->made));
    if (m->name) pith_report_set(r, "name", pith_words(m->name));
}
