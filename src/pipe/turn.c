#include "pipe/turn.h"

#include "base/mem.h"
#include "kern/ops.h"
#include "pipe/closeness.h"
#include "pipe/run.h"

#include <stdio.h>
#include <string.h>

/* A matrix on its way. */
struct matrix {
    enum pith_role role;
    float *w;
    uint32_t rows, cols;
};

/* The norm whose output a role reads; PITH_NORM_COUNT when it reads something else. */
static enum pith_norm norm_before(enum pith_role role)
{
    switch (role) {
    case PITH_ROLE_Q:
    case PITH_ROLE_K:
    case PITH_ROLE_V: return PITH_NORM_INPUT;
    case PITH_ROLE_GATE:
    case PITH_ROLE_UP: return PITH_NORM_POST;
    default: return PITH_NORM_COUNT;
    }
}

static void scale_columns(float *w, size_t rows, size_t cols, const float *gain)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) w[r * cols + c] *= gain[c];
}

static enum pith_status inputs(const struct pith_turn *t, const struct pith_rotation *r,
                               const struct matrix *m, struct pith_error *err)
{
    return pith_rotate_inputs(pith_backend_pool(t->backend), r, m->w, m->rows, m->cols, err);
}

static enum pith_status outputs(const struct pith_turn *t, const struct pith_rotation *r,
                                const struct matrix *m, struct pith_error *err)
{
    return pith_rotate_outputs(pith_backend_pool(t->backend), r, m->w, m->rows, m->cols, err);
}

/* gain: of the norm before, or NULL. */
static enum pith_status turn_matrix(const struct pith_turn *t, const struct matrix *m,
                                    const float *gain, bool online, struct pith_error *err)
{
    const struct pith_basis *b = t->basis;
    if (gain && b->stream.dim) scale_columns(m->w, m->rows, m->cols, gain);
    if (gain) PITH_TRY(inputs(t, &b->stream, m, err));
    if (m->role == PITH_ROLE_V) PITH_TRY(outputs(t, &b->head, m, err));
    if (m->role == PITH_ROLE_O) PITH_TRY(inputs(t, &b->head, m, err));
    if (m->role == PITH_ROLE_O && online) PITH_TRY(inputs(t, &b->o, m, err));
    if (m->role == PITH_ROLE_DOWN && online) PITH_TRY(inputs(t, &b->down, m, err));
    return m->role == PITH_ROLE_O || m->role == PITH_ROLE_DOWN ? outputs(t, &b->stream, m, err)
                                                               : PITH_OK;
}

bool pith_turns_weight(const struct pith_basis *b, enum pith_role role, bool online)
{
    if (role == PITH_ROLE_DOWN && online && b->down.dim) return true;
    if (role == PITH_ROLE_O && online && b->o.dim) return true;
    if ((role == PITH_ROLE_V || role == PITH_ROLE_O) && b->head.dim) return true;
    return b->stream.dim != 0;
}

bool pith_turns_bias(const struct pith_basis *b, enum pith_role role)
{
    if (role == PITH_ROLE_V) return b->head.dim != 0;
    return (role == PITH_ROLE_O || role == PITH_ROLE_DOWN) && b->stream.dim != 0;
}

static enum pith_status turn_bias(const struct pith_turn *t, enum pith_role role, float *bias,
                                  struct pith_error *err)
{
    uint32_t rows, cols;
    if (!pith_turns_bias(t->basis, role)) return PITH_OK;
    pith_role_dims(&t->model->shape, role, &rows, &cols);
    const struct pith_rotation *r = role == PITH_ROLE_V ? &t->basis->head : &t->basis->stream;
    const struct matrix m = {.w = bias, .rows = rows, .cols = 1};
    return outputs(t, r, &m, err);
}

