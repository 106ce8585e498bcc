/* cli/command.h: a command is a list of options and a function; parsing, --help, the man page,
 * completion and the check that documentation is current all read the table of options. The program
 * sees only <pith/...>. */
#ifndef PITH_CLI_COMMAND_H
#define PITH_CLI_COMMAND_H

#include <jansson.h>
#include <pith/context.h>
#include <pith/names.h>
#include <pith/progress.h>
#include <pith/quantize.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_status { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

enum option_type {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char * */
    OPTION_LIST,  /* struct text_list: may repeat */
    OPTION_COUNT, /* size_t: pith_number_parse() */
    OPTION_SIZE,  /* uint64_t: the same */
    OPTION_REAL,  /* double */
    OPTION_MODEL  /* const char *: a path, or a name that is looked up in the hub's cache */
};

struct text_list {
    const char **item; /* owned; the texts are argv's */
    size_t count;
};

/* A row of cli/options.def, which says what its columns are. */
struct option_row {
    const char *name; /* "calib-tokens" */
    char letter;      /* 'o', or 0 */
    enum option_type type;
    const char *bounds; /* NULL: any number */
    bool at_once;
    const char *needs, *idle_with, *field;
    const char *arg; /* "N"; NULL for flags */
    const char *preset, *help;
};
enum option_id {
#define PITH_OPTION(id, name, letter, type, bounds, idle, field, arg, preset, help) ROW_##id,
#include "cli/options.def"
#undef PITH_OPTION
    OPTION_ROWS
};
extern const struct option_row option_rows[OPTION_ROWS];

