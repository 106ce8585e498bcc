#include "cli/report.h"

#include "cli/measure.h"
#include "cli/wrap.h"

#include <stdio.h>
#include <unistd.h>

struct pith_report_form report_form(const struct common *common, bool all)
{
    return (struct pith_report_form){.json = common->json,
                                     .all = all,
                                     .bold = *bold() != '\0',
                                     .width = terminal_width(STDOUT_FILENO),
                                     .prose = prose_width()};
}

struct pith_report_form report_form_named(const struct common *common, bool all)
{
    struct pith_report_form form = report_form(common, all);
    form.field = show_option;
    form.field_ctx = (void *)(uintptr_t)common;
    return form;
}

struct pith_report_form report_form_of_model(const struct common *common)
{
    return common->json ? report_form(common, false) : report_form_named(common, false);
}

int write_report(const struct common *common, const struct pith_report *report,
                 const struct pith_report_form *form)
{
    struct pith_error err = {0};
    char *text = NULL;
    if (!report) return EXIT_DONE;
    if (pith_report_write(report, form, &text, &err) != PITH_OK)
        return report_failure(common, &err);
    fputs(text, stdout);
    if (form->json) putchar('\n');
    pith_text_free(text);
    return EXIT_DONE;
}

int give_report(const struct common *common, const struct pith_report *report, bool all)
{
    const struct pith_report_form form = report_form_named(common, all);
    int rc = EXIT_DONE;
    if (pith_report_remark(report)) say(common, "%s", pith_report_remark(report));
    if (common->json || !common->quiet) rc = write_report(common, report, &form);
    return rc;
}

int write_report_page(const struct common *common, const char *path, const char *model,
                      const struct pith_report *report)
{
    struct pith_error err = {0};
    struct page_making making;
    char *html = NULL;
    find_making(&making);
    const struct pith_provenance from = {model, making.version, making.date, making.command};
    if (pith_report_page(report, model ? &from : NULL, &html, &err) != PITH_OK)
        return report_failure(common, &err);
    return page_write(common, path, html);
}

int run_report(const struct reporting *r)
{
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    struct pith_report *report = NULL;
    int rc = make_context(r->common, &context);
    if (rc == EXIT_DONE && r->mode) rc = choose_mode(r->common, &context, r->mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, r->common);
    *r->progress = meter_progress(&meter);
    const enum pith_status status = r->work(context, r->settings, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report_failure(r->common, &err);
    pith_context_free(&context);
    if (status != PITH_OK) return rc;
    const struct pith_report_form form = report_form_named(r->common, r->all);
    const bool speaks = !r->common->follows;
    if (r->made) rc = give_report(r->common, report, r->all);
    else if (speaks) rc = write_report(r->common, report, &form);
    if (rc == EXIT_DONE && speaks && r->page)
        rc = write_report_page(r->common, r->page, NULL, report);
    pith_report_free(&report);
    return rc;
}
