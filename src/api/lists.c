/* The tables that the library works from, as lists of records. */
#include <pith/inspect.h>
#include <pith/plan.h>

#include "api/context.h"
#include "api/report.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "export/preflight.h"
#include "io/container/container.h"
#include "model/arch.h"
#include "num/format.h"
#include "plan/hardware/hardware_json.h"
#include "quant/recipe.h"
#include "quantize/conversions.h"
#include "report/records.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static void set(struct pith_report *r, const char *key, const char *text)
{
    pith_report_set(r, key, pith_words(text));
}

/* --- lists by themselves ---------------------------------------------------------------------- */

static void add_formats(struct pith_report *r)
{
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    for (size_t i = 0; i < count; i++) {
        pith_report_open(r, "");
        set(r, "format", f[i].name);
        pith_report_set(r, "bits", pith_count(f[i].bits));
        pith_report_set(r, "bits_per_weight", pith_real(pith_format_bits(&f[i]), 3));
        pith_report_set(r, "block", pith_count(f[i].block));
        pith_report_set(r, "max", pith_real((double)f[i].max, 1));
        set(r, "what", f[i].summary);
        set(r, "also_called", f[i].aliases);
        pith_report_close(r);
    }
}

static void add_recipes(struct pith_report *to)
{
    size_t count;
    const struct pith_recipe_row *r = pith_recipe_rows(&count);
    for (size_t i = 0; i < count; i++) {
        pith_report_open(to, "");
        set(to, "recipe", r[i].name);
#define PITH_STAGE(key, title, usual, values, what) set(to, title, r[i].key ? r[i].key : usual);
#include "quant/recipe_keys.def"
#undef PITH_STAGE
        set(to, "container", pith_recipe_row_container(&r[i]));
        set(to, "what", r[i].summary);
        pith_report_close(to);
    }
}

/* What `recipe` takes as well as the rows of the table: no composition of stages, but one that is
 * found. */
static void add_auto(struct pith_report *r)
{
    pith_report_open(r, "");
    set(r, "recipe", "auto");
    set(r, "weights",
        "of each linear what the whole loses least by, within `budget`, `fit` or `max_kl`");
    set(r, "transform", "none or awq, whichever loses less");
    set(r, "container", "compressed-tensors, or gguf for a file");
    set(r, "what", "found for the model: each linear's grid, by `budget`, `fit` or `max_kl`");
    pith_report_close(r);
}

static void add_keys(struct pith_report *r)
{
    struct pith_recipe_key k;
    for (size_t i = 0; pith_recipe_key(i, &k); i++) {
        pith_report_open(r, "");
        set(r, "key", k.key);
        set(r, "values", k.values);
        set(r, "default", or_dash(k.usual));
        set(r, "for", or_dash(k.who));
        set(r, "what", or_dash(k.what));
        pith_report_close(r);
    }
}

static void add_hardware(struct pith_report *r)
{
    for (size_t i = 0; i < pith_hardware_count(); i++) {
        pith_report_open(r, "");
        pith_hardware_rows(r, pith_hardware_at(i));
        pith_report_close(r);
    }
}

/* --- names and what they are ------------------------------------------------------------------ */

static void add_name(struct pith_report *r, const char *name, const char *what)
{
    pith_report_open(r, "");
    set(r, "name", name);
    set(r, "what", what);
    pith_report_close(r);
}

/* Of a table of pointers to rows that have a name and a summary. */
#define ADD_NAMES(function, get)                                                                   \
    static void function(struct pith_report *r)                                                    \
    {                                                                                              \
        size_t count;                                                                              \
        for (size_t i = 0; i < (get(&count), count); i++)                                          \
            add_name(r, get(&count)[i]->name, get(&count)[i]->summary);                            \
    }
ADD_NAMES(add_containers, pith_containers)
ADD_NAMES(add_engines, pith_engines)
ADD_NAMES(add_archs, pith_archs)
ADD_NAMES(add_transforms, pith_transforms)
ADD_NAMES(add_splits, pith_splits)

static void add_rounders(struct pith_report *r)
{
    size_t count;
    const struct pith_rounder *rows = pith_rounders(&count);
    for (size_t i = 0; i < count; i++) add_name(r, rows[i].name, rows[i].summary);
}

