#include "model/plan.h"

#include "base/mem.h"
#include "model/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- making ----------------------------------------------------------------------------------- */

/* Room for one more in the list that *list points to, which doubles whenever its count is a power
 * of two: a place of zeros at its end, or NULL. */
static void *grow(struct pith_plan_maker *m, void *list, uint32_t *count, size_t size)
{
    char *items;
    if (m->failed) return NULL;
    memcpy(&items, list, sizeof items);
    if ((*count & (*count - 1)) == 0) {
        items = pith_realloc(items, *count ? 2 * (size_t)*count : 1, size);
        if (!items) {
            m->failed = true;
            return NULL;
        }
        memcpy(list, &items, sizeof items);
    }
    char *place = items + *count * size;
    memset(place, 0, size);
    (*count)++;
    return place;
}

static void set_name(struct pith_plan_maker *m, char to[PITH_PART_NAME], const char *name)
{
    if (snprintf(to, PITH_PART_NAME, "%s", name) >= PITH_PART_NAME) m->failed = true;
}

void pith_plan_reg(struct pith_plan_maker *m, unsigned reg, uint32_t width)
{
    if (m->plan->width[reg] < width) m->plan->width[reg] = width;
}

void pith_plan_carry(struct pith_plan_maker *m, unsigned reg, uint32_t width)
{
    pith_plan_reg(m, reg, width);
    m->plan->carried |= 1u << reg;
}

uint32_t pith_plan_vector(struct pith_plan_maker *m, const char *name, uint32_t length)
{
    struct pith_vector_spec *v = grow(m, &m->plan->vector, &m->plan->vectors, sizeof *v);
    if (!v) return 0;
    set_name(m, v->name, name);
    v->length = length;
    return m->plan->vectors - 1;
}

uint32_t pith_plan_site(struct pith_plan_maker *m, const char *name, uint32_t dim,
                        struct pith_fold fold)
{
    struct pith_site_spec *s = grow(m, &m->plan->site, &m->plan->sites, sizeof *s);
    if (!s) return 0;
    set_name(m, s->name, name);
    s->dim = dim;
    s->first = m->plan->linears;
    s->expert = PITH_NO_PART;
    s->fold = fold;
    return m->plan->sites - 1;
}

uint32_t pith_plan_linear(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias)
{
    struct pith_linear_spec *l = grow(m, &m->plan->linear, &m->plan->linears, sizeof *l);
    if (!l) return 0;
    struct pith_site_spec *site = &m->plan->site[m->plan->sites - 1];
    set_name(m, l->name, name);
    l->rows = rows;
    l->cols = site->dim;
    l->site = m->plan->sites - 1;
    l->expert = site->expert;
    l->bias = bias;
    site->count++;
    return m->plan->linears - 1;
}

void pith_plan_node(struct pith_plan_maker *m, struct pith_node node)
{
    struct pith_node *place = grow(m, &m->plan->node, &m->plan->nodes, sizeof *place);
    if (place) *place = node;
}

void pith_plan_fused(struct pith_plan_maker *m, const struct pith_fused_spec *fused)
{
    struct pith_fused_spec *place = grow(m, &m->plan->fused, &m->plan->fuseds, sizeof *place);
    if (place) *place = *fused;
}

void pith_plan_compute(struct pith_plan_maker *m, unsigned in, unsigned out, unsigned work)
{
    struct pith_layer_plan *p = m->plan;
    struct pith_node node = {.kind = PITH_NODE_LINEAR, .in = (uint8_t)in, .out = (uint8_t)out};
    if (m->failed) return;
    const struct pith_linear_spec *l = &p->linear[p->linears - 1];
    node.u.linear.linear = p->linears - 1;
    node.u.linear.work = (uint8_t)work;
    pith_plan_reg(m, out, l->rows);
    pith_plan_reg(m, work, l->cols);
    struct pith_site_spec *site = &p->site[l->site];
    if (site->first == p->linears - 1) site->from = p->nodes;
    pith_plan_node(m, node);
}

void pith_plan_add(struct pith_plan_maker *m, unsigned in, float scale)
{
    const struct pith_layer_plan *p = m->plan;
    if (m->failed) return;
    const struct pith_node *last = p->nodes ? &p->node[p->nodes - 1] : NULL;
    if (last && last->kind == PITH_NODE_LINEAR && last->out == in)
        p->linear[last->u.linear.linear].to_stream = true;
    struct pith_node node = {.kind = PITH_NODE_ADD, .in = (uint8_t)in, .out = PITH_REG_STREAM};
    node.u.add.scale = scale;
    pith_plan_node(m, node);
}

void pith_plan_module(struct pith_plan_maker *m, uint32_t site, unsigned result)
{
    if (m->failed) return;
    m->plan->site[site].to = m->plan->nodes;
    m->plan->site[site].result = (uint8_t)result;
}

