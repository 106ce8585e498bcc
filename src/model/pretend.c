#include "model/pretend.h"

/* Values that repeat after PERIOD, which shares no factor with the sizes of heads: small, both
 * signs, no two neighbours alike. */
enum { PERIOD = 251 };

static void fill(float *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i] = (float)(int)(i * 97 % PERIOD) / (PERIOD / 2.0f) - 1.0f;
}

void pith_session_pretend(struct pith_session *s, size_t length)
{
    struct pith_kv *kv = &s->kv;
    for (uint32_t i = 0; i < kv->layers; i++) {
        const size_t layer = (size_t)i * kv->capacity * kv->width;
        fill(kv->k + layer, length * kv->width);
        fill(kv->v + layer, length * kv->width);
    }
    s->length = length;
}
