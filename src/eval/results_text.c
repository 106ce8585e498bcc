/* What was measured of a model, for people. */
#include "eval/harm.h"
#include "eval/results.h"
#include "eval/task/task_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where values stand when they go on from the line above. */
static const char values[] = "                   ";

/* ", 95% interval A to B", or nothing. */
static const char *interval(struct pith_interval i, const char *format, char text[96])
{
    char lo[32], hi[32];
    text[0] = '\0';
    if (!isfinite(i.lo)) return text;
    snprintf(lo, sizeof lo, format, i.lo);
    snprintf(hi, sizeof hi, format, i.hi);
    snprintf(text, 96, ", 95%% interval %s to %s", lo, hi);
    return text;
}

/* What the interval of the loss difference says, when the harm does not say it already.
 * "Indistinguishable" is for texts that show it: the harm may be plain though a few windows
 * make no interval. */
static const char *loss_word(const struct pith_text_result *t)
{
    const char *verdict = pith_verdict_name(t->verdict);
    const enum pith_harm harm = t->harm.harm;
    if (strcmp(verdict, "indistinguishable") != 0 || harm == PITH_HARM_NONE) return verdict;
    return harm == PITH_HARM_UNRESOLVED ? "" : "not resolved by so few windows";
}

static void say_harm(struct pith_report *r, const struct pith_harm_result *h)
{
    /* "unresolved by this text: ...", not "unresolved: not resolved by ...". */
    static const char again[] = "not resolved";
    char reason[256];
    pith_harm_reason(h, reason, sizeof reason);
    const bool says = strncmp(reason, again, strlen(again)) == 0;
    pith_report_line(r,
                     &(struct pith_line){.lead = "  harm             ",
                                         .strong = pith_harm_name(h->harm),
                                         .wrap = PITH_WRAP_PROSE,
                                         .indent = PITH_REPORT_INDENT},
                     "%s%s", says ? "" : ": ", says ? reason + strlen(again) : reason);
}

/* The distance from the baseline. */
static void say_compared(struct pith_report *r, const struct pith_text_result *t)
{
    char text[96];
    const char *word = loss_word(t);
    say_harm(r, &t->harm);
    pith_report_label(r, "KL divergence", PITH_WRAP_TERMINAL, "%.6f mean%s", t->kld_mean,
                      interval(t->harm.kld_ci95, "%.6f", text));
    pith_report_line(r,
                     &(struct pith_line){
                         .lead = values, .wrap = PITH_WRAP_TERMINAL, .indent = PITH_REPORT_INDENT},
                     "%.6f median, %.5f at 99%%%s", t->kld_median, t->kld_p99,
                     interval(t->kld_p99_ci95, "%.5f", text));
    pith_report_label(r, "same top token", PITH_WRAP_NONE, "%.2f%%", 100 * t->top1_agreement);
    pith_report_label(r, "loss difference", PITH_WRAP_TERMINAL, "%+.5f nats a token%s%s%s%s",
                      t->nll_delta, interval(t->nll_delta_ci95, "%+.5f", text),
                      isfinite(t->nll_delta_ci95.lo) ? "" : ", no interval from a single window",
                      *word ? ": " : "", word);
}

void pith_results_say_depth(struct pith_report *r, const struct pith_result_text *m)
{
    enum { RESERVE = 42 };
    const struct pith_text_result *t = &m->result;
    double most = 0;
    bool begun = false;
    if (!m->depth) return;
    for (size_t i = 0; i < PITH_DEPTHS; i++)
        if (t->depth[i].tokens)
            most = fmax(most, t->has_baseline ? t->depth[i].kld : t->depth[i].nll);
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const struct pith_depth *d = &t->depth[i];
        const double x = t->has_baseline ? d->kld : d->nll;
        char range[48];
        if (d->tokens == 0) continue;
        if (!begun)
            pith_report_line(r, &(struct pith_line){0}, "  %-13s  %10s  %s", "positions", "loss",
                             t->has_baseline ? "KL" : "");
        begun = true;
        snprintf(range, sizeof range, "%zu-%zu", d->from, d->to - 1);
        pith_report_bar(r, most > 0 ? x / most : 0, RESERVE, "  %-13s  %10.4f  %-10.6f  ", range,
                        d->nll, x);
    }
}

