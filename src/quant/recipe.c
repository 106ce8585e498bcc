#include "quant/recipe.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "quant/scale.h"

#include <stdio.h>
#include <string.h>

enum { FILE_LIMIT = 64 * 1024 };

static const struct pith_recipe_row rows[] = {
#define PITH_RECIPE(name, summary, transform, split, weights, acts, kv, round, container)          \
    {name, summary, transform, split, weights, acts, kv, round, container},
#include "quant/recipes.def"
#undef PITH_RECIPE
};

static const char *const orders[] = {
    [PITH_ORDER_NONE] = "none", [PITH_ORDER_STATIC] = "static", [PITH_ORDER_GROUP] = "group"};

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
    const struct pith_rounder *const *t = pith_rounders(&n);
    return i < n ? t[i]->name : NULL;
}

static const char *recipe_name(size_t i)
{
    return i < PITH_COUNT(rows) ? rows[i].name : NULL;
}

/* Reads the option of a row that takes one (parse not NULL); on failure nothing is changed. */
static enum pith_status read_option(const char *name, const char *option,
                                    enum pith_status (*parse)(const char *text, double *value,
                                                              struct pith_error *err),
                                    char kept[PITH_OPTION_TEXT], double *value,
                                    struct pith_error *err)
{
    double v = 0;
    if (!parse && option[0])
        return pith_fail(err, PITH_ARG, "%s takes no option, but \"%.64s\" follows", name, option);
    if (strlen(option) >= PITH_OPTION_TEXT)
        return pith_fail(err, PITH_ARG, "the option of %s is too long", name);
    if (parse) PITH_TRY(parse(option, &v, err));
    strcpy(kept, option);
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
        return pith_fail(err, PITH_ARG, "\"%.64s\" is a recipe, no grid: --recipe %.64s", text,
                         text);
    g = r->weights;
    PITH_TRY(parse_weights(text, &g, &mixture, err));
    if (g.format && g.format->kind == PITH_KIND_FLOAT && g.format->bits >= 16)
        g = (struct pith_grid){0}; /* as they are */
    if (g.format && !pith_gridder_for(&g))
        return pith_fail(
            err, PITH_UNSUPPORTED,
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

static enum pith_status set_act_order(struct pith_recipe *r, const char *text,
                                      struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(orders); i++)
        if (strcmp(orders[i], text) == 0) {
            r->round_options.act_order = (enum pith_act_order)i;
            return PITH_OK;
        }
    return pith_fail(err, PITH_ARG,
                     "there is no act_order \"%.64s\"; there are: none, static, group", text);
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

/* The parts of a recipe that are text: keys of a file and, where `option` says so, options. */
static const struct field {
    const char *key;
    bool option;
    enum pith_status (*set)(struct pith_recipe *r, const char *text, struct pith_error *err);
} fields[] = {
    {"name", false, set_name},
    {"transform", true, set_transform},
    {"split", true, set_split},
    {"weights", true, set_weights},
    {"acts", true, set_acts},
    {"kv", true, set_kv},
    {"round", true, set_round},
    {"act_order", false, set_act_order},
    {"container", false, set_container},
};

enum pith_status pith_recipe_set(struct pith_recipe *r, const char *stage, const char *text,
                                 struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(fields); i++)
        if (fields[i].option && strcmp(fields[i].key, stage) == 0)
            return fields[i].set(r, text, err);
    return pith_fail(err, PITH_ARG, "a recipe has no stage \"%.64s\"", stage);
}

/* ---- loading ---- */

static enum pith_status load_named(const char *name, struct pith_recipe *out,
                                   struct pith_error *err)
{
    const struct pith_recipe_row *row = find_row(name);
    struct pith_grid grid;
    if (!row && pith_grid_parse(name, &grid, NULL) == PITH_OK)
        return pith_fail(err, PITH_ARG, "\"%.64s\" is a grid, no recipe: --weights %.64s", name,
                         name);
    if (!row) return pith_fail_name(err, "recipe", name, recipe_name);
    *out = (struct pith_recipe){.round_options = {.damp = 0.01,
                                                  .act_order = PITH_ORDER_STATIC,
                                                  .weigh = true,
                                                  .iterations = 200,
                                                  .batch = 8},
                                .clip = true};
    PITH_TRY(set_name(out, row->name, err));
    PITH_TRY(set_transform(out, row->transform, err));
    PITH_TRY(set_split(out, row->split, err));
    PITH_TRY(set_weights(out, row->weights, err));
    PITH_TRY(set_acts(out, row->acts, err));
    PITH_TRY(set_kv(out, row->kv, err));
    PITH_TRY(set_round(out, row->round, err));
    return set_container(out, row->container, err);
}

/* The other keys of a file. */
static const char *const others[] = {"base",          "damp",  "clip",       "iterations",
                                     "learning_rate", "batch", "float_input"};

static bool is_key(const char *key)
{
    for (size_t i = 0; i < PITH_COUNT(fields); i++)
        if (strcmp(fields[i].key, key) == 0) return true;
    for (size_t i = 0; i < PITH_COUNT(others); i++)
        if (strcmp(others[i], key) == 0) return true;
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

/* A grid in a file is what it says, whatever the base has. */
static enum pith_status set_in_file(struct pith_recipe *r, const struct field *f, const char *text,
                                    struct pith_error *err)
{
    static const struct pith_grid nothing = {0};
    if (f->set == set_weights) r->weights = nothing;
    if (f->set == set_acts) r->acts = nothing;
    if (f->set == set_kv) r->kv = nothing;
    return f->set(r, text, err);
}

enum { MOST_ITERATIONS = 100000, MOST_BATCH = 65536 };

static enum pith_status read_learning(const json_t *obj, const char *path,
                                      struct pith_round_options *o, struct pith_error *err)
{
    int64_t iterations = o->iterations, batch = o->batch;
    PITH_TRY(pith_json_get_int(obj, "iterations", 1, MOST_ITERATIONS, &iterations, path, err));
    PITH_TRY(pith_json_get_int(obj, "batch", 1, MOST_BATCH, &batch, path, err));
    o->iterations = (uint32_t)iterations;
    o->batch = (uint32_t)batch;
    PITH_TRY(pith_json_get_bool(obj, "float_input", &o->float_input, path, err));
    PITH_TRY(pith_json_get_real(obj, "learning_rate", &o->learning_rate, path, err));
    if (o->learning_rate < 0.0 || o->learning_rate > 1.0)
        return pith_fail(err, PITH_FORMAT, "%s: \"learning_rate\" is %g, outside 0..1", path,
                         o->learning_rate);
    return PITH_OK;
}

static enum pith_status read_object(json_t *obj, const char *path, struct pith_recipe *r,
                                    struct pith_error *err)
{
    PITH_TRY(check_keys(obj, path, err));
    const char *base = NULL;
    PITH_TRY(get_text(obj, "base", &base, path, err));
    enum pith_status s = load_named(base ? base : "rtn", r, err);
    if (s != PITH_OK) return fail_key(err, s, path, "base");
    PITH_TRY(set_name(r, "custom", err));
    for (size_t i = 0; i < PITH_COUNT(fields); i++) {
        const char *text = NULL;
        PITH_TRY(get_text(obj, fields[i].key, &text, path, err));
        if (!text) continue;
        s = set_in_file(r, &fields[i], text, err);
        if (s != PITH_OK) return fail_key(err, s, path, fields[i].key);
    }
    PITH_TRY(read_learning(obj, path, &r->round_options, err));
    PITH_TRY(pith_json_get_bool(obj, "clip", &r->clip, path, err));
    PITH_TRY(pith_json_get_real(obj, "damp", &r->round_options.damp, path, err));
    if (r->round_options.damp < 0.0 || r->round_options.damp > 1.0)
        return pith_fail(err, PITH_FORMAT, "%s: \"damp\" is %g, outside 0..1", path,
                         r->round_options.damp);
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

/* ---- writing ---- */

static const char *grid_text(const struct pith_grid *g, char text[PITH_GRID_TEXT])
{
    if (!g->format) return "none";
    pith_grid_format(g, text);
    return text;
}

static const char *weights_text(const struct pith_recipe *r, char text[PITH_GRID_TEXT + 2])
{
    const char *grid = grid_text(&r->weights, text);
    if (!r->mixture) return grid;
    const size_t n = strlen(text);
    text[n] = ':';
    text[n + 1] = r->mixture;
    text[n + 2] = '\0';
    return text;
}

/* "smooth:0.5" again. */
static const char *with_option(const char *name, const char *option, char text[64])
{
    snprintf(text, 64, "%s%s%s", name, option[0] ? ":" : "", option);
    return text;
}

/* What only a rounder that learns looks at. */
static bool add_learning(json_t *j, const struct pith_round_options *o)
{
    json_t *more = json_pack("{si sf si sb}", "iterations", (int)o->iterations, "learning_rate",
                             o->learning_rate, "batch", (int)o->batch, "float_input",
                             (int)o->float_input);
    return more && json_object_update_new(j, more) == 0;
}

json_t *pith_recipe_json(const struct pith_recipe *r)
{
    char transform[64], split[64];
    char weights[PITH_GRID_TEXT + 2], acts[PITH_GRID_TEXT], kv[PITH_GRID_TEXT];
    json_t *j = json_pack("{ss ss ss ss ss ss ss sf ss sb ss}", "name", r->name, "transform",
                     with_option(r->transform->name, r->transform_option, transform), "split",
                     with_option(r->split->name, r->split_option, split), "weights",
                     weights_text(r, weights), "acts", grid_text(&r->acts, acts), "kv",
                     grid_text(&r->kv, kv), "round", r->round->name, "damp", r->round_options.damp,
                     "act_order", orders[r->round_options.act_order], "clip", (int)r->clip,
                     "container", r->container);
    if (!j || !r->round->block || add_learning(j, &r->round_options)) return j;
    json_decref(j);
    return NULL;
}
