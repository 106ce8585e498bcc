#include "base/mem.h"
#include "model/model.h"

enum pith_status pith_kv_init(struct pith_kv *kv, const struct pith_shape *s, uint32_t layers,
                              size_t capacity, struct pith_error *err)
{
    *kv = (struct pith_kv){
        .layers = layers, .capacity = capacity, .width = (size_t)s->kv_heads * s->head_dim};
    if (layers == 0 || capacity == 0) return pith_fail(err, PITH_ARG, "a KV cache for no tokens");
    size_t rows, values;
    if (pith_mul_size(layers, capacity, &rows) && pith_mul_size(rows, kv->width, &values)) {
        kv->k = pith_alloc_aligned(values, sizeof(float));
        kv->v = pith_alloc_aligned(values, sizeof(float));
    }
    if (kv->k && kv->v) return PITH_OK;
    pith_kv_free(kv);
    return pith_fail(err, PITH_NOMEM, "out of memory for a KV cache of %zu tokens", capacity);
}

void pith_kv_free(struct pith_kv *kv)
{
    pith_free(kv->k);
    pith_free(kv->v);
    *kv = (struct pith_kv){0};
}

enum { LINE = 16 /* floats of a cache line */ };

/* Places the parts one behind the other (base NULL: only counts). False when the size overflows. */
static bool layout(const struct pith_shape *shape, size_t rows, float *base, struct pith_scratch *s,
                   size_t *total)
{
    const size_t attention = (size_t)shape->heads * shape->head_dim, half = shape->head_dim / 2;
    struct {
        float **part;
        size_t width;
    } parts[] = {
        {&s->norm, shape->hidden}, {&s->q, attention}, {&s->gate, shape->ffn}, {&s->up, shape->ffn},
        {&s->out, shape->hidden},  {&s->cos, half},    {&s->sin, half}};
    size_t used = 0;
    for (size_t i = 0; i < PITH_COUNT(parts); i++) {
        size_t n;
        if (!pith_mul_size(rows, parts[i].width, &n)) return false;
        if (!pith_add_size(n, LINE - 1, &n)) return false;
        if (base) *parts[i].part = base + used;
        if (!pith_add_size(used, n / LINE * LINE, &used)) return false;
    }
    s->att = s->q; /* pith_attention may write over its queries */
    *total = used;
    return true;
}

enum pith_status pith_scratch_init(struct pith_scratch *s, const struct pith_shape *shape,
                                   size_t rows, struct pith_error *err)
{
    *s = (struct pith_scratch){.rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "work space for no tokens");
    size_t total;
    if (layout(shape, rows, NULL, s, &total)) s->memory = pith_alloc_aligned(total, sizeof(float));
    if (!s->memory)
        return pith_fail(err, PITH_NOMEM, "out of memory for the work space of %zu tokens", rows);
    (void)layout(shape, rows, s->memory, s, &total);
    return PITH_OK;
}

void pith_scratch_free(struct pith_scratch *s)
{
    pith_free(s->memory);
    *s = (struct pith_scratch){0};
}

uint64_t pith_scratch_bytes(const struct pith_shape *shape, size_t rows)
{
    struct pith_scratch s = {0};
    size_t total, bytes;
    if (!layout(shape, rows, NULL, &s, &total) || !pith_mul_size(total, sizeof(float), &bytes))
        return UINT64_MAX;
    return bytes;
}
