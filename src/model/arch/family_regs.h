/* model/arch/family_regs.h: the registers of the family's plans; inside arch/family_*.c only. */
#ifndef PITH_MODEL_ARCH_FAMILY_REGS_H
#define PITH_MODEL_ARCH_FAMILY_REGS_H

#include "model/arch/family.h"

enum { X = PITH_REG_STREAM, NORMED, Q, K, V, GATE, UP, OUT, BRANCH, FUSED, LOGITS, ROWS, RESULT };

#endif
