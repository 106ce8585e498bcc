/* pith completion: what a shell reads to complete commands, options and their values, from the
 * tables that --help is made of. */
#include "cli/choices.h"
#include "cli/command.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common common;
};

/* What is written, and the names in it. */
struct script {
    FILE *out;
    struct choice_names *names;
};

/* --- for all shells --------------------------------------------------------------------------- */

/* The i-th option of a command, those of all commands behind its own and without those that it has
 * too; NULL behind the last. */
static const struct option *option_of(const struct command *c, size_t i)
{
    if (i < c->option_count) return &c->options[i];
    for (size_t k = 0, left = i - c->option_count; k < common_option_count; k++)
        if (find_option(c, common_options[k].row->name) == &common_options[k] && left-- == 0)
            return &common_options[k];
    return NULL;
}

/* The first clause of a help text, which a shell shows next to a name; without a default inside it,
 * but "exact (default) or fast" is whole. */
static void brief(const char *help, char text[256])
{
    static const char *const presets[] = {" (default ", " (default: "};
    size_t n = strcspn(help, ";");
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        const char *at = strstr(help, presets[i]);
        if (at && (size_t)(at - help) < n) n = (size_t)(at - help);
    }
    snprintf(text, 256, "%.*s", (int)n, help);
}

/* Within single quotes of a shell; `escaped` get a backslash, which zsh and fish want. */
static void put_quoted(struct script *to, const char *text, const char *quote, const char *escaped)
{
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            fputs(quote, to->out);
            continue;
        }
        if (strchr(escaped, *p)) putc('\\', to->out);
        putc(*p, to->out);
    }
}

static void put_commands(struct script *to)
{
    size_t count;
    const struct command *const *list = commands(&count);
    for (size_t i = 0; i < count; i++) fprintf(to->out, "%s%s", i ? " " : "", list[i]->name);
}

/* --- bash ------------------------------------------------------------------------------------- */

/* A pattern of what a value stands behind: "quantize --recipe" | "quantize -r". */
static void put_bash_value(struct script *to, const struct command *c, const struct option *o)
{
    char words[CHOICES_ROOM];
    const enum value_kind kind = find_choices(to->names, c, o, words);
    fprintf(to->out, "    '%s --%s'", c->name, o->row->name);
    if (o->row->letter) fprintf(to->out, "|'%s -%c'", c->name, o->row->letter);
    if (kind == VALUE_FILE) fprintf(to->out, ") return ;;\n");
    else if (kind == VALUE_FOLDER) fprintf(to->out, ") words='' folders=1 value=1 ;;\n");
    else fprintf(to->out, ") words='%s' value=1 ;;\n", words);
}

static void put_bash_command(struct script *to, const struct command *c)
{
    char words[CHOICES_ROOM];
    const struct option *o;
    fprintf(to->out, "    %s) words='", c->name);
    for (size_t i = 0; (o = option_of(c, i)); i++)
        fprintf(to->out, "%s--%s", i ? " " : "", o->row->name);
    const enum value_kind kind = find_choices(to->names, c, NULL, words);
    fprintf(to->out, "'; operands='%s'; files=%d ;;\n", words,
            kind == VALUE_FILE || kind == VALUE_FOLDER);
}

