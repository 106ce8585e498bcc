/* pith quantize: a checkpoint in, a proven quantized checkpoint out. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/rank.h"
#include "cli/tables.h"

#include <pith/inspect.h>
#include <pith/quantize.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    struct pith_quantize_options q; /* but for its lists, which are these */
    struct text_list ignore, overrides, calib, targets, tries;
    bool all;
    const char *mode;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(out_convert, AT(q.out)),
    OPTION(recipe_quantize, AT(q.recipe)),
    OPTION(transform, AT(q.transform)),
    OPTION(split, AT(q.split)),
    OPTION(weights_quantize, AT(q.weights)),
    OPTION(acts_quantize, AT(q.acts)),
    OPTION(kv_quantize, AT(q.kv)),
    OPTION(round_quantize, AT(q.round)),
    OPTION(adapter_quantize, AT(q.adapter)),
    OPTION(ignore, AT(ignore)),
    OPTION(override, AT(overrides)),
    OPTION(calib_quantize, AT(calib)),
    OPTION(crlf_quantize, AT(q.crlf)),
    OPTION(calib_tokens_quantize, AT(q.calib_tokens)),
    OPTION(seq_len_quantize, AT(q.seq_len)),
    OPTION(experts_quantize, AT(q.experts)),
    OPTION(budget, AT(q.budget)),
    OPTION(fit_quantize, AT(q.fit)),
    OPTION(max_kl, AT(q.max_kl)),
    OPTION(try_quantize, AT(tries)),
    OPTION(container_quantize, AT(q.container)),
    OPTION(memory_quantize, AT(q.memory)),
    OPTION(max_shard, AT(q.max_shard)),
    OPTION(allow_error_quantize, AT(q.allow_error)),
    OPTION(rehearse, AT(q.rehearse)),
    OPTION(link_quantize, AT(q.link)),
    OPTION(requantize, AT(q.requantize)),
    OPTION(gather, AT(q.gather)),
    OPTION(for, AT(targets)),
    OPTION(mode_quantize, AT(mode)),
    OPTION(all_quantize, AT(all)),
    OPTION(resume, AT(q.resume)),
};

static void defaults(void *settings)
{
    pith_quantize_defaults(&((struct settings *)settings)->q);
}

enum { INDENT = 19 /* of what a line of the summary says */ };

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* The linears that suffer most, by what counts for the output. */
static void print_worst(const json_t *account, size_t most)
{
    const bool outputs = strcmp(json_text(account, "losses"), "outputs") == 0;
    const size_t width = terminal_width(STDOUT_FILENO);
    const json_t *linears = json_object_get(account, "linears"), *l;
    double before = 0, after = 0;
    size_t i, left;
    json_array_foreach (linears, i, l) {
        before += number(l, "loss_nearest");
        after += number(l, "loss");
    }
    if (before > 0 && after != before)
        printf("  sum of losses    %.5g (rounding to nearest: %.5g)\n", after, before);
    json_t *worst = rank(linears, outputs ? "loss" : "relative_error", most, &left);
    if (json_array_size(worst))
        printf("  most harm, by %s\n",
               outputs ? "the loss measured at the output" : "the relative error of the weights");
    json_array_foreach (worst, i, l) {
        size_t column = 0;
        if (outputs)
            column = (size_t)printf("    loss %-10.4g (%2.0f%% of all) ", number(l, "loss"),
                                    after > 0 ? 100 * number(l, "loss") / after : 0.0);
        column +=
            (size_t)printf("%serror %.4f  ", outputs ? "" : "    ", number(l, "relative_error"));
        const char *name = json_text(l, "name");
        const bool fits = !width || column + text_columns(name) <= width;
        printf("%s%s\n", fits ? "" : "\n      ", name);
    }
    if (left) printf("    ... and %zu more: --all lists them\n", left);
    json_decref(worst);
}

