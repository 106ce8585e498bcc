/* plan/shapes.h: well-known models by name, as the config that says what they are made of and the
 * number of parameters that they are known to have (shapes.json, part of the program). */
#ifndef PITH_PLAN_SHAPES_H
#define PITH_PLAN_SHAPES_H

#include "base/json.h"

/* All of them: an array of {"name", "parameters", "from", "config"}, some with "also", names of
 * others of that shape; a new reference. PITH_NOMEM. */
enum pith_status pith_shapes_read(json_t **out, struct pith_error *err);
/* The one of that name in any case, borrowed; NULL when there is none. */
const json_t *pith_shapes_find(const json_t *shapes, const char *name);
/* The same for a name as it is published or in use: "meta-llama/Llama-3.1-70B-Instruct",
 * "llama-70b" (the newest of several), "llama3.1:8b". NULL where it means none or several that
 * differ in more than their version; `names` then receives these, or those of the same family, ""
 * without any. */
enum { PITH_SHAPE_NAMES = 200 };
const json_t *pith_shapes_match(const json_t *shapes, const char *name,
                                char names[PITH_SHAPE_NAMES]);

#endif
