#include "io/ct/args.h"

#include "base/mem.h"
#include "io/json_members.h"
#include "io/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum pith_status unsupported(const char *where, const char *key, const char *value,
                                    struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED, "%s: %s \"%.60s\" is not read by this version", where,
                     key, value);
}

enum pith_status pith_ct_check_keys(const json_t *o, const char *const *known, size_t count,
                                    const char *where, struct pith_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)o, key, value) {
        size_t i = 0;
        while (i < count && strcmp(key, known[i]) != 0) i++;
        if (i == count && !json_is_null(value))
            return pith_fail(err, PITH_UNSUPPORTED, "%s: unknown key \"%.60s\"", where, key);
    }
    return PITH_OK;
}

/* --- the object as it stands ------------------------------------------------------------------ */

enum strategy { TENSOR, CHANNEL, GROUP, BLOCK, TOKEN, TENSOR_GROUP, ATTN_HEAD };
static const char *const strategies[] = {"tensor", "channel",      "group",    "block",
                                         "token",  "tensor_group", "attn_head"};

enum dynamic { STATIC, DYNAMIC, LOCAL };

struct args {
    int64_t bits;
    bool is_float, sym;
    enum strategy strategy;
    uint32_t group;    /* 0: none */
    uint32_t block[2]; /* 0: none */
    enum dynamic dynamic;
    const char *scale_dtype; /* NULL: not given */
    bool ordered, g_idx;
};

/* [rows, columns], in older files "128x128". */
static enum pith_status read_block(const json_t *o, const char *where, struct args *a,
                                   struct pith_error *err)
{
    const json_t *v = json_object_get(o, "block_structure");
    int64_t size[2] = {0, 0};
    if (!v || json_is_null(v)) return PITH_OK;
    const char *text = pith_json_plain(v);
    unsigned x[2];
    char end;
    if (text && sscanf(text, "%6ux%6u%c", &x[0], &x[1], &end) == 2) {
        size[0] = x[0];
        size[1] = x[1];
    } else if (json_is_array(v) && json_array_size(v) == 2) {
        for (size_t i = 0; i < 2; i++) size[i] = json_integer_value(json_array_get(v, i));
    }
    for (size_t i = 0; i < 2; i++) {
        if (size[i] < 1 || size[i] > 1 << 20)
            return pith_fail(err, PITH_FORMAT, "%s: block_structure is no pair of sizes", where);
        a->block[i] = (uint32_t)size[i];
    }
    return PITH_OK;
}

/* "strategy", which older files leave to group_size. */
static enum pith_status read_strategy(const json_t *o, const char *where, struct args *a,
                                      struct pith_error *err)
{
    int64_t group = 0;
    const char *text = NULL;
    PITH_TRY(pith_json_get_int(o, "group_size", -1, INT32_MAX, &group, where, err));
    PITH_TRY(pith_json_get_str(o, "strategy", &text, where, err));
    if (!text) text = group > 0 ? "group" : group < 0 ? "channel" : "tensor";
    size_t i = 0;
    while (i < PITH_COUNT(strategies) && strcmp(strategies[i], text) != 0) i++;
    if (i == PITH_COUNT(strategies)) return unsupported(where, "strategy", text, err);
    a->strategy = (enum strategy)i;
    const bool grouped = a->strategy == GROUP || a->strategy == TENSOR_GROUP;
    if (grouped != (group > 0))
        return pith_fail(err, PITH_FORMAT,
                         "%s: strategy \"%s\" does not go with group_size %" PRId64, where, text,
                         group);
    a->group = grouped ? (uint32_t)group : 0;
    PITH_TRY(read_block(o, where, a, err));
    if ((a->strategy == BLOCK) != (a->block[0] != 0))
        return pith_fail(err, PITH_FORMAT,
                         "%s: block_structure and strategy \"block\" go together only", where);
    return PITH_OK;
}

