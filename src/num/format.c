/* The registry of formats and the table of storage types. */
#include "num/format.h"

#include "base/mem.h"
#include "num/codec.h"
#include "num/elements/elements.h"
#include "num/gguf/kquant.h"

#include <string.h>

static const struct pith_format formats[] = {
#define PITH_ELEMENT(id, name, aliases, summary, kind, bits, e, m, max, decode, encode, codec)     \
    {id,  name, aliases, summary, PITH_KIND_##kind, bits,   e,    m,                               \
     max, 1,    NULL,    NULL,    decode,           encode, codec},
#define PITH_READ(id, name, summary, bits, max, decode)                                            \
    {id,  name, "",   summary, PITH_KIND_CODEBOOK, bits, 0,                                        \
     0,   max,  1,    NULL,    NULL,               decode, NULL,                                   \
     &pith_codec_values},
#define PITH_BLOCK(id, name, aliases, summary, bits, max, block, element, scale)                   \
    {id,    name, aliases, summary, PITH_KIND_BLOCK, bits, 0, 0, max, block, element,              \
     scale, NULL, NULL,    NULL},
#define PITH_GGUF(id, name, aliases, summary, bits, max, block, element)                           \
    {id,  name,  aliases, summary, PITH_KIND_GGUF, bits, 0,   0,                                   \
     max, block, element, "f16",   NULL,           NULL, NULL},
#define WALK(number, width, words, suffix, whose, code)                                            \
    {.id = number,                                                                                 \
     .name = "trellis" #width suffix,                                                              \
     .aliases = "",                                                                                \
     .summary = whose ": " words " by a trellis of 2^16 states, code " code,                       \
     .kind = PITH_KIND_TRELLIS,                                                                    \
     .bits = width,                                                                                \
     .max = 4.0f,                                                                                  \
     .block = 1,                                                                                   \
     .codec = &pith_codec_trellis},
#define PITH_TRELLIS(id, ...)                                                                      \
    WALK(id, 1, "1 bit", __VA_ARGS__)                                                              \
    WALK((id) + 1, 2, "2 bits", __VA_ARGS__)                                                       \
    WALK((id) + 2, 3, "3 bits", __VA_ARGS__)                                                       \
    WALK((id) + 3, 4, "4 bits", __VA_ARGS__)                                                       \
    WALK((id) + 4, 5, "5 bits", __VA_ARGS__)                                                       \
    WALK((id) + 5, 6, "6 bits", __VA_ARGS__)                                                       \
    WALK((id) + 6, 7, "7 bits", __VA_ARGS__)                                                       \
    WALK((id) + 7, 8, "8 bits", __VA_ARGS__)
#include "num/formats.def"
#undef PITH_ELEMENT
#undef PITH_READ
#undef PITH_BLOCK
#undef PITH_GGUF
#undef PITH_TRELLIS
#undef WALK
};

static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
#define PITH_DTYPE(id, name, bits) [PITH_##id] = {name, bits},
#include "num/dtypes.def"
#undef PITH_DTYPE
};
_Static_assert(PITH_COUNT(dtypes) == PITH_DTYPE_COUNT, "every dtype has its row");

const struct pith_format *pith_formats(size_t *count)
{
    *count = PITH_COUNT(formats);
    return formats;
}

/* ASCII only: what is a letter must not depend on the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool among(const char *words, const char *name)
{
    if (!*name) return false;
    while (*words) {
        size_t n = 0;
        while (name[n] && name[n] != ' ' && lower(words[n]) == lower(name[n])) n++;
        if (!name[n] && (!words[n] || words[n] == ' ')) return true;
        while (*words && *words != ' ') words++;
        while (*words == ' ') words++;
    }
    return false;
}

const struct pith_format *pith_format_find(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    for (size_t i = 0; i < PITH_COUNT(formats); i++)
        if (among(formats[i].name, name) || among(formats[i].aliases, name)) return &formats[i];
    return NULL;
}

const struct pith_format *pith_format_by_id(uint16_t id)
{
    for (size_t i = 0; i < PITH_COUNT(formats); i++)
        if (formats[i].id == id) return &formats[i];
    return NULL;
}

double pith_format_bits(const struct pith_format *f)
{
    const struct pith_kquant *gguf = f->kind == PITH_KIND_GGUF ? pith_kquant_find(f->name) : NULL;
    if (gguf) return 8.0 * gguf->bytes / gguf->elements;
    if (f->kind != PITH_KIND_BLOCK) return f->bits;
    const struct pith_format *scale = pith_format_find(f->scale);
    return f->bits + (double)scale->bits / f->block;
}

const char *pith_dtype_name(enum pith_dtype t)
{
    return (size_t)t < PITH_COUNT(dtypes) ? dtypes[t].name : "?";
}

unsigned pith_dtype_bits(enum pith_dtype t)
{
    return (size_t)t < PITH_COUNT(dtypes) ? dtypes[t].bits : 0;
}

bool pith_dtype_find(const char *name, enum pith_dtype *out)
{
    for (size_t i = 0; i < PITH_COUNT(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        *out = (enum pith_dtype)i;
        return true;
    }
    return false;
}
