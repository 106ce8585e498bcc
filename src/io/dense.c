#include "io/dense.h"

#include "base/mem.h"
#include "base/sparse_file.h"
#include "io/quant_names.h"
#include "num/hadamard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16 /* decoded at a time */ };

enum state { EMPTY, AT_WORK, THERE };

/* A linear's values. */
struct part {
    struct pith_lazy lazy; /* first: make() gets it */
    struct pith_dense *of;
    char *module, *name; /* one allocation */
    uint32_t rows, cols;
    bool bias; /* it has one */
    struct pith_dense_source source;
    size_t offset, bytes; /* float32: codes times scales may need all of its digits */
    enum state state; /* under of->lock */
};

struct pith_dense {
    struct pith_checkpoint *stored;
    const struct pith_container *container;
    void *container_state;
    struct pith_sparse_file file;
    struct part *parts; /* sorted by module */
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static int compare_part(const void *a, const void *b)
{
    return strcmp(((const struct part *)a)->module, ((const struct part *)b)->module);
}
static const struct part *find(const struct pith_dense *d, const char *module)
{
    const struct part key = {.module = (char *)(uintptr_t)module};
    return d->count ? bsearch(&key, d->parts, d->count, sizeof key, compare_part) : NULL;
}

/* --- values ----------------------------------------------------------------------------------- */

static enum pith_status write_rows(const struct part *p, const struct pith_qmat *q,
                                   struct pith_error *err)
{
    const size_t row = p->cols * sizeof(float);
    float *values = pith_alloc(ROWS, row);
    if (!values) return pith_fail_nomem(err, p->name);
    enum pith_status s = PITH_OK;
    for (uint32_t at = 0; at < p->rows && s == PITH_OK; at += ROWS) {
        const uint32_t n = p->rows - at < ROWS ? p->rows - at : ROWS;
        pith_qmat_decode(q, at, n, values);
        /* The matrix undoes itself: what the input meets at run time goes into the weights. */
        if (q->input.hadamard > 1) pith_hadamard_rows(values, n, p->cols, q->input.hadamard);
        s = pith_sparse_file_write(&p->of->file, p->offset + at * row, values, n * row, err);
    }
    pith_free(values);
    return s;
}

static enum pith_status compute(const struct part *p, struct pith_error *err)
{
    const struct pith_dense *d = p->of;
    struct pith_qmat q;
    bool found = false;
    PITH_TRY(d->container->load(d->container_state, d->stored, p->module, p->rows, p->cols, &q,
                                &found, err));
    if (!found)
        return pith_fail(err, PITH_FORMAT, "%s: \"%.150s\" has no codes", d->stored->dir,
                         p->module);
    const enum pith_status s = write_rows(p, &q, err);
    pith_qmat_free(&q);
    return s == PITH_OK ? pith_sparse_file_show(&d->file, p->offset, p->bytes, err) : s;
}

static void set_state(struct part *p, enum state state)
{
    pthread_mutex_lock(&p->of->lock);
    p->state = state;
    pthread_cond_broadcast(&p->of->changed);
    pthread_mutex_unlock(&p->of->lock);
}

static enum pith_status make(struct pith_lazy *self, struct pith_error *err)
{
    struct part *p = (struct part *)self;
    pthread_mutex_lock(&p->of->lock);
    while (p->state == AT_WORK) pthread_cond_wait(&p->of->changed, &p->of->lock);
    const bool there = p->state == THERE;
    if (!there) p->state = AT_WORK;
    pthread_mutex_unlock(&p->of->lock);
    if (there) return PITH_OK;
    const enum pith_status s = compute(p, err);
    set_state(p, s == PITH_OK ? THERE : EMPTY);
    return s;
}

static void drop(struct pith_lazy *self)
{
    struct part *p = (struct part *)self;
    pthread_mutex_lock(&p->of->lock);
    while (p->state == AT_WORK) pthread_cond_wait(&p->of->changed, &p->of->lock);
    const bool there = p->state == THERE;
    p->state = EMPTY;
    if (there) pith_sparse_file_drop(&p->of->file, p->offset, p->bytes);
    pthread_mutex_unlock(&p->of->lock);
}

/* --- what there is ---------------------------------------------------------------------------- */

static enum pith_status add_part(struct pith_dense *d, const struct pith_dense_linear *l,
                                 const struct pith_dense_source *source, struct pith_error *err)
{
    static const char suffix[] = ".weight";
    struct part *p = &d->parts[d->count];
    const size_t n = strlen(l->module);
    size_t count;
    *p = (struct part){
        .lazy = {make, drop}, .of = d, .rows = l->rows, .cols = l->cols, .bias = l->bias};
    p->source = *source;
    if (!pith_mul_size(l->rows, l->cols, &count) ||
        !pith_mul_size(count, sizeof(float), &p->bytes))
        return pith_fail(err, PITH_LIMIT, "%s: is too large", l->module);
    p->module = pith_alloc(2 * n + 1 + sizeof suffix, 1);
    if (!p->module) return pith_fail_nomem(err, l->module);
    memcpy(p->module, l->module, n + 1);
    p->name = p->module + n + 1;
    memcpy(p->name, l->module, n);
    memcpy(p->name + n, suffix, sizeof suffix);
    d->count++;
    return PITH_OK;
}

static enum pith_status find_parts(struct pith_dense *d, const struct pith_dense_options *o,
                                   struct pith_error *err)
{
    d->parts = pith_zalloc(o->count ? o->count : 1, sizeof *d->parts);
    if (!d->parts) return pith_fail_nomem(err, d->stored->dir);
    for (size_t i = 0; i < o->count; i++) {
        struct pith_dense_source source = {.ordered = false};
        struct pith_container_opts opts = {.model_dtype = PITH_BF16};
        PITH_TRY(d->container->describe(d->container_state, d->stored, o->linears[i].module,
                                        &source.grid, &opts, err));
        source.ordered = opts.act_order_groups;
        source.rotated = opts.hadamard > 1;
        if (source.grid.format) PITH_TRY(add_part(d, &o->linears[i], &source, err));
    }
    return PITH_OK;
}

/* Places in the order of the list, which is that of the layers: what is in use lies together. */
static enum pith_status lay_out(struct pith_dense *d, const char *folder, struct pith_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < d->count; i++) {
        const size_t rest = d->parts[i].bytes % PITH_SPARSE_ALIGN;
        d->parts[i].offset = at;
        if (__builtin_add_overflow(at, d->parts[i].bytes, &at) ||
            __builtin_add_overflow(at, rest ? PITH_SPARSE_ALIGN - rest : 0, &at))
            return pith_fail(err, PITH_LIMIT, "%s: is too large", d->stored->dir);
    }
    qsort(d->parts, d->count, sizeof *d->parts, compare_part);
    return pith_sparse_file_open(folder, at, &d->file, err);
}

