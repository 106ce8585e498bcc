/* The architectures as llama.cpp knows them: what its files call their parts, and what their rows
 * say.
 *
 * Source: llama.cpp gguf-py/gguf/tensor_mapping.py (names), src/models/ (what is computed). */
#include "model/arch.h"

#include "base/mem.h"
#include "model/gguf/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static void add(struct pith_gguf_arch *a, const struct pith_arch *arch,
                const struct pith_gguf_name_row *part)
{
    if (a->inners == PITH_GGUF_PAIRS) return;
    struct pith_gguf_pair *p = &a->inner[a->inners++];
    *p = (struct pith_gguf_pair){.gguf = part->gguf, .whole = part->whole, .place = part->place};
    (void)snprintf(p->hf, sizeof p->hf, "%s", part->hf);
    if (!arch->gguf.permuted && p->place.order <= PITH_GGUF_K_HEADS)
        p->place.order = PITH_GGUF_STRAIGHT;
    if (part->norm && arch->norm.plus != 0) p->place.as = PITH_AS_PLUS_ONE;
}

static void add_outer(struct pith_gguf_arch *a, const char *hf, const char *gguf, bool norm)
{
    if (!hf) return;
    struct pith_gguf_pair *p = &a->outer[a->outers++];
    *p = (struct pith_gguf_pair){.gguf = gguf};
    if (norm) p->place.as = PITH_AS_PLUS_ONE;
    (void)snprintf(p->hf, sizeof p->hf, "%s", hf);
}

void pith_gguf_arch_fill(struct pith_gguf_arch *a)
{
    size_t count;
    const struct pith_arch *arch = pith_archs(&count)[a->index];
    const struct pith_arch_gguf *g = &arch->gguf;
    const struct pith_arch_names *names = a->renamed ? &arch->renamed->names : &arch->names;
    a->inners = a->outers = 0;
    for (const struct pith_gguf_name_row *p = g->parts; p->hf; p++)
        if (a->experts || !p->mixture) add(a, arch, p);
    add_outer(a, names->embed, "token_embd", false);
    add_outer(a, names->positions, "position_embd", false);
    add_outer(a, names->norm, g->last_norm ? g->last_norm : "output_norm", arch->norm.plus != 0);
    add_outer(a, names->head, "output", false);
}

/* --- rows ------------------------------------------------------------------------------------- */

static const char *act_name(enum pith_act act)
{
    switch (act) {
    case PITH_ACT_GELU: return "gelu";
    case PITH_ACT_GELU_TANH: return "gelu_pytorch_tanh";
    case PITH_ACT_RELU: return "relu";
    case PITH_ACT_RELU2: return "relu2";
    default: return "silu";
    }
}

/* Whether some part of it lies in such an order, or is called so. */
static bool has_order(const struct pith_arch_gguf *g, enum pith_gguf_order order)
{
    for (const struct pith_gguf_name_row *p = g->parts; p->hf; p++)
        if (p->place.order == order) return true;
    return false;
}

static bool has_name(const struct pith_arch_gguf *g, const char *gguf)
{
    for (const struct pith_gguf_name_row *p = g->parts; p->hf; p++)
        if (strcmp(p->gguf, gguf) == 0) return true;
    return false;
}

bool pith_gguf_arch_at(size_t index, struct pith_gguf_arch *out)
{
    size_t count, i = 0;
    const struct pith_arch *const *list = pith_archs(&count);
    size_t left = index;
    for (; i < count; i++) {
        const size_t forms =
            list[i]->gguf.name ? 1u + list[i]->gguf.either + (list[i]->renamed != NULL) : 0;
        if (left < forms) break;
        left -= forms;
    }
    if (i == count) return false;
    const struct pith_arch *a = list[i];
    const struct pith_arch_gguf *g = &a->gguf;
    const bool mixture = has_name(g, "ffn_gate_inp") && !g->dense && !(g->either && left == 1);
    const struct pith_arch *named = left > g->either ? a->renamed : a;
    out->index = i;
    out->name = g->name;
    out->hf = a->name;
    out->model_type = a->model_type;
    out->act = act_name(g->act);
    out->layers = named->names.layers;
    out->renamed = named != a;
    out->eps = g->eps ? g->eps : "rms_norm_eps";
    out->centred = a->norm.centred;
    out->experts = !mixture ? NULL : g->experts ? g->experts : "num_experts";
    out->expert_width = g->expert_width ? g->expert_width : "moe_intermediate_size";
    out->by_keys = g->by_keys;
    out->renormalised = g->renormalised;
    out->all_sparse = g->all_sparse;
    out->gating = g->gating;
    out->latent = g->features >> PITH_GGUF_HAS_LATENT & 1;
    out->delta = has_name(g, "ssm_alpha") || has_name(g, "ssm_ba");
    out->scan = has_name(g, "ssm_in");
    out->bias = g->bias ? g->bias : "attention_bias";
    out->partial = g->partial;
    out->biased = g->biased;
    out->qkv_bias_only = g->qkv_bias_only;
    out->windows = g->every != 0 && g->chunk == 0;
    out->scalar = g->scalar;
    out->untruncated = g->untruncated;
    out->without_keys = g->without_keys;
    out->off = g->off;
    out->either = g->either;
    out->rope_stated = g->rope_stated;
    out->shared_width = g->shared_width ? g->shared_width : "shared_expert_intermediate_size";
    out->step = g->step || g->stepped;
    out->stepped = g->stepped;
    out->ffn = g->ffn ? g->ffn : "intermediate_size";
    out->none = g->either && !mixture ? g->experts : NULL;
    if (out->none) out->ffn = out->shared_width;
    out->chunk = g->chunk;
    out->bare = g->bare;
    out->sections = g->sections;
    out->factors = g->factors;
    out->by_head = has_order(g, PITH_GGUF_BY_HEAD);
    out->inners = out->outers = 0;
    return true;
}

