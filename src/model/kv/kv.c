#include "model/kv/kv.h"

#include "backend/cache/key_offset.h"
#include "base/arena.h"
#include "base/mem.h"
#include "model/model.h"

#include <string.h>

/* --- sizes ------------------------------------------------------------------------------------ */

static bool has_pages(const struct pith_state_spec *s)
{
    return s->kind == PITH_STATE_KV || s->kind == PITH_STATE_LATENT;
}

static struct pith_cache_side side_of(const struct pith_kv_part *p, uint32_t dim, uint32_t plain,
                                      const struct pith_row_code *code)
{
    return (struct pith_cache_side){.dtype = pith_kv_dtype(p),
                                    .code = pith_kv_coded(p) ? code : NULL,
                                    .dim = dim,
                                    .plain = pith_kv_coded(p) ? plain : 0};
}

/* Columns of a key that are never on a grid: a latent's rotary part. */
static uint32_t plain_of(const struct pith_state_spec *s)
{
    return s->kind == PITH_STATE_LATENT ? s->key - s->value : 0;
}

/* code[2]: of k and of v. */
static struct pith_cache cache_of(const struct pith_state_spec *s, const struct pith_kv_format *f,
                                  const struct pith_row_code *code)
{
    return (struct pith_cache){.kv_heads = s->heads,
                               .joined = s->kind == PITH_STATE_LATENT,
                               .k = side_of(&f->k, s->key, plain_of(s), code),
                               .v = side_of(&f->v, s->value, 0, code ? code + 1 : NULL)};
}

enum pith_status pith_kv_code(const struct pith_kv_part *p, bool keys, uint32_t cols, float *level,
                              struct pith_row_code *out, struct pith_error *err)
{
    const struct pith_kv_row *row = p->row;
    if (row)
        return row->kind->code(
            &(struct pith_kv_heads){.bits = row->bits, .cols = cols, .keys = keys}, level, out,
            err);
    return p->grid.format ? pith_row_code_make(&p->grid, cols, level, out, err) : PITH_OK;
}

/* Rows of k and of v of a layer; level[2][PITH_ROW_LEVELS]. */
static enum pith_status make_codes(const struct pith_state_spec *s, const struct pith_kv_format *f,
                                   float *level, struct pith_row_code code[2],
                                   struct pith_error *err)
{
    PITH_TRY(pith_kv_code(&f->k, true, s->key - plain_of(s), level, &code[0], err));
    return pith_kv_code(&f->v, false, s->value, level + PITH_ROW_LEVELS, &code[1], err);
}

/* Whether some of it is stored in floats, the rest as codes; and how. */
static bool has_plain(const struct pith_kv_format *f)
{
    return (pith_kv_sink(f) || pith_kv_recent(f)) && (pith_kv_coded(&f->k) || pith_kv_coded(&f->v));
}
static struct pith_kv_format plain_of_format(const struct pith_kv_format *f)
{
    return (struct pith_kv_format){.k.floats = pith_kv_coded(&f->k) ? PITH_KV_BF16 : f->k.floats,
                                   .v.floats = pith_kv_coded(&f->v) ? PITH_KV_BF16 : f->v.floats};
}

/* Bytes of a layer's page, and of the keys in it; 0 where nothing is stored by position. False when
 * they overflow, or the rows cannot be on the grid. */
static bool page_bytes(const struct pith_state_spec *s, const struct pith_kv_format *f,
                       size_t *bytes, size_t *keys)
{
    float level[2 * PITH_ROW_LEVELS];
    struct pith_row_code code[2];
    struct pith_error ignored = {0};
    *bytes = *keys = 0;
    if (!has_pages(s)) return true;
    if (make_codes(s, f, level, code, &ignored) != PITH_OK) return false;
    struct pith_cache c = cache_of(s, f, code);
    if (!pith_cache_layout(&c)) return false;
    *bytes = c.page_bytes;
    *keys = c.key_bytes;
    return true;
}

/* Those of a page in floats, in addition to one of codes. */
static bool plain_page_bytes(const struct pith_state_spec *s, const struct pith_kv_format *f,
                             size_t *bytes)
{
    const struct pith_kv_format floats = plain_of_format(f);
    size_t keys;
    *bytes = 0;
    return !has_plain(f) || page_bytes(s, &floats, bytes, &keys);
}