/* --- the view --------------------------------------------------------------------------------- */

/* Whether a stored tensor belongs to a linear that is shown dense, or to nobody. A container may
 * store parts of parts: MODULE.weight.quant_state.nf4. */
static bool is_hidden(const struct pith_dense *d, const struct pith_dense_options *o,
                      const struct pith_tensor *t)
{
    char module[PITH_MAX_NAME + 1];
    for (size_t n = strnlen(t->name, PITH_MAX_NAME); n > 0; n--) {
        if (t->name[n] != '.') continue;
        memcpy(module, t->name, n);
        module[n] = '\0';
        const struct part *p = find(d, module);
        if (p) return strcmp(t->name + n, ".bias") != 0 || !p->bias;
    }
    return o->leaves_out && o->leaves_out(t->name);
}

static struct pith_tensor shown(struct part *p)
{
    return (struct pith_tensor){.name = p->name,
                                .dtype = PITH_F32,
                                .dims = 2,
                                .shape = {p->rows, p->cols},
                                .bytes = p->bytes,
                                .data = p->of->file.data + p->offset,
                                .lazy = &p->lazy};
}

static enum pith_status show_tensors(struct pith_checkpoint *v, const struct pith_dense_options *o,
                                     struct pith_error *err)
{
    struct pith_dense *d = v->dense;
    const struct pith_checkpoint *c = d->stored;
    v->tensors = pith_alloc(c->count + d->count + 1, sizeof *v->tensors);
    v->wholes = pith_alloc(c->whole_count + 1, sizeof *v->wholes);
    const bool good = v->tensors && v->wholes;
    for (size_t i = 0; i < c->count && good; i++)
        if (!is_hidden(d, o, &c->tensors[i])) v->tensors[v->count++] = c->tensors[i];
    for (size_t i = 0; i < c->whole_count && good; i++)
        for (size_t k = 0; k < v->count; k++)
            if (pith_tensor_within(&v->tensors[k], &c->wholes[i])) {
                v->wholes[v->whole_count++] = c->wholes[i];
                break;
            }
    for (size_t i = 0; i < d->count && good; i++) v->tensors[v->count++] = shown(&d->parts[i]);
    if (!good) return pith_fail_nomem(err, c->dir);
    qsort(v->tensors, v->count, sizeof *v->tensors, pith_tensor_by_name);
    v->bytes = c->bytes; /* what the files hold */
    return PITH_OK;
}

