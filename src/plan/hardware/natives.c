#include "plan/hardware/natives.h"

#include "base/mem.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A capability that no device has, and the end of an open range. */
enum { NEVER = INT_MAX, ANY = INT_MAX };

static const struct native_row {
    const char *engine, *container, *weights;
    enum pith_unit unit;
    unsigned runs, from, to;
    const char *text, *source;
} rows[] = {
#define PITH_NATIVE(engine, container, weights, unit, runs, from, to, text, source)                \
    {engine, container, weights, PITH_UNIT_##unit, runs, from, to, text, source},
#include "plan/hardware/natives.def"
#undef PITH_NATIVE
};

enum pith_unit pith_native_unit(const struct pith_grid *acts)
{
    if (!acts->format) return PITH_UNIT_BF16;
    if (acts->format->kind == PITH_KIND_INT)
        return acts->format->bits > 4 ? PITH_UNIT_INT8 : PITH_UNIT_INT4;
    return acts->format->bits > 4 ? PITH_UNIT_FP8 : PITH_UNIT_FP4;
}

static bool matches(const char *pattern, const char *name)
{
    return strcmp(pattern, "*") == 0 || strcmp(pattern, name) == 0;
}

static const struct native_row *row_of(const struct pith_native_case *c)
{
    const enum pith_unit unit = pith_native_unit(&c->acts);
    for (size_t i = 0; i < PITH_COUNT(rows); i++)
        if (rows[i].unit == unit && strcmp(rows[i].engine, c->engine) == 0 &&
            matches(rows[i].container, c->container) &&
            matches(rows[i].weights, c->weights.format->name))
            return &rows[i];
    return NULL;
}

/* "8.9", where the row says such numbers. */
static void refuse(const struct pith_native_case *c, const struct native_row *r,
                   char why[PITH_NATIVE_WHY])
{
    const struct pith_hardware *h = c->hardware;
    const unsigned edge = h->capability < r->runs ? r->runs : r->to;
    (void)snprintf(why, PITH_NATIVE_WHY,
                   "%.60s has compute capability %u.%u, and %s runs %.20s weights with inputs in "
                   "%s %s %u.%u (%s)",
                   h->title, h->capability / 10, h->capability % 10, c->engine,
                   c->weights.format->name,
                   r->unit == PITH_UNIT_BF16 ? "16 bits" : pith_hardware_unit(r->unit),
                   edge == r->runs ? "from" : "up to", edge / 10, edge % 10, r->source);
}

/* Those that double the scales of weights and of inputs as they load FP8 onto such units, where the
 * same bits are half as much: normalize_e4m3fn_to_e4m3fnuz() in vLLM's w8a8_utils.py and SGLang's
 * fp8_utils.py. */
static bool doubles_scales(const char *engine)
{
    static const char *const names[] = {"vllm", "sglang"};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        if (strcmp(names[i], engine) == 0) return true;
    return false;
}

/* Without rows the units themselves decide, and the kind of FP8. */
static enum pith_native ask_units(const struct pith_native_case *c, char why[PITH_NATIVE_WHY])
{
    const struct pith_hardware *h = c->hardware;
    const enum pith_unit unit = pith_native_unit(&c->acts);
    if (!c->acts.format) return PITH_NATIVE_YES;
    if (h->ops[unit] <= 0) {
        char acts[PITH_GRID_TEXT];
        pith_grid_format(&c->acts, acts);
        (void)snprintf(why, PITH_NATIVE_WHY,
                       "%.60s has no %s units: inputs in %.40s save nothing there, weights alone "
                       "do (%.60s)",
                       h->title, pith_hardware_unit(unit), acts, h->source);
        return PITH_NATIVE_LESS;
    }
    if (!h->fnuz || unit != PITH_UNIT_FP8 || !c->acts.is_static) return PITH_NATIVE_YES;
    if (doubles_scales(c->engine)) return PITH_NATIVE_YES;
    (void)snprintf(why, PITH_NATIVE_WHY,
                   "%.60s multiplies FP8 without a negative zero, whose range is half: static "
                   "scales are of the other kind (%.60s)",
                   h->title, h->source);
    return PITH_NATIVE_LESS;
}

enum pith_native pith_native_ask(const struct pith_native_case *c, char why[PITH_NATIVE_WHY])
{
    const struct pith_hardware *h = c->hardware;
    why[0] = '\0';
    if (!c->weights.format) return PITH_NATIVE_YES;
    const struct native_row *r = row_of(c);
    if (r && h->capability && (h->capability < r->runs || h->capability > r->to)) {
        refuse(c, r, why);
        return PITH_NATIVE_REFUSED;
    }
    if (r && (r->from == NEVER || (h->capability && h->capability < r->from))) {
        (void)snprintf(why, PITH_NATIVE_WHY, "%.60s: %s (%s)", h->title, r->text, r->source);
        return PITH_NATIVE_LESS;
    }
    return ask_units(c, why);
}
