/* hub/pull.h: a model from the hub into the cache, in the layout of hub/cache.h. */
#ifndef PITH_HUB_PULL_H
#define PITH_HUB_PULL_H

#include "base/progress.h"
#include "hub/name.h"

#include <stdbool.h>
#include <stdint.h>

/* A model that is in the cache now. */
struct pith_pulled_file {
    const char *name, *blob;
    uint64_t bytes;
    bool downloaded; /* it was not there before */
};
struct pith_pulled {
    const char *repo, *revision, *commit, *path;
    const struct pith_pulled_file *file;
    size_t count;
    uint64_t bytes, downloaded;
};
/* Receives it; borrowed for the call. A failure is that of the whole. */
typedef enum pith_status pith_pulled_fn(void *ctx, const struct pith_pulled *pulled,
                                        struct pith_error *err);

struct pith_pull {
    const char *cache, *endpoint; /* the endpoint without a slash at its end */
    const char *token;            /* NULL: none */
    const char *const *files;     /* patterns; none: what pith needs */
    size_t file_count;
    size_t jobs; /* requests at a time, at least 1 */
    const struct pith_progress *progress;
    pith_pulled_fn *done;
    void *done_ctx;
};

/* Downloads what the cache lacks. Each file is compared with the hub's hash before it
 * gets its name; the name of the revision points to the new commit when all of it is there.
 * `done` receives what is there then.
 *
 * PITH_ARG         a pattern that matches nothing
 * PITH_IO          no connection, a refusal, a full disk; PITH_INTERRUPTED: what has arrived is
 *                  stored, and the same call goes on with it
 * PITH_MISMATCH    the bytes are not what the hub says: that file was deleted
 * PITH_FORMAT      answers that no hub gives, an address or a token that is none
 * PITH_UNSUPPORTED no weights that pith reads, or no libcurl */
enum pith_status pith_pull_model(const struct pith_pull *pull, const struct pith_hub_name *name,
                                 struct pith_error *err);

#endif
