/* Packing: see kern/panel.h for the layout. Rows are words of eight 4-bit or four 8-bit codes in
 * the order of the columns; they are transposed and, for 4 bits, split into halves:
 *
 *     word    h g f e d c b a   (a: the first column)    ->    line field   hd gc fb ea
 *
 * Codes that lie in planes become words of four bytes first, which are transposed likewise. */
#include "backend/pack.h"

#include "backend/parts.h"
#include "base/arena.h"
#include "base/mem.h"
#include "num/elements/elements.h"
#include "num/gguf/kquant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 /* of a row at a time: four cache lines */ };

/* What a matrix becomes, and where. */
struct packing {
    const struct pith_kern *k;
    const struct pith_qmat *q;
    enum pith_panel_form form;
    unsigned bits; /* of a code in a panel */
    enum pith_panel_scale scale;
    size_t panels, lines; /* lines: of a panel, of codes in planes as if they were bytes */
    uint8_t *codes, *scales, *outer, *zeros;
    uint32_t *order; /* NULL: as stored */
    void *offsets;
};

static bool form_of(const struct pith_format *f, enum pith_panel_form *out)
{
    if (f->kind == PITH_KIND_INT) *out = f->bits <= 4 ? PITH_PANEL_LEVEL4 : PITH_PANEL_INT8;
    else if (f->codec != &pith_codec_values) return false;
    else if (f->bits == 4) *out = PITH_PANEL_LEVEL4;
    else if (f->decode == pith_fp8_e4m3_decode) *out = PITH_PANEL_E4M3;
    else if (f->decode == pith_fp8_e5m2_decode) *out = PITH_PANEL_E5M2;
    else return false;
    return true;
}

static unsigned wide_bits(enum pith_panel_form form)
{
    return form == PITH_PANEL_LEVEL4 ? 4 : 8;
}

/* Integers of 2, 3, 5 and 6 bits keep their width where groups, and blocks of an input on a grid,
 * are whole steps. */
static unsigned bits_of(const struct pith_qmat *q, enum pith_panel_form form)
{
    const unsigned bits = q->format->bits, wide = wide_bits(form);
    const struct pith_grid *x = &q->input.grid;
    if (q->format->kind != PITH_KIND_INT || bits < 2 || bits == 7 || bits >= wide) return wide;
    if (q->cols % PITH_PANEL_STEP != 0) return wide;
    if (q->groups > 1 && q->group % PITH_PANEL_STEP != 0) return wide;
    const bool by_group = x->format && x->granularity == PITH_PER_GROUP;
    return by_group && x->group % PITH_PANEL_STEP != 0 ? wide : bits;
}

/* One scale as it is stored; false when an E4M3 one does not come back the same. */
static inline bool scale_store(enum pith_panel_scale kind, float global, float scale, void *to)
{
    uint16_t h;
    uint8_t byte;
    uint32_t bits;
    switch (kind) {
    case PITH_SCALE_BF16:
        memcpy(&bits, &scale, sizeof bits);
        h = (uint16_t)(bits >> 16);
        memcpy(to, &h, sizeof h);
        return true;
    case PITH_SCALE_F16:
        h = pith_f32_to_f16(scale);
        memcpy(to, &h, sizeof h);
        return true;
    case PITH_SCALE_E8M0:
        byte = (uint8_t)pith_e8m0_encode(scale);
        memcpy(to, &byte, sizeof byte);
        return true;
    case PITH_SCALE_E4M3:
        byte = (uint8_t)pith_fp8_e4m3_encode(scale / global);
        memcpy(to, &byte, sizeof byte);
        return pith_fp8_e4m3_decode(byte) * global == scale;
    case PITH_SCALE_F32:
    default: memcpy(to, &scale, sizeof scale); return true;
    }
}

int pith_pack_factor(float x, float d)
{
    const float v = d == 0.0f ? 0.0f : x / d;
    return (int)(v < 0.0f ? v - 0.5f : v + 0.5f);
}

/* How the scales are stored. That they are exact in their type is known, but for E4M3 the factor
 * may round. */
