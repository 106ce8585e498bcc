/* Every tensor of the original: quantized, or stored as the account says. */
#include "verify/verify.h"

#include "base/mem.h"
#include "quantize/output/ends.h"
#include "quantize/site/closeness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- against the original --------------------------------------------------------------------- */

static bool is_decoded(const json_t *entry)
{
    const char *action = json_string_value(json_object_get(entry, "action"));
    return action && strcmp(action, "decoded") == 0;
}

/* The entry of a tensor that was decoded from this one: they share all up to the last dot. */
static bool was_decoded(struct pith_verification *v, const char *tensor)
{
    char name[PITH_MAX_NAME + 16];
    const char *dot = strrchr(tensor, '.');
    if (!dot) return false;
    (void)snprintf(name, sizeof name, "%.*s.weight", (int)(dot - tensor), tensor);
    json_t *entry = pith_verify_meet(v, &v->file.tensors, name);
    const bool decoded = is_decoded(entry);
    json_decref(entry);
    return decoded;
}

/* Whether a linear of the account has it: its weight, or whatever a container calls its parts. */
static bool of_linear(struct pith_verification *v, const char *tensor)
{
    char module[PITH_MAX_NAME + 1];
    (void)snprintf(module, sizeof module, "%s", tensor);
    for (char *dot = strrchr(module, '.'); dot; dot = strrchr(module, '.')) {
        const bool part = v->original->container || strcmp(tensor + (dot - module), ".weight") == 0;
        *dot = '\0';
        if (part && pith_verify_has(v, &v->file.linears, module)) return true;
    }
    return false;
}

/* Recorded as omitted, and one that nobody reads, or that a pass computes where the file has no
 * place for it. */
static bool is_left_out(const struct pith_verification *v, const char *tensor)
{
    const struct pith_plans *p = &v->original->plans;
    return (pith_plan_unread(p, tensor) || pith_model_is_stray(v->original, tensor) ||
            (v->checkpoint->file_form && pith_plan_buffer(p, tensor))) &&
           json_object_get(json_object_get(v->account, "left_out"), tensor) != NULL;
}

/* Within a tensor of the account. */
static bool is_within(struct pith_verification *v, const char *tensor)
{
    const struct pith_tensor *t = pith_checkpoint_find(v->checkpoint, tensor);
    const struct pith_tensor *whole = t ? pith_checkpoint_whole(v->checkpoint, t) : NULL;
    return whole && pith_verify_has(v, &v->file.tensors, whole->name);
}

static bool accounted(struct pith_verification *v, const char *tensor)
{
    if (v->original->container && pith_is_kv_scale(tensor)) return true;
    if (is_left_out(v, tensor)) return true;
    return pith_verify_has(v, &v->file.tensors, tensor) || was_decoded(v, tensor) ||
           of_linear(v, tensor) || is_within(v, tensor);
}

/* Rounding a rescaled matrix to the model's dtype leaves less than this of relative error. */
static const double rescaled_slack = 0.01;

/* The matrix is that weight but for factors of its rows and columns. */
static void compare_rescaled(struct pith_verification *v, const struct pith_tensor *a,
                             const struct pith_weight *was)
{
    double error = 0;
    uint8_t *copy = NULL;
    const bool good = pith_tensor_straight(a, &copy);
    const struct pith_weight made = {.rows = was->rows,
                                     .cols = was->cols,
                                     .dtype = a->dtype,
                                     .dense = copy ? copy : a->data};
    if (!good || !pith_relative_error(v->backend, &made, was, true, &error)) v->failed = true;
    else if (!(error < rescaled_slack))
        pith_problem(v, "%s: is not the original rescaled: %.5f away from it", a->name, error);
    pith_free(copy);
}

/* What a transform was folded into is the original, or what the change of basis makes of it, but
 * for factors of its rows and columns. */