static void free_layer(struct pith_layer_plan *l)
{
    pith_free(l->linear);
    pith_free(l->site);
    pith_free(l->vector);
    pith_free(l->node);
    pith_free(l->fused);
    *l = (struct pith_layer_plan){0};
}

/* A list of no items is NULL. */
static bool same_items(const void *a, const void *b, uint32_t count, size_t size)
{
    return count == 0 || memcmp(a, b, count * size) == 0;
}

/* Lists are made by memset and assignment of whole structs from initialisers, so that equal parts
 * have equal bytes; a difference in padding would only cost memory. */
static bool same_layer(const struct pith_layer_plan *a, const struct pith_layer_plan *b)
{
    return a->linears == b->linears && a->sites == b->sites && a->vectors == b->vectors &&
           a->nodes == b->nodes && a->fuseds == b->fuseds &&
           memcmp(&a->state, &b->state, sizeof a->state) == 0 && a->carried == b->carried &&
           memcmp(a->width, b->width, sizeof a->width) == 0 &&
           same_items(a->linear, b->linear, a->linears, sizeof *a->linear) &&
           same_items(a->site, b->site, a->sites, sizeof *a->site) &&
           same_items(a->vector, b->vector, a->vectors, sizeof *a->vector) &&
           same_items(a->node, b->node, a->nodes, sizeof *a->node) &&
           same_items(a->fused, b->fused, a->fuseds, sizeof *a->fused);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Takes l over: its kind is one that is there, or a new one. */
static bool add_kind(struct pith_plans *p, struct pith_layer_plan *l, uint32_t *kind)
{
    for (*kind = 0; *kind < p->kinds; (*kind)++) {
        if (!same_layer(&p->kind[*kind], l)) continue;
        free_layer(l);
        return true;
    }
    struct pith_layer_plan *more = pith_realloc(p->kind, p->kinds + 1, sizeof *more);
    if (!more) return false;
    p->kind = more;
    p->kind[p->kinds++] = *l;
    for (int i = 0; i < PITH_LAYER_REGS; i++) p->width[i] = larger(p->width[i], l->width[i]);
    p->carried |= l->carried;
    p->most_linears = larger(p->most_linears, l->linears);
    p->most_sites = larger(p->most_sites, l->sites);
    p->most_vectors = larger(p->most_vectors, l->vectors);
    return true;
}

static enum pith_status make_layer(struct pith_plans *p, const struct pith_shape *shape,
                                   uint32_t layer, struct pith_error *err)
{
    struct pith_layer_plan l = {0};
    struct pith_plan_maker m = {.arch = p->arch, .shape = shape, .layer = layer, .plan = &l};
    pith_plan_reg(&m, PITH_REG_STREAM, shape->hidden);
    p->arch->layer(&m);
    if (m.failed || !add_kind(p, &l, &p->of[layer])) {
        free_layer(&l);
        return pith_fail_nomem(err, "the plan of a layer");
    }
    p->first[layer + 1] = p->first[layer] + pith_plan(p, layer)->linears;
    return PITH_OK;
}

enum pith_status pith_plans_make(const struct pith_arch *arch, const struct pith_shape *shape,
                                 struct pith_plans *out, struct pith_error *err)
{
    *out = (struct pith_plans){.arch = arch,
                               .layers = shape->layers,
                               .rotary = larger(shape->place.rotary, shape->place.rotary_window),
                               .tables = shape->place.by_kind ? 2 : 1,
                               .experts = shape->moe.experts,
                               .taken = shape->moe.taken};
    out->of = pith_zalloc(shape->layers, sizeof *out->of);
    out->first = pith_zalloc((size_t)shape->layers + 1, sizeof *out->first);
    enum pith_status s = out->of && out->first ? PITH_OK
                                               : pith_fail_nomem(err, "the plans of layers");
    for (uint32_t i = 0; i < shape->layers && s == PITH_OK; i++) s = make_layer(out, shape, i, err);
    if (s != PITH_OK) pith_plans_free(out);
    return s;
}

void pith_plans_free(struct pith_plans *p)
{
    for (uint32_t i = 0; i < p->kinds; i++) free_layer(&p->kind[i]);
    pith_free(p->kind);
    pith_free(p->of);
    pith_free(p->first);
    *p = (struct pith_plans){0};
}

uint32_t pith_plans_carried(const struct pith_plans *p)
{
    uint32_t width = 0;
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (p->carried >> i & 1) width += p->width[i];
    return width;
}

void pith_plans_lay(const struct pith_plans *p, float *at, size_t n, float *reg[PITH_LAYER_REGS])
{
    for (int i = 0; i < PITH_LAYER_REGS; i++) {
        if (!(p->carried >> i & 1)) continue;
        reg[i] = at;
        at += n * p->width[i];
    }
}

void pith_plans_fill(const struct pith_plans *p, const int32_t *ids, size_t n, float *at)
{
    float *reg[PITH_LAYER_REGS] = {NULL};
    const size_t width = pith_plans_carried(p);
    if (width > 0) memset(at, 0, n * width * sizeof *at);
    pith_plans_lay(p, at, n, reg);
    for (size_t i = 0; i < n && reg[PITH_REG_TOKEN]; i++) reg[PITH_REG_TOKEN][i] = (float)ids[i];
}

unsigned pith_node_reads(const struct pith_node *n)
{
    unsigned reads = 1u << n->in;
    switch (n->kind) {
    case PITH_NODE_ATTEND: return reads | 1u << n->u.attend.k | 1u << n->u.attend.v;
    case PITH_NODE_GATE: return n->u.gate.alone ? reads : reads | 1u << n->u.gate.up;
    case PITH_NODE_ADD: return reads | 1u << n->out;
    case PITH_NODE_ABSORB: return reads | 1u << n->u.latent.latent | 1u << n->u.latent.rotary;
    case PITH_NODE_DELTA: return reads | 1u << n->u.delta.a | 1u << n->u.delta.beta;
    case PITH_NODE_SCAN: return reads | 1u << n->u.scan.step;
    case PITH_NODE_EXPERTS: return reads | 1u << n->u.experts.logits;
    case PITH_NODE_MIX:
        if (n->u.mix.gate != PITH_NO_PART) reads |= 1u << n->u.mix.gate;
        return reads | 1u << n->out;
    default: return reads;
    }
}

unsigned pith_node_writes(const struct pith_node *n)
{
    unsigned writes = 0;
    if (n->kind == PITH_NODE_ABSORB) return 1u << n->out | 1u << n->u.latent.key;
    if (n->kind == PITH_NODE_PER_LAYER) return 1u << n->out | 1u << n->u.per_layer.work;
    if (n->kind != PITH_NODE_SPLIT) return 1u << n->out;
    for (uint32_t i = 0; i < n->u.split.parts; i++) writes |= 1u << n->u.split.to[i];
    return writes;
}

unsigned pith_plan_leaves(const struct pith_layer_plan *l)
{
    unsigned writes = 0;
    for (uint32_t i = 0; i < l->nodes; i++) writes |= pith_node_writes(&l->node[i]);
    return writes & l->carried;
}

bool pith_plan_same_sizes(const struct pith_layer_plan *a, const struct pith_layer_plan *b)
{
    bool same = a->linears == b->linears && a->vectors == b->vectors;
    for (uint32_t i = 0; same && i < a->linears; i++)
        same = a->linear[i].rows == b->linear[i].rows && a->linear[i].cols == b->linear[i].cols &&
               strcmp(a->linear[i].name, b->linear[i].name) == 0;
    for (uint32_t i = 0; same && i < a->vectors; i++)
        same = a->vector[i].length == b->vector[i].length &&
               strcmp(a->vector[i].name, b->vector[i].name) == 0;
    return same;
}

const struct pith_node *pith_plan_attend(const struct pith_layer_plan *l)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].kind == PITH_NODE_ATTEND) return &l->node[i];
    return NULL;
}

