/* hub/listing.h: what a model on the hub consists of, and what of it pith needs. */
#ifndef PITH_HUB_LISTING_H
#define PITH_HUB_LISTING_H

#include "base/progress.h"
#include "hub/http.h"
#include "hub/name.h"

enum { PITH_HUB_BLOB = 65 };

struct pith_hub_file {
    char *path; /* owned; pith_hub_path_is_safe() */
    uint64_t size;
    char blob[PITH_HUB_BLOB]; /* its SHA-256 (64 digits: large files), or git's name of it (40) */
};

struct pith_hub_listing {
    char commit[PITH_HUB_COMMIT + 1];
    struct pith_hub_file *file;
    size_t count;
};

/* Asks the hub: GET /api/models/REPO/revision/REVISION for the commit, then the pages of
 * /api/models/REPO/tree/COMMIT?recursive=true. PITH_IO when it refuses or cannot be reached,
 * PITH_FORMAT for an answer that does not follow that form, or names files that would lie outside
 * their folder. *out is to be freed in any case. */
enum pith_status pith_hub_list(struct pith_http *http, const char *endpoint,
                               const struct pith_hub_name *name,
                               const struct pith_progress *progress, struct pith_hub_listing *out,
                               struct pith_error *err);
void pith_hub_listing_free(struct pith_hub_listing *listing);

/* Keeps what is needed: with patterns (shell-style, over whole paths) what they match, each of them
 * something; without, what hub/wanted.def says. PITH_ARG for a pattern that matches nothing,
 * PITH_UNSUPPORTED when there are no weights that pith reads; the message says what there is. */
enum pith_status pith_hub_choose(struct pith_hub_listing *listing, const char *const *patterns,
                                 size_t count, const struct pith_hub_name *name,
                                 struct pith_error *err);

#endif
