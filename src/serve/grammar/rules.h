/* serve/grammar/rules.h: rules of a network for flat schemas, each written once. */
#ifndef PITH_SERVE_GRAMMAR_RULES_H
#define PITH_SERVE_GRAMMAR_RULES_H

#include "serve/grammar/net.h"
#include "serve/grammar/schema.h"

struct pith_rules {
    struct pith_schema schema;
    struct pith_net *net;
    json_t *known; /* text of a flat schema: its rule */
    int depth;
};

/* The rule for all schemas of a list at once. */
enum pith_status pith_rules_of(struct pith_rules *r, const json_t *list, uint32_t *rule,
                               struct pith_error *err);

/* Adds to rule from..to what a flat schema without alternatives and values says of one type. */
enum pith_status pith_rules_string(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err);
enum pith_status pith_rules_object(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err);
enum pith_status pith_rules_array(struct pith_rules *r, const json_t *flat,
                                  const struct pith_net_rule *at, struct pith_error *err);

/* The values for which a flat schema holds are added to a list, each once; *few: they are known,
 * and no more than PITH_VALUES_MOST. */
enum { PITH_VALUES_MOST = 12 };
enum pith_status pith_rules_values(struct pith_rules *r, const json_t *flat, json_t *values,
                                   bool *few, struct pith_error *err);
/* A new rule of one value, as it is written without spaces. */
enum pith_status pith_rules_value(struct pith_rules *r, const json_t *value, uint32_t *rule,
                                  struct pith_error *err);

/* Whether a value holds for a flat schema. */
enum pith_status pith_rules_holds(struct pith_rules *r, const json_t *flat, const json_t *value,
                                  bool *out, struct pith_error *err);

struct pith_chars;
/* The strings that lengths, patterns and formats of a flat schema allow; and its values too:
 * PITH_UNSUPPORTED when it has alternatives. */
enum pith_status pith_rules_chars(struct pith_rules *r, const json_t *flat, struct pith_chars *out,
                                  struct pith_error *err);
enum pith_status pith_rules_strings(struct pith_rules *r, const json_t *flat,
                                    struct pith_chars *out, struct pith_error *err);
/* The strings in which a pattern is found, the work counted. */
enum pith_status pith_rules_pattern(struct pith_rules *r, const char *pattern,
                                    struct pith_chars *out, struct pith_error *err);
/* The schemas that layers of a flat schema give the property of a name, as a new list. */
enum pith_status pith_rules_member(struct pith_rules *r, const json_t *flat, const char *name,
                                   json_t **out, struct pith_error *err);

#endif
