#include "export/preflight.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- a check ---------------------------------------------------------------------------------- */

struct check {
    const struct pith_target *target;
    const struct pith_offer *offer;
    const struct pith_load_rule *rule;
    json_t *problems; /* NULL: the first violation ends the check */
    struct pith_error *err;
};

/* Notes a violation. Fails with it when only the first is wanted. */
static enum pith_status violation(struct check *k, const char *module, const char *fmt, ...)
    PITH_PRINTF(3, 4);
static enum pith_status violation(struct check *k, const char *module, const char *fmt, ...)
{
    struct pith_str s = {0};
    pith_str_printf(&s, "%s: %s%s", k->target->engine->name, module, *module ? ": " : "");
    va_list ap;
    va_start(ap, fmt);
    pith_str_vprintf(&s, fmt, ap);
    va_end(ap);
    enum pith_status status = PITH_OK;
    if (s.failed) status = pith_fail_nomem(k->err, "a message");
    else if (!k->problems) status = pith_fail(k->err, PITH_UNSUPPORTED, "%s", s.data);
    else if (json_array_append_new(k->problems, pith_json_name(s.data)) != 0)
        status = pith_fail_nomem(k->err, "a message");
    pith_str_free(&s);
    return status;
}

/* One linear as the engine sees it. */
struct linear {
    const char *module;
    const struct pith_grid *grid;
    const struct pith_linear_spec *spec;
    uint32_t rows, cols;           /* whole */
    uint32_t rank_rows, rank_cols; /* on one rank */
    uint32_t units;                /* heads that are split, 0: single rows or columns */
};

static bool quantized(const struct pith_linear_grid *l)
{
    return l->grid.format != NULL;
}

/* The grids of that format that would do for a rank's columns: "int4:g32, int4:channel". */
static void put_choices(struct pith_str *s, const struct pith_load_rule *r, const char *format,
                        uint32_t cols)
{
    static const uint32_t usual[] = {32, 64, 128, 0};
    for (const uint32_t *g = r->groups ? r->groups : usual; *g; g++)
        if (cols % *g == 0) pith_str_printf(s, "%s%s:g%" PRIu32, s->len ? ", " : "", format, *g);
    if (r->channel) pith_str_printf(s, "%s%s:channel", s->len ? ", " : "", format);
    if (r->tensor) pith_str_printf(s, "%s%s:tensor", s->len ? ", " : "", format);
}

static void put_bits(struct pith_str *s, uint32_t mask)
{
    for (unsigned b = 2; b <= 8; b++)
        if (mask >> b & 1) pith_str_printf(s, "%sint%u", s->len ? ", " : "", b);
}

/* --- rules for one grid ----------------------------------------------------------------------- */

static bool bits_allowed(const struct pith_load_rule *r, const struct pith_grid *g)
{
    return (g->asym ? r->asym : r->sym) >> g->format->bits & 1;
}

/* True when a list of grids, as in a pair, has that one. */
static bool lists(const char *texts, const struct pith_grid *g)
{
    char text[PITH_GRID_TEXT];
    pith_grid_format(g, text);
    const size_t n = strlen(text);
    if (strcmp(texts, "*") == 0) return true;
    for (const char *p = texts; *p;) {
        const size_t m = strcspn(p, " ");
        if (m == n && strncmp(p, text, n) == 0) return true;
        p += m + (p[m] == ' ');
    }
    return false;
}

/* True when a pair of the rule is of weights on that grid. */
static bool pairs_with(const struct pith_load_pair *pair, const struct pith_grid *g)
{
    struct pith_grid canonical = *g;
    canonical.mse = canonical.even = canonical.ceil = false;
    return lists(pair->weights, &canonical);
}

static bool pair_allowed(const struct pith_load_rule *r, const struct pith_grid *g,
                         const struct pith_grid *inputs)
{
    for (const struct pith_load_pair *p = r->pairs; p && p->weights; p++)
        if (pairs_with(p, g) && lists(p->inputs, inputs)) return true;
    return false;
}

