#include "eval/task/task_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- JSON ------------------------------------------------------------------------------------- */

/* The key with its end: "accuracy" and "_norm". */
static void set(struct pith_report *r, const char *key, const char *end, struct pith_value value)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", key, end);
    pith_report_set(r, name, value);
}

static void set_pair(struct pith_report *r, const char *key, const char *end,
                     struct pith_interval i)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s_ci95", key, end);
    pith_report_interval(r, name, i.lo, i.hi);
}

/* Keys end in `end`: "" or "_norm". */
static void set_accuracy(struct pith_report *r, const struct pith_accuracy *a, const char *end,
                         bool compared)
{
    set(r, "accuracy", end, pith_share(a->accuracy, 2));
    set_pair(r, "accuracy", end, a->ci95);
    if (!compared) return;
    set(r, "baseline_accuracy", end, pith_share(a->baseline, 2));
    set(r, "delta", end, pith_share(a->delta, 2));
    set_pair(r, "delta", end, a->delta_ci95);
    set(r, "mcnemar_p", end, pith_real(a->mcnemar_p, 4));
    set(r, "verdict", end, pith_words(pith_verdict_name(a->verdict)));
}

static void set_words(struct pith_report *r, const struct pith_task_figures *f)
{
    pith_report_set(r, "perplexity", pith_real(f->perplexity, 4));
    pith_report_set(r, "perplexity_se", pith_real(f->perplexity_se, 4));
    if (!f->has_baseline) return;
    pith_report_set(r, "baseline_perplexity", pith_real(f->baseline_perplexity, 4));
    pith_report_set(r, "nll_delta", pith_real(f->nll_delta, 5));
    pith_report_interval(r, "nll_delta_ci95", f->nll_delta_ci95.lo, f->nll_delta_ci95.hi);
    pith_report_set(r, "perplexity_verdict", pith_words(pith_verdict_name(f->words_verdict)));
}

static void set_figures(struct pith_report *r, const struct pith_task_figures *f)
{
    pith_report_set(r, "n", pith_count(f->n));
    set_accuracy(r, &f->plain, "", f->has_baseline);
    if (f->normalized) set_accuracy(r, &f->norm, "_norm", f->has_baseline);
    if (f->made) set_accuracy(r, &f->exact, "_exact", f->has_baseline);
    if (f->flexible) set_accuracy(r, &f->loose, "_flexible", f->has_baseline);
    if (f->words) set_words(r, f);
}

static void set_group(struct pith_report *r, const struct pith_task_group *g)
{
    pith_report_open(r, "");
    pith_report_set(r, "name", pith_words(g->name));
    if (g->category) pith_report_set(r, "category", pith_words(g->category));
    if (g->figures.made) pith_report_set(r, "depth", pith_share(g->depth, 0));
    set_figures(r, &g->figures);
    pith_report_close(r);
}

void pith_task_set(struct pith_report *r, const struct pith_task_result *t)
{
    pith_report_set(r, "name", pith_words(t->name));
    pith_report_set(r, "form", pith_words(t->form));
    pith_report_set(r, "shots", pith_count(t->shots));
    pith_report_set(r, "undecided", pith_count(t->undecided));
    pith_report_set(r, "shortened", pith_count(t->shortened));
    if (t->chat) pith_report_set(r, "chat", pith_yes(true));
    if (t->length) {
        pith_report_set(r, "length", pith_count(t->length));
        pith_report_set(r, "seed", pith_count(t->seed));
    }
    set_figures(r, &t->all);
    if (t->groups == 0) return;
    pith_report_list(r, "groups");
    for (size_t i = 0; i < t->groups; i++) set_group(r, &t->group[i]);
    pith_report_close(r);
}

/* --- text ------------------------------------------------------------------------------------- */

/* A line against the baseline, whose last word is a verdict. */
static void say_verdict(struct pith_report *r, const char *lead, enum pith_verdict verdict)
{
    pith_report_line(r, &(struct pith_line){.lead = lead, .strong = pith_verdict_name(verdict)},
                     "%s", "");
}

