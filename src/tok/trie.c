#include "tok/trie.h"

#include "base/mem.h"

/* A new node, 0 when memory is out. */
static uint32_t new_node(struct pith_trie *t, unsigned char byte)
{
    if (t->count + 1 >= t->cap) {
        if (t->cap >= UINT32_MAX / 2) return 0;
        const size_t cap = t->cap ? t->cap * 2 : 256;
        struct pith_trie_node *node = pith_realloc(t->node, cap, sizeof *node);
        if (!node) return 0;
        t->node = node;
        t->cap = cap;
    }
    const uint32_t i = (uint32_t)++t->count;
    t->node[i] = (struct pith_trie_node){.value = -1, .byte = byte};
    return i;
}

bool pith_trie_add(struct pith_trie *t, const char *text, size_t len, int32_t value)
{
    uint32_t at = t->root[(unsigned char)text[0]];
    if (!at) at = t->root[(unsigned char)text[0]] = new_node(t, (unsigned char)text[0]);
    if (!at) return false;
    for (size_t i = 1; i < len; i++) {
        const unsigned char byte = (unsigned char)text[i];
        uint32_t next = t->node[at].child;
        while (next && t->node[next].byte != byte) next = t->node[next].sibling;
        if (!next) {
            next = new_node(t, byte);
            if (!next) return false;
            t->node[next].sibling = t->node[at].child;
            t->node[at].child = next;
        }
        at = next;
    }
    if (t->node[at].value < 0) t->node[at].value = value;
    return true;
}

size_t pith_trie_longest(const struct pith_trie *t, const char *text, size_t len, int32_t *value)
{
    if (len == 0) return 0;
    size_t best = 0;
    uint32_t at = t->root[(unsigned char)text[0]];
    for (size_t i = 1; at; i++) {
        if (t->node[at].value >= 0) {
            best = i;
            *value = t->node[at].value;
        }
        if (i == len) break;
        const unsigned char byte = (unsigned char)text[i];
        at = t->node[at].child;
        while (at && t->node[at].byte != byte) at = t->node[at].sibling;
    }
    return best;
}

void pith_trie_free(struct pith_trie *t)
{
    pith_free(t->node);
    *t = (struct pith_trie){0};
}