/* The rule for weights on that grid: of integers by themselves or with integers, or of all
 * others. */
static const struct pith_load_rule *rule_for(const struct check *k, const struct pith_grid *g)
{
    const struct pith_target_engine *e = k->target->engine;
    const struct pith_grid *inputs = &k->offer->opts->acts;
    const struct pith_load_rule *ints = NULL, *pairs = NULL;
    const bool plain = g->format->kind == PITH_KIND_INT &&
                       (!inputs->format || inputs->format->kind == PITH_KIND_INT);
    for (size_t i = 0; i < e->count; i++) {
        const struct pith_load_rule *r = &e->rules[i];
        if (strcmp(r->container, "*") != 0 && strcmp(r->container, k->offer->container->name) != 0)
            continue;
        if (r->pairs) pairs = r;
        else if (!ints && r->acts == (inputs->format != NULL)) ints = r;
    }
    if (plain) return ints ? ints : pairs;
    return pairs ? pairs : ints;
}

/* "; compressed-tensors would do" when another container holds that format for the engine. */
static void put_container(const struct check *k, const struct pith_grid *g, struct pith_str *s)
{
    const struct pith_target_engine *e = k->target->engine;
    for (size_t i = 0; i < e->count; i++)
        if (!e->rules[i].pairs && e->rules[i].acts == k->rule->acts &&
            bits_allowed(&e->rules[i], g)) {
            pith_str_printf(s, "; %s would do", e->rules[i].container);
            return;
        }
}

static enum pith_status check_bits(struct check *k, const struct linear *l)
{
    const struct pith_load_rule *r = k->rule;
    if (bits_allowed(r, l->grid)) return PITH_OK;
    struct pith_str what = {0};
    put_bits(&what, r->sym);
    if (r->asym) {
        struct pith_str asym = {0};
        put_bits(&asym, r->asym);
        pith_str_printf(&what, " and with zero points %s", pith_str_text(&asym));
        pith_str_free(&asym);
    } else if (l->grid->asym) {
        pith_str_puts(&what, ", without zero points");
    }
    put_container(k, l->grid, &what);
    const enum pith_status s =
        violation(k, l->module, "does not load %s%s from %s; it loads %s", l->grid->format->name,
                  l->grid->asym ? " with zero points" : "", r->container, pith_str_text(&what));
    pith_str_free(&what);
    return s;
}

static bool group_allowed(const struct pith_load_rule *r, uint32_t group)
{
    if (!r->groups) return true;
    for (const uint32_t *g = r->groups; *g; g++)
        if (*g == group) return true;
    return false;
}

static enum pith_status check_granularity(struct check *k, const struct linear *l)
{
    const struct pith_load_rule *r = k->rule;
    const struct pith_grid *g = l->grid;
    bool ok = g->granularity == PITH_PER_GROUP     ? group_allowed(r, g->group)
              : g->granularity == PITH_PER_CHANNEL ? r->channel
              : g->granularity == PITH_PER_TENSOR  ? r->tensor
                                                   : false;
    /* gptq and awq store a scale of the tensor once a row. */
    if (g->granularity == PITH_PER_TENSOR && strcmp(r->container, "compressed-tensors") != 0)
        ok = r->channel;
    if (ok) return PITH_OK;
    struct pith_str choices = {0};
    put_choices(&choices, r, g->format->name, l->rank_cols);
    char text[PITH_GRID_TEXT];
    pith_grid_format(g, text);
    const enum pith_status s = violation(k, l->module, "does not load %s from %s; use %s", text,
                                         r->container, pith_str_text(&choices));
    pith_str_free(&choices);
    return s;
}

