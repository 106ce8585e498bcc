#include "quant/recipe.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "quant/scale.h"

#include <stdio.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20 }; /* those of auto name every linear */

static const struct pith_recipe_row rows[] = {
#define PITH_RECIPE(name, summary, ...) {name, summary, __VA_ARGS__},
#include "quant/recipes.def"
#undef PITH_RECIPE
};

const struct pith_recipe_row *pith_recipe_rows(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}

/* ---- stages by name ---- */

static const char *transform_name(size_t i)
{
    size_t n;
    const struct pith_transform *const *t = pith_transforms(&n);
    return i < n ? t[i]->name : NULL;
}

static const char *split_name(size_t i)
{
    size_t n;
    const struct pith_split *const *t = pith_splits(&n);
    return i < n ? t[i]->name : NULL;
}

static const char *rounder_name(size_t i)
{
    size_t n;
    const struct pith_rounder *t = pith_rounders(&n);
    return i < n ? t[i].name : NULL;
}

static const char *recipe_name(size_t i)
{
    return i < PITH_COUNT(rows) ? rows[i].name : NULL;
}

/* Reads the option of a row that takes one (parse not NULL); on failure nothing is changed. */
static enum pith_status read_option(const char *name, const char *option,
                                    enum pith_status (*parse)(const char *text, double *value,
                                                              struct pith_error *err),
                                    char stored[PITH_OPTION_TEXT], double *value,
                                    struct pith_error *err)
{
    double v = 0;
    if (!parse && option[0])
        return pith_fail(err, PITH_ARG, "%s takes no option, but \"%.64s\" follows", name, option);
    if (strlen(option) >= PITH_OPTION_TEXT)
        return pith_fail(err, PITH_ARG, "the option of %s is too long", name);
    if (parse) PITH_TRY(parse(option, &v, err));
    strcpy(stored, option);
    *value = v;
    return PITH_OK;
}

static enum pith_status set_transform(struct pith_recipe *r, const char *text,
                                      struct pith_error *err)
{
    size_t n;
    const struct pith_transform *const *rows_of = pith_transforms(&n);
    for (size_t i = 0; i < n; i++) {
        const char *option = pith_name_option(text, rows_of[i]->name);
        if (!option) continue;
        PITH_TRY(read_option(rows_of[i]->name, option, rows_of[i]->option, r->transform_option,
                             &r->transform_value, err));
        r->transform = rows_of[i];
        return PITH_OK;
    }
    return pith_fail_name(err, "transform", text, transform_name);
}

static enum pith_status set_split(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    size_t n;
    const struct pith_split *const *rows_of = pith_splits(&n);
    for (size_t i = 0; i < n; i++) {
        const char *option = pith_name_option(text, rows_of[i]->name);
        if (!option) continue;
        PITH_TRY(read_option(rows_of[i]->name, option, rows_of[i]->option, r->split_option,
                             &r->split_value, err));
        r->split = rows_of[i];
        return PITH_OK;
    }
    return pith_fail_name(err, "split", text, split_name);
}

static enum pith_status set_round(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    const struct pith_rounder *t = pith_rounder_find(text);
    if (!t) return pith_fail_name(err, "rounder", text, rounder_name);
    r->round = t;
    return PITH_OK;
}

/* "none" or a grid, which takes from *out what it leaves open. */
static enum pith_status parse_grid(const char *text, struct pith_grid *out, struct pith_error *err)
{
    if (pith_name_equal(text, "none")) {
        *out = (struct pith_grid){0};
        return PITH_OK;
    }
    struct pith_grid g;
    PITH_TRY(pith_grid_parse_like(text, out, &g, err));
    *out = g;
    return PITH_OK;
}

