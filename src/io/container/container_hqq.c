/* The hqq container. For a linear W[N, K] of b bits in groups of g inputs, R = N K / g groups:
 *     W_q    U8 [R / n, g]          n = 8 / b codes a byte, for b = 2, 4, 8;
 *            I32 [ceil(R / 10), g]  ten codes a word for b = 3
 *     scale, zero  [R, 1]           F16, or BF16 in models of BF16
 * All codes in order, seen as one run, are cut into n (or 10) parts of equal length, the last
 * filled up with zeros; element i of W_q holds element i of every part, the first part's in the
 * highest bits (of a word in bits 27 to 29). W = (code - zero) * scale: zero points are any
 * numbers.
 *
 * A linear has all its parameters in small tensors next to these (nbits, group_size, axis, shape,
 * packing and flags; numbers without a shape, texts as their bytes), and the same stands in
 * config.json, one for all linears or by "tag": the module's name without "model", "layers" and
 * numbers. Groups along the outputs (axis 0), scales that are quantized again and codes viewed as
 * floats are not read.
 *
 * Sources: hqq 0.2.8, hqq/core/quantize.py (Quantizer, HQQLinear.state_dict), hqq/core/bitpack.py,
 * hqq/core/utils.py (encode_safetensor_type); transformers utils/quantization_config.py
 * (HqqConfig), integrations/hqq.py (name_to_linear_tag). */
#include "io/container/container.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* How codes of some width share an element of W_q. */
struct packing {
    unsigned bits, parts, bytes; /* of a code; parts; bytes of an element */
    const char *name, *view;     /* as the package names it, and the elements' type */
};
static const struct packing packings[] = {
    {2, 4, 1, "2bit_u8", "torch.uint8"},
    {3, 10, 4, "3bit_32", "torch.int32"},
    {4, 2, 1, "4bit_u8", "torch.uint8"},
    {8, 1, 1, "8bit_u8", "torch.uint8"},
};
#define BITS (1u << 2 | 1u << 3 | 1u << 4 | 1u << 8)
enum { GROUP_STEP = 8 }; /* groups are a multiple of it */

static const struct packing *packing_of(int64_t bits)
{
    for (size_t i = 0; i < PITH_COUNT(packings); i++)
        if (packings[i].bits == bits) return &packings[i];
    return NULL;
}

/* Where a matrix's codes lie. */
struct place {
    const struct packing *p;
    uint64_t scales, packed; /* groups of the matrix; rows of W_q */
    size_t group, step;      /* elements of a part */
};

/* False where the package's own packing would lose codes. */
static bool place_of(unsigned bits, uint32_t rows, uint32_t cols, uint32_t group, struct place *at)
{
    *at = (struct place){.p = packing_of(bits), .group = group};
    at->scales = (uint64_t)rows * (cols / group);
    const unsigned parts = at->p->parts;
    at->packed = (at->scales + parts - 1) / parts;
    at->step = (size_t)at->packed * group;
    return at->p->bytes == 4 || at->scales % parts == 0;
}

/* Codes [first, first + n) of the run come from, or go to, a row of bytes. */
static void get_run(const struct place *at, const uint8_t *in, size_t first, size_t n,
                    uint8_t *codes)
{
    const unsigned bits = at->p->bits, mask = (1u << bits) - 1;
    for (size_t i = 0, part = first / at->step, e = first % at->step; i < n; i++) {
        const unsigned shift = (at->p->parts - 1 - (unsigned)part) * bits;
        uint32_t word = in[e * at->p->bytes];
        if (at->p->bytes == 4) memcpy(&word, in + e * 4, 4);
        codes[i] = (uint8_t)(word >> shift & mask);
        if (++e < at->step) continue;
        e = 0;
        part++;
    }
}

