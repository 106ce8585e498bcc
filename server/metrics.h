/* server/metrics.h: counters and histograms under the names that vLLM's dashboards read. */
#ifndef PITH_SERVER_METRICS_H
#define PITH_SERVER_METRICS_H

#include "server/buffer.h"

#include <pith/engine.h>

struct metrics;

/* Makes it with everything at zero; NULL when memory is out. */
struct metrics *metrics_new(void);
/* Frees; NULL is allowed. */
void metrics_free(struct metrics *m);

/* The limits of a request, when it is accepted. */
void metrics_accept(struct metrics *m, const struct pith_request *request);
/* Tokens of an answer came: `since` seconds after its last ones; below 0 for its first. */
void metrics_tokens(struct metrics *m, size_t tokens, double since);
/* A choice ended so. */
void metrics_finish(struct metrics *m, const char *finish);
/* A request ended. `prior`: seconds before it was submitted that belong to it. */
void metrics_end(struct metrics *m, const struct pith_usage *usage, double prior);
/* A request got this status. */
void metrics_answer(struct metrics *m, unsigned status);

/* All of it as Prometheus reads it. `service` may be NULL. */
void metrics_write(struct metrics *m, struct pith_service *service, const char *model,
                   struct buffer *out);

#endif
