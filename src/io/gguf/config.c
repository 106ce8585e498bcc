/* The keys of a GGUF file as the config.json that they were made from. */
#include "io/gguf/model.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

void pith_gguf_rope_factors(const struct pith_llama3_rope *rope, uint32_t count, float *out)
{
    const double context = (double)rope->original;
    for (uint32_t i = 0; i < count; i++) {
        const double freq = pow(rope->theta, -(double)i / count), length = 2 * pi / freq;
        const double part = (context / length - rope->low) / (rope->high - rope->low);
        if (length < context / rope->high) out[i] = 1;
        else if (length > context / rope->low) out[i] = (float)rope->factor;
        else out[i] = (float)(1 / ((1 - part) / rope->factor + part));
    }
}

struct config {
    const struct pith_gguf *g;
    const struct pith_gguf_arch *arch;
    json_t *json;
    struct pith_error *err;
};

enum { KEY = 96, MOST_LAYERS = 16384 };

static const char *key_of(const struct config *c, const char *name, char key[KEY])
{
    (void)snprintf(key, KEY, "%s.%s", c->arch->name, name);
    return key;
}

static enum pith_status set(const struct config *c, const char *name, json_t *value)
{
    return json_object_set_new(c->json, name, value) == 0 ? PITH_OK
                                                          : pith_fail_nomem(c->err, "the config");
}

static enum pith_status get_size(const struct config *c, const char *name, uint64_t absent,
                                 uint64_t *out)
{
    char key[KEY];
    *out = 0;
    PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, name, key), INT32_MAX, out, c->err));
    if (*out == 0) *out = absent;
    return *out ? PITH_OK
                : pith_fail(c->err, PITH_FORMAT, "%s: key \"%s\" is missing or 0", c->g->path, key);
}

/* The shortest decimal number that is this float: the file rounded what the config had. */
static double shortest(double value)
{
    char text[40];
    for (int digits = 1; digits < 10; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    return strtod(text, NULL);
}

static enum pith_status get_real(const struct config *c, const char *name, double *value)
{
    char key[KEY];
    PITH_TRY(pith_gguf_get_real(c->g, key_of(c, name, key), value, c->err));
    if (!isfinite(*value))
        return pith_fail(c->err, PITH_FORMAT, "%s: key \"%s\" is not finite", c->g->path, key);
    *value = shortest(*value);
    return PITH_OK;
}

enum pith_status pith_gguf_layers(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                  uint64_t *layers, struct pith_error *err)
{
    const struct config c = {.g = g, .arch = arch, .err = err};
    uint64_t further = 0;
    char key[KEY];
    PITH_TRY(get_size(&c, "block_count", 0, layers));
    PITH_TRY(
        pith_gguf_get_uint(g, key_of(&c, "nextn_predict_layers", key), INT32_MAX, &further, err));
    if (further >= *layers)
        return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" leaves no layer", g->path, key);
    *layers -= further;
    return PITH_OK;
}

static enum pith_status put_uint(const struct config *c, const char *name, uint64_t value)
{
    return set(c, name, json_integer((json_int_t)value));
}

/* Heads whose keys and values come from a latent. */
static enum pith_status put_latent(const struct config *c, uint64_t heads)
{
    uint64_t key, rope, queries = 0;
    char name[KEY];
    PITH_TRY(get_size(c, "attention.key_length_mla", 0, &key));
    PITH_TRY(get_size(c, "rope.dimension_count", 0, &rope));
    if (rope >= key)
        return pith_fail(c->err, PITH_FORMAT, "%s: the sizes of heads do not go together",
                         c->g->path);
    PITH_TRY(put_uint(c, "num_key_value_heads", heads));
    PITH_TRY(put_uint(c, "qk_rope_head_dim", rope));
    PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, "attention.q_lora_rank", name), INT32_MAX, &queries,
                                c->err));
    PITH_TRY(set(c, "q_lora_rank", queries ? json_integer((json_int_t)queries) : json_null()));
    return put_uint(c, "qk_nope_head_dim", key - rope);
}

