/* Parsing of options from a command's table. */
#include "cli/command.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_OPTIONS = 64, LEAST_BYTES = 1024 };

union value {
    const char *text;
    size_t count;
    uint64_t size;
    double real;
};

#define ANY NULL, false
#define NOW(bounds) bounds, true
#define THEN(bounds) bounds, false
#define NO NULL, NULL
#define WITHOUT(option) option, NULL
#define WITH(options) NULL, options
#define PITH_OPTION(id, name, letter, type, bounds, idle, field, arg, preset, help)                \
    {name, letter, OPTION_##type, bounds, idle, field, arg, preset, help},
const struct option_row option_rows[OPTION_ROWS] = {
#include "cli/options.def"
};
#undef PITH_OPTION
#undef ANY
#undef NOW
#undef THEN
#undef NO
#undef WITHOUT
#undef WITH

#define AT(field) offsetof(struct common, field)
const struct option common_options[] = {
    OPTION(json, AT(json)),     OPTION(quiet, AT(quiet)), OPTION(threads, AT(threads)),
    OPTION(seed_all, AT(seed)), OPTION(cpu, AT(cpu)),     OPTION(ranks, AT(ranks)),
    OPTION(help, AT(help)),
};
const size_t common_option_count = sizeof common_options / sizeof common_options[0];

static const struct option *option_at(const struct command *c, size_t i)
{
    return i < c->option_count ? &c->options[i] : &common_options[i - c->option_count];
}

static const struct option *find(const struct command *c, const char *name, size_t length,
                                 char letter)
{
    for (size_t i = 0; i < c->option_count + common_option_count; i++) {
        const struct option *o = option_at(c, i);
        if (letter ? o->row->letter == letter
                   : strlen(o->row->name) == length && strncasecmp(o->row->name, name, length) == 0)
            return o;
    }
    return NULL;
}

/* What another program calls so: our name, "" for the model, NULL where it is nothing here. */
static const char *foreign(const struct command *c, const char *word)
{
    static const struct {
        const char *theirs, *ours;
    } rows[] = {
#define PITH_FOREIGN(theirs, ours) {theirs, ours},
#include "cli/foreign.def"
#undef PITH_FOREIGN
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].theirs, word) != 0) continue;
        const char *ours = rows[i].ours;
        if (!*ours) return c->operands && strncmp(c->operands, "MODEL", 5) == 0 ? ours : NULL;
        return find(c, ours, strlen(ours), 0) ? ours : NULL;
    }
    return NULL;
}

static int unknown(const struct common *common, const char *word)
{
    const struct command *c = common->command;
    const char *names[MOST_OPTIONS], *near = NULL;
    char bare[64];
    size_t count = 0;
    for (size_t i = 0; i < c->option_count + common_option_count && count < MOST_OPTIONS; i++)
        names[count++] = option_at(c, i)->row->name;
    const bool is_long = word[0] == '-' && word[1] == '-';
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word, "="), word);
    const char *ours = foreign(c, bare);
    if (ours && !*ours)
        return usage_failure(common, "unknown option %s; the model stands alone: pith %s MODEL",
                             bare, c->name);
    if (ours) near = ours;
    else if (is_long) near = pith_name_nearest(bare + 2, names, count);
    return usage_failure(common, "unknown option %s%s%s%s\nTry 'pith %s --help'.", bare,
                         near ? "; did you mean --" : "", near ? near : "", near ? "?" : "",
                         c->name);
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !isfinite(x)) return false;
    *out = x;
    return true;
}

