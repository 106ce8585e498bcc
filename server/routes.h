/* server/routes.h: what answers which path. */
#ifndef PITH_SERVER_ROUTES_H
#define PITH_SERVER_ROUTES_H

#include "server/exchange.h"

/* The route, or NULL; then *r says 404, or 405 where the path is there for *others, a list of
 * methods; it is NULL otherwise. */
const struct http_route *route_find(const char *method, const char *path, const char **others,
                                    struct refusal *r);

/* What each of them answers: docs/serving.md. */
void info_page(struct exchange *e);
void info_health(struct exchange *e);
void info_version(struct exchange *e);
void info_metrics(struct exchange *e);
void info_props(struct exchange *e);
void info_models(struct exchange *e);
void info_model(struct exchange *e);
void info_tokenizer(struct exchange *e);
void embeddings_answer(struct exchange *e);
void tokens_encode(struct exchange *e);
void tokens_decode(struct exchange *e);
void tokens_render(struct exchange *e);

#endif