/* "q4_k:m" is the grid q4_k and the mixture m. */
static enum pith_status parse_weights(const char *text, struct pith_grid *g, char *mixture,
                                      struct pith_error *err)
{
    char grid[PITH_GRID_TEXT];
    const size_t n = strlen(text);
    const char last = n > 2 && text[n - 2] == ':' ? (char)(text[n - 1] | 0x20) : 0;
    *mixture = last == 's' || last == 'm' || last == 'l' ? last : 0;
    if (!*mixture || n - 2 >= sizeof grid) return parse_grid(text, g, err);
    memcpy(grid, text, n - 2);
    grid[n - 2] = '\0';
    PITH_TRY(parse_grid(grid, g, err));
    if (g->format && g->format->kind == PITH_KIND_GGUF) return PITH_OK;
    return pith_fail(err, PITH_ARG, "grid \"%.60s\": only GGUF's types come in mixtures, as q4_k:m",
                     text);
}

static const struct pith_recipe_row *find_row(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (pith_name_equal(rows[i].name, name)) return &rows[i];
    return NULL;
}

static enum pith_status set_weights(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    struct pith_grid g = r->weights;
    char mixture;
    if (parse_weights(text, &g, &mixture, NULL) != PITH_OK && find_row(text))
        return pith_fail(err, PITH_ARG, "\"%.64s\" is a recipe, no grid: `recipe` %.64s", text,
                         text);
    g = r->weights;
    PITH_TRY(parse_weights(text, &g, &mixture, err));
    if (g.format && g.format->kind == PITH_KIND_FLOAT && g.format->bits >= 16)
        g = (struct pith_grid){0}; /* as they are */
    if (g.format && !pith_gridder_for(&g))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "weights cannot be put on the grid %.64s; grids that can be: int4:g128, "
                         "fp8_e4m3:channel, nf4:g64, mxfp4, nvfp4 and their like",
                         text);
    r->weights = g;
    r->mixture = mixture;
    return PITH_OK;
}

static enum pith_status set_acts(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    PITH_TRY(parse_grid(text, &r->acts, err));
    /* NVFP4's scale of the tensor is always fixed beforehand. */
    const struct pith_format *f = r->acts.format;
    if (f && strcmp(f->name, "nvfp4") == 0) r->acts.is_static = true;
    return PITH_OK;
}

static enum pith_status set_kv(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    PITH_TRY(parse_grid(text, &r->kv, err));
    pith_kv_grid_settle(&r->kv);
    return PITH_OK;
}

static bool is_plain(const char *text, size_t limit)
{
    const size_t n = strlen(text);
    if (n == 0 || n >= limit) return false;
    for (const char *p = text; *p; p++) {
        const bool alnum = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                           (*p >= '0' && *p <= '9');
        if (!alnum && !strchr("-_.+ ", *p)) return false;
    }
    return true;
}

static enum pith_status set_container(struct pith_recipe *r, const char *text,
                                      struct pith_error *err)
{
    if (!is_plain(text, sizeof r->container))
        return pith_fail(err, PITH_ARG,
                         "the container must be a name of 1 to %zu letters, digits or -_.+",
                         sizeof r->container - 1);
    strcpy(r->container, text);
    return PITH_OK;
}

static enum pith_status set_name(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    if (!is_plain(text, sizeof r->name))
        return pith_fail(err, PITH_ARG, "the name must have 1 to %zu letters, digits or -_.+",
                         sizeof r->name - 1);
    strcpy(r->name, text);
    return PITH_OK;
}

/* ---- stages as text ---- */

enum { STAGE_TEXT = PITH_GRID_TEXT + 2 };

static void grid_text(const struct pith_grid *g, char text[STAGE_TEXT])
{
    if (g->format) pith_grid_format(g, text);
    else strcpy(text, "none");
}

static void text_weights(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    grid_text(&r->weights, text);
    const size_t n = strlen(text);
    if (r->mixture) (void)snprintf(text + n, STAGE_TEXT - n, ":%c", r->mixture);
}

static void text_acts(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    grid_text(&r->acts, text);
}

static void text_kv(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    grid_text(&r->kv, text);
}

