#include "model/arch.h"

#include "base/mem.h"
#include "model/arch/family.h"

static const struct pith_arch *const rows[] = {
#define PITH_ARCH(row) &row,
#include "model/archs.def"
#undef PITH_ARCH
};

const struct pith_arch *const *pith_archs(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}