/* --- what engines load ------------------------------------------------------------------------ */

static void put(struct pith_str *s, const char *text)
{
    if (s->len) pith_str_puts(s, ", ");
    pith_str_puts(s, text);
}

/* Sets a row to the list's text, or "-"; frees it. */
static void set_list(struct pith_report *r, const char *key, struct pith_str *s)
{
    set(r, key, or_dash(pith_str_text(s)));
    r->failed |= s->failed;
    pith_str_free(s);
}

/* "int4, int8", or "-". */
static void set_bits(struct pith_report *r, const char *key, uint32_t mask)
{
    enum { ALL = 0x1fc };
    struct pith_str s = {0};
    char name[16];
    if (mask == ALL) {
        set(r, key, "int2 to int8");
        return;
    }
    for (unsigned b = 2; b <= 8; b++)
        if (mask >> b & 1) {
            snprintf(name, sizeof name, "int%u", b);
            put(&s, name);
        }
    set_list(r, key, &s);
}

/* "channel, g32, g64": the granularities that a rule has. */
static void set_scales(struct pith_report *to, const char *key, const struct pith_load_rule *r)
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
    set_list(to, key, &s);
}

static void set_flag(struct pith_report *r, const char *key, bool yes)
{
    set(r, key, yes ? "yes" : "no");
}

/* What a layout may have, at the end of its record. */
static void set_flags(struct pith_report *to, const struct pith_load_rule *r)
{
    set_flag(to, "permuted_groups", r->act_order);
    set_flag(to, "several_grids", r->mixed);
    set_flag(to, "rotated_inputs", r->online);
    set_flag(to, "qkv_and_gate_up_alike", r->fused);
}

/* Weights of one kind with all inputs that they may have. */
static void add_pair(struct pith_report *to, const struct pith_target_engine *e,
                     const struct pith_load_rule *r, const struct pith_load_pair *p)
{
    const bool any = strcmp(p->inputs, "*") == 0, whatever = strcmp(r->container, "*") == 0;
    struct pith_str s = {0};
    for (const char *c = any ? "any" : p->inputs; *c; c++)
        if (*c == ' ') pith_str_puts(&s, ", ");
        else pith_str_putc(&s, *c);
    pith_report_open(to, "");
    set(to, "engine", e->name);
    set(to, "container", whatever ? "any" : r->container);
    set_list(to, "activations", &s);
    set(to, "weights",
        strcmp(p->weights, "*") == 0 ? (whatever ? "any" : "any float") : p->weights);
    set(to, "with_zero_points", "-");
    set(to, "scales", "-");
    set_flags(to, r);
    pith_report_close(to);
}

static void add_load(struct pith_report *to, const struct pith_target_engine *e,
                     const struct pith_load_rule *r)
{
    pith_report_open(to, "");
    set(to, "engine", e->name);
    set(to, "container", r->container);
    set(to, "activations", r->acts ? "integers" : "16 bits");
    set_bits(to, "weights", r->sym);
    set_bits(to, "with_zero_points", r->asym);
    set_scales(to, "scales", r);
    set_flags(to, r);
    pith_report_close(to);
}

static void add_loads(struct pith_report *to)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    static const uint32_t no_groups[] = {0};
    const struct pith_load_rule nothing = {.container = "none", .groups = no_groups};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < e[i]->count; k++) {
            const struct pith_load_rule *r = &e[i]->rules[k];
            for (const struct pith_load_pair *p = r->pairs; p && p->weights; p++)
                add_pair(to, e[i], r, p);
            if (!r->pairs) add_load(to, e[i], r);
        }
        if (e[i]->count == 0) add_load(to, e[i], &nothing);
    }
}

/* A record for each cache that an engine can be started with. */
static void add_caches(struct pith_report *to)
{
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    for (size_t i = 0; i < count; i++)
        for (const struct pith_engine_cache *c = e[i]->caches; c && c->kv; c++) {
            struct pith_str with = {0};
            pith_str_printf(&with, "%s%s%s", c->option[0], c->option[1] ? " " : "",
                            c->option[1] ? c->option[1] : "");
            pith_report_open(to, "");
            set(to, "engine", e[i]->name);
            set(to, "kv", c->kv);
            set_list(to, "started_with", &with);
            pith_report_close(to);
        }
}

