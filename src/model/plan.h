/* model/plan.h: a layer as data. An architecture gives for each layer its linears, the sites that
 * they read, its vectors, and a short program of nodes over registers; code that runs, calibrates,
 * differentiates, counts or names goes by these lists and knows no architecture.
 *
 *     linears   by site: those that read one input stand side by side, in the order of computation
 *     sites     in the order in which the program reaches them
 *     vectors   gains of norms, biases that belong to no linear
 *     nodes     in order; a node reads and writes registers, [n][width] floats each
 *
 * Register PITH_REG_STREAM is the residual stream, which enters the layer and leaves it. So do
 * those that layers carry: later layers read what an earlier one wrote there. Of these
 * PITH_REG_TOKEN is filled before the first layer, with the number of each row's token (exact in a
 * float). */
#ifndef PITH_MODEL_PLAN_H
#define PITH_MODEL_PLAN_H

#include "model/config/shape.h"

#include <stddef.h>

enum {
    PITH_PART_NAME = 56, /* room for a name within a layer */
    PITH_LAYER_REGS = 20,
    PITH_REG_STREAM = 0,
    PITH_REG_TOKEN = 1
};
#define PITH_NO_PART UINT32_MAX /* where an index may be absent */

/* --- linears, sites, vectors ------------------------------------------------------------------ */

struct pith_linear_spec {
    char name[PITH_PART_NAME]; /* "self_attn.q_proj", within the layer */
    uint32_t rows, cols;
    uint32_t site;
    uint32_t expert; /* whose tokens alone it sees; PITH_NO_PART: all */
    bool bias;
    bool stays;     /* in 16 bits unless requested by name: routers */
    bool to_stream; /* what it gives is added to the stream as it is */
    bool scores;    /* what it gives goes into a softmax: queries and keys */
    /* How engines share it out between devices: its columns (and so its input) or its rows, in
     * whole heads where it has any. */
    bool by_cols;
    bool copied; /* with more devices than heads, several hold the same one: keys and values */
    uint32_t heads;
    bool whole; /* or every device holds all of it; so of routers */
};

/* Where a division of a site's input, channel by channel, can be folded. */
enum pith_fold_kind {
    PITH_FOLD_NONE,
    PITH_FOLD_VECTOR, /* into the gain of the norm that makes the input */
    PITH_FOLD_ROWS    /* into the rows (and bias) of the linear whose outputs it is linear in */
};
struct pith_fold {
    enum pith_fold_kind kind;
    uint32_t from; /* that vector, that linear */
    /* ROWS: each `block` rows of the linear come `repeat` times, one behind the other. */
    uint32_t repeat, block;
};

struct pith_site_spec {
    char name[PITH_PART_NAME]; /* "qkv" */
    uint32_t dim;
    uint32_t first, count; /* its linears */
    uint32_t expert;       /* as of its linears */
    struct pith_fold fold;
    /* The smallest part of the program that begins with its linears and ends in one addition to the
     * stream: nodes [from, to) make `result` of it. to 0: there is none (the site is within one).
     */
    uint32_t from, to;
    uint8_t result;
};

struct pith_vector_spec {
    char name[PITH_PART_NAME]; /* "input_layernorm.weight" */
    uint32_t length;
    uint32_t rows;  /* a matrix of that many rows of `length`; 0: a vector */
    bool filter;    /* stored as [rows][1][length] */
    float plus;     /* is added to what is stored: 1 + w */
    float times;    /* what it is multiplied with, where nothing is folded into it; 0: nothing */
    bool of_stream; /* a gain between the stream and linears, which a rotation moves into them */
};

/* A tensor that may stand, in a checkpoint, for the weights of several linears: those of expert e
 * are linears first + e * each, first + e * each + 1, ... (`parts` of them, of the same rows). It
 * is [experts][rows of all parts][cols], or with `transposed` [experts][cols][rows]; with
 * `adjacent` row parts * i + p is row i of part p. `bias` is then [experts][rows]. */
struct pith_fused_spec {
    char name[PITH_PART_NAME]; /* whole, "mlp.experts.gate_up_proj" */
    char bias[PITH_PART_NAME]; /* empty: none */
    uint32_t first, each, experts, parts;
    bool transposed, adjacent;
    bool alone;  /* one matrix, of two dimensions */
    bool either; /* transposed or not, whichever the tensor's shape says; `transposed` where both
                    fit */
    bool only;   /* no other form is published */
};

/* The shape that it is stored in, and of how many dimensions that is. */
static inline unsigned pith_vector_stored(const struct pith_vector_spec *v, uint64_t shape[3])
{
    shape[0] = v->rows ? v->rows : v->length;
    shape[1] = v->filter ? 1 : v->length;
    shape[2] = v->length;
    return v->filter ? 3 : v->rows ? 2 : 1;
}

