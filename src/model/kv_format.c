/* Names of caches. */
#include "model/kv.h"

#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "num/input.h"

#include <stdio.h>
#include <string.h>

/* Whether heads of so many numbers can be kept on a grid. */
static enum pith_status check_rows(const struct pith_grid *g, uint32_t cols, struct pith_error *err)
{
    float level[PITH_ROW_LEVELS];
    struct pith_row_code code;
    if (cols > PITH_CODED)
        return pith_fail(err, PITH_UNSUPPORTED, "heads of %u numbers on a grid", (unsigned)cols);
    return pith_row_code_make(g, cols, level, &code, err);
}

static enum pith_status check_grid(const struct pith_grid *g, bool values,
                                   const struct pith_model *m, struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    if (!m) s = check_rows(g, g->group ? g->group : 64, err);
    for (uint32_t i = 0; m && i < m->plans.kinds && s == PITH_OK; i++) {
        const struct pith_state_spec *keeps = &m->plans.kind[i].state;
        if (keeps->kind == PITH_STATE_KV && !values) s = check_rows(g, keeps->key, err);
        else if (keeps->value) s = check_rows(g, keeps->value, err);
    }
    if (s != PITH_OK) return pith_fail_in(err, s, "the KV cache");
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
    *out = (struct pith_kv_part){.half = strcmp(name, "bf16") == 0};
    if (out->half || strcmp(name, "f32") == 0) return PITH_OK;
    if (pith_grid_parse(name, &out->grid, err) != PITH_OK || !out->grid.format)
        return pith_fail(err, PITH_ARG,
                         "unknown KV cache \"%s\": bf16 or f32, or a grid such as fp8_e4m3, "
                         "int8:token, int4:g32:asym",
                         name);
    pith_kv_grid_settle(&out->grid);
    return check_grid(&out->grid, values, m, err);
}

/* "k=A,v=B", in either order, into its two names. False for a name without them. */
static bool take_apart(const char *name, char part[2][PITH_GRID_TEXT])
{
    const char *comma = strchr(name, ',');
    if (!comma || strlen(name) >= PITH_GRID_TEXT || name[1] != '=' || comma[1] == '\0' ||
        comma[2] != '=')
        return false;
    const int first = name[0] == 'k' ? 0 : 1;
    if (name[0] == comma[1] || !strchr("kv", name[0]) || !strchr("kv", comma[1])) return false;
    memcpy(part[first], name + 2, (size_t)(comma - name) - 2);
    part[first][comma - name - 2] = '\0';
    strcpy(part[1 - first], comma + 3);
    return true;
}

/* A latent is key and value at once. */
static enum pith_status check_latents(const struct pith_kv_format *f, const struct pith_model *m,
                                      struct pith_error *err)
{
    for (uint32_t i = 0; m && i < m->plans.kinds; i++)
        if (m->plans.kind[i].state.kind == PITH_STATE_LATENT &&
            (f->k.half != f->v.half || !pith_grid_equal(&f->k.grid, &f->v.grid)))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "a latent is key and value at once: one format for both");
    return PITH_OK;
}

enum pith_status pith_kv_parse(const char *name, enum pith_dtype usual, const struct pith_model *m,
                               struct pith_kv_format *out, struct pith_error *err)
{
    char part[2][PITH_GRID_TEXT];
    *out = pith_kv_floats(usual);
    if (!name && !(m && m->kv_grid.format)) return PITH_OK;
    if (!name) {
        out->k = out->v = (struct pith_kv_part){.grid = m->kv_grid};
        pith_kv_grid_settle(&out->k.grid);
        pith_kv_grid_settle(&out->v.grid);
        PITH_TRY(check_grid(&out->k.grid, false, m, err));
        return check_grid(&out->v.grid, true, m, err);
    }
    const bool apart = take_apart(name, part);
    if (!apart && (strncmp(name, "k=", 2) == 0 || strncmp(name, "v=", 2) == 0))
        return pith_fail(err, PITH_ARG, "KV cache \"%s\": keys and values each once, k=GRID,v=GRID",
                         name);
    PITH_TRY(parse_part(apart ? part[0] : name, false, m, &out->k, err));
    PITH_TRY(parse_part(apart ? part[1] : name, true, m, &out->v, err));
    return check_latents(out, m, err);
}

