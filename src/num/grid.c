#include "num/grid.h"

#include "base/mem.h"
#include "base/names.h"
#include "num/gguf/kquant.h"
#include "num/trellis.h"

#include <stdio.h>
#include <string.h>

/* A scale for fewer elements than 2 is no quantization; 65536 exceeds the width of any linear
 * layer. */
enum { MIN_GROUP = 2, MAX_GROUP = 65536 };

/* The flags of a grid, in the order of its canonical text. */
static const struct {
    const char *name;
    size_t offset;
} flags[] = {
    {"asym", offsetof(struct pith_grid, asym)},
    {"mse", offsetof(struct pith_grid, mse)},
    {"static", offsetof(struct pith_grid, is_static)},
    {"dq", offsetof(struct pith_grid, double_quant)},
    {"hqq", offsetof(struct pith_grid, hqq)},
    {"even", offsetof(struct pith_grid, even)},
    {"ceil", offsetof(struct pith_grid, ceil)},
};

static const struct {
    const char *name;
    enum pith_granularity granularity;
    bool sized; /* a number follows */
} granularities[] = {
    {"tensor", PITH_PER_TENSOR, false}, {"channel", PITH_PER_CHANNEL, false},
    {"token", PITH_PER_TOKEN, false},   {"head", PITH_PER_HEAD, false},
    {"block", PITH_PER_BLOCK, true},    {"g", PITH_PER_GROUP, true},
};

/* One part of the text between colons, in lower case. */
struct part {
    char text[32];
};

struct parser {
    const char *whole; /* for messages */
    const char *rest;  /* NULL after the last part */
    struct pith_grid *grid;
    bool has_granularity;
    struct pith_error *err;
};

static bool *flag_of(struct pith_grid *g, size_t offset)
{
    return (bool *)((char *)g + offset);
}

/* Formats that hold a value as it is: no scale, hence nothing to choose. */
static bool is_plain(const struct pith_format *f)
{
    return f->kind == PITH_KIND_FLOAT && f->bits > 8;
}

static enum pith_status wrong(const struct parser *p, const char *part, const char *why)
{
    /* A part that is the whole text, or empty, says nothing by being quoted again. */
    if (part[0] == '\0' || strlen(part) == strlen(p->whole))
        return pith_fail(p->err, PITH_ARG, "grid \"%.60s\": %s", p->whole, why);
    return pith_fail(p->err, PITH_ARG, "grid \"%.60s\": \"%.31s\": %s", p->whole, part, why);
}

