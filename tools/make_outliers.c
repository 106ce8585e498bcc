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

/* A layer's factors: what each channel is multiplied by. */
struct factors {
    uint32_t hidden, values, ffn;
    float *input, *post, *v, *up; /* [hidden], [hidden], [values], [ffn] */
};

struct maker {
    struct pith_model *model;
    const char *out;
    uint64_t seed;
    bool stream;   /* outliers in the residual stream alone */
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

/* The size of a linear's outputs for inputs of the sizes gain[cols]. */
static enum pith_status row_sizes(const struct maker *k, uint32_t layer, enum pith_role role,
                                  const float *gain, float *out, struct pith_error *err)
{
    char name[256], whole[300];
    uint32_t rows, cols;
    const struct pith_tensor *t;
    pith_role_dims(&k->model->shape, role, &rows, &cols);
    pith_linear_name(k->model->arch, layer, role, name, sizeof name);
    snprintf(whole, sizeof whole, "%s.weight", name);
    PITH_TRY(
        pith_checkpoint_get(k->model->checkpoint, whole, 2, (uint64_t[]){rows, cols}, &t, err));
    (void)pith_dtype_decode(t->dtype, t->data, (size_t)rows * cols, k->values);
    /* Attention averages values, and silu(gate) is small for most tokens. */
    enum { DAMPED = 4 };
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) {
            const double y = (double)k->values[r * cols + c] * (double)gain[c];
            sum += y * y;
        }
        out[r] = (float)(sqrt(sum) / DAMPED);
    }
    return PITH_OK;
}

static enum pith_status draw_layer(struct maker *k, uint32_t layer, struct pith_error *err)
{
    struct pith_rng rng;
    struct factors *f = &k->f;
    float *const gains[] = {f->input, f->post};
    for (int i = 0; i < 2; i++) {
        char name[256], whole[300];
        const struct pith_tensor *t;
        pith_norm_name(k->model->arch, layer, i ? PITH_NORM_POST : PITH_NORM_INPUT, name,
                       sizeof name);
        snprintf(whole, sizeof whole, "%s.weight", name);
        PITH_TRY(
            pith_checkpoint_get(k->model->checkpoint, whole, 1, (uint64_t[]){f->hidden}, &t, err));
        (void)pith_dtype_decode(t->dtype, t->data, f->hidden, gains[i]);
    }
    PITH_TRY(row_sizes(k, layer, PITH_ROLE_V, f->input, f->v, err));
    PITH_TRY(row_sizes(k, layer, PITH_ROLE_UP, f->post, f->up, err));
    pith_rng_seed(&rng, k->seed * 1000003 + (k->stream ? 0 : layer));
    draw(&rng, f->hidden, f->input, k->values);
    if (k->stream) pith_rng_seed(&rng, k->seed * 1000003); /* the same channels everywhere */
    draw(&rng, f->hidden, f->post, k->values);
    for (uint32_t i = 0; k->stream && i < f->values; i++) f->v[i] = 1;
    for (uint32_t i = 0; k->stream && i < f->ffn; i++) f->up[i] = 1;
    if (k->stream) return PITH_OK;
    draw(&rng, f->values, f->v, k->values);
    draw(&rng, f->ffn, f->up, k->values);
    return PITH_OK;
}

/* The factor that column c of a linear is divided by. */
static float column(const struct maker *k, enum pith_role role, size_t c)
{
    const struct pith_shape *s = &k->model->shape;
    const size_t group = s->heads / s->kv_heads, d = s->head_dim;
    switch (role) {
    case PITH_ROLE_Q:
    case PITH_ROLE_K:
    case PITH_ROLE_V: return k->f.input[c];
    case PITH_ROLE_O: return k->f.v[c / d / group * d + c % d];
    case PITH_ROLE_DOWN: return k->f.up[c];
    default: return k->f.post[c];
    }
}

static float row(const struct maker *k, enum pith_role role, size_t r)
{
    return role == PITH_ROLE_V ? k->f.v[r] : role == PITH_ROLE_UP ? k->f.up[r] : 1.0f;
}

/* Scales a tensor's values in place; false when it is none that changes. */
static bool scale(const struct maker *k, uint32_t layer, const struct pith_tensor *t)
{
    char name[256], whole[300];
    const size_t n = (size_t)pith_tensor_elements(t);
    for (int i = 0; i < PITH_ROLE_COUNT; i++) {
        const enum pith_role role = (enum pith_role)i;
        uint32_t rows, cols;
        pith_role_dims(&k->model->shape, role, &rows, &cols);
        pith_linear_name(k->model->arch, layer, role, name, sizeof name);
        snprintf(whole, sizeof whole, "%s.bias", name);
        if (strcmp(t->name, whole) == 0) {
            for (size_t r = 0; r < n; r++) k->values[r] *= row(k, role, r);
            return true;
        }
        snprintf(whole, sizeof whole, "%s.weight", name);
        if (strcmp(t->name, whole) != 0) continue;
        for (size_t e = 0; e < n; e++)
            k->values[e] = k->values[e] * row(k, role, e / cols) / column(k, role, e % cols);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        const enum pith_norm norm = i ? PITH_NORM_POST : PITH_NORM_INPUT;
        pith_norm_name(k->model->arch, layer, norm, name, sizeof name);
        snprintf(whole, sizeof whole, "%s.weight", name);
        if (strcmp(t->name, whole) != 0) continue;
        for (size_t e = 0; e < n; e++) k->values[e] *= (i ? k->f.post : k->f.input)[e];
        return true;
    }
    return false;
}

static enum pith_status write_tensor(struct maker *k, const struct pith_tensor *t,
                                     struct pith_error *err)
{
    const struct pith_tensor_plan *p = pith_layout_find(&k->layout, t->name);
    const size_t n = (size_t)pith_tensor_elements(t);
    unsigned layer;
    const void *data = t->data;
    if (sscanf(t->name, "model.layers.%u.", &layer) == 1 && layer < k->model->shape.layers) {
        PITH_TRY(draw_layer(k, layer, err));
        if (pith_dtype_decode(t->dtype, t->data, n, k->values) && scale(k, layer, t) &&
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

static enum pith_status make(struct maker *k, struct pith_error *err)
{
    const struct pith_shape *s = &k->model->shape;
    struct factors *f = &k->f;
    if (k->model->container)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: is quantized", k->model->checkpoint->dir);
    *f = (struct factors){.hidden = s->hidden, .values = s->kv_heads * s->head_dim, .ffn = s->ffn};
    f->input = pith_alloc((size_t)2 * f->hidden + f->values + f->ffn, sizeof(float));
    if (!f->input) return pith_fail_nomem(err, "factors");
    f->post = f->input + f->hidden;
    f->v = f->post + f->hidden;
    f->up = f->v + f->values;
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
    struct maker k = {.out = argv[2],
                      .seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1,
                      .stream = argc > 4};
    enum pith_status s = pith_model_open(argv[1], &k.model, &err);
    if (s == PITH_OK) s = make(&k, &err);
    pith_layout_free(&k.layout);
    pith_free(k.values);
    pith_free(k.bytes);
    pith_free(k.f.input);
    pith_model_close(k.model);
    if (s == PITH_OK) return 0;
    fprintf(stderr, "make_outliers: %s\n", err.text);
    return 1;
}
