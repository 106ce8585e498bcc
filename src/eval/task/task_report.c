#include "eval/task/task_report.h"

#include <math.h>
#include <stdio.h>

static void set(json_t **j, const char *key, const char *end, json_t *value)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", key, end);
    pith_json_set(j, name, value);
}

static json_t *pair(struct pith_interval i)
{
    json_t *j = json_array();
    pith_json_add(&j, pith_json_finite(i.lo));
    pith_json_add(&j, pith_json_finite(i.hi));
    return j;
}

/* Keys end in `end`: "" or "_norm". */
static void set_accuracy(json_t **j, const struct pith_accuracy *a, const char *end, bool compared)
{
    char ci[32];
    snprintf(ci, sizeof ci, "%s_ci95", end);
    set(j, "accuracy", end, pith_json_finite(a->accuracy));
    set(j, "accuracy", ci, pair(a->ci95));
    if (!compared) return;
    set(j, "baseline_accuracy", end, pith_json_finite(a->baseline));
    set(j, "delta", end, pith_json_finite(a->delta));
    set(j, "delta", ci, pair(a->delta_ci95));
    set(j, "mcnemar_p", end, pith_json_finite(a->mcnemar_p));
    set(j, "verdict", end, json_string(pith_verdict_name(a->verdict)));
}

static void set_words(json_t **j, const struct pith_task_figures *f)
{
    set(j, "perplexity", "", pith_json_finite(f->perplexity));
    set(j, "perplexity_se", "", pith_json_finite(f->perplexity_se));
    if (!f->has_baseline) return;
    set(j, "baseline_perplexity", "", pith_json_finite(f->baseline_perplexity));
    set(j, "nll_delta", "", pith_json_finite(f->nll_delta));
    set(j, "nll_delta_ci95", "", pair(f->nll_delta_ci95));
    set(j, "perplexity_verdict", "", json_string(pith_verdict_name(f->words_verdict)));
}

static void set_figures(json_t **j, const struct pith_task_figures *f)
{
    pith_json_set(j, "n", json_integer((json_int_t)f->n));
    set_accuracy(j, &f->plain, "", f->has_baseline);
    if (f->normalized) set_accuracy(j, &f->norm, "_norm", f->has_baseline);
    if (f->made) set_accuracy(j, &f->exact, "_exact", f->has_baseline);
    if (f->flexible) set_accuracy(j, &f->loose, "_flexible", f->has_baseline);
    if (f->words) set_words(j, f);
}

static json_t *group_report(const struct pith_task_group *g)
{
    json_t *j = json_pack("{s:o, s:s*}", "name", pith_json_name(g->name), "category", g->category);
    if (g->figures.made) pith_json_set(&j, "depth", json_real(g->depth));
    set_figures(&j, &g->figures);
    return j;
}

json_t *pith_task_report(const struct pith_task_result *t)
{
    json_t *j = json_pack("{s:o, s:s, s:I, s:I, s:I}", "name", pith_json_name(t->name), "form",
                          t->form, "shots", (json_int_t)t->shots, "undecided",
                          (json_int_t)t->undecided, "shortened", (json_int_t)t->shortened);
    if (t->chat) pith_json_set(&j, "chat", json_true());
    if (t->length) {
        pith_json_set(&j, "length", json_integer((json_int_t)t->length));
        pith_json_set(&j, "seed", json_integer((json_int_t)t->seed));
    }
    set_figures(&j, &t->all);
    if (t->groups == 0) return j;
    json_t *groups = json_array();
    for (size_t i = 0; i < t->groups; i++) pith_json_add(&groups, group_report(&t->group[i]));
    pith_json_set(&j, "groups", groups);
    return j;
}
