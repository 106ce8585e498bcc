/* --help, the overview and the man page, from the tables. */
#include "cli/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 80, INDENT = 26 };

/* Prints text wrapped to WIDTH columns, continuation lines indented. */
static void print_wrapped(const char *text, int column, int indent)
{
    for (bool first = true; *text; first = false) {
        const int word = (int)strcspn(text, " ");
        if (!first && column + 1 + word > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", word, text);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const struct option *o)
{
    char head[64];
    const char *arg = o->arg ? o->arg : "";
    if (o->letter) snprintf(head, sizeof head, "  -%c, --%s %s", o->letter, o->name, arg);
    else snprintf(head, sizeof head, "      --%s %s", o->name, arg);
    const int n = printf("%s", head);
    if (n >= INDENT) printf("\n%*s", INDENT, "");
    else printf("%*s", INDENT - n, "");
    print_wrapped(o->help, INDENT, INDENT);
}

void print_help(const struct command *c)
{
    printf("pith %s: %s\n\nusage: pith %s %s\n\nexamples:\n%s", c->name, c->summary, c->name,
           c->operands, c->examples);
    if (c->option_count) printf("\noptions:\n");
    for (size_t i = 0; i < c->option_count; i++) print_option(&c->options[i]);
    printf("\noptions of every command:\n");
    for (size_t i = 0; i < common_option_count; i++) print_option(&common_options[i]);
    if (c->details) printf("\n%s", c->details);
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
           "  pith verify OUT --against MODEL   prove that OUT is what was asked for\n"
           "  pith eval OUT --baseline MODEL --text FILE\n"
           "  pith run OUT -p \"Once upon a time\"\n\n"
           "'pith COMMAND --help' explains a command; 'pith --version' names this build.\n"
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
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n");
        if (list[i].letter) printf("\\fB\\-%c\\fR, ", list[i].letter);
        printf("\\fB\\-\\-");
        print_roff(list[i].name);
        printf("\\fR %s\n", list[i].arg ? list[i].arg : "");
        print_roff(list[i].help);
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
        ".SH EXIT STATUS\n0 done; 1 failed, the message says what, where and what to do; 2 wrong "
        "usage;\n"
        "130 interrupted.\n.SH ENVIRONMENT\n.TP\nNO_COLOR\nNo colours when set and not empty.\n");
}
