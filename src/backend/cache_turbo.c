/* turbo2 to turbo4: TurboQuant's rows (num/gaussian.h). */
#include "backend/kv_kinds.h"

static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    return pith_row_code_gaussian(heads->bits, heads->cols, level, out, err);
}

const struct pith_kv_kind pith_kv_turbo = {
    .name = "turbo",
    .needs = PITH_KV_ROTATED,
    .code = code,
};
