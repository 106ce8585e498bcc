/* Hardware that a plan is told of beside the table. */
#include "api/hardware.h"
#include "api/plan.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>

enum { FILE_MOST = 1 << 20, ROWS_MOST = 256 };

/* Takes the tree over: an object, or an array of them. */
static enum pith_status add_own(struct plan_made *p, json_t *tree, const char *where,
                                struct pith_error *err)
{
    const size_t count = json_is_array(tree) ? json_array_size(tree) : 1;
    if (p->own_texts == PLAN_OWN || p->owns + count > ROWS_MOST) {
        json_decref(tree);
        return pith_fail(err, PITH_ARG, "%s: more than %d files or %d rows of hardware", where,
                         PLAN_OWN, ROWS_MOST);
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

enum pith_status plan_hardware_find(struct plan_made *p, const char *name,
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

void plan_hardware_free(struct plan_made *p)
{
    for (size_t i = 0; i < p->own_texts; i++) json_decref(p->own_text[i]);
    pith_free(p->own);
}