/* Groups of whole ranks: a rank's scales begin where its columns do. */
static enum pith_status check_groups(struct check *k, const struct linear *l)
{
    const struct pith_grid *g = l->grid;
    if (g->granularity != PITH_PER_GROUP || l->rank_cols % g->group == 0) return PITH_OK;
    struct pith_str choices = {0};
    put_choices(&choices, k->rule, g->format->name, l->rank_cols);
    enum pith_status s;
    if (l->rank_cols == l->cols)
        s = violation(k, l->module,
                      "groups of %" PRIu32 " do not divide its %" PRIu32 " columns; use %s",
                      g->group, l->cols, pith_str_text(&choices));
    else
        s = violation(k, l->module,
                      "groups of %" PRIu32 " do not divide the %" PRIu32
                      " columns of each of %u ranks; use %s%s",
                      g->group, l->rank_cols, k->target->tp, pith_str_text(&choices),
                      l->cols % g->group == 0 ? ", or fewer ranks" : "");
    pith_str_free(&choices);
    return s;
}

static enum pith_status check_words(struct check *k, const struct linear *l)
{
    const unsigned bits = l->grid->format->bits;
    const char *container = k->rule->container;
    if (!k->rule->whole_words) return PITH_OK;
    const bool awq = strcmp(container, "awq") == 0;
    if (!awq && (uint64_t)l->rank_cols * bits % 32)
        return violation(k, l->module, "%" PRIu32 " columns of %u bits are not whole 32-bit words",
                         l->rank_cols, bits);
    /* Zero points lie along the rows: gptq and awq always have them. */
    if ((l->grid->asym || strcmp(container, "compressed-tensors") != 0) &&
        (uint64_t)l->rank_rows * bits % 32)
        return violation(k, l->module,
                         "zero points of %" PRIu32 " rows of %u bits are not whole 32-bit words",
                         l->rank_rows, bits);
    return PITH_OK;
}

/* 8-bit weights by group with quantized activations have no scheme anywhere. */
static enum pith_status check_acts(struct check *k, const struct linear *l)
{
    if (!k->rule->acts || l->grid->format->bits != 8 || l->grid->granularity != PITH_PER_GROUP ||
        !k->rule->fused)
        return PITH_OK;
    return violation(k, l->module,
                     "int8 weights with quantized activations have scales by channel "
                     "or tensor, not by group; use int8:channel");
}

/* Weights and inputs together: "does not load nvfp4 with inputs on int8:token". */
static enum pith_status check_pair(struct check *k, const struct linear *l)
{
    const struct pith_grid *inputs = &k->offer->opts->acts;
    char weights[PITH_GRID_TEXT], acts[PITH_GRID_TEXT];
    if (pair_allowed(k->rule, l->grid, inputs)) return PITH_OK;
    struct pith_str what = {0};
    for (const struct pith_load_pair *p = k->rule->pairs; p->weights; p++)
        if (pairs_with(p, l->grid)) pith_str_printf(&what, "%s", p->inputs);
    const bool known = what.len > 0;
    for (const struct pith_load_pair *p = k->rule->pairs; p->weights && !known; p++)
        pith_str_printf(&what, "%s%s", what.len ? ", " : "", p->weights);
    pith_grid_format(l->grid, weights);
    pith_grid_format(inputs, acts);
    const enum pith_status s =
        known ? violation(k, l->module,
                          "does not load %s with inputs on %s from %s; it loads it with %s",
                          weights, acts, k->rule->container, pith_str_text(&what))
              : violation(k, l->module, "does not load %s from %s; it loads %s", weights,
                          k->rule->container, pith_str_text(&what));
    pith_str_free(&what);
    return s;
}

/* Blocks of whole ranks. */
static enum pith_status check_blocks(struct check *k, const struct linear *l)
{
    const struct pith_grid *g = l->grid;
    if (g->granularity != PITH_PER_BLOCK || k->target->tp == 1) return PITH_OK;
    if (l->rank_rows % g->group == 0 && l->rank_cols % g->group == 0) return PITH_OK;
    return violation(k, l->module,
                     "blocks of %" PRIu32 " do not divide the %" PRIu32 " x %" PRIu32
                     " weights of each of %u ranks; use fewer",
                     g->group, l->rank_rows, l->rank_cols, k->target->tp);
}