static void say_text(struct pith_report *r, const struct pith_result_text *m)
{
    const struct pith_text_result *t = &m->result;
    char time[32], how[96], error[48] = "";
    pith_seconds_text(t->seconds, time, sizeof time);
    snprintf(how, sizeof how, " (%s convention, context %zu)", pith_convention_name(m->convention),
             m->context);
    pith_report_line(r, &(struct pith_line){.strong = m->path, .reserve = strlen(how)}, "%s", how);
    if (isfinite(t->perplexity_se)) snprintf(error, sizeof error, " +/- %.4f", t->perplexity_se);
    pith_report_label(r, "perplexity", PITH_WRAP_NONE, "%.4f%s (loss %.5f nats a token)",
                      t->perplexity, error, t->nll);
    if (t->has_baseline) say_compared(r, t);
    pith_report_label(r, "scored", PITH_WRAP_NONE, "%zu tokens in %zu windows, %s", t->tokens,
                      t->windows, time);
    if (m->without_bos)
        pith_report_label(r, "without BOS", PITH_WRAP_PROSE,
                          "%zu of these windows: convention bos begins each window with it",
                          m->without_bos);
    pith_results_say_depth(r, m);
}

static void say_prompts(struct pith_report *r, const char *file,
                        const struct pith_prompts_result *p)
{
    static const char kind[] = " (the baseline's own continuations)";
    char ci[96], lead[160];
    pith_report_line(r, &(struct pith_line){.strong = file, .reserve = sizeof kind - 1}, "%s",
                     kind);
    pith_report_label(r, "same to the end", PITH_WRAP_NONE, "%zu of %zu prompts", p->same,
                      p->prompts);
    pith_report_label(r, "same top token", PITH_WRAP_NONE, "%.2f%% of %zu", 100 * p->top1_agreement,
                      p->tokens);
    snprintf(lead, sizeof lead, "  KL divergence    %.6f mean%s: ", p->kld_mean,
             interval(p->kld_ci95, "%.6f", ci));
    pith_report_line(r, &(struct pith_line){.lead = lead, .strong = p->verdict}, "%s", "");
}

void pith_results_say(struct pith_report *r, const struct pith_results *m)
{
    char size[32], how[160];
    const char *engine;
    json_t *flags;
    pith_bytes_text((double)m->bytes, size, sizeof size);
    snprintf(how, sizeof how, ": %s, %.3f bits per weight%s%s", size, m->bits_per_weight,
             *m->attn ? ", attention in " : "", m->attn);
    pith_report_line(r, &(struct pith_line){.strong = m->model, .reserve = strlen(how)}, "%s", how);
    json_object_foreach (m->engines, engine, flags)
        pith_report_line(r, &(struct pith_line){0}, "  in %-13s %s", engine,
                         json_string_value(flags));
    for (size_t i = 0; i < m->texts; i++) say_text(r, &m->text[i]);
    for (size_t i = 0; i < m->tasks; i++) pith_task_say(r, &m->task[i]);
    if (m->prompts_file) say_prompts(r, m->prompts_file, &m->prompts);
}

void pith_results_line(const struct pith_results *m, struct pith_str *out)
{
    pith_str_puts(out, m->name);
    for (size_t i = 0; i < m->texts; i++) {
        const struct pith_result_text *t = &m->text[i];
        pith_str_printf(out, ", %s: perplexity %.3f", t->label, t->result.perplexity);
        if (t->result.has_baseline) pith_str_printf(out, ", KL %.5f", t->result.kld_mean);
    }
    for (size_t i = 0; i < m->tasks; i++)
        pith_str_printf(out, ", %s: %.1f%%", m->task[i].name, 100 * m->task[i].all.plain.accuracy);
}
