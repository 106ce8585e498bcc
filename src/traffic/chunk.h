/* traffic/chunk.h: what one event of a streamed completion says, whichever server wrote it. */
#ifndef PITH_TRAFFIC_CHUNK_H
#define PITH_TRAFFIC_CHUNK_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the usage of an answer counts; -1: it does not say. */
struct pith_used {
    int64_t prompt, answer, cached;
};

struct pith_chunk {
    bool done;  /* "[DONE]" */
    bool token; /* some of the answer: text, a thought or a call; or an empty text in the place of
                   one, as servers send for a token whose text is not yet whole */
    bool text;  /* and it is not empty */
    bool finished; /* a choice has its finish_reason */
    struct pith_used used;
    char error[200]; /* the message of an error object; "" for none */
};

/* Reads an event's data, [size] with a NUL behind it. PITH_FORMAT: it is no JSON object. Members of
 * unexpected kinds are passed over: what is measured is the server, not its manners. */
enum pith_status pith_chunk_read(const char *data, size_t size, struct pith_chunk *out,
                                 struct pith_error *err);

/* The same for a whole answer: its usage and an error's message. */
enum pith_status pith_answer_read(const char *data, size_t size, struct pith_chunk *out,
                                  struct pith_error *err);

#endif