enum pith_status pith_turn_block(const struct pith_turn *t, unsigned online, struct pith_block *b,
                                 struct pith_error *err)
{
    for (int i = 0; i < PITH_ROLE_COUNT; i++) {
        struct pith_linear_weights *l = &b->linear[i];
        const enum pith_norm norm = norm_before((enum pith_role)i);
        const struct matrix m = {(enum pith_role)i, l->dense, l->w.rows, l->w.cols};
        const float *gain = norm < PITH_NORM_COUNT ? b->norm[norm] : NULL;
        PITH_TRY(turn_matrix(t, &m, gain, online >> i & 1, err));
        if (l->bias) PITH_TRY(turn_bias(t, m.role, l->bias, err));
    }
    for (int i = PITH_NORM_INPUT; t->basis->stream.dim && i <= PITH_NORM_POST; i++)
        for (uint32_t c = 0; c < t->model->shape.hidden; c++) b->norm[i][c] = 1.0f;
    return PITH_OK;
}

/* Tensor `module` + suffix as floats, owned. */
static enum pith_status load(const struct pith_turn *t, const char *module, const char *suffix,
                             size_t count, float **out, struct pith_error *err)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s", module, suffix);
    const struct pith_tensor *tensor = pith_checkpoint_find(t->model->checkpoint, name);
    if (!tensor || pith_tensor_elements(tensor) != count)
        return pith_fail(err, PITH_FORMAT, "%s: missing in the input, or of another size", name);
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

enum pith_status pith_turned_linear(const struct pith_turn *t, uint32_t layer, enum pith_role role,
                                    bool online, float **w, struct pith_error *err)
{
    char name[256];
    struct matrix m = {.role = role};
    float *gain = NULL;
    const enum pith_norm norm = norm_before(role);
    pith_role_dims(&t->model->shape, role, &m.rows, &m.cols);
    pith_linear_name(t->model->arch, layer, role, name, sizeof name);
    PITH_TRY(load(t, name, ".weight", (size_t)m.rows * m.cols, &m.w, err));
    enum pith_status s = PITH_OK;
    if (norm < PITH_NORM_COUNT) {
        pith_norm_name(t->model->arch, layer, norm, name, sizeof name);
        s = load(t, name, ".weight", m.cols, &gain, err);
    }
    if (s == PITH_OK) s = turn_matrix(t, &m, gain, online, err);
    pith_free(gain);
    if (s == PITH_OK) *w = m.w;
    else pith_free(m.w);
    return s;
}

enum pith_status pith_turn_stream(const struct pith_turn *t, float *x, size_t n,
                                  struct pith_error *err)
{
    return pith_rotate_inputs(pith_backend_pool(t->backend), &t->basis->stream, x, n,
                              t->model->shape.hidden, err);
}

static void read_end(const struct pith_turn *t, bool head, uint32_t first, uint32_t n, float *out)
{
    const struct pith_model *m = t->model;
    pith_decode_rows(t->backend, head ? &m->head : &m->embed, first, n, out);
    if (head) scale_columns(out, n, m->shape.hidden, m->final_norm);
}

enum pith_status pith_turned_rows(const struct pith_turn *t, bool head, uint32_t first, uint32_t n,
                                  float *out, struct pith_error *err)
{
    read_end(t, head, first, n, out);
    return pith_turn_stream(t, out, n, err);
}

enum pith_status pith_turned_rows_alone(const struct pith_turn *t, bool head, uint32_t first,
                                        uint32_t n, float *out, struct pith_error *err)
{
    read_end(t, head, first, n, out);
    return pith_rotate_inputs(NULL, &t->basis->stream, out, n, t->model->shape.hidden, err);
}

