#include "model/chain.h"

#include "base/mem.h"

static void layout(struct pith_arena *a, const struct pith_model *m, unsigned most, size_t rows,
                   struct pith_chain *c)
{
    const size_t hidden = m->shape.hidden, width = hidden + pith_plans_carried(&m->plans);
    const size_t links = most > 1 ? most - 1 : 0;
    c->tape = pith_arena_take(a, most, sizeof *c->tape);
    c->floats = rows * width;
    c->between = pith_arena_take_rows(a, rows, links * width, sizeof(float));
    c->d = pith_arena_take_rows(a, links ? rows : 0, hidden, sizeof(float));
}

enum pith_status pith_chain_init(struct pith_chain *c, struct pith_backend *be,
                                 const struct pith_model *m, unsigned most, size_t rows,
                                 struct pith_error *err)
{
    struct pith_arena a = {0};
    *c = (struct pith_chain){.most = most};
    if (most == 0) return pith_fail(err, PITH_ARG, "gradients of no blocks");
    layout(&a, m, most, rows, c);
    if (!pith_arena_open(&a)) {
        *c = (struct pith_chain){0};
        return pith_fail(err, PITH_NOMEM, "out of memory for the gradients of %u blocks", most);
    }
    layout(&a, m, most, rows, c);
    c->memory = a.base;
    enum pith_status s = PITH_OK;
    for (unsigned i = 0; i < most; i++) c->tape[i] = (struct pith_tape){0};
    for (unsigned i = 0; i < most && s == PITH_OK; i++)
        s = pith_tape_init(&c->tape[i], be, m, rows, err);
    if (s != PITH_OK) pith_chain_free(c);
    return s;
}

void pith_chain_free(struct pith_chain *c)
{
    for (unsigned i = 0; c->memory && i < c->most; i++) pith_tape_free(&c->tape[i]);
    pith_free(c->memory);
    *c = (struct pith_chain){0};
}

uint64_t pith_chain_bytes(const struct pith_model *m, unsigned threads, unsigned most, size_t rows)
{
    struct pith_chain c;
    struct pith_arena a = {0};
    layout(&a, m, most, rows, &c);
    uint64_t bytes = pith_arena_bytes(&a);
    const uint64_t tape = pith_tape_bytes(m, threads, rows);
    for (unsigned i = 0; i < most; i++) bytes = pith_sum_bytes(bytes, tape);
    return bytes;
}

enum pith_status pith_chain_forward(struct pith_chain *c, const float *x, size_t n, float *out,
                                    struct pith_error *err)
{
    if (c->count == 0 || c->count > c->most)
        return pith_fail(err, PITH_ARG, "%u blocks on %u tapes", c->count, c->most);
    for (unsigned i = 0; i < c->count; i++) {
        float *y = i + 1 < c->count ? c->between + i * c->floats : out;
        PITH_TRY(pith_tape_forward(&c->tape[i], c->block[i], x, n, y, err));
        x = y;
    }
    return PITH_OK;
}

void pith_chain_backward(struct pith_chain *c, const struct pith_tape_grad *g)
{
    for (unsigned i = c->count; i-- > 0;) {
        struct pith_tape_grad one = g[i];
        if (i + 1 < c->count) one.d_out = c->d;
        if (i > 0) one.d_x = c->d;
        pith_tape_backward(&c->tape[i], c->block[i], &one);
    }
}
