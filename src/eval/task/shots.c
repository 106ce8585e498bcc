#include "eval/task/shots.h"

#include "base/mem.h"

enum { STATE = 624, SHIFT = 397 };

static void seed_plainly(struct pith_twister *t, uint32_t seed)
{
    t->state[0] = seed;
    for (uint32_t i = 1; i < STATE; i++)
        t->state[i] = 1812433253u * (t->state[i - 1] ^ (t->state[i - 1] >> 30)) + i;
    t->at = STATE;
}

/* Seeding by an array, of one word. */
void pith_twister_seed(struct pith_twister *t, uint32_t seed)
{
    uint32_t *mt = t->state;
    size_t i = 1;
    seed_plainly(t, 19650218u);
    for (size_t k = 0; k < STATE; k++) {
        mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1664525u)) + seed;
        if (++i == STATE) {
            mt[0] = mt[STATE - 1];
            i = 1;
        }
    }
    for (size_t k = 0; k < STATE - 1; k++) {
        mt[i] = (mt[i] ^ ((mt[i - 1] ^ (mt[i - 1] >> 30)) * 1566083941u)) - (uint32_t)i;
        if (++i == STATE) {
            mt[0] = mt[STATE - 1];
            i = 1;
        }
    }
    mt[0] = 0x80000000u;
}

static void twist(struct pith_twister *t)
{
    uint32_t *mt = t->state;
    for (size_t i = 0; i < STATE; i++) {
        const uint32_t y = (mt[i] & 0x80000000u) | (mt[(i + 1) % STATE] & 0x7fffffffu);
        mt[i] = mt[(i + SHIFT) % STATE] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->at = 0;
}

static uint32_t twister_next(struct pith_twister *t)
{
    if (t->at == STATE) twist(t);
    uint32_t y = t->state[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* As Python's randrange(n) for 0 < n < 2^32: so many bits as n has, until they are below n. */
static size_t below(struct pith_twister *t, size_t n)
{
    unsigned bits = 0;
    while (bits < 32 && n >> bits) bits++;
    size_t r;
    do r = twister_next(t) >> (32 - bits);
    while (r >= n);
    return r;
}

/* Python uses a list of what remains for a small n, and a set of what is taken for a large one. */
static bool is_small(size_t n, size_t count)
{
    size_t most = 21;
    if (count > 5) {
        size_t four = 1;
        while (four < 3 * count) four *= 4;
        most += four;
    }
    return n <= most;
}

enum pith_status pith_twister_sample(struct pith_twister *t, size_t n, size_t count, size_t *out,
                                     struct pith_error *err)
{
    if (!is_small(n, count)) {
        for (size_t i = 0; i < count; i++) {
            bool taken;
            do {
                out[i] = below(t, n);
                taken = false;
                for (size_t k = 0; k < i; k++) taken = taken || out[k] == out[i];
            } while (taken);
        }
        return PITH_OK;
    }
    size_t *left = pith_alloc(n, sizeof *left);
    if (!left) return pith_fail_nomem(err, "the examples of a task");
    for (size_t i = 0; i < n; i++) left[i] = i;
    for (size_t i = 0; i < count; i++) {
        const size_t k = below(t, n - i);
        out[i] = left[k];
        left[k] = left[n - i - 1];
    }
    pith_free(left);
    return PITH_OK;
}

const struct pith_questions *pith_shots_pool(const struct pith_shots *s)
{
    return s->source->own_examples ? &s->source->questions : &s->source->examples;
}

enum pith_status pith_shots_begin(struct pith_shots *s, const struct pith_task_source *source,
                                  const struct pith_subject *subject, size_t wanted,
                                  struct pith_error *err)
{
    enum { SEED = 1234, MOST = 1000 };
    const size_t need = wanted + (source->own_examples && wanted);
    *s = (struct pith_shots){.source = source, .subject = subject, .wanted = wanted};
    if (wanted && source->form->flags & PITH_TASK_ALONE)
        return pith_fail(err, PITH_ARG, "%zu examples are wanted; %s has none", wanted,
                         source->form->name);
    if (wanted > MOST || need > subject->pool_count)
        return pith_fail(err, PITH_ARG, "%zu examples are wanted%s%s, there are %zu", wanted,
                         subject->name[0] ? " in " : "", subject->name,
                         subject->pool_count - (source->own_examples && subject->pool_count));
    pith_twister_seed(&s->twister, SEED);
    s->index = pith_alloc(wanted + 1, sizeof *s->index);
    return s->index ? PITH_OK : pith_fail_nomem(err, "the examples of a task");
}

/* Copies of the question that are in its own pool may be drawn more than once; then it is drawn
 * again, from the others. */
static enum pith_status draw_others(struct pith_shots *s, size_t question, struct pith_error *err)
{
    const struct pith_questions *q = pith_shots_pool(s);
    const size_t n = s->subject->pool_count;
    size_t *others = pith_alloc(n, sizeof *others), count = 0;
    if (!others) return pith_fail_nomem(err, "the examples of a task");
    for (size_t i = s->subject->pool; i < s->subject->pool + n; i++)
        if (!pith_question_same(q, i, q, question)) others[count++] = i;
    enum pith_status status =
        count < s->wanted
            ? pith_fail(err, PITH_ARG, "%zu examples are wanted, but all questions are alike",
                        s->wanted)
            : pith_twister_sample(&s->twister, count, s->wanted, s->index, err);
    for (size_t i = 0; i < s->wanted && status == PITH_OK; i++) s->index[i] = others[s->index[i]];
    pith_free(others);
    return status;
}

enum pith_status pith_shots_choose(struct pith_shots *s, size_t question, struct pith_error *err)
{
    const struct pith_questions *q = pith_shots_pool(s);
    const bool own = s->source->own_examples;
    const size_t draws = s->wanted + own;
    if (s->wanted == 0) return PITH_OK;
    if (s->source->form->flags & PITH_TASK_FIRST) {
        for (size_t i = 0; i < s->wanted; i++) s->index[i] = s->subject->pool + i;
        return PITH_OK;
    }
    PITH_TRY(pith_twister_sample(&s->twister, s->subject->pool_count, draws, s->index, err));
    size_t candidates = 0;
    for (size_t i = 0; i < draws; i++) {
        const size_t k = s->subject->pool + s->index[i];
        if (!own || !pith_question_same(q, k, q, question)) s->index[candidates++] = k;
    }
    return candidates < s->wanted ? draw_others(s, question, err) : PITH_OK;
}

void pith_shots_free(struct pith_shots *s)
{
    pith_free(s->index);
    s->index = NULL;
}
