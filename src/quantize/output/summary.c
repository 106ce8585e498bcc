#include "quantize/output/summary.h"

#include "base/mem.h"
#include "base/names.h"
#include "export/preflight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- most harm -------------------------------------------------------------------------------- */

struct harmed {
    const json_t *linear;
    double harm;
    size_t place;
};

static int compare_harm(const void *a, const void *b)
{
    const struct harmed *x = a, *y = b;
    if (x->harm != y->harm) return x->harm < y->harm ? 1 : -1;
    return x->place < y->place ? -1 : 1;
}

static void say_harmed(struct pith_report *r, const json_t *linear, bool outputs, double all,
                       enum pith_detail detail)
{
    char lead[128] = "    ";
    if (outputs)
        snprintf(lead, sizeof lead, "    loss %-10.4g (%2.0f%% of all) ",
                 pith_summary_number(linear, "loss"),
                 all > 0 ? 100 * pith_summary_number(linear, "loss") / all : 0.0);
    const size_t at = strlen(lead);
    snprintf(lead + at, sizeof lead - at, "error %.4f  ",
             pith_summary_number(linear, "relative_error"));
    pith_report_line(
        r,
        &(struct pith_line){.lead = lead, .wrap = PITH_WRAP_BELOW, .indent = 6, .detail = detail},
        "%s", pith_summary_text(linear, "name"));
}

/* The linears that suffer most, by the loss at the layer's output where calibration measured it,
 * else by the relative error of the weights. */
static void rank_linears(struct pith_report *r, const json_t *linears, bool outputs, double all)
{
    enum { MOST = 10 };
    const size_t count = json_array_size(linears);
    struct harmed *list = pith_alloc(count ? count : 1, sizeof *list);
    if (!list) r->failed = true;
    for (size_t i = 0; list && i < count; i++) {
        const json_t *linear = json_array_get(linears, i),
                     *harm = json_object_get(linear, outputs ? "loss" : "relative_error");
        /* What has no number is not finite: worse than all that have one. */
        list[i] =
            (struct harmed){linear, json_is_number(harm) ? json_number_value(harm) : INFINITY, i};
    }
    if (list) qsort(list, count, sizeof *list, compare_harm);
    for (size_t i = 0; list && i < count; i++) {
        if (i == MOST)
            pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_PART, .fields = true},
                             "    ... and %zu more: `all` lists them", count - MOST);
        say_harmed(r, list[i].linear, outputs, all, i < MOST ? PITH_DETAIL_ANY : PITH_DETAIL_WHOLE);
    }
    pith_free(list);
}

static void say_harm(struct pith_report *r, const json_t *account)
{
    const bool outputs = strcmp(pith_summary_text(account, "losses"), "outputs") == 0;
    const json_t *linears = json_object_get(account, "linears"), *l;
    double before = 0, after = 0;
    size_t i;
    json_array_foreach (linears, i, l) {
        before += pith_summary_number(l, "loss_nearest");
        after += pith_summary_number(l, "loss");
    }
    if (before > 0 && after != before)
        pith_report_label(r, "sum of losses", PITH_WRAP_NONE, "%.5g (rounding to nearest: %.5g)",
                          after, before);
    if (json_array_size(linears))
        pith_report_line(r, &(struct pith_line){0}, "  most harm, by %s",
                         outputs ? "the loss measured at the output"
                                 : "the relative error of the weights");
    rank_linears(r, linears, outputs, after);
}

/* What is suspicious, the worst first in a line; nothing where nothing is. */
static void say_warnings(struct pith_report *r, const json_t *list)
{
    const bool shares = json_object_get(json_array_get(list, 0), "loss_share") != NULL;
    const char *key = shares ? "loss_share" : "relative_error";
    const json_t *w, *worst = NULL;
    const size_t count = json_array_size(list);
    struct pith_str text = {0};
    double sum = 0;
    size_t i;
    json_array_foreach (list, i, w) {
        sum += pith_summary_number(w, key);
        if (!worst || pith_summary_number(w, key) > pith_summary_number(worst, key)) worst = w;
    }
    if (!worst) return;
    const double most = pith_summary_number(worst, key);
    const char *name = pith_summary_text(worst, "linear");
    if (shares && count == 1)
        pith_str_printf(&text, "%s carries %.0f%% of the loss at the outputs", name, 100 * most);
    else if (shares)
        pith_str_printf(&text,
                        "%zu linears carry %.0f%% of the loss at the outputs, %s alone %.0f%%",
                        count, 100 * sum, name, 100 * most);
    else
        pith_str_printf(
            &text,
            "%zu linears differ from the original by more than %.2g of it; the most %.3f, %s",
            count, pith_summary_number(worst, "limit"), most, name);
    pith_summary_line(r, "warning", PITH_WRAP_TERMINAL, &text);
}

