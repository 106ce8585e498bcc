/* serve/ticket.h: an accepted request, its answers, and what is reported of them. */
#ifndef PITH_SERVE_TICKET_H
#define PITH_SERVE_TICKET_H

#include "base/rng.h"
#include "serve/forms.h"
#include "serve/next_token.h"
#include "serve/stop_text.h"
#include "tok/tokenizer.h"

#include <pith/engine.h>

/* Tokens that are to be reported, with their alternatives. Start with {0}. */
struct pith_tokens {
    struct pith_event_token *token; /* [count]; `top` is set when they are sent */
    size_t *offset;                 /* [count]: where each begins, in characters */
    struct pith_alternative *top;   /* [tops], of all tokens one after the other */
    size_t count, room, offset_room, tops, top_room;
};
enum pith_status pith_tokens_add(struct pith_tokens *t, const struct pith_chosen *c, size_t offset,
                                 struct pith_error *err);

enum pith_completion_state {
    PITH_ANSWER_WAITS,  /* for a sequence */
    PITH_ANSWER_RUNS,   /* has one */
    PITH_ANSWER_IS_OVER /* has a finish */
};

#define PITH_NO_SEQUENCE UINT32_MAX

struct pith_ticket;
/* One choice. ids are the prompt and the answer so far; those before `read` have been through the
 * model, whether for the first time or again after the sequence was taken away. */
struct pith_completion {
    struct pith_ticket *ticket;
    uint32_t number; /* of the ticket's choices */
    enum pith_completion_state state;
    uint32_t sequence;
    struct pith_ids ids;
    size_t read;
    size_t generated;
    struct pith_rng rng;
    struct pith_counts counts;            /* where penalties are wanted */
    struct pith_grammar_matcher *matcher; /* with a constraint, from its first token on */
    struct pith_stream stream;
    struct pith_tail tail;
    struct pith_str piece, text; /* what a token gave; what is to be sent */
    struct pith_tokens tokens;   /* to be sent */
    size_t characters;           /* of its text so far, with what is delayed */
    double logprobs;             /* sum */
    const char *finish;
    int32_t stop_id;
    int stop; /* which text, or -1 */
};

struct pith_embedding; /* serve/embed.h */

struct pith_ticket {
    struct pith_ticket *next;
    uint64_t id;
    struct pith_request request; /* its pointers are into `memory` */
    void *memory;
    struct pith_stops stops;
    size_t prompt;                    /* tokens */
    size_t limit;                     /* tokens of a whole answer, prompt and all */
    struct pith_form *form;           /* of its constraint, or NULL; given back with the ticket */
    struct pith_embedding *embedding; /* a ticket for one; borrowed */
    struct pith_completion *answer;   /* [answers] */
    uint32_t answers;
    bool cancelled; /* under the scheduler's lock */
    bool scores;    /* the prompt's tokens are scored: it is read whole, for answer 0 */
    bool prompt_sent;
    size_t scored; /* tokens of the prompt that have been */
    struct pith_tokens prompt_tokens;
    double submitted, admitted, first, until; /* clocks; 0: not yet, never */
    struct pith_usage usage;
};

/* Copies a request and the ids of its prompt. PITH_ARG for values out of range. */
enum pith_status pith_ticket_new(const struct pith_request *r, const struct pith_ids *prompt,
                                 size_t vocab, struct pith_ticket **out, struct pith_error *err);
void pith_ticket_free(struct pith_ticket *t);

/* Whether all answers wait for the last to be sent. */
bool pith_ticket_holds(const struct pith_ticket *t);

/* Reports what is there to report of an answer, unless its ticket waits. */
void pith_completion_report(struct pith_completion *a);
/* Reports its end, and the ticket's when it was the last. */
void pith_completion_report_end(struct pith_completion *a);
/* Reports the prompt. */
void pith_ticket_report_prompt(struct pith_ticket *t);
/* All that remains of it ends with a failure. */
void pith_ticket_fail(struct pith_ticket *t, const struct pith_error *error);
bool pith_ticket_is_over(const struct pith_ticket *t);

#endif
