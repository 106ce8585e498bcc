/* What Hugging Face and llama.cpp call the same tensors, by the lists that an architecture gives.
 *
 * Source of the names: llama.cpp gguf-py/gguf/tensor_mapping.py. */
#include "io/gguf/model.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pith_gguf_arch_of(const char *hf, bool experts, const char *layers, struct pith_gguf_arch *out)
{
    for (size_t i = 0; pith_gguf_arch_at(i, out); i++)
        if (strcmp(out->hf, hf) == 0 && (!out->either || !out->experts == !experts) &&
            (!layers || strcmp(out->layers, layers) == 0)) {
            pith_gguf_arch_fill(out);
            return true;
        }
    return false;
}

static enum pith_status unknown(const struct pith_gguf *g, const char *name, bool experts,
                                struct pith_error *err)
{
    struct pith_str list = {0};
    struct pith_gguf_arch a;
    for (size_t i = 0; pith_gguf_arch_at(i, &a); i++) {
        const char *text = pith_str_text(&list);
        const char *at = text ? strstr(text, a.name) : NULL;
        const size_t n = strlen(a.name);
        while (at && (at[n] != '\0' && at[n] != ',')) at = strstr(at + 1, a.name);
        if (at) continue;
        if (list.len) pith_str_puts(&list, ", ");
        pith_str_puts(&list, a.name);
    }
    const enum pith_status s =
        pith_fail(err, PITH_UNSUPPORTED, "%s: architecture \"%.60s\"%s is not supported (%s)",
                  g->path, name, experts ? " with experts" : "", pith_str_text(&list));
    pith_str_free(&list);
    return s;
}

enum pith_status pith_gguf_arch_read(const struct pith_gguf *g, struct pith_gguf_arch *out,
                                     struct pith_error *err)
{
    char *name = NULL, key[96];
    uint64_t experts = 0, gating = 0;
    bool renamed = false;
    PITH_TRY(pith_gguf_get_text(g, "general.architecture", &name, err));
    if (!name)
        return pith_fail(err, PITH_FORMAT, "%s: key \"general.architecture\" is missing", g->path);
    (void)snprintf(key, sizeof key, "%.60s.expert_count", name);
    enum pith_status s = pith_gguf_get_uint(g, key, INT32_MAX, &experts, err);
    (void)snprintf(key, sizeof key, "%.60s.expert_gating_func", name);
    if (s == PITH_OK) s = pith_gguf_get_uint(g, key, INT32_MAX, &gating, err);
    if (s == PITH_OK) s = pith_gguf_get_bool(g, PITH_GGUF_RENAMED, &renamed, err);
    bool found = false;
    for (size_t i = 0; s == PITH_OK && !found && pith_gguf_arch_at(i, out); i++)
        found = strcmp(out->name, name) == 0 && !out->experts == !experts &&
                (!gating || !out->gating || gating == out->gating) && out->renamed == renamed;
    if (found) pith_gguf_arch_fill(out);
    if (s == PITH_OK && !found) s = unknown(g, name, experts != 0, err);
    pith_free(name);
    return s;
}

/* --- orders ----------------------------------------------------------------------------------- */

/* Rows behind the first `skip` are as many for each value head. */
static struct pith_stow by_value(const struct pith_gguf_sizes *s, uint64_t rows, uint32_t skip)
{
    struct pith_stow o = {0};
    if (!s->key_heads || s->value_heads == s->key_heads) return o;
    o.kind = PITH_STOW_PARTED;
    o.groups = s->key_heads;
    o.skip = skip;
    if (rows < skip || s->value_heads % s->key_heads || (rows - skip) % s->value_heads) return o;
    o.parts = s->value_heads / s->key_heads;
    o.even = (uint32_t)((rows - skip) / s->value_heads);
    return o;
}

struct pith_stow pith_gguf_order(enum pith_gguf_order order, const struct pith_gguf_sizes *s,
                                 uint64_t rows)
{
    struct pith_stow o = {0};
    switch (order) {
    case PITH_GGUF_STRAIGHT:
    case PITH_GGUF_HALVES: break;
    case PITH_GGUF_Q_HEADS: return pith_stow_interleaved(rows, s->heads);
    case PITH_GGUF_K_HEADS: return pith_stow_interleaved(rows, s->kv_heads);
    case PITH_GGUF_BY_HEAD:
        if (!s->heads || rows % (3 * (uint64_t)s->heads)) break;
        o = (struct pith_stow){.kind = PITH_STOW_PARTED,
                               .groups = s->heads,
                               .parts = 3,
                               .even = (uint32_t)(rows / 3 / s->heads)};
        break;
    case PITH_GGUF_BY_LATENT:
        o = (struct pith_stow){
            .kind = PITH_STOW_LATENT, .groups = s->heads, .parts = 2, .size = {s->nope, s->value}};
        break;
    case PITH_GGUF_BY_DELTA: {
        const uint32_t values = s->key_heads ? s->value_heads / s->key_heads * s->value_dim : 0;
        o = (struct pith_stow){.kind = PITH_STOW_PARTED,
                               .groups = s->key_heads,
                               .parts = 4,
                               .size = {s->key_dim, s->key_dim, values, values}};
        break;
    }
    case PITH_GGUF_BY_VALUE: return by_value(s, rows, 0);
    case PITH_GGUF_VALUES_LAST: return by_value(s, rows, 2 * s->key_heads * s->key_dim);
    case PITH_GGUF_VALUES_ACROSS:
        o = by_value(s, s->value_heads, 0);
        if (o.kind) o.kind = PITH_STOW_ACROSS;
        break;
    }
    return o;
}

