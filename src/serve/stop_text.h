/* serve/stop_text.h: an answer's text as it comes, delayed where it may become a stop text. */
#ifndef PITH_SERVE_STOP_TEXT_H
#define PITH_SERVE_STOP_TEXT_H

#include "base/str.h"

#include <stdint.h>

/* Texts that end an answer. */
struct pith_stops {
    const char *const *text; /* [count], none of them empty */
    const size_t *size;      /* [count] */
    size_t count;
};
/* Start with {0}. */
struct pith_tail {
    struct pith_str pending; /* not yet sent */
};
void pith_tail_free(struct pith_tail *t);

/* Puts more text at the end, and moves what is certain to `out`. Returns which text it was that
 * ended the answer (the first in the text, of those that begin there the first of the list), or -1:
 * what came before it is then in out, with it where `keep` is set, and what came after is lost.
 * Memory that is out is remembered in out->failed. */
int pith_tail_push(struct pith_tail *t, const struct pith_stops *stops, bool keep, const char *text,
                   size_t size, struct pith_str *out);
/* What was delayed, at the end of an answer. */
void pith_tail_end(struct pith_tail *t, struct pith_str *out);

#endif
