/* Threads over one list of exchanges. */
#include "server/http/workers.h"

#include "server/http/exchange.h"

#include <stdlib.h>

enum { MOST_THREADS = 8 };

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t some;
    struct exchange *first, *last;
    size_t waiting, threads;
    bool ending;
    pthread_t thread[MOST_THREADS];
};

static struct exchange *next_of(struct workers *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->ending) pthread_cond_wait(&w->some, &w->lock);
    struct exchange *e = w->first;
    if (e) {
        w->first = e->queued;
        if (!w->first) w->last = NULL;
        w->waiting--;
    }
    pthread_mutex_unlock(&w->lock);
    return e;
}

static void *run(void *workers)
{
    struct exchange *e;
    while ((e = next_of(workers)) != NULL) {
        e->work(e);
        exchange_drop(e);
    }
    return NULL;
}

struct workers *workers_new(size_t threads)
{
    struct workers *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->some, NULL);
    while (w->threads < threads && w->threads < MOST_THREADS)
        if (pthread_create(&w->thread[w->threads], NULL, run, w) != 0) break;
        else w->threads++;
    if (w->threads > 0) return w;
    workers_free(w);
    return NULL;
}

bool workers_give(struct workers *w, struct exchange *e)
{
    pthread_mutex_lock(&w->lock);
    const bool taken = !w->ending;
    if (taken) {
        exchange_hold(e);
        e->queued = NULL;
        if (w->last) w->last->queued = e;
        else w->first = e;
        w->last = e;
        w->waiting++;
        pthread_cond_signal(&w->some);
    }
    pthread_mutex_unlock(&w->lock);
    return taken;
}

size_t workers_waiting(struct workers *w)
{
    pthread_mutex_lock(&w->lock);
    const size_t n = w->waiting;
    pthread_mutex_unlock(&w->lock);
    return n;
}

void workers_stop(struct workers *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_broadcast(&w->some);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < w->threads; i++) pthread_join(w->thread[i], NULL);
    w->threads = 0;
}

void workers_free(struct workers *w)
{
    if (!w) return;
    workers_stop(w);
    pthread_cond_destroy(&w->some);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
