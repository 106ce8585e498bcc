/* io/container/module_match.h: lists of modules in other tools' configs: exact names, Python
 * regular expressions, class names. Inside io/ only.
 *
 * Source of the rules: compressed-tensors utils/match.py (match_name, match_targets). */
#ifndef PITH_IO_CONTAINER_MODULE_MATCH_H
#define PITH_IO_CONTAINER_MODULE_MATCH_H

#include "base/json.h"
#include "base/status.h"

#include <stddef.h>

/* How well a name is matched; better ones are larger. */
enum pith_match_rank { PITH_MATCH_NONE, PITH_MATCH_CLASS, PITH_MATCH_REGEX, PITH_MATCH_NAME };

struct pith_pattern {
    const char *text; /* borrowed; without "re:" */
    void *code;       /* compiled, NULL for a name */
    size_t literal;   /* bytes that every match begins with: text, '^' and the like included */
};

/* Names first, sorted, then regular expressions: a list may name every expert of a mixture. */
struct pith_patterns {
    struct pith_pattern *item;
    size_t count, names;
};

/* Compiles a regular expression, to be matched at the start of a name as Python's re.match does.
 * PITH_FORMAT when it is not one. `text` must outlive it. */
enum pith_status pith_pattern_regex(const char *text, const char *where, struct pith_pattern *out,
                                    struct pith_error *err);
void pith_pattern_free(struct pith_pattern *p);
/* PITH_MATCH_REGEX, _NAME, _CLASS or _NONE in *rank. PITH_UNSUPPORTED when matching takes
 * unreasonably long. */
enum pith_status pith_pattern_match(const struct pith_pattern *p, const char *module,
                                    enum pith_match_rank *rank, struct pith_error *err);

/* Whether a JSON list has a module, as loaders read such lists: by its name, its last components,
 * or a module around it. What is no string in it counts for nothing. */
bool pith_module_listed(const json_t *list, const char *module);

/* Compiles a JSON list of names, "re:" patterns and class names; NULL or null is an empty list. The
 * list must outlive *out, which owns nothing on failure. */
enum pith_status pith_patterns_new(const json_t *list, const char *where, struct pith_patterns *out,
                                   struct pith_error *err);
void pith_patterns_free(struct pith_patterns *p);
/* The best rank of all. */
enum pith_status pith_patterns_match(const struct pith_patterns *p, const char *module,
                                     enum pith_match_rank *rank, struct pith_error *err);

#endif
