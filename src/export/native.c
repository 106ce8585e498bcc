/* What the GPU of a target makes of a model: plan/hardware/natives.def. */
#include "export/preflight.h"
#include "plan/hardware/natives.h"

#include <string.h>

static bool is_listed(const json_t *texts, const char *text)
{
    const json_t *t;
    size_t i;
    json_array_foreach (texts, i, t)
        if (strcmp(json_string_value(t), text) == 0) return true;
    return false;
}

enum pith_status pith_target_natives(const struct pith_target *target,
                                     const struct pith_offer *offer, bool refused, json_t *texts,
                                     struct pith_error *err)
{
    const enum pith_native wanted = refused ? PITH_NATIVE_REFUSED : PITH_NATIVE_LESS;
    char why[PITH_NATIVE_WHY];
    for (size_t i = 0; i < offer->count && target->gpu; i++) {
        const struct pith_linear_grid *l = &offer->linears[i];
        const struct pith_native_case c = {.engine = target->engine->name,
                                           .container = offer->container->name,
                                           .weights = l->grid,
                                           .acts = offer->opts->acts,
                                           .hardware = target->gpu};
        if (!l->grid.format || pith_native_ask(&c, why) != wanted || is_listed(texts, why))
            continue;
        if (json_array_append_new(texts, json_string(why)) != 0)
            return pith_fail_nomem(err, "a message");
    }
    return PITH_OK;
}