static void put_run(const struct place *at, const uint8_t *codes, size_t first, size_t n,
                    uint8_t *out)
{
    const unsigned bits = at->p->bits;
    for (size_t i = 0, part = first / at->step, e = first % at->step; i < n; i++) {
        const unsigned shift = (at->p->parts - 1 - (unsigned)part) * bits;
        uint32_t word = 0;
        memcpy(&word, out + e * at->p->bytes, at->p->bytes);
        word |= (uint32_t)codes[i] << shift;
        memcpy(out + e * at->p->bytes, &word, at->p->bytes);
        if (++e < at->step) continue;
        e = 0;
        part++;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static uint32_t group_of(const struct pith_grid *grid, uint32_t cols)
{
    return grid->granularity == PITH_PER_GROUP ? grid->group : cols;
}

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    char text[PITH_GRID_TEXT] = "none";
    struct place at;
    if (grid->format) pith_grid_format(grid, text);
    PITH_TRY(pith_accepts_ints("hqq", grid, BITS | PITH_ANY_ZEROS, err));
    if (!grid->hqq || grid->granularity == PITH_PER_TENSOR)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "hqq holds zero points that are any numbers, by channel or group, not %s; "
                         "use a grid like int4:g64:asym:hqq",
                         text);
    if (opts->acts.format || opts->act_order_groups || opts->threshold > 0.0f)
        return pith_fail(err, PITH_UNSUPPORTED, "hqq cannot express %s",
                         opts->acts.format ? "quantized inputs; use `acts=none`"
                                           : "act-order groups or columns in 16 bits");
    const uint32_t group = group_of(grid, cols);
    if (group % GROUP_STEP || cols % group)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "hqq cannot hold groups of %" PRIu32 " in %" PRIu32 " columns: a group is "
                         "a multiple of %d and divides them",
                         group, cols, GROUP_STEP);
    if (!place_of(grid->format->bits, rows, cols, group, &at))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "hqq cannot hold %s in a matrix of %" PRIu32 " x %" PRIu32
                         ": its groups must be a multiple of %u",
                         text, rows, cols, at.p->parts);
    return PITH_OK;
}

/* What a linear states in addition to W_q, scale and zero. */
enum { NUMBER, FLAG, TEXT };
struct note {
    const char *suffix;
    int kind, value; /* NUMBER: 0 bits, 1 group, 2 axis; FLAG: the flag; TEXT: 0 packing, ... */
};
static const struct note notes[] = {
    {".nbits", NUMBER, 0},
    {".group_size", NUMBER, 1},
    {".axis", NUMBER, 2},
    {".channel_wise", FLAG, 1},
    {".optimize", FLAG, 1},
    {".round_zero", FLAG, 0},
    {".view_as_float", FLAG, 0},
    {".quant_scale", FLAG, 0},
    {".quant_zero", FLAG, 0},
    {".offload_meta", FLAG, 0},
    {".encoded_state_dict", FLAG, 1},
    {".stores_quant_config", FLAG, 1},
    {".packing", TEXT, 0},
    {".unpack_view_dtype", TEXT, 1},
    {".compute_dtype", TEXT, 2},
};

static const char *text_of(int which, const struct packing *p, enum pith_dtype dtype)
{
    const char *const texts[] = {p->name, p->view,
                                 dtype == PITH_BF16 ? "torch.bfloat16" : "torch.float16"};
    return texts[which];
}

static void shape_set(const struct place *at, enum pith_dtype dtype, struct pith_packed_set *out)
{
    const uint64_t codes[] = {at->packed, at->group}, scales[] = {at->scales, 1};
    *out = (struct pith_packed_set){0};
    pith_packed_add(out, ".W_q", at->p->bytes == 4 ? PITH_I32 : PITH_U8, 2, codes);
    pith_packed_add(out, ".scale", dtype, 2, scales);
    pith_packed_add(out, ".zero", dtype, 2, scales);
    pith_packed_add(out, ".shape", PITH_I64, 1, (const uint64_t[]){2});
    for (size_t i = 0; i < PITH_COUNT(notes); i++) {
        const struct note *n = &notes[i];
        const uint64_t length = n->kind == TEXT ? strlen(text_of(n->value, at->p, dtype)) : 1;
        pith_packed_add(out, n->suffix, n->kind == NUMBER ? PITH_I32 : PITH_U8, n->kind == TEXT,
                        &length);
    }
}
enum { FIRST_NOTE = 4 };
_Static_assert(FIRST_NOTE + PITH_COUNT(notes) <= PITH_MAX_PACKED, "a linear's tensors fit");

static enum pith_status plan(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                             const struct pith_container_opts *opts, struct pith_packed_set *out,
                             struct pith_error *err)
{
    struct place at;
    PITH_TRY(accepts(grid, rows, cols, opts, err));
    (void)place_of(grid->format->bits, rows, cols, group_of(grid, cols), &at);
    shape_set(&at, pith_scale_half(grid, opts->model_dtype), out);
    return PITH_OK;
}

