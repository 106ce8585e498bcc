#include "quantize/site/prune.h"

#include "base/mem.h"

#include <math.h>

static enum pith_status check_row(const float *w, uint32_t row, uint32_t cols,
                                  struct pith_error *err)
{
    for (uint32_t c = 0; c + 4 <= cols; c += 4) {
        unsigned zeros = 0;
        for (uint32_t i = 0; i < 4; i++) {
            zeros += w[c + i] == 0.0f;
            if (!isfinite(w[c + i]))
                return pith_fail(err, PITH_NUMERIC,
                                 "row %u, column %u became %g when zeros were made up for: its"
                                 " weights, or its inputs, are too large to be worked with",
                                 row, c + i, (double)w[c + i]);
        }
        if (zeros < 2)
            return pith_fail(err, PITH_MISMATCH,
                             "row %u, columns %u to %u: %u zeros where 2:4 has two", row, c, c + 3,
                             zeros);
    }
    return PITH_OK;
}

enum pith_status pith_two_four_check(struct pith_backend *be, const struct pith_weight *w,
                                     struct pith_error *err)
{
    float *row = pith_alloc(w->cols, sizeof *row);
    enum pith_status s = row ? PITH_OK : pith_fail_nomem(err, "a comparison");
    for (uint32_t r = 0; r < w->rows && s == PITH_OK; r++) {
        pith_decode_rows(be, w, r, 1, row);
        s = check_row(row, r, w->cols, err);
    }
    pith_free(row);
    return s;
}
