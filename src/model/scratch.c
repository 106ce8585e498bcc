#include "base/arena.h"
#include "base/mem.h"
#include "model/model.h"

static void layout(struct pith_arena *a, const struct pith_plans *p, size_t rows,
                   struct pith_scratch *s)
{
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (i != PITH_REG_STREAM)
            s->reg[i] = pith_arena_take_rows(a, rows, p->width[i], sizeof *s->reg[i]);
    for (uint32_t i = 0; i < p->tables; i++) {
        s->rope[i].cos = pith_arena_take_rows(a, rows, p->rotary / 2, sizeof(float));
        s->rope[i].sin = pith_arena_take_rows(a, rows, p->rotary / 2, sizeof(float));
    }
    s->chosen = pith_arena_take_rows(a, rows, p->taken, sizeof *s->chosen);
    s->share = pith_arena_take_rows(a, rows, p->taken, sizeof *s->share);
    s->order = pith_arena_take_rows(a, rows, p->taken, sizeof *s->order);
    s->begin = pith_arena_take(a, p->experts ? p->experts + 1 : 0, sizeof *s->begin);
}

enum pith_status pith_scratch_init(struct pith_scratch *s, const struct pith_plans *plans,
                                   size_t rows, struct pith_error *err)
{
    *s = (struct pith_scratch){.rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "work space for no tokens");
    struct pith_arena a = {0};
    layout(&a, plans, rows, s);
    if (!pith_arena_open(&a))
        return pith_fail(err, PITH_NOMEM, "out of memory for the work space of %zu tokens", rows);
    layout(&a, plans, rows, s);
    s->memory = a.base;
    return PITH_OK;
}

void pith_scratch_moved(struct pith_scratch *s)
{
    for (size_t i = 0; i < PITH_COUNT(s->rope); i++)
        if (s->rope[i].start == SIZE_MAX) s->rope[i].of = NULL;
}

void pith_scratch_free(struct pith_scratch *s)
{
    pith_free(s->memory);
    *s = (struct pith_scratch){0};
}

uint64_t pith_scratch_bytes(const struct pith_plans *plans, size_t rows)
{
    struct pith_scratch s;
    struct pith_arena a = {0};
    layout(&a, plans, rows, &s);
    return pith_arena_bytes(&a);
}
