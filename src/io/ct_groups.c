/* Writing the compressed-tensors config: one group a distinct grid, with targets that say which
 * modules have it. */
#include "base/mem.h"
#include "base/str.h"
#include "io/ct_config.h"

#include <stdio.h>
#include <string.h>

/* The first version whose readers expect dense words, which is how codes are written. */
#define VERSION "0.18.0"

static bool same_grid(const struct pith_grid *a, const struct pith_grid *b)
{
    return a->format == b->format && a->granularity == b->granularity && a->asym == b->asym &&
           (a->granularity != PITH_PER_GROUP || a->group == b->group);
}

static const char *strategy_of(const struct pith_grid *g)
{
    if (g->granularity == PITH_PER_GROUP) return "group";
    return g->granularity == PITH_PER_TENSOR ? "tensor" : "channel";
}

static json_t *weights_of(const struct pith_grid *g, const struct pith_container_opts *opts)
{
    const bool grouped = g->granularity == PITH_PER_GROUP;
    json_t *o = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", (int)g->format->bits, "type",
                          "int", "symmetric", !g->asym, "strategy", strategy_of(g), "dynamic",
                          false);
    json_t *group = grouped ? json_integer((json_int_t)g->group) : json_null();
    json_t *order = grouped && opts->act_order_groups ? json_string("group") : json_null();
    bool ok = o && group && order;
    ok = ok && json_object_set(o, "group_size", group) == 0;
    ok = ok && json_object_set(o, "actorder", order) == 0;
    ok = ok && json_object_set_new(o, "block_structure", json_null()) == 0;
    ok = ok && json_object_set_new(o, "observer", json_string(g->mse ? "mse" : "minmax")) == 0;
    ok = ok && json_object_set_new(o, "observer_kwargs", json_object()) == 0;
    json_decref(group);
    json_decref(order);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static json_t *acts_of(const struct pith_grid *g)
{
    if (!g->format) return json_null();
    return json_pack("{s:i, s:s, s:b, s:s, s:n, s:n, s:b, s:n}", "num_bits", (int)g->format->bits,
                     "type", "int", "symmetric", !g->asym, "strategy", "token", "group_size",
                     "block_structure", "dynamic", true, "actorder");
}

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
        if (e[i].family == family && !same_grid(&e[i].linear->grid, grid)) return false;
    return true;
}

/* Names and patterns of the entries with that grid. */
static json_t *targets_of(const struct entry *e, size_t count, const struct pith_grid *grid)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t i = 0; i < count && ok; i++) {
        if (!same_grid(&e[i].linear->grid, grid)) continue;
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
        if (!same_grid(&e[i].linear->grid, &e[0].linear->grid) ||
            strcmp(e[i].linear->module, "lm_head") == 0)
            return false;
    return true;
}

static bool add_group(json_t *groups, json_t *targets, const struct pith_grid *grid,
                      const struct pith_container_opts *opts)
{
    char name[32];
    (void)snprintf(name, sizeof name, "group_%zu", json_object_size(groups));
    json_t *weights = weights_of(grid, opts), *acts = acts_of(&opts->acts);
    json_t *group = NULL;
    if (targets && weights && acts)
        group = json_pack("{s:O, s:O, s:O, s:n}", "targets", targets, "weights", weights,
                          "input_activations", acts, "output_activations");
    const bool ok = group && json_object_set(groups, name, group) == 0;
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
    bool ok = groups != NULL;
    if (ok && is_uniform(e, count)) {
        ok = add_group(groups, json_pack("[s]", "Linear"), &e[0].linear->grid, opts);
    } else {
        for (size_t i = 0; i < count && ok; i++) {
            bool seen = false;
            for (size_t j = 0; j < i && !seen; j++)
                seen = same_grid(&e[j].linear->grid, &e[i].linear->grid);
            const struct pith_grid *grid = &e[i].linear->grid;
            if (!seen) ok = add_group(groups, targets_of(e, count, grid), grid, opts);
        }
    }
    if (ok) return groups;
    json_decref(groups);
    return NULL;
}

/* lm_head is a Linear to transformers, so it is named even when the checkpoint has none of its
 * own. */
static json_t *make_ignore(const struct pith_linear_grid *linears, size_t count)
{
    json_t *list = json_array();
    bool ok = list != NULL, head = false;
    for (size_t i = 0; i < count && ok; i++) {
        head |= strcmp(linears[i].module, "lm_head") == 0;
        if (!linears[i].grid.format)
            ok = json_array_append_new(list, json_string(linears[i].module)) == 0;
    }
    if (ok && !head) ok = json_array_append_new(list, json_string("lm_head")) == 0;
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* Activations that the int-quantized layout goes with. */
static enum pith_status check_acts(const struct pith_grid *acts, struct pith_error *err)
{
    if (!acts->format || (acts->format->kind == PITH_KIND_INT && !acts->is_static &&
                          acts->granularity == PITH_PER_TOKEN))
        return PITH_OK;
    char text[PITH_GRID_TEXT];
    pith_grid_format(acts, text);
    return pith_fail(
        err, PITH_UNSUPPORTED,
        "compressed-tensors: integer weights go with activations of int8:token, not %s", text);
}

enum pith_status pith_ct_config_make(const struct pith_linear_grid *linears, size_t count,
                                     const struct pith_container_opts *opts, json_t **out,
                                     struct pith_error *err)
{
    PITH_TRY(check_acts(&opts->acts, err));
    size_t n = 0;
    struct entry *e = make_entries(linears, count, &n);
    if (e && n == 0) {
        free_entries(e, n);
        return pith_fail(err, PITH_ARG, "compressed-tensors: no linear is quantized");
    }
    json_t *groups = e ? make_groups(e, n, opts) : NULL;
    json_t *ignore = make_ignore(linears, count);
    free_entries(e, n);
    json_t *o = NULL;
    if (groups && ignore)
        o = json_pack("{s:s, s:s, s:s, s:s, s:n, s:O, s:n, s:{}, s:{}, s:O}", "quant_method",
                      "compressed-tensors", "version", VERSION, "format",
                      opts->acts.format ? "int-quantized" : "pack-quantized", "quantization_status",
                      "compressed", "global_compression_ratio", "ignore", ignore, "kv_cache_scheme",
                      "sparsity_config", "transform_config", "config_groups", groups);
    json_decref(groups);
    json_decref(ignore);
    if (!o) return pith_fail_nomem(err, "the config of compressed-tensors");
    *out = o;
    return PITH_OK;
}
