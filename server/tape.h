/* server/tape.h: what the service reported of a request, stored until it is sent.
 *
 * Events come in the service's thread, which must not wait, and are sent in others. */
#ifndef PITH_SERVER_TAPE_H
#define PITH_SERVER_TAPE_H

#include <pith/engine.h>

#include <stdbool.h>

/* A copy of an event; all that it points to lies behind it. `error` is not copied. */
struct tape_note {
    struct tape_note *next;
    size_t bytes;  /* that it takes */
    uint32_t part; /* of the request that it belongs to: a prompt of several */
    struct pith_event event;
};

struct tape {
    struct tape_note *first, *last;
    size_t bytes;
};

/* Copies an event to the end of the tape; false when memory is out. */
bool tape_record(struct tape *tape, uint32_t part, const struct pith_event *event);
/* Takes the first note off, for free(); NULL when there is none. */
struct tape_note *tape_take(struct tape *tape);
/* Frees all notes. */
void tape_free(struct tape *tape);

#endif