/* "smooth:0.5" again. */
static void with_option(const char *name, const char *option, char text[STAGE_TEXT])
{
    (void)snprintf(text, STAGE_TEXT, "%s%s%s", name, option[0] ? ":" : "", option);
}

static void text_transform(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    with_option(r->transform->name, r->transform_option, text);
}

static void text_split(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    with_option(r->split->name, r->split_option, text);
}

static void text_round(const struct pith_recipe *r, char text[STAGE_TEXT])
{
    with_option(r->round->name, "", text);
}

/* ---- keys ---- */

typedef enum pith_status set_fn(struct pith_recipe *r, const char *text, struct pith_error *err);

static const struct stage {
    const char *key, *usual, *values, *what;
    size_t row; /* its place in struct pith_recipe_row */
    set_fn *set;
    void (*text)(const struct pith_recipe *r, char text[STAGE_TEXT]);
} stages[] = {
#define PITH_STAGE(key, title, usual, values, what)                                                \
    {#key, usual, values, what, offsetof(struct pith_recipe_row, key), set_##key, text_##key},
#include "quant/recipe_keys.def"
#undef PITH_STAGE
};

enum kind { REAL, COUNT, FLAG, ORDER };

static const struct stage_option {
    const char *key;
    enum kind kind;
    size_t at; /* in struct pith_recipe */
    double usual, least, most;
    const char *who, *what;
} options[] = {
#define PITH_RECIPE_OPTION(key, kind, member, usual, least, most, who, what)                       \
    {#key, kind, offsetof(struct pith_recipe, member), usual, least, most, who, what},
#include "quant/recipe_keys.def"
#undef PITH_RECIPE_OPTION
};

/* Other keys of a file. */
static const struct label {
    const char *key, *values, *what;
    set_fn *set; /* NULL: it is read before all others */
} labels[] = {
    {"name", "up to 63 letters, digits or -_.+", "\"custom\" without it", set_name},
    {"base", "a named recipe", "what keys that are missing are taken from; rtn without it", NULL},
    {"container", "a container", "the one that its users load", set_container},
    {"linears", "an object: a grid, or none, for each of them",
     "grids of single linears by their whole names, in place of the recipe's", NULL},
    {"predicted", "an object", "what was expected of it when it was made; copied to the account",
     NULL},
};

static const char *const orders[] = {
    [PITH_ORDER_NONE] = "none", [PITH_ORDER_STATIC] = "static", [PITH_ORDER_GROUP] = "group"};

/* Sets an option to a number, where that is what it is. */
static void set_number(struct pith_recipe *r, const struct stage_option *o, double value)
{
    void *at = (char *)r + o->at;
    if (o->kind == REAL) *(double *)at = value;
    else if (o->kind == COUNT) *(uint32_t *)at = (uint32_t)value;
    else if (o->kind == FLAG) *(bool *)at = value != 0;
    else *(enum pith_act_order *)at = (enum pith_act_order)value;
}

/* ... as JSON, a new reference. */
static json_t *option_json(const struct pith_recipe *r, const struct stage_option *o)
{
    const void *at = (const char *)r + o->at;
    if (o->kind == REAL) return json_real(*(const double *)at);
    if (o->kind == COUNT) return json_integer((json_int_t) * (const uint32_t *)at);
    if (o->kind == FLAG) return json_boolean(*(const bool *)at);
    return json_string(orders[*(const enum pith_act_order *)at]);
}

static const char *option_values(const struct stage_option *o)
{
    static const char *const texts[] = {[REAL] = "0 to 1",
                                        [COUNT] = "a count, from 1",
                                        [FLAG] = "true, false",
                                        [ORDER] = "none, static, group"};
    if (o->kind == REAL && o->most > 1) return "a number, from 0";
    return o->kind == COUNT && o->least == 0 ? "a count, from 0" : texts[o->kind];
}

bool pith_recipe_key(size_t i, struct pith_recipe_key *out)
{
    const size_t before = PITH_COUNT(labels), stage = i - before,
                 option = i - before - PITH_COUNT(stages);
    *out = (struct pith_recipe_key){.who = ""};
    if (i < before) {
        out->key = labels[i].key;
        out->values = labels[i].values;
        out->what = labels[i].what;
    } else if (stage < PITH_COUNT(stages)) {
        out->key = stages[stage].key;
        out->values = stages[stage].values;
        out->what = stages[stage].what;
        out->stage = true;
    } else if (option < PITH_COUNT(options)) {
        const struct stage_option *o = &options[option];
        const char *const flag = o->usual != 0 ? "true" : "false";
        out->key = o->key;
        out->values = option_values(o);
        out->who = o->who;
        out->what = o->what;
        if (o->kind == FLAG) strcpy(out->usual, flag);
        else if (o->kind == ORDER) strcpy(out->usual, orders[(size_t)o->usual]);
        else (void)snprintf(out->usual, sizeof out->usual, "%g", o->usual);
    }
    return out->key != NULL;
}

enum pith_status pith_recipe_set(struct pith_recipe *r, const char *stage, const char *text,
                                 struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(stages); i++)
        if (strcmp(stages[i].key, stage) == 0) return stages[i].set(r, text, err);
    return pith_fail(err, PITH_ARG, "a recipe has no stage \"%.64s\"", stage);
}

enum pith_status pith_recipe_linear(const char *text, struct pith_grid *out, struct pith_error *err)
{
    PITH_TRY(parse_grid(text, out, err));
    const struct pith_format *f = out->format;
    if (f && f->kind == PITH_KIND_FLOAT && f->bits >= 16) *out = (struct pith_grid){0};
    if (!out->format || pith_gridder_for(out)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "weights cannot be put on the grid %.64s", text);
}

/* ---- loading ---- */

static enum pith_status load_named(const char *name, struct pith_recipe *out,
                                   struct pith_error *err)
{
    const struct pith_recipe_row *row = find_row(name);
    struct pith_grid grid;
    if (!row && pith_grid_parse(name, &grid, NULL) == PITH_OK)
        return pith_fail(err, PITH_ARG, "\"%.64s\" is a grid, no recipe: `weights` %.64s", name,
                         name);
    if (!row) return pith_fail_name(err, "recipe", name, recipe_name);
    *out = (struct pith_recipe){0};
    for (size_t i = 0; i < PITH_COUNT(options); i++) set_number(out, &options[i], options[i].usual);
    PITH_TRY(set_name(out, row->name, err));
    for (size_t i = 0; i < PITH_COUNT(stages); i++) {
        const char *const *text = (const void *)((const char *)row + stages[i].row);
        PITH_TRY(stages[i].set(out, *text ? *text : stages[i].usual, err));
    }
    return set_container(out, pith_recipe_row_container(row), err);
}

static bool is_key(const char *key)
{
    struct pith_recipe_key k;
    for (size_t i = 0; pith_recipe_key(i, &k); i++)
        if (strcmp(k.key, key) == 0) return true;
    return false;
}

static enum pith_status check_keys(json_t *obj, const char *path, struct pith_error *err)
{
    if (!json_is_object(obj))
        return pith_fail(err, PITH_FORMAT, "%s: a recipe must be a JSON object", path);
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it))
        if (!is_key(json_object_iter_key(it)))
            return pith_fail(err, PITH_FORMAT, "%s: a recipe has no key \"%.64s\"", path,
                             json_object_iter_key(it));
    return PITH_OK;
}

