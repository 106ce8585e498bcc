/* The questions that a finished checkpoint must answer, asked of its files alone. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/gguf_model.h"
#include "pipe/closeness.h"
#include "pipe/prune.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct verification {
    const struct pith_verify_options *options;
    struct pith_backend *backend;
    struct pith_checkpoint
        *checkpoint; /* the files alone: damage beyond repair still gets a report */
    struct pith_model *model, *original;
    json_t *account;         /* pith.json */
    struct pith_basis basis; /* of the stored tensors, against the original's */
    json_t *checks, *problems;
    uint64_t weights, others; /* quantized weights, and elements of all other tensors */
    double bits;              /* of the quantized weights */
    size_t matched;           /* entries of pith.json's linears that the model has */
    size_t pruned;            /* linears of 16 bits with zeros in them */
    double done, total;
};

static void problem(struct verification *v, const char *fmt, ...) PITH_PRINTF(2, 3);

static void problem(struct verification *v, const char *fmt, ...)
{
    struct pith_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    json_array_append_new(v->problems, json_string(pith_str_text(&s)));
    pith_str_free(&s);
}

/* A check is good when it added no problem. */
static void note_check(struct verification *v, size_t problems_before, const char *fmt, ...)
    PITH_PRINTF(3, 4);

static void note_check(struct verification *v, size_t problems_before, const char *fmt, ...)
{
    struct pith_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    json_array_append_new(v->checks, json_pack("{s:s, s:b}", "what", pith_str_text(&s), "ok",
                                               json_array_size(v->problems) == problems_before));
    pith_str_free(&s);
}

static enum pith_status tick(struct verification *v, const char *what, struct pith_error *err)
{
    v->done += 1;
    return pith_progress_step(&v->options->progress, what, v->done, v->total, err);
}

/* --- stored tensors -------------------------------------------------------------------------- */

static void check_stored(struct verification *v, const json_t *stored, json_t *seen)
{
    const char *name = json_string_value(json_object_get(stored, "name"));
    const char *want = json_string_value(json_object_get(stored, "sha256"));
    char hex[PITH_SHA256_HEX];
    if (!name || !want) {
        problem(v, "pith.json: a stored tensor without name or hash");
        return;
    }
    if (json_object_get(seen, name)) problem(v, "%s: is in pith.json twice", name);
    json_object_set_new(seen, name, json_true());
    const struct pith_tensor *t = pith_checkpoint_find(v->checkpoint, name);
    if (!t) problem(v, "%s: missing", name);
    else if ((uint64_t)json_integer_value(json_object_get(stored, "bytes")) != t->bytes)
        problem(v, "%s: has %zu bytes, and pith.json says something else", name, t->bytes);
    else if (!pith_sha256_hex(t->data, t->bytes, hex) || strcmp(hex, want) != 0)
        problem(v, "%s: its bytes are not those that pith wrote", name);
    if (t) pith_checkpoint_release(v->checkpoint, t);
}

/* What stands beside the linears: one tensor of that name, of finite values. */
static void check_other(struct verification *v, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *action = json_string_value(json_object_get(entry, "action"));
    const json_t *stored = json_array_get(json_object_get(entry, "stored"), 0);
    const char *stored_name = json_string_value(json_object_get(stored, "name"));
    struct pith_error err = {0};
    const bool known = action &&
                       (strcmp(action, "copied") == 0 || strcmp(action, "rescaled") == 0 ||
                        strcmp(action, "rotated") == 0 || strcmp(action, "pruned") == 0 ||
                        strcmp(action, "decoded") == 0 || strcmp(action, "added") == 0);
    if (!name || !known || !stored_name || strcmp(name, stored_name) != 0) {
        problem(v, "pith.json: a tensor's entry lacks its name, action or stored tensor");
        return;
    }
    const struct pith_tensor *t = pith_checkpoint_find(v->checkpoint, name);
    if (!t) return;
    if (strcmp(action, "added") != 0) v->others += pith_tensor_elements(t);
    if (pith_tensor_check_finite(t, &err) != PITH_OK) problem(v, "%s", err.text);
}