/* "64 windows of 512 tokens of the text that ships: 32768 of 131072 asked, ...". */
static void print_calibration(const json_t *c)
{
    const double used = number(c, "tokens"), asked = number(c, "tokens_asked");
    const json_t *source;
    size_t i;
    if (!json_is_object(c)) return;
    printf("  calibration      %.0f tokens in windows of %.0f", used, number(c, "seq_len"));
    json_array_foreach (json_object_get(c, "sources"), i, source) {
        const char *name = json_string_value(source);
        printf("%s%s", i ? ", " : " of ",
               strcmp(name, "builtin") == 0 ? "the text that ships" : name);
    }
    printf("\n");
    const char *messages = json_string_value(json_object_get(c, "messages"));
    if (messages)
        printf("                   conversations %s\n",
               strcmp(messages, "template") == 0 ? "by the model's chat template"
                                                 : "joined by blank lines: no chat template");
    const double length = number(c, "seq_len"), whole = length > 0 ? floor(asked / length) : 0;
    if (used < asked && used < whole * length)
        printf("                   %.0f were wanted; the text has %.0f\n", asked,
               number(c, "tokens_available"));
    else if (used != asked)
        printf("                   %.0f were wanted: whole windows are read; --seq-len is their"
               " length\n",
               asked);
    if (number(c, "seq_len") < number(c, "seq_len_asked"))
        printf("                   windows of %.0f were wanted: the model's context is %.0f\n",
               number(c, "seq_len_asked"), number(c, "seq_len"));
}

/* "read 1.2 s, round 3.4 s, ...": the phases that took a hundredth of the whole or more. */
static void print_phases(const char *title, json_t *phases, double blocks)
{
    const char *key, *separator = "";
    json_t *value;
    double all = 0;
    json_object_foreach (phases, key, value)
        if (strncmp(key, "seconds_", 8) == 0) all += json_number_value(value);
    const size_t width = prose_width();
    size_t column = (size_t)printf("  %-16s ", title);
    json_object_foreach (phases, key, value) {
        char time[32], item[96];
        const double seconds = json_number_value(value);
        if (strncmp(key, "seconds_", 8) != 0 || seconds < all / 100) continue;
        format_seconds(seconds * blocks, time);
        const size_t n = (size_t)snprintf(item, sizeof item, "%s %s", key + 8, time);
        const bool wraps = *separator && column + n + 3 > width; /* two more, and a comma */
        if (wraps) printf(",\n%*s%s", INDENT, "", item);
        else printf("%s%s", separator, item);
        column = (wraps ? INDENT : column + strlen(separator)) + n;
        separator = ", ";
    }
    putchar('\n');
}

/* The stages in order; those that do nothing are left out. */
static void print_stages(const json_t *recipe)
{
    static const char *const stages[] = {"transform", "split", "weights", "acts", "kv", "round"};
    const char *separator = " ";
    const bool own = json_object_get(recipe, "linears") != NULL; /* print_grids() has these */
    char text[512];
    snprintf(text, sizeof text, "%s:", json_text(recipe, "name"));
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const char *choice = json_text(recipe, stages[i]);
        if (own && strcmp(stages[i], "weights") == 0) choice = "by linear (see grids)";
        const size_t used = strlen(text);
        if (strcmp(choice, "none") == 0) continue;
        snprintf(text + used, sizeof text - used, "%s%s %s", separator, stages[i], choice);
        separator = ", ";
    }
    print_wrapped(text, INDENT, INDENT, prose_width());
}

/* How many weights have which grid, where the recipe names grids of single linears. */
static void print_grids(const json_t *account)
{
    const json_t *l, *grid;
    json_t *weights = json_object();
    double all = 0;
    const char *name;
    char text[512] = "";
    size_t i;
    json_array_foreach (json_object_get(account, "linears"), i, l) {
        const json_t *shape = json_object_get(l, "shape");
        const double n = json_number_value(json_array_get(shape, 0)) *
                         json_number_value(json_array_get(shape, 1));
        name = json_text(l, "grid");
        json_object_set_new(weights, name,
                            json_real(n + json_number_value(json_object_get(weights, name))));
        all += n;
    }
    json_object_foreach (weights, name, grid) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %.0f%%", used ? ", " : "", name,
                 all > 0 ? 100 * json_number_value(grid) / all : 0);
    }
    json_decref(weights);
    printf("  grids            ");
    print_wrapped(text, INDENT, INDENT, prose_width());
}

