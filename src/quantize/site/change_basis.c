#include "quantize/site/change_basis.h"

#include "base/integer.h"
#include "base/mem.h"
#include "kern/ops.h"
#include "quantize/output/output.h"
#include "quantize/site/closeness.h"

#include <stdio.h>
#include <string.h>

/* Where a linear stands between the stream, the heads' values and what goes online. */
struct part {
    uint32_t gain; /* the vector whose output it reads; PITH_NO_PART: it reads something else */
    bool values;   /* it gives the values that are weighted */
    bool weighted; /* it reads them */
    bool down;     /* it reads the rows of another linear one by one */
    bool to_stream;
};

static struct part part_of(const struct pith_layer_plan *l, uint32_t linear)
{
    const struct pith_linear_spec *spec = &l->linear[linear];
    const struct pith_fold *fold = &l->site[spec->site].fold;
    const uint32_t behind = pith_plan_after_attend(l);
    const struct pith_fold *heads = &l->site[behind].fold;
    struct part p = {.gain = PITH_NO_PART, .to_stream = spec->to_stream};
    if (fold->kind == PITH_FOLD_VECTOR && l->vector[fold->from].of_stream) p.gain = fold->from;
    p.values = heads->kind == PITH_FOLD_ROWS && heads->from == linear;
    p.weighted = fold->kind == PITH_FOLD_ROWS && spec->site == behind;
    p.down = fold->kind == PITH_FOLD_ROWS && !p.weighted;
    return p;
}

struct pith_basis_plan pith_basis_widths(const struct pith_model *m)
{
    const struct pith_shape *s = &m->shape;
    uint32_t ffn = 0;
    for (uint32_t k = 0; k < m->plans.kinds; k++)
        for (uint32_t i = 0; i < m->plans.kind[k].linears; i++)
            if (part_of(&m->plans.kind[k], i).down)
                ffn = (uint32_t)pith_common_divisor(ffn, m->plans.kind[k].linear[i].cols);
    return (struct pith_basis_plan){.hidden = s->hidden,
                                    .head_dim = s->head_dim,
                                    .attention = s->heads * s->head_dim,
                                    .ffn = ffn ? ffn : s->ffn,
                                    .fixed = pith_stream_fixed(m) != NULL};
}

const struct pith_rotation *pith_online_rotation(const struct pith_basis *b,
                                                 const struct pith_layer_plan *l, uint32_t linear)
{
    static const struct pith_rotation none = {0};
    const struct part p = part_of(l, linear);
    return p.weighted ? &b->o : p.down ? &b->down : &none;
}

static const struct pith_rotation *outputs_of(const struct pith_basis *b, const struct part *p)
{
    static const struct pith_rotation none = {0};
    return p->values ? &b->head : p->to_stream ? &b->stream : &none;
}

const struct pith_rotation *pith_output_rotation(const struct pith_basis *b,
                                                 const struct pith_layer_plan *l, uint32_t linear)
{
    const struct part p = part_of(l, linear);
    return outputs_of(b, &p);
}

/* A matrix on its way. */
struct matrix {
    struct part part;
    float *w;
    uint32_t rows, cols;
};

static void scale_columns(float *w, size_t rows, size_t cols, const float *gain)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) w[r * cols + c] *= gain[c];
}

static enum pith_status inputs(const struct pith_basis_change *t, const struct pith_rotation *r,
                               const struct matrix *m, struct pith_error *err)
{
    return pith_rotate_inputs(pith_backend_pool(t->backend), r, m->w, m->rows, m->cols, err);
}

static enum pith_status outputs(const struct pith_basis_change *t, const struct pith_rotation *r,
                                const struct matrix *m, struct pith_error *err)
{
    return pith_rotate_outputs(pith_backend_pool(t->backend), r, m->w, m->rows, m->cols, err);
}

/* gain: of the norm before, or NULL. */
static enum pith_status rotate_matrix(const struct pith_basis_change *t, const struct matrix *m,
                                      const float *gain, bool online, struct pith_error *err)
{
    const struct pith_basis *b = t->basis;
    if (gain && b->stream.dim) scale_columns(m->w, m->rows, m->cols, gain);
    if (gain) PITH_TRY(inputs(t, &b->stream, m, err));
    if (m->part.weighted) PITH_TRY(inputs(t, &b->head, m, err));
    if (m->part.weighted && online) PITH_TRY(inputs(t, &b->o, m, err));
    if (m->part.down && online) PITH_TRY(inputs(t, &b->down, m, err));
    return outputs(t, outputs_of(b, &m->part), m, err);
}

bool pith_rotates_weight(const struct pith_basis *b, const struct pith_layer_plan *l,
                         uint32_t linear, bool online)
{
    const struct part p = part_of(l, linear);
    if (online && pith_online_rotation(b, l, linear)->dim) return true;
    if ((p.values || p.weighted) && b->head.dim) return true;
    return (p.to_stream || p.gain != PITH_NO_PART) && b->stream.dim != 0;
}