double pith_kv_bytes_of(const struct pith_kv_format *f, const struct pith_state_spec *s,
                        double positions, bool read)
{
    const bool shared = read && s->kind == PITH_STATE_SHARED;
    const struct pith_state_spec own = {
        .kind = PITH_STATE_KV, .heads = s->heads, .key = s->key, .value = s->value};
    const double most =
        32.0 * (double)(pith_cache_pages(pith_kv_sink(f)) + pith_cache_pages(pith_kv_recent(f)));
    const double near = positions < most ? positions : most;
    size_t plain;
    if (shared) s = &own;
    const double packed = pith_kv_position_bytes(f, s);
    if (!plain_page_bytes(s, f, &plain) || plain == 0) return positions * packed;
    return (read ? positions - near : positions) * packed + near * (double)plain / 32;
}

/* The first page that the next query sees in floats, sinks aside. */
static size_t plain_from(uint32_t sinks, uint32_t newest, size_t length)
{
    const size_t recent = pith_cache_pages(newest), next = length / 32 + 1,
                 sink = pith_cache_pages(sinks);
    const size_t from = next > recent ? next - recent : 0;
    return from > sink ? from : sink;
}

double pith_kv_stored_bytes(const struct pith_kv_format *f, const struct pith_state_spec *s,
                            size_t window, size_t length)
{
    const uint32_t recent = pith_kv_recent(f), sinks = pith_kv_sink(f);
    const size_t pages = pith_cache_pages(length), from = plain_from(sinks, recent, length);
    const size_t first = pith_cache_pages(sinks), sink = pages < first ? pages : first;
    const size_t near = recent && pages > from ? pages - from : 0;
    const size_t behind = window && length >= window ? (length + 1 - window) / 32 : 0;
    size_t plain;
    const double packed = 32 * pith_kv_position_bytes(f, s) * (double)(pages - behind);
    if (!plain_page_bytes(s, f, &plain)) return packed;
    return packed + (double)(sink + near) * (double)plain;
}

double pith_kv_bits(const struct pith_plans *p, const struct pith_kv_format *f, size_t context)
{
    double bytes = 0, numbers = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_state_spec *s = &pith_plan(p, i)->state;
        const struct pith_kv_format *own = pith_kv_of(f, i);
        const double layer = context ? pith_kv_bytes_of(own, s, (double)context, false) /
                                           (double)context
                                     : pith_kv_position_bytes(own, s);
        bytes += layer;
        if (layer > 0) numbers += pith_kv_numbers(s);
    }
    return numbers > 0 ? 8 * bytes / numbers : 0;
}

double pith_kv_position_bytes(const struct pith_kv_format *f, const struct pith_state_spec *s)
{
    size_t bytes, keys;
    return page_bytes(s, f, &bytes, &keys) ? (double)bytes / 32 : 0;
}

/* The newest positions that a layer looks at; 0: all of them. */
static size_t window_of(const struct pith_layer_plan *l, const struct pith_kv_options *o)
{
    const struct pith_node *node = pith_plan_attend(l);
    if (!node || o->layers == 1 || o->keep || node->u.attend.window >= o->context) return 0;
    return node->u.attend.window;
}

/* The group of pages in floats: sinks, the newest, those on their way; one is being copied. */
static bool find_plain(const struct pith_plans *p, const struct pith_kv_options *o,
                       struct pith_kv *kv)
{
    const size_t step = o->step < o->context ? o->step : o->context;
    size_t each = pith_cache_pages(kv->sink) + pith_cache_pages(kv->recent) +
                  pith_cache_pages(step) + 2;
    bool any = false;
    for (uint32_t i = 0; i < p->layers; i++)
        any = any || (has_pages(&pith_plan(p, i)->state) && has_plain(pith_kv_of(&o->format, i)));
    if (!any) return true;
    if (each > kv->pages_each || o->keep) each = kv->pages_each;
    if (!pith_mul_size(each, o->sequences, &each) || each >= PITH_NO_PAGE) return false;
    kv->group[PITH_KV_PLAIN].pages = (uint32_t)each;
    return true;
}

/* Finds the groups, and how many pages each has: of the layers with a window no more than it
 * covers, with the tokens that are on their way. */
