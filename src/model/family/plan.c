/* The plan of a layer of the Llama family. */
#include "model/family/regs.h"

#include <math.h>
#include <stdio.h>

const struct pith_family pith_family_llama = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
                                              PITH_FAMILY_MLP, PITH_FAMILY_QK_NORM};

/* --- parts ------------------------------------------------------------------------------------ */

static const struct pith_family *family_of(const struct pith_plan_maker *m)
{
    return m->arch->family;
}

/* What a norm's gain is, and what its bias, beside each other in the list of vectors. */
struct gain {
    bool there; /* there is such a norm, be it without either */
    uint32_t vector, bias;
};

static uint32_t add_vector(struct pith_plan_maker *m, const char *module, const char *end,
                           uint32_t length)
{
    char name[PITH_PART_NAME];
    if (snprintf(name, sizeof name, "%s%s", module, end) >= (int)sizeof name) m->failed = true;
    return pith_plan_vector(m, name, length);
}

/* A norm of the stream's width, or of what is added to it; `module` NULL: there is none. */
static struct gain add_gain(struct pith_plan_maker *m, const char *module, bool of_stream)
{
    const struct pith_family *f = family_of(m);
    struct gain g = {module != NULL, PITH_NO_PART, PITH_NO_PART};
    if (!module || m->shape->norms_bare) return g;
    g.vector = add_vector(m, module, ".weight", m->shape->hidden);
    if (f->norm_bias) g.bias = add_vector(m, module, ".bias", m->shape->hidden);
    if (m->failed) return g;
    m->plan->vector[g.vector].of_stream = of_stream && !f->centred;
    m->plan->vector[g.vector].plus = f->plus_one ? 1.0f : 0.0f;
    return g;
}

static void norm(struct pith_plan_maker *m, struct gain g, unsigned in, unsigned out)
{
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)in, .out = (uint8_t)out};
    n.u.norm.vector = g.vector;
    n.u.norm.bias = g.bias;
    n.u.norm.heads = 1;
    n.u.norm.dim = m->shape->hidden;
    n.u.norm.centred = family_of(m)->centred;
    n.u.norm.eps = m->shape->eps;
    pith_plan_reg(m, out, m->shape->hidden);
    pith_plan_node(m, n);
}

/* The register that a branch reads: the stream, or its norm. */
static unsigned begin_branch(struct pith_plan_maker *m, struct gain g)
{
    if (!g.there || m->shape->norms_after) return X;
    norm(m, g, X, NORMED);
    return NORMED;
}

static struct pith_fold fold_into(const struct pith_plan_maker *m, struct gain g)
{
    if (g.vector == PITH_NO_PART || g.bias != PITH_NO_PART || m->shape->norms_after)
        return (struct pith_fold){0};
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = g.vector};
}

static struct pith_fold fold_rows(uint32_t from, uint32_t repeat, uint32_t block)
{
    return (struct pith_fold){
        .kind = PITH_FOLD_ROWS, .from = from, .repeat = repeat, .block = block};
}

static float branch_scale(const struct pith_shape *s)
{
    return s->branch_scale != 0 ? (float)s->branch_scale : 1.0f;
}

/* What a branch gives, in `result`, goes to the stream; or beside it, where branches are parallel
 * and this is the first. */
static void end_branch(struct pith_plan_maker *m, struct gain after, unsigned result)
{
    if (after.there) norm(m, after, result, result);
    pith_plan_add(m, result, branch_scale(m->shape));
}

static uint32_t compute(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                        const unsigned reg[3])
{
    return pith_family_compute(m, name, rows, bias, reg);
}

/* q, k and v of each head beside each other, into registers of their own. */
static void split_heads(struct pith_plan_maker *m)
{
    const uint32_t dim = m->shape->head_dim;
    pith_family_split(m, 3, (const uint32_t[]){dim, dim, dim}, (const uint8_t[3]){Q, K, V});
    for (unsigned i = Q; i <= V; i++) pith_plan_reg(m, i, m->shape->heads * dim);
    if (!m->failed) m->plan->node[m->plan->nodes - 1].u.split.heads = m->shape->heads;
}