static enum pith_status fill_view(struct pith_checkpoint *v, const struct pith_dense_options *o,
                                  struct pith_error *err)
{
    struct pith_dense *d = v->dense;
    const struct pith_checkpoint *c = d->stored;
    v->dir = pith_strdup(c->dir);
    v->config = json_deep_copy(c->config);
    if (!v->dir || !v->config) return pith_fail_nomem(err, c->dir);
    (void)pith_quantization_set(v->config, NULL);
    v->files = c->files;
    v->file_count = c->file_count;
    v->gguf = c->gguf;
    v->file_form = c->file_form;
    memcpy(v->adapter, c->adapter, sizeof v->adapter);
    PITH_TRY(find_parts(d, o, err));
    PITH_TRY(lay_out(d, o->folder, err));
    return show_tensors(v, o, err);
}

enum pith_status pith_dense_open(struct pith_checkpoint *stored,
                                 const struct pith_dense_options *options,
                                 struct pith_checkpoint **out, struct pith_error *err)
{
    struct pith_checkpoint *v = pith_zalloc(1, sizeof *v);
    struct pith_dense *d = pith_zalloc(1, sizeof *d);
    if (!v || !d) {
        pith_free(v);
        pith_free(d);
        return pith_fail_nomem(err, stored->dir);
    }
    v->dense = d;
    d->stored = stored;
    d->container = options->container;
    d->container_state = options->state;
    d->file.out.fd = -1;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    const enum pith_status s = fill_view(v, options, err);
    if (s == PITH_OK) {
        *out = v;
        return PITH_OK;
    }
    d->stored = NULL; /* the caller's still, with its state */
    d->container = NULL;
    pith_checkpoint_close(v);
    return s;
}

void pith_dense_close(struct pith_checkpoint *v)
{
    struct pith_dense *d = v->dense;
    for (size_t i = 0; i < d->count; i++) pith_free(d->parts[i].module);
    pith_free(d->parts);
    pith_sparse_file_close(&d->file);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    if (d->container) d->container->close(d->container_state);
    pith_checkpoint_close(d->stored);
    pith_free(d);
    /* These are the stored checkpoint's. */
    v->files = NULL;
    v->file_count = 0;
    v->gguf = NULL;
    v->dense = NULL;
}

const struct pith_checkpoint *pith_dense_stored(const struct pith_checkpoint *view)
{
    return view->dense->stored;
}

struct pith_dense_source pith_dense_source(const struct pith_checkpoint *view, const char *module)
{
    const struct part *p = view->dense ? find(view->dense, module) : NULL;
    return p ? p->source : (struct pith_dense_source){.ordered = false};
}

enum pith_status pith_dense_load(const struct pith_checkpoint *view,
                                 const struct pith_dense_linear *linear, struct pith_qmat *q,
                                 bool *found, struct pith_error *err)
{
    const struct pith_dense *d = view->dense;
    *found = false;
    return d ? d->container->load(d->container_state, d->stored, linear->module, linear->rows,
                                  linear->cols, q, found, err)
             : PITH_OK;
}

const struct pith_container *pith_dense_container(const struct pith_checkpoint *view)
{
    return view->dense ? view->dense->container : NULL;
}
