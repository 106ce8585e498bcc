/* io/quant_names.h: the many places and names under which a checkpoint says how it is quantized. */
#ifndef PITH_IO_QUANT_NAMES_H
#define PITH_IO_QUANT_NAMES_H

#include "base/json.h"
#include "base/status.h"

/* Finds the object in config.json or in a file next to it and has it as config's
 * "quantization_config", with the "quant_method" and the keys of a row of
 * io/container/containers.def. *out is that object, NULL when the model says nothing of the kind.
 * PITH_FORMAT when a file or the member is no object. */
enum pith_status pith_quantization_find(const char *dir, json_t *config, const json_t **out,
                                        struct pith_error *err);
/* Has a config say that the model is quantized so, under "quantization_config" and, of mlx, where
 * its readers look; nowhere else. With NULL, nothing of the kind. False when memory is out. */
bool pith_quantization_set(json_t *config, json_t *object);

#endif