static inline size_t pith_vector_count(const struct pith_vector_spec *v)
{
    return (size_t)v->length * (v->rows ? v->rows : 1);
}

/* --- nodes ------------------------------------------------------------------------------------ */

enum pith_node_kind {
#define PITH_NODE(kind, name) PITH_NODE_##kind,
#include "model/nodes/nodes.def"
#undef PITH_NODE
    PITH_NODE_KINDS
};

struct pith_node {
    enum pith_node_kind kind;
    uint8_t in, out; /* registers; they may be one where the kind says so */
    union {
        /* Each of `heads` parts of a row of `in` divided by its root mean square, or with `centred`
         * as in pith_layernorm(), times the gain `vector` (of [heads][dim] with `by_head`), plus
         * `bias` (only when centred); either may be PITH_NO_PART. In place if wanted. */
        struct {
            uint32_t vector, bias, heads, dim;
            bool centred, by_head;
            double eps;
        } norm;
        /* out = treated(in) W^T + bias. The linears of a site follow each other and share `work`,
         * [n][cols], which is `in` itself where nobody else reads it. */
        struct {
            uint32_t linear;
            uint8_t work;
        } linear;
        /* Rotates elements [offset, offset + dim) of `heads` vectors of `stride` of `in`, in place
         * (out is in), by the model's table. */
        struct {
            uint32_t heads, stride, offset, dim;
            uint8_t table;
            bool adjacent;
        } rope;
        /* Row r of the stream (in and out) += row start + r + shift of the model's table of
         * positions. */
        struct {
            uint32_t shift;
        } place;
        /* Row r of `in`, `dim` wide, of position p = start + r, times 1 + beta * ln(1 + floor((p +
         * shift) / every)), in place (out is in). */
        struct {
            uint32_t dim, shift;
            double beta, every;
        } temper;
        /* Stores k and v, then out = attention of `in`, the queries; in place if wanted. */
        struct {
            uint8_t k, v;
            uint32_t heads;   /* of queries */
            uint32_t window;  /* 0: all */
            bool chunked;     /* see struct pith_attention_spec (model/build/build.h) */
            float scale, cap; /* cap 0: none */
            uint32_t sinks;   /* a vector, or PITH_NO_PART */
        } attend;
        /* in = act(in) * up (out is in); without up in = act(in). `act` is the model's unless
         * `other` says that it is this one. */
        struct {
            uint8_t up;
            bool alone, other;
            enum pith_act act;
            uint32_t dim;
        } gate;
        /* out += in * scale, over the width of the stream. */
        struct {
            float scale;
        } add;
        /* `in`, of the stream's width, times the one number of `vector` (out is in). */
        struct {
            uint32_t vector;
        } scale;
        /* `in`, rows of `dim`, clamped to -limit .. limit (out is in). */
        struct {
            float limit;
            uint32_t dim;
        } clamp;
        /* Columns of `in`, side by side, each to a separate register: `part` 1 of `parts`. With
         * `adjacent` column parts * i + p is column i of part p. With `heads` a row is so many of
         * these one behind the other (0: 1), and so are the parts; part p of all of them begins at
         * column at[p] of a row of wide[p] (0: of just their width). */
        struct {
            uint32_t parts, dim[4], heads, at[4], wide[4];
            uint8_t to[4];
            bool adjacent;
        } split;
        /* out = the sum over the experts that a token takes of weight * expert(in); `logits` are
         * its router's. Expert e has linears first + e * each, and so on: gate, up, down; see
         * struct pith_moe. */
        struct {
            uint8_t logits, rows, gate, up, result;
            uint32_t first, each, dim, correction;
            uint32_t gains; /* a vector that multiplies the weights, or PITH_NO_PART */
        } experts;
        /* out += in, over the width of the stream; with `gate` (a register of one number a row,
         * else PITH_NO_PART) in * sigmoid(gate). */
        struct {
            uint32_t gate;
        } mix;
        /* Latent attention. `in` is queries [heads][nope + rope], `latent` and `rotary` what comes
         * of kv_a. out = [latent | rope] of each head: its queries times the key part of `linear`
         * (kv_b, whose site's input is `latent`); `key` = [latent | rotary]. EXPAND: out = [value]
         * of each head from [rank]. */
        struct {
            uint8_t latent, rotary, key;
            uint32_t linear, heads, nope, rope, value, rank;
        } latent;
        /* `in` (out is in) goes through a causal convolution of each of its `dim` channels by the
         * vectors `weight` [dim][taps] and `bias` (or PITH_NO_PART), then SiLU or nothing. The last
         * taps - 1 inputs stay at the beginning of the layer's state; with `last` no other node of
         * the layer has a part of that. */
        struct {
            uint32_t weight, bias, dim, taps;
            bool silu, last;
        } conv;
        /* The gated delta rule (backend/layer.h): `in` is mixed, `a` and `beta` are registers too;
         * its state is in the layer's from `offset` on. */
        struct {
            uint8_t a, beta;
            uint32_t a_log, dt_bias, key_heads, value_heads, key_dim, value_dim, offset;
        } delta;
        /* Mamba 2's scan (backend/layer.h): `in` is mixed, `step` a register too; its state is in
         * the layer's from `offset` on. */
        struct {
            uint8_t step;
            uint32_t a_log, dt_bias, skip, heads, dim, groups, state, offset;
            float least, most;
        } scan;
        /* out = the layer's vectors of the tokens in `in`, from the model's tables, `dim` wide
         * (model/nodes/token_vectors.c); `work`, of the stream's width, is overwritten. */
        struct {
            uint8_t work;
            uint32_t dim;
        } per_layer;
    } u;
};

