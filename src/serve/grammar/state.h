/* serve/grammar/state.h: where a text may be in a network, found as texts get there.
 *
 * A local state is a set of nodes of rules that were called together; a place is a local state with
 * the stack of local states that its calls return to; a state is the set of all places that a text
 * can be at, with whether it may end. All three are numbered as they come, and what a byte does to
 * one is looked up once. */
#ifndef PITH_SERVE_GRAMMAR_STATE_H
#define PITH_SERVE_GRAMMAR_STATE_H

#include "serve/grammar/intern.h"
#include "serve/grammar/net.h"

#define PITH_STATE_NEW 0xffffffffu  /* not looked up yet */
#define PITH_STATE_DEAD 0xfffffffeu /* no text gets there */

struct pith_local_state {
    bool final, bytes, calls;  /* the rule may end; a byte may follow; a call may */
    uint32_t need;             /* the largest of its nodes */
    uint32_t call, call_count; /* in states->call; call PITH_STATE_NEW: not looked up */
};
struct pith_local_call {
    uint32_t start, back; /* local states: of the rule, and where it returns to */
};
struct pith_place {
    uint32_t local, stack;
};

struct pith_states {
    const struct pith_net *net;
    struct pith_interned locals; /* nodes, in order */
    struct pith_local_state *local;
    uint32_t *local_next; /* [locals][classes] */
    size_t local_cap, local_next_cap;
    struct pith_local_call *call;
    size_t calls, call_cap;
    struct pith_interned stacks; /* (back, stack, depth); 0: empty */
    struct pith_interned sets;   /* whether it may end, then places in order */
    uint32_t *next;              /* [sets][classes] */
    size_t next_cap;
    uint32_t *mark, epoch, *found; /* [nodes]: of one closure */
    struct pith_place *place;      /* of one state that is being made */
    size_t places, place_cap;
    bool ended;
    uint64_t work;           /* that was done so far, about one for some nanoseconds */
    enum pith_status failed; /* PITH_OK, PITH_NOMEM, PITH_LIMIT */
};

/* net is borrowed, and finished. */
enum pith_status pith_states_init(struct pith_states *s, const struct pith_net *net,
                                  struct pith_error *err);
void pith_states_free(struct pith_states *s);
size_t pith_states_size(const struct pith_states *s);

/* The state of a text that has not begun, by the rule that it must be. PITH_STATE_DEAD here and
 * below after a failure too, which s->failed shows. */
uint32_t pith_states_start(struct pith_states *s, uint32_t rule);
/* The state of one place, calls and ends not followed; and that to which a stack returns. */
uint32_t pith_states_at(struct pith_states *s, uint32_t local, uint32_t stack);
uint32_t pith_states_back(struct pith_states *s, uint32_t stack);
/* Looks a byte up that is not in the table yet. */
uint32_t pith_states_find(struct pith_states *s, uint32_t state, uint8_t byte);
static inline uint32_t pith_states_next(struct pith_states *s, uint32_t state, uint8_t byte)
{
    const uint32_t to = s->next[(size_t)state * s->net->classes + s->net->class_of[byte]];
    return to == PITH_STATE_NEW ? pith_states_find(s, state, byte) : to;
}

/* Whether a text may end at a state, and its places (two numbers each: local, stack). */
bool pith_states_ended(const struct pith_states *s, uint32_t state);
const uint32_t *pith_states_places(const struct pith_states *s, uint32_t state, size_t *count);
uint32_t pith_states_depth(const struct pith_states *s, uint32_t stack);

/* Whether the tables have grown so far that they should be forgotten; and forgets all states and
 * stacks but keep[0..n), which get new numbers. */
bool pith_states_full(const struct pith_states *s);
void pith_states_forget(struct pith_states *s, uint32_t **keep, size_t n);

#endif
