/* What llama.cpp needs of a model, and what its tensors become. */
#include "export/gguf.h"
#include "export/mixture.h"

#include "base/mem.h"
#include "io/gguf/model.h"
#include "num/gguf/kquant.h"
#include "quant/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool arch_of(const struct pith_model *m, struct pith_gguf_arch *arch)
{
    return pith_gguf_arch_of(m->arch->name, m->shape.moe.experts != 0, m->arch->names.layers, arch);
}

static bool name_of(const struct pith_model *m, const char *tensor, char name[PITH_GGUF_NAME],
                    struct pith_gguf_place *place)
{
    struct pith_gguf_arch arch;
    return arch_of(m, &arch) && pith_gguf_name(&arch, tensor, "weight", name, place);
}

bool pith_gguf_module_name(const struct pith_model *m, const char *module,
                           char name[PITH_GGUF_NAME], struct pith_gguf_place *place)
{
    char weight[256];
    (void)snprintf(weight, sizeof weight, "%s.weight", module);
    return name_of(m, weight, name, place);
}

enum pith_dtype pith_gguf_stored_dtype(const struct pith_model *m, const struct pith_tensor *t)
{
    char name[PITH_GGUF_NAME];
    struct pith_gguf_place place;
    const bool is_float = t->dtype == PITH_F16 || t->dtype == PITH_BF16;
    const bool exact = name_of(m, t->name, name, &place) && place.exact;
    return (t->dims == 1 || exact) && is_float ? PITH_F32 : t->dtype;
}

bool pith_gguf_keeps(const struct pith_model *m, const char *module)
{
    char name[PITH_GGUF_NAME];
    struct pith_gguf_place place;
    return pith_gguf_module_name(m, module, name, &place) && place.dense;
}

static struct pith_gguf_sizes sizes_of(const struct pith_shape *s)
{
    const struct pith_latent_shape *l = &s->latent;
    const struct pith_delta_shape *d = &s->delta;
    return (struct pith_gguf_sizes){.heads = s->heads,
                                    .kv_heads = s->kv_heads,
                                    .nope = l->nope,
                                    .value = l->value,
                                    .rank = l->rank,
                                    .key_heads = d->key_heads,
                                    .value_heads = d->value_heads,
                                    .key_dim = d->key_dim,
                                    .value_dim = d->value_dim,
                                    .groups = s->scan.groups};
}

