/* What Hugging Face and llama.cpp call the same tensors. */
#include "io/gguf_model.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct pith_gguf_arch archs[] = {
    {"llama", "LlamaForCausalLM", "llama", true},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false},
    /* Found by its Hugging Face name only: the file does not tell the two apart. */
    {"llama", "MistralForCausalLM", "mistral", true},
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
    char *name = NULL;
    *out = NULL;
    PITH_TRY(pith_gguf_get_text(g, "general.architecture", &name, err));
    if (!name)
        return pith_fail(err, PITH_FORMAT, "%s: key \"general.architecture\" is missing", g->path);
    for (size_t i = 0; i < PITH_COUNT(archs) && !*out; i++)
        if (strcmp(archs[i].name, name) == 0) *out = &archs[i];
    const enum pith_status s =
        *out ? PITH_OK
             : pith_fail(err, PITH_UNSUPPORTED,
                         "%s: architecture \"%.60s\" is not supported (llama, qwen2, qwen3)",
                         g->path, name);
    pith_free(name);
    return s;
}

struct pair {
    const char *hf, *gguf;
    enum pith_gguf_heads heads;
};

static const struct pair outer[] = {
    {"model.embed_tokens", "token_embd", PITH_GGUF_NO_HEADS},
    {"model.norm", "output_norm", PITH_GGUF_NO_HEADS},
    {"lm_head", "output", PITH_GGUF_NO_HEADS},
};

/* Within "model.layers.N." and "blk.N." */
static const struct pair inner[] = {
    {"self_attn.q_proj", "attn_q", PITH_GGUF_Q_HEADS},
    {"self_attn.k_proj", "attn_k", PITH_GGUF_K_HEADS},
    {"self_attn.v_proj", "attn_v", PITH_GGUF_NO_HEADS},
    {"self_attn.o_proj", "attn_output", PITH_GGUF_NO_HEADS},
    {"self_attn.q_norm", "attn_q_norm", PITH_GGUF_NO_HEADS},
    {"self_attn.k_norm", "attn_k_norm", PITH_GGUF_NO_HEADS},
    {"mlp.gate_proj", "ffn_gate", PITH_GGUF_NO_HEADS},
    {"mlp.up_proj", "ffn_up", PITH_GGUF_NO_HEADS},
    {"mlp.down_proj", "ffn_down", PITH_GGUF_NO_HEADS},
    {"input_layernorm", "attn_norm", PITH_GGUF_NO_HEADS},
    {"post_attention_layernorm", "ffn_norm", PITH_GGUF_NO_HEADS},
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

static const struct pair *find(const struct pair *list, size_t count, const char *name, size_t len,
                               bool hf)
{
    for (size_t i = 0; i < count; i++) {
        const char *has = hf ? list[i].hf : list[i].gguf;
        if (strlen(has) == len && memcmp(has, name, len) == 0) return &list[i];
    }
    return NULL;
}

bool pith_gguf_name(const char *hf, const char *ending, char out[PITH_GGUF_NAME],
                    enum pith_gguf_heads *heads)
{
    static const char prefix[] = "model.layers.";
    const char *dot = strrchr(hf, '.'), *at = hf + sizeof prefix - 1;
    unsigned layer = 0;
    const bool in = strncmp(hf, prefix, sizeof prefix - 1) == 0;
    if (!dot || (in && (!read_layer(&at, &layer) || at > dot))) return false;
    const struct pair *p = in ? find(inner, PITH_COUNT(inner), at, (size_t)(dot - at), true)
                              : find(outer, PITH_COUNT(outer), hf, (size_t)(dot - hf), true);
    if (!p) return false;
    const int n = in ? snprintf(out, PITH_GGUF_NAME, "blk.%u.%s.%s", layer, p->gguf, ending)
                     : snprintf(out, PITH_GGUF_NAME, "%s.%s", p->gguf, ending);
    *heads = p->heads;
    return n > 0 && n < PITH_GGUF_NAME;
}

bool pith_gguf_module(const char *name, char *out, size_t size, enum pith_gguf_heads *heads)
{
    static const char prefix[] = "blk.";
    const char *dot = strrchr(name, '.'), *at = name + sizeof prefix - 1;
    unsigned layer = 0;
    const bool in = strncmp(name, prefix, sizeof prefix - 1) == 0;
    if (!dot || (in && (!read_layer(&at, &layer) || at > dot))) return false;
    const struct pair *p = in ? find(inner, PITH_COUNT(inner), at, (size_t)(dot - at), false)
                              : find(outer, PITH_COUNT(outer), name, (size_t)(dot - name), false);
    if (!p) return false;
    const int n = in ? snprintf(out, size, "model.layers.%u.%s", layer, p->hf)
                     : snprintf(out, size, "%s", p->hf);
    *heads = p->heads;
    return n > 0 && (size_t)n < size;
}
