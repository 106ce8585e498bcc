/* turbo2 to turbo4: TurboQuant's rows (num/gaussian.h), as pages of a grid are. */
#include "backend/cache/pages.h"

static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    PITH_TRY(pith_row_code_gaussian(heads->bits, heads->cols, level, out, err));
    out->kind = &pith_kv_turbo;
    return PITH_OK;
}

const struct pith_kv_kind pith_kv_turbo = {
    .name = "turbo",
    .needs = PITH_KV_ROTATED,
    .code = code,
    .page_bytes = pith_coded_page_bytes,
    .store = pith_coded_store,
    .key_tile = pith_coded_key_tile,
    .value_tile = pith_coded_value_tile,
    .scores = pith_coded_scores,
    .values = pith_coded_values,
};