/* --- the lists -------------------------------------------------------------------------------- */

struct list {
    const char *name, *key; /* the row that names a record */
    void (*add)(struct pith_report *r);
};

/* A list by itself, and what one of its records is called. */
static const struct whole_list {
    struct list list;
    const char *what;
} whole_lists[] = {
    {{"recipes", "recipe", add_recipes}, "recipe"},
    {{"keys", "key", add_keys}, "key"},
    {{"formats", "format", add_formats}, "format"},
    {{"hardware", "hardware", add_hardware}, "hardware"},
};

static const struct list features[] = {
    {"containers", "name", add_containers},
    {"engines", "name", add_engines},
    {"loads", NULL, add_loads},
    {"caches", NULL, add_caches},
    {"conversions", NULL, pith_conversions},
    {"architectures", "name", add_archs},
    {"transforms", "name", add_transforms},
    {"splits", "name", add_splits},
    {"rounders", "name", add_rounders},
};

/* One list as a report, whose JSON is a list; NULL when memory is out. */
static struct pith_report *make_list(const struct list *list)
{
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_report_listed(r);
    list->add(r);
    return r;
}

/* A name of what there is none: PITH_ARG, with what was perhaps meant, or all that there is. */
static enum pith_status fail_unknown(const char *what, const char *word, const char *const *names,
                                     size_t count, struct pith_error *err)
{
    const char *near = pith_name_nearest(word, names, count);
    struct pith_str all = {0};
    if (near) return pith_fail(err, PITH_ARG, "no %s '%s'; did you mean '%s'?", what, word, near);
    for (size_t i = 0; i < count; i++) pith_str_printf(&all, " %s", names[i]);
    const enum pith_status s =
        pith_fail(err, PITH_ARG, "no %s '%s'; there are%s", what, word, pith_str_text(&all));
    pith_str_free(&all);
    return s;
}

enum { NAMES = 128 };

/* The names of a list's records, at most NAMES altogether. */
static size_t take_names(const struct pith_report *r, const char *key, const char **names,
                         size_t count)
{
    for (size_t at = pith_record_first(r, 0); at != PITH_NO_RECORD && count < NAMES;
         at = pith_record_next(r, at)) {
        const char *name = pith_record_text(r, at, key);
        bool there = false; /* an engine may be called as a container is */
        for (size_t i = 0; i < count; i++) there |= strcmp(names[i], name) == 0;
        if (!there) names[count++] = name;
    }
    return count;
}

/* --- one list --------------------------------------------------------------------------------- */

/* The names of a list, and what to do to see more. */
static void say_list(struct pith_report *r, const struct whole_list *w, bool recipes)
{
    struct pith_report *more = recipes ? pith_report_new() : NULL;
    pith_records_table(r, 0, pith_report_alone(r));
    r->failed |= recipes && !more;
    if (more) {
        add_recipes(more);
        add_auto(more);
    }
    pith_records_names(r, more ? more : r, 0, w->list.key);
    pith_report_free(&more);
    pith_report_gap(r);
    pith_report_line(
        r, &(struct pith_line){.wrap = PITH_WRAP_TERMINAL, .fields = true},
        "A NAME after the command shows all of one; `table=text` shows all of the list.");
}

/* One record of a list, which is there. */
static enum pith_status show_record(const struct pith_report *all, size_t record, const char *key,
                                    struct pith_report **report, struct pith_error *err)
{
    struct pith_report *r = pith_report_new(), *one = pith_report_new();
    if (!r || !one) {
        pith_report_free(&r);
        pith_report_free(&one);
        return pith_fail_nomem(err, "a list");
    }
    pith_report_open(one, "");
    pith_record_copy(one, all, record);
    pith_report_close(one);
    pith_records_table(one, 0, pith_report_alone(r));
    pith_report_line(r, &(struct pith_line){.strong = pith_record_text(all, record, key)}, "%s",
                     "");
    pith_record_entry(r, all, record, key, NULL);
    pith_record_copy(r, all, record);
    r->failed |= one->failed;
    pith_report_free(&one);
    *report = r;
    return PITH_OK;
}

