/* hub/retry.h: what a refusal means, and when to ask again. */
#ifndef PITH_HUB_RETRY_H
#define PITH_HUB_RETRY_H

#include "hub/http.h"
#include "hub/name.h"

enum { PITH_HUB_TRIES = 6 };

/* Start with {0}. */
struct pith_tries {
    unsigned failed; /* one after the other, without a byte between them */
    double again;    /* pith_clock() before which nothing is requested */
};

/* After a call that was not done: true when it is to be started again, not before tries->again.
 * `moved`: it brought something. The server's Retry-After counts, up to 10 minutes. */
bool pith_tries_again(struct pith_tries *tries, const struct pith_http_call *call, bool moved);

/* What a call that is given up means, for the model `name` and the file `file` (NULL: a list):
 * PITH_IO, or the status of the one who took the bytes. */
enum pith_status pith_hub_refused(const struct pith_http_call *call,
                                  const struct pith_hub_name *name, const char *file,
                                  const char *endpoint, bool token, struct pith_error *err);

#endif