enum pith_status pith_gguf_kv_heads(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                    uint32_t *most, struct pith_error *err)
{
    const struct config c = {.g = g, .arch = arch, .err = err};
    char key[KEY];
    const struct pith_gguf_key *list =
        pith_gguf_find(g, key_of(&c, "attention.head_count_kv", key));
    *most = 0;
    for (uint64_t i = 0; list && i < list->count; i++) {
        uint64_t n = 0;
        PITH_TRY(pith_gguf_get_uint_at(g, key, i, 1 << 24, &n, err));
        if (n > *most) *most = (uint32_t)n;
    }
    return PITH_OK;
}

/* Heads of keys, given by layer: the layers' kinds with them. */
static enum pith_status put_layers(const struct config *c, uint64_t *heads)
{
    uint32_t most;
    uint64_t layers;
    char key[KEY];
    json_t *kinds = json_array();
    PITH_TRY(set(c, "layer_types", kinds));
    PITH_TRY(pith_gguf_kv_heads(c->g, c->arch, &most, c->err));
    PITH_TRY(pith_gguf_layers(c->g, c->arch, &layers, c->err));
    for (uint64_t i = 0; i < layers && layers <= MOST_LAYERS; i++) {
        uint64_t n = 0;
        PITH_TRY(pith_gguf_get_uint_at(c->g, key_of(c, "attention.head_count_kv", key), i,
                                       INT32_MAX, &n, c->err));
        if (json_array_append_new(kinds,
                                  json_string(n ? "full_attention" : c->arch->without_keys)) != 0)
            return pith_fail_nomem(c->err, "the config");
    }
    if (most == 0)
        return pith_fail(c->err, PITH_FORMAT, "%s: no layer has heads of keys", c->g->path);
    *heads = most;
    return c->arch->off ? set(c, c->arch->off, json_false()) : PITH_OK;
}

static enum pith_status put_heads(const struct config *c, uint64_t heads, uint64_t hidden)
{
    uint64_t n, value, part;
    if (c->arch->without_keys) PITH_TRY(put_layers(c, &n));
    else PITH_TRY(get_size(c, "attention.head_count_kv", heads, &n));
    PITH_TRY(put_uint(c, "num_key_value_heads", n));
    PITH_TRY(get_size(c, "attention.key_length", hidden / heads, &n));
    PITH_TRY(put_uint(c, "head_dim", n));
    if (c->arch->scalar) PITH_TRY(put_uint(c, "query_pre_attn_scalar", n));
    PITH_TRY(get_size(c, "attention.value_length", n, &value));
    PITH_TRY(get_size(c, "rope.dimension_count", n, &part));
    if (value != n || part > n)
        return pith_fail(c->err, PITH_UNSUPPORTED, "%s: heads whose keys and values differ in size",
                         c->g->path);
    if (part == n && !c->arch->partial) return PITH_OK;
    return set(c, "partial_rotary_factor", json_real((double)part / (double)n));
}

static enum pith_status put_sizes(const struct config *c)
{
    const struct {
        const char *gguf, *hf;
    } sizes[] = {
        {"embedding_length", "hidden_size"},
        {"feed_forward_length", c->arch->ffn},
        {"context_length", "max_position_embeddings"},
    };
    uint64_t n, heads, hidden;
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        PITH_TRY(get_size(c, sizes[i].gguf, 0, &n));
        PITH_TRY(put_uint(c, sizes[i].hf, n));
    }
    PITH_TRY(pith_gguf_layers(c->g, c->arch, &n, c->err));
    PITH_TRY(put_uint(c, "num_hidden_layers", n));
    PITH_TRY(get_size(c, "embedding_length", 0, &hidden));
    PITH_TRY(get_size(c, "attention.head_count", 0, &heads));
    PITH_TRY(put_uint(c, "num_attention_heads", heads));
    return c->arch->latent ? put_latent(c, heads) : put_heads(c, heads, hidden);
}

static enum pith_status put_step(const struct config *c)
{
    uint64_t step;
    PITH_TRY(get_size(c, "interleave_moe_layer_step", 0, &step));
    return put_uint(c, "interleave_moe_layer_step", step);
}

