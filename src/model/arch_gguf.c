/* The architectures as llama.cpp knows them: what its files call a family's parts, and what their
 * rows say.
 *
 * Source: llama.cpp gguf-py/gguf/tensor_mapping.py (names), src/models/ (what is computed). */
#include "model/family/family.h"

#include "base/mem.h"
#include "io/gguf/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

struct row {
    size_t at; /* of a name in struct pith_family */
    const char *gguf;
    bool whole;
    bool norm; /* of gains that may be stored as 1 + w */
    struct pith_gguf_place place;
};

#define AT(field) offsetof(struct pith_family, field)
#define PART(field, name) .at = AT(field), .gguf = (name)
static const struct row parts[] = {
    {PART(before_attention, "attn_norm"), .norm = true},
    {PART(after_attention, "post_attention_norm"), .norm = true},
    {PART(before_mlp, "ffn_norm"), .norm = true},
    {PART(after_mlp, "post_ffw_norm"), .norm = true},
    {PART(q, "attn_q"), .place = {.order = PITH_GGUF_Q_HEADS}},
    {PART(k, "attn_k"), .place = {.order = PITH_GGUF_K_HEADS}},
    {PART(v, "attn_v")},
    {PART(o, "attn_output")},
    {PART(qkv, "attn_qkv"), .place = {.order = PITH_GGUF_BY_HEAD}},
    {PART(q_norm, "attn_q_norm"), .norm = true},
    {PART(k_norm, "attn_k_norm"), .norm = true},
    {PART(gate, "ffn_gate")},
    {PART(up, "ffn_up")},
    {PART(moe.shared_gate_up, "ffn_gate_shexp"),
     .place = {.order = PITH_GGUF_HALVES, .rest = "ffn_up_shexp"}},
    {PART(moe.shared_down, "ffn_down_shexp")},
    {PART(gate_up, "ffn_up")},
    {PART(down, "ffn_down")},
    {PART(sinks, "attn_sinks.weight"), .whole = true},
    {PART(moe.router, "ffn_gate_inp"), .place = {.exact = true}},
    {PART(moe.correction, "exp_probs_b.bias"), .whole = true},
    {PART(moe.gate, "ffn_gate_exps"), .place = {.stacked = true}},
    {PART(moe.up, "ffn_up_exps"), .place = {.stacked = true}},
    {PART(moe.down, "ffn_down_exps"), .place = {.stacked = true}},
    {PART(moe.shared_gate, "ffn_gate_inp_shexp"), .place = {.flat = true, .exact = true}},
    {PART(latent.q, "attn_q")},
    {PART(latent.q_a, "attn_q_a")},
    {PART(latent.q_a_norm, "attn_q_a_norm")},
    {PART(latent.q_b, "attn_q_b")},
    {PART(latent.kv_a, "attn_kv_a_mqa")},
    {PART(latent.kv_a_norm, "attn_kv_a_norm")},
    {PART(latent.kv_b, "attn_k_b"),
     .place = {.order = PITH_GGUF_BY_LATENT, .rest = "attn_v_b", .dense = true}},
    {PART(delta.qkvz, "attn_qkv"), .place = {.order = PITH_GGUF_BY_DELTA, .rest = "attn_gate"}},
    {PART(delta.ba, "ssm_ba")},
    {PART(delta.qkv, "attn_qkv"), .place = {.order = PITH_GGUF_VALUES_LAST}},
    {PART(delta.z, "attn_gate"), .place = {.order = PITH_GGUF_BY_VALUE}},
    {PART(delta.b, "ssm_beta"), .place = {.order = PITH_GGUF_BY_VALUE}},
    {PART(delta.a, "ssm_alpha"), .place = {.order = PITH_GGUF_BY_VALUE}},
    {PART(delta.conv, "ssm_conv1d"),
     .place = {.order = PITH_GGUF_VALUES_LAST, .filter = true, .exact = true}},
    {PART(delta.norm, "ssm_norm")},
    {PART(delta.out, "ssm_out"), .place = {.order = PITH_GGUF_VALUES_ACROSS}},
    {PART(delta.a_log, "ssm_a"), .whole = true,
     .place = {.order = PITH_GGUF_BY_VALUE, .as = PITH_AS_MINUS_EXP}},
    {PART(delta.dt_bias, "ssm_dt.bias"), .whole = true, .place = {.order = PITH_GGUF_BY_VALUE}},
};

/* What stands behind the name of the part that all tokens share. */
static const struct {
    const char *hf, *gguf;
} shared[] = {
    {"gate_proj", "ffn_gate_shexp"}, {"up_proj", "ffn_up_shexp"}, {"down_proj", "ffn_down_shexp"}};

