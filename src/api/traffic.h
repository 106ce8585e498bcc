/* api/traffic.h: what pith_traffic() finds, and its report. */
#ifndef PITH_API_TRAFFIC_H
#define PITH_API_TRAFFIC_H

#include "api/context.h"
#include "traffic/drive.h"

#include <pith/bench.h>

/* A load: so many clients, or a rate; both 0: a trace. */
struct traffic_level {
    size_t clients;
    double rate;
};

struct traffic {
    const struct pith_traffic_options *options;
    struct pith_ranks *ranks; /* that ask together; NULL: alone */
    struct traffic_level *level; /* owned: [levels] */
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

/* Appends what a level came to to the list, which becomes NULL when memory is out. */
enum pith_status traffic_report_level(const struct traffic *t, const struct traffic_level *level,
                                      const struct pith_level_result *r, json_t **list,
                                      struct pith_error *err);
/* What holds for all levels; the list is taken over. */
json_t *traffic_report(const struct traffic *t, json_t *levels);

#endif