/* vLLM and SGLang: "Only symmetric quantization is supported for MoE" (compressed_tensors_moe). */
static enum pith_status check_expert(struct check *k, const struct linear *l)
{
    if (l->spec->expert == PITH_NO_PART || !l->grid->asym || k->rule->expert_zeros ||
        !k->rule->fused)
        return PITH_OK;
    return violation(k, l->module,
                     "does not load experts with zero points from %s; use %s without asym",
                     k->rule->container, l->grid->format->name);
}

static enum pith_status check_linear(struct check *k, const struct linear *l)
{
    if (k->rule->pairs) {
        PITH_TRY(check_pair(k, l));
        PITH_TRY(check_blocks(k, l));
        return check_groups(k, l);
    }
    PITH_TRY(check_bits(k, l));
    PITH_TRY(check_expert(k, l));
    PITH_TRY(check_granularity(k, l));
    PITH_TRY(check_groups(k, l));
    PITH_TRY(check_words(k, l));
    return check_acts(k, l);
}

/* --- splitting over ranks --------------------------------------------------------------------- */

/* Rows or columns that a rank holds of something made of `units` heads (0: of single rows). False
 * when ranks cannot share it evenly. Heads of k and v are repeated when there are fewer than
 * ranks. */
static bool share(uint32_t whole, uint32_t units, bool repeated, unsigned tp, uint32_t *part)
{
    *part = whole;
    if (tp == 1) return true;
    if (units && repeated && units < tp) {
        *part = whole / units;
        return tp % units == 0;
    }
    if (units ? units % tp : whole % tp) return false;
    *part = whole / tp;
    return true;
}

/* Fills rank_rows and rank_cols. Routers are on every rank whole.
 * vLLM model_executor/models/llama.py: QKVParallelLinear, RowParallelLinear; qwen2_moe.py,
 * gemma4.py: ReplicatedLinear. */
static bool split(const struct check *k, struct linear *l)
{
    const unsigned tp = l->spec->stays || l->spec->whole ? 1 : k->target->tp;
    const bool by_cols = l->spec->by_cols;
    l->rank_rows = l->rows;
    l->rank_cols = l->cols;
    l->units = l->spec->heads;
    uint32_t *part = by_cols ? &l->rank_cols : &l->rank_rows;
    return share(*part, l->units, l->spec->copied, tp, part);
}

static enum pith_status check_split(struct check *k, struct linear *l)
{
    if (split(k, l)) return PITH_OK;
    const bool by_cols = l->spec->by_cols;
    const uint32_t whole = l->units ? l->units : by_cols ? l->cols : l->rows;
    return violation(k, l->module, "%u ranks cannot share %" PRIu32 " %s", k->target->tp, whole,
                     l->units  ? "heads"
                     : by_cols ? "columns"
                               : "rows");
}

static struct linear linear_of(const struct check *k, uint32_t layer, uint32_t linear)
{
    const struct pith_linear_grid *g = &k->offer->linears[k->offer->plans->first[layer] + linear];
    const struct pith_linear_spec *spec = &pith_plan(k->offer->plans, layer)->linear[linear];
    return (struct linear){.module = g->module,
                           .grid = &g->grid,
                           .spec = spec,
                           .rows = spec->rows,
                           .cols = spec->cols};
}

/* --- linears that engines hold as one --------------------------------------------------------- */

/* Grids of q, k, v and of gate, up. vLLM compressed_tensors/utils.py should_ignore_layer() and
 * utils/gptq_utils.py is_layer_gptq_quantized(): some but not all is an error. */
static enum pith_status check_fused(struct check *k, uint32_t layer,
                                    const struct pith_site_spec *site)
{
    const struct pith_linear_grid *first =
        &k->offer->linears[k->offer->plans->first[layer] + site->first];
    for (uint32_t i = 1; i < site->count; i++) {
        const struct pith_linear_grid *l = first + i;
        if (quantized(l) != quantized(first))
            return violation(k, l->module,
                             "is %s and %s is not, but the engine holds them as one; "
                             "quantize or ignore all of them",
                             quantized(l) ? "quantized" : "unquantized", first->module);
        if (quantized(l) && !pith_grid_equal(&l->grid, &first->grid))
            return violation(k, l->module,
                             "has another grid than %s, but the engine holds them as "
                             "one; give them the same",
                             first->module);
    }
    return PITH_OK;
}

