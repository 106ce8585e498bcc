#include "tok/trie.h"

#include "base/mem.h"

#include <stdlib.h>

/* The strings below a node, while the tree is built: key[from..to) agree in what leads to it. */
struct range {
    uint32_t from, to;
};

static int by_text(const void *a, const void *b)
{
    const struct pith_trie_key *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Bytes in which two strings agree from the start. */
static uint32_t shared(const struct pith_trie_key *a, const struct pith_trie_key *b)
{
    const uint32_t most = a->len < b->len ? a->len : b->len;
    uint32_t n = 0;
    while (n < most && a->text[n] == b->text[n]) n++;
    return n;
}

/* Nodes of the tree of sorted keys, the root included; 0 when two keys are the same or there are
 * too many. */
static uint32_t count_nodes(const struct pith_trie_key *key, size_t count)
{
    uint64_t nodes = 1;
    for (size_t i = 0; i < count && nodes < UINT32_MAX; i++) {
        const uint32_t same = i ? shared(&key[i - 1], &key[i]) : 0;
        if (same == key[i].len) return 0;
        nodes += key[i].len - same;
    }
    return nodes < UINT32_MAX ? (uint32_t)nodes : 0;
}

static bool reserve_trie(struct pith_trie *t, uint32_t nodes)
{
    t->first = pith_alloc((size_t)nodes + 1, sizeof *t->first);
    t->value = pith_alloc(nodes, sizeof *t->value);
    t->byte = pith_alloc(nodes, sizeof *t->byte);
    return t->first && t->value && t->byte;
}

/* Level by level: the ranges of a level's nodes make those of the next. */
static void fill_trie(struct pith_trie *t, const struct pith_trie_key *key, struct range *range)
{
    uint32_t next = 1, level_end = 1, depth = 0;
    for (uint32_t node = 0; node < t->nodes; node++) {
        if (node == level_end) {
            level_end = next;
            depth++;
        }
        struct range r = range[node];
        t->first[node] = next;
        t->value[node] = -1;
        if (r.from < r.to && key[r.from].len == depth) t->value[node] = key[r.from++].value;
        while (r.from < r.to) {
            const uint8_t byte = (uint8_t)key[r.from].text[depth];
            const uint32_t from = r.from;
            while (r.from < r.to && (uint8_t)key[r.from].text[depth] == byte) r.from++;
            t->byte[next] = byte;
            range[next++] = (struct range){from, r.from};
        }
    }
    t->first[t->nodes] = next;
}

enum pith_status pith_trie_build(struct pith_trie *t, struct pith_trie_key *key, size_t count,
                                 struct pith_error *err)
{
    if (count == 0) return PITH_OK;
    qsort(key, count, sizeof *key, by_text);
    const uint32_t nodes = count < UINT32_MAX ? count_nodes(key, count) : 0;
    if (nodes == 0)
        return pith_fail(err, PITH_FORMAT, "the vocabulary has a token twice, or too much text");
    struct range *range = pith_alloc(nodes, sizeof *range);
    if (!range || !reserve_trie(t, nodes)) {
        pith_free(range);
        return pith_fail_nomem(err, "vocabulary");
    }
    t->nodes = nodes;
    t->byte[0] = 0;
    range[0] = (struct range){0, (uint32_t)count};
    fill_trie(t, key, range);
    pith_free(range);
    return PITH_OK;
}

void pith_trie_free(struct pith_trie *t)
{
    pith_free(t->first);
    pith_free(t->value);
    pith_free(t->byte);
    *t = (struct pith_trie){0};
}
