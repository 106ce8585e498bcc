#include "calib/sent.h"

#include "base/mem.h"

#include <string.h>

const uint32_t *pith_routed_taken(const struct pith_routed *r, size_t token, uint32_t expert)
{
    for (uint32_t k = 0; k < r->taken; k++)
        if (r->chosen[token * r->taken + k] == expert) return &r->chosen[token * r->taken + k];
    return NULL;
}

enum pith_status pith_sent_choices(struct pith_routed *r, const struct pith_routed_place *p,
                                   struct pith_error *err)
{
    struct pith_ranks *ranks = p->collector->relay.ranks;
    const size_t all = pith_acts_all(p->acts), each = p->acts->length * r->taken;
    PITH_TRY(pith_ranks_share_parts(ranks, r->chosen, all, each * sizeof *r->chosen, err));
    return r->share ? pith_ranks_share_parts(ranks, r->share, all, each * sizeof *r->share, err)
                    : PITH_OK;
}

/* Everything on its way. */
struct sending {
    struct pith_routed *r;
    const struct pith_routed_place *p;
    const struct pith_relay *relay;
    size_t width, most; /* floats of a row; rows of a message */
    float *packed;      /* [most][width] */
};

/* The tokens of a rank's windows: [*from, *to). */
static void tokens_of(const struct sending *s, unsigned rank, size_t *from, size_t *to)
{
    const struct pith_acts *a = s->p->acts;
    *from = pith_ranks_from(s->relay->ranks, rank, pith_acts_all(a)) * a->length;
    *to = pith_ranks_from(s->relay->ranks, rank + 1, pith_acts_all(a)) * a->length;
}

static void copy_row(const struct sending *s, size_t token, float *out)
{
    const struct pith_acts *a = s->p->acts;
    const size_t here = token - a->first * a->length;
    memcpy(out, pith_acts_row(a, here), a->hidden * sizeof *out);
    if (s->p->twin)
        memcpy(out + a->hidden, pith_acts_row(s->p->twin->acts, here), a->hidden * sizeof *out);
}

static size_t count_taken(const struct sending *s, uint32_t expert, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t t = from; t < to; t++) n += pith_routed_taken(s->r, t, expert) != NULL;
    return n;
}

/* The next rows of an expert's tokens from *token on, at most s->most of them. */
static size_t pack(const struct sending *s, uint32_t expert, size_t *token, size_t to, float *out)
{
    size_t n = 0;
    for (; *token < to && n < s->most; (*token)++)
        if (pith_routed_taken(s->r, *token, expert)) copy_row(s, *token, out + n++ * s->width);
    return n;
}

static enum pith_status send_rows(const struct sending *s, unsigned to_rank, struct pith_error *err)
{
    const uint32_t experts = s->p->collector->model->shape.moe.experts;
    size_t from, to;
    tokens_of(s, pith_ranks_own(s->relay->ranks), &from, &to);
    for (uint32_t e = 0; e < experts; e++) {
        if (pith_relay_owner(s->relay, e) != to_rank) continue;
        for (size_t t = from, n; (n = pack(s, e, &t, to, s->packed)) > 0;)
            PITH_TRY(pith_ranks_send(s->relay->ranks, to_rank, s->packed,
                                     n * s->width * sizeof(float), err));
    }
    return PITH_OK;
}

/* Of a rank's rows, or of this one's own, where they begin behind those of the ranks before. */
static enum pith_status take_rows(const struct sending *s, unsigned rank, struct pith_error *err)
{
    const uint32_t experts = s->p->collector->model->shape.moe.experts;
    const unsigned own = pith_ranks_own(s->relay->ranks);
    size_t from, to;
    tokens_of(s, rank, &from, &to);
    for (uint32_t e = 0; e < experts; e++) {
        if (pith_relay_owner(s->relay, e) != own) continue;
        float *at = s->r->sent.rows +
                    (s->r->sent.from[e] + count_taken(s, e, 0, from)) * s->width;
        size_t left = count_taken(s, e, from, to), t = from;
        for (size_t n; left > 0; left -= n, at += n * s->width) {
            n = left < s->most ? left : s->most;
            if (rank == own) (void)pack(s, e, &t, to, at);
            else
                PITH_TRY(pith_ranks_receive(s->relay->ranks, rank, at,
                                            n * s->width * sizeof(float), err));
        }
    }
    return PITH_OK;
}

/* Ranks in pairs, each with each once: the sum of a pair's numbers is the number of the step. */
static enum pith_status exchange(const struct sending *s, struct pith_error *err)
{
    struct pith_ranks *ranks = s->relay->ranks;
    const unsigned own = pith_ranks_own(ranks), count = pith_ranks_count(ranks);
    for (unsigned step = 0; step < count; step++) {
        const unsigned other = (step + count - own) % count;
        if (other == own) {
            PITH_TRY(take_rows(s, own, err));
            continue;
        }
        if (own < other) PITH_TRY(send_rows(s, other, err));
        PITH_TRY(take_rows(s, other, err));
        if (own > other) PITH_TRY(send_rows(s, other, err));
    }
    return PITH_OK;
}

/* Rows at equal distances over the text, from the ranks that have them, to all. */
static enum pith_status share_pooled(const struct sending *s, struct pith_error *err)
{
    struct pith_ranks *ranks = s->relay->ranks;
    const size_t pooled = s->r->sent.pooled, row = s->width * sizeof(float);
    const unsigned count = pith_ranks_count(ranks), own = pith_ranks_own(ranks);
    size_t *edges = pith_zalloc(count + 1, sizeof *edges);
    if (!edges) return pith_fail_nomem(err, "whose rows are whose");
    for (unsigned rank = 0; rank < count; rank++) {
        size_t from, to, i = edges[rank] / row;
        tokens_of(s, rank, &from, &to);
        for (; i < pooled && pith_pooled_token(s->r, i, pooled) < to; i++)
            if (rank == own)
                copy_row(s, pith_pooled_token(s->r, i, pooled), s->r->sent.rows + i * s->width);
        edges[rank + 1] = i * row;
    }
    const enum pith_status st = pith_ranks_share_runs(ranks, s->r->sent.rows, edges, err);
    pith_free(edges);
    return st;
}

enum pith_status pith_sent_bring(struct pith_routed *r, const struct pith_routed_place *p,
                                 size_t pooled, struct pith_error *err)
{
    struct sending s = {.r = r,
                        .p = p,
                        .relay = &p->collector->relay,
                        .width = pith_sent_width(p),
                        .most = p->collector->length};
    const uint32_t experts = p->collector->model->shape.moe.experts;
    const bool some = r->rule != PITH_EXPERTS_ALL;
    size_t rows = pooled;
    r->sent.pooled = pooled;
    r->sent.from = pith_zalloc(experts, sizeof *r->sent.from);
    if (!r->sent.from) return pith_fail_nomem(err, "the tokens of experts");
    for (uint32_t e = 0; e < experts && some; e++) {
        r->sent.from[e] = rows;
        if (pith_relay_owner(s.relay, e) == pith_ranks_own(s.relay->ranks)) rows += r->count[e];
    }
    PITH_TRY(s.relay->room(s.relay->room_ctx, (rows ? rows : 1) * s.width, &r->sent.rows, err));
    PITH_TRY(share_pooled(&s, err));
    if (!some) return PITH_OK;
    s.packed = pith_alloc_aligned(s.most * s.width, sizeof *s.packed);
    const enum pith_status st = s.packed ? exchange(&s, err)
                                         : pith_fail_nomem(err, "the tokens of experts");
    pith_free(s.packed);
    return st;
}
