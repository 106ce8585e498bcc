/* backend/cache/pages.h: what the files of kinds of caches share: where the parts of a head's page
 * lie, the functions of pages that kinds name in their struct pith_kv_kind, and the kind of a side.
 *
 *     keys of a head    codes [cols][32] | scales [groups][32], or by channel [cols] | floats
 *     its values        codes [32][cols] | scales [32][groups]
 *
 * with codes as streams of bits, and behind keys the columns that no grid holds, in 16 bits. */
#ifndef PITH_BACKEND_CACHE_PAGES_H
#define PITH_BACKEND_CACHE_PAGES_H

#include "backend/cache/kinds.h"
#include "backend/parts.h"

/* Of these rows of queries on it pays to make a page floats for all of them. */
enum { PITH_FEW_ROWS = 30 };

/* Some rows of a head, ld floats apart, for positions that follow each other in one page, which is
 * the head's part of it. */
struct pith_cache_put {
    const float *from;
    size_t ld, count, position, kv;
    char *page;
};

/* `count` queries q [count][ldq] and their scores with 32 keys, [count][ld]. */
struct pith_page_scores {
    size_t count;
    const float *q;
    size_t ldq;
    float *scores;
    size_t ld;
    float *query; /* [count][the kind's query_floats()] */
    float *work;  /* PITH_KC * PITH_NC floats */
};

/* Sides without codes, and grids, which are no rows of kv.def. */
extern const struct pith_kv_kind pith_kv_float, pith_kv_grid;
static inline const struct pith_kv_kind *pith_cache_kind(const struct pith_cache_side *s)
{
    if (!s->code) return &pith_kv_float;
    return s->code->kind ? s->code->kind : &pith_kv_grid;
}

/* Bytes of one value's codes; of 32 keys' codes of one element, and of all elements; of the scales,
 * zeros and offsets of a page. */
static inline size_t pith_value_stride(const struct pith_row_code *r)
{
    return ((size_t)r->cols * r->bits + 7) / 8;
}
static inline size_t pith_key_stride(const struct pith_row_code *r)
{
    return 4 * (size_t)r->bits;
}
static inline size_t pith_key_codes(const struct pith_row_code *r)
{
    return r->cols * pith_key_stride(r);
}
static inline size_t pith_page_scale_bytes(const struct pith_row_code *r)
{
    return (r->channels ? 1 : PITH_KEYS) * (size_t)r->groups * pith_row_group_bytes(r);
}

/* n floats to and from the 16-bit format that a side is stored in. */
static inline void pith_side_narrow(const struct pith_backend *b, const struct pith_cache_side *s,
                                    size_t n, const float *from, void *to)
{
    (s->dtype == PITH_F16 ? b->kern.narrow_f16 : b->kern.narrow_bf16)(n, from, to);
}
static inline void pith_side_widen(const struct pith_backend *b, const struct pith_cache_side *s,
                                   size_t n, const void *from, float *to)
{
    (s->dtype == PITH_F16 ? b->kern.widen_f16 : b->kern.widen_bf16)(n, from, to);
}

/* Of a page of keys in codes the columns that no grid holds (there may be none), behind those that
 * wide [dim][32] has. */
static inline void pith_widen_plain(const struct pith_backend *b, const struct pith_cache_side *k,
                                    const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    if (k->plain)
        pith_side_widen(b, k, k->plain * PITH_KEYS,
                        rows->page + pith_key_codes(r) + pith_page_scale_bytes(r),
                        wide + (size_t)r->cols * PITH_KEYS);
}

/* cache/floats.c: columns [first, first + n) of rows of keys in 16 bits to `to`, [n][32]. */
void pith_store_columns(const struct pith_backend *b, const struct pith_cache_side *k,
                        const struct pith_cache_put *put, size_t first, size_t n, char *to);

/* cache/codes.c: the functions of kinds whose rows are codes and scales, x' as num/rowcode.h says:
 * pages as above, kernels that read them in place for few rows of queries, tiles for many. */
bool pith_coded_page_bytes(const struct pith_cache_side *s, bool keys, size_t *bytes);
void pith_coded_store(struct pith_backend *b, const struct pith_cache_side *s, bool keys,
                      const struct pith_cache_put *put);
const float *pith_coded_key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                                 const struct pith_cache_rows *rows, float *wide);
const float *pith_coded_value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                                   const struct pith_cache_rows *rows, float *wide);
void pith_coded_scores(const struct pith_backend *b, const struct pith_cache_side *k,
                       const struct pith_cache_rows *rows, const struct pith_page_scores *s);
void pith_coded_values(const struct pith_backend *b, const struct pith_cache_side *v,
                       const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                       float *work);
/* attention_bytes.c: whether these are integers of 4 or 8 bits. */
bool pith_coded_takes_bytes(const struct pith_cache_side *s, bool values);

/* cache.c: any kind's scores and values, by its tiles. */
void pith_tile_scores(const struct pith_backend *b, const struct pith_cache_side *k,
                      const struct pith_cache_rows *rows, const struct pith_page_scores *s);
void pith_tile_values(const struct pith_backend *b, const struct pith_cache_side *v,
                      const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                      float *work);

/* The kernels' kind of such codes; false where they know none, or have no room for the scales,
 * zeros and offsets of a page. */
bool pith_coded_kind(const struct pith_row_code *r, enum pith_code_kind *kind);
/* The scales of `count` codes or groups of a head, at `at`, to lists in work, 4 * count floats,
 * which *out then names: scales, and zeros or offsets. `of_head` is a static scale. */
struct pith_page_scales {
    const uint8_t *at;
    size_t count;
    float of_head;
};
void pith_spread_scales(const struct pith_backend *b, const struct pith_row_code *r,
                        const struct pith_page_scales *list, float *work, struct pith_coded *out);

#endif
