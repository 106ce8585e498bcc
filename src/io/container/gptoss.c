#include "io/container/gptoss.h"

#include "io/parts.h"

#include <inttypes.h>
#include <string.h>

enum { BLOCK = 32, BYTES = 16 };

/* Rows of a part in a tensor of that many rows; 0 when there are none. */
static uint64_t rows_of(const struct pith_gptoss_part *p, uint64_t rows)
{
    if (p->step == 0 || p->first >= p->step || rows % p->step) return 0;
    return rows / p->step;
}

static enum pith_status check_tensors(const struct pith_tensor *blocks,
                                      const struct pith_tensor *scales,
                                      const struct pith_gptoss_part *p, struct pith_error *err)
{
    const bool dtypes = blocks->dtype == PITH_U8 &&
                        (scales->dtype == PITH_U8 || scales->dtype == PITH_F8_E8M0);
    if (!dtypes || blocks->dims != 4 || scales->dims != 3 || blocks->shape[3] != BYTES ||
        memcmp(blocks->shape, scales->shape, 3 * sizeof *blocks->shape) != 0)
        return pith_fail(err, PITH_FORMAT,
                         "tensors \"%.100s\" and \"%.100s\" are not bytes [E, N, G, 16] and "
                         "[E, N, G]",
                         blocks->name, scales->name);
    if (p->expert < blocks->shape[0] && rows_of(p, blocks->shape[1]) > 0) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\" has no such rows of expert %" PRIu32,
                     blocks->name, p->expert);
}

static enum pith_status fill(const struct pith_tensor *blocks, const struct pith_tensor *scales,
                             const struct pith_gptoss_part *p, struct pith_qmat *q,
                             struct pith_error *err)
{
    const struct pith_format *e8m0 = pith_format_find("e8m0");
    const uint64_t all = blocks->shape[1];
    for (uint32_t r = 0; r < q->rows; r++) {
        const uint64_t row = p->expert * all + p->first + (uint64_t)r * p->step;
        memcpy(q->codes + r * q->stride, blocks->data + row * q->groups * BYTES, q->stride);
        for (uint32_t g = 0; g < q->groups; g++)
            q->scales[(size_t)r * q->groups + g] = e8m0->decode(scales->data[row * q->groups + g]);
    }
    return pith_part_check(blocks->name, q, err);
}

enum pith_status pith_gptoss_load(const struct pith_tensor *blocks,
                                  const struct pith_tensor *scales,
                                  const struct pith_gptoss_part *part, struct pith_qmat *q,
                                  struct pith_error *err)
{
    const struct pith_grid grid = {
        .format = pith_format_find("mxfp4"), .granularity = PITH_PER_GROUP, .group = BLOCK};
    *q = (struct pith_qmat){0};
    PITH_TRY(check_tensors(blocks, scales, part, err));
    const uint64_t rows = rows_of(part, blocks->shape[1]), groups = blocks->shape[2];
    if (rows > UINT32_MAX || groups > UINT32_MAX / BLOCK)
        return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\" is too large", blocks->name);
    PITH_TRY(pith_qmat_init(q, (uint32_t)rows, (uint32_t)groups * BLOCK, &grid, PITH_F8_E8M0, err));
    return fill(blocks, scales, part, q, err);
}