static bool find_groups(const struct pith_plans *p, const struct pith_kv_options *o,
                        struct pith_kv *kv)
{
    bool all = o->layers == 1;
    size_t window = 0, pages[PITH_KV_GROUPS], step = o->step < o->context ? o->step : o->context;
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(p, i);
        if (!has_pages(&l->state)) continue;
        const size_t w = window_of(l, o);
        if (w == 0) all = true;
        else if (w > window) window = w;
    }
    kv->pages_each = pith_cache_pages(o->context);
    if (!pith_mul_size(kv->pages_each, o->sequences, &pages[0])) return false;
    if (o->tokens) pages[0] = pith_cache_pages(o->tokens);
    pages[1] = pith_cache_pages(window) + pith_cache_pages(step) + 2;
    if (pages[1] > kv->pages_each) pages[1] = kv->pages_each;
    if (!pith_mul_size(pages[1], o->sequences, &pages[1])) return false;
    /* A sequence never holds more of these than of the others; one page is on its way. */
    if (pages[1] > pages[0] && pages[1] - pages[0] > o->sequences)
        pages[1] = pages[0] + o->sequences;
    if (pages[0] >= PITH_NO_PAGE || pages[1] >= PITH_NO_PAGE) return false;
    kv->group[0] =
        (struct pith_kv_group){.window = all ? 0 : window, .pages = (uint32_t)pages[all ? 0 : 1]};
    if (!all && window == 0) kv->group[0].pages = 0; /* recurrent states only */
    if (all && window)
        kv->group[1] = (struct pith_kv_group){.window = window, .pages = (uint32_t)pages[1]};
    return find_plain(p, o, kv);
}

/* What has to be allocated. */
struct room {
    size_t bytes;  /* of pages */
    size_t floats; /* of a sequence's recurrent states */
    size_t opened; /* of the largest of them, where they are not in float32 */
    size_t work;
    size_t rotated[2];        /* floats of a position's angles, by table */
    size_t offsets;           /* of keys, numbers of all layers */
    size_t offset_rotated[2]; /* as `rotated`, of offsets */
};

/* What a layer has room for: for its own rows, where that of others is not there. */
static struct pith_state_spec room_of(const struct pith_layer_plan *l,
                                      const struct pith_kv_options *o)
{
    struct pith_state_spec s = l->state;
    if (s.kind == PITH_STATE_SHARED && o->layers == 1) s.kind = PITH_STATE_KV;
    return s;
}

/* Angles and offsets of a layer's keys. */
static void measure_rope(const struct pith_layer_plan *l, const struct pith_kv_format *f,
                         struct room *r)
{
    const struct pith_node *rope = pith_kv_rope_of(l);
    if (l->state.kind != PITH_STATE_KV) return;
    if (f->k.offset) r->offsets += (size_t)l->state.heads * l->state.key;
    if ((pith_kv_needs(&f->k) & PITH_KV_LEVELS) && rope)
        r->rotated[rope->u.rope.table] = rope->u.rope.dim / 2 * 2;
    if (f->k.offset && rope) r->offset_rotated[rope->u.rope.table] = rope->u.rope.dim / 2 * 2;
}

/* Adds layer by layer, or with one layer's room finds the most of any; fills in the lists of kv
 * where they are. False when a size overflows. */
static bool measure(const struct pith_plans *p, struct pith_kv *kv, const struct pith_kv_options *o,
                    struct room *r)
{
    *r = (struct room){0};
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(p, i);
        const struct pith_node *node = pith_plan_attend(l);
        const struct pith_state_spec state = room_of(l, o);
        const size_t floats = l->state.kind == PITH_STATE_RECURRENT ? l->state.floats : 0;
        const uint32_t group = kv->group[1].pages && window_of(l, o) ? 1 : 0;
        size_t page, keys, plain, bytes, more, work = 0;
        if (!page_bytes(&state, pith_kv_of(&kv->format, i), &page, &keys) ||
            !plain_page_bytes(&state, pith_kv_of(&kv->format, i), &plain) ||
            !pith_mul_size(page, kv->group[group].pages, &bytes) ||
            !pith_mul_size(plain, kv->group[PITH_KV_PLAIN].pages, &more) ||
            !pith_add_size(bytes, more, &bytes))
            return false;
        if (node) work = pith_attention_work(node->u.attend.heads, l->state.value, kv->capacity);
        if (work == SIZE_MAX) return false;
        if (work > r->work) r->work = work;
        measure_rope(l, pith_kv_of(&kv->format, i), r);
        if (o->format.states && floats > r->opened) r->opened = floats;
        if (o->layers > 1 || p->layers == 1) {
            if (!pith_add_size(r->bytes, bytes, &r->bytes) ||
                !pith_add_size(r->floats, floats, &r->floats))
                return false;
            if (kv->at) {
                kv->page_bytes[i] = page, kv->plain_bytes[i] = plain, kv->group_of[i] = group;
                kv->key_bytes[i] = keys;
            }
        } else {
            if (bytes > r->bytes) r->bytes = bytes;
            if (floats > r->floats) r->floats = floats;
        }
        const uint32_t slot = o->layers > 1 ? i + 1 : 1;
        if (kv->at) kv->at[slot] = r->bytes, kv->state_at[slot] = r->floats;
    }
    return true;
}