/* Squares of all rows, a panel at a time; panel holds two of them as floats. */
static enum pith_status square_rows(const struct pith_turn *t, bool head,
                                    const struct pith_weight *w, float *panel,
                                    struct pith_row_squares *squares, struct pith_error *err)
{
    const struct pith_kern *k = pith_backend_kern(t->backend);
    const size_t cols = w->cols;
    const uint32_t rows = pith_made_rows(w->cols);
    float *is = panel + rows * cols;
    for (uint32_t at = 0; at < w->rows; at += rows) {
        const uint32_t n = w->rows - at < rows ? w->rows - at : rows;
        PITH_TRY(pith_turned_rows(t, head, at, n, panel, err));
        pith_decode_rows(t->backend, w, at, n, is);
        for (uint32_t i = 0; i < n; i++)
            squares[at + i] = (struct pith_row_squares){
                .difference = k->sumsq_diff(cols, panel + i * cols, is + i * cols),
                .original = k->sumsq(cols, panel + i * cols)};
    }
    return PITH_OK;
}

enum pith_status pith_turned_end_error(const struct pith_turn *t, bool head,
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

/* Which of a layer's linears `name` is a tensor of, with its suffix. */
static bool find_linear(const struct pith_turn *t, const char *name, uint32_t *layer,
                        enum pith_role *role, const char **suffix)
{
    char module[256];
    unsigned number;
    if (sscanf(name, "model.layers.%u.", &number) != 1 || number >= t->model->shape.layers)
        return false;
    *layer = number;
    for (int i = 0; i < PITH_ROLE_COUNT; i++) {
        *role = (enum pith_role)i;
        pith_linear_name(t->model->arch, number, *role, module, sizeof module);
        *suffix = name + strlen(module);
        if (strncmp(name, module, strlen(module)) == 0 && **suffix == '.') return true;
    }
    return false;
}

static bool is_turned_norm(const struct pith_turn *t, const char *name)
{
    char module[256];
    unsigned layer;
    if (!t->basis->stream.dim) return false;
    if (strcmp(name, "model.norm.weight") == 0) return true;
    if (sscanf(name, "model.layers.%u.", &layer) != 1) return false;
    for (int i = PITH_NORM_INPUT; i <= PITH_NORM_POST; i++) {
        pith_norm_name(t->model->arch, layer, (enum pith_norm)i, module, sizeof module);
        const size_t n = strlen(module);
        if (strncmp(name, module, n) == 0 && strcmp(name + n, ".weight") == 0) return true;
    }
    return false;
}

static enum pith_status ones(uint32_t n, float **values, struct pith_error *err)
{
    float *v = pith_alloc_aligned(n, sizeof *v);
    if (!v) return pith_fail_nomem(err, "a norm");
    for (uint32_t i = 0; i < n; i++) v[i] = 1.0f;
    *values = v;
    return PITH_OK;
}

enum pith_status pith_turned_tensor(const struct pith_turn *t, const char *name, bool online,
                                    float **values, struct pith_error *err)
{
    uint32_t layer, rows, cols;
    enum pith_role role;
    const char *suffix;
    char module[256];
    if (is_turned_norm(t, name)) return ones(t->model->shape.hidden, values, err);
    if (!find_linear(t, name, &layer, &role, &suffix))
        return pith_fail(err, PITH_ARG, "%s: no rotation changes this tensor", name);
    if (strcmp(suffix, ".weight") == 0)
        return pith_turned_linear(t, layer, role, online, values, err);
    pith_role_dims(&t->model->shape, role, &rows, &cols);
    pith_linear_name(t->model->arch, layer, role, module, sizeof module);
    float *bias = NULL;
    PITH_TRY(load(t, module, ".bias", rows, &bias, err));
    const enum pith_status s = turn_bias(t, role, bias, err);
    if (s == PITH_OK) *values = bias;
    else pith_free(bias);
    return s;
}

uint64_t pith_turn_scratch(const struct pith_basis *b, unsigned threads)
{
    const struct pith_rotation *all[] = {&b->stream, &b->head, &b->o, &b->down};
    uint64_t most = 0;
    for (size_t i = 0; i < PITH_COUNT(all); i++) {
        const uint64_t n = pith_rotation_scratch(all[i], threads);
        if (n > most) most = n;
    }
    return most;
}
