/* pith/hub.h: models by the name that they have on the Hugging Face hub. */
#ifndef PITH_HUB_H
#define PITH_HUB_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where to look. Start from pith_hub_defaults(). */
struct pith_hub_options {
    size_t size;       /* of this struct as the program knows it: pith_hub_defaults() */
    const char *cache; /* the folder that Hugging Face's tools share ("~/.cache/huggingface/hub") */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_hub_defaults_sized(struct pith_hub_options *options, size_t size);
static inline void pith_hub_defaults(struct pith_hub_options *options)
{
    pith_hub_defaults_sized(options, sizeof *options);
}

/* Whether a text can be a name: "org/name", "org/name@revision" (a branch, a tag, a commit). */
PITH_API bool pith_hub_is_name(const char *text);

/* The path under which the cache holds the model of that name: a folder with a checkpoint, or its
 * only .gguf file; for everything that takes a model. Nothing is downloaded. Free *path with
 * pith_text_free(). PITH_ARG when it is no name or no cache is given; PITH_IO when the cache does
 * not hold it, or not whole; PITH_FORMAT when the cache is damaged. */
PITH_API enum pith_status pith_hub_find(const struct pith_hub_options *options, const char *name,
                                        char **path, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
