#include "tok/merge.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

void pith_word_clear(struct pith_word *w)
{
    w->count = w->waiting = 0;
}

bool pith_word_add(struct pith_word *w, int32_t id, size_t at, size_t len)
{
    struct pith_symbol *symbol = pith_grow(w->symbol, w->count, &w->cap, 64, sizeof *symbol);
    if (!symbol) return false;
    w->symbol = symbol;
    const int32_t n = (int32_t)w->count;
    if (n) w->symbol[n - 1].next = n;
    w->symbol[w->count++] = (struct pith_symbol){id, (uint32_t)at, (uint32_t)len, n - 1, -1};
    return true;
}

static bool before(const struct pith_candidate *a, const struct pith_candidate *b)
{
    return a->joint.key != b->joint.key ? a->joint.key < b->joint.key : a->pos < b->pos;
}

static bool push_candidate(struct pith_word *w, struct pith_candidate c)
{
    struct pith_candidate *heap = pith_grow(w->heap, w->waiting, &w->heap_cap, 64, sizeof *heap);
    if (!heap) return false;
    w->heap = heap;
    size_t i = w->waiting++;
    while (i > 0 && before(&c, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = c;
    return true;
}

static struct pith_candidate pop(struct pith_word *w)
{
    const struct pith_candidate top = w->heap[0], last = w->heap[--w->waiting];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->waiting) break;
        if (child + 1 < w->waiting && before(&w->heap[child + 1], &w->heap[child])) child++;
        if (!before(&w->heap[child], &last)) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

/* Rates symbol `left` with its right neighbour and queues the pair; false when memory is out. */
static bool consider(struct pith_word *w, int32_t left, pith_pair_fn *rate, const void *rule)
{
    if (left < 0 || w->symbol[left].next < 0) return true;
    const struct pith_symbol *l = &w->symbol[left], *r = &w->symbol[l->next];
    struct pith_candidate c = {.pos = (uint32_t)left, .len = l->len + r->len};
    if (!rate(rule, l, r, &c.joint)) return true;
    return push_candidate(w, c);
}

/* Takes the best pair and joins it, unless it is stale; false when memory is out. */
static bool join_best(struct pith_word *w, pith_pair_fn *rate, const void *rule)
{
    const struct pith_candidate c = pop(w);
    struct pith_symbol *l = &w->symbol[c.pos];
    if (l->len == 0 || l->next < 0) return true;
    struct pith_symbol *r = &w->symbol[l->next];
    /* A symbol only ever grows to the right, so the same length means the same pair. */
    if (l->len + r->len != c.len) return true;
    l->id = c.joint.id;
    l->len = c.len;
    r->len = 0;
    l->next = r->next;
    if (r->next >= 0) w->symbol[r->next].prev = (int32_t)c.pos;
    return consider(w, l->prev, rate, rule) && consider(w, (int32_t)c.pos, rate, rule);
}

enum pith_status pith_word_merge(struct pith_word *w, pith_pair_fn *rate, const void *rule,
                                 struct pith_error *err)
{
    for (size_t i = 0; i + 1 < w->count; i++) {
        PITH_TRY(pith_beat(&w->beat, err));
        if (!consider(w, (int32_t)i, rate, rule)) return pith_fail_nomem(err, "token ids");
    }
    while (w->waiting) {
        PITH_TRY(pith_beat(&w->beat, err));
        if (!join_best(w, rate, rule)) return pith_fail_nomem(err, "token ids");
    }
    return PITH_OK;
}

void pith_word_free(struct pith_word *w)
{
    pith_free(w->symbol);
    pith_free(w->heap);
    *w = (struct pith_word){0};
}

/* The slot of a pair, or the empty one where it belongs. Multiplier: 2^64 / golden ratio. */
static struct pith_merge_slot *merge_slot(const struct pith_merges *m, int32_t left, int32_t right)
{
    const size_t mask = m->slots - 1;
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    for (size_t i = (size_t)h & mask;; i = (i + 1) & mask) {
        struct pith_merge_slot *s = &m->slot[i];
        if (s->left < 0 || (s->left == left && s->right == right)) return s;
    }
}

bool pith_merges_reserve(struct pith_merges *m, size_t count)
{
    struct pith_merges bigger = {.slots = m->slots ? m->slots : 1024, .count = m->count};
    while (bigger.slots / 2 <= count && bigger.slots <= SIZE_MAX / 2) bigger.slots *= 2;
    if (bigger.slots == m->slots) return true;
    bigger.slot = pith_alloc(bigger.slots, sizeof *bigger.slot);
    if (!bigger.slot) return false;
    for (size_t i = 0; i < bigger.slots; i++) bigger.slot[i].left = -1;
    for (size_t i = 0; i < m->slots; i++)
        if (m->slot[i].left >= 0)
            *merge_slot(&bigger, m->slot[i].left, m->slot[i].right) = m->slot[i];
    pith_free(m->slot);
    *m = bigger;
    return true;
}

bool pith_merges_add(struct pith_merges *m, int32_t left, int32_t right, struct pith_joint joint)
{
    if (!pith_merges_reserve(m, m->count)) return false;
    struct pith_merge_slot *s = merge_slot(m, left, right);
    if (s->left < 0) m->count++;
    *s = (struct pith_merge_slot){left, right, joint};
    return true;
}

bool pith_merges_rate(const void *merges, const struct pith_symbol *left,
                      const struct pith_symbol *right, struct pith_joint *joint)
{
    const struct pith_merges *m = merges;
    if (!m->slots) return false;
    const struct pith_merge_slot *s = merge_slot(m, left->id, right->id);
    if (s->left < 0) return false;
    *joint = s->joint;
    return true;
}

uint64_t pith_merges_mix(const struct pith_merges *m)
{
    uint64_t mix = 0;
    for (size_t i = 0; i < m->slots; i++) {
        const struct pith_merge_slot *s = &m->slot[i];
        const uint32_t entry[] = {(uint32_t)s->left, (uint32_t)s->right, s->joint.key,
                                  (uint32_t)s->joint.id};
        if (s->left >= 0) mix += pith_hash64(entry, sizeof entry);
    }
    return mix;
}

void pith_merges_free(struct pith_merges *m)
{
    pith_free(m->slot);
    *m = (struct pith_merges){0};
}
