/* server/completion.h: the answers to one completion or chat: requests to the service, its events,
 * and the text that becomes of it. */
#ifndef PITH_SERVER_COMPLETION_H
#define PITH_SERVER_COMPLETION_H

#include "server/http/exchange.h"

#include <pith/chat.h>

/* One prompt of a request. */
struct completion_part {
    struct completion *completion;
    uint32_t index;
    uint64_t id; /* of the service, once it is accepted */
    bool accepted, over;
    struct pith_usage usage;
    struct pith_usage so_far; /* of what was written: the connections' thread alone */
};

/* One answer, as it grows. */
struct answer_choice {
    struct completion *completion;
    size_t at; /* its index */
    bool ended;
    struct pith_reply *reply; /* of a chat: splits its text; NULL: all of it is content */
    size_t echoed;            /* characters of the prompt that stand in its text */
    size_t written;           /* characters of its text so far, of a completion */
    double last;              /* when its last tokens came: the service's thread alone */
    char finish[16];
    struct buffer text, reasoning; /* of an answer that is sent as a whole */
    json_t *calls;
    json_t *logprobs; /* of it, or those that no chunk has sent yet */
};

struct completion {
    struct exchange *exchange; /* which owns it */
    struct ask ask;
    char id[48];
    time_t created;
    struct answer_choice *choice; /* [parts * n] */
    size_t choices;

    /* Under the exchange's lock. */
    struct completion_part *part;
    size_t parts, live; /* parts whose last event has not come */
    bool cancelled;
    bool submitted; /* all that will be */
    struct tape tape;
    struct refusal failure;  /* status 0: none */
    struct pith_usage usage; /* of the parts that are over */

    /* Of a stream, in the connections' thread alone. */
    struct buffer out;
    size_t taken;
    bool opened, closed;
};

/* Cancels what still runs; not under a lock. */
void completion_cancel(struct completion *g);
/* Frees what it holds and itself; NULL is allowed. */
void completion_free(struct completion *g);
/* The next bytes of a stream, as MHD's content reader: exchange is its closure. */
ssize_t completion_read(void *exchange, uint64_t position, char *to, size_t room);

/* server/reply.c: what is written. Open, in a worker, makes what splits the answers of a chat
 * (false: *r says why not); begin writes the first chunks of a stream. A note is added to its
 * choice (and its text to what goes out, in a stream); close writes the rest. */
bool reply_open(struct completion *g, struct refusal *r);
void reply_begin(struct completion *g);
void reply_note(struct completion *g, const struct tape_note *n);
void reply_close(struct completion *g, const struct refusal *failure);
/* The whole answer as JSON; NULL when memory is out. */
json_t *reply_whole(struct completion *g);

#endif
