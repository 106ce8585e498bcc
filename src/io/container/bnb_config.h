/* io/container/bnb_config.h: the config object of the bitsandbytes container. Inside io/ only.
 *
 * Source: transformers utils/quantization_config.py (BitsAndBytesConfig). */
#ifndef PITH_IO_CONTAINER_BNB_CONFIG_H
#define PITH_IO_CONTAINER_BNB_CONFIG_H

#include "io/container/container.h"

struct pith_bnb_config {
    bool eight;      /* load_in_8bit; else load_in_4bit */
    float threshold; /* llm_int8_threshold */
    const json_t *skipped; /* llm_int8_skip_modules, NULL or null when there is none */
};

/* What the checkpoint's quantization_config says; PITH_FORMAT when it contradicts itself,
 * PITH_UNSUPPORTED for a form that is not read. */
enum pith_status pith_bnb_config_read(const struct pith_checkpoint *c, struct pith_bnb_config *out,
                                      struct pith_error *err);

/* The container's config(). PITH_UNSUPPORTED when 8 and 4 bits, or two kinds of 4, are mixed. */
enum pith_status pith_bnb_config_make(const struct pith_linear_grid *linears, size_t count,
                                      const struct pith_container_opts *opts, json_t **out,
                                      struct pith_error *err);

#endif
