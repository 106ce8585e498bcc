/* What readers and writers of tensor files agree on: names and sizes. */
#include "base/mem.h"
#include "io/safetensors.h"

#include <string.h>
#include <utf8proc.h>

uint64_t pith_tensor_elements(const struct pith_tensor *t)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < t->dims; i++) n *= t->shape[i];
    return n;
}

bool pith_tensor_size(enum pith_dtype dtype, unsigned dims, const uint64_t *shape, uint64_t *bytes)
{
    uint64_t bits = 1;
    /* In this order, the bits last: the reference reader overflows in this order too. */
    for (unsigned i = 0; i < dims; i++)
        if (__builtin_mul_overflow(bits, shape[i], &bits)) return false;
    if (__builtin_mul_overflow(bits, (uint64_t)pith_dtype_bits(dtype), &bits)) return false;
    if (bits % 8 != 0) return false;
    *bytes = bits / 8;
    return true;
}

const char *pith_tensor_name_fault(const char *name)
{
    const size_t n = strnlen(name, PITH_MAX_NAME + 1);
    if (n > PITH_MAX_NAME) return "the name is too long";
    if (strcmp(name, "__metadata__") == 0) return "the name is reserved";
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t step =
            utf8proc_iterate((const utf8proc_uint8_t *)name + i, (utf8proc_ssize_t)(n - i), &c);
        if (step <= 0) return "the name is not valid UTF-8";
        if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return "the name has control characters";
        i += (size_t)step;
    }
    return NULL;
}

void pith_tensor_straighten(const struct pith_tensor *t, void *out)
{
    const uint64_t rows = t->dims ? t->shape[0] : 1;
    const size_t size = rows ? (size_t)(t->bytes / rows) : 0;
    for (uint64_t r = 0; r < rows; r++)
        memcpy((uint8_t *)out + r * size, t->data + pith_turned_row(r, rows, t->heads) * size,
               size);
}

bool pith_tensor_straight(const struct pith_tensor *t, uint8_t **copy)
{
    *copy = NULL;
    if (t->heads == 0) return true;
    *copy = pith_alloc((size_t)t->bytes, 1);
    if (*copy) pith_tensor_straighten(t, *copy);
    return *copy != NULL;
}

bool pith_tensor_decode(const struct pith_tensor *t, float *out)
{
    const uint64_t rows = t->heads ? t->shape[0] : 1;
    const size_t size = (size_t)(t->bytes / rows), n = (size_t)(pith_tensor_elements(t) / rows);
    for (uint64_t r = 0; r < rows; r++)
        if (!pith_dtype_decode(t->dtype, t->data + pith_turned_row(r, rows, t->heads) * size, n,
                               out + r * n))
            return false;
    return true;
}
