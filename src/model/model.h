/* model/model.h: a checkpoint that can compute: embedding, blocks, final norm, head.
 *
 * A model borrows its checkpoint's mapping: dense weights are used where they lie. Quantized
 * linears are read by their container into struct pith_qmat when a block is loaded.
 * Thread-compatible: one thread at a time per model. */
#ifndef PITH_MODEL_MODEL_H
#define PITH_MODEL_MODEL_H

#include "backend/backend.h"
#include "backend/layer.h"
#include "backend/pack.h"
#include "io/checkpoint.h"
#include "io/container/container.h"
#include "model/arch.h"
#include "model/kv/kv.h"
#include "model/plan.h"
#include "num/grid.h"

/* One linear as it is stored; `w` is what computes and points to one of the others or to a mapping.
 */
struct pith_linear_weights {
    struct pith_weight w;
    float *bias;           /* owned, or NULL */
    float *dense;          /* owned copy that w points to, float32 or as stored, or NULL */
    struct pith_qmat q;    /* owned; w.quant points here when quantized and not packed */
    struct pith_pack pack; /* w.pack points here when packed; its parts lie in the block's memory */
    uint32_t hadamard;     /* of a dense matrix that is to be quantized: see struct pith_input */
};

/* The parts of a latent attention's kv_b that are multiplied with, in float32: exactly the values
 * of the stored linear, which is only read to make them. */
struct pith_absorbed {
    bool made;
    bool changes; /* the linear may change (PITH_LOAD_FLOAT): made anew for every pass */
    struct pith_latent_parts parts;
    float *row; /* room for one of the linear */
};

/* One transformer layer's weights. */
struct pith_block {
    uint32_t layer;
    const struct pith_layer_plan *plan; /* the model's */
    struct pith_linear_weights *linear; /* [plan->linears], owned */
    float **vector;                     /* [plan->vectors], owned, and so is each */
    float *kv_scale; /* [2][heads], owned: of keys, of values; NULL: the checkpoint stores none */
    bool idle;    /* nobody reads what the mixture gives, which is 0: its experts may be absent */
    void *packed; /* owned: memory of the packed linears, or NULL */
    struct pith_absorbed *absorbed; /* owned: of latent attention, else NULL */
};

#define PITH_HEAD_ROWS 64    /* rows that others take through the head at a time */
#define PITH_LOGITS_ROWS 256 /* ... and pith_model_logits(), which reads the head once for them */

struct pith_model {
    struct pith_checkpoint *checkpoint; /* owned */
    const struct pith_arch *arch;
    struct pith_shape shape;
    struct pith_plans plans;
    const char **stray; /* [strays]: tensors of no part of it, which are not read, by name; owned */
    size_t strays;
    json_t *remarks; /* owned; NULL: to be made, by pith_model_remarks() */
    const struct pith_container *container; /* NULL when not quantized */
    void *container_state;
    struct pith_weight embed, head; /* head is embed when tied; they point into the following */
    struct pith_linear_weights embed_store, head_store;
    void *head_packed; /* owned: memory of a packed head, or NULL */
    float *positions;  /* [shape.positions][hidden], or NULL */
    /* Between embedding and stream, stream and head; none where these have one width. `narrow` is
     * room for a row of the first and PITH_LOGITS_ROWS of the second. */
    struct pith_linear_weights project_in, project_out;
    float *narrow;
    /* Per-layer vectors of tokens, where shape.tokens.width is not 0 (model/nodes/token_vectors.c).
     */
    struct pith_per_layer {
        struct pith_linear_weights embed, project;
        float *norm;
        float *row; /* room for one of embed */
    } per_layer;
    float *final_norm, *final_bias; /* the latter may be NULL */
    float *head_bias;               /* of the logits, or NULL */
    float *head_rows;               /* [PITH_LOGITS_ROWS][hidden], for pith_model_logits */
    struct pith_rope_angles {
        double *inv_freq; /* [rotary / 2] */
        double *far;      /* the same in contexts of more than `near` tokens; NULL: no others */
        double factor;
        size_t near;
    } rope[2];                        /* of all layers; or of those without and with a window */
    struct pith_block *blocks;        /* [layers] when all stay loaded, else NULL */
    struct pith_grid kv_grid;         /* what the checkpoint says of keys and values, if anything */
    struct pith_kv_levels *kv_levels; /* owned; NULL before they are used */
};