/* The experts of a layer, which engines hold as two tensors and compute by one kernel: all of them
 * are on one grid, and nothing is rotated between. vLLM
 * compressed_tensors/compressed_tensors_moe/, get_moe_method(), which has no transforms, and
 * fused_moe's layer.py, which takes one quantization method; SGLang's layers/moe does the same. */
static enum pith_status check_experts(struct check *k, uint32_t layer)
{
    const struct pith_layer_plan *plan = pith_plan(k->offer->plans, layer);
    const struct pith_linear_grid *list = &k->offer->linears[k->offer->plans->first[layer]],
                                  *first = NULL;
    for (uint32_t i = 0; i < plan->linears; i++) {
        const struct pith_linear_grid *l = &list[i];
        if (plan->linear[i].expert == PITH_NO_PART) continue;
        if (l->hadamard > 1)
            return violation(k, l->module,
                             "is an expert, whose inputs the engine does not rotate at run time: "
                             "it would compute another model; use `transform=rotate:folded`, or "
                             "smoothrot");
        if (!first) first = l;
        if (quantized(l) != quantized(first) ||
            (quantized(l) && !pith_grid_equal(&l->grid, &first->grid)))
            return violation(k, l->module,
                             "is stored in another way than %s, but the engine holds the experts of"
                             " a layer as one; give them the same grid, or ignore all of them",
                             first->module);
    }
    return PITH_OK;
}

/* Blocks of scales begin where a linear does; the last may be shorter. vLLM
 * layers/quantization/utils/fp8_utils.py, validate_fp8_block_shape(). */
static enum pith_status check_fused_blocks(struct check *k, uint32_t layer,
                                           const struct pith_site_spec *site)
{
    for (uint32_t i = 0; i + 1 < site->count; i++) {
        const struct linear l = linear_of(k, layer, site->first + i);
        if (!l.grid->format || l.grid->granularity != PITH_PER_BLOCK) return PITH_OK;
        if (l.rows % l.grid->group)
            return violation(k, l.module,
                             "blocks of %" PRIu32 " do not divide its %" PRIu32
                             " rows, but the engine puts the next linear's below them",
                             l.grid->group, l.rows);
    }
    return PITH_OK;
}

