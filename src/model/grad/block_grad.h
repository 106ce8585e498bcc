/* model/grad/block_grad.h: a block's forward pass that remembers, and the gradients of a loss of
 * its output with respect to its matrices and its input. For techniques that learn from what a
 * block gives; running a model is model.h's.
 *
 * Both passes compute in float32, whatever the backend's mode, in a fixed order: the same bits for
 * any thread count and instruction set. */
#ifndef PITH_MODEL_GRAD_BLOCK_GRAD_H
#define PITH_MODEL_GRAD_BLOCK_GRAD_H

#include "base/arena.h"
#include "model/model.h"

/* What a node read and wrote, [n][width] each; `other`: keys and values, or what is gated. */
struct pith_tape_step {
    const float *in, *other[2];
    float *out;
    /* What a kind saves in addition: the parts that are split off, the keys of a latent; of a
     * mixture gate, up, their product and the result of each place, by expert
     * (model/grad/grad_experts.c).
     */
    float *saved[4];
    struct pith_tape_routes {
        uint32_t *chosen, *order, *begin; /* as struct pith_scratch */
        float *share;
    } routes;
};

/* One sequence on its way through a block and back. Memory is made once and serves every block of
 * the model. */
struct pith_tape {
    struct pith_backend *backend;
    const struct pith_model *model;
    size_t rows; /* room */
    size_t n;    /* rows of the last forward pass */
    struct pith_kv kv;
    struct pith_tape_step *step;  /* [nodes] of the last forward pass */
    float *grad[PITH_LAYER_REGS]; /* of what the registers hold */
    float *grad_spare;            /* of the widest register */
    struct pith_tape_rope {
        float *cos, *sin, *minus_sin;
        size_t rows; /* that they hold */
    } rope[2];
    float *work;
    /* [linears]: how each linear's input is rounded, as the caller says: at first not at all. For
     * gradients rounding counts as the identity. No Hadamard matrices. */
    struct pith_input *input;
    float *treated;          /* the last input that was rounded, [n][...] */
    const float *treated_of; /* what it was; NULL: nothing */
    struct pith_input treated_as;
    unsigned char *values; /* where a forward pass keeps what nodes wrote */
    size_t values_size;    /* bytes */
    float *state;          /* what recurrent layers begin with */
    double *norms;         /* two numbers of each vector that a norm reads */
    float *router;         /* what a choice of experts needs: 4 numbers an expert */
    void *memory;
};
/* For sequences of up to `rows`; m and be are borrowed. PITH_ARG for 0 rows; on failure *t owns
 * nothing. */
enum pith_status pith_tape_init(struct pith_tape *t, struct pith_backend *be,
                                const struct pith_model *m, size_t rows, struct pith_error *err);
void pith_tape_free(struct pith_tape *t);
/* Bytes that pith_tape_init() takes; UINT64_MAX when they overflow. */
uint64_t pith_tape_bytes(const struct pith_model *m, unsigned threads, size_t rows);

/* out[n][hidden] = block(x[n][hidden]), each followed by what layers carry (pith_plans_lay()), at
 * positions 0 .. n - 1: the bits of pith_block_forward() in
 * the exact mode when no input is rounded. Every linear's w.dense
 * is float32 and is what is computed with. out may be x when no gradient of x is wanted later.
 * PITH_ARG when n exceeds the room or a linear is not float32. */
enum pith_status pith_tape_forward(struct pith_tape *t, const struct pith_block *b, const float *x,
                                   size_t n, float *out, struct pith_error *err);

/* count[experts] grows by how many rows of the last forward pass took each; nothing to do where the
 * layer is no mixture. */
void pith_tape_count(const struct pith_tape *t, const struct pith_block *b, size_t *count);

/* Of a row's experts the least wanted, which gives way first, and of the others that its groups let
 * it take the most wanted. The margin, by which the one is wanted more, is of logits where a
 * softmax is not corrected, else of corrected scores; INFINITY where nobody can come. */
struct pith_rival {
    uint32_t goes, comes;
    float margin;
    float weight; /* of who comes, of the weight of who goes, where they are wanted alike */
};

