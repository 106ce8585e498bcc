/* backend/parts.h: what the files of this folder share: the backend itself and the blocked
 * multiplication that pith_gemm, pith_linear, pith_syrk, pith_cholesky_upper and pith_attention
 * are made of. */
#ifndef PITH_BACKEND_PARTS_H
#define PITH_BACKEND_PARTS_H

#include "backend/backend.h"
#include "backend/input.h"
#include "backend/pack.h"
#include "kern/coded.h"
#include "kern/ops.h"

#include <math.h>

/* Block sizes, in elements. Packed A (at most SLAB x KC) stays in the second cache, a panel of B
 * (KC x tile columns) in the first. The order of sums, and so the result, does not depend on them,
 * except that pith_syrk adds up SYRK_ROWS rows at a time by definition. SLAB is rounded down to a
 * multiple of the kernel's tile; NC only gives the scratch of B its size. */
enum { PITH_SLAB = 560, PITH_KC = 256, PITH_NC = 128, PITH_SYRK_ROWS = 256 };

/* Floats a thread holds for attention. */
enum { PITH_SCORES = 128 * 1024 };

/* One thread's private memory, all parts aligned to 64 bytes. */
struct pith_thread_memory {
    float *a;      /* SLAB x KC, packed */
    float *b;      /* KC x NC: a panel of B */
    float *tile;   /* one tile of C at a border */
    float *rows;   /* PITH_TILE_COLS_MAX segments of KC decoded weights */
    float *scores; /* PITH_SCORES */
};

/* Activations as bytes, or three digits of bytes, in the backend's own memory. */
enum {
    PITH_BYTES_COLS = 64 * 1024,
    PITH_BYTES_BLOCK = 32, /* columns, at least */
    PITH_BYTES_SCALES = PITH_BYTES_COLS / PITH_BYTES_BLOCK
};
/* So many rows of x are multiplied one by one with W as it is read, which is what takes time; more
 * are multiplied in tiles. The bits are the same. */
enum { PITH_VECTORS = 3 };
struct pith_byte_rows {
    int8_t *q;    /* [PITH_VECTORS + 1][PITH_DIGITS][PITH_BYTES_COLS] */
    float *scale; /* [PITH_VECTORS + 1][PITH_BYTES_SCALES] */
    int32_t *sum; /* [PITH_VECTORS + 1][PITH_DIGITS][PITH_BYTES_SCALES] */
};

/* Into how many tasks to cut the reading of a matrix of that many bytes. */
size_t pith_reading_tasks(const struct pith_backend *b, size_t bytes);

/* More rows of them, in tiles: bytes.c. */
struct pith_byte_slab;
enum pith_status pith_bytes_open(struct pith_byte_slab **out, struct pith_error *err);
/* What so many rows of so many columns touch of it. */
size_t pith_bytes_slab_bytes(enum pith_mode mode, size_t rows, size_t cols);
/* Whether many rows are multiplied with that matrix as integers, in the backend's mode. */
bool pith_bytes_fits(const struct pith_backend *b, const struct pith_pack *pack);
/* Whether that matrix has an integer product with x on the grid of its input, in any mode. */
bool pith_bytes_takes_input(const struct pith_pack *pack);

/* One product of x[n][cols] as bytes with a packed matrix. */
struct pith_bytes_call {
    const struct pith_pack *pack;
    const struct pith_input *input; /* x is on its grid; NULL: on the mode's own */
    const float *bias, *x;
    size_t n;
    float *y;
    const float *sums; /* of x over W's groups, whose offsets are added; NULL: they are not */
};
/* For any n. Offsets are not added to few rows. */
void pith_bytes_linear(struct pith_backend *b, const struct pith_bytes_call *c);
/* For n up to PITH_VECTORS: the same bits. */
void pith_bytes_linear_few(struct pith_backend *b, const struct pith_bytes_call *c);

/* Act-order: the columns of q by group, those of a group in order, to order[cols] (NULL: only
 * looks). False when groups have unequal numbers of columns, or there are more columns than
 * pith_linear() can put in order. */
enum { PITH_ORDER_GROUPS = 1024 /* sorted at a time */ };
bool pith_order_find(const struct pith_qmat *q, uint32_t *order);
/* Codes of columns order[0 .. n) of a row, a byte each / the same of a vector. */
void pith_order_codes(const uint8_t *stream, unsigned bits, const uint32_t *order, size_t n,
                      uint8_t *codes);
void pith_order_row(const uint32_t *order, size_t n, const float *x, float *out);

/* The integer that x is times d, which it is exactly; 0 when d is. */
int pith_pack_factor(float x, float d);

/* Offsets: bytes of their memory, 0 when they cannot be packed; packs them into memory aligned to
 * 64 bytes, where what is returned lies too. Over all threads. */
