/* Any bytes as a recipe file: it is refused with a reason, or the recipe has all four stages, sane
 * options, and is the same after being written out and read again. */
#include "base/mem.h"
#include "quant/recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth)
{
    if (!truth) abort();
}

static void check(const struct pith_recipe *r)
{
    must(r->transform && r->split && r->round);
    must(r->round_options.damp >= 0.0 && r->round_options.damp <= 1.0);
    must(r->round_options.act_order <= PITH_ORDER_GROUP);
    must(!r->weights.format || pith_gridder_for(&r->weights));
    must(memchr(r->name, '\0', sizeof r->name) && memchr(r->container, '\0', sizeof r->container));
    json_t *json = pith_recipe_json(r), *again = NULL;
    if (!json) return; /* out of memory */
    char *text = json_dumps(json, 0);
    if (text) {
        struct pith_recipe back;
        struct pith_error err = {0};
        const enum pith_status s = pith_recipe_parse(text, strlen(text), "again", &back, &err);
        must(s == PITH_OK || s == PITH_NOMEM);
        if (s == PITH_OK) again = pith_recipe_json(&back);
        must(!again || json_equal(json, again));
    }
    free(text);
    json_decref(json);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_recipe r;
    struct pith_error err = {0};
    const enum pith_status s = pith_recipe_parse((const char *)data, size, "recipe", &r, &err);
    if (s == PITH_OK) check(&r);
    else must(err.status == s && err.text[0] != '\0');
    return 0;
}