/* Rounding by fewer tokens than a linear has inputs fits these tokens: with other text it loses
 * more than with these (docs/mixed.md). Where a prediction was checked on held-out tokens, that
 * says it better. What few tokens reach an expert is reported with the experts. */
static void say_few(struct pith_report *r, const json_t *account)
{
    const double tokens = pith_summary_number(json_object_get(account, "calibration"), "tokens");
    const json_t *linears = json_object_get(account, "linears"), *l;
    size_t i, count = 0;
    double most = 0;
    if (json_object_get(account, "prediction")) return;
    json_array_foreach (linears, i, l) {
        const json_t *cols = json_array_get(json_object_get(l, "shape"), 1);
        const bool fits = pith_summary_number(l, "damp") > 0;
        if (!fits || json_number_value(cols) <= tokens) continue;
        count++;
        most = fmax(most, json_number_value(cols));
    }
    if (!count) return;
    struct pith_str text = {0};
    pith_str_printf(&text,
                    "%zu of %zu linears have more inputs (up to %.0f) than calibration has tokens "
                    "(%.0f): rounding fits these tokens, and loses more on others",
                    count, json_array_size(linears), most, tokens);
    pith_summary_line(r, "warning", PITH_WRAP_PROSE, &text);
}

/* --- what was made ---------------------------------------------------------------------------- */

/* The stages in order; without those that do nothing. */
static void say_stages(struct pith_report *r, const json_t *recipe)
{
    static const char *const stages[] = {"transform", "split", "weights", "acts", "kv", "round"};
    const bool by_linear = json_object_get(recipe, "linears"); /* pith_summary_grids() */
    struct pith_str text = {0};
    bool first = true;
    pith_str_printf(&text, "%s:", pith_summary_text(recipe, "name"));
    for (size_t i = 0; i < PITH_COUNT(stages); i++) {
        const char *choice = pith_summary_text(recipe, stages[i]);
        if (by_linear && strcmp(stages[i], "weights") == 0) choice = "by linear (see grids)";
        if (!*choice || strcmp(choice, "none") == 0) continue;
        pith_str_printf(&text, "%s%s %s", first ? " " : ", ", stages[i], choice);
        first = false;
    }
    pith_summary_line(r, "recipe", PITH_WRAP_PROSE, &text);
}

/* The form of keys and values that is stored, and what engines are started with for it. */
static void say_cache(struct pith_report *r, const char *kv)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    struct pith_str text = {0};
    bool first = true;
    if (!*kv || pith_name_equal(kv, "none")) return;
    pith_str_printf(&text, "%s, in the checkpoint", kv);
    for (size_t i = 0; i < count; i++)
        for (const struct pith_engine_cache *c = e[i]->caches; c && c->kv; c++) {
            if (strcmp(c->kv, kv) != 0) continue;
            pith_str_printf(&text, "%s%s %s%s%s", first ? "; to start with: " : ", ", e[i]->name,
                            c->option[0], c->option[1] ? " " : "",
                            c->option[1] ? c->option[1] : "");
            first = false;
        }
    pith_summary_line(r, "KV cache", PITH_WRAP_PROSE, &text);
}

static void say_sizes(struct pith_report *r, const json_t *account)
{
    const json_t *sizes = json_object_get(account, "sizes");
    char before[32], after[32];
    pith_bytes_text(pith_summary_number(sizes, "input_bytes"), before, sizeof before);
    pith_bytes_text(pith_summary_number(sizes, "output_bytes"), after, sizeof after);
    pith_report_label(r, "size", PITH_WRAP_NONE, "%s -> %s", before, after);
    pith_report_label(r, "bits per weight", PITH_WRAP_NONE,
                      "%.3f in what is quantized, %.3f over all parameters",
                      pith_summary_number(account, "bits_per_weight"),
                      pith_summary_number(account, "bits_per_parameter"));
    pith_report_label(r, "parameters", PITH_WRAP_NONE,
                      "%.2f million, %.2f million of them quantized",
                      pith_summary_number(sizes, "parameters") / 1e6,
                      pith_summary_number(sizes, "quantized_parameters") / 1e6);
}