/* --- attention -------------------------------------------------------------------------------- */

static uint32_t project(struct pith_plan_maker *m, const char *name, uint32_t heads,
                        const unsigned reg[3])
{
    const struct pith_shape *s = m->shape;
    const uint32_t width = heads * s->head_dim * (reg[1] == FUSED ? 2 : 1);
    const uint32_t linear = compute(m, name, width, s->qkv_bias, reg);
    if (m->failed) return linear;
    m->plan->linear[linear].scores = reg[1] != V;
    m->plan->linear[linear].copied = reg[1] == K || reg[1] == V;
    m->plan->linear[linear].heads = heads;
    return linear;
}

static void norm_heads(struct pith_plan_maker *m, unsigned reg, uint32_t heads, uint32_t gain)
{
    const struct pith_shape *s = m->shape;
    const enum pith_qk_norm how = family_of(m)->qk_norm;
    if (how == PITH_QK_BARE && pith_layer_in(&s->unrotated, m->layer)) return;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.norm.vector = gain;
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = how == PITH_QK_ROW ? 1 : heads;
    n.u.norm.dim = how == PITH_QK_ROW ? heads * s->head_dim : s->head_dim;
    n.u.norm.centred = n.u.norm.by_head = how == PITH_QK_CENTRED;
    n.u.norm.eps = s->eps;
    pith_plan_node(m, n);
}

static void rotate_heads(struct pith_plan_maker *m, unsigned reg, uint32_t heads)
{
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_ROPE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    if (s->rotary == 0 || pith_layer_in(&s->unrotated, m->layer)) return;
    n.u.rope.heads = heads;
    n.u.rope.stride = s->head_dim;
    n.u.rope.dim = s->rotary;
    n.u.rope.table = s->rope_by_kind && pith_layer_in(&s->sliding, m->layer);
    n.u.rope.adjacent = family_of(m)->rope_adjacent;
    pith_plan_node(m, n);
}

static void clip(struct pith_plan_maker *m, unsigned reg, uint32_t heads)
{
    struct pith_node n = {.kind = PITH_NODE_CLAMP, .in = (uint8_t)reg, .out = (uint8_t)reg};
    if (m->shape->qkv_clip == 0) return;
    n.u.clamp.limit = (float)m->shape->qkv_clip;
    n.u.clamp.dim = heads * m->shape->head_dim;
    pith_plan_node(m, n);
}

/* Queries that grow with their position. */
static void temper(struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_TEMPER, .in = Q, .out = Q};
    if (s->tempered == 0 || pith_layer_in(&s->unrotated, m->layer) != s->tempered_unrotated) return;
    n.u.temper.dim = s->heads * s->head_dim;
    n.u.temper.shift = s->tempered_shift;
    n.u.temper.beta = s->tempered;
    n.u.temper.every = s->tempered_every;
    pith_plan_node(m, n);
}

/* The registers in which the keys and values that layers of this kind share are carried. */
static unsigned kept_k(const struct pith_plan_maker *m)
{
    return pith_layer_in(&m->shape->sliding, m->layer) ? KEPT_WINDOW_K : KEPT_K;
}

static unsigned kept_v(const struct pith_plan_maker *m)
{
    return pith_layer_in(&m->shape->sliding, m->layer) ? KEPT_WINDOW_V : KEPT_V;
}

static bool shares_kv(const struct pith_plan_maker *m)
{
    return pith_family_kv_source(m->shape, m->layer) != m->layer;
}

static void copy_heads(struct pith_plan_maker *m, unsigned from, unsigned to);

/* What later layers attend to as well. */
static void leave_kv(struct pith_plan_maker *m)
{
    const uint32_t width = m->shape->kv_heads * m->shape->head_dim;
    if (!pith_family_kv_left(m->shape, m->layer)) return;
    pith_plan_carry(m, kept_k(m), width);
    pith_plan_carry(m, kept_v(m), width);
    copy_heads(m, K, kept_k(m));
    copy_heads(m, V, kept_v(m));
}

