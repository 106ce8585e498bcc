/* server/http/workers.h: threads that make answers, so that the connections' thread never waits. */
#ifndef PITH_SERVER_WORKERS_H
#define PITH_SERVER_WORKERS_H

#include <stdbool.h>
#include <stddef.h>

struct exchange;
struct workers;

/* Starts threads; NULL when there are none to be had. */
struct workers *workers_new(size_t threads);
/* Lets one of them run e->work(e), soon; holds the exchange until then. False: they were stopped.
 */
bool workers_give(struct workers *w, struct exchange *e);
/* Exchanges that wait. */
size_t workers_waiting(struct workers *w);
/* Runs what waits and ends the threads; nothing more is taken. NULL is allowed. */
void workers_stop(struct workers *w);
/* Stops and frees; NULL is allowed. */
void workers_free(struct workers *w);

#endif
