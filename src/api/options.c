#include "api/options.h"

#include <string.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void pith_options_give(void *options, size_t size, const void *defaults, size_t full)
{
    if (size < sizeof size) return;
    memset(options, 0, size);
    memcpy(options, defaults, least(size, full));
    memcpy(options, &size, sizeof size);
}

enum pith_status pith_options_take(void *options, size_t full, const void *given,
                                   struct pith_error *err)
{
    size_t size;
    if (!given) return pith_fail(err, PITH_ARG, "no options were given");
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > 4096)
        return pith_fail(err, PITH_ARG, "the options have no size: start from their defaults");
    for (size_t i = full; i < size; i++)
        if (((const char *)given)[i])
            return pith_fail(err, PITH_ARG,
                             "the program was compiled for a newer library than this, %s, and sets "
                             "an option that it does not have",
                             pith_version());
    memcpy(options, given, least(size, full));
    memcpy(options, &full, sizeof full);
    return PITH_OK;
}
