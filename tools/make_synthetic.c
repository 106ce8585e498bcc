/* make_synthetic SHAPE OUT [LAYERS]: a checkpoint with the shape of a known model and random bf16
 * weights, for measuring memory and time where no real model is at hand. The tokenizer is that of
 * models/probe, whose ids are all within these vocabularies.
 *
 * Weights are normal with standard deviation 0.02, by table: 16 random bits choose one of 65,536
 * quantiles. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attention that keeps a latent, and what goes with it in DeepSeek-V3. */
struct latent {
    unsigned q, kv, nope, rope, value; /* ranks; parts of a head */
    unsigned ffn, dense;               /* of the first layers, which have no experts */
    unsigned groups, chosen;           /* of experts */
};

struct shape {
    const char *name;
    unsigned hidden, ffn, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    unsigned experts, taken;     /* Qwen3-MoE, whose experts are `ffn` wide; 0: Llama */
    const struct latent *latent; /* or NULL */
    bool fused;                  /* gpt-oss: biases, sinks, the experts of a layer in one tensor */
};

static const struct latent deepseek = {1536, 512, 128, 64, 128, 18432, 3, 8, 4};
static const struct latent narrow = {384, 128, 64, 32, 64, 2048, 1, 4, 2};
static const struct latent tiny = {256, 128, 32, 32, 32, 512, 1, 4, 2};

static const struct shape shapes[] = {
    {"llama-3-8b", 4096, 14336, 32, 32, 8, 128, 128256, false, 0, 0, NULL, false},
    {"llama-3-8b-block", 4096, 14336, 1, 32, 8, 128, 4096, false, 0, 0, NULL, false}, /* alone */
    {"llama-3.2-1b", 2048, 8192, 16, 32, 8, 64, 128256, true, 0, 0, NULL, false},
    {"qwen2.5-0.5b", 896, 4864, 24, 14, 2, 64, 151936, true, 0, 0, NULL, false},
    {"qwen3-30b-a3b", 2048, 768, 48, 32, 4, 128, 151936, false, 128, 8, NULL, false},
    {"deepseek-v3", 7168, 2048, 61, 128, 128, 128, 129280, false, 256, 8, &deepseek, false},
    {"gpt-oss-20b", 2880, 2880, 24, 64, 8, 64, 201088, false, 32, 4, NULL, true},
    {"tiny", 256, 768, 2, 4, 2, 64, 4096, true, 0, 0, NULL, false},
    {"tiny-moe", 256, 128, 2, 4, 2, 64, 4096, true, 16, 4, NULL, false},
    {"tiny-gpt-oss", 256, 128, 2, 4, 2, 64, 4096, false, 8, 4, NULL, true},
    {"tiny-deepseek", 256, 128, 2, 4, 4, 32, 4096, false, 16, 4, &tiny, false},
    {"middle", 1024, 4096, 2, 16, 4, 64, 4096, true, 0, 0, NULL,
     false}, /* memory shows, in seconds */
    {"middle-moe", 1024, 512, 2, 16, 4, 64, 4096, true, 32, 4, NULL, false},
    {"middle-deepseek", 1024, 512, 2, 16, 16, 64, 4096, false, 32, 4, &narrow, false},
    {"middle-gpt-oss", 1024, 512, 2, 16, 4, 64, 4096, false, 32, 4, NULL, true},
    {"many-experts", 64, 32, 65, 2, 1, 32, 4096, true, 256, 8, NULL, false}, /* 50,245 linears */
};

static uint16_t table[65536];
static uint16_t one;

/* Inverse of the normal distribution by bisection on erfc: slow, exact enough, done once. */
static double quantile(double p)
{
    double lo = -8, hi = 8;
    for (int i = 0; i < 60; i++) {
        const double mid = (lo + hi) / 2;
        if (0.5 * erfc(-mid / sqrt(2)) < p) lo = mid;
        else hi = mid;
    }
    return (lo + hi) / 2;
}

static void make_table(void)
{
    for (unsigned i = 0; i < 65536; i++)
        table[i] = pith_f32_to_bf16((float)(0.02 * quantile((i + 0.5) / 65536)));
    one = pith_f32_to_bf16(1);
}

static enum pith_status add(struct pith_layout *l, const char *name, uint64_t rows, uint64_t cols,
                            struct pith_error *err)
{
    const uint64_t shape[2] = {rows, cols};
    return pith_layout_add(l, name, PITH_BF16, cols ? 2 : 1, shape, err);
}