static enum pith_status check_list(struct verification *v, const char *key, json_t *seen,
                                   struct pith_error *err)
{
    const json_t *entry, *stored;
    size_t i, k;
    const json_t *list = json_object_get(v->account, key);
    if (!json_is_array(list)) problem(v, "pith.json: \"%s\" is not a list", key);
    json_array_foreach (list, i, entry) {
        json_array_foreach (json_object_get(entry, "stored"), k, stored)
            check_stored(v, stored, seen);
        if (strcmp(key, "tensors") == 0) check_other(v, entry);
        PITH_TRY(tick(v, "checking hashes", err));
    }
    return PITH_OK;
}

static enum pith_status check_tensors(struct verification *v, struct pith_error *err)
{
    const size_t before = json_array_size(v->problems);
    json_t *seen = json_object();
    if (!seen) return pith_fail_nomem(err, "the report");
    enum pith_status s = check_list(v, "linears", seen, err);
    if (s == PITH_OK) s = check_list(v, "tensors", seen, err);
    for (size_t i = 0; i < v->checkpoint->count && s == PITH_OK; i++)
        if (!json_object_get(seen, v->checkpoint->tensors[i].name))
            problem(v, "%s: not accounted for in pith.json", v->checkpoint->tensors[i].name);
    note_check(v, before, "%zu stored tensors: present, none unknown, hashes as recorded",
               json_object_size(seen));
    json_decref(seen);
    return s;
}

/* --- linears --------------------------------------------------------------------------------- */

/* The role whose full name is `module` in one of the blocks; *layer receives which. */
static const struct pith_weight *find_linear(const struct pith_model *m, const struct pith_block *b,
                                             const char *module, enum pith_role *role)
{
    for (int r = 0; r < PITH_ROLE_COUNT; r++) {
        char name[256];
        pith_linear_name(m->arch, b->layer, (enum pith_role)r, name, sizeof name);
        if (strcmp(name, module) != 0) continue;
        *role = (enum pith_role)r;
        return &b->linear[r].w;
    }
    return NULL;
}

/* The recorded error was summed over the same numbers in the same order; JSON keeps nine digits. */
static const double error_slack = 1e-8;
/* Figures near 10, with nine digits. */
static const double figure_slack = 1e-6;

static bool turns(const struct verification *v)
{
    return v->basis.stream.dim || v->basis.head.dim || v->basis.o.dim || v->basis.down.dim;
}

static void compare_error(struct verification *v, const json_t *entry, double error)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const double recorded = json_number_value(json_object_get(entry, "relative_error"));
    if (fabs(error - recorded) > recorded * 1e-6 + error_slack)
        problem(v, "%s: %.5f away from the original, where pith.json says %.5f", name, error,
                recorded);
}

static void check_error(struct verification *v, const json_t *entry, const struct pith_weight *w,
                        const struct pith_weight *original)
{
    const bool transformed = json_is_true(json_object_get(entry, "transformed"));
    double error;
    if (pith_relative_error(v->backend, w, original, transformed, &error))
        compare_error(v, entry, error);
    else
        problem(v, "%s: out of memory while comparing",
                json_string_value(json_object_get(entry, "name")));
}

/* An entry's own figures against what is stored. */
static void check_entry(struct verification *v, const json_t *entry, const struct pith_qmat *q)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *shape = json_object_get(entry, "shape");
    const char *text = json_string_value(json_object_get(entry, "grid"));
    const double bits = pith_qmat_bits_per_weight(q);
    struct pith_grid grid = {0};
    v->weights += (uint64_t)q->rows * q->cols;
    v->bits += bits * (double)q->rows * (double)q->cols;
    if (json_integer_value(json_array_get(shape, 0)) != q->rows ||
        json_integer_value(json_array_get(shape, 1)) != q->cols)
        problem(v, "%s: is %u x %u, and pith.json says something else", name, q->rows, q->cols);
    const bool known = text && pith_grid_parse(text, &grid, NULL) == PITH_OK;
    const struct pith_grid elements = pith_grid_elements(&grid, NULL);
    if (!known || elements.format != q->format || elements.asym != (q->zeros != NULL))
        problem(v, "%s: is not on the grid that pith.json names", name);
    if (fabs(json_number_value(json_object_get(entry, "bits_per_weight")) - bits) > figure_slack)
        problem(v, "%s: takes %.4f bits a weight, and pith.json says something else", name, bits);
}