static void check_rescaled(struct pith_verification *v, const struct pith_tensor *a,
                           const struct pith_tensor *b)
{
    const struct pith_basis_change t = {&v->basis, v->original, v->backend};
    struct pith_error err = {0};
    float *rotated = NULL;
    uint8_t *copy = NULL;
    if (a->dims != 2 || a->shape[0] > UINT32_MAX || a->shape[1] > UINT32_MAX) return;
    struct pith_weight was = {
        .rows = (uint32_t)a->shape[0], .cols = (uint32_t)a->shape[1], .dtype = b->dtype};
    if (pith_verify_rotates(v)) {
        if (pith_rotated_tensor(&t, a->name, false, &rotated, &err) != PITH_OK)
            pith_fault(v, NULL, &err);
        was.dtype = PITH_F32;
        was.dense = rotated;
    } else if (pith_tensor_straight(b, &copy)) was.dense = copy ? copy : b->data;
    else v->failed = true;
    if (was.dense) compare_rescaled(v, a, &was);
    pith_free(rotated);
    pith_free(copy);
}

/* Numbers of two tensors become those of one way to store them: of a's, or as they are shown. */
static void as_one(const struct pith_tensor *a, const struct pith_tensor *b, float *x, float *y,
                   size_t n)
{
    if (a->as == b->as) return;
    if (b->as == PITH_AS_SHOWN) {
        pith_stored_apply(a->as, y, n);
        return;
    }
    pith_stored_undo(a->as, x, n);
    pith_stored_undo(b->as, y, n);
}

/* a has the values of b, rounded to its dtype, where one file holds vectors in float32 and rows
 * elsewhere. */
static bool equal_rows(const struct pith_tensor *a, const struct pith_tensor *b)
{
    enum { PART = 256 };
    const uint64_t count = pith_tensor_elements(a);
    if (count == 0) return true;
    const uint64_t rows = a->dims ? a->shape[0] : 1, cols = count / rows;
    const size_t wide = pith_dtype_bits(a->dtype) / 8, narrow = pith_dtype_bits(b->dtype) / 8;
    float x[PART], y[PART];
    for (uint64_t r = 0; r < rows; r++) {
        const uint8_t *p = a->data + pith_stow_place(&a->order, r) * cols * wide;
        const uint8_t *q = b->data + pith_stow_place(&b->order, r) * cols * narrow;
        for (uint64_t c = 0; c < cols; c += PART) {
            const size_t n = cols - c < PART ? (size_t)(cols - c) : PART;
            if (a->dtype == b->dtype && a->as == b->as) {
                if (memcmp(p + c * wide, q + c * wide, n * wide) != 0) return false;
                continue;
            }
            if (!pith_dtype_decode(a->dtype, p + c * wide, n, x) ||
                !pith_dtype_decode(b->dtype, q + c * narrow, n, y))
                return false;
            as_one(a, b, x, y, n);
            for (size_t i = 0; i < n; i++) y[i] = pith_round_to(a->dtype, y[i]);
            if (memcmp(x, y, n * sizeof *x) != 0) return false;
        }
    }
    return true;
}

/* The tensor, or a copy of it that lies in rows. */
static bool in_rows(struct pith_tensor *t, uint8_t **copy)
{
    *copy = NULL;
    if (!t->row_step && pith_stow_by_rows(&t->order)) return true;
    if (!pith_tensor_straight(t, copy)) return false;
    t->data = *copy;
    t->row_step = 0;
    t->order = (struct pith_stow){0};
    return true;
}

static bool equal_values(const struct pith_tensor *a, const struct pith_tensor *b)
{
    struct pith_tensor x = *a, y = *b;
    uint8_t *copy[2] = {NULL, NULL};
    const bool same = in_rows(&x, &copy[0]) && in_rows(&y, &copy[1]) && equal_rows(&x, &y);
    pith_free(copy[0]);
    pith_free(copy[1]);
    return same;
}

static bool same_values(const struct pith_tensor *t, const float *want, uint64_t first, size_t n,
                        float *is)
{
    const size_t size = pith_dtype_bits(t->dtype) / 8;
    if (!pith_dtype_decode(t->dtype, t->data + first * size, n, is)) return false;
    for (size_t i = 0; i < n; i++)
        if (is[i] != pith_round_to(t->dtype, want[i])) return false;
    return true;
}

