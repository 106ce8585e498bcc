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

static uint64_t columns(const struct pith_tensor *t)
{
    uint64_t cols = 1;
    for (unsigned i = 1; i < t->dims; i++) cols *= t->shape[i];
    return cols;
}

static size_t element_size(const struct pith_tensor *t)
{
    return pith_dtype_bits(t->dtype) / 8;
}

uint64_t pith_tensor_extent(const struct pith_tensor *t)
{
    if (t->row_step == 0 || t->bytes == 0) return t->bytes;
    return ((t->shape[0] - 1) * t->row_step + (columns(t) - 1) * t->col_step + 1) * element_size(t);
}

/* Elements that lie `step` apart, one behind the other. */
static void gather(const uint8_t *from, uint64_t step, size_t size, uint64_t count, uint8_t *to)
{
    if (step == 1) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    for (uint64_t i = 0; i < count && size == 2; i++) memcpy(to + 2 * i, from + 2 * i * step, 2);
    for (uint64_t i = 0; i < count && size == 4; i++) memcpy(to + 4 * i, from + 4 * i * step, 4);
    for (uint64_t i = 0; i < count && size != 2 && size != 4; i++)
        memcpy(to + i * size, from + i * step * size, size);
}

void pith_tensor_copy(const struct pith_tensor *t, uint64_t first, uint64_t count, void *out)
{
    const size_t size = element_size(t);
    uint8_t *to = out;
    if (t->row_step == 0) {
        memcpy(out, t->data + first * size, (size_t)count * size);
        return;
    }
    const uint64_t cols = columns(t);
    for (uint64_t end = first + count; first < end;) {
        const uint64_t r = first / cols, c = first % cols;
        const uint64_t n = cols - c < end - first ? cols - c : end - first;
        gather(t->data + (r * t->row_step + c * t->col_step) * size, t->col_step, size, n, to);
        to += n * size;
        first += n;
    }
}

/* A slice, some rows and columns at a time: where columns lie far apart, those of neighbouring rows
 * lie together. */
static void straighten_slice(const struct pith_tensor *t, uint8_t *out)
{
    enum { ROWS = 32, COLS = 64 };
    const uint64_t rows = t->shape[0], cols = columns(t);
    const size_t size = element_size(t);
    if (t->col_step == 1) {
        pith_tensor_copy(t, 0, rows * cols, out);
        return;
    }
    for (uint64_t r0 = 0; r0 < rows; r0 += ROWS)
        for (uint64_t c0 = 0; c0 < cols; c0 += COLS) {
            const uint64_t end = rows - r0 < ROWS ? rows : r0 + ROWS;
            const uint64_t n = cols - c0 < COLS ? cols - c0 : COLS;
            for (uint64_t r = r0; r < end; r++)
                gather(t->data + (r * t->row_step + c0 * t->col_step) * size, t->col_step, size, n,
                       out + (r * cols + c0) * size);
        }
}

void pith_tensor_straighten(const struct pith_tensor *t, void *out)
{
    const uint64_t rows = t->dims ? t->shape[0] : 1;
    const size_t size = rows ? (size_t)(t->bytes / rows) : 0;
    if (t->row_step) {
        straighten_slice(t, out);
        return;
    }
    if (pith_stow_by_rows(&t->order)) {
        const struct pith_stow_shape shape = {rows, 1, size};
        pith_stow_undo(&t->order, &shape, t->data, out);
    } else {
        const struct pith_stow_shape shape = {rows, columns(t), element_size(t)};
        pith_stow_undo(&t->order, &shape, t->data, out);
    }
}

bool pith_tensor_straight(const struct pith_tensor *t, uint8_t **copy)
{
    *copy = NULL;
    if (pith_tensor_plain(t)) return true;
    *copy = pith_alloc((size_t)t->bytes, 1);
    if (*copy) pith_tensor_straighten(t, *copy);
    return *copy != NULL;
}

/* A slice is straightened into the end of `out`, whose elements are no smaller, and decoded in
 * place from its beginning. */
static bool decode_slice(const struct pith_tensor *t, float *out)
{
    enum { PART = 512 };
    const uint64_t count = pith_tensor_elements(t);
    const size_t size = element_size(t);
    float part[PART];
    if (size > sizeof *out) return false;
    uint8_t *raw = (uint8_t *)(out + count) - count * size;
    straighten_slice(t, raw);
    for (uint64_t at = 0; at < count; at += PART) {
        const size_t n = count - at < PART ? (size_t)(count - at) : PART;
        if (!pith_dtype_decode(t->dtype, raw + at * size, n, part)) return false;
        memcpy(out + at, part, n * sizeof *part);
    }
    return true;
}

/* Rows that lie in another order, each where it is. */
static bool decode_rows(const struct pith_tensor *t, float *out)
{
    const uint64_t rows = t->shape[0];
    const size_t size = (size_t)(t->bytes / rows), n = (size_t)columns(t);
    for (uint64_t r = 0; r < rows; r++)
        if (!pith_dtype_decode(t->dtype, t->data + pith_stow_place(&t->order, r) * size, n,
                               out + r * n))
            return false;
    return true;
}

/* What a tensor of another order holds, as stored. */
static bool decode_latent(const struct pith_tensor *t, float *out)
{
    uint8_t *copy;
    if (!pith_tensor_straight(t, &copy)) return false;
    const bool known = pith_dtype_decode(t->dtype, copy, (size_t)pith_tensor_elements(t), out);
    pith_free(copy);
    return known;
}

bool pith_tensor_decode(const struct pith_tensor *t, float *out)
{
    const size_t n = (size_t)pith_tensor_elements(t);
    bool known;
    if (t->row_step) known = decode_slice(t, out);
    else if (pith_tensor_plain(t)) known = pith_dtype_decode(t->dtype, t->data, n, out);
    else known = pith_stow_by_rows(&t->order) ? decode_rows(t, out) : decode_latent(t, out);
    if (known) pith_stored_undo(t->as, out, n);
    return known;
}
