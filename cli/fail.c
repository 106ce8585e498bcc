/* The message when something fails: a line for people, an object for programs. */
#include "cli/command.h"
#include "cli/wrap.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The longest text given for an option that the message quotes: "--recipe". False: none. */
static bool name_option(const struct common *common, const char *text, char where[256])
{
    const struct command *c = common->command;
    size_t longest = 1;
    for (size_t i = 0; c && i < c->option_count; i++) {
        const struct option *o = &c->options[i];
        const char *at = (const char *)common + o->offset;
        const struct text_list one = {(const char **)(uintptr_t)at, 1};
        if (!(common->given >> i & 1)) continue;
        if (o->row->type != OPTION_TEXT && o->row->type != OPTION_LIST &&
            o->row->type != OPTION_MODEL)
            continue;
        const struct text_list *values =
            o->row->type == OPTION_LIST ? (const struct text_list *)(const void *)at : &one;
        for (size_t k = 0; k < values->count; k++) {
            const size_t n = strlen(values->item[k]);
            if (n <= longest || !strstr(text, values->item[k])) continue;
            longest = n;
            snprintf(where, 256, "--%s", o->row->name);
        }
    }
    return longest > 1;
}

/* The file of an operand that the message names, as far as the message does. */
static bool name_file(const struct common *common, const char *text, char where[256])
{
    for (size_t i = 0; common->operands && i < common->operands->count; i++) {
        const char *at = strstr(text, common->operands->item[i]);
        if (!at || common->operands->item[i][0] == '\0') continue;
        const size_t n = strlen(common->operands->item[i]);
        const size_t more = at[n] == '/' ? strcspn(at + n, ": \"") : 0;
        snprintf(where, 256, "%.*s", (int)(n + more), at);
        return true;
    }
    return false;
}

/* {"error": {"status", "what", "where"}}: where is an option, a file, or else the command. */
static void print_object(const struct common *common, const char *status, const char *message)
{
    char where[256], text[1024];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(message, "\n"), message);
    if (!name_file(common, text, where) && !name_option(common, text, where))
        snprintf(where, sizeof where, "pith %s", common->command ? common->command->name : "");
    json_t *j =
        json_pack("{s:{s:s, s:s, s:s}}", "error", "status", status, "what", text, "where", where);
    if (!j) /* text that is not UTF-8 */
        j = json_pack("{s:{s:s, s:s, s:s}}", "error", "status", status, "what",
                      "see standard error", "where", "");
    if (j) {
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(j);
}

/* "WHO: text" on standard error; at a terminal its first line is broken between words. */
static void print_message(const char *who, const char *text)
{
    const size_t width = terminal_width(STDERR_FILENO), n = strcspn(text, "\n");
    char first[1024];
    fprintf(stderr, "%s: ", who);
    snprintf(first, sizeof first, "%.*s", (int)n, text);
    if (width && n < sizeof first)
        write_wrapped(stderr, first, strlen(who) + 2, (struct wrap){2, width});
    else fprintf(stderr, "%.*s\n", (int)n, text);
    if (text[n]) fprintf(stderr, "%s\n", text + n + 1);
}

/* Rank 0 speaks for all; when it is gone, rank 1 says that. A launcher interrupts the others then.
 */
static void look_for_first(const struct common *common, const struct pith_error *err)
{
    if (err->status != PITH_INTERRUPTED || pith_context_rank(common->joined) != 1) return;
    if (!pith_context_answers(common->joined))
        print_message("pith", "rank 0 does not answer: it was killed, or its machine cannot be"
                              " reached; finished work is stored, --resume goes on");
}

/* What only a model, or what lies on the disk, shows to be wrong usage is wrong usage too. */
int report_failure(const struct common *common, const struct pith_error *err)
{
    if (common->follows) {
        look_for_first(common, err);
        return err->status == PITH_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_FAILED;
    }
    if (err->status == PITH_ARG) return usage_failure(common, "%s", err->text);
    char text[1024];
    name_options_in(common, err->text[0] ? err->text : pith_status_text(err->status), text,
                    sizeof text);
    if (common->json) print_object(common, pith_status_text(err->status), text);
    print_message("pith", text);
    return err->status == PITH_INTERRUPTED ? EXIT_INTERRUPTED : EXIT_FAILED;
}

int report_usage(const struct common *common, const struct pith_error *err)
{
    if (err->status == PITH_NOMEM || err->status == PITH_IO) return report_failure(common, err);
    return usage_failure(common, "%s", err->text);
}

int usage_failure(const struct common *common, const char *format, ...)
{
    char from[1024], text[1024];
    const struct command *c = common->command;
    va_list ap;
    va_start(ap, format);
    vsnprintf(from, sizeof from, format, ap);
    va_end(ap);
    name_options_in(common, from, text, sizeof text);
    if (common->json) print_object(common, "wrong usage", text);
    char who[48];
    snprintf(who, sizeof who, "pith %s", c ? c->name : "");
    print_message(who, text);
    return EXIT_USAGE;
}

void say(const struct common *common, const char *format, ...)
{
    char from[1024], text[1024];
    va_list ap;
    if (common->quiet) return;
    va_start(ap, format);
    vsnprintf(from, sizeof from, format, ap);
    va_end(ap);
    name_options_in(common, from, text, sizeof text);
    print_message("pith", text);
}