static void store_notes(const struct pith_qmat *q, const struct place *at, enum pith_dtype dtype,
                        struct pith_packed_set *out)
{
    const int64_t shape[2] = {q->rows, q->cols};
    const int32_t numbers[] = {(int32_t)at->p->bits, (int32_t)at->group, 1};
    memcpy(out->item[3].data, shape, sizeof shape);
    for (size_t i = 0; i < PITH_COUNT(notes); i++) {
        struct pith_packed *p = &out->item[FIRST_NOTE + i];
        const int v = notes[i].value;
        if (notes[i].kind == NUMBER) memcpy(p->data, &numbers[v], sizeof numbers[v]);
        else if (notes[i].kind == FLAG) *(uint8_t *)p->data = (uint8_t)v;
        else memcpy(p->data, text_of(v, at->p, dtype), p->bytes);
    }
}

static float zero_of(enum pith_dtype dtype, float scale, float offset)
{
    return scale != 0.0f ? pith_round_to(dtype, -offset / scale) : 0.0f;
}

static float stated_offset(enum pith_dtype dtype, float scale, float offset)
{
    return -(zero_of(dtype, scale, offset) * scale);
}

/* -offset / scale, which dtype holds: offsets were made of such numbers. */
static enum pith_status store_zeros(const struct pith_qmat *q, enum pith_dtype dtype, void *out,
                                    struct pith_error *err)
{
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++) {
        const float s = q->scales[i], o = q->offsets[i];
        const float z = zero_of(dtype, s, o);
        if (-(z * s) != o || !pith_number_store(dtype, z, i, out))
            return pith_fail(err, PITH_NUMERIC, "hqq: a zero point is none that %s holds",
                             pith_dtype_name(dtype));
    }
    return PITH_OK;
}

static void store_codes(const struct pith_qmat *q, const struct place *at, uint8_t *row,
                        uint8_t *out)
{
    for (uint32_t r = 0; r < q->rows; r++) {
        pith_qmat_get_codes(q, r, row);
        put_run(at, row, (size_t)r * q->cols, q->cols, out);
    }
}

static enum pith_status pack(const struct pith_qmat *q, const struct pith_container_opts *opts,
                             struct pith_packed_set *out, struct pith_error *err)
{
    const struct pith_grid grid = pith_qmat_grid(q);
    const enum pith_dtype dtype = pith_scale_half(&grid, opts->model_dtype);
    struct place at;
    PITH_TRY(accepts(&grid, q->rows, q->cols, opts, err));
    (void)place_of(q->format->bits, q->rows, q->cols, q->group, &at);
    shape_set(&at, dtype, out);
    PITH_TRY(pith_packed_alloc(out, err));
    uint8_t *row = pith_alloc(q->cols, 1);
    enum pith_status s = row ? PITH_OK : pith_fail_nomem(err, "packed weights");
    if (s == PITH_OK) {
        store_codes(q, &at, row, out->item[0].data);
        store_notes(q, &at, dtype, out);
        s = pith_scales_store(q, dtype, false, q->rows, out->item[1].data, err);
    }
    if (s == PITH_OK) s = store_zeros(q, dtype, out->item[2].data, err);
    pith_free(row);
    if (s != PITH_OK) pith_packed_free(out);
    return s;
}

/* --- config ----------------------------------------------------------------------------------- */

/* The name's parts but "model", "layers" and numbers. */
static void tag_of(const char *module, char *tag, size_t size)
{
    size_t used = 0;
    tag[0] = '\0';
    for (const char *p = module; *p;) {
        const size_t n = strcspn(p, ".");
        size_t digits = 0;
        while (digits < n && isdigit((unsigned char)p[digits])) digits++;
        const bool out = digits == n || (n == 5 && memcmp(p, "model", 5) == 0) ||
                         (n == 6 && memcmp(p, "layers", 6) == 0);
        if (!out && used + n + 2 <= size) {
            if (used) tag[used++] = '.';
            memcpy(tag + used, p, n);
            used += n;
            tag[used] = '\0';
        }
        p += n + (p[n] == '.');
    }
}

static json_t *tag_config(const struct pith_grid *grid)
{
    const bool group = grid->granularity == PITH_PER_GROUP;
    return json_pack("{s:{s:i, s:b, s:o, s:b, s:b, s:i, s:b}, s:n, s:n, s:b}",
                     "weight_quant_params", "nbits", (int)grid->format->bits, "channel_wise", 1,
                     "group_size", group ? json_integer(grid->group) : json_null(), "optimize", 1,
                     "round_zero", 0, "axis", 1, "view_as_float", 0, "scale_quant_params",
                     "zero_quant_params", "offload_meta", 0);
}

static bool same_grid(const struct pith_grid *a, const struct pith_grid *b)
{
    return a->format && b->format ? pith_grid_equal(a, b) : a->format == b->format;
}

/* Adds a linear's tag with its index. Linears of one tag are alike: the config cannot separate them
 * apart. */