bool pith_rotates_bias(const struct pith_basis *b, const struct pith_layer_plan *l, uint32_t linear)
{
    return pith_output_rotation(b, l, linear)->dim != 0;
}

bool pith_rotates_vector(const struct pith_basis *b, const struct pith_layer_plan *l,
                         uint32_t vector)
{
    return b->stream.dim != 0 && l->vector[vector].of_stream;
}

static enum pith_status rotate_bias(const struct pith_basis_change *t,
                                    const struct pith_layer_plan *l, uint32_t linear, float *bias,
                                    struct pith_error *err)
{
    if (!pith_rotates_bias(t->basis, l, linear)) return PITH_OK;
    const struct pith_rotation *r = pith_output_rotation(t->basis, l, linear);
    const struct matrix m = {.w = bias, .rows = l->linear[linear].rows, .cols = 1};
    return outputs(t, r, &m, err);
}

enum pith_status pith_rotate_block(const struct pith_basis_change *t, struct pith_block *b,
                                   struct pith_error *err)
{
    const struct pith_layer_plan *l = b->plan;
    for (uint32_t i = 0; i < l->linears; i++) {
        struct pith_linear_weights *w = &b->linear[i];
        const struct matrix m = {part_of(l, i), w->dense, w->w.rows, w->w.cols};
        const float *gain = m.part.gain != PITH_NO_PART ? b->vector[m.part.gain] : NULL;
        if (m.w) PITH_TRY(rotate_matrix(t, &m, gain, w->hadamard > 1, err));
        if (w->bias) PITH_TRY(rotate_bias(t, l, i, w->bias, err));
    }
    for (uint32_t i = 0; i < l->vectors; i++)
        for (uint32_t c = 0; pith_rotates_vector(t->basis, l, i) && c < l->vector[i].length; c++)
            b->vector[i][c] = 1.0f;
    return PITH_OK;
}

/* Tensor `module` + suffix as floats, owned. */
static enum pith_status load(const struct pith_basis_change *t, const char *module,
                             const char *suffix, size_t count, float **out, struct pith_error *err)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s", module, suffix);
    const struct pith_tensor *tensor = pith_checkpoint_find(t->model->checkpoint, name);
    if (!tensor || pith_tensor_elements(tensor) != count)
        return pith_fail(err, PITH_FORMAT, "%s: missing in the input, or of another size", name);
    PITH_TRY(pith_tensor_need(tensor, err));
    float *v = pith_alloc_aligned(count, sizeof *v);
    if (!v) return pith_fail_nomem(err, name);
    if (!pith_tensor_decode(tensor, v)) {
        pith_free(v);
        return pith_fail(err, PITH_UNSUPPORTED, "%s: not of floats", name);
    }
    pith_checkpoint_release(t->model->checkpoint, tensor);
    *out = v;
    return PITH_OK;
}

enum pith_status pith_rotated_linear(const struct pith_basis_change *t, uint32_t layer,
                                     uint32_t linear, bool online, float **w,
                                     struct pith_error *err)
{
    char name[256];
    const struct pith_plans *plans = &t->model->plans;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    const struct pith_linear_spec *spec = &l->linear[linear];
    struct matrix m = {.part = part_of(l, linear), .rows = spec->rows, .cols = spec->cols};
    float *gain = NULL;
    pith_plan_linear_name(plans, layer, linear, name, sizeof name);
    PITH_TRY(load(t, name, ".weight", (size_t)m.rows * m.cols, &m.w, err));
    enum pith_status s = PITH_OK;
    if (m.part.gain != PITH_NO_PART) {
        pith_plan_name(plans, layer, l->vector[m.part.gain].name, name, sizeof name);
        s = load(t, name, "", m.cols, &gain, err);
        const float plus = l->vector[m.part.gain].plus;
        for (uint32_t i = 0; s == PITH_OK && i < m.cols; i++) gain[i] += plus;
    }
    if (s == PITH_OK) s = rotate_matrix(t, &m, gain, online, err);
    pith_free(gain);
    if (s == PITH_OK) *w = m.w;
    else pith_free(m.w);
    return s;
}

enum pith_status pith_rotate_stream(const struct pith_basis_change *t, float *x, size_t n,
                                    struct pith_error *err)
{
    return pith_rotate_inputs(pith_backend_pool(t->backend), &t->basis->stream, x, n,
                              t->model->shape.hidden, err);
}

static void read_end(const struct pith_basis_change *t, bool head, uint32_t first, uint32_t n,
                     float *out)
{
    const struct pith_model *m = t->model;
    pith_decode_rows(t->backend, head ? &m->head : &m->embed, first, n, out);
    if (head) scale_columns(out, n, m->shape.hidden, m->final_norm);
}