static void attend(struct pith_plan_maker *m, uint32_t sinks)
{
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_ATTEND, .in = Q, .out = Q};
    n.u.attend.k = (uint8_t)(shares_kv(m) ? kept_k(m) : K);
    n.u.attend.v = (uint8_t)(shares_kv(m) ? kept_v(m) : V);
    n.u.attend.heads = s->heads;
    n.u.attend.window = pith_layer_in(&s->sliding, m->layer) ? s->window : 0;
    n.u.attend.chunked = s->chunked && n.u.attend.window;
    n.u.attend.scale =
        (float)(s->score_scale != 0 ? s->score_scale : 1 / sqrt((double)s->head_dim));
    if (s->score_by_layer) n.u.attend.scale /= (float)(m->layer + 1);
    n.u.attend.cap = (float)s->score_cap;
    n.u.attend.sinks = sinks;
    pith_plan_node(m, n);
    m->plan->state = (struct pith_state_spec){
        .kind = PITH_STATE_KV, .heads = s->kv_heads, .key = s->head_dim, .value = s->head_dim};
    if (!shares_kv(m)) return;
    m->plan->state.kind = PITH_STATE_SHARED;
    m->plan->state.of = pith_family_kv_source(s, m->layer);
    pith_plan_carry(m, n.u.attend.k, s->kv_heads * s->head_dim);
    pith_plan_carry(m, n.u.attend.v, s->kv_heads * s->head_dim);
}

/* Each head of q is its queries, then as much for the gate. */
static void split_gate(struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    n.u.split.parts = 2;
    n.u.split.heads = s->heads;
    n.u.split.dim[0] = n.u.split.dim[1] = s->head_dim;
    n.u.split.to[0] = Q;
    n.u.split.to[1] = GATE;
    pith_plan_reg(m, Q, s->heads * s->head_dim);
    pith_plan_reg(m, GATE, s->heads * s->head_dim);
    pith_plan_node(m, n);
}

/* The register of attention's result, times its gate if it has one. */
static unsigned gate_heads(struct pith_plan_maker *m)
{
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = GATE, .out = GATE};
    if (!m->shape->gated) return Q;
    n.u.gate.up = Q;
    n.u.gate.other = true;
    n.u.gate.act = PITH_ACT_SIGMOID;
    n.u.gate.dim = m->shape->heads * m->shape->head_dim;
    pith_plan_node(m, n);
    return GATE;
}

/* Heads of keys or values, in another register too. */
static void copy_heads(struct pith_plan_maker *m, unsigned from, unsigned to)
{
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = (uint8_t)from, .out = (uint8_t)from};
    n.u.split.parts = 1;
    n.u.split.dim[0] = m->shape->kv_heads * m->shape->head_dim;
    n.u.split.to[0] = (uint8_t)to;
    pith_plan_reg(m, to, n.u.split.dim[0]);
    pith_plan_node(m, n);
}

/* q, k and v into their registers; the linear that values come from, where that is one of its own.
 */
static uint32_t project_all(struct pith_plan_maker *m, unsigned in)
{
    const struct pith_family *f = family_of(m);
    const struct pith_shape *s = m->shape;
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    if (f->qkv) {
        (void)compute(m, f->qkv, q + 2 * kv, s->qkv_bias, (const unsigned[3]){in, FUSED, OUT});
        if (f->qkv_by_head) split_heads(m);
        else pith_family_split(m, 3, (const uint32_t[3]){q, kv, kv}, (const uint8_t[3]){Q, K, V});
        return PITH_NO_PART;
    }
    (void)project(m, f->q, s->heads, (const unsigned[3]){in, s->gated ? FUSED : Q, OUT});
    if (shares_kv(m)) return PITH_NO_PART;
    (void)project(m, f->k, s->kv_heads, (const unsigned[3]){in, K, OUT});
    if (s->k_is_v) {
        copy_heads(m, K, V);
        return PITH_NO_PART;
    }
    const uint32_t v = project(m, f->v, s->kv_heads, (const unsigned[3]){in, V, OUT});
    if (s->gated) split_gate(m);
    return v;
}