static enum pith_status add_in(struct pith_layout *l, unsigned layer, const char *name,
                               uint64_t rows, uint64_t cols, struct pith_error *err)
{
    char full[128];
    snprintf(full, sizeof full, "model.layers.%u.%s.weight", layer, name);
    return add(l, full, rows, cols, err);
}

/* A feed-forward part, `before` its names. */
static enum pith_status add_mlp(struct pith_layout *l, unsigned layer, const char *before,
                                unsigned hidden, unsigned ffn, struct pith_error *err)
{
    char name[3][64];
    static const char *const part[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) snprintf(name[i], sizeof name[i], "%s.%s_proj", before, part[i]);
    PITH_TRY(add_in(l, layer, name[0], ffn, hidden, err));
    PITH_TRY(add_in(l, layer, name[1], ffn, hidden, err));
    return add_in(l, layer, name[2], hidden, ffn, err);
}

struct part {
    const char *name;
    uint64_t rows, cols;
};

static enum pith_status add_parts(struct pith_layout *l, unsigned layer, const struct part *list,
                                  size_t count, struct pith_error *err)
{
    for (size_t i = 0; i < count; i++)
        PITH_TRY(add_in(l, layer, list[i].name, list[i].rows, list[i].cols, err));
    return PITH_OK;
}

static enum pith_status add_attention(struct pith_layout *l, unsigned layer, const struct shape *s,
                                      struct pith_error *err)
{
    const uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const struct part plain[] = {
        {"self_attn.q_proj", q, s->hidden},   {"self_attn.k_proj", kv, s->hidden},
        {"self_attn.v_proj", kv, s->hidden},  {"self_attn.o_proj", s->hidden, q},
        {"self_attn.q_norm", s->head_dim, 0}, {"self_attn.k_norm", s->head_dim, 0},
    };
    return add_parts(l, layer, plain, s->experts && !s->fused ? 6 : 4, err);
}

/* What gpt-oss has in a layer beside the linears of its attention. */
static enum pith_status add_fused(struct pith_layout *l, unsigned layer, const struct shape *s,
                                  struct pith_error *err)
{
    const uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const struct {
        const char *name;
        uint64_t shape[3];
    } all[] = {
        {"self_attn.q_proj.bias", {q}},
        {"self_attn.k_proj.bias", {kv}},
        {"self_attn.v_proj.bias", {kv}},
        {"self_attn.o_proj.bias", {s->hidden}},
        {"self_attn.sinks", {s->heads}},
        {"mlp.router.weight", {s->experts, s->hidden}},
        {"mlp.router.bias", {s->experts}},
        {"mlp.experts.gate_up_proj", {s->experts, s->hidden, 2 * (uint64_t)s->ffn}},
        {"mlp.experts.gate_up_proj_bias", {s->experts, 2 * (uint64_t)s->ffn}},
        {"mlp.experts.down_proj", {s->experts, s->ffn, s->hidden}},
        {"mlp.experts.down_proj_bias", {s->experts, s->hidden}},
    };
    for (size_t i = 0; i < PITH_COUNT(all); i++) {
        const uint64_t *shape = all[i].shape;
        char full[128];
        snprintf(full, sizeof full, "model.layers.%u.%s", layer, all[i].name);
        PITH_TRY(pith_layout_add(l, full, PITH_BF16, shape[2] ? 3 : shape[1] ? 2 : 1, shape, err));
    }
    return PITH_OK;
}

static enum pith_status add_latent(struct pith_layout *l, unsigned layer, const struct shape *s,
                                   struct pith_error *err)
{
    const struct latent *t = s->latent;
    const struct part part[] = {
        {"self_attn.q_a_proj", t->q, s->hidden},
        {"self_attn.q_a_layernorm", t->q, 0},
        {"self_attn.q_b_proj", (uint64_t)s->heads * (t->nope + t->rope), t->q},
        {"self_attn.kv_a_proj_with_mqa", t->kv + t->rope, s->hidden},
        {"self_attn.kv_a_layernorm", t->kv, 0},
        {"self_attn.kv_b_proj", (uint64_t)s->heads * (t->nope + t->value), t->kv},
        {"self_attn.o_proj", s->hidden, (uint64_t)s->heads * t->value},
    };
    return add_parts(l, layer, part, PITH_COUNT(part), err);
}

