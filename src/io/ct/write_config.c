/* Writing the compressed-tensors config: one group a distinct grid, with targets that say which
 * modules have it. */
#include "base/mem.h"
#include "base/str.h"
#include "io/ct/form.h"
#include "io/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first version whose readers expect dense words, which is how codes are written. */
#define VERSION "0.18.0"

/* --- targets ---------------------------------------------------------------------------------- */

/* "re:^model\.layers\.\d+\.mlp\.down_proj$": the module and its likes in other layers. */
static void put_pattern(struct pith_str *s, const char *module)
{
    pith_str_clear(s);
    pith_str_puts(s, "re:^");
    for (const char *p = module; *p;) {
        const size_t digits = strspn(p, "0123456789");
        const bool whole = digits && (p == module || p[-1] == '.') &&
                           (p[digits] == '.' || !p[digits]);
        if (whole) {
            pith_str_puts(s, "\\d+");
            p += digits;
        } else {
            if (*p == '.') pith_str_putc(s, '\\');
            pith_str_putc(s, *p++);
        }
    }
    pith_str_putc(s, '$');
}

/* A module, the grid it has and its pattern. */
struct entry {
    const struct pith_linear_grid *linear;
    char *pattern;
    size_t index, family; /* its own, that of the first entry with this pattern */
    size_t members;       /* of the family, at its first entry */
    bool alike;           /* all of them have one grid, at its first entry */
};

static void free_entries(struct entry *e, size_t count)
{
    for (size_t i = 0; e && i < count; i++) pith_free(e[i].pattern);
    pith_free(e);
}

static int compare_pattern(const void *a, const void *b)
{
    const struct entry *const *x = a, *const *y = b;
    const int c = strcmp((*x)->pattern, (*y)->pattern);
    if (c) return c;
    return (*x)->index < (*y)->index ? -1 : (*x)->index > (*y)->index;
}

/* Finds the families: neighbours where all stand in the order of their patterns. */
static bool find_families(struct entry *e, size_t count)
{
    struct entry **order = pith_alloc(count, sizeof(void *));
    for (size_t i = 0; order && i < count; i++) order[i] = &e[i];
    if (order && count) qsort(order, count, sizeof(void *), compare_pattern);
    struct entry *first = NULL;
    for (size_t i = 0; order && i < count; i++) {
        if (!first || strcmp(first->pattern, order[i]->pattern) != 0) {
            first = order[i];
            first->alike = true;
        }
        order[i]->family = first->index;
        first->members++;
        first->alike &= pith_grid_equal(&first->linear->grid, &order[i]->linear->grid);
    }
    pith_free(order);
    return order || count == 0;
}

/* Quantized linears only. NULL when memory is out. */
static struct entry *make_entries(const struct pith_linear_grid *linears, size_t count,
                                  size_t *entries)
{
    struct pith_str s = {0};
    size_t n = 0;
    struct entry *e = pith_zalloc(count, sizeof *e);
    bool ok = e != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        if (!linears[i].grid.format) continue;
        put_pattern(&s, linears[i].module);
        e[n] = (struct entry){
            .linear = &linears[i], .pattern = s.failed ? NULL : pith_strdup(s.data), .index = n};
        ok = e[n].pattern != NULL;
        n++;
    }
    pith_str_free(&s);
    *entries = n;
    if (ok && find_families(e, n)) return e;
    free_entries(e, n);
    return NULL;
}

/* Names and patterns of the entries with that grid. */
static json_t *targets_of(const struct entry *e, size_t count, const struct pith_grid *grid)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        if (!pith_grid_equal(&e[i].linear->grid, grid)) continue;
        const struct entry *first = &e[e[i].family];
        if (first->alike && e[i].family != i) continue;
        /* A family of one is better served by its name. */
        const bool family = first->alike && first->members > 1;
        const char *target = family ? e[i].pattern : e[i].linear->module;
        ok = json_array_append_new(list, json_string(target)) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* --- the object ------------------------------------------------------------------------------- */

/* True when one group with the class name says it all: one grid, and no head among them, which
 * engines do not take for a "Linear". */
static bool is_uniform(const struct entry *e, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!pith_grid_equal(&e[i].linear->grid, &e[0].linear->grid) ||
            pith_module_is_head(e[i].linear->module))
            return false;
    return true;
}

/* Layouts of all groups: one that all have, or NULL. */
static const struct pith_ct_form *common_form(const struct entry *e, size_t count,
                                              const struct pith_container_opts *opts)
{
    const struct pith_ct_form *first = pith_ct_form_for(&e[0].linear->grid, &opts->acts);
    for (size_t i = 1; i < count; i++)
        if (pith_ct_form_for(&e[i].linear->grid, &opts->acts) != first) return NULL;
    return first;
}

