/* --help, the overview and the man page, from the tables. */
#include "cli/command.h"
#include "cli/wrap.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 80, INDENT = 26 };

/* Help is as wide as is easy to read, or as the terminal is. */
static size_t help_width(void)
{
    const size_t terminal = terminal_width(STDOUT_FILENO);
    return terminal > 0 && terminal < WIDTH ? terminal : WIDTH;
}

void option_help(const struct option *o, char text[OPTION_HELP])
{
    const char *preset = o->row->preset;
    snprintf(text, OPTION_HELP, "%s%s%s%s%s", o->row->help, preset ? " (default" : "",
             preset && preset[0] != ':' ? " " : "", preset ? preset : "", preset ? ")" : "");
}

static void print_option(const struct option *o)
{
    char head[64], text[OPTION_HELP];
    const char *arg = o->row->arg ? o->row->arg : "";
    if (o->row->letter)
        snprintf(head, sizeof head, "  -%c, --%s %s", o->row->letter, o->row->name, arg);
    else snprintf(head, sizeof head, "      --%s %s", o->row->name, arg);
    const int n = printf("%s", head);
    if (n >= INDENT) printf("\n%*s", INDENT, "");
    else printf("%*s", INDENT - n, "");
    option_help(o, text);
    print_wrapped(text, INDENT, INDENT, help_width());
}

/* A line of a list, "  name   what it is": its second column is wrapped. */
static void print_item(const char *line)
{
    size_t at = strspn(line, " ");
    const char *gap = strstr(line + at, "  ");
    if (gap) at = (size_t)(gap - line) + strspn(gap, " ");
    printf("%.*s", (int)at, line);
    print_wrapped(line + at, at, at, help_width());
}

/* Paragraphs, set anew to the width; lines that begin with a blank are items of a list. */
static void print_details(const char *text)
{
    char paragraph[2048] = "", line[256];
    while (*text) {
        const size_t n = strcspn(text, "\n"), used = strlen(paragraph);
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        const bool plain_line = n > 0 && line[0] != ' ';
        if (plain_line)
            snprintf(paragraph + used, sizeof paragraph - used, "%s%s", used ? " " : "", line);
        text += n + (text[n] == '\n');
        if (paragraph[0] && (!plain_line || !*text)) {
            print_wrapped(paragraph, 0, 0, help_width());
            paragraph[0] = '\0';
        }
        if (n == 0) putchar('\n');
        else if (!plain_line) print_item(line);
    }
}

void print_help(const struct command *c)
{
    char head[256];
    snprintf(head, sizeof head, "pith %s: %s", c->name, c->summary);
    print_wrapped(head, 0, 2, help_width());
    printf("\nusage: pith %s %s\n\nexamples:\n%s", c->name, c->operands, c->examples);
    if (c->option_count) printf("\noptions:\n");
    for (size_t i = 0; i < c->option_count; i++) print_option(&c->options[i]);
    printf("\noptions of every command:\n");
    for (size_t i = 0; i < common_option_count; i++) print_option(&common_options[i]);
    if (!c->details) return;
    putchar('\n');
    print_details(c->details);
}

void print_overview(void)
{
    size_t count;
    const struct command *const *list = commands(&count);
    printf("pith %s: a language model in fewer bits, with proof of what it cost\n\n"
           "usage: pith COMMAND [options]\n\ncommands:\n",
           pith_version());
    for (size_t i = 0; i < count; i++) printf("  %-10s %s\n", list[i]->name, list[i]->summary);
    printf("\nfirst steps:\n"
           "  pith quantize MODEL -o OUT        quantize a checkpoint folder (recipe: awq)\n"
           "  pith verify OUT --against MODEL   prove that OUT is complete and correct\n"
           "  pith eval OUT --baseline MODEL --text FILE\n"
           "  pith run OUT -p \"Once upon a time\"\n\n"
           "'pith COMMAND --help' explains a command; 'pith --version' names this build.\n"
           "names are taken in any case; counts and sizes as 512, 128k, 6G (powers of 1024)\n"
           "exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted\n");
}

/* Roff needs '-' and leading '.' escaped. */
static void print_roff(const char *text)
{
    for (const char *p = text; *p; p++) {
        if (*p == '-') fputs("\\-", stdout);
        else if (*p == '\\') fputs("\\e", stdout);
        else if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n')) printf("\\&%c", *p);
        else putchar(*p);
    }
}

static void print_man_options(const struct option *list, size_t count)
{
    char text[OPTION_HELP];
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n");
        if (list[i].row->letter) printf("\\fB\\-%c\\fR, ", list[i].row->letter);
        printf("\\fB\\-\\-");
        print_roff(list[i].row->name);
        printf("\\fR %s\n", list[i].row->arg ? list[i].row->arg : "");
        option_help(&list[i], text);
        print_roff(text);
        putchar('\n');
    }
}

void print_man(void)
{
    size_t count;
    const struct command *const *list = commands(&count);
    printf(
        ".TH PITH 1 \"\" \"pith %s\" \"User Commands\"\n.SH NAME\n"
        "pith \\- a language model in fewer bits, with proof of what it cost\n"
        ".SH SYNOPSIS\n.B pith\nCOMMAND [options]\n"
        ".SH DESCRIPTION\nReads a folder with a Hugging Face checkpoint and writes another with "
        "the same model in\nfewer bits, in a container that inference engines load. Every tensor "
        "is accounted for in\n.IR pith.json ;\nwhat was written is read back and compared; what "
        "it cost is measured against the original.\n.SH COMMANDS\n",
        pith_version());
    for (size_t i = 0; i < count; i++) {
        const struct command *c = list[i];
        printf(".SS pith %s ", c->name);
        print_roff(c->operands);
        printf("\n");
        for (const char *p = c->summary; *p; p++)
            putchar(p == c->summary ? toupper((unsigned char)*p) : *p);
        printf(".\n");
        print_man_options(c->options, c->option_count);
        printf(".PP\nExamples:\n.PP\n.nf\n");
        print_roff(c->examples);
        printf(".fi\n");
        if (c->details) {
            printf(".PP\n.nf\n");
            print_roff(c->details);
            printf(".fi\n");
        }
    }
    printf(".SH OPTIONS OF EVERY COMMAND\n");
    print_man_options(common_options, common_option_count);
    printf(
        ".SH NUMBERS\nCounts and sizes are digits, or with k, M, G or T, powers of 1024: 128k "
        "is 131072\ntokens, 6G is 6442450944 bytes. Names are taken in any case.\n"
        ".SH EXIT STATUS\n0 done; 1 failed, the message says what, where and what to do; 2 wrong "
        "usage;\n"
        "130 interrupted.\n.SH ENVIRONMENT\n.TP\nNO_COLOR\nNo colours when set and not empty.\n"
        ".TP\nHF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME\nWhere models that are given by name are "
        "looked up, and where\n.B pith pull\nputs them.\n"
        ".TP\nHF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE\nWhom\n.B pith pull\nasks, as "
        "whom, and whether at all.\n");
}
