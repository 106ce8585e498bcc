#include <pith/bench.h>

#include "api/context.h"
#include "api/options.h"
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

/* Whoever is alone has no ranks. */
static enum pith_status run_by(struct pith_ranks *ranks, const struct pith_traffic_options *given,
                               char **report, struct pith_error *err)
{
    PITH_OPTIONS(pith_traffic_options, o, defaults, given, err);
    json_t *j;
    *report = NULL;
    enum pith_status s = pith_server_load(o, ranks, &j, err);
    if (s == PITH_OK && j) s = pith_report_text(j, report, err);
    return pith_ranks_fail(ranks, s, err);
}

enum pith_status pith_traffic(const struct pith_traffic_options *options, char **report,
                              struct pith_error *err)
{
    return run_by(NULL, options, report, err);
}

enum pith_status pith_traffic_shared(struct pith_context *context,
                                     const struct pith_traffic_options *options, char **report,
                                     struct pith_error *err)
{
    return run_by(context->ranks, options, report, err);
}
