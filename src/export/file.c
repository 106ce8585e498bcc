/* Containers that are one file. */
#include "export/file.h"

#include "base/mem.h"
#include "export/gguf.h"

#include <string.h>

static const struct pith_file_export files[] = {
    {"gguf", pith_gguf_stored_dtype, pith_gguf_keeps, pith_gguf_side_by_side, pith_gguf_finish,
     pith_gguf_end_grid},
};

const struct pith_file_export *pith_file_export_of(const struct pith_container *c)
{
    for (size_t i = 0; c->file && i < PITH_COUNT(files); i++)
        if (strcmp(files[i].container, c->name) == 0) return &files[i];
    return NULL;
}