static enum pith_status list_report(const struct whole_list *w, const char *name,
                                    struct pith_report **report, struct pith_error *err)
{
    const bool recipes = w->list.add == add_recipes;
    const char *names[NAMES];
    struct pith_report *all = make_list(&w->list);
    if (!all || all->failed) {
        pith_report_free(&all);
        return pith_fail_nomem(err, "a list");
    }
    if (!name) {
        say_list(all, w, recipes);
        *report = all;
        return PITH_OK;
    }
    if (recipes) add_auto(all); /* rows for programs are those of the table */
    const size_t record = pith_record_find(all, 0, w->list.key, name);
    const enum pith_status s =
        record == PITH_NO_RECORD
            ? fail_unknown(w->what, name, names, take_names(all, w->list.key, names, 0), err)
            : show_record(all, record, w->list.key, report, err);
    pith_report_free(&all);
    return s;
}

/* --- features --------------------------------------------------------------------------------- */

/* What one engine loads, or who loads one container: the records of "loads" with that name under
 * `key`. */
static enum pith_status report_loads(const char *key, const char *name, const char *what,
                                     struct pith_report **report, struct pith_error *err)
{
    const char *other = strcmp(key, "engine") == 0 ? "container" : "engine";
    const struct pith_line subject = {.strong = name, .wrap = PITH_WRAP_TERMINAL, .indent = 2};
    struct pith_report *r = pith_report_new(), *all = pith_report_new();
    if (!r || !all) {
        pith_report_free(&r);
        pith_report_free(&all);
        return pith_fail_nomem(err, "a list");
    }
    add_loads(all);
    pith_report_listed(r);
    for (size_t at = pith_record_first(all, 0); at != PITH_NO_RECORD;
         at = pith_record_next(all, at)) {
        if (strcmp(pith_record_text(all, at, key), name) != 0) continue;
        pith_report_open(r, "");
        pith_record_copy(r, all, at);
        pith_report_close(r);
    }
    pith_records_table(r, 0, pith_report_alone(r));
    pith_report_line(r, &subject, ": %s", what);
    for (size_t at = pith_record_first(all, 0); at != PITH_NO_RECORD;
         at = pith_record_next(all, at)) {
        if (strcmp(pith_record_text(all, at, key), name) != 0) continue;
        pith_report_gap(r);
        pith_report_line(r, &(struct pith_line){0}, "%s", pith_record_text(all, at, other));
        pith_record_entry(r, all, at, other, key);
    }
    r->failed |= all->failed;
    pith_report_free(&all);
    *report = r;
    return PITH_OK;
}

/* Looks for the name of an engine or a container; *found stays NULL where it is none. */
static enum pith_status report_named(const char *name, struct pith_report **found,
                                     struct pith_error *err)
{
    static const char *const key[] = {"container", "engine"};
    for (size_t i = 2; i-- > 0 && !*found;) {
        struct pith_report *all = make_list(&features[i]);
        if (!all || all->failed) {
            pith_report_free(&all);
            return pith_fail_nomem(err, "a list");
        }
        const size_t at = pith_record_find(all, 0, "name", name);
        const enum pith_status s =
            at == PITH_NO_RECORD ? PITH_OK
                                 : report_loads(key[i], pith_record_text(all, at, "name"),
                                                pith_record_text(all, at, "what"), found, err);
        pith_report_free(&all);
        PITH_TRY(s);
    }
    return PITH_OK;
}

static enum pith_status fail_feature(const char *name, struct pith_error *err)
{
    const char *names[NAMES];
    size_t count = 0;
    struct pith_report *engines = make_list(&features[1]), *containers = make_list(&features[0]);
    for (; count < PITH_COUNT(features); count++) names[count] = features[count].name;
    if (engines && !engines->failed) count = take_names(engines, "name", names, count);
    if (containers && !containers->failed) count = take_names(containers, "name", names, count);
    const enum pith_status s = fail_unknown("table, engine or container", name, names, count, err);
    pith_report_free(&engines);
    pith_report_free(&containers);
    return s;
}

