/* The server's life: a port that answers 503, a service behind it, the end. */
#include "server/server.h"

#include "server/http/exchange.h"
#include "server/http/listen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 4, HEADERS = 32 << 10, MOST_FILE = 1 << 20 };

void server_defaults(struct server_settings *s)
{
    *s = (struct server_settings){.host = "127.0.0.1",
                                  .port = 8080,
                                  .connections = 1024,
                                  .body = 8 << 20,
                                  .body_bytes = 256 << 20,
                                  .unread = 4 << 20,
                                  .patience = 30,
                                  .prompts = 256,
                                  .choices = 128};
}

static enum pith_status failed(struct pith_error *err, enum pith_status s, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static enum pith_status failed(struct pith_error *err, enum pith_status s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    err->status = s;
    vsnprintf(err->text, sizeof err->text, format, list);
    va_end(list);
    return s;
}

static enum pith_status read_pem(const char *path, char **out, struct pith_error *err)
{
    FILE *f = fopen(path, "r");
    char *text = f ? malloc(MOST_FILE + 1) : NULL;
    const size_t n = text ? fread(text, 1, MOST_FILE, f) : 0;
    const bool good = text && !ferror(f) && feof(f) && n > 0;
    enum pith_status s = PITH_OK;
    if (!f) s = failed(err, PITH_IO, "%s: %s", path, strerror(errno));
    else if (!good) s = failed(err, PITH_IO, "%s: no PEM file that can be read", path);
    if (f) fclose(f);
    if (s == PITH_OK) text[n] = '\0';
    else free(text);
    *out = s == PITH_OK ? text : NULL;
    return s;
}

static enum pith_status read_tls(struct server *s, struct pith_error *err)
{
    const struct server_settings *t = &s->settings;
    if (!t->tls_cert) return PITH_OK;
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return failed(err, PITH_UNSUPPORTED, "libmicrohttpd was built without TLS here");
    enum pith_status status = read_pem(t->tls_cert, &s->tls_cert, err);
    if (status == PITH_OK) status = read_pem(t->tls_key, &s->tls_key, err);
    return status;
}

/* What MHD has to say, which is of no use to who runs the server: clients break connections. */
static void be_silent(void *server, const char *format, va_list list)
{
    (void)server, (void)format, (void)list;
}

static enum pith_status start(struct server *s, struct pith_error *err)
{
    const struct server_settings *t = &s->settings;
    const unsigned tls = s->tls_cert ? MHD_USE_TLS : 0;
    const struct MHD_OptionItem secure[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->tls_cert},
                                            {MHD_OPTION_HTTPS_MEM_KEY, 0, s->tls_key},
                                            {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    s->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | tls, 0, NULL,
        NULL, http_request, s, MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL,
        MHD_OPTION_LISTEN_SOCKET, s->listen, MHD_OPTION_CONNECTION_LIMIT, (unsigned)t->connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS, MHD_OPTION_NOTIFY_COMPLETED,
        http_completed, s, MHD_OPTION_NOTIFY_CONNECTION, http_connection, s, MHD_OPTION_ARRAY,
        tls ? secure : none, MHD_OPTION_END);
    if (!s->daemon)
        return failed(err, PITH_IO, "the HTTP server does not start%s",
                      tls ? ": certificate or key may be wrong" : "");
    return PITH_OK;
}

static enum pith_status prepare(struct server *s, struct pith_error *err)
{
    const struct server_settings *t = &s->settings;
    char at[128];
    enum pith_status status = keys_read(t->key_file, t->key, &s->keys, err);
    if (status == PITH_OK) status = read_tls(s, err);
    if (status != PITH_OK) return status;
    s->page = page_new();
    s->metrics = metrics_new();
    s->workers = workers_new(THREADS);
    s->slow = workers_new(1);
    if (!s->page || !s->metrics || !s->workers || !s->slow || !watch_start(s))
        return failed(err, PITH_NOMEM, "out of memory or threads for the server");
    status = listen_open(t->host, t->port, &s->listen, err);
    if (status != PITH_OK) return status;
    listen_address(s->listen, at, sizeof at, &s->reachable);
    snprintf(s->address, sizeof s->address, "%s%s",
             strchr(at, ':') ? (s->tls_cert ? "https://" : "http://") : "", at);
    return start(s, err);
}

enum pith_status server_open(const struct server_settings *settings, struct server **out,
                             struct pith_error *err)
{
    struct server *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return failed(err, PITH_NOMEM, "out of memory");
    s->settings = *settings;
    s->listen = s->poll = -1;
    s->started = time(NULL);
    pthread_mutex_init(&s->lock, NULL);
    const enum pith_status status = prepare(s, err);
    if (status != PITH_OK) {
        server_stop(s);
        server_free(&s);
    }
    *out = s;
    return status;
}

const char *server_address(const struct server *server)
{
    return server->address;
}

bool server_is_open(const struct server *server)
{
    return server->reachable && !server->keys;
}

void server_begin(struct server *server, struct pith_service *service,
                  const struct pith_reply_format *format)
{
    server->format = format;
    atomic_store(&server->service, service);
    atomic_store(&server->phase, SERVER_READY);
}

static void wait_a_little(void)
{
    const struct timespec t = {.tv_nsec = 10000000};
    nanosleep(&t, NULL);
}

/* Waits until nothing is served any more, so long at most. */
static bool is_done(struct server *s, double seconds)
{
    const double end = server_clock() + seconds;
    size_t left;
    do {
        pthread_mutex_lock(&s->lock);
        left = s->serving;
        pthread_mutex_unlock(&s->lock);
        if (left > 0) wait_a_little();
    } while (left > 0 && server_clock() < end);
    return left == 0;
}

/* Does something to each exchange, without the lock. */
static void each(struct server *s, void (*act)(struct exchange *e))
{
    pthread_mutex_lock(&s->lock);
    size_t n = 0, room = 0;
    for (struct exchange *e = s->exchanges; e; e = e->next) room++;
    struct exchange **list = calloc(room + 1, sizeof *list);
    for (struct exchange *e = s->exchanges; list && e; e = e->next) {
        exchange_hold(e);
        list[n++] = e;
    }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++) {
        act(list[i]);
        exchange_drop(list[i]);
    }
    free(list);
}

void server_drain(struct server *s, double grace)
{
    enum { LAST_WORDS = 2 };
    atomic_store(&s->phase, SERVER_DRAINING);
    if (is_done(s, grace)) return;
    each(s, exchange_abandon);
    (void)is_done(s, LAST_WORDS);
}

static void let_go(struct exchange *e)
{
    pthread_mutex_lock(&e->lock);
    e->gone = true;
    exchange_wake(e);
    pthread_mutex_unlock(&e->lock);
    exchange_abandon(e);
}

void server_stop(struct server *s)
{
    if (s->daemon && s->listen >= 0) {
        const int socket = MHD_quiesce_daemon(s->daemon);
        if (socket >= 0) close(socket);
        s->listen = -1;
    }
    atomic_store(&s->phase, SERVER_ENDING);
    watch_stop(s);
    workers_stop(s->workers);
    workers_stop(s->slow);
    each(s, let_go);
    if (s->daemon) MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
    if (s->listen >= 0) close(s->listen);
    s->listen = -1;
}

void server_free(struct server **server)
{
    struct server *s = *server;
    *server = NULL;
    if (!s) return;
    workers_free(s->workers);
    workers_free(s->slow);
    metrics_free(s->metrics);
    keys_free(s->keys);
    free(s->page);
    free(s->tls_cert);
    free(s->tls_key);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