/* The failure of one key's text: a wrong text in a file is a wrong file. */
static enum pith_status fail_key(struct pith_error *err, enum pith_status s, const char *path,
                                 const char *key)
{
    if (s == PITH_ARG) s = PITH_FORMAT;
    if (!err) return s;
    struct pith_str prefix = {0};
    pith_str_printf(&prefix, "%.200s: \"%s\"", path, key);
    pith_fail_in(err, s, pith_str_text(&prefix));
    pith_str_free(&prefix);
    err->status = s;
    return s;
}

/* A string without a NUL inside, which strcmp would stop at. */
static enum pith_status get_text(const json_t *obj, const char *key, const char **text,
                                 const char *path, struct pith_error *err)
{
    PITH_TRY(pith_json_get_str(obj, key, text, path, err));
    if (*text && strlen(*text) != json_string_length(json_object_get(obj, key)))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" holds a NUL", path, key);
    return PITH_OK;
}

/* Reads a key that is text, when it is there. */
static enum pith_status read_text(const json_t *obj, const char *key, set_fn *set, const char *path,
                                  struct pith_recipe *r, struct pith_error *err)
{
    const char *text = NULL;
    PITH_TRY(get_text(obj, key, &text, path, err));
    if (!text) return PITH_OK;
    const enum pith_status s = set(r, text, err);
    return s == PITH_OK ? s : fail_key(err, s, path, key);
}

