#include "backend/cache/kinds.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct pith_kv_row rows[] = {
#define PITH_KV(kind, bits, use) {#kind #bits, &pith_kv_##kind, bits, PITH_KV_##use, NULL},
#define PITH_KV_GRID(name, unrotated) {name, NULL, 0, PITH_KV_TRIED, unrotated},
#include "backend/cache/kv.def"
#undef PITH_KV
#undef PITH_KV_GRID
};

const struct pith_kv_row *pith_kv_rows(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}

const struct pith_kv_row *pith_kv_row_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (rows[i].kind && strcasecmp(name, rows[i].name) == 0) return &rows[i];
    return NULL;
}

const struct pith_kv_row *pith_kv_candidate(size_t i)
{
    for (size_t r = 0; r < PITH_COUNT(rows); r++)
        if (rows[r].tried && i-- == 0) return &rows[r];
    return NULL;
}

/* Whether no row before this one is of its kind. */
static bool is_first(const struct pith_kv_row *row)
{
    for (const struct pith_kv_row *r = rows; r < row; r++)
        if (r->kind == row->kind) return false;
    return true;
}

/* The rows of a kind, the first of which is given: "turbo2 to turbo4", or one by one with "or". */
static int add_kind(const struct pith_kv_row *first, char *text, size_t room)
{
    const struct pith_kv_row *last = first;
    unsigned count = 0;
    int n = 0;
    for (const struct pith_kv_row *r = first; r < rows + PITH_COUNT(rows); r++)
        if (r->kind == first->kind) count++, last = r;
    if (count > 2 && count == last->bits - first->bits + 1)
        return snprintf(text, room, "%s to %s", first->name, last->name);
    for (const struct pith_kv_row *r = first; r <= last; r++)
        if (r->kind == first->kind)
            n += snprintf(text + n, room - (size_t)n, "%s%s", r == first ? "" : " or ", r->name);
    return n;
}

void pith_kv_row_names(bool (*among)(const struct pith_kv_kind *kind), char text[PITH_KV_NAMES])
{
    int n = 0;
    text[0] = '\0';
    for (const struct pith_kv_row *r = rows; r < rows + PITH_COUNT(rows); r++) {
        if (!r->kind || !is_first(r) || (among && !among(r->kind))) continue;
        if (n > 0) n += snprintf(text + n, PITH_KV_NAMES - (size_t)n, ", ");
        n += add_kind(r, text + n, PITH_KV_NAMES - (size_t)n);
    }
}