bool pith_gguf_fits(const struct pith_stow *o, uint64_t rows, uint64_t cols, uint64_t block)
{
    const uint64_t pieces = pith_stow_pieces(o);
    return pith_stow_fits(o, rows) && (pieces == 1 || cols % (pieces * block) == 0);
}

bool pith_gguf_part(enum pith_gguf_order order, const struct pith_gguf_sizes *s,
                    struct pith_gguf_name *name)
{
    const uint64_t rows = name->shape[0], cols = name->shape[1];
    if (name->dims != 2) return false;
    if (order == PITH_GGUF_BY_DELTA || order == PITH_GGUF_HALVES) {
        const uint64_t z = order == PITH_GGUF_HALVES ? rows / 2
                                                     : (uint64_t)s->value_heads * s->value_dim;
        if (z >= rows) return false;
        name->shape[0] = rows - z;
        name->rest.dims = 2;
        name->rest.shape[0] = z;
        name->rest.shape[1] = cols;
        return true;
    }
    if (order != PITH_GGUF_BY_LATENT || name->type.block != 1) return false;
    name->dims = name->rest.dims = 3;
    name->shape[0] = name->rest.shape[0] = s->heads;
    name->shape[1] = name->rest.shape[2] = cols;
    name->shape[2] = s->nope;
    name->rest.shape[1] = s->value;
    return true;
}

/* --- names ------------------------------------------------------------------------------------ */

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

static bool equals(const char *text, const char *name, size_t len)
{
    return strlen(text) == len && memcmp(text, name, len) == 0;
}

/* Whether `name` is the pattern, which may have one "%u". */
static bool is_hf(const char *pattern, const char *name, size_t len, uint32_t *expert)
{
    const char *mark = strchr(pattern, '%');
    *expert = PITH_GGUF_NO_EXPERT;
    if (!mark) return equals(pattern, name, len);
    const size_t before = (size_t)(mark - pattern);
    unsigned number;
    if (len <= before || memcmp(pattern, name, before) != 0) return false;
    const char *rest = name + before;
    if (!read_layer(&rest, &number) || rest > name + len) return false;
    *expert = number;
    mark += strlen("%u.");
    return equals(mark, rest, (size_t)(name + len - rest));
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
    if (out->in && !read_layer(&out->at, &out->layer)) return false;
    if (out->in && out->dot && out->dot < out->at) out->dot = out->at + strlen(out->at);
    return out->dot != NULL;
}

/* What stands between the layer's number (or the beginning) and the last dot, or the end. */
static size_t length_of(const struct parts *p, bool whole)
{
    return whole ? strlen(p->at) : (size_t)(p->dot - p->at);
}

static const struct pith_gguf_pair *list_of(const struct pith_gguf_arch *arch,
                                            const struct parts *p, size_t *count)
{
    *count = p->in ? arch->inners : arch->outers;
    return p->in ? arch->inner : arch->outer;
}

bool pith_gguf_name(const struct pith_gguf_arch *arch, const char *hf, const char *ending,
                    char out[PITH_GGUF_NAME], struct pith_gguf_place *place)
{
    struct parts p;
    uint32_t expert = PITH_GGUF_NO_EXPERT;
    if (!take_apart(hf, arch->layers, &p)) return false;
    size_t count;
    const struct pith_gguf_pair *list = list_of(arch, &p, &count), *pair = NULL;
    for (int whole = 1; whole >= 0 && !pair; whole--) /* "gate.bias" before "gate" */
        for (size_t i = 0; i < count && !pair; i++)
            if (list[i].whole == (whole == 1) &&
                is_hf(list[i].hf, p.at, length_of(&p, list[i].whole), &expert))
                pair = &list[i];
    if (!pair) return false;
    char layer[16] = "";
    if (p.in) (void)snprintf(layer, sizeof layer, "blk.%u.", p.layer);
    const int n = snprintf(out, PITH_GGUF_NAME, "%s%s%s%s", layer, pair->gguf,
                           pair->whole ? "" : ".", pair->whole ? "" : ending);
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

void pith_gguf_place_bias(struct pith_gguf_place *place)
{
    place->filter = false;
    if (place->as == PITH_AS_PLUS_ONE) place->as = PITH_AS_SHOWN;
}

bool pith_gguf_module(const struct pith_gguf_arch *arch, const char *name, uint32_t expert,
                      char *out, size_t size, struct pith_gguf_place *place)
{
    struct parts p;
    bool is_rest = false;
    if (!take_apart(name, "blk.", &p)) return false;
    size_t count;
    const struct pith_gguf_pair *list = list_of(arch, &p, &count), *pair = NULL;
    for (size_t i = 0; i < count && !pair; i++) {
        const size_t len = length_of(&p, list[i].whole);
        is_rest = list[i].place.rest && equals(list[i].place.rest, p.at, len);
        if (is_rest || equals(list[i].gguf, p.at, len)) pair = &list[i];
    }
    if (!pair) return false;
    const int before = p.in ? snprintf(out, size, "%s%u.", arch->layers, p.layer) : 0;
    if (before < 0 || (size_t)before >= size) return false;
    const int n = put_module(pair, expert, out + before, size - (size_t)before);
    *place = pair->place;
    place->expert = place->stacked ? expert : PITH_GGUF_NO_EXPERT;
    place->is_rest = is_rest;
    place->whole = pair->whole;
    return n > 0 && (size_t)n < size - (size_t)before;
}
