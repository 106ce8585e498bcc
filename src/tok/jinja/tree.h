/* tok/jinja/tree.h: a template as a tree. */
#ifndef PITH_TOK_JINJA_TREE_H
#define PITH_TOK_JINJA_TREE_H

#include "tok/jinja/lexer.h"

enum pith_jnode_type {
    /* expressions */
    PITH_JN_CONST,  /* value */
    PITH_JN_NAME,   /* name */
    PITH_JN_NSREF,  /* name, and the member's in value: a target only */
    PITH_JN_LIST,   /* a: chain */
    PITH_JN_TUPLE,  /* a: chain */
    PITH_JN_DICT,   /* a: chain of key, value, key, value */
    PITH_JN_ATTR,   /* a, name */
    PITH_JN_ITEM,   /* a, b */
    PITH_JN_SLICE,  /* a, b, c: each may be NULL; as the b of ITEM */
    PITH_JN_CALL,   /* a; b: chain of arguments */
    PITH_JN_FILTER, /* a (NULL: what is put in), name; b: chain of arguments */
    PITH_JN_TEST,   /* a, name; b: chain of arguments */
    PITH_JN_NEG,
    PITH_JN_POS,
    PITH_JN_NOT,
    PITH_JN_BINARY,  /* op, a, b */
    PITH_JN_COMPARE, /* a; b: chain of OPERAND */
    PITH_JN_OPERAND, /* op, a */
    PITH_JN_AND,
    PITH_JN_OR,
    PITH_JN_CHOICE, /* b if a else c (NULL: undefined) */
    PITH_JN_CONCAT, /* a: chain */
    /* arguments */
    PITH_JN_ARG,
    PITH_JN_NAMED, /* name, a */
    PITH_JN_STAR,
    PITH_JN_STARS,
    PITH_JN_PARAM, /* name; a: its default, or NULL */
    /* statements */
    PITH_JN_TEXT,         /* value */
    PITH_JN_PRINT,        /* a */
    PITH_JN_FOR,          /* a: targets, b: what of, c: condition, d: body, e: else */
    PITH_JN_IF,           /* a: condition, b: body; c: the IF of an elif, or d: else */
    PITH_JN_SET,          /* a: target, b */
    PITH_JN_SET_BLOCK,    /* a: target, b: filters, c: body */
    PITH_JN_MACRO,        /* name, a: chain of PARAM, b: body */
    PITH_JN_CALL_BLOCK,   /* a: chain of PARAM, b: CALL, c: body */
    PITH_JN_FILTER_BLOCK, /* a: filters, b: body */
    PITH_JN_WITH,         /* a: chain of SET, b: body */
    PITH_JN_SCOPED,       /* b: body ({% generation %}) */
    PITH_JN_BREAK,
    PITH_JN_CONTINUE
};

/* Operators that are words. */
enum { PITH_JOP_IN = 1 << 16, PITH_JOP_NOT_IN };

struct pith_jnode {
    enum pith_jnode_type type;
    int op, line;
    unsigned height; /* of expressions: below it */
    const struct pith_jstr *name;
    struct pith_jv value;
    struct pith_jnode *a, *b, *c, *d, *e;
    struct pith_jnode *next; /* in its chain */
};

/* Where the parser stands. */
struct pith_jparser {
    struct pith_jrun *r; /* its pool keeps the tree */
    const struct pith_jtoken *token;
    size_t at;
    unsigned loops; /* around the place */
};

/* The tree of a template: a chain of statements in r's pool, NULL when it is empty or r failed. */
struct pith_jnode *pith_jparse(struct pith_jrun *r, const char *text, size_t size);

/* --- shared by the parser's two files */

/* The token at the place, and a step on. */
static inline const struct pith_jtoken *pith_jpeek(const struct pith_jparser *p)
{
    return &p->token[p->at];
}
/* Whether an operator (a word) stands there; the second steps over it. */
bool pith_jat(const struct pith_jparser *p, int op);
bool pith_jtake_op(struct pith_jparser *p, int op);
bool pith_jat_word(const struct pith_jparser *p, const char *word);
bool pith_jtake_word(struct pith_jparser *p, const char *word);
/* A failure unless it stands there. */
void pith_jexpect(struct pith_jparser *p, int op);
/* A name, NULL and a failure when none stands there. */
const struct pith_jstr *pith_jname(struct pith_jparser *p);
/* "unexpected ..." of what stands there. */
void pith_junexpected(struct pith_jparser *p);
/* A node of the line at the place; NULL after a failure. */
struct pith_jnode *pith_jnew(struct pith_jparser *p, enum pith_jnode_type type);
/* Steps over a token. */
void pith_jnext(struct pith_jparser *p);
/* An expression; `choice`: "a if b else c" too. */
struct pith_jnode *pith_jexpression(struct pith_jparser *p, bool choice);
/* An expression or several with commas between them, which are a tuple. */
struct pith_jnode *pith_jtuple(struct pith_jparser *p, bool choice, bool bracketed);
/* What is assigned to: names, members of namespaces (`members`), several of them. */
struct pith_jnode *pith_jtarget(struct pith_jparser *p, bool members);
/* Filters behind a node (NULL: of a block), `first`: the first one has no '|' before it. */
struct pith_jnode *pith_jfilters(struct pith_jparser *p, struct pith_jnode *of, bool first);
/* "(a, b=1)" of a macro: a chain of PARAM. */
struct pith_jnode *pith_jparams(struct pith_jparser *p);

#endif
