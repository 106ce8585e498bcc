/* What llama.cpp is told of a model, and what its tensors become. */
#include "export/gguf.h"
#include "export/mixture.h"

#include "base/mem.h"
#include "io/gguf_model.h"
#include "num/kquant.h"
#include "quant/scale.h"

#include <stdio.h>
#include <string.h>

enum pith_dtype pith_gguf_stored_dtype(const struct pith_model *m, const struct pith_tensor *t)
{
    char name[PITH_GGUF_NAME];
    struct pith_gguf_place place = {0};
    const bool is_float = t->dtype == PITH_F16 || t->dtype == PITH_BF16;
    (void)pith_gguf_name(pith_gguf_arch_of(m->arch->name), t->name, "weight", name, &place);
    return (t->dims == 1 || place.exact) && is_float ? PITH_F32 : t->dtype;
}

/* --- what stands outside the blocks ----------------------------------------------------------- */

static bool set_end(const char *grid, uint32_t cols, struct pith_grid *out)
{
    struct pith_grid g;
    if (pith_grid_parse(grid, &g, NULL) != PITH_OK || !pith_gridder_for(&g)) return false;
    const struct pith_kquant *t = pith_kquant_find(g.format->name);
    if (cols % (t ? t->elements : g.group) != 0) return false;
    *out = g;
    return true;
}

void pith_gguf_end_grid(const struct pith_grid *linears, bool reads_out, uint32_t cols,
                        struct pith_grid *out)
{
    char text[PITH_GRID_TEXT];
    pith_grid_format(linears, text);
    const bool eight = linears->format->bits == 8;
    struct pith_grid own = *linears;
    if (pith_mixture_fall_back(&own, cols) && own.format) pith_grid_format(&own, text);
    if (!reads_out && set_end(text, cols, out)) return;
    if (eight || !set_end("q6_k", cols, out)) (void)set_end("int8:g32", cols, out);
}

/* --- tensors ---------------------------------------------------------------------------------- */

struct names {
    const struct pith_model *model;
    const struct pith_gguf_arch *arch;
    struct pith_gguf_name *name; /* [count] */
    /* The type that most weights of the blocks have. */
    struct pith_ggml_type most;
    uint32_t file_type; /* 0: of `most` */
    uint64_t bytes[64]; /* by id of a type */
};

static enum pith_status no_name(const struct pith_tensor_plan *t, struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED, "%s: tensor has no place in a GGUF file", t->name);
}

static uint32_t heads_of(const struct names *n, enum pith_gguf_heads heads)
{
    if (!n->arch->turned || heads == PITH_GGUF_NO_HEADS) return 0;
    return heads == PITH_GGUF_Q_HEADS ? n->model->shape.heads : n->model->shape.kv_heads;
}

/* Counts what the weights of the blocks are stored in. */
static void count_type(struct names *n, const struct pith_gguf_name *t)
{
    if (t->dims != 2 || strncmp(t->name, "blk.", 4) != 0 || t->type.id >= PITH_COUNT(n->bytes))
        return;
    uint64_t *sum = &n->bytes[t->type.id];
    *sum += t->shape[0] * t->shape[1];
    if (*sum >= n->bytes[n->most.id]) n->most = t->type;
}

static enum pith_status name_tensor(struct names *n, const struct pith_tensor_plan *t,
                                    struct pith_gguf_name *out, struct pith_error *err)
{
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : "";
    const bool blocks = strcmp(last, "weight") != 0 && strcmp(last, "bias") != 0 &&
                        strcmp(last, "scale") != 0;
    struct pith_gguf_place place;
    if (!pith_gguf_name(n->arch, t->name, blocks ? "weight" : last, out->name, &place) ||
        !pith_ggml_type_find(blocks ? last : pith_dtype_name(t->dtype), &out->type) ||
        t->dims == 0 || t->dims > 4)
        return no_name(t, err);
    out->dims = t->dims;
    for (unsigned i = 0; i < t->dims; i++) out->shape[i] = t->shape[i];
    if (blocks) out->shape[1] = t->shape[1] / out->type.bytes * out->type.block;
    if (place.flat && (blocks || t->dims != 2 || t->shape[0] != 1)) return no_name(t, err);
    if (place.flat) {
        out->dims = 1;
        out->shape[0] = t->shape[1];
    }
    if (place.stacked) {
        out->part = place.expert;
        out->parts = n->model->shape.moe.experts;
    }
    if (strcmp(last, "scale") != 0) out->heads = heads_of(n, place.heads);
    if (!pith_can_turn(t->shape[0], out->heads)) return no_name(t, err);
    count_type(n, out);
    return PITH_OK;
}

