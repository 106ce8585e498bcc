/* Parsing of options from a command's table. */
#include "cli/command.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option common_options[] = {
    {"json", 0, OPTION_FLAG, offsetof(struct common, json), NULL,
     "print one JSON object on standard output and nothing else there"},
    {"quiet", 'q', OPTION_FLAG, offsetof(struct common, quiet), NULL,
     "no progress and no messages"},
    {"threads", 't', OPTION_COUNT, offsetof(struct common, threads), "N",
     "threads to use (default: all CPUs); results do not depend on it"},
    {"seed", 0, OPTION_COUNT, offsetof(struct common, seed), "N",
     "seed of everything random (default 0)"},
    {"cpu", 0, OPTION_TEXT, offsetof(struct common, cpu), "NAME",
     "instruction set: scalar, avx2, avx512, vnni, bf16, amx, neon, dotprod,"
     " auto (default auto)"},
    {"help", 'h', OPTION_FLAG, offsetof(struct common, help), NULL, "show this help"},
};
const size_t common_option_count = sizeof common_options / sizeof common_options[0];

/* Edits (insert, delete, replace) between two short words; long ones count as far apart. */
static unsigned distance(const char *a, const char *b)
{
    enum { MOST = 32 };
    unsigned row[MOST + 1];
    const size_t n = strlen(a), m = strlen(b);
    if (n > MOST || m > MOST) return MOST;
    for (size_t j = 0; j <= m; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

const char *nearest(const char *text, const char *const *names, size_t count)
{
    const char *best = NULL;
    unsigned least = (unsigned)(strlen(text) / 3 + 1);
    for (size_t i = 0; i < count; i++) {
        const unsigned d = distance(text, names[i]);
        if (d <= least && d < strlen(names[i])) {
            best = names[i];
            least = d - (d > 0);
        }
    }
    return best;
}

static const struct option *option_at(const struct command *c, size_t i)
{
    return i < c->option_count ? &c->options[i] : &common_options[i - c->option_count];
}

static const struct option *find(const struct command *c, const char *name, size_t length,
                                 char letter)
{
    for (size_t i = 0; i < c->option_count + common_option_count; i++) {
        const struct option *o = option_at(c, i);
        if (letter ? o->letter == letter
                   : strlen(o->name) == length && strncmp(o->name, name, length) == 0)
            return o;
    }
    return NULL;
}

static int unknown(const struct command *c, const char *word)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < c->option_count + common_option_count && count < 64; i++)
        names[count++] = option_at(c, i)->name;
    const char *near = word[0] == '-' && word[1] == '-' ? nearest(word + 2, names, count) : NULL;
    fprintf(stderr, "pith %s: unknown option %s", c->name, word);
    if (near) fprintf(stderr, "; did you mean --%s?", near);
    fprintf(stderr, "\nTry 'pith %s --help'.\n", c->name);
    return EXIT_USAGE;
}

static bool parse_count(const char *text, size_t *out)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0])) return false;
    const unsigned long long n = strtoull(text, &end, 10);
    if (*end || errno || n > SIZE_MAX) return false;
    *out = (size_t)n;
    return true;
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x)) return false;
    *out = x;
    return true;
}

static bool parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "kmgt";
    char *end;
    if (!isdigit((unsigned char)text[0])) return false;
    double x = strtod(text, &end);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        for (const char *p = units; p <= unit; p++) x *= 1024;
        end++;
        if (*end == 'i') end++;
        if (*end == 'B' || *end == 'b') end++;
    }
    if (*end || !isfinite(x) || x >= 9.2e18) return false;
    *out = (uint64_t)x;
    return true;
}

static bool add_text(struct text_list *l, const char *text)
{
    const char **more = realloc(l->item, (l->count + 1) * sizeof *more);
    if (!more) return false;
    l->item = more;
    l->item[l->count++] = text;
    return true;
}

static int store(const struct command *c, const struct option *o, const char *value, void *settings)
{
    char *at = (char *)settings + o->offset;
    bool good = true;
    const char *wanted = "";
    switch (o->type) {
    case OPTION_FLAG: *(bool *)at = true; break;
    case OPTION_TEXT: *(const char **)at = value; break;
    case OPTION_LIST: good = add_text((struct text_list *)(void *)at, value); break;
    case OPTION_COUNT:
        good = parse_count(value, (size_t *)(void *)at);
        wanted = "a whole number";
        break;
    case OPTION_SIZE:
        good = parse_size(value, (uint64_t *)(void *)at);
        wanted = "a size such as 6G";
        break;
    case OPTION_REAL:
        good = parse_real(value, (double *)(void *)at);
        wanted = "a number";
        break;
    }
    if (good) return EXIT_DONE;
    fprintf(stderr, "pith %s: --%s %s: expected %s\n", c->name, o->name, value, wanted);
    return EXIT_USAGE;
}

/* One argument that begins with '-'; *i moves past a value taken from the next one. */
static int parse_one(const struct command *c, int argc, char **argv, int *i, void *settings)
{
    const char *word = argv[*i];
    const bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const size_t length = equals ? (size_t)(equals - word - 2) : strlen(word) - 2;
    const struct option *o = is_long ? find(c, word + 2, length, 0) : find(c, NULL, 0, word[1]);
    const char *value = equals ? equals + 1 : NULL;
    if (!o) return unknown(c, word);
    if (!is_long && word[2] != '\0') {
        if (o->type == OPTION_FLAG) return unknown(c, word);
        value = word + 2;
    }
    if (o->type == OPTION_FLAG && value) {
        fprintf(stderr, "pith %s: --%s takes no value\n", c->name, o->name);
        return EXIT_USAGE;
    }
    if (o->type != OPTION_FLAG && !value) {
        if (*i + 1 >= argc) {
            fprintf(stderr, "pith %s: --%s needs a value (%s)\n", c->name, o->name, o->arg);
            return EXIT_USAGE;
        }
        value = argv[++*i];
    }
    return store(c, o, value, settings);
}

/* The operand that is missing is the next word of the usage line. */
static void missing(const struct command *c, size_t given)
{
    const char *word = c->operands;
    for (; given > 0; given--) word += strcspn(word, " ") + 1;
    fprintf(stderr, "pith %s: an argument is missing: %.*s\n", c->name, (int)strcspn(word, " ."),
            word);
}

int parse_options(const struct command *c, int argc, char **argv, void *settings,
                  struct text_list *operands)
{
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            const int rc = parse_one(c, argc, argv, &i, settings);
            if (rc != EXIT_DONE) return rc;
        } else if (!add_text(operands, argv[i])) {
            return EXIT_USAGE;
        }
    }
    if (((const struct common *)settings)->help) return EXIT_DONE;
    if (operands->count < c->min_operands || operands->count > c->max_operands) {
        if (operands->count > c->max_operands)
            fprintf(stderr, "pith %s: unexpected argument '%s'\n", c->name,
                    operands->item[c->max_operands]);
        else missing(c, operands->count);
        fprintf(stderr, "usage: pith %s %s\nTry 'pith %s --help'.\n", c->name, c->operands,
                c->name);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

void free_options(const struct command *c, void *settings, struct text_list *operands)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].type == OPTION_LIST)
            free(((struct text_list *)(void *)((char *)settings + c->options[i].offset))->item);
    free(operands->item);
    free(settings);
}

struct pith_list as_list(const struct text_list *l)
{
    return (struct pith_list){l->item, l->count};
}
