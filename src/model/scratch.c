#include "base/mem.h"
#include "model/model.h"
#include "model/place.h"

static bool place_ids(float *base, size_t rows, size_t width, size_t *used, uint32_t **part)
{
    float *place_of;
    _Static_assert(sizeof **part == sizeof *base, "ids take the room of floats");
    if (!pith_place_floats(base, rows, width, used, &place_of)) return false;
    *part = (void *)place_of;
    return true;
}

/* Places the parts one behind the other (base NULL: only counts). False when the size overflows. */
static bool layout(const struct pith_plans *p, size_t rows, float *base, struct pith_scratch *s,
                   size_t *total)
{
    *total = 0;
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (i != PITH_REG_STREAM && !pith_place_floats(base, rows, p->width[i], total, &s->reg[i]))
            return false;
    for (uint32_t i = 0; i < p->tables; i++)
        if (!pith_place_floats(base, rows, p->rotary / 2, total, &s->rope[i].cos) ||
            !pith_place_floats(base, rows, p->rotary / 2, total, &s->rope[i].sin))
            return false;
    return place_ids(base, rows, p->taken, total, &s->chosen) &&
           pith_place_floats(base, rows, p->taken, total, &s->share) &&
           place_ids(base, rows, p->taken, total, &s->order) &&
           place_ids(base, 1, p->experts ? p->experts + 1 : 0, total, &s->begin);
}

enum pith_status pith_scratch_init(struct pith_scratch *s, const struct pith_plans *plans,
                                   size_t rows, struct pith_error *err)
{
    *s = (struct pith_scratch){.rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "work space for no tokens");
    size_t total;
    if (layout(plans, rows, NULL, s, &total)) s->memory = pith_alloc_aligned(total, sizeof(float));
    if (!s->memory)
        return pith_fail(err, PITH_NOMEM, "out of memory for the work space of %zu tokens", rows);
    (void)layout(plans, rows, s->memory, s, &total);
    return PITH_OK;
}

void pith_scratch_free(struct pith_scratch *s)
{
    pith_free(s->memory);
    *s = (struct pith_scratch){0};
}

uint64_t pith_scratch_bytes(const struct pith_plans *plans, size_t rows)
{
    struct pith_scratch s = {0};
    size_t total, bytes;
    if (!layout(plans, rows, NULL, &s, &total) || !pith_mul_size(total, sizeof(float), &bytes))
        return UINT64_MAX;
    return bytes;
}