/* --- what a recipe predicted ------------------------------------------------------------------ */

/* On tokens that were held out, and on those that were fitted; or on the latter alone. */
static void say_measured(struct pith_report *r, const json_t *p)
{
    const json_t *fitted = json_object_get(p, "fitted"), *remark;
    const bool unseen = json_is_true(json_object_get(p, "held_out"));
    size_t i;
    pith_report_label(r, "KL", PITH_WRAP_NONE, "%.4g estimated, %.4g +- %.1g measured on %.0f %s",
                      pith_summary_number(p, "kld"), pith_summary_number(p, "measured"),
                      pith_summary_number(p, "standard_error"), pith_summary_number(p, "tokens"),
                      unseen ? "tokens that were held out" : "of these tokens");
    if (unseen)
        pith_report_label(r, "", PITH_WRAP_NONE, "%.4g +- %.1g on %.0f of the fitted ones",
                          pith_summary_number(fitted, "measured"),
                          pith_summary_number(fitted, "standard_error"),
                          pith_summary_number(fitted, "tokens"));
    json_array_foreach (json_object_get(p, "remarks"), i, remark) {
        struct pith_str text = {0};
        pith_str_puts(&text, json_string_value(remark));
        pith_summary_line(r, "note", PITH_WRAP_PROSE, &text);
    }
}

static void say_prediction(struct pith_report *r, const json_t *account)
{
    const json_t *p = json_object_get(account, "prediction"),
                 *recipe = json_object_get(account, "recipe");
    if (json_object_get(recipe, "linears"))
        pith_summary_grids(r, json_object_get(account, "linears"));
    if (p) say_measured(r, p);
    pith_summary_cache(r, recipe);
}

/* --- experts ---------------------------------------------------------------------------------- */

/* " layer 3: 0 (12), 7 (9)": the experts that few tokens took, and how many, of the first. */
static void list_few(const json_t *layers, json_int_t few, struct pith_str *out)
{
    enum { NAMED = 12 };
    const json_t *layer, *tokens;
    size_t i, e, named = 0;
    json_array_foreach (layers, i, layer) {
        bool first = true;
        json_array_foreach (json_object_get(layer, "tokens"), e, tokens) {
            if (json_integer_value(tokens) >= few || named == NAMED) continue;
            if (first)
                pith_str_printf(out, "%s layer %.0f:", named ? ";" : "",
                                pith_summary_number(layer, "layer"));
            pith_str_printf(out, "%s %zu (%lld)", first ? "" : ",", e,
                            (long long)json_integer_value(tokens));
            first = false;
            named++;
        }
    }
    if (named == NAMED) pith_str_puts(out, ", ...");
}

/* The experts of a mixture: by which rule, and which of them the text hardly reached. */
static void say_experts(struct pith_report *r, const json_t *experts)
{
    const json_t *layers = json_object_get(experts, "layers"), *layer, *tokens;
    const json_int_t few = json_integer_value(json_object_get(experts, "few"));
    struct pith_str text = {0};
    size_t i, e, all = 0, under = 0;
    if (json_array_size(layers) == 0) return;
    json_array_foreach (layers, i, layer)
        json_array_foreach (json_object_get(layer, "tokens"), e, tokens) {
            all++;
            under += json_integer_value(tokens) < few;
        }
    pith_str_printf(&text, "%zu, calibrated by the rule %s", all,
                    pith_summary_text(experts, "rule"));
    if (under) {
        pith_str_printf(&text,
                        "; warning: %zu were taken by fewer than %lld tokens of the text:", under,
                        (long long)few);
        list_few(layers, few, &text);
    }
    pith_summary_line(r, "experts", PITH_WRAP_PROSE, &text);
}

/* --- grids that stand in for others ----------------------------------------------------------- */

/* Linears that no type of GGUF has whole blocks for. */
static void say_unquantized(struct pith_report *r, const json_t *tensors)
{
    const json_t *t;
    size_t i, count = 0;
    json_array_foreach (tensors, i, t)
        count += strstr(pith_summary_text(t, "reason"), "no whole blocks") != NULL;
    if (count)
        pith_report_label(r, "in 16 bits", PITH_WRAP_NONE,
                          "%zu linears, whose rows are no whole blocks of 32", count);
}