const struct pith_node *pith_plan_experts(const struct pith_layer_plan *l)
{
    for (uint32_t i = 0; i < l->nodes; i++)
        if (l->node[i].kind == PITH_NODE_EXPERTS) return &l->node[i];
    return NULL;
}

uint32_t pith_plan_router(const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_experts(l);
    return node ? l->linear[node->u.experts.first].site - 1 : PITH_NO_PART;
}

bool pith_plan_experts_apart(const struct pith_layer_plan *l)
{
    const struct pith_node *experts = pith_plan_experts(l);
    if (!experts) return true;
    const struct pith_node *end = l->node + l->site[pith_plan_router(l)].to;
    unsigned of_sum = 1u << experts->out, there = of_sum | 1u << experts->in;
    for (const struct pith_node *n = experts + 1; n < l->node + l->nodes; n++) {
        const unsigned reads = pith_node_reads(n), writes = pith_node_writes(n);
        if (n < end && reads & ~there) return false;
        if (n->kind == PITH_NODE_LINEAR && reads & of_sum) return false;
        there |= writes;
        of_sum = reads & of_sum ? of_sum | writes : of_sum & ~writes;
    }
    return true;
}

bool pith_plan_parallel(const struct pith_layer_plan *l)
{
    bool added = false;
    for (uint32_t i = 0; i < l->nodes; i++) {
        if (added && l->node[i].kind == PITH_NODE_LINEAR) return false;
        added = added || l->node[i].kind == PITH_NODE_ADD;
    }
    return true;
}

