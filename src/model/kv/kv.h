/* model/kv/kv.h: what sequences keep of the tokens seen so far (struct pith_state_spec): keys and
 * values, or latents, in pages; recurrent states.
 *
 * A page is 32 positions of one sequence, in every layer of a group. Layers are grouped by how long
 * their pages live: those that see everything, and those with a window, whose pages are freed once
 * they lie behind it. A page's number is the same in all layers of its group, each of which has
 * separate memory for it, as wide as the layer needs: pages of several widths never fragment the
 * pool, and a sequence has one table a group. (With a table for each layer, all would be equal.)
 *
 *     sequence 3, group 0:   page table  7 2 9        memory of layer 0: [page 0][page 1]...
 *                            positions   0.. 32.. 64..           layer 1: [page 0][page 1]...
 *
 * Pages are counted: sequences that share a prefix hold its pages together. A page that others hold
 * too is copied before a sequence writes to it, which can only be its last. The number of pages is
 * fixed when the pool is made. Thread-compatible: one thread at a time. */
#ifndef PITH_MODEL_KV_KV_H
#define PITH_MODEL_KV_KV_H

#include "backend/cache/kinds.h"
#include "backend/layer.h"
#include "model/plan.h"
#include "num/rowcode.h"

#include <pith/quantize.h>

struct pith_model;

/* The floats that keys, or values, are stored in where there is no grid. */
enum pith_kv_float { PITH_KV_F32, PITH_KV_BF16, PITH_KV_F16 };

/* What of keys is known beforehand and not stored, but added to scores
 * (backend/cache/key_offset.h): the bias of their projection, where nothing but rope comes after
 * it; or the middles of their channels, from model->kv_levels. */
enum pith_kv_offset { PITH_KV_WHOLE, PITH_KV_BIAS, PITH_KV_MIDDLE };

/* How keys, or values, are stored; all zero: in float32. */
struct pith_kv_part {
    enum pith_kv_float floats;
    struct pith_grid grid;         /* format NULL: none */
    const struct pith_kv_row *row; /* of backend/cache/kv.def, a kind's; NULL: floats or a grid */
    bool rotate; /* heads are multiplied by a Hadamard matrix before they are rounded, and so are
                    queries, or by its inverse what attention gives */
    enum pith_kv_offset offset; /* of keys */
};
static inline enum pith_dtype pith_kv_dtype(const struct pith_kv_part *p)
{
    return p->floats == PITH_KV_F16 ? PITH_F16 : p->floats == PITH_KV_BF16 ? PITH_BF16 : PITH_F32;
}
/* Whether it is stored as codes. */
static inline bool pith_kv_coded(const struct pith_kv_part *p)
{
    return p->grid.format || p->row;
}
/* What its kind takes for granted (PITH_KV_ROTATED and the like). */
static inline unsigned pith_kv_needs(const struct pith_kv_part *p)
{
    return p->row ? p->row->kind->needs : 0;
}
/* Whether keys in this format become codes a page at a time, when it is full. */
static inline bool pith_kv_by_page(const struct pith_kv_part *keys)
{
    return keys->row && keys->row->kind->least_recent > 0;
}
struct pith_kv_format {
    struct pith_kv_part k, v;
    /* Positions that queries see in bfloat16 (on a side without codes, in its format), rounded up
     * to whole pages: the first, and the newest, those of a query's own page and of those before
     * it. Alike in all layers, but see pith_kv_sink() and pith_kv_recent(). */
    uint32_t sink, recent;
    enum pith_state_form states; /* of recurrent states, alike in all layers: rounded after each
                                    token, so bits do not depend on how tokens are cut */
    struct pith_input attn; /* what queries and weights of attention are rounded to, in all layers;
                               without a grid: nothing */
    const struct pith_kv_format *layer; /* [layers], without further tables; NULL: all alike */
};
/* That of a layer. */
static inline const struct pith_kv_format *pith_kv_of(const struct pith_kv_format *f,
                                                      uint32_t layer)
{
    return f->layer ? &f->layer[layer] : f;
}
/* How many of the newest a layer's queries so see, and how many of the first: as many as its kinds
 * need at least. */
