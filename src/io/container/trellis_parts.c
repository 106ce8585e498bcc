#include "io/container/trellis_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, SIDE = PITH_TRELLIS_BLOCK };

/* --- writing ---------------------------------------------------------------------------------- */

enum pith_status pith_trellis_accepts(const struct pith_trellis_parts *p,
                                      const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                      const struct pith_container_opts *opts,
                                      struct pith_error *err)
{
    PITH_TRY(p->holds(grid->format, err));
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no place for quantized inputs; use `acts=none`", p->subject);
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s cannot hold a matrix of %" PRIu32 " x %" PRIu32
                         ": both must be multiples of %d",
                         p->subject, rows, cols, SIDE);
    return PITH_OK;
}

enum pith_dtype pith_trellis_scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F16;
}

static const struct pith_trellis_mark *mark_of(const struct pith_trellis_parts *p,
                                               const struct pith_format *f)
{
    for (size_t i = 0; i < p->marks; i++)
        if (p->mark[i].code == pith_trellis_code_of(f)) return &p->mark[i];
    return NULL;
}

void pith_trellis_plan(const struct pith_trellis_parts *p, const struct pith_format *f,
                       uint32_t rows, uint32_t cols, struct pith_packed_set *out)
{
    const uint64_t down = rows / TILE, across = cols / TILE, width = (uint64_t)p->unit * f->bits;
    const struct pith_trellis_mark *mark = mark_of(p, f);
    *out = (struct pith_packed_set){0};
    pith_packed_add(
        out, p->tiles, p->dtype, 3,
        (const uint64_t[]){p->by_inputs ? across : down, p->by_inputs ? down : across, width});
    pith_packed_add(out, p->inputs[0], PITH_F16, 1, (const uint64_t[]){cols});
    pith_packed_add(out, p->outputs[0], PITH_F16, 1, (const uint64_t[]){rows});
    if (mark) pith_packed_add(out, mark->suffix, PITH_I32, 0, NULL);
}

/* Tiles of a file and of a matrix, which go by outputs; out is true for the way to the file. */
static void move_tiles(const struct pith_trellis_parts *p, const struct pith_qmat *q, uint8_t *file,
                       bool out)
{
    const size_t bytes = pith_trellis_bytes(q->format->bits), rows = q->rows / TILE;
    const size_t all = (size_t)q->rows * q->stride;
    if (!p->by_inputs) {
        memcpy(out ? file : q->codes, out ? q->codes : file, all);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < q->cols / TILE; c++) {
            uint8_t *own = q->codes + pith_trellis_tile_at(q, r, c);
            uint8_t *there = file + (c * rows + r) * bytes;
            memcpy(out ? there : own, out ? own : there, bytes);
        }
}

/* n factors of what is called so, "input". */
static enum pith_status store_factors(const struct pith_trellis_parts *p, const char *what,
                                      const float *from, size_t n, uint16_t *to,
                                      struct pith_error *err)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = pith_f32_to_f16(from[i]);
        if (pith_f16_to_f32(to[i]) != from[i])
            return pith_fail(err, PITH_NUMERIC,
                             "%s: the factor of %s %zu is %g, which F16 does not hold", p->name,
                             what, i, (double)from[i]);
    }
    return PITH_OK;
}

static enum pith_status fill_packed(const struct pith_trellis_parts *p, const struct pith_qmat *q,
                                    struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_trellis_mark *mark = mark_of(p, q->format);
    move_tiles(p, q, out->item[0].data, true);
    if (mark) memcpy(out->item[3].data, &mark->multiplier, sizeof mark->multiplier);
    PITH_TRY(store_factors(p, "input", q->levels, q->cols, out->item[1].data, err));
    return store_factors(p, "output", q->scales, q->rows, out->item[2].data, err);
}

enum pith_status pith_trellis_store(const struct pith_trellis_parts *p, const struct pith_qmat *q,
                                    const struct pith_container_opts *opts,
                                    struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = {.format = q->format};
    PITH_TRY(pith_trellis_accepts(p, &grid, q->rows, q->cols, opts, err));
    if (q->input.grid.format)
        return pith_fail(err, PITH_ARG, "%s does not quantize inputs", p->subject);
    pith_trellis_plan(p, q->format, q->rows, q->cols, out);
    PITH_TRY(pith_packed_alloc(out, err));
    const enum pith_status st = fill_packed(p, q, out, err);
    if (st != PITH_OK) pith_packed_free(out);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct module {
    const struct pith_trellis_parts *parts;
    const struct pith_checkpoint *c;
    const char *name;
};

static enum pith_status fail_shape(const struct pith_trellis_parts *p, const struct pith_tensor *t,
                                   struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": %s", t->name, p->misshapen);
}

