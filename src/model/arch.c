#include "model/arch.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>

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

bool pith_arch_buffer(const struct pith_arch *a, const char *part)
{
    if (pith_ends_in(part, "rotary_emb.inv_freq")) return true;
    for (size_t i = 0; i < PITH_ARCH_BUFFERS && a->names.buffer[i]; i++)
        if (strcmp(part, a->names.buffer[i]) == 0) return true;
    return false;
}
