/* make_outliers MODEL OUT [SEED [stream]]: a checkpoint that computes what MODEL computes, with
 * outlier channels in every linear's input, as large models have them and small ones have not.
 *
 * In each layer the channels of
 *     input_layernorm's gain, post_attention_layernorm's gain, v_proj's rows, up_proj's rows
 * are multiplied by powers of two, and the columns of the linears that read them are divided by the
 * same: all of them by one that brings them to a magnitude of about 1, and one in a hundred (at
 * least four) by 16, 32 or 64 more, to where the outlier features of large models are (Dettmers et
 * al. 2022). A norm's output has the magnitude of its gain; that of a linear follows from its row
 * and the gains before it.
 *
 * With "stream" only the gains are multiplied, of the same channels in every layer: the published
 * kind, features of the residual stream. Without it o_proj's and down_proj's inputs have outliers
 * too. pith smooths those inputs, other tools' SmoothQuant does not: it would fail on such a model.
 *
 * Powers of two change no digit of a bfloat16 or float32 number: every product and every sum is
 * that of MODEL, scaled, so logits are the same to the bit, unless a weight becomes too small to be
 * a normal number. Same MODEL and SEED (1), same bytes. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/hf_files.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A layer's factors: what each channel of a gain and each row of a linear is multiplied by; those
 * count that a site's division can be folded into. */
struct factors {
    float **vector; /* [most_vectors][length] */
    float **rows;   /* [most_linears][rows] */
};

struct maker {
    struct pith_model *model;
    const char *out;
    uint64_t seed;
    bool stream; /* outliers in the residual stream alone */
    struct pith_layout layout;
    struct pith_out file;
    struct factors f;
    float *values; /* of the largest tensor of a layer */
    void *bytes;
};

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* factor[n] holds magnitudes of the channels, and then what they are multiplied by; sorted[n] is
 * scratch. */
static void draw(struct pith_rng *rng, uint32_t n, float *factor, float *sorted)
{
    uint32_t left = n / 100 < 4 ? 4 : n / 100;
    for (uint32_t i = 0; i < n; i++) sorted[i] = fabsf(factor[i]);
    qsort(sorted, n, sizeof *sorted, compare);
    const double middle = fmin(fmax((double)sorted[n / 2], 1e-3), 1e3);
    const float all = (float)exp2(-rint(log2(middle)));
    for (uint32_t i = 0; i < n; i++) {
        /* Of the channels that are left each is as likely to be one. */
        const bool chosen = pith_rng_below(rng, n - i) < left;
        factor[i] = chosen ? all * (float)(16u << pith_rng_below(rng, 3)) : all;
        left -= chosen;
    }
}

/* Tensor `part` of a layer, as floats. */
static enum pith_status decode(const struct maker *k, uint32_t layer, const char *part,
                               size_t count, float *out, struct pith_error *err)
{
    char name[256];
    pith_plan_name(&k->model->plans, layer, part, name, sizeof name);
    const struct pith_tensor *t = pith_checkpoint_find(k->model->checkpoint, name);
    if (!t || pith_tensor_elements(t) != count)
        return pith_fail(err, PITH_FORMAT, "%s: missing, or of another size", name);
    (void)pith_dtype_decode(t->dtype, t->data, count, out);
    return PITH_OK;
}

/* The gain that a linear's inputs have; NULL: none. */
static const float *gain_of(const struct maker *k, const struct pith_layer_plan *l, uint32_t linear)
{
    const struct pith_fold *fold = &l->site[l->linear[linear].site].fold;
    return fold->kind == PITH_FOLD_VECTOR ? k->f.vector[fold->from] : NULL;
}

/* The size of a linear's outputs. */
static enum pith_status row_sizes(const struct maker *k, uint32_t layer, uint32_t linear,
                                  struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_plan(&k->model->plans, layer);
    const uint32_t rows = l->linear[linear].rows, cols = l->linear[linear].cols;
    const float *gain = gain_of(k, l, linear);
    char part[PITH_PART_NAME + 8];
    snprintf(part, sizeof part, "%s.weight", l->linear[linear].name);
    PITH_TRY(decode(k, layer, part, (size_t)rows * cols, k->values, err));
    /* Attention averages values, and silu(gate) is small for most tokens. */
    enum { DAMPED = 4 };
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) {
            const double y = (double)k->values[r * cols + c] * (gain ? (double)gain[c] : 1.0);
            sum += y * y;
        }
        k->f.rows[linear][r] = (float)(sqrt(sum) / DAMPED);
    }
    return PITH_OK;
}