/* A window of 0 would mean that no layer has chunks, and all have positions. */
static enum pith_status put_chunks(const struct config *c, uint64_t experts)
{
    uint64_t window = c->arch->chunk;
    char key[KEY];
    PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, "attention.sliding_window", key), INT32_MAX,
                                &window, c->err));
    if (window == 0)
        return pith_fail(c->err, PITH_UNSUPPORTED, "%s: a %s without chunks is not supported",
                         c->g->path, c->arch->name);
    PITH_TRY(put_uint(c, "attention_chunk_size", c->arch->chunk));
    return set(c, "use_qk_norm", json_boolean(experts != c->arch->bare));
}

/* No experts, stated where an absent key means some. */
static enum pith_status put_none(const struct config *c)
{
    uint64_t ffn;
    PITH_TRY(get_size(c, "feed_forward_length", 0, &ffn));
    PITH_TRY(put_uint(c, "intermediate_size", ffn));
    return put_uint(c, c->arch->none, 0);
}

/* What is known of a mixture that llama.cpp runs, in addition to its architecture. */
static enum pith_status put_experts(const struct config *c)
{
    const struct pith_gguf_arch *a = c->arch;
    uint64_t experts, taken, width, shared = 0, ffn;
    char key[KEY];
    if (!a->experts) return a->none ? put_none(c) : PITH_OK;
    PITH_TRY(get_size(c, "expert_count", 0, &experts));
    PITH_TRY(get_size(c, "expert_used_count", 0, &taken));
    PITH_TRY(get_size(c, "feed_forward_length", 0, &ffn));
    PITH_TRY(get_size(c, "expert_feed_forward_length", ffn, &width));
    PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, "expert_shared_feed_forward_length", key),
                                INT32_MAX, &shared, c->err));
    PITH_TRY(put_uint(c, a->experts, experts));
    PITH_TRY(put_uint(c, "num_experts_per_tok", taken));
    PITH_TRY(put_uint(c, a->expert_width, width));
    if (shared) PITH_TRY(put_uint(c, a->shared_width, shared));
    uint64_t dense = 0, groups = 0;
    PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, "leading_dense_block_count", key), INT32_MAX,
                                &dense, c->err));
    PITH_TRY(
        pith_gguf_get_uint(c->g, key_of(c, "expert_group_count", key), INT32_MAX, &groups, c->err));
    if (!a->all_sparse && !a->stepped) PITH_TRY(put_uint(c, "first_k_dense_replace", dense));
    if (a->stepped) PITH_TRY(put_step(c));
    if (a->chunk) PITH_TRY(put_chunks(c, experts));
    if (groups > 1) PITH_TRY(set(c, "topk_method", json_string("group_limited_greedy")));
    return set(c, "norm_topk_prob", json_boolean(a->renormalised));
}