/* Takes targets. format NULL: the object has one for all. */
static bool add_group(json_t *groups, json_t *targets, const struct pith_grid *grid,
                      const char *format, const struct pith_container_opts *opts)
{
    char name[32];
    (void)snprintf(name, sizeof name, "group_%zu", json_object_size(groups));
    json_t *weights = pith_ct_args_of_weights(grid, opts->act_order_groups),
           *acts = pith_ct_args_of_inputs(&opts->acts);
    json_t *group = NULL;
    if (targets && weights && acts)
        group = json_pack("{s:O, s:O, s:O, s:n}", "targets", targets, "weights", weights,
                          "input_activations", acts, "output_activations");
    bool ok = group != NULL;
    if (ok && format) ok = json_object_set_new(group, "format", json_string(format)) == 0;
    ok = ok && json_object_set(groups, name, group) == 0;
    json_decref(group);
    json_decref(acts);
    json_decref(weights);
    json_decref(targets);
    return ok;
}

static json_t *make_groups(const struct entry *e, size_t n, const struct pith_linear_grid *linears,
                           size_t count, const struct pith_container_opts *opts)
{
    json_t *groups = json_object();
    const bool mixed = !common_form(e, n, opts);
    size_t grids = 0, *first = pith_distinct_grids(linears, count, &grids);
    bool ok = groups && first;
    if (ok && is_uniform(e, n))
        ok = add_group(groups, json_pack("[s]", "Linear"), &e[0].linear->grid, NULL, opts);
    else
        for (size_t i = 0; i < grids && ok; i++) {
            const struct pith_grid *grid = &linears[first[i]].grid;
            const char *format = mixed ? pith_ct_form_for(grid, &opts->acts)->name : NULL;
            ok = add_group(groups, targets_of(e, n, grid), grid, format, opts);
        }
    pith_free(first);
    if (ok) return groups;
    json_decref(groups);
    return NULL;
}

/* What the linears' grids and opts leave open was refused by accepts(). */
static enum pith_status check(const struct entry *e, size_t count,
                              const struct pith_container_opts *opts, struct pith_error *err)
{
    PITH_TRY(pith_ct_args_check_inputs(&opts->acts, err));
    PITH_TRY(pith_ct_args_check_kv(&opts->kv, err));
    if (count == 0) return pith_fail(err, PITH_ARG, "compressed-tensors: no linear is quantized");
    for (size_t i = 0; i < count; i++) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(&e[i].linear->grid, text);
        if (!pith_ct_form_for(&e[i].linear->grid, &opts->acts))
            return pith_fail(err, PITH_UNSUPPORTED, "compressed-tensors cannot hold %s", text);
    }
    return PITH_OK;
}

static json_t *make_object(const struct entry *e, size_t n, const struct pith_linear_grid *linears,
                           size_t count, const struct pith_container_opts *opts)
{
    const struct pith_ct_form *form = common_form(e, n, opts);
    json_t *groups = make_groups(e, n, linears, count, opts),
           *ignore = pith_ignored_modules(linears, count), *kv = pith_ct_args_of_inputs(&opts->kv),
           *o = NULL, *rotations = pith_ct_rotations_make(linears, count, opts->model_dtype);
    if (groups && ignore && kv && rotations)
        o = json_pack("{s:s, s:s, s:s, s:s, s:n, s:O, s:O, s:{}, s:O, s:O}", "quant_method",
                      "compressed-tensors", "version", VERSION, "format",
                      form ? form->name : "mixed-precision", "quantization_status", "compressed",
                      "global_compression_ratio", "ignore", ignore, "kv_cache_scheme", kv,
                      "sparsity_config", "transform_config", rotations, "config_groups", groups);
    json_decref(rotations);
    json_decref(kv);
    json_decref(ignore);
    json_decref(groups);
    return o;
}

enum pith_status pith_ct_config_make(const struct pith_linear_grid *linears, size_t count,
                                     const struct pith_container_opts *opts, json_t **out,
                                     struct pith_error *err)
{
    size_t n = 0;
    struct entry *e = make_entries(linears, count, &n);
    if (!e) return pith_fail_nomem(err, "the config of compressed-tensors");
    const enum pith_status s = check(e, n, opts, err);
    json_t *o = s == PITH_OK ? make_object(e, n, linears, count, opts) : NULL;
    free_entries(e, n);
    if (s != PITH_OK) return s;
    if (!o) return pith_fail_nomem(err, "the config of compressed-tensors");
    *out = o;
    return PITH_OK;
}
