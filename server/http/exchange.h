/* server/http/exchange.h: one request of HTTP and its answer, while they last.
 *
 * The thread of the connections calls MHD; workers make answers; the service's thread reports
 * events. They meet under the exchange's lock, beneath which nothing of the service is called. */
#ifndef PITH_SERVER_EXCHANGE_H
#define PITH_SERVER_EXCHANGE_H

#include "server/ask.h"
#include "server/fields.h"
#include "server/http/keys.h"
#include "server/metrics.h"
#include "server/http/page.h"
#include "server/refusal.h"
#include "server/server.h"
#include "server/tape.h"
#include "server/http/workers.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct exchange;
struct completion;
struct pith_reply_format;

enum route_flag {
    ROUTE_OPEN = 1,  /* needs no key */
    ROUTE_EARLY = 2, /* answers while no model is there, or while it drains */
    ROUTE_SLOW = 4,  /* may wait for the model's steps */
    ROUTE_MORE = 8   /* the path goes on: exchange's `rest` */
};
struct http_route {
    const char *method, *path;
    /* Answers, or begins what will. Those with a body run in a worker, others in the connections'
     * thread and must not wait. */
    void (*handle)(struct exchange *e);
    unsigned flags; /* of enum route_flag */
};

enum server_phase { SERVER_LOADING, SERVER_READY, SERVER_DRAINING, SERVER_ENDING };

struct server {
    struct server_settings settings;
    int listen; /* until MHD has it */
    char address[160];
    bool reachable; /* by others than this machine */
    struct MHD_Daemon *daemon;
    struct keys *keys;
    struct page *page;
    struct metrics *metrics;
    struct workers *workers, *slow;
    char *tls_cert, *tls_key;
    time_t started;
    _Atomic(struct pith_service *) service; /* NULL while it loads */
    const struct pith_reply_format *format; /* set before the phase is; NULL: answers are content */
    atomic_int phase;                       /* enum server_phase */
    atomic_size_t body_bytes;               /* bytes of bodies */
    atomic_uint_fast64_t serial;

    pthread_t watcher;
    bool watching;
    int poll; /* epoll: who went away */
    pthread_mutex_t lock;
    struct exchange *exchanges; /* that are not over; under the lock */
    struct link *links;         /* connections; under the lock */
    size_t serving;             /* exchanges whose request was accepted; under the lock */
};

struct exchange {
    struct server *server;
    const struct http_route *route; /* NULL: none such */
    uint64_t serial;
    struct exchange *next, *before; /* of the server's list */
    struct exchange *queued;        /* of a worker's list */
    void (*work)(struct exchange *e);
    char peer[64];
    char name[129];              /* X-Request-Id: the client's own, or made */
    char *rest;                  /* owned: what follows the path of the route, or NULL */
    char method[128], path[128]; /* as requested, as far as they fit */
    const char *methods;         /* that the path is there for; NULL: not known */
    uint64_t client;             /* for fairness: the client */
    bool head;                   /* HEAD: no body is sent */
    double began;                /* seconds of the monotonic clock */

    struct buffer body; /* of the request */
    bool serving;       /* counted by the server */

    pthread_mutex_t lock; /* of all that follows */
    unsigned references;
    struct MHD_Connection *connection; /* NULL once it is over */
    int socket;
    bool whole; /* the request is there */
    bool suspended, answered, streaming, gone, sent;
    unsigned status;
    const char *type; /* of the answer */
    char *text;       /* owned */
    size_t size;
    char retry[12];                /* seconds, for Retry-After; "" */
    char csp[512];                 /* Content-Security-Policy; "" */
    double progressed;             /* when a stream's reader last took something */
    struct completion *completion; /* owned */
    json_t *ignored;               /* owned: fields of the request that nobody knows, or NULL */
};

/* Notes fields that had no effect, for the log; takes the list, which may be NULL. */
void exchange_ignore(struct exchange *e, json_t *names);
/* The request's body as JSON, its fields and its model's name checked; for json_decref(). NULL: *r
 * says why. */
json_t *exchange_body(struct exchange *e, enum field_route route, struct refusal *r);
/* Sets the answer, once; the text is freed with the exchange. */
void exchange_answer(struct exchange *e, unsigned status, const char *type, struct buffer *text);
/* The same as JSON; takes the value, of which NULL means that memory is out. */
void exchange_json(struct exchange *e, unsigned status, json_t *value);
void exchange_refuse(struct exchange *e, const struct refusal *r);
/* The answer comes piece by piece from the exchange's generation. */
void exchange_stream(struct exchange *e);
/* Lets the connection go on, if it waits; its reader's patience begins anew, since until now there
 * was nothing to take. Under the lock. */
void exchange_wake(struct exchange *e);
/* References keep an exchange; the last one that is dropped frees it. */
void exchange_hold(struct exchange *e);
void exchange_drop(struct exchange *e);
/* Nobody waits for the answer any more: what was begun for it is cancelled. */
void exchange_abandon(struct exchange *e);

/* Seconds of the monotonic clock. */
double server_clock(void);

/* server/http/request.c: what MHD calls. */
enum MHD_Result http_request(void *server, struct MHD_Connection *connection, const char *url,
                             const char *method, const char *version, const char *upload,
                             size_t *upload_size, void **state);
void http_completed(void *server, struct MHD_Connection *connection, void **state,
                    enum MHD_RequestTerminationCode code);
void http_connection(void *server, struct MHD_Connection *connection, void **state,
                     enum MHD_ConnectionNotificationCode code);

/* server/http/watch.c: a thread that hears of clients that went away, and ends those that stall. */
bool watch_start(struct server *server);
void watch_stop(struct server *server);
/* Hears of the exchange's client from here on. */
void watch_exchange(struct exchange *e);
/* The connection waits for its next request. */
void watch_idle(struct server *server, struct MHD_Connection *connection);

/* server/log.c: the line of an exchange that is over. */
void log_exchange(struct exchange *e);

#endif