static enum pith_status add_experts(struct pith_layout *l, unsigned layer, const struct shape *s,
                                    struct pith_error *err)
{
    PITH_TRY(add_in(l, layer, "mlp.gate", s->experts, s->hidden, err));
    for (unsigned e = 0; e < s->experts; e++) {
        char before[32];
        snprintf(before, sizeof before, "mlp.experts.%u", e);
        PITH_TRY(add_mlp(l, layer, before, s->hidden, s->ffn, err));
    }
    if (!s->latent) return PITH_OK;
    char bias[96];
    snprintf(bias, sizeof bias, "model.layers.%u.mlp.gate.e_score_correction_bias", layer);
    PITH_TRY(add(l, bias, s->experts, 0, err));
    return add_mlp(l, layer, "mlp.shared_experts", s->hidden, s->ffn, err);
}

static enum pith_status add_layer(struct pith_layout *l, unsigned layer, const struct shape *s,
                                  struct pith_error *err)
{
    const struct part norms[] = {{"input_layernorm", s->hidden, 0},
                                 {"post_attention_layernorm", s->hidden, 0}};
    PITH_TRY(add_parts(l, layer, norms, 1, err));
    PITH_TRY((s->latent ? add_latent : add_attention)(l, layer, s, err));
    PITH_TRY(add_parts(l, layer, norms + 1, 1, err));
    if (s->latent && layer < s->latent->dense)
        return add_mlp(l, layer, "mlp", s->hidden, s->latent->ffn, err);
    if (s->fused) return add_fused(l, layer, s, err);
    return s->experts ? add_experts(l, layer, s, err)
                      : add_mlp(l, layer, "mlp", s->hidden, s->ffn, err);
}

static enum pith_status plan(struct pith_layout *l, const struct shape *s, struct pith_error *err)
{
    PITH_TRY(add(l, "model.embed_tokens.weight", s->vocab, s->hidden, err));
    for (unsigned layer = 0; layer < s->layers; layer++) PITH_TRY(add_layer(l, layer, s, err));
    PITH_TRY(add(l, "model.norm.weight", s->hidden, 0, err));
    if (!s->tied) PITH_TRY(add(l, "lm_head.weight", s->vocab, s->hidden, err));
    return pith_layout_finish(l, 5000000000u, err);
}

static enum pith_status write_tensor(const struct pith_out *file, const struct pith_tensor_plan *t,
                                     struct pith_rng *rng, struct pith_error *err)
{
    enum { STEP = 1 << 20 };
    static uint16_t values[STEP];
    for (uint64_t at = 0; at < t->bytes / 2; at += STEP) {
        const uint64_t left = t->bytes / 2 - at;
        const size_t n = left < STEP ? (size_t)left : STEP;
        for (size_t i = 0; i < n; i += 4) {
            uint64_t bits = pith_rng_next(rng);
            for (size_t k = i; k < n && k < i + 4; k++, bits >>= 16)
                values[k] = t->dims == 1 ? one : table[bits & 0xffff];
        }
        PITH_TRY(pith_out_write(file, t->offset + 2 * at, values, 2 * n, err));
    }
    return PITH_OK;
}

static enum pith_status write_shard(const struct pith_layout *l, size_t shard, const char *dir,
                                    struct pith_rng *rng, struct pith_error *err)
{
    struct pith_out file;
    char *path = pith_path_join(dir, l->shard_names[shard]);
    if (!path) return pith_fail_nomem(err, dir);
    enum pith_status s = pith_out_open(path, l->shard_bytes[shard], &file, err);
    pith_free(path);
    if (s != PITH_OK) return s;
    s = pith_out_write(&file, 0, l->headers[shard], l->header_bytes[shard], err);
    for (size_t i = 0; i < l->count && s == PITH_OK; i++)
        if (l->tensors[i].shard == shard) s = write_tensor(&file, &l->tensors[i], rng, err);
    pith_out_close(&file);
    return s;
}

static enum pith_status write_text(const char *dir, const char *name, const char *text,
                                   struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s = pith_file_write(path, text, strlen(text), err);
    pith_free(path);
    return s;
}

static void put(json_t *j, const char *name, unsigned value)
{
    json_object_set_new(j, name, json_integer(value));
}

static void put_mixture(json_t *j, const struct shape *s)
{
    put(j,
        s->latent  ? "n_routed_experts"
        : s->fused ? "num_local_experts"
                   : "num_experts",
        s->experts);
    put(j, "num_experts_per_tok", s->taken);
    put(j, "moe_intermediate_size", s->ffn);
    json_object_set_new(j, "norm_topk_prob", json_true());
}

