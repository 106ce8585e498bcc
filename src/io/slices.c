/* Slices of tensors that hold several matrices, shown as separate tensors. */
#include "base/mem.h"
#include "io/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* The tensor that a slice is; false when it does not lie within the whole. */
static bool make(const struct pith_slice *s, const char *name, struct pith_tensor *out)
{
    *out = (struct pith_tensor){.name = name,
                                .dtype = s->whole->dtype,
                                .dims = s->dims,
                                .file = s->whole->file,
                                .row_step = s->row_step,
                                .col_step = s->col_step,
                                .slice = true,
                                .exchanged = strcmp(s->whole->name, s->name) == 0};
    memcpy(out->shape, s->shape, sizeof out->shape);
    const unsigned bits = pith_dtype_bits(out->dtype);
    if (s->dims == 0 || bits % 8 != 0 || !pith_tensor_plain(s->whole)) return false;
    if (!pith_tensor_size(out->dtype, out->dims, out->shape, &out->bytes) || out->bytes == 0)
        return false;
    const uint64_t all = s->whole->bytes;
    uint64_t cols = 1, end, more;
    for (unsigned i = 1; i < s->dims; i++) cols *= s->shape[i];
    /* The last element's place, with arithmetic that cannot overflow. */
    if (out->bytes > all || s->first > all || s->row_step > all || s->col_step > all) return false;
    if (__builtin_mul_overflow(s->shape[0] - 1, s->row_step, &end) ||
        __builtin_mul_overflow(cols - 1, s->col_step, &more) ||
        __builtin_add_overflow(end, more, &end))
        return false;
    if (s->row_step == 0) end = out->bytes / (bits / 8) - 1;
    if (end > all || (s->first + end + 1) * (bits / 8) > all) return false;
    out->data = s->whole->data + s->first * (bits / 8);
    return true;
}

static bool is_whole(const struct pith_tensor *t, const struct pith_slice *list, size_t count)
{
    size_t lo = 0, hi = count; /* slices of one whole stand together, wholes in order */
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (list[mid].whole < t) lo = mid + 1;
        else hi = mid;
    }
    return lo < count && list[lo].whole == t;
}

static int compare_whole(const void *a, const void *b)
{
    const struct pith_slice *x = a, *y = b;
    return (x->whole > y->whole) - (x->whole < y->whole);
}

/* The new list of tensors, and the wholes, in memory that is there. */
static enum pith_status fill(struct pith_checkpoint *c, const struct pith_slice *list, size_t count,
                             struct pith_tensor *tensors, char *names, struct pith_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (is_whole(&c->tensors[i], list, count)) c->wholes[c->whole_count++] = c->tensors[i];
        else tensors[n++] = c->tensors[i];
    }
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(list[i].name) + 1;
        memcpy(names, list[i].name, length);
        if (!make(&list[i], names, &tensors[n++]))
            return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s\" has no place for \"%.100s\"",
                             c->dir, list[i].whole->name, list[i].name);
        names += length;
    }
    qsort(tensors, n, sizeof *tensors, pith_tensor_by_name);
    for (size_t i = 1; i < n; i++)
        if (pith_tensor_by_name(&tensors[i - 1], &tensors[i]) == 0)
            return pith_fail(err, PITH_FORMAT,
                             "%s: tensor \"%.100s\" is there, and in another tensor again", c->dir,
                             tensors[i].name);
    return PITH_OK;
}

const struct pith_tensor *pith_checkpoint_whole(const struct pith_checkpoint *c,
                                                const struct pith_tensor *t)
{
    for (size_t i = 0; i < c->whole_count; i++)
        if (pith_tensor_within(t, &c->wholes[i])) return &c->wholes[i];
    return NULL;
}

const struct pith_tensor *pith_checkpoint_find_stored(const struct pith_checkpoint *c,
                                                      const char *name)
{
    const struct pith_tensor key = {.name = name};
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    if (t && !t->slice) return t;
    if (!c->whole_count) return NULL;
    return bsearch(&key, c->wholes, c->whole_count, sizeof key, pith_tensor_by_name);
}

enum pith_status pith_checkpoint_slice(struct pith_checkpoint *c, const struct pith_slice *list,
                                       size_t count, struct pith_error *err)
{
    size_t bytes = 0;
    if (count == 0) return PITH_OK;
    for (size_t i = 0; i < count; i++) bytes += strlen(list[i].name) + 1;
    struct pith_slice *sorted = pith_alloc(count, sizeof *sorted);
    struct pith_tensor *tensors = pith_alloc(c->count + count, sizeof *tensors);
    char *names = pith_alloc(bytes, 1);
    c->wholes = pith_alloc(c->count, sizeof *c->wholes);
    enum pith_status s = PITH_OK;
    if (!sorted || !tensors || !names || !c->wholes) s = pith_fail_nomem(err, "slices of tensors");
    if (s == PITH_OK) {
        memcpy(sorted, list, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_whole);
        s = fill(c, sorted, count, tensors, names, err);
    }
    pith_free(sorted);
    if (s != PITH_OK) {
        pith_free(c->wholes);
        pith_free(tensors);
        pith_free(names);
        c->wholes = NULL;
        c->whole_count = 0;
        return s;
    }
    pith_free(c->tensors);
    c->tensors = tensors;
    c->slice_names = names;
    c->count = c->count + count - c->whole_count;
    return PITH_OK;
}