/* One table in full. */
static enum pith_status report_feature(const char *name, struct pith_report **report,
                                       struct pith_error *err)
{
    PITH_TRY(report_named(name, report, err));
    if (*report) return PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(features); i++) {
        if (!pith_name_equal(features[i].name, name)) continue;
        struct pith_report *r = make_list(&features[i]);
        if (!r) return pith_fail_nomem(err, "a list");
        pith_records_table(r, 0, pith_report_alone(r));
        if (features[i].key) pith_records_names(r, r, 0, features[i].key);
        else pith_records_table(r, 0, pith_report_add_table(r, PITH_DETAIL_ANY));
        *report = r;
        return PITH_OK;
    }
    return fail_feature(name, err);
}

/* One of all lists: its table, and for people its names, unless it has none. */
static void add_feature(struct pith_report *r, const struct list *list)
{
    pith_report_list(r, list->name);
    const size_t from = r->count;
    list->add(r);
    pith_report_close(r);
    pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_TABLES}, "%s", list->name);
    pith_records_table(r, from, pith_report_add_table(r, PITH_DETAIL_TABLES));
    if (!list->key) return;
    pith_report_line(r, &(struct pith_line){.strong = list->name}, "%s", "");
    pith_report_gap(r);
    pith_records_names(r, r, from, list->key);
    pith_report_gap(r);
}

static enum pith_status report_features(struct pith_report **report, struct pith_error *err)
{
    struct pith_report *r = pith_report_new();
    if (!r) return pith_fail_nomem(err, "a list");
    for (size_t i = 0; i < PITH_COUNT(features); i++) add_feature(r, &features[i]);
    pith_report_line(r, &(struct pith_line){.wrap = PITH_WRAP_TERMINAL}, "%s",
                     "'pith features ENGINE' shows what an engine loads, 'pith features CONTAINER'"
                     " who loads it.");
    *report = r;
    return PITH_OK;
}

/* --- calls ------------------------------------------------------------------------------------ */

static const struct whole_list *find_whole(const char *list)
{
    for (size_t i = 0; i < PITH_COUNT(whole_lists); i++)
        if (strcmp(whole_lists[i].list.name, list) == 0) return &whole_lists[i];
    return NULL;
}

enum pith_status pith_list_report(const char *list, const char *name, struct pith_report **report,
                                  struct pith_error *err)
{
    const struct whole_list *w = find_whole(list);
    *report = NULL;
    if (w) return list_report(w, name, report, err);
    if (strcmp(list, "features") != 0) return pith_fail(err, PITH_ARG, "no list '%s'", list);
    return name ? report_feature(name, report, err) : report_features(report, err);
}

enum pith_status pith_list_names(const char *list, char **names, struct pith_error *err)
{
    const struct whole_list *w = find_whole(list);
    const struct list *of = w ? &w->list : NULL;
    struct pith_str text = {0};
    *names = NULL;
    for (size_t i = 0; !of && i < PITH_COUNT(features); i++)
        if (strcmp(features[i].name, list) == 0 && features[i].key) of = &features[i];
    if (!of) return pith_fail(err, PITH_ARG, "no list '%s'", list);
    struct pith_report *r = make_list(of);
    if (!r || r->failed) text.failed = true;
    for (size_t at = text.failed ? PITH_NO_RECORD : pith_record_first(r, 0); at != PITH_NO_RECORD;
         at = pith_record_next(r, at))
        pith_str_printf(&text, "%s%s", text.len ? " " : "", pith_record_text(r, at, of->key));
    pith_report_free(&r);
    if (!text.failed) *names = pith_str_take(&text);
    pith_str_free(&text);
    return *names ? PITH_OK : pith_fail_nomem(err, "a list");
}

static enum pith_status give_list(const char *list, char **json, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_list_report(list, NULL, &r, err), json, err);
}

enum pith_status pith_formats_json(char **report, struct pith_error *err)
{
    return give_list("formats", report, err);
}

enum pith_status pith_recipes_json(char **report, struct pith_error *err)
{
    return give_list("recipes", report, err);
}

enum pith_status pith_recipe_keys_json(char **report, struct pith_error *err)
{
    return give_list("keys", report, err);
}

enum pith_status pith_features_json(char **report, struct pith_error *err)
{
    return give_list("features", report, err);
}

enum pith_status pith_hardware_json(char **report, struct pith_error *err)
{
    return give_list("hardware", report, err);
}
