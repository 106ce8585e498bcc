#include "quant/basis.h"

#include "base/mem.h"

static enum pith_status init_all(struct pith_basis *b, const struct pith_basis_plan *p,
                                 struct pith_error *err)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, p->seed);
    const uint32_t online[] = {p->o, p->down};
    for (size_t i = 0; i < PITH_COUNT(online); i++)
        if ((online[i] & (online[i] - 1)) != 0)
            return pith_fail(err, PITH_ARG,
                             "inputs cannot be rotated in blocks of %u, no power of two",
                             online[i]);
    if (p->stream > 1) PITH_TRY(pith_rotation_init(&b->stream, p->hidden, p->stream, &rng, err));
    if (p->head > 1) PITH_TRY(pith_rotation_init(&b->head, p->head_dim, p->head, &rng, err));
    if (p->o > 1) PITH_TRY(pith_rotation_init(&b->o, p->attention, p->o, NULL, err));
    if (p->down > 1) PITH_TRY(pith_rotation_init(&b->down, p->ffn, p->down, NULL, err));
    return PITH_OK;
}

enum pith_status pith_basis_init(struct pith_basis *b, const struct pith_basis_plan *plan,
                                 struct pith_error *err)
{
    *b = (struct pith_basis){0};
    const enum pith_status s = init_all(b, plan, err);
    if (s != PITH_OK) pith_basis_free(b);
    return s;
}

void pith_basis_free(struct pith_basis *b)
{
    pith_rotation_free(&b->stream);
    pith_rotation_free(&b->head);
    pith_rotation_free(&b->o);
    pith_rotation_free(&b->down);
}
