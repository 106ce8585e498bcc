/* export/file.h: what a container that is one file decides beyond io/container/container.h, since
 * it takes the model to decide it. One row of files[] (file.c) a container. */
#ifndef PITH_EXPORT_FILE_H
#define PITH_EXPORT_FILE_H

#include "io/container/container.h"
#include "io/safetensors.h"
#include "model/model.h"

struct pith_file_export {
    const char *container; /* struct pith_container, name */
    /* The dtype that a tensor of the model is stored in when it is copied. */
    enum pith_dtype (*stored_dtype)(const struct pith_model *m, const struct pith_tensor *t);
    /* Whether the file has no quantized form of a linear, by its name. */
    bool (*keeps)(const struct pith_model *m, const char *module);
    /* How many of a linear's `cols` columns lie side by side in the file, so that blocks may hold
     * them. */
    uint32_t (*side_by_side)(const struct pith_model *m, const char *module, uint32_t cols);
    /* Finishes a layout, whose tensors have the names of struct pith_checkpoint's view of such
     * files, as one file `file`. `source` is the model's folder or file; `file_type` says what it
     * is called in its keys, 0: as what most of its weights are. PITH_UNSUPPORTED for what has no
     * place in it. */
    enum pith_status (*finish)(const struct pith_model *m, const char *source, const char *file,
                               uint32_t file_type, struct pith_layout *l, struct pith_error *err);
    /* The grid that the embedding or, with `reads_out`, what the logits are computed from gets in a
     * model whose linears are mostly on `linears`; *out is unchanged when there is none for rows of
     * `cols`. What it would get if such rows were whole blocks of it, else NULL. */
    const struct pith_format *(*end_grid)(const struct pith_grid *linears, bool reads_out,
                                          uint32_t cols, struct pith_grid *out);
};

/* NULL for a container that is a folder. */
const struct pith_file_export *pith_file_export_of(const struct pith_container *c);

#endif