/* An option that a command has. */
struct option {
    const struct option_row *row;
    size_t offset; /* of the value in the command's settings */
};
#define OPTION(id, at)                                                                             \
    {                                                                                              \
        &option_rows[ROW_##id], at                                                                 \
    }
enum { OPTION_HELP = 640 };
/* What it does, with its default. */
void option_help(const struct option *o, char text[OPTION_HELP]);

/* What every command understands. First member of each command's settings. */
struct common {
    bool json, quiet, help;
    size_t threads, seed;
    const char *cpu, *ranks;
    bool follows;                /* another rank speaks for this process */
    struct pith_context *joined; /* then: borrowed, as long as the command has it */
    const struct command *command;
    const struct text_list *operands;
    uint64_t given;                  /* bit i: the command's option i stands on the command line;
                                        bit 63 - i: option i of every command */
    uint64_t replaced;               /* the same: more than once, with values that differ */
    struct text_list found;          /* owned, as its texts: paths of models given by name */
    struct pith_error model_missing; /* a model by name that is not there: make_context() says so */
};

struct command {
    const char *name, *summary;
    const char *operands; /* "MODEL -o OUT" */
    const char *extra;    /* the option that one argument too many was perhaps meant for, or NULL */
    const char *details;  /* paragraphs for --help, or NULL */
    const char *examples; /* lines for --help */
    const struct option *options;
    size_t option_count;
    size_t settings_size;
    unsigned min_operands, max_operands;
    bool takes_models;                /* the operands are models */
    bool plain;                       /* nothing of it is random */
    bool spreads;                     /* ranks share its work */
    void (*defaults)(void *settings); /* NULL: all zero */
    int (*run)(void *settings, const struct text_list *operands);
};

extern const struct option common_options[];
extern const size_t common_option_count;
/* All commands, [*count], in the order in which they are listed; static. */
const struct command *const *commands(size_t *count);

/* Parses argv (after the command's name) into settings and operands. Returns EXIT_DONE or
 * EXIT_USAGE, with the reason on standard error. */
int parse_options(const struct command *c, int argc, char **argv, void *settings,
                  struct text_list *operands);
void free_options(const struct command *c, void *settings, struct text_list *operands);

/* --help of a command; the overview; the man page as roff. */
void print_help(const struct command *c);
void print_overview(void);
void print_man(void);
/* Puts paths in place of the models that are given by name: operands, and options that take one.
 * What is not in the cache stays and is an error when the context is made, after all wrong usage.
 */
int find_models(const struct command *c, void *settings, struct text_list *operands);
void free_found(struct common *common);
/* cli/given.c: EXIT_USAGE where a number of the command's options is out of bounds that are checked
 * when all are there, or where one is given that does nothing. */
int check_given(const struct common *common);
/* Whether a number is within bounds as the table has them: "above 0, at most 1". */
bool in_bounds(const char *bounds, double x);
/* The number that an option has; 0 of one that has none. */
double number_of(const struct option *o, const void *settings);
/* Whether that option, the command's or one of all, stands on the command line. */
bool given(const struct common *common, const char *name);
/* The command's option of that name, or that of every command; NULL: there is none. */
const struct option *find_option(const struct command *c, const char *name);

/* cli/fields.c: what the library says, with an option in the place of each field that it marks
 * (pith_fields_show()), the command's own before another's. Free it with pith_text_free(); NULL
 * when memory is out. */
char *name_options(const struct common *common, const char *text);
/* One field, for <pith/names.h>; ctx is a struct common. `memory` is --memory; `recipe=auto` is -r
 * auto, `round=gptq` --round gptq. */
int show_option(void *ctx, const char *field, const char *value, char *shown, size_t room);
/* The same into text [room], which is cut there; the text as it is when memory is out. */
void name_options_in(const struct common *common, const char *from, char *text, size_t room);

/* --- what commands share ---------------------------------------------------------------------- */

/* cli/ranks.c: how many processes a launcher of MPI started, and which of them this is; 1 and 0
 * without one. False when only rank 0 is to do what the command does, and this is another. */
bool is_wanted(const struct common *common);
/* False of such a process but the first. */
bool is_first(void);
/* One of several, which join_ranks() would join. */
bool has_others(const struct common *common);
/* Joins the others where the command's work is shared; frees *context on failure. Only rank 0
 * prints anything from here on. */
int join_ranks(const struct common *common, struct pith_context **context);

/* Says an error on standard error, with --json as an object on standard output too, and gives the
 * exit status that belongs to it. */
int report_failure(const struct common *common, const struct pith_error *err);
/* The same for what is wrong with the command line: EXIT_USAGE. */
int report_usage(const struct common *common, const struct pith_error *err);
int usage_failure(const struct common *common, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says something that is no error, as one line on standard error; nothing with --quiet. */
void say(const struct common *common, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes the context of the common options; EXIT_DONE or a status already reported. */
int make_context(const struct common *common, struct pith_context **out);
/* --mode (NULL: exact) for it; frees the context when the status is not EXIT_DONE. */
int choose_mode(const struct common *common, struct pith_context **context, const char *mode);
struct pith_list as_list(const struct text_list *l);
/* Whether an output of that name is a single file of GGUF. */
bool names_gguf(const char *out);

/* A progress bar on a terminal, plain lines elsewhere, nothing with --quiet. */
struct meter {
    bool quiet, terminal, shown, unicode;
    bool full;    /* 100% was shown: once is enough */
    size_t drawn; /* columns of the line that stands there */
    double started, last;
    double last_done;
    /* Where the remaining time is measured from: the start of the phase (a call may have several),
     * then 20 s ago or longer, since finished work of an earlier run and a line that got faster do
     * not predict the rest; and the point that comes next. */
    double since, since_done, next, next_done;
    char what[96];
};
void meter_start(struct meter *m, const struct common *common);
struct pith_progress meter_progress(struct meter *m);
void meter_end(struct meter *m);

/* "3.2 GiB", "12.3 s", "4 min 10 s". */
void format_bytes(double bytes, char text[32]);
void format_seconds(double seconds, char text[32]);
/* Bold where standard output is a terminal and colour is wanted, else "". */
const char *bold(void);
const char *plain(void);

#endif
