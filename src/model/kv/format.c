/* Names of caches. */
#include "model/kv/kv.h"

#include "backend/cache/key_offset.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "num/input.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether heads of so many numbers can be stored as codes. */
static enum pith_status check_rows(const struct pith_kv_part *p, uint32_t cols,
                                   struct pith_error *err)
{
    float level[PITH_ROW_LEVELS];
    struct pith_row_code code;
    if (cols > PITH_CODED)
        return pith_fail(err, PITH_UNSUPPORTED, "heads of %u numbers on a grid", (unsigned)cols);
    return pith_kv_code(p, false, cols, level, &code, err);
}

static enum pith_status check_heads(const struct pith_kv_part *p, bool values,
                                    const struct pith_model *m, struct pith_error *err)
{
    const struct pith_grid *g = &p->grid;
    enum pith_status s = PITH_OK;
    if (!m) s = check_rows(p, g->group ? g->group : 64, err);
    for (uint32_t i = 0; m && i < m->plans.kinds && s == PITH_OK; i++) {
        const struct pith_state_spec *keeps = &m->plans.kind[i].state;
        if (keeps->kind == PITH_STATE_KV && !values) s = check_rows(p, keeps->key, err);
        else if (keeps->value) s = check_rows(p, keeps->value, err);
    }
    if (s != PITH_OK) return pith_fail_in(err, s, "the KV cache");
    if (!g->format) return PITH_OK;
    /* FP8 is often used with a scale of 1; integers without their scale mean nothing. */
    if (m && g->is_static && g->format->kind == PITH_KIND_INT && !m->kv_grid.format)
        return pith_fail(err, PITH_ARG,
                         "%s: has no scales for keys and values; int8:token needs none",
                         m->checkpoint->dir);
    return PITH_OK;
}

static enum pith_status parse_part(const char *name, bool values, const struct pith_model *m,
                                   struct pith_kv_part *out, struct pith_error *err)
{
    static const struct {
        const char *name;
        struct pith_kv_part part;
    } named[] = {
        {"f32", {0}}, {"bf16", {.floats = PITH_KV_BF16}}, {"f16", {.floats = PITH_KV_F16}}};
    *out = (struct pith_kv_part){.row = pith_kv_row_find(name)};
    for (size_t i = 0; i < PITH_COUNT(named); i++) {
        if (strcasecmp(name, named[i].name) != 0) continue;
        *out = named[i].part;
        return PITH_OK;
    }
    if (!out->row && (pith_grid_parse(name, &out->grid, err) != PITH_OK || !out->grid.format)) {
        char kinds[PITH_KV_NAMES];
        pith_kv_row_names(NULL, kinds);
        return pith_fail(err, PITH_ARG,
                         "unknown KV cache \"%s\": bf16, f16 or f32, %s, or a grid such as "
                         "fp8_e4m3, int8:token, int4:g32:asym",
                         name, kinds);
    }
    if (out->grid.format) pith_kv_grid_settle(&out->grid);
    return check_heads(out, values, m, err);
}

/* What a name says: "GRID", "k=GRID", "v=GRID", each side once, and "rotate", "rotate=k" or
 * "rotate=v", "offset" or "offset=middle", with commas between. */
struct parsed {
    struct pith_kv_part part[2]; /* of keys and of values */
    bool given[2], rotate[2];
    enum pith_kv_offset offset;
    uint32_t sink, recent;
    bool states; /* they were named */
    enum pith_state_form form;
};

static enum pith_status parse_sides(const char *item, const struct pith_model *m,
                                    struct parsed *out, struct pith_error *err)
{
    const bool k = strncasecmp(item, "k=", 2) == 0, v = strncasecmp(item, "v=", 2) == 0;
    const char *name = k || v ? item + 2 : item;
    for (int i = 0; i < 2; i++) {
        if (i == 0 ? v : k) continue;
        if (out->given[i])
            return pith_fail(err, PITH_ARG,
                             "KV cache: \"%s\": keys and values each once, k=GRID,v=GRID", item);
        PITH_TRY(parse_part(name, i == 1, m, &out->part[i], err));
        out->given[i] = true;
    }
    return PITH_OK;
}