/* The magnitudes of all channels that get a factor, where their factors will stand. */
static enum pith_status measure(struct maker *k, uint32_t layer, struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_plan(&k->model->plans, layer);
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_fold *fold = &l->site[i].fold;
        if (fold->kind != PITH_FOLD_VECTOR) continue;
        const struct pith_vector_spec *v = &l->vector[fold->from];
        PITH_TRY(decode(k, layer, v->name, v->length, k->f.vector[fold->from], err));
    }
    for (uint32_t i = 0; i < l->sites; i++)
        if (l->site[i].fold.kind == PITH_FOLD_ROWS)
            PITH_TRY(row_sizes(k, layer, l->site[i].fold.from, err));
    return PITH_OK;
}

static enum pith_status draw_layer(struct maker *k, uint32_t layer, struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_plan(&k->model->plans, layer);
    struct pith_rng rng;
    PITH_TRY(measure(k, layer, err));
    pith_rng_seed(&rng, k->seed * 1000003 + (k->stream ? 0 : layer));
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_fold *fold = &l->site[i].fold;
        if (fold->kind != PITH_FOLD_VECTOR) continue;
        if (k->stream) pith_rng_seed(&rng, k->seed * 1000003); /* the same channels everywhere */
        draw(&rng, l->vector[fold->from].length, k->f.vector[fold->from], k->values);
    }
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_fold *fold = &l->site[i].fold;
        if (fold->kind != PITH_FOLD_ROWS) continue;
        const uint32_t rows = l->linear[fold->from].rows;
        if (!k->stream) draw(&rng, rows, k->f.rows[fold->from], k->values);
        for (uint32_t r = 0; k->stream && r < rows; r++) k->f.rows[fold->from][r] = 1;
    }
    return PITH_OK;
}

/* The factor that column c of a linear is divided by. */
static float column(const struct maker *k, const struct pith_layer_plan *l, uint32_t linear,
                    size_t c)
{
    const struct pith_fold *fold = &l->site[l->linear[linear].site].fold;
    if (fold->kind == PITH_FOLD_VECTOR) return k->f.vector[fold->from][c];
    if (fold->kind != PITH_FOLD_ROWS) return 1.0f;
    return k->f.rows[fold->from][c / fold->block / fold->repeat * fold->block + c % fold->block];
}

/* The one that its row r is multiplied by. */
static float row(const struct maker *k, const struct pith_layer_plan *l, uint32_t linear, size_t r)
{
    for (uint32_t i = 0; i < l->sites; i++)
        if (l->site[i].fold.kind == PITH_FOLD_ROWS && l->site[i].fold.from == linear)
            return k->f.rows[linear][r];
    return 1.0f;
}

static bool scale_linear(const struct maker *k, const struct pith_layer_plan *l, uint32_t linear,
                         const char *suffix, size_t n)
{
    const uint32_t cols = l->linear[linear].cols;
    if (strcmp(suffix, ".bias") == 0) {
        for (size_t r = 0; r < n; r++) k->values[r] *= row(k, l, linear, r);
        return true;
    }
    if (strcmp(suffix, ".weight") != 0) return false;
    for (size_t e = 0; e < n; e++)
        k->values[e] = k->values[e] * row(k, l, linear, e / cols) / column(k, l, linear, e % cols);
    return true;
}

/* Scales the n values of tensor `part` of a layer in place; false when it is none that changes. */
static bool scale(const struct maker *k, uint32_t layer, const char *part, size_t n)
{
    const struct pith_layer_plan *l = pith_plan(&k->model->plans, layer);
    const char *suffix;
    const uint32_t linear = pith_plan_find_linear(l, part, &suffix);
    if (linear != PITH_NO_PART) return scale_linear(k, l, linear, suffix, n);
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_fold *fold = &l->site[i].fold;
        if (fold->kind != PITH_FOLD_VECTOR || strcmp(part, l->vector[fold->from].name) != 0)
            continue;
        for (size_t e = 0; e < n; e++) k->values[e] *= k->f.vector[fold->from][e];
        return true;
    }
    return false;
}

static enum pith_status write_tensor(struct maker *k, const struct pith_tensor *t,
                                     struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&k->layout, t->name);
    const size_t n = (size_t)pith_tensor_elements(t);
    uint32_t layer;
    const void *data = t->data;
    const char *part = pith_plan_layer_of(&k->model->plans, t->name, &layer);
    if (part) {
        PITH_TRY(draw_layer(k, layer, err));
        if (pith_dtype_decode(t->dtype, t->data, n, k->values) && scale(k, layer, part, n) &&
            pith_dtype_encode(t->dtype, k->values, n, k->bytes))
            data = k->bytes;
    }
    return pith_out_write(&k->file, p->offset, data, t->bytes, err);
}