static enum pith_panel_scale scale_kind(const struct pith_qform *f)
{
    const struct pith_qmat *q = &f->q;
    const size_t count = pith_qmat_scale_count(q);
    float ignored;
    if (f->outer && q->global == 1.0f) return PITH_SCALE_PRODUCT;
    switch (q->scale_dtype) {
    case PITH_BF16: return PITH_SCALE_BF16;
    case PITH_F16: return PITH_SCALE_F16;
    case PITH_F8_E8M0: return PITH_SCALE_E8M0;
    case PITH_F8_E4M3:
        for (size_t i = 0; q->scales && i < count; i++)
            if (!scale_store(PITH_SCALE_E4M3, q->global, q->scales[i], &ignored))
                return PITH_SCALE_F32;
        return PITH_SCALE_E4M3;
    default: return PITH_SCALE_F32;
    }
}

/* False when the matrix has no packed form. Numbers are looked at where there are some. */
static bool lay_out(struct pith_arena *a, const struct pith_qform *f, struct packing *p)
{
    const struct pith_qmat *q = &f->q;
    p->q = q;
    if (f->sparse || !form_of(q->format, &p->form)) return false;
    p->bits = bits_of(q, p->form);
    const size_t width = pith_panel_step(p->bits);
    if (q->cols % width != 0 || (q->groups > 1 && q->group % width != 0)) return false;
    if (f->ordered && (q->input.grid.format || !pith_order_find(q, NULL))) return false;
    const size_t offsets = f->offsets ? pith_offsets_bytes(f) : 0;
    if (f->offsets && offsets == 0) return false;
    p->scale = scale_kind(f);
    p->panels = ((size_t)q->rows + PITH_PANEL_ROWS - 1) / PITH_PANEL_ROWS;
    p->lines = pith_panel_has_planes(p->bits) ? q->cols / 4 : q->cols / width;
    const struct pith_panels m = {.bits = p->bits, .cols = q->cols};
    const size_t scales = p->panels * q->groups * PITH_PANEL_ROWS;
    const bool product = p->scale == PITH_SCALE_PRODUCT;
    p->codes = pith_arena_take_rows(a, p->panels, pith_panel_bytes(&m), 1);
    p->scales = pith_arena_take(a, scales, pith_panel_scale_bytes(p->scale));
    p->outer = pith_arena_take(a, product ? scales / pith_qmat_block_groups(q) : 0, 2);
    p->zeros = pith_arena_take(a, f->zeros ? scales : 0, 1);
    p->order = pith_arena_take(a, f->ordered ? q->cols : 0, sizeof *p->order);
    p->offsets = pith_arena_take(a, offsets, 1);
    return !a->failed;
}

static size_t form_bytes(const struct pith_qform *f)
{
    struct packing p = {0};
    struct pith_arena a = {0};
    return lay_out(&a, f, &p) ? a.used : 0;
}

/* Columns of a block of x: as many as a group allows, from `least` to `most`; 0 when it allows
 * none.
 */
static size_t x_block(const struct pith_qmat *q, size_t least, size_t most)
{
    while (q->groups > 1 && q->group % most != 0 && most > least) most /= 2;
    const bool fits = (q->cols + most - 1) / most <= PITH_BYTES_SCALES;
    return (q->groups > 1 && q->group % most != 0) || !fits ? 0 : pith_min(most, q->cols);
}

static bool has_bytes(const struct pith_qmat *q, enum pith_panel_scale kind)
{
    return q->format->kind == PITH_KIND_INT && pith_panel_scale_wide(kind);
}

/* The same of x as digits, whose groups are whole blocks; 0: it is not taken as digits. */
static size_t digits_block(const struct pith_qmat *q)
{
    return q->groups == 1 || q->group % 128 == 0 ? x_block(q, PITH_BYTES_BLOCK, 128) : 0;
}

size_t pith_pack_bytes(const struct pith_qmat *q)
{
    const struct pith_qform f = pith_qmat_form(q);
    return form_bytes(&f);
}

