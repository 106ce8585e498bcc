/* Offsets of a packed matrix (GGUF's minimums, zero points that are any numbers),
 * W = (value - zero) * scale + offset: what they add to a product is themselves times the sums of x
 * over each group, a small matrix with a column a group. Where they are products of two levels that
 * matrix is packed as well: bytes, with a scale for all groups of a block. */
#include "backend/parts.h"
#include "num/elements/elements.h"
#include "num/gguf/kquant.h"

#include <string.h>

/* What lies first in the memory of the offsets. */
struct built {
    struct pith_weight w;
    struct pith_pack pack;
};

static size_t lines(size_t bytes)
{
    return (bytes + PITH_PANEL_LINE - 1) / PITH_PANEL_LINE * PITH_PANEL_LINE;
}

static size_t panel_count(const struct pith_qmat *q)
{
    return ((size_t)q->rows + PITH_PANEL_ROWS - 1) / PITH_PANEL_ROWS;
}

/* Bytes of an offset in one level: GGUF's are halves. */
static size_t dense_size(const struct pith_qmat *q)
{
    return q->gguf ? 2 : 4;
}

size_t pith_offsets_bytes(const struct pith_qform *f)
{
    const struct pith_qmat *q = &f->q;
    const size_t most = PITH_PREPARED_FLOATS / PITH_PREPARED_ROWS,
                 built = lines(sizeof(struct built));
    if (f->ordered || q->input.grid.format || q->groups > most || q->row_group > 1) return 0;
    if (!f->outer) return built + lines((size_t)q->rows * q->groups * dense_size(q));
    const size_t rows = panel_count(q) * PITH_PANEL_ROWS;
    return built + rows * q->groups + lines(rows * (q->groups / pith_qmat_block_groups(q)) * 2);
}

struct packing {
    const struct pith_qmat *q;
    uint8_t *codes;  /* [panels][groups / 4][16][4] */
    uint16_t *outer; /* [panels][blocks][16] */
};

static void pack_offsets_task(void *ctx, size_t panel, unsigned thread)
{
    (void)thread;
    const struct packing *p = ctx;
    const struct pith_qmat *q = p->q;
    const uint32_t each = pith_qmat_block_groups(q), blocks = q->groups / each;
    uint8_t *codes = p->codes + panel * q->groups * PITH_PANEL_ROWS;
    uint16_t *outer = p->outer + panel * blocks * PITH_PANEL_ROWS;
    for (uint32_t r = 0; r < PITH_PANEL_ROWS; r++) {
        const size_t row = panel * PITH_PANEL_ROWS + r;
        for (uint32_t g = 0; g < q->groups; g++) {
            uint8_t *code = &codes[g / 4 * PITH_PANEL_LINE + r * 4 + g % 4];
            *code = 0;
            if (row >= q->rows) continue;
            const float by = -pith_qmat_outer(q, (uint32_t)row, g)->dmin;
            *code = (uint8_t)pith_pack_factor(q->offsets[row * q->groups + g], by);
        }
        for (uint32_t b = 0; b < blocks; b++)
            outer[b * PITH_PANEL_ROWS + r] =
                row < q->rows ? pith_f32_to_f16(-pith_qmat_outer(q, (uint32_t)row, b * each)->dmin)
                              : 0;
    }
}

static void pack_two_levels(struct pith_backend *b, const struct pith_qmat *q, uint8_t *memory,
                            struct pith_pack *out)
{
    const size_t panels = panel_count(q), codes = panels * PITH_PANEL_ROWS * q->groups;
    struct packing p = {.q = q, .codes = memory, .outer = (uint16_t *)(void *)(memory + codes)};
    *out = (struct pith_pack){.rows = q->rows, .cols = q->groups, .panels = panels};
    out->m = (struct pith_panels){.form = PITH_PANEL_INT8,
                                  .bits = 8,
                                  .scale = PITH_SCALE_F16,
                                  .cols = q->groups,
                                  .group = pith_qmat_block_groups(q),
                                  .groups = q->groups / pith_qmat_block_groups(q),
                                  .codes = p.codes,
                                  .scales = p.outer,
                                  .global = 1.0f};
    pith_pool_run(b->pool, panels, pack_offsets_task, &p);
}

const struct pith_weight *pith_offsets_init(struct pith_backend *b, const struct pith_qmat *q,
                                            void *memory)
{
    struct built *built = memory;
    uint8_t *parts = (uint8_t *)memory + lines(sizeof *built);
    built->w = (struct pith_weight){
        .rows = q->rows, .cols = q->groups, .dtype = q->gguf ? PITH_F16 : PITH_F32};
    if (q->outer) {
        pack_two_levels(b, q, parts, &built->pack);
        built->w.pack = &built->pack;
        return &built->w;
    }
    uint16_t *f16 = (uint16_t *)(void *)parts;
    const size_t count = pith_qmat_scale_count(q);
    if (!q->gguf) memcpy(parts, q->offsets, count * sizeof *q->offsets);
    for (size_t i = 0; q->gguf && i < count; i++) f16[i] = pith_f32_to_f16(q->offsets[i]);
    built->w.dense = parts;
    return &built->w;
}

