/* traffic/server_load.h: a server under levels of load, one after the other, and the report. */
#ifndef PITH_TRAFFIC_SERVER_LOAD_H
#define PITH_TRAFFIC_SERVER_LOAD_H

#include <pith/bench.h>

#include "base/json.h"
#include "base/ranks/ranks.h"
#include "report/report.h"
#include "traffic/drive.h"

/* A load: so many clients, or a rate; both 0: a trace. */
struct pith_server_level {
    size_t clients;
    double rate;
};

struct pith_server_load {
    const struct pith_traffic_options *options;
    struct pith_ranks *ranks;        /* that ask together; NULL: alone */
    struct pith_server_level *level; /* owned: [levels] */
    size_t levels;
    struct pith_lengths prompt, answer;
    const struct pith_arrivals *arrivals;
    struct pith_goals goals;
    struct pith_trace trace;
    struct pith_words words;
    struct pith_wire *wire;
    struct pith_traffic_asking asking;
    char *name;               /* owned: the model, or NULL */
    json_t *more;             /* owned, or NULL */
    struct pith_table *table; /* of levels, in the report; NULL before the first */
    bool estimated; /* tokens of a word are not measured: the server does not count them */
};

/* What pith_traffic() does with such options, of which none is missing; with `ranks` all make the
 * call, and *report is rank 0's alone, NULL elsewhere; for pith_report_free(). */
enum pith_status pith_server_load(const struct pith_traffic_options *options,
                                  struct pith_ranks *ranks, struct pith_report **report,
                                  struct pith_error *err);
/* Whether the options make sense. */
enum pith_status pith_server_load_check(const struct pith_traffic_options *options,
                                        struct pith_error *err);

/* A new report of what holds for all levels, whose list of levels is open; NULL when memory is out.
 */
struct pith_report *pith_server_load_report(const struct pith_server_load *t);
/* Adds what a level came to. The report is good once a request was answered. PITH_NOMEM. */
enum pith_status pith_server_load_report_level(struct pith_server_load *t,
                                               const struct pith_server_level *level,
                                               const struct pith_level_result *r,
                                               struct pith_report *to, struct pith_error *err);

#endif
