/* cli/choices.h: the words that an option or an operand takes, where they are a list. */
#ifndef PITH_CLI_CHOICES_H
#define PITH_CLI_CHOICES_H

#include "cli/command.h"

enum { CHOICES_ROOM = 4096, CHOICES_SOURCES = 9 };

/* The names that the library lists, each list read once. Start with {0}. */
struct choice_names {
    char *of[CHOICES_SOURCES]; /* owned: names with blanks between them; NULL: not read yet */
};
void free_choice_names(struct choice_names *names);

/* What a value is, for completing it. */
enum value_kind {
    VALUE_OTHER, /* a number, a grid, a text */
    VALUE_FILE,
    VALUE_FOLDER,
    VALUE_WORD /* one of some words, though other values may be taken too */
};

/* Of an option of that command, or with option NULL of its operands. For VALUE_WORD the words stand
 * in words, with blanks between them; else that is "". */
enum value_kind find_choices(struct choice_names *names, const struct command *c,
                             const struct option *option, char words[CHOICES_ROOM]);

#endif
