#include <pith/inspect.h>

#include "api/context.h"
#include "export/preflight.h"
#include "io/container.h"
#include "model/arch.h"
#include "num/format.h"
#include "quant/recipe.h"
#include "report/html.h"
#include "report/table.h"

#include <string.h>

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

enum pith_status pith_formats_json(char **report, struct pith_error *err)
{
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:i, s:f, s:s, s:s}", "format",
                                              f[i].name, "bits", (int)f[i].bits, "bits_per_weight",
                                              pith_format_bits(&f[i]), "block", (int)f[i].block,
                                              "max", (double)f[i].max, "what", f[i].summary,
                                              "also_called", f[i].aliases));
    return pith_report_text(list, report, err);
}

enum pith_status pith_recipes_json(char **report, struct pith_error *err)
{
    size_t count;
    const struct pith_recipe_row *r = pith_recipe_rows(&count);
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "recipe", r[i].name,
                            "transform", or_dash(r[i].transform), "split", or_dash(r[i].split),
                            "weights", or_dash(r[i].weights), "activations", or_dash(r[i].acts),
                            "kv", or_dash(r[i].kv), "round", or_dash(r[i].round), "container",
                            or_dash(r[i].container), "what", r[i].summary));
    return pith_report_text(list, report, err);
}
