/* Fields that the library's messages name, as the options that set them. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

/* What the option of that field is called, or NULL: it is called as the field. */
static const char *name_in_table(const struct command *c, const char *field)
{
    static const struct {
        const char *command, *field, *option;
    } rows[] = {
#define PITH_FIELD(command, field, option) {command, field, option},
#include "cli/fields.def"
#undef PITH_FIELD
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].field, field) == 0 &&
            (!*rows[i].command || (c && strcmp(rows[i].command, c->name) == 0)))
            return rows[i].option;
    return NULL;
}

/* The command's own option of that name, or else any command's. */
static const struct option *option_of_field(const struct command *c, const char *field)
{
    char name[64];
    size_t count;
    const char *as = name_in_table(c, field);
    snprintf(name, sizeof name, "%s", as ? as : field);
    for (char *p = name; *p; p++)
        if (*p == '_') *p = '-';
    const struct option *o = c ? find_option(c, name) : NULL;
    const struct command *const *all = commands(&count);
    for (size_t i = 0; !o && i < count; i++) o = find_option(all[i], name);
    return o;
}

/* `memory` is --memory; `recipe=auto` is -r auto, `round=gptq` --round gptq. */
static int show_option(void *ctx, const char *field, const char *value, char *shown, size_t room)
{
    const struct common *common = ctx;
    const struct option *o = option_of_field(common->command, field);
    if (!o) return 0;
    if (value && o->letter) snprintf(shown, room, "-%c %s", o->letter, value);
    else snprintf(shown, room, "--%s%s%s", o->name, value ? " " : "", value ? value : "");
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

void name_options_of(const struct common *common, char **report)
{
    char *named = *report ? name_options(common, *report) : NULL;
    if (!named) return;
    pith_text_free(*report);
    *report = named;
}