/* How near each row of a mixture's last forward pass is to another choice, and what that would do:
 * the least wanted of the experts that it takes gives way to the most wanted of the others, at the
 * weight that they have where they are wanted alike. Arrays of `rows` rows of the tape, the
 * caller's. */
struct pith_tape_rivals {
    struct pith_rival *rival; /* [n] */
    float *change;            /* [n][hidden]: what the mixture's output changes by */
    float *weight;            /* [n]: of who comes */
    uint32_t *row;            /* [n]: room */
};
/* Between a forward pass and its backward pass; false where the layer is no mixture. */
bool pith_tape_find_rivals(struct pith_tape *t, const struct pith_block *b,
                           struct pith_tape_rivals *r);

/* What a layer reads besides its matrices: x[n][width] as it was, and the gradient d[n][width] with
 * respect to it, through these readers alone. Rows of an expert's site are those that take it. Of
 * latents, which are keys and values in one, width is the keys'. A mixture reports its sum, x,
 * which others read. Both are there for the call only. */
struct pith_tape_read {
    enum pith_tape_what {
        PITH_READ_SITE,
        PITH_READ_KEYS,
        PITH_READ_VALUES,
        PITH_READ_LATENT,
        PITH_READ_MIXTURE
    } what;
    uint32_t site; /* of PITH_READ_SITE */
    size_t n, width;
    const float *x, *d;
};

/* What a linear gave: d[n][rows] is the gradient with respect to it. Row i is that of token i, or
 * of an expert's linear of the token's choice place[i], of which each token has as many as it
 * takes. There for the call only. */
struct pith_tape_gave {
    uint32_t linear;
    size_t n, rows;
    const float *d;
    const float *x; /* [n][cols], what it read */
    size_t cols;
    const uint32_t *place; /* NULL: no expert's */
};

/* What the gradient of a linear's matrix, [][cols], grows by in `rows` of its rows from `first` on:
 * y^T x, of y[n][rows] and x[n][cols], whose rows lie so many floats apart. An element of a
 * gradient is one chain of multiply-adds over the rows, window after window. Of a bias cols is 0,
 * and rows are added. There for the call only. */
struct pith_tape_product {
    uint32_t linear;
    size_t first, rows, cols, n;
    const float *y, *x;
    size_t y_step, x_step;
};
/* grad[rows][cols], or of a bias grad[rows], of rows [from, from + rows) of the product's, grows by
 * it. */
void pith_tape_add(struct pith_backend *be, const struct pith_tape_product *p, size_t from,
                   size_t rows, float *grad);

/* What layers carry counts as given. What to make of d_out[n][hidden], the gradient of a loss with
 * respect to the output of the last forward pass. */
struct pith_tape_grad {
    const float *d_out;
    float *const *w; /* [linears]: [rows][cols] each, grows by the gradient; NULL: not wanted */
    /* Called with what the wanted gradients would grow by, instead. NULL: they grow. */
    void (*product)(void *ctx, const struct pith_tape_product *p);
    void *product_ctx;
    float *d_x; /* [n][hidden], overwritten; may be d_out; NULL: not wanted. With it the x of
                   the forward pass is unchanged. */
    /* Called with every input of linears and with what attention reads; needs d_x. May be NULL. */
    void (*seen)(void *ctx, const struct pith_tape_read *read);
    void *ctx;
    /* Called with the output of every linear, but for those that attention over latents absorbs.
     * May be NULL. */
    void (*gave)(void *ctx, const struct pith_tape_gave *gave);
    void *gave_ctx;
    /* The loss depends on the margins of a mixture's rows, too: its gradient with respect to them.
     * NULL: it does not. */
    const struct pith_tape_rivals *rivals;
    const float *d_margin; /* [n] */
    /* Gradients of gains and biases, which grow by them; NULL: of none. [vectors], of those that
     * norms read, and [linears]; of each NULL: not wanted. Of the norms in front of the first
     * matrix only with d_x. */
    float *const *vector, *const *bias;
};
/* Once after a forward pass; b as it was there. */
void pith_tape_backward(struct pith_tape *t, const struct pith_block *b,
                        const struct pith_tape_grad *g);

#endif
