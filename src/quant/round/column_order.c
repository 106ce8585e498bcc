#include "quant/round/column_order.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

struct ranked {
    float key;
    uint32_t column;
};

/* Merge sort by decreasing key, stable: qsort is not, and ties must not depend on the C library. */
static void sort_ranked(struct ranked *x, struct ranked *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            const size_t mid = lo + width < n ? lo + width : n;
            const size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t a = lo, b = mid;
            for (size_t i = lo; i < hi; i++) {
                const bool left = a < mid && (b == hi || x[a].key >= x[b].key);
                tmp[i] = left ? x[a++] : x[b++];
            }
        }
        memcpy(x, tmp, n * sizeof *x);
    }
}

enum pith_status pith_column_order(const float *h, uint32_t n, uint32_t width, uint32_t block,
                                   uint32_t *perm, struct pith_error *err)
{
    const uint32_t count = n / width;
    struct ranked *x = pith_alloc((size_t)count * 2, sizeof *x);
    if (!x) return pith_fail_nomem(err, "GPTQ's column order");
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (struct ranked){0.0f, i * width};
        for (uint32_t k = i * width; k < (i + 1) * width; k++)
            x[i].key = fmaxf(x[i].key, h[(size_t)k * n + k]);
    }
    for (uint32_t first = 0; first < count; first += block / width) {
        const uint32_t left = count - first, run = left < block / width ? left : block / width;
        sort_ranked(x + first, x + count, run);
    }
    for (uint32_t k = 0; k < n; k++) perm[k] = x[k / width].column + k % width;
    pith_free(x);
    return PITH_OK;
}
