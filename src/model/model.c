#include "model/model.h"

#include "backend/input.h"
#include "backend/layer.h"
#include "base/mem.h"
#include "io/adapter.h"
#include "model/load.h"

#include <stdio.h>
#include <string.h>

static enum pith_status read_config(struct pith_model *m, struct pith_error *err)
{
    char *path = pith_path_join(m->checkpoint->dir, "config.json");
    if (!path) return pith_fail_nomem(err, "a path");
    const enum pith_status s =
        pith_shape_read(m->checkpoint->config, path, &m->arch, &m->shape, err);
    pith_free(path);
    return s;
}

static bool has_embedding(const struct pith_model *m, const struct pith_arch *arch)
{
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", arch->names.embed);
    return pith_checkpoint_find(m->checkpoint, name) != NULL;
}

/* The names that the file has, where an architecture has several; other ones become these. */
static enum pith_status choose_names(struct pith_model *m, struct pith_error *err)
{
    const struct pith_arch *other = m->arch->renamed;
    if (other && !has_embedding(m, m->arch) && has_embedding(m, other)) m->arch = other;
    if (m->checkpoint->gguf) return PITH_OK;
    return pith_names_settle(m->checkpoint, &m->arch->names, err);
}

static enum pith_status open_container(struct pith_model *m, struct pith_error *err)
{
    const struct pith_container *c = NULL;
    PITH_TRY(pith_container_detect(m->checkpoint, &c, err));
    if (!c) return PITH_OK;
    PITH_TRY(c->open(m->checkpoint, &m->container_state, err));
    m->container = c; /* from here on there is a state to close */
    return PITH_OK;
}

/* What the container says of keys and values: the same for all linears. */
static enum pith_status read_kv_grid(struct pith_model *m, struct pith_error *err)
{
    struct pith_container_opts opts = {.model_dtype = m->shape.dtype};
    struct pith_grid ignored = {0};
    char name[PITH_TENSOR_NAME];
    if (!m->container) return PITH_OK;
    pith_plan_linear_name(&m->plans, 0, 0, name, sizeof name);
    PITH_TRY(m->container->describe(m->container_state, m->checkpoint, name, &ignored, &opts, err));
    m->kv_grid = opts.kv;
    pith_kv_grid_settle(&m->kv_grid);
    return PITH_OK;
}

/* A config without a dtype: the weights speak for themselves. */
static void guess_dtype(struct pith_model *m)
{
    if (pith_shape_has_dtype(m->checkpoint->config)) return;
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", m->arch->names.norm);
    const struct pith_tensor *t = pith_checkpoint_find(m->checkpoint, name);
    if (t && (t->dtype == PITH_F16 || t->dtype == PITH_BF16)) m->shape.dtype = t->dtype;
}

static enum pith_status load_positions(struct pith_model *m, struct pith_error *err)
{
    const struct pith_vector_spec spec = {.length = m->shape.hidden,
                                          .rows = m->shape.place.learned};
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", m->arch->names.positions);
    return pith_vector_load(m, name, &spec, &m->positions, err);
}

static enum pith_status load_last_norm(struct pith_model *m, struct pith_error *err)
{
    const struct pith_norm_kind kind = m->arch->norm;
    struct pith_vector_spec spec = {.length = m->shape.hidden, .plus = kind.plus};
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", m->arch->names.norm);
    PITH_TRY(pith_vector_load(m, name, &spec, &m->final_norm, err));
    if (!kind.bias) return PITH_OK;
    spec.plus = 0;
    (void)snprintf(name, sizeof name, "%s.bias", m->arch->names.norm);
    return pith_vector_load(m, name, &spec, &m->final_bias, err);
}

static enum pith_status load_projections(struct pith_model *m, struct pith_error *err)
{
    const struct pith_shape *s = &m->shape;
    const struct pith_arch_names *names = &m->arch->names;
    PITH_TRY(pith_linear_load(m, names->project_in, s->hidden, s->ends.width, false,
                              PITH_LOAD_FLOAT, &m->project_in, err));
    PITH_TRY(pith_linear_load(m, names->project_out, s->ends.width, s->hidden, false,
                              PITH_LOAD_FLOAT, &m->project_out, err));
    if (m->project_in.w.quant || m->project_out.w.quant)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"%s\" is quantized", m->checkpoint->dir,
                         names->project_in);
    m->narrow = pith_alloc_aligned((size_t)PITH_LOGITS_ROWS * s->ends.width, sizeof(float));
    return m->narrow ? PITH_OK : pith_fail_nomem(err, "a model");
}

