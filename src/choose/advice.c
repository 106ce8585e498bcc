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
    const double gain = pith_plan_gain(t->row),
                 quality = 1 / (1 + (kld > 0 ? kld : 0) / half_worth);
    return isfinite(gain) ? gain * quality : quality;
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
                     "harm", pith_harm_of(t->kld), "expected", pith_json_finite(expected), "source",
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

static void why(const struct pith_advice *a, struct pith_str *s)
{
    const struct pith_advice_try *first = &a->tried[0], *plain = plain_of(a);
    size_t near = 0;
    if (pith_advice_is_plain(first->row))
        pith_str_puts(s, "do not quantize: what others gain is less than they lose; ");
    pith_str_printf(s, "KL %.4f (%.4f to %.4f) on %.0f tokens: harm %s", first->kld, first->least,
                    first->most, first->tokens, pith_harm_of(first->kld));
    if (plain && !pith_advice_is_plain(first->row)) {
        const double fast = json_number_value(json_object_get(first->row, "tokens_per_second")),
                     slow = json_number_value(json_object_get(plain->row, "tokens_per_second"));
        const char *now = json_string_value(json_object_get(plain->row, "recipe"));
        if (slow > 0)
            pith_str_printf(s, "; %.2f times as fast as %s", fast / slow,
                            strcmp(now, "none") == 0 ? "in 16 bits" : "it is stored");
    }
    add_number(s, first->row, "max_users", "; room for %.0f users of this context");
    add_number(s, first->row, "cost_per_million_tokens", "; $%.3g a million tokens");
    for (size_t i = 1; i < a->count; i++) near += a->tried[i].measured && is_near(a, &a->tried[i]);
    if (near) pith_str_printf(s, "; %zu others are as good within the intervals", near);
}

/* Names of texts, or what stands for them where none was given. */
static json_t *advised_names(const struct pith_list *texts, const char *otherwise)
{
    json_t *names = json_array();
    for (size_t i = 0; i < texts->count; i++) pith_json_add(&names, pith_json_name(texts->item[i]));
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

/* --- text ------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* A number of a plan's row that may be missing. */
static void maybe(struct pith_table *t, const json_t *row, const char *key, const char *format)
{
    const json_t *v = json_object_get(row, key);
    char text[48] = "-";
    if (json_is_number(v)) (void)snprintf(text, sizeof text, format, json_number_value(v));
    pith_table_text(t, text);
}

static void put_row(struct pith_table *t, const struct pith_advice *a,
                    const struct pith_advice_try *x, size_t number)
{
    const double expected = pith_plan_kld(x->row);
    pith_table_row(t);
    pith_table_printf(t, "%zu", number);
    pith_table_text(t, text_of(x->row, "recipe"));
    pith_table_text(t, text_of(x->row, "weights"));
    pith_table_text(t, text_of(x->row, "kv"));
    pith_table_printf(t, "%.4f", x->kld);
    pith_table_printf(t, "%.4f to %.4f", x->least, x->most);
    if (isfinite(expected)) pith_table_printf(t, "%.4f", expected);
    else pith_table_text(t, "-");
    pith_table_printf(t, "%.2f GB",
                      json_number_value(json_object_get(x->row, "total_bytes")) * 1e-9);
    maybe(t, x->row, "first_token_seconds", "%.3g");
    maybe(t, x->row, "tokens_per_second", "%.4g");
    maybe(t, x->row, "cost_per_million_tokens", "%.3g");
    pith_table_text(t, number > 1 && is_near(a, x) ? "as good" : NULL);
}

static void say_rows(struct pith_report *r, const struct pith_advice *a)
{
    static const struct {
        const char *name;
        enum pith_cell kind;
    } column[] = {{"", PITH_CELL_NUMBER},
                  {"recipe", PITH_CELL_TEXT},
                  {"weights", PITH_CELL_TEXT},
                  {"cache", PITH_CELL_TEXT},
                  {"KL", PITH_CELL_NUMBER},
                  {"95% interval", PITH_CELL_NUMBER},
                  {"foreseen", PITH_CELL_NUMBER},
                  {"in all", PITH_CELL_NUMBER},
                  {"first, s", PITH_CELL_NUMBER},
                  {"tokens/s", PITH_CELL_NUMBER},
                  {"USD/million", PITH_CELL_NUMBER},
                  {"", PITH_CELL_TEXT}};
    struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_ANY);
    size_t number = 0;
    for (size_t c = 0; c < PITH_COUNT(column); c++)
        pith_table_column(t, column[c].name, NULL, column[c].kind);
    for (size_t i = 0; i < a->count; i++)
        if (a->tried[i].measured) put_row(t, a, &a->tried[i], ++number);
}

