/* pith: the program. Finds the command, parses its options, runs it. */
#include "cli/command.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND(row) extern const struct command row;
#include "cli/commands.def"
#undef COMMAND

static const struct command *const list[] = {
#define COMMAND(row) &row,
#include "cli/commands.def"
#undef COMMAND
};

const struct command *const *commands(size_t *count)
{
    *count = sizeof list / sizeof list[0];
    return list;
}

#ifdef __clang__
static const char compiler[] = __VERSION__; /* names itself */
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (pith_name_equal(list[i]->name, name)) return list[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[sizeof list / sizeof list[0]];
    const size_t count = sizeof list / sizeof list[0];
    for (size_t i = 0; i < count; i++) names[i] = list[i]->name;
    const char *near = pith_name_nearest(name, names, count);
    fprintf(stderr, "pith: unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
    if (near) fprintf(stderr, "; did you mean '%s'?", near);
    fprintf(stderr, "\nTry 'pith --help'.\n");
    return EXIT_USAGE;
}

static int run_command(const struct command *c, int argc, char **argv)
{
    void *settings = calloc(1, c->settings_size);
    struct text_list operands = {0};
    if (!settings) {
        fprintf(stderr, "pith: out of memory\n");
        return EXIT_FAILED;
    }
    if (c->defaults) c->defaults(settings);
    int rc = parse_options(c, argc, argv, settings, &operands);
    struct common *common = settings;
    if (rc == EXIT_DONE && common->help) {
        if (is_first()) print_help(c);
    } else if (rc == EXIT_DONE && is_wanted(common)) {
        rc = find_models(c, settings, &operands);
        if (rc == EXIT_DONE) rc = c->run(settings, &operands);
    }
    free_found(common);
    free_options(c, settings, &operands);
    return rc;
}

/* Output that could not be written (a full disk behind a redirection) must not look like success.
 */
static int finish(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return rc;
    clearerr(stdout); /* an earlier call failed, and knew why: so does one more */
    errno = 0;
    if (putchar('\n') != EOF) (void)fflush(stdout);
    fprintf(stderr, "pith: cannot write to standard output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return rc == EXIT_DONE ? EXIT_FAILED : rc;
}

static void prepare_signals(void)
{
    interrupt_catch();
    signal(SIGPIPE, SIG_DFL);
    (void)pith_guard_files(NULL); /* without it, such a signal ends the program as ever */
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    prepare_signals();
    if (argc < 2) {
        print_overview();
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("pith %s (compiled by %s)\n", pith_version(), compiler);
        return finish(EXIT_DONE);
    }
    if (strcmp(name, "--man") == 0) {
        print_man();
        return finish(EXIT_DONE);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const struct command *c = argc > 2 ? find_command(argv[2]) : NULL;
        if (argc > 2 && !c) return unknown_command(argv[2]);
        if (c) print_help(c);
        else print_overview();
        return finish(EXIT_DONE);
    }
    const struct command *c = find_command(name);
    return c ? finish(run_command(c, argc - 2, argv + 2)) : unknown_command(name);
}
