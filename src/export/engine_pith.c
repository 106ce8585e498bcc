/* What `pith run`, `serve` and `eval` load: all that pith writes, each linear by itself. */
#include "export/preflight.h"

#include "base/mem.h"

static const struct pith_load_pair all[] = {{"*", "*"}, {NULL, NULL}};

static const struct pith_load_rule rules[] = {
    {.container = "*", .pairs = all, .act_order = true, .mixed = true, .online = true},
};

/* Caches are what it is started with (--kv): scales in a checkpoint are not read. */
const struct pith_target_engine pith_engine_pith = {
    .name = "pith",
    .summary = "pith itself",
    .rules = rules,
    .count = PITH_COUNT(rules),
    .advice = "all that it writes",
    .any_cache = true,
};