static enum pith_status read_actorder(const json_t *o, const char *where, struct args *a,
                                      struct pith_error *err)
{
    const json_t *v = json_object_get(o, "actorder");
    if (!v || json_is_null(v) || json_is_false(v)) return PITH_OK;
    const char *order = json_is_true(v) ? "group" : pith_json_plain(v);
    if (!order) return pith_fail(err, PITH_FORMAT, "%s: actorder is not a string", where);
    a->ordered = true;
    a->g_idx = strcmp(order, "group") == 0 || strcmp(order, "dynamic") == 0;
    if (a->g_idx && a->strategy != GROUP)
        return pith_fail(err, PITH_FORMAT, "%s: actorder \"%s\" needs strategy \"group\"", where,
                         order);
    /* "weight" and "static" leave no trace in the file, whatever the strategy. */
    if (a->g_idx || strcmp(order, "weight") == 0 || strcmp(order, "static") == 0) return PITH_OK;
    return unsupported(where, "actorder", order, err);
}

static enum pith_status read_dynamic(const json_t *o, const char *where, struct args *a,
                                     struct pith_error *err)
{
    const char *text = pith_json_plain(json_object_get(o, "dynamic"));
    if (text && strcmp(text, "local") == 0) {
        a->dynamic = LOCAL;
        if (a->strategy == TENSOR_GROUP) return PITH_OK;
        return pith_fail(err, PITH_FORMAT, "%s: dynamic \"local\" needs strategy \"tensor_group\"",
                         where);
    }
    bool dynamic = false;
    PITH_TRY(pith_json_get_bool(o, "dynamic", &dynamic, where, err));
    a->dynamic = dynamic ? DYNAMIC : STATIC;
    return PITH_OK;
}

static enum pith_status read_args(const json_t *o, const char *where, struct args *a,
                                  struct pith_error *err)
{
    static const char *const known[] = {
        "num_bits", "type",     "symmetric", "strategy",        "group_size",  "block_structure",
        "dynamic",  "actorder", "observer",  "observer_kwargs", "scale_dtype", "zp_dtype",
    };
    *a = (struct args){.bits = 8, .sym = true};
    const char *type = "int";
    if (!json_is_object(o)) return pith_fail(err, PITH_FORMAT, "%s: not an object", where);
    PITH_TRY(pith_ct_check_keys(o, known, PITH_COUNT(known), where, err));
    PITH_TRY(pith_json_get_int(o, "num_bits", 1, 64, &a->bits, where, err));
    PITH_TRY(pith_json_get_str(o, "type", &type, where, err));
    PITH_TRY(pith_json_get_bool(o, "symmetric", &a->sym, where, err));
    PITH_TRY(pith_json_get_str(o, "scale_dtype", &a->scale_dtype, where, err));
    a->is_float = strcmp(type, "float") == 0;
    if (!a->is_float && strcmp(type, "int") != 0) return unsupported(where, "type", type, err);
    PITH_TRY(read_strategy(o, where, a, err));
    PITH_TRY(read_actorder(o, where, a, err));
    return read_dynamic(o, where, a, err);
}

/* --- as a grid -------------------------------------------------------------------------------- */

static bool has_scales_in(const struct args *a, const char *dtype)
{
    return a->scale_dtype && strcmp(a->scale_dtype, dtype) == 0;
}

#define BYTE_SCALE "torch.uint8"
#define FP8_SCALE "torch.float8_e4m3fn"

/* The formats with their own scale format. Groups of 32 FP8 values with scales of another
 * dtype than bytes are plain groups. */
static const struct {
    const char *format;
    int64_t bits;
    uint32_t group;
    enum strategy strategy;
    const char *scale_dtype;
    bool needed; /* scale_dtype must be given */
} blocks[] = {
    {"mxfp4", 4, 32, GROUP, BYTE_SCALE, false},
    {"mxfp6_e2m3", 6, 32, GROUP, BYTE_SCALE, false},
    {"mxfp8", 8, 32, GROUP, BYTE_SCALE, true},
    {"nvfp4", 4, 16, TENSOR_GROUP, FP8_SCALE, false},
};

static bool is_block(const struct args *a, size_t i)
{
    return a->bits == blocks[i].bits && a->group == blocks[i].group &&
           a->strategy == blocks[i].strategy &&
           (a->scale_dtype ? has_scales_in(a, blocks[i].scale_dtype) : !blocks[i].needed);
}

/* What does not exist in any number format here. */
static enum pith_status no_format(const struct args *a, const char *where, struct pith_error *err)
{
    if (!a->is_float)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: integers of %" PRId64 " bits; this version reads 2 to 8", where,
                         a->bits);
    if (!a->sym)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: type \"float\" with zero points", where);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: type \"float\" of %" PRId64
                     " bits with strategy \"%s\" is not read by this version",
                     where, a->bits, strategies[a->strategy]);
}