/* --- what is computed ------------------------------------------------------------------------- */

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

/* The layers of a set are the last of each `every`, or with `others` all but these. */
static bool as_known(const struct pith_shape *s, const struct pith_layer_set *set, uint32_t every,
                     bool others)
{
    for (uint32_t i = 0; i < s->layers && every; i++)
        if (pith_layer_in(set, i) != (((i + 1) % every == 0) != others)) return false;
    return true;
}

/* The first such node of any layer; NULL: there is none. */
static const struct pith_node *find_node(const struct pith_plans *p, enum pith_node_kind kind)
{
    for (uint32_t k = 0; k < p->kinds; k++)
        for (uint32_t i = 0; i < p->kind[k].nodes; i++)
            if (p->kind[k].node[i].kind == kind) return &p->kind[k].node[i];
    return NULL;
}

/* Whether scores are times something else than 1 / sqrt(a head's size), where keys are heads. */
static bool has_scale(const struct pith_plans *p)
{
    for (uint32_t k = 0; k < p->kinds; k++) {
        const struct pith_layer_plan *l = &p->kind[k];
        const struct pith_node *n = pith_plan_attend(l);
        if (n && l->state.kind == PITH_STATE_KV &&
            !near((double)n->u.attend.scale, 1 / sqrt((double)l->state.key)))
            return true;
    }
    return false;
}

/* What llama.cpp has as constants where layers see chunks. */
static const char *lacks_of_chunks(const struct pith_arch_gguf *g, const struct pith_plans *p,
                                   const struct pith_shape *s)
{
    if (s->windows.size != g->chunk) return "chunks of another length";
    if (pith_plans_norm_heads(p) == (s->moe.experts == g->bare))
        return "q and k that are normed, or not, with so many experts";
    const struct pith_node *grows = find_node(p, PITH_NODE_TEMPER);
    if (grows && !(near(grows->u.temper.beta, 0.1) && grows->u.temper.every == g->chunk &&
                   grows->u.temper.shift == 1))
        return "queries that grow otherwise with their position";
    if (!grows && pith_layer_any(&s->place.unrotated, s->layers)) return "queries that do not grow";
    return NULL;
}

const char *pith_arch_gguf_lacks(const struct pith_plans *p, const struct pith_shape *s)
{
    static const char *const texts[] = {
#define PITH_GGUF_FEATURE(name, text, has) text,
#include "model/gguf/features.def"
#undef PITH_GGUF_FEATURE
    };
    const bool has[] = {
#define PITH_GGUF_FEATURE(name, text, has) has,
#include "model/gguf/features.def"
#undef PITH_GGUF_FEATURE
    };
    const struct pith_arch_gguf *g = &p->arch->gguf;
    if (g->without_keys && !pith_layer_any(&s->recurrent.layers, s->layers))
        return "attention in all layers";
    for (size_t i = 0; i < PITH_COUNT(has); i++)
        if (has[i] && !(g->features >> i & 1)) return texts[i];
    if (g->untied && s->ends.tied) return "a tied head";
    if (g->square && s->heads * s->head_dim != s->hidden)
        return "heads that are not as wide as the stream together";
    if (g->all_biased && !(s->biases.qkv && s->biases.o && s->biases.mlp))
        return "linears without biases";
    if (s->activation.kind != g->act) return "that activation";
    if (s->activation.kind == PITH_ACT_CLAMPED &&
        !(s->activation.limit == 7.0f && s->activation.alpha == 1.702f))
        return "a gate with another limit than 7, or another alpha than 1.702,";
    if (s->windows.size && !as_known(s, &s->windows.layers, g->every, true))
        return "windows in these layers";
    if (g->rope_stated && pith_layer_any(&s->place.unrotated, s->layers) &&
        !as_known(s, &s->place.unrotated, 1, false))
        return "layers without positions and layers with them";
    if (!as_known(s, &s->place.unrotated, g->unrotated, false))
        return "such layers without positions";
    if (s->place.rope.type == PITH_ROPE_LONG) return "long rotary factors";
    return g->chunk ? lacks_of_chunks(g, p, s) : NULL;
}