/* --- keys ------------------------------------------------------------------------------------- */

static uint32_t file_type(const struct pith_ggml_type *most)
{
    static const struct {
        const char *name;
        uint32_t file_type;
    } plain[] = {{"F32", 0}, {"F16", 1}, {"BF16", 32}}; /* llama.h, enum llama_ftype */
    const struct pith_kquant *k = pith_kquant_by_id(most->id);
    for (size_t i = 0; !k && i < PITH_COUNT(plain); i++)
        if (strcmp(plain[i].name, most->name) == 0) return plain[i].file_type;
    return k ? k->file_type : 0;
}

struct keys {
    struct pith_gguf_keys *keys;
    const char *arch;
};

enum { KEY = 96 };

static void put_size(const struct keys *k, const char *name, uint32_t value)
{
    char key[KEY];
    (void)snprintf(key, KEY, "%s.%s", k->arch, name);
    pith_gguf_put_uint(k->keys, key, value);
}

static void put_real(const struct keys *k, const char *name, double value)
{
    char key[KEY];
    (void)snprintf(key, KEY, "%s.%s", k->arch, name);
    pith_gguf_put_real(k->keys, key, (float)value);
}

static void put_rope(const struct keys *k, const struct pith_rope *r)
{
    char key[KEY];
    put_real(k, "rope.freq_base", r->theta);
    if (r->type != PITH_ROPE_LINEAR && r->type != PITH_ROPE_YARN) return;
    (void)snprintf(key, KEY, "%s.rope.scaling.type", k->arch);
    pith_gguf_put_text(k->keys, key, r->type == PITH_ROPE_LINEAR ? "linear" : "yarn");
    put_real(k, "rope.scaling.factor", r->factor);
    if (r->type == PITH_ROPE_LINEAR) return;
    put_size(k, "rope.scaling.original_context_length", (uint32_t)r->original_max);
    put_real(k, "rope.scaling.yarn_beta_fast", r->beta_fast);
    put_real(k, "rope.scaling.yarn_beta_slow", r->beta_slow);
}

/* llama.cpp has no sliding window for these architectures: within the window's length the model is
 * the same, and no longer context is promised. */
static uint32_t context_of(const struct pith_shape *s)
{
    bool windowed = false;
    for (uint32_t i = 0; s->window && i < s->layers; i++) windowed |= pith_layer_in(&s->sliding, i);
    return windowed && s->window < s->max_position ? s->window : s->max_position;
}