/* What the original is in the basis of what is stored. */
static void check_turned(struct verification *v, uint32_t layer, enum pith_role role,
                         const json_t *entry, const struct pith_weight *w)
{
    const struct pith_turn t = {&v->basis, v->original, v->backend};
    struct pith_weight original = {.rows = w->rows, .cols = w->cols, .dtype = PITH_F32};
    struct pith_error err = {0};
    float *values = NULL;
    if (pith_turned_linear(&t, layer, role, w->quant != NULL, &values, &err) != PITH_OK) {
        problem(v, "%s", err.text);
        return;
    }
    original.dense = values;
    check_error(v, entry, w, &original);
    pith_free(values);
}

static void check_distance(struct verification *v, const struct pith_block *original,
                           enum pith_role role, const json_t *entry, const struct pith_weight *w)
{
    if (turns(v)) check_turned(v, original->layer, role, entry, w);
    else check_error(v, entry, w, &original->linear[role].w);
}

/* The recipe promises zeros. */
static bool two_four(const struct verification *v)
{
    const json_t *recipe = json_object_get(v->account, "recipe");
    const char *split = json_string_value(json_object_get(recipe, "split"));
    return split && strncmp(split, "2:4", 3) == 0;
}

static void check_zeros(struct verification *v, const char *name, const struct pith_weight *w)
{
    struct pith_error err = {0};
    if (pith_two_four_check(v->backend, w, &err) != PITH_OK) problem(v, "%s: %s", name, err.text);
}

/* What an entry says of the weights alone. */
static void check_values(struct verification *v, const json_t *entry, const struct pith_weight *w)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *want = json_string_value(json_object_get(entry, "sha256"));
    char hex[PITH_SHA256_HEX];
    struct pith_error err = {0};
    if (!w->quant) {
        problem(v, "%s: is not quantized, though pith.json says so", name);
        return;
    }
    if (pith_weights_digest(v->backend, w, hex, &err) != PITH_OK)
        problem(v, "%s: %s", name, err.text);
    else if (!want || strcmp(hex, want) != 0)
        problem(v, "%s: dequantizes to other values than the quantizer meant", name);
    check_entry(v, entry, w->quant);
}

static void check_linear(struct verification *v, const struct pith_block *b,
                         const struct pith_block *original, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    enum pith_role role;
    const struct pith_weight *w = name ? find_linear(v->model, b, name, &role) : NULL;
    if (!w) return;
    v->matched++;
    check_values(v, entry, w);
    if (!w->quant) return;
    if (two_four(v)) check_zeros(v, name, w);
    if (original) check_distance(v, original, role, entry, w);
}

/* The embedding or the head that an entry names, NULL for another name. */
static const struct pith_weight *end_of(const struct pith_model *m, const char *name)
{
    if (strcmp(name, "model.embed_tokens") == 0) return &m->embed;
    return strcmp(name, "lm_head") == 0 && !m->shape.tied ? &m->head : NULL;
}

static void check_turned_end(struct verification *v, const json_t *entry, bool head,
                             const struct pith_weight *w)
{
    const struct pith_turn t = {&v->basis, v->original, v->backend};
    struct pith_error err = {0};
    double error;
    if (pith_turned_end_error(&t, head, w, &error, &err) == PITH_OK) compare_error(v, entry, error);
    else problem(v, "%s", err.text);
}

static void check_end(struct verification *v, const json_t *entry, const char *name,
                      const struct pith_weight *w)
{
    const struct pith_weight *was = end_of(v->original, name);
    if (v->basis.stream.dim) check_turned_end(v, entry, w == &v->model->head, w);
    else if (was) check_error(v, entry, w, was);
    else problem(v, "%s: the original has none of its own", name);
}

