/* io/adapter.h: folders that PEFT wrote, with low-rank changes (LoRA) of a checkpoint's matrices:
 * adapter_config.json and adapter_model.safetensors.
 *
 *   adapter_config.c   what the config says     adapter.c   which tensor changes which
 *   adapter_merge.c    the numbers
 *
 * Sources: E. J. Hu et al., "LoRA" (arXiv:2106.09685); D. Kalajdzievski, rank-stabilized scaling
 * (arXiv:2312.03732); S.-Y. Liu et al., "DoRA" (arXiv:2402.09353); PEFT's documentation of its
 * checkpoint format. */
#ifndef PITH_IO_ADAPTER_H
#define PITH_IO_ADAPTER_H

#include "base/pool.h"
#include "io/checkpoint.h"
#include "io/container/module_match.h"

/* --- adapter_config.c ------------------------------------------------------------------------- */

/* A number of some modules: the first pattern that a module's name matches, or the general one. */
struct pith_adapter_pattern {
    char *text;
    struct pith_pattern regex;
    double value;
};
struct pith_adapter_number {
    double general;
    struct pith_adapter_pattern *item;
    size_t count;
};
struct pith_adapter_config {
    json_t *json;
    struct pith_adapter_number rank, alpha;
    bool stabilized;    /* changes are scaled by alpha / sqrt(rank), not alpha / rank */
    bool exchanged;     /* matrices lie by columns, [in, out]: "fan_in_fan_out" */
    bool magnitudes;    /* DoRA */
    bool layers_chosen; /* only some layers' modules were changed */
};
/* Reads it. PITH_UNSUPPORTED for what is no LoRA, for what begins from other weights than the
 * model's (PiSSA and the like), and for any key that is set and not understood. On success free it
 * with pith_adapter_config_free(). */
enum pith_status pith_adapter_config_read(const char *dir, struct pith_adapter_config *out,
                                          struct pith_error *err);
void pith_adapter_config_free(struct pith_adapter_config *c);
/* What a change of rank r of `module` is multiplied by. PITH_FORMAT when the config says another
 * rank. */
enum pith_status pith_adapter_scale(const struct pith_adapter_config *c, const char *module,
                                    uint64_t r, double *scale, struct pith_error *err);

/* --- adapter.c -------------------------------------------------------------------------------- */

/* What changes one tensor of the checkpoint: `whole` takes its place, or `bias` * scale is added,
 * or b [out, r] times a [r, in], times scale; then, where there is a magnitude [out], each row is
 * brought to that length. */
struct pith_adapter_change {
    size_t tensor; /* of the checkpoint's */
    const struct pith_tensor *a, *b, *magnitude, *bias, *whole;
    bool exchanged; /* the checkpoint's matrix is [in, out] */
    double scale;
};
struct pith_adapter {
    char *dir;
    struct pith_adapter_config config;
    struct pith_safetensors file;
    struct pith_adapter_change *change; /* in order of the checkpoint's tensors */
    size_t count;
    uint64_t rank;                /* the largest */
    char sha256[PITH_SHA256_HEX]; /* of both files */
};
/* Opens the folder and finds what each of its tensors changes in c. PITH_FORMAT names a tensor that
 * changes nothing there, has another shape, or lacks its other half; PITH_UNSUPPORTED for a
 * quantized c or a GGUF file. On success free it with pith_adapter_close(). */
enum pith_status pith_adapter_open(const char *dir, const struct pith_checkpoint *c,
                                   struct pith_adapter *out, struct pith_error *err);
void pith_adapter_close(struct pith_adapter *a);

/* --- adapter_merge.c -------------------------------------------------------------------------- */

/* Puts changed tensors in the place of c's, of the same dtype and shape: computed in float32 and
 * rounded once, the same for any number of threads. They lie in a file without a name in the folder
 * `room`, of their size, which goes with c; memory is that of a few rows. *account (a new
 * reference) describes it. Once for a checkpoint, and before any tensor of it is used. On failure c
 * is as before. Statuses as of pith_adapter_open(), PITH_IO when there is no room, PITH_NUMERIC for
 * a number that is not finite, naming it. */
enum pith_status pith_checkpoint_adapt(struct pith_checkpoint *c, const char *dir, const char *room,
                                       struct pith_pool *pool, json_t **account,
                                       struct pith_error *err);

#endif