enum pith_status pith_rotated_rows(const struct pith_basis_change *t, bool head, uint32_t first,
                                   uint32_t n, float *out, struct pith_error *err)
{
    read_end(t, head, first, n, out);
    return pith_rotate_stream(t, out, n, err);
}

enum pith_status pith_rotated_rows_alone(const struct pith_basis_change *t, bool head,
                                         uint32_t first, uint32_t n, float *out,
                                         struct pith_error *err)
{
    read_end(t, head, first, n, out);
    return pith_rotate_inputs(NULL, &t->basis->stream, out, n, t->model->shape.hidden, err);
}

/* Squares of all rows, a panel at a time; panel holds two of them as floats. */
static enum pith_status square_rows(const struct pith_basis_change *t, bool head,
                                    const struct pith_weight *w, float *panel,
                                    struct pith_row_squares *squares, struct pith_error *err)
{
    const struct pith_kern *k = pith_backend_kern(t->backend);
    const size_t cols = w->cols;
    const uint32_t rows = pith_made_rows(w->cols);
    float *is = panel + rows * cols;
    for (uint32_t at = 0; at < w->rows; at += rows) {
        const uint32_t n = w->rows - at < rows ? w->rows - at : rows;
        PITH_TRY(pith_rotated_rows(t, head, at, n, panel, err));
        pith_decode_rows(t->backend, w, at, n, is);
        for (uint32_t i = 0; i < n; i++)
            squares[at + i] = (struct pith_row_squares){
                .difference = k->sumsq_diff(cols, panel + i * cols, is + i * cols),
                .original = k->sumsq(cols, panel + i * cols)};
    }
    return PITH_OK;
}

enum pith_status pith_rotated_end_error(const struct pith_basis_change *t, bool head,
                                        const struct pith_weight *w, double *error,
                                        struct pith_error *err)
{
    struct pith_row_squares *squares = pith_alloc(w->rows, sizeof *squares);
    float *panel = pith_alloc_aligned(pith_made_bytes(w->cols), 1);
    const enum pith_status s = squares && panel ? square_rows(t, head, w, panel, squares, err)
                                                : pith_fail_nomem(err, "a comparison");
    if (s == PITH_OK) *error = pith_relative_from_squares(squares, w->rows);
    pith_free(squares);
    pith_free(panel);
    return s;
}

/* The gain of the stream that `name` is, by what is added to its stored values; false: it is none.
 */
static bool is_rotated_norm(const struct pith_basis_change *t, const char *name, float *plus)
{
    const struct pith_plans *plans = &t->model->plans;
    const size_t n = strlen(plans->arch->names.norm);
    uint32_t layer;
    *plus = plans->arch->norm.plus;
    if (strncmp(name, plans->arch->names.norm, n) == 0 && strcmp(name + n, ".weight") == 0)
        return t->basis->stream.dim != 0;
    const char *part = pith_plan_layer_of(plans, name, &layer);
    if (!part) return false;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    for (uint32_t i = 0; i < l->vectors; i++)
        if (strcmp(l->vector[i].name, part) == 0) return pith_rotates_vector(t->basis, l, i);
    return false;
}

static enum pith_status fill(uint32_t n, float value, float **values, struct pith_error *err)
{
    float *v = pith_alloc_aligned(n, sizeof *v);
    if (!v) return pith_fail_nomem(err, "a norm");
    for (uint32_t i = 0; i < n; i++) v[i] = value;
    *values = v;
    return PITH_OK;
}

enum pith_status pith_rotated_tensor(const struct pith_basis_change *t, const char *name,
                                     bool online, float **values, struct pith_error *err)
{
    const struct pith_plans *plans = &t->model->plans;
    uint32_t layer, linear = PITH_NO_PART;
    const char *suffix = NULL;
    char module[256];
    float plus;
    if (is_rotated_norm(t, name, &plus))
        return fill(t->model->shape.hidden, 1.0f - plus, values, err);
    const char *part = pith_plan_layer_of(plans, name, &layer);
    if (part) linear = pith_plan_find_linear(pith_plan(plans, layer), part, &suffix);
    if (linear == PITH_NO_PART)
        return pith_fail(err, PITH_ARG, "%s: no rotation changes this tensor", name);
    if (strcmp(suffix, ".weight") == 0)
        return pith_rotated_linear(t, layer, linear, online, values, err);
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    pith_plan_linear_name(plans, layer, linear, module, sizeof module);
    float *bias = NULL;
    PITH_TRY(load(t, module, ".bias", l->linear[linear].rows, &bias, err));
    const enum pith_status s = rotate_bias(t, l, linear, bias, err);
    if (s == PITH_OK) *values = bias;
    else pith_free(bias);
    return s;
}

