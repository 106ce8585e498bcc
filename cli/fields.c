/* Fields that the library's messages name, as the options that set them. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* Whether a row sets that field: one of its words. */
static bool sets(const struct option_row *row, const char *field)
{
    const size_t n = strlen(field);
    for (const char *at = row->field; at && *at;) {
        const size_t word = strcspn(at, " ");
        if (word == n && strncmp(at, field, n) == 0) return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

/* The option of that field: the command's own, or one of every command; else any that has the
 * field's name, or any that sets it. */
static const struct option_row *row_of_field(const struct command *c, const char *field)
{
    const struct option_row *other = NULL;
    for (size_t i = 0; c && i < c->option_count; i++)
        if (sets(c->options[i].row, field)) return c->options[i].row;
    for (size_t i = 0; i < common_option_count; i++)
        if (sets(common_options[i].row, field)) return common_options[i].row;
    for (size_t i = 0; i < OPTION_ROWS; i++) {
        const struct option_row *row = &option_rows[i];
        if (!sets(row, field)) continue;
        if (strcspn(row->name, "-") == strcspn(field, "_") && strlen(row->name) == strlen(field))
            return row;
        if (!other) other = row;
    }
    return other;
}

int show_option(void *ctx, const char *field, const char *value, char *shown, size_t room)
{
    const struct common *common = ctx;
    const struct option_row *row = row_of_field(common->command, field);
    if (!row) return 0;
    if (value && row->letter) snprintf(shown, room, "-%c %s", row->letter, value);
    else snprintf(shown, room, "--%s%s%s", row->name, value ? " " : "", value ? value : "");
    return 1;
}

char *name_options(const struct common *common, const char *text)
{
    return pith_fields_show(text, show_option, (void *)(uintptr_t)common);
}

void name_options_in(const struct common *common, const char *from, char *text, size_t room)
{
    char *named = name_options(common, from);
    snprintf(text, room, "%s", named ? named : from);
    pith_text_free(named);
}
