/* Writing the compressed-tensors config: one group a distinct grid, with targets that say which
 * modules have it. */
#include "base/mem.h"
#include "base/str.h"
#include "io/ct_form.h"

#include <stdio.h>
#include <string.h>

/* The first version whose readers expect dense words, which is how codes are written. */
#define VERSION "0.18.0"

/* --- targets ------------------------------------------------------------------------------- */

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
    size_t family; /* index of the first entry with this pattern */
};

static void free_entries(struct entry *e, size_t count)
{
    for (size_t i = 0; e && i < count; i++) pith_free(e[i].pattern);
    pith_free(e);
}

/* Quantized linears only; families are few (one a role), so looking through their first members is
 * quick. NULL when memory is out. */
static struct entry *make_entries(const struct pith_linear_grid *linears, size_t count,
                                  size_t *entries)
{
    struct pith_str s = {0};
    size_t n = 0;
    struct entry *e = pith_zalloc(count, sizeof *e);
    size_t *firsts = pith_alloc(count, sizeof *firsts), families = 0;
    bool ok = e && firsts;
    for (size_t i = 0; i < count && ok; i++) {
        if (!linears[i].grid.format) continue;
        put_pattern(&s, linears[i].module);
        e[n] = (struct entry){&linears[i], s.failed ? NULL : pith_strdup(s.data), n};
        ok = e[n].pattern != NULL;
        size_t f = 0;
        while (ok && f < families && strcmp(e[firsts[f]].pattern, e[n].pattern) != 0) f++;
        if (f < families) e[n].family = firsts[f];
        else firsts[families++] = n;
        n++;
    }
    pith_str_free(&s);
    pith_free(firsts);
    *entries = n;
    if (ok) return e;
    free_entries(e, n);
    return NULL;
}

/* True when every member of the family has that grid. */
static bool family_has(const struct entry *e, size_t count, size_t family,
                       const struct pith_grid *grid)
{
    for (size_t i = family; i < count; i++)
        if (e[i].family == family && !pith_grid_equal(&e[i].linear->grid, grid)) return false;
    return true;
}

/* Names and patterns of the entries with that grid. */
static json_t *targets_of(const struct entry *e, size_t count, const struct pith_grid *grid)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        if (!pith_grid_equal(&e[i].linear->grid, grid)) continue;
        const bool family = family_has(e, count, e[i].family, grid);
        if (family && e[i].family != i) continue;
        /* A family of one is better served by its name. */
        bool alone = true;
        for (size_t j = i + 1; j < count && alone; j++) alone = e[j].family != e[i].family;
        const char *target = family && !alone ? e[i].pattern : e[i].linear->module;
        ok = json_array_append_new(list, json_string(target)) == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* --- the object ---------------------------------------------------------------------------- */

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

static json_t *make_groups(const struct entry *e, size_t count,
                           const struct pith_container_opts *opts)
{
    json_t *groups = json_object();
    const bool mixed = !common_form(e, count, opts);
    bool ok = groups != NULL;
    if (ok && is_uniform(e, count)) {
        ok = add_group(groups, json_pack("[s]", "Linear"), &e[0].linear->grid, NULL, opts);
    } else {
        for (size_t i = 0; i < count && ok; i++) {
            bool seen = false;
            for (size_t j = 0; j < i && !seen; j++)
                seen = pith_grid_equal(&e[j].linear->grid, &e[i].linear->grid);
            const struct pith_grid *grid = &e[i].linear->grid;
            const char *format = mixed ? pith_ct_form_for(grid, &opts->acts)->name : NULL;
            if (!seen) ok = add_group(groups, targets_of(e, count, grid), grid, format, opts);
        }
    }
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
    json_t *groups = make_groups(e, n, opts), *ignore = pith_ignored_modules(linears, count),
           *kv = pith_ct_args_of_inputs(&opts->kv), *o = NULL,
           *turns = pith_ct_turns_make(linears, count, opts->model_dtype);
    if (groups && ignore && kv && turns)
        o = json_pack("{s:s, s:s, s:s, s:s, s:n, s:O, s:O, s:{}, s:O, s:O}", "quant_method",
                      "compressed-tensors", "version", VERSION, "format",
                      form ? form->name : "mixed-precision", "quantization_status", "compressed",
                      "global_compression_ratio", "ignore", ignore, "kv_cache_scheme", kv,
                      "sparsity_config", "transform_config", turns, "config_groups", groups);
    json_decref(turns);
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