/* The frequencies in a context of that many tokens. */
static inline const double *pith_rope_angles_for(const struct pith_rope_angles *r, size_t context)
{
    return r->far && context > r->near ? r->far : r->inv_freq;
}

/* Opens a checkpoint folder and checks that every tensor the architecture needs is there, in the
 * right shape, and that there is none it does not know (rotary inv_freq buffers aside; in a
 * quantized checkpoint a linear may have tensors of any suffix, and KV-cache scales are allowed).
 * Loads no block.
 *
 * When config.json ties the head and lm_head.weight is stored all the same, transformers 5 is
 * followed: equal tensors are tied, a different one is used as it is (shape.tied becomes false). */
enum pith_status pith_model_open(const char *dir, struct pith_model **out, struct pith_error *err);
/* Where an adapter's merged tensors go (io/adapter.h): a file without a name in the folder `room`.
 */
struct pith_merge_into {
    const char *adapter, *room;
    struct pith_pool *pool;
    json_t **account;
};
/* The same with an adapter merged, when there is a name of one. */
enum pith_status pith_model_open_with(const char *dir, const struct pith_merge_into *merge,
                                      struct pith_model **out, struct pith_error *err);
/* The same of a checkpoint that is open, and the model's then; on failure it stays the caller's,
 * who may find slices shown in it. */
enum pith_status pith_model_open_from(struct pith_checkpoint *c, struct pith_model **out,
                                      struct pith_error *err);
/* source.c: opens a model to start from. As pith_model_open_with(), but a quantized checkpoint is
 * shown as the dense one that it stands for (io/dense.h): m->container is then NULL, and
 * m->checkpoint->dense is not. merge->room is where the scratch file is made. */
enum pith_status pith_model_open_source(const char *dir, const struct pith_merge_into *merge,
                                        struct pith_model **out, struct pith_error *err);
/* source.c: what was made of a layer's quantized linears, in such a model, is dropped: no block of
 * it may be in use but under PITH_LOAD_FLOAT. Nothing to do for another model. */
void pith_model_shed(const struct pith_model *m, uint32_t layer);
/* Frees the model, its blocks and its checkpoint; NULL is allowed. */
void pith_model_close(struct pith_model *m);

enum pith_load {
    PITH_LOAD_MAPPED, /* dense weights point into the checkpoint */
    PITH_LOAD_FLOAT,  /* dense weights are copied to owned float32: the quantizer may change them */
    PITH_LOAD_SHARED  /* the same, but for experts' matrices, which are not there yet */
};
/* Loads one layer. Quantized linears stay quantized either way. *out must not move afterwards
 * (its weights point into it); on failure it owns nothing. */
enum pith_status pith_block_load(const struct pith_model *m, uint32_t layer, enum pith_load how,
                                 struct pith_block *out, struct pith_error *err);
/* Loads a matrix that PITH_LOAD_SHARED omitted, MAPPED or FLOAT; nothing to do for one that is
 * there. Its bias is unchanged. */
enum pith_status pith_block_fetch(const struct pith_model *m, struct pith_block *b, uint32_t linear,
                                  enum pith_load how, struct pith_error *err);
/* Frees a dense matrix of such a block: it can be fetched again. */
void pith_block_drop(struct pith_block *b, uint32_t linear);
/* The scales of keys and of values that the checkpoint stores for a layer, [2][heads]: one for all
 * heads or one each; 1 where it has none. */
enum pith_status pith_kv_scales_load(const struct pith_model *m, uint32_t layer, float *scale,
                                     struct pith_error *err);
