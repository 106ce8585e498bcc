/* Act-order matrices: whose columns belong to groups by g_idx. They are packed with the columns of
 * each group side by side, and x is put into the same order before it is multiplied. */
#include "backend/parts.h"
#include "num/qmat.h"

#include <string.h>

/* Counts (order NULL) or places the columns of groups [first, first + n); false when a group has
 * another number of columns than q->group. A pass over g_idx. */
static bool sort_groups(const struct pith_qmat *q, uint32_t first, uint32_t n, uint32_t *order)
{
    uint32_t count[PITH_ORDER_GROUPS] = {0};
    for (uint32_t c = 0; c < q->cols; c++) {
        const uint32_t g = q->g_idx[c] - first;
        if (g >= n) continue;
        if (count[g] == q->group) return false;
        if (order) order[(size_t)(first + g) * q->group + count[g]] = c;
        count[g]++;
    }
    for (uint32_t g = 0; g < n; g++)
        if (count[g] != q->group) return false;
    return true;
}

bool pith_order_find(const struct pith_qmat *q, uint32_t *order)
{
    if (q->cols > PITH_PREPARED_FLOATS / PITH_PREPARED_ROWS || q->cols % q->group != 0)
        return false;
    for (uint32_t g = 0; q->g_idx && g < q->groups; g += PITH_ORDER_GROUPS) {
        const size_t n = pith_min(PITH_ORDER_GROUPS, q->groups - g);
        if (!sort_groups(q, g, (uint32_t)n, order)) return false;
    }
    return true;
}

/* Bits [at, at + bits) of a stream. */
static inline uint8_t code_at(const uint8_t *stream, size_t at, unsigned bits)
{
    const unsigned shift = at % 8;
    unsigned v = (unsigned)stream[at / 8] >> shift;
    if (shift + bits > 8) v |= (unsigned)stream[at / 8 + 1] << (8 - shift);
    return (uint8_t)(v & ((1u << bits) - 1));
}

void pith_order_codes(const uint8_t *stream, unsigned bits, const uint32_t *order, size_t n,
                      uint8_t *codes)
{
    /* The width that most matrices have gets specialized code. */
    if (bits == 4)
        for (size_t i = 0; i < n; i++)
            codes[i] = (uint8_t)(stream[order[i] / 2] >> order[i] % 2 * 4 & 15);
    else
        for (size_t i = 0; i < n; i++) codes[i] = code_at(stream, (size_t)order[i] * bits, bits);
}

void pith_order_row(const uint32_t *order, size_t n, const float *x, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = x[order[i]];
}
