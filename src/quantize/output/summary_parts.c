#include "quantize/output/summary.h"

#include "quantize/output/account.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void pith_summary_line(struct pith_report *r, const char *label, enum pith_wrap wrap,
                       struct pith_str *text)
{
    char lead[64];
    snprintf(lead, sizeof lead, "  %-*s ", PITH_REPORT_INDENT - 3, label);
    const struct pith_line how = {
        .lead = lead, .wrap = wrap, .indent = PITH_REPORT_INDENT, .fields = true};
    pith_report_line(r, &how, "%s", pith_str_text(text));
    r->failed |= text->failed;
    pith_str_free(text);
}

static void say_sources(const json_t *sources, struct pith_str *out)
{
    const json_t *source;
    size_t i;
    json_array_foreach (sources, i, source) {
        const char *name = json_string_value(source);
        const bool own = name && strcmp(name, "builtin") == 0;
        pith_str_printf(out, "%s%s", i ? ", " : " of ", own ? "the text that ships" : name);
    }
}

/* Where fewer tokens were read than were wanted, or shorter windows, and why. */
static void say_wanted(struct pith_report *r, const json_t *c)
{
    const double used = pith_summary_number(c, "tokens"),
                 wanted = pith_summary_number(c, "tokens_asked"),
                 length = pith_summary_number(c, "seq_len"),
                 whole = length > 0 ? floor(wanted / length) : 0;
    if (used < wanted && used < whole * length)
        pith_report_label(r, "", PITH_WRAP_NONE, "%.0f were wanted; the text has %.0f", wanted,
                          pith_summary_number(c, "tokens_available"));
    else if (used != wanted)
        pith_report_line(r, &(struct pith_line){.lead = "                   ", .fields = true},
                         "%.0f were wanted: whole windows are read; `seq_len` is their length",
                         wanted);
    if (length < pith_summary_number(c, "seq_len_asked"))
        pith_report_label(r, "", PITH_WRAP_NONE,
                          "windows of %.0f were wanted: the model's context is %.0f",
                          pith_summary_number(c, "seq_len_asked"), length);
}

void pith_summary_calibration(struct pith_report *r, const json_t *c)
{
    struct pith_str text = {0};
    if (!json_is_object(c)) return;
    pith_str_printf(&text, "%.0f tokens in windows of %.0f", pith_summary_number(c, "tokens"),
                    pith_summary_number(c, "seq_len"));
    say_sources(json_object_get(c, "sources"), &text);
    pith_report_label(r, "calibration", PITH_WRAP_NONE, "%s", pith_str_text(&text));
    r->failed |= text.failed;
    pith_str_free(&text);
    const char *messages = pith_summary_text(c, "messages");
    if (*messages)
        pith_report_label(r, "", PITH_WRAP_NONE, "conversations %s",
                          strcmp(messages, "template") == 0
                              ? "by the model's chat template"
                              : "joined by blank lines: no chat template");
    say_wanted(r, c);
}

void pith_summary_phases(struct pith_report *r, const json_t *phases, double times)
{
    enum { PREFIX = 8 /* "seconds_" */ };
    struct pith_str text = {0};
    const char *key;
    const json_t *value;
    double all = 0;
    json_object_foreach ((json_t *)(uintptr_t)phases, key, value)
        if (strncmp(key, "seconds_", PREFIX) == 0) all += json_number_value(value);
    json_object_foreach ((json_t *)(uintptr_t)phases, key, value) {
        char time[32];
        const double seconds = json_number_value(value);
        if (strncmp(key, "seconds_", PREFIX) != 0 || seconds < all / 100) continue;
        pith_seconds_text(seconds * times, time, sizeof time);
        pith_str_printf(&text, "%s%s %s", text.len ? ", " : "", key + PREFIX, time);
    }
    pith_summary_line(r, "of it", PITH_WRAP_ITEMS, &text);
}

void pith_summary_grids(struct pith_report *r, const json_t *linears)
{
    struct pith_str text = {0};
    json_t *weights = json_object();
    const json_t *l, *part;
    const char *grid;
    double all = 0;
    size_t i;
    json_array_foreach (linears, i, l) {
        const double n = pith_account_weights(l);
        grid = pith_summary_text(l, "grid");
        pith_json_set(&weights, grid, json_real(n + pith_summary_number(weights, grid)));
        all += n;
    }
    json_object_foreach (weights, grid, part)
        pith_str_printf(&text, "%s%s %.0f%%", text.len ? ", " : "", grid,
                        all > 0 ? 100 * json_number_value(part) / all : 0);
    r->failed |= !weights;
    json_decref(weights);
    pith_summary_line(r, "grids", PITH_WRAP_PROSE, &text);
}

void pith_summary_groups(struct pith_report *r, const json_t *groups, size_t linears)
{
    const json_t *g, *n;
    size_t i, k;
    json_array_foreach (groups, i, g) {
        struct pith_str text = {0};
        pith_str_printf(&text, "%s instead of %s in %.0f of %zu linears",
                        pith_summary_text(g, "grid"), pith_summary_text(g, "wanted"),
                        pith_summary_number(g, "linears"), linears);
        json_array_foreach (json_object_get(g, "columns"), k, n)
            pith_str_printf(&text, "%s%lld", k ? ", " : ", since its groups do not divide rows of ",
                            (long long)json_integer_value(n));
        pith_summary_line(r, "groups", PITH_WRAP_PROSE, &text);
    }
}

void pith_summary_cache(struct pith_report *r, const json_t *recipe)
{
    const json_t *cache = json_object_get(json_object_get(recipe, "predicted"), "cache");
    if (cache)
        pith_report_line(r, &(struct pith_line){.lead = "  KV cache         ", .fields = true},
                         "`kv=auto:%g`, with an estimated KL of %.4g",
                         pith_summary_number(cache, "bits"), pith_summary_number(cache, "kld"));
}