size_t pith_offsets_bytes(const struct pith_qform *f);
const struct pith_weight *pith_offsets_init(struct pith_backend *b, const struct pith_qmat *q,
                                            void *memory);
/* The sums of x[cols] over each group, in eight chains: s[c % 8] += x[c] for the columns of the
 * group in order, from 0 at its start; ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)). */
void pith_offsets_sums(const float *x, size_t cols, size_t group, float *sums);
/* Goes on with y[0 .. rows), rows [row, row + rows) of a product, by those rows of its offsets O
 * times sums; row is a multiple of PITH_PANEL_ROWS. After integers the product is offsets_dot's
 * where O is packed, else that of lanes_f16 or lanes_f32, and is added; after floats it goes on
 * with their chain. */
void pith_offsets_add(const struct pith_backend *b, const struct pith_pack *pack, size_t row,
                      size_t rows, const float *sums, float *y);
/* The same of n rows of y, of which `y` is element `row` of the first, and of their sums; after
 * integers only. Offsets in one level are made floats once, in the thread's `scores`. */
struct pith_offsets_call {
    const struct pith_pack *pack;
    size_t row, rows, n;
    const float *sums;
    float *y;
};
void pith_offsets_add_rows(const struct pith_backend *b, unsigned thread,
                           const struct pith_offsets_call *c);

/* Whether levels_unpack() reads rows of q. */
bool pith_levels_fit(const struct pith_qmat *q);
/* Columns [col, col + n) of a row of such a matrix;  col is a multiple of
 * 8. */
void pith_levels_segment(const struct pith_kern *k, const struct pith_qmat *q, size_t row,
                         size_t col, size_t n, float *out);

/* Whether pith_trellis_linear() multiplies with q; and such a product, as pith_linear() wants it.
 * pith_linear_as_packed() then is a product with V. */
bool pith_trellis_fits(const struct pith_qmat *q);
void pith_trellis_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                         const float *x, size_t n, float *y);
/* Columns [col, col + cols) of rows [row, row + rows) of a matrix. */
struct pith_region {
    size_t row, rows, col, cols;
};
/* Those of V, cols floats a row; col and cols are multiples of 16. */
void pith_trellis_region(const struct pith_kern *k, const struct pith_qmat *q,
                         const struct pith_region *at, float *out);
/* Rows of W, those of pith_qmat_decode(), by the kernels. */
void pith_trellis_rows(const struct pith_kern *k, const struct pith_qmat *q, size_t row, size_t n,
                       float *out);

/* What pith_linear() makes of x for some packed matrices, of all rows that fit. */
enum { PITH_PREPARED_FLOATS = 2 << 20, PITH_PREPARED_ROWS = 8 /* at least */ };
/* pith_linear() with x's columns as they lie in the panels; of a matrix with offsets, for n up to
 * PITH_VECTORS the sums of x are in b->prepared, and for more rows offsets are not added. */
void pith_linear_as_packed(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                           const float *x, size_t n, float *y);

struct pith_backend {
    struct pith_pool *pool; /* borrowed, may be NULL */
    struct pith_ranks *ranks;
    unsigned threads;
    uint32_t mask;
    enum pith_mode mode;
    struct pith_kern kern;
    struct pith_byte_rows bytes;
    struct pith_byte_slab *slab;
    struct pith_bf16_operands *bf16;    /* NULL before bf16 is first used */
    float *prepared;                    /* [PITH_PREPARED_FLOATS], or NULL: prepare.c */
    uint64_t slab_fills, prepared_fills;
    struct pith_site_made *made; /* of the x of pith_linear() that is under way, or NULL */
    struct pith_thread_memory *scratch; /* one a thread */
    void *memory;
};

/* A weight matrix being decoded. */
struct pith_source {
    const struct pith_weight *w;
    bool ints, levels;         /* that kernels take */
    bool trellis;              /* what is decoded is V, in pith_source_region() */
    struct pith_reader reader; /* for what they do not */
};

/* Prepares s for w, which must outlive it. */
void pith_source_init(struct pith_source *s, const struct pith_weight *w);

/* The same of several rows, cols floats a row; of a trellis that pith_trellis_fits(), V. */
void pith_source_region(const struct pith_source *s, const struct pith_kern *k,
                        const struct pith_region *at, float *out);

