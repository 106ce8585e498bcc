/* traffic/wire.h: many HTTP requests to one server at once, from one thread.
 *
 * HTTP/1.1, connections stay open and are used again, no proxy, no redirects, certificates are
 * checked. The key goes to that server only. */
#ifndef PITH_TRAFFIC_WIRE_H
#define PITH_TRAFFIC_WIRE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct pith_wire;

struct pith_wire_options {
    const char *url;     /* "http://host:port", perhaps with a path, perhaps ending in /v1 */
    const char *key;     /* sent as a bearer's; NULL: none */
    const char *ca_file; /* certificates (PEM) to trust; NULL: the system's */
    double timeout;      /* seconds that a request may take in all */
};

/* Connects to nothing yet. The caller pith_wire_close()s *out. PITH_ARG: an address or a key that
 * is none; PITH_UNSUPPORTED without libcurl. */
enum pith_status pith_wire_open(const struct pith_wire_options *options, struct pith_wire **out,
                                struct pith_error *err);
void pith_wire_close(struct pith_wire *wire); /* all calls have been closed */

enum pith_call_end {
    PITH_CALL_DONE,      /* an answer came, whole as far as HTTP knows; of any status */
    PITH_CALL_NOBODY,    /* nobody could be reached there */
    PITH_CALL_CUT,       /* the connection broke, or what came was no HTTP */
    PITH_CALL_LATE,      /* the time was out */
    PITH_CALL_UNTRUSTED, /* its certificate is not trusted */
    PITH_CALL_REFUSED    /* `take` wanted no more */
};

struct pith_call;
/* A piece of the body, in order; status and stream are known. False stops the call. */
typedef bool pith_call_take(struct pith_call *call, const char *data, size_t size);

/* A request, and the handle that makes one after the other. The request is set by the caller and
 * borrowed until `over`. */
struct pith_call {
    const char *path; /* behind the server's /v1: "/completions"; "//tokenize": at its root */
    const char *body; /* JSON to POST; NULL: GET */
    size_t size;
    pith_call_take *take;
    void *ctx;

    bool over;
    enum pith_call_end end;
    long status;        /* 0: none came */
    bool stream;        /* the answer is text/event-stream */
    double retry_after; /* seconds; below 0 when the server does not say */
    char message[200];  /* what went wrong, for REFUSED nothing */

    /* Its own. */
    struct pith_wire *wire;
    void *easy;
    bool added;
};

/* Sets out. PITH_NOMEM. */
enum pith_status pith_call_start(struct pith_wire *wire, struct pith_call *call,
                                 struct pith_error *err);
/* Ends a call at once and gives its handle back; one never started is fine. */
void pith_call_close(struct pith_call *call);
/* Moves all calls on: first what can be done at once, then waits up to `ms` milliseconds for
 * something to happen. PITH_NOMEM, PITH_IO. */
enum pith_status pith_wire_move(struct pith_wire *wire, int ms, struct pith_error *err);

#endif
