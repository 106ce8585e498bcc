#include "plan/pith_engine.h"

#include "backend/backend.h"
#include "backend/pack.h"
#include "base/mem.h"
#include "model/runner.h"
#include "model/sampler.h"

#include <math.h>

struct walk {
    const struct pith_deployment *d;
    uint32_t layer;  /* whose matrices are summed */
    double packed;   /* of that layer */
    double rounding; /* to whole pages so far */
    uint32_t cols;   /* the most of matrices that are multiplied as integers */
    bool zeros;      /* some of them have zero points */
    size_t rows;     /* of an input */
    size_t prepared; /* the most that a product makes of one */
};

static void end_layer(struct walk *w)
{
    w->rounding += (double)pith_huge_bytes((uint64_t)w->packed) - w->packed;
    w->packed = 0;
}

/* A layer's packed matrices are one piece of memory, the head is a separate one. */
static void add_matrix(void *ctx, const struct pith_matrix *m)
{
    struct walk *w = ctx;
    const struct pith_grid g = pith_form_grid(w->d->form, w->d->model, m);
    if (m->layer != w->layer) end_layer(w);
    w->layer = m->layer;
    if (!g.format || m->class == PITH_PLAN_VECTOR) return;
    w->packed += pith_form_bytes(w->d->form, w->d->model, m) * (double)m->count;
    const struct pith_format *elements = pith_grid_elements(&g, NULL).format;
    const struct pith_qspec spec = pith_form_spec(w->d->form, w->d->model, m);
    const size_t prepared = pith_pack_spec_prepared(&spec, w->rows);
    if (prepared > w->prepared) w->prepared = prepared;
    if (elements->kind != PITH_KIND_INT) return;
    if (!w->d->form->acts.format && !pith_pack_spec_digits(&spec)) return;
    if (m->cols > w->cols) w->cols = m->cols;
    w->zeros |= g.asym;
}

/* Gains and biases are in memory as floats; among the weights they count as they are stored. */
static double vectors(const struct pith_plan_subject *p)
{
    double bytes = 0;
    for (uint32_t i = 0; i < p->model->plans.layers; i++)
        bytes += (double)pith_block_rest_bytes(pith_plan(&p->model->plans, i));
    return bytes;
}

static size_t rows_of(const struct pith_deployment *d)
{
    const size_t users = d->demand.users,
                 wanted = d->demand.prompt > users ? d->demand.prompt : users;
    const size_t rows = wanted < d->engine->chunk ? wanted : d->engine->chunk;
    return rows ? rows : 1;
}

double pith_own_bytes(const struct pith_deployment *d, double cache)
{
    const struct pith_model *m = d->model->model;
    const size_t rows = rows_of(d), users = d->demand.users;
    const struct pith_runner_options options = {.sequences = (uint32_t)users,
                                                .context = d->demand.context,
                                                .rows = rows,
                                                .format = *d->kv,
                                                .keep = true};
    struct walk w = {.d = d, .layer = PITH_NO_PART, .rows = rows};
    pith_plan_subject_walk(d->model, add_matrix, &w);
    end_layer(&w);
    const double runner = (double)pith_runner_bytes(m, &options);
    const double ends = 4.0 * ((double)rows * m->shape.hidden + (double)users * m->shape.vocab) +
                        (double)pith_sampler_bytes(m->shape.vocab);
    double integers = w.cols ? (double)pith_mode_integer_bytes(PITH_MODE_EXACT, rows, w.cols) : 0;
    /* The slab's last page is for zero points (backend/bytes.c). */
    if (integers > PITH_HUGE_PAGE && !w.zeros) integers -= PITH_HUGE_PAGE;
    const unsigned threads = d->threads ? d->threads : 1;
    return w.rounding + vectors(d->model) + fmax(0, runner - cache) + ends + integers +
           (double)w.prepared + (double)pith_backend_bytes(threads) +
           threads * (double)PITH_THREAD_HEAP;
}