/* Tiles of the kernel, over all rows that a rank holds together. */
static enum pith_status check_tiles(struct check *k, uint32_t layer,
                                    const struct pith_site_spec *site)
{
    uint64_t total = 0;
    struct linear l = {0};
    for (uint32_t i = 0; i < site->count; i++) {
        l = linear_of(k, layer, site->first + i);
        if (!l.grid->format) return PITH_OK;
        (void)split(k, &l); /* reported already */
        total += l.rank_rows;
    }
    const struct pith_load_rule *r = k->rule;
    if (r->tile_rows && total % r->tile_rows)
        return violation(k, l.module, "%" PRIu64 " rows on a rank are not a multiple of %" PRIu32,
                         total, r->tile_rows);
    if (r->tile_cols && l.rank_cols % r->tile_cols)
        return violation(k, l.module,
                         "%" PRIu32 " columns on a rank are not a multiple of %" PRIu32,
                         l.rank_cols, r->tile_cols);
    return PITH_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status check_mixed(struct check *k)
{
    const struct pith_offer *p = k->offer;
    const struct pith_linear_grid *first = NULL;
    for (size_t i = 0; i < p->count && !k->rule->mixed; i++) {
        if (!quantized(&p->linears[i])) continue;
        if (!first) first = &p->linears[i];
        else if (!pith_grid_equal(&p->linears[i].grid, &first->grid))
            return violation(
                k, p->linears[i].module,
                "has another grid than %s, and the loader of %s takes one for all; use "
                "compressed-tensors, or one grid",
                first->module, k->rule->container);
    }
    return PITH_OK;
}

/* Grids of inputs that are integers with integers. */
static enum pith_status check_inputs(struct check *k)
{
    char text[PITH_GRID_TEXT];
    const struct pith_grid *inputs = &k->offer->opts->acts;
    if (!inputs->format || !k->rule->inputs || lists(k->rule->inputs, inputs)) return PITH_OK;
    pith_grid_format(inputs, text);
    return violation(k, "", "does not load inputs on %s from %s; it loads %s", text,
                     k->rule->container, k->rule->inputs);
}

/* A format for keys and values whose scales are stored. */
static enum pith_status check_cache(struct check *k)
{
    const struct pith_target_engine *e = k->target->engine;
    const struct pith_grid *kv = &k->offer->opts->kv;
    char text[PITH_GRID_TEXT];
    if (!kv->format || (e->stored && lists(e->stored, kv))) return PITH_OK;
    pith_grid_format(kv, text);
    if (!e->stored)
        return violation(k, "", "takes no KV-cache format from a checkpoint (%s); leave `kv` out",
                         text);
    return violation(k, "", "does not take a KV cache on %s from a checkpoint; it takes %s", text,
                     e->stored);
}

static enum pith_status check_options(struct check *k)
{
    const struct pith_offer *p = k->offer;
    PITH_TRY(check_inputs(k));
    if (p->opts->act_order_groups && !k->rule->act_order)
        PITH_TRY(violation(k, "",
                           "does not load groups permuted by act-order from %s; use act-order "
                           "with static groups, or gptq",
                           k->rule->container));
    if (p->opts->hadamard > 1 && !k->rule->online)
        PITH_TRY(violation(k, "",
                           "does not rotate the inputs of a linear at run time and would compute "
                           "another model; use `transform=rotate:folded`"));
    else if (p->opts->hadamard > 1 && k->target->tp > 1)
        PITH_TRY(violation(k, "",
                           "rotates the inputs of a linear on a single rank only; use tp=1 or "
                           "`transform=rotate:folded`"));
    PITH_TRY(check_cache(k));
    for (size_t i = p->plans->first[p->plans->layers]; i < p->count; i++)
        if (quantized(&p->linears[i]) && p->shape->ends.tied)
            PITH_TRY(
                violation(k, p->linears[i].module, "is tied to the embedding; leave it alone"));
    return PITH_OK;
}

static enum pith_status check_layer(struct check *k, uint32_t layer)
{
    const struct pith_layer_plan *plan = pith_plan(k->offer->plans, layer);
    for (uint32_t i = 0; i < plan->linears; i++) {
        struct linear l = linear_of(k, layer, i);
        const struct pith_load_rule *whole = k->rule;
        PITH_TRY(check_split(k, &l));
        if (!l.grid->format) continue;
        k->rule = rule_for(k, l.grid);
        const enum pith_status s = k->rule
                                       ? check_linear(k, &l)
                                       : violation(k, l.module, "does not load %s from %s",
                                                   l.grid->format->name, k->offer->container->name);
        k->rule = whole;
        PITH_TRY(s);
    }
    if (k->rule->fused) PITH_TRY(check_experts(k, layer));
    for (uint32_t i = 0; i < plan->sites; i++) {
        const struct pith_site_spec *site = &plan->site[i];
        if (k->rule->fused && site->expert == PITH_NO_PART) PITH_TRY(check_fused(k, layer, site));
        if (k->rule->fused) PITH_TRY(check_fused_blocks(k, layer, site));
        if (k->rule->tile_rows) PITH_TRY(check_tiles(k, layer, site));
    }
    return PITH_OK;
}

/* What the engine does not run on the GPU that is named. */
static enum pith_status check_gpu(struct check *k)
{
    const json_t *t;
    size_t i;
    json_t *texts = json_array();
    if (!texts) return pith_fail_nomem(k->err, "a message");
    enum pith_status s = pith_target_natives(k->target, k->offer, true, texts, k->err);
    json_array_foreach (texts, i, t)
        if (s == PITH_OK) s = violation(k, "", "%s", json_string_value(t));
    json_decref(texts);
    return s;
}

static enum pith_status run(struct check *k)
{
    const struct pith_target_engine *e = k->target->engine;
    const struct pith_offer *p = k->offer;
    const bool acts = p->opts->acts.format != NULL;
    for (size_t i = 0; i < p->count && !k->rule; i++)
        if (quantized(&p->linears[i])) k->rule = rule_for(k, &p->linears[i].grid);
    if (!k->rule && p->container->unloaded)
        return violation(k, "", "does not load %s: %s; it loads %s", p->container->name,
                         p->container->unloaded, e->advice);
    if (!k->rule)
        return violation(k, "", "does not load %s%s; it loads %s", p->container->name,
                         acts ? " with quantized activations" : "", e->advice);
    const size_t linears = p->plans->first[p->plans->layers];
    if (p->count < linears)
        return pith_fail(k->err, PITH_ARG, "%zu linears, but the model has %zu", p->count, linears);
    PITH_TRY(check_options(k));
    PITH_TRY(check_gpu(k));
    PITH_TRY(check_mixed(k));
    for (uint32_t layer = 0; layer < p->plans->layers; layer++) PITH_TRY(check_layer(k, layer));
    return PITH_OK;
}

enum pith_status pith_preflight(const struct pith_target *target, const struct pith_offer *offer,
                                struct pith_error *err)
{
    struct check k = {.target = target, .offer = offer, .err = err};
    return run(&k);
}

enum pith_status pith_preflight_all(const struct pith_target *target,
                                    const struct pith_offer *offer, json_t *problems,
                                    struct pith_error *err)
{
    struct check k = {.target = target, .offer = offer, .problems = problems, .err = err};
    return run(&k);
}

/* --- a model that was made -------------------------------------------------------------------- */

/* Names, grids and rotations of all linears of an open model, and in opts the widest; names are
 * owned. */
static enum pith_status describe(const struct pith_model *m, struct pith_linear_grid *linears,
                                 size_t count, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    enum { NAME = 256 };
    uint32_t layer = 0, widest = 0;
    for (size_t i = 0; i < count; i++) {
        char *name = pith_alloc(NAME, 1);
        if (!name) return pith_fail_nomem(err, "names");
        linears[i].module = name;
        while (layer < m->plans.layers && i >= m->plans.first[layer + 1]) layer++;
        if (layer == m->plans.layers) (void)snprintf(name, NAME, "%s", m->arch->names.head);
        else
            pith_plan_linear_name(&m->plans, layer, (uint32_t)(i - m->plans.first[layer]), name,
                                  NAME);
        opts->hadamard = 0;
        PITH_TRY(m->container->describe(m->container_state, m->checkpoint, name, &linears[i].grid,
                                        opts, err));
        linears[i].hadamard = opts->hadamard;
        if (opts->hadamard > widest) widest = opts->hadamard;
    }
    opts->hadamard = widest;
    return PITH_OK;
}

enum pith_status pith_preflight_model(const struct pith_model *m, const char *target,
                                      json_t *problems, json_t *notes, struct pith_error *err)
{
    struct pith_target t;
    PITH_TRY(pith_target_parse(target, &t, err));
    if (!m->container) return PITH_OK;
    const size_t count = m->plans.first[m->plans.layers] + 1;
    struct pith_linear_grid *linears = pith_zalloc(count, sizeof *linears);
    if (!linears) return pith_fail_nomem(err, "names");
    struct pith_container_opts opts = {.model_dtype = m->shape.dtype};
    enum pith_status s = describe(m, linears, count, &opts, err);
    const struct pith_offer offer = {&m->plans, &m->shape, m->container, &opts, linears, count};
    if (s == PITH_OK) s = pith_preflight_all(&t, &offer, problems, err);
    if (s == PITH_OK) s = pith_target_natives(&t, &offer, false, notes, err);
    for (size_t i = 0; i < count; i++) pith_free((char *)(uintptr_t)linears[i].module);
    pith_free(linears);
    return s;
}
