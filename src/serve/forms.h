/* serve/forms.h: compiled constraints, cached for requests for the same again: what states
 * allow is then known already. */
#ifndef PITH_SERVE_FORMS_H
#define PITH_SERVE_FORMS_H

#include "serve/grammar/grammar.h"

#include <pthread.h>

enum { PITH_FORMS_CACHED = 16 };

struct pith_form {
    struct pith_forms *forms; /* that it belongs to */
    struct pith_grammar *grammar;
    enum pith_constraint kind;
    char *text;   /* owned; NULL: none */
    size_t users; /* under the lock of forms, as is what follows */
    uint64_t used;
    bool cached;
};
struct pith_forms {
    const struct pith_tokenizer *tokenizer; /* borrowed, as are the ends */
    const struct pith_ids *ends;
    size_t vocab;
    pthread_mutex_t lock;
    struct pith_vocab_bytes *bytes; /* made when the first constraint comes */
    struct pith_form *cached[PITH_FORMS_CACHED];
    uint64_t clock;
};
void pith_forms_init(struct pith_forms *f, const struct pith_tokenizer *t,
                     const struct pith_ids *ends, size_t vocab);
/* All forms have been given back. */
void pith_forms_free(struct pith_forms *f);

/* The form of a constraint, from any thread; its matchers are for one thread, the same for all
 * forms. Statuses as of pith_vocab_bytes_open() and pith_grammar_open(). */
enum pith_status pith_forms_take(struct pith_forms *f, enum pith_constraint kind, const char *text,
                                 struct pith_form **out, struct pith_error *err);
/* From that one thread, or where none uses it; NULL is allowed. */
void pith_form_give(struct pith_form *form);

#endif