static void say_first(struct pith_report *r, const struct pith_advice *a, const char *reason)
{
    const json_t *first = a->tried[0].row, *commands = json_object_get(first, "commands");
    const char *kv = text_of(first, "kv"), *quantize = text_of(commands, "quantize");
    const bool usual = strcmp(kv, "bf16") == 0;
    pith_report_line(
        r,
        &(struct pith_line){
            .strong = text_of(first, "recipe"), .wrap = PITH_WRAP_TERMINAL, .indent = 2},
        "%s%s on %s: %s", usual ? "" : " with a cache of ", usual ? "" : kv, a->hardware, reason);
    if (*quantize) pith_report_line(r, &(struct pith_line){0}, "  %s", quantize);
    pith_report_line(r, &(struct pith_line){0}, "  %s", text_of(commands, "serve"));
    pith_report_gap(r);
}

/* Names, with commas between them. */
static void join(struct pith_str *s, const json_t *names)
{
    const json_t *name;
    size_t i;
    json_array_foreach (names, i, name)
        pith_str_printf(s, "%s%s", i ? ", " : "", json_string_value(name));
}

/* Which texts recipes were calibrated on, and on which they were measured. */
static void say_texts(struct pith_report *r, const json_t *calibration, const json_t *texts,
                      const json_t *remarks)
{
    const struct pith_line line = {.wrap = PITH_WRAP_TERMINAL, .indent = 2};
    struct pith_str s = {0};
    const json_t *remark;
    size_t i;
    pith_str_puts(&s, "calibrated on ");
    join(&s, json_object_get(calibration, "sources"));
    pith_str_puts(&s, "; measured on ");
    join(&s, texts);
    pith_report_gap(r);
    pith_report_line(r, &line, "%s", pith_str_text(&s));
    if (s.failed) r->failed = true;
    pith_str_free(&s);
    json_array_foreach (remarks, i, remark)
        pith_report_line(r, &line, "note: %s", json_string_value(remark));
}

static void say_out(struct pith_report *r, const json_t *out)
{
    enum { SHOWN = 8 };
    const size_t count = json_array_size(out);
    const json_t *x;
    size_t i;
    if (count) pith_report_gap(r);
    if (count) pith_report_line(r, &(struct pith_line){0}, "ruled out:");
    json_array_foreach (out, i, x) {
        const char *kv = text_of(x, "kv");
        const struct pith_line line = {.lead = "  ",
                                       .wrap = PITH_WRAP_TERMINAL,
                                       .indent = 4,
                                       .fields = true,
                                       .detail = i < SHOWN ? PITH_DETAIL_ANY : PITH_DETAIL_WHOLE};
        pith_report_line(r, &line, "%s%s%s: %s", text_of(x, "recipe"), *kv ? ", " : "", kv,
                         text_of(x, "reason"));
    }
    if (count > SHOWN)
        pith_report_line(
            r, &(struct pith_line){.lead = "  ", .detail = PITH_DETAIL_PART, .fields = true},
            "... and %zu more: `all` lists them", count - SHOWN);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void set_all(struct pith_report *r, const struct pith_advice *a, const char *reason)
{
    const struct pith_advise_options *o = a->options;
    json_t *texts = texts_of(a), *calibration = calibration_of(a), *remarks = remarks_of(a),
           *out = json_object_get(a->plan, "ruled_out");
    const bool remarked = !remarks || json_array_size(remarks) > 0;
    pith_report_set(r, "model", pith_words(o->model));
    pith_report_set(r, "target", pith_words(o->target));
    pith_report_set(r, "engine", pith_words(a->engine));
    pith_report_set(r, "hardware", pith_words(a->hardware));
    pith_report_set(r, "tokens", pith_whole((int64_t)a->tried[0].tokens));
    say_first(r, a, reason);
    say_rows(r, a);
    say_texts(r, calibration, texts, remarks);
    say_out(r, out);
    pith_report_set(r, "texts", pith_tree(texts));
    pith_report_set(r, "calibration", pith_tree(calibration));
    pith_report_set(r, "why", pith_words(reason));
    pith_report_list(r, "rows");
    for (size_t i = 0; i < a->count; i++)
        if (a->tried[i].measured) pith_report_set(r, "", pith_tree(row_of(a, &a->tried[i])));
    pith_report_close(r);
    pith_report_set(r, "ruled_out", pith_tree(json_incref(out)));
    if (remarked) pith_report_set(r, "remarks", pith_tree(remarks));
    else json_decref(remarks);
}

struct pith_report *pith_advice_report(struct pith_advice *a)
{
    struct pith_str reason = {0};
    qsort(a->tried, a->count, sizeof *a->tried, order);
    why(a, &reason);
    struct pith_report *r = reason.failed ? NULL : pith_report_new();
    if (r) set_all(r, a, pith_str_text(&reason));
    pith_str_free(&reason);
    return r;
}
