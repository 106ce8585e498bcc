/* plan/shapes.h: well-known models by name, as the config that says what they are made of and the
 * number of parameters that they are known to have (shapes.json, part of the program). */
#ifndef PITH_PLAN_SHAPES_H
#define PITH_PLAN_SHAPES_H

#include "base/json.h"

/* All of them: an array of {"name", "parameters", "from", "config"}, a new reference. PITH_NOMEM.
 */
enum pith_status pith_shapes_read(json_t **out, struct pith_error *err);
/* The one of that name in any case, borrowed; NULL when there is none. */
const json_t *pith_shapes_find(const json_t *shapes, const char *name);

#endif