static enum pith_status read_stage(const json_t *obj, const struct stage *stage, const char *path,
                                   struct pith_recipe *r, struct pith_error *err)
{
    /* A grid in a file is what it says, whatever the base has. */
    if (json_is_string(json_object_get(obj, stage->key))) {
        static const struct pith_grid nothing = {0};
        if (stage->set == set_weights) r->weights = nothing;
        if (stage->set == set_acts) r->acts = nothing;
        if (stage->set == set_kv) r->kv = nothing;
    }
    return read_text(obj, stage->key, stage->set, path, r, err);
}

static enum pith_status set_order(struct pith_recipe *r, const char *text, struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(orders); i++)
        if (strcmp(orders[i], text) == 0) {
            r->round_options.act_order = (enum pith_act_order)i;
            return PITH_OK;
        }
    return pith_fail(err, PITH_ARG,
                     "there is no act_order \"%.64s\"; there are: none, static, group", text);
}

static enum pith_status read_real(const json_t *obj, const struct stage_option *o, double *value,
                                  const char *path, struct pith_error *err)
{
    PITH_TRY(pith_json_get_real(obj, o->key, value, path, err));
    if (*value >= o->least && *value <= o->most) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, outside %g..%g", path, o->key, *value,
                     o->least, o->most);
}

static enum pith_status read_option_key(const json_t *obj, const struct stage_option *o,
                                        const char *path, struct pith_recipe *r,
                                        struct pith_error *err)
{
    void *at = (char *)r + o->at;
    if (o->kind == ORDER) return read_text(obj, o->key, set_order, path, r, err);
    if (o->kind == FLAG) return pith_json_get_bool(obj, o->key, at, path, err);
    if (o->kind == REAL) return read_real(obj, o, at, path, err);
    int64_t count = *(uint32_t *)at;
    PITH_TRY(
        pith_json_get_int(obj, o->key, (int64_t)o->least, (int64_t)o->most, &count, path, err));
    *(uint32_t *)at = (uint32_t)count;
    return PITH_OK;
}

/* Each of them is a grid that weights can be put on, or none. */
static enum pith_status check_linears(const json_t *obj, const char *path, struct pith_error *err)
{
    json_t *linears = json_object_get(obj, "linears");
    const json_t *predicted = json_object_get(obj, "predicted");
    if (predicted && !json_is_object(predicted) && !json_is_null(predicted))
        return pith_fail(err, PITH_FORMAT, "%s: \"predicted\" must be an object", path);
    if (linears && !json_is_object(linears) && !json_is_null(linears))
        return pith_fail(err, PITH_FORMAT, "%s: \"linears\" must be an object", path);
    for (void *it = json_object_iter(linears); it; it = json_object_iter_next(linears, it)) {
        const char *name = json_object_iter_key(it), *text = NULL;
        struct pith_grid g;
        PITH_TRY(get_text(linears, name, &text, path, err));
        if (!text) return pith_fail(err, PITH_FORMAT, "%s: \"%.200s\" has no grid", path, name);
        const enum pith_status s = pith_recipe_linear(text, &g, err);
        if (s != PITH_OK) return fail_key(err, s, path, name);
    }
    return PITH_OK;
}

