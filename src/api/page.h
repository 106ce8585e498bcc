/* api/page.h: what pages made from reports have in common. */
#ifndef PITH_API_PAGE_H
#define PITH_API_PAGE_H

#include "api/context.h"
#include "report/html.h"

#include <math.h>
#include <string.h>

static inline double page_number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static inline const char *page_text(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

/* Values of linears by layer: a heat map of entries {"name", KEY}, whose names hold the layer's
 * number ("model.layers.3.mlp.up_proj", "blk.3.ffn_up"). Nothing is appended without any. */
void pith_page_heat(struct pith_str *out, const char *title, const json_t *entries,
                    const char *key);
/* The same in colours of a range, so that several can be compared. */
struct pith_page_range {
    double least, most;
};
void pith_page_heat_within(struct pith_str *out, const char *title, const json_t *entries,
                           const char *key, struct pith_page_range range);
/* The number in a name and what follows it; false when there is none. */
bool pith_page_layer(const char *name, size_t *layer, const char **rest);

/* The page for the caller; PITH_NOMEM. */
enum pith_status pith_page_take(struct pith_str *s, char **html, struct pith_error *err);

#endif