uint32_t pith_kv_recent(const struct pith_kv_format *layer);
uint32_t pith_kv_sink(const struct pith_kv_format *layer);
/* The most of any layer. */
uint32_t pith_kv_most_sink(const struct pith_kv_format *f, uint32_t layers);
uint32_t pith_kv_most_recent(const struct pith_kv_format *f, uint32_t layers);
/* Both in PITH_F32, PITH_BF16 or PITH_F16. */
static inline struct pith_kv_format pith_kv_floats(enum pith_dtype dtype)
{
    const enum pith_kv_float floats = dtype == PITH_F16    ? PITH_KV_F16
                                      : dtype == PITH_BF16 ? PITH_KV_BF16
                                                           : PITH_KV_F32;
    return (struct pith_kv_format){.k.floats = floats, .v.floats = floats};
}
/* "f32", "bf16", "f16", a grid, or the name of a row of backend/cache/kv.def, of which some are
 * always rotated and some never, and need model->kv_levels; or "k=...,v=..." of them, one for keys
 * and one for values; then maybe
 * ",rotate", or of one side ",rotate=k", ",offset", ",offset=middle", ",sink=N", ",recent=N",
 * ",state=bf16", fp8_e4m3, fp8_e5m2 or f32. NULL: what the checkpoint says, or `usual`. m may be
 * NULL, when only the name is to be looked at. PITH_ARG for another name; PITH_UNSUPPORTED for a
 * grid that keys and values cannot have, where there are latents for two that differ or for levels,
 * for heads that have no such matrix, for offsets of keys that have none, and for states of a model
 * that has none. */
enum pith_status pith_kv_parse(const char *name, enum pith_dtype usual, const struct pith_model *m,
                               struct pith_kv_format *out, struct pith_error *err);
/* What --attn means, for pith_kv_format.attn: FP8 with a scale of 1, or of a head of a token
 * ("fp8_e4m3:token"); NULL: no grid. PITH_ARG, PITH_UNSUPPORTED for another grid. */
enum pith_status pith_attn_parse(const char *name, struct pith_input *out, struct pith_error *err);
/* Its name again, whatever some layers have. */
enum { PITH_KV_TEXT = 2 * PITH_GRID_TEXT + 64 };
void pith_kv_name(const struct pith_kv_format *f, char text[PITH_KV_TEXT]);

/* What num/kvquant.h needs to know of the keys and values of each layer, from calibration
 * (choose/kv_levels.h). */
struct pith_kv_layer_levels {
    uint32_t heads, key;   /* 0: nothing is stored by position, or no separate keys and values */
    float *middle, *range; /* [heads][key]: of keys before rope, the latter above 0 */
    float beyond;          /* above 0: values that are outliers */
    float level[2][3][16]; /* of keys and of values, in 2, 3 and 4 bits, ascending, in -2 .. 2 */
};
struct pith_kv_levels {
    uint32_t layers;
    bool weighed;                       /* by the Fisher information */
    struct pith_kv_layer_levels *layer; /* [layers] */
    float *memory;                      /* of middles and ranges */
};
/* Room for a model's, with nothing in it; PITH_NOMEM. pith_kv_levels_free() frees it, NULL too. */
enum pith_status pith_kv_levels_new(const struct pith_plans *plans, struct pith_kv_levels **out,
                                    struct pith_error *err);
void pith_kv_levels_free(struct pith_kv_levels *levels);
/* Whether any layer needs them. */
bool pith_kv_needs_levels(const struct pith_kv_format *f, uint32_t layers);
/* The rope node of a layer's keys, as they are stored; NULL: they have none. */
const struct pith_node *pith_kv_rope_of(const struct pith_layer_plan *l);
/* Whether a large offset of keys leaves few codes for the rest: rows of fewer than 8 bits, where it
 * is not subtracted. */
bool pith_kv_spreads(const struct pith_kv_part *keys);
/* Whether keys of any layer have biases that PITH_KV_BIAS leaves out. */
bool pith_kv_has_biases(const struct pith_plans *plans);

/* How rows of keys, or of values, that are not stored in floats become codes; level as for
 * pith_row_code_make(). Of kinds that need levels without them. */
enum pith_status pith_kv_code(const struct pith_kv_part *p, bool keys, uint32_t cols, float *level,
                              struct pith_row_code *out, struct pith_error *err);

/* What a cache shall be: the name of pith_kv_parse(), and PATTERN=GRID for some layers. A pattern
 * names a layer as --override names a linear ("3", "layers.3", "model.layers.?"), the last that
 * matches holds; after it comes a name, or "k=GRID" or "v=GRID" alone, the other then stays. */
