/* cli/hub.h: where the Hugging Face hub and its cache are, as the environment says. */
#ifndef PITH_CLI_HUB_H
#define PITH_CLI_HUB_H

#include <stdbool.h>

/* The first of "$VARIABLE/PART" whose variable is set and not empty; the caller frees it. NULL when
 * none is, or memory is out. */
struct hub_place {
    const char *variable, *part;
};
char *hub_path(const struct hub_place *places, unsigned count);

/* HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/huggingface/hub; the caller frees it. */
char *hub_cache(void);
/* Whether a variable is 1, on, yes or true. */
bool hub_flag(const char *variable);

#endif
