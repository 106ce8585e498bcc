/* io/checkpoint.h: a folder with a Hugging Face checkpoint: config.json and one or more safetensors
 * files (single, or named by model.safetensors.index.json); or a GGUF file, shown as such a folder
 * would be (io/gguf/model.h). */
#ifndef PITH_IO_CHECKPOINT_H
#define PITH_IO_CHECKPOINT_H

#include "base/hash.h"
#include "base/str.h"
#include "io/gguf/gguf.h"
#include "io/safetensors.h"

struct pith_checkpoint {
    char *dir;                      /* the folder, or the GGUF file */
    json_t *config;                 /* config.json, an object */
    const json_t *quantization;     /* config's "quantization_config" object as io/quant_names.h
                                       settles it, or NULL */
    struct pith_safetensors *files; /* in order of file name; their tensors are those below */
    size_t file_count;
    struct pith_tensor *tensors; /* of all files, sorted by name */
    size_t count;
    uint64_t bytes;         /* sum of tensor bytes */
    size_t superseded;      /* tensors omitted, as the index names another file for them */
    size_t absent;          /* tensors that the index names and no file has */
    bool aside;             /* there is an index, which the single file makes void */
    struct pith_gguf *gguf; /* the file that the checkpoint is, or NULL */
    /* The container whose one file it is (struct pith_container, name), or NULL for a folder. Such
     * a file has config and tokenizer inside, may hold vectors and routers in float32 where a
     * folder has 16 bits, and rows in another order (struct pith_tensor). */
    const char *file_form;
    char *new_names;            /* of the tensors, where files have others for them, owned */
    bool renamed;               /* they have */
    char *slice_names;          /* of the slices among `tensors`, owned */
    struct pith_tensor *wholes; /* what they are slices of, [whole_count], owned */
    size_t whole_count;         /* sorted by name too */
    /* Of the adapter that was merged (io/adapter.h), whose tensors are in the last of the files; ""
     * without one. */
    char adapter[PITH_SHA256_HEX];
    struct pith_dense *dense; /* NULL, or what shows a quantized checkpoint so (io/dense.h) */
};

/* Opens and checks everything but the meaning of the config. A file in the index that is missing:
 * PITH_IO naming it. Of a tensor in two files the one that the index names is taken.
 * Without the usual names, the only safetensors file of a folder is taken; without config.json, the
 * only GGUF file. On success the caller owns *out and closes it. */
enum pith_status pith_checkpoint_open(const char *path, struct pith_checkpoint **out,
                                      struct pith_error *err);
/* Frees everything; c may be NULL. */
void pith_checkpoint_close(struct pith_checkpoint *c);

/* By name; NULL when absent. */
const struct pith_tensor *pith_checkpoint_find(const struct pith_checkpoint *c, const char *name);
/* The tensors whose names begin with `prefix` lie side by side, *count of them; returns the index
 * of the first. */
size_t pith_checkpoint_range(const struct pith_checkpoint *c, const char *prefix, size_t *count);
/* By name with a required shape (dims values); the error says what was found instead. */
enum pith_status pith_checkpoint_get(const struct pith_checkpoint *c, const char *name,
                                     unsigned dims, const uint64_t *shape,
                                     const struct pith_tensor **out, struct pith_error *err);
/* A matrix, or a vector, within a tensor that holds several: element (r, c) is number
 * first + r * row_step + c * col_step of the whole. Rows that lie in order have row_step 0. */
struct pith_slice {
    const char *name;
    const struct pith_tensor *whole; /* of c->tensors */
    unsigned dims;
    uint64_t shape[PITH_MAX_DIMS];
    uint64_t first, row_step, col_step;
};
/* Shows the slices as tensors, in the place of what they are slices of, which moves to c->wholes.
 * Tensors found before are found elsewhere. A slice under its whole's own name is that matrix with
 * rows and columns exchanged. Once for a checkpoint. PITH_FORMAT when a name is there already or a
 * slice does not lie within its whole; c is then as before. */
enum pith_status pith_checkpoint_slice(struct pith_checkpoint *c, const struct pith_slice *list,
                                       size_t count, struct pith_error *err);
/* By name, as the files have it: a whole, and no slice. NULL when absent. */
const struct pith_tensor *pith_checkpoint_find_stored(const struct pith_checkpoint *c,
                                                      const char *name);
/* What a tensor is a slice of; NULL when it is none. */
const struct pith_tensor *pith_checkpoint_whole(const struct pith_checkpoint *c,
                                                const struct pith_tensor *t);
/* Appends the name that a tensor shall have to *out; failures stay in it. */
typedef void pith_rename_fn(const void *ctx, const char *name, struct pith_str *out);
/* Gives the tensors other names, before any slices are shown. Tensors found before are found
 * elsewhere. PITH_FORMAT when two would have one name; the names are then as before. */
enum pith_status pith_checkpoint_rename(struct pith_checkpoint *c, pith_rename_fn *fn,
                                        const void *ctx, struct pith_error *err);
/* Has the kernel begin to read a tensor that will be needed soon. */
void pith_checkpoint_prefetch(const struct pith_checkpoint *c, const struct pith_tensor *t);
/* Gives the pages of a tensor back to the kernel. Nothing to do for tensors that are made when they
 * are needed: pith_checkpoint_drop(). */
void pith_checkpoint_release(const struct pith_checkpoint *c, const struct pith_tensor *t);

/* Drops what was made of the tensors first .. first + count, which nobody reads until he needs them
 * again. */
void pith_checkpoint_drop(const struct pith_checkpoint *c, size_t first, size_t count);

/* Writes a config such that it can be read again: indented where it then stays below the limit that
 * readers here keep, else without blanks. PITH_FORMAT when it is larger even so. */
enum pith_status pith_config_save(const char *path, const json_t *config, struct pith_error *err);

/* identity.c: the SHA-256 of the files' sizes, headers and some of their pages, always the same
 * ones, and of an adapter: alike for two copies of a checkpoint, whatever they are called and
 * however old they are. False when memory is out. */
bool pith_checkpoint_identity(const struct pith_checkpoint *c, char hex[PITH_SHA256_HEX]);
/* identity.c: where a file of pith's own lies next to the weights: "pith.NAME" in their folder, or
 * FILE.NAME next to a GGUF file. pith_free() it; NULL when memory is out. */
char *pith_checkpoint_sibling(const struct pith_checkpoint *c, const char *name);
/* Whether it exists. */
bool pith_checkpoint_has_sibling(const struct pith_checkpoint *c, const char *name);
/* To be called when work with a checkpoint ended with s, before results are used: s, unless
 * a file of it changed meanwhile (pith_map_check(), `written` as there); then PITH_IO, and err, if
 * given, names the file instead of what came of that. c may be NULL. */
enum pith_status pith_checkpoint_settle(const struct pith_checkpoint *c, bool written,
                                        enum pith_status s, struct pith_error *err);

#endif