static void put_model(struct pith_gguf_keys *keys, const struct pith_gguf_arch *arch,
                      const struct pith_shape *s, const struct pith_ggml_type *most, uint32_t kind)
{
    const struct keys k = {keys, arch->name};
    pith_gguf_put_text(keys, "general.architecture", arch->name);
    pith_gguf_put_text(keys, "general.type", "model");
    pith_gguf_put_uint(keys, "general.file_type", kind ? kind : file_type(most));
    if (most->block > 1) pith_gguf_put_uint(keys, "general.quantization_version", 2);
    put_size(&k, "block_count", s->layers);
    put_size(&k, "context_length", context_of(s));
    put_size(&k, "embedding_length", s->hidden);
    put_size(&k, "feed_forward_length", s->ffn);
    if (arch->experts) {
        put_size(&k, "expert_count", s->moe.experts);
        put_size(&k, "expert_used_count", s->moe.taken);
        put_size(&k, "expert_feed_forward_length", s->moe.ffn);
        if (s->moe.shared_ffn) put_size(&k, "expert_shared_feed_forward_length", s->moe.shared_ffn);
    }
    put_size(&k, "attention.head_count", s->heads);
    put_size(&k, "attention.head_count_kv", s->kv_heads);
    put_size(&k, "attention.key_length", s->head_dim);
    put_size(&k, "attention.value_length", s->head_dim);
    put_real(&k, "attention.layer_norm_rms_epsilon", s->eps);
    put_size(&k, "rope.dimension_count", s->head_dim);
    put_size(&k, "vocab_size", s->vocab);
    put_rope(&k, &s->rope);
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status check_experts(const struct pith_model *m, const struct pith_gguf_arch *a,
                                      struct pith_error *err)
{
    const struct pith_moe *moe = &m->shape.moe;
    uint32_t sparse = 0;
    for (uint32_t i = 0; i < m->shape.layers; i++) sparse += pith_layer_in(&moe->layers, i);
    if (!a->experts || moe->experts == 0) return PITH_OK;
    if (a->all_sparse && sparse < m->shape.layers)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has experts in every layer of a %s",
                         a->name);
    if (a->renormalised != moe->renormalised)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp %s the weights of a %s's experts by their sum%s",
                         a->renormalised ? "divides" : "does not divide", a->name,
                         a->renormalised ? ", and norm_topk_prob is false" : "");
    if (moe->router != PITH_ROUTER_SOFTMAX || moe->correction || moe->groups > 1 ||
        moe->router_bias || (moe->scale != 0 && moe->scale != 1))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp chooses the experts of a %s by a softmax alone", a->name);
    return PITH_OK;
}

/* What llama.cpp cannot compute as the model means it. */
static enum pith_status check_shape(const struct pith_model *m, const struct pith_gguf_arch *arch,
                                    struct pith_error *err)
{
    const struct pith_shape *s = &m->shape;
    const bool is_qwen2 = strncmp(arch->name, "qwen2", 5) == 0;
    PITH_TRY(check_experts(m, arch, err));
    if (s->qkv_bias && !is_qwen2 && strcmp(m->arch->model_type, "llama") != 0)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has no biases in the attention of a %s",
                         m->arch->name);
    if (s->rope.type == PITH_ROPE_YARN && s->rope.attention_factor != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp takes no attention factor of its own for YaRN");
    return PITH_OK;
}

static enum pith_status finish(struct names *n, const char *source, const char *file,
                               struct pith_gguf_keys *keys, struct pith_layout *l,
                               struct pith_error *err)
{
    const struct pith_shape *s = &n->model->shape;
    const struct pith_rope *r = &s->rope;
    const bool scaled = r->type == PITH_ROPE_LLAMA3;
    float *factors = NULL;
    for (size_t i = 0; i < l->count; i++)
        PITH_TRY(name_tensor(n, &l->tensors[i], &n->name[i], err));
    put_model(keys, n->arch, s, &n->most, n->file_type);
    PITH_TRY(pith_gguf_put_tokenizer(source, n->model->checkpoint->gguf, s->vocab, keys, err));
    const uint32_t count = scaled ? s->head_dim / 2 : 0;
    if (scaled) {
        factors = pith_alloc(count, sizeof *factors);
        if (!factors) return pith_fail_nomem(err, "rope factors");
        const struct pith_llama3_rope rope = {r->theta, r->factor, r->low_freq, r->high_freq,
                                              (uint64_t)r->original_max};
        pith_gguf_rope_factors(&rope, count, factors);
    }
    const struct pith_gguf_constant constant = {"rope_freqs.weight", factors, count};
    const enum pith_status status = pith_gguf_layout_finish(l, file, keys, &constant, n->name, err);
    pith_free(factors);
    return status;
}

enum pith_status pith_gguf_finish(const struct pith_model *m, const char *source, const char *file,
                                  uint32_t kind, struct pith_layout *l, struct pith_error *err)
{
    struct names n = {.model = m, .file_type = kind, .arch = pith_gguf_arch_of(m->arch->name)};
    struct pith_gguf_keys keys = {0};
    if (!n.arch)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp's name of a %s is not known here",
                         m->arch->name);
    PITH_TRY(check_shape(m, n.arch, err));
    n.name = pith_zalloc(l->count, sizeof *n.name);
    if (!n.name) return pith_fail_nomem(err, "the layout");
    const enum pith_status s = finish(&n, source, file, &keys, l, err);
    pith_gguf_keys_free(&keys);
    pith_free(n.name);
    return s;
}
