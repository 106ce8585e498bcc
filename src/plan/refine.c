#include "plan/refine.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* A change is worth measuring while it would be an improvement if it lost this share of the
 * difference less than expected. */
static const double doubt = 0.6;

/* So many times the best that was measured a start may be expected to lose, the first aside. */
static const double hopeless = 1.5;

struct state {
    const struct pith_refine *r;
    struct pith_assign a; /* of the options as they are expected now */
    struct pith_assign_part *part;
    struct pith_assign_option *option; /* of all parts; option_of() */
    bool *tried;                       /* likewise: that change of the best was measured */
    size_t options;                    /* of all parts */
    size_t *at;                        /* [parts]: where a part's options begin */
    size_t *known;                     /* [measured][parts] */
    double *known_loss;                /* [measured] */
    size_t *best, *next;               /* [parts] */
    double loss;                       /* of best; infinite: there is none yet */
    struct pith_refined *out;
};

static struct pith_assign_option *option_of(const struct state *s, const size_t *chosen, size_t i)
{
    return &s->option[s->at[i] + chosen[i]];
}

static uint64_t cost_of(const struct state *s, const size_t *chosen)
{
    uint64_t cost = 0;
    for (size_t i = 0; i < s->a.parts; i++) cost += option_of(s, chosen, i)->cost;
    return cost;
}

static double expected(const struct state *s, const size_t *chosen)
{
    double loss = 0;
    for (size_t i = 0; i < s->a.parts; i++) loss += option_of(s, chosen, i)->loss;
    return loss;
}

/* What was measured of s->next, or NULL. */
static const double *known(const struct state *s)
{
    const size_t row = s->a.parts;
    for (size_t i = 0; i < s->out->measured; i++)
        if (memcmp(s->known + i * row, s->next, row * sizeof *s->next) == 0)
            return &s->known_loss[i];
    return NULL;
}

static enum pith_status init(struct state *s, struct pith_error *err)
{
    const struct pith_assign *a = s->r->assign;
    const size_t most = s->r->most ? s->r->most : 1;
    for (size_t i = 0; i < a->parts; i++) s->options += a->part[i].options;
    s->a = *a;
    s->loss = INFINITY;
    s->part = pith_alloc(a->parts, sizeof *s->part);
    s->at = pith_alloc(a->parts, sizeof *s->at);
    s->option = pith_alloc(s->options, sizeof *s->option);
    s->tried = pith_zalloc(s->options, sizeof *s->tried);
    s->known = pith_alloc(most * a->parts, sizeof *s->known);
    s->known_loss = pith_alloc(most, sizeof *s->known_loss);
    s->best = pith_zalloc(a->parts, sizeof *s->best);
    s->next = pith_zalloc(a->parts, sizeof *s->next);
    if (!s->part || !s->at || !s->option || !s->tried || !s->known || !s->known_loss || !s->best ||
        !s->next)
        return pith_fail_nomem(err, "an assignment");
    for (size_t i = 0, at = 0; i < a->parts; at += a->part[i++].options) {
        s->at[i] = at;
        s->part[i] = (struct pith_assign_part){s->option + at, a->part[i].options};
        for (size_t k = 0; k < a->part[i].options; k++) s->option[at + k] = a->part[i].option[k];
    }
    s->a.part = s->part;
    return PITH_OK;
}

static void close_state(struct state *s)
{
    pith_free(s->part);
    pith_free(s->at);
    pith_free(s->option);
    pith_free(s->tried);
    pith_free(s->known);
    pith_free(s->known_loss);
    pith_free(s->best);
    pith_free(s->next);
}

/* All options lose more or less than alone by the factor that the first does. */
static void scale(struct state *s, double loss)
{
    const double sum = expected(s, s->next);
    for (size_t k = 0; k < s->options && sum > 0 && loss > 0; k++) s->option[k].loss *= loss / sum;
}

/* What was measured of s->next beyond what was expected goes to those of its options that the best
 * has not, by what they and those there lose: so the best stays expected to lose what it does. */
static void learn(struct state *s, double loss)
{
    const double rest = loss - expected(s, s->next);
    double all = 0;
    size_t changed = 0;
    for (size_t i = 0; i < s->a.parts; i++) {
        if (s->next[i] == s->best[i]) continue;
        changed++;
        all += fabs(option_of(s, s->next, i)->loss) + fabs(option_of(s, s->best, i)->loss);
    }
    for (size_t i = 0; i < s->a.parts; i++) {
        if (s->next[i] == s->best[i]) continue;
        struct pith_assign_option *o = option_of(s, s->next, i);
        const double own = fabs(o->loss) + fabs(option_of(s, s->best, i)->loss);
        o->loss += rest * (all > 0 ? own / all : 1 / (double)changed);
    }
}

