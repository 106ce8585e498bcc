/* tests/fenced.h: what tests of kernels share: memory that ends at an unreadable page (with
 * PITH_TEST_UNFENCED, for an emulator that reads what a masked load leaves out, at a readable one),
 * values to fill it with, and comparison by bits. Include after defining _DEFAULT_SOURCE. */
#ifndef PITH_TESTS_FENCED_H
#define PITH_TESTS_FENCED_H

#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BUFFERS = 8, BUFFER_PAGES = 40 };

static char *buffers[BUFFERS];
static struct pith_rng rng;

static int open_buffers(void **state)
{
    (void)state;
    const int fence = getenv("PITH_TEST_UNFENCED") ? PROT_READ : PROT_NONE;
    for (size_t i = 0; i < BUFFERS; i++) {
        buffers[i] = mmap(NULL, (BUFFER_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (buffers[i] == MAP_FAILED ||
            mprotect(buffers[i] + BUFFER_PAGES * PAGE, PAGE, fence) != 0)
            return -1;
    }
    pith_rng_seed(&rng, 20);
    return 0;
}

static int close_buffers(void **state)
{
    (void)state;
    for (size_t i = 0; i < BUFFERS; i++) munmap(buffers[i], (BUFFER_PAGES + 1) * PAGE);
    return 0;
}

/* The last `bytes` of buffer i. */
static void *at_end(size_t i, size_t bytes)
{
    assert_true(bytes <= BUFFER_PAGES * PAGE);
    return buffers[i] + BUFFER_PAGES * PAGE - bytes;
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

static float *fresh(size_t buffer, size_t n, enum fill kind)
{
    float *x = at_end(buffer, n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = value(kind);
    return x;
}

static float *same(size_t buffer, const float *x, size_t n)
{
    return memcpy(at_end(buffer, n * sizeof *x), x, n * sizeof *x);
}

static const char *now; /* the kernel under test */

/* The same bits; any NaN equals any NaN. */
static void assert_bits(const float *got, const float *want, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s, size %zu: element %zu is %a, expected %a", now, size, i, (double)got[i],
                     (double)want[i]);
}

#endif
