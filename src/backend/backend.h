/* backend/backend.h: operations on whole matrices: threads, tiles and packing around the kernels
 * of kern/.
 *
 * Everything here is the exact mode: float32, each output element summed by fused
 * multiply-adds in a fixed order. So results are the same bits for any thread count and any
 * instruction set, and do not depend on which other rows or columns are computed in the same
 * call. No BLAS library is used: their sums are cut up by thread count and CPU model, so their last
 * bits depend on the machine. */
#ifndef PITH_BACKEND_BACKEND_H
#define PITH_BACKEND_BACKEND_H

#include "base/pool.h"
#include "base/ranks/ranks.h"
#include "base/status.h"
#include "num/qmat.h"

#include <stdbool.h>
#include <stddef.h>

struct pith_backend;
struct pith_key_offset;

/* pool is borrowed (NULL: one thread). cpu_mask limits the instruction sets (PITH_CPU_ALL: no
 * limit). */
enum pith_status pith_backend_new(struct pith_pool *pool, uint32_t cpu_mask,
                                  struct pith_backend **out, struct pith_error *err);
void pith_backend_free(struct pith_backend *b);
struct pith_pool *pith_backend_pool(const struct pith_backend *b);
/* The ranks that share the work (borrowed; NULL, the initial value: none), for callers that cut
 * work into runs of windows or matrices: products themselves are made by one rank. */
void pith_backend_set_ranks(struct pith_backend *b, struct pith_ranks *ranks);
struct pith_ranks *pith_backend_ranks(const struct pith_backend *b);
/* "avx2": the tier in use. */
const char *pith_backend_cpu(const struct pith_backend *b);
/* The kernels of that tier, for work that is handed out as tasks elsewhere. */
struct pith_kern;
const struct pith_kern *pith_backend_kern(const struct pith_backend *b);
/* Bytes of scratch that a backend with that many threads holds (for memory estimates), but for
 * what only products with packed integers touch: 1 MiB, and 10 MiB of many rows. */
size_t pith_backend_bytes(unsigned threads);
/* Those: of products of so many rows with packed integers of so many columns at most, in the mode
 * that is set; and of matrices that need pith_backend_take_prepared(). */
size_t pith_backend_integer_bytes(const struct pith_backend *b, size_t rows, size_t cols);
size_t pith_backend_prepared_bytes(void);

/* exact (at first): what the numbers mean, the same bits on every machine; pith_linear over packed
 * integer weights makes integers of 24 bits of activations (kern/panel.h). fast: pith_linear over
 * packed integer weights rounds activations to bytes, a scale for 64 of them, and multiplies
 * integers; everything else is as in exact. bf16: pith_linear and pith_syrk round both operands to
 * bfloat16 and add in float32, even and odd columns (rows) apart, 32 a step (kern/ops.h);
 * everything else is as in exact. The bits of these two are the same on every machine as well.
 * PITH_NOMEM, with the mode unchanged, when there is no memory for bf16 (which stays allocated). A
 * matrix of which 256 rows (syrk) or the tile's (linear) exceed that is multiplied as in exact.
 */
enum pith_mode { PITH_MODE_EXACT, PITH_MODE_FAST, PITH_MODE_BF16 };
enum pith_status pith_backend_set_mode(struct pith_backend *b, enum pith_mode mode,
                                       struct pith_error *err);
enum pith_mode pith_backend_mode(const struct pith_backend *b);
/* pith_backend_integer_bytes() of any backend in a mode. */
size_t pith_mode_integer_bytes(enum pith_mode mode, size_t rows, size_t cols);
/* What bf16 takes, in bytes. */
size_t pith_backend_bf16_bytes(unsigned threads);
/* Takes the memory of what pith_linear() makes of x, 8 MiB, unless it is there: before the first
 * product with a matrix whose pith_pack_prepares() is true (backend/pack.h). */
enum pith_status pith_backend_take_prepared(struct pith_backend *b, struct pith_error *err);

/* C[m][n] = A[m][k] * B[k][n], or C += / C -=, C(i, j) = fma(+-A(i, p), B(p, j), C(i, j)) for p
 * = 0, 1, ... from 0 or from C. C overlaps neither A nor B. Strides in elements let either
 * operand be transposed: A(i, p) = a[i * a_rs + p * a_cs], B(p, j) = b[p * b_rs + j * b_cs],
 * C(i, j) = c[i * ldc + j]. */
