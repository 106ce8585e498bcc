#include "eval/run_memory.h"

#include "backend/pack.h"
#include "base/async.h"
#include "base/file.h"
#include "base/mem.h"
#include "eval/speed/regrid.h"
#include "model/kinds.h"
#include "num/trellis.h"

/* A matrix before and after it is packed, in bytes. */
struct forms {
    uint64_t loaded, packed; /* packed 0: it stays as it is loaded */
    uint64_t rounding;       /* in addition, while it is put on a grid */
    bool prepares;           /* pith_pack_prepares() */
    bool integers;           /* multiplied as these in every mode, not in the fast one alone */
};

struct walk {
    const struct pith_model *m;
    const struct pith_run_form *how;
    struct pith_kinds kinds;
    struct pith_meter *meter;
    unsigned threads;
    bool fast;     /* the backend's mode */
    bool prepares; /* any matrix */
    uint32_t cols; /* the most of those that are packed */
};

static void set_packed(struct forms *f, const struct pith_qspec *spec,
                       const struct pith_grid *input)
{
    struct pith_qform form;
    f->packed = pith_pack_spec_bytes(spec, input);
    f->integers = pith_grid_elements(&spec->grid, NULL).format->kind == PITH_KIND_INT;
    f->prepares = pith_trellis_is(spec->grid.format) ||
                  (f->packed && pith_qspec_form(spec, &form) && (form.ordered || form.offsets));
}

/* What the backend's own memory is touched for. */
static void note(struct walk *w, const struct forms *f, uint32_t cols)
{
    const bool whole = f->integers || w->fast;
    if (f->packed && whole && cols > w->cols) w->cols = cols;
    w->prepares |= f->prepares;
}

static struct forms rounded(const struct walk *w, uint32_t rows, uint32_t cols,
                            const struct pith_grid *grid)
{
    const struct pith_qspec spec = {.rows = rows,
                                    .cols = cols,
                                    .grid = *grid,
                                    .scale_dtype = w->m->shape.dtype == PITH_BF16 ? PITH_BF16
                                                                                  : PITH_F16};
    struct forms f = {.loaded = pith_qspec_bytes(&spec),
                      .rounding = pith_regrid_bytes(&spec, w->threads)};
    set_packed(&f, &spec, NULL);
    return f;
}

static enum pith_status stored(struct walk *w, const struct pith_kind_of *which, struct forms *out,
                               struct pith_error *err)
{
    struct pith_kind kind;
    PITH_TRY(pith_kind_find(&w->kinds, w->m, which, &kind, err));
    *out = (struct forms){.loaded = kind.loaded};
    if (kind.grid.format) set_packed(out, &kind.spec, &kind.input);
    return PITH_OK;
}

/* Of a layer, but for its matrices. */
static uint64_t rest_bytes(const struct pith_layer_plan *l)
{
    return pith_block_rest_bytes(l) + 2 * (uint64_t)l->state.heads * sizeof(float) +
           l->linears * sizeof(struct pith_linear_weights) + l->vectors * sizeof(float *);
}

/* A layer's matrices as they are stored, loaded together, and then packed into one piece. */
static enum pith_status load_layer(struct walk *w, uint32_t layer, struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_plan(&w->m->plans, layer);
    uint64_t packed = 0, gone = 0;
    char name[256];
    pith_meter_take(w->meter, rest_bytes(l));
    for (uint32_t i = 0; i < l->linears; i++) {
        struct forms f;
        pith_plan_linear_name(&w->m->plans, layer, i, name, sizeof name);
        PITH_TRY(
            stored(w, &(struct pith_kind_of){name, l->linear[i].rows, l->linear[i].cols}, &f, err));
        pith_meter_take(w->meter, f.loaded);
        packed += f.packed;
        if (f.packed) gone += f.loaded;
        note(w, &f, l->linear[i].cols);
    }
    pith_meter_take(w->meter, pith_huge_bytes(packed));
    pith_meter_give(w->meter, gone);
    return PITH_OK;
}

/* Every layer is loaded, then every matrix rounded, then every layer packed. */
static void load_rounded(struct walk *w)
{
    const struct pith_plans *plans = &w->m->plans;
    for (int packs = 0; packs <= 1; packs++)
        for (uint32_t layer = 0; layer < w->m->shape.layers; layer++) {
            const struct pith_layer_plan *l = pith_plan(plans, layer);
            uint64_t packed = 0, gone = 0;
            if (!packs) pith_meter_take(w->meter, rest_bytes(l));
            for (uint32_t i = 0; i < l->linears; i++) {
                const struct forms f =
                    rounded(w, l->linear[i].rows, l->linear[i].cols, w->how->linears);
                packed += f.packed;
                if (f.packed) gone += f.loaded;
                note(w, &f, l->linear[i].cols);
                if (packs) continue;
                pith_meter_touch(w->meter, pith_sum_bytes(f.loaded, f.rounding));
                pith_meter_take(w->meter, f.loaded);
            }
            if (!packs) continue;
            pith_meter_take(w->meter, pith_huge_bytes(packed));
            pith_meter_give(w->meter, gone);
        }
}

/* The head, and the embedding where they are one, were loaded when the model was opened. */
static enum pith_status load_head(struct walk *w, struct pith_error *err)
{
    const struct pith_shape *s = &w->m->shape;
    const struct pith_arch_names *names = &w->m->arch->names;
    const uint32_t rows = s->vocab, cols = pith_shape_embed(s);
    struct pith_grid bytes;
    PITH_TRY(pith_grid_parse("int8:channel", &bytes, err));
    const struct pith_grid *grid = w->how->head                             ? w->how->head
                                   : w->how->bytes_head && w->m->head.dense ? &bytes
                                                                            : NULL;
    struct forms f;
    if (grid) f = rounded(w, rows, cols, grid);
    else
        PITH_TRY(
            stored(w, &(struct pith_kind_of){s->ends.tied ? names->embed : names->head, rows, cols},
                   &f, err));
    note(w, &f, cols);
    if (grid) {
        pith_meter_touch(w->meter, pith_sum_bytes(f.loaded, f.rounding));
        pith_meter_take(w->meter, f.loaded);
    }
    pith_meter_take(w->meter, pith_huge_bytes(f.packed));
    if (f.packed) pith_meter_give(w->meter, f.loaded);
    return PITH_OK;
}

enum pith_status pith_run_meter(const struct pith_model *m, const struct pith_backend *be,
                                const struct pith_run_form *how, struct pith_meter *meter,
                                struct pith_error *err)
{
    struct walk w = {.m = m,
                     .fast = pith_backend_mode(be) == PITH_MODE_FAST,
                     .how = how,
                     .meter = meter,
                     .threads = pith_pool_threads(pith_backend_pool(be))};
    if (how->linears) load_rounded(&w);
    for (uint32_t i = 0; i < m->shape.layers && !how->linears; i++)
        PITH_TRY(load_layer(&w, i, err));
    PITH_TRY(load_head(&w, err));
    if (w.cols) pith_meter_take(meter, pith_backend_integer_bytes(be, how->rows, w.cols));
    if (w.prepares) pith_meter_take(meter, pith_backend_prepared_bytes());
    return PITH_OK;
}

void pith_run_meter_begin(const struct pith_backend *be, struct pith_meter *meter)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(be));
    pith_heap_trim();
    pith_meter_take(meter, pith_memory_anonymous() + pith_heap_holes() + PITH_MEASURED_TO +
                               threads * (uint64_t)PITH_THREAD_HEAP);
    pith_meter_take(meter, pith_backend_bytes(threads));
}
