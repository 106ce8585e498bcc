/* traffic/sse.h: a stream of server-sent events taken apart, however its bytes are cut.
 *
 * As the HTML standard has it: lines end in LF, CR or CR LF; "data" lines of an event are joined by
 * LF; comments and unknown fields are skipped; an empty line ends an event. Beyond it, what
 * servers really send: a field "error" (an older llama-server) is data of an event of that name,
 * and an event that the stream's end cuts off counts. */
#ifndef PITH_TRAFFIC_SSE_H
#define PITH_TRAFFIC_SSE_H

#include "base/str.h"

/* Bytes of one event, at most; no server that is well sends more. */
enum { PITH_SSE_MOST = 4 << 20 };

/* What an event carries; borrowed during the call. */
struct pith_sse_event {
    const char *data; /* [size], a NUL behind it */
    size_t size;
    bool error; /* it is named "error" */
};
/* A failure stops the reading and is handed on. */
typedef enum pith_status pith_sse_take(void *ctx, const struct pith_sse_event *event,
                                       struct pith_error *err);

/* Start with {.take = ..., .ctx = ...}. */
struct pith_sse {
    pith_sse_take *take;
    void *ctx;
    struct pith_str line, data;
    bool begun;    /* behind a byte order mark, if there was one */
    bool after_cr; /* an LF that follows belongs to the line's end */
    bool has_data, error;
};

/* The next bytes of the stream. PITH_FORMAT: an event is longer than PITH_SSE_MOST; PITH_NOMEM;
 * what `take` failed with. */
enum pith_status pith_sse_push(struct pith_sse *s, const char *bytes, size_t size,
                               struct pith_error *err);
/* The stream has ended: what lies there unfinished is an event too. */
enum pith_status pith_sse_end(struct pith_sse *s, struct pith_error *err);
/* Ready for another stream, with the same memory. */
void pith_sse_reset(struct pith_sse *s);
void pith_sse_free(struct pith_sse *s); /* all its memory */

#endif