/* The embedding or the head, some rows at a time. */
static enum pith_status compare_end(struct pith_verification *v, const struct pith_basis_change *t,
                                    bool head, const struct pith_tensor *a, bool *same,
                                    struct pith_error *err)
{
    const struct pith_shape *s = &v->original->shape;
    const uint32_t panel = pith_made_rows(s->hidden);
    float *want = pith_alloc_aligned(pith_made_bytes(s->hidden), 1);
    enum pith_status st = want ? PITH_OK : pith_fail_nomem(err, a->name);
    *same = pith_tensor_elements(a) == (uint64_t)s->vocab * s->hidden;
    for (uint32_t at = 0; at < s->vocab && *same && st == PITH_OK; at += panel) {
        const uint32_t n = s->vocab - at < panel ? s->vocab - at : panel;
        st = pith_rotated_rows(t, head, at, n, want, err);
        if (st == PITH_OK)
            *same = same_values(a, want, (uint64_t)at * s->hidden, (size_t)n * s->hidden,
                                want + (size_t)panel * s->hidden);
    }
    pith_free(want);
    return st;
}

static enum pith_status compare_rotated(struct pith_verification *v,
                                        const struct pith_basis_change *t,
                                        const struct pith_tensor *a, bool *same,
                                        struct pith_error *err)
{
    const struct pith_tensor *b = pith_checkpoint_find(v->original->checkpoint, a->name);
    float *want = NULL;
    PITH_TRY(pith_rotated_tensor(t, a->name, false, &want, err));
    const size_t n = (size_t)pith_tensor_elements(a);
    float *is = pith_alloc_aligned(n, sizeof *is);
    *same = is && b && pith_tensor_elements(b) == n && pith_tensor_decode(a, is);
    for (size_t i = 0; *same && i < n; i++) *same = is[i] == pith_round_to(b->dtype, want[i]);
    pith_free(want);
    pith_free(is);
    return is ? PITH_OK : pith_fail_nomem(err, a->name);
}

static bool is_end(const struct pith_verification *v, const char *tensor, enum pith_end end)
{
    char name[PITH_END_NAME];
    pith_end_tensor(v->original, end, name);
    return strcmp(tensor, name) == 0;
}

/* What the change of basis made: the same is made again, so every value must be as it is stored. */
static void check_rotated(struct pith_verification *v, const struct pith_tensor *a)
{
    const struct pith_basis_change t = {&v->basis, v->original, v->backend};
    const bool head = is_end(v, a->name, PITH_END_HEAD);
    struct pith_error err = {0};
    bool same = false;
    if (!pith_verify_rotates(v)) {
        pith_problem(v, "%s: rotated, though pith.json has no rotation", a->name);
        return;
    }
    const enum pith_status s = head || is_end(v, a->name, PITH_END_EMBED)
                                   ? compare_end(v, &t, head, a, &same, &err)
                                   : compare_rotated(v, &t, a, &same, &err);
    if (s != PITH_OK) pith_fault(v, NULL, &err);
    else if (!same) pith_problem(v, "%s: is not the original rotated", a->name);
}

static bool is_numbers(const struct pith_tensor *t)
{
    return t->dtype == PITH_F32 || t->dtype == PITH_F16 || t->dtype == PITH_BF16;
}

/* The embedding or the head of a quantized original, in 16 bits. */
static void check_decoded(struct pith_verification *v, const struct pith_tensor *a)
{
    const bool head = is_end(v, a->name, PITH_END_HEAD);
    const struct pith_weight *was = head ? &v->original->head : &v->original->embed;
    const uint32_t panel = pith_made_rows(was->cols);
    float *want = pith_alloc_aligned(pith_made_bytes(was->cols), 1);
    bool same = want && a->dims == 2 && a->shape[0] == was->rows && a->shape[1] == was->cols;
    for (uint32_t at = 0; same && at < was->rows; at += panel) {
        const uint32_t n = was->rows - at < panel ? was->rows - at : panel;
        pith_weight_decode(was, at, n, want);
        same = same_values(a, want, (uint64_t)at * was->cols, (size_t)n * was->cols,
                           want + (size_t)panel * was->cols);
    }
    pith_free(want);
    if (!same) pith_problem(v, "%s: is not what the original stands for", a->name);
}

