/* server/http/origin.h: which pages may ask. Browsers say from where a page came (Origin) and by
 * what name they found the server (Host); neither can be set by a page. */
#ifndef PITH_SERVER_ORIGIN_H
#define PITH_SERVER_ORIGIN_H

#include "server/refusal.h"
#include "server/server.h"

#include <microhttpd.h>

#include <stdbool.h>

/* Whether a value of Host ("name:port", "[::1]") names the server by what nobody else decides on:
 * an address, which no name server can lead elsewhere, localhost, `bound` (where it listens, as it
 * was given), or one of `allowed` (a name, or a name and a port). NULL, no header at all: yes:
 * browsers always send one. */
bool origin_names_us(const char *host, const char *bound, const struct pith_list *allowed);
/* Refuses with 403 a page of another origin that --cors does not name, and, while there is no
 * key and pages are not all allowed, a Host that is not ours. */
bool origin_check(const struct server *s, struct MHD_Connection *c, struct refusal *r);
/* The headers of CORS, where the server has an origin that may ask. */
void origin_headers(const struct server *s, struct MHD_Connection *c,
                    struct MHD_Response *response);

#endif