/* Keys that a file has where the model has such a thing. */
static enum pith_status put_given(const struct config *c)
{
    static const struct {
        const char *gguf, *hf;
    } sizes[] =
        {
#define PITH_GGUF_SIZE(gguf, hf, value) {gguf, hf},
#define PITH_GGUF_REAL(gguf, hf, value)
#include "io/gguf/keys.def"
#undef PITH_GGUF_SIZE
#undef PITH_GGUF_REAL
        },
      reals[] = {
#define PITH_GGUF_SIZE(gguf, hf, value)
#define PITH_GGUF_REAL(gguf, hf, value) {gguf, hf},
#include "io/gguf/keys.def"
#undef PITH_GGUF_SIZE
#undef PITH_GGUF_REAL
      };
    char key[KEY];
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        uint64_t n = UINT64_MAX;
        PITH_TRY(pith_gguf_get_uint(c->g, key_of(c, sizes[i].gguf, key), INT32_MAX, &n, c->err));
        if (n != UINT64_MAX) PITH_TRY(put_uint(c, sizes[i].hf, n));
    }
    for (size_t i = 0; i < PITH_COUNT(reals); i++) {
        if (!pith_gguf_find(c->g, key_of(c, reals[i].gguf, key))) continue;
        double v = 0;
        PITH_TRY(get_real(c, reals[i].gguf, &v));
        PITH_TRY(set(c, reals[i].hf, json_real(v)));
    }
    bool over_sum = false, parallel = true;
    uint64_t values = 0, inner = 0;
    PITH_TRY(pith_gguf_get_bool(c->g, key_of(c, "expert_weights_norm", key), &over_sum, c->err));
    over_sum |= c->arch->renormalised; /* whatever the key says, which others do not write then */
    if (c->arch->by_keys) PITH_TRY(set(c, "norm_topk_prob", json_boolean(over_sum)));
    PITH_TRY(pith_gguf_get_bool(c->g, key_of(c, "use_parallel_residual", key), &parallel, c->err));
    if (c->arch->by_head) PITH_TRY(set(c, "use_parallel_residual", json_boolean(parallel)));
    if (c->arch->windows) PITH_TRY(get_size(c, "attention.sliding_window", 0, &inner));
    if (c->arch->windows) PITH_TRY(put_uint(c, "sliding_window", inner));
    else PITH_TRY(set(c, "sliding_window", json_null())); /* stated where absence means one */
    if (!c->arch->delta && !c->arch->scan) return PITH_OK;
    PITH_TRY(get_size(c, "ssm.time_step_rank", 0, &values));
    PITH_TRY(get_size(c, "ssm.inner_size", 0, &inner));
    if (c->arch->delta) return put_uint(c, "linear_value_head_dim", inner / values);
    PITH_TRY(put_uint(c, "mamba_d_head", inner / values));
    PITH_TRY(get_size(c, "embedding_length", 0, &values));
    return put_uint(c, "mamba_expand", inner / values);
}

/* --- rotary positions ------------------------------------------------------------------------- */

/* The context that scaling began at, from the factors: between the ends they give it, where low and
 * high are 1 and 4, as in all models so far (Llama 3.1 to 3.3). */
static uint64_t original_context(const float *factors, uint64_t count, double theta, double factor)
{
    for (uint64_t i = 0; i < count; i++) {
        const double v = factors[i];
        if (!(v > 1.0001 && v < factor * 0.9999)) continue;
        const double part = (1 / v - 1 / factor) / (1 - 1 / factor);
        const double length = 2 * pi * pow(theta, (double)i / (double)count);
        const double context = round(length * (3 * part + 1));
        return context >= 1 && context < 1e9 ? (uint64_t)context : 8192;
    }
    return 8192;
}

/* Finds the config that gives these factors. */
static enum pith_status put_llama3(const struct config *c, const struct pith_gguf_tensor *t,
                                   double theta)
{
    const uint64_t count = t->shape[0];
    if (t->dims != 1 || t->type.id != 0 || count == 0 || count > 1 << 13)
        return pith_fail(c->err, PITH_FORMAT, "%s: tensor \"%s\" is not a vector of F32",
                         c->g->path, t->name);
    float *is = pith_alloc(count, sizeof *is), *want = pith_alloc(count, sizeof *want);
    struct pith_llama3_rope rope = {.theta = theta, .low = 1, .high = 4};
    const bool memory = is && want;
    bool same = memory;
    if (memory) {
        memcpy(is, t->data, count * sizeof *is);
        rope.factor = is[count - 1];
        rope.original = original_context(is, count, theta, rope.factor);
        pith_gguf_rope_factors(&rope, (uint32_t)count, want);
    }
    for (uint64_t i = 0; same && i < count; i++) same = fabsf(is[i] - want[i]) <= 1e-4f * want[i];
    pith_free(is);
    pith_free(want);
    if (!memory) return pith_fail_nomem(c->err, t->name);
    if (!same)
        return pith_fail(c->err, PITH_UNSUPPORTED,
                         "%s: the factors of \"%s\" are not those of a Llama 3", c->g->path,
                         t->name);
    return set(c, "rope_scaling",
               json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor",
                         shortest(rope.factor), "low_freq_factor", rope.low, "high_freq_factor",
                         rope.high, "original_max_position_embeddings", (json_int_t)rope.original));
}

