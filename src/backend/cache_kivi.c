/* kivi2 and kivi4: groups of num/kivi.h. */
#include "backend/kv_kinds.h"

static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    (void)level, (void)err;
    *out = pith_row_code_kivi(heads->bits, heads->cols, heads->keys);
    return PITH_OK;
}

const struct pith_kv_kind pith_kv_kivi = {
    .name = "kivi",
    .least_recent = 1,
    .channels = true,
    .code = code,
};
