/* base/async.h: one thing done beside the caller: waiting for the disk, above all. */
#ifndef PITH_BASE_ASYNC_H
#define PITH_BASE_ASYNC_H

#include "base/status.h"

/* Memory that a running job takes: its thread's stack. */
enum { PITH_ASYNC_BYTES = 256 << 10 };

typedef enum pith_status pith_async_fn(void *ctx, struct pith_error *err);

/* Starts fn(ctx) in a thread of its own; when there is no thread to be had, does it now. *job is
 * to be waited for before ctx goes away. PITH_NOMEM: nothing was started. */
struct pith_async;
enum pith_status pith_async_start(pith_async_fn *fn, void *ctx, struct pith_async **job,
                                  struct pith_error *err);
/* Waits for the end of *job, gives its status and message, and sets *job to NULL. PITH_OK for a
 * NULL job. */
enum pith_status pith_async_wait(struct pith_async **job, struct pith_error *err);

#endif