struct pith_gemm {
    size_t m, n, k;
    const float *a;
    size_t a_rs, a_cs;
    const float *b;
    size_t b_rs, b_cs;
    float *c;
    size_t ldc;
    bool accumulate; /* C += A B; otherwise C is overwritten */
    bool negate;     /* with accumulate: C -= A B */
};
/* Over all threads, as everything below. Not from inside a pool task. */
void pith_gemm(struct pith_backend *b, const struct pith_gemm *g);

/* y[n][rows] = x[n][cols] * W^T + bias (bias NULL or [rows]). Decodes W a panel at a time, so a
 * quantized or 16-bit matrix is never expanded whole. For n = 1 the cost is one pass over the
 * stored weights.
 *
 * The bits of a row of y do not depend on n. An element is one chain of multiply-adds over the
 * columns in order, as in pith_gemm, of values of W that are rounded to float32; packed integers in
 * groups of multiples of 128 columns, or one a row, have the sum of digits that kern/panel.h
 * describes instead. What offsets add comes after the sum over the codes (backend/parts.h). "In
 * order" is, for a packed matrix with a permuted order (backend/pack.h), the order in which columns
 * lie in the panels. The bias is added last. */
void pith_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                 const float *x, size_t n, float *y);

/* y = x W^T + bias for one row of x, as pith_linear() gives it, of each of them; those of packed
 * matrices, up to PITH_PRODUCTS at a time, in one run over the threads, so that none waits for a
 * small one to end. No y is another's x. */
enum { PITH_PRODUCTS = 64 };
struct pith_product {
    const struct pith_weight *w;
    const float *bias, *x;
    float *y;
};
void pith_linear_products(struct pith_backend *b, const struct pith_product *products,
                          size_t count);

/* h[d][d] += alpha * x^T x for x[n][d]; both triangles stay equal (the lower one is overwritten by
 * the upper). Sums are taken over 256 rows at a time, in order, and then h = fma(alpha, sum, h): so
 * many rows lose little, and calls with multiples of 256 rows give the same bits as one call with
 * all of them. */
void pith_syrk(struct pith_backend *b, float *h, size_t d, const float *x, size_t n, float alpha);

/* Rows [first, first + rows) of the upper triangle of h[d][d]. */
struct pith_syrk_part {
    float *h;
    size_t d, first, rows;
};
/* What pith_syrk() adds to those alone: all of them, and a pith_syrk() of no rows at the end, give
 * its bits in the modes that do not round its operands (PITH_MODE_BF16 does). */
void pith_syrk_rows(struct pith_backend *b, const struct pith_syrk_part *part, const float *x,
                    size_t n, float alpha);

/* Factors a symmetric positive definite h[d][d] = R R^T in place, R upper triangular (the strict
 * lower triangle is set to 0): the ordinary Cholesky factor of the matrix with both axes
 * flipped. PITH_NUMERIC when a pivot is not positive; *pivot (may be NULL) receives its index
 * and h is then destroyed. */
enum pith_status pith_cholesky_upper(struct pith_backend *b, float *h, size_t d, size_t *pivot,
                                     struct pith_error *err);
/* The same of an h that all of those ranks have: each does a part of the work, and all end with the
 * bits of a rank alone, or with the same failure. Ranks NULL: alone. Also PITH_NOMEM, and what
 * pith_ranks_share() may say. */
enum pith_status pith_cholesky_shared(struct pith_backend *b, struct pith_ranks *ranks, float *h,
                                      size_t d, size_t *pivot, struct pith_error *err);
/* Bytes that this takes in addition to h; 0: ranks do not share the work, as h is small. */
uint64_t pith_cholesky_scratch(unsigned ranks, size_t d);

/* y[i] = x[i] / sqrt(mean(x[i]^2) + eps) * weight, for n vectors of dim; y may be x, weight NULL
 * (ones). (Zhang and Sennrich 2019.) The mean is summed in double. */
void pith_rmsnorm(struct pith_backend *b, const float *x, size_t n, size_t dim, const float *weight,
                  double eps, float *y);

/* gate[i] = silu(gate[i]) * up[i], silu(z) = z / (1 + exp(-z)). */
void pith_silu_mul(struct pith_backend *b, float *gate, const float *up, size_t count);

/* Rotates, in place, `heads` vectors of head_dim in each of n rows (row stride ldx) by the
 * angles of the row's position: rotate-half pairs (i, i + head_dim/2) as Hugging Face does. cos
 * and sin are [n][head_dim/2], already scaled by the attention factor. */