uint32_t pith_gguf_side_by_side(const struct pith_model *m, const char *module, uint32_t cols)
{
    const struct pith_gguf_sizes sizes = sizes_of(&m->shape);
    char name[PITH_GGUF_NAME];
    struct pith_gguf_place place;
    if (!pith_gguf_module_name(m, module, name, &place)) return cols;
    const struct pith_stow order = pith_gguf_order(place.order, &sizes, 0);
    return cols / (uint32_t)pith_stow_pieces(&order);
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

const struct pith_format *pith_gguf_end_grid(const struct pith_grid *linears, bool reads_out,
                                             uint32_t cols, struct pith_grid *out)
{
    char text[PITH_GRID_TEXT];
    pith_grid_format(linears, text);
    const bool eight = linears->format->bits == 8;
    struct pith_grid own = *linears;
    const bool fell = pith_mixture_fall_back(&own, cols) && own.format;
    if (fell) pith_grid_format(&own, text);
    if (!reads_out && set_end(text, cols, out)) return fell ? linears->format : NULL;
    if (!eight && set_end("q6_k", cols, out)) return NULL;
    (void)set_end("int8:g32", cols, out);
    return eight || !out->format ? NULL : pith_format_find("q6_k");
}

/* --- tensors ---------------------------------------------------------------------------------- */

struct names {
    const struct pith_model *model;
    struct pith_gguf_arch arch;
    struct pith_gguf_sizes sizes;
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

/* Counts what the weights of the blocks are stored in. */
static void count_type(struct names *n, const struct pith_gguf_name *t)
{
    if (t->dims != 2 || strncmp(t->name, "blk.", 4) != 0 || t->type.id >= PITH_COUNT(n->bytes))
        return;
    uint64_t *sum = &n->bytes[t->type.id];
    *sum += t->shape[0] * t->shape[1];
    if (*sum >= n->bytes[n->most.id]) n->most = t->type;
}

/* Shape and parts, once the rest is known. */
static bool settle_shape(const struct names *n, const struct pith_gguf_place *place, bool blocks,
                         struct pith_gguf_name *out)
{
    const uint64_t rows = out->shape[0];
    if (place->flat && (blocks || out->dims != 2 || rows != 1)) return false;
    if (place->filter && (blocks || out->dims != 3 || out->shape[1] != 1)) return false;
    if (place->dense && blocks) return false;
    if ((place->column || place->grouped) && out->dims != 1) return false;
    if (place->grouped && (!n->sizes.groups || rows % n->sizes.groups)) return false;
    if (place->flat) out->shape[0] = out->shape[1];
    if (place->filter) out->shape[1] = out->shape[2];
    out->dims -= place->flat + place->filter;
    if (place->column || place->grouped) {
        out->dims = 2;
        out->shape[1] = place->column ? 1 : rows / n->sizes.groups;
        out->shape[0] = rows / out->shape[1];
    }
    if (place->stacked) {
        out->part = place->expert;
        out->parts = n->model->shape.moe.experts;
    }
    out->order = pith_gguf_order(place->order, &n->sizes, rows);
    if (!pith_gguf_fits(&out->order, rows, out->shape[out->dims - 1], out->type.block))
        return false;
    return !place->rest || pith_gguf_part(place->order, &n->sizes, out);
}

/* blk.0.attn_v_b.weight behind blk.0.attn_k_b.weight. */
static void name_rest(const struct pith_gguf_place *place, struct pith_gguf_name *out)
{
    const char *dot = strchr(out->name, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    const int layer = end ? (int)(end - out->name) : 0;
    (void)snprintf(out->rest.name, sizeof out->rest.name, "%.*s.%s.weight", layer, out->name,
                   place->rest);
}

static enum pith_status name_tensor(struct names *n, const struct pith_tensor_plan *t,
                                    struct pith_gguf_name *out, struct pith_error *err)
{
    const char *dot = strrchr(t->name, '.'), *last = dot ? dot + 1 : "";
    const bool blocks = pith_ggml_type_find(last, &out->type);
    struct pith_gguf_place place;
    if (!pith_gguf_name(&n->arch, t->name, blocks ? "weight" : last, out->name, &place) ||
        (!blocks && !pith_ggml_type_find(pith_dtype_name(t->dtype), &out->type)) || t->dims == 0 ||
        t->dims > 4)
        return no_name(t, err);
    out->dims = t->dims;
    for (unsigned i = 0; i < t->dims; i++) out->shape[i] = t->shape[i];
    if (blocks) out->shape[1] = t->shape[1] / out->type.bytes * out->type.block;
    if (strcmp(last, "scale") == 0) place.order = PITH_GGUF_STRAIGHT;
    if (strcmp(last, "bias") == 0) pith_gguf_place_bias(&place);
    if (t->dtype == PITH_F32) out->as = place.as;
    if ((place.as && t->dtype != PITH_F32) || !settle_shape(n, &place, blocks, out))
        return no_name(t, err);
    if (place.rest) name_rest(&place, out);
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

static void put_bool(const struct keys *k, const char *name, bool value)
{
    char key[KEY];
    (void)snprintf(key, KEY, "%s.%s", k->arch, name);
    pith_gguf_put_bool(k->keys, key, value);
}

static void put_real(const struct keys *k, const char *name, double value)
{
    char key[KEY];
    (void)snprintf(key, KEY, "%s.%s", k->arch, name);
    pith_gguf_put_real(k->keys, key, (float)value);
}

/* What YaRN's scores of a latent grow by, as DeepSeek's configs have it ("mscale_all_dim"): they
 * are scaled by (0.1 a ln(factor) + 1)^2. */
static double score_growth(const struct pith_shape *s)
{
    const double plain = sqrt((double)s->latent.nope + s->latent.rope);
    return s->place.rope.factor > 1
               ? (sqrt(s->scores.scale * plain) - 1) / (0.1 * log(s->place.rope.factor))
               : 0;
}

static void put_rope(const struct keys *k, const struct pith_shape *s)
{
    const struct pith_rope *r = &s->place.rope;
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
    if (s->latent.rank) put_real(k, "rope.scaling.yarn_log_multiplier", 0.1 * score_growth(s));
}

/* How many pairs rotate by a picture's time, height and width, which are one in a text: as
 * config.json says, else what transformers takes. */
static void put_sections(const struct keys *k, const json_t *config)
{
    static const uint32_t usual[4] = {11, 11, 10, 0};
    const json_t *text = json_object_get(config, "text_config"), *in = text ? text : config;
    const json_t *rope = json_object_get(in, "rope_parameters");
    if (!rope) rope = json_object_get(in, "rope_scaling");
    const json_t *list = json_object_get(rope, "mrope_section");
    char key[KEY];
    (void)snprintf(key, KEY, "%s.rope.dimension_sections", k->arch);
    pith_gguf_begin_array(k->keys, key, PITH_GGUF_I32, 4);
    for (size_t i = 0; i < 4; i++) {
        const json_int_t stated = json_integer_value(json_array_get(list, i));
        const uint32_t n = !list                               ? usual[i]
                           : stated > 0 && stated <= INT32_MAX ? (uint32_t)stated
                                                               : 0;
        pith_str_append(&k->keys->bytes, (const char *)&n, sizeof n);
    }
}

/* llama.cpp has no sliding window for these architectures: within the window's length the model is
 * the same, and no longer context is promised. */
static uint32_t context_of(const struct pith_shape *s)
{
    const bool windowed = s->windows.size && pith_layer_any(&s->windows.layers, s->layers);
    return windowed && s->windows.size < s->max_position ? s->windows.size : s->max_position;
}

/* Layers before the first mixture. */
static uint32_t dense_first(const struct pith_shape *s)
{
    uint32_t n = 0;
    while (s->moe.experts && n < s->layers && !pith_layer_in(&s->moe.layers, n)) n++;
    return n;
}

/* Of how many layers the last is a mixture; 0: of none. */
static uint32_t mixture_every(const struct pith_shape *s)
{
    const uint32_t n = dense_first(s) + 1;
    for (uint32_t i = 0; i < s->layers; i++)
        if (pith_layer_in(&s->moe.layers, i) != ((i + 1) % n == 0)) return 0;
    return n;
}

static uint32_t shared_count(const struct pith_shape *s)
{
    return s->moe.shared_ffn && s->moe.shared_ffn % s->moe.ffn == 0 ? s->moe.shared_ffn / s->moe.ffn
                                                                    : 0;
}

/* Of how many layers the last is attention, where the others are recurrences; 0: of none. */
static uint32_t attention_every(const struct pith_shape *s)
{
    uint32_t n = 0;
    if (s->delta.key_heads == 0) return 0;
    while (n < s->layers && pith_layer_in(&s->recurrent.layers, n)) n++;
    for (uint32_t i = 0; i < s->layers; i++)
        if (pith_layer_in(&s->recurrent.layers, i) != ((i + 1) % (n + 1) != 0)) return 0;
    return n + 1;
}

static void put_given(const struct keys *k, const struct pith_shape *s, bool factors)
{
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
#define PITH_GGUF_SIZE(gguf, hf, value) {gguf, value},
#define PITH_GGUF_REAL(gguf, hf, value)
#include "io/gguf/keys.def"
#undef PITH_GGUF_SIZE
#undef PITH_GGUF_REAL
    };
    const struct {
        const char *name;
        double value;
    } reals[] = {
#define PITH_GGUF_SIZE(gguf, hf, value)
#define PITH_GGUF_REAL(gguf, hf, value) {gguf, value},
#include "io/gguf/keys.def"
#undef PITH_GGUF_SIZE
#undef PITH_GGUF_REAL
    };
    for (size_t i = 0; i < PITH_COUNT(sizes); i++)
        if (sizes[i].value) put_size(k, sizes[i].name, sizes[i].value);
    for (size_t i = 0; i < PITH_COUNT(reals); i++)
        if (reals[i].value != 0) put_real(k, reals[i].name, reals[i].value);
}

static void put_kv_heads(const struct keys *k, const struct pith_shape *s)
{
    char key[KEY];
    (void)snprintf(key, KEY, "%s.attention.head_count_kv", k->arch);
    pith_gguf_begin_array(k->keys, key, PITH_GGUF_U32, s->layers);
    for (uint32_t i = 0; i < s->layers; i++) {
        const uint32_t heads = pith_layer_in(&s->recurrent.layers, i) ? 0 : s->kv_heads;
        pith_str_append(&k->keys->bytes, (const char *)&heads, sizeof heads);
    }
}

/* What heads are: a latent is one head of keys and values, from which each head's come. */
static void put_heads(const struct keys *k, const struct pith_shape *s, bool by_layer)
{
    const struct pith_latent_shape *l = &s->latent;
    const uint32_t dims = l->rank ? l->rank + l->rope : s->head_dim;
    put_size(k, "attention.head_count", s->heads);
    if (by_layer) put_kv_heads(k, s);
    else put_size(k, "attention.head_count_kv", l->rank ? 1 : s->kv_heads);
    put_size(k, "attention.key_length", dims);
    put_size(k, "attention.value_length", l->rank ? l->rank : s->head_dim);
    if (l->rank) put_size(k, "attention.key_length_mla", l->nope + l->rope);
    put_size(k, "rope.dimension_count",
             l->rank           ? l->rope
             : s->place.rotary ? s->place.rotary
                               : s->head_dim);
    if (l->rank) put_size(k, "attention.q_lora_rank", l->q_rank);
    if (s->delta.key_heads)
        put_size(k, "ssm.inner_size", s->delta.value_heads * s->delta.value_dim);
    if (s->scan.heads) put_size(k, "ssm.inner_size", s->scan.heads * s->scan.dim);
}

/* llama.h has no names for these: LLAMA_EXPERT_GATING_FUNC_TYPE_ SOFTMAX, SIGMOID, SOFTMAX_WEIGHT.
 */
static uint32_t gating(enum pith_router router)
{
    return router == PITH_ROUTER_SOFTMAX ? 1 : router == PITH_ROUTER_SIGMOID ? 2 : 3;
}

static void put_experts(const struct keys *k, const struct pith_gguf_arch *arch,
                        const struct pith_shape *s)
{
    if (!arch->experts) return;
    put_size(k, "expert_count", s->moe.experts);
    put_size(k, "expert_used_count", s->moe.taken);
    put_size(k, "expert_feed_forward_length", s->moe.ffn);
    if (s->moe.shared_ffn) put_size(k, "expert_shared_feed_forward_length", s->moe.shared_ffn);
    if (!arch->all_sparse && !arch->stepped)
        put_size(k, "leading_dense_block_count", dense_first(s));
    if (arch->step) put_size(k, "interleave_moe_layer_step", arch->stepped ? mixture_every(s) : 1);
    if (!arch->by_keys) return;
    put_size(k, "expert_gating_func", gating(s->moe.router));
    put_bool(k, "expert_weights_norm", s->moe.renormalised);
}

static void put_model(struct pith_gguf_keys *keys, const struct pith_gguf_arch *arch,
                      const struct pith_model *m, const struct pith_ggml_type *most, uint32_t kind)
{
    const struct pith_shape *s = &m->shape;
    const struct keys k = {keys, arch->name};
    pith_gguf_put_text(keys, "general.architecture", arch->name);
    pith_gguf_put_text(keys, "general.type", "model");
    pith_gguf_put_uint(keys, "general.file_type", kind ? kind : file_type(most));
    if (most->block > 1) pith_gguf_put_uint(keys, "general.quantization_version", 2);
    put_size(&k, "block_count", s->layers);
    put_size(&k, "context_length", arch->windows || arch->chunk ? s->max_position : context_of(s));
    put_size(&k, "embedding_length", s->hidden);
    put_size(&k, "feed_forward_length", s->ffn);
    put_experts(&k, arch, s);
    put_heads(&k, s, arch->without_keys != NULL);
    put_given(&k, s, arch->factors);
    if (arch->by_head)
        put_bool(&k, "use_parallel_residual", pith_plan_parallel(pith_plan(&m->plans, 0)));
    if (arch->windows && s->windows.size) put_size(&k, "attention.sliding_window", s->windows.size);
    put_real(&k,
             arch->centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
             s->eps);
    put_size(&k, "vocab_size", s->vocab);
    put_rope(&k, s);
    if (arch->renamed) pith_gguf_put_bool(keys, PITH_GGUF_RENAMED, true);
    if (arch->rope_stated)
        put_bool(&k, "rope.scaling.finetuned", !pith_layer_in(&s->place.unrotated, 0));
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status check_experts(const struct pith_model *m, const struct pith_gguf_arch *a,
                                      struct pith_error *err)
{
    const struct pith_moe *moe = &m->shape.moe;
    uint32_t sparse = 0;
    for (uint32_t i = 0; i < m->shape.layers; i++) sparse += pith_layer_in(&moe->layers, i);
    if (!a->experts || moe->experts == 0) return PITH_OK;
    if (a->stepped && mixture_every(&m->shape) == 0)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has experts in every n-th layer of a %s",
                         a->name);
    if (!a->stepped && sparse + (a->all_sparse ? 0 : dense_first(&m->shape)) < m->shape.layers)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has experts in every layer of a %s%s",
                         a->name, a->all_sparse ? "" : " behind the first");
    if (m->shape.latent.rank && moe->shared_ffn == 0)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has a shared expert in every %s",
                         a->name);
    if (moe->groups > 1 && (!a->by_keys || !moe->group_best_two))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp chooses groups of a %s's experts by the sum of the two best",
                         a->name);
    if (a->by_keys && (moe->renormalised || !a->renormalised)) return PITH_OK;
    if (a->renormalised != moe->renormalised && moe->router != PITH_ROUTER_TOP)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp %s the weights of a %s's experts by their sum%s",
                         a->renormalised ? "divides" : "does not divide", a->name,
                         a->renormalised ? ", and norm_topk_prob is false" : "");
    /* The softmax of those chosen is that of all, over the sum of those chosen. */
    const bool same = moe->router == PITH_ROUTER_TOP && a->renormalised && !a->gating;
    if ((!same && gating(moe->router) != (a->gating ? a->gating : 1)) ||
        (moe->scale != 0 && moe->scale != 1))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp chooses the experts of a %s in another way", a->name);
    return PITH_OK;
}