/* C = A B with the variations that the operations need. */
struct pith_mul {
    size_t m, n, k;
    const float *a; /* A(i, p) = a[i * a_rs + p * a_cs] */
    size_t a_rs, a_cs;
    bool negate_a;
    /* Operands rounded to bfloat16, in panels (bf16.c): B is b_words where that is not NULL, and
     * sums are those of bf16_tile; A is then a_words, or, that being NULL, the rows of source. */
    const uint32_t *a_words, *b_words;
    const float *b; /* B(p, j) = b[p * b_rs + j * b_cs], or, b being NULL, W[j][p] of source */
    size_t b_rs, b_cs;
    const struct pith_source *source;
    float *c;
    size_t ldc;
    bool accumulate; /* sums start at C */
    bool scaled;     /* C += alpha * (sum over each PITH_KC of k) */
    float alpha;
    bool upper;        /* only elements with j >= i are read or written */
    bool mirror;       /* with upper: C is square, and C(j, i) = C(i, j) is written too */
    const float *bias; /* NULL, or added to each row of C at the end */
    size_t i0, j0;     /* where in C c begins */
};

/* A step of a product: elements [p, p + kc) of k, and what the kernel does with the sums. */
struct pith_step {
    const struct pith_kern *k;
    const struct pith_thread_memory *s;
    const struct pith_mul *mul;
    size_t rows, cols; /* of the kernel's tile */
    size_t p, kc;
    enum pith_tile_mode mode;
};
/* Rows [row, row + count) of a packed W, as a panel [kc][width] of float32. */
void pith_step_unpack(const struct pith_step *t, size_t row, size_t count, size_t width,
                      float *dst);

/* bf16.c: products of operands rounded to bfloat16, in memory of the backend's. */
struct pith_bf16_operands;
enum pith_status pith_bf16_open(unsigned threads, struct pith_bf16_operands **out,
                                struct pith_error *err);
void pith_bf16_close(struct pith_bf16_operands *h);
/* Words of a panel of `width` vectors of kc elements. */
size_t pith_bf16_size(size_t kc, size_t width);
/* Rows [i, i + count) of W, elements of the step, as panels of A; where the last one is larger it
 * has zeros. */
void pith_bf16_source(const struct pith_step *t, size_t i, size_t count, uint32_t *dst);
/* Whether the mode is on and a vector of k elements has room. */
bool pith_bf16_fits(const struct pith_backend *b, size_t k);
/* y[n][rows of W] = x[n][cols] W^T + bias. */
void pith_bf16_linear(struct pith_backend *b, const struct pith_source *source, const float *bias,
                      const float *x, size_t n, float *y);
/* That of pith_syrk. False, and nothing done, when 256 rows have no room. */
bool pith_bf16_syrk(struct pith_backend *b, const struct pith_mul *mul);

/* The block of m rows and n columns at (i, j) of the product, by one thread. */
struct pith_tile_block {
    size_t i, j, m, n;
};
void pith_mul_block(const struct pith_kern *k, const struct pith_thread_memory *s,
                    const struct pith_mul *mul, const struct pith_tile_block *block);
/* How a product is cut into blocks, one a task: at most so large, and in whole tiles. */
struct pith_cut {
    size_t rows, cols; /* of a block */
    size_t across;     /* blocks in a row of blocks */
    size_t count;
};
struct pith_cut pith_mul_cut(const struct pith_backend *b, const struct pith_mul *mul, size_t rows,
                             size_t cols);
struct pith_tile_block pith_cut_block(const struct pith_cut *cut, const struct pith_mul *mul,
                                      size_t i);
/* The whole product, over all threads. Not from inside a pool task. */
void pith_mul_run(struct pith_backend *b, const struct pith_mul *mul);

/* Elements of a row of v, and of as many keys. */
static inline size_t pith_cache_row(size_t dim)
{
    return (dim + 15) / 16 * 16;
}
/* A head's keys, or its values, in the page that holds a position. */
static inline size_t pith_cache_page(const struct pith_cache_span *s, size_t position)
{
    const size_t i = position / PITH_KEYS;
    return s->page ? s->page[i] : i;
}
static inline char *pith_cache_keys(const struct pith_cache *c, const struct pith_cache_span *s,
                                    size_t position, size_t kv)
{
    const size_t each = c->apart ? c->key_bytes : c->page_bytes;
    return c->memory + pith_cache_page(s, position) * each + kv * c->k.bytes;
}
static inline char *pith_cache_values(const struct pith_cache *c, const struct pith_cache_span *s,
                                      size_t position, size_t kv)
{
    if (c->joined) return pith_cache_keys(c, s, position, kv);
    const size_t page = pith_cache_page(s, position), each = c->page_bytes - c->key_bytes;
    char *const values = c->memory + kv * c->v.bytes;
    return c->apart ? values + c->apart * c->key_bytes + page * each
                    : values + page * c->page_bytes + c->key_bytes;
}

/* Some of a head's positions in a page, of which `page` is the head's part. */
struct pith_cache_rows {
    const char *page;
    size_t kv, first, n; /* of keys always all 32 */
    size_t position;     /* of the page's first, where keys are rotated when they are read */
    const char *next;    /* the page that is read after this; NULL: none */
};
/* cache.c: a head's keys of a page as float32, [dim][32]: where they are, or in `wide`
 * (PITH_KC * PITH_NC floats of the thread's own). */
