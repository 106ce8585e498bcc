#include "base/async.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdbool.h>

struct pith_async {
    pith_async_fn *fn;
    void *ctx;
    pthread_t id;
    bool threaded;
    enum pith_status status;
    struct pith_error err;
};

static void *async_main(void *arg)
{
    struct pith_async *j = arg;
    j->status = j->fn(j->ctx, &j->err);
    return NULL;
}

static bool start_thread(pthread_t *id, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    const bool started = pthread_attr_setstacksize(&attr, PITH_ASYNC_BYTES) == 0 &&
                         pthread_create(id, &attr, run, arg) == 0;
    pthread_attr_destroy(&attr);
    return started;
}

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

void pith_async_reserve(void)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t id[PITH_ASYNC_MOST];
    size_t n = 0;
    pthread_mutex_lock(&gate);
    while (n < PITH_ASYNC_MOST && start_thread(&id[n], pass, &gate)) n++;
    pthread_mutex_unlock(&gate);
    while (n > 0) pthread_join(id[--n], NULL);
    pthread_mutex_destroy(&gate);
}

enum pith_status pith_async_start(pith_async_fn *fn, void *ctx, struct pith_async **job,
                                  struct pith_error *err)
{
    struct pith_async *j = pith_zalloc(1, sizeof *j);
    if (!j) return pith_fail_nomem(err, "a job");
    j->fn = fn;
    j->ctx = ctx;
    j->threaded = start_thread(&j->id, async_main, j);
    if (!j->threaded) async_main(j);
    *job = j;
    return PITH_OK;
}

enum pith_status pith_async_wait(struct pith_async **job, struct pith_error *err)
{
    struct pith_async *j = *job;
    if (!j) return PITH_OK;
    if (j->threaded) pthread_join(j->id, NULL);
    const enum pith_status s = j->status;
    if (s != PITH_OK && err) *err = j->err;
    pith_free(j);
    *job = NULL;
    return s;
}
