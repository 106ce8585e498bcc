/* pith bench --serve: a server under load. */
#include "cli/input.h"
#include "cli/traffic.h"

#include "cli/measure.h"
#include "cli/report.h"

#include <stdlib.h>
#include <sys/resource.h>

void traffic_defaults(struct traffic_settings *s)
{
    pith_traffic_defaults(&s->o);
}

/* --- the key ---------------------------------------------------------------------------------- */

/* EXIT_DONE, or the failure is reported. */
static int read_key(const struct common *common, const char *path, char key[4096])
{
    struct pith_error err;
    return read_first_line(path, "key", key, 4096, &err) ? EXIT_DONE : report_failure(common, &err);
}

/* --- the run ---------------------------------------------------------------------------------- */

/* As many connections as the system allows: the soft limit on files is often 1024. */
static void allow_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* or what there is must do */
}

/* With the other ranks, where there are some; then *report is rank 0's. */
static int ask(const struct common *common, struct traffic_settings *s, struct pith_report **report)
{
    struct pith_context *context = NULL;
    struct pith_error err = {0};
    struct meter meter;
    int rc = has_others(common) ? make_context(common, &context) : EXIT_DONE;
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, common);
    s->o.progress = meter_progress(&meter);
    const enum pith_status status = pith_traffic_report(context, &s->o, report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report_failure(common, &err);
    pith_context_free(&context);
    return rc;
}

int traffic_run(const struct common *common, struct traffic_settings *s, const char *prompt,
                const char *gen)
{
    struct pith_error err = {0};
    struct pith_report *report = NULL;
    if (prompt) s->o.prompt = prompt;
    if (gen) s->o.answer = gen;
    s->o.seed = common->seed;
    s->o.ignore_end = s->ignore_end;
    s->o.key = getenv("PITH_API_KEY");
    if (pith_traffic_check(&s->o, &err) != PITH_OK) return report_usage(common, &err);
    int rc = page_check(common, s->page);
    if (rc == EXIT_DONE && s->key_file) {
        rc = read_key(common, s->key_file, s->key);
        s->o.key = s->key;
    }
    if (rc != EXIT_DONE) return rc;
    allow_connections();
    rc = ask(common, s, &report);
    if (common->follows) return rc;
    const struct pith_report_form form = report_form(common, false);
    if (rc == EXIT_DONE) rc = write_report(common, report, &form);
    if (rc == EXIT_DONE && s->page) rc = write_report_page(common, s->page, "", report);
    if (rc == EXIT_DONE && !pith_report_good(report)) {
        say(common, "pith: no request was answered");
        rc = EXIT_FAILED;
    }
    pith_report_free(&report);
    return rc;
}