void pith_rope(struct pith_backend *b, float *x, size_t n, size_t ldx, size_t heads,
               size_t head_dim, const float *cos, const float *sin);

/* y[i] += x[i]. */
void pith_add(struct pith_backend *b, const float *x, float *y, size_t count);

/* One layer of a pool of pages of keys and values. A page holds 32 positions of all heads of the
 * layer, first the keys, head by head, then the values; in float32, in bfloat16 (rounded to
 * nearest, ties to even, when stored) or as codes on a grid, each row, which is a head of a
 * position, by itself.
 *
 *     k of a head: element by element                   v of a head: a row a position
 *     +------------------------------------+           +-------------------------------+
 *     | k0[0] k1[0] k2[0] ...       k31[0] |           | v0[0] v0[1] ... v0[dim-1] 0 0 |
 *     | k0[1] k1[1] k2[1] ...       k31[1] |           | v1[0] v1[1] ... v1[dim-1] 0 0 |
 *     | ...              k31[head_dim - 1] |           | ...                           |
 *     +------------------------------------+           +-------------------------------+
 *
 * So a vector holds one element of neighbouring keys, which are added up lane by lane and never
 * across, or neighbouring elements of one value. Rows of floats of v are padded to a multiple of
 * 16, and so is the number of elements of a key. Codes lie likewise, in as many bits as they have:
 * those of an element of 32 keys, or of a value padded to a byte, are a little-endian stream. The
 * scales of groups, and zeros or offsets, follow: [groups][32] for keys, [32][groups] for values;
 * and behind them in bfloat16 what of a key is not on the grid. Of keys by channel one group an
 * element follows: they become codes when their page is full. cache/kvquant.c describes
 * num/kvquant.h's pages. */
/* How keys that are stored before rope are rotated when they are read: elements [offset, offset +
 * dim) of a head, in pairs as struct pith_rope_part has them. */
struct pith_cache_rope {
    const float *cos, *sin; /* [pages][dim / 2][32]: of each position; borrowed */
    size_t offset, dim;
    bool adjacent;
    float back; /* 1 / (cos^2 + sin^2) */
};
struct pith_cache_side {
    enum pith_dtype dtype;              /* PITH_F32, _BF16, _F16, where there is no grid */
    const struct pith_row_code *code;   /* borrowed; NULL: floats. At most PITH_CODED columns. */
    const float *scale;                 /* [kv_heads] of static grids, borrowed; NULL: 1 */
    const float *middle, *range;        /* [kv_heads][dim] of keys of num/kvquant.h, borrowed */
    const struct pith_cache_rope *rope; /* of such keys, borrowed; NULL: they have none */
    size_t dim;                         /* floats: at most 32768 */
    size_t plain; /* of them, the last, which are not on the grid (keys only) */
    size_t bytes; /* of one head in a page */
};
enum { PITH_CODED = 1024 };
struct pith_cache {
    size_t kv_heads;
    struct pith_cache_side k, v;
    bool joined; /* values are the first v.dim numbers of keys (latents), as those are stored: they
                    take no further bytes; by channel only where k.plain is not 0 */
    size_t page_bytes;
    /* Borrowed. Page i begins at i * page_bytes, its values behind its keys; or, where `apart` says
     * how many pages there are, the keys of page i lie at i * key_bytes and behind all keys the
     * values. Pages that follow each other are then read without a jump. */
    char *memory;
    size_t apart, key_bytes;
};
/* Fills in the bytes from the rest. False when they overflow. */
bool pith_cache_layout(struct pith_cache *c);
/* The pages that so many positions take. */
static inline size_t pith_cache_pages(size_t positions)
{
    return positions / 32 + (positions % 32 != 0);
}

/* Some positions of one sequence: start .. start + n - 1. */
struct pith_cache_span {
    size_t start, n;
    /* [pith_cache_pages(start + n)]: where in the pool the sequence's pages are; NULL: page i is i.
     * Pages that nothing sees are not looked at. */
    const uint32_t *page;
    const uint32_t *plain; /* likewise in the pool of struct pith_attention's plain, where needed */
};
/* Stores k [n][kv_heads][head_dim] and v [n][kv_heads][value_dim] as the positions of a span; but
 * no keys by channel, and no values that are joined with keys. */
void pith_cache_store(struct pith_backend *b, const struct pith_cache *c,
                      const struct pith_cache_span *span, const float *k, const float *v);

/* Keys by channel: codes of the pages that a span fills, from `floats`, where it is stored
 * (span->plain). Nothing for other caches. */
