#include "cli/interrupt.h"

#include "cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum state { NONE, REQUESTED, HEARD, DEADLINE };

/* Handlers and threads share this: each member is one that a handler may touch. */
static struct {
    atomic_int state; /* enum state */
    atomic_int unhurried, final, resumable, silent;
    atomic_int alarms;             /* that rang since the signal */
    _Atomic int64_t since, worked; /* ns at the signal: by the clock, and of this process's work */
    int wake[2];                   /* a pipe: a byte in it while the state is not NONE; -1: none */
} interrupt = {.wake = {-1, -1}};

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double since(clockid_t clock, int64_t then)
{
    return 1e-9 * (double)(nanoseconds(clock) - then);
}

/* --- the handlers ----------------------------------------------------------------------------- */

static void end_now(void)
{
    atomic_store(&interrupt.state, DEADLINE);
    _exit(EXIT_INTERRUPTED);
}

/* A second one ends the program at once: the output is resumable at any moment anyway. What starts
 * programs hands on what its group was sent already (timeout, make, uv): the same signal twice
 * within a tenth of a second, which no hand does, is one. */
static void on_signal(int number)
{
    const int saved = errno;
    int none = NONE;
    if (number == SIGTERM) atomic_store(&interrupt.final, 1);
    if (atomic_load(&interrupt.state) == NONE) {
        atomic_store(&interrupt.since, nanoseconds(CLOCK_MONOTONIC));
        atomic_store(&interrupt.worked, nanoseconds(CLOCK_PROCESS_CPUTIME_ID));
        atomic_store(&interrupt.alarms, 0);
    }
    if (atomic_compare_exchange_strong(&interrupt.state, &none, REQUESTED)) {
        const ssize_t woken = write(interrupt.wake[1], "", 1);
        (void)woken;
        alarm(1);
    } else if (since(CLOCK_MONOTONIC, atomic_load(&interrupt.since)) > 0.1) {
        end_now();
    }
    errno = saved;
}

/* Had the processors, but others had them for most of the time. */
static bool was_waiting(void)
{
    const double worked = since(CLOCK_PROCESS_CPUTIME_ID, atomic_load(&interrupt.worked));
    return worked > 0.01 && worked < 0.8;
}

/* Work that does not hear of it in time ends as by the second signal. */
static void on_alarm(int number)
{
    enum { MOST = 3 };
    static const char plain[] = "\npith: interrupted\n",
                      resume_text[] =
                          "\npith: interrupted; finished work is stored: go on with --resume\n";
    const int saved = errno, state = atomic_load(&interrupt.state);
    (void)number;
    if (state == NONE || atomic_load(&interrupt.unhurried)) return; /* cleared meanwhile */
    if (state == REQUESTED && atomic_fetch_add(&interrupt.alarms, 1) + 1 < MOST && was_waiting()) {
        alarm(1);
        errno = saved;
        return;
    }
    if (!atomic_load(&interrupt.silent)) {
        const bool resumable = atomic_load(&interrupt.resumable) != 0;
        const ssize_t written = resumable
                                    ? write(STDERR_FILENO, resume_text, sizeof resume_text - 1)
                                    : write(STDERR_FILENO, plain, sizeof plain - 1);
        (void)written;
    }
    end_now();
}

static void set_flag(int fd, int get, int set, int flag)
{
    const int flags = fcntl(fd, get);
    if (flags >= 0) (void)fcntl(fd, set, flags | flag);
}

void interrupt_catch(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    if (pipe(interrupt.wake) != 0) interrupt.wake[0] = interrupt.wake[1] = -1;
    for (int i = 0; i < 2 && interrupt.wake[i] >= 0; i++) {
        set_flag(interrupt.wake[i], F_GETFD, F_SETFD, FD_CLOEXEC);
        set_flag(interrupt.wake[i], F_GETFL, F_SETFL, O_NONBLOCK);
    }
    sigemptyset(&a.sa_mask);
    sigaddset(&a.sa_mask, SIGINT);
    sigaddset(&a.sa_mask, SIGTERM);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    a.sa_handler = on_alarm;
    sigaction(SIGALRM, &a, NULL);
}

/* --- what the program sees -------------------------------------------------------------------- */

bool interrupted(void)
{
    int state = REQUESTED;
    (void)atomic_compare_exchange_strong(&interrupt.state, &state, HEARD);
    /* `state` is what it was. */
    if (state == NONE) return false;
    if (!atomic_load(&interrupt.unhurried)) alarm(5);
    return true;
}

bool interrupt_is_final(void)
{
    return atomic_load(&interrupt.final) != 0;
}

static void drain(void)
{
    char bytes[16];
    while (interrupt.wake[0] >= 0 && read(interrupt.wake[0], bytes, sizeof bytes) > 0) continue;
}

/* An alarm that another thread sets meanwhile rings in NONE, to no effect, or is replaced by that
 * of the next signal. */
void interrupt_clear(void)
{
    alarm(0);
    drain();
    atomic_store(&interrupt.state, NONE);
}

void interrupt_resumable(void)
{
    atomic_store(&interrupt.resumable, 1);
}

void interrupt_unhurried(void)
{
    atomic_store(&interrupt.unhurried, 1);
    alarm(0);
}

void interrupt_silently(void)
{
    atomic_store(&interrupt.silent, 1);
}

bool interrupt_wait(int fd)
{
    struct pollfd on[2] = {{.fd = fd, .events = POLLIN},
                           {.fd = interrupt.wake[0], .events = POLLIN}};
    for (;;) {
        const int n = poll(on, 2, -1);
        if (n < 0 && errno != EINTR) return true; /* reading says why */
        if (atomic_load(&interrupt.state) != NONE) return false;
        if (n > 0 && on[0].revents) return true;
        drain();
    }
}
