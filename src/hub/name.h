/* hub/name.h: "org/name[@revision]", what a model is called on the Hugging Face hub. */
#ifndef PITH_HUB_NAME_H
#define PITH_HUB_NAME_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { PITH_HUB_REPO_MOST = 128, PITH_HUB_REVISION_MOST = 200, PITH_HUB_COMMIT = 40 };

struct pith_hub_name {
    char repo[PITH_HUB_REPO_MOST];         /* "org/name" */
    char revision[PITH_HUB_REVISION_MOST]; /* a branch, a tag, a commit; "main" when none stands */
};

/* Whether a text has that form: two words of letters, digits, '.', '_', '-', neither beginning
 * with '.' or '-', without "--" or ".." (which separate words in the cache), a slash between
 * them; perhaps '@' and a revision. */
bool pith_hub_name_is(const char *text);
/* Takes it apart; PITH_ARG when it is none. */
enum pith_status pith_hub_name_parse(const char *text, struct pith_hub_name *out,
                                     struct pith_error *err);

/* True for 40 lowercase hex digits. */
bool pith_hub_is_commit(const char *text);
/* True for `digits` lowercase hex digits and nothing else. */
bool pith_hub_is_hex(const char *text, size_t digits);
/* True for a path that stays where it is joined to: parts between single slashes, none of them
 * empty, "." or "..", no backslash, no control character. Names from a server must pass this. */
bool pith_hub_path_is_safe(const char *path);

#endif
