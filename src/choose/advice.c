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

/* The best row with the weights as they are; NULL: there is none. */
static const struct pith_advice_try *plain_of(const struct pith_advice *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->tried[i].measured && pith_plan_is_plain(a->tried[i].row)) return &a->tried[i];
    return NULL;
}

static void why(const struct pith_advice *a, struct pith_str *s)
{
    const struct pith_advice_try *first = &a->tried[0], *plain = plain_of(a);
    size_t near = 0;
    if (pith_plan_is_plain(first->row))
        pith_str_puts(s, "do not quantize: what others gain is less than they lose; ");
    pith_str_printf(s, "KL %.4f (%.4f to %.4f) on %.0f tokens: harm %s", first->kld, first->least,
                    first->most, first->tokens, pith_harm_of(first->kld));
    if (plain && !pith_plan_is_plain(first->row)) {
        const double fast = first->row->f.rate, slow = plain->row->f.rate;
        if (slow > 0)
            pith_str_printf(s, "; %.2f times as fast as %s", fast / slow,
                            plain->row->k.c->stored ? "it is stored" : "in 16 bits");
    }
    if (first->row->d.memory > 0)
        pith_str_printf(s, "; room for %zu users of this context", first->row->r.most_users);
    if (isfinite(first->row->f.cost))
        pith_str_printf(s, "; $%.3g a million tokens", first->row->f.cost);
    for (size_t i = 1; i < a->count; i++) near += a->tried[i].measured && is_near(a, &a->tried[i]);
    if (near) pith_str_printf(s, "; %zu others are as good within the intervals", near);
}

static bool has(const struct pith_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->item[i], name) == 0) return true;
    return false;
}

static const char second_half[] = "the text that ships, its second half";
enum { TEXT_ROOM = sizeof second_half + 40, REMARK_ROOM = 400 };

/* What is measured and calibrated on where no text was given. */
static const char *usual_measured(const struct pith_advice *a, char line[TEXT_ROOM])
{
    const bool other = !a->halves && !has(&a->options->calib, PITH_BUILTIN_NAME);
    (void)snprintf(line, TEXT_ROOM, "%s%s", second_half,
                   other ? " (calibrated on other text)" : "");
    return line;
}

static const char *usual_calibrated(const struct pith_advice *a)
{
    return a->halves ? "the text that ships, its first half" : "the text that ships";
}

static size_t text_count(const struct pith_advice *a)
{
    return a->options->texts.count ? a->options->texts.count : 1;
}

/* The name of text i of those that were measured, if recipes were calibrated on it too, which
 * flatters them; else NULL. */
