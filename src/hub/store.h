/* hub/store.h: the cache's own files, written: hub/cache.h has their layout. */
#ifndef PITH_HUB_STORE_H
#define PITH_HUB_STORE_H

#include "hub/listing.h"

/* Makes the folders for a model's blobs, and the mark by which backups know a cache
 * (bford.info/cachedir). */
enum pith_status pith_store_make(const char *cache, const struct pith_hub_name *name,
                                 struct pith_error *err);

/* Links the files of a listing, whose blobs are there, into the commit's snapshot, then lets the
 * name's revision point to the commit. The caller pith_free()s *snapshot, the folder's path. */
enum pith_status pith_store_link(const char *cache, const struct pith_hub_name *name,
                                 const struct pith_hub_listing *listing, char **snapshot,
                                 struct pith_error *err);

#endif
