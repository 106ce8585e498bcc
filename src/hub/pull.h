/* hub/pull.h: a model from the hub into the cache, in the layout of hub/cache.h. */
#ifndef PITH_HUB_PULL_H
#define PITH_HUB_PULL_H

#include "base/json.h"
#include "base/progress.h"
#include "hub/name.h"

struct pith_pull {
    const char *cache, *endpoint; /* the endpoint without a slash at its end */
    const char *token;            /* NULL: none */
    const char *const *files;     /* patterns; none: what pith needs */
    size_t file_count;
    size_t jobs; /* requests at a time, at least 1 */
    const struct pith_progress *progress;
};

/* Downloads what the cache lacks. Each file is compared with the hub's hash before it
 * gets its name; the name of the revision points to the new commit when all of it is there.
 * *report (a new reference): {"model", "revision", "commit", "path", "bytes", "downloaded",
 * "files": [{"name", "bytes", "blob", "downloaded"}]}.
 *
 * PITH_ARG         a pattern that matches nothing
 * PITH_IO          no connection, a refusal, a full disk; PITH_INTERRUPTED: what has arrived is
 *                  kept, and the same call goes on with it
 * PITH_MISMATCH    the bytes are not what the hub says: that file was deleted
 * PITH_FORMAT      answers that no hub gives, an address or a token that is none
 * PITH_UNSUPPORTED no weights that pith reads, or no libcurl */
enum pith_status pith_pull_model(const struct pith_pull *pull, const struct pith_hub_name *name,
                                 json_t **report, struct pith_error *err);

#endif
