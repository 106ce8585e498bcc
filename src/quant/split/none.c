#include "quant/tables.h"

static enum pith_status run(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                            struct pith_error *err)
{
    (void)job;
    (void)off_grid;
    (void)err;
    return PITH_OK;
}

const struct pith_split pith_split_none = {
    .name = "none",
    .summary = "every weight goes on the grid",
    .run = run,
};