static bool is_recurrent(const struct pith_plan_maker *m)
{
    return pith_layer_in(&m->shape->recurrent, m->layer);
}

struct attention_gains {
    struct gain before, after;
    uint32_t q, k, sinks;
};

static void attention(struct pith_plan_maker *m, const struct attention_gains *g, unsigned out)
{
    const struct pith_family *f = family_of(m);
    const struct pith_shape *s = m->shape;
    const unsigned in = begin_branch(m, g->before);
    const struct pith_family_branch branch = {
        .in = in, .out = out, .fold = fold_into(m, g->before)};
    if (s->latent.rank || is_recurrent(m)) {
        if (is_recurrent(m)) f->recur(m, &branch);
        else pith_family_latent(m, &branch);
        return;
    }
    const uint32_t site = pith_plan_site(m, "qkv", s->hidden, fold_into(m, g->before));
    const uint32_t v = project_all(m, in);
    const bool own = !shares_kv(m);
    if (s->qk_norm) norm_heads(m, Q, s->heads, g->q);
    if (s->qk_norm && own) norm_heads(m, K, s->kv_heads, g->k);
    if (s->v_norm && own) norm_heads(m, V, s->kv_heads, PITH_NO_PART);
    clip(m, Q, s->heads);
    if (own) clip(m, K, s->kv_heads);
    if (own) clip(m, V, s->kv_heads);
    rotate_heads(m, Q, s->heads);
    if (own) rotate_heads(m, K, s->kv_heads);
    temper(m);
    leave_kv(m);
    attend(m, g->sinks);
    const unsigned heads = gate_heads(m);
    const bool folds = v != PITH_NO_PART && s->qkv_clip == 0 && !s->gated && !s->v_norm;
    (void)pith_plan_site(m, "o", s->heads * s->head_dim,
                         folds ? fold_rows(v, s->heads / s->kv_heads, s->head_dim)
                               : (struct pith_fold){0});
    const uint32_t o =
        compute(m, f->o, s->hidden, s->o_bias, (const unsigned[3]){heads, out, heads});
    if (!m->failed) {
        m->plan->linear[o].by_cols = true;
        m->plan->linear[o].heads = s->heads;
    }
    pith_plan_module(m, site, out);
}

/* --- feed-forward ----------------------------------------------------------------------------- */

/* What the gated part of a feed-forward is called and how wide it is. */
struct mlp {
    const char *gate, *up, *down, *gate_up;
    const char *site, *down_site;
    uint32_t ffn;
    bool bias;
    struct pith_fold fold;
};

static void activate(struct pith_plan_maker *m, unsigned gate, bool alone, uint32_t dim)
{
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = (uint8_t)gate, .out = (uint8_t)gate};
    n.u.gate.up = UP;
    n.u.gate.alone = alone;
    n.u.gate.dim = dim;
    pith_plan_node(m, n);
}

/* Of what `down` reads: it is linear in what `up` gives, but for gpt-oss's gate. */
static struct pith_fold fold_up(const struct pith_plan_maker *m, uint32_t up)
{
    if (up == PITH_NO_PART || m->shape->act == PITH_ACT_CLAMPED) return (struct pith_fold){0};
    return fold_rows(up, 1, m->shape->head_dim);
}