static enum pith_status put_yarn(const struct config *c, double factor)
{
    static const struct {
        const char *gguf, *hf;
    } reals[] = {
        {"rope.scaling.yarn_beta_fast", "beta_fast"},
        {"rope.scaling.yarn_beta_slow", "beta_slow"},
    };
    uint64_t original;
    PITH_TRY(get_size(c, "rope.scaling.original_context_length", 0, &original));
    json_t *j = json_pack("{s:s, s:f, s:I}", "rope_type", "yarn", "factor", factor,
                          "original_max_position_embeddings", (json_int_t)original);
    PITH_TRY(set(c, "rope_scaling", j));
    for (size_t i = 0; i < PITH_COUNT(reals); i++) {
        double v = 0;
        PITH_TRY(get_real(c, reals[i].gguf, &v));
        if (v != 0 && json_object_set_new(j, reals[i].hf, json_real(v)) != 0)
            return pith_fail_nomem(c->err, "the config");
    }
    double scale = 1, all = 0;
    if (c->arch->untruncated && json_object_set_new(j, "truncate", json_false()) != 0)
        return pith_fail_nomem(c->err, "the config");
    PITH_TRY(get_real(c, "rope.scaling.yarn_log_multiplier", &all));
    for (int i = 0; i < 2 && all != 0; i++)
        if (json_object_set_new(j, i ? "mscale" : "mscale_all_dim",
                                json_real(shortest(all / 0.1))) != 0)
            return pith_fail_nomem(c->err, "the config");
    PITH_TRY(get_real(c, "rope.scaling.attn_factor", &scale));
    return scale == 1 ? PITH_OK
                      : pith_fail(c->err, PITH_UNSUPPORTED,
                                  "%s: rope.scaling.attn_factor is not supported", c->g->path);
}

static enum pith_status put_rope(const struct config *c)
{
    const struct pith_gguf_tensor *factors = pith_gguf_tensor_find(c->g, "rope_freqs.weight");
    double theta = 10000, factor = 1;
    char key[KEY], *type = NULL;
    PITH_TRY(get_real(c, "rope.freq_base", &theta));
    PITH_TRY(get_real(c, "rope.scale_linear", &factor)); /* until 2023 */
    PITH_TRY(get_real(c, "rope.scaling.factor", &factor));
    PITH_TRY(set(c, "rope_theta", json_real(theta)));
    if (factors) return put_llama3(c, factors, theta);
    PITH_TRY(pith_gguf_get_text(c->g, key_of(c, "rope.scaling.type", key), &type, c->err));
    enum pith_status s = PITH_OK;
    /* A factor without a type is a linear one's, as llama.cpp has it. */
    const bool linear = type ? strcmp(type, "linear") == 0 : factor != 1 && factor != 0;
    if (!linear && (!type || strcmp(type, "none") == 0)) /* stated where absence means YaRN */
        s = c->arch->untruncated
                ? set(c, "rope_scaling", json_pack("{s:s}", "rope_type", "default"))
                : PITH_OK;
    else if (linear)
        s = set(c, "rope_scaling",
                json_pack("{s:s, s:f}", "rope_type", "linear", "factor", factor));
    else if (strcmp(type, "yarn") == 0) s = put_yarn(c, factor);
    else
        s = pith_fail(c->err, PITH_UNSUPPORTED, "%s: rope scaling \"%.40s\" is not supported",
                      c->g->path, type);
    pith_free(type);
    return s;
}

static enum pith_status put_positions(const struct config *c)
{
    bool rope = true;
    char key[KEY];
    PITH_TRY(pith_gguf_get_bool(c->g, key_of(c, "rope.scaling.finetuned", key), &rope, c->err));
    return set(c, "position_embedding_type", json_string(rope ? "rope" : "nope"));
}

/* --- what tensors show ------------------------------------------------------------------------ */

static enum pith_status put_dtype(const struct config *c)
{
    static const struct {
        const char *gguf, *hf;
    } dtypes[] = {{"F32", "float32"}, {"F16", "float16"}, {"BF16", "bfloat16"}};
    const struct pith_gguf_tensor *t = pith_gguf_tensor_find(c->g, "blk.0.ffn_up_exps.weight");
    if (!t) t = pith_gguf_tensor_find(c->g, "blk.0.ffn_up.weight");
    const char *name = "float16";
    for (size_t i = 0; t && i < PITH_COUNT(dtypes); i++)
        if (strcmp(t->type.name, dtypes[i].gguf) == 0) name = dtypes[i].hf;
    return set(c, "torch_dtype", json_string(name));
}

