/* serve/grammar/vocab.h: the bytes of a vocabulary as a tree, in the order of a walk through it. */
#ifndef PITH_SERVE_GRAMMAR_VOCAB_H
#define PITH_SERVE_GRAMMAR_VOCAB_H

#include "serve/grammar/grammar.h"

/* Tokens of more bytes are never allowed. */
enum { PITH_TOKEN_BYTES = 1024 };

/* A prefix of a token. The nodes below node i are those behind it up to `skip`, where the walk goes
 * on without them. */
struct pith_vocab_node {
    uint32_t skip;
    uint32_t first; /* its tokens are ids[first] .. before the next node's first */
    uint16_t depth; /* 1: one byte */
    uint8_t byte;   /* the last of the prefix */
};

struct pith_vocab_bytes {
    size_t vocab, words;          /* words of a mask */
    uint64_t *ends;               /* [words] */
    char *text;                   /* token id is text[at[id]] .. text[at[id + 1]] */
    uint32_t *at;                 /* [vocab + 1] */
    struct pith_vocab_node *node; /* [nodes + 1]: the last one only ends the tokens */
    uint32_t nodes;
    int32_t *ids;
    size_t longest;   /* bytes of the longest token in the tree */
    bool single[256]; /* there is a token of this byte alone */
};

#endif