/* Format and group; the granularity of plain formats is for the caller. */
static enum pith_status read_format(const struct args *a, const char *where, struct pith_grid *g,
                                    struct pith_error *err)
{
    *g = (struct pith_grid){.asym = !a->sym};
    if (!a->is_float && a->bits <= 8) g->format = pith_int_format((unsigned)a->bits);
    for (size_t i = 0; a->is_float && a->sym && i < PITH_COUNT(blocks); i++)
        if (is_block(a, i)) g->format = pith_format_find(blocks[i].format);
    if (!g->format && a->is_float && a->sym && a->bits == 8)
        g->format = pith_format_find("fp8_e4m3");
    if (!g->format) return no_format(a, where, err);
    if (g->format->kind == PITH_KIND_BLOCK) {
        g->granularity = PITH_PER_GROUP;
        g->group = g->format->block;
    }
    return PITH_OK;
}

enum pith_status pith_ct_args_weights(const json_t *args, const char *where, struct pith_grid *out,
                                      bool *g_idx, struct pith_error *err)
{
    struct args a;
    *g_idx = false;
    if (!json_is_object(args))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: the weights are not quantized", where);
    PITH_TRY(read_args(args, where, &a, err));
    if (a.dynamic != STATIC)
        return pith_fail(err, PITH_FORMAT, "%s: weights cannot be dynamic", where);
    PITH_TRY(read_format(&a, where, out, err));
    *g_idx = a.g_idx;
    if (out->format->kind == PITH_KIND_BLOCK) return PITH_OK;
    switch (a.strategy) {
    case TENSOR: out->granularity = PITH_PER_TENSOR; return PITH_OK;
    case CHANNEL: out->granularity = PITH_PER_CHANNEL; return PITH_OK;
    case GROUP: out->granularity = PITH_PER_GROUP; break;
    case BLOCK:
        if (out->format->kind == PITH_KIND_INT || a.block[0] != a.block[1])
            return unsupported(where, "strategy", "block", err);
        out->granularity = PITH_PER_BLOCK;
        break;
    case TOKEN:
    case TENSOR_GROUP:
    case ATTN_HEAD: return unsupported(where, "strategy", strategies[a.strategy], err);
    }
    out->group = a.group ? a.group : a.block[0];
    return PITH_OK;
}

enum pith_status pith_ct_args_inputs(const json_t *args, const char *where, struct pith_grid *out,
                                     struct pith_error *err)
{
    struct args a;
    *out = (struct pith_grid){0};
    if (!args || json_is_null(args)) return PITH_OK;
    PITH_TRY(read_args(args, where, &a, err));
    PITH_TRY(read_format(&a, where, out, err));
    if (a.ordered) return pith_fail(err, PITH_FORMAT, "%s: actorder is of weights only", where);
    const bool grouped = a.strategy == GROUP || a.strategy == TENSOR_GROUP;
    if ((a.strategy == TOKEN || grouped) && a.dynamic == STATIC)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: strategy \"%s\" with fixed scales", where,
                         strategies[a.strategy]);
    /* Of NVFP4 only the scale of the tensor can be fixed: "local". */
    out->is_static = a.strategy == TENSOR || a.strategy == ATTN_HEAD ? a.dynamic == STATIC
                                                                     : a.dynamic == LOCAL;
    if (out->format->kind == PITH_KIND_BLOCK) return PITH_OK;
    if (a.strategy == TENSOR) out->granularity = PITH_PER_TENSOR;
    else if (a.strategy == TOKEN) out->granularity = PITH_PER_TOKEN;
    else if (a.strategy == GROUP) out->granularity = PITH_PER_GROUP;
    else if (a.strategy == ATTN_HEAD && a.dynamic == STATIC) out->granularity = PITH_PER_HEAD;
    else return unsupported(where, "strategy", strategies[a.strategy], err);
    out->group = a.group;
    return PITH_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum strategy strategy_of(const struct pith_grid *g)
{
    for (size_t i = 0; i < PITH_COUNT(blocks); i++)
        if (strcmp(blocks[i].format, g->format->name) == 0) return blocks[i].strategy;
    switch (g->granularity) {
    case PITH_PER_TENSOR: return TENSOR;
    case PITH_PER_CHANNEL: return CHANNEL;
    case PITH_PER_GROUP: return GROUP;
    case PITH_PER_BLOCK: return BLOCK;
    case PITH_PER_TOKEN: return TOKEN;
    case PITH_PER_HEAD: return ATTN_HEAD;
    }
    return TENSOR;
}