/* Entries of the embedding and the head, where they are quantized. */
static void check_ends(struct verification *v)
{
    const json_t *entry;
    size_t i, listed = 0;
    json_array_foreach (json_object_get(v->account, "linears"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const struct pith_weight *w = name ? end_of(v->model, name) : NULL;
        if (!w) continue;
        listed++;
        v->matched++;
        check_values(v, entry, w);
        if (v->original && w->quant) check_end(v, entry, name, w);
    }
    size_t quantized = v->model->embed.quant != NULL;
    if (!v->model->shape.tied && v->model->head.quant) quantized++;
    if (listed != quantized)
        problem(v, "%zu of the embedding and the head are quantized, and pith.json lists %zu",
                quantized, listed);
}

/* A linear in 16 bits with zeros in it: its entry is that of its tensor. */
static void check_pruned(struct verification *v, const struct pith_block *b,
                         const struct pith_block *original, const json_t *entry)
{
    const char *action = json_string_value(json_object_get(entry, "action"));
    const char *name = json_string_value(json_object_get(entry, "name"));
    const size_t n = name ? strlen(name) : 0, suffix = strlen(".weight");
    char module[256];
    enum pith_role role;
    if (!action || strcmp(action, "pruned") != 0 || n <= suffix || n - suffix >= sizeof module)
        return;
    snprintf(module, sizeof module, "%.*s", (int)(n - suffix), name);
    const struct pith_weight *w = find_linear(v->model, b, module, &role);
    if (!w) return;
    v->pruned++;
    check_zeros(v, name, w);
    if (original) check_distance(v, original, role, entry, w);
}

/* Every linear is quantized and recorded, or recorded as left alone. */
static void check_recorded(struct verification *v, const struct pith_block *b)
{
    for (int r = 0; r < PITH_ROLE_COUNT; r++) {
        char name[256];
        unsigned listed = 0;
        const json_t *entry;
        size_t i;
        pith_linear_name(v->model->arch, b->layer, (enum pith_role)r, name, sizeof name);
        json_array_foreach (json_object_get(v->account, "linears"), i, entry) {
            const char *n = json_string_value(json_object_get(entry, "name"));
            listed += n && strcmp(n, name) == 0;
        }
        if (listed > 1) problem(v, "%s: is in pith.json %u times", name, listed);
        if (b->linear[r].w.quant && !listed)
            problem(v, "%s: quantized, but not in pith.json", name);
    }
}

static enum pith_status check_block(struct verification *v, uint32_t layer, struct pith_error *err)
{
    struct pith_block block, original;
    const json_t *entry;
    size_t i;
    struct pith_error why = {0};
    if (pith_block_load(v->model, layer, PITH_LOAD_MAPPED, &block, &why) != PITH_OK) {
        problem(v, "block %u: %s", layer, why.text);
        return PITH_OK;
    }
    enum pith_status s = PITH_OK;
    if (v->original) s = pith_block_load(v->original, layer, PITH_LOAD_MAPPED, &original, err);
    if (s == PITH_OK) {
        check_recorded(v, &block);
        json_array_foreach (json_object_get(v->account, "linears"), i, entry)
            check_linear(v, &block, v->original ? &original : NULL, entry);
        json_array_foreach (json_object_get(v->account, "tensors"), i, entry)
            check_pruned(v, &block, v->original ? &original : NULL, entry);
        if (v->original) pith_block_free(&original);
        s = tick(v, "checking weights", err);
    }
    pith_block_free(&block);
    return s;
}

static enum pith_status check_linears(struct verification *v, struct pith_error *err)
{
    const size_t before = json_array_size(v->problems);
    for (uint32_t i = 0; i < v->model->shape.layers; i++) PITH_TRY(check_block(v, i, err));
    check_ends(v);
    const size_t listed = json_array_size(json_object_get(v->account, "linears"));
    if (json_array_size(v->problems) == before && v->matched != listed)
        problem(v, "pith.json lists %zu linears, and %zu of them are in the model", listed,
                v->matched);
    const char *close = v->original ? ", as close to the original as recorded" : "";
    if (listed || !v->pruned)
        note_check(v, before, "%zu quantized linears: finite, dequantized as meant%s%s", listed,
                   two_four(v) ? ", two zeros in each four" : "", close);
    if (v->pruned)
        note_check(v, before, "%zu linears of 16 bits: two zeros in each four%s", v->pruned, close);
    return PITH_OK;
}

/* --- figures --------------------------------------------------------------------------------- */

static void check_number(struct verification *v, const json_t *in, const char *key, double is)
{
    const json_t *said = json_object_get(in, key);
    if (!json_is_number(said) || fabs(json_number_value(said) - is) > is * 1e-9 + figure_slack)
        problem(v, "pith.json: \"%s\" should be %.9g", key, is);
}

static void check_text(struct verification *v, const char *key, const char *is)
{
    const char *said = json_string_value(json_object_get(v->account, key));
    if (!said || strcmp(said, is) != 0) problem(v, "pith.json: \"%s\" should be \"%s\"", key, is);
}

static const char *container_name(const struct pith_model *m)
{
    if (m->container) return m->container->name;
    return m->checkpoint->gguf ? "gguf" : "none";
}

/* A GGUF file does not tell Mistral from Llama. */
static void check_architecture(struct verification *v)
{
    const char *said = json_string_value(json_object_get(v->account, "architecture"));
    const struct pith_gguf_arch *a = said ? pith_gguf_arch_of(said) : NULL;
    const struct pith_gguf_arch *b = pith_gguf_arch_of(v->model->arch->name);
    if (v->checkpoint->gguf && a && b && strcmp(a->name, b->name) == 0) return;
    check_text(v, "architecture", v->model->arch->name);
}

/* The totals that pith.json states, taken again. */
static void check_figures(struct verification *v)
{
    const size_t before = json_array_size(v->problems);
    const json_t *sizes = json_object_get(v->account, "sizes");
    const double bytes = (double)v->checkpoint->bytes;
    const double parameters = (double)(v->weights + v->others);
    check_architecture(v);
    check_text(v, "container", container_name(v->model));
    check_number(v, sizes, "output_bytes", bytes);
    check_number(v, sizes, "parameters", parameters);
    check_number(v, sizes, "quantized_parameters", (double)v->weights);
    if (v->original) check_number(v, sizes, "input_bytes", (double)v->original->checkpoint->bytes);
    check_number(v, v->account, "bits_per_weight", v->weights ? v->bits / (double)v->weights : 0);
    check_number(v, v->account, "bits_per_parameter",
                 8 * bytes / (parameters > 0 ? parameters : 1));
    note_check(v, before, "sizes and bits per weight: as recorded");
}

/* --- against the original -------------------------------------------------------------------- */

static bool is_decoded(const json_t *entry)
{
    const char *action = json_string_value(json_object_get(entry, "action"));
    return action && strcmp(action, "decoded") == 0;
}

/* Names that are the same up to their last dot. */
static bool same_module(const char *a, const char *b)
{
    const char *dot = a ? strrchr(a, '.') : NULL;
    return dot && strncmp(a, b, (size_t)(dot - a) + 1) == 0 && !strchr(b + (dot - a) + 1, '.');
}

static bool accounted(const struct verification *v, const char *tensor)
{
    if (v->original->container && pith_is_kv_scale(tensor)) return true;
    const json_t *entry;
    size_t i;
    json_array_foreach (json_object_get(v->account, "tensors"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && strcmp(name, tensor) == 0) return true;
        if (is_decoded(entry) && same_module(name, tensor)) return true;
    }
    json_array_foreach (json_object_get(v->account, "linears"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const size_t n = name ? strlen(name) : 0;
        if (!n || strncmp(name, tensor, n) != 0 || tensor[n] != '.') continue;
        if (strcmp(tensor + n, ".weight") == 0 || v->original->container) return true;
    }
    return false;
}

/* Rounding a rescaled matrix to the model's dtype leaves less than this of relative error. */
static const double rescaled_slack = 0.01;

/* What a transform was folded into is the original but for factors of its rows and columns. */
static void check_rescaled(struct verification *v, const char *name, const struct pith_tensor *a,
                           const struct pith_tensor *b)
{
    double error = 0;
    if (a->dims != 2 || a->shape[0] > UINT32_MAX || a->shape[1] > UINT32_MAX) return;
    const uint32_t rows = (uint32_t)a->shape[0], cols = (uint32_t)a->shape[1];
    uint8_t *copy[2] = {NULL, NULL};
    const bool good = pith_tensor_straight(a, &copy[0]) && pith_tensor_straight(b, &copy[1]);
    const struct pith_weight made = {
        .rows = rows, .cols = cols, .dtype = a->dtype, .dense = copy[0] ? copy[0] : a->data};
    const struct pith_weight was = {
        .rows = rows, .cols = cols, .dtype = b->dtype, .dense = copy[1] ? copy[1] : b->data};
    if (!good || !pith_relative_error(v->backend, &made, &was, true, &error))
        problem(v, "%s: out of memory while comparing", name);
    else if (!(error < rescaled_slack))
        problem(v, "%s: is not the original rescaled: %.5f away from it", name, error);
    pith_free(copy[0]);
    pith_free(copy[1]);
}

/* One has the values of the other, where a GGUF file holds vectors in float32 and rows turned. */
static bool equal_values(const struct pith_tensor *a, const struct pith_tensor *b)
{
    enum { PART = 256 };
    const uint64_t rows = a->dims ? a->shape[0] : 1, cols = pith_tensor_elements(a) / rows;
    const size_t wide = pith_dtype_bits(a->dtype) / 8, narrow = pith_dtype_bits(b->dtype) / 8;
    float x[PART], y[PART];
    for (uint64_t r = 0; r < rows; r++) {
        const uint8_t *p = a->data + pith_turned_row(r, rows, a->heads) * cols * wide;
        const uint8_t *q = b->data + pith_turned_row(r, rows, b->heads) * cols * narrow;
        for (uint64_t c = 0; c < cols; c += PART) {
            const size_t n = cols - c < PART ? (size_t)(cols - c) : PART;
            if (a->dtype == b->dtype) {
                if (memcmp(p + c * wide, q + c * wide, n * wide) != 0) return false;
                continue;
            }
            if (!pith_dtype_decode(a->dtype, p + c * wide, n, x) ||
                !pith_dtype_decode(b->dtype, q + c * narrow, n, y) ||
                memcmp(x, y, n * sizeof *x) != 0)
                return false;
        }
    }
    return true;
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
static enum pith_status compare_end(struct verification *v, const struct pith_turn *t, bool head,
                                    const struct pith_tensor *a, bool *same, struct pith_error *err)
{
    const struct pith_shape *s = &v->original->shape;
    const uint32_t panel = pith_made_rows(s->hidden);
    float *want = pith_alloc_aligned(pith_made_bytes(s->hidden), 1);
    enum pith_status st = want ? PITH_OK : pith_fail_nomem(err, a->name);
    *same = pith_tensor_elements(a) == (uint64_t)s->vocab * s->hidden;
    for (uint32_t at = 0; at < s->vocab && *same && st == PITH_OK; at += panel) {
        const uint32_t n = s->vocab - at < panel ? s->vocab - at : panel;
        st = pith_turned_rows(t, head, at, n, want, err);
        if (st == PITH_OK)
            *same = same_values(a, want, (uint64_t)at * s->hidden, (size_t)n * s->hidden,
                                want + (size_t)panel * s->hidden);
    }
    pith_free(want);
    return st;
}

static enum pith_status compare_turned(struct verification *v, const struct pith_turn *t,
                                       const struct pith_tensor *a, bool *same,
                                       struct pith_error *err)
{
    const struct pith_tensor *b = pith_checkpoint_find(v->original->checkpoint, a->name);
    float *want = NULL;
    PITH_TRY(pith_turned_tensor(t, a->name, false, &want, err));
    const size_t n = (size_t)pith_tensor_elements(a);
    float *is = pith_alloc_aligned(n, sizeof *is);
    *same = is && b && pith_tensor_elements(b) == n && pith_tensor_decode(a, is);
    for (size_t i = 0; *same && i < n; i++) *same = is[i] == pith_round_to(b->dtype, want[i]);
    pith_free(want);
    pith_free(is);
    return is ? PITH_OK : pith_fail_nomem(err, a->name);
}

/* What the change of basis made: the same is made again, so every value must be as it is stored. */
static void check_rotated(struct verification *v, const struct pith_tensor *a)
{
    const struct pith_turn t = {&v->basis, v->original, v->backend};
    const bool head = strcmp(a->name, "lm_head.weight") == 0;
    struct pith_error err = {0};
    bool same = false;
    if (!turns(v)) {
        problem(v, "%s: rotated, though pith.json tells of no rotation", a->name);
        return;
    }
    const enum pith_status s = head || strcmp(a->name, "model.embed_tokens.weight") == 0
                                   ? compare_end(v, &t, head, a, &same, &err)
                                   : compare_turned(v, &t, a, &same, &err);
    if (s != PITH_OK) problem(v, "%s", err.text);
    else if (!same) problem(v, "%s: is not the original rotated", a->name);
}

/* The embedding or the head of a quantized original, in 16 bits. */
static void check_decoded(struct verification *v, const struct pith_tensor *a)
{
    char module[64];
    (void)snprintf(module, sizeof module, "%.*s", (int)strcspn(a->name, "."), a->name);
    const bool head = strcmp(module, "lm_head") == 0;
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
    if (!same) problem(v, "%s: is not what the original stands for", a->name);
}

static void check_kept(struct verification *v, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *action = json_string_value(json_object_get(entry, "action"));
    if (!name || !action) return;
    const struct pith_tensor *a = pith_checkpoint_find(v->checkpoint, name);
    const struct pith_tensor *b = pith_checkpoint_find(v->original->checkpoint, name);
    if (!a) return; /* a problem already */
    if (strcmp(action, "added") == 0) return; /* a scale of the KV cache */
    if (strcmp(action, "rotated") == 0) check_rotated(v, a);
    else if (is_decoded(entry)) check_decoded(v, a);
    else if (!b) problem(v, "%s: %s from nowhere: the original has no such tensor", name, action);
    else if ((a->dtype != b->dtype && !(v->checkpoint->gguf && a->dims == 1)) ||
             a->dims != b->dims || memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) != 0)
        problem(v, "%s: has another shape or dtype than the original", name);
    else if (strcmp(action, "pruned") == 0) return; /* its values were compared with the linears' */
    else if (strcmp(action, "copied") != 0) check_rescaled(v, name, a, b);
    else if (!equal_values(a, b))
        problem(v, "%s: differs from the original, though it should be a copy", name);
}

static void check_against(struct verification *v)
{
    const json_t *entry;
    size_t i;
    const size_t before = json_array_size(v->problems);
    const struct pith_checkpoint *o = v->original->checkpoint;
    for (i = 0; i < o->count; i++)
        if (!accounted(v, o->tensors[i].name))
            problem(v, "%s: in the original, but not accounted for", o->tensors[i].name);
    json_array_foreach (json_object_get(v->account, "tensors"), i, entry) check_kept(v, entry);
    note_check(v, before,
               "%zu tensors of the original: each quantized, rescaled, rotated or "
               "copied",
               o->count);
}

/* --- engines --------------------------------------------------------------------------------- */

static enum pith_status check_engines(struct verification *v, struct pith_error *err)
{
    for (size_t i = 0; i < v->options->targets.count; i++) {
        const size_t before = json_array_size(v->problems);
        PITH_TRY(pith_preflight_model(v->model, v->options->targets.item[i], v->problems, err));
        note_check(v, before, "loading rules of %s", v->options->targets.item[i]);
    }
    return PITH_OK;
}

/* --- the whole ------------------------------------------------------------------------------- */

/* The rotations that pith.json tells of, as the quantizer made them. */
static enum pith_status open_basis(struct verification *v, struct pith_error *err)
{
    const json_t *j = json_object_get(v->account, "basis");
    const struct pith_shape *s = &v->original->shape;
    const char *where = "pith.json: \"basis\"";
    int64_t stream = 0, head = 0, o = 0, down = 0, seed = 0;
    if (!j || json_is_null(j)) return PITH_OK;
    if (!json_is_object(j)) return pith_fail(err, PITH_FORMAT, "%s is not an object", where);
    PITH_TRY(pith_json_get_int(j, "stream", 0, s->hidden, &stream, where, err));
    PITH_TRY(pith_json_get_int(j, "head", 0, s->head_dim, &head, where, err));
    PITH_TRY(pith_json_get_int(j, "o", 0, s->heads * s->head_dim, &o, where, err));
    PITH_TRY(pith_json_get_int(j, "down", 0, s->ffn, &down, where, err));
    PITH_TRY(pith_json_get_int(j, "seed", INT64_MIN, INT64_MAX, &seed, where, err));
    const struct pith_basis_plan plan = {.hidden = s->hidden,
                                         .head_dim = s->head_dim,
                                         .attention = s->heads * s->head_dim,
                                         .ffn = s->ffn,
                                         .stream = (uint32_t)stream,
                                         .head = (uint32_t)head,
                                         .o = (uint32_t)o,
                                         .down = (uint32_t)down,
                                         .seed = (uint64_t)seed};
    const enum pith_status st = pith_basis_init(&v->basis, &plan, err);
    return st == PITH_OK ? st : pith_fail_in(err, st, where);
}

static enum pith_status open_all(struct verification *v, struct pith_error *err)
{
    enum { LIMIT = 1 << 30 };
    const struct pith_verify_options *o = v->options;
    char *path = pith_account_path(o->model);
    enum pith_status s = path ? PITH_OK : pith_fail_nomem(err, "names");
    const bool absent = path && pith_path_exists(o->model) && !pith_path_exists(path);
    /* An engine's rules can be held against any checkpoint. */
    const bool rules_only = absent && o->targets.count && !o->against;
    if (s == PITH_OK && absent && !rules_only)
        s = pith_fail(err, PITH_ARG,
                      "%s: no pith.json there; only a checkpoint that pith wrote can be verified "
                      "(--for ENGINE alone checks any)",
                      o->model);
    if (s == PITH_OK && !rules_only) s = pith_json_load(path, LIMIT, &v->account, err);
    pith_free(path);
    if (s == PITH_OK) s = pith_checkpoint_open(o->model, &v->checkpoint, err);
    if (s == PITH_OK && o->against) s = pith_model_open(o->against, &v->original, err);
    return s == PITH_OK && o->against ? open_basis(v, err) : s;
}

static bool same_shape(const struct pith_shape *a, const struct pith_shape *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->ffn == b->ffn &&
           a->vocab == b->vocab && a->heads == b->heads && a->kv_heads == b->kv_heads &&
           a->head_dim == b->head_dim;
}

/* Without an account nothing but the loading rules can be checked, and that is said. */
static enum pith_status check_rules(struct verification *v, struct pith_error *err)
{
    PITH_TRY(pith_model_open(v->options->model, &v->model, err));
    note_check(v, 0, "config and shapes: the model can be loaded (no pith.json: nothing else of"
                     " the checkpoint is verified)");
    return check_engines(v, err);
}

static enum pith_status check_all(struct verification *v, struct pith_error *err)
{
    struct pith_error why = {0};
    if (!v->account) return check_rules(v, err);
    v->total = (double)(json_array_size(json_object_get(v->account, "linears")) +
                        json_array_size(json_object_get(v->account, "tensors"))) *
               1.5;
    PITH_TRY(check_tensors(v, err));
    const size_t before = json_array_size(v->problems);
    if (pith_model_open(v->options->model, &v->model, &why) != PITH_OK) problem(v, "%s", why.text);
    note_check(v, before, "config and shapes: the model can be loaded");
    if (!v->model) return PITH_OK;
    if (v->original && !same_shape(&v->original->shape, &v->model->shape)) {
        problem(v, "%s: has another shape than %s", v->options->against, v->options->model);
        return PITH_OK;
    }
    PITH_TRY(check_linears(v, err));
    check_figures(v);
    if (v->original) check_against(v);
    return check_engines(v, err);
}

static void close_all(struct verification *v)
{
    pith_model_close(v->model);
    pith_model_close(v->original);
    pith_checkpoint_close(v->checkpoint);
    pith_basis_free(&v->basis);
    json_decref(v->account);
    json_decref(v->checks);
    json_decref(v->problems);
}

enum pith_status pith_pipe_verify(struct pith_backend *be, const struct pith_verify_options *o,
                                  json_t **report, struct pith_error *err)
{
    struct verification v = {
        .options = o,
        .backend = be,
        .checks = json_array(),
        .problems = json_array(),
    };
    enum pith_status s = v.checks && v.problems ? open_all(&v, err)
                                                : pith_fail_nomem(err, "the report");
    if (s == PITH_OK) s = check_all(&v, err);
    s = pith_checkpoint_settle(v.checkpoint, false, s, err);
    if (v.original) s = pith_checkpoint_settle(v.original->checkpoint, false, s, err);
    if (s == PITH_OK) {
        const size_t n = json_array_size(v.problems);
        *report = json_pack("{s:b, s:s, s:b, s:O, s:O}", "ok", n == 0, "model", o->model,
                            "accounted", v.account != NULL, "checks", v.checks, "problems",
                            v.problems);
        if (!*report) s = pith_fail_nomem(err, "the report");
        else if (n)
            s = pith_fail(err, PITH_MISMATCH, "%s",
                          json_string_value(json_array_get(v.problems, 0)));
    }
    close_all(&v);
    return s;
}
