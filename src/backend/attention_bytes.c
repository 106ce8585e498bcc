/* The fast mode's attention over codes that are integers of 4 or 8 bits: queries, and weights times
 * the scales of values, as rows of bytes. Weights are rounded page by page, so that a query's
 * result does not depend on the positions that others see. */
#include "backend/cache/pages.h"

#include "base/mem.h"
#include "num/rowcode.h"

#include <string.h>

enum { BLOCK = PITH_CODED_BLOCK };
/* Lists of a page: what has a number for each position and group. */
enum { LIST = PITH_CODED / BLOCK * PITH_KEYS };
enum { VIEW_FLOATS = 4 * LIST };
_Static_assert(VIEW_FLOATS + 2 * LIST <= PITH_KC * PITH_NC, "they fit with the view of a page");
_Static_assert((int)BLOCK == (int)PITH_KEYS, "a page's positions are a block");

/* Each group of values makes bytes of all weights: for many groups of 8 bits that takes as long as
 * it saves. */
bool pith_coded_takes_bytes(const struct pith_cache_side *s, bool values)
{
    const struct pith_row_code *r = s->code;
    if (values && r->bits == 8 && r->groups > 1) return false;
    return !r->level && !r->channels && s->plain == 0 && (r->bits == 4 || r->bits == 8) &&
           r->cols % BLOCK == 0 && r->width % BLOCK == 0;
}

size_t pith_query_bytes_floats(size_t dim)
{
    return dim / 4 + 3 * (dim / BLOCK);
}

struct pith_query_bytes pith_query_bytes(const struct pith_cache_side *k, size_t rows,
                                         float *memory)
{
    const size_t dim = k->dim, blocks = dim / BLOCK;
    struct pith_query_bytes q = {.dim = dim, .scale = memory, .total = memory + rows * blocks};
    q.sum = (int32_t *)(void *)(q.total + rows * blocks);
    q.q = (int8_t *)(q.sum + rows * blocks);
    return q;
}

void pith_query_bytes_fill(const struct pith_backend *b, const struct pith_query_bytes *q,
                           size_t rows, const float *x)
{
    b->kern.to_bytes(rows * q->dim, BLOCK, x, q->q, q->scale, q->sum);
    pith_offsets_sums(x, rows * q->dim, BLOCK, q->total);
}

struct pith_query_bytes pith_query_bytes_from(const struct pith_query_bytes *q, size_t row)
{
    const size_t at = row * (q->dim / BLOCK);
    return (struct pith_query_bytes){.dim = q->dim,
                                     .q = q->q + row * q->dim,
                                     .scale = q->scale + at,
                                     .total = q->total + at,
                                     .sum = q->sum + at};
}

/* The offsets of n codes less their middle, from those of unsigned codes, or from zeros. */
static inline void centre_some(size_t n, bool zeros, float middle, const float *restrict scale,
                               float *restrict offset)
{
    for (size_t i = 0; i < n; i++)
        offset[i] = zeros ? (middle - offset[i]) * scale[i] : offset[i] + middle * scale[i];
}

/* Unsigned codes become codes less the middle. In work are the scales, and behind them the zeros or
 * offsets; lists of whole pages by 32, a number of steps that compilers know. */
static void centre(struct pith_coded *c, size_t count, float *work)
{
    const bool zeros = c->zero != NULL;
    const float middle = pith_coded_bits(c) == 8 ? 128.0f : 8.0f;
    float *offset = work + count;
    size_t i = 0;
    if (!c->zero && !c->offset) return;
    for (; i + BLOCK <= count; i += BLOCK) centre_some(BLOCK, zeros, middle, work + i, offset + i);
    centre_some(count - i, zeros, middle, work + i, offset + i);
    c->zero = NULL;
    c->offset = offset;
}

void pith_score_bytes(const struct pith_backend *b, const struct pith_cache_side *k,
                      const struct pith_key_scores *s, float *work)
{
    struct pith_coded codes;
    const struct pith_query_bytes *q = s->q;
    if (!pith_cache_key_view(b, k, s->rows, work, &codes)) return;
    centre(&codes, k->code->groups * PITH_KEYS, work);
    b->kern.attn_scores_bytes(&codes,
                              &(struct pith_coded_bytes){.rows = s->count,
                                                         .blocks = q->dim / BLOCK,
                                                         .q = q->q,
                                                         .scale = q->scale,
                                                         .sum = q->sum,
                                                         .total = codes.offset ? q->total : NULL},
                              s->scores, s->ld);
}

/* [n][groups] to [groups][32], those of positions first .. first + n - 1. */
static void transpose_list(const struct pith_kern *k, const struct pith_cache_rows *rows,
                           size_t groups, const float *from, float *to)
{
    if (rows->n < PITH_KEYS) memset(to, 0, groups * PITH_KEYS * sizeof *to);
    if (groups == 1) memcpy(to + rows->first, from, rows->n * sizeof *to);
    else k->transpose(rows->n, groups, from, groups, to + rows->first, PITH_KEYS);
}

void pith_add_bytes(const struct pith_backend *b, const struct pith_cache_side *side,
                    const struct pith_cache_rows *rows, const struct pith_coded_sums *s,
                    float *work)
{
    const size_t groups = side->code->groups;
    float *scale = work + VIEW_FLOATS, *offset = scale + LIST;
    struct pith_coded codes;
    if (!pith_cache_value_view(b, side, rows, work, &codes)) return;
    centre(&codes, rows->n * groups, work);
    codes.codes -= rows->first * codes.stride;
    transpose_list(&b->kern, rows, groups, codes.scale, scale);
    if (codes.offset) transpose_list(&b->kern, rows, groups, codes.offset, offset);
    codes.scale = scale;
    codes.offset = codes.offset ? offset : NULL;
    b->kern.attn_values_bytes(&codes, s);
}