/* Takes the next part; false when it is empty or too long to be any word of a grid. */
static bool next_part(struct parser *p, struct part *part)
{
    const size_t n = strcspn(p->rest, ":");
    const bool fits = n > 0 && n < sizeof part->text;
    const size_t size = n < sizeof part->text ? n : sizeof part->text - 1;
    for (size_t i = 0; i < size; i++) {
        const char c = p->rest[i];
        part->text[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    part->text[size] = '\0';
    p->rest = p->rest[n] ? p->rest + n + 1 : NULL;
    return fits;
}

static enum pith_status unknown_format(const struct parser *p, const char *name)
{
    if (strcmp(name, "fp4") == 0)
        return wrong(p, name, "ambiguous; OCP's is fp4_e2m1, bitsandbytes' is bnb_fp4");
    enum { MOST = 128 };
    const char *names[MOST];
    size_t count;
    const struct pith_format *formats = pith_formats(&count);
    for (size_t i = 0; i < count && i < MOST; i++) names[i] = formats[i].name;
    const char *near = pith_name_nearest(name, names, count < MOST ? count : MOST);
    char text[400] = "no such format; ";
    size_t used = strlen(text);
    if (near) (void)snprintf(text + used, sizeof text - used, "did you mean %s?", near);
    else strcpy(text + used, "there are");
    for (used = strlen(text); !near && count > 0; count--, formats++) {
        const int n = snprintf(text + used, sizeof text - used, " %s", formats->name);
        if (n < 0 || (size_t)n >= sizeof text - used) break;
        used += (size_t)n;
    }
    return wrong(p, name, text);
}

/* "128" with no sign, blank or leading zero. */
static bool parse_size(const char *text, uint32_t *out)
{
    uint32_t n = 0;
    if (text[0] == '0') return false;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && n <= MAX_GROUP; c++) n = n * 10 + (uint32_t)(*c - '0');
    *out = n;
    return *c == '\0' && n >= MIN_GROUP && n <= MAX_GROUP;
}

static enum pith_status set_granularity(struct parser *p, const char *part, size_t row)
{
    const char *size = part + strlen(granularities[row].name);
    if (p->has_granularity) return wrong(p, part, "a second granularity; one is enough");
    if (granularities[row].sized && !parse_size(size, &p->grid->group))
        return wrong(p, part, "the size must be 2 to 65536, as in g128 or block128");
    p->has_granularity = true;
    p->grid->granularity = granularities[row].granularity;
    return PITH_OK;
}

static enum pith_status unknown_option(const struct parser *p, const char *part)
{
    const char *names[PITH_COUNT(flags) + PITH_COUNT(granularities)];
    size_t count = 0;
    char text[96];
    for (size_t i = 0; i < PITH_COUNT(flags); i++) names[count++] = flags[i].name;
    for (size_t i = 0; i < PITH_COUNT(granularities); i++)
        if (!granularities[i].sized) names[count++] = granularities[i].name;
    const char *near = pith_name_nearest(part, names, count);
    if (!near)
        return wrong(p, part,
                     "expected tensor, channel, token, head, gN, blockN, asym, mse, static, dq, "
                     "hqq, even or ceil");
    (void)snprintf(text, sizeof text, "no such word; did you mean %s?", near);
    return wrong(p, part, text);
}

static enum pith_status parse_option(struct parser *p, const char *part)
{
    for (size_t i = 0; i < PITH_COUNT(flags); i++) {
        if (strcmp(part, flags[i].name) != 0) continue;
        bool *flag = flag_of(p->grid, flags[i].offset);
        if (*flag) return wrong(p, part, "stands here twice");
        *flag = true;
        return PITH_OK;
    }
    for (size_t i = 0; i < PITH_COUNT(granularities); i++) {
        const char *name = granularities[i].name;
        const bool match = granularities[i].sized ? strncmp(part, name, strlen(name)) == 0
                                                  : strcmp(part, name) == 0;
        if (match) return set_granularity(p, part, i);
    }
    return unknown_option(p, part);
}

/* Without a granularity, the one that the format is commonly used with. */
static void set_default(struct pith_grid *g)
{
    switch (g->format->kind) {
    case PITH_KIND_BLOCK:
    case PITH_KIND_GGUF:
        g->granularity = PITH_PER_GROUP;
        g->group = g->format->block;
        break;
    case PITH_KIND_CODEBOOK:
        g->granularity = PITH_PER_GROUP;
        g->group = 64;
        break;
    case PITH_KIND_FLOAT:
    case PITH_KIND_INT:
    case PITH_KIND_LEVELS:
    case PITH_KIND_TRELLIS:
        g->granularity = is_plain(g->format) ? PITH_PER_TENSOR : PITH_PER_CHANNEL;
        break;
    }
}

static bool is_block(const struct pith_format *f)
{
    return f->kind == PITH_KIND_BLOCK || f->kind == PITH_KIND_GGUF;
}

static enum pith_status check_block(const struct parser *p)
{
    const struct pith_grid *g = p->grid;
    const char *name = g->format->name;
    char why[96];
    snprintf(why, sizeof why, "its scales cover %u inputs of a row each, no other granularity",
             (unsigned)g->format->block);
    if (g->granularity != PITH_PER_GROUP || g->group != g->format->block)
        return wrong(p, name, why);
    if (g->double_quant) return wrong(p, name, "its scales are small already, dq is not for it");
    if (g->mse && g->format->kind == PITH_KIND_GGUF)
        return wrong(p, "mse", "its scales are those of least squared error anyway");
    /* Only a scale a tensor can be fixed beforehand: nvfp4 has one, microscaling has not. */
    if (g->is_static && strcmp(g->format->scale, "fp8_e4m3") != 0)
        return wrong(p, name, "its scales come from each block, they cannot be static");
    return PITH_OK;
}

/* How the scale is found can be given once. */
static enum pith_status check_rules(const struct parser *p)
{
    const struct pith_grid *g = p->grid;
    const struct pith_format *f = g->format;
    const bool mx = f->kind == PITH_KIND_BLOCK && strcmp(f->scale, "e8m0") == 0;
    if (g->hqq && (f->kind != PITH_KIND_INT || !g->asym || g->mse))
        return wrong(p, "hqq", "moves the zero points of integers; write asym before it, not mse");
    if ((g->even || g->ceil) && !mx)
        return wrong(p, g->even ? "even" : "ceil", "a rule for the scales of mx formats only");
    if (g->even + g->ceil + (mx && g->mse) > 1)
        return wrong(p, f->name, "one of even, ceil and mse is enough");
    return PITH_OK;
}

static enum pith_status check(const struct parser *p)
{
    const struct pith_grid *g = p->grid;
    const struct pith_format *f = g->format;
    if (f->kind == PITH_KIND_FLOAT && f->mantissa_bits == 0)
        return wrong(p, f->name, "a format of scales, not of values");
    if (is_plain(f) && (p->has_granularity || g->asym || g->mse || g->is_static || g->double_quant))
        return wrong(p, f->name, "has no scale, so nothing may follow it");
    if (g->asym && f->kind != PITH_KIND_INT)
        return wrong(p, "asym", "only integer formats have a zero point");
    PITH_TRY(check_rules(p));
    if (is_block(f)) return check_block(p);
    if (f->kind == PITH_KIND_LEVELS &&
        (g->granularity != PITH_PER_CHANNEL || g->mse || g->is_static || g->double_quant))
        return wrong(p, f->name, "each row has its own levels, so only channel may follow it");
    if (f->kind == PITH_KIND_TRELLIS &&
        (g->granularity != PITH_PER_CHANNEL || g->mse || g->is_static || g->double_quant))
        return wrong(p, f->name, "has factors by row and column, so only channel may follow it");
    if (g->is_static && g->granularity == PITH_PER_TOKEN)
        return wrong(p, "static", "a token's scale comes from that token; use tensor or channel");
    if (g->double_quant && g->granularity != PITH_PER_GROUP)
        return wrong(p, "dq", "quantizes the scales of groups; add a group, as in g64");
    return PITH_OK;
}

/* "trellis:3:mcg" is the format trellis3_mcg; without a code it is that of trellis3. */
static enum pith_status take_trellis(struct parser *p)
{
    struct part part;
    enum pith_trellis_code code = PITH_TRELLIS_MUL1;
    if (!p->rest || !next_part(p, &part) || part.text[0] < '1' || part.text[0] > '8' ||
        part.text[1])
        return wrong(p, "trellis", "1 to 8 bits must follow it, as in trellis:3 or trellis:3:mcg");
    const unsigned bits = (unsigned)(part.text[0] - '0');
    struct parser after = *p;
    if (p->rest && next_part(&after, &part) && pith_trellis_code_find(part.text, &code)) *p = after;
    p->grid->format = pith_trellis_format(code, bits);
    return PITH_OK;
}

static enum pith_status parse_parts(struct parser *p)
{
    struct part part;
    if (!next_part(p, &part))
        return wrong(p, part.text, "a grid starts with a format, as in int4:g128");
    if (strcmp(part.text, "none") == 0) {
        if (p->rest) return wrong(p, "none", "nothing may follow it");
        return PITH_OK;
    }
    if (strcmp(part.text, "trellis") == 0) PITH_TRY(take_trellis(p));
    else p->grid->format = pith_format_find(part.text);
    if (!p->grid->format) return unknown_format(p, part.text);
    while (p->rest) {
        if (!next_part(p, &part))
            return wrong(p, part.text, part.text[0] ? "too long" : "a colon too many");
        PITH_TRY(parse_option(p, part.text));
    }
    if (!p->has_granularity) set_default(p->grid);
    return check(p);
}

enum pith_status pith_grid_parse(const char *text, struct pith_grid *out, struct pith_error *err)
{
    struct pith_grid grid = {0};
    struct parser p = {.whole = text, .rest = text, .grid = &grid, .err = err};
    const enum pith_status s = parse_parts(&p);
    *out = s == PITH_OK ? grid : (struct pith_grid){0};
    return s;
}

enum pith_status pith_grid_parse_like(const char *text, const struct pith_grid *usual,
                                      struct pith_grid *out, struct pith_error *err)
{
    struct pith_grid grid = {0};
    struct parser p = {.whole = text, .rest = text, .grid = &grid, .err = err};
    const enum pith_status s = parse_parts(&p);
    *out = s == PITH_OK ? grid : (struct pith_grid){0};
    if (s != PITH_OK || p.has_granularity || !grid.format || !usual->format ||
        grid.format->kind != usual->format->kind || is_plain(grid.format) ||
        is_plain(usual->format))
        return s;
    struct pith_grid like = strchr(text, ':') ? grid : *usual;
    like.format = grid.format;
    if (!is_block(grid.format)) {
        like.granularity = usual->granularity;
        like.group = usual->group;
    } else {
        like.granularity = grid.granularity;
        like.group = grid.group;
    }
    p.grid = &like;
    p.err = NULL;
    if (check(&p) == PITH_OK) *out = like;
    return PITH_OK;
}

static struct pith_grid gguf_elements(const struct pith_format *f, enum pith_dtype *scale_dtype)
{
    const struct pith_kquant *t = pith_kquant_find(f->name);
    if (scale_dtype) *scale_dtype = t->scale_most ? PITH_F32 : t->scale_dtype;
    return (struct pith_grid){.format = pith_format_find(t->element),
                              .granularity = PITH_PER_GROUP,
                              .group = t->sub,
                              .asym = t->minimums};
}

struct pith_grid pith_grid_elements(const struct pith_grid *g, enum pith_dtype *scale_dtype)
{
    struct pith_grid elements = *g;
    if (!g->format || !is_block(g->format)) return elements;
    if (g->format->kind == PITH_KIND_GGUF) return gguf_elements(g->format, scale_dtype);
    elements.format = pith_format_find(g->format->element);
    if (scale_dtype)
        *scale_dtype = strcmp(g->format->scale, "e8m0") == 0 ? PITH_F8_E8M0 : PITH_F8_E4M3;
    return elements;
}

bool pith_grid_equal(const struct pith_grid *a, const struct pith_grid *b)
{
    const bool sized = a->granularity == PITH_PER_GROUP || a->granularity == PITH_PER_BLOCK;
    if (!a->format || !b->format) return a->format == b->format;
    return a->format == b->format && a->granularity == b->granularity && a->asym == b->asym &&
           a->is_static == b->is_static && a->double_quant == b->double_quant && a->hqq == b->hqq &&
           (!sized || a->group == b->group);
}

void pith_kv_grid_settle(struct pith_grid *g)
{
    const struct pith_format *f = g->format;
    if (!f || is_plain(f)) return;
    if (f->kind == PITH_KIND_FLOAT && f->bits == 8 && g->granularity == PITH_PER_CHANNEL)
        g->granularity = PITH_PER_TENSOR;
    if (g->granularity == PITH_PER_TENSOR || g->granularity == PITH_PER_HEAD ||
        strcmp(f->name, "nvfp4") == 0)
        g->is_static = true;
}

void pith_grid_format(const struct pith_grid *g, char text[PITH_GRID_TEXT])
{
    char granularity[24] = "", options[32] = "";
    if (!g->format) {
        snprintf(text, PITH_GRID_TEXT, "none");
        return;
    }
    for (size_t i = 0; i < PITH_COUNT(granularities); i++) {
        if (is_block(g->format) || is_plain(g->format)) break;
        if (granularities[i].granularity != g->granularity) continue;
        const char *name = granularities[i].name;
        if (granularities[i].sized)
            snprintf(granularity, sizeof granularity, ":%s%u", name, (unsigned)g->group);
        else snprintf(granularity, sizeof granularity, ":%s", name);
    }
    struct pith_grid copy = *g;
    for (size_t i = 0; i < PITH_COUNT(flags); i++) {
        const size_t used = strlen(options);
        if (*flag_of(&copy, flags[i].offset))
            snprintf(options + used, sizeof options - used, ":%s", flags[i].name);
    }
    snprintf(text, PITH_GRID_TEXT, "%s%s%s", g->format->name, granularity, options);
}

uint32_t pith_grid_group(const struct pith_grid *g, uint32_t cols)
{
    enum pith_dtype none = PITH_F32;
    const struct pith_grid e = pith_grid_elements(g, &none);
    const bool grouped = e.granularity == PITH_PER_GROUP || e.granularity == PITH_PER_BLOCK;
    return grouped && e.group && e.group < cols ? e.group : cols;
}

uint32_t pith_grid_scale_rows(const struct pith_grid *g, uint32_t rows)
{
    if (g->granularity == PITH_PER_TENSOR) return 1;
    return g->granularity == PITH_PER_BLOCK && g->group ? (rows - 1) / g->group + 1 : rows;
}