size_t pith_pack_spec_bytes(const struct pith_qspec *s, const struct pith_grid *input)
{
    struct pith_qform f;
    if (!pith_qspec_form(s, &f)) return 0;
    if (input) f.q.input.grid = *input;
    return form_bytes(&f);
}

bool pith_pack_spec_digits(const struct pith_qspec *s)
{
    struct packing p = {0};
    struct pith_arena a = {0};
    struct pith_qform f;
    return pith_qspec_form(s, &f) && lay_out(&a, &f, &p) && has_bytes(&f.q, p.scale) &&
           digits_block(&f.q) > 0;
}

size_t pith_pack_spec_prepared(const struct pith_qspec *s, size_t rows)
{
    struct pith_qform f;
    if (!pith_qspec_form(s, &f) || !f.offsets) return 0;
    const size_t most = PITH_PREPARED_FLOATS / f.q.groups;
    const size_t bytes = f.q.groups * pith_min(rows, most) * sizeof(float);
    return (bytes + PITH_HUGE_PAGE - 1) / PITH_HUGE_PAGE * PITH_HUGE_PAGE;
}

bool pith_pack_prepares(const struct pith_pack *p)
{
    return p->order || p->offsets;
}

/* Words [first, first + n) of rows whose codes have another width or order than the panels', with
 * codes of 4 or 8 bits; of planes the latter. */
static void widen_rows(const struct packing *p, size_t row, size_t count, size_t first, size_t n,
                       uint32_t (*words)[WORDS])
{
    const struct pith_qmat *q = p->q;
    const unsigned bits = q->format->bits, wanted = p->bits == 4 ? 4 : 8;
    const size_t width = 32 / wanted;
    uint8_t codes[WORDS * 8];
    for (size_t r = 0; r < count; r++) {
        const uint8_t *stream = q->codes + (row + r) * q->stride;
        uint8_t *to = wanted == 8 ? (uint8_t *)words[r] : codes;
        if (p->order) pith_order_codes(stream, bits, p->order + first * width, n * width, to);
        else pith_bits_get(stream, first * width, bits, n * width, to);
        if (wanted != 8) pith_bits_put((uint8_t *)words[r], 0, wanted, n * width, codes);
    }
}

/* Of rows [row, row + count) of a panel, a step of planes after the other. */
static void pack_planes(const struct packing *p, size_t row, size_t count, uint8_t *to)
{
    uint32_t wide[PITH_PANEL_ROWS][WORDS] = {{0}};
    uint8_t words[WORDS][PITH_PANEL_LINE] = {{0}};
    for (size_t word = 0; word < p->lines; word += WORDS) {
        const size_t n = pith_min(WORDS, p->lines - word);
        widen_rows(p, row, count, word, n, wide);
        p->k->transpose(count, n, (const float *)(const void *)wide, WORDS,
                        (float *)(void *)words, PITH_PANEL_ROWS);
        for (size_t i = 0; i < n; i += PITH_PANEL_WORDS) {
            pith_panel_put_step(p->bits, (const uint8_t(*)[PITH_PANEL_LINE])(words + i), to);
            to += pith_panel_span(p->bits, PITH_PANEL_STEP);
        }
    }
}

/* Words are moved as floats, which changes no bit. Rows of a stored matrix are whole words, at
 * addresses that are multiples of four. */