void pith_offsets_sums(const float *x, size_t cols, size_t group, float *sums)
{
    for (size_t c = 0; c < cols; sums++) {
        const size_t end = pith_min(c + group, cols);
        float s[8] = {0};
        for (; c + 8 <= end; c += 8)
            for (size_t i = 0; i < 8; i++) s[i] += x[c + i];
        for (size_t i = 0; c < end; c++, i++) s[i] += x[c];
        *sums = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }
}

/* Rows [row, row + n) of O times sums: to y, or after floats going on with it; of a packed O whole
 * panels are written. */
static void multiply_offsets(const struct pith_backend *b, const struct pith_weight *o, bool bytes,
                             size_t row, size_t n, const float *sums, float *y)
{
    const struct pith_kern *k = &b->kern;
    const bool f16 = o->dtype == PITH_F16;
    pith_matvec_f32_fn *lanes = f16 ? k->lanes_f16 : k->lanes_f32;
    pith_matvec_f32_fn *chain = f16 ? k->matvec_f16 : k->matvec_f32;
    const char *at = (const char *)o->dense + row * o->cols * (f16 ? 2 : 4);
    if (o->pack)
        (bytes ? k->offsets_dot : k->panel_dot)(&o->pack->m, row / PITH_PANEL_ROWS,
                                                (n - 1) / PITH_PANEL_ROWS + 1, sums, y);
    else (bytes ? lanes : chain)(n, o->cols, at, o->cols, sums, y);
}

void pith_offsets_add(const struct pith_backend *b, const struct pith_pack *pack, size_t row,
                      size_t rows, const float *sums, float *y)
{
    enum { PART = 8 * PITH_PANEL_ROWS };
    const bool bytes = pith_bytes_fits(b, pack);
    float part[PART];
    for (size_t done = 0; done < rows; done += PART) {
        const size_t n = pith_min(PART, rows - done);
        memset(part, 0, sizeof part);
        if (!bytes) memcpy(part, y + done, n * sizeof *y);
        multiply_offsets(b, pack->offsets, bytes, row + done, n, sums, part);
        for (size_t i = 0; i < n; i++) y[done + i] = bytes ? y[done + i] + part[i] : part[i];
    }
}

/* A panel of offsets in one level: at[group][16]. `work` has as many floats. */
static void widen_panel(const struct pith_kern *k, const struct pith_weight *o, size_t row,
                        size_t count, float *work, float *at)
{
    const size_t first = row * o->cols;
    const float *from = work;
    if (o->dtype == PITH_F16)
        k->widen_f16(count * o->cols, (const char *)o->dense + first * 2, work);
    else from = (const float *)o->dense + first;
    if (count < PITH_PANEL_ROWS) memset(at, 0, o->cols * PITH_PANEL_ROWS * sizeof *at);
    k->transpose(count, o->cols, from, o->cols, at, PITH_PANEL_ROWS);
}

/* Rows [row, row + count) of O, at most a panel. */
static void add_panel(const struct pith_backend *b, float *memory,
                      const struct pith_offsets_call *c, size_t row, size_t count)
{
    _Static_assert(PITH_SCORES >= 2 * PITH_BYTES_COLS, "a panel fits twice, of groups of 16");
    const struct pith_weight *o = c->pack->offsets;
    float part[PITH_PANEL_ROWS], *at = memory + PITH_SCORES / 2, *y = c->y + row - c->row;
    widen_panel(&b->kern, o, row, count, memory, at);
    if (count == PITH_PANEL_ROWS) {
        b->kern.lanes_panel(c->n, o->cols, c->sums, o->cols, at, y, o->rows);
        return;
    }
    for (size_t i = 0; i < c->n; i++, y += o->rows) {
        memset(part, 0, sizeof part);
        memcpy(part, y, count * sizeof *y);
        b->kern.lanes_panel(1, o->cols, c->sums + i * o->cols, o->cols, at, part, PITH_PANEL_ROWS);
        memcpy(y, part, count * sizeof *y);
    }
}

void pith_offsets_add_rows(const struct pith_backend *b, unsigned thread,
                           const struct pith_offsets_call *c)
{
    const struct pith_weight *o = c->pack->offsets;
    const size_t end = c->row + c->rows;
    for (size_t i = 0; o->pack && i < c->n; i++)
        pith_offsets_add(b, c->pack, c->row, c->rows, c->sums + i * o->cols, c->y + i * o->rows);
    for (size_t row = c->row; !o->pack && row < end; row += PITH_PANEL_ROWS)
        add_panel(b, b->scratch[thread].scores, c, row, pith_min(PITH_PANEL_ROWS, end - row));
}
