/* Names of hardware as a plan takes them: of the table, or read from JSON. */
#include "plan/search.h"

#include "base/mem.h"
#include "plan/hardware/hardware_json.h"

#include <pith/names.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FILE_MOST = 1 << 20, ROWS_MOST = 256 };

/* Takes the tree over: an object, or an array of them. */
static enum pith_status add_own(struct pith_plan_search *p, json_t *tree, const char *where,
                                struct pith_error *err)
{
    const size_t count = json_is_array(tree) ? json_array_size(tree) : 1;
    if (p->own_texts == PITH_PLAN_OWN || p->owns + count > ROWS_MOST) {
        json_decref(tree);
        return pith_fail(err, PITH_ARG, "%s: more than %d files or %d rows of hardware", where,
                         PITH_PLAN_OWN, ROWS_MOST);
    }
    p->own_text[p->own_texts++] = tree;
    if (!p->own) p->own = pith_zalloc(ROWS_MOST, sizeof *p->own);
    if (!p->own) return pith_fail_nomem(err, where);
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_is_array(tree) ? json_array_get(tree, i) : tree;
        PITH_TRY(pith_hardware_read(row, where, &p->own[p->owns], err));
        p->owns++;
    }
    return PITH_OK;
}

static bool is_file(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

enum pith_status pith_plan_hardware_find(struct pith_plan_search *p, const char *name,
                                         const struct pith_hardware **out, struct pith_error *err)
{
    const char *own = p->options->own;
    json_t *tree;
    *out = NULL;
    if (own && p->own_texts == 0) {
        PITH_TRY(pith_json_parse(own, strlen(own), "the machine", &tree, err));
        PITH_TRY(add_own(p, tree, "the machine", err));
    }
    if (is_file(name)) {
        const size_t before = p->owns;
        PITH_TRY(pith_json_load(name, FILE_MOST, &tree, err));
        PITH_TRY(add_own(p, tree, name, err));
        if (p->owns > before) *out = &p->own[before];
        return PITH_OK;
    }
    for (size_t i = 0; i < p->owns; i++)
        if (strcasecmp(p->own[i].name, name) == 0) *out = &p->own[i];
    if (!*out) *out = pith_hardware_find(name);
    return PITH_OK;
}

void pith_plan_hardware_free(struct pith_plan_search *p)
{
    for (size_t i = 0; i < p->own_texts; i++) json_decref(p->own_text[i]);
    pith_free(p->own);
}

/* "h100-sxm", "h100-sxmx8", "h100-sxm x8": a name as it stands comes first. */
enum pith_status pith_plan_place_find(struct pith_plan_search *p, const char *option,
                                      const char *text, struct pith_plan_place *out,
                                      struct pith_error *err)
{
    char name[64];
    const char *x = strrchr(text, 'x');
    size_t n = x ? (size_t)(x - text) : 0;
    uint64_t count;
    *out = (struct pith_plan_place){0};
    PITH_TRY(pith_plan_hardware_find(p, text, &out->h, err));
    while (n > 0 && text[n - 1] == ' ') n--;
    if (!out->h && n > 0 && n < sizeof name && pith_number_parse(x + 1, &count) && count > 0 &&
        count <= 4096) {
        (void)snprintf(name, sizeof name, "%.*s", (int)n, text);
        PITH_TRY(pith_plan_hardware_find(p, name, &out->h, err));
        out->devices = (unsigned)count;
    }
    if (out->h) {
        out->memory = out->h->memory_bytes;
        return PITH_OK;
    }
    struct pith_str names = {0};
    for (size_t i = 0; i < pith_hardware_count(); i++)
        pith_str_printf(&names, "%s%s", i ? ", " : "", pith_hardware_at(i)->name);
    const enum pith_status s = pith_fail(err, PITH_ARG,
                                         "%s %.60s: there are %s, perhaps "
                                         "with a number: l4x2",
                                         option, text, pith_str_text(&names));
    pith_str_free(&names);
    return s;
}
