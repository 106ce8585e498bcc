#define _GNU_SOURCE
#include "base/pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Rounds of spinning before a thread sleeps: decode hands work over thousands of times a second,
 * and a futex round trip costs more than most of its tasks. */
enum { SPIN = 2000 };

/* Tasks keep large scratch on the heap; a small stack counts less against a memory ceiling. */
enum { STACK_BYTES = 1 << 20 };

struct worker {
    struct pith_pool *pool;
    pthread_t id;
    unsigned index;
};

struct pith_pool {
    unsigned threads;
    struct worker *workers; /* threads - 1 */
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    atomic_uint generation; /* grows by one with each run; written under lock */
    atomic_uint running;    /* workers still inside the present run */
    atomic_size_t next;
    size_t count;
    pith_task_fn *fn;
    void *ctx;
    bool stop;
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void work(struct pith_pool *p, unsigned thread)
{
    for (;;) {
        const size_t task = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (task >= p->count) return;
        p->fn(p->ctx, task, thread);
    }
}

static unsigned wait_for_run(struct pith_pool *p, unsigned seen)
{
    for (int i = 0; i < SPIN; i++) {
        const unsigned g = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (g != seen) return g;
        cpu_relax();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->generation) == seen) pthread_cond_wait(&p->wake, &p->lock);
    const unsigned g = atomic_load(&p->generation);
    pthread_mutex_unlock(&p->lock);
    return g;
}

static void *worker_main(void *arg)
{
    const struct worker *w = arg;
    struct pith_pool *p = w->pool;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_run(p, seen);
        if (p->stop) return NULL;
        work(p, w->index);
        if (atomic_fetch_sub(&p->running, 1) == 1) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->idle);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void publish(struct pith_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static int start_worker(struct worker *w)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (rc == 0) rc = pthread_create(&w->id, &attr, worker_main, w);
    pthread_attr_destroy(&attr);
    return rc;
}

static void stop_workers(struct pith_pool *p, unsigned started)
{
    p->stop = true;
    publish(p);
    for (unsigned i = 0; i < started; i++) pthread_join(p->workers[i].id, NULL);
}

static unsigned usable_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    const int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}

enum pith_status pith_pool_new(unsigned threads, struct pith_pool **out, struct pith_error *err)
{
    if (threads == 0) threads = usable_cpus();
    if (threads > 1024) return pith_fail(err, PITH_ARG, "%u threads are more than 1024", threads);
    struct pith_pool *p = pith_zalloc(1, sizeof *p);
    if (!p) return pith_fail_nomem(err, "the thread pool");
    p->threads = threads;
    p->workers = pith_zalloc(threads, sizeof *p->workers);
    if (!p->workers) goto fail_workers;
    if (pthread_mutex_init(&p->lock, NULL) != 0) goto fail_lock;
    if (pthread_cond_init(&p->wake, NULL) != 0) goto fail_wake;
    if (pthread_cond_init(&p->idle, NULL) != 0) goto fail_idle;
    for (unsigned i = 0; i + 1 < threads; i++) {
        p->workers[i] = (struct worker){.pool = p, .index = i + 1};
        if (start_worker(&p->workers[i]) != 0) {
            stop_workers(p, i);
            goto fail_thread;
        }
    }
    *out = p;
    return PITH_OK;
fail_thread:
    pthread_cond_destroy(&p->idle);
fail_idle:
    pthread_cond_destroy(&p->wake);
fail_wake:
    pthread_mutex_destroy(&p->lock);
fail_lock:
    pith_free(p->workers);
fail_workers:
    pith_free(p);
    return pith_fail(err, PITH_NOMEM, "cannot start %u threads", threads);
}

void pith_pool_free(struct pith_pool *p)
{
    if (!p) return;
    stop_workers(p, p->threads - 1);
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    pith_free(p->workers);
    pith_free(p);
}

unsigned pith_pool_threads(const struct pith_pool *pool)
{
    return pool ? pool->threads : 1;
}

static void wait_idle(struct pith_pool *p)
{
    for (int i = 0; i < SPIN; i++) {
        if (atomic_load_explicit(&p->running, memory_order_acquire) == 0) return;
        cpu_relax();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->running) != 0) pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void pith_pool_run(struct pith_pool *p, size_t count, pith_task_fn *fn, void *ctx)
{
    if (!p || p->threads == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++) fn(ctx, i, 0);
        return;
    }
    p->fn = fn;
    p->ctx = ctx;
    p->count = count;
    atomic_store(&p->next, 0);
    atomic_store(&p->running, p->threads - 1);
    publish(p);
    work(p, 0);
    wait_idle(p);
}