static enum pith_status add_tag(json_t *tags, const struct pith_linear_grid *linears, size_t i,
                                struct pith_error *err)
{
    char tag[256];
    tag_of(linears[i].module, tag, sizeof tag);
    const json_t *had = json_object_get(tags, tag);
    if (!had)
        return json_object_set_new(tags, tag, json_integer((json_int_t)i)) == 0
                   ? PITH_OK
                   : pith_fail_nomem(err, linears[i].module);
    if (same_grid(&linears[i].grid, &linears[json_integer_value(had)].grid)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "hqq: \"%.100s\" has another grid than other layers have there, which its "
                     "config cannot say; use the same in all layers",
                     linears[i].module);
}

/* Of the tags, one config when all are the same, else those of each; NULL when memory is out. */
static json_t *whole_config(json_t *tags, const struct pith_linear_grid *linears)
{
    const char *tag;
    json_t *index, *skip = json_array(), *each = json_object();
    const struct pith_grid *one = NULL;
    bool ok = skip && each, mixed = false;
    json_object_foreach (tags, tag, index) {
        const struct pith_grid *g = &linears[json_integer_value(index)].grid;
        if (!ok) break;
        if (!g->format) {
            ok = json_array_append_new(skip, json_string(tag)) == 0;
            continue;
        }
        mixed |= one && !pith_grid_equal(one, g);
        one = g;
        ok = json_object_set_new(each, tag, tag_config(g)) == 0;
    }
    if (ok && !json_object_get(tags, "lm_head"))
        ok = json_array_append_new(skip, json_string("lm_head")) == 0;
    json_t *config = !ok ? NULL : mixed ? json_incref(each) : tag_config(one);
    json_t *out = config ? json_pack("{s:s, s:o, s:O}", "quant_method", "hqq", "quant_config",
                                     config, "skip_modules", skip)
                         : NULL;
    json_decref(skip);
    json_decref(each);
    return out;
}

static enum pith_status make_config(const struct pith_linear_grid *linears, size_t count,
                                    const struct pith_container_opts *opts, json_t **out,
                                    struct pith_error *err)
{
    json_t *tags = json_object();
    enum pith_status s = tags ? PITH_OK : pith_fail_nomem(err, "the config of hqq");
    bool any = false;
    (void)opts;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        any |= linears[i].grid.format != NULL;
        s = add_tag(tags, linears, i, err);
    }
    if (s == PITH_OK && !any) s = pith_fail(err, PITH_ARG, "hqq: no linear is quantized");
    if (s == PITH_OK) {
        *out = whole_config(tags, linears);
        if (!*out) s = pith_fail_nomem(err, "the config of hqq");
    }
    json_decref(tags);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum pith_status get_number(const struct pith_checkpoint *c, const char *module,
                                   const char *suffix, int64_t *out, struct pith_error *err)
{
    const struct pith_part want = {suffix, 1u << PITH_I32 | 1u << PITH_U8, 0, {0}};
    const struct pith_tensor *t;
    int32_t number;
    PITH_TRY(pith_part_get(c, module, &want, &t, err));
    if (t->dtype == PITH_I32) memcpy(&number, t->data, sizeof number);
    else number = *t->data;
    *out = number;
    return PITH_OK;
}

struct notes {
    int64_t bits, group, rows, cols;
};

static enum pith_status get_shape(const struct pith_checkpoint *c, const char *module,
                                  struct notes *t, struct pith_error *err)
{
    const struct pith_part want = {".shape", 1u << PITH_I64, 1, {2}};
    const struct pith_tensor *tensor;
    int64_t shape[2];
    PITH_TRY(pith_part_get(c, module, &want, &tensor, err));
    memcpy(shape, tensor->data, sizeof shape);
    t->rows = shape[0];
    t->cols = shape[1];
    return PITH_OK;
}

static enum pith_status read_notes(const struct pith_checkpoint *c, const char *module,
                                   struct notes *t, struct pith_error *err)
{
    static const struct {
        const char *suffix, *what;
        int64_t want;
    } fixed[] = {{".axis", "groups along the outputs (axis 0)", 1},
                 {".channel_wise", "one scale a matrix", 1},
                 {".view_as_float", "codes viewed as floats", 0},
                 {".quant_scale", "scales that are quantized again", 0},
                 {".quant_zero", "zero points that are quantized again", 0}};
    PITH_TRY(get_number(c, module, ".nbits", &t->bits, err));
    PITH_TRY(get_number(c, module, ".group_size", &t->group, err));
    PITH_TRY(get_shape(c, module, t, err));
    for (size_t i = 0; i < PITH_COUNT(fixed); i++) {
        int64_t value;
        PITH_TRY(get_number(c, module, fixed[i].suffix, &value, err));
        if (value != fixed[i].want)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: hqq with %s is not read", module,
                             fixed[i].what);
    }
    if (!packing_of(t->bits))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: hqq of %" PRId64 " bits; this version reads 2, 3, 4 and 8", module,
                         t->bits);
    if (t->group <= 0 || t->cols <= 0 || t->cols % t->group)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: groups of %" PRId64 " do not divide rows of %" PRId64, module,
                         t->group, t->cols);
    return PITH_OK;
}

