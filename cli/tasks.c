/* How the result of a task looks on a terminal. */
#include "cli/measure.h"
#include "cli/tables.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 19 /* where values stand */ };

static double get_at(const json_t *j, const char *key, size_t index)
{
    return json_number_value(json_array_get(json_object_get(j, key), index));
}

static void print_accuracy(const json_t *t, const char *label, const char *end)
{
    char key[32], ci[32], base[40], delta[32], verdict[32];
    snprintf(key, sizeof key, "accuracy%s", end);
    snprintf(ci, sizeof ci, "accuracy%s_ci95", end);
    snprintf(base, sizeof base, "baseline_accuracy%s", end);
    snprintf(delta, sizeof delta, "delta%s", end);
    snprintf(verdict, sizeof verdict, "verdict%s", end);
    if (!json_object_get(t, key)) return;
    printf("  %-16s %.2f%% of %d, 95%% interval %.2f%% to %.2f%%\n", label, 100 * json_get(t, key),
           (int)json_get(t, "n"), 100 * get_at(t, ci, 0), 100 * get_at(t, ci, 1));
    if (json_object_get(t, delta))
        printf("  against baseline %+.2f points (was %.2f%%): %s%s%s\n", 100 * json_get(t, delta),
               100 * json_get(t, base), bold(), json_text(t, verdict), plain());
}

static void print_words(const json_t *t)
{
    if (!json_object_get(t, "perplexity")) return;
    printf("  perplexity       %.4g", json_get(t, "perplexity"));
    if (json_is_real(json_object_get(t, "perplexity_se")))
        printf(" +/- %.2g", json_get(t, "perplexity_se"));
    printf(", of the words asked for\n");
    if (json_object_get(t, "nll_delta"))
        printf("  against baseline %+.5f nats a word (was %.4g): %s%s%s\n",
               json_get(t, "nll_delta"), json_get(t, "baseline_perplexity"), bold(),
               json_text(t, "perplexity_verdict"), plain());
}

/* Categories, and how many subjects stand in --json; both where there are no categories. */
static void print_groups(const json_t *groups)
{
    const json_t *g;
    size_t i, subjects = 0, categories = 0, named = 0;
    json_array_foreach (groups, i, g) named += json_object_get(g, "category") != NULL;
    json_array_foreach (groups, i, g) {
        const bool subject = json_object_get(g, "category") || named == 0;
        subjects += subject;
        if (subject) continue;
        categories++;
        char points[48] = "";
        if (json_object_get(g, "delta"))
            snprintf(points, sizeof points, "; %+.2f points", 100 * json_get(g, "delta"));
        print_line((size_t)printf("  %-16s ", json_text(g, "name")), INDENT,
                   "%.2f%% of %d, 95%% interval %.2f%% to %.2f%%%s", 100 * json_get(g, "accuracy"),
                   (int)json_get(g, "n"), 100 * get_at(g, "accuracy_ci95", 0),
                   100 * get_at(g, "accuracy_ci95", 1), points);
    }
    if (subjects) printf("  subjects         %zu, each with its figures in --json\n", subjects);
}

/* What is made has an accuracy for each depth. */
static void print_depths(const json_t *groups)
{
    char text[512] = "";
    const json_t *g;
    size_t i, used = 0;
    json_array_foreach (groups, i, g) {
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%.0f%%: %.0f%%",
                                     i ? ", " : "", 100 * json_get(g, "depth"),
                                     100 * json_get(g, "accuracy"));
    }
    printf("  by depth         ");
    print_line(INDENT, INDENT, "%s", text);
}

void print_task(const json_t *t)
{
    const int shots = (int)json_get(t, "shots");
    printf("%s%s%s", bold(), json_text(t, "name"), plain());
    if (json_object_get(t, "length"))
        printf(" (%d tokens, seed %d)", (int)json_get(t, "length"), (int)json_get(t, "seed"));
    if (shots) printf(" (%d example%s in front of each question)", shots, shots > 1 ? "s" : "");
    if (json_object_get(t, "chat")) printf(" (as conversations)");
    putchar('\n');
    print_accuracy(t, "accuracy", "");
    print_accuracy(t, "by characters", "_norm");
    print_accuracy(t, "word for word", "_exact");
    print_accuracy(t, "the last number", "_flexible");
    print_words(t);
    if (json_object_get(t, "length")) print_depths(json_object_get(t, "groups"));
    else print_groups(json_object_get(t, "groups"));
    const int undecided = (int)json_get(t, "undecided"), shortened = (int)json_get(t, "shortened");
    if (undecided > 0)
        print_line((size_t)printf("  decided without  "), INDENT,
                   "%d item%s, where a choice adds no token to the context", undecided,
                   undecided > 1 ? "s" : "");
    if (shortened > 0)
        print_line((size_t)printf("  shortened        "), INDENT,
                   "%d item%s too long for the model: tokens in front omitted", shortened,
                   shortened > 1 ? "s" : "");
}
