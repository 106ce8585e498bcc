/* What was measured, side by side. */
#include "base/mem.h"
#include "base/names.h"
#include "eval/harm.h"
#include "eval/results.h"
#include "eval/task/task_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- models ----------------------------------------------------------------------------------- */

/* What a table has: all texts (`which` < 0), one, or none. */
enum { ALL_TEXTS = -1, NO_TEXT = -2 };

/* A title of a text's column; `prefix` names the text where several stand in one table. */
static void text_column(struct pith_table *t, const char *prefix, const char *name,
                        enum pith_cell kind)
{
    char title[160];
    snprintf(title, sizeof title, "%s%s%s", prefix, prefix[0] ? ": " : "", name);
    pith_table_column(t, title, NULL, kind);
}

static void text_columns(struct pith_table *t, const char *prefix)
{
    text_column(t, prefix, "perplexity", PITH_CELL_NUMBER);
    text_column(t, prefix, "KL", PITH_CELL_NUMBER);
    text_column(t, prefix, "top-1 %", PITH_CELL_NUMBER);
    text_column(t, prefix, "harm", PITH_CELL_TEXT);
    text_column(t, prefix, "s", PITH_CELL_NUMBER);
}

static void text_cells(struct pith_table *t, const struct pith_text_result *x)
{
    pith_table_printf(t, "%.3f", x->perplexity);
    if (x->has_baseline) pith_table_printf(t, "%.5f", x->kld_mean);
    else pith_table_text(t, "-");
    if (x->has_baseline) pith_table_printf(t, "%.2f", 100 * x->top1_agreement);
    else pith_table_text(t, "-");
    pith_table_text(t, x->has_baseline ? pith_harm_name(x->harm.harm) : "baseline");
    pith_table_printf(t, "%.1f", x->seconds);
}

static void model_columns(struct pith_table *t, const struct pith_results *first, int which,
                          bool tasks)
{
    pith_table_column(t, "model", NULL, PITH_CELL_TEXT);
    pith_table_column(t, "bits/weight", NULL, PITH_CELL_NUMBER);
    pith_table_column(t, "MiB", NULL, PITH_CELL_NUMBER);
    for (size_t i = 0; i < first->texts; i++)
        if (which == ALL_TEXTS) text_columns(t, first->texts > 1 ? first->text[i].label : "");
        else if (which == (int)i) text_columns(t, "");
    for (size_t i = 0; i < first->tasks && tasks; i++) {
        pith_table_column(t, first->task[i].name, NULL, PITH_CELL_NUMBER);
        if (first->task[i].all.normalized) pith_table_column(t, "norm", NULL, PITH_CELL_NUMBER);
    }
}

static void model_row(struct pith_table *t, const struct pith_results *m, int which, bool tasks)
{
    pith_table_row(t);
    pith_table_text(t, m->name);
    pith_table_printf(t, "%.3f", m->bits_per_weight);
    pith_table_printf(t, "%.2f", (double)m->bytes / 1048576);
    for (size_t i = 0; i < m->texts; i++)
        if (which == ALL_TEXTS || which == (int)i) text_cells(t, &m->text[i].result);
    for (size_t i = 0; i < m->tasks && tasks; i++) {
        const struct pith_task_figures *f = &m->task[i].all;
        pith_table_printf(t, "%.1f", 100 * f->plain.accuracy);
        if (f->normalized) pith_table_printf(t, "%.1f", 100 * f->norm.accuracy);
    }
}

static void fill_models(struct pith_table *t, const struct pith_results *m, size_t count, int which,
                        bool tasks)
{
    model_columns(t, m, which, tasks);
    for (size_t i = 0; i < count; i++) model_row(t, &m[i], which, tasks);
}

void pith_results_compare(struct pith_report *r, const struct pith_results *m, size_t count)
{
    fill_models(pith_report_alone(r), m, count, ALL_TEXTS, true);
    for (size_t i = 0; i < m->texts; i++) {
        const struct pith_result_text *t = &m->text[i];
        char how[128];
        snprintf(how, sizeof how, " (%s convention, context %zu, %zu tokens)",
                 pith_convention_name(t->convention), t->context, t->result.tokens);
        if (i) pith_report_gap(r);
        pith_report_line(r, &(struct pith_line){.strong = t->label, .reserve = strlen(how)}, "%s",
                         how);
        pith_report_gap(r);
        fill_models(pith_report_add_table(r, PITH_DETAIL_ANY), m, count, (int)i, false);
    }
    if (m->tasks == 0) return;
    if (m->texts) pith_report_gap(r);
    pith_report_line(r, &(struct pith_line){.strong = "tasks"}, " (right answers, %%)");
    pith_report_gap(r);
    fill_models(pith_report_add_table(r, PITH_DETAIL_ANY), m, count, NO_TEXT, true);
}

/* --- caches ----------------------------------------------------------------------------------- */

