/* io/ct/config.h: the config object of the compressed-tensors container. Inside io/ only.
 *
 * Sources: compressed-tensors quantization/quant_config.py, quant_scheme.py, quant_args.py and
 * compressors/format.py. The classes of a group refuse unknown keys, so this reader does; unknown
 * keys of the object are ignored there and here. */
#ifndef PITH_IO_CT_CONFIG_H
#define PITH_IO_CT_CONFIG_H

#include "io/container/container.h"
#include "io/container/module_match.h"
#include "io/ct/args.h"
#include "io/ct/rotations.h"

struct pith_ct_form;

/* What one config group says. */
struct pith_ct_scheme {
    struct pith_patterns targets;
    const struct pith_ct_form *form;
    struct pith_grid weights;
    struct pith_grid inputs; /* format NULL: not quantized */
    bool g_idx;              /* actorder "group": columns name their groups */
};

struct pith_ct_config {
    char *where; /* names the file for messages */
    struct pith_ct_scheme *scheme;
    size_t count;
    struct pith_patterns ignore;
    struct pith_ct_rotations rotations;
    struct pith_grid kv;     /* of keys and values; format NULL: not quantized */
    bool dense_known, dense; /* whether "version" shows how codes of 3, 5, 6 and 7 bits lie */
};

/* Reads and checks; the checkpoint's config must outlive *out. On failure *out owns nothing. */
enum pith_status pith_ct_config_read(const struct pith_checkpoint *c, struct pith_ct_config *out,
                                     struct pith_error *err);
void pith_ct_config_free(struct pith_ct_config *config);
/* The scheme of a module, NULL when none or when it is ignored; *by_class when only the name of its
 * class is a target. Of one that is `stored` quantized by its tensors, what the config ignores does
 * not count, and the only group is its scheme also where it does not name it. PITH_FORMAT when two
 * groups claim it equally. */
enum pith_status pith_ct_config_scheme(const struct pith_ct_config *config, const char *module,
                                       bool stored, const struct pith_ct_scheme **out,
                                       bool *by_class, struct pith_error *err);

/* The container's config(). */
enum pith_status pith_ct_config_make(const struct pith_linear_grid *linears, size_t count,
                                     const struct pith_container_opts *opts, json_t **out,
                                     struct pith_error *err);

#endif
