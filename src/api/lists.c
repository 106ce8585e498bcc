#include <pith/inspect.h>

#include "api/context.h"
#include "export/preflight.h"
#include "io/container.h"
#include "model/arch.h"
#include "num/format.h"
#include "quant/recipe.h"

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

/* An array of {"name", "what"} from a table of pointers to rows that have a name and a summary. */
#define ADD_ROWS(object, key, get)                                                                 \
    do {                                                                                           \
        size_t count_;                                                                             \
        json_t *list_ = json_array();                                                              \
        for (size_t i_ = 0; i_ < (get(&count_), count_); i_++)                                     \
            json_array_append_new(list_, json_pack("{s:s, s:s}", "name", get(&count_)[i_]->name,   \
                                                   "what", get(&count_)[i_]->summary));            \
        json_object_set_new(object, key, list_);                                                   \
    } while (0)

enum pith_status pith_features_json(char **report, struct pith_error *err)
{
    json_t *j = json_object();
    ADD_ROWS(j, "containers", pith_containers);
    ADD_ROWS(j, "engines", pith_engines);
    ADD_ROWS(j, "architectures", pith_archs);
    ADD_ROWS(j, "transforms", pith_transforms);
    ADD_ROWS(j, "splits", pith_splits);
    ADD_ROWS(j, "rounders", pith_rounders);
    return pith_report_text(j, report, err);
}