static void pack_codes(const struct packing *p, size_t panel)
{
    const struct pith_qmat *q = p->q;
    const bool as_stored = q->format->bits == p->bits && !p->order;
    const size_t row = panel * PITH_PANEL_ROWS, count = pith_min(PITH_PANEL_ROWS, q->rows - row);
    const struct pith_panels m = {.bits = p->bits, .cols = q->cols};
    uint32_t widened[PITH_PANEL_ROWS][WORDS] = {{0}};
    uint8_t *to = p->codes + panel * pith_panel_bytes(&m);
    if (pith_panel_has_planes(p->bits)) {
        pack_planes(p, row, count, to);
        return;
    }
    if (count < PITH_PANEL_ROWS) memset(to, 0, p->lines * PITH_PANEL_LINE);
    for (size_t word = 0; word < p->lines; word += WORDS, to += WORDS * PITH_PANEL_LINE) {
        const size_t n = pith_min(WORDS, p->lines - word);
        const void *from = as_stored ? (const void *)(q->codes + row * q->stride + word * 4)
                                     : (const void *)widened;
        if (!as_stored) widen_rows(p, row, count, word, n, widened);
        p->k->transpose(count, n, from, as_stored ? q->stride / 4 : WORDS, (float *)(void *)to,
                        PITH_PANEL_ROWS);
        if (p->bits == 4) p->k->to_nibbles(n * PITH_PANEL_ROWS, (uint32_t *)(void *)to);
    }
}

/* Of a row and group; rows past the last have 0. */
static void pack_scale(const struct packing *p, uint32_t row, uint32_t g, uint8_t *to)
{
    const struct pith_qmat *q = p->q;
    if (row >= q->rows) {
        memset(to, 0, pith_panel_scale_bytes(p->scale));
        return;
    }
    const float scale = q->scales[pith_qmat_scale_index(q, row, g)];
    if (p->scale != PITH_SCALE_PRODUCT) {
        (void)scale_store(p->scale, q->global, scale, to);
        return;
    }
    *to = (uint8_t)(int8_t)pith_pack_factor(scale, pith_qmat_outer(q, row, g)->d);
}

static void pack_outer(const struct packing *p, size_t panel)
{
    const struct pith_qmat *q = p->q;
    const uint32_t each = pith_qmat_block_groups(q);
    uint16_t *to = (uint16_t *)(void *)p->outer + panel * (q->groups / each) * PITH_PANEL_ROWS;
    for (uint32_t g = 0; g < q->groups; g += each)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++, to++) {
            const size_t row = panel * PITH_PANEL_ROWS + r;
            *to = row < q->rows ? pith_f32_to_f16(pith_qmat_outer(q, (uint32_t)row, g)->d) : 0;
        }
}

static void pack_scales(const struct packing *p, size_t panel)
{
    const struct pith_qmat *q = p->q;
    const size_t bytes = pith_panel_scale_bytes(p->scale);
    for (uint32_t g = 0; g < q->groups; g++)
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++) {
            const uint32_t row = (uint32_t)(panel * PITH_PANEL_ROWS + r);
            const size_t to = (panel * q->groups + g) * PITH_PANEL_ROWS + r;
            pack_scale(p, row, g, p->scales + to * bytes);
            if (p->zeros)
                p->zeros[to] = row < q->rows ? q->zeros[pith_qmat_scale_index(q, row, g)] : 0;
        }
    if (p->outer) pack_outer(p, panel);
}

static void pack_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    pack_codes(ctx, task);
    pack_scales(ctx, task);
}

/* What level becomes in units of 1/n. */
static int in_units(float level, int n)
{
    return (int)floor((double)level * n + 0.5);
}

/* The units in which the levels lose least, of those in which they are bytes. */
static void set_factors(struct pith_panels *m)
{
    float most = 0.0f;
    double least = HUGE_VAL;
    int units = 0, largest = 0;
    for (int c = 0; c < 16; c++) most = fmaxf(most, fabsf(m->level[c]));
    for (int n = 1; n <= PITH_FACTORS_LARGE_ZERO && most * (float)n <= PITH_FACTORS_LARGE_ZERO;
         n++) {
        double lost = 0;
        for (int c = 0; c < 16; c++) {
            const double d = (double)in_units(m->level[c], n) / n - (double)m->level[c];
            lost += d * d;
        }
        if (lost >= least) continue;
        least = lost;
        units = n;
    }
    if (units == 0) return;
    for (int c = 0; c < 16; c++) {
        const int size = abs(in_units(m->level[c], units));
        if (size > largest) largest = size;
    }
    const bool small = largest <= PITH_FACTORS_SMALL_ZERO;
    m->factors = small ? PITH_FACTORS_SMALL : PITH_FACTORS_LARGE;
    m->zero = small ? PITH_FACTORS_SMALL_ZERO : PITH_FACTORS_LARGE_ZERO;
    m->unit = 1.0f / (float)units;
    for (int c = 0; c < 16; c++)
        m->factor[c] = (uint8_t)(in_units(m->level[c], units) + (int)m->zero);
}