struct pith_kv_wish {
    const char *name;
    const struct pith_kv_format *base; /* NULL, or in the place of a name; with a model only */
    struct pith_list layers;
};
/* pith_kv_parse() with a table where layers differ, which pith_kv_format_free() frees; on failure
 * there is none. PITH_ARG for a pattern that names no layer where something is stored by position.
 * m may be NULL, as there: then there is no table. */
enum pith_status pith_kv_choose(const struct pith_kv_wish *w, enum pith_dtype usual,
                                const struct pith_model *m, struct pith_kv_format *out,
                                struct pith_error *err);
void pith_kv_format_free(struct pith_kv_format *f);

/* Numbers that one position has in a layer: a latent, whose first ones are its values, once. */
static inline double pith_kv_numbers(const struct pith_state_spec *s)
{
    return (double)s->heads * ((double)s->key + (s->kind == PITH_STATE_LATENT ? 0 : s->value));
}
/* Bytes that one position takes in a layer of that format (without a table), a 32nd of a page; 0
 * where nothing is stored by position. */
double pith_kv_position_bytes(const struct pith_kv_format *f, const struct pith_state_spec *s);
/* Bytes that so many positions take in such a layer, those in floats with them; or that a query
 * reads of them. */
double pith_kv_bytes_of(const struct pith_kv_format *f, const struct pith_state_spec *s,
                        double positions, bool read);
/* Bytes that a sequence of that length holds in such a layer of a pool: whole pages, behind a
 * window (0: none) no more. */
double pith_kv_stored_bytes(const struct pith_kv_format *f, const struct pith_state_spec *s,
                            size_t window, size_t length);
/* Bits that a number takes over all layers at a length of `context` (0: without the part in
 * floats), scales and all; 0 where none is stored. */
double pith_kv_bits(const struct pith_plans *p, const struct pith_kv_format *f, size_t context);

#define PITH_NO_PAGE UINT32_MAX
/* The last group is of the pages in floats of layers on a grid, for format.sink and recent. */
enum { PITH_KV_GROUPS = 3, PITH_KV_PLAIN = 2 };

struct pith_kv_group {
    size_t window;    /* the newest positions that are needed; 0: all */
    uint32_t pages;   /* in the pool */
    uint32_t unused;  /* of them */
    uint32_t *users;  /* [pages]: sequences that hold it */
    uint32_t *stack;  /* [pages]: the unused ones are the first */
    uint32_t *tables; /* [sequences][pages_each] */
};

struct pith_kv_sequence {
    bool open;
    size_t length; /* tokens */
    size_t before; /* a step: tokens when it began */
    size_t closed; /* a page: those before it, but for sinks, are there no more in floats */
    size_t first;  /* of the positions whose pages in the group with a window are there */
    size_t saved;  /* how many tokens the saved recurrent states have seen; 0: none are */
};

/* Keys (after rope), values and latents are stored in float32, in bfloat16, or as codes on a grid,
 * rounded once, when they are stored: a row of a grid is a head of a token (a scale "a token" is
 * one for each of its heads, groups lie along the head), and the one scale of a tensor is the
 * checkpoint's for that layer. Of a latent the rotary part stays in bfloat16. Recurrent states are
 * in float32 or bfloat16. */