bool pith_plans_norm_heads(const struct pith_plans *p)
{
    for (uint32_t k = 0; k < p->kinds; k++) {
        const struct pith_layer_plan *l = &p->kind[k];
        const struct pith_node *attend = pith_plan_attend(l);
        for (const struct pith_node *n = l->node; attend && n < attend; n++)
            if (n->kind == PITH_NODE_NORM && n->in == attend->in) return true;
    }
    return false;
}

bool pith_plan_grouped(const struct pith_layer_plan *l, uint32_t site, uint32_t other)
{
    const struct pith_fold *a = &l->site[site].fold, *b = &l->site[other].fold;
    return site == other || (a->kind == PITH_FOLD_VECTOR && b->kind == PITH_FOLD_VECTOR &&
                             a->from == b->from);
}

uint32_t pith_plan_group(const struct pith_layer_plan *l, uint32_t site, uint32_t *members)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < site; i++)
        if (pith_plan_grouped(l, site, i)) return 0;
    for (uint32_t i = site; i < l->sites; i++) {
        if (!pith_plan_grouped(l, site, i)) continue;
        for (uint32_t k = 0; k < l->site[i].count; k++, count++)
            if (members) members[count] = l->site[i].first + k;
    }
    return count;
}

uint32_t pith_plan_after_attend(const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_attend(l);
    uint32_t site = 0;
    while (node && site + 1 < l->sites && l->site[site].from < (uint32_t)(node - l->node)) site++;
    return site;
}

/* --- names ------------------------------------------------------------------------------------ */

void pith_plan_name(const struct pith_plans *p, uint32_t layer, const char *part, char *name,
                    size_t size)
{
    (void)snprintf(name, size, "%s%u.%s", p->arch->names.layers, (unsigned)layer, part);
}

void pith_plan_linear_name(const struct pith_plans *p, uint32_t layer, uint32_t linear, char *name,
                           size_t size)
{
    pith_plan_name(p, layer, pith_plan(p, layer)->linear[linear].name, name, size);
}

/* The number after the names that all layers share, and what comes behind it; NULL: none. */
static const char *layer_number(const struct pith_plans *p, const char *tensor, uint32_t *number)
{
    const size_t n = strlen(p->arch->names.layers);
    char *end;
    if (strncmp(tensor, p->arch->names.layers, n) != 0) return NULL;
    if (tensor[n] < '0' || tensor[n] > '9' || (tensor[n] == '0' && tensor[n + 1] != '.'))
        return NULL;
    const unsigned long value = strtoul(tensor + n, &end, 10);
    if (*end != '.' || value > PITH_MAX_LAYERS) return NULL;
    *number = (uint32_t)value;
    return end + 1;
}

const char *pith_plan_layer_of(const struct pith_plans *p, const char *tensor, uint32_t *layer)
{
    uint32_t number;
    const char *part = layer_number(p, tensor, &number);
    if (!part || number >= p->layers) return NULL;
    *layer = number;
    return part;
}

bool pith_plan_is_other(const struct pith_plans *p, const char *tensor)
{
    const struct pith_arch_names *names = &p->arch->names;
    uint32_t number;
    if (names->further && layer_number(p, tensor, &number)) return number >= p->layers;
    for (size_t i = 0; i < PITH_ARCH_OTHERS && names->other[i]; i++)
        if (strncmp(tensor, names->other[i], strlen(names->other[i])) == 0) return true;
    return false;
}

/* Whether a tensor within a layer is one of its linears' or vectors. */
static bool reads_part(const struct pith_layer_plan *l, const char *part)
{
    const char *suffix;
    if (pith_plan_find_linear(l, part, &suffix) != PITH_NO_PART) return true;
    for (uint32_t i = 0; i < l->vectors; i++)
        if (strcmp(l->vector[i].name, part) == 0) return true;
    return false;
}

bool pith_plan_unread(const struct pith_plans *p, const char *tensor)
{
    uint32_t layer;
    const char *part = pith_plan_layer_of(p, tensor, &layer);
    if (!part || pith_plan(p, layer)->state.kind != PITH_STATE_SHARED) return false;
    return !reads_part(pith_plan(p, layer), part) &&
           reads_part(pith_plan(p, pith_plan_rows_of(p, layer)), part);
}

bool pith_plan_buffer(const struct pith_plans *p, const char *tensor)
{
    uint32_t layer;
    const char *part = pith_plan_layer_of(p, tensor, &layer);
    return pith_arch_buffer(p->arch, part ? part : tensor);
}

uint32_t pith_plan_find_linear(const struct pith_layer_plan *l, const char *part,
                               const char **suffix)
{
    uint32_t found = PITH_NO_PART;
    size_t longest = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const size_t n = strlen(l->linear[i].name);
        if (n < longest || strncmp(part, l->linear[i].name, n) != 0 || part[n] != '.') continue;
        *suffix = part + n;
        longest = n;
        found = i;
    }
    return found;
}