/* Whether anything is on a grid. */
static bool has_codes(const struct pith_kv *kv)
{
    bool any = false;
    for (uint32_t i = 0; i < kv->layers; i++) {
        const struct pith_kv_format *f = pith_kv_of(&kv->format, i);
        any = any || pith_kv_coded(&f->k) || pith_kv_coded(&f->v);
    }
    return any;
}

static void layout_offsets(struct pith_arena *a, struct pith_kv *kv, const struct room *r)
{
    if (r->offsets == 0) return;
    kv->offset = pith_arena_take(a, kv->layers, sizeof *kv->offset);
    kv->offsets = pith_arena_take(a, r->offsets, sizeof *kv->offsets);
    for (int i = 0; i < 2; i++)
        if (r->offset_rotated[i])
            kv->offset_angles[i] = pith_arena_take_rows(
                a, kv->pages_each + 32, r->offset_rotated[i], sizeof *kv->offset_angles[i]);
}

static void layout(struct pith_arena *a, struct pith_kv *kv, const struct room *r)
{
    const size_t layers = kv->layers, sequences = kv->sequences;
    kv->sequence = pith_arena_take(a, sequences, sizeof *kv->sequence);
    kv->at = pith_arena_take(a, layers + 1, sizeof *kv->at);
    kv->state_at = pith_arena_take(a, layers + 1, sizeof *kv->state_at);
    kv->page_bytes = pith_arena_take(a, layers, sizeof *kv->page_bytes);
    kv->key_bytes = pith_arena_take(a, layers, sizeof *kv->key_bytes);
    kv->plain_bytes = pith_arena_take(a, layers, sizeof *kv->plain_bytes);
    kv->group_of = pith_arena_take(a, layers, sizeof *kv->group_of);
    kv->reached = pith_arena_take_rows(a, sequences, layers, sizeof *kv->reached);
    if (kv->format.layer) kv->own = pith_arena_take(a, layers, sizeof *kv->own);
    if (has_codes(kv)) {
        kv->level = pith_arena_take_rows(a, kv->format.layer ? layers : 1, 2 * PITH_ROW_LEVELS,
                                         sizeof *kv->level);
        kv->code = pith_arena_take_rows(a, layers, 2, sizeof *kv->code);
    }
    if (pith_kv_needs_levels(&kv->format, kv->layers))
        kv->rope = pith_arena_take(a, layers, sizeof *kv->rope);
    for (int i = 0; i < 2; i++)
        if (r->rotated[i])
            kv->angles[i] =
                pith_arena_take_rows(a, 32 * kv->pages_each, r->rotated[i], sizeof *kv->angles[i]);
    layout_offsets(a, kv, r);
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        if (g->pages == 0) continue;
        g->users = pith_arena_take(a, g->pages, sizeof *g->users);
        g->stack = pith_arena_take(a, g->pages, sizeof *g->stack);
        g->tables = pith_arena_take_rows(a, sequences, kv->pages_each, sizeof *g->tables);
    }
    const size_t width = pith_kv_state_width(&kv->format);
    kv->state = pith_arena_take_rows(a, sequences, r->floats, width);
    kv->copies = pith_arena_take_rows(a, sequences, layers > 1 ? r->floats : 0, width);
    kv->opened = pith_arena_take(a, r->opened, sizeof *kv->opened);
    kv->work = pith_arena_take(a, r->work ? r->work : 1, sizeof *kv->work);
    kv->work_floats = r->work;
}

static struct pith_kv begin(const struct pith_kv_options *o)
{
    return (struct pith_kv){.layers = o->layers,
                            .sequences = o->sequences,
                            .capacity = o->context,
                            .keep = o->keep,
                            .format = o->format,
                            .sink = pith_kv_most_sink(&o->format, o->layers),
                            .recent = pith_kv_most_recent(&o->format, o->layers)};
}

uint64_t pith_kv_pool_bytes(const struct pith_plans *plans, const struct pith_kv_options *o)
{
    struct pith_kv kv = begin(o);
    struct pith_arena a = {0};
    struct room r;
    if (!find_groups(plans, o, &kv) || !measure(plans, &kv, o, &r)) return UINT64_MAX;
    layout(&a, &kv, &r);
    return pith_sum_bytes(pith_arena_bytes(&a), r.bytes);
}