/* A text's rows, a cache each. */
static void fill_caches(struct pith_table *t, const struct pith_results *m, size_t count,
                        size_t which)
{
    static const char *const names[] = {"KV cache",     "bits", "perplexity", "KL",
                                        "95% interval", "loss", "top 1",      "harm"};
    for (size_t c = 0; c < PITH_COUNT(names); c++)
        pith_table_column(t, names[c], NULL,
                          c == 0 || c == 4 || c == 7 ? PITH_CELL_TEXT : PITH_CELL_NUMBER);
    for (size_t i = 1; i < count; i++) {
        const struct pith_text_result *x = &m[i].text[which].result;
        const struct pith_interval ci = x->harm.kld_ci95;
        pith_table_row(t);
        pith_table_text(t, m[i].kv);
        pith_table_printf(t, "%.2f", m[i].kv_bits);
        pith_table_printf(t, "%.4f", x->perplexity);
        pith_table_printf(t, "%.6f", x->kld_mean);
        if (isfinite(ci.lo)) pith_table_printf(t, "%.6f to %.6f", ci.lo, ci.hi);
        else pith_table_text(t, NULL);
        pith_table_printf(t, "%+.5f", x->nll_delta);
        pith_table_printf(t, "%.2f%%", 100 * x->top1_agreement);
        pith_table_text(t, pith_harm_name(x->harm.harm));
    }
}

static void say_cache(struct pith_report *r, const struct pith_results *m)
{
    pith_report_line(r, &(struct pith_line){.strong = m->kv}, "%s", "");
}

void pith_results_caches(struct pith_report *r, const struct pith_results *m, size_t count)
{
    for (size_t i = 0; i < m->texts; i++) {
        const struct pith_result_text *t = &m->text[i];
        char how[96];
        snprintf(how, sizeof how, " (context %zu, cache f32: perplexity %.4f)", t->context,
                 t->result.perplexity);
        pith_report_line(r, &(struct pith_line){.strong = t->path, .reserve = strlen(how)}, "%s",
                         how);
        fill_caches(pith_report_add_table(r, PITH_DETAIL_ANY), m, count, i);
        for (size_t k = 1; k < count && t->depth; k++) {
            say_cache(r, &m[k]);
            pith_results_say_depth(r, &m[k].text[i]);
        }
    }
    for (size_t i = 1; i < count; i++) {
        if (m[i].tasks) say_cache(r, &m[i]);
        for (size_t k = 0; k < m[i].tasks; k++) pith_task_say(r, &m[i].task[k]);
    }
}

/* --- signals ---------------------------------------------------------------------------------- */

/* A number that rounds to nothing has no sign. */
static void signed_text(char text[32], const char *format, double x)
{
    snprintf(text, 32, format, x);
    if (text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1)) text[0] = '+';
}

static void interval_cell(struct pith_table *t, struct pith_interval ci, const char *format,
                          double scale)
{
    char a[32], b[32];
    if (!isfinite(ci.lo) || !isfinite(ci.hi)) {
        pith_table_text(t, "-");
        return;
    }
    signed_text(a, format, scale * ci.lo);
    signed_text(b, format, scale * ci.hi);
    pith_table_printf(t, "%s to %s", a, b);
}

static void begin_signal(struct pith_table *t, const char *path, const char *measure)
{
    pith_table_row(t);
    pith_table_text(t, pith_name_of_path(path));
    pith_table_text(t, measure);
}

static void text_signal(struct pith_table *t, const struct pith_result_text *m)
{
    const struct pith_text_result *x = &m->result;
    begin_signal(t, m->path, "perplexity");
    pith_table_printf(t, "%.3f", exp(x->baseline_nll));
    pith_table_printf(t, "%.3f", x->perplexity);
    interval_cell(t, x->nll_delta_ci95, "%+.4f", 1);
    pith_table_text(t, pith_harm_name(x->harm.harm));
}

static void task_signal(struct pith_table *t, const struct pith_task_result *x)
{
    const struct pith_accuracy *a = &x->all.plain;
    begin_signal(t, x->name, "right, %");
    pith_table_printf(t, "%.2f", 100 * a->baseline);
    pith_table_printf(t, "%.2f", 100 * a->accuracy);
    interval_cell(t, a->delta_ci95, "%+.2f", 100);
    pith_table_text(t, pith_verdict_name(a->verdict));
}

static void prompts_signal(struct pith_table *t, const char *file,
                           const struct pith_prompts_result *p)
{
    begin_signal(t, file, "same token, %");
    pith_table_text(t, "100");
    pith_table_printf(t, "%.2f", 100 * p->top1_agreement);
    interval_cell(t, p->kld_ci95, "%.4f", 1);
    pith_table_text(t, p->verdict);
}

static void say_brief(struct pith_report *r, const char *text)
{
    pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_BRIEF, .fields = true}, "%s",
                     text);
}

void pith_results_say_signals(struct pith_report *r, const struct pith_results *m)
{
    static const char *const names[] = {"signal", "measure",      "baseline",
                                        "model",  "95% interval", "verdict"};
    struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_BRIEF);
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        pith_table_column(t, names[i], NULL, i == 2 || i == 3 ? PITH_CELL_NUMBER : PITH_CELL_TEXT);
    for (size_t i = 0; i < m->texts; i++) text_signal(t, &m->text[i]);
    for (size_t i = 0; i < m->tasks; i++) task_signal(t, &m->task[i]);
    if (m->prompts_file) prompts_signal(t, m->prompts_file, &m->prompts);
    say_brief(r,
              "Intervals: of the loss difference (nats a token) for texts, of the difference in");
    say_brief(r, "points for tasks, of the KL divergence (nats) for prompts.");
    if (m->texts == 0) say_brief(r, "No text: give `texts=FILE`.");
    if (m->tasks == 0) say_brief(r, "No task: give `tasks=FILE`.");
    if (!m->prompts_file) say_brief(r, "No prompts: give `prompts=FILE`.");
}
