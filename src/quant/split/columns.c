/* LLM.int8() (Dettmers et al. 2022): columns of the inputs that hold an outlier stay in 16 bits.
 * Which they are shows when the inputs come, so nothing is taken out of the weights: all of them
 * are stored in 8 bits, and the threshold goes along with the inputs (num/input.h). */
#include "quant/tables.h"

#include <stdlib.h>

static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    char *end;
    *value = 6.0;
    if (text[0] == '\0') return PITH_OK;
    *value = strtod(text, &end);
    if (*end == '\0' && text[0] >= '0' && text[0] <= '9' && *value > 0.0 && *value <= 1e6)
        return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "columns:%.24s: expected the magnitude from which an input is an outlier, as "
                     "in columns:6.0",
                     text);
}

static enum pith_status run(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                            struct pith_error *err)
{
    (void)job;
    (void)off_grid;
    (void)err;
    return PITH_OK;
}

const struct pith_split pith_split_columns = {
    .name = "columns",
    .summary = "columns of the inputs with an outlier stay in 16 bits (columns:6.0, LLM.int8())",
    .of_inputs = true,
    .option = option,
    .run = run,
};