/* On tokens that were held out, and on those that were fitted; or on the latter alone. */
static void print_measured(const json_t *p)
{
    const json_t *fitted = json_object_get(p, "fitted"), *remark;
    const bool held = json_is_true(json_object_get(p, "held_out"));
    size_t i;
    printf("  KL               %.4g estimated, %.4g +- %.1g measured on %.0f %s\n",
           number(p, "kld"), number(p, "measured"), number(p, "standard_error"),
           number(p, "tokens"), held ? "tokens that were held out" : "of these tokens");
    if (held)
        printf("                   %.4g +- %.1g on %.0f of the fitted ones\n",
               number(fitted, "measured"), number(fitted, "standard_error"),
               number(fitted, "tokens"));
    json_array_foreach (json_object_get(p, "remarks"), i, remark) {
        printf("  note             ");
        print_wrapped(json_string_value(remark), INDENT, INDENT, prose_width());
    }
}

/* What a recipe foretold, and what became of it. */
static void print_prediction(const json_t *account)
{
    const json_t *p = json_object_get(account, "prediction");
    if (json_object_get(json_object_get(account, "recipe"), "linears")) print_grids(account);
    if (p) print_measured(p);
    const json_t *cache =
        json_object_get(json_object_get(json_object_get(account, "recipe"), "predicted"), "cache");
    if (cache)
        printf("  KV cache         --kv auto:%g, with an estimated KL of %.4g\n",
               number(cache, "bits"), number(cache, "kld"));
}

/* Where groups are smaller than the recipe's. */
static void print_groups(const json_t *account)
{
    const json_t *g, *n;
    size_t i, k;
    json_array_foreach (json_object_get(account, "groups"), i, g) {
        const json_t *columns = json_object_get(g, "columns");
        char text[384];
        snprintf(text, sizeof text, "%s instead of %s in %.0f of %zu linears", json_text(g, "grid"),
                 json_text(g, "wanted"), number(g, "linears"),
                 json_array_size(json_object_get(account, "linears")));
        json_array_foreach (columns, k, n) {
            const size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s%lld",
                     k ? ", " : ", since its groups do not divide rows of ",
                     (long long)json_integer_value(n));
        }
        printf("  groups           ");
        print_wrapped(text, INDENT, INDENT, prose_width());
    }
}

/* Linears that no type of GGUF has whole blocks for. */
static void print_kept(const json_t *tensors)
{
    const json_t *t;
    size_t i, count = 0;
    json_array_foreach (tensors, i, t)
        count += strstr(json_text(t, "reason"), "no whole blocks") != NULL;
    if (count)
        printf("  kept in 16 bits  %zu linears, whose rows are no whole blocks of 32\n", count);
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
        const char *grid = json_text(l, "grid"), *wanted = json_text(l, "wanted");
        if (!*wanted || strchr(wanted, ':')) continue; /* print_groups() has these */
        for (k = 0; k < kinds; k++)
            if (strcmp(list[k].grid, grid) == 0 && strcmp(list[k].wanted, wanted) == 0) break;
        if (k == FALLEN) continue;
        if (k == kinds) {
            list[kinds++] = (struct fallen){grid, wanted, json_text(l, "name"), 0};
            if (kinds == 1)
                *cols = json_integer_value(json_array_get(json_object_get(l, "shape"), 1));
        }
        list[k].count++;
    }
    return kinds;
}

