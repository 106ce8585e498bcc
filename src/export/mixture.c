#include "export/gguf.h"
#include "export/mixture.h"

#include "base/mem.h"
#include "io/gguf/model.h"
#include "num/gguf/kquant.h"

#include <stdio.h>
#include <string.h>

/* Which layers; n is their number. */
enum layers {
    ALL,
    TWO,          /* the first two */
    FOUR,         /* the first four */
    EIGHTH,       /* the first n / 8 */
    SIXTEENTH,    /* the first n / 16 */
    MORE,         /* the first and last eighth, and every third between */
    SHARED,       /* all, where at least four heads share keys and values */
    EIGHT_EXPERTS /* all, of a mixture of eight experts */
};

static const struct pith_mixture mixtures[] = {
#define PITH_MIXTURE(format, letter, file_type) {format, letter, file_type},
#define PITH_MIX(format, letter, name, layers, type)
#define PITH_MIX_LARGE(from, to)
#define PITH_FALL_BACK(from, to)
#define PITH_IMPLIED(element, format)
#include "export/mixtures.def"
#undef PITH_MIXTURE
#undef PITH_MIX
};

static const struct {
    const char *format;
    char letter;
    const char *name;
    enum layers layers;
    const char *type;
} mixes[] = {
#define PITH_MIXTURE(format, letter, file_type)
#define PITH_MIX(format, letter, name, layers, type) {format, letter, name, layers, type},
#include "export/mixtures.def"
#undef PITH_MIX
#undef PITH_MIX_LARGE
};

/* One format for another. */
struct swap {
    const char *from, *to;
};

static const struct swap large[] = {
#define PITH_MIX(format, letter, name, layers, type)
#define PITH_MIX_LARGE(from, to) {from, to},
#include "export/mixtures.def"
#undef PITH_MIX_LARGE
#undef PITH_FALL_BACK
};

static const struct swap fall_backs[] = {
#define PITH_MIX_LARGE(from, to)
#define PITH_FALL_BACK(from, to) {from, to},
#include "export/mixtures.def"
#undef PITH_FALL_BACK
#undef PITH_IMPLIED
};

static const struct swap implied[] = {
#define PITH_FALL_BACK(from, to)
#define PITH_IMPLIED(element, format) {element, format},
#include "export/mixtures.def"
#undef PITH_MIXTURE
#undef PITH_MIX
#undef PITH_MIX_LARGE
#undef PITH_FALL_BACK
#undef PITH_IMPLIED
};

static const char *swapped(const struct swap *rows, size_t count, const char *from)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].from, from) == 0) return rows[i].to;
    return NULL;
}

static struct pith_grid grid_of(const char *format)
{
    const struct pith_format *f = pith_format_find(format);
    return (struct pith_grid){.format = f, .granularity = PITH_PER_GROUP, .group = f->block};
}

const struct pith_mixture *pith_mixture_find(const struct pith_format *f, char letter)
{
    for (size_t i = 0; f && i < PITH_COUNT(mixtures); i++)
        if (mixtures[i].letter == letter && strcmp(mixtures[i].format, f->name) == 0)
            return &mixtures[i];
    return NULL;
}

static bool among(enum layers which, const struct pith_shape *s, uint32_t layer)
{
    const uint32_t n = s->layers, eighth = n / 8;
    switch (which) {
    case ALL: return true;
    case TWO: return layer < 2;
    case FOUR: return layer < 4;
    case EIGHTH: return layer < eighth;
    case SIXTEENTH: return layer < n / 16;
    case MORE:
        return layer < eighth || layer >= (uint32_t)(7 * (uint64_t)n / 8) ||
               (layer - eighth) % 3 == 2;
    case SHARED: return s->heads / s->kv_heads >= 4;
    case EIGHT_EXPERTS: return s->moe.experts == 8;
    }
    return false;
}

/* What llama.cpp takes for a model of 70 billion weights, by its layers. */
static bool is_large(const struct pith_model *m)
{
    return m->shape.layers == 80 && m->arch->gguf.large &&
           (m->arch->gguf.biased || m->shape.heads != m->shape.kv_heads);
}

/* What llama.cpp calls a module within its layer: "attn_v"; "" for one that it has no name for.
 * Experts' and shared ones' linears are typed as those of a layer without ("ffn_down"). */
static void part_name(const struct pith_model *m, const char *module, char name[PITH_GGUF_NAME])
{
    char tensor[PITH_GGUF_NAME];
    struct pith_gguf_place place;
    name[0] = '\0';
    if (pith_gguf_module_name(m, module, tensor, &place))
        (void)sscanf(tensor, "blk.%*u.%63[^.]", name);
    char *kind = strstr(name, "_exps");
    if (!kind) kind = strstr(name, "_shexp");
    if (kind) *kind = '\0';
}

struct pith_grid pith_mixture_grid(const struct pith_mixture *m, const struct pith_model *model,
                                   uint32_t layer, const char *module)
{
    const char *type = NULL;
    char name[PITH_GGUF_NAME];
    part_name(model, module, name);
    for (size_t i = 0; i < PITH_COUNT(mixes) && !type; i++)
        if (strcmp(mixes[i].name, name) == 0 && mixes[i].letter == m->letter &&
            strcmp(mixes[i].format, m->format) == 0 && among(mixes[i].layers, &model->shape, layer))
            type = mixes[i].type;
    if (!type) type = m->format;
    const char *more = strcmp(name, "attn_v") == 0 && is_large(model)
                           ? swapped(large, PITH_COUNT(large), type)
                           : NULL;
    return grid_of(more ? more : type);
}

static bool is_whole(const struct pith_format *f, uint32_t cols)
{
    const struct pith_kquant *t = pith_kquant_find(f->name);
    return !t || cols % t->elements == 0;
}

bool pith_mixture_fall_back(struct pith_grid *g, uint32_t cols)
{
    if (!g->format || g->format->kind != PITH_KIND_GGUF || is_whole(g->format, cols)) return false;
    const char *to = swapped(fall_backs, PITH_COUNT(fall_backs), g->format->name);
    *g = to && is_whole(pith_format_find(to), cols) ? grid_of(to) : (struct pith_grid){0};
    return true;
}

bool pith_mixture_implied(const struct pith_grid *from, struct pith_grid *out)
{
    if (!from->format) return false;
    const char *to = swapped(implied, PITH_COUNT(implied), from->format->name);
    if (to) *out = grid_of(to);
    return to != NULL;
}
