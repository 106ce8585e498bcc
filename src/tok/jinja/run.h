/* tok/jinja/run.h: running a template's tree. */
#ifndef PITH_TOK_JINJA_RUN_H
#define PITH_TOK_JINJA_RUN_H

#include "tok/jinja/tree.h"

/* Arguments of a call. */
struct pith_jargs {
    const struct pith_jv *pos;
    size_t count;
    const struct pith_jdict *named; /* NULL: none */
};

/* A filter (self is what it is put on), a test (the same, gives a bool), a method, or a global
 * function (self is missing). Arguments are those of its row's `params`, in that order, missing
 * ones of kind MISSING; of a row with "*" as they were given. */
typedef struct pith_jv pith_jfn(struct pith_jrun *r, struct pith_jv self,
                                const struct pith_jargs *a);
struct pith_jrow {
    const char *name;
    pith_jfn *fn;
    const char *params; /* "a,b", "*", or "" */
    size_t needed;      /* how many of them must be given */
};

/* The row of that name, NULL when there is none. */
const struct pith_jrow *pith_jfilter_row(const struct pith_jstr *name);
const struct pith_jrow *pith_jtest_row(const struct pith_jstr *name);
const struct pith_jrow *pith_jmethod_row(struct pith_jv of, const struct pith_jstr *name);
const struct pith_jrow *pith_jglobal_row(const struct pith_jstr *name);

/* What a row's function gives for those arguments. */
struct pith_jv pith_japply(struct pith_jrun *r, const struct pith_jrow *row, struct pith_jv self,
                           const struct pith_jargs *a);
/* A filter or test by name; a failure when there is none. */
struct pith_jv pith_jfilter(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv of,
                            const struct pith_jargs *a);
bool pith_jtest(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv of,
                const struct pith_jargs *a);

struct pith_jcallable {
    const struct pith_jrow *row;
    struct pith_jv self;
};
struct pith_jmacro {
    const struct pith_jstr *name;
    const struct pith_jnode *params, *body;
    struct pith_jscope *scope; /* where it was defined */
    bool rest, named;          /* it takes more arguments than it names */
};
struct pith_jloop {
    const struct pith_jlist *items;
    size_t index;
    struct pith_jv changed; /* what loop.changed() was last called with */
};

struct pith_jvariable {
    const struct pith_jstr *name;
    struct pith_jv value;
    struct pith_jvariable *next;
};
struct pith_jscope {
    struct pith_jvariable *first;
    struct pith_jscope *around;
};

/* Calls a macro, a method or a function. */
struct pith_jv pith_jcall(struct pith_jrun *r, struct pith_jv callee, const struct pith_jargs *a);
/* An expression's value. */
struct pith_jv pith_jeval(struct pith_jrun *r, const struct pith_jnode *n);
/* Runs a chain of statements, which print to r->out. */
void pith_jexec(struct pith_jrun *r, const struct pith_jnode *n);
/* Sets a variable of the innermost scope. */
void pith_jset(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv value);
/* A call's or filter's arguments, evaluated. */
bool pith_jarguments(struct pith_jrun *r, const struct pith_jnode *chain, struct pith_jargs *out);
/* Filters of a block put on a text, the outermost node given. */
struct pith_jv pith_jfiltered(struct pith_jrun *r, const struct pith_jnode *n, struct pith_jv text);
/* What two values come to by an operator. */
struct pith_jv pith_jbinary(struct pith_jrun *r, int op, struct pith_jv a, struct pith_jv b);
/* A failure that says how an undefined value came to be, or NULL's words for it. */
struct pith_jv pith_jmisused(struct pith_jrun *r, struct pith_jv v);
/* The whole number that an argument is, `missing` when it is none; a failure for other kinds. */
int64_t pith_jcount(struct pith_jrun *r, struct pith_jv v, int64_t missing);
/* The text that an argument is; NULL when it is missing or None; a failure for other kinds. */
const struct pith_jstr *pith_jtext_of(struct pith_jrun *r, struct pith_jv v);
/* obj.a.b, of an attribute that filters are given by a name with dots or a number. */
struct pith_jv pith_jpath(struct pith_jrun *r, struct pith_jv obj, struct pith_jv path);

#endif
