/* io/ct/form.h: the layouts ("formats", "compressors") of the compressed-tensors container. One row
 * of the table in form.c is one of them; the file io/ct_<name>.c knows how it lies and nothing else
 * does. Inside io/ only.
 *
 * Common to all: weight_scale is [1] for a scale of the tensor, [N, 1] by channel, [N, G] by group,
 * [ceil(N / B), ceil(K / B)] by block. What the inputs need is in io/ct/inputs.c.
 *
 * Source: compressed-tensors compressors/format.py and the file of each compressor. */
#ifndef PITH_IO_CT_FORM_H
#define PITH_IO_CT_FORM_H

#include "io/container/container.h"
#include "io/ct/config.h"
#include "io/parts.h"

/* A matrix to be written. */
struct pith_ct_matrix {
    uint32_t rows, cols, scale_rows, groups;
    const struct pith_format *format; /* of its elements */
    bool tensor;                      /* one scale for all */
    bool asym, g_idx;
    enum pith_dtype scale; /* that scales are stored in */
};

/* A matrix to be read. */
struct pith_ct_source {
    const struct pith_checkpoint *c;
    const char *module;
    const struct pith_ct_config *config;
    const struct pith_ct_scheme *scheme;
    uint32_t rows, cols;
};

struct pith_ct_form {
    const char *name; /* "pack-quantized", as "format" in the config */
    /* Whether it is the one that weights on that grid are written in, with inputs on that one
     * (format NULL: not quantized). */
    bool (*writes)(const struct pith_grid *weights, const struct pith_grid *inputs);
    /* Whether a checkpoint may have weights on that grid in it. */
    bool (*holds)(const struct pith_grid *weights);
    /* The tensors of the weights, without data. */
    void (*shape)(const struct pith_ct_matrix *m, struct pith_packed_set *out);
    /* Fills those. */
    enum pith_status (*fill)(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                             const struct pith_packed_set *set, struct pith_error *err);
    /* Makes q. On failure q may own something: the caller frees it. */
    enum pith_status (*load)(const struct pith_ct_source *s, struct pith_qmat *q,
                             struct pith_error *err);
};

/* NULL when unknown. */
const struct pith_ct_form *pith_ct_form_find(const char *name);
/* The first row that writes it, NULL when none does. */
const struct pith_ct_form *pith_ct_form_for(const struct pith_grid *weights,
                                            const struct pith_grid *inputs);

/* --- for the forms ---------------------------------------------------------------------------- */

/* Adds weight_scale. */
void pith_ct_add_scale(const struct pith_ct_matrix *m, struct pith_packed_set *out);
/* Fills it. PITH_NUMERIC when its dtype does not hold a scale. */
enum pith_status pith_ct_store_scale(const struct pith_qmat *q, const struct pith_ct_matrix *m,
                                     const struct pith_packed_set *set, struct pith_error *err);
/* The tensor of a set that has such a name; it is there. */
const struct pith_packed *pith_ct_item(const struct pith_packed_set *set, const char *suffix);

/* The module's weight_scale of one of these dtypes, for scales as the scheme's grid says. */
enum pith_status pith_ct_find_scale(const struct pith_ct_source *s, uint32_t dtypes,
                                    const struct pith_tensor **out, struct pith_error *err);
/* pith_qmat_init() for the scheme's grid. */
enum pith_status pith_ct_init(const struct pith_ct_source *s, enum pith_dtype scale_dtype,
                              struct pith_qmat *q, struct pith_error *err);

/* int-quantized: a signed byte a code; naive-quantized holds the same. */
enum pith_status pith_ct_load_bytes(const struct pith_ct_source *s, struct pith_qmat *q,
                                    struct pith_error *err);
/* Zero points as signed bytes. */
void pith_ct_store_zero_bytes(const struct pith_qmat *q, int8_t *out);
enum pith_status pith_ct_read_zero_bytes(const struct pith_tensor *t, struct pith_qmat *q,
                                         struct pith_error *err);

/* --- inputs ----------------------------------------------------------------------------------- */

/* Adds the tensors that inputs on that grid need. */
void pith_ct_inputs_shape(const struct pith_grid *inputs, struct pith_packed_set *out);
/* Fills them. PITH_ARG when q's input is not on that grid or lacks its scale. */
enum pith_status pith_ct_inputs_fill(const struct pith_qmat *q, const struct pith_grid *inputs,
                                     const struct pith_packed_set *set, struct pith_error *err);
/* Reads them into q->input. */
enum pith_status pith_ct_inputs_load(const struct pith_ct_source *s, struct pith_qmat *q,
                                     struct pith_error *err);

#endif
