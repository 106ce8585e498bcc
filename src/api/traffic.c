#include <pith/bench.h>

#include "api/context.h"
#include "api/options.h"
#include "api/report.h"
#include "traffic/server_load.h"

static const struct pith_traffic_options defaults = {.endpoint = "completions",
                                                     .form = "text",
                                                     .arrivals = "poisson",
                                                     .prompt = "256",
                                                     .answer = "64",
                                                     .warmup = 1,
                                                     .timeout = 600};

void pith_traffic_defaults_sized(struct pith_traffic_options *options, size_t size)
{
    pith_options_give(options, size, &defaults, sizeof defaults);
}

enum pith_status pith_traffic_check(const struct pith_traffic_options *options,
                                    struct pith_error *err)
{
    PITH_OPTIONS(pith_traffic_options, o, defaults, options, err);
    return pith_server_load_check(o, err);
}

/* A single process has no ranks. */
static enum pith_status run_by(struct pith_ranks *ranks, const struct pith_traffic_options *given,
                               struct pith_report **report, struct pith_error *err)
{
    PITH_OPTIONS(pith_traffic_options, o, defaults, given, err);
    *report = NULL;
    return pith_ranks_fail(ranks, pith_server_load(o, ranks, report, err), err);
}

enum pith_status pith_traffic_report(struct pith_context *context,
                                     const struct pith_traffic_options *options,
                                     struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    return run_by(context ? context->ranks : NULL, options, report, err);
}

enum pith_status pith_traffic(const struct pith_traffic_options *options, char **report,
                              struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, run_by(NULL, options, &r, err), report, err);
}

enum pith_status pith_traffic_shared(struct pith_context *context,
                                     const struct pith_traffic_options *options, char **report,
                                     struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, run_by(context->ranks, options, &r, err), report, err);
}