static enum pith_status read_object(json_t *obj, const char *path, struct pith_recipe *r,
                                    struct pith_error *err)
{
    PITH_TRY(check_keys(obj, path, err));
    PITH_TRY(check_linears(obj, path, err));
    const char *base = NULL;
    PITH_TRY(get_text(obj, "base", &base, path, err));
    const enum pith_status s = load_named(base ? base : "rtn", r, err);
    if (s != PITH_OK) return fail_key(err, s, path, "base");
    PITH_TRY(set_name(r, "custom", err));
    for (size_t i = 0; i < PITH_COUNT(labels); i++)
        if (labels[i].set) PITH_TRY(read_text(obj, labels[i].key, labels[i].set, path, r, err));
    for (size_t i = 0; i < PITH_COUNT(stages); i++)
        PITH_TRY(read_stage(obj, &stages[i], path, r, err));
    for (size_t i = 0; i < PITH_COUNT(options); i++)
        PITH_TRY(read_option_key(obj, &options[i], path, r, err));
    return PITH_OK;
}

static bool is_path(const char *text)
{
    const size_t n = strlen(text);
    return strchr(text, '/') || (n > 5 && strcmp(text + n - 5, ".json") == 0);
}

enum pith_status pith_recipe_parse(const char *text, size_t size, const char *where,
                                   struct pith_recipe *out, struct pith_error *err)
{
    json_t *obj;
    PITH_TRY(pith_json_parse(text, size, where, &obj, err));
    const enum pith_status s = read_object(obj, where, out, err);
    json_decref(obj);
    return s;
}

enum pith_status pith_recipe_load(const char *name_or_path, struct pith_recipe *out,
                                  struct pith_error *err)
{
    if (!is_path(name_or_path)) return load_named(name_or_path, out, err);
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(name_or_path, FILE_LIMIT, &text, &size, err));
    const enum pith_status s = pith_recipe_parse(text, size, name_or_path, out, err);
    pith_free(text);
    return s;
}

enum pith_status pith_recipe_more(const char *name_or_path, json_t **out, struct pith_error *err)
{
    static const char *const keys[] = {"linears", "predicted"};
    json_t *file;
    *out = NULL;
    if (!is_path(name_or_path)) return PITH_OK;
    PITH_TRY(pith_json_load(name_or_path, FILE_LIMIT, &file, err));
    json_t *more = json_object();
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        json_t *value = json_object_get(file, keys[i]);
        if (json_is_object(value)) pith_json_set(&more, keys[i], json_incref(value));
    }
    json_decref(file);
    *out = more;
    return more ? PITH_OK : pith_fail_nomem(err, name_or_path);
}

/* ---- writing ---- */

/* An option that only a learning rounder uses is omitted with other rounders. */
static bool is_idle(const struct pith_recipe *r, const struct stage_option *o)
{
    return strcmp(o->who, "learned") == 0 && !r->round->by->block;
}

json_t *pith_recipe_json(const struct pith_recipe *r)
{
    json_t *j = json_pack("{s:s}", "name", r->name);
    for (size_t i = 0; i < PITH_COUNT(stages); i++) {
        char text[STAGE_TEXT];
        stages[i].text(r, text);
        pith_json_set(&j, stages[i].key, json_string(text));
    }
    for (size_t i = 0; i < PITH_COUNT(options); i++)
        if (!is_idle(r, &options[i]))
            pith_json_set(&j, options[i].key, option_json(r, &options[i]));
    pith_json_set(&j, "container", json_string(r->container));
    return j;
}