static void write_bash(struct script *to)
{
    size_t count;
    const struct command *const *list = commands(&count);
    const struct option *o;
    fprintf(to->out, "# bash completion for pith\n"
                     "_pith() {\n"
                     "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "  local command=${COMP_WORDS[1]} words= operands= files=0 folders= value=\n"
                     "  COMPREPLY=()\n"
                     "  if [ \"$cur\" = = ]; then cur=\n"
                     "  elif [ \"$prev\" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                     "    COMPREPLY=($(compgen -W '");
    put_commands(to);
    fprintf(to->out, " help --help --version' -- \"$cur\"))\n"
                     "    return\n"
                     "  fi\n"
                     "  case \"$command $prev\" in\n");
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; (o = option_of(list[i], k)); k++)
            if (o->row->type != OPTION_FLAG) put_bash_value(to, list[i], o);
    fprintf(to->out, "  esac\n"
                     "  if [ -z \"$value\" ]; then\n"
                     "    case $command in\n");
    for (size_t i = 0; i < count; i++) put_bash_command(to, list[i]);
    fprintf(to->out, "    help) operands='");
    put_commands(to);
    fprintf(to->out, "' ;;\n"
                     "    esac\n"
                     "    case $cur in -*) ;; *)\n"
                     "      [ \"$files\" = 0 ] || return\n"
                     "      words=$operands ;;\n"
                     "    esac\n"
                     "  fi\n"
                     "  compopt +o default 2>/dev/null\n"
                     "  if [ -n \"$folders\" ]; then\n"
                     "    compopt -o filenames 2>/dev/null\n"
                     "    mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
                     "  else COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); fi\n"
                     "}\n"
                     "complete -o default -F _pith pith\n");
}

/* --- zsh -------------------------------------------------------------------------------------- */

static void put_zsh_action(struct script *to, enum value_kind kind, const char *words)
{
    if (kind == VALUE_WORD) {
        fputs("(", to->out);
        put_quoted(to, words, "'\\''", ":\\");
        fputs(")", to->out);
    } else if (kind != VALUE_OTHER) {
        fputs(kind == VALUE_FOLDER ? "_files -/" : "_files", to->out);
    } else {
        putc(' ', to->out);
    }
}

/* '(-o --out)'{-o+,--out=}'[folder to make]:DIR:_files -/' */
static void put_zsh_option(struct script *to, const struct command *c, const struct option *o)
{
    char words[CHOICES_ROOM], text[256];
    const bool takes = o->row->type != OPTION_FLAG;
    const char *again = o->row->type == OPTION_LIST ? "*" : "";
    brief(o->row->help, text);
    fprintf(to->out, "      ");
    if (o->row->letter && !*again) fprintf(to->out, "'(-%c --%s)'", o->row->letter, o->row->name);
    else fprintf(to->out, "'%s'", again);
    if (o->row->letter)
        fprintf(to->out, "{-%c%s,--%s%s}'[", o->row->letter, takes ? "+" : "", o->row->name,
                takes ? "=" : "");
    else fprintf(to->out, "'--%s%s[", o->row->name, takes ? "=" : "");
    put_quoted(to, text, "'\\''", "[]\\");
    putc(']', to->out);
    if (takes) {
        putc(':', to->out);
        put_quoted(to, o->row->arg, "'\\''", ":\\");
        putc(':', to->out);
        put_zsh_action(to, find_choices(to->names, c, o, words), words);
    }
    fputs("' \\\n", to->out);
}

static void put_zsh_command(struct script *to, const struct command *c)
{
    char words[CHOICES_ROOM];
    const struct option *o;
    fprintf(to->out, "    %s) _arguments -s \\\n", c->name);
    for (size_t i = 0; (o = option_of(c, i)); i++) put_zsh_option(to, c, o);
    fputs("      '*:argument:", to->out);
    const enum value_kind kind = find_choices(to->names, c, NULL, words);
    put_zsh_action(to, kind, words);
    fputs("' ;;\n", to->out);
}

static void write_zsh(struct script *to)
{
    size_t count;
    const struct command *const *list = commands(&count);
    fprintf(to->out, "#compdef pith\n"
                     "_pith() {\n"
                     "  local curcontext=$curcontext state line\n"
                     "  local -a list\n"
                     "  typeset -A opt_args\n"
                     "  list=(\n");
    for (size_t i = 0; i < count; i++) {
        fprintf(to->out, "    '%s:", list[i]->name);
        put_quoted(to, list[i]->summary, "'\\''", "\\");
        fputs("'\n", to->out);
    }
    fprintf(to->out,
            "    'help:what a command does'\n"
            "  )\n"
            "  _arguments -C '(- *)--help[an overview]' '(- *)--version[name this build]' \\\n"
            "    '1:command:->command' '*::argument:->argument'\n"
            "  if [[ $state == command ]]; then _describe command list; return; fi\n"
            "  [[ $state == argument ]] || return\n"
            "  case $words[1] in\n");
    for (size_t i = 0; i < count; i++) put_zsh_command(to, list[i]);
    fprintf(to->out,
            "    help) _describe command list ;;\n"
            "  esac\n"
            "}\n"
            "if [[ $funcstack[1] == _pith ]]; then _pith \"$@\"; else compdef _pith pith; fi\n");
}

/* --- fish ------------------------------------------------------------------------------------- */

static void put_fish_option(struct script *to, const struct command *c, const struct option *o)
{
    char words[CHOICES_ROOM], text[256];
    const enum value_kind kind = find_choices(to->names, c, o, words);
    brief(o->row->help, text);
    fprintf(to->out, "complete -c pith -n '__fish_seen_subcommand_from %s' -l %s", c->name,
            o->row->name);
    if (o->row->letter) fprintf(to->out, " -s %c", o->row->letter);
    if (o->row->type != OPTION_FLAG) {
        if (kind == VALUE_FILE) fputs(" -r -F", to->out);
        else if (kind == VALUE_FOLDER) fputs(" -x -a '(__fish_complete_directories)'", to->out);
        else fprintf(to->out, " -x%s%s%s", *words ? " -a '" : "", words, *words ? "'" : "");
    }
    fputs(" -d '", to->out);
    put_quoted(to, text, "\\'", "\\");
    fputs("'\n", to->out);
}

static void put_fish_command(struct script *to, const struct command *c)
{
    char words[CHOICES_ROOM];
    const struct option *o;
    const enum value_kind kind = find_choices(to->names, c, NULL, words);
    fprintf(to->out, "complete -c pith -n __fish_use_subcommand -f -a %s -d '", c->name);
    put_quoted(to, c->summary, "\\'", "\\");
    fputs("'\n", to->out);
    if (kind == VALUE_WORD || kind == VALUE_OTHER)
        fprintf(to->out, "complete -c pith -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                c->name, words);
    for (size_t i = 0; (o = option_of(c, i)); i++) put_fish_option(to, c, o);
}

static void write_fish(struct script *to)
{
    size_t count;
    const struct command *const *list = commands(&count);
    fprintf(to->out,
            "# fish completion for pith\n"
            "complete -c pith -n __fish_use_subcommand -f -l help -d 'an overview'\n"
            "complete -c pith -n __fish_use_subcommand -f -l version -d 'name this build'\n"
            "complete -c pith -n __fish_use_subcommand -f -a help -d 'what a command does'\n"
            "complete -c pith -n '__fish_seen_subcommand_from help' -f -a '");
    put_commands(to);
    fputs("'\n", to->out);
    for (size_t i = 0; i < count; i++) put_fish_command(to, list[i]);
}

/* --- the command ------------------------------------------------------------------------------ */

static const struct shell {
    const char *name;
    void (*write)(struct script *to);
} shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
enum { SHELLS = sizeof shells / sizeof shells[0] };

static void write_script(const struct shell *shell, FILE *out)
{
    struct choice_names names = {{0}};
    shell->write(&(struct script){out, &names});
    free_choice_names(&names);
}

/* {"shell", "script"}. */
static int print_object(const struct common *common, const struct shell *shell)
{
    char *script = NULL;
    size_t size = 0;
    json_t *j = NULL;
    FILE *out = open_memstream(&script, &size);
    if (out) write_script(shell, out);
    if (out && fclose(out) == 0)
        j = json_pack("{s:s, s:s}", "shell", shell->name, "script", script);
    free(script);
    if (!j) return report_failure(common, &(struct pith_error){.status = PITH_NOMEM});
    json_dumpf(j, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(j);
    return EXIT_DONE;
}

static int run(void *settings, const struct text_list *operands)
{
    const struct settings *s = settings;
    const char *names[SHELLS];
    for (size_t i = 0; i < SHELLS; i++) {
        names[i] = shells[i].name;
        if (!pith_name_equal(operands->item[0], shells[i].name)) continue;
        if (s->common.json) return print_object(&s->common, &shells[i]);
        write_script(&shells[i], stdout);
        return EXIT_DONE;
    }
    const char *near = pith_name_nearest(operands->item[0], names, SHELLS);
    return usage_failure(&s->common, "no shell '%s'%s%s%s", operands->item[0],
                         near ? "; did you mean '" : "; there are bash zsh fish", near ? near : "",
                         near ? "'?" : "");
}

const struct command command_completion = {
    .name = "completion",
    .summary = "print what a shell completes commands and options by",
    .operands = "bash|zsh|fish",
    .examples = "  source <(pith completion bash)\n"
                "  pith completion zsh > \"${fpath[1]}/_pith\"\n"
                "  pith completion fish > ~/.config/fish/completions/pith.fish\n",
    .details = "'make install' puts all three in place.\n",
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .plain = true,
    .run = run,
};
