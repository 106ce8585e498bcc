/* tok/jinja/print.h: values as text: as templates print them (Python's str and repr), as JSON. */
#ifndef PITH_TOK_JINJA_PRINT_H
#define PITH_TOK_JINJA_PRINT_H

#include "tok/jinja/value.h"

/* Appends str(v). */
void pith_jprint(struct pith_jbuf *b, struct pith_jv v);
/* Appends repr(v). */
void pith_jrepr(struct pith_jbuf *b, struct pith_jv v);
/* str(v) as a string. */
struct pith_jv pith_jstring(struct pith_jrun *r, struct pith_jv v);

/* How json.dumps() writes. */
struct pith_jjson {
    bool ascii, sorted;
    const struct pith_jstr *indent; /* of a level; NULL: all in one line */
    const struct pith_jstr *comma, *colon;
};
/* Appends json.dumps(v). */
void pith_jdumps(struct pith_jbuf *b, struct pith_jv v, const struct pith_jjson *how);

#endif