/* check.c: whether a tensor is such a scale, or one of queries, by its name. */
bool pith_is_kv_scale(const char *tensor);
/* Whether it is a tensor of the model's checkpoint that is of no part of it, and not read. */
bool pith_model_is_stray(const struct pith_model *m, const char *tensor);
/* Frees what b owns and zeroes it. */
void pith_block_free(struct pith_block *b);
/* Packs the quantized linears that have a packed form for pith_linear, and frees their other form.
 * On failure b computes as before. */
enum pith_status pith_block_pack(struct pith_block *b, struct pith_backend *be,
                                 struct pith_error *err);
/* Loads all blocks (PITH_LOAD_MAPPED) into m->blocks, for running and measuring, and with a backend
 * (not NULL) packs each; nothing to do when they are there. On failure m is as before. */
enum pith_status pith_model_load_blocks(struct pith_model *m, struct pith_backend *be,
                                        struct pith_error *err);
/* Packs what is not yet packed of the loaded blocks, and a quantized head with the embedding that
 * is tied to it. */
enum pith_status pith_model_pack(struct pith_model *m, struct pith_backend *be,
                                 struct pith_error *err);
/* Rounds a dense head to int8:channel and packs it; an embedding tied to it stays. Makes a token
 * cheaper by half the head's bytes (a fifth of a 4-bit model), at the cost in docs/performance.md.
 * On failure the head is as before. */
enum pith_status pith_model_round_head(struct pith_model *m, struct pith_backend *be,
                                       struct pith_error *err);
/* Owned float32 bytes of a dense block under PITH_LOAD_FLOAT: matrices, biases and norms. */
uint64_t pith_block_float_bytes(const struct pith_layer_plan *l);
/* Of these, and in any block, biases, norms and what latent attention multiplies with. */
uint64_t pith_block_rest_bytes(const struct pith_layer_plan *l);

/* Work space for a forward pass of up to `rows` tokens at once. It serves one model: cos and sin of
 * the last rows are cached from block to block. */
struct pith_scratch {
    size_t rows;
    /* The plans' registers, [rows][width] each; NULL for the stream, which is the caller's. */
    float *reg[PITH_LAYER_REGS];
    struct pith_scratch_rope {
        float *cos, *sin;
        const double *of;   /* they hold `rows` rows by these frequencies; NULL: nothing */
        size_t start, rows; /* from `start`, or SIZE_MAX: of several spans */
    } rope[2];
    uint32_t *chosen; /* [rows][taken]: the experts of each row */
    float *share;     /* [rows][taken]: their weights */
    uint32_t *order;  /* [rows][taken]: places in `chosen`, by expert */
    uint32_t *begin;  /* [experts + 1]: where in `order` each begins */
    void *memory;     /* one allocation behind all of them */
};
/* PITH_ARG for 0 rows; on failure *s owns nothing. */
enum pith_status pith_scratch_init(struct pith_scratch *s, const struct pith_plans *plans,
                                   size_t rows, struct pith_error *err);
/* Drops the cached cos and sin: the spans of the next pass are others. */
void pith_scratch_moved(struct pith_scratch *s);
/* Frees what s owns and zeroes it. */
void pith_scratch_free(struct pith_scratch *s);
/* Bytes that pith_scratch_init() will take, by the same layout; UINT64_MAX when they overflow.
 */
uint64_t pith_scratch_bytes(const struct pith_plans *plans, size_t rows);

/* Sees the input x[n][dim] of a site of the layer's plan before its linears read it; returning true
 * ends the pass. */
typedef bool pith_tap_fn(void *ctx, uint32_t site, const float *x, size_t n, size_t dim);

/* Where in the sequence a call stands and what it may use. */
struct pith_pass {
    struct pith_backend *backend;
    const struct pith_model *model;
    struct pith_scratch *scratch;
    struct pith_kv *kv;
    uint32_t kv_layer; /* layer index within kv */
    float *carried;    /* what layers carry (pith_plans_lay()); NULL: it is in the scratch */
    /* The rows of several sequences, one behind the other, for all of whose positions there are
     * pages. */
    const struct pith_kv_span *span;
    size_t spans;     /* 0: one sequence, number 0, that begins at `start` */
    size_t start;     /* position of the first row: kv holds that many tokens already */
    pith_tap_fn *tap; /* NULL: none */
    void *tap_ctx;
};