/* Types that stand in for others in a number of linears. */
struct fallen {
    const char *grid, *wanted, *only; /* the name of one that is alone */
    size_t count;
};

enum { FALLEN = 8 };

/* Counts them by what stands in for what; returns how many kinds there are. */
static size_t count_fallen(const json_t *linears, struct fallen list[FALLEN], json_int_t *cols)
{
    const json_t *l;
    size_t i, kinds = 0, k;
    json_array_foreach (linears, i, l) {
        const char *grid = pith_summary_text(l, "grid"), *wanted = pith_summary_text(l, "wanted");
        if (!*wanted || strchr(wanted, ':')) continue; /* pith_summary_groups() has these */
        for (k = 0; k < kinds; k++)
            if (strcmp(list[k].grid, grid) == 0 && strcmp(list[k].wanted, wanted) == 0) break;
        if (k == FALLEN) continue;
        if (k == kinds) {
            list[kinds++] = (struct fallen){grid, wanted, pith_summary_text(l, "name"), 0};
            if (kinds == 1)
                *cols = json_integer_value(json_array_get(json_object_get(l, "shape"), 1));
        }
        list[k].count++;
    }
    return kinds;
}

/* Linears whose rows are no whole blocks of the wanted type. */
static void say_fallen(struct pith_report *r, const json_t *linears)
{
    struct fallen list[FALLEN];
    struct pith_str text = {0};
    json_int_t cols = 0;
    size_t count = 0;
    const size_t kinds = count_fallen(linears, list, &cols);
    if (!kinds) return;
    for (size_t k = 0; k < kinds; k++) count += list[k].count;
    pith_str_printf(&text,
                    "%zu of %zu linears, whose rows are no whole blocks (%lld weights), by "
                    "llama.cpp's rule:",
                    count, json_array_size(linears), (long long)cols);
    for (size_t k = 0; k < kinds; k++) {
        pith_str_printf(&text, "%s %s instead of %s (", k ? "," : "", list[k].grid, list[k].wanted);
        if (list[k].count == 1) pith_str_printf(&text, "%s)", list[k].only);
        else pith_str_printf(&text, "%zu)", list[k].count);
    }
    pith_summary_line(r, "fallen back", PITH_WRAP_PROSE, &text);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* What only saves memory on the GPUs that `targets` names. */
static void say_engines(struct pith_report *r, const json_t *engines)
{
    const json_t *e, *note;
    size_t i, k;
    json_array_foreach (engines, i, e)
        json_array_foreach (json_object_get(e, "notes"), k, note) {
            struct pith_str text = {0};
            pith_str_puts(&text, json_string_value(note));
            pith_summary_line(r, "warning", PITH_WRAP_TERMINAL, &text);
        }
}

static void say_time(struct pith_report *r, const json_t *timing)
{
    char time[32], peak[32], mapped[32];
    pith_seconds_text(pith_summary_number(timing, "seconds"), time, sizeof time);
    pith_bytes_text(pith_summary_number(timing, "peak_memory_bytes"), peak, sizeof peak);
    pith_bytes_text(pith_summary_number(timing, "peak_mapped_bytes"), mapped, sizeof mapped);
    pith_report_label(r, "time", PITH_WRAP_NONE, "%s, peak memory %s, mapped files %s", time, peak,
                      mapped);
    pith_summary_phases(r, timing, 1);
}

static void say_quantized(struct pith_report *r, const struct pith_job *job, const json_t *account)
{
    const json_t *recipe = json_object_get(account, "recipe"),
                 *linears = json_object_get(account, "linears");
    const struct pith_line subject = {.strong = job->options->out,
                                      .reserve = sizeof ": every tensor",
                                      .wrap = PITH_WRAP_PROSE,
                                      .indent = 2};
    pith_report_line(r, &subject, "%s",
                     ": every tensor accounted for, written, read back and compared");
    say_stages(r, recipe);
    pith_report_label(r, "container", PITH_WRAP_NONE, "%s",
                      pith_summary_text(account, "container"));
    say_cache(r, pith_summary_text(recipe, "kv"));
    say_sizes(r, account);
    pith_summary_calibration(r, json_object_get(account, "calibration"));
    say_prediction(r, account);
    say_experts(r, json_object_get(account, "experts"));
    say_unquantized(r, json_object_get(account, "tensors"));
    say_fallen(r, linears);
    pith_summary_groups(r, json_object_get(account, "groups"), json_array_size(linears));
    say_harm(r, account);
    say_warnings(r, json_object_get(account, "warnings"));
    say_few(r, account);
    say_engines(r, json_object_get(account, "engines"));
    say_time(r, json_object_get(account, "timing"));
    if (job->options->requantize && !json_object_get(account, "quantized_from"))
        pith_report_remark_set(r, "`requantize` does nothing: the model is not stored quantized");
}

/* --- conversions ------------------------------------------------------------------------------ */

/* Linears of one fate: how many, and which moved most. */
struct fate {
    size_t count;
    double most;
    const char *worst, *grid;
};

static struct fate fate_of(const json_t *linears, const char *conversion, const char *measure)
{
    struct fate f = {0, 0, "", ""};
    const json_t *linear;
    size_t i;
    json_array_foreach (linears, i, linear) {
        const double moved = pith_summary_number(linear, measure);
        if (strcmp(pith_summary_text(linear, "conversion"), conversion) != 0) continue;
        if (f.count++ && moved <= f.most) continue;
        f.most = moved;
        f.worst = pith_summary_text(linear, "name");
        f.grid = pith_summary_text(linear, "grid");
    }
    return f;
}

static void say_fates(struct pith_report *r, const json_t *linears)
{
    const struct fate exact = fate_of(linears, "exact", "largest_change"),
                      scales = fate_of(linears, "scales rounded", "largest_change"),
                      anew = fate_of(linears, "rounded anew", "relative_error");
    pith_report_label(r, "lossless", PITH_WRAP_NONE,
                      "%zu of %zu linears stand for the same weights to the bit", exact.count,
                      json_array_size(linears));
    if (scales.count)
        pith_report_label(r, "scales rounded", PITH_WRAP_TERMINAL,
                          "%zu keep their codes (%s); a weight moves by %.2g%% of its group's range"
                          " at most, %s",
                          scales.count, scales.grid, 100 * scales.most, scales.worst);
    if (anew.count)
        pith_report_label(r, "rounded anew", PITH_WRAP_TERMINAL,
                          "%zu to %s; largest change %.6f relative, %s", anew.count, anew.grid,
                          anew.most, anew.worst);
}

/* `weights` is for linears that cannot go over as they are. */
static void note_weights(struct pith_report *r, const struct pith_job *job, const json_t *linears)
{
    struct pith_str text = {0};
    if (!job->options->weights || strcmp(job->options->weights, "none") == 0) return;
    if (fate_of(linears, "rounded anew", "relative_error").count) return;
    pith_str_printf(&text, "`weights=%s` did nothing: every linear goes over as it is",
                    job->options->weights);
    pith_report_remark_set(r, pith_str_text(&text));
    r->failed |= text.failed;
    pith_str_free(&text);
}

static void say_converted(struct pith_report *r, const struct pith_job *job, const json_t *account)
{
    const json_t *linears = json_object_get(account, "linears");
    const char *from = pith_summary_text(account, "converted_from");
    const bool full = strcmp(from, "none") == 0,
               dense = json_is_true(json_object_get(account, "dense"));
    const struct pith_line subject = {.strong = job->options->out,
                                      .reserve = sizeof ": converted",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = 2};
    pith_report_line(r, &subject,
                     ": converted %s%s to %s, every tensor accounted for and read back",
                     full ? "" : "from ", full ? "without quantizing it" : from,
                     dense ? "a dense model" : pith_summary_text(account, "container"));
    if (json_array_size(linears)) say_fates(r, linears);
    else if (dense)
        pith_report_label(r, "dense", PITH_WRAP_NONE, "each matrix is what its codes stand for");
    else
        pith_report_label(r, "lossless", PITH_WRAP_NONE,
                          "nothing is quantized: every tensor is a copy");
    if (json_array_size(linears)) say_warnings(r, json_object_get(account, "warnings"));
    note_weights(r, job, linears);
}

struct pith_report *pith_account_report(const struct pith_job *job, json_t *account)
{
    struct pith_report *r = pith_report_new();
    if (!r || !account) {
        pith_report_free(&r);
        json_decref(account);
        return NULL;
    }
    if (job->convert) say_converted(r, job, account);
    else say_quantized(r, job, account);
    pith_report_merge(r, account);
    return r;
}
