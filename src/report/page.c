#include "report/page.h"

#include "base/mem.h"
#include "report/heat.h"

#include <stdlib.h>

/* More layers or kinds of linears than these are not drawn. */
enum { LAYERS_MOST = 1024, KINDS_MOST = 64 };

bool pith_page_layer(const char *name, size_t *layer, const char **rest)
{
    for (const char *at = strchr(name, '.'); at; at = strchr(at + 1, '.')) {
        char *end;
        if (at[1] < '0' || at[1] > '9') continue;
        const unsigned long n = strtoul(at + 1, &end, 10);
        if (*end != '.' || end[1] == '\0') continue;
        *layer = n;
        *rest = end + 1;
        return n < LAYERS_MOST;
    }
    return false;
}

struct map {
    const char *kind[KINDS_MOST];
    size_t kinds, layers;
    double *values;
};

static size_t kind_of(struct map *m, const char *rest)
{
    for (size_t i = 0; i < m->kinds; i++)
        if (strcmp(m->kind[i], rest) == 0) return i;
    if (m->kinds < KINDS_MOST) m->kind[m->kinds++] = rest;
    return m->kinds - 1;
}

static void measure(struct map *m, json_t *entries, pith_page_value_fn *value)
{
    json_t *e;
    const char *name, *rest;
    size_t layer;
    json_object_foreach (entries, name, e) {
        if (!isfinite(value(e)) || !pith_page_layer(name, &layer, &rest)) continue;
        (void)kind_of(m, rest);
        if (layer + 1 > m->layers) m->layers = layer + 1;
    }
}

void pith_page_heat(struct pith_str *out, const char *title, json_t *entries,
                    pith_page_value_fn *value)
{
    pith_page_heat_within(out, title, entries, value, (struct pith_page_range){0});
}

void pith_page_heat_within(struct pith_str *out, const char *title, json_t *entries,
                           pith_page_value_fn *value, struct pith_page_range range)
{
    struct map m = {0};
    json_t *e;
    const char *name, *rest;
    size_t layer;
    measure(&m, entries, value);
    if (m.kinds == 0) return;
    m.values = pith_alloc(m.kinds * m.layers, sizeof *m.values);
    if (!m.values) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < m.kinds * m.layers; i++) m.values[i] = (double)NAN;
    json_object_foreach (entries, name, e)
        if (isfinite(value(e)) && pith_page_layer(name, &layer, &rest))
            m.values[kind_of(&m, rest) * m.layers + layer] = value(e);
    pith_html_heat(out, &(struct pith_heat){.title = title,
                                            .names = m.kind,
                                            .values = m.values,
                                            .rows = m.kinds,
                                            .columns = m.layers,
                                            .least = range.least,
                                            .most = range.most});
    pith_free(m.values);
}
