/* Published checkpoints: their config is read, no key of it is a misspelling of one that is read,
 * and the names of their tensors are just those that the plans make: none unknown, none missing
 * (tests/golden/published, make_published.py).
 *
 * test_published [prefix]: only the cases whose names begin so. */
#include "model/config/config.h"
#include "unit/model/arch_case.h"

#define PUBLISHED "tests/golden/published/"

enum { NAME = 256 };

/* Adds to `set` what a pattern stands for: "{0-2,5}" is 0, 1, 2 and 5. */
static void expand(const char *head, const char *tail, json_t *set)
{
    char name[NAME];
    const char *open = strchr(tail, '{');
    if (!open) {
        snprintf(name, sizeof name, "%s%s", head, tail);
        json_object_set_new(set, name, json_null());
        return;
    }
    const char *close = strchr(open, '}');
    for (const char *at = open; at != close;) {
        char *end;
        const unsigned long first = strtoul(at + 1, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        at = end;
        for (unsigned long n = first; n <= last; n++) {
            snprintf(name, sizeof name, "%s%.*s%lu", head, (int)(open - tail), tail, n);
            expand(name, close + 1, set);
        }
    }
}

static void misspelt(void *ctx, const char *object, const char *key, const char *near)
{
    print_message("  %s \"%s\": \"%s\"?\n", object, key, near);
    ++*(unsigned *)ctx;
}

/* Takes a name out of the set; whether it was there. */
static bool take(json_t *set, const char *module, const char *end)
{
    char name[NAME + 16];
    snprintf(name, sizeof name, "%s%s", module, end);
    return json_object_del(set, name) == 0;
}

static unsigned need(json_t *set, const char *module, const char *end)
{
    if (take(set, module, end)) return 0;
    print_message("  %s%s is missing\n", module, end);
    return 1;
}

/* The experts' matrices that stand in one tensor: said in have[linear]. */
static void take_fused(const struct pith_plans *plans, uint32_t layer, json_t *set, bool *have)
{
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    char name[NAME];
    for (uint32_t i = 0; i < l->fuseds; i++) {
        const struct pith_fused_spec *f = &l->fused[i];
        if (f->alone) continue;
        pith_plan_name(plans, layer, f->name, name, sizeof name);
        if (!take(set, name, "")) continue;
        for (uint32_t k = 0; k < f->experts * f->parts; k++)
            have[f->first + k / f->parts * f->each + k % f->parts] = true;
    }
}

static unsigned check_layer(const struct pith_plans *plans, uint32_t layer, json_t *set)
{
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    bool *have = calloc(l->linears, sizeof *have);
    unsigned bad = 0;
    char name[NAME];
    take_fused(plans, layer, set, have);
    for (uint32_t i = 0; i < l->linears; i++) {
        pith_plan_linear_name(plans, layer, i, name, sizeof name);
        if (!have[i]) bad += need(set, name, ".weight");
        if (l->linear[i].bias) bad += need(set, name, ".bias");
    }
    for (uint32_t i = 0; i < l->vectors; i++) {
        pith_plan_name(plans, layer, l->vector[i].name, name, sizeof name);
        bad += need(set, name, "");
    }
    free(have);
    return bad;
}

static unsigned check_names(const struct pith_arch *arch, const struct pith_shape *shape,
                            const json_t *patterns)
{
    struct pith_error err = {0};
    struct pith_plans plans;
    unsigned bad = 0;
    json_t *set = json_object(), *pattern;
    const char *name;
    void *next;
    size_t i;
    json_array_foreach (patterns, i, pattern) expand("", json_string_value(pattern), set);
    const size_t count = json_object_size(set);
    assert_ok(pith_plans_make(arch, shape, &plans, &err), err);
    for (uint32_t layer = 0; layer < plans.layers; layer++) bad += check_layer(&plans, layer, set);
    bad += need(set, arch->names.embed, ".weight");
    bad += need(set, arch->names.norm, ".weight");
    if (arch->norm.bias) bad += need(set, arch->names.norm, ".bias");
    if (!take(set, arch->names.head, ".weight") && !shape->ends.tied)
        bad += need(set, arch->names.head, ".weight");
    json_object_foreach_safe(set, next, name, pattern)
    {
        uint32_t layer;
        const char *part = pith_plan_layer_of(&plans, name, &layer);
        if (pith_plan_is_other(&plans, name) || pith_arch_buffer(arch, part ? part : name))
            continue;
        print_message("  %s is unknown\n", name);
        bad++;
    }
    print_message("  %zu tensors, %u wrong\n", count, bad);
    json_decref(set);
    pith_plans_free(&plans);
    return bad;
}

static unsigned check_case(const char *name)
{
    struct pith_error err = {0};
    struct pith_shape *shape = calloc(1, sizeof *shape);
    const struct pith_arch *arch;
    char path[NAME];
    json_t *file;
    unsigned bad = 0;
    snprintf(path, sizeof path, PUBLISHED "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
    const json_t *config = json_object_get(file, "config");
    print_message("%s\n", name);
    pith_config_misspelt(config, misspelt, &bad);
    if (pith_shape_read(config, name, &arch, shape, &err) == PITH_OK) {
        bad += check_names(arch, shape, json_object_get(file, "tensors"));
    } else {
        print_message("  %s\n", err.text);
        bad++;
    }
    json_decref(file);
    free(shape);
    return bad;
}

static void every_published_checkpoint_is_known(void **state)
{
    struct pith_error err = {0};
    const char *prefix = *state;
    char **names;
    size_t listed, cases = 0;
    unsigned bad = 0;
    assert_ok(pith_dir_list(PUBLISHED, &names, &listed, &err), err);
    for (size_t i = 0; i < listed; i++) {
        char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".json") != 0 || strncmp(names[i], prefix, strlen(prefix)) != 0)
            continue;
        *dot = '\0';
        bad += check_case(names[i]);
        cases++;
    }
    pith_names_free(names, listed);
    assert_true(cases > 0);
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    static char all[] = "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_published_checkpoint_is_known, argc > 1 ? argv[1] : all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