static void set_levels(const struct pith_qmat *q, struct pith_panels *m)
{
    const struct pith_format *f = q->format;
    const bool integer = f->kind == PITH_KIND_INT;
    m->zero = q->zeros ? 0.0f : pith_qmat_zero(q, 0);
    if (m->form != PITH_PANEL_LEVEL4) return;
    const uint32_t codes = 1u << m->bits;
    for (uint32_t c = 0; c < 16; c++)
        m->level[c] = integer ? (float)(c % codes) - m->zero : f->decode(c);
    if (!integer) set_factors(m);
}

/* Whether all zeros times their scales are exact, which takes 24 bits at most, and finite. Zeros of
 * a format that stores none are powers of two. Of E4M3: whether scales times 2^8 are exact. */
static bool folds(const struct pith_qmat *q, const struct pith_panels *m)
{
    const float most = 0x1p100f;
    const bool few_bits = m->scale == PITH_SCALE_BF16 || m->scale == PITH_SCALE_F16 ||
                          (m->scale == PITH_SCALE_PRODUCT && m->form == PITH_PANEL_LEVEL4);
    const bool e4m3 = m->form == PITH_PANEL_E4M3 && m->scale != PITH_SCALE_E4M3;
    if (!e4m3 && (q->format->kind != PITH_KIND_INT || (m->zeros && !few_bits))) return false;
    const size_t count = pith_qmat_scale_count(q);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(q->scales[i]) < most)) return false;
    return true;
}

/* The largest block of columns in which both x, on the grid of its input, and W have one scale, and
 * which the integer kernels take; 0 when there is none, or x is no integers alone. */
static size_t input_block(const struct pith_qmat *q)
{
    const struct pith_grid *x = &q->input.grid;
    if (!x->format || x->format->kind != PITH_KIND_INT || q->input.threshold > 0.0f) return 0;
    if (x->asym && x->granularity == PITH_PER_GROUP) return 0;
    size_t block = q->groups == 1 ? q->cols : q->group;
    if (x->granularity == PITH_PER_GROUP && x->group < block) {
        if ((q->groups > 1 && block % x->group != 0) || x->group % 8 != 0) return 0;
        block = x->group;
    } else if (x->granularity == PITH_PER_GROUP && x->group % block != 0) {
        return 0;
    }
    const bool fits = q->cols <= PITH_BYTES_COLS && q->cols / block < PITH_BYTES_SCALES;
    return fits ? block : 0;
}

void pith_pack_init(struct pith_backend *b, const struct pith_qmat *q, void *memory,
                    struct pith_pack *out)
{
    struct packing p = {.k = &b->kern};
    struct pith_arena a = {.base = memory, .size = SIZE_MAX};
    *out = (struct pith_pack){.rows = q->rows,
                              .cols = q->cols,
                              .bits_per_weight = pith_qmat_bits_per_weight(q),
                              .input = q->input};
    const struct pith_qform form = pith_qmat_form(q);
    if (!lay_out(&a, &form, &p)) return;
    if (p.order) (void)pith_order_find(q, p.order); /* found before, for the plan */
    if (p.offsets) out->offsets = pith_offsets_init(b, q, p.offsets);
    out->panels = p.panels;
    out->bytes = a.used;
    out->order = p.order;
    out->m = (struct pith_panels){.form = p.form,
                                  .bits = p.bits,
                                  .scale = p.scale,
                                  .cols = q->cols,
                                  .group = q->group,
                                  .groups = q->groups,
                                  .codes = p.codes,
                                  .scales = p.scales,
                                  .zeros = p.zeros,
                                  .global = q->global,
                                  .outer = p.outer};
    while (p.outer && 2u << out->m.outer_shift <= pith_qmat_block_groups(q)) out->m.outer_shift++;
    set_levels(q, &out->m);
    out->m.fold = folds(q, &out->m);
    if (has_bytes(q, p.scale)) {
        out->block = x_block(q, PITH_BYTES_BLOCK / 2, 64);
        out->digits = digits_block(q);
    }
    if (out->m.factors) out->block = x_block(q, PITH_BYTES_BLOCK / 2, 64);
    else if (out->block >= PITH_BYTES_BLOCK && !q->offsets) out->input_block = input_block(q);
    pith_pool_run(b->pool, p.panels, pack_task, &p);
}