/* The code that a module's marks give; it has one at most. */
static enum pith_status code_of(const struct module *m, enum pith_trellis_code *out,
                                struct pith_error *err)
{
    const struct pith_trellis_parts *p = m->parts;
    char why[64];
    *out = p->plain;
    for (size_t i = 0; i < p->marks; i++) {
        if (!pith_part_find(m->c, m->name, p->mark[i].suffix)) continue;
        *out = p->mark[i].code;
        snprintf(why, sizeof why, "it has a %s as well", p->mark[i].name);
        for (size_t k = 0; k < i; k++)
            PITH_TRY(pith_part_absent(m->c, m->name, p->mark[k].suffix, why, err));
    }
    return PITH_OK;
}

/* The format that a module's tensors show, and its tiles; NULL when it is not quantized. */
static enum pith_status format_of(const struct module *m,
                                  const struct pith_format **out, const struct pith_tensor **tiles,
                                  struct pith_error *err)
{
    const struct pith_trellis_parts *p = m->parts;
    const struct pith_tensor *t = pith_part_find(m->c, m->name, p->tiles);
    enum pith_trellis_code code;
    *out = NULL;
    *tiles = t;
    if (!t) return PITH_OK;
    const uint64_t width = t->dims == 3 ? t->shape[2] : 0;
    if (t->dtype != p->dtype || width == 0 || width % p->unit || width / p->unit > 8)
        return fail_shape(p, t, err);
    PITH_TRY(code_of(m, &code, err));
    *out = pith_trellis_format(code, (unsigned)(width / p->unit));
    return PITH_OK;
}

/* n factors, or their signs alone. */
static enum pith_status load_factors(const struct module *m,
                                     const char *const suffix[2], uint64_t n, float *to,
                                     struct pith_error *err)
{
    const struct pith_part halves = {suffix[0], 1u << PITH_F16, 1, {n}};
    const struct pith_part signs = {suffix[1], 1u << PITH_I16, 1, {n / 16}};
    const struct pith_tensor *t;
    if (suffix[1] && !pith_part_find(m->c, m->name, suffix[0]) &&
        pith_part_find(m->c, m->name, suffix[1])) {
        PITH_TRY(pith_part_get(m->c, m->name, &signs, &t, err));
        const uint8_t *bits = t->data;
        for (uint64_t i = 0; i < n; i++) to[i] = bits[i / 8] >> i % 8 & 1 ? -1.0f : 1.0f;
        return PITH_OK;
    }
    PITH_TRY(pith_part_get(m->c, m->name, &halves, &t, err));
    (void)pith_dtype_decode(t->dtype, t->data, (size_t)n, to);
    return PITH_OK;
}

static enum pith_status fill(const struct module *m, const struct pith_tensor *tiles,
                             struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_trellis_parts *p = m->parts;
    const uint64_t down = tiles->shape[p->by_inputs], across = tiles->shape[!p->by_inputs];
    if (down != q->rows / TILE || across != q->cols / TILE) return fail_shape(p, tiles, err);
    move_tiles(p, q, (uint8_t *)(uintptr_t)tiles->data, false);
    PITH_TRY(load_factors(m, p->inputs, q->cols, q->levels, err));
    return load_factors(m, p->outputs, q->rows, q->scales, err);
}

/* A module without tiles has no other part. */
static enum pith_status check_untiled(const struct module *m, struct pith_error *err)
{
    const struct pith_trellis_parts *p = m->parts;
    for (int i = 0; i < 2 && p->inputs[i]; i++) {
        PITH_TRY(pith_part_absent(m->c, m->name, p->inputs[i], p->untiled, err));
        PITH_TRY(pith_part_absent(m->c, m->name, p->outputs[i], p->untiled, err));
    }
    for (size_t i = 0; i < p->marks; i++)
        PITH_TRY(pith_part_absent(m->c, m->name, p->mark[i].suffix, p->untiled, err));
    return PITH_OK;
}

enum pith_status pith_trellis_load(void *state, const struct pith_checkpoint *c,
                                   const char *module, uint32_t rows, uint32_t cols,
                                   struct pith_qmat *q, bool *found, struct pith_error *err)
{
    const struct pith_trellis_parts *p = state;
    const struct module m = {p, c, module};
    struct pith_grid grid = {.granularity = PITH_PER_CHANNEL};
    const struct pith_tensor *tiles;
    *found = false;
    PITH_TRY(format_of(&m, &grid.format, &tiles, err));
    if (!tiles) return check_untiled(&m, err);
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    if (rows % SIDE || cols % SIDE)
        return pith_fail(err, p->unfilled, "%s: \"%.100s\" is %" PRIu32 " x %" PRIu32 ", %s",
                         c->dir, module, rows, cols, p->unfilled_why);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F16, err));
    return pith_part_end(module, fill(&m, tiles, q, err), q, found, err);
}

enum pith_status pith_trellis_describe(void *state, const struct pith_checkpoint *c,
                                       const char *module, struct pith_grid *grid,
                                       struct pith_container_opts *opts, struct pith_error *err)
{
    const struct module m = {state, c, module};
    const struct pith_tensor *tiles;
    (void)opts;
    *grid = (struct pith_grid){.granularity = PITH_PER_CHANNEL};
    PITH_TRY(format_of(&m, &grid->format, &tiles, err));
    if (!tiles) *grid = (struct pith_grid){0};
    return PITH_OK;
}
