/* What Hugging Face and llama.cpp call the same tensors.
 *
 * Source of the names: llama.cpp gguf-py/gguf/tensor_mapping.py; of what its graphs do with the
 * weights of experts, src/models/ (build_moe_ffn()). */
#include "io/gguf_model.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "%u" in `hf` stands for the number of an expert, whose tensors are stacked in the file. */
struct pith_gguf_pair {
    const char *hf, *gguf;
    struct pith_gguf_place place;
};

/* Within "model.layers.N." and "blk.N." */
static const struct pith_gguf_pair inner[] = {
    {"self_attn.q_proj", "attn_q", {.heads = PITH_GGUF_Q_HEADS}},
    {"self_attn.k_proj", "attn_k", {.heads = PITH_GGUF_K_HEADS}},
    {"self_attn.v_proj", "attn_v", {0}},
    {"self_attn.o_proj", "attn_output", {0}},
    {"self_attn.q_norm", "attn_q_norm", {0}},
    {"self_attn.k_norm", "attn_k_norm", {0}},
    {"mlp.gate_proj", "ffn_gate", {0}},
    {"mlp.up_proj", "ffn_up", {0}},
    {"mlp.down_proj", "ffn_down", {0}},
    {"mlp.gate", "ffn_gate_inp", {.exact = true}},
    {"mlp.experts.%u.gate_proj", "ffn_gate_exps", {.stacked = true}},
    {"mlp.experts.%u.up_proj", "ffn_up_exps", {.stacked = true}},
    {"mlp.experts.%u.down_proj", "ffn_down_exps", {.stacked = true}},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", {0}},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp", {0}},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", {0}},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", {.flat = true, .exact = true}},
    {"input_layernorm", "attn_norm", {0}},
    {"post_attention_layernorm", "ffn_norm", {0}},
};

static const struct pith_gguf_pair mixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp", {.exact = true}},
    {"block_sparse_moe.experts.%u.w1", "ffn_gate_exps", {.stacked = true}},
    {"block_sparse_moe.experts.%u.w3", "ffn_up_exps", {.stacked = true}},
    {"block_sparse_moe.experts.%u.w2", "ffn_down_exps", {.stacked = true}},
};

static const struct pith_gguf_arch archs[] = {
    {.name = "llama", .hf = "LlamaForCausalLM", .model_type = "llama", .turned = true},
    {.name = "qwen2", .hf = "Qwen2ForCausalLM", .model_type = "qwen2"},
    {.name = "qwen3", .hf = "Qwen3ForCausalLM", .model_type = "qwen3"},
    /* Found by its Hugging Face name only: the file does not tell the two apart. */
    {.name = "llama", .hf = "MistralForCausalLM", .model_type = "mistral", .turned = true},
    {.name = "llama",
     .hf = "MixtralForCausalLM",
     .model_type = "mixtral",
     .turned = true,
     .experts = "num_local_experts",
     .expert_width = "intermediate_size",
     .renormalised = true,
     .all_sparse = true,
     .pair = mixtral,
     .pairs = PITH_COUNT(mixtral)},
    {.name = "qwen2moe",
     .hf = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .experts = "num_experts",
     .expert_width = "moe_intermediate_size",
     .all_sparse = true},
    {.name = "qwen3moe",
     .hf = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .experts = "num_experts",
     .expert_width = "moe_intermediate_size",
     .renormalised = true,
     .all_sparse = true},
    {.name = "olmoe",
     .hf = "OlmoeForCausalLM",
     .model_type = "olmoe",
     .experts = "num_experts",
     .expert_width = "intermediate_size",
     .all_sparse = true},
};

const struct pith_gguf_arch *pith_gguf_arch_of(const char *hf)
{
    for (size_t i = 0; i < PITH_COUNT(archs); i++)
        if (strcmp(archs[i].hf, hf) == 0) return &archs[i];
    return NULL;
}

enum pith_status pith_gguf_arch_read(const struct pith_gguf *g, const struct pith_gguf_arch **out,
                                     struct pith_error *err)
{
    char *name = NULL, key[96];
    uint64_t experts = 0;
    *out = NULL;
    PITH_TRY(pith_gguf_get_text(g, "general.architecture", &name, err));
    if (!name)
        return pith_fail(err, PITH_FORMAT, "%s: key \"general.architecture\" is missing", g->path);
    (void)snprintf(key, sizeof key, "%.60s.expert_count", name);
    enum pith_status s = pith_gguf_get_uint(g, key, INT32_MAX, &experts, err);
    for (size_t i = 0; i < PITH_COUNT(archs) && !*out; i++)
        if (strcmp(archs[i].name, name) == 0 && !archs[i].experts == !experts) *out = &archs[i];
    if (s == PITH_OK && !*out)
        s = pith_fail(err, PITH_UNSUPPORTED,
                      "%s: architecture \"%.60s\"%s is not supported (llama and qwen2, qwen3, with"
                      " experts qwen2moe, qwen3moe, olmoe)",
                      g->path, name, experts ? " with experts" : "");
    pith_free(name);
    return s;
}

