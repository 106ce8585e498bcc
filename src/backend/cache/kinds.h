/* backend/cache/kinds.h: formats of keys and values other than floats and grids, and what --kv auto
 * tries.
 *
 * A kind is one file, cache/<name>.c, which defines struct pith_kv_kind pith_kv_<name>; each of its
 * widths is a row of kv.def. Names, errors, checks, sizes, choosing and tests walk that table. How
 * rows become codes is its own; pages of such rows one after another, and reading them, are
 * cache/codes.c's, which a kind names where they serve. */
#ifndef PITH_BACKEND_CACHE_KINDS_H
#define PITH_BACKEND_CACHE_KINDS_H

#include "num/rowcode.h"

struct pith_backend;
struct pith_cache_side;
struct pith_cache_put;
struct pith_cache_rows;
struct pith_coded_sums;
struct pith_page_scores;

/* What a kind takes for granted; bits of its `needs`. */
enum {
    PITH_KV_ROTATED = 1, /* heads are always multiplied by a Hadamard matrix first */
    PITH_KV_LEVELS = 2, /* calibration gives levels, and middles and ranges of the channels of keys,
                           which are taken before rope: heads are not rotated, keys have no offsets,
                           and there are no latents */
};

/* Heads of so many numbers, in codes of so many bits. */
struct pith_kv_heads {
    unsigned bits;
    uint32_t cols;
    bool keys; /* or values */
};

struct pith_kv_kind {
    const char *name; /* without bits */
    unsigned needs;
    uint32_t least_sink;   /* first positions that are stored in floats at least, where keys or
                              values are of this kind */
    uint32_t least_recent; /* newest ones, where keys are: not 0 says that a page of keys becomes
                              codes when it is full. Latents then also need a rotary part. */
    bool channels;         /* channels of keys have separate ranges, so that their offsets cost no
                              codes */
    /* How heads become codes. level[PITH_ROW_LEVELS] is filled in where it is needed and must
     * outlive *out. PITH_UNSUPPORTED for heads that cannot be stored so. */
    enum pith_status (*code)(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err);
    /* Pages (backend/cache/pages.h): bytes of one head in one; false where they overflow. */
    bool (*page_bytes)(const struct pith_cache_side *s, bool keys, size_t *bytes);
    /* Rows of a head to their places in a page; keys of least_recent nowhere. */
    void (*store)(struct pith_backend *b, const struct pith_cache_side *s, bool keys,
                  const struct pith_cache_put *put);
    /* Those keys, [dim][32] floats of a full page; NULL: there are none. */
    void (*close)(struct pith_backend *b, const struct pith_cache_side *k, const float *x,
                  char *page);
    /* A head's keys of a page as float32, [dim][32]; some of its values, [n][dim padded]. Either
     * where they are or in `wide`, PITH_KC * PITH_NC floats of the thread's own. */
    const float *(*key_tile)(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *wide);
    const float *(*value_tile)(const struct pith_backend *b, const struct pith_cache_side *v,
                               const struct pith_cache_rows *rows, float *wide);
    /* Scores of queries with a head's 32 keys of a page, and sums of some of its values by weight,
     * with the same bits for any number of rows, since these come alone or in company.
     * pith_tile_scores() and pith_tile_values() do both by tiles. */
    void (*scores)(const struct pith_backend *b, const struct pith_cache_side *k,
                   const struct pith_cache_rows *rows, const struct pith_page_scores *s);
    void (*values)(const struct pith_backend *b, const struct pith_cache_side *v,
                   const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                   float *work);
    /* Floats a query that scores() works in; NULL: none. */
    size_t (*query_floats)(const struct pith_cache_side *k);
    /* Whether the fast mode multiplies its codes as integers; NULL: never. */
    bool (*takes_bytes)(const struct pith_cache_side *s, bool values);
};

#define PITH_KV(kind, bits, use) extern const struct pith_kv_kind pith_kv_##kind;
#define PITH_KV_GRID(name, unrotated)
#include "backend/cache/kv.def"
#undef PITH_KV
#undef PITH_KV_GRID

/* A row of the table. */
struct pith_kv_row {
    const char *name;
    const struct pith_kv_kind *kind; /* NULL: the name of a grid */
    unsigned bits;                   /* of a code; 0 of a grid */
    bool tried;                      /* by --kv auto */
    const char *unrotated;           /* tried in its place; NULL: nothing */
};
/* All rows. */
const struct pith_kv_row *pith_kv_rows(size_t *count);
/* The row of a kind by its name, in either case; NULL: there is none. */
const struct pith_kv_row *pith_kv_row_find(const char *name);

/* How many rows are tried, and which they are, i below that. */
enum { PITH_KV_NAMED, PITH_KV_TRIED };
#define PITH_KV(kind, bits, use) +PITH_KV_##use
#define PITH_KV_GRID(name, unrotated) +1
enum {
    PITH_KV_CANDIDATES =
#include "backend/cache/kv.def"
};
#undef PITH_KV
#undef PITH_KV_GRID
const struct pith_kv_row *pith_kv_candidate(size_t i);

/* "kivi2 or kivi4, turbo2 to turbo4": the names of the kinds that `among` holds of, or of all where
 * it is NULL. */
enum { PITH_KV_NAMES = 256 };
void pith_kv_row_names(bool (*among)(const struct pith_kv_kind *kind), char text[PITH_KV_NAMES]);

#endif
