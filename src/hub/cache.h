/* hub/cache.h: the folder that Hugging Face's tools share, read:
 *
 *   CACHE/models--ORG--NAME/refs/REVISION           the commit that a branch or tag stood at
 *                          /snapshots/COMMIT/FILE   a relative link to
 *                          /blobs/ETAG              the bytes
 *
 * as huggingface_hub's documentation of its cache describes it. */
#ifndef PITH_HUB_CACHE_H
#define PITH_HUB_CACHE_H

#include "hub/name.h"

/* The folder of a model in the cache (`repo`), or a path in it when `part` is not NULL. The caller
 * pith_free()s it; NULL when memory is out. */
char *pith_hub_folder(const char *cache, const char *repo, const char *part);

/* What of that commit can be opened as a model: its folder, or the one .gguf file in a folder
 * without a checkpoint; the caller pith_free()s *path. PITH_IO when the model is not there, or not
 * whole: shards are missing, or what links point to. The message says what to type. */
enum pith_status pith_hub_find_model(const char *cache, const struct pith_hub_name *name,
                                     char **path, struct pith_error *err);

/* When a path leads into a snapshot of such a cache, "COMMIT/ORG/NAME" and what follows, by which
 * people distinguish models; else a copy. The caller pith_free()s it; NULL when memory is out. */
char *pith_hub_title(const char *path);

#endif