/* Registers that a node reads, and writes for others: 1 << register. */
unsigned pith_node_reads(const struct pith_node *n);
unsigned pith_node_writes(const struct pith_node *n);

/* --- what a sequence keeps -------------------------------------------------------------------- */

/* What one layer keeps for a sequence, which is all that struct pith_kv makes room for.
 *   KV         keys [heads][key] and values [heads][value] of each position
 *   LATENT     of each position one key, [latent | rotary part], `key` wide, and as its value the
 *              latent, `value` wide, shared by all heads (DeepSeek-AI 2024, section 2.1)
 *   SHARED     nothing: it reads what layer `of` keeps, KV of these sizes. Where there is room for
 *              one layer at a time it keeps the same rows for itself
 *   RECURRENT  `floats` numbers for all positions so far: the newest inputs of a convolution and
 *              the state of a recurrence, in float32 */
enum pith_state_kind {
    PITH_STATE_NONE,
    PITH_STATE_KV,
    PITH_STATE_LATENT,
    PITH_STATE_SHARED,
    PITH_STATE_RECURRENT
};
struct pith_state_spec {
    enum pith_state_kind kind;
    uint32_t heads, key, value;
    uint32_t of;
    uint32_t floats;
};

/* --- a layer, a model ------------------------------------------------------------------------- */

struct pith_layer_plan {
    struct pith_linear_spec *linear;
    struct pith_site_spec *site;
    struct pith_vector_spec *vector;
    struct pith_node *node;
    struct pith_fused_spec *fused;
    uint32_t linears, sites, vectors, nodes, fuseds;
    struct pith_state_spec state;
    uint32_t width[PITH_LAYER_REGS]; /* of the registers, 0: not used */
    unsigned carried;                /* registers: 1 << number */
};

struct pith_arch;

/* The plans of all layers; layers that are alike share one. */
struct pith_plans {
    const struct pith_arch *arch;
    struct pith_layer_plan *kind;
    uint32_t kinds, layers;
    uint32_t *of;                    /* [layers]: which kind */
    uint32_t width[PITH_LAYER_REGS]; /* the widest of any layer */
    unsigned carried;                /* by any */
    uint32_t rotary;                 /* elements of a head that positions rotate, at most */
    uint32_t tables;                 /* of such rotations */
    uint32_t experts, taken;         /* of a mixture: how many there are, and a token takes */
    uint32_t most_linears, most_sites, most_vectors; /* of any layer */
    size_t *first; /* [layers + 1]: number of linears in the layers before */
};

/* Makes the plans of `shape`; PITH_UNSUPPORTED for a layer that the architecture cannot have. On
 * failure *out owns nothing. */
enum pith_status pith_plans_make(const struct pith_arch *arch, const struct pith_shape *shape,
                                 struct pith_plans *out, struct pith_error *err);
/* Frees what p owns and zeroes it. */
void pith_plans_free(struct pith_plans *p);

static inline const struct pith_layer_plan *pith_plan(const struct pith_plans *p, uint32_t layer)
{
    return &p->kind[p->of[layer]];
}

/* The layer whose keys and values a layer reads: its own, or another's. */
static inline uint32_t pith_plan_rows_of(const struct pith_plans *p, uint32_t layer)
{
    const struct pith_state_spec *s = &pith_plan(p, layer)->state;
    return s->kind == PITH_STATE_SHARED ? s->of : layer;
}

/* Floats a row that layers carry, all registers together. Side by side they lie as [n][width] each,
 * in the order of their numbers: pith_plans_lay() says where in `at`, and leaves other registers.
 */
uint32_t pith_plans_carried(const struct pith_plans *p);
void pith_plans_lay(const struct pith_plans *p, float *at, size_t n, float *reg[PITH_LAYER_REGS]);
/* What the first layer finds there: the tokens, else zeros. */
void pith_plans_fill(const struct pith_plans *p, const int32_t *ids, size_t n, float *at);

/* Those of the carried registers that a layer writes: 1 << register. */
unsigned pith_plan_leaves(const struct pith_layer_plan *l);