static struct pith_grid grid_of(const struct notes *t)
{
    const bool channel = t->group == t->cols;
    return (struct pith_grid){.format = pith_int_format((unsigned)t->bits),
                              .granularity = channel ? PITH_PER_CHANNEL : PITH_PER_GROUP,
                              .group = channel ? 0 : (uint32_t)t->group,
                              .asym = true,
                              .hqq = true};
}

static enum pith_status fill(const struct pith_checkpoint *c, const char *module,
                             const struct place *at, struct pith_qmat *q, struct pith_error *err)
{
    const uint32_t codes = 1u << (at->p->bytes == 4 ? PITH_I32 : PITH_U8);
    const struct pith_part parts[] = {{".W_q", codes, 2, {at->packed, at->group}},
                                      {".scale", PITH_PART_FLOATS, 2, {at->scales, 1}},
                                      {".zero", PITH_PART_FLOATS, 2, {at->scales, 1}}};
    const struct pith_tensor *t[PITH_COUNT(parts)];
    for (size_t i = 0; i < PITH_COUNT(parts); i++)
        PITH_TRY(pith_part_get(c, module, &parts[i], &t[i], err));
    uint8_t *row = pith_alloc(q->cols, 1);
    if (!row) return pith_fail_nomem(err, module);
    for (uint32_t r = 0; r < q->rows; r++) {
        get_run(at, t[0]->data, (size_t)r * q->cols, q->cols, row);
        pith_qmat_set_codes(q, r, row);
    }
    pith_free(row);
    q->scale_dtype = t[1]->dtype;
    (void)pith_dtype_decode(t[1]->dtype, t[1]->data, (size_t)at->scales, q->scales);
    (void)pith_dtype_decode(t[2]->dtype, t[2]->data, (size_t)at->scales, q->offsets);
    for (size_t i = 0; i < at->scales; i++) q->offsets[i] = -(q->offsets[i] * q->scales[i]);
    return PITH_OK;
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    struct notes t;
    struct place at;
    (void)state;
    *found = false;
    if (!pith_part_find(c, module, ".W_q"))
        return pith_part_absent(c, module, ".scale", "there are no codes (W_q)", err);
    PITH_TRY(pith_part_absent(c, module, ".weight", "the module is quantized", err));
    PITH_TRY(read_notes(c, module, &t, err));
    if (t.rows != rows || t.cols != cols)
        return pith_fail(err, PITH_FORMAT,
                         "%s: says that it is %" PRId64 " x %" PRId64 ", and is %" PRIu32
                         " x %" PRIu32,
                         module, t.rows, t.cols, rows, cols);
    if (!place_of((unsigned)t.bits, rows, cols, (uint32_t)t.group, &at))
        return pith_fail(err, PITH_FORMAT, "%s: its groups do not fill the parts of W_q", module);
    const struct pith_grid grid = grid_of(&t);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, PITH_F16, err));
    return pith_part_end(module, fill(c, module, &at, q, err), q, found, err);
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    struct notes t;
    (void)state;
    (void)opts;
    *grid = (struct pith_grid){0};
    if (!pith_part_find(c, module, ".W_q")) return PITH_OK;
    PITH_TRY(read_notes(c, module, &t, err));
    *grid = grid_of(&t);
    return PITH_OK;
}

const struct pith_container pith_container_hqq = {
    .name = "hqq",
    .holds = PITH_QMAT_OFFSETS,
    .summary = "HQQ: 2, 3, 4, 8 bits with zero points that are any numbers; for the hqq package",
    .method = "hqq",
    .unloaded = "its reader is the hqq package (HQQLinear.load_state_dict)",
    .accepts = accepts,
    .scale_dtype = pith_scale_half, /* what the package casts scales and zero points to */
    .stated_offset = stated_offset,
    .plan = plan,
    .pack = pack,
    .config = make_config,
    .open = pith_container_open_stateless,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
