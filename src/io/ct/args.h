/* io/ct/args.h: the QuantizationArgs object of compressed-tensors as a grid, both ways. Inside io/
 * only.
 *
 * Source: compressed-tensors quantization/quant_args.py. Its class refuses unknown keys, so this
 * reader does, and the writer emits the smallest set that every version knows: scale_dtype, which
 * came with version 0.13, only for the formats that are as young. */
#ifndef PITH_IO_CT_ARGS_H
#define PITH_IO_CT_ARGS_H

#include "base/json.h"
#include "num/grid.h"

/* PITH_UNSUPPORTED names a key of o that is not among the known ones and not null; `where` begins
 * the message. */
enum pith_status pith_ct_check_keys(const json_t *o, const char *const *known, size_t count,
                                    const char *where, struct pith_error *err);

/* Of weights; *g_idx when columns name their groups (actorder "group"). */
enum pith_status pith_ct_args_weights(const json_t *args, const char *where, struct pith_grid *out,
                                      bool *g_idx, struct pith_error *err);
/* Of inputs and of the KV cache: is_static when the checkpoint holds the scale. NULL or null gives
 * a grid without format. */
enum pith_status pith_ct_args_inputs(const json_t *args, const char *where, struct pith_grid *out,
                                     struct pith_error *err);

/* New references, NULL when memory is out; a grid without format gives null. */
json_t *pith_ct_args_of_weights(const struct pith_grid *g, bool g_idx);
json_t *pith_ct_args_of_inputs(const struct pith_grid *g);

/* PITH_UNSUPPORTED when inputs, or keys and values, on that grid cannot be described. A grid
 * without format can. */
enum pith_status pith_ct_args_check_inputs(const struct pith_grid *g, struct pith_error *err);
enum pith_status pith_ct_args_check_kv(const struct pith_grid *g, struct pith_error *err);

#endif