/* --- making ----------------------------------------------------------------------------------- */

static bool has_offsets(const struct pith_kv_format *f, uint32_t layers)
{
    bool has = false;
    for (uint32_t i = 0; i < layers; i++) has = has || pith_kv_of(f, i)->k.offset;
    return has;
}

static bool by_levels(const struct pith_kv_kind *kind)
{
    return kind->needs & PITH_KV_LEVELS;
}

static enum pith_status check(const struct pith_plans *p, const struct pith_kv_options *o,
                              struct pith_error *err)
{
    if (o->layers == 0 || o->context == 0 || o->sequences == 0 || o->step == 0)
        return pith_fail(err, PITH_ARG, "a KV cache for no tokens");
    if (o->layers != 1 && o->layers != p->layers)
        return pith_fail(err, PITH_ARG, "a KV cache for %u of %u layers", o->layers, p->layers);
    const struct pith_kv_format *f = &o->format;
    if ((pith_kv_coded(&f->k) || pith_kv_coded(&f->v) || f->layer) && o->layers == 1 &&
        p->layers != 1)
        return pith_fail(err, PITH_ARG, "a KV cache of one layer at a time on a grid");
    if (pith_kv_needs_levels(f, o->layers) && !(o->model && o->model->kv_levels)) {
        char kinds[PITH_KV_NAMES];
        pith_kv_row_names(by_levels, kinds);
        return pith_fail(err, PITH_ARG, "a KV cache of %s or offset=middle without levels", kinds);
    }
    if (has_offsets(f, o->layers) && !(o->model && o->model->blocks))
        return pith_fail(err, PITH_ARG, "a KV cache with offsets of keys without the model");
    float level[2 * PITH_ROW_LEVELS];
    struct pith_row_code code[2];
    for (uint32_t i = 0; i < p->layers; i++)
        if (has_pages(&pith_plan(p, i)->state))
            PITH_TRY(make_codes(&pith_plan(p, i)->state, pith_kv_of(f, i), level, code, err));
    return PITH_OK;
}

/* Nothing is in use; the first to be taken is page 0. */
static void clear(struct pith_kv *kv)
{
    memset(kv->sequence, 0, kv->sequences * sizeof *kv->sequence);
    memset(kv->at, 0, ((size_t)kv->layers + 1) * sizeof *kv->at);
    memset(kv->state_at, 0, ((size_t)kv->layers + 1) * sizeof *kv->state_at);
    memset(kv->page_bytes, 0, kv->layers * sizeof *kv->page_bytes);
    memset(kv->key_bytes, 0, kv->layers * sizeof *kv->key_bytes);
    memset(kv->plain_bytes, 0, kv->layers * sizeof *kv->plain_bytes);
    memset(kv->group_of, 0, kv->layers * sizeof *kv->group_of);
    memset(kv->reached, 0, (size_t)kv->sequences * kv->layers * sizeof *kv->reached);
    if (kv->code) memset(kv->code, 0, (size_t)kv->layers * 2 * sizeof *kv->code);
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        g->unused = g->pages;
        for (uint32_t k = 0; k < g->pages; k++) {
            g->users[k] = 0;
            g->stack[k] = g->pages - 1 - k;
        }
    }
}

enum pith_status pith_kv_open(struct pith_kv *kv, const struct pith_plans *plans,
                              const struct pith_kv_options *o, struct pith_error *err)
{
    struct pith_arena a = {0};
    struct room r;
    *kv = (struct pith_kv){0};
    PITH_TRY(check(plans, o, err));
    *kv = begin(o);
    if (find_groups(plans, o, kv) && measure(plans, kv, o, &r)) {
        layout(&a, kv, &r);
        kv->memory = pith_alloc_huge(r.bytes ? r.bytes : 1, 1);
    }
    if (!kv->memory || !pith_arena_open(&a)) {
        pith_free(kv->memory);
        *kv = (struct pith_kv){0};
        return pith_fail(err, PITH_NOMEM, "out of memory for a KV cache of %zu tokens", o->context);
    }
    layout(&a, kv, &r);
    kv->lists = a.base;
    clear(kv);
    (void)measure(plans, kv, o, &r);
    if (kv->own) {
        memcpy(kv->own, o->format.layer, kv->layers * sizeof *kv->own);
        kv->format.layer = kv->own;
    }
    for (uint32_t i = 0; kv->code && i < kv->layers; i++)
        if (has_pages(&pith_plan(plans, i)->state))
            PITH_TRY(make_codes(&pith_plan(plans, i)->state, pith_kv_of(&kv->format, i),
                                kv->level + (kv->own ? i : 0) * 2 * PITH_ROW_LEVELS,
                                kv->code + 2 * i, err)); /* as it was checked: cannot fail */
    if (kv->rope) pith_kv_rope_fill(kv, plans, o->model);
    if (!kv->offset) return PITH_OK;
    const enum pith_status s = pith_kv_offset_fill(kv, plans, o->model, err);
    if (s != PITH_OK) pith_kv_free(kv);
    return s;
}

