#define _GNU_SOURCE
#include "base/pool.h"

#include "base/mem.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* How long a thread spins before it sleeps: decoding hands work over thousands of times a second,
 * and a futex round trip costs more than most of its tasks. The tasks of a prompt take up to a few
 * hundred microseconds, and so does the wait for another thread's last. Nobody spins in a pool of
 * more threads than there are processors: it would take the time of those that have work. */
enum { SPIN_NS = 300000 };
/* How long an idle worker spins before it lets others that have work go first each time. The caller
 * does not: what it waits for is the end of a task. */
enum { YIELD_NS = 5000 };

/* Tasks keep large scratch on the heap; a small stack counts less against a memory ceiling. */
enum { STACK_BYTES = 1 << 20 };

struct worker {
    struct pith_pool *pool;
    pthread_t id;
    unsigned index;
};

/* A run is open from its start until the caller finds no task left; a worker that comes in time
 * counts itself in, and the caller waits for those that did. One that sleeps, or that the system
 * has not let run, costs nothing: the others do its part. */
#define CLOSED ((uint64_t)1 << 31)
#define RUN_OF(state) ((state) >> 32)
#define ACTIVE_OF(state) ((state) & (CLOSED - 1))

/* Who goes to sleep says so first and looks at the state after; who wakes others changes the state
 * first and looks for sleepers after. One of the two must see the other, so no load may pass the
 * write before it. Each such write is an exchange: an emulator of Arm processors lets a load pass
 * the sequentially consistent store before it. */
struct pith_pool {
    unsigned threads;
    int64_t spin;           /* nanoseconds */
    struct worker *workers; /* threads - 1 */
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    atomic_uint sleepers; /* workers in wake; changed under lock */
    atomic_bool waiting;  /* the caller is in idle; changed under lock */
    atomic_bool stop;
    size_t count;
    pith_task_fn *fn;
    void *ctx;
    /* Each on a separate cache line: one is read while idle, the other changed by every task. */
    _Alignas(64) _Atomic uint64_t state; /* number of the run, CLOSED, workers inside */
    _Alignas(64) atomic_size_t next;
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

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether there is a run, open and not the one seen. */
static bool is_news(struct pith_pool *p, uint64_t state, uint64_t seen)
{
    return (!(state & CLOSED) && RUN_OF(state) != seen) || atomic_load(&p->stop);
}

/* Spins until test(p, value) holds; false when it did not in time. */
typedef bool test_fn(struct pith_pool *p, uint64_t state, uint64_t value);
static bool spin_until(struct pith_pool *p, test_fn *test, uint64_t value)
{
    enum { ROUNDS = 32 }; /* between looks at the clock */
    const int64_t start = p->spin ? now_ns() : 0;
    int64_t spent = 0;
    do {
        for (int i = 0; i < ROUNDS; i++) {
            if (test(p, atomic_load_explicit(&p->state, memory_order_acquire), value)) return true;
            cpu_relax();
        }
        if (p->spin) spent = now_ns() - start;
        if (test == is_news && spent > YIELD_NS) sched_yield();
    } while (spent < p->spin);
    return false;
}

static void sleep_until_news(struct pith_pool *p, uint64_t seen)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (!is_news(p, atomic_load(&p->state), seen)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

/* Counts the calling worker into the open run; false when it has been closed. */
static bool join(struct pith_pool *p, uint64_t *seen)
{
    uint64_t state = atomic_load_explicit(&p->state, memory_order_acquire);
    while (!(state & CLOSED) && RUN_OF(state) != *seen) {
        if (!atomic_compare_exchange_weak(&p->state, &state, state + 1)) continue;
        *seen = RUN_OF(state);
        return true;
    }
    return false;
}

static void leave(struct pith_pool *p)
{
    const uint64_t state = atomic_fetch_sub(&p->state, 1) - 1;
    if (!(state & CLOSED) || ACTIVE_OF(state) > 0 || !atomic_load(&p->waiting)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    const struct worker *w = arg;
    struct pith_pool *p = w->pool;
    uint64_t seen = 0;
    for (;;) {
        if (!spin_until(p, is_news, seen)) sleep_until_news(p, seen);
        if (atomic_load(&p->stop)) return NULL;
        if (!join(p, &seen)) continue;
        work(p, w->index);
        leave(p);
    }
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
    atomic_store(&p->stop, true);
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
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
    struct pith_pool *p = pith_alloc_aligned(1, sizeof *p);
    if (!p) return pith_fail_nomem(err, "the thread pool");
    memset(p, 0, sizeof *p);
    p->threads = threads;
    p->spin = threads <= usable_cpus() ? SPIN_NS : 0;
    atomic_init(&p->state, CLOSED);
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

/* Opens the next run and wakes as many sleepers as could find a task. */
static void open_run(struct pith_pool *p)
{
    const uint64_t run = RUN_OF(atomic_load_explicit(&p->state, memory_order_relaxed)) + 1;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    (void)atomic_exchange(&p->state, run << 32);
    if (atomic_load(&p->sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    const unsigned sleepers = atomic_load(&p->sleepers);
    if (p->count > sleepers) pthread_cond_broadcast(&p->wake);
    else
        for (size_t i = 1; i < p->count; i++) pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static bool is_idle(struct pith_pool *p, uint64_t state, uint64_t none)
{
    (void)p;
    return ACTIVE_OF(state) == none;
}

static void close_run(struct pith_pool *p)
{
    atomic_fetch_or(&p->state, CLOSED);
    if (spin_until(p, is_idle, 0)) return;
    pthread_mutex_lock(&p->lock);
    (void)atomic_exchange(&p->waiting, true);
    while (ACTIVE_OF(atomic_load(&p->state)) != 0) pthread_cond_wait(&p->idle, &p->lock);
    atomic_store(&p->waiting, false);
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
    open_run(p);
    work(p, 0);
    close_run(p);
}