struct pith_kv {
    uint32_t layers;              /* that have separate memory: all of the model, or 1 */
    uint32_t sequences;           /* at most */
    size_t capacity;              /* tokens of a sequence at most */
    size_t pages_each;            /* of a sequence at most */
    struct pith_kv_format format; /* its table is in `own` */
    uint32_t sink, recent;        /* the most of any layer */
    struct pith_kv_format *own;   /* [layers]; NULL: none */
    float *level; /* [2][PITH_ROW_LEVELS], with a table [layers] of them: values of codes */
    struct pith_row_code *code; /* [layers][2]: rows of k and of v, where they are on a grid */
    struct pith_kv_group group[PITH_KV_GROUPS];
    struct pith_kv_sequence *sequence;   /* [sequences] */
    char *memory;                        /* keys and values */
    size_t *at;                          /* [layers + 1]: bytes of it before each layer's */
    size_t *page_bytes;                  /* [layers]: of a page in that layer */
    size_t *key_bytes;                   /* [layers]: of the keys in it, which lie before all of
                                            the layer's values */
    size_t *plain_bytes;                 /* [layers]: of one in floats; 0: it has none */
    bool keep;                           /* as in the options */
    uint32_t *group_of;                  /* [layers] */
    const struct pith_kv_levels *levels; /* borrowed; NULL: no layer needs them */
    struct pith_cache_rope *rope;        /* [layers], likewise; dim 0: none */
    float *angles[2]; /* [pages_each][half of the rotary elements][32], cosines, then sines; NULL:
                         no layer needs those of that table */
    struct pith_key_offset *offset; /* [layers]; NULL: no layer has one */
    float *offsets;                 /* their numbers */
    float *offset_angles[2]; /* of the rope tables: those of pages, then those within one; NULL: no
                                layer needs them */
    char *state, *copies; /* [sequences][state_at[layers]] numbers of pith_kv_state_width() bytes;
                             likewise, NULL where none is needed */
    float *opened;        /* one of them in float32, of the layer that has most; NULL: they are */
    size_t *state_at;     /* [layers + 1]: numbers of a sequence's before each layer's */
    size_t *reached;      /* [sequences][layers]: how many tokens a recurrent state has seen */
    float *work;          /* for pith_attention() */
    size_t work_floats;
    void *lists; /* memory of the above but for what is in sizes of the model */
};

struct pith_kv_options {
    uint32_t layers;    /* the model's number; or 1: a layer at a time, whichever that is */
    uint32_t sequences; /* at once, at most */
    size_t context;     /* tokens of one, at most */
    size_t tokens; /* of all together, in whole pages; 0: as many as sequences of that context */
    size_t step;   /* tokens of a sequence that are stored at once, at most */
    bool keep;     /* pages behind a window stay: rewinding is then free */
    struct pith_kv_format format;   /* a layer at a time: floats; a table is copied */
    const struct pith_model *model; /* for num/kvquant.h and offsets of keys: borrowed, as are its
                                       levels; else NULL */
};
/* Makes the pool; no sequence is open. PITH_ARG for layers that are neither, for 0 of anything or
 * another dtype, and without levels where they are needed; PITH_UNSUPPORTED for rows that cannot be
 * on the grid; on failure *kv owns nothing. */
enum pith_status pith_kv_open(struct pith_kv *kv, const struct pith_plans *plans,
                              const struct pith_kv_options *o, struct pith_error *err);
/* Bytes that this will take; UINT64_MAX when they overflow. */
uint64_t pith_kv_pool_bytes(const struct pith_plans *plans, const struct pith_kv_options *o);
/* A pool for one sequence, number 0, which is open and has all of its pages from the start. */
enum pith_status pith_kv_init(struct pith_kv *kv, const struct pith_plans *plans, uint32_t layers,
                              size_t capacity, enum pith_dtype dtype, struct pith_error *err);
uint64_t pith_kv_bytes(const struct pith_plans *plans, uint32_t layers, size_t capacity,
                       enum pith_dtype dtype);
/* Frees what kv owns and zeroes it. */
void pith_kv_free(struct pith_kv *kv);

/* A sequence of no tokens. PITH_LIMIT when all are open. */
enum pith_status pith_kv_sequence_open(struct pith_kv *kv, uint32_t *sequence,
                                       struct pith_error *err);
/* Gives back its pages. */
void pith_kv_sequence_close(struct pith_kv *kv, uint32_t sequence);
/* Makes `to`, which is open and empty, begin with the first `length` tokens of `from`, whose pages
 * it then shares. Cannot fail: what is written to is copied later. */
void pith_kv_share(struct pith_kv *kv, uint32_t from, uint32_t to, size_t length);
/* Forgets all tokens beyond `length`. */
void pith_kv_truncate(struct pith_kv *kv, uint32_t sequence, size_t length);
/* Gives back the pages that lie behind the window. */
void pith_kv_slide(struct pith_kv *kv, uint32_t sequence);
/* Gives back all pages of layers with a window: tokens are to be read again from the first. */
void pith_kv_unslide(struct pith_kv *kv, uint32_t sequence);
/* Whether the next token can be computed from what is there: pages of the window, and recurrent
 * states that have seen just its tokens. */
bool pith_kv_ready(const struct pith_kv *kv, uint32_t sequence);

