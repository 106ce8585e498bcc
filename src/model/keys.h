/* model/keys.h: keys of config.json that nobody reads, where somebody meant one that is read. */
#ifndef PITH_MODEL_KEYS_H
#define PITH_MODEL_KEYS_H

#include "base/json.h"

/* Told of each: `key` is not read, and one or two edits away from `near`, which is missing (so that
 * its default is in use). Keys of rotary parameters come with the object's name, "rope_scaling". */
typedef void pith_misspelt_fn(void *ctx, const char *object, const char *key, const char *near);
void pith_config_misspelt(const json_t *config, pith_misspelt_fn *fn, void *ctx);

#endif