static enum pith_status load_ends(struct pith_model *m, struct pith_error *err)
{
    const struct pith_shape *s = &m->shape;
    const struct pith_arch_names *names = &m->arch->names;
    char norm[PITH_TENSOR_NAME];
    PITH_TRY(pith_linear_load(m, names->embed, s->vocab, pith_shape_embed(s), false,
                              PITH_LOAD_MAPPED, &m->embed_store, err));
    m->embed = m->head = m->embed_store.w;
    if (!s->ends.tied) {
        PITH_TRY(pith_linear_load(m, names->head, s->vocab, pith_shape_embed(s), false,
                                  PITH_LOAD_MAPPED, &m->head_store, err));
        m->head = m->head_store.w;
    }
    if (pith_shape_has_last_gain(s)) PITH_TRY(load_last_norm(m, err));
    if (s->ends.head_bias) {
        const struct pith_vector_spec spec = {.length = s->vocab};
        (void)snprintf(norm, sizeof norm, "%s.bias", names->head);
        PITH_TRY(pith_vector_load(m, norm, &spec, &m->head_bias, err));
    }
    if (s->ends.width) PITH_TRY(load_projections(m, err));
    if (s->tokens.width) PITH_TRY(pith_per_layer_load(m, err));
    if (s->place.learned) PITH_TRY(load_positions(m, err));
    m->head_rows = pith_alloc_aligned((size_t)PITH_LOGITS_ROWS * s->hidden, sizeof(float));
    if (!m->head_rows) return pith_fail_nomem(err, "a model");
    for (uint32_t i = 0; i < m->plans.tables; i++) {
        struct pith_rope_angles *r = &m->rope[i];
        const uint32_t rotary = pith_shape_rotary(s, i);
        r->inv_freq = pith_alloc_aligned(rotary / 2, sizeof(double));
        if (!r->inv_freq) return pith_fail_nomem(err, "a model");
        const struct pith_rope *rope = i ? &s->place.rope_window : &s->place.rope;
        pith_rope_frequencies(rope, rotary, r->inv_freq, &r->factor);
        if (rope->type != PITH_ROPE_LONG) continue;
        r->far = pith_alloc_aligned(rotary / 2, sizeof(double));
        if (!r->far) return pith_fail_nomem(err, "a model");
        r->near = (size_t)rope->original_max;
        pith_rope_frequencies_far(rope, rotary, r->far, &r->factor);
    }
    return PITH_OK;
}

static enum pith_status open_parts(struct pith_model *m, struct pith_error *err)
{
    PITH_TRY(read_config(m, err));
    PITH_TRY(choose_names(m, err));
    guess_dtype(m);
    PITH_TRY(pith_plans_make(m->arch, &m->shape, &m->plans, err));
    PITH_TRY(pith_model_show_filters(m, err));
    PITH_TRY(pith_model_unfuse(m, err));
    PITH_TRY(open_container(m, err));
    PITH_TRY(read_kv_grid(m, err));
    PITH_TRY(pith_model_check_tensors(m, err));
    return load_ends(m, err);
}

enum pith_status pith_model_open_from(struct pith_checkpoint *c, struct pith_model **out,
                                      struct pith_error *err)
{
    struct pith_model *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "a model");
    m->checkpoint = c;
    const enum pith_status s = open_parts(m, err);
    if (s != PITH_OK) {
        m->checkpoint = NULL;
        pith_model_close(m);
        return s;
    }
    *out = m;
    return PITH_OK;
}

enum pith_status pith_model_open(const char *dir, struct pith_model **out, struct pith_error *err)
{
    return pith_model_open_with(dir, &(const struct pith_merge_into){0}, out, err);
}

enum pith_status pith_model_open_with(const char *dir, const struct pith_merge_into *merge,
                                      struct pith_model **out, struct pith_error *err)
{
    struct pith_checkpoint *c;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_checkpoint_open(dir, &c, err));
    if (merge->adapter)
        s = pith_checkpoint_adapt(c, merge->adapter, merge->room, merge->pool, merge->account, err);
    if (s == PITH_OK) s = pith_model_open_from(c, out, err);
    if (s != PITH_OK) pith_checkpoint_close(c);
    return s;
}

