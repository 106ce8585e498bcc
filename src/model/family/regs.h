/* model/family/regs.h: the registers of the family's plans; inside arch/family_*.c only. */
#ifndef PITH_MODEL_FAMILY_REGS_H
#define PITH_MODEL_FAMILY_REGS_H

#include "model/family/family.h"

enum {
    X = PITH_REG_STREAM,
    TOKEN = PITH_REG_TOKEN,
    NORMED,
    Q,
    K,
    V,
    GATE,
    UP,
    OUT,
    BRANCH,
    FUSED,
    LOGITS,
    ROWS,
    RESULT,
    KEPT_K, /* keys and values that later layers share: of layers without, then with a window */
    KEPT_V,
    KEPT_WINDOW_K,
    KEPT_WINDOW_V
};

#endif
