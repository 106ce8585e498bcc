#include "choose/kv_fisher.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/pool.h"
#include "choose/sense_draw.h"
#include "model/grad/block_grad.h"
#include "model/rope.h"

#include <string.h>

/* Tokens of a window, windows. */
enum { LENGTH = 512, WINDOWS = 2 };
/* Bytes of a block in float32 beyond which no gradient is made. */
static const uint64_t most_block = (uint64_t)2 << 30;

struct pass {
    const struct pith_kv_levels_job *job;
    const struct pith_kv_windows *windows;
    struct pith_kv_fisher *to;
    size_t length, count; /* tokens of a window, windows */
    float *x;             /* [layers + 1][count][length][hidden]: what layers are given */
    float *d;             /* [count][length][hidden] */
    float *row;           /* room for a key */
    float **none;         /* [most linears]: no gradient of a matrix */
    struct pith_tape tape;
    struct pith_block block;
    uint32_t layer; /* on the way back */
};

static size_t length_of(size_t length)
{
    return length < LENGTH ? length : LENGTH;
}

static float *x_of(const struct pass *p, uint32_t layer, size_t window)
{
    const size_t hidden = p->job->model->shape.hidden;
    return p->x + (layer * p->count + window) * p->length * hidden;
}

static enum pith_status fisher_forward(struct pass *p, struct pith_error *err)
{
    struct pith_model *m = p->job->model;
    for (size_t w = 0; w < p->count; w++)
        PITH_TRY(pith_model_embed(m, p->windows->ids + w * p->windows->length, p->length,
                                  x_of(p, 0, w), err));
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        PITH_TRY(pith_block_load(m, l, PITH_LOAD_FLOAT, &p->block, err));
        enum pith_status s = PITH_OK;
        for (size_t w = 0; w < p->count && s == PITH_OK; w++)
            s = pith_tape_forward(&p->tape, &p->block, x_of(p, l, w), p->length, x_of(p, l + 1, w),
                                  err);
        pith_block_free(&p->block);
        pith_model_shed(m, l);
        PITH_TRY(s);
    }
    return PITH_OK;
}

static enum pith_status fisher_step(struct pass *p, struct pith_error *err)
{
    const struct pith_model *m = p->job->model;
    const struct pith_job job = {.model = p->job->model, .backend = p->job->backend};
    const size_t hidden = m->shape.hidden, vocab = m->shape.vocab;
    float *room = pith_alloc_aligned(2 * (size_t)PITH_HEAD_ROWS * vocab, sizeof *room);
    enum pith_status s = room ? PITH_OK : pith_fail_nomem(err, "logits");
    for (size_t w = 0; w < p->count; w++)
        for (size_t i = 0; i < p->length && s == PITH_OK; i += PITH_HEAD_ROWS) {
            const size_t left = p->length - i, n = left < PITH_HEAD_ROWS ? left : PITH_HEAD_ROWS;
            const struct pith_draw_rows r = {.x = x_of(p, m->shape.layers, w) + i * hidden,
                                             .n = n,
                                             .room = room,
                                             .seed = 0x9e3779b97f4a7c15u + w * p->length + i,
                                             .d_x = p->d + (w * p->length + i) * hidden};
            s = pith_draw_rows(&job, &r, err);
        }
    pith_free(room);
    return s;
}

/* The rotary angles of a position's keys. */
struct angles {
    float cos[PITH_CODED / 2], sin[PITH_CODED / 2];
};

static void find_angles(const struct pass *p, const struct pith_node *node, size_t position,
                        struct angles *out)
{
    const struct pith_rope_angles *angles = &p->job->model->rope[node->u.rope.table];
    pith_rope_table(pith_rope_angles_for(angles, p->length), node->u.rope.dim / 2, angles->factor,
                    position, 1, out->cos, out->sin);
}

/* The gradient with respect to a key before its rotary embedding: by the transposed rotation. */
static void fisher_step_back(const struct pith_node *node, const struct angles *t, float *d)
{
    pith_rope_back(node->u.rope.dim, node->u.rope.adjacent, t->cos, t->sin, 1.0f,
                   d + node->u.rope.offset);
}

static void hear_fisher(void *ctx, const struct pith_tape_read *read)
{
    struct pass *p = ctx;
    const struct pith_layer_plan *plan = pith_plan(&p->job->model->plans, p->layer);
    const struct pith_state_spec *s = &plan->state;
    const struct pith_node *node = pith_kv_rope_of(plan);
    const bool keys = read->what == PITH_READ_KEYS;
    if ((!keys && read->what != PITH_READ_VALUES) || s->kind != PITH_STATE_KV) return;
    double *to = p->to->memory + p->to->at[2 * p->layer + (keys ? 0 : 1)];
    const size_t head = keys ? s->key : s->value;
    struct angles t;
    for (size_t i = 0; i < read->n; i++) {
        if (keys && node) find_angles(p, node, i, &t);
        for (size_t h = 0; h < s->heads; h++) {
            memcpy(p->row, read->d + i * read->width + h * head, head * sizeof *p->row);
            if (keys && node) fisher_step_back(node, &t, p->row);
            for (size_t e = 0; e < head; e++)
                to[h * head + e] += (double)p->row[e] * (double)p->row[e];
        }
    }
}