static bool parse_count(const char *text, size_t *out)
{
    uint64_t n;
    if (!pith_number_parse(text, &n) || n > SIZE_MAX) return false;
    *out = (size_t)n;
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

/* A number that was stored: it says what it means. */
static int check_number(const struct option *o, const char *value, const struct common *settings)
{
    const struct option_row *row = o->row;
    const double n = number_of(o, settings);
    if (row->bounds && row->at_once && !in_bounds(row->bounds, n))
        return usage_failure(settings, "--%s %s: %s", row->name, value, row->bounds);
    if (row->type == OPTION_SIZE && n > 0 && n < LEAST_BYTES)
        return usage_failure(settings, "--%s %s: %.0f byte%s; sizes are written 512M, 6G",
                             row->name, value, n, n == 1 ? "" : "s");
    return EXIT_DONE;
}

static int store(const struct option *o, const char *value, struct common *settings)
{
    char *at = (char *)settings + o->offset;
    bool good = true;
    const char *wanted = "";
    switch (o->row->type) {
    case OPTION_FLAG: *(bool *)at = true; break;
    case OPTION_TEXT:
    case OPTION_MODEL: *(const char **)(void *)at = value; break;
    case OPTION_LIST: good = add_text((struct text_list *)(void *)at, value); break;
    case OPTION_COUNT:
        good = parse_count(value, (size_t *)(void *)at);
        wanted = "a whole number, such as 512 or 128k";
        break;
    case OPTION_SIZE:
        good = pith_number_parse(value, (uint64_t *)(void *)at);
        wanted = "a size such as 6G";
        break;
    case OPTION_REAL:
        good = parse_real(value, (double *)(void *)at);
        wanted = "a number";
        break;
    }
    if (!good) return usage_failure(settings, "--%s %s: expected %s", o->row->name, value, wanted);
    return check_number(o, value, settings);
}

/* The bit of an option in `given` and `replaced`: the command's from below, those of all from
 * above. */
static uint64_t bit_of(const struct command *c, const struct option *o)
{
    const bool own = o >= c->options && o < c->options + c->option_count;
    return (uint64_t)1 << (own ? o - c->options : MOST_OPTIONS - 1 - (o - common_options));
}

const struct option *find_option(const struct command *c, const char *name)
{
    return find(c, name, strlen(name), 0);
}

bool given(const struct common *common, const char *name)
{
    const struct option *o = common->command ? find_option(common->command, name) : NULL;
    return o && (common->given & bit_of(common->command, o));
}

/* Whether two values of an option are one: texts as texts, numbers as they are stored. */
static bool same_value(const struct option *o, const union value *a, const union value *b)
{
    if (o->row->type == OPTION_TEXT || o->row->type == OPTION_MODEL)
        return strcmp(a->text, b->text) == 0;
    return memcmp(a, b, sizeof *a) == 0;
}

static void fetch(const struct option *o, const struct common *settings, union value *out)
{
    static const size_t sizes[] = {[OPTION_TEXT] = sizeof(char *),
                                   [OPTION_COUNT] = sizeof(size_t),
                                   [OPTION_SIZE] = sizeof(uint64_t),
                                   [OPTION_REAL] = sizeof(double),
                                   [OPTION_MODEL] = sizeof(char *)};
    memset(out, 0, sizeof *out);
    memcpy(out, (const char *)settings + o->offset, sizes[o->row->type]);
}

/* Takes a value; an earlier one of the same option that it takes the place of is noted. */
static int take(const struct option *o, const char *value, struct common *common)
{
    const uint64_t bit = bit_of(common->command, o);
    const bool alone = o->row->type != OPTION_FLAG && o->row->type != OPTION_LIST;
    const bool again = alone && (common->given & bit);
    union value before, after;
    if (again) fetch(o, common, &before);
    common->given |= bit;
    const int rc = store(o, value, common);
    if (rc != EXIT_DONE || !again) return rc;
    fetch(o, common, &after);
    if (!same_value(o, &before, &after)) common->replaced |= bit;
    return rc;
}

/* What was typed and changes nothing, though no command refuses it. */
static void say_idle(const struct common *common)
{
    const struct command *c = common->command;
    for (size_t i = 0; i < c->option_count + common_option_count; i++)
        if (common->replaced & bit_of(c, option_at(c, i)))
            say(common, "--%s is given more than once: the last one counts",
                option_at(c, i)->row->name);
    if (c->plain && given(common, "seed"))
        say(common, "--seed does nothing: nothing of 'pith %s' is random", c->name);
}

/* One argument that begins with '-'; *i moves past a value taken from the next one. */
static int parse_one(const struct command *c, int argc, char **argv, int *i,
                     struct common *settings)
{
    const char *word = argv[*i];
    const bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const size_t length = equals ? (size_t)(equals - word - 2) : strlen(word) - 2;
    const struct option *o = is_long ? find(c, word + 2, length, 0) : find(c, NULL, 0, word[1]);
    const char *value = equals ? equals + 1 : NULL;
    if (!o) return unknown(settings, word);
    if (!is_long && word[2] != '\0') {
        if (o->row->type == OPTION_FLAG) return unknown(settings, word);
        value = word + 2;
    }
    if (o->row->type == OPTION_FLAG && value)
        return usage_failure(settings, "--%s takes no value", o->row->name);
    if (o->row->type != OPTION_FLAG && !value) {
        if (*i + 1 >= argc)
            return usage_failure(settings, "--%s needs a value (%s)", o->row->name, o->row->arg);
        value = argv[++*i];
    }
    return take(o, value, settings);
}

/* Wrong usage is reported as JSON too, wherever --json stands. */
static bool wants_json(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (pith_name_equal(argv[i], "--json")) return true;
    return false;
}

static int wrong_operands(const struct common *common)
{
    const struct command *c = common->command;
    const struct text_list *operands = common->operands;
    const char *word = c->operands;
    if (operands->count > c->max_operands)
        return usage_failure(common,
                             "unexpected argument '%s'%s%s%s\nusage: pith %s %s\n"
                             "Try 'pith %s --help'.",
                             operands->item[c->max_operands], c->extra ? "; did you mean " : "",
                             c->extra ? c->extra : "", c->extra ? "?" : "", c->name, c->operands,
                             c->name);
    /* The operand that is missing is the next word of the usage line. */
    for (size_t n = operands->count; n > 0; n--) word += strcspn(word, " ") + 1;
    return usage_failure(common,
                         "an argument is missing: %.*s\nusage: pith %s %s\n"
                         "Try 'pith %s --help'.",
                         (int)strcspn(word, " ."), word, c->name, c->operands, c->name);
}

int parse_options(const struct command *c, int argc, char **argv, void *settings,
                  struct text_list *operands)
{
    struct common *common = settings;
    bool only_operands = false;
    common->command = c;
    common->operands = operands;
    common->json = wants_json(argc, argv);
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            const int rc = parse_one(c, argc, argv, &i, common);
            if (rc != EXIT_DONE) return rc;
        } else if (!add_text(operands, argv[i])) {
            const struct pith_error err = {PITH_NOMEM, ""};
            return report_failure(common, &err);
        }
    }
    if (common->help) return EXIT_DONE;
    if (operands->count < c->min_operands || operands->count > c->max_operands)
        return wrong_operands(common);
    say_idle(common);
    return EXIT_DONE;
}

void free_options(const struct command *c, void *settings, struct text_list *operands)
{
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].row->type == OPTION_LIST)
            free(((struct text_list *)(void *)((char *)settings + c->options[i].offset))->item);
    free(operands->item);
    free(settings);
}

struct pith_list as_list(const struct text_list *l)
{
    return (struct pith_list){l->item, l->count};
}

bool names_gguf(const char *out)
{
    const size_t n = strlen(out);
    return n > 5 && strcmp(out + n - 5, ".gguf") == 0;
}