/* "sink=N": 1 to 2^20 positions. */
static bool parse_count(const char *item, const char *word, uint32_t *out)
{
    const size_t n = strlen(word);
    uint32_t count = 0;
    if (strncasecmp(item, word, n) != 0) return false;
    const char *c = item + n;
    for (; *c >= '0' && *c <= '9' && count < 1u << 20; c++)
        count = 10 * count + (uint32_t)(*c - '0');
    if (*c != '\0' || count == 0 || count > 1u << 20) return false;
    *out = count;
    return true;
}

static const char *const state_forms[PITH_FORM_COUNT] = {"f32", "bf16", "fp8_e4m3", "fp8_e5m2"};

static bool parse_states(const char *item, struct parsed *out)
{
    if (strncasecmp(item, "state=", 6) != 0) return false;
    for (unsigned i = 0; i < PITH_FORM_COUNT; i++) {
        if (strcasecmp(item + 6, state_forms[i]) != 0) continue;
        out->states = true;
        out->form = (enum pith_state_form)i;
        return true;
    }
    return false;
}

static const char *const offset_names[] = {
    [PITH_KV_BIAS] = "offset", [PITH_KV_MIDDLE] = "offset=middle"};

static bool parse_offset(const char *item, struct parsed *out)
{
    for (unsigned i = PITH_KV_BIAS; i < PITH_COUNT(offset_names); i++) {
        if (strcasecmp(item, offset_names[i]) != 0) continue;
        out->offset = (enum pith_kv_offset)i;
        return true;
    }
    return false;
}

static enum pith_status parse_items(const char *name, const struct pith_model *m,
                                    struct parsed *out, struct pith_error *err)
{
    *out = (struct parsed){0};
    for (bool more = true; more;) {
        char item[PITH_GRID_TEXT];
        const size_t n = strcspn(name, ",");
        if (n >= sizeof item) return pith_fail(err, PITH_ARG, "KV cache \"%s\": too long", name);
        memcpy(item, name, n);
        item[n] = '\0';
        more = name[n] != '\0';
        name += n + more;
        const bool rotate = strcasecmp(item, "rotate") == 0;
        const bool k = strcasecmp(item, "rotate=k") == 0, v = strcasecmp(item, "rotate=v") == 0;
        if (rotate || k) out->rotate[0] = true;
        if (rotate || v) out->rotate[1] = true;
        if (parse_count(item, "sink=", &out->sink) || parse_count(item, "recent=", &out->recent))
            continue;
        if (parse_states(item, out) || parse_offset(item, out)) continue;
        if (!rotate && !k && !v) PITH_TRY(parse_sides(item, m, out, err));
    }
    for (int i = 0; i < 2; i++)
        out->part[i].rotate = out->rotate[i] || (pith_kv_needs(&out->part[i]) & PITH_KV_ROTATED);
    out->part[0].offset = out->offset;
    return PITH_OK;
}

/* Kinds whose keys become codes a page at a time. */
static bool by_page(const struct pith_kv_kind *kind)
{
    return kind->least_recent > 0;
}

/* A latent is key and value at once. */
static enum pith_status check_latents(const struct pith_kv_format *f, const struct pith_model *m,
                                      struct pith_error *err)
{
    for (uint32_t i = 0; m && i < m->plans.kinds; i++) {
        const struct pith_state_spec *s = &m->plans.kind[i].state;
        if (s->kind != PITH_STATE_LATENT) continue;
        if (f->k.floats != f->v.floats || f->k.row != f->v.row ||
            !pith_grid_equal(&f->k.grid, &f->v.grid))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "a latent is key and value at once: one format for both");
        if (!(pith_kv_needs(&f->k) & PITH_KV_LEVELS) &&
            !(pith_kv_by_page(&f->k) && s->key == s->value))
            continue;
        char kinds[PITH_KV_NAMES];
        pith_kv_row_names(by_page, kinds);
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: latents are stored on other grids, or as %s where they have a rotary "
                         "part",
                         f->k.row->kind->name, kinds);
    }
    return PITH_OK;
}

