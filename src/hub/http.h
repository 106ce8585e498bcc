/* hub/http.h: GET requests, several at a time, from one thread: redirects, ranges, the token.
 *
 * Addresses are http or https, and https only once the endpoint or a redirect was; certificates are
 * checked; at most PITH_HTTP_HOPS redirects are followed. The token goes to the scheme, host and
 * port of the endpoint and nowhere else, wherever a redirect leads. */
#ifndef PITH_HUB_HTTP_H
#define PITH_HUB_HTTP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PITH_HTTP_HOPS = 10 };

struct pith_http;

/* endpoint: the hub's address without a slash at its end; token may be NULL; both are copied. The
 * caller pith_http_free()s *out. PITH_FORMAT for an address or a token that is none (both come from
 * the environment), PITH_UNSUPPORTED without libcurl. */
enum pith_status pith_http_new(const char *endpoint, const char *token, struct pith_http **out,
                               struct pith_error *err);
void pith_http_free(struct pith_http *http);
bool pith_http_has_token(const struct pith_http *http);

/* How a request ended. */
enum pith_http_end {
    PITH_HTTP_DONE,    /* 2xx, and the body was taken whole */
    PITH_HTTP_REFUSED, /* another status: see it */
    PITH_HTTP_NOBODY,  /* nobody could be reached at that address */
    PITH_HTTP_CUT,     /* the network, or the server too soon: may be tried again */
    PITH_HTTP_WHOLE,   /* a range was requested, and the whole file came: nothing was taken */
    PITH_HTTP_WRONG,   /* what no good server does; trying again is of no use */
    PITH_HTTP_TAKER    /* `take` failed: its message is in `err` */
};

/* Receives a piece of the body, in order. */
typedef enum pith_status pith_http_take(void *ctx, const void *data, size_t size,
                                        struct pith_error *err);

/* A request. The request is set by the caller and borrowed until `over`; the answer is whole
 * then. */
struct pith_http_call {
    const char *url;
    bool ranged; /* bytes from..to of a file of `total` bytes, `to` not included; else all */
    uint64_t from, to, total;
    pith_http_take *take;
    void *ctx;

    bool over;
    enum pith_http_end end;
    long status;
    double retry_after;   /* seconds; below 0 when the server does not say */
    char code[64];        /* X-Error-Code */
    char message[200];    /* X-Error-Message, or what went wrong */
    char linked_etag[80]; /* X-Linked-Etag, without its quotes */
    char next[4096];      /* Link: rel="next" */
    struct pith_error err;

    /* Its own. */
    struct pith_http *http;
    void *easy, *headers;
    unsigned hops;
    bool begun, secure, has_range;
    uint64_t range_from, range_total;
};

/* Begins. PITH_NOMEM. A call that was started is waited for or stopped. */
enum pith_status pith_http_start(struct pith_http *http, struct pith_http_call *call,
                                 struct pith_error *err);
/* Moves all calls on, waiting for something to happen for up to `ms` milliseconds. */
enum pith_status pith_http_wait(struct pith_http *http, int ms, struct pith_error *err);
/* Ends a call at once; one that is over, or was never started, is fine. */
void pith_http_stop(struct pith_http_call *call);

/* Appends text as a part of a path; '/' stays unless `slashes` is false. */
struct pith_str;
void pith_http_quote(struct pith_str *out, const char *text, bool slashes);

#endif