/* Of the original's shape, and of its dtype where values are not decoded. */
static bool same_form(const struct pith_verification *v, bool decoded, const struct pith_tensor *a,
                      const struct pith_tensor *b)
{
    const bool file = v->checkpoint->file_form && a->dtype == PITH_F32;
    return (a->dtype == b->dtype || file || decoded || b->lazy) && a->dims == b->dims &&
           memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

static void compare_one(struct pith_verification *v, const char *action,
                        const struct pith_tensor *a, const struct pith_tensor *b)
{
    const bool decoded = strcmp(action, "decoded") == 0, copied = strcmp(action, "copied") == 0;
    if (strcmp(action, "rotated") == 0) check_rotated(v, a);
    else if (decoded && !(b && is_numbers(b))) check_decoded(v, a);
    else if (!b)
        pith_problem(v, "%s: %s from nowhere: the original has no such tensor", a->name, action);
    else if (!same_form(v, decoded, a, b))
        pith_problem(v, "%s: has another shape or dtype than the original", a->name);
    else if (strcmp(action, "trained") == 0) return; /* no longer the original's numbers */
    else if (strcmp(action, "pruned") == 0) return; /* its values were compared with the linears' */
    else if (!copied && !decoded) check_rescaled(v, a, b);
    else if (!equal_values(a, b))
        pith_problem(v,
                     copied ? "%s: differs from the original, though it should be a copy"
                            : "%s: is not what the original stands for",
                     a->name);
}

/* A tensor as the output has it, and as the original does if it does. */
static void check_one(struct pith_verification *v, const char *action, const struct pith_tensor *a,
                      const struct pith_tensor *b)
{
    struct pith_error err = {0};
    uint32_t layer;
    if (b && pith_tensor_need(b, &err) != PITH_OK) pith_fault(v, NULL, &err);
    else compare_one(v, action, a, b);
    /* What stands outside of layers is mapped for as long as the model is open. */
    if (b && b->lazy && pith_plan_layer_of(&v->original->plans, b->name, &layer))
        b->lazy->drop(b->lazy);
}

/* A tensor that holds several of the original's, or parts of one. */
static void check_parts(struct pith_verification *v, const char *action,
                        const struct pith_tensor *whole)
{
    const struct pith_checkpoint *c = v->checkpoint;
    for (size_t i = 0; i < c->count; i++)
        if (pith_tensor_within(&c->tensors[i], whole))
            check_one(v, action, &c->tensors[i],
                      pith_checkpoint_find(v->original->checkpoint, c->tensors[i].name));
}

static void check_entry(struct pith_verification *v, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *action = json_string_value(json_object_get(entry, "action"));
    if (!name || !action) return;
    const struct pith_tensor *a = pith_checkpoint_find_stored(v->checkpoint, name);
    const struct pith_tensor *b = pith_checkpoint_find(v->original->checkpoint, name);
    struct pith_tensor stored;
    if (!a || strcmp(action, "added") == 0) return; /* a problem already; a scale of the KV cache */
    if (!pith_checkpoint_find(v->checkpoint, name)) {
        check_parts(v, action, a);
        return;
    }
    if (b) { /* `a` is as its folder or file has it */
        stored = pith_tensor_stored_in(b, v->checkpoint->file_form != NULL);
        b = &stored;
    }
    check_one(v, action, a, b);
}

enum pith_status pith_verify_tensors(struct pith_verification *v, struct pith_error *err)
{
    const size_t before = pith_problems(v);
    const struct pith_checkpoint *o = v->original->checkpoint;
    struct pith_entries *list = &v->file.tensors;
    for (size_t i = 0; i < o->count; i++)
        if (!accounted(v, o->tensors[i].name))
            pith_problem(v, "%s: in the original, but not accounted for", o->tensors[i].name);
    const size_t then = pith_problems(v);
    for (size_t i = 0; i < list->count; i++) {
        if (!pith_verify_own(v, i, list->count)) continue;
        json_t *entry = pith_verify_entry(v, list, i);
        check_entry(v, entry);
        json_decref(entry);
    }
    PITH_TRY(pith_verify_share(v, then, err));
    pith_checked(v, before,
                 "%zu tensors of the original: each quantized, %srescaled, rotated or copied",
                 o->count, json_object_get(v->account, "recovered") ? "trained, " : "");
    return PITH_OK;
}
