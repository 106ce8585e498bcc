/* pith/hub.h: models by the name that they have on the Hugging Face hub. */
#ifndef PITH_HUB_H
#define PITH_HUB_H

#include <pith/progress.h>
#include <pith/quantize.h>
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
    /* Of pith_hub_pull() alone: */
    const char *endpoint;   /* the hub's address; NULL: https://huggingface.co */
    const char *token;      /* sent to the endpoint's own scheme, host and port only; NULL: none */
    struct pith_list files; /* patterns of paths ("*Q4_K_M.gguf"); none: what pith needs */
    size_t jobs;            /* requests at a time, 1 to 64; default 8 */
    struct pith_progress progress;
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

/* Downloads what the cache lacks of a model, in the layout that Hugging Face's tools share, and
 * compares each file with the hub's hash. Large files come in several pieces at a
 * time. *report (when not NULL) is JSON: {"model", "revision", "commit", "path": the folder,
 * "bytes", "downloaded", "files": [{"name", "bytes", "blob", "downloaded"}]}. Needs libcurl, which
 * is loaded by this call alone; it heeds the proxies that the environment names. A call that failed
 * or was stopped goes on where it was when it is made again.
 *
 * PITH_ARG          no name, no cache, files that match nothing
 * PITH_IO           no connection, a refusal (the message explains it), a full disk
 * PITH_MISMATCH     a file is not what the hub says; what came of it was deleted
 * PITH_FORMAT       the answers are not those of a hub; an address or a token that is none
 * PITH_UNSUPPORTED  no weights in a form that pith reads; this machine has no libcurl */
PITH_API enum pith_status pith_hub_pull(const struct pith_hub_options *options, const char *name,
                                        char **report, struct pith_error *err);
/* The same as a report, for pith_report_free(). */
PITH_API enum pith_status pith_hub_pull_report(const struct pith_hub_options *options,
                                               const char *name, struct pith_report **report,
                                               struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
