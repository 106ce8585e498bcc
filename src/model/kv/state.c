/* Recurrent states of a pool. */
#include "model/kv/kv.h"

#include "backend/parts.h"

#include <string.h>

static size_t *reached(const struct pith_kv *kv, uint32_t layer, uint32_t sequence)
{
    return &kv->reached[sequence * kv->layers + layer];
}

static char *state_of(const struct pith_kv *kv, const struct pith_kv_state_part *p)
{
    const size_t before = p->sequence * kv->state_at[kv->layers] + kv->state_at[p->layer];
    return kv->state + (before + p->offset) * pith_kv_state_width(&kv->format);
}

float *pith_kv_state_take(const struct pith_kv *kv, const struct pith_backend *b,
                          const struct pith_kv_state_part *p)
{
    if (!kv->opened) return (float *)(void *)state_of(kv, p);
    pith_form_get(b, kv->format.states, p->floats, state_of(kv, p), kv->opened);
    return kv->opened;
}

void pith_kv_state_put(const struct pith_kv *kv, const struct pith_backend *b,
                       const struct pith_kv_state_part *p)
{
    if (kv->opened) pith_form_put(b, kv->format.states, p->floats, kv->opened, state_of(kv, p));
}

enum pith_status pith_kv_state_check(const struct pith_kv *kv, uint32_t layer,
                                     const struct pith_kv_span *s, struct pith_error *err)
{
    if (s->start == 0) {
        const struct pith_kv_state_part all = {.layer = layer, .sequence = s->sequence};
        const size_t numbers = kv->state_at[layer + 1] - kv->state_at[layer];
        memset(state_of(kv, &all), 0, numbers * pith_kv_state_width(&kv->format));
        *reached(kv, layer, s->sequence) = 0;
    }
    if (*reached(kv, layer, s->sequence) == s->start) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "a recurrent state that has seen %zu tokens cannot go on from %zu",
                     *reached(kv, layer, s->sequence), s->start);
}

void pith_kv_moved(const struct pith_kv *kv, uint32_t layer, const struct pith_kv_span *s)
{
    *reached(kv, layer, s->sequence) = s->start + s->n;
}

bool pith_kv_recurrent(const struct pith_kv *kv)
{
    return kv->state_at[kv->layers] > 0;
}

void pith_kv_save(struct pith_kv *kv, uint32_t sequence)
{
    const size_t bytes = kv->state_at[kv->layers] * pith_kv_state_width(&kv->format);
    if (!kv->copies) return;
    memcpy(kv->copies + sequence * bytes, kv->state + sequence * bytes, bytes);
    kv->sequence[sequence].saved = kv->sequence[sequence].length;
}

void pith_kv_restore(struct pith_kv *kv, uint32_t sequence)
{
    const size_t bytes = kv->state_at[kv->layers] * pith_kv_state_width(&kv->format);
    memcpy(kv->state + sequence * bytes, kv->copies + sequence * bytes, bytes);
    for (uint32_t i = 0; i < kv->layers; i++)
        *reached(kv, i, sequence) = kv->sequence[sequence].saved;
}