/* x[n][hidden] becomes the block's output, in place; n <= scratch->rows. *stopped (may be NULL):
 * whether the tap ended the pass; x then is as far as the pass went. Keys and values of the rows
 * are stored in the cache. PITH_ARG when n exceeds the work space, PITH_LIMIT when the cache is
 * full. */
enum pith_status pith_block_forward(const struct pith_pass *p, const struct pith_block *b, float *x,
                                    size_t n, bool *stopped, struct pith_error *err);

/* A part of a block's program: nodes [from, to) over these registers, which are the scratch's
 * unless the caller has put others there (pith_nodes_begin() fills them in). */
struct pith_nodes {
    uint32_t from, to;
    float *reg[PITH_LAYER_REGS];
    size_t n;
    bool no_tap_first; /* the first site's input was tapped (and rotated, where its linears want
                          that) before it was stored: not again */
};
struct pith_nodes pith_nodes_begin(const struct pith_pass *p, const struct pith_block *b, float *x,
                                   size_t n);
/* Fails as pith_block_forward() does. */
enum pith_status pith_nodes_run(const struct pith_pass *p, const struct pith_block *b,
                                const struct pith_nodes *r, bool *stopped, struct pith_error *err);

/* The module of a site that has one (struct pith_site_spec), from the site's input x[n][dim] to
 * what is added to the stream, out[n][hidden] (neither is in the scratch). */
enum pith_status pith_module_forward(const struct pith_pass *p, const struct pith_block *b,
                                     uint32_t site, const float *x, size_t n, float *out,
                                     struct pith_error *err);

/* The module that the layer's mixture is part of, one expert at a time: begin; each expert, in
 * ascending order, for all rows there are; end. Then out is what pith_module_forward() gives, to
 * the bit. Several such runs may be on their way: what is between the calls is with the caller. */
struct pith_module_rows {
    const float *x; /* [n][hidden]: of the router's site */
    size_t n;
    float *out;       /* [n][hidden] */
    uint32_t *chosen; /* [n][taken] */
    float *share;     /* [n][taken] */
};
enum pith_status pith_module_begin(const struct pith_pass *p, const struct pith_block *b,
                                   const struct pith_module_rows *rows, struct pith_error *err);
void pith_module_expert(const struct pith_pass *p, const struct pith_block *b, uint32_t expert,
                        const struct pith_module_rows *rows);
enum pith_status pith_module_end(const struct pith_pass *p, const struct pith_block *b,
                                 const struct pith_module_rows *rows, struct pith_error *err);

/* The experts that rows take: runs the program from r->from up to the layer's mixture and gives
 * chosen[n][taken], ascending in each row. Nothing is tapped. */
enum pith_status pith_experts_choose(const struct pith_pass *p, const struct pith_block *b,
                                     const struct pith_nodes *r, uint32_t *chosen,
                                     struct pith_error *err);
/* One expert over x[n][hidden], every row of which takes it (not in the scratch's registers of the
 * mixture but for its input's), for the tap's sake: the sites of the expert are tapped, and after
 * that of its last linear nothing more is computed. */
enum pith_status pith_expert_tap(const struct pith_pass *p, const struct pith_block *b,
                                 uint32_t expert, float *x, size_t n, struct pith_error *err);

/* Embedding rows of ids into x[n][hidden]. PITH_ARG for an id outside the vocabulary. */
enum pith_status pith_model_embed(const struct pith_model *m, const int32_t *ids, size_t n,
                                  float *x, struct pith_error *err);
/* The last norm of n <= PITH_HEAD_ROWS rows, valid until the next call or pith_model_logits(). */
const float *pith_model_last_norm(const struct pith_model *m, struct pith_backend *be,
                                  const float *x, size_t n);
/* logits[n][vocab] of hidden rows x[n][hidden] (final norm applied here; x is not changed). */
enum pith_status pith_model_logits(const struct pith_model *m, struct pith_backend *be,
                                   const float *x, size_t n, float *logits, struct pith_error *err);

#endif
