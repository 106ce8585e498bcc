/* cli/report.h: reports of the library on standard output and in files. */
#ifndef PITH_CLI_REPORT_H
#define PITH_CLI_REPORT_H

#include "cli/command.h"

#include <pith/report.h>

/* The form that the options of every command and standard output make: JSON with --json, else text
 * as wide as the terminal. `all` shows lists whole. Its fields have no names. */
struct pith_report_form report_form(const struct common *common, bool all);
/* The same with fields under the names of options; for reports that hold no text of a model. */
struct pith_report_form report_form_named(const struct common *common, bool all);
/* The same where a report holds texts of a model: in JSON none is looked at for fields. */
struct pith_report_form report_form_of_model(const struct common *common);
/* Writes a report in a form to standard output; EXIT_DONE, or the failure is reported. A rank that
 * has none (NULL) writes nothing. */
int write_report(const struct common *common, const struct pith_report *report,
                 const struct pith_report_form *form);
/* Writes the report of a command that made something, nothing with --quiet, and says its remark. */
int give_report(const struct common *common, const struct pith_report *report, bool all);
/* Writes the page of a report, and says so; `model` for what the page says of its making, "":
 * the report's own where it has one, NULL: it says nothing. */
int write_report_page(const struct common *common, const char *path, const char *model,
                      const struct pith_report *report);

/* What a command does and ends with: `work` makes the report, with *progress that of a meter while
 * it lasts; that is written to standard output, and its page where one is wanted. */
struct reporting {
    const struct common *common;
    void *settings;                 /* handed to `work` */
    struct pith_progress *progress; /* in the options of the work; filled here */
    enum pith_status (*work)(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err);
    bool all;         /* lists whole */
    bool made;        /* something was made: written by give_report(), nothing with --quiet */
    const char *mode; /* choose_mode(); NULL: as the context has it */
    const char *page; /* where the page goes; NULL: nowhere */
};
/* An exit status. */
int run_report(const struct reporting *r);

#endif
