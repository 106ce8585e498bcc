/* traffic/server_load.h: a server under levels of load, one after the other, and the report. */
#ifndef PITH_TRAFFIC_SERVER_LOAD_H
#define PITH_TRAFFIC_SERVER_LOAD_H

#include <pith/bench.h>

#include "base/json.h"
#include "base/ranks/ranks.h"
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
    char *name;     /* owned: the model, or NULL */
    json_t *more;   /* owned, or NULL */
    bool estimated; /* tokens of a word are not measured: the server does not count them */
};

/* What pith_traffic() does with such options, of which none is missing; with `ranks` all make the
 * call, and *report is rank 0's alone, NULL elsewhere. A new reference. */
enum pith_status pith_server_load(const struct pith_traffic_options *options,
                                  struct pith_ranks *ranks, json_t **report,
                                  struct pith_error *err);
/* Whether the options make sense. */
enum pith_status pith_server_load_check(const struct pith_traffic_options *options,
                                        struct pith_error *err);

/* Appends what a level came to to the list, which becomes NULL when memory is out. */
enum pith_status pith_server_load_report_level(const struct pith_server_load *t,
                                               const struct pith_server_level *level,
                                               const struct pith_level_result *r, json_t **list,
                                               struct pith_error *err);
/* What holds for all levels; the list is taken over. */
json_t *pith_server_load_report(const struct pith_server_load *t, json_t *levels);

#endif
