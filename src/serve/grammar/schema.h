/* serve/grammar/schema.h: a JSON schema, from its text to rules: checked, brought to a flat form,
 * written as automata. */
#ifndef PITH_SERVE_GRAMMAR_SCHEMA_H
#define PITH_SERVE_GRAMMAR_SCHEMA_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Schemas within schemas, and references that lead to references. */
enum { PITH_SCHEMA_DEPTH = 128 };

/* Types, as bits; what is no whole number is a FRACTION. */
enum {
    PITH_TYPE_NULL = 1,
    PITH_TYPE_BOOL = 2,
    PITH_TYPE_INTEGER = 4,
    PITH_TYPE_FRACTION = 8,
    PITH_TYPE_STRING = 16,
    PITH_TYPE_ARRAY = 32,
    PITH_TYPE_OBJECT = 64,
    PITH_TYPE_ALL = 127
};

/* A schema at work; `steps` bounds what is looked at, however references and alternatives multiply
 * it: a step is some tens of nanoseconds to a microsecond. */
enum { PITH_SCHEMA_STEPS = 1 << 20 };
struct pith_schema {
    const json_t *root;
    size_t steps;
};
/* Work on `size` small things, such as elements that are compared: PITH_LIMIT when all so far is
 * too much. */
enum pith_status pith_schema_spend(struct pith_schema *job, size_t size, struct pith_error *err);

/* Checks all that a schema uses: forms, and that every keyword is supported; failures name the
 * place as a JSON pointer. */
enum pith_status pith_schema_check(const json_t *root, struct pith_error *err);

/* The schema that a reference names; NULL: none. */
const json_t *pith_schema_ref(const json_t *root, const char *ref);

/* A flat schema is an object of what has to hold at once:
 *   "types"     bits
 *   "enum"      values
 *   "any"       lists of schemas; one of each list holds
 *   "layers"    objects of properties, patternProperties, additionalProperties
 *   "tuples"    objects of prefixItems, items
 *   "required"  names, each once
 *   "pattern", "format"   lists
 *   minItems, maxItems, minLength, maxLength, minProperties, maxProperties
 *   "minimum" and "maximum": lists of [number, exclusive]; "multipleOf": a list
 *   "except"    values that do not hold
 *   "unlike"    flat schemas of strings that do not hold
 *   "unique"    true: items differ
 * Members that constrain nothing are omitted, so {} holds for everything. */
enum pith_status pith_schema_flat(struct pith_schema *job, const json_t *schema, json_t **out,
                                  struct pith_error *err);
/* Of all schemas of a list at once, and of a flat one besides (or NULL). */
enum pith_status pith_schema_flat_all(struct pith_schema *job, const json_t *flat,
                                      const json_t *list, json_t **out, struct pith_error *err);
/* Of one schema, and of a flat one besides (or NULL). */
enum pith_status pith_schema_flat_with(struct pith_schema *job, const json_t *flat,
                                       const json_t *schema, json_t **out, struct pith_error *err);
/* A flat schema without its first list of alternatives, as a new one; NULL: memory is out. */
json_t *pith_schema_rest(const json_t *flat);
/* The types that a flat schema allows, as bits. */
int pith_schema_types(const json_t *flat);
/* Whether a list has a value; 1 and 1.0 are the same. A NULL list has none. */
bool pith_schema_lists(const json_t *list, const json_t *value);
/* Whether a value is a string that can be written: without NUL. */
bool pith_schema_is_word(const json_t *value);
/* The bit of a value. */
int pith_schema_type_of(const json_t *value);
/* Whether no value can hold for both, as far as their types, enums and required members show. */
enum pith_status pith_schema_disjoint(struct pith_schema *job, const json_t *a, const json_t *b,
                                      bool *out, struct pith_error *err);
/* The expression of a format; false: there is no such format. */
bool pith_schema_format(const char *name, const char **expression);

#endif