static void add(struct pith_gguf_arch *a, const char *hf, const char *last, const struct row *row)
{
    if (a->inners == PITH_GGUF_PAIRS) return;
    struct pith_gguf_pair *p = &a->inner[a->inners++];
    *p = (struct pith_gguf_pair){.gguf = row->gguf, .whole = row->whole, .place = row->place};
    (void)snprintf(p->hf, sizeof p->hf, "%s%s%s", hf, last ? "." : "", last ? last : "");
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
    const struct pith_family *f = arch->family;
    const struct pith_arch_gguf *g = &arch->gguf;
    const struct pith_arch_names *names = a->renamed ? &arch->renamed->names : &arch->names;
    a->inners = a->outers = 0;
    for (size_t i = 0; i < PITH_COUNT(parts); i++) {
        const char *name;
        struct row row = parts[i];
        memcpy(&name, (const char *)f + row.at, sizeof name);
        if (!name || (row.at >= AT(moe) && row.at < AT(latent) && !a->experts)) continue;
        if (row.at == AT(gate_up) && g->apart) {
            row.gguf = "ffn_gate";
            row.place = (struct pith_gguf_place){.order = PITH_GGUF_HALVES, .rest = "ffn_up"};
        }
        if (!g->turned && row.place.order <= PITH_GGUF_K_HEADS)
            row.place.order = PITH_GGUF_STRAIGHT;
        if (f->delta.qkvz && row.place.order >= PITH_GGUF_BY_VALUE)
            row.place.order = PITH_GGUF_STRAIGHT;
        if (row.at == AT(qkv) && !f->qkv_by_head) row.place.order = PITH_GGUF_STRAIGHT;
        if (row.at == AT(moe.correction)) row.place.flat = f->moe.correction_row;
        row.place.exchanged = f->in_out;
        if (row.norm && f->plus_one) row.place.as = PITH_AS_PLUS_ONE;
        if (row.at == AT(after_attention) && g->after_attention) row.gguf = g->after_attention;
        if (row.at == AT(before_mlp) && g->before_mlp) row.gguf = g->before_mlp;
        add(a, name, NULL, &row);
    }
    for (size_t i = 0; f->moe.shared && i < PITH_COUNT(shared); i++) {
        const struct row row = {.gguf = shared[i].gguf};
        add(a, f->moe.shared, shared[i].hf, &row);
    }
    add_outer(a, names->embed, "token_embd", false);
    add_outer(a, names->positions, "position_embd", false);
    for (const struct pith_gguf_more *m = g->more; m && m->hf; m++) {
        const struct row row = {.gguf = m->gguf,
                                .whole = m->whole,
                                .place = {.filter = m->filter,
                                          .exact = m->filter,
                                          .column = m->column,
                                          .grouped = m->grouped,
                                          .as = m->minus_exp ? PITH_AS_MINUS_EXP : PITH_AS_SHOWN}};
        add(a, m->hf, NULL, &row);
    }
    add_outer(a, names->norm, g->last_norm ? g->last_norm : "output_norm", f->plus_one);
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
    const bool mixture = a->family->moe.router != NULL && !g->dense && !(g->either && left == 1);
    const struct pith_arch *named = left > g->either ? a->renamed : a;
    out->index = i;
    out->name = g->name;
    out->hf = a->name;
    out->model_type = a->model_type;
    out->act = act_name(g->act);
    out->layers = named->names.layers;
    out->renamed = named != a;
    out->eps = g->eps ? g->eps : "rms_norm_eps";
    out->centred = a->family->centred;
    out->experts = !mixture ? NULL : g->experts ? g->experts : "num_experts";
    out->expert_width = g->expert_width ? g->expert_width : "moe_intermediate_size";
    out->by_keys = g->by_keys;
    out->renormalised = g->renormalised;
    out->all_sparse = g->all_sparse;
    out->gating = g->gating;
    out->latent = g->features >> PITH_GGUF_HAS_LATENT & 1;
    out->delta = a->family->delta.out != NULL;
    out->scan = a->family->recur == pith_family_mamba;
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
    out->rope_told = g->rope_told;
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
    out->by_head = a->family->qkv_by_head;
    out->inners = out->outers = 0;
    return true;
}

/* --- what is computed ------------------------------------------------------------------------- */

static bool any_layer(const struct pith_shape *s, const struct pith_layer_set *set)
{
    bool any = false;
    for (uint32_t i = 0; i < s->layers; i++) any |= pith_layer_in(set, i);
    return any;
}

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

/* What llama.cpp has as constants where layers see chunks. */
static const char *lacks_of_chunks(const struct pith_arch_gguf *g, const struct pith_shape *s)
{
    if (s->window != g->chunk) return "chunks of another length";
    if (s->qk_norm == (s->moe.experts == g->bare))
        return "q and k that are normed, or not, with so many experts";
    if (!near(s->tempered, 0.1) || s->tempered_every != g->chunk || s->tempered_shift != 1)
        return "queries that grow otherwise with their position";
    return NULL;
}

const char *pith_arch_gguf_lacks(const struct pith_arch *a, const struct pith_shape *s)
{
    static const char *const texts[] = {
#define PITH_GGUF_FEATURE(name, text, has) text,
#include "model/gguf_features.def"
#undef PITH_GGUF_FEATURE
    };
    const bool has[] = {
#define PITH_GGUF_FEATURE(name, text, has) has,
#include "model/gguf_features.def"
#undef PITH_GGUF_FEATURE
    };
    const struct pith_arch_gguf *g = &a->gguf;
    if (g->without_keys && !any_layer(s, &s->recurrent)) return "attention in all layers";
    for (size_t i = 0; i < PITH_COUNT(has); i++)
        if (has[i] && !(g->features >> i & 1)) return texts[i];
    if (g->untied && s->tied) return "a tied head";
    if (g->square && s->heads * s->head_dim != s->hidden)
        return "heads that are not as wide as the stream together";
    if (g->all_biased && !(s->qkv_bias && s->o_bias && s->mlp_bias))
        return "linears without biases";
    if (s->act != g->act) return "that activation";
    if (s->act == PITH_ACT_CLAMPED && !(s->act_limit == 7.0f && s->act_alpha == 1.702f))
        return "a gate with another limit than 7, or another alpha than 1.702,";
    if (s->window && !as_known(s, &s->sliding, g->every, true)) return "windows in these layers";
    if (g->rope_told && any_layer(s, &s->unrotated) && !as_known(s, &s->unrotated, 1, false))
        return "layers without positions beside others";
    if (!as_known(s, &s->unrotated, g->unrotated, false)) return "such layers without positions";
    if (s->rope.type == PITH_ROPE_LONG) return "long rotary factors";
    return g->chunk ? lacks_of_chunks(g, s) : NULL;
}