static void part_name(const struct pith_kv_part *p, char text[PITH_GRID_TEXT])
{
    if (p->grid.format) pith_grid_format(&p->grid, text);
    else strcpy(text, p->half ? "bf16" : "f32");
}

void pith_kv_name(const struct pith_kv_format *f, char text[PITH_KV_TEXT])
{
    char k[PITH_GRID_TEXT], v[PITH_GRID_TEXT];
    part_name(&f->k, k);
    part_name(&f->v, v);
    if (strcmp(k, v) == 0) strcpy(text, k);
    else snprintf(text, PITH_KV_TEXT, "k=%s,v=%s", k, v);
}

/* --- by layer --------------------------------------------------------------------------------- */

void pith_kv_format_free(struct pith_kv_format *f)
{
    pith_free((void *)(uintptr_t)f->layer);
    f->layer = NULL;
}

/* A name, or one side's alone beside what the other has now. */
static enum pith_status parse_over(const char *name, const struct pith_model *m,
                                   struct pith_kv_format *f, struct pith_error *err)
{
    char both[PITH_KV_TEXT], now[PITH_GRID_TEXT];
    const bool k = strncmp(name, "k=", 2) == 0, v = strncmp(name, "v=", 2) == 0;
    struct pith_kv_format parsed;
    if ((k || v) && !strchr(name, ',') && strlen(name) < PITH_GRID_TEXT) {
        part_name(k ? &f->v : &f->k, now);
        snprintf(both, sizeof both, k ? "%s,v=%s" : "%s,k=%s", name, now);
        name = both;
    }
    PITH_TRY(pith_kv_parse(name, PITH_F32, m, &parsed, err));
    *f = parsed;
    return PITH_OK;
}

static enum pith_status apply(const char *text, const struct pith_model *m,
                              struct pith_kv_format *layer, struct pith_error *err)
{
    char pattern[256], module[256];
    const char *equals = strchr(text, '=');
    bool used = false;
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof pattern)
        return pith_fail(err, PITH_ARG, "--kv-layer %s: expected PATTERN=GRID", text);
    memcpy(pattern, text, (size_t)(equals - text));
    pattern[equals - text] = '\0';
    if (!m) {
        struct pith_kv_format any = pith_kv_floats(PITH_F32);
        return pith_fail_in(err, parse_over(equals + 1, NULL, &any, err), "--kv-layer");
    }
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        pith_plan_name(&m->plans, i, "", module, sizeof module);
        const size_t n = strlen(module);
        if (n && module[n - 1] == '.') module[n - 1] = '\0';
        if (!pith_module_match(pattern, module)) continue;
        PITH_TRY(pith_fail_in(err, parse_over(equals + 1, m, &layer[i], err), "--kv-layer"));
        const enum pith_state_kind kind = pith_plan(&m->plans, i)->state.kind;
        used = used || kind == PITH_STATE_KV || kind == PITH_STATE_LATENT;
    }
    if (used) return PITH_OK;
    pith_plan_name(&m->plans, 0, "", module, sizeof module);
    return pith_fail(err, PITH_ARG,
                     "--kv-layer %s matches no layer that keeps keys and values; names look like "
                     "%.*s, or 0",
                     text, (int)(strlen(module) - 1), module);
}

enum pith_status pith_kv_choose(const struct pith_kv_wish *w, enum pith_dtype usual,
                                const struct pith_model *m, struct pith_kv_format *out,
                                struct pith_error *err)
{
    struct pith_kv_format f, *layer = NULL;
    *out = (struct pith_kv_format){0};
    PITH_TRY(pith_kv_parse(w->name, usual, m, &f, err));
    if (m && w->layers.count) {
        layer = pith_alloc(m->plans.layers, sizeof *layer);
        if (!layer) return pith_fail_nomem(err, "the layers of a KV cache");
        for (uint32_t i = 0; i < m->plans.layers; i++) layer[i] = f;
    }
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < w->layers.count && s == PITH_OK; i++)
        s = apply(w->layers.item[i], m, layer, err);
    f.layer = layer;
    *out = f;
    if (s != PITH_OK) pith_kv_format_free(out);
    return s;
}