static void put_latent(json_t *j, const struct latent *t)
{
    const struct {
        const char *name;
        unsigned value;
    } all[] = {{"q_lora_rank", t->q},
               {"kv_lora_rank", t->kv},
               {"qk_nope_head_dim", t->nope},
               {"qk_rope_head_dim", t->rope},
               {"v_head_dim", t->value},
               {"intermediate_size", t->ffn},
               {"first_k_dense_replace", t->dense},
               {"n_shared_experts", 1},
               {"n_group", t->groups},
               {"topk_group", t->chosen}};
    for (size_t i = 0; i < PITH_COUNT(all); i++) put(j, all[i].name, all[i].value);
    json_object_set_new(j, "routed_scaling_factor", json_real(2.5));
    json_object_del(j, "head_dim");
}

static enum pith_status write_config(const struct shape *s, const char *dir, struct pith_error *err)
{
    const char *arch = s->latent    ? "DeepseekV3ForCausalLM"
                       : s->fused   ? "GptOssForCausalLM"
                       : s->experts ? "Qwen3MoeForCausalLM"
                                    : "LlamaForCausalLM";
    const char *type = s->latent    ? "deepseek_v3"
                       : s->fused   ? "gpt_oss"
                       : s->experts ? "qwen3_moe"
                                    : "llama";
    json_t *j =
        json_pack("{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:s, s:s}",
                  "architectures", arch, "model_type", type, "hidden_size", (int)s->hidden,
                  "intermediate_size", (int)s->ffn, "num_hidden_layers", (int)s->layers,
                  "num_attention_heads", (int)s->heads, "num_key_value_heads", (int)s->kv_heads,
                  "head_dim", (int)s->head_dim, "vocab_size", (int)s->vocab,
                  "max_position_embeddings", 8192, "rms_norm_eps", 1e-5, "rope_theta", 500000.0,
                  "tie_word_embeddings", s->tied, "hidden_act", "silu", "torch_dtype", "bfloat16");
    if (j && s->experts) put_mixture(j, s);
    if (j && s->latent) put_latent(j, s->latent);
    char *path = pith_path_join(dir, "config.json");
    const enum pith_status status = j && path ? pith_json_save(path, j, err)
                                              : pith_fail_nomem(err, "config.json");
    pith_free(path);
    json_decref(j);
    return status;
}

static enum pith_status make(const struct shape *s, const char *dir, struct pith_error *err)
{
    static const char *const copies[] = {"tokenizer.json", "tokenizer_config.json"};
    struct pith_layout l = {0};
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    make_table();
    enum pith_status status = pith_dir_make(dir, err);
    if (status == PITH_OK) status = plan(&l, s, err);
    for (size_t i = 0; i < l.shards && status == PITH_OK; i++)
        status = write_shard(&l, i, dir, &rng, err);
    if (status == PITH_OK) status = write_config(s, dir, err);
    if (status == PITH_OK && l.shards > 1) {
        char *index = pith_layout_index(&l);
        status = index ? write_text(dir, "model.safetensors.index.json", index, err)
                       : pith_fail_nomem(err, "the index");
        pith_free(index);
    }
    for (size_t i = 0; i < PITH_COUNT(copies) && status == PITH_OK; i++) {
        char from[128];
        snprintf(from, sizeof from, "models/probe/%s", copies[i]);
        char *to = pith_path_join(dir, copies[i]);
        status = to ? pith_file_copy(from, to, err) : pith_fail_nomem(err, copies[i]);
        pith_free(to);
    }
    pith_layout_free(&l);
    return status;
}

int main(int argc, char **argv)
{
    struct pith_error err = {0};
    struct shape s = {0};
    for (size_t i = 0; argc >= 3 && i < PITH_COUNT(shapes); i++)
        if (strcmp(argv[1], shapes[i].name) == 0) s = shapes[i];
    if (!s.name) {
        fprintf(stderr, "usage: %s SHAPE OUT [LAYERS]\nshapes:", argv[0]);
        for (size_t i = 0; i < PITH_COUNT(shapes); i++) fprintf(stderr, " %s", shapes[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    struct latent few;
    if (argc > 3) s.layers = (unsigned)strtoul(argv[3], NULL, 10);
    if (s.latent && s.layers <= s.latent->dense) { /* one of each kind is worth more */
        few = *s.latent;
        few.dense = 1;
        s.latent = &few;
    }
    if (make(&s, argv[2], &err) == PITH_OK) return 0;
    fprintf(stderr, "make_synthetic: %s\n", err.text);
    return 1;
}
