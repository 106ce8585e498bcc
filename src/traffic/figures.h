/* traffic/figures.h: what was seen of each request, and what it comes to. */
#ifndef PITH_TRAFFIC_FIGURES_H
#define PITH_TRAFFIC_FIGURES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request that was answered. Seconds; NaN for what could not be seen: no token came, or only one.
 */
struct pith_record {
    double begun;   /* since the level's start */
    double first;   /* from asking to the first token */
    double between; /* mean time of a token after the first */
    double pause;   /* the longest gap between two chunks */
    double total;   /* from asking to the end of the answer */
    uint32_t requested_prompt, requested_answer;
    int64_t prompt, answer, cached; /* tokens as the server counts; -1: it does not say */
    uint32_t chunks;                /* that stood for a token or more */
    uint32_t textless;              /* of them, without text */
};

/* Times of chunks behind the first of their answer. */
struct pith_gap {
    float at;   /* seconds since the level's start */
    float wait; /* since the chunk before */
};

enum { PITH_KIND_TEXT = 32 };

/* Requests that failed, by kind. */
struct pith_failure_kind {
    char kind[PITH_KIND_TEXT]; /* "http 429", "cut", "timeout" */
    char example[200];         /* message of the first one */
    size_t count;
};

/* What a level of load came to. Start with {0}; free it. */
struct pith_level_result {
    struct pith_record *record;
    size_t records, record_room;
    struct pith_gap *gap;
    size_t gaps, gap_room;
    float *first_at; /* when each first token came */
    size_t firsts, first_room;
    struct pith_failure_kind *failure;
    size_t failures; /* kinds */
    double seconds;  /* from the first request to the last end */
    double *late;    /* by how much each request was sent after its time */
    size_t lates, late_room;
    size_t most_at_once;
    double busy; /* sum of the requests' times, failed ones too */
};
void pith_level_free(struct pith_level_result *r); /* all it has, and it is {0} again */

/* Each appends; PITH_NOMEM. */
enum pith_status pith_level_record(struct pith_level_result *r, const struct pith_record *record,
                                   struct pith_error *err);
enum pith_status pith_level_gap(struct pith_level_result *r, double at, double wait,
                                struct pith_error *err);
enum pith_status pith_level_first(struct pith_level_result *r, double at, struct pith_error *err);
enum pith_status pith_level_late(struct pith_level_result *r, double by, struct pith_error *err);
enum pith_status pith_level_fail(struct pith_level_result *r, const char *kind, const char *example,
                                 struct pith_error *err);
struct pith_ranks;
/* What every rank has seen of a level becomes rank 0's; elsewhere r does not change. */
enum pith_status pith_level_gather(struct pith_ranks *ranks, struct pith_level_result *r,
                                   struct pith_error *err);
size_t pith_level_failed(const struct pith_level_result *r); /* requests of all kinds */

/* Of n values; all NaN for none. */
struct pith_quantiles {
    size_t n;
    double mean, least, p50, p90, p99, most;
};
/* Sorts the values, those that are NaN aside, which do not count. Quantiles are linear between the
 * values, the least at 0 and the most at 1 (type 7 of Hyndman and Fan 1996, as numpy has it). */
void pith_quantiles_of(double *value, size_t n, struct pith_quantiles *out);
/* The same of one member of the records, by its offset, or of the gaps; PITH_NOMEM. */
enum pith_status pith_quantiles_member(const struct pith_level_result *r, size_t offset,
                                       struct pith_quantiles *out, struct pith_error *err);
enum pith_status pith_quantiles_gaps(const struct pith_level_result *r, struct pith_quantiles *out,
                                     struct pith_error *err);

/* Limits that a good answer keeps. */
struct pith_traffic_limit {
    const char *name, *summary;
    size_t offset; /* of the member */
};
extern const struct pith_traffic_limit pith_traffic_limits[];
enum { PITH_TRAFFIC_LIMITS = 4 };
/* Seconds for each row; INFINITY: none. */
struct pith_goals {
    double most[PITH_TRAFFIC_LIMITS];
    bool any;
};
/* "first=1000ms,between=100ms,total=30s" into *out, over what it holds. PITH_ARG. */
enum pith_status pith_goals_parse(const char *text, struct pith_goals *out, struct pith_error *err);
/* Whether a record keeps row i; what was not seen does, but for a first token that never came. */
bool pith_goal_met(const struct pith_goals *g, size_t i, const struct pith_record *record);

#endif
