/* serve/grammar/build.h: from a constraint to a network of rules. */
#ifndef PITH_SERVE_GRAMMAR_BUILD_H
#define PITH_SERVE_GRAMMAR_BUILD_H

#include "serve/grammar/net.h"

#include <pith/engine.h>

/* Adds the rules of a constraint to a network; *root is the one that a text must be. Which
 * statuses there are says pith_grammar_open(). */
enum pith_status pith_grammar_build(struct pith_net *n, enum pith_constraint kind, const char *text,
                                    uint32_t *root, struct pith_error *err);
/* The same of PITH_CALLS. */
enum pith_status pith_grammar_calls(struct pith_net *n, const char *text, uint32_t *root,
                                    struct pith_error *err);

#endif