/* Linears whose rows are no whole blocks of the type that was asked for. */
static void print_fallen(const json_t *linears, const json_t *tensors)
{
    struct fallen list[FALLEN];
    json_int_t cols = 0;
    char text[768];
    size_t count = 0;
    print_kept(tensors);
    const size_t kinds = count_fallen(linears, list, &cols);
    if (!kinds) return;
    for (size_t k = 0; k < kinds; k++) count += list[k].count;
    snprintf(text, sizeof text,
             "%zu of %zu linears, whose rows are no whole blocks (%lld weights), by llama.cpp's "
             "rule:",
             count, json_array_size(linears), (long long)cols);
    for (size_t k = 0; k < kinds; k++) {
        const size_t used = strlen(text);
        const bool alone = list[k].count == 1;
        snprintf(text + used, sizeof text - used, "%s %s instead of %s (", k ? "," : "",
                 list[k].grid, list[k].wanted);
        const size_t at = strlen(text);
        if (alone) snprintf(text + at, sizeof text - at, "%s)", list[k].only);
        else snprintf(text + at, sizeof text - at, "%zu)", list[k].count);
    }
    printf("  fallen back      ");
    print_wrapped(text, INDENT, INDENT, prose_width());
}

/* "layer 3: 0, 7 (12)": the experts that few tokens took, and how many, of the first layers. */
static void list_few(const json_t *layers, json_int_t few, char *text, size_t size)
{
    enum { NAMED = 12 };
    const json_t *layer, *tokens;
    size_t i, e, named = 0, at = strlen(text);
    json_array_foreach (layers, i, layer) {
        bool first = true;
        json_array_foreach (json_object_get(layer, "tokens"), e, tokens) {
            if (json_integer_value(tokens) >= few || named == NAMED || at >= size) continue;
            if (first)
                at += (size_t)snprintf(text + at, size - at, "%s layer %d:", named ? ";" : "",
                                       (int)number(layer, "layer"));
            if (at >= size) return;
            at += (size_t)snprintf(text + at, size - at, "%s %zu (%lld)", first ? "" : ",", e,
                                   (long long)json_integer_value(tokens));
            first = false;
            named++;
        }
    }
    if (named == NAMED && at < size) snprintf(text + at, size - at, ", ...");
}

/* The experts of a mixture: by which rule, and which of them the text hardly reached. */
static void print_experts(const json_t *experts)
{
    const json_t *layers = json_object_get(experts, "layers"), *layer, *tokens;
    const json_int_t few = json_integer_value(json_object_get(experts, "few"));
    size_t i, e, all = 0, under = 0;
    char text[640];
    if (!experts || json_array_size(layers) == 0) return;
    json_array_foreach (layers, i, layer)
        json_array_foreach (json_object_get(layer, "tokens"), e, tokens) {
            all++;
            under += json_integer_value(tokens) < few;
        }
    snprintf(text, sizeof text, "%zu, calibrated by the rule %s%s", all, json_text(experts, "rule"),
             under ? ";" : "");
    if (under) {
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 " warning: %zu were taken by fewer than %lld tokens of the text:", under,
                 (long long)few);
        list_few(layers, few, text, sizeof text);
    }
    printf("  experts          ");
    print_wrapped(text, INDENT, INDENT, prose_width());
}

/* The form of keys and values that is stored, and what engines are started with for it. */
static void print_cache(const char *kv)
{
    struct pith_error err = {0};
    char *report = NULL, text[512];
    const json_t *row;
    size_t i;
    if (!*kv || pith_name_equal(kv, "none") || pith_features_json(&report, &err) != PITH_OK) return;
    json_t *features = json_loads(report, 0, NULL);
    snprintf(text, sizeof text, "%s, in the checkpoint", kv);
    const char *separator = "; to start with: ";
    json_array_foreach (json_object_get(features, "caches"), i, row) {
        const size_t used = strlen(text);
        if (strcmp(json_text(row, "kv"), kv) != 0) continue;
        snprintf(text + used, sizeof text - used, "%s%s %s", separator, json_text(row, "engine"),
                 json_text(row, "started_with"));
        separator = ", ";
    }
    printf("  KV cache         ");
    print_wrapped(text, INDENT, INDENT, prose_width());
    json_decref(features);
    pith_text_free(report);
}

/* What only saves memory on the GPUs that --for names. */
static void print_engines(const json_t *engines)
{
    const json_t *e, *note;
    size_t i, k;
    json_array_foreach (engines, i, e)
        json_array_foreach (json_object_get(e, "notes"), k, note) {
            printf("  warning          ");
            print_wrapped(json_string_value(note), 19, 19, terminal_width(STDOUT_FILENO));
        }
}