static const struct pith_gguf_pair outer[] = {
    {"model.embed_tokens", "token_embd", {0}},
    {"model.norm", "output_norm", {0}},
    {"lm_head", "output", {0}},
};

/* The number at *text, written as printf does, and the dot after it; *text moves behind. */
static bool read_layer(const char **text, unsigned *layer)
{
    const char *p = *text;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] != '.')) return false;
    char *end;
    const unsigned long n = strtoul(p, &end, 10);
    if (*end != '.' || end - p > 6) return false;
    *layer = (unsigned)n;
    *text = end + 1;
    return true;
}

/* Whether `name` is the pattern, which may have one "%u". */
static bool is_hf(const char *pattern, const char *name, size_t len, uint32_t *expert)
{
    const char *mark = strchr(pattern, '%');
    *expert = PITH_GGUF_NO_EXPERT;
    if (!mark) return strlen(pattern) == len && memcmp(pattern, name, len) == 0;
    const size_t before = (size_t)(mark - pattern);
    unsigned number;
    if (len <= before || memcmp(pattern, name, before) != 0) return false;
    const char *rest = name + before;
    if (!read_layer(&rest, &number) || rest > name + len) return false;
    *expert = number;
    mark += strlen("%u.");
    return strlen(mark) == (size_t)(name + len - rest) && memcmp(mark, rest, strlen(mark)) == 0;
}

static const struct pith_gguf_pair *find_in(const struct pith_gguf_pair *list, size_t count,
                                            const char *name, size_t len, bool hf, uint32_t *expert)
{
    for (size_t i = 0; i < count; i++)
        if (hf ? is_hf(list[i].hf, name, len, expert)
               : strlen(list[i].gguf) == len && memcmp(list[i].gguf, name, len) == 0)
            return &list[i];
    return NULL;
}

/* What stands between "model.layers.N." or "blk.N." and the last dot. */
static const struct pith_gguf_pair *find_inner(const struct pith_gguf_arch *arch, const char *name,
                                               size_t len, bool hf, uint32_t *expert)
{
    const struct pith_gguf_pair *own =
        arch ? find_in(arch->pair, arch->pairs, name, len, hf, expert) : NULL;
    return own ? own : find_in(inner, PITH_COUNT(inner), name, len, hf, expert);
}

/* A name, taken apart. */
struct parts {
    bool in; /* a layer */
    unsigned layer;
    const char *at, *dot;
};

static bool take_apart(const char *name, const char *prefix, struct parts *out)
{
    const size_t n = strlen(prefix);
    *out = (struct parts){.in = strncmp(name, prefix, n) == 0, .dot = strrchr(name, '.')};
    out->at = out->in ? name + n : name;
    return out->dot && (!out->in || (read_layer(&out->at, &out->layer) && out->at <= out->dot));
}

bool pith_gguf_name(const struct pith_gguf_arch *arch, const char *hf, const char *ending,
                    char out[PITH_GGUF_NAME], struct pith_gguf_place *place)
{
    struct parts p;
    uint32_t expert = PITH_GGUF_NO_EXPERT;
    if (!take_apart(hf, "model.layers.", &p)) return false;
    const size_t len = (size_t)(p.dot - p.at);
    const struct pith_gguf_pair *pair =
        p.in ? find_inner(arch, p.at, len, true, &expert)
             : find_in(outer, PITH_COUNT(outer), p.at, len, true, &expert);
    if (!pair) return false;
    const int n = p.in ? snprintf(out, PITH_GGUF_NAME, "blk.%u.%s.%s", p.layer, pair->gguf, ending)
                       : snprintf(out, PITH_GGUF_NAME, "%s.%s", pair->gguf, ending);
    *place = pair->place;
    place->expert = expert;
    return n > 0 && n < PITH_GGUF_NAME;
}

static int put_module(const struct pith_gguf_pair *pair, uint32_t expert, char *out, size_t size)
{
    const char *mark = strchr(pair->hf, '%');
    if (!mark) return snprintf(out, size, "%s", pair->hf);
    return snprintf(out, size, "%.*s%u%s", (int)(mark - pair->hf), pair->hf, (unsigned)expert,
                    mark + strlen("%u"));
}

bool pith_gguf_module(const struct pith_gguf_arch *arch, const char *name, uint32_t expert,
                      char *out, size_t size, struct pith_gguf_place *place)
{
    struct parts p;
    uint32_t unused;
    if (!take_apart(name, "blk.", &p)) return false;
    const size_t len = (size_t)(p.dot - p.at);
    const struct pith_gguf_pair *pair =
        p.in ? find_inner(arch, p.at, len, false, &unused)
             : find_in(outer, PITH_COUNT(outer), p.at, len, false, &unused);
    if (!pair) return false;
    const int before = p.in ? snprintf(out, size, "model.layers.%u.", p.layer) : 0;
    if (before < 0 || (size_t)before >= size) return false;
    const int n = put_module(pair, expert, out + before, size - (size_t)before);
    *place = pair->place;
    place->expert = place->stacked ? expert : PITH_GGUF_NO_EXPERT;
    return n > 0 && (size_t)n < size - (size_t)before;
}