/* Sets the key to a new reference; false when v is NULL. */
static bool put(json_t *o, const char *key, json_t *v)
{
    return json_object_set_new(o, key, v) == 0;
}

static bool put_common(json_t *o, const struct pith_grid *g)
{
    const enum strategy s = strategy_of(g);
    const bool grouped = s == GROUP || s == TENSOR_GROUP;
    bool ok = o && put(o, "num_bits", json_integer(g->format->bits)) &&
              put(o, "type", json_string(g->format->kind == PITH_KIND_INT ? "int" : "float")) &&
              put(o, "symmetric", json_boolean(!g->asym)) &&
              put(o, "strategy", json_string(strategies[s])) &&
              put(o, "group_size", grouped ? json_integer((json_int_t)g->group) : json_null());
    json_t *block = s == BLOCK ? json_pack("[i, i]", (int)g->group, (int)g->group) : json_null();
    ok = ok && json_object_set(o, "block_structure", block) == 0;
    json_decref(block);
    for (size_t i = 0; i < PITH_COUNT(blocks); i++)
        if (strcmp(blocks[i].format, g->format->name) == 0)
            ok = ok && put(o, "scale_dtype", json_string(blocks[i].scale_dtype));
    return ok;
}

json_t *pith_ct_args_of_weights(const struct pith_grid *g, bool g_idx)
{
    if (!g->format) return json_null();
    json_t *o = json_object();
    const bool ordered = g_idx && g->granularity == PITH_PER_GROUP;
    if (put_common(o, g) && put(o, "dynamic", json_false()) &&
        put(o, "actorder", ordered ? json_string("group") : json_null()) &&
        put(o, "observer", json_string(g->mse ? "mse" : "minmax")) &&
        put(o, "observer_kwargs", json_object()))
        return o;
    json_decref(o);
    return NULL;
}

json_t *pith_ct_args_of_inputs(const struct pith_grid *g)
{
    if (!g->format) return json_null();
    json_t *o = json_object();
    const bool local = g->is_static && strategy_of(g) == TENSOR_GROUP;
    if (put_common(o, g) &&
        put(o, "dynamic", local ? json_string("local") : json_boolean(!g->is_static)) &&
        put(o, "actorder", json_null()))
        return o;
    json_decref(o);
    return NULL;
}

enum pith_status pith_ct_args_check_inputs(const struct pith_grid *g, struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    if (!g->format) return PITH_OK;
    const struct pith_format *f = g->format;
    bool ok = f->kind == PITH_KIND_INT || strcmp(f->name, "fp8_e4m3") == 0;
    if (ok)
        ok = g->granularity == PITH_PER_TENSOR ||
             (!g->is_static &&
              (g->granularity == PITH_PER_TOKEN || g->granularity == PITH_PER_GROUP));
    for (size_t i = 0; i < PITH_COUNT(blocks); i++)
        if (strcmp(blocks[i].format, f->name) == 0)
            ok = !g->is_static || blocks[i].strategy == TENSOR_GROUP;
    if (ok) return PITH_OK;
    pith_grid_format(g, text);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "compressed-tensors cannot describe inputs on %s; it knows integers and "
                     "fp8_e4m3 by token, group or tensor, and mxfp4, mxfp6_e2m3, mxfp8, nvfp4",
                     text);
}

/* vLLM layers/quantization/kv_cache.py: one fixed scale for all keys of a layer or of a head, one
 * for its values. */
enum pith_status pith_ct_args_check_kv(const struct pith_grid *g, struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    if (!g->format || (strcmp(g->format->name, "fp8_e4m3") == 0 && g->is_static &&
                       (g->granularity == PITH_PER_TENSOR || g->granularity == PITH_PER_HEAD)))
        return PITH_OK;
    pith_grid_format(g, text);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "compressed-tensors keeps keys and values on fp8_e4m3:tensor:static and "
                     "fp8_e4m3:head:static, not %s",
                     text);
}