static uint32_t mlp(struct pith_plan_maker *m, const struct mlp *p, unsigned in, unsigned out)
{
    const uint32_t site = pith_plan_site(m, p->site, m->shape->hidden, p->fold);
    uint32_t up = PITH_NO_PART;
    if (p->gate_up) {
        (void)compute(m, p->gate_up, 2 * p->ffn, p->bias, (const unsigned[3]){in, FUSED, out});
        pith_family_split(m, 2, (const uint32_t[3]){p->ffn, p->ffn, 0},
                          (const uint8_t[3]){GATE, UP, 0});
    } else if (p->gate) {
        (void)compute(m, p->gate, p->ffn, p->bias, (const unsigned[3]){in, GATE, out});
        up = compute(m, p->up, p->ffn, p->bias, (const unsigned[3]){in, UP, out});
    } else {
        (void)compute(m, p->up, p->ffn, p->bias, (const unsigned[3]){in, GATE, out});
    }
    activate(m, GATE, !p->gate && !p->gate_up, p->ffn);
    (void)pith_plan_site(m, p->down_site, p->ffn, fold_up(m, up));
    const uint32_t down =
        compute(m, p->down, m->shape->hidden, p->bias, (const unsigned[3]){GATE, out, GATE});
    if (!m->failed) m->plan->linear[down].by_cols = true;
    return site;
}

static void add_expert(struct pith_plan_maker *m, uint32_t e, struct pith_fold fold)
{
    const struct pith_family_moe *f = &family_of(m)->moe;
    const struct pith_moe *moe = &m->shape->moe;
    char name[PITH_PART_NAME], site[32];
    (void)snprintf(site, sizeof site, "experts.%u.gate_up", e);
    const uint32_t at = pith_plan_site(m, site, m->shape->hidden, fold);
    if (!m->failed) m->plan->site[at].expert = e;
    (void)snprintf(name, sizeof name, f->gate, e);
    (void)pith_plan_linear(m, name, moe->ffn, moe->expert_bias);
    (void)snprintf(name, sizeof name, f->up, e);
    const uint32_t up = pith_plan_linear(m, name, moe->ffn, moe->expert_bias);
    (void)snprintf(site, sizeof site, "experts.%u.down", e);
    const uint32_t down_site = pith_plan_site(m, site, moe->ffn, fold_up(m, up));
    if (!m->failed) m->plan->site[down_site].expert = e;
    (void)snprintf(name, sizeof name, f->down, e);
    const uint32_t down = pith_plan_linear(m, name, m->shape->hidden, moe->expert_bias);
    if (m->failed) return;
    m->plan->linear[down].by_cols = true;
    m->plan->linear[down].to_stream = !f->experts_after;
}

/* How the experts, whose linears begin at `first`, may be stored together. */
static void add_fused(struct pith_plan_maker *m, uint32_t first)
{
    const struct pith_family_moe *f = &family_of(m)->moe;
    const char *const name[2] = {f->fused_gate_up, f->fused_down};
    const char *const bias[2] = {f->fused_gate_up_bias, f->fused_down_bias};
    for (uint32_t i = 0; i < 2 && name[i]; i++) {
        struct pith_fused_spec spec = {.first = first + 2 * i,
                                       .each = 3,
                                       .experts = m->shape->moe.experts,
                                       .parts = i ? 1 : 2,
                                       .turned = f->fused_turned,
                                       .either = f->fused_either,
                                       .only = f->fused_only,
                                       .adjacent = f->fused_adjacent && i == 0};
        (void)snprintf(spec.name, sizeof spec.name, "%s", name[i]);
        if (bias[i]) (void)snprintf(spec.bias, sizeof spec.bias, "%s", bias[i]);
        pith_plan_fused(m, &spec);
    }
}