static const char *on_both_sides(const struct pith_advice *a, size_t i)
{
    const struct pith_advise_options *o = a->options;
    if (o->texts.count) return has(&o->calib, o->texts.item[i]) ? o->texts.item[i] : NULL;
    return has(&o->calib, PITH_BUILTIN_NAME) ? second_half : NULL;
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_row(struct pith_table *t, const struct pith_advice *a,
                    const struct pith_advice_try *x, size_t number)
{
    const struct pith_plan_row *row = x->row;
    char weights[PITH_PLAN_TEXT];
    pith_plan_weights_name(row, weights);
    pith_table_row(t);
    pith_table_printf(t, "%zu", number);
    pith_table_text(t, row->k.c->name);
    pith_table_text(t, weights);
    pith_table_text(t, row->k.kv_name);
    pith_table_printf(t, "%.4f", x->kld);
    pith_table_printf(t, "%.4f to %.4f", x->least, x->most);
    pith_table_known(t, pith_plan_loss_of(row).kld, "%.4f");
    pith_table_printf(t, "%.2f GB", row->r.total * 1e-9);
    pith_table_known(t, row->f.first, "%.3g");
    pith_table_known(t, row->f.rate, "%.4g");
    pith_table_known(t, row->f.cost, "%.3g");
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

static void say_command(struct pith_report *r, const struct pith_advice *a,
                        enum pith_plan_command which)
{
    struct pith_str s = {0};
    const char *key = pith_plan_command(&a->plan, a->tried[0].row, which, &s);
    if (key && strcmp(key, "convert") != 0)
        pith_report_line(r, &(struct pith_line){0}, "  %s", pith_str_text(&s));
    r->failed |= s.failed;
    pith_str_free(&s);
}

static void say_first(struct pith_report *r, const struct pith_advice *a, const char *reason)
{
    const struct pith_plan_case *k = &a->tried[0].row->k;
    const bool usual = strcmp(k->kv_name, "bf16") == 0;
    pith_report_line(
        r, &(struct pith_line){.strong = k->c->name, .wrap = PITH_WRAP_TERMINAL, .indent = 2},
        "%s%s on %s: %s", usual ? "" : " with a cache of ", usual ? "" : k->kv_name, a->hardware,
        reason);
    say_command(r, a, PITH_COMMAND_MAKE);
    say_command(r, a, PITH_COMMAND_SERVE);
    pith_report_gap(r);
}

/* Appends a path, which may be no UTF-8, as JSON has it. */
static void put_name(struct pith_str *s, const char *bytes)
{
    json_t *name = pith_json_name(bytes);
    if (name) pith_str_puts(s, json_string_value(name));
    s->failed |= !name;
    json_decref(name);
}

/* Names, with commas between them, or what stands for them. */
static void join(struct pith_str *s, const struct pith_list *names, const char *otherwise)
{
    if (names->count == 0) pith_str_puts(s, otherwise);
    for (size_t i = 0; i < names->count; i++) {
        if (i) pith_str_puts(s, ", ");
        put_name(s, names->item[i]);
    }
}

static void remark_on(const char *text, char line[REMARK_ROOM])
{
    (void)snprintf(line, REMARK_ROOM,
                   "%.300s: is calibrated on and measured on, which flatters recipes", text);
}

/* Which texts recipes were calibrated on, and on which they were measured. */
static void say_texts(struct pith_report *r, const struct pith_advice *a)
{
    const struct pith_line line = {.wrap = PITH_WRAP_TERMINAL, .indent = 2};
    char other[TEXT_ROOM], remark[REMARK_ROOM];
    struct pith_str s = {0};
    pith_str_printf(&s, "calibrated on at most %zu tokens of ", a->options->calib_tokens);
    join(&s, &a->options->calib, usual_calibrated(a));
    pith_str_printf(&s, "; measured on at most %zu tokens of ", a->options->max_tokens);
    join(&s, &a->options->texts, usual_measured(a, other));
    pith_report_gap(r);
    pith_report_line(r, &line, "%s", pith_str_text(&s));
    for (size_t i = 0; i < text_count(a); i++) {
        if (!on_both_sides(a, i)) continue;
        remark_on(on_both_sides(a, i), remark);
        pith_str_clear(&s);
        put_name(&s, remark);
        pith_report_line(r, &line, "note: %s", pith_str_text(&s));
    }
    r->failed |= s.failed;
    pith_str_free(&s);
}

static void say_out(struct pith_report *r, const struct pith_advice *a)
{
    enum { SHOWN = 8 };
    const size_t count = a->outs + a->plan.outs;
    if (count) pith_report_gap(r);
    if (count) pith_report_line(r, &(struct pith_line){0}, "ruled out:");
    for (size_t i = 0; i < count; i++) {
        const struct pith_advice_out *here = i < a->outs ? &a->out[i] : NULL;
        const struct pith_plan_ruled_out *there = here ? NULL : &a->plan.out[i - a->outs];
        const char *kv = here ? here->row->k.kv_name : there->kv;
        const struct pith_line line = {.lead = "  ",
                                       .wrap = PITH_WRAP_TERMINAL,
                                       .indent = 4,
                                       .fields = true,
                                       .detail = i < SHOWN ? PITH_DETAIL_ANY : PITH_DETAIL_WHOLE};
        pith_report_line(r, &line, "%s%s%s: %s", here ? here->row->k.c->name : there->c->name,
                         *kv ? ", " : "", kv, here ? here->why : there->why);
    }
    if (count > SHOWN)
        pith_report_line(
            r, &(struct pith_line){.lead = "  ", .detail = PITH_DETAIL_PART, .fields = true},
            "... and %zu more: `all` lists them", count - SHOWN);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void set_names(struct pith_report *r, const char *key, const struct pith_list *names,
                      const char *otherwise)
{
    pith_report_list(r, key);
    if (names->count == 0) pith_report_set(r, "", pith_words(otherwise));
    for (size_t i = 0; i < names->count; i++) pith_report_set(r, "", pith_words(names->item[i]));
    pith_report_close(r);
}

static void set_texts(struct pith_report *r, const struct pith_advice *a)
{
    const struct pith_advise_options *o = a->options;
    char other[TEXT_ROOM];
    set_names(r, "texts", &o->texts, usual_measured(a, other));
    pith_report_open(r, "calibration");
    set_names(r, "sources", &o->calib, usual_calibrated(a));
    pith_report_set(r, "tokens", pith_whole((int64_t)o->calib_tokens));
    pith_report_close(r);
}

static void set_rows(struct pith_report *r, const struct pith_advice *a)
{
    pith_report_list(r, "rows");
    for (size_t i = 0; i < a->count; i++) {
        const struct pith_advice_try *t = &a->tried[i];
        const struct pith_plan_measured m = {t->kld, t->least, t->most, pith_harm_of(t->kld)};
        if (!t->measured) continue;
        pith_report_open(r, "");
        pith_plan_row_set(r, &a->plan, t->row, &m);
        pith_report_set(r, "worth", pith_real(worth(t, t->kld), 3));
        pith_report_set(r, "near", pith_yes(is_near(a, t)));
        pith_report_close(r);
    }
    pith_report_close(r);
}

static void set_out(struct pith_report *r, const struct pith_advice *a)
{
    pith_report_list(r, "ruled_out");
    for (size_t i = 0; i < a->outs; i++) {
        const struct pith_plan_row *row = a->out[i].row;
        char weights[PITH_PLAN_TEXT];
        pith_plan_weights_name(row, weights);
        pith_report_open(r, "");
        pith_report_set(r, "recipe", pith_words(row->k.c->name));
        pith_report_set(r, "weights", pith_words(weights));
        pith_report_set(r, "acts", pith_words(row->k.c->acts));
        pith_report_set(r, "kv", pith_words(row->k.kv_name));
        pith_report_set(r, "reason", pith_words(a->out[i].why));
        pith_report_set(r, "engine", pith_words(a->engine));
        pith_report_set(r, "hardware", pith_words(a->hardware));
        pith_report_close(r);
    }
    pith_plan_ruled_out_set(r, &a->plan);
    pith_report_close(r);
}

static void set_remarks(struct pith_report *r, const struct pith_advice *a)
{
    char remark[REMARK_ROOM];
    size_t count = 0;
    for (size_t i = 0; i < text_count(a); i++) {
        if (!on_both_sides(a, i)) continue;
        if (count++ == 0) pith_report_list(r, "remarks");
        remark_on(on_both_sides(a, i), remark);
        pith_report_set(r, "", pith_words(remark));
    }
    if (count) pith_report_close(r);
}

static void set_all(struct pith_report *r, const struct pith_advice *a, const char *reason)
{
    const struct pith_advise_options *o = a->options;
    pith_report_set(r, "model", pith_words(o->model));
    pith_report_set(r, "target", pith_words(o->target));
    pith_report_set(r, "engine", pith_words(a->engine));
    pith_report_set(r, "hardware", pith_words(a->hardware));
    pith_report_set(r, "tokens", pith_whole((int64_t)a->tried[0].tokens));
    say_first(r, a, reason);
    say_rows(r, a);
    say_texts(r, a);
    say_out(r, a);
    set_texts(r, a);
    pith_report_set(r, "why", pith_words(reason));
    set_rows(r, a);
    set_out(r, a);
    set_remarks(r, a);
}

void pith_advice_sample(double active, size_t *calibrated, size_t *measured)
{
    enum { CALIBRATED = 32768, MEASURED = 8192, LEAST = 2048, WINDOW = 512 };
    const double products = 0x1p41, wanted = active > 0 ? products / active : CALIBRATED;
    const size_t all = wanted > CALIBRATED ? CALIBRATED : wanted < LEAST ? LEAST : (size_t)wanted;
    const size_t half = all / 2 < MEASURED ? all / 2 : MEASURED;
    if (*calibrated == 0) *calibrated = all / WINDOW * WINDOW;
    if (*measured == 0) *measured = half / WINDOW * WINDOW;
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
