/* tok/files/gguf_folder.h: the files of a folder that a GGUF file has in its keys. */
#ifndef PITH_TOK_FILES_GGUF_FOLDER_H
#define PITH_TOK_FILES_GGUF_FOLDER_H

#include "io/gguf/gguf.h"

struct pith_gguf_folder {
    json_t *tokenizer_config;  /* chat templates by name, special tokens */
    json_t *generation_config; /* what ends an answer */
};
/* On success free it with pith_gguf_folder_free(). */
enum pith_status pith_gguf_folder(const struct pith_gguf *g, struct pith_gguf_folder *out,
                                  struct pith_error *err);
void pith_gguf_folder_free(struct pith_gguf_folder *f);

#endif
