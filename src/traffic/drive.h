/* traffic/drive.h: asks a server as a plan says, and measures its answers. */
#ifndef PITH_TRAFFIC_DRIVE_H
#define PITH_TRAFFIC_DRIVE_H

#include "base/progress.h"
#include "traffic/figures.h"
#include "traffic/plan.h"
#include "traffic/prompts.h"
#include "traffic/wire.h"

#include <jansson.h>

/* How a request is written. */
struct pith_traffic_asking {
    const char *model; /* NULL: not named */
    bool chat;         /* /v1/chat/completions, else /v1/completions */
    bool ignore_end;   /* "ignore_eos" */
    double temperature;
    const json_t *more; /* members that are added to each body, over ours; or NULL */
};

struct pith_drive {
    struct pith_wire *wire;
    const struct pith_words *words;
    const struct pith_traffic_asking *asking;
    const struct pith_plan_options *plan;
    /* Of so many that drive together, which this is: it asks each `drivers`-th request. 0, 0: it is
     * the only one. `clients` are its own. */
    unsigned driver, drivers;
    size_t clients;   /* that ask one after the other; 0: requests come at the plan's times */
    size_t requests;  /* of all drivers, at most; 0: no limit but the time, or the trace */
    double duration;  /* seconds after which nothing is sent any more; 0: no limit */
    const char *what; /* for progress */
    const struct pith_progress *progress;
};

/* Asks all there is to ask, waits for the answers. *out, {0} before, is the caller's to free on
 * success; on failure it is empty. Answers that fail are counted in it and are no failure here.
 *
 * A client that got an error waits a little, longer each time it happens again, or as long as
 * Retry-After says (a minute at most), before it goes on with the next request.
 *
 * PITH_NOMEM; PITH_INTERRUPTED; PITH_IO: libcurl cannot go on. */
enum pith_status pith_drive_run(const struct pith_drive *drive, struct pith_level_result *out,
                                struct pith_error *err);

/* The body of a request, a new reference; NULL when memory is out. `prompt` is taken. */
json_t *pith_traffic_body(const struct pith_traffic_asking *a, json_t *prompt, size_t answer,
                          uint64_t seed);

/* A request whose answer is not a stream. */
struct pith_plain_call {
    const char *path;   /* as of struct pith_call */
    const json_t *body; /* NULL: GET */
    const struct pith_progress *progress;
};
struct pith_str;
/* *answer has its text (pith_str_free() it), *status its HTTP status. PITH_IO, with the path: no
 * answer; PITH_INTERRUPTED. */
enum pith_status pith_drive_ask(struct pith_wire *wire, const struct pith_plain_call *question,
                                struct pith_str *answer, long *status, struct pith_error *err);

#endif