static struct pith_kv_options of_one(uint32_t layers, size_t capacity, enum pith_dtype dtype)
{
    return (struct pith_kv_options){.layers = layers,
                                    .sequences = 1,
                                    .context = capacity,
                                    .step = capacity,
                                    .keep = true,
                                    .format = pith_kv_floats(dtype)};
}

enum pith_status pith_kv_init(struct pith_kv *kv, const struct pith_plans *plans, uint32_t layers,
                              size_t capacity, enum pith_dtype dtype, struct pith_error *err)
{
    const struct pith_kv_options o = of_one(layers, capacity, dtype);
    const struct pith_kv_span all = {.n = capacity};
    uint32_t sequence;
    *kv = (struct pith_kv){0};
    if (dtype != PITH_F32 && dtype != PITH_BF16)
        return pith_fail(err, PITH_ARG, "a KV cache of %s", pith_dtype_name(dtype));
    PITH_TRY(pith_kv_open(kv, plans, &o, err));
    (void)pith_kv_sequence_open(kv, &sequence, err);
    for (uint32_t g = 0; g < PITH_KV_GROUPS; g++) (void)pith_kv_reserve(kv, g, &all, err);
    return PITH_OK;
}

uint64_t pith_kv_bytes(const struct pith_plans *plans, uint32_t layers, size_t capacity,
                       enum pith_dtype dtype)
{
    const struct pith_kv_options o = of_one(layers, capacity, dtype);
    return pith_kv_pool_bytes(plans, &o);
}

void pith_kv_free(struct pith_kv *kv)
{
    pith_free(kv->memory);
    pith_free(kv->lists);
    *kv = (struct pith_kv){0};
}

/* --- pages ------------------------------------------------------------------------------------ */

static uint32_t *table(const struct pith_kv *kv, const struct pith_kv_group *g, uint32_t sequence)
{
    return g->tables ? g->tables + sequence * kv->pages_each : NULL;
}

static void release(struct pith_kv_group *g, uint32_t *page)
{
    if (*page != PITH_NO_PAGE && --g->users[*page] == 0) g->stack[g->unused++] = *page;
    *page = PITH_NO_PAGE;
}

static bool take(struct pith_kv_group *g, uint32_t *page)
{
    if (g->unused == 0) return false;
    *page = g->stack[--g->unused];
    g->users[*page] = 1;
    return true;
}

/* Behind a layer's pages lie those in floats. */
static char *plain_pages(const struct pith_kv *kv, uint32_t layer)
{
    return kv->memory + kv->at[layer] +
           kv->page_bytes[layer] * kv->group[kv->group_of[layer]].pages;
}

static void copy_part(char *pages, size_t bytes, uint32_t from, uint32_t to)
{
    if (bytes > 0) memcpy(pages + to * bytes, pages + from * bytes, bytes);
}

/* A copy of a page in all layers of its group. */
static void copy_page(const struct pith_kv *kv, uint32_t group, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < kv->layers; i++) {
        const size_t keys = kv->key_bytes[i];
        char *pages = kv->memory + kv->at[i];
        if (group == PITH_KV_PLAIN) {
            copy_part(plain_pages(kv, i), kv->plain_bytes[i], from, to);
        } else if (kv->group_of[i] == group) {
            copy_part(pages, keys, from, to);
            copy_part(pages + keys * kv->group[group].pages, kv->page_bytes[i] - keys, from, to);
        }
    }
}

/* Makes a page that others hold too the sequence's own. */
static bool part(struct pith_kv *kv, uint32_t group, uint32_t *page)
{
    struct pith_kv_group *g = &kv->group[group];
    uint32_t own;
    if (*page == PITH_NO_PAGE || g->users[*page] == 1) return true;
    if (!take(g, &own)) return false;
    copy_page(kv, group, *page, own);
    g->users[*page]--;
    *page = own;
    return true;
}

