/* server/server.h: OpenAI's API over HTTP, for one service of the library.
 *
 *     open (the port answers 503) -> begin -> requests are served -> drain -> stop -> free
 *
 * The service is the caller's: it must outlive the call of server_stop(), and must be closed before
 * server_free(), since its last events still come then. */
#ifndef PITH_SERVER_SERVER_H
#define PITH_SERVER_SERVER_H

#include <pith/chat.h>
#include <pith/engine.h>

#include <stdbool.h>

struct server;

/* Texts are borrowed until server_free(). */
struct server_settings {
    const char *host;               /* "127.0.0.1" */
    unsigned port;                  /* 0: any free one */
    const char *name;               /* that the model goes by */
    const char *model;              /* the folder or file */
    const char *key_file, *key;     /* who may ask: keys, one a line; or one key. NULL: everybody */
    const char *cors;               /* an origin whose pages may ask, "*" for all; NULL: none */
    struct pith_list allow_hosts;   /* names that requests may be for, besides its addresses */
    const char *tls_cert, *tls_key; /* PEM files; both or none */
    const char *mode, *kv;          /* reported by /props */
    bool log, log_prompts;          /* a line a request on standard error; with its body */
    size_t connections;             /* at once, at most; default 1024 */
    size_t body;                    /* bytes of a request, at most; default 8 MiB */
    size_t body_bytes;              /* bytes of all bodies being read, at most; default 256 MiB */
    size_t unread;                  /* bytes of a stream that wait for its reader; default 4 MiB */
    double patience;                /* seconds without progress of a reader; default 30 */
    size_t prompts;                 /* of one request, at most; default 256 */
    unsigned choices;               /* of one prompt, at most; default 128 */
};
/* Fills in the defaults. */
void server_defaults(struct server_settings *settings);

/* Opens the port, or takes the socket that systemd hands over. From here on requests are answered,
 * with 503 but for those that need no model. PITH_IO: no such address, the port is taken, a file
 * cannot be read; PITH_FORMAT: no key in the file; PITH_UNSUPPORTED: no TLS in the HTTP library. */
enum pith_status server_open(const struct server_settings *settings, struct server **out,
                             struct pith_error *err);
/* "http://127.0.0.1:8080"; borrowed. */
const char *server_address(const struct server *server);
/* Whether others than this machine can reach it and there is no key. */
bool server_is_open(const struct server *server);
/* From here on requests go to that service; answers of chats are split by that format (NULL: all of
 * them is content), which is borrowed until server_free(). */
void server_begin(struct server *server, struct pith_service *service,
                  const struct pith_reply_format *format);
/* Refuses new requests with 503 and waits until the accepted ones have their answers; after `grace`
 * seconds what still runs is cancelled. */
void server_drain(struct server *server, double grace);
/* Closes the port and every connection; nothing calls the service after this. */
void server_stop(struct server *server);
/* Frees *server, which is stopped, and sets it to NULL; NULL and a NULL *server are allowed. */
void server_free(struct server **server);

/* Notifies systemd, where it listens: "READY=1", "STOPPING=1". */
void server_notify(const char *state);

#endif