const float *pith_cache_key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                                 const struct pith_cache_rows *rows, float *wide);
/* Elements [first, first + n) of a head's 32 keys of a page, at most PITH_STRIP, as rows of values
 * [32][PITH_STRIP], those beyond n zero. tile: pith_cache_key_tile()'s where keys are codes, else
 * NULL. */
enum { PITH_STRIP = 64 };
struct pith_key_strip {
    const float *tile;
    size_t first, n;
};
void pith_cache_key_strip(const struct pith_backend *b, const struct pith_cache_side *k,
                          const struct pith_cache_rows *rows, const struct pith_key_strip *strip,
                          float *out);
/* cache/codes.c, for other kinds of pages: the values of n codes of a stream that begins at a byte,
 * which are code - middle or the level; a key's codes[cols] to their place among 32. */
void pith_cache_widen(const struct pith_backend *b, const struct pith_row_code *r,
                      const uint8_t *stream, size_t n, float *to);
void pith_cache_put_key(const struct pith_row_code *r, const uint8_t *codes, size_t place,
                        uint8_t *to);
/* cache/kivi.c: groups of num/kivi.h, of values; or of keys by channel, whose rows are not encoded
 * one by one. bits is 2 or 4. */
struct pith_row_code pith_row_code_kivi(unsigned bits, uint32_t cols, bool channels);
/* cache/kvquant.c: rows of num/kvquant.h, 2 to 4 bits, which are not encoded one by one; level:
 * [2^bits], borrowed, or NULL where only sizes are needed. In addition to codes and outliers,
 * values have a range and a middle. How many outliers a page has room for. */
struct pith_row_code pith_row_code_kvquant(unsigned bits, uint32_t cols, bool keys,
                                           const float *level);
uint32_t pith_kvquant_slots(const struct pith_row_code *r, bool keys);
/* cache/codes.c: views of rows of codes that kernels read in place, their scales in `work` (as
 * above). False where the kernels have no form for them: then tiles are made. */
bool pith_cache_key_view(const struct pith_backend *b, const struct pith_cache_side *k,
                         const struct pith_cache_rows *rows, float *work, struct pith_coded *out);
bool pith_cache_value_view(const struct pith_backend *b, const struct pith_cache_side *v,
                           const struct pith_cache_rows *rows, float *work, struct pith_coded *out);
/* attention_bytes.c: the fast mode over codes that are integers of 4 or 8 bits. Queries [rows][dim]
 * as bytes, in pith_query_bytes_floats(dim) floats of memory a row; those from a row on. */
struct pith_query_bytes {
    size_t dim;
    int8_t *q;
    float *scale, *total;
    int32_t *sum;
};
size_t pith_query_bytes_floats(size_t dim);
struct pith_query_bytes pith_query_bytes(const struct pith_cache_side *k, size_t rows,
                                         float *memory);
void pith_query_bytes_fill(const struct pith_backend *b, const struct pith_query_bytes *q,
                           size_t rows, const float *x);
struct pith_query_bytes pith_query_bytes_from(const struct pith_query_bytes *q, size_t row);
/* Scores of a page's 32 keys. */
struct pith_key_scores {
    const struct pith_cache_rows *rows;
    const struct pith_query_bytes *q;
    size_t count; /* of q */
    float *scores;
    size_t ld;
};
void pith_score_bytes(const struct pith_backend *b, const struct pith_cache_side *k,
                      const struct pith_key_scores *s, float *work);
/* Adds up values of a page by weight: s->p begins with its first position, the weights of those
 * that are not in `rows` are 0. */
void pith_add_bytes(const struct pith_backend *b, const struct pith_cache_side *side,
                    const struct pith_cache_rows *rows, const struct pith_coded_sums *s,
                    float *work);
/* Whether such a tile fits there. */
static inline bool pith_cache_tile_fits(size_t dim)
{
    return dim * PITH_KEYS <= PITH_KC * PITH_NC;
}

static inline double pith_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + pith_exp_f64(-x));
}
static inline double pith_softplus_f64(double x)
{
    return x > 20 ? x : log1p(pith_exp_f64(x));
}

/* min(a, b) */
static inline size_t pith_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Elements of rows that a task takes at least: below that, handing out costs more than it gains. */
enum { PITH_TASK_ELEMENTS = 16384 };
static inline size_t pith_rows_a_task(size_t dim)
{
    return dim >= PITH_TASK_ELEMENTS ? 1 : PITH_TASK_ELEMENTS / (dim ? dim : 1);
}
/* Tasks of `each` for n. */
static inline size_t pith_tasks(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

#endif
