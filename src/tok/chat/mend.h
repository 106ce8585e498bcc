/* tok/chat/mend.h: a conversation as a template can take it: what it would leave out is written in
 * another way, and what it fails on is changed step by step, a row of a table each. */
#ifndef PITH_TOK_CHAT_MEND_H
#define PITH_TOK_CHAT_MEND_H

#include "tok/chat/traits.h"

/* given: what a template is rendered with, whose "messages" are separate objects; changed in place.
 */
struct pith_chat_mend {
    json_t *given;
    const struct pith_chat_traits *traits;
    int64_t now;
    bool changed;
    bool failed; /* memory is out */
};

/* What holds without a failure: roles, and what the template would leave out. */
void pith_chat_fit(struct pith_chat_mend *m);
/* Step i of those for a template that failed; false: there is none. `changed` says whether there
 * was something to change. */
bool pith_chat_mend(struct pith_chat_mend *m, size_t i);

#endif