/* The kind of either side that needs levels; NULL: neither does. */
static const struct pith_kv_kind *levels_of(const struct pith_kv_part *k,
                                            const struct pith_kv_part *v)
{
    if (pith_kv_needs(k) & PITH_KV_LEVELS) return k->row->kind;
    return pith_kv_needs(v) & PITH_KV_LEVELS ? v->row->kind : NULL;
}

/* Heads that a Hadamard matrix of a power of two can rotate. */
static enum pith_status check_rotation(const struct pith_kv_format *f, const struct pith_model *m,
                                       struct pith_error *err)
{
    static const struct pith_kv_part none = {0};
    const struct pith_kv_kind *levels =
        levels_of(f->k.rotate ? &f->k : &none, f->v.rotate ? &f->v : &none);
    if (levels)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "rotate: %s's levels are of keys and values as they are", levels->name);
    for (uint32_t i = 0; m && i < m->plans.kinds; i++) {
        const struct pith_state_spec *s = &m->plans.kind[i].state;
        const uint32_t key = f->k.rotate ? s->key : 1, value = f->v.rotate ? s->value : 1;
        if (s->kind == PITH_STATE_LATENT && (f->k.rotate || f->v.rotate))
            return pith_fail(err, PITH_UNSUPPORTED, "rotate: latents are not rotated");
        if (s->kind != PITH_STATE_KV) continue;
        if ((key & (key - 1)) != 0 || (value & (value - 1)) != 0)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "rotate: heads of %u numbers, not of a power of two",
                             (key & (key - 1)) != 0 ? key : value);
    }
    return PITH_OK;
}

/* Keys that something is known of, and that fit where it is taken out. */
static enum pith_status check_offset(const struct pith_kv_format *f, const struct pith_model *m,
                                     struct pith_error *err)
{
    if (!f->k.offset) return PITH_OK;
    if (pith_kv_needs(&f->k) & PITH_KV_LEVELS)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "offset: %s's levels lie around a middle of each channel",
                         f->k.row->kind->name);
    for (uint32_t i = 0; m && i < m->plans.kinds; i++) {
        const struct pith_state_spec *s = &m->plans.kind[i].state;
        if (s->kind == PITH_STATE_LATENT)
            return pith_fail(err, PITH_UNSUPPORTED, "offset: latents are stored whole");
        if (s->kind == PITH_STATE_KV && s->key > PITH_OFFSET_DIM)
            return pith_fail(err, PITH_UNSUPPORTED, "offset: keys of %u numbers", s->key);
    }
    if (!m || f->k.offset != PITH_KV_BIAS || pith_kv_has_biases(&m->plans)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "offset: keys of %s have no biases, or a norm behind them; "
                     "offset=middle is calibrated",
                     m->checkpoint->dir);
}

bool pith_kv_spreads(const struct pith_kv_part *keys)
{
    const struct pith_kv_row *row = keys->row;
    const bool few = row ? row->bits < 8 && !row->kind->channels
                         : keys->grid.format && keys->grid.format->bits < 8;
    return few && !keys->offset;
}

static enum pith_status check_states(const struct parsed *parsed, const struct pith_model *m,
                                     struct pith_error *err)
{
    for (uint32_t i = 0; m && i < m->plans.kinds; i++)
        if (m->plans.kind[i].state.kind == PITH_STATE_RECURRENT) return PITH_OK;
    if (!m || !parsed->states) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "state=: %s keeps no recurrent states",
                     m->checkpoint->dir);
}

enum pith_status pith_kv_parse(const char *name, enum pith_dtype usual, const struct pith_model *m,
                               struct pith_kv_format *out, struct pith_error *err)
{
    struct parsed parsed;
    *out = pith_kv_floats(usual);
    if (!name && !(m && m->kv_grid.format)) return PITH_OK;
    if (!name) {
        out->k = out->v = (struct pith_kv_part){.grid = m->kv_grid};
        pith_kv_grid_settle(&out->k.grid);
        pith_kv_grid_settle(&out->v.grid);
        PITH_TRY(check_heads(&out->k, false, m, err));
        return check_heads(&out->v, true, m, err);
    }
    PITH_TRY(parse_items(name, m, &parsed, err));
    if (!parsed.given[0] || !parsed.given[1])
        return pith_fail(err, PITH_ARG, "KV cache \"%s\": keys and values each once, k=GRID,v=GRID",
                         name);
    out->k = parsed.part[0];
    out->v = parsed.part[1];
    out->sink = parsed.sink;
    out->recent = parsed.recent;
    out->states = parsed.form;
    PITH_TRY(check_states(&parsed, m, err));
    PITH_TRY(check_latents(out, m, err));
    PITH_TRY(check_offset(out, m, err));
    return check_rotation(out, m, err);
}