uint64_t pith_rotate_scratch(const struct pith_basis *b, unsigned threads)
{
    const struct pith_rotation *all[] = {&b->stream, &b->head, &b->o, &b->down};
    uint64_t most = 0;
    for (size_t i = 0; i < PITH_COUNT(all); i++) {
        const uint64_t n = pith_rotation_scratch(all[i], threads);
        if (n > most) most = n;
    }
    return most;
}

/* --- whether it can be ------------------------------------------------------------------------ */

/* What a register holds while a layer's program is walked. */
enum holds { HOLDS_OTHER, HOLDS_NORMED, HOLDS_RESULT };
struct walk {
    const struct pith_layer_plan *plan;
    enum holds holds[PITH_LAYER_REGS];
    uint32_t gain[PITH_LAYER_REGS]; /* of what is normed */
};

static const char *walk_norm(struct walk *w, const struct pith_node *n)
{
    const bool stream = n->in == PITH_REG_STREAM;
    if (!stream && w->holds[n->in] == HOLDS_NORMED) return "a norm reads what a norm gives";
    w->holds[n->out] = HOLDS_OTHER;
    if (!stream) return NULL;
    if (n->u.norm.centred || n->u.norm.bias != PITH_NO_PART)
        return "its norms take away the mean or add a bias";
    if (n->u.norm.vector == PITH_NO_PART || !w->plan->vector[n->u.norm.vector].of_stream ||
        n->u.norm.heads != 1)
        return "a norm of the stream has no gain that could go into what reads it";
    w->holds[n->out] = HOLDS_NORMED;
    w->gain[n->out] = n->u.norm.vector;
    return NULL;
}

/* A linear that reads `in`. */
static const char *walk_reader(const struct walk *w, unsigned in, uint32_t linear)
{
    const struct pith_fold *fold = &w->plan->site[w->plan->linear[linear].site].fold;
    if (in == PITH_REG_STREAM) return "linears read the stream without a norm before them";
    if (w->holds[in] == HOLDS_NORMED &&
        (fold->kind != PITH_FOLD_VECTOR || fold->from != w->gain[in]))
        return "a linear reads a norm whose gain cannot go into it";
    return NULL;
}

static const char *walk_experts(struct walk *w, const struct pith_node *n)
{
    const uint32_t first = n->u.experts.first, last = first + n->u.experts.each - 1;
    w->holds[n->out] = w->plan->linear[last].to_stream ? HOLDS_RESULT : HOLDS_OTHER;
    return walk_reader(w, n->in, first);
}

/* Why the stream around that node cannot be rotated; NULL: it can. */
static const char *walk_node(struct walk *w, const struct pith_node *n)
{
    const unsigned reads = pith_node_reads(n), writes = pith_node_writes(n);
    const char *why = NULL;
    switch (n->kind) {
    case PITH_NODE_NORM: return walk_norm(w, n);
    case PITH_NODE_LINEAR:
        why = walk_reader(w, n->in, n->u.linear.linear);
        w->holds[n->out] = w->plan->linear[n->u.linear.linear].to_stream ? HOLDS_RESULT
                                                                         : HOLDS_OTHER;
        return why;
    case PITH_NODE_EXPERTS: return walk_experts(w, n);
    case PITH_NODE_MIX:
        if (w->holds[n->in] != HOLDS_RESULT) w->holds[n->out] = HOLDS_OTHER;
        return NULL;
    case PITH_NODE_ADD:
        if (w->holds[n->in] != HOLDS_RESULT)
            return "what is added to the stream is no linear's result";
        return NULL;
    default: break;
    }
    for (unsigned r = 0; r < PITH_LAYER_REGS; r++) {
        if (reads >> r & 1 && (r == PITH_REG_STREAM || w->holds[r] == HOLDS_NORMED))
            return "something other than a linear reads the stream";
        if (writes >> r & 1) w->holds[r] = HOLDS_OTHER;
    }
    return NULL;
}

const char *pith_stream_fixed(const struct pith_model *m)
{
    const struct pith_norm_kind last = m->arch->norm;
    const char *why = last.centred || last.bias ? "its norms take away the mean or add a bias"
                                                : NULL;
    for (uint32_t k = 0; k < m->plans.kinds && !why; k++) {
        struct walk w = {.plan = &m->plans.kind[k]};
        for (uint32_t i = 0; i < w.plan->nodes && !why; i++) why = walk_node(&w, &w.plan->node[i]);
    }
    return why;
}

enum pith_status pith_rotate_check(const struct pith_basis *b, const struct pith_model *m,
                                   struct pith_error *err)
{
    const char *why = b->stream.dim ? pith_stream_fixed(m) : NULL;
    if (!why) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "the stream of a %s cannot be rotated: %s; use another transform",
                     m->arch->name, why);
}
