#include <pith/inspect.h>

#include "api/context.h"
#include "base/str.h"
#include "export/preflight.h"
#include "io/container/container.h"
#include "model/arch.h"
#include "num/format.h"
#include "quant/recipe.h"
#include "quantize/conversions.h"

#include <inttypes.h>
#include <stdio.h>
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
        pith_json_add(&list,
                      json_pack("{s:s, s:i, s:f, s:i, s:f, s:s, s:s}", "format", f[i].name, "bits",
                                (int)f[i].bits, "bits_per_weight", pith_format_bits(&f[i]), "block",
                                (int)f[i].block, "max", (double)f[i].max, "what", f[i].summary,
                                "also_called", f[i].aliases));
    return pith_report_text(list, report, err);
}

enum pith_status pith_recipes_json(char **report, struct pith_error *err)
{
    size_t count;
    const struct pith_recipe_row *r = pith_recipe_rows(&count);
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        json_t *row = json_pack("{s:s}", "recipe", r[i].name);
#define PITH_STAGE(key, title, usual, values, what)                                                \
    pith_json_set(&row, title, json_string(r[i].key ? r[i].key : usual));
#include "quant/recipe_keys.def"
#undef PITH_STAGE
        pith_json_set(&row, "container", json_string(pith_recipe_row_container(&r[i])));
        pith_json_set(&row, "what", json_string(r[i].summary));
        pith_json_add(&list, row);
    }
    return pith_report_text(list, report, err);
}

enum pith_status pith_recipe_keys_json(char **report, struct pith_error *err)
{
    struct pith_recipe_key k;
    json_t *list = json_array();
    for (size_t i = 0; pith_recipe_key(i, &k); i++)
        pith_json_add(&list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", k.key, "values",
                                       k.values, "default", or_dash(k.usual), "for", or_dash(k.who),
                                       "what", or_dash(k.what)));
    return pith_report_text(list, report, err);
}

/* An array of {"name", "what"} from a table of pointers to rows that have a name and a summary. */
#define ADD_ROWS(object, key, get)                                                                 \
    do {                                                                                           \
        size_t count_;                                                                             \
        json_t *list_ = json_array();                                                              \
        for (size_t i_ = 0; i_ < (get(&count_), count_); i_++)                                     \
            pith_json_add(&list_, json_pack("{s:s, s:s}", "name", get(&count_)[i_]->name, "what",  \
                                            get(&count_)[i_]->summary));                           \
        pith_json_set(&(object), key, list_);                                                      \
    } while (0)

/* --- what engines load ----------------------------------------------------------------------- */

static void put(struct pith_str *s, const char *text)
{
    if (s->len) pith_str_puts(s, ", ");
    pith_str_puts(s, text);
}

/* The list's text, or "-"; NULL when memory is out. */
static json_t *take_text(struct pith_str *s)
{
    json_t *j = s->failed ? NULL : json_string(or_dash(pith_str_text(s)));
    pith_str_free(s);
    return j;
}

/* "int4, int8", or "-". */
static json_t *bits_text(uint32_t mask)
{
    enum { ALL = 0x1fc };
    if (mask == ALL) return json_string("int2 to int8");
    struct pith_str s = {0};
    char name[16];
    for (unsigned b = 2; b <= 8; b++)
        if (mask >> b & 1) {
            snprintf(name, sizeof name, "int%u", b);
            put(&s, name);
        }
    return take_text(&s);
}

/* "channel, g32, g64": the granularities that a rule has. */
static json_t *scales_text(const struct pith_load_rule *r)
{
    struct pith_str s = {0};
    char name[16];
    if (r->tensor) put(&s, "tensor");
    if (r->channel) put(&s, "channel");
    if (!r->groups) put(&s, "any group");
    for (const uint32_t *g = r->groups; g && *g; g++) {
        snprintf(name, sizeof name, "g%" PRIu32, *g);
        put(&s, name);
    }
    return take_text(&s);
}

/* Weights of one kind with all inputs that they may have. */
static json_t *pair_row(const struct pith_target_engine *e, const struct pith_load_rule *r,
                        const struct pith_load_pair *p)
{
    struct pith_str s = {0};
    for (const char *c = p->inputs; *c; c++)
        if (*c == ' ') pith_str_puts(&s, ", ");
        else pith_str_putc(&s, *c);
    const bool any = strcmp(p->inputs, "*") == 0, whatever = strcmp(r->container, "*") == 0;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "engine", e->name, "container",
        whatever ? "any" : r->container, "activations", any ? "any" : pith_str_text(&s), "weights",
        strcmp(p->weights, "*") == 0 ? (whatever ? "any" : "any float") : p->weights,
        "with_zero_points", "-", "scales", "-", "permuted_groups", r->act_order ? "yes" : "no",
        "several_grids", r->mixed ? "yes" : "no", "rotated_inputs", r->online ? "yes" : "no",
        "qkv_and_gate_up_alike", r->fused ? "yes" : "no");
    if (s.failed) {
        json_decref(row);
        row = NULL;
    }
    pith_str_free(&s);
    return row;
}

static json_t *load_row(const struct pith_target_engine *e, const struct pith_load_rule *r)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:s, s:s}", "engine", e->name,
                     "container", r->container, "activations", r->acts ? "integers" : "16 bits",
                     "weights", bits_text(r->sym), "with_zero_points", bits_text(r->asym), "scales",
                     scales_text(r), "permuted_groups", r->act_order ? "yes" : "no",
                     "several_grids", r->mixed ? "yes" : "no", "rotated_inputs",
                     r->online ? "yes" : "no", "qkv_and_gate_up_alike", r->fused ? "yes" : "no");
}

static json_t *loads(void)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    static const uint32_t no_groups[] = {0};
    const struct pith_load_rule nothing = {.container = "none", .groups = no_groups};
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < e[i]->count; k++) {
            const struct pith_load_rule *r = &e[i]->rules[k];
            for (const struct pith_load_pair *p = r->pairs; p && p->weights; p++)
                pith_json_add(&list, pair_row(e[i], r, p));
            if (!r->pairs) pith_json_add(&list, load_row(e[i], r));
        }
        if (e[i]->count == 0) pith_json_add(&list, load_row(e[i], &nothing));
    }
    return list;
}

/* A row for each cache that an engine can be started with. */
static json_t *caches(void)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        for (const struct pith_engine_cache *c = e[i]->caches; c && c->kv; c++) {
            const char *second = c->option[1];
            pith_json_add(&list, json_pack("{s:s, s:s, s:o}", "engine", e[i]->name, "kv", c->kv,
                                           "started_with",
                                           json_sprintf("%s%s%s", c->option[0], second ? " " : "",
                                                        second ? second : "")));
        }
    return list;
}

static json_t *rounders(void)
{
    size_t count;
    const struct pith_rounder *rows = pith_rounders(&count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        pith_json_add(&list,
                      json_pack("{s:s, s:s}", "name", rows[i].name, "what", rows[i].summary));
    return list;
}

enum pith_status pith_features_json(char **report, struct pith_error *err)
{
    json_t *j = json_object();
    ADD_ROWS(j, "containers", pith_containers);
    ADD_ROWS(j, "engines", pith_engines);
    pith_json_set(&j, "loads", loads());
    pith_json_set(&j, "caches", caches());
    pith_json_set(&j, "conversions", pith_conversions());
    ADD_ROWS(j, "architectures", pith_archs);
    ADD_ROWS(j, "transforms", pith_transforms);
    ADD_ROWS(j, "splits", pith_splits);
    pith_json_set(&j, "rounders", rounders());
    return pith_report_text(j, report, err);
}