static void print_result(const char *out, const json_t *j, bool all)
{
    char in_size[32], out_size[32], time[32], peak[32], mapped[32];
    const json_t *sizes = json_object_get(j, "sizes"), *timing = json_object_get(j, "timing");
    format_bytes(number(sizes, "input_bytes"), in_size);
    format_bytes(number(sizes, "output_bytes"), out_size);
    format_seconds(number(timing, "seconds"), time);
    format_bytes(number(timing, "peak_memory_bytes"), peak);
    format_bytes(number(timing, "peak_mapped_bytes"), mapped);
    const size_t column = print_subject(out, sizeof ": every tensor");
    printf(": ");
    print_wrapped("every tensor accounted for, written, read back and compared", column + 2, 2,
                  prose_width());
    const json_t *recipe = json_object_get(j, "recipe");
    printf("  recipe           ");
    print_stages(recipe);
    printf("  container        %s\n", json_text(j, "container"));
    print_cache(json_text(recipe, "kv"));
    printf("  size             %s -> %s\n", in_size, out_size);
    printf("  bits per weight  %.3f in what is quantized, %.3f over all parameters\n",
           number(j, "bits_per_weight"), number(j, "bits_per_parameter"));
    printf("  parameters       %.2f million, %.2f million of them quantized\n",
           number(sizes, "parameters") / 1e6, number(sizes, "quantized_parameters") / 1e6);
    print_calibration(json_object_get(j, "calibration"));
    print_prediction(j);
    print_experts(json_object_get(j, "experts"));
    print_fallen(json_object_get(j, "linears"), json_object_get(j, "tensors"));
    print_groups(j);
    print_worst(j, all ? SIZE_MAX : RANK_MOST);
    print_warnings(j);
    print_engines(json_object_get(j, "engines"));
    printf("  time             %s, peak memory %s, mapped files %s\n", time, peak, mapped);
    print_phases("of it", json_object_get(j, "timing"), 1);
}

/* Those of the list, or the first `together`. */
static void print_rehearsed(const json_t *list, int together, int blocks)
{
    const size_t count = json_array_size(list);
    printf("rehearsed block%s", count == 1 && together < 2 ? "" : "s");
    if (together > 1) printf(" 1 to %d", together);
    for (size_t i = 0; together < 2 && i < count; i++)
        printf("%s%d",
               i == 0           ? " "
               : i + 1 == count ? " and "
                                : ", ",
               (int)number(json_array_get(list, i), "layer") + 1);
    printf(" of %d; for the whole model expect:\n", blocks);
}

static void print_rehearsal(const struct common *common, const json_t *j)
{
    char block[32], all[32], memory[32], size[32];
    format_seconds(number(j, "seconds_per_block"), block);
    format_seconds(number(j, "seconds_expected"), all);
    format_bytes(number(j, "memory_expected_bytes"), memory);
    format_bytes(number(j, "output_bytes_expected"), size);
    const int blocks = (int)number(j, "blocks");
    const int asked = (int)number(json_object_get(j, "recipe"), "blocks"); /* learned together */
    print_rehearsed(json_object_get(j, "rehearsed"), asked < blocks ? asked : blocks, blocks);
    printf("  time             %s (%s a block)\n", all, block);
    print_phases("of it", json_object_get(j, "block"), number(j, "blocks"));
    printf("  memory           %s at most\n", memory);
    printf("  size             %s, %.3f bits per weight in the linears\n", size,
           number(j, "bits_per_weight"));
    printf("  error            %.4f relative on average\n", number(j, "relative_error"));
    print_calibration(json_object_get(j, "calibration"));
    print_groups(j);
    print_prediction(j);
    print_ranks(common, json_object_get(j, "ranks"));
}

/* The meter's progress, and the ceiling on memory from the first step on: by then the run has been
 * found to fit. */
struct watch {
    struct pith_progress meter;
    uint64_t memory; /* 0: no ceiling, or set already */
};

