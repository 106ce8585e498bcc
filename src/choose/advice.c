/* Which recipe comes first, by what was measured, and why. */
#include "choose/advice.h"

#include "base/mem.h"
#include "base/str.h"
#include "calib/corpora.h"
#include "eval/harm.h"
#include "plan/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row loses half of its worth by a KL of so much: where harm is clear (eval/harms.def). */
static const double half_worth = 0.02;

bool pith_advice_is_plain(const json_t *row)
{
    const char *recipe = json_string_value(json_object_get(row, "recipe"));
    if (!recipe) return false;
    return strcmp(recipe, "none") == 0 || strcmp(recipe, "stored") == 0;
}

static double worth(const struct pith_advice_try *t, double kld)
{
    const double gain = pith_plan_gain(t->row), kept = 1 / (1 + (kld > 0 ? kld : 0) / half_worth);
    return isfinite(gain) ? gain * kept : kept;
}

/* The worthiest first, of equals the one that loses less; what was not measured last. */
static int order(const void *a, const void *b)
{
    const struct pith_advice_try *x = a, *y = b;
    if (x->measured != y->measured) return x->measured ? -1 : 1;
    const double u = worth(x, x->kld), v = worth(y, y->kld);
    if (u != v) return u > v ? -1 : 1;
    return (x->kld > y->kld) - (x->kld < y->kld);
}

/* Whether a row may be as good as the first, within the intervals of both. */
static bool is_near(const struct pith_advice *a, const struct pith_advice_try *t)
{
    return worth(t, t->least) >= worth(&a->tried[0], a->tried[0].most);
}

static json_t *quality_of(const struct pith_advice_try *t)
{
    const double expected = pith_plan_kld(t->row);
    return json_pack("{s:f, s:[f, f], s:s, s:o, s:s}", "kld", t->kld, "kld_ci95", t->least, t->most,
                     "harm", pith_harm_of(t->kld), "expected",
                     pith_json_finite(expected), "source",
                     "measured here");
}

static json_t *row_of(const struct pith_advice *a, const struct pith_advice_try *t)
{
    json_t *row = json_copy(t->row);
    if (row) json_object_del(row, "reason");
    pith_json_set(&row, "quality", quality_of(t));
    pith_json_set(&row, "worth", json_real(worth(t, t->kld)));
    pith_json_set(&row, "near", json_boolean(is_near(a, t)));
    return row;
}

/* The best row with the weights as they are; NULL: there is none. */
static const struct pith_advice_try *plain_of(const struct pith_advice *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tried[i].measured && pith_advice_is_plain(a->tried[i].row)) return &a->tried[i];
    return NULL;
}

static void add_number(struct pith_str *s, const json_t *row, const char *key, const char *text)
{
    const json_t *v = json_object_get(row, key);
    if (json_is_number(v)) pith_str_printf(s, text, json_number_value(v));
}

static json_t *why(const struct pith_advice *a)
{
    const struct pith_advice_try *first = &a->tried[0], *plain = plain_of(a);
    struct pith_str s = {0};
    size_t near = 0;
    if (pith_advice_is_plain(first->row))
        pith_str_puts(&s, "do not quantize: what others gain is less than they lose; ");
    pith_str_printf(&s, "KL %.4f (%.4f to %.4f) on %.0f tokens: harm %s", first->kld, first->least,
                    first->most, first->tokens, pith_harm_of(first->kld));
    if (plain && !pith_advice_is_plain(first->row)) {
        const double fast = json_number_value(json_object_get(first->row, "tokens_per_second")),
                     slow = json_number_value(json_object_get(plain->row, "tokens_per_second"));
        const char *now = json_string_value(json_object_get(plain->row, "recipe"));
        if (slow > 0)
            pith_str_printf(&s, "; %.2f times as fast as %s", fast / slow,
                            strcmp(now, "none") == 0 ? "in 16 bits" : "it is stored");
    }
    add_number(&s, first->row, "max_users", "; room for %.0f users of this context");
    add_number(&s, first->row, "cost_per_million_tokens", "; $%.3g a million tokens");
    for (size_t i = 1; i < a->count; i++)
        near += a->tried[i].measured && is_near(a, &a->tried[i]);
    if (near) pith_str_printf(&s, "; %zu others are as good within the intervals", near);
    json_t *text = s.failed ? NULL : json_string(pith_str_text(&s));
    pith_str_free(&s);
    return text;
}

/* Names of texts, or what stands for them where none was given. */
static json_t *advised_names(const struct pith_list *texts, const char *otherwise)
{
    json_t *names = json_array();
    for (size_t i = 0; i < texts->count; i++)
        pith_json_add(&names, pith_json_name(texts->item[i]));
    if (texts->count == 0) pith_json_add(&names, json_string(otherwise));
    return names;
}

static bool has(const struct pith_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->item[i], name) == 0) return true;
    return false;
}

static const char second_half[] = "the text that ships, its second half";

static json_t *texts_of(const struct pith_advice *a)
{
    const bool other = !a->halves && !has(&a->options->calib, PITH_BUILTIN_NAME);
    char line[sizeof second_half + 40];
    (void)snprintf(line, sizeof line, "%s%s", second_half,
                   other ? " (calibrated on other text)" : "");
    return advised_names(&a->options->texts, line);
}

/* What recipes were calibrated on: {"sources", "tokens": at most}. */
static json_t *calibration_of(const struct pith_advice *a)
{
    const struct pith_advise_options *o = a->options;
    json_t *names = advised_names(&o->calib, a->halves ? "the text that ships, its first half"
                                                       : "the text that ships");
    return json_pack("{s:o, s:I}", "sources", names, "tokens", (json_int_t)o->calib_tokens);
}

static void add_remark(json_t **list, const char *text)
{
    char line[400];
    (void)snprintf(line, sizeof line,
                   "%.300s: is calibrated on and measured on, which flatters recipes", text);
    pith_json_add(list, pith_json_name(line));
}

/* A text on both sides: what was fitted to it costs less there than elsewhere. */
static json_t *remarks_of(const struct pith_advice *a)
{
    const struct pith_advise_options *o = a->options;
    json_t *list = json_array();
    for (size_t i = 0; i < o->texts.count; i++)
        if (has(&o->calib, o->texts.item[i])) add_remark(&list, o->texts.item[i]);
    if (o->texts.count == 0 && has(&o->calib, PITH_BUILTIN_NAME)) add_remark(&list, second_half);
    return list;
}

json_t *pith_advice_report(struct pith_advice *a)
{
    qsort(a->tried, a->count, sizeof *a->tried, order);
    json_t *rows = json_array();
    for (size_t i = 0; i < a->count; i++)
        if (a->tried[i].measured) pith_json_add(&rows, row_of(a, &a->tried[i]));
    json_t *j = json_pack("{s:o, s:s, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:O}", "model",
                          pith_json_name(a->options->model), "target", a->options->target, "engine",
                          a->engine, "hardware", a->hardware, "tokens", a->tried[0].tokens, "texts",
                          texts_of(a), "calibration", calibration_of(a), "why", why(a), "rows",
                          rows, "ruled_out", json_object_get(a->plan, "ruled_out"));
    pith_json_set_some(&j, "remarks", remarks_of(a));
    return j;
}
