/* KV caches of other engines: what they are started with. */
#include "export/preflight.h"

#include <stdio.h>
#include <string.h>

/* The row of a side's form. */
static const struct pith_engine_cache *find(const struct pith_target_engine *e,
                                            const struct pith_kv_part *part)
{
    struct pith_kv_format plain = {.k = *part, .v = *part};
    char name[PITH_KV_TEXT];
    plain.k.rotate = plain.v.rotate = false;
    pith_kv_name(&plain, name);
    for (const struct pith_engine_cache *c = e->caches; c && c->kv; c++)
        if (strcmp(c->kv, name) == 0) return c;
    return NULL;
}

/* What stands in front of the command for heads to be as requested, or NULL when they
 * cannot be. */
static const char *before(const struct pith_target_engine *e, const struct pith_kv_format *f,
                          uint32_t head_dim)
{
    const bool able = e->rotates && head_dim % e->rotates == 0;
    const struct pith_kv_part *part[2] = {&f->k, &f->v};
    bool differs = false;
    for (int i = 0; i < 2; i++) {
        const bool coded = pith_kv_coded(part[i]);
        if (part[i]->rotate && !(able && coded)) return NULL;
        differs = differs || (able && coded && !part[i]->rotate);
    }
    if (differs && (f->k.rotate || f->v.rotate)) return NULL; /* one switch for both */
    return differs ? e->unrotated : "";
}

bool pith_engine_cache(const struct pith_target_engine *e, const struct pith_kv_format *f,
                       uint32_t head_dim, char text[PITH_ENGINE_CACHE])
{
    const struct pith_engine_cache *k = find(e, &f->k), *v = find(e, &f->v);
    const char *first = before(e, f, head_dim);
    if (!k || !v || !first || f->layer || f->sink || f->recent) return false;
    if (!k->option[1] && k != v) return false;
    const int n = k->option[1] ? snprintf(text, PITH_ENGINE_CACHE, "%s%s %s", first, k->option[0],
                                          v->option[1])
                               : snprintf(text, PITH_ENGINE_CACHE, "%s%s", first, k->option[0]);
    return n > 0 && n < PITH_ENGINE_CACHE;
}
