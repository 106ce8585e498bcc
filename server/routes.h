/* server/routes.h: what answers which path. */
#ifndef PITH_SERVER_ROUTES_H
#define PITH_SERVER_ROUTES_H

#include "server/http/exchange.h"

/* The route, or NULL; then *r says 404, or 405 where the path is there for *others, a list of
 * methods; it is NULL otherwise. */
const struct http_route *route_find(const char *method, const char *path, const char **others,
                                    struct refusal *r);

/* What answers each path of server/routes.def: it sends one answer, or begins a stream. */
#define ROUTE(method, path, handle, flags) void handle(struct exchange *e);
#include "server/routes.def"
#undef ROUTE

#endif
