/* backend/cache/key_offset.h: a known part of keys, which is subtracted before a cache rounds them.
 *
 *     stored: k - R_t o                  score: q (k - R_t o) + q R_t o
 *
 * o is a vector of each head, before the rotation R_t of position t (rope): the bias of the
 * projection, or a middle of each channel from calibration. What is added to a score is computed
 * from o in float32, whatever keys are rounded to. With pairs (a, b) of elements that R_t rotates
 * together
 *
 *     q R_t o = sum of c cos(t w) + s sin(t w),  c = q_a o_a + q_b o_b,  s = q_b o_a - q_a o_b
 *
 * and with t = 32 p + i that is the same sum over i of c' cos(i w) + s' sin(i w), where (c', s') is
 * (c, s) rotated by the angle of page p: a product with one table of 32 positions for all pages,
 * heads and layers. */
#ifndef PITH_BACKEND_CACHE_KEY_OFFSET_H
#define PITH_BACKEND_CACHE_KEY_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_backend;
struct pith_cache_span;

/* Of the keys of a layer; all borrowed. */
struct pith_key_offset {
    const float *of;      /* [kv_heads][dim], before rope; NULL: they have none */
    const float *page;    /* [pages][2 * pairs]: cosines, then sines of a page's first position */
    const float *within;  /* [2 * pairs][32]: sines, then cosines of 0 .. 31 */
    size_t kv_heads, dim; /* dim at most PITH_OFFSET_DIM */
    size_t first, pairs;  /* elements [first, first + 2 * pairs) of a head are rotated; 0: none */
    bool adjacent;        /* pairs are (2 i, 2 i + 1), else (i, i + pairs), from `first` on */
    uint32_t hadamard;    /* queries come multiplied by a Hadamard matrix of that size; 0: not */
};
enum { PITH_OFFSET_DIM = 1024 };

/* Subtracts it from keys k[span->n][kv_heads][dim], after rope. */
void pith_key_offset_take(struct pith_backend *b, const struct pith_key_offset *o,
                          const struct pith_cache_span *span, float *k);

/* Floats of what a query needs of it. */
static inline size_t pith_key_offset_floats(const struct pith_key_offset *o)
{
    return 2 * o->pairs + 1;
}
/* A scaled query q[dim] of a head, as scores are made of it. */
void pith_key_offset_query(const struct pith_key_offset *o, size_t kv, const float *q, float *out);
/* Scores [pages * 32] of such a query, of the pages from `page` on. */
struct pith_offset_scores {
    const float *query; /* of pith_key_offset_query() */
    size_t page, pages; /* at most PITH_OFFSET_PAGES */
    float *scores;
    float *work; /* PITH_OFFSET_PAGES * (2 * pairs + 32) floats */
};
enum { PITH_OFFSET_PAGES = 16 };
/* Adds the offset of keys to them. */
void pith_key_offset_add(const struct pith_backend *b, const struct pith_key_offset *o,
                         const struct pith_offset_scores *s);

#endif