enum pith_status pith_attn_parse(const char *name, struct pith_input *out, struct pith_error *err)
{
    struct pith_grid *g = &out->grid;
    *out = (struct pith_input){.scale = 1.0f};
    if (!name) return PITH_OK;
    PITH_TRY(pith_fail_in(err, pith_grid_parse(name, g, err), "`attn`"));
    const bool by_token = g->format && g->granularity == PITH_PER_TOKEN;
    pith_kv_grid_settle(g);
    if (g->format && g->format->kind == PITH_KIND_FLOAT && g->format->bits == 8 &&
        (by_token || g->granularity == PITH_PER_TENSOR))
        return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "`attn` %s: fp8_e4m3 or fp8_e5m2, or with a scale of each head of a token, "
                     "fp8_e4m3:token",
                     name);
}

static void part_name(const struct pith_kv_part *p, char text[PITH_GRID_TEXT])
{
    static const char *const floats[] = {"f32", "bf16", "f16"};
    if (p->row) snprintf(text, PITH_GRID_TEXT, "%s", p->row->name);
    else if (p->grid.format) pith_grid_format(&p->grid, text);
    else strcpy(text, floats[p->floats]);
}

void pith_kv_name(const struct pith_kv_format *f, char text[PITH_KV_TEXT])
{
    char k[PITH_GRID_TEXT], v[PITH_GRID_TEXT];
    static const char *const rotations[2][2] = {{"", ",rotate=v"}, {",rotate=k", ",rotate"}};
    const bool rotated[] = {pith_kv_needs(&f->k) & PITH_KV_ROTATED,
                            pith_kv_needs(&f->v) & PITH_KV_ROTATED}; /* by their names */
    const char *rotate = rotations[f->k.rotate && !rotated[0]][f->v.rotate && !rotated[1]];
    part_name(&f->k, k);
    part_name(&f->v, v);
    int n = strcmp(k, v) == 0 ? snprintf(text, PITH_KV_TEXT, "%s%s", k, rotate)
                              : snprintf(text, PITH_KV_TEXT, "k=%s,v=%s%s", k, v, rotate);
    if (f->k.offset)
        n += snprintf(text + n, PITH_KV_TEXT - (size_t)n, ",%s", offset_names[f->k.offset]);
    if (f->sink) n += snprintf(text + n, PITH_KV_TEXT - (size_t)n, ",sink=%u", f->sink);
    if (f->recent) n += snprintf(text + n, PITH_KV_TEXT - (size_t)n, ",recent=%u", f->recent);
    if (f->states)
        snprintf(text + n, PITH_KV_TEXT - (size_t)n, ",state=%s", state_forms[f->states]);
}

uint32_t pith_kv_recent(const struct pith_kv_format *layer)
{
    const uint32_t least = layer->k.row ? layer->k.row->kind->least_recent : 0;
    return layer->recent < least ? least : layer->recent;
}

uint32_t pith_kv_sink(const struct pith_kv_format *layer)
{
    const uint32_t k = layer->k.row ? layer->k.row->kind->least_sink : 0,
                   v = layer->v.row ? layer->v.row->kind->least_sink : 0, least = k > v ? k : v;
    return layer->sink < least ? least : layer->sink;
}

uint32_t pith_kv_most_sink(const struct pith_kv_format *f, uint32_t layers)
{
    uint32_t most = pith_kv_sink(f);
    for (uint32_t i = 0; f->layer && i < layers; i++)
        if (pith_kv_sink(&f->layer[i]) > most) most = pith_kv_sink(&f->layer[i]);
    return most;
}

