/* Fences do what tests of kernels rely on: a byte before or behind them can be used, the next one
 * cannot be read. */
#define _DEFAULT_SOURCE
#include "fenced.h"

#include <signal.h>

static sigjmp_buf back;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static bool faults(const char *at)
{
    struct sigaction to = {.sa_handler = leave}, segv, bus;
    volatile bool fault = true;
    sigemptyset(&to.sa_mask);
    sigaction(SIGSEGV, &to, &segv);
    sigaction(SIGBUS, &to, &bus);
    if (sigsetjmp(back, 1) == 0) {
        (void)*(const volatile char *)at;
        fault = false;
    }
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return fault;
}

static void beyond_a_fence_nothing_is_read(void **state)
{
    (void)state;
    const bool fence = !getenv("PITH_TEST_UNFENCED");
    static const size_t sizes[] = {1, 3, 64, 4096, 70000, BUFFER_BYTES};
    for (size_t i = 0; i < PITH_COUNT(sizes) * BUFFERS; i++) {
        const size_t n = sizes[i / BUFFERS];
        char *x = fenced(i % BUFFERS, n);
        memset(x, 7, n);
        assert_true(!faults(x) && !faults(x + n - 1));
        assert_true(faults(behind_fence ? x - 1 : x + n) == fence);
        assert_true(faults(behind_fence ? x - FENCE : x + n + FENCE - 1) == fence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FENCED_TEST(beyond_a_fence_nothing_is_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