static void say_accuracy(struct pith_report *r, const char *label,
                         const struct pith_task_figures *f, const struct pith_accuracy *a)
{
    char lead[160];
    pith_report_label(r, label, PITH_WRAP_NONE, "%.2f%% of %zu, 95%% interval %.2f%% to %.2f%%",
                      100 * a->accuracy, f->n, 100 * a->ci95.lo, 100 * a->ci95.hi);
    if (!f->has_baseline) return;
    snprintf(lead, sizeof lead, "  against baseline %+.2f points (was %.2f%%): ", 100 * a->delta,
             100 * a->baseline);
    say_verdict(r, lead, a->verdict);
}

static void say_words(struct pith_report *r, const struct pith_task_figures *f)
{
    char error[48] = "", lead[160];
    if (isfinite(f->perplexity_se)) snprintf(error, sizeof error, " +/- %.2g", f->perplexity_se);
    pith_report_label(r, "perplexity", PITH_WRAP_NONE, "%.4g%s, of the wanted words", f->perplexity,
                      error);
    if (!f->has_baseline) return;
    snprintf(lead, sizeof lead, "  against baseline %+.5f nats a word (was %.4g): ", f->nll_delta,
             f->baseline_perplexity);
    say_verdict(r, lead, f->words_verdict);
}

/* Categories, and how many subjects stand in JSON; both where there are no categories. */
static void say_groups(struct pith_report *r, const struct pith_task_result *t)
{
    size_t subjects = 0, named = 0;
    for (size_t i = 0; i < t->groups; i++) named += t->group[i].category != NULL;
    for (size_t i = 0; i < t->groups; i++) {
        const struct pith_task_group *g = &t->group[i];
        const struct pith_accuracy *a = &g->figures.plain;
        char points[48] = "";
        if (g->category || named == 0) {
            subjects++;
            continue;
        }
        if (g->figures.has_baseline)
            snprintf(points, sizeof points, "; %+.2f points", 100 * a->delta);
        pith_report_label(r, g->name, PITH_WRAP_TERMINAL,
                          "%.2f%% of %zu, 95%% interval %.2f%% to %.2f%%%s", 100 * a->accuracy,
                          g->figures.n, 100 * a->ci95.lo, 100 * a->ci95.hi, points);
    }
    if (subjects)
        pith_report_line(r, &(struct pith_line){.lead = "  subjects         ", .fields = true},
                         "%zu, each with its figures in `json`", subjects);
}

/* What is made has an accuracy for each depth. */
static void say_depths(struct pith_report *r, const struct pith_task_result *t)
{
    struct pith_str s = {0};
    for (size_t i = 0; i < t->groups; i++)
        pith_str_printf(&s, "%s%.0f%%: %.0f%%", i ? ", " : "", 100 * t->group[i].depth,
                        100 * t->group[i].figures.plain.accuracy);
    pith_report_label(r, "by depth", PITH_WRAP_TERMINAL, "%s", pith_str_text(&s));
    if (s.failed) r->failed = true;
    pith_str_free(&s);
}

static void say_name(struct pith_report *r, const struct pith_task_result *t)
{
    char made[64] = "", shots[64] = "";
    if (t->length) snprintf(made, sizeof made, " (%zu tokens, seed %zu)", t->length, t->seed);
    if (t->shots)
        snprintf(shots, sizeof shots, " (%zu example%s in front of each question)", t->shots,
                 t->shots > 1 ? "s" : "");
    pith_report_line(r, &(struct pith_line){.strong = t->name}, "%s%s%s", made, shots,
                     t->chat ? " (as conversations)" : "");
}

void pith_task_say(struct pith_report *r, const struct pith_task_result *t)
{
    const struct pith_task_figures *f = &t->all;
    say_name(r, t);
    say_accuracy(r, "accuracy", f, &f->plain);
    if (f->normalized) say_accuracy(r, "by characters", f, &f->norm);
    if (f->made) say_accuracy(r, "word for word", f, &f->exact);
    if (f->flexible) say_accuracy(r, "the last number", f, &f->loose);
    if (f->words) say_words(r, f);
    if (t->length) say_depths(r, t);
    else say_groups(r, t);
    if (t->undecided)
        pith_report_label(r, "decided without", PITH_WRAP_TERMINAL,
                          "%zu item%s, where a choice adds no token to the context", t->undecided,
                          t->undecided > 1 ? "s" : "");
    if (t->shortened)
        pith_report_label(r, "shortened", PITH_WRAP_TERMINAL,
                          "%zu item%s too long for the model: tokens in front omitted",
                          t->shortened, t->shortened > 1 ? "s" : "");
}