static enum pith_status write_file(struct maker *k, struct pith_error *err)
{
    const struct pith_checkpoint *in = k->model->checkpoint;
    uint64_t most = 0;
    for (size_t i = 0; i < in->count; i++) {
        const struct pith_tensor *t = &in->tensors[i];
        if (t->bytes > most) most = t->bytes;
        PITH_TRY(pith_layout_add(&k->layout, t->name, t->dtype, t->dims, t->shape, err));
    }
    PITH_TRY(pith_layout_finish(&k->layout, UINT64_MAX, err));
    k->values = pith_alloc(most, sizeof(float)); /* elements are no more than bytes */
    k->bytes = pith_alloc(most, 1);
    char *path = pith_path_join(k->out, k->layout.shard_names[0]);
    if (!k->values || !k->bytes || !path) {
        pith_free(path);
        return pith_fail_nomem(err, k->out);
    }
    enum pith_status s = pith_out_open(path, k->layout.shard_bytes[0], &k->file, err);
    pith_free(path);
    if (s != PITH_OK) return s;
    s = pith_out_write(&k->file, 0, k->layout.headers[0], k->layout.header_bytes[0], err);
    for (size_t i = 0; i < in->count && s == PITH_OK; i++)
        s = write_tensor(k, &in->tensors[i], err);
    pith_out_close(&k->file);
    return s;
}

static enum pith_status copy_rest(const struct maker *k, struct pith_error *err)
{
    char **names;
    size_t count;
    char *path = pith_path_join(k->out, "config.json");
    enum pith_status s = path ? pith_json_save(path, k->model->checkpoint->config, err)
                              : pith_fail_nomem(err, "config.json");
    pith_free(path);
    if (s != PITH_OK) return s;
    PITH_TRY(pith_checkpoint_side_files(k->model->checkpoint->dir, &names, &count, err));
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        char *from = pith_path_join(k->model->checkpoint->dir, names[i]);
        char *to = pith_path_join(k->out, names[i]);
        s = from && to ? pith_file_copy(from, to, err) : pith_fail_nomem(err, names[i]);
        pith_free(from);
        pith_free(to);
    }
    pith_names_free(names, count);
    return s;
}

/* Room for factors of any layer: as many floats a gain, a linear's rows, as the longest has. */
static enum pith_status take_factors(struct maker *k, struct pith_error *err)
{
    const struct pith_plans *p = &k->model->plans;
    size_t longest = 0;
    for (uint32_t i = 0; i < p->kinds; i++) {
        const struct pith_layer_plan *l = &p->kind[i];
        for (uint32_t v = 0; v < l->vectors; v++)
            if (l->vector[v].length > longest) longest = l->vector[v].length;
        for (uint32_t v = 0; v < l->linears; v++)
            if (l->linear[v].rows > longest) longest = l->linear[v].rows;
    }
    const size_t count = (size_t)p->most_vectors + p->most_linears;
    k->f.vector = pith_zalloc(count, sizeof *k->f.vector);
    if (!k->f.vector) return pith_fail_nomem(err, "factors");
    k->f.rows = k->f.vector + p->most_vectors;
    for (size_t i = 0; i < count; i++) {
        k->f.vector[i] = pith_alloc(longest, sizeof(float));
        if (!k->f.vector[i]) return pith_fail_nomem(err, "factors");
    }
    return PITH_OK;
}

static void free_factors(struct maker *k)
{
    if (!k->f.vector) return;
    const struct pith_plans *p = &k->model->plans;
    for (size_t i = 0; i < (size_t)p->most_vectors + p->most_linears; i++)
        pith_free(k->f.vector[i]);
    pith_free(k->f.vector);
}

static enum pith_status make(struct maker *k, struct pith_error *err)
{
    if (k->model->container)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: is quantized", k->model->checkpoint->dir);
    PITH_TRY(take_factors(k, err));
    PITH_TRY(pith_dir_make(k->out, err));
    PITH_TRY(write_file(k, err));
    return copy_rest(k, err);
}

int main(int argc, char **argv)
{
    struct pith_error err = {0};
    if (argc < 3 || argc > 5 || (argc > 4 && strcmp(argv[4], "stream") != 0)) {
        fprintf(stderr, "usage: %s MODEL OUT [SEED [stream]]\n", argv[0]);
        return 2;
    }
    struct maker k = {
        .out = argv[2], .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1, .stream = argc > 4};
    enum pith_status s = pith_model_open(argv[1], &k.model, &err);
    if (s == PITH_OK) s = make(&k, &err);
    pith_layout_free(&k.layout);
    pith_free(k.values);
    pith_free(k.bytes);
    free_factors(&k);
    pith_model_close(k.model);
    if (s == PITH_OK) return 0;
    fprintf(stderr, "make_outliers: %s\n", err.text);
    return 1;
}
