#define _GNU_SOURCE
#include "base/guard.h"

#include <pith/context.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* One mapping. `begin` is 0 for a free place and 1 while one is being filled: no mapping begins
 * there. */
struct place {
    _Atomic uintptr_t begin;
    _Atomic size_t size;
    atomic_bool writable, lost;
};

static struct place places[PITH_GUARD_MOST];
static atomic_uint used; /* places behind this one were never taken */
static struct sigaction before;
static atomic_int installed;

unsigned pith_guard_add(const void *data, size_t size, bool writable)
{
    for (unsigned i = 0; i < PITH_GUARD_MOST; i++) {
        uintptr_t none = 0;
        if (!atomic_compare_exchange_strong(&places[i].begin, &none, 1)) continue;
        atomic_store(&places[i].size, size);
        atomic_store(&places[i].writable, writable);
        atomic_store(&places[i].lost, false);
        atomic_store(&places[i].begin, (uintptr_t)data);
        unsigned most = atomic_load(&used);
        while (most < i + 1 && !atomic_compare_exchange_weak(&used, &most, i + 1)) continue;
        return i + 1;
    }
    return 0;
}

void pith_guard_drop(unsigned number)
{
    if (number) atomic_store(&places[number - 1].begin, 0);
}

bool pith_guard_lost(unsigned number)
{
    return number && atomic_load(&places[number - 1].lost);
}

/* Zeros from the page of `at` to the end of its mapping: what lies behind the end of a file that
 * became shorter is gone too, and one new mapping serves for all of it. Calls only what a handler
 * may: on Linux mmap() is a bare system call. */
static bool replace(uintptr_t at)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const unsigned count = atomic_load(&used);
    for (unsigned i = 0; i < count; i++) {
        struct place *p = &places[i];
        const uintptr_t begin = atomic_load(&p->begin);
        const size_t size = atomic_load(&p->size);
        /* The place may be given to another mapping at this moment: its size is not this one's. */
        if (begin != atomic_load(&p->begin)) continue;
        if (begin <= 1 || at < begin || at - begin >= size) continue;
        const uintptr_t from = at / page * page;
        const int rights = atomic_load(&p->writable) ? PROT_READ | PROT_WRITE : PROT_READ;
        atomic_store(&p->lost, true);
        return mmap((void *)from, begin + size - from, rights,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

/* Not one of ours: the earlier handler decides; by default the access is made again, and then
 * ends the process. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
    else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)
        (void)sigaction(number, &before, NULL);
    else before.sa_handler(number);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    /* si_code is positive when the kernel sends it, for an access. */
    const bool ours = info->si_code > 0 && replace((uintptr_t)info->si_addr);
    if (!ours) pass_on(number, info, context);
    errno = saved;
}

enum pith_status pith_guard_files(struct pith_error *err)
{
    struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction large = {.sa_handler = SIG_IGN}, now;
    int first = 0;
    if (!atomic_compare_exchange_strong(&installed, &first, 1)) return PITH_OK;
    if (sigaction(SIGBUS, NULL, &before) != 0 || sigaction(SIGBUS, &bus, NULL) != 0)
        return pith_fail_errno(err, "cannot handle", "SIGBUS");
    if (sigaction(SIGXFSZ, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == SIG_DFL)
        (void)sigaction(SIGXFSZ, &large, NULL);
    return PITH_OK;
}
