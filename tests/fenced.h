/* tests/fenced.h: what tests of kernels share: memory that lies between pages that may not be touched
 * and ends at the one or begins behind the other (with PITH_TEST_UNFENCED, for an emulator that
 * reads what a masked load leaves out, these may be read), values to fill it with, and comparison by
 * bits. Include after defining _DEFAULT_SOURCE. */
#ifndef PITH_TESTS_FENCED_H
#define PITH_TESTS_FENCED_H

#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Multiples of every size of a page. */
enum { FENCE = 1 << 16, BUFFERS = 20, BUFFER_BYTES = 1 << 19 };

static char *buffers[BUFFERS];
static struct pith_rng rng;
static bool behind_fence;
static const char *now; /* the kernel under test; NULL: none */

static int open_buffers(bool behind)
{
    const int fence = getenv("PITH_TEST_UNFENCED") ? PROT_READ : PROT_NONE;
    for (size_t i = 0; i < BUFFERS; i++) {
        char *map = mmap(NULL, 2 * FENCE + BUFFER_BYTES, fence, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED || mprotect(map + FENCE, BUFFER_BYTES, PROT_READ | PROT_WRITE) != 0)
            return -1;
        buffers[i] = map + FENCE;
    }
    behind_fence = behind;
    now = NULL;
    pith_rng_seed(&rng, 20);
    return 0;
}

static int open_before_fence(void **state)
{
    (void)state;
    return open_buffers(false);
}

static int open_behind_fence(void **state)
{
    (void)state;
    return open_buffers(true);
}

/* A test that a fence ends leaves the name of the kernel. */
static int close_buffers(void **state)
{
    (void)state;
    if (now) fprintf(stderr, "the test ended within %s\n", now);
    for (size_t i = 0; i < BUFFERS; i++) munmap(buffers[i] - FENCE, 2 * FENCE + BUFFER_BYTES);
    return 0;
}

/* A test with its buffers before a fence, and the same behind one. */
#define FENCED_TEST_AT(test, side)                                                                 \
    {                                                                                              \
        .name = #test " (" #side " a fence)", .test_func = test,                                   \
        .setup_func = open_##side##_fence, .teardown_func = close_buffers                          \
    }
#define FENCED_TEST(test) FENCED_TEST_AT(test, before), FENCED_TEST_AT(test, behind)

/* `bytes` of buffer i: the last before a fence, or the first behind one. */
static void *fenced(size_t i, size_t bytes)
{
    assert_true(i < BUFFERS && bytes <= BUFFER_BYTES);
    return buffers[i] + (behind_fence ? 0 : BUFFER_BYTES - bytes);
}

/* The same with what lies at x. */
static void *fenced_copy(size_t i, const void *x, size_t bytes)
{
    return memcpy(fenced(i, bytes), x, bytes);
}

enum fill { INTEGERS, RANDOM, EXTREME, FILLS };

static float value(enum fill kind)
{
    static const float extreme[] = {0.0f,    -0.0f, 1e-40f, -3e-42f, 1e-20f,  -1e20f, 88.8f, -88.0f,
                                    -104.5f, 3e38f, -3e38f, 1.0f,    -103.5f, -87.5f, 700.0f};
    if (kind == INTEGERS) return (float)pith_rng_below(&rng, 17) - 8;
    if (kind == RANDOM) return (float)(pith_rng_normal(&rng) * 3);
    return extreme[pith_rng_below(&rng, PITH_COUNT(extreme))];
}

static inline float *fresh(size_t buffer, size_t n, enum fill kind)
{
    float *x = fenced(buffer, n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = value(kind);
    return x;
}

static inline float *same(size_t buffer, const float *x, size_t n)
{
    return fenced_copy(buffer, x, n * sizeof *x);
}

/* The first of n floats whose bits differ, or n; any NaN equals any NaN. */
static size_t first_unlike(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            return i;
    return n;
}

static inline void assert_bits(const float *got, const float *want, size_t n, size_t size)
{
    const size_t i = first_unlike(got, want, n);
    if (i < n)
        fail_msg("%s, size %zu: element %zu is %a, expected %a", now, size, i, (double)got[i],
                 (double)want[i]);
}

#endif