/* The experts' sum, into `out`, from the router's logits. */
static void add_experts(struct pith_plan_maker *m, struct pith_fold fold, unsigned in, unsigned out,
                        uint32_t correction)
{
    const struct pith_moe *moe = &m->shape->moe;
    struct pith_node n = {.kind = PITH_NODE_EXPERTS, .in = (uint8_t)in, .out = (uint8_t)out};
    n.u.experts.logits = LOGITS;
    n.u.experts.rows = ROWS;
    n.u.experts.gate = GATE;
    n.u.experts.up = UP;
    n.u.experts.result = RESULT;
    n.u.experts.first = m->plan->linears;
    n.u.experts.each = 3;
    n.u.experts.dim = moe->ffn;
    n.u.experts.correction = correction;
    n.u.experts.gains = family_of(m)->moe.gains
                            ? pith_plan_vector(m, family_of(m)->moe.gains, moe->experts)
                            : PITH_NO_PART;
    for (uint32_t e = 0; e < moe->experts && !m->failed; e++) add_expert(m, e, fold);
    add_fused(m, n.u.experts.first);
    pith_plan_reg(m, GATE, moe->ffn);
    pith_plan_reg(m, UP, moe->ffn);
    pith_plan_reg(m, ROWS, m->shape->hidden);
    pith_plan_reg(m, out, m->shape->hidden);
    /* RESULT is also the router's work space: two numbers an expert. */
    pith_plan_reg(m, RESULT,
                  m->shape->hidden > 2 * moe->experts ? m->shape->hidden : 2 * moe->experts);
    pith_plan_node(m, n);
}

/* What all tokens share, added to OUT. */
static void add_shared(struct pith_plan_maker *m, struct pith_fold fold, unsigned in)
{
    static const char *const part[] = {"gate_proj", "up_proj", "down_proj"};
    const struct pith_family_moe *f = &family_of(m)->moe;
    char name[3][PITH_PART_NAME];
    for (int i = 0; i < 3; i++)
        (void)snprintf(name[i], sizeof name[i], "%s.%s", f->shared ? f->shared : "", part[i]);
    const struct mlp shared = {.gate = name[0],
                               .up = name[1],
                               .down = f->shared_down ? f->shared_down : name[2],
                               .gate_up = f->shared_gate_up,
                               .site = "shared.gate_up",
                               .down_site = "shared.down",
                               .ffn = m->shape->moe.shared_ffn,
                               .bias = m->shape->mlp_bias,
                               .fold = fold};
    struct pith_node add = {.kind = PITH_NODE_MIX, .in = BRANCH, .out = OUT};
    add.u.mix.gate = PITH_NO_PART;
    (void)mlp(m, &shared, in, BRANCH);
    if (m->shape->moe.shared_gate) {
        (void)pith_plan_site(m, "shared.gate", m->shape->hidden, fold);
        const uint32_t gate =
            compute(m, f->shared_gate, 1, false, (const unsigned[3]){in, LOGITS, RESULT});
        if (!m->failed) m->plan->linear[gate].stays = true;
        add.u.mix.gate = LOGITS;
    }
    pith_plan_node(m, add);
}

/* The router's logits; its site. */
static uint32_t add_router(struct pith_plan_maker *m, struct pith_fold fold, unsigned in)
{
    const struct pith_moe *moe = &m->shape->moe;
    const uint32_t site = pith_plan_site(m, "router", m->shape->hidden, fold);
    const uint32_t router = compute(m, family_of(m)->moe.router, moe->experts, moe->router_bias,
                                    (const unsigned[3]){in, LOGITS, OUT});
    if (!m->failed) m->plan->linear[router].stays = true;
    return site;
}

/* Router, experts and what all tokens share, into OUT. */
static void mixture(struct pith_plan_maker *m, struct pith_fold fold, unsigned in,
                    uint32_t correction)
{
    const struct pith_moe *moe = &m->shape->moe;
    const uint32_t site = add_router(m, fold, in);
    add_experts(m, fold, in, OUT, correction);
    if (moe->shared_ffn) add_shared(m, fold, in);
    pith_plan_module(m, site, OUT);
}

static struct mlp dense_of(const struct pith_plan_maker *m, struct pith_fold fold)
{
    const struct pith_family *f = family_of(m);
    return (struct mlp){.gate = f->gate,
                        .up = f->up,
                        .down = f->down,
                        .gate_up = f->gate_up,
                        .site = "gate_up",
                        .down_site = "down",
                        .ffn = m->shape->ffn,
                        .bias = m->shape->mlp_bias,
                        .fold = fold};
}

