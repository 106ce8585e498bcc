/* traffic/plan.h: what is sent and when: the same seed, the same requests. */
#ifndef PITH_TRAFFIC_PLAN_H
#define PITH_TRAFFIC_PLAN_H

#include "traffic/lengths.h"

#include <stdbool.h>
#include <stdint.h>

/* One request. */
struct pith_planned {
    size_t index;          /* from 0 */
    double at;             /* seconds from the start; 0 where clients ask when they are free */
    size_t prompt, answer; /* tokens */
    uint64_t seed;         /* of the prompt's words */
};

/* Requests that somebody else's traffic had. */
struct pith_trace {
    struct pith_planned *row; /* owned; `at` from 0 and never less than the row before */
    size_t rows;
};

/* A file of JSON lines: {"time": seconds, "prompt": tokens, "answer": tokens}, or, as published
 * traces have them, "timestamp" in milliseconds, "input_length", "output_length". PITH_FORMAT, with
 * the line: something else; PITH_IO. Free it with pith_trace_free(). */
enum pith_status pith_trace_read(const char *path, struct pith_trace *out, struct pith_error *err);
/* The same from memory; `where` is for messages. */
enum pith_status pith_trace_parse(const char *text, size_t size, const char *where,
                                  struct pith_trace *out, struct pith_error *err);
void pith_trace_free(struct pith_trace *trace); /* its rows */

struct pith_plan_options {
    const struct pith_trace *trace; /* or NULL: lengths are drawn */
    struct pith_lengths prompt, answer;
    const struct pith_arrivals *arrivals; /* with `rate` */
    double rate;                          /* requests a second; 0: no arrivals */
    uint64_t seed;
    uint64_t level; /* of several in one run: lengths and gaps are the same, prompts are not */
};

struct pith_planner {
    const struct pith_plan_options *options; /* borrowed */
    struct pith_rng lengths, gaps, prompts;
    size_t next;
    double at;
};

/* Begins; the first request of a trace or of arrivals comes at its time or after one gap. */
void pith_planner_begin(struct pith_planner *p, const struct pith_plan_options *options);
/* The next request; false when a trace is at its end. */
bool pith_planner_next(struct pith_planner *p, struct pith_planned *out);

#endif
