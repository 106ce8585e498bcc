/* base/async.h: one thing done in parallel with the caller: waiting for the disk, above all. */
#ifndef PITH_BASE_ASYNC_H
#define PITH_BASE_ASYNC_H

#include "base/status.h"

/* A running job's stack, of which it touches a little; how many jobs a run has at a time. */
enum { PITH_ASYNC_BYTES = 256 << 10, PITH_ASYNC_MOST = 2 };

typedef enum pith_status pith_async_fn(void *ctx, struct pith_error *err);

/* Starts fn(ctx) in a new thread; when there is no thread to be had, does it now. *job is
 * to be waited for before ctx goes away. PITH_NOMEM: nothing was started. */
struct pith_async;
enum pith_status pith_async_start(pith_async_fn *fn, void *ctx, struct pith_async **job,
                                  struct pith_error *err);
/* Waits for the end of *job, gives its status and message, and sets *job to NULL. PITH_OK for a
 * NULL job. */
enum pith_status pith_async_wait(struct pith_async **job, struct pith_error *err);
/* Maps PITH_ASYNC_MOST stacks, which jobs then take (where the C library keeps those of threads
 * that ended): what a ceiling on memory finds mapped and not touched is not counted, and
 * whether jobs meet later is a matter of moments. */
void pith_async_reserve(void);

#endif