/* Router, experts and a feed-forward part for all tokens, each with norms of its own. Experts
 * first: what comes before them is done again for the tokens of each when it is calibrated. */
static void mixture_beside(struct pith_plan_maker *m, struct gain before)
{
    const struct pith_family_moe *f = &family_of(m)->moe;
    const struct pith_fold none = {0};
    struct gain router = {true, pith_plan_vector(m, f->router_gain, m->shape->hidden),
                          PITH_NO_PART};
    if (!m->failed) m->plan->vector[router.vector].times = (float)pow(m->shape->hidden, -0.5);
    const struct gain experts = add_gain(m, f->experts_before, true);
    const struct gain after = add_gain(m, f->experts_after, false);
    const struct gain dense_after = add_gain(m, f->dense_after, false);
    norm(m, router, X, NORMED);
    (void)add_router(m, none, NORMED);
    norm(m, experts, X, NORMED);
    add_experts(m, none, NORMED, BRANCH, PITH_NO_PART);
    norm(m, after, BRANCH, BRANCH);
    norm(m, before, X, NORMED);
    const struct mlp dense = dense_of(m, fold_into(m, before));
    const uint32_t site = mlp(m, &dense, NORMED, OUT);
    pith_plan_module(m, site, OUT);
    norm(m, dense_after, OUT, OUT);
    struct pith_node add = {.kind = PITH_NODE_MIX, .in = BRANCH, .out = OUT};
    add.u.mix.gate = PITH_NO_PART;
    pith_plan_node(m, add);
}

/* `source`: the gain of what it reads, which is its own norm's unless that is shared. */
static void feed_forward(struct pith_plan_maker *m, struct gain before, struct gain source,
                         uint32_t correction)
{
    const struct pith_shape *s = m->shape;
    const bool shared = before.there != source.there;
    const bool sparse = s->moe.experts && pith_layer_in(&s->moe.layers, m->layer);
    if (sparse && family_of(m)->moe.experts_before) {
        mixture_beside(m, before);
        return;
    }
    const unsigned in = shared ? NORMED : begin_branch(m, before);
    const struct pith_fold fold = fold_into(m, source);
    if (sparse) {
        mixture(m, fold, in, correction);
        return;
    }
    const struct mlp dense = dense_of(m, fold);
    const uint32_t site = mlp(m, &dense, in, OUT);
    pith_plan_module(m, site, OUT);
}

/* --- what a layer is told ----------------------------------------------------------------------
 */

/* A third branch: a gate of the stream times what the tables say of the token. */
static void be_told(struct pith_plan_maker *m)
{
    const struct pith_family *f = family_of(m);
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_TELL, .in = TOKEN, .out = UP};
    const struct gain after = add_gain(m, f->told_after, false);
    pith_plan_carry(m, TOKEN, 1);
    (void)pith_plan_site(m, "told_gate", s->hidden, (struct pith_fold){0});
    const uint32_t gate =
        compute(m, f->told_gate, s->told, false, (const unsigned[3]){X, GATE, OUT});
    n.u.tell.work = NORMED;
    n.u.tell.dim = s->told;
    pith_plan_reg(m, NORMED, s->hidden);
    pith_plan_reg(m, UP, s->told);
    pith_plan_node(m, n);
    activate(m, GATE, false, s->told);
    (void)pith_plan_site(m, "told", s->told, (struct pith_fold){0});
    const uint32_t project =
        compute(m, f->told_project, s->hidden, false, (const unsigned[3]){GATE, OUT, GATE});
    if (!m->failed) m->plan->linear[gate].whole = m->plan->linear[project].whole = true;
    end_branch(m, after, OUT);
}

/* --- the layer -------------------------------------------------------------------------------- */

/* Learned positions, before everything else. */
static void place(struct pith_plan_maker *m)
{
    struct pith_node n = {.kind = PITH_NODE_PLACE, .in = X, .out = X};
    n.u.place.shift = m->shape->position_shift;
    pith_plan_node(m, n);
}

