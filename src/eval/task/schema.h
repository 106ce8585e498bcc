/* eval/task/schema.h: the part of JSON Schema (draft 2020-12, https://json-schema.org) that answers
 * are checked against: "type", "enum", "const", "properties", "required", "additionalProperties"
 * (true or false), "items" (a schema), "minimum", "maximum", "minLength", "maxLength", "minItems"
 * and "maxItems"; "title", "description" and "$schema" say nothing. */
#ifndef PITH_EVAL_TASK_SCHEMA_H
#define PITH_EVAL_TASK_SCHEMA_H

#include "base/json.h"

/* The first key that is not among these, or has a value that it cannot have; "schema" where that is
 * no object. NULL: it is understood. */
const char *pith_schema_lacks(const json_t *schema);
/* Whether a value is as a schema that is understood says. Takes time by the size of both. */
bool pith_schema_fits(const json_t *schema, const json_t *value);

#endif