static enum pith_status put_tensors(const struct config *c)
{
    const struct pith_gguf_tensor *embed = pith_gguf_tensor_find(c->g, "token_embd.weight");
    if (!embed || embed->dims != 2)
        return pith_fail(c->err, PITH_FORMAT, "%s: no matrix \"token_embd.weight\"", c->g->path);
    const bool q = pith_gguf_tensor_find(c->g, "blk.0.attn_q.bias") ||
                   pith_gguf_tensor_find(c->g, "blk.0.attn_qkv.bias");
    const bool o = pith_gguf_tensor_find(c->g, "blk.0.attn_output.bias");
    const bool mlp = pith_gguf_tensor_find(c->g, "blk.0.ffn_up.bias");
    const bool alone = c->arch->biased || c->arch->qkv_bias_only;
    if (!alone && q != o)
        return pith_fail(c->err, PITH_UNSUPPORTED,
                         "%s: biases on some of the attention's linears are not supported",
                         c->g->path);
    PITH_TRY(set(c, "vocab_size", json_integer((json_int_t)embed->shape[0])));
    PITH_TRY(
        set(c, "tie_word_embeddings", json_boolean(!pith_gguf_tensor_find(c->g, "output.weight"))));
    PITH_TRY(set(c, c->arch->bias, json_boolean(q && !c->arch->biased)));
    PITH_TRY(set(c, "mlp_bias", json_boolean(mlp)));
    if (!c->arch->chunk)
        PITH_TRY(set(c, "use_qk_norm",
                     json_boolean(pith_gguf_tensor_find(c->g, "blk.0.attn_q_norm.weight"))));
    return put_dtype(c);
}

static enum pith_status put_ids(const struct config *c)
{
    static const struct {
        const char *gguf, *hf;
    } ids[] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
               {"tokenizer.ggml.eos_token_id", "eos_token_id"}};
    for (size_t i = 0; i < PITH_COUNT(ids); i++) {
        uint64_t id = UINT64_MAX;
        PITH_TRY(pith_gguf_get_uint(c->g, ids[i].gguf, INT32_MAX, &id, c->err));
        if (id != UINT64_MAX) PITH_TRY(set(c, ids[i].hf, json_integer((json_int_t)id)));
    }
    return PITH_OK;
}

static enum pith_status fill(const struct config *c, bool quantized)
{
    double eps = NAN;
    char key[KEY];
    PITH_TRY(put_sizes(c));
    PITH_TRY(put_experts(c));
    PITH_TRY(put_given(c));
    (void)key_of(
        c, c->arch->centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
        key);
    PITH_TRY(pith_gguf_get_real(c->g, key, &eps, c->err));
    if (!(eps >= 0 && eps < 1))
        return pith_fail(c->err, PITH_FORMAT, "%s: key \"%s\" is missing or no epsilon", c->g->path,
                         key);
    PITH_TRY(set(c, c->arch->eps, json_real(shortest(eps))));
    PITH_TRY(put_rope(c));
    if (c->arch->rope_stated) PITH_TRY(put_positions(c));
    PITH_TRY(put_tensors(c));
    PITH_TRY(put_ids(c));
    return quantized ? set(c, "quantization_config", json_pack("{s:s}", "quant_method", "gguf"))
                     : PITH_OK;
}

enum pith_status pith_gguf_config(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                  bool quantized, json_t **out, struct pith_error *err)
{
    struct config c = {.g = g, .arch = arch, .err = err};
    c.json = json_pack("{s:[s], s:s, s:s}", "architectures", arch->hf, "model_type",
                       arch->model_type, "hidden_act", arch->act);
    if (!c.json) return pith_fail_nomem(err, "the config");
    const enum pith_status s = fill(&c, quantized);
    if (s == PITH_OK) *out = c.json;
    else json_decref(c.json);
    return s;
}
