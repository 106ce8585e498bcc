/* base/pool.h: one pool of threads, made by the program and passed to whatever computes.
 *
 * Work is a number of independent tasks 0..count-1, handed out in order to whichever thread is
 * free. A task must write only what no other task touches; then results do not depend on the thread
 * count. */
#ifndef PITH_BASE_POOL_H
#define PITH_BASE_POOL_H

#include "base/status.h"

#include <stddef.h>

struct pith_pool;

/* `thread` is 0..threads-1 and names the running thread's private scratch. */
typedef void pith_task_fn(void *ctx, size_t task, unsigned thread);

/* threads counts the caller, who works too; 0 means all CPUs this process may use. */
enum pith_status pith_pool_new(unsigned threads, struct pith_pool **out, struct pith_error *err);
void pith_pool_free(struct pith_pool *pool);

/* Number of threads; a NULL pool has one. */
unsigned pith_pool_threads(const struct pith_pool *pool);

/* Runs all tasks and returns when the last is done. A NULL pool runs them in the caller. Not to be
 * called from inside a task, nor by two threads at once. */
void pith_pool_run(struct pith_pool *pool, size_t count, pith_task_fn *fn, void *ctx);

#endif