/* The stream as the layer leaves it. */
static void scale(struct pith_plan_maker *m, uint32_t vector)
{
    struct pith_node n = {.kind = PITH_NODE_SCALE, .in = X, .out = X};
    n.u.scale.vector = vector;
    pith_plan_node(m, n);
}

static uint32_t add_head_gain(struct pith_plan_maker *m, const char *module, uint32_t heads)
{
    const struct pith_family *f = family_of(m);
    const struct pith_shape *s = m->shape;
    const uint32_t length = f->qk_norm == PITH_QK_ROW ? heads * s->head_dim : s->head_dim;
    const uint32_t vector = add_vector(m, module, ".weight", length);
    if (m->failed) return vector;
    m->plan->vector[vector].plus = f->plus_one ? 1.0f : 0.0f;
    if (f->qk_norm == PITH_QK_CENTRED) m->plan->vector[vector].rows = heads;
    return vector;
}

static uint32_t add_correction(struct pith_plan_maker *m)
{
    const struct pith_family_moe *f = &family_of(m)->moe;
    const uint32_t vector = pith_plan_vector(m, f->correction, m->shape->moe.experts);
    if (!m->failed && f->correction_row) m->plan->vector[vector].rows = 1;
    return vector;
}

/* All linears may be stored columns by rows, each under its own name. */
static void exchange_all(struct pith_plan_maker *m)
{
    for (uint32_t i = 0; !m->failed && i < m->plan->linears; i++) {
        struct pith_fused_spec spec = {
            .first = i, .each = 1, .experts = 1, .parts = 1, .turned = true, .alone = true};
        if (snprintf(spec.name, sizeof spec.name, "%s.weight", m->plan->linear[i].name) >=
            (int)sizeof spec.name)
            m->failed = true;
        pith_plan_fused(m, &spec);
    }
}

enum pith_status pith_family_plan(struct pith_plan_maker *m, struct pith_error *err)
{
    const struct pith_family *f = family_of(m);
    const struct pith_shape *s = m->shape;
    const bool sparse = s->moe.experts && pith_layer_in(&s->moe.layers, m->layer);
    struct attention_gains g = {.sinks = PITH_NO_PART, .q = PITH_NO_PART, .k = PITH_NO_PART};
    const bool parallel = f->parallel && !s->serial;
    uint32_t correction = PITH_NO_PART;
    (void)err;
    pith_plan_reg(m, X, s->hidden);
    if (s->positions && m->layer == 0) place(m);
    g.before = add_gain(m, f->before_attention, true);
    const struct gain before_mlp = add_gain(m, f->before_mlp, true);
    g.after = add_gain(m, f->after_attention, false);
    const struct gain after_mlp = add_gain(m, f->after_mlp, false);
    if (s->qk_norm && !is_recurrent(m) && f->qk_norm != PITH_QK_BARE) {
        g.q = add_head_gain(m, f->q_norm, s->heads);
        if (!shares_kv(m)) g.k = add_head_gain(m, f->k_norm, s->kv_heads);
    }
    if (f->sinks) g.sinks = pith_plan_vector(m, f->sinks, s->heads);
    if (sparse && s->moe.correction) correction = add_correction(m);
    attention(m, &g, parallel ? BRANCH : OUT);
    if (!parallel) end_branch(m, g.after, OUT);
    if (s->norms_after) norm(m, g.before, X, X);
    feed_forward(m, before_mlp, parallel && !f->before_mlp ? g.before : before_mlp, correction);
    if (parallel) end_branch(m, g.after, BRANCH);
    end_branch(m, after_mlp, OUT);
    if (s->norms_after) norm(m, before_mlp, X, X);
    if (s->told) be_told(m);
    if (f->in_out) exchange_all(m);
    if (f->scalar) scale(m, pith_plan_vector(m, f->scalar, 1));
    return m->failed ? pith_fail_nomem(err, "the plan of a layer") : PITH_OK;
}