uint32_t pith_kv_most_recent(const struct pith_kv_format *f, uint32_t layers)
{
    uint32_t most = pith_kv_recent(f);
    for (uint32_t i = 0; f->layer && i < layers; i++)
        if (pith_kv_recent(&f->layer[i]) > most) most = pith_kv_recent(&f->layer[i]);
    return most;
}

/* --- by layer --------------------------------------------------------------------------------- */

void pith_kv_format_free(struct pith_kv_format *f)
{
    pith_free((void *)(uintptr_t)f->layer);
    f->layer = NULL;
}

/* A name, or one side's alone: the other then stays. */
static enum pith_status parse_over(const char *name, const struct pith_model *m,
                                   struct pith_kv_format *f, struct pith_error *err)
{
    struct parsed parsed;
    struct pith_kv_format over = *f;
    PITH_TRY(parse_items(name, m, &parsed, err));
    if (!parsed.given[0] && !parsed.given[1])
        return pith_fail(err, PITH_ARG, "KV cache \"%s\": no format", name);
    if (parsed.sink || parsed.recent || parsed.states)
        return pith_fail(err, PITH_ARG,
                         "KV cache \"%s\": sink, recent and state are for all layers", name);
    if (parsed.given[0]) over.k = parsed.part[0];
    if (parsed.given[1]) over.v = parsed.part[1];
    PITH_TRY(check_latents(&over, m, err));
    PITH_TRY(check_offset(&over, m, err));
    PITH_TRY(check_rotation(&over, m, err));
    *f = over;
    return PITH_OK;
}

static enum pith_status apply(const char *text, const struct pith_model *m,
                              struct pith_kv_format *layer, struct pith_error *err)
{
    char pattern[256], module[256];
    const char *equals = strchr(text, '=');
    bool used = false;
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof pattern)
        return pith_fail(err, PITH_ARG, "`kv_layers` %s: expected PATTERN=GRID", text);
    memcpy(pattern, text, (size_t)(equals - text));
    pattern[equals - text] = '\0';
    if (!m) {
        struct pith_kv_format any = pith_kv_floats(PITH_F32);
        return pith_fail_in(err, parse_over(equals + 1, NULL, &any, err), "`kv_layers`");
    }
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        pith_plan_name(&m->plans, i, "", module, sizeof module);
        const size_t n = strlen(module);
        if (n && module[n - 1] == '.') module[n - 1] = '\0';
        if (!pith_module_match(pattern, module)) continue;
        PITH_TRY(pith_fail_in(err, parse_over(equals + 1, m, &layer[i], err), "`kv_layers`"));
        const enum pith_state_kind kind = pith_plan(&m->plans, i)->state.kind;
        used = used || kind == PITH_STATE_KV || kind == PITH_STATE_LATENT;
    }
    if (used) return PITH_OK;
    pith_plan_name(&m->plans, 0, "", module, sizeof module);
    return pith_fail(err, PITH_ARG,
                     "`kv_layers` %s matches no layer that keeps keys and values; names look like "
                     "%.*s, or 0",
                     text, (int)(strlen(module) - 1), module);
}

enum pith_status pith_kv_choose(const struct pith_kv_wish *w, enum pith_dtype usual,
                                const struct pith_model *m, struct pith_kv_format *out,
                                struct pith_error *err)
{
    struct pith_kv_format f, *layer = NULL;
    *out = (struct pith_kv_format){0};
    if (w->base) f = *w->base;
    else PITH_TRY(pith_kv_parse(w->name, usual, m, &f, err));
    if (m && (w->layers.count || f.layer)) {
        layer = pith_alloc(m->plans.layers, sizeof *layer);
        if (!layer) return pith_fail_nomem(err, "the layers of a KV cache");
        for (uint32_t i = 0; i < m->plans.layers; i++) layer[i] = *pith_kv_of(&f, i);
    }
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < w->layers.count && s == PITH_OK; i++)
        s = apply(w->layers.item[i], m, layer, err);
    f.layer = layer;
    *out = f;
    if (s != PITH_OK) pith_kv_format_free(out);
    return s;
}