static int on_step(void *ctx, const char *what, double done, double total)
{
    struct watch *w = ctx;
    if (w->memory) (void)pith_limit_memory(w->memory, NULL); /* the run counts by itself too */
    w->memory = 0;
    return w->meter.fn(w->meter.ctx, what, done, total);
}

static void fill(struct settings *s, const char *model)
{
    s->q.model = model;
    s->q.ignore = as_list(&s->ignore);
    s->q.overrides = as_list(&s->overrides);
    s->q.calib = as_list(&s->calib);
    s->q.targets = as_list(&s->targets);
    s->q.tries = as_list(&s->tries);
    s->q.seed = s->common.seed;
}

static int show(const struct settings *s, const char *report)
{
    int rc = EXIT_DONE;
    if (s->common.json) printf("%s\n", report);
    if (s->common.json || s->common.quiet) return rc;
    json_t *j = read_report(&s->common, report, &rc);
    if (j && s->q.rehearse) print_rehearsal(&s->common, j);
    else if (j) print_result(s->q.out, j, s->all);
    json_decref(j);
    return rc;
}

/* Memory that ran out under a ceiling is the ceiling's doing. */
static void blame_ceiling(uint64_t memory, struct pith_error *err)
{
    char size[32];
    const size_t n = strlen(err->text);
    if (!memory || err->status != PITH_NOMEM) return;
    format_bytes((double)memory, size);
    snprintf(err->text + n, sizeof err->text - n, " (--memory allows %s)", size);
}

/* Options that do nothing here, by what the others make of the run. */
static int check_idle(const struct settings *s, const json_t *plan)
{
    static const char no_text[] = "nothing of this recipe looks at calibration text";
    static const struct {
        const char *option, *key;
        bool value;    /* of the key, that makes the option idle */
        bool harmless; /* said, not refused: it changes nothing that is asked for */
        const char *why;
    } idle[] = {
        {"calib", "calibrates", false, false, no_text},
        {"calib-tokens", "calibrates", false, true, no_text},
        {"seq-len", "calibrates", false, true, no_text},
        {"crlf", "calibrates", false, false, no_text},
        {"experts", "calibrates", false, false, no_text},
        {"mode", "calibrates", false, true, "nothing of this recipe is calibrated"},
        {"max-shard", "file", true, false, "a GGUF file is a single file"},
    };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        if (!given(&s->common, idle[i].option) ||
            json_is_true(json_object_get(plan, idle[i].key)) != idle[i].value)
            continue;
        if (!idle[i].harmless)
            return usage_failure(&s->common, "--%s does nothing: %s", idle[i].option, idle[i].why);
        say(&s->common, "--%s does nothing: %s", idle[i].option, idle[i].why);
    }
    if (given(&s->common, "seed") && !json_is_true(json_object_get(plan, "calibrates")) &&
        strcmp(json_text(json_object_get(plan, "recipe"), "transform"), "none") == 0)
        say(&s->common, "--seed does nothing: nothing of this recipe is random");
    return check_given(&s->common);
}

/* Where a grid was completed from the recipe's: what it became. */
static void say_grids(const struct settings *s, const json_t *plan)
{
    const struct {
        const char *option, *text;
    } grids[] = {{"weights", s->q.weights}, {"acts", s->q.acts}};
    const json_t *recipe = json_object_get(plan, "recipe");
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        const char *became = json_text(recipe, grids[i].option);
        if (grids[i].text && !strstr(grids[i].text, ":") && strchr(became, ':'))
            say(&s->common, "--%s %s: taken as %s", grids[i].option, grids[i].text, became);
    }
}

/* All that can be said of the options before a file is opened. */
static int check(const struct settings *s)
{
    struct pith_error err = {0};
    char *report = NULL;
    if (!s->q.out) return usage_failure(&s->common, "where to? give -o DIR");
    if (pith_quantize_check(&s->q, &report, &err) != PITH_OK) return report_usage(&s->common, &err);
    int rc = EXIT_DONE;
    json_t *plan = read_report(&s->common, report, &rc);
    if (plan) rc = check_idle(s, plan);
    if (rc == EXIT_DONE) say_grids(s, plan);
    json_decref(plan);
    pith_text_free(report);
    return rc;
}