/* Measures s->next, which becomes the best if it loses less than that and a margin. */
static enum pith_status try_next(struct state *s, double margin, double *loss,
                                 struct pith_error *err)
{
    const size_t row = s->a.parts;
    PITH_TRY(s->r->measure(s->r->ctx, s->next, loss, err));
    memcpy(s->known + s->out->measured * row, s->next, row * sizeof *s->next);
    s->known_loss[s->out->measured++] = *loss;
    if (isinf(s->loss)) scale(s, *loss);
    else learn(s, *loss);
    if (*loss < (1 - margin) * s->loss && cost_of(s, s->next) <= s->a.budget) {
        s->loss = *loss;
        memset(s->tried, 0, s->options * sizeof *s->tried);
        memcpy(s->best, s->next, row * sizeof *s->next);
    }
    return PITH_OK;
}

static enum pith_status try_starts(struct state *s, struct pith_error *err)
{
    const size_t row = s->a.parts;
    struct pith_assigned first;
    PITH_TRY(pith_assign(s->r->assign, s->next, &first, err));
    PITH_TRY(try_next(s, 0, &s->out->first, err));
    for (size_t i = 0; i < s->r->starts && s->out->measured < s->r->most; i++) {
        memcpy(s->next, s->r->start + i * row, row * sizeof *s->next);
        if (cost_of(s, s->next) > s->a.budget) continue;
        const double *was = known(s);
        double loss = was ? *was : 0;
        if (!was && isfinite(s->out->start) && expected(s, s->next) > hopeless * s->loss) continue;
        if (!was) PITH_TRY(try_next(s, 0, &loss, err));
        if (loss < s->out->start) s->out->start = loss;
    }
    return PITH_OK;
}

/* Of the changes of the best that were not tried that which may be worth most; false: none may. */
static bool next_change(struct state *s)
{
    const double price = pith_assign_price(&s->a);
    const double enough = -s->r->margin * s->loss;
    double least = enough;
    size_t part = 0, option = 0;
    for (size_t i = 0; i < s->a.parts; i++) {
        const struct pith_assign_option *is = option_of(s, s->best, i);
        for (size_t k = 0; k < s->part[i].options; k++) {
            const struct pith_assign_option *to = &s->part[i].option[k];
            const double more = to->loss - is->loss;
            const double worth = more + price * ((double)to->cost - (double)is->cost) -
                                 doubt * fabs(more);
            if (to == is || s->tried[s->at[i] + k] || !(worth < least)) continue;
            least = worth;
            part = i;
            option = k;
        }
    }
    if (!(least < enough)) return false;
    memcpy(s->next, s->best, s->a.parts * sizeof *s->next);
    s->next[part] = option;
    s->tried[s->at[part] + option] = true;
    return true;
}

static enum pith_status search(struct state *s, struct pith_error *err)
{
    while (s->out->measured < s->r->most) {
        struct pith_assigned got;
        double loss;
        PITH_TRY(pith_assign(&s->a, s->next, &got, err));
        bool poor = got.loss > (1 - s->r->margin) * s->loss * (1 + 1e-12);
        while (poor || known(s)) {
            if (!next_change(s)) return PITH_OK;
            poor = false;
        }
        PITH_TRY(try_next(s, s->r->margin, &loss, err));
    }
    return PITH_OK;
}

enum pith_status pith_refine(const struct pith_refine *r, size_t *chosen, struct pith_refined *out,
                             struct pith_error *err)
{
    struct state s = {.r = r, .out = out};
    *out = (struct pith_refined){.start = INFINITY};
    enum pith_status status = init(&s, err);
    if (status == PITH_OK) status = try_starts(&s, err);
    if (status == PITH_OK) status = search(&s, err);
    if (status == PITH_OK) {
        out->loss = s.loss;
        for (size_t i = 0; i < s.a.parts; i++) {
            chosen[i] = s.best[i];
            out->cost += r->assign->part[i].option[chosen[i]].cost;
            out->sum += r->assign->part[i].option[chosen[i]].loss;
        }
    }
    close_state(&s);
    return status;
}
