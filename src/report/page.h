/* report/page.h: pages made from reports, which are JSON trees, and what these have in common. */
#ifndef PITH_REPORT_PAGE_H
#define PITH_REPORT_PAGE_H

#include "base/json.h"
#include "base/status.h"
#include "report/html.h"

#include <math.h>
#include <string.h>

/* Appends the whole page of a report. PITH_FORMAT: it is none of that command, PITH_NOMEM. What the
 * string lacks memory for it remembers itself. */
typedef enum pith_status pith_page_fn(const json_t *report, struct pith_str *out,
                                      struct pith_error *err);

pith_page_fn pith_page_compare;     /* pith compare, with details */
pith_page_fn pith_page_inspect;     /* pith inspect, with statistics */
pith_page_fn pith_page_sensitivity; /* pith sensitivity */
pith_page_fn pith_page_traffic;     /* pith bench --serve */

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

/* A heat map of linears by layer. The keys of `entries`, an object, contain the layer's number
 * ("model.layers.3.mlp.up_proj", "blk.3.ffn_up"). value() gives the number of an entry, NaN if it
 * has none; if none has one, nothing is appended. */
typedef double pith_page_value_fn(const json_t *entry);
void pith_page_heat(struct pith_str *out, const char *title, json_t *entries,
                    pith_page_value_fn *value);
/* The same in colours of a range, so that several can be compared. */
struct pith_page_range {
    double least, most;
};
void pith_page_heat_within(struct pith_str *out, const char *title, json_t *entries,
                           pith_page_value_fn *value, struct pith_page_range range);
/* The number in a name and what follows it; false when there is none. */
bool pith_page_layer(const char *name, size_t *layer, const char **rest);

#endif