/* FILE.gguf without a recipe: the file that most people of llama.cpp use. */
static void settle_file(struct settings *s)
{
    const size_t n = s->q.out ? strlen(s->q.out) : 0;
    const bool file = n > 5 && strcmp(s->q.out + n - 5, ".gguf") == 0;
    if (file && !s->q.weights && !given(&s->common, "recipe")) s->q.recipe = "q4_k_m";
}

/* Of a model that is not stored quantized. */
static void say_requantize(const struct settings *s, const char *report)
{
    json_t *j = s->q.requantize ? json_loads(report, 0, NULL) : NULL;
    if (j && !json_object_get(j, "quantized_from") && !s->q.rehearse)
        say(&s->common, "--requantize does nothing: the model is not stored quantized");
    json_decref(j);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    char *report = NULL;
    pith_return_memory();
    settle_file(s);
    fill(s, operands->item[0]);
    int rc = check(s);
    if (rc == EXIT_DONE) rc = look_at_texts(&s->common, &s->calib, s->q.crlf);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    struct watch watch = {meter_progress(&meter), s->q.memory};
    s->q.progress = (struct pith_progress){on_step, &watch};
    if (pith_quantize(context, &s->q, &report, &err) == PITH_OK) {
        meter_end(&meter);
        name_options_of(&s->common, &report);
        if (report) say_requantize(s, report);
        if (report) rc = show(s, report);
    } else {
        meter_end(&meter);
        blame_ceiling(s->q.memory, &err);
        rc = report_failure(&s->common, &err);
    }
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_quantize = {
    .name = "quantize",
    .summary = "make a quantized checkpoint from a full-precision one",
    .operands = "MODEL -o DIR [options]",
    .extra = "-o DIR",
    .examples = "  pith quantize Llama-3.2-1B -o out\n"
                "  pith quantize Llama-3.2-1B -o out -r gptq --for vllm:tp=2\n"
                "  pith quantize Llama-3.2-1B -o Llama-3.2-1B.gguf -r q4_k_m\n"
                "  pith quantize Llama-3.2-1B -o out -r gptq --weights int3:g64 \\\n"
                "      --override 'down_proj=int4:g64'\n"
                "  pith quantize Llama-3.2-1B --adapter my-lora -o out -r gptq\n"
                "  pith quantize Llama-3.2-1B -o out -r rtn --weights int8:channel \\\n"
                "      --ignore 'layers.0.*'\n"
                "  pith quantize Llama-3.2-1B -o out -r awq+gptq --calib chats.jsonl \\\n"
                "      --memory 6G --rehearse\n",
    .details =
        "GRID is FORMAT[:GRANULARITY][:asym][:mse][:...]. FORMAT: int2 to int8, fp8_e4m3,\n"
        "fp8_e5m2, fp4_e2m1, nf4, bnb_fp4, mxfp8, mxfp6, mxfp4, nvfp4. GRANULARITY, what shares\n"
        "a scale: channel (one output row), tensor, g128 (groups of 128 inputs) or block128\n"
        "(tiles); mxfp and nvfp4 have their own. asym adds zero points; mse searches the scale\n"
        "with the least error; hqq (integers, asym) half-quadratic zero points; dq (nf4)\n"
        "quantizes the scales again; even and ceil (mxfp) round the power of two otherwise.\n"
        "\n"
        "Embeddings and the head stay in the model's precision: an error in the head moves the\n"
        "probability of every token, an embedding is read a row at a time, and most engines load\n"
        "neither quantized. (In a .gguf they have the types that llama.cpp gives them.)\n"
        "\n"
        "The input is never changed.\n"
        "Work goes to DIR.partial; DIR appears when it is whole. A run that was interrupted\n"
        "or killed is continued by the same command with --resume, to the same bytes.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .defaults = defaults,
    .run = run,
};