/* --- rows ------------------------------------------------------------------------------------- */

static float weight_at(const struct pith_panels *m, uint32_t row, size_t col)
{
    const size_t panel = row / PITH_PANEL_ROWS, r = row % PITH_PANEL_ROWS;
    const size_t index = (panel * m->groups + col / m->group) * PITH_PANEL_ROWS + r;
    return pith_panel_value_at(m, panel, r, col) * pith_panel_scale_at(m, index);
}

static float offset_at(const struct pith_weight *o, uint32_t row, size_t group)
{
    const size_t i = row * (size_t)o->cols + group;
    uint16_t half;
    float whole;
    if (o->pack) return weight_at(&o->pack->m, row, group);
    if (o->dtype == PITH_F32) {
        memcpy(&whole, (const char *)o->dense + i * sizeof whole, sizeof whole);
        return whole;
    }
    memcpy(&half, (const char *)o->dense + i * sizeof half, sizeof half);
    return pith_f16_to_f32(half);
}

void pith_pack_row(const struct pith_pack *p, uint32_t row, float *out)
{
    const struct pith_panels *m = &p->m;
    for (size_t g = 0, c = 0; g < m->groups; g++) {
        const float offset = p->offsets ? offset_at(p->offsets, row, g) : 0.0f;
        for (const size_t end = pith_min(c + m->group, m->cols); c < end; c++) {
            const float v = weight_at(m, row, c);
            out[p->order ? p->order[c] : c] = p->offsets ? v + offset : v;
        }
    }
}

/* --- rounding to bytes ------------------------------------------------------------------------ */

struct rounding {
    struct pith_backend *b;
    const struct pith_weight *w;
    struct pith_qmat *q;
    float *rows; /* [threads][cols] */
};

static void round_pack_task(void *ctx, size_t row, unsigned thread)
{
    const struct rounding *r = ctx;
    const size_t cols = r->w->cols;
    float *x = r->rows + thread * cols;
    uint8_t *codes = r->q->codes + row * r->q->stride;
    int32_t sum;
    pith_weight_decode(r->w, (uint32_t)row, 1, x);
    r->b->kern.to_bytes(cols, cols, x, (int8_t *)codes, &r->q->scales[row], &sum);
    for (size_t c = 0; c < cols; c++) codes[c] ^= 0x80; /* a signed byte plus 128 */
}

enum pith_status pith_round_to_bytes(struct pith_backend *b, const struct pith_weight *w,
                                     struct pith_qmat *out, struct pith_error *err)
{
    struct pith_grid grid;
    PITH_TRY(pith_grid_parse("int8:channel", &grid, err));
    PITH_TRY(pith_qmat_init(out, w->rows, w->cols, &grid, PITH_F32, err));
    struct rounding r = {.b = b, .w = w, .q = out};
    r.rows = pith_alloc_aligned((size_t)b->threads * w->cols, sizeof *r.rows);
    enum pith_status s = r.rows ? PITH_OK : pith_fail_nomem(err, "rounding");
    if (s == PITH_OK) pith_pool_run(b->pool, w->rows, round_pack_task, &r);
    for (uint32_t i = 0; s == PITH_OK && i < w->rows; i++)
        if (!isfinite(out->scales[i]))
            s = pith_fail(err, PITH_NUMERIC, "row %u is not finite", (unsigned)i);
    pith_free(r.rows);
    if (s != PITH_OK) pith_qmat_free(out);
    return s;
}