/* What llama.cpp cannot compute as the model means it. */
static enum pith_status check_shape(const struct pith_model *m, const struct pith_gguf_arch *arch,
                                    struct pith_error *err)
{
    const struct pith_shape *s = &m->shape;
    const char *lacks = pith_arch_gguf_lacks(&m->plans, s);
    if (lacks)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp does not compute %s in a %s", lacks,
                         arch->name);
    PITH_TRY(check_experts(m, arch, err));
    if (s->delta.key_heads && attention_every(s) == 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp has attention in every n-th layer of a %s", arch->name);
    if (s->delta.key_heads && s->delta.key_dim != s->delta.value_dim)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp has keys and values of one size in a %s",
                         arch->name);
    if (s->latent.rank && s->eps > 2e-5) /* theirs is 1e-6, whatever the model's */
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp has the model's epsilon in a latent's norms, and %g is too much"
                         " there",
                         s->eps);
    if (s->latent.rank && !s->latent.adjacent)
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp rotates neighbours in a %s", arch->name);
    if (s->place.rope.type == PITH_ROPE_YARN &&
        (s->place.rope.beta_fast != 32 || s->place.rope.beta_slow != 1))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp computes YaRN with betas of 32 and 1, not %g and %g",
                         s->place.rope.beta_fast, s->place.rope.beta_slow);
    if (s->place.rope.type == PITH_ROPE_YARN &&
        s->place.rope.attention_factor != (s->latent.rank ? 1 : 0))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "llama.cpp takes no separate attention factor for YaRN");
    return PITH_OK;
}

