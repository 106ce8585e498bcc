#include "serve/counts.h"

#include "base/mem.h"

#include <string.h>

static struct pith_count *place(const struct pith_counts *c, int32_t id)
{
    size_t i = ((uint32_t)id * UINT32_C(2654435769)) & (c->room - 1);
    while (c->entry[i].id >= 0 && c->entry[i].id != id) i = (i + 1) & (c->room - 1);
    return &c->entry[i];
}

static enum pith_status grow(struct pith_counts *c, struct pith_error *err)
{
    struct pith_counts more = {.room = c->room ? 2 * c->room : 64, .used = c->used};
    more.entry = pith_alloc(more.room, sizeof *more.entry);
    if (!more.entry) return pith_fail_nomem(err, "the counts of tokens");
    for (size_t i = 0; i < more.room; i++) more.entry[i] = (struct pith_count){.id = -1};
    for (size_t i = 0; i < c->room; i++)
        if (c->entry[i].id >= 0) *place(&more, c->entry[i].id) = c->entry[i];
    pith_free(c->entry);
    *c = more;
    return PITH_OK;
}

enum pith_status pith_counts_add(struct pith_counts *c, int32_t id, bool answer,
                                 struct pith_error *err)
{
    if (2 * (c->used + 1) > c->room) PITH_TRY(grow(c, err));
    struct pith_count *e = place(c, id);
    if (e->id < 0) {
        *e = (struct pith_count){.id = id};
        c->used++;
    }
    if (answer) e->answer++;
    return PITH_OK;
}

void pith_counts_free(struct pith_counts *c)
{
    pith_free(c->entry);
    *c = (struct pith_counts){0};
}