static enum pith_status fisher_backward(struct pass *p, struct pith_error *err)
{
    struct pith_model *m = p->job->model;
    const size_t window = p->length * m->shape.hidden;
    for (uint32_t l = m->shape.layers; l-- > 0;) {
        p->layer = l;
        PITH_TRY(pith_block_load(m, l, PITH_LOAD_FLOAT, &p->block, err));
        enum pith_status s = PITH_OK;
        for (size_t w = 0; w < p->count && s == PITH_OK; w++) {
            float *d = p->d + w * window;
            const struct pith_tape_grad g = {
                .d_out = d, .w = p->none, .d_x = d, .seen = hear_fisher, .ctx = p};
            s = pith_tape_forward(&p->tape, &p->block, x_of(p, l, w), p->length, x_of(p, l + 1, w),
                                  err);
            if (s == PITH_OK) pith_tape_backward(&p->tape, &p->block, &g);
        }
        pith_block_free(&p->block);
        pith_model_shed(m, l);
        PITH_TRY(s);
    }
    return PITH_OK;
}

/* Room for the sums, which are 0. */
static enum pith_status open_sums(const struct pith_plans *plans, struct pith_kv_fisher *f,
                                  struct pith_error *err)
{
    *f = (struct pith_kv_fisher){.at = pith_zalloc(2 * (size_t)plans->layers + 1, sizeof *f->at)};
    if (!f->at) return pith_fail_nomem(err, "gradients");
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_state_spec *s = &pith_plan(plans, i)->state;
        const bool has = s->kind == PITH_STATE_KV;
        f->at[2 * i + 1] = f->at[2 * i] + (has ? (size_t)s->heads * s->key : 0);
        f->at[2 * i + 2] = f->at[2 * i + 1] + (has ? (size_t)s->heads * s->value : 0);
    }
    f->memory = pith_zalloc(f->at[2 * plans->layers] + 1, sizeof *f->memory);
    return f->memory ? PITH_OK : pith_fail_nomem(err, "gradients");
}

void pith_kv_fisher_free(struct pith_kv_fisher *f)
{
    pith_free(f->memory);
    pith_free(f->at);
    *f = (struct pith_kv_fisher){0};
}

static uint64_t block_bytes(const struct pith_plans *p)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->kinds; i++) {
        const uint64_t bytes = pith_block_float_bytes(&p->kind[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t pith_kv_fisher_bytes(const struct pith_model *m, const struct pith_backend *be,
                              size_t length)
{
    const uint64_t block = block_bytes(&m->plans);
    if (block > most_block) return 0;
    const uint64_t rows = length_of(length), window = rows * m->shape.hidden * sizeof(float);
    return pith_sum_bytes(pith_tape_bytes(m, pith_pool_threads(pith_backend_pool(be)), rows),
                          block + (m->shape.layers + 2) * WINDOWS * window +
                              2 * (uint64_t)PITH_HEAD_ROWS * m->shape.vocab * sizeof(float));
}

enum pith_status pith_kv_fisher_measure(const struct pith_kv_levels_job *job,
                                        const struct pith_kv_windows *windows,
                                        struct pith_kv_fisher *out, struct pith_error *err)
{
    const struct pith_model *m = job->model;
    struct pass p = {.job = job,
                     .windows = windows,
                     .to = out,
                     .length = length_of(windows->length),
                     .count = windows->windows < WINDOWS ? windows->windows : WINDOWS};
    const size_t window = p.count * p.length * m->shape.hidden;
    *out = (struct pith_kv_fisher){0};
    if (pith_plans_carried(&m->plans) > 0 || block_bytes(&m->plans) > most_block)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "layers that carry more than the stream, or of more than 2 GiB");
    PITH_TRY(pith_tape_init(&p.tape, job->backend, m, p.length, err));
    p.x = pith_alloc_aligned(((size_t)m->shape.layers + 1) * window, sizeof *p.x);
    p.d = pith_alloc_aligned(window, sizeof *p.d);
    p.row = pith_alloc(PITH_CODED, sizeof *p.row);
    p.none = pith_zalloc(m->plans.most_linears, sizeof *p.none);
    enum pith_status s = p.x && p.d && p.row && p.none ? open_sums(&m->plans, out, err)
                                                       : pith_fail_nomem(err, "gradients");
    if (s == PITH_OK) s = fisher_forward(&p, err);
    if (s == PITH_OK) s = fisher_step(&p, err);
    if (s == PITH_OK) s = fisher_backward(&p, err);
    pith_free(p.none);
    pith_free(p.row);
    pith_free(p.d);
    pith_free(p.x);
    pith_tape_free(&p.tape);
    if (s != PITH_OK) pith_kv_fisher_free(out);
    return s;
}