enum pith_status pith_kv_reserve(struct pith_kv *kv, uint32_t group, const struct pith_kv_span *s,
                                 struct pith_error *err)
{
    struct pith_kv_group *g = &kv->group[group];
    const size_t first = s->start / 32;
    size_t end = pith_cache_pages(s->start + s->n);
    if (group == PITH_KV_PLAIN && !kv->recent && end > pith_cache_pages(kv->sink))
        end = pith_cache_pages(kv->sink);
    if (g->pages == 0 || s->n == 0 || first >= end) return PITH_OK;
    uint32_t *page = table(kv, g, s->sequence);
    bool fits = s->start % 32 == 0 || s->start != kv->sequence[s->sequence].length ||
                part(kv, group, &page[first]);
    for (size_t i = first; i < end && fits; i++)
        if (page[i] == PITH_NO_PAGE) fits = take(g, &page[i]);
    if (fits) return PITH_OK;
    return pith_fail(err, PITH_LIMIT,
                     "the KV cache is full: all of its %u pages of 32 tokens are in use", g->pages);
}

enum pith_status pith_kv_sequence_open(struct pith_kv *kv, uint32_t *sequence,
                                       struct pith_error *err)
{
    for (uint32_t i = 0; i < kv->sequences; i++) {
        if (kv->sequence[i].open) continue;
        kv->sequence[i] = (struct pith_kv_sequence){.open = true};
        for (int g = 0; g < PITH_KV_GROUPS; g++)
            for (size_t k = 0; kv->group[g].pages && k < kv->pages_each; k++)
                table(kv, &kv->group[g], i)[k] = PITH_NO_PAGE;
        *sequence = i;
        return PITH_OK;
    }
    return pith_fail(err, PITH_LIMIT, "all %u sequences are open", kv->sequences);
}

void pith_kv_sequence_close(struct pith_kv *kv, uint32_t sequence)
{
    pith_kv_truncate(kv, sequence, 0);
    kv->sequence[sequence].open = false;
}

void pith_kv_truncate(struct pith_kv *kv, uint32_t sequence, size_t length)
{
    struct pith_kv_sequence *s = &kv->sequence[sequence];
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        if (g->pages == 0) continue;
        /* Beyond the length there may be pages of a step that failed. */
        for (size_t k = pith_cache_pages(length); k < kv->pages_each; k++)
            release(g, &table(kv, g, sequence)[k]);
    }
    if (length < s->length) s->length = length;
    if (length < s->saved) s->saved = 0; /* other tokens may come */
    if (length == 0) s->first = s->closed = 0;
}

void pith_kv_share(struct pith_kv *kv, uint32_t from, uint32_t to, size_t length)
{
    const struct pith_kv_sequence *s = &kv->sequence[from];
    struct pith_kv_sequence *t = &kv->sequence[to];
    const size_t bytes = kv->state_at[kv->layers] * pith_kv_state_width(&kv->format);
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        for (size_t k = 0; g->pages && k < pith_cache_pages(length); k++) {
            const uint32_t page = table(kv, g, from)[k];
            table(kv, g, to)[k] = page;
            if (page != PITH_NO_PAGE) g->users[page]++;
        }
    }
    *t = *s;
    t->length = length;
    if (length < s->saved) t->saved = 0;
    for (uint32_t i = 0; i < kv->layers; i++)
        kv->reached[to * kv->layers + i] = kv->reached[from * kv->layers + i];
    if (bytes) memcpy(kv->state + to * bytes, kv->state + from * bytes, bytes);
    if (kv->copies && t->saved) memcpy(kv->copies + to * bytes, kv->copies + from * bytes, bytes);
}

static void slide_plain(struct pith_kv *kv, uint32_t sequence)
{
    struct pith_kv_group *g = &kv->group[PITH_KV_PLAIN];
    struct pith_kv_sequence *s = &kv->sequence[sequence];
    const size_t from = plain_from(kv->sink, kv->recent, s->length),
                 sink = pith_cache_pages(kv->sink);
    if (g->pages == 0 || kv->keep || from <= s->closed) return;
    for (size_t k = s->closed > sink ? s->closed : sink; k < from && k < kv->pages_each; k++)
        release(g, &table(kv, g, sequence)[k]);
    s->closed = from;
}

void pith_kv_slide(struct pith_kv *kv, uint32_t sequence)
{
    struct pith_kv_sequence *s = &kv->sequence[sequence];
    slide_plain(kv, sequence);
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        if (g->pages == 0 || g->window == 0 || s->length < g->window) continue;
        /* The next query sees itself and the window - 1 before it. */
        const size_t needed = (s->length + 1 - g->window) / 32 * 32;
        for (size_t k = s->first / 32; k < needed / 32; k++) release(g, &table(kv, g, sequence)[k]);
        if (needed > s->first) s->first = needed;
    }
}

