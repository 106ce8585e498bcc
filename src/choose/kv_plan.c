#include "choose/kv_plan.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Bits are counted at so many positions, or at as many as the model may have. */
enum { POSITIONS = 2048 };

static void set_side(struct pith_kv_format *f, enum pith_kv_side side,
                     const struct pith_kv_format *to)
{
    if (side != PITH_KV_VALUES) f->k = to->k;
    if (side != PITH_KV_KEYS) f->v = to->v;
}

void pith_kv_plan_set(const struct pith_kv_plan *p, struct pith_kv_format *f,
                      enum pith_kv_side side, const struct pith_kv_plan_row *row)
{
    set_side(f, side, &p->format[row->candidate]);
    f->recent = row->near && !pith_kv_by_page(&f->k) ? 32 : 0; /* as those are near anyway */
}

/* --- candidates ------------------------------------------------------------------------------- */

/* A candidate whose codes an offset of keys would spread leaves it out: the middle of each channel,
 * or where no levels are known the biases. */
static void leave_offset(struct pith_kv_plan *p, size_t c)
{
    const struct pith_model *m = p->job->model;
    struct pith_kv_format without;
    struct pith_error ignored = {0};
    char name[PITH_KV_TEXT];
    if (!pith_kv_spreads(&p->format[c].k) || (!p->levels && !pith_kv_has_biases(&m->plans))) return;
    snprintf(name, sizeof name, "%s,offset%s", p->name[c], p->levels ? "=middle" : "");
    if (pith_kv_parse(name, PITH_F32, m, &without, &ignored) != PITH_OK) return;
    strcpy(p->offset[c], name);
    p->format[c] = without;
}

static bool takes(const struct pith_kv_plan *p, const char *name, struct pith_kv_format *f)
{
    struct pith_error ignored = {0};
    return pith_kv_parse(name, PITH_F32, p->job->model, f, &ignored) == PITH_OK &&
           (p->levels || !pith_kv_needs_levels(f, 1));
}

static void find_candidate(struct pith_kv_plan *p, size_t c)
{
    const struct pith_kv_row *row = pith_kv_candidate(c);
    const char *const names[] = {row->name, row->unrotated};
    p->name[c] = NULL;
    *p->offset[c] = '\0';
    for (size_t i = 0; i < PITH_COUNT(names) && names[i] && !p->name[c]; i++)
        if (takes(p, names[i], &p->format[c])) p->name[c] = names[i];
    if (p->name[c]) leave_offset(p, c);
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Those candidates in which rows of the part can be stored, each with and without the current page
 * in floats. */
static void add_part(struct pith_kv_plan *p, uint32_t layer, enum pith_kv_side side)
{
    struct pith_kv_plan_part *part = &p->part[p->parts++];
    *part = (struct pith_kv_plan_part){.layer = layer, .side = side};
    for (size_t c = 0; c < PITH_KV_CANDIDATES; c++)
        for (int near = side != PITH_KV_VALUES && pith_kv_by_page(&p->format[c].k) ? 1 : 0;
             near < 2; near++)
            if (p->name[c])
                part->row[part->rows++] =
                    (struct pith_kv_plan_row){.candidate = c, .near = near == 1};
}

static void find_parts(struct pith_kv_plan *p)
{
    const struct pith_model *m = p->job->model;
    const struct pith_kv_format plain = pith_kv_floats(PITH_F32);
    for (size_t c = 0; c < PITH_KV_CANDIDATES; c++) find_candidate(p, c);
    p->parts = 0;
    p->numbers = 0;
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        const struct pith_state_spec *s = &pith_plan(&m->plans, i)->state;
        if (!(pith_kv_position_bytes(&plain, s) > 0)) continue;
        p->numbers += pith_kv_numbers(s);
        if (s->kind == PITH_STATE_LATENT) add_part(p, i, PITH_KV_BOTH);
        else {
            add_part(p, i, PITH_KV_KEYS);
            add_part(p, i, PITH_KV_VALUES);
        }
    }
}

enum pith_status pith_kv_plan_find(struct pith_kv_plan *p, struct pith_error *err)
{
    const struct pith_model *m = p->job->model;
    p->context = m->shape.max_position < POSITIONS ? m->shape.max_position : POSITIONS;
    p->part = pith_alloc(2 * (size_t)m->plans.layers, sizeof *p->part);
    p->layer = pith_alloc(m->plans.layers, sizeof *p->layer);
    if (!p->part || !p->layer) return pith_fail_nomem(err, "the layers of a KV cache");
    find_parts(p);
    if (p->parts && p->part[0].rows) return PITH_OK;
    return pith_fail(err, PITH_ARG, "%s keeps no keys and values that `kv` auto could choose for",
                     m->checkpoint->dir);
}

void pith_kv_plan_drop_levels(struct pith_kv_plan *p)
{
    p->levels = false;
    find_parts(p);
}

void pith_kv_plan_free(struct pith_kv_plan *p)
{
    pith_free(p->layer);
    pith_free(p->part);
    pith_free(p->path);
    json_decref(p->file);
}