/* Whether two layers have the same linears and vectors, of the same sizes. */
bool pith_plan_same_sizes(const struct pith_layer_plan *a, const struct pith_layer_plan *b);

/* The node where a layer stores keys and values; NULL: it has none. */
const struct pith_node *pith_plan_attend(const struct pith_layer_plan *l);

/* The node of a layer's mixture, NULL: it has none; and the site of its router, the last that all
 * tokens reach before it. */
const struct pith_node *pith_plan_experts(const struct pith_layer_plan *l);
uint32_t pith_plan_router(const struct pith_layer_plan *l);

/* Whether a layer's experts can be there one at a time: no linear behind them reads what came of
 * their sum, and what else their module computes behind them reads only what they read, and the
 * sum. */
bool pith_plan_experts_apart(const struct pith_layer_plan *l);

/* The linears that a rescaling of a site's input concerns: those of all sites behind the same norm,
 * returned for the first of these sites (for the others 0); else the site's own. members (NULL:
 * only counted) receives their places. */
uint32_t pith_plan_group(const struct pith_layer_plan *l, uint32_t site, uint32_t *members);
/* Whether one rescaling concerns both sites. */
bool pith_plan_grouped(const struct pith_layer_plan *l, uint32_t site, uint32_t other);

/* Whether all parts of a layer read the same stream: none is computed behind an addition to it. */
bool pith_plan_parallel(const struct pith_layer_plan *l);

/* Whether heads of queries are normalised in any layer. */
bool pith_plans_norm_heads(const struct pith_plans *p);

/* The first site behind that node. */
uint32_t pith_plan_after_attend(const struct pith_layer_plan *l);

/* "model.layers.3." + a name within the layer; at most size bytes are written. */
void pith_plan_name(const struct pith_plans *p, uint32_t layer, const char *part, char *name,
                    size_t size);
/* The same of one of its linears: "model.layers.3.self_attn.q_proj". */
void pith_plan_linear_name(const struct pith_plans *p, uint32_t layer, uint32_t linear, char *name,
                           size_t size);
/* Of which layer `tensor` is, and where its name within the layer begins; NULL: of none. */
const char *pith_plan_layer_of(const struct pith_plans *p, const char *tensor, uint32_t *layer);
/* Whether `tensor` is no part of the language model that the layers are of, by the names that its
 * architecture gives: another tower, layers that predict further tokens. */
bool pith_plan_is_other(const struct pith_plans *p, const char *tensor);
/* Whether `tensor` is of a layer that shares another's keys and values, and would be read if it did
 * not: published files hold such tensors, and nobody reads them. */
bool pith_plan_unread(const struct pith_plans *p, const char *tensor);
/* Whether `tensor` is a buffer that the forward pass computes itself. */
bool pith_plan_buffer(const struct pith_plans *p, const char *tensor);
/* The linear of a layer whose tensor that is ("self_attn.q_proj.weight"), and its suffix
 * (".weight"); of linears "a" and "a.b" that of "a.b.weight" is the second. PITH_NO_PART: of none,
 * and *suffix is unchanged. */
uint32_t pith_plan_find_linear(const struct pith_layer_plan *l, const char *part,
                               const char **suffix);

/* --- making one ------------------------------------------------------------------------------- */

/* What an architecture adds its parts to; a failure (no memory) is remembered. Functions that add
 * return the part's index. */
struct pith_plan_maker {
    const struct pith_arch *arch;
    const struct pith_shape *shape;
    uint32_t layer;
    struct pith_layer_plan *plan;
    bool failed;
};

/* The register becomes at least `width` wide. */
void pith_plan_reg(struct pith_plan_maker *m, unsigned reg, uint32_t width);
/* ... and layers carry it. */
void pith_plan_carry(struct pith_plan_maker *m, unsigned reg, uint32_t width);
uint32_t pith_plan_vector(struct pith_plan_maker *m, const char *name, uint32_t length);
/* Begins a site; the linears added next are its own. */
uint32_t pith_plan_site(struct pith_plan_maker *m, const char *name, uint32_t dim,
                        struct pith_fold fold);
uint32_t pith_plan_linear(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias);
/* The last linear added is computed here. */
void pith_plan_compute(struct pith_plan_maker *m, unsigned in, unsigned out, unsigned work);
void pith_plan_node(struct pith_plan_maker *m, struct pith_node node);
void pith_plan_fused(struct pith_plan_maker *m, const struct pith_fused_spec *fused);
/* stream += register * scale; with the linear just computed when that wrote it. */
void pith_plan_add(struct pith_plan_maker *m, unsigned in, float scale);
/* The site's module (see above) ends with the last node added, in `result`. */
void pith_plan_module(struct pith_plan_maker *m, uint32_t site, unsigned result);

#endif