/* Tokens start .. start + n - 1 of a sequence, that a pass computes. */
struct pith_kv_span {
    uint32_t sequence;
    size_t start, n;
};
/* Makes room for a span in a group's pages. With start at the sequence's length its last page
 * becomes its own; before that, tokens are stored again, to the same bits. PITH_LIMIT when the pool
 * has too few; what it has then got stays, and pith_kv_truncate() takes it back. */
enum pith_status pith_kv_reserve(struct pith_kv *kv, uint32_t group, const struct pith_kv_span *s,
                                 struct pith_error *err);

/* One layer's keys and values, or latents, which are as `s` says; it points into kv. The caller
 * sets the scales of static grids. */
struct pith_cache pith_kv_layer(const struct pith_kv *kv, uint32_t layer,
                                const struct pith_state_spec *s);
/* The pages in floats of a layer on a grid, as far as there are any; false where it has none. */
bool pith_kv_plain(const struct pith_kv *kv, uint32_t layer, const struct pith_state_spec *s,
                   struct pith_cache *out);
/* A sequence's pages of that kind. */
const uint32_t *pith_kv_plain_pages(const struct pith_kv *kv, uint32_t sequence);
/* A sequence's pages in that layer. */
const uint32_t *pith_kv_pages(const struct pith_kv *kv, uint32_t layer, uint32_t sequence);

/* What a layer stores: rows of keys and values go to `cache`, and to `plain` where that is there
 * (pith_kv_layer(), pith_kv_plain()). */
struct pith_kv_put {
    struct pith_backend *backend;
    const struct pith_kv *kv;
    uint32_t layer;
    const struct pith_cache *cache, *plain; /* the latter may be NULL */
    const float *k, *v;
};
/* Stores the rows of a span, whose pages are reserved; returns it as attention takes it. */
struct pith_cache_span pith_kv_store(const struct pith_kv_put *p, const struct pith_kv_span *span);
/* The same of rows that are there. */
struct pith_cache_span pith_kv_stored(const struct pith_kv_put *p, const struct pith_kv_span *span);

/* Fills the pool's angles and rotations, and the levels of codes. */
void pith_kv_rope_fill(struct pith_kv *kv, const struct pith_plans *plans,
                       const struct pith_model *m);

/* Makes the offsets of keys of all layers and their angles. PITH_NOMEM. */
enum pith_status pith_kv_offset_fill(struct pith_kv *kv, const struct pith_plans *plans,
                                     const struct pith_model *m, struct pith_error *err);
/* That of a layer; NULL: its keys are stored whole. */
const struct pith_key_offset *pith_kv_offset_of(const struct pith_kv *kv, uint32_t layer);

/* --- recurrent states ------------------------------------------------------------------------- */

/* Bytes of a number of them. */
static inline size_t pith_kv_state_width(const struct pith_kv_format *f)
{
    return pith_form_width(f->states);
}
/* Makes the state of a layer that after s->start tokens: zeros when that is 0. PITH_ARG when it is
 * at another place. The caller that moves it on calls pith_kv_moved(). */
enum pith_status pith_kv_state_check(const struct pith_kv *kv, uint32_t layer,
                                     const struct pith_kv_span *s, struct pith_error *err);
/* Some neighbours in a layer's state, as the pool has them. */
struct pith_kv_state_part {
    uint32_t layer, sequence;
    size_t offset, floats;
};
/* Them in float32, until they are put back, which what was written there needs; one at a time. */
float *pith_kv_state_take(const struct pith_kv *kv, const struct pith_backend *b,
                          const struct pith_kv_state_part *p);
/* Their numbers are in the form of storage: nothing is rounded here. */
void pith_kv_state_put(const struct pith_kv *kv, const struct pith_backend *b,
                       const struct pith_kv_state_part *p);
void pith_kv_moved(const struct pith_kv *kv, uint32_t layer, const struct pith_kv_span *s);
/* Whether any layer has one, which cannot be cut back to fewer tokens. */
bool pith_kv_recurrent(const struct pith_kv *kv);
/* Keeps a copy of all recurrent states, which have seen all tokens; goes back to it. */
void pith_kv_save(struct pith_kv *kv, uint32_t sequence);
void pith_kv_restore(struct pith_kv *kv, uint32_t sequence);

#endif
