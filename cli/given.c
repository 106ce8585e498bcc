/* What the table of options says of those that stand on the command line: bounds, and options that
 * do nothing with, or without, another. */
#include "cli/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of a bound, "100", "-100" or "1K"; *at moves behind it. */
static double number_at(const char **at)
{
    char word[32];
    uint64_t n;
    const size_t size = strcspn(*at, ", ");
    snprintf(word, sizeof word, "%.*s", (int)size, *at);
    *at += size;
    return pith_number_parse(word, &n) ? (double)n : strtod(word, NULL);
}

/* Moves *at behind a word of a bound, where it stands there. */
static bool takes(const char **at, const char *word)
{
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) return false;
    *at += n;
    return true;
}

bool in_bounds(const char *bounds, double x)
{
    const char *at = bounds;
    bool good = true;
    while (*at) {
        if (takes(&at, "from ") || takes(&at, "at least ")) good = good && x >= number_at(&at);
        else if (takes(&at, "above ")) good = good && x > number_at(&at);
        else if (takes(&at, "to ") || takes(&at, "at most ")) good = good && x <= number_at(&at);
        else at++; /* ", ", a unit */
    }
    return good;
}

double number_of(const struct option *o, const void *settings)
{
    const void *at = (const char *)settings + o->offset;
    switch (o->row->type) {
    case OPTION_COUNT: return (double)*(const size_t *)at;
    case OPTION_SIZE: return (double)*(const uint64_t *)at;
    case OPTION_REAL: return *(const double *)at;
    default: return 0;
    }
}

/* The first of some names, with blanks between them, that is given; its length, or 0. */
static size_t first_given(const struct common *common, const char **names)
{
    while (*names && **names) {
        char name[64];
        const size_t n = strcspn(*names, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, *names);
        if (given(common, name)) return n;
        *names += n + ((*names)[n] == ' ');
    }
    return 0;
}

static int check_one(const struct common *common, const struct option *o)
{
    const struct option_row *row = o->row;
    const char *with = row->idle_with;
    char needed[64];
    if (row->needs) {
        snprintf(needed, sizeof needed, "%.*s", (int)strcspn(row->needs, " "), row->needs);
        if (!given(common, needed))
            return usage_failure(common, "--%s does nothing without --%s", row->name, row->needs);
    }
    const size_t n = first_given(common, &with);
    if (n > 0)
        return usage_failure(common, "--%s does nothing with --%.*s", row->name, (int)n, with);
    if (row->bounds && !row->at_once && !in_bounds(row->bounds, number_of(o, common)))
        return usage_failure(common, "--%s: %s", row->name, row->bounds);
    return EXIT_DONE;
}

int check_given(const struct common *common)
{
    const struct command *c = common->command;
    int rc = EXIT_DONE;
    for (size_t i = 0; i < c->option_count && rc == EXIT_DONE; i++)
        if (common->given >> i & 1) rc = check_one(common, &c->options[i]);
    return rc;
}
