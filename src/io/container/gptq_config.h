/* io/container/gptq_config.h: the config object of the gptq container. Inside io/ only.
 *
 * Sources: GPTQModel quantization/config.py (keys, synonyms, "dynamic"), AutoGPTQ
 * quantization/config.py. */
#ifndef PITH_IO_CONTAINER_GPTQ_CONFIG_H
#define PITH_IO_CONTAINER_GPTQ_CONFIG_H

#include "io/container/container.h"
#include "io/container/module_match.h"

/* How one module is stored. */
struct pith_gptq_scheme {
    unsigned bits;
    uint32_t group; /* 0: one group a row */
    bool sym;
    bool desc_act;
};

/* One entry of "dynamic": modules that differ, or are unquantized. */
struct pith_gptq_override {
    struct pith_pattern pattern;
    bool excluded; /* "-:" */
    struct pith_gptq_scheme scheme;
};

struct pith_gptq_config {
    char *where; /* names the file for messages */
    struct pith_gptq_scheme base;
    bool v2; /* zeros stored as they are */
    struct pith_gptq_override *override;
    size_t count;
};

/* Reads and checks; the checkpoint's config must outlive *out. On failure *out owns nothing. */
enum pith_status pith_gptq_config_read(const struct pith_checkpoint *c,
                                       struct pith_gptq_config *out, struct pith_error *err);
void pith_gptq_config_free(struct pith_gptq_config *config);
/* The scheme of a module; *excluded when it is unquantized. The first entry that matches counts. */
enum pith_status pith_gptq_config_scheme(const struct pith_gptq_config *config, const char *module,
                                         struct pith_gptq_scheme *out, bool *excluded,
                                         struct pith_error *err);

/* The container's config() and extra_file(). */
enum pith_status pith_gptq_config_make(const struct pith_linear_grid *linears, size_t count,
                                       const struct pith_container_opts *opts, json_t **out,
                                       struct pith_error *err);
enum pith_status pith_gptq_extra_file(const json_t *config, const char **name, json_t **out,
                                      struct pith_error *err);

#endif
