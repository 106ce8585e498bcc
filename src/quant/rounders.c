/* quant/rounders.c: the table of rounders. Those that sweep are {gptq, gptaq, qep}, which outputs
 * are compared, by {itself, guided, kron}, how the model's loss weighs them. */
#include "quant/tables.h"

#include "base/mem.h"
#include "base/names.h"

#include <string.h>

enum {
    HESSIAN = PITH_NEED_HESSIAN,
    SQUARES = PITH_NEED_SQUARES,
    DRIFT = PITH_NEED_DRIFT,
    GUIDED = PITH_NEED_GUIDED,
    KRON = PITH_NEED_GUIDED | PITH_NEED_OUTPUTS
};

static const struct pith_rounder rounders[] = {
    {.name = "nearest",
     .summary = "each weight to the nearest grid point",
     .by = &pith_round_by_nearest},
    {.name = "gptq",
     .summary = "each column's rounding error is made up for by the columns after it",
     .by = &pith_round_by_sweep,
     .needs = HESSIAN},
    {.name = "gptq:guided",
     .summary = "GPTQ, in which a token counts by how much the model's loss feels it",
     .by = &pith_round_by_sweep,
     .needs = HESSIAN | GUIDED,
     .alone = "gptq"},
    {.name = "gptaq",
     .summary = "GPTQ that makes up for what the blocks before did to the inputs, column by column",
     .by = &pith_round_by_sweep,
     .form = PITH_SWEEP_GPTAQ,
     .needs = HESSIAN | DRIFT,
     .alone = "gptq"},
    {.name = "gptaq:guided",
     .summary = "the same, in which a token counts by how much the model's loss feels it",
     .by = &pith_round_by_sweep,
     .form = PITH_SWEEP_GPTAQ,
     .needs = HESSIAN | DRIFT | GUIDED,
     .alone = "gptq"},
    {.name = "qep",
     .summary =
         "GPTQ of the matrix that makes up best for what the blocks before did to the inputs",
     .by = &pith_round_by_sweep,
     .form = PITH_SWEEP_QEP,
     .needs = HESSIAN | DRIFT,
     .alone = "gptq"},
    {.name = "qep:guided",
     .summary = "the same, in which a token counts by how much the model's loss feels it",
     .by = &pith_round_by_sweep,
     .form = PITH_SWEEP_QEP,
     .needs = HESSIAN | DRIFT | GUIDED,
     .alone = "gptq"},
    {.name = "gptq:kron",
     .summary = "GPTQ in which rows make up for each other too, as the loss feels pairs of them",
     .by = &pith_round_by_sweep,
     .needs = HESSIAN | KRON,
     .alone = "gptq"},
    {.name = "qep:kron",
     .summary = "the same of the matrix that makes up for what the blocks before did to the inputs",
     .by = &pith_round_by_sweep,
     .form = PITH_SWEEP_QEP,
     .needs = HESSIAN | DRIFT | KRON,
     .alone = "gptq"},
    {.name = "learned",
     .summary = "rounding and ranges by signed gradient descent on what the block gives",
     .by = &pith_round_by_learning,
     .needs = HESSIAN},
    {.name = "weighted",
     .summary = "nearest, on scales for which an error counts by its input's mean square",
     .by = &pith_round_by_nearest,
     .needs = SQUARES},
    {.name = "weighted:guided",
     .summary = "the same, by what the model's loss feels of an error in that column",
     .by = &pith_round_by_nearest,
     .needs = SQUARES | GUIDED,
     .alone = "weighted"},
};

const struct pith_rounder *pith_rounders(size_t *count)
{
    *count = PITH_COUNT(rounders);
    return rounders;
}

const struct pith_rounder *pith_rounder_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rounders); i++)
        if (pith_name_equal(rounders[i].name, name)) return &rounders[i];
    return NULL;
}
