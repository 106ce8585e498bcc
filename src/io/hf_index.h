/* io/hf_index.h: model.safetensors.index.json: which file of a checkpoint holds which tensor. */
#ifndef PITH_IO_HF_INDEX_H
#define PITH_IO_HF_INDEX_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* One line of the weight_map. */
struct pith_index_entry {
    const char *tensor;
    const char *file_name;
    uint32_t file; /* index into files */
};

struct pith_index {
    struct pith_index_entry *entries; /* sorted by tensor */
    size_t count;
    const char **files; /* distinct file names, sorted */
    size_t file_count;
    char *names; /* where all names are */
};

/* Parses and checks the text (borrowed). File names are plain, visible names that end in
 * ".safetensors"; anything else, a tensor named twice and an empty map are PITH_FORMAT. On failure
 * *out owns nothing. */
enum pith_status pith_index_parse(const char *text, size_t size, struct pith_index *out,
                                  struct pith_error *err);
void pith_index_free(struct pith_index *index);

#endif