static enum pith_status finish(struct names *n, const char *source, const char *file,
                               struct pith_gguf_keys *keys, struct pith_layout *l,
                               struct pith_error *err)
{
    const struct pith_shape *s = &n->model->shape;
    const struct pith_rope *r = &s->place.rope;
    const bool scaled = r->type == PITH_ROPE_LLAMA3;
    float *factors = NULL;
    for (size_t i = 0; i < l->count; i++)
        PITH_TRY(name_tensor(n, &l->tensors[i], &n->name[i], err));
    put_model(keys, &n->arch, n->model, &n->most, n->file_type);
    if (n->arch.sections)
        put_sections(&(struct keys){keys, n->arch.name}, n->model->checkpoint->config);
    PITH_TRY(pith_gguf_put_tokenizer(source, n->model->checkpoint->gguf, s->vocab, keys, err));
    const uint32_t count = scaled ? (s->place.rotary ? s->place.rotary : s->head_dim) / 2 : 0;
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
    struct names n = {.model = m, .file_type = kind, .sizes = sizes_of(&m->shape)};
    struct pith_gguf_keys keys = {0};
    if (!arch_of(m, &n.arch))
        return pith_fail(err, PITH_UNSUPPORTED, "llama.cpp's name of a %s is not known here",
                         m->arch->name);
    PITH_TRY(check_shape(m, &n.arch, err));
    n.name = pith_zalloc(l->count, sizeof *n.name);
    if (!n.name) return pith_fail_nomem(err, "the layout");
    const enum pith_status s = finish(&n, source, file, &keys, l, err);
    pith_gguf_keys_free(&keys);
    pith_free(n.name);
    return s;
}
