#include "tok/matcher.h"

#include "base/grow.h"
#include "base/mem.h"

/* Places answered for by one pass: at least this many, and at least the longest string's length, so
 * that what is read beyond them at most doubles the work. */
#define PASS ((size_t)16 << 10)

static uint32_t new_node(struct pith_matcher *m, unsigned char byte, uint32_t length)
{
    if (m->count == UINT32_MAX / 2) return 0;
    struct pith_matcher_node *node = pith_grow(m->node, m->count, &m->cap, 256, sizeof *node);
    if (!node) return 0;
    m->node = node;
    if (m->count == 0) node[m->count++] = (struct pith_matcher_node){.value = -1};
    m->node[m->count] = (struct pith_matcher_node){.value = -1, .byte = byte, .length = length};
    return (uint32_t)m->count++;
}

/* The child of a node by a byte, 0 when it has none. */
static uint32_t child_of(const struct pith_matcher *m, uint32_t node, unsigned char byte)
{
    if (node == 0) return m->first[byte];
    uint32_t c = m->node[node].child;
    while (c && m->node[c].byte != byte) c = m->node[c].sibling;
    return c;
}

bool pith_matcher_add(struct pith_matcher *m, const char *text, size_t len, int32_t value)
{
    uint32_t at = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char byte = (unsigned char)text[len - 1 - i];
        uint32_t next = child_of(m, at, byte);
        if (!next) {
            next = new_node(m, byte, (uint32_t)i + 1);
            if (!next) return false;
            if (at == 0) m->first[byte] = next;
            m->node[next].sibling = m->node[at].child;
            m->node[at].child = next;
        }
        at = next;
    }
    if (m->node[at].value < 0) m->node[at].value = value;
    if (len > m->longest) m->longest = len;
    return true;
}

/* Where the automaton goes from a node by a byte. */
static uint32_t step(const struct pith_matcher *m, uint32_t node, unsigned char byte)
{
    for (;;) {
        const uint32_t next = child_of(m, node, byte);
        if (next || node == 0) return next;
        node = m->node[node].shorter;
    }
}

bool pith_matcher_finish(struct pith_matcher *m)
{
    if (m->count == 0) return true;
    uint32_t *queue = pith_alloc(m->count, sizeof *queue);
    if (!queue) return false;
    size_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) { /* shorter strings first */
        const uint32_t parent = queue[head++];
        for (uint32_t c = m->node[parent].child; c; c = m->node[c].sibling) {
            struct pith_matcher_node *n = &m->node[c];
            n->shorter = parent ? step(m, m->node[parent].shorter, n->byte) : 0;
            n->best = n->value >= 0 ? c : m->node[n->shorter].best;
            queue[tail++] = c;
        }
    }
    pith_free(queue);
    return true;
}

void pith_matcher_free(struct pith_matcher *m)
{
    pith_free(m->node);
    *m = (struct pith_matcher){0};
}

/* Answers for the places from `at` on. */
static bool pass(struct pith_match_run *run, size_t at)
{
    const struct pith_matcher *m = run->m;
    const size_t most = m->longest > PASS ? m->longest : PASS, left = run->len - at;
    const size_t places = left < most ? left : most;
    const size_t beyond = left - places < m->longest ? left - places : m->longest;
    if (!run->found) run->found = pith_alloc(run->len < most ? run->len : most, sizeof *run->found);
    if (!run->found) return false;
    uint32_t node = 0;
    for (size_t i = places + beyond; i-- > 0;) {
        node = step(m, node, (unsigned char)run->text[at + i]);
        if (i < places) run->found[i] = m->node[node].best;
    }
    run->from = at;
    run->to = at + places;
    return true;
}

size_t pith_match_at(struct pith_match_run *run, size_t at, int32_t *value)
{
    if (run->m->count == 0 || at >= run->len || run->failed) return 0;
    if (at < run->from || at >= run->to) run->failed = !pass(run, at);
    if (run->failed) return 0;
    const struct pith_matcher_node *n = &run->m->node[run->found[at - run->from]];
    if (n->value < 0) return 0;
    *value = n->value;
    return n->length;
}

void pith_match_run_free(struct pith_match_run *run)
{
    pith_free(run->found);
    run->found = NULL;
}