void pith_model_close(struct pith_model *m)
{
    if (!m) return;
    pith_free(m->stray);
    json_decref(m->remarks);
    for (uint32_t i = 0; m->blocks && i < m->shape.layers; i++) pith_block_free(&m->blocks[i]);
    pith_free(m->blocks);
    pith_plans_free(&m->plans);
    pith_kv_levels_free(m->kv_levels);
    for (int i = 0; i < 2; i++) {
        pith_free(m->rope[i].inv_freq);
        pith_free(m->rope[i].far);
    }
    pith_free(m->positions);
    pith_free(m->narrow);
    pith_linear_free(&m->project_in);
    pith_linear_free(&m->project_out);
    pith_per_layer_free(&m->per_layer);
    pith_free(m->final_bias);
    pith_free(m->head_bias);
    pith_free(m->head_rows);
    pith_free(m->final_norm);
    pith_linear_free(&m->head_store);
    pith_free(m->head_packed);
    pith_linear_free(&m->embed_store);
    if (m->container) m->container->close(m->container_state);
    if (m->checkpoint) pith_checkpoint_close(m->checkpoint);
    pith_free(m);
}

static void embed_row(const struct pith_model *m, uint32_t id, float *x)
{
    if (m->embed.pack) pith_pack_row(m->embed.pack, id, x);
    else pith_weight_decode(&m->embed, id, 1, x);
}

static void embed_narrow(const struct pith_model *m, uint32_t id, float *x)
{
    const struct pith_weight *w = &m->project_in.w;
    const float *row = m->project_in.dense;
    embed_row(m, id, m->narrow);
    for (uint32_t i = 0; i < w->rows; i++, row += w->cols) {
        double sum = 0;
        for (uint32_t j = 0; j < w->cols; j++) sum += (double)row[j] * (double)m->narrow[j];
        x[i] = (float)sum;
    }
}

enum pith_status pith_model_embed(const struct pith_model *m, const int32_t *ids, size_t n,
                                  float *x, struct pith_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= m->shape.vocab)
            return pith_fail(err, PITH_ARG, "token id %d is outside the vocabulary of %u",
                             (int)ids[i], m->shape.vocab);
        if (m->narrow) embed_narrow(m, (uint32_t)ids[i], x + i * m->shape.hidden);
        else embed_row(m, (uint32_t)ids[i], x + i * m->shape.hidden);
    }
    const float scale = (float)m->shape.ends.embed_scale;
    for (size_t i = 0; scale != 0 && i < n * m->shape.hidden; i++) x[i] *= scale;
    return PITH_OK;
}

/* The last norm, into m->head_rows. */
static void norm_rows(const struct pith_model *m, struct pith_backend *be, const float *x, size_t n)
{
    const size_t hidden = m->shape.hidden;
    if (m->shape.ends.last_norm == PITH_LAST_NORM_NONE)
        memcpy(m->head_rows, x, n * hidden * sizeof *x);
    else if (m->arch->norm.centred)
        pith_layernorm(be, &(struct pith_layernorm){.x = x,
                                                    .weight = m->final_norm,
                                                    .bias = m->final_bias,
                                                    .n = n,
                                                    .dim = hidden,
                                                    .period = 1,
                                                    .eps = m->shape.eps,
                                                    .y = m->head_rows});
    else pith_rmsnorm(be, x, n, hidden, m->final_norm, m->shape.eps, m->head_rows);
}

const float *pith_model_last_norm(const struct pith_model *m, struct pith_backend *be,
                                  const float *x, size_t n)
{
    norm_rows(m, be, x, n);
    return m->head_rows;
}

enum pith_status pith_model_logits(const struct pith_model *m, struct pith_backend *be,
                                   const float *x, size_t n, float *logits, struct pith_error *err)
{
    (void)err;
    const size_t hidden = m->shape.hidden, vocab = m->shape.vocab;
    for (size_t i = 0; i < n; i += PITH_LOGITS_ROWS) {
        const size_t rows = n - i < PITH_LOGITS_ROWS ? n - i : PITH_LOGITS_ROWS;
        norm_rows(m, be, x + i * hidden, rows);
        struct pith_site_input in = {
            .x = m->head_rows, .n = rows, .cols = hidden, .work = m->head_rows};
        if (m->narrow) {
            pith_linear_site(be, &m->project_out.w, NULL, &in, m->narrow);
            in = (struct pith_site_input){
                .x = m->narrow, .n = rows, .cols = m->shape.ends.width, .work = m->narrow};
        }
        pith_linear_site(be, &m->head, m->head_bias, &in, logits + i * vocab);
        const float scale = (float)m->shape.ends.logit_scale, cap = (float)m->shape.ends.logit_cap;
        for (size_t j = i * vocab; scale != 0 && j < (i + rows) * vocab; j++) logits[j] *= scale;
        if (cap > 0) pith_softcap(be, cap, logits + i * vocab, rows * vocab);
    }
    return PITH_OK;
}