void pith_cache_close(struct pith_backend *b, const struct pith_cache *c,
                      const struct pith_cache *floats, const struct pith_cache_span *span);

/* One head of one position, as attention reads it: its key, then its value. */
void pith_cache_read(const struct pith_backend *b, const struct pith_cache *c,
                     const struct pith_cache_span *span, size_t position, size_t kv, float *out);

/* Causal attention of the queries of spans, each over its own sequence's positions 0 .. start + n -
 * 1, which are stored. A query's result depends neither on its span's n nor on the other spans:
 * decoding gives the same bits as a whole prompt, alone or in company. Allocates nothing.
 *
 * Positions are taken in chunks 0 .. 511, 512 .. 1023, and so on. Of each, those that the query
 * sees give m = the largest score, l = the sum of e = exp(score - m), 16 lanes by position, and o =
 * the sum of e times value, one chain in order. Chunks are merged in order: with M' = max(M, m), a
 * = exp(M - M') and b = exp(m - M'), L = fma(a, L, b l) and O = fma(a, O, b o); the result is O
 * times 1 / L. (Softmax by parts: Milakov and Gimelshein 2018.) With keys by channel, code * scale
 * + least, a score is the chain of query * scale with codes, plus the sum in lanes of query *
 * least. The offset of keys (backend/cache/key_offset.h) is added to scores last. */
struct pith_attention {
    const struct pith_cache_span *span; /* their rows follow each other in q and out */
    size_t spans;
    size_t heads;  /* a multiple of the cache's kv_heads */
    size_t window; /* sliding window: the newest `window` keys are seen; 0: all */
    bool chunked;  /* it does not slide: seen are the keys of the query's own `window` positions,
                      which begin at a multiple of it (Llama 4) */
    float scale;   /* usually 1 / sqrt(head_dim) */
    float cap;     /* scores are cap tanh(score / cap) (Gemma 2); 0: as they are */
    /* [heads], or NULL: a score for each head that takes part in the softmax and has no value
     * (gpt-oss). */
    const float *sinks;
    const struct pith_cache *cache;
    /* NULL, or what a query sees instead of the first `sink` pages and of the newest `recent`, its
     * own page among them: the same positions in floats. */
    const struct pith_cache *plain;
    size_t sink, recent; /* with keys by channel at least 1 */
    /* NULL, or to what queries are rounded, and weights of values with a scale of
     * PITH_ATTN_STEP. */
    const struct pith_input *rounded;
    const struct pith_key_offset *offset; /* the offset of keys, which is not stored; NULL: none */
    const float *q;                       /* [rows][heads][head_dim] */
    float *out;     /* [rows][heads][value_dim]; may be q where both are as wide */
    float *work;    /* lets threads share the positions of one query; NULL: none */
    size_t work_floats;
};
void pith_attention(struct pith_backend *b, const struct pith_attention *a);
/* Kernels on FP8 operands (FlashAttention 3: Shah et al. 2024) round what is multiplied with
 * values, exp(score - the largest of those at work), 2^8 times as large, and sum it as it was
 * before. Here those at work are up to 512 positions from a multiple of 512 on. */
#define PITH_ATTN_STEP 0x1p-8f
/* Floats of work that serve one query over that many positions, with values so wide; SIZE_MAX when
 * they overflow. With less, or with more queries, threads share kv heads and blocks of queries
 * only, to the same bits.
 */
size_t pith_attention_work(size_t heads, size_t value_dim, size_t positions);

/* For each of n rows of logits[rows][vocab]: log(sum(exp(row))), in double. */
void pith_logsumexp(struct pith_backend *b, const float *logits, size_t n, size_t vocab,
                    double *out);

/* Rows [row, row + n) of w as float32, out[n][cols]: the bits of pith_weight_decode(), by the
 * kernels and the calling thread, so also from inside a pool task. */
void pith_decode_rows(const struct pith_backend *b, const struct pith_weight *w, uint32_t row,
                      uint32_t n, float *out);

/* Of each segment of `segment` logits, the last one maybe shorter: the largest logit (NaN passed
 * over; -infinity when there is no other). */
void pith_segment_max(struct pith_backend *b, const float *x, size_t n, size_t segment, float *out);
/* Likewise the sum of exp((x - max) * scale) in double; NaN when the segment has one. */
struct pith_segment_exp {
    const float *x;
    size_t n, segment;
    float max; /* not less than any x */
    double scale;
    double *out;
};
void pith_segment_sum_exp(struct pith_backend *b, const struct pith_segment_exp *s);

#endif