void pith_kv_unslide(struct pith_kv *kv, uint32_t sequence)
{
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        struct pith_kv_group *g = &kv->group[i];
        for (size_t k = 0; g->pages && (g->window || i == PITH_KV_PLAIN) && k < kv->pages_each; k++)
            release(g, &table(kv, g, sequence)[k]);
    }
    kv->sequence[sequence].first = kv->sequence[sequence].closed = 0;
}

struct pith_cache pith_kv_layer(const struct pith_kv *kv, uint32_t layer,
                                const struct pith_state_spec *s)
{
    const struct pith_row_code *code = kv->code ? kv->code + 2 * layer : NULL;
    struct pith_cache c = cache_of(s, pith_kv_of(&kv->format, layer), code);
    (void)pith_cache_layout(&c);
    c.memory = kv->memory + kv->at[layer];
    if (kv->page_bytes[layer] > 0) c.apart = kv->group[kv->group_of[layer]].pages;
    if (pith_kv_needs(&pith_kv_of(&kv->format, layer)->k) & PITH_KV_LEVELS) {
        c.k.middle = kv->levels->layer[layer].middle;
        c.k.range = kv->levels->layer[layer].range;
        c.k.rope = kv->rope[layer].dim ? &kv->rope[layer] : NULL;
    }
    return c;
}

bool pith_kv_plain(const struct pith_kv *kv, uint32_t layer, const struct pith_state_spec *s,
                   struct pith_cache *out)
{
    const struct pith_kv_format floats = plain_of_format(pith_kv_of(&kv->format, layer));
    if (kv->group[PITH_KV_PLAIN].pages == 0 || kv->plain_bytes[layer] == 0) return false;
    *out = cache_of(s, &floats, NULL);
    (void)pith_cache_layout(out);
    out->memory = plain_pages(kv, layer);
    return true;
}

const uint32_t *pith_kv_plain_pages(const struct pith_kv *kv, uint32_t sequence)
{
    return table(kv, &kv->group[PITH_KV_PLAIN], sequence);
}

const uint32_t *pith_kv_pages(const struct pith_kv *kv, uint32_t layer, uint32_t sequence)
{
    return table(kv, &kv->group[kv->group_of[layer]], sequence);
}

/* What queries see in floats of a span: all of it for now, or what lies among the sinks. */
static void store_plain(const struct pith_kv_put *p, struct pith_cache_span some)
{
    const struct pith_kv_format *f = pith_kv_of(&p->kv->format, p->layer);
    const size_t end = 32 * pith_cache_pages(pith_kv_sink(f));
    some.page = some.plain;
    if (pith_kv_recent(f) == 0 && some.start + some.n > end)
        some.n = some.start < end ? end - some.start : 0;
    pith_cache_store(p->backend, p->plain, &some, p->k, p->v);
}

struct pith_cache_span pith_kv_stored(const struct pith_kv_put *p, const struct pith_kv_span *span)
{
    return (struct pith_cache_span){.start = span->start,
                                    .n = span->n,
                                    .page = pith_kv_pages(p->kv, p->layer, span->sequence),
                                    .plain = p->plain ? pith_kv_plain_pages(p->kv, span->sequence)
                                                      : NULL};
}

struct pith_cache_span pith_kv_store(const struct pith_kv_put *p, const struct pith_kv_span *span)
{
    const struct pith_cache_span s = pith_kv_stored(p, span);
    pith_cache_store(p->backend, p->cache, &s, p->k, p->v);
    if (!p->plain) return s;
    store_plain(p, s);
    pith_cache_close(p->backend, p->cache, p->plain, &s);
    return s;
}

bool pith_kv_ready(const struct pith_kv *kv, uint32_t sequence)
{
    const struct pith_kv_sequence *s = &kv->sequence[sequence];
    bool ready = kv->recent == 0 || s->closed <= plain_from(kv->sink, kv->recent, s->length);
    for (int i = 0; i < PITH_KV_GROUPS; i++) {
        const size_t window = kv->group[i].window;
        if (window && s->first > 0) ready = ready && s->first + window <= s->length + 1;
    }
    for (uint32_t i = 0; i < kv->layers && s->length > 0; i++)
        ready = ready && (kv->state_at[i + 1] == kv->state_at[i] ||
                          kv->reached[sequence * kv->layers + i] == s->length);
    return ready;
}
